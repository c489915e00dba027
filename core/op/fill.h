/* SPDX-License-Identifier: MIT */
/*
** Arguments of the operations that fill a tensor.  They have no inputs, so the type and shape of
** what is to be filled are among the arguments.
*/
#ifndef RIDGE_OP_FILL_H
#define RIDGE_OP_FILL_H

#include "op/op.h"

/* clang-format off */
#define RG_FILL_ARGS(A, S, AT) \
  A(S, AT, meta, meta, FOUND, 0, "type and shape of the result") \
  A(S, AT, f64, value, NUMBER, RG_REQUIRED, "of every element")
/* clang-format on */
RG_ARGS_STRUCT(rg_fill_args, RG_FILL_ARGS);

/* clang-format off */
#define RG_ARANGE_ARGS(A, S, AT) \
  A(S, AT, meta, meta, FOUND, 0, "type and shape of the result") \
  A(S, AT, f64, start, NUMBER, 0, "the first element") \
  A(S, AT, f64, step, NUMBER, 1, "from one element to the next")
/* clang-format on */
RG_ARGS_STRUCT(rg_arange_args, RG_ARANGE_ARGS);

#endif
