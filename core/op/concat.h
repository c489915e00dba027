/* SPDX-License-Identifier: MIT */
/*
** Arguments of concatenation.
*/
#ifndef RIDGE_OP_CONCAT_H
#define RIDGE_OP_CONCAT_H

#include "op/op.h"

/* clang-format off */
#define RG_CONCAT_ARGS(A, S, AT) \
  A(S, AT, i32, axis, AXIS, 0, "along which they are joined")
/* clang-format on */
RG_ARGS_STRUCT(rg_concat_args, RG_CONCAT_ARGS);

#endif
