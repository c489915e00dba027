/* SPDX-License-Identifier: MIT */
/*
** Arguments of the joining of tensors.
*/
#ifndef RIDGE_OP_CONCAT_H
#define RIDGE_OP_CONCAT_H

#include "op/op.h"

typedef struct rg_concat_args {
  int32_t axis; /* 0 .. ndim-1 */
} rg_concat_args;

#endif
