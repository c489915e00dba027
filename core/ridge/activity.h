/* SPDX-License-Identifier: MIT */
/*
** What a GPU did by itself: each kernel, copy and fill with its own times, as the vendor's tracing
** library tells them (CUPTI), joined with the events of ridge/ring.h that asked for them.
*/
#ifndef RIDGE_ACTIVITY_H
#define RIDGE_ACTIVITY_H

#include "ridge/base.h"

enum { RG_ACTIVITY_KERNEL, RG_ACTIVITY_COPY, RG_ACTIVITY_FILL, RG_ACTIVITY_COUNT };

/* One of them.  What the library does not say of its kind is 0. */
typedef struct rg_activity {
  const char *name;  /* of the kernel, as its source has it; "host to device" of a copy; "fill" */
  int64_t serial;    /* of the event of the thread that records; -1: of none, or not known */
  double from_ns;    /* by the device's clock, put on that of rg_clock_ns; NaN: it was not timed */
  double to_ns;      /* likewise */
  double occupancy;  /* of a kernel: warps that a multiprocessor can hold of it at once, by its
                       ** registers, shared memory and block, over the most; NaN: not known */
  int64_t bytes;     /* of a copy, a fill */
  int32_t kind;      /* RG_ACTIVITY_... */
  int32_t device;    /* -1: one that ridge does not have */
  int32_t stream;    /* by the library's numbers */
  int32_t registers; /* of a thread */
  int32_t static_bytes;  /* shared memory of a block */
  int32_t dynamic_bytes; /* the same, by its launch */
  int32_t grid[3];
  int32_t block[3];
} rg_activity;

typedef struct rg_activity_facts {
  int64_t n;         /* that are kept: the first ones */
  int64_t n_full;    /* behind them: there was no room */
  int64_t n_dropped; /* by the library, which had no room itself */
  int64_t n_untimed; /* of those that are kept, without a time */
  int64_t n_unknown; /* records of kinds that nobody asked for */
  int64_t n_damaged; /* buffers whose records could not be read to the end */
  int64_t version;   /* of the library, by its own numbers */
} rg_activity_facts;

/*
** Record them from now on, for this thread's events; others of the process are recorded too, of no
** event.  Its library is opened with the first call, and stays.
**
** capacity  of them that are kept, 1 .. 2^24
** RG_EDEVICE: why that cannot be, in a sentence: no GPU is open, no library, no privileges, another
** profiler, somebody of this process who records already; RG_EARG, RG_ENOMEM.
*/
RG_API rg_status rg_activity_begin(int64_t capacity) RG_CHECK;

/* No more; by the thread that began.  Devices are waited for before.  out: filled.  RG_EARG where
** nobody began; RG_EDEVICE: why what was recorded cannot be had. */
RG_API rg_status rg_activity_end(rg_activity_facts *out) RG_CHECK;

/* That with the number i, from 0, behind an end.  Names stay as long as the process.  RG_EARG. */
RG_API rg_status rg_activity_at(int64_t i, rg_activity *out) RG_CHECK;

/* Forget them. */
RG_API void rg_activity_release(void);

#endif
