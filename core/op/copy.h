/* SPDX-License-Identifier: MIT */
/*
** Arguments of copies: the type and shape of the result, to which the input broadcasts.
*/
#ifndef RIDGE_OP_COPY_H
#define RIDGE_OP_COPY_H

#include "op/op.h"

typedef struct rg_copy_args {
  rg_meta meta;
} rg_copy_args;

#endif
