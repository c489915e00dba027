/* SPDX-License-Identifier: MIT */
/*
** Arguments of argmax and argmin.
*/
#ifndef RIDGE_OP_ARGMAX_H
#define RIDGE_OP_ARGMAX_H

#include "op/op.h"

/* clang-format off */
#define RG_ARGMAX_ARGS(A, S, AT) \
  A(S, AT, i32, axis, AXIS, -1, "along which") \
  A(S, AT, i32, keep, FLAG, 0, "the axis stays with size 1")
/* clang-format on */
RG_ARGS_STRUCT(rg_argmax_args, RG_ARGMAX_ARGS);

#endif
