/* SPDX-License-Identifier: MIT */
/*
** Arguments of the derivatives of activations.
*/
#ifndef RIDGE_OP_ACT_H
#define RIDGE_OP_ACT_H

#include "op/op.h"

typedef struct rg_act_args {
  int32_t act; /* RG_ACT_..., not RG_ACT_NONE */
} rg_act_args;

#endif
