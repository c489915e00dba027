/* SPDX-License-Identifier: MIT */
/*
** How gradient rules are written: as formulas.
**
**   static rg_status sigmoid_grad(rg_grad *g)   dx = dy y (1 - y)
**   {
**     rg_rule r = rg_rule_of(g);
**     rg_value slope = rg_rule_mul(&r, r.y, rg_rule_from(&r, 1, r.y));
**
**     rg_rule_give(&r, 0, rg_rule_mul(&r, r.dy, slope));
**     return rg_rule_end(&r);
**   }
**
** Every step is an operation.  Its result lives until rule_end; after a failure the further steps
** do nothing and rule_end says what it was.
*/
#ifndef RIDGE_OP_RULE_H
#define RIDGE_OP_RULE_H

#include "op/op.h"

enum { RG_RULE_STEPS = 48 };

typedef const rg_tensor *rg_value;

typedef struct rg_rule {
  rg_grad *g;
  rg_value dy; /* what arrives at the first result */
  rg_value y;  /* the first result, where it was saved */
  rg_status status;
  int32_t n;
  rg_tensor *made[RG_RULE_STEPS];
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

/* -- Steps -------------------------------------------------------------------------- */

/* Take over a result, or remember the failure: value = rg_rule_took(r, rg_exp(x, &out), out). */
rg_value rg_rule_took(rg_rule *r, rg_status status, rg_tensor *out);

typedef rg_status rg_unary_entry(const rg_tensor *x, rg_tensor **out);
typedef rg_status rg_binary_entry(const rg_tensor *x, const rg_tensor *y, rg_tensor **out);
typedef rg_status rg_number_entry(const rg_tensor *x, double value, int32_t reversed,
                                  rg_tensor **out);

rg_value rg_rule_unary(rg_rule *r, rg_unary_entry *f, rg_value x);
rg_value rg_rule_binary(rg_rule *r, rg_binary_entry *f, rg_value x, rg_value y);
rg_value rg_rule_number(rg_rule *r, rg_number_entry *f, rg_value x, double value);

rg_value rg_rule_add(rg_rule *r, rg_value x, rg_value y);
rg_value rg_rule_sub(rg_rule *r, rg_value x, rg_value y);
rg_value rg_rule_mul(rg_rule *r, rg_value x, rg_value y);
rg_value rg_rule_div(rg_rule *r, rg_value x, rg_value y);
rg_value rg_rule_plus(rg_rule *r, rg_value x, double value);  /* x + value */
rg_value rg_rule_times(rg_rule *r, rg_value x, double value); /* x value */
rg_value rg_rule_from(rg_rule *r, double value, rg_value x);  /* value - x */

/* x in the type of like. */
rg_value rg_rule_cast(rg_rule *r, rg_value x, int32_t dtype);
rg_value rg_rule_sum(rg_rule *r, rg_value x, const int32_t *axes, int32_t n, bool keep);
rg_value rg_rule_matmul(rg_rule *r, rg_value x, rg_value y);
rg_value rg_rule_transposed(rg_rule *r, rg_value x); /* the last two axes */
rg_value rg_rule_shaped(rg_rule *r, rg_value x, const int64_t *shape, int32_t ndim);
rg_value rg_rule_expanded(rg_rule *r, rg_value x, const int64_t *shape, int32_t ndim);
/* x as a matrix: all axes but the last joined. */
rg_value rg_rule_rows(rg_rule *r, rg_value x);
rg_value rg_rule_narrow(rg_rule *r, rg_value x, int32_t axis, int64_t start, int64_t length);

/* The derivative of an activation: y' dy from the result y, or from what went in where the result
** does not say enough (then z, else NULL). */
bool rg_rule_act_reads_result(int32_t act);
rg_value rg_rule_act(rg_rule *r, int32_t act, rg_value y, rg_value z, rg_value dy);

#endif
