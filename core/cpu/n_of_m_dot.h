/* SPDX-License-Identifier: MIT */
/*
** What each instruction set brings for weights of which n of each m inputs are there
** (core/cpu/simd/n_of_m_dot.c); how they lie is said in core/op/n_of_m_linear.h.
*/
#ifndef RIDGE_CPU_N_OF_M_DOT_H
#define RIDGE_CPU_N_OF_M_DOT_H

#include <stdint.h>

enum { RG_N_OF_M_ROWS = 4 }; /* of x at a time */

/* y[r 16 + j] is the sum of output j for row r of x: `windows` windows of `each` entries.  Rows of
** x are ldx apart, in whole windows. */
typedef void rg_n_of_m_dot(int64_t windows, int64_t each, const uint8_t *index, const void *values,
                           const float *x, int64_t ldx, float *y);

typedef struct rg_n_of_m_kernels {
  rg_n_of_m_dot *f32[RG_N_OF_M_ROWS + 1]; /* by rows of x */
  rg_n_of_m_dot *bf16[RG_N_OF_M_ROWS + 1];
} rg_n_of_m_kernels;

#endif
