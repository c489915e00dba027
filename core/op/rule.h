/* SPDX-License-Identifier: MIT */
/*
** How gradient rules are written: as compositions (compose.h) of the incoming gradient and what
** was saved.
**
**   static rg_status sigmoid_grad(rg_grad *g)   dx = dy y (1 - y)
**   {
**     rg_rule r = rg_rule_of(g);
**     rg_value slope = rg_f_mul(&r.f, r.y, rg_f_from(&r.f, 1, r.y));
**
**     rg_rule_give(&r, 0, rg_f_mul(&r.f, r.dy, slope));
**     return rg_rule_end(&r);
**   }
*/
#ifndef RIDGE_OP_RULE_H
#define RIDGE_OP_RULE_H

#include "op/compose.h"

typedef struct rg_rule {
  rg_compose f;
  rg_grad *g;
  rg_value dy; /* incoming gradient of the first result */
  rg_value y;  /* the first result, where it was saved */
} rg_rule;

rg_rule rg_rule_of(rg_grad *g);

/* Release the steps; what went wrong first. */
rg_status rg_rule_end(rg_rule *r) RG_CHECK;

/* Input i, where it was saved. */
rg_value rg_rule_in(const rg_rule *r, int32_t i);

/* Does input i need a gradient? */
bool rg_rule_needs(const rg_rule *r, int32_t i);

/*
** x is the gradient of input i: summed over the axes along which the input was repeated, shaped and
** converted as the input is.
*/
void rg_rule_give(rg_rule *r, int32_t i, rg_value x);

/* The next result i of op, one of this rule's calls to come, is given for input `in`, and for no
** other: it is made where that gradient is kept, if there is such a place. */
void rg_rule_into(const rg_rule *r, int32_t in, const rg_op *op, int32_t i);

/* The derivative of an activation: y' dy from the result y, or from what went in where the result
** does not say enough (then z, else NULL). Overwrites dy where nobody else has that: give dy
** itself and no view of it, and do not read it behind this. */
bool rg_rule_act_reads_result(int32_t act);
rg_value rg_rule_act(rg_rule *r, int32_t act, rg_value y, rg_value z, rg_value dy);

#endif
