/* SPDX-License-Identifier: MIT */
/*
** Arguments of copies: the type and shape of the result, to which the input broadcasts.
*/
#ifndef RIDGE_OP_COPY_H
#define RIDGE_OP_COPY_H

#include "op/op.h"

/* clang-format off */
#define RG_COPY_ARGS(A, S, AT) \
  A(S, AT, meta, meta, FOUND, 0, "type and shape of the result")
/* clang-format on */
RG_ARGS_STRUCT(rg_copy_args, RG_COPY_ARGS);

#endif
