/* SPDX-License-Identifier: MIT */
/*
** Arguments of the expansion of signs kept as bits.
*/
#ifndef RIDGE_OP_SIGNS_H
#define RIDGE_OP_SIGNS_H

#include "op/op.h"

typedef struct rg_expand_args {
  int64_t cols; /* of a row; the bits of a row begin at a byte */
  double sign;  /* what a 1 stands for; a 0 for its negative */
  int32_t dtype;
} rg_expand_args;

#endif
