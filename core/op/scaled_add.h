/* SPDX-License-Identifier: MIT */
/*
** Arguments of sums and pooling of bytes with scales.
*/
#ifndef RIDGE_OP_SCALED_ADD_H
#define RIDGE_OP_SCALED_ADD_H

#include "op/op.h"
#include "ridge/image.h"

/* clang-format off */
#define RG_SCALED_ADD_ARGS(A, S, AT) \
  A(S, AT, i32, act, ACT, RG_ACT_NONE, "activation") \
  A(S, AT, i32, dtype, DTYPE, RG_F32, "of the result: f32, bf16, f16, i8 or u8") \
  A(S, AT, i64, a_zero, WHOLE, 0, "the byte of a that stands for 0") \
  A(S, AT, i64, b_zero, WHOLE, 0, "that of b") \
  A(S, AT, i64, y_zero, WHOLE, 0, "that of a result of bytes")
#define RG_SCALED_POOL2D_MORE(A, S, AT) \
  A(S, AT, i32, average, FLAG, 0, "the average of a window; else the largest") \
  A(S, AT, i64, x_zero, WHOLE, 0, "the byte that stands for 0, which padding is in averages")
/* clang-format on */
RG_ARGS_STRUCT(rg_scaled_add_args, RG_SCALED_ADD_ARGS);
RG_ARGS_STRUCT(rg_scaled_pool2d_more, RG_SCALED_POOL2D_MORE);

typedef struct rg_scaled_pool2d_args {
  rg_pool2d_options o; /* a stride of 0 is the size */
  rg_scaled_pool2d_more more;
} rg_scaled_pool2d_args;

#endif
