/* SPDX-License-Identifier: MIT */
/*
** The kernels: one for each operation of RG_DEVICE_OP_LIST (core/op/list.h), so that a missing one
** is a link error.
*/
#ifndef RIDGE_GPU_KERNELS_CUH
#define RIDGE_GPU_KERNELS_CUH

#include "gpu/device.cuh"

extern "C" {
#include "op/list.h"
}

#define RG_OP_LINE(NAME, name) \
  rg_status rg_gpu_##name(const rg_call *call, rg_tensor *const *out, rg_frame *frame);
RG_DEVICE_OP_LIST
#undef RG_OP_LINE

/* The seed and offset of the call's numbers into `kept`, for its gradient. */
rg_status rg_gpu_keep_draw(const rg_call *call, rg_tensor *kept);

#endif
