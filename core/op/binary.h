/* SPDX-License-Identifier: MIT */
/*
** What the kernels of two-input functions need beyond the call.
*/
#ifndef RIDGE_OP_BINARY_H
#define RIDGE_OP_BINARY_H

#include "op/op.h"

/* One record serves two tensors (two inputs) and a tensor with a number (one input). */
typedef struct rg_binary_args {
  int32_t scalar;   /* 1: value stands in y's place */
  int32_t reversed; /* 1: ... or in x's */
  double value;
} rg_binary_args;

/* Nominal arithmetic operations an element of a function (its op id). */
double rg_binary_flops(int32_t id);

rg_status rg_binary_grad(rg_grad *g);
void rg_binary_save(const rg_call *call, int32_t *in, int32_t *out);

#endif
