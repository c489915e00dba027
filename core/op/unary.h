/* SPDX-License-Identifier: MIT */
/*
** What the kernels of one-input functions need beyond the call.
*/
#ifndef RIDGE_OP_UNARY_H
#define RIDGE_OP_UNARY_H

#include "op/op.h"

/* Nominal arithmetic operations an element of a function (its op id). */
double rg_unary_flops(int32_t id);

/* dx = f'(x) dy, for all of them. */
rg_status rg_unary_grad(rg_grad *g);

#endif
