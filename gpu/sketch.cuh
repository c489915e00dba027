/* SPDX-License-Identifier: MIT */
/*
** Sketched layers with one bit a sign (sketch.cu).
*/
#ifndef RIDGE_GPU_SKETCH_CUH
#define RIDGE_GPU_SKETCH_CUH

#include "gpu/kernels.cuh"

/* Can the tiled kernels do a call of sketched_linear_bits?  One type for all factors: f32, or bf16
** and f16 with whole eights of columns and rows at multiples of 16 bytes; rows one after the
** other. */
bool rg_gpu_sketch_fits(const rg_call *call, rg_tensor *const *out);

/* Where they can: y and, where the call has it, the hidden z.  RG_ENOMEM. */
rg_status rg_gpu_sketch(const rg_call *call, rg_tensor *const *out);

#endif
