/* SPDX-License-Identifier: MIT */
/*
** What a kernel finds wrong with the numbers it was given.  A call has returned long before, and to
** wait for its answer would be to wait in every step; so the first report is kept where the host
** sees it, and becomes the error of the next call that waits for the device anyway.
*/
#ifndef RIDGE_GPU_LATE_CUH
#define RIDGE_GPU_LATE_CUH

#include "gpu/device.cuh"

/* What is wrong. */
enum {
  RG_LATE_RANGE,  /* the value is not in 0 .. limit - 1 */
  RG_LATE_WINDOW, /* an index lies in the image, but not in its own window */
  RG_LATE_FINITE, /* the input holds nan or infinity */
  RG_LATE_SWEEPS  /* an iteration did not come to its end in `limit` sweeps */
};

/* One device's report, in memory of the host that the device writes to. */
struct rg_late {
  int32_t claimed; /* whoever turns this into 1 writes the rest */
  int32_t op;      /* RG_OP_... and 1, written last; 0: there is none */
  int32_t kind;
  int32_t _pad;
  int64_t value;
  int64_t limit;
};

/* Where a call's kernels report errors, and for which operation. */
struct rg_late_for {
  rg_late *to;
  int32_t op;
  int32_t _pad;
};

/* NULL: there was no memory for it.  Not while a capture is under way, unless it was asked for
** before. */
rg_late *rg_late_of(int32_t device);

/* Into *out; RG_ENOMEM. */
rg_status rg_late_begin(const rg_call *call, rg_late_for *out);

/* Only when what was asked of the device is done: RG_OK, or the reported error, once. */
rg_status rg_late_told(int32_t device);

__device__ inline void rg_late_tell(const rg_late_for &late, int32_t kind, int64_t value,
                                    int64_t limit)
{
  if (atomicCAS(&late.to->claimed, 0, 1) != 0) {
    return;
  }
  late.to->kind = kind;
  late.to->value = value;
  late.to->limit = limit;
  __threadfence_system(); /* the host may look while other kernels run */
  *(volatile int32_t *)&late.to->op = late.op + 1;
}

#endif
