/* SPDX-License-Identifier: MIT */
/*
** Arguments of cumulative sums.
*/
#ifndef RIDGE_OP_CUMSUM_H
#define RIDGE_OP_CUMSUM_H

#include "op/op.h"

/* clang-format off */
#define RG_CUMSUM_ARGS(A, S, AT) \
  A(S, AT, i32, axis, AXIS, -1, "along which it runs") \
  A(S, AT, i32, reverse, FLAG, 0, "from the end")
/* clang-format on */
RG_ARGS_STRUCT(rg_cumsum_args, RG_CUMSUM_ARGS);

#endif
