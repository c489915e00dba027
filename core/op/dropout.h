/* SPDX-License-Identifier: MIT */
/*
** Arguments of dropout.
*/
#ifndef RIDGE_OP_DROPOUT_H
#define RIDGE_OP_DROPOUT_H

#include "op/rule.h"

typedef struct rg_dropout_args {
  double p; /* probability of 0, 0 <= p < 1 */
} rg_dropout_args;

/* Type and shape of a draw as a hidden result: its seed and offset. */
rg_meta rg_draw_meta(void);

/* dy with the mask of a draw. */
rg_value rg_rule_dropped(rg_rule *r, rg_value dy, rg_value draw, double p);

#endif
