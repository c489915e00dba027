/* SPDX-License-Identifier: MIT */
/*
** What each instruction set brings for weights most of which are 0 (core/cpu/simd/sparse_dot.c).
*/
#ifndef RIDGE_CPU_SPARSE_DOT_H
#define RIDGE_CPU_SPARSE_DOT_H

#include <stdint.h>

enum { RG_SPARSE_ROWS = 4 }; /* of x at a time */

/* n entries: for each its column of x, and one value or sixteen.  y[r 16 + j], or y[r 16] alone, is
** the sum for row r of x; those are ldx apart. */
typedef void rg_sparse_dot(int64_t n, const int32_t *column, const float *values, const float *x,
                           int64_t ldx, float *y);

typedef struct rg_sparse_kernels {
  rg_sparse_dot *one[RG_SPARSE_ROWS + 1]; /* by rows of x */
  rg_sparse_dot *block[RG_SPARSE_ROWS + 1];
  /* the sums of single values for 16 rows of x, whose elements are in x[column][row]: ldx is 16 */
  rg_sparse_dot *across;
  /* is each of n columns at least 0 and below k? */
  int (*inside)(const int32_t *column, int64_t n, int32_t k);
} rg_sparse_kernels;

#endif
