/* SPDX-License-Identifier: MIT */
/*
** Devices beside the CPU: what they are, their streams of work, and events.
**
** A stream is a queue: its work is done in the order in which it was asked for, beside that of
** other streams.  Each thread asks on the stream it entered last, 0 at first.  Nobody has to order
** streams for the sake of a tensor: a call that needs what another stream is still writing is
** ordered after it by itself.  The CPU has streams and events too, which cost nothing and are
** always done.
*/
#ifndef RIDGE_DEVICE_H
#define RIDGE_DEVICE_H

#include "ridge/base.h"

/* -- Devices --------------------------------------------------------------- */

/* In place of a device, for a tensor of the CPU's whose memory a GPU's copies reach by themselves:
** nobody has to wait for them.  Whoever reads or writes it on the host waits for its own. */
enum { RG_PINNED = 17 };

/* What a device is. */
typedef struct rg_device_facts {
  char name[128];
  int64_t memory_bytes;
  int64_t free_bytes;
  int64_t cache_bytes; /* of the last level; 0: not reported */
  int32_t capability;  /* 90 for 9.0; 0 for the CPU */
  int32_t units;       /* multiprocessors; processors of the CPU */
  int32_t driver;      /* version of its driver's interface, 13000 for 13.0; 0 for the CPU */
  int32_t runtime;     /* version of the runtime its kernels were linked with; 0 for the CPU */
  int32_t simulated;   /* 1: a program plays the device, and its times say nothing of any GPU */
  char uuid[48];       /* what tells it from others of its kind; "cpu" for the CPU */
} rg_device_facts;

/* What holds a device's clock back: bits of rg_device_state.held. */
enum {
  RG_HELD_IDLE = 1,     /* it has nothing to do */
  RG_HELD_POWER = 2,    /* its power limit */
  RG_HELD_HEAT = 4,     /* its temperature, by the driver or by the hardware */
  RG_HELD_HARDWARE = 8, /* the hardware's own slowdown */
  RG_HELD_BRAKE = 16,   /* the power supply's brake */
  RG_HELD_SETTING = 32, /* a clock that somebody set */
  RG_HELD_OTHER = 64,   /* something newer than this list */
  RG_HELD_BACK = RG_HELD_POWER | RG_HELD_HEAT | RG_HELD_HARDWARE | RG_HELD_BRAKE
};

/* How a device is at this moment.  NaN, -1: not reported. */
typedef struct rg_device_state {
  double clock_mhz; /* of its multiprocessors */
  double memory_mhz;
  double celsius;
  double watts;
  double limit_watts;
  int32_t held;    /* RG_HELD_...; 0: nothing */
  char driver[32]; /* the driver's own version, "580.95.05"; empty: not reported */
  char why[96];    /* nothing can be told, in words; empty where something can */
} rg_device_state;

/* Versions of the libraries of its vendor that a device's kernels may use, 130100 for 13.1.0. */
typedef struct rg_device_libraries {
  int32_t blas;      /* cublasLt; 0 for the CPU */
  int32_t dnn;       /* cuDNN, which is opened when a call first could use it; 0: it is not open */
  int32_t compiler;  /* NVRTC, opened when a plan first has a chain, 13000 for 13.0; 0: not open */
  int32_t comms;     /* NCCL, opened where processes train together; 0: it is not open */
  char dnn_why[160]; /* it cannot be used, in words; else empty */
  char compiler_why[160]; /* the same, or why it could not compile a chain */
  char comms_why[160];    /* NCCL cannot be used */
} rg_device_libraries;

/*
** How a device's kernels are chosen: settings of the process that every call reads.  A plan goes on
** by those that it was captured under (rg_plan_replay).
**
** What a device promises of nan is less than what the CPU does, in two places, because libraries of
** its vendor do them in one pass where nobody else can look: a nan that comes out of a product or a
** convolution may be 0 behind a relu that is a part of the same call, and in attention a nan in a
** key or value may reach queries of the same tile that a mask, or `causal`, keeps from seeing it (0
** times nan is nan).  Everywhere else nan stays, as it is written beside each operation; with
** vendor = 0 it also stays behind relu.
*/
typedef struct rg_device_modes {
  int32_t vendor;        /* 1 (default): libraries of the device's vendor where they have a kernel;
                         ** 0: ridge's own kernels only */
  int32_t autotune;      /* 1 (default): candidates of cublasLt are timed once for each shape; 2:
                         ** those of cuDNN too, which takes up to seconds each; 0: the libraries'
                         ** own first choices */
  int32_t deterministic; /* 1: only kernels that give the same bits each time; default 0 */
  int32_t tf32;          /* 1: products of f32 may round their factors to 10 bits; default 0 */
} rg_device_modes;

/* The modes, to be read and written. */
RG_API rg_device_modes *rg_device_modes_now(void);

/*
** What the names of devices beside the CPU begin with: that of the backend which has them, as
** "cuda".  Where RIDGE_GPU names a backend's library, it is opened to say so.
*/
RG_API const char *rg_device_prefix(void);

/* "cpu"; the prefix and a number from 0, as "cuda:0"; "?" for a number that is no device. */
RG_API const char *rg_device_name(int32_t device);

/* Make sure that a device can be used; the CPU always can.  RG_EDEVICE: why not, in a sentence. */
RG_API rg_status rg_device_open(int32_t device) RG_CHECK;

/* device: opened first where it was not.  out: filled.  RG_EDEVICE, RG_EARG. */
RG_API rg_status rg_device_facts_of(int32_t device, rg_device_facts *out) RG_CHECK;

/*
** device: opened first where it was not.  out: filled; it takes some tens of microseconds and does
** not wait for the device.  RG_EDEVICE, RG_EARG.
*/
RG_API rg_status rg_device_state_of(int32_t device, rg_device_state *out) RG_CHECK;

/*
** device: opened first where it was not.  open: 1 opens what is opened late, which may take a part
** of a second; 0 asks only what is open.  out: filled.  RG_EDEVICE, RG_EARG.
*/
RG_API rg_status rg_device_libraries_of(int32_t device, int32_t open,
                                        rg_device_libraries *out) RG_CHECK;

/* Wait until everything that was asked of a device is done; RG_EVERY_DEVICE: of all that are open.
** RG_EDEVICE; what its work ended in. */
enum { RG_EVERY_DEVICE = -1 };
RG_API rg_status rg_device_wait(int32_t device) RG_CHECK;

/*
** Name what the device is asked for from now on, for an attached profiler (NVTX): ranges nest.
** Without one it costs next to nothing.  name: NULL ends the innermost; device: not opened here;
** RG_EVERY_DEVICE where no one is meant: ranges are the process's.
*/
RG_API void rg_device_named(int32_t device, const char *name);

/* -- Streams --------------------------------------------------------------- */

/* Streams of each device. */
enum { RG_STREAMS = 8 };

/*
** Let this thread's calls for a device go to one of its streams from now on.
**
** device   opened first where it was not
** stream   0 .. RG_STREAMS - 1
** before   the one until now; NULL: nobody asks
** RG_EDEVICE, RG_EARG; RG_ECAPTURE while this thread captures a plan, whose work is of one stream.
*/
RG_API rg_status rg_stream_enter(int32_t device, int32_t stream, int32_t *before) RG_CHECK;

/* The stream this thread's calls for a device go to. */
RG_API int32_t rg_stream_now(int32_t device);

/* -- Events ---------------------------------------------------------------- */

/* An event: a point in the work of a stream. */
typedef struct rg_event rg_event;

/* An event that was not recorded yet.  device: opened first; out: new.  RG_EDEVICE, RG_ENOMEM. */
RG_API rg_status rg_event_new(int32_t device, rg_event **out) RG_CHECK;
RG_API void rg_event_release(rg_event *event);

/* Record the event behind everything that this thread's stream was asked for.  RG_EDEVICE. */
RG_API rg_status rg_event_set(rg_event *event) RG_CHECK;

/* Let this thread's stream wait for the event; the caller does not.  One that was not recorded
** holds nobody up.  RG_EDEVICE. */
RG_API rg_status rg_event_follow(const rg_event *event) RG_CHECK;

/* Wait until the work before the event is done.  RG_EDEVICE; what the work ended in. */
RG_API rg_status rg_event_wait(const rg_event *event) RG_CHECK;

/*
** Time from one event to another, as their device saw it; waits for both.
**
** ns       a GPU's clock ticks about every 500 ns
** RG_EARG when one was not recorded or they are of two devices; RG_EDEVICE.
*/
RG_API rg_status rg_event_between(const rg_event *from, const rg_event *to, double *ns) RG_CHECK;

#endif
