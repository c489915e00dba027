/* SPDX-License-Identifier: MIT */
/*
** One call of a product of 8-bit factors with scales, for all of its kernels: y = act((x w')
** x_scale w_scale + b).  What follows the sums is the same in each of them, and is here.
*/
#ifndef RIDGE_GPU_SCALED_CUH
#define RIDGE_GPU_SCALED_CUH

#include "gpu/tile_epilogue.cuh"

/* A factor: rows of k elements of one byte each, or of those widened to bf16. */
struct rg_scaled_side {
  rg_strided rows; /* where each row begins, by its number */
  int64_t row;     /* the distance of rows, where there is one; else -1 */
  int64_t col;
  int32_t dtype;
};

struct rg_scaled {
  int64_t m, n, k;
  rg_scaled_side a, b;
  rg_strided x_scale;   /* f32, by the number of a row of x */
  rg_strided w_scale;   /* likewise, of w */
  rg_epilogue epilogue; /* the rest; its scale is 1 */
};

/* n <= 8 sums of one row become the result's columns from col on. */
static __device__ inline void rg_scaled_eight(const rg_scaled &s, int64_t row, int64_t col, int n,
                                              float v[8])
{
  float x_scale = ((const float *)s.x_scale.data)[rg_at(s.x_scale, row)];

#pragma unroll
  for (int c = 0; c < 8; c++) {
    v[c] = c < n ? v[c] * x_scale * ((const float *)s.w_scale.data)[rg_at(s.w_scale, col + c)] : 0;
  }
  rg_epilogue_eight(s.epilogue, row, col, n, v);
}

/* Does a factor lie in rows of whole 16 bytes at multiples of 16? */
static inline bool rg_scaled_lies(const rg_scaled_side &x, int64_t rows, int64_t k)
{
  return (x.col == 1 || k == 1) && k % 16 == 0 && (uintptr_t)x.rows.data % 16 == 0 &&
         (rows == 1 || (x.row >= k && x.row % 16 == 0));
}

/* Blocks over rows of n elements, eight a thread. */
static inline rg_launch_cfg rg_over_rows(const rg_call *call, int64_t rows, int64_t n)
{
  int64_t threads = (n + 7) / 8;
  int block = threads <= 64 ? 64 : 128;
  int64_t blocks = (threads + block - 1) / block;

  return rg_launch_cfg{ dim3((unsigned)rg_clamped(blocks, 1, 65535),
                             (unsigned)rg_clamped(rows, 1, 65535)),
                        dim3((unsigned)block), 0, rg_gpu_stream(call->device) };
}

/* By cublasLt (scaled_blas.cu), and by tiles on tensor cores (scaled_mma.cu): factors of i8, of
** 8-bit floats (the first alone), or widened to bf16.  *taken: it was. */
rg_status rg_gpu_scaled_blas(const rg_call *call, const rg_scaled &s, bool *taken);
rg_status rg_gpu_scaled_mma(const rg_call *call, const rg_scaled &s, bool *taken);

#endif
