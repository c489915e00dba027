/* SPDX-License-Identifier: MIT */
/*
** Arguments and inputs of optimizer steps.
*/
#ifndef RIDGE_OP_STEP_H
#define RIDGE_OP_STEP_H

#include "op/op.h"
#include "ridge/step.h"

/* Inputs: these, then n parameters, n gradients, and n of each state. */
enum { RG_STEP_RATE, RG_STEP_COUNT, RG_STEP_SCALE, RG_STEP_PARAMS };

/* clang-format off */
#define RG_STEP_ARGS(A, S, AT) \
  A(S, AT, i64, n, FOUND, 0, "parameters") \
  A(S, AT, i64, states, FOUND, 0, "of each parameter")
/* clang-format on */

typedef struct rg_step_args {
  RG_STEP_ARGS(RG_ARG_FIELD, rg_step_args, )
  union {
    rg_sgd_options sgd;
    rg_adam_options adam;
    rg_lion_options lion;
  } o;
} rg_step_args;

/* Input of parameter i: its own place, its gradient's, its state k's. */
static inline int32_t rg_step_param(int64_t i)
{
  return RG_STEP_PARAMS + (int32_t)i;
}
static inline int32_t rg_step_grad(const rg_step_args *args, int64_t i)
{
  return RG_STEP_PARAMS + (int32_t)(args->n + i);
}
static inline int32_t rg_step_state(const rg_step_args *args, int64_t k, int64_t i)
{
  return RG_STEP_PARAMS + (int32_t)((2 + k) * args->n + i);
}

#endif
