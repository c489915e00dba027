/* SPDX-License-Identifier: MIT */
/*
** Arguments of the conversion to another element type.
*/
#ifndef RIDGE_OP_CAST_H
#define RIDGE_OP_CAST_H

#include "op/op.h"

/* clang-format off */
#define RG_CAST_ARGS(A, S, AT) \
  A(S, AT, i32, dtype, DTYPE, RG_REQUIRED, "of the result")
/* clang-format on */
RG_ARGS_STRUCT(rg_cast_args, RG_CAST_ARGS);

#endif
