/* SPDX-License-Identifier: MIT */
/*
** Arguments of softmax.
*/
#ifndef RIDGE_OP_SOFTMAX_H
#define RIDGE_OP_SOFTMAX_H

#include "op/op.h"

typedef struct rg_softmax_args {
  int32_t axis; /* 0 .. ndim-1 */
} rg_softmax_args;

#endif
