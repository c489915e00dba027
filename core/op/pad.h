/* SPDX-License-Identifier: MIT */
/*
** Arguments of padding, and which element of an axis lies behind one of the padded axis.
*/
#ifndef RIDGE_OP_PAD_H
#define RIDGE_OP_PAD_H

#include "op/op.h"

enum { RG_PAD_CONSTANT, RG_PAD_REFLECT, RG_PAD_EDGE, RG_PAD_WRAP, RG_PAD_COUNT };

/* clang-format off */
#define RG_PAD_AMOUNTS(A, S, AT) \
  A(S, AT, sizes, low, STRIDES, RG_REQUIRED, "elements before each axis; negative: cut") \
  A(S, AT, sizes, high, STRIDES, RG_REQUIRED, "behind the last") \
  A(S, AT, i32, mode, WHOLE, 0, "0 constant, 1 reflect, 2 edge, 3 wrap")
#define RG_PAD_ARGS(A, S, AT) \
  RG_PAD_AMOUNTS(A, S, AT) \
  A(S, AT, f64, value, NUMBER, 0, "of a constant")
#define RG_PAD_BACK_ARGS(A, S, AT) \
  RG_PAD_AMOUNTS(A, S, AT) \
  A(S, AT, sizes, shape, SHAPE, RG_REQUIRED, "of the gradient")
/* clang-format on */
RG_ARGS_STRUCT(rg_pad_args, RG_PAD_ARGS);
RG_ARGS_STRUCT(rg_pad_back_args, RG_PAD_BACK_ARGS);

/* Element `at` of an axis of n (n > 0), counted from before its first to behind its last, is this
** one of it; -1: none, the constant. */
static inline int64_t rg_pad_from(int32_t mode, int64_t at, int64_t n)
{
  if (at >= 0 && at < n) {
    return at;
  }
  switch (mode) {
  case RG_PAD_REFLECT: {
    int64_t period = rg_max_i64(2 * (n - 1), 1);
    int64_t in = (at % period + period) % period;

    return rg_min_i64(in, period - in) % n; /* n == 1: the only one */
  }
  case RG_PAD_EDGE:
    return at < 0 ? 0 : n - 1;
  case RG_PAD_WRAP:
    return (at % n + n) % n;
  default:
    return -1;
  }
}

#endif
