/* SPDX-License-Identifier: MIT */
/*
** Arguments of the parts of matrices on one side of a diagonal.
*/
#ifndef RIDGE_OP_TRIANGLE_H
#define RIDGE_OP_TRIANGLE_H

#include "op/op.h"

/* clang-format off */
#define RG_TRIANGLE_ARGS(A, S, AT) \
  A(S, AT, i64, diagonal, WHOLE, 0, "0: the main one; positive ones lie above it")
/* clang-format on */
RG_ARGS_STRUCT(rg_triangle_args, RG_TRIANGLE_ARGS);

#endif
