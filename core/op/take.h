/* SPDX-License-Identifier: MIT */
/*
** Arguments of the taking of rows.
*/
#ifndef RIDGE_OP_TAKE_H
#define RIDGE_OP_TAKE_H

#include "op/op.h"

/* take_back */
typedef struct rg_take_args {
  int64_t rows; /* of the table */
} rg_take_args;

#endif
