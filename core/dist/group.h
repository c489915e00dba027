/* SPDX-License-Identifier: MIT */
/*
** Groups of processes: all that knows of libraries for messages.  A library brings a transport,
** which sends bytes from one rank to another; what collectives mean, in which order sums are added
** up, who is missing and what does not fit together is written here, once for all of them.
*/
#ifndef RIDGE_DIST_GROUP_H
#define RIDGE_DIST_GROUP_H

#include "base/base.h"
#include "ridge/group.h"

enum { RG_TRANSPORT_ABI = 1 };

/* Tags of messages: what a rank is about to do, told once in each collective, and its data. */
enum { RG_TAG_TOLD = 1, RG_TAG_DATA = 2 };

/*
** What a library does.  All of it is called by one thread, that which opened it.  A slot is the
** number of a message under way, 0 .. 2 * size - 1.
*/
typedef struct rg_transport {
  const char *name;
  void *self;
  int32_t rank;
  int32_t size;
  int32_t local_rank;
  int32_t local_size;
  /* Begin to send or to receive n bytes, n up to 2^30.  Messages of one tag between two ranks
  ** arrive in their order, and are received with the length they were sent with. */
  rg_status (*send)(void *self, int32_t slot, int32_t peer, int32_t tag, const void *bytes,
                    int64_t n);
  rg_status (*receive)(void *self, int32_t slot, int32_t peer, int32_t tag, void *bytes, int64_t n);
  /* done: has the message of a slot arrived, or left?  What was not done before goes on. */
  rg_status (*test)(void *self, int32_t slot, bool *done);
  /* All ranks end together. */
  void (*end)(void *self);
} rg_transport;

/* What a library may call. */
typedef struct rg_transport_host {
  int32_t abi; /* RG_TRANSPORT_ABI */
  int32_t _pad;
  rg_status (*fail)(rg_status code, const char *format, ...);
} rg_transport_host;

/* Opens a transport on the thread that uses it.  argument: the opener's own. */
typedef rg_status rg_transport_open(void *argument, rg_transport *out);

/* The function that a library exports: rg_mpi_transport. */
typedef rg_status rg_transport_entry(const rg_transport_host *host, rg_transport *out);

/* -- A group -------------------------------------------------------------------------------- */

/*
** A group over a transport, with a thread of its own.
**
** open          NULL for a process that is alone
** patience_ns   how long it may take; 0: as long as it takes
** RG_ENOMEM, RG_ESYS, what open says; RG_ELATE, RG_EINTR: open has not returned, and whenever it
** does, what it opened is left as it is.
*/
rg_status rg_group_new(rg_transport_open *open, void *argument, int64_t patience_ns,
                       rg_group **out) RG_CHECK;

/* End it together with all ranks, behind what was started; NULL does nothing. */
void rg_group_release(rg_group *group);

/* The group of this process is ended in front of what was opened before this call. */
rg_status rg_group_end_before(void) RG_CHECK;

/* -- A call, on the thread of the group ------------------------------------------------------ */

/* What each rank tells the others before a call. */
typedef struct rg_announcement {
  int64_t serial;
  int64_t count;
  int64_t unit;
  double weight;
  int32_t kind;
  int32_t op;
  int32_t dtype;
  int32_t root;
  int32_t place; /* of its memory: 0 on the CPU, 1 on a device */
  int32_t _pad;
} rg_announcement;

typedef struct rg_device_calls rg_device_calls;

/* What calls are run with. */
typedef struct rg_group_work {
  rg_transport transport;
  rg_announcement *told; /* by each rank */
  bool *waiting;         /* by slot */
  void *scratch;
  int64_t scratch_bytes;
  int64_t serial;          /* of the call that runs, from 1 */
  int64_t yields_again;    /* ns of rg_clock_ns: until then the processors are others' */
  int64_t woke;            /* when this thread last had a processor anew */
  _Atomic int32_t awaited; /* threads that do nothing but wait for calls */
  _Atomic int64_t timeout_ns;
  _Atomic int64_t step; /* of training that this rank is in, from 1; 0: none yet */
  _Atomic int32_t stop; /* 1: give up */
  rg_device_calls *devices;
} rg_group_work;

/* Of a call on a device: only what ranks tell each other before it. */
rg_status rg_group_run(rg_group_work *work, const rg_group_call *call) RG_CHECK;

/* The data of a call on the CPU, of which all have told that they have come to it. */
rg_status rg_group_exchange(rg_group_work *work, const rg_group_call *call) RG_CHECK;

/* "all_reduce, sum of 10 f32" */
const char *rg_group_text(int32_t kind, int32_t op, int32_t dtype, int64_t count, char *text,
                          size_t size);

/* -- Calls on a device (device.c) ------------------------------------------------------------ */

/* One of them, from its start until the device has done it and its waiting stream is behind it. */
typedef struct rg_device_call rg_device_call;

rg_device_calls *rg_device_calls_new(void); /* NULL: no memory */
void rg_device_calls_release(rg_device_calls *d);

/* May calls be on this device? (rg_group_reach, of several ranks) */
rg_status rg_device_calls_reach(rg_device_calls *d, int32_t device) RG_CHECK;

/* On the thread that starts a call: what it has asked its stream for is in front of it. */
rg_status rg_device_call_new(rg_device_calls *d, const rg_group_call *call,
                             rg_device_call **out) RG_CHECK;
void rg_device_call_drop(rg_device_calls *d, rg_device_call *call); /* it is not run */

/* On the thread that waits for a call: its stream goes on behind all calls up to that. */
rg_status rg_device_calls_follow(rg_device_calls *d, int64_t serial) RG_CHECK;

/* The rest is the group's thread's.  Put a call into the device's queue. */
rg_status rg_device_call_run(rg_group_work *w, rg_device_call *x) RG_CHECK;

/* Is there any that the device has not done? */
bool rg_device_calls_pend(rg_device_calls *d);

/* Look at these: has one failed, or taken longer than the timeout? */
rg_status rg_device_calls_watch(rg_group_work *w) RG_CHECK;

/* The group has failed: those under way are given up, and why is said to who waits for them. */
void rg_device_calls_abort(rg_group_work *w, const char *why);

/* All ranks leave together, behind what was started. */
void rg_device_calls_end(rg_group_work *w);

/*
** Reduce what n ranks brought into out.
**
** parts     the n ranks' elements, in their order; out may be one of them
** weights   of the ranks
*/
void rg_group_reduce(int32_t op, int32_t dtype, const void *const *parts, const double *weights,
                     int32_t n, int64_t count, void *out);

#endif
