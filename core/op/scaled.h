/* SPDX-License-Identifier: MIT */
/*
** Arguments of products of 8-bit factors with scales.
*/
#ifndef RIDGE_OP_SCALED_H
#define RIDGE_OP_SCALED_H

#include "op/op.h"

/* Products of i8 that a sum may have: (-128)^2 131072 times is 2^31, one more than i32 holds. */
enum { RG_SCALED_I8_MOST = 131071 };

typedef struct rg_scaled_args {
  int32_t act;   /* RG_ACT_... */
  int32_t dtype; /* of the result */
} rg_scaled_args;

#endif
