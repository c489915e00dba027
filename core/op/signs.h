/* SPDX-License-Identifier: MIT */
/*
** Arguments of the operations on signs of one bit each.
*/
#ifndef RIDGE_OP_SIGNS_H
#define RIDGE_OP_SIGNS_H

#include "op/op.h"

/* clang-format off */
#define RG_EXPAND_ARGS(A, S, AT) \
  A(S, AT, i64, cols, WHOLE, RG_REQUIRED, "of a row; the bits of a row begin at a byte") \
  A(S, AT, f64, sign, NUMBER, RG_REQUIRED, "what a 1 stands for; a 0 for its negative") \
  A(S, AT, i32, dtype, DTYPE, RG_REQUIRED, "of the result")
/* clang-format on */
RG_ARGS_STRUCT(rg_expand_args, RG_EXPAND_ARGS);

/* clang-format off */
#define RG_SIGN_ARGS(A, S, AT) \
  A(S, AT, i32, matrix, WHOLE, RG_REQUIRED, "which one of the seed, from 1") \
  A(S, AT, i64, rows, WHOLE, RG_REQUIRED, "of the matrix") \
  A(S, AT, i64, cols, WHOLE, RG_REQUIRED, "of the matrix")
/* clang-format on */
RG_ARGS_STRUCT(rg_sign_args, RG_SIGN_ARGS);

/* Bytes of the bits of a matrix. */
static inline int64_t rg_sign_bytes(int64_t rows, int64_t cols)
{
  return rows * ((cols + 7) / 8);
}

/* Input i is a seed. */
rg_status rg_check_seed(const rg_call *call, int32_t i) RG_CHECK;

/* Has a matrix of this size signs? */
rg_status rg_check_signs(const rg_call *call, int64_t rows, int64_t cols) RG_CHECK;

#endif
