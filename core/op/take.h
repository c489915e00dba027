/* SPDX-License-Identifier: MIT */
/*
** Arguments of the taking of rows.
*/
#ifndef RIDGE_OP_TAKE_H
#define RIDGE_OP_TAKE_H

#include "op/op.h"

/* take_back */
/* clang-format off */
#define RG_TAKE_ARGS(A, S, AT) \
  A(S, AT, i64, rows, WHOLE, RG_REQUIRED, "of the table")
/* clang-format on */
RG_ARGS_STRUCT(rg_take_args, RG_TAKE_ARGS);

#endif
