/* SPDX-License-Identifier: MIT */
/*
** Arguments of the random fills.
*/
#ifndef RIDGE_OP_RANDOM_H
#define RIDGE_OP_RANDOM_H

#include "op/op.h"

/* clang-format off */
#define RG_UNIFORM_ARGS(A, S, AT) \
  A(S, AT, meta, meta, FOUND, 0, "type and shape of the result") \
  A(S, AT, f64, lo, NUMBER, 0, "the least") \
  A(S, AT, f64, hi, NUMBER, 1, "above every draw")
/* clang-format on */
RG_ARGS_STRUCT(rg_uniform_args, RG_UNIFORM_ARGS);

/* clang-format off */
#define RG_NORMAL_ARGS(A, S, AT) \
  A(S, AT, meta, meta, FOUND, 0, "type and shape of the result") \
  A(S, AT, f64, mean, NUMBER, 0, "of the draws") \
  A(S, AT, f64, std, NUMBER, 1, "standard deviation, from 0")
/* clang-format on */
RG_ARGS_STRUCT(rg_normal_args, RG_NORMAL_ARGS);

/* clang-format off */
#define RG_SIGNS_ARGS(A, S, AT) \
  A(S, AT, meta, meta, FOUND, 0, "type and shape of the result") \
  A(S, AT, f64, scale, NUMBER, 1, "magnitude of every element")
/* clang-format on */
RG_ARGS_STRUCT(rg_signs_args, RG_SIGNS_ARGS);

/* clang-format off */
#define RG_RANDINT_ARGS(A, S, AT) \
  A(S, AT, meta, meta, FOUND, 0, "type and shape of the result") \
  A(S, AT, i64, lo, WHOLE, RG_REQUIRED, "the least") \
  A(S, AT, i64, hi, WHOLE, RG_REQUIRED, "above every draw")
/* clang-format on */
RG_ARGS_STRUCT(rg_randint_args, RG_RANDINT_ARGS);

#endif
