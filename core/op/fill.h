/* SPDX-License-Identifier: MIT */
/*
** Arguments of the operations that fill a tensor.  They have no inputs, so the type and shape of
** what is to be filled are among the arguments.
*/
#ifndef RIDGE_OP_FILL_H
#define RIDGE_OP_FILL_H

#include "op/op.h"

typedef struct rg_fill_args {
  rg_meta meta;
  double value;
} rg_fill_args;

typedef struct rg_arange_args {
  rg_meta meta;
  double start;
  double step;
} rg_arange_args;

#endif
