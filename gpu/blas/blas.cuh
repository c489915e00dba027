/* SPDX-License-Identifier: MIT */
/*
** Products by cublasLt: the one function that calls it, and the form it takes them in.
*/
#ifndef RIDGE_GPU_BLAS_CUH
#define RIDGE_GPU_BLAS_CUH

#include "gpu/device.cuh"

/* A row-major matrix, or (transposed) a column-major one. */
typedef struct rg_gemm_side {
  void *data;
  int64_t ld;   /* elements from one row (transposed: column) to the next */
  int64_t step; /* elements from one matrix of the batch to the next; 0: it is the same */
  bool transposed;
} rg_gemm_side;

/*
** c = relu(scale a b + bias), count times.
**
** a [m x k], b [k x n], c [m x n]; bias [n] of c's type, aligned to 16 bytes, of a count of 1, or
** NULL.  factor and result are RG_F32, RG_F64, RG_F16 or RG_BF16: result is factor, or RG_F32 for
** factors of a half type.  Sums are f32, those of f64 are f64.  With RG_F64 there is neither bias
** nor relu.  c is not transposed.
**
** Factors of RG_I8 have whole sums, RG_I32, and nothing follows (scale is 1).  b is transposed, a
** is not; n, k and what is from one row to the next are multiples of 4, and addresses of 16.
**
** Factors of RG_F8E4M3 or RG_F8E5M2 (that of b is in `other`; not both RG_F8E5M2): result is
** RG_F32, RG_F16 or RG_BF16, neither bias nor relu; a_scale and b_scale are NULL, or where in the
** device's memory an f32 is that multiplies the sums or, by_row, one for each row of a and one for
** each column of b.  b is transposed, a is not, and n and k are multiples of 16.
*/
typedef struct rg_gemm {
  int64_t m, n, k, count;
  rg_gemm_side a, b, c;
  int32_t factor, result;
  int32_t other;                 /* the type of b, of 8-bit floats alone */
  const void *a_scale, *b_scale; /* likewise, or NULL */
  bool by_row;                   /* there are m and n of them */
  const void *bias;
  bool relu;
  double scale;
} rg_gemm;

/*
** Run it on the device's stream, by the algorithm the modes ask for (rg_device_modes).
**
** what   names the operation in messages
** taken  false: cublasLt has no algorithm for it, and nothing was written
**
** RG_EDEVICE: cublasLt cannot be started, or not while a graph is captured.
*/
rg_status rg_blas_run(int32_t device, const char *what, const rg_gemm *g, bool *taken);

#endif
