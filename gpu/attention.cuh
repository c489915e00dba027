/* SPDX-License-Identifier: MIT */
/*
** One call of attention or of its gradients, for the kernels of any type (attention.cu) and for
** those on tensor cores (attention_mma.cu, attention_mma_back.cu).
*/
#ifndef RIDGE_GPU_ATTENTION_CUH
#define RIDGE_GPU_ATTENTION_CUH

#include "gpu/kernels.cuh"

extern "C" {
#include "op/attention.h"
}

struct attention {
  rg_attention_sizes s;
  rg_strided q, k, v, y, dy, dq, dk, dv; /* [... x rows x columns] */
  rg_strided lse;                        /* [... x n]; no data: nobody wants it */
  rg_strided delta;                      /* sum(dy y) of each query, in the type of sums */
  const uint8_t *mask;                   /* or NULL */
  int64_t mask_row, mask_col, block;
  double scale;
  double p;      /* of dropout; 0: none */
  rg_drawn draw; /* of the numbers it takes */
  int32_t causal;
};

/* Can tensor cores do it?  Half types, heads of at most 256 columns (backward: 128), or f32 where
** the modes allow TF32, of at most 128; with dropout or without; a mask of blocks of at least 16,
** contiguous columns, rows aligned to 16 bytes. */
bool rg_gpu_attention_fits(const attention &w, int32_t dtype, bool is_back);

/* Where they can; results as rg_gpu_attention and rg_gpu_attention_back. */
rg_status rg_gpu_attention_mma(const rg_call *call, int32_t dtype, const attention &w);
rg_status rg_gpu_attention_mma_back(const rg_call *call, int32_t dtype, const attention &w);

#endif
