/* SPDX-License-Identifier: MIT */
/*
** A product of matrices as every kernel of one sees it, and what follows it: scale, bias,
** activation, dropout, conversion.  product.cu computes any of them; blas/fit.cu gives those that
** it can to cublasLt.
*/
#ifndef RIDGE_GPU_PRODUCT_CUH
#define RIDGE_GPU_PRODUCT_CUH

#include "gpu/device.cuh"

extern "C" {
#include "op/draw.h"
}

/* A factor or the result: element [i, j] of matrix b. */
struct rg_matrix {
  char *data;
  int64_t row, col;
  int64_t step[RG_MAX_DIMS]; /* along each axis of the batch */
  int32_t dtype;
};

/* Signs of one bit each as a part of the right factor (sketched layers): the columns from `split`
** on, or the rows before it. */
enum { RG_SIGN_NONE, RG_SIGN_COLUMNS, RG_SIGN_ROWS };

struct rg_signs {
  const uint8_t *data;
  int64_t row, col; /* bytes */
  int64_t split;
  double sign; /* what a 1 stands for */
  int32_t where;
};

struct rg_product {
  int64_t m, n, k;
  int64_t shape[RG_MAX_DIMS]; /* of the batch */
  int32_t ndim;
  int32_t compute; /* the type the factors are read in */
  rg_matrix a, b, c;
  rg_signs s;       /* of b */
  const void *bias; /* or NULL */
  int64_t bias_step;
  int32_t bias_dtype;
  int32_t act;
  double scale;
  double p; /* dropout */
  rg_drawn draw;
};

/* -- Elements ---------------------------------------------------------------------------------- */

template <class L> __device__ inline L rg_value_of(rg_number x)
{
  return x.whole ? (L)x.k : (L)x.d;
}

/* As the kernel computes: what is wider is rounded to the type of the product. */
template <class L> __device__ inline L rg_rounded(L v, int32_t compute)
{
  if (sizeof(L) == 8) {
    return v;
  }
  return compute == RG_BF16  ? (L)__bfloat162float(__float2bfloat16_rn((float)v))
         : compute == RG_F16 ? (L)__half2float(__float2half_rn((float)v))
                             : v;
}

template <class L> __device__ inline L rg_factor(const rg_matrix &f, int64_t at, int32_t compute)
{
  L v = rg_value_of<L>(rg_number_of(f.data, f.dtype, at));

  return f.dtype == compute ? v : rg_rounded(v, compute);
}

template <class L> __device__ inline void rg_store(const rg_matrix &c, int64_t at, L x)
{
  rg_store(c.data, c.dtype, at, x);
}

/* What follows the sum but for dropout. */
template <class L> __device__ inline L rg_through(const rg_product &p, L sum, int64_t j)
{
  L y = sum * (L)p.scale;

  if (p.bias != NULL) {
    y += rg_value_of<L>(rg_number_of(p.bias, p.bias_dtype, j * p.bias_step));
  }
  return rg_activated(p.act, y);
}

/* row, j: counted over the whole batch, as dropout's numbers are. */
template <class L>
__device__ inline L rg_epilogue_of(const rg_product &p, L sum, int64_t row, int64_t j)
{
  L y = rg_through(p, sum, j);

  if (p.p > 0) {
    rg_draw draw = rg_draw_now(p.draw);
    uint64_t at = draw.offset + (uint64_t)(row * p.n + j);
    uint32_t word[4];

    rg_draw_block(draw.seed, (uint32_t)(at / 4), (uint32_t)(at / 4 >> 32), 0, word);
    y = rg_draw_keeps(word[at % 4], p.p) ? y * (L)(1.0 / (1.0 - p.p)) : (L)0;
  }
  return y;
}

/* Where matrix `index` of the batch begins. */
__device__ inline int64_t rg_start(const rg_product &p, const rg_matrix &x, int64_t index)
{
  int64_t at = 0;

  for (int32_t d = p.ndim - 1; d >= 0; d--) {
    at += index % p.shape[d] * x.step[d];
    index /= p.shape[d];
  }
  return at;
}

/* -- Elsewhere --------------------------------------------------------------------------------- */

/* Run a product by cublasLt.  *taken: it was; false where cublasLt does not take it, or where the
** user's modes say so (blas/fit.cu).  Batch and sizes are not 0. */
rg_status rg_gpu_fit(const rg_call *call, const rg_product *p, bool *taken);

#endif
