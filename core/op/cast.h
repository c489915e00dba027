/* SPDX-License-Identifier: MIT */
/*
** Arguments of the conversion to another element type.
*/
#ifndef RIDGE_OP_CAST_H
#define RIDGE_OP_CAST_H

#include "op/op.h"

typedef struct rg_cast_args {
  int32_t dtype;
} rg_cast_args;

#endif
