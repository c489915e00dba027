/* SPDX-License-Identifier: MIT */
/*
** Arguments of products of 8-bit factors with scales.
*/
#ifndef RIDGE_OP_SCALED_H
#define RIDGE_OP_SCALED_H

#include "op/op.h"

/* Products of i8 that a sum may have: (-128)^2 131072 times is 2^31, one more than i32 holds. */
enum { RG_SCALED_I8_MOST = 131071 };

/* clang-format off */
#define RG_SCALED_ARGS(A, S, AT) \
  A(S, AT, i32, act, ACT, RG_ACT_NONE, "activation") \
  A(S, AT, i32, dtype, DTYPE, RG_F32, "of the result: f32, bf16 or f16")
/* clang-format on */
RG_ARGS_STRUCT(rg_scaled_args, RG_SCALED_ARGS);

#endif
