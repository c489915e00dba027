/* SPDX-License-Identifier: MIT */
/*
** Arguments of softmax.
*/
#ifndef RIDGE_OP_SOFTMAX_H
#define RIDGE_OP_SOFTMAX_H

#include "op/op.h"

/* clang-format off */
#define RG_SOFTMAX_ARGS(A, S, AT) \
  A(S, AT, i32, axis, AXIS, -1, "along which it sums to 1")
/* clang-format on */
RG_ARGS_STRUCT(rg_softmax_args, RG_SOFTMAX_ARGS);

#endif
