/* SPDX-License-Identifier: MIT */
/*
** Arguments of losses.
*/
#ifndef RIDGE_OP_LOSS_H
#define RIDGE_OP_LOSS_H

#include "op/op.h"
#include "ridge/loss.h"

/* Inputs of cross_entropy_back; the weight may be left out, as in cross_entropy. */
enum { RG_CEB_DY, RG_CEB_X, RG_CEB_LABELS, RG_CEB_LSE, RG_CEB_TOTAL, RG_CEB_WEIGHT };

/* cross_entropy and its gradient */
typedef struct rg_cross_entropy_args {
  rg_cross_entropy_options o;
} rg_cross_entropy_args;

#endif
