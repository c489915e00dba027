/* SPDX-License-Identifier: MIT */
/*
** Arguments of the derivatives of activations.
*/
#ifndef RIDGE_OP_ACT_H
#define RIDGE_OP_ACT_H

#include "op/op.h"

/* clang-format off */
#define RG_ACT_ARGS(A, S, AT) \
  A(S, AT, i32, act, ACT, RG_REQUIRED, "the activation; not none")
/* clang-format on */
RG_ARGS_STRUCT(rg_act_args, RG_ACT_ARGS);

/* Nominal arithmetic operations an element of the derivative. */
double rg_act_back_flops(int32_t act);

/* The operation that an activation is, by RG_ACT_...; there is none for RG_ACT_NONE. */
extern const int32_t rg_act_ops[RG_ACT_COUNT];

#endif
