/* SPDX-License-Identifier: MIT */
/*
** Arguments of the random fills.
*/
#ifndef RIDGE_OP_RANDOM_H
#define RIDGE_OP_RANDOM_H

#include "op/op.h"

typedef struct rg_uniform_args {
  rg_meta meta;
  double lo;
  double hi;
} rg_uniform_args;

typedef struct rg_normal_args {
  rg_meta meta;
  double mean;
  double std;
} rg_normal_args;

typedef struct rg_signs_args {
  rg_meta meta;
  double scale;
} rg_signs_args;

typedef struct rg_randint_args {
  rg_meta meta;
  int64_t lo;
  int64_t hi;
} rg_randint_args;

#endif
