/* SPDX-License-Identifier: MIT */
/*
** Arguments of dropout.
*/
#ifndef RIDGE_OP_DROPOUT_H
#define RIDGE_OP_DROPOUT_H

#include "op/op.h"

typedef struct rg_dropout_args {
  double p; /* probability of 0, 0 <= p < 1 */
} rg_dropout_args;

#endif
