/* SPDX-License-Identifier: MIT */
/*
** What the rest of the plugin sees of NCCL.
*/
#ifndef RIDGE_GPU_NCCL_COMM_CUH
#define RIDGE_GPU_NCCL_COMM_CUH

#include "gpu/device.cuh"

extern "C" {
#include "base/comms.h"
}

extern const rg_comms rg_nccl_comms;

/* 22809 of 2.28.9; 0: it is not open.  open: try to open it. */
int32_t rg_nccl_version(bool open);

/* Why it cannot be used, in a sentence. */
const char *rg_nccl_note(void);

/* RG_OK, or RG_ENET and why what is on a device cannot be trusted: a collective was given up. */
rg_status rg_nccl_told(int32_t device);

/* -- Kernels around a collective (around.cu) ------------------------------------------------- */

/* to[i] = share * from[i], of floats; where share is 0, from is not looked at. */
cudaError_t rg_nccl_scale(int32_t dtype, const void *from, double share, void *to, int64_t n,
                          cudaStream_t stream);

/*
** Floats as whole numbers of the same order, for NCCL's max and min, which lose NaN of floats: it
** is above all others where the most is wanted, else below.  Those of f64 are i64, others' i32.
*/
cudaError_t rg_nccl_keys(int32_t dtype, bool most, const void *from, void *keys, int64_t n,
                         cudaStream_t stream);
cudaError_t rg_nccl_from_keys(int32_t dtype, const void *keys, void *to, int64_t n,
                              cudaStream_t stream);

#endif
