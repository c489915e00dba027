/* SPDX-License-Identifier: MIT */
/*
** Sketched layers with one bit a sign, kept or made from a seed (sketch.cu).
*/
#ifndef RIDGE_GPU_SKETCH_CUH
#define RIDGE_GPU_SKETCH_CUH

#include "gpu/kernels.cuh"

/* What a call of sketched_linear_bits or sketched_linear_seed multiplies with. */
struct rg_sketched {
  const rg_tensor *s1, *s2;
  const rg_tensor *u1, *u2; /* bits; NULL: from the seed */
  const rg_tensor *seed;
  const rg_tensor *bias; /* or NULL */
};

rg_sketched rg_gpu_sketched(const rg_call *call);

/* Can the tiled kernels do such a call?  One type for all factors: f32, or bf16
** and f16 with whole eights of columns and rows at multiples of 16 bytes; rows one after the
** other. */
bool rg_gpu_sketch_fits(const rg_call *call, rg_tensor *const *out);

/* [S1|U2] and [U1;S2] of such a call with signs as +-1 in room of the plugin's: cublasLt is faster
** with them than the kernels of signs are, from so many rows on that writing them is little beside
** the product.  Does a call want them, and do so, unless there is no room (*taken).  `bits` and
** their rows: those of U2, then of U1. */
bool rg_gpu_sketch_expands(const rg_call *call, rg_tensor *const *out);
rg_status rg_gpu_sketch_expand(const rg_call *call, const rg_sketched &w,
                               const uint8_t *const bits[2], const int64_t row[2], void *to[2],
                               bool *taken);

/* Write the bits of rg_sign_bits (random.cu). */
rg_status rg_gpu_make_sign_bits(const rg_call *call, const rg_tensor *seed, int32_t matrix,
                                int64_t rows, int64_t cols, void *to);

/* Where they can: y and, where the call has it, the hidden z.  RG_ENOMEM. */
rg_status rg_gpu_sketch(const rg_call *call, rg_tensor *const *out);

#endif
