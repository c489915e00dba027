/* SPDX-License-Identifier: MIT */
/*
** Arguments of argmax and argmin.
*/
#ifndef RIDGE_OP_ARGMAX_H
#define RIDGE_OP_ARGMAX_H

#include "op/op.h"

typedef struct rg_argmax_args {
  int32_t axis; /* 0 .. ndim-1 */
  int32_t keep; /* 1: the axis stays with size 1 */
} rg_argmax_args;

#endif
