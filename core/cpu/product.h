/* SPDX-License-Identifier: MIT */
/*
** One matrix product on the CPU, c = epilogue(a b): what the kernels of matmul, linear,
** lowrank_linear and sketched_linear are made of.
**
** a and c are strided matrices; b is a weight, which may lie in two pieces or be one bit an
** element; epilogue is what follows, applied to each element while it is still in registers or
** in L1.
*/
#ifndef RIDGE_CPU_PRODUCT_H
#define RIDGE_CPU_PRODUCT_H

#include "op/op.h"

/* -- The right factor --------------------------------------------------------------- */

/* Part of b: a strided matrix, or fixed signs of one bit each. */
typedef struct rg_piece {
  const void *data; /* NULL: no such piece */
  rg_storage *storage;
  int32_t dtype;
  bool keeps;  /* a weight: its packed form is worth keeping */
  int64_t row; /* distance of (k, j) and (k + 1, j), in elements; bits: in bytes */
  int64_t col;
  double sign; /* above 0: bits, 1 is +sign, 0 is -sign */
} rg_piece;

enum { RG_WEIGHT_PIECES = 2 };

/* b, [k x n]: one piece, or two side by side (split_n), or one below the other (split_k). */
typedef struct rg_weight {
  int64_t k;
  int64_t n;
  int64_t split_k; /* rows of the first piece; k if there is one piece, or two side by side */
  int64_t split_n;
  rg_piece piece[RG_WEIGHT_PIECES];
} rg_weight;

/* The weight that is one matrix: rows and columns of x, exchanged if transposed. */
rg_weight rg_weight_of(const rg_tensor *x, bool transposed);

/* Rows k0 .. k0+kn and columns j0 .. j0+jn of a weight of one piece. */
rg_weight rg_weight_part(const rg_weight *w, int64_t k0, int64_t kn, int64_t j0, int64_t jn);

/* Does its packed form stay with its storage? */
bool rg_weight_keeps(const rg_weight *w);

/* Is it one matrix and no bits? */
bool rg_weight_whole(const rg_weight *w);

/*
** Copy elements [k0 .. k0+kn) x [j0 .. j0+jn) as f32 into out, whose rows are stride apart.
** f64 weights have their own way (blas.c).
*/
void rg_weight_fetch(const rg_weight *w, int64_t k0, int64_t kn, int64_t j0, int64_t jn, float *out,
                     int64_t stride);

/* -- The epilogue ------------------------------------------------------------------------ */

/* y = dropout(act(scale * sum + bias)) */
typedef struct rg_epilogue {
  const rg_tensor *bias; /* [n] or NULL, any float type */
  double scale;
  double p; /* dropout; element (i, j) takes draw i * n + j */
  rg_draw draw;
  int32_t act;
  bool adds; /* to what lies in c, before the activation; own kernels alone (rg_product_adds) */
} rg_epilogue;

/* -- The product -------------------------------------------------------------------------- */

typedef struct rg_product {
  int64_t m, n, k;
  int32_t compute;   /* RG_F32, RG_BF16 (sums in f32) or RG_F64 */
  int32_t n_threads; /* 0: as many as the work is worth */
  const void *a;
  int32_t a_dtype;
  int64_t a_row, a_col; /* strides in elements */
  rg_weight b;
  void *c;
  int32_t c_dtype;
  int64_t c_row; /* columns of c are adjacent */
  rg_epilogue epilogue;
  /* where the sum has a part whose right factor is fixed signs: c = epilogue(a b + f fixed) */
  rg_weight fixed; /* [k_fixed x n]; n = 0: no such part */
  const void *f;
  int32_t f_dtype;
  int64_t f_row, f_col;
} rg_product;

/* The type sums are kept in and factors are read in, from the type of the result. */
static inline int32_t rg_product_compute(int32_t dtype)
{
  return dtype == RG_F64 ? RG_F64 : dtype == RG_BF16 ? RG_BF16 : RG_F32;
}

/* Finish n sums of row i from column j on and store them. */
void rg_epilogue_row(const rg_product *p, const float *sum, int64_t i, int64_t j, int64_t n);
void rg_epilogue_row_f64(const rg_product *p, const double *sum, int64_t i, int64_t j, int64_t n);

/* Element i of a row of another type. */
float rg_element_f32(const void *data, int32_t dtype, int64_t i);
double rg_element_f64(const void *data, int32_t dtype, int64_t i);

/* n elements, step apart from element first on, as f32. */
void rg_run_f32(const void *data, int32_t dtype, int64_t first, int64_t step, int64_t n,
                float *out);

/* The product by OpenBLAS. */
rg_status rg_product_blas(const rg_product *p) RG_CHECK;

/* The version of that library, "0.3.21". */
const char *rg_blas_version(void);

#endif
