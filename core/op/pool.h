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

/* The result's shape, for all records whose arguments begin with those options. */
rg_status rg_pool2d_infer(rg_call *call) RG_CHECK;

/* clang-format off */
#define RG_POOL2D_SIZE(A, S, AT) \
  A(S, AT, i64, rows, WHOLE, RG_REQUIRED, "of the gradient") \
  A(S, AT, i64, columns, WHOLE, RG_REQUIRED, "of the gradient")
/* clang-format on */

#endif
