/* SPDX-License-Identifier: MIT */
/*
** What the kernels of two-input functions need beyond the call.
*/
#ifndef RIDGE_OP_BINARY_H
#define RIDGE_OP_BINARY_H

#include "op/op.h"

/* One record serves two tensors (two inputs) and a tensor with a number (one input). */
/* clang-format off */
#define RG_BINARY_ARGS(A, S, AT) \
  A(S, AT, i32, scalar, FOUND, 0, "1: value stands in the place of y") \
  A(S, AT, i32, reversed, FOUND, 0, "1: ... or of x") \
  A(S, AT, f64, value, FOUND, 0, "the number")
/* clang-format on */
RG_ARGS_STRUCT(rg_binary_args, RG_BINARY_ARGS);

/* Nominal arithmetic operations an element of a function (its op id). */
double rg_binary_flops(int32_t id);

rg_status rg_binary_grad(rg_grad *g);
void rg_binary_save(const rg_call *call, int32_t *in, int32_t *out);

#endif
