/* SPDX-License-Identifier: MIT */
/*
** Arguments of products with weights most of which are 0.
*/
#ifndef RIDGE_OP_SPARSE_LINEAR_H
#define RIDGE_OP_SPARSE_LINEAR_H

#include "op/op.h"

enum { RG_SPARSE_BLOCK = 16 }; /* outputs of a block */

/* clang-format off */
#define RG_SPARSE_LINEAR_ARGS(A, S, AT) \
  A(S, AT, i32, act, ACT, RG_ACT_NONE, "activation") \
  A(S, AT, i32, dtype, DTYPE, RG_F32, "of the result: f32, bf16 or f16")
/* clang-format on */
RG_ARGS_STRUCT(rg_sparse_linear_args, RG_SPARSE_LINEAR_ARGS);

#endif
