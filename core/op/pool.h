/* SPDX-License-Identifier: MIT */
/*
** Arguments of pooling.
*/
#ifndef RIDGE_OP_POOL_H
#define RIDGE_OP_POOL_H

#include "op/op.h"
#include "ridge/image.h"

/* max_pool2d, avg_pool2d and their gradients */
typedef struct rg_pool2d_args {
  rg_pool2d_options o; /* the stride is never 0 */
  int64_t rows;        /* of x, for the gradients */
  int64_t columns;
} rg_pool2d_args;

#endif
