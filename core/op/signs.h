/* SPDX-License-Identifier: MIT */
/*
** Arguments of the operations on signs of one bit each.
*/
#ifndef RIDGE_OP_SIGNS_H
#define RIDGE_OP_SIGNS_H

#include "op/op.h"

typedef struct rg_expand_args {
  int64_t cols; /* of a row; the bits of a row begin at a byte */
  double sign;  /* what a 1 stands for; a 0 for its negative */
  int32_t dtype;
} rg_expand_args;

typedef struct rg_sign_args {
  int64_t rows, cols;
  int32_t matrix; /* of the seed */
  int32_t _pad;
} rg_sign_args;

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
