/* SPDX-License-Identifier: MIT */
/*
** Arguments of dropout.
*/
#ifndef RIDGE_OP_DROPOUT_H
#define RIDGE_OP_DROPOUT_H

#include "op/rule.h"

/* clang-format off */
#define RG_DROPOUT_ARGS(A, S, AT) \
  A(S, AT, f64, p, SHARE, 0.5, "probability of 0, 0 <= p < 1")
/* clang-format on */
RG_ARGS_STRUCT(rg_dropout_args, RG_DROPOUT_ARGS);

/* Type and shape of a draw as a hidden result: its seed and offset. */
rg_meta rg_draw_meta(void);

/* Is an input one?  RG_ESHAPE. */
rg_status rg_draw_check(const rg_call *call, const rg_tensor *draw) RG_CHECK;

/* dy with the mask of a draw. */
rg_value rg_rule_dropped(rg_rule *r, rg_value dy, rg_value draw, double p);

#endif
