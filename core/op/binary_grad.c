/* SPDX-License-Identifier: MIT */
/*
** Gradients of the binary elementwise functions, and of those of an element and a number.
*/
#include <math.h>

#include "op/binary.h"
#include "op/list.h"
#include "op/rule.h"

/* -- Two tensors ----------------------------------------------------------------------- */

/* 1 where x wins, a half where both are equal: the mean of the derivatives on either side. */
static rg_value winner(rg_rule *r, rg_binary_entry *wins, rg_value x, rg_value y)
{
  rg_value ties =
      rg_f_times(&r->f, rg_f_cast(&r->f, rg_f_binary(&r->f, rg_eq, x, y), r->dy->_dtype), 0.5);

  return rg_f_add(&r->f, rg_f_binary(&r->f, wins, x, y), ties);
}

/* z = x^y: y x^(y-1) and z log(x), which is 0 where x is 0 */
static void power(rg_rule *r, rg_value x, rg_value y, rg_value z)
{
  if (rg_rule_needs(r, 0)) {
    rg_value slope = rg_f_mul(&r->f, y, rg_f_binary(&r->f, rg_pow, x, rg_f_plus(&r->f, y, -1)));

    rg_rule_give(r, 0, rg_f_mul(&r->f, r->dy, slope));
  }
  if (rg_rule_needs(r, 1)) {
    rg_value zero = rg_f_number(&r->f, rg_eq_scalar, x, 0);
    rg_value slope = rg_f_mul(&r->f, z, rg_f_unary(&r->f, rg_log, rg_f_add(&r->f, x, zero)));

    rg_rule_give(r, 1, rg_f_mul(&r->f, r->dy, slope));
  }
}

static void both(rg_rule *r, int32_t id)
{
  rg_value x = rg_rule_in(r, 0);
  rg_value y = rg_rule_in(r, 1);
  rg_value dy = r->dy;

  switch (id) {
  case RG_OP_ADD:
    rg_rule_give(r, 0, dy);
    rg_rule_give(r, 1, dy);
    break;
  case RG_OP_SUB:
    rg_rule_give(r, 0, dy);
    if (rg_rule_needs(r, 1)) {
      rg_rule_give(r, 1, rg_f_unary(&r->f, rg_neg, dy));
    }
    break;
  case RG_OP_MUL:
    if (rg_rule_needs(r, 0)) {
      rg_rule_give(r, 0, rg_f_mul(&r->f, dy, y));
    }
    if (rg_rule_needs(r, 1)) {
      rg_rule_give(r, 1, rg_f_mul(&r->f, dy, x));
    }
    break;
  case RG_OP_DIV: /* 1 / y and -x / y^2 */
    dy = rg_f_div(&r->f, dy, y);
    rg_rule_give(r, 0, dy);
    if (rg_rule_needs(r, 1)) {
      rg_rule_give(r, 1, rg_f_unary(&r->f, rg_neg, rg_f_mul(&r->f, dy, rg_f_div(&r->f, x, y))));
    }
    break;
  case RG_OP_POW:
    power(r, x, y, r->y);
    break;
  default: /* maximum, minimum */
    if (rg_rule_needs(r, 0)) {
      rg_rule_give(r, 0, rg_f_mul(&r->f, dy, winner(r, id == RG_OP_MAXIMUM ? rg_gt : rg_lt, x, y)));
    }
    if (rg_rule_needs(r, 1)) {
      rg_rule_give(r, 1, rg_f_mul(&r->f, dy, winner(r, id == RG_OP_MAXIMUM ? rg_gt : rg_lt, y, x)));
    }
    break;
  }
}

/* -- A tensor and a number --------------------------------------------------------------- */

static rg_value with_number(rg_rule *r, int32_t id, double v, bool reversed)
{
  rg_value x = rg_rule_in(r, 0);
  rg_value dy = r->dy;
  rg_value ties;

  switch (id) {
  case RG_OP_ADD:
    return dy;
  case RG_OP_SUB:
    return reversed ? rg_f_unary(&r->f, rg_neg, dy) : dy;
  case RG_OP_MUL:
    return rg_f_times(&r->f, dy, v);
  case RG_OP_DIV: /* v / x: -v / x^2 */
    if (!reversed) {
      return rg_f_number(&r->f, rg_div_scalar, dy, v);
    }
    return rg_f_times(&r->f, rg_f_div(&r->f, dy, rg_f_unary(&r->f, rg_square, x)), -v);
  case RG_OP_POW: /* v^x: z log v */
    if (reversed) {
      return rg_f_times(&r->f, rg_f_mul(&r->f, dy, r->y), v > 0 ? log(v) : 0);
    }
    return rg_f_times(&r->f, rg_f_mul(&r->f, dy, rg_f_number(&r->f, rg_pow_scalar, x, v - 1)), v);
  default: /* maximum, minimum */
    ties = rg_f_times(&r->f, rg_f_cast(&r->f, rg_f_number(&r->f, rg_eq_scalar, x, v), dy->_dtype),
                      0.5);
    return rg_f_mul(
        &r->f, dy,
        rg_f_add(&r->f, rg_f_number(&r->f, id == RG_OP_MAXIMUM ? rg_gt_scalar : rg_lt_scalar, x, v),
                 ties));
  }
}

rg_status rg_binary_grad(rg_grad *g)
{
  const rg_binary_args *args = g->call->args;
  rg_rule r = rg_rule_of(g);

  if (args->scalar) {
    rg_rule_give(&r, 0, with_number(&r, g->call->op->id, args->value, args->reversed != 0));
  } else {
    both(&r, g->call->op->id);
  }
  return rg_rule_end(&r);
}

/* With a number only quotients the wrong way round, powers and extremes read anything. */
void rg_binary_save(const rg_call *call, int32_t *in, int32_t *out)
{
  const rg_binary_args *args = call->args;
  int32_t id = call->op->id;

  if (!args->scalar) {
    return;
  }
  if (id == RG_OP_MUL || (id == RG_OP_DIV && !args->reversed) ||
      (id == RG_OP_POW && args->reversed)) {
    *in = 0;
  }
  if (id == RG_OP_POW && !args->reversed) {
    *out = 0;
  }
}
