/* SPDX-License-Identifier: MIT */
/*
** Products of matrices in bf16 and f16 by ridge's own kernel on tensor cores (gemm_mma.cu), where
** the library of the device's vendor is not wanted (rg_device_modes.vendor = 0) or did not take
** them.
*/
#ifndef RIDGE_GPU_GEMM_MMA_CUH
#define RIDGE_GPU_GEMM_MMA_CUH

#include "gpu/tile_epilogue.cuh"

/* A factor: element [i, j] of a matrix, and how far it is to the next one of a batch. */
struct rg_gemm_matrix {
  void *data;
  int64_t row, col;
  int64_t step[RG_MAX_DIMS];
};

/* c = epilogue(a b) for each matrix of a batch; `epilogue` lacks where it goes. */
struct rg_gemm {
  int64_t m, n, k;
  int64_t shape[RG_MAX_DIMS]; /* of the batch */
  int32_t ndim;
  int32_t dtype; /* of both factors */
  rg_gemm_matrix a, b, c;
  rg_epilogue epilogue;
};

/* RG_OK; taken: whether it was done.  One half type for both factors, each with neighbouring
** elements side by side along one of its axes, in whole eights at multiples of 16 bytes. */
rg_status rg_gpu_gemm(const rg_call *call, const rg_gemm &g, bool *taken);

/* A product as product.cu describes it. */
template <class M> inline rg_gemm_matrix rg_gemm_matrix_of(const M &x, int32_t ndim)
{
  rg_gemm_matrix y = { x.data, x.row, x.col, {} };

  for (int32_t i = 0; i < ndim; i++) {
    y.step[i] = x.step[i];
  }
  return y;
}

template <class P> inline rg_gemm rg_gemm_of(const P &p)
{
  bool exact = p.compute == p.a.dtype || p.compute == RG_F32; /* nothing is rounded before */
  rg_gemm g = {};

  g.m = p.m;
  g.n = p.n;
  g.k = p.k;
  g.ndim = p.ndim;
  for (int32_t i = 0; i < p.ndim; i++) {
    g.shape[i] = p.shape[i];
  }
  g.dtype = exact && p.a.dtype == p.b.dtype && p.s.data == NULL ? p.a.dtype : -1;
  g.a = rg_gemm_matrix_of(p.a, p.ndim);
  g.b = rg_gemm_matrix_of(p.b, p.ndim);
  g.c = rg_gemm_matrix_of(p.c, p.ndim);
  g.epilogue = rg_epilogue_after(p);
  return g;
}

#endif
