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

/* -- What came later: tensors and numbers alike ------------------------------------------ */

/* Where an operand is no input but a number. */
enum { NUMBER = -1 };

static bool wanted(const rg_rule *r, int32_t i)
{
  return i != NUMBER && rg_rule_needs(r, i);
}

static void give(rg_rule *r, int32_t i, rg_value slope)
{
  rg_rule_give(r, i, rg_f_mul(&r->f, r->dy, slope));
}

static rg_value chosen(rg_compose *f, rg_value cond, rg_value x, rg_value y)
{
  RG_F_STEP(rg_where(cond, x, y, &out));
}

static rg_value number_of(rg_rule *r, double v)
{
  rg_tensor *number = rg_f_empty(&r->f, r->dy->_dtype, r->dy->_device, NULL, 0);

  if (number != NULL) {
    rg_f_note(&r->f, rg_fill_(number, v));
  }
  return number;
}

/* 1 and -floor(x / y), or -trunc */
static void rest(rg_rule *r, rg_binary_entry *divide, rg_value x, rg_value y, int32_t i, int32_t k)
{
  if (wanted(r, i)) {
    rg_rule_give(r, i, r->dy);
  }
  if (wanted(r, k)) {
    give(r, k, rg_f_unary(&r->f, rg_neg, rg_f_binary(&r->f, divide, x, y)));
  }
}

/* f16 as f32: squares of what is above 255 are infinite in f16, and so are quotients by a number
** below 1. */
static rg_value widened(rg_compose *f, rg_value x)
{
  return x != NULL && x->_dtype == RG_F16 ? rg_f_cast(f, x, RG_F32) : x;
}

/* y / (x^2 + y^2) and -x / (x^2 + y^2) */
static void angle(rg_rule *r, rg_value x, rg_value y, int32_t i, int32_t k)
{
  x = widened(&r->f, x);
  y = widened(&r->f, y);
  rg_value length =
      rg_f_add(&r->f, rg_f_unary(&r->f, rg_square, x), rg_f_unary(&r->f, rg_square, y));

  if (wanted(r, i)) {
    give(r, i, rg_f_div(&r->f, y, length));
  }
  if (wanted(r, k)) {
    give(r, k, rg_f_unary(&r->f, rg_neg, rg_f_div(&r->f, x, length)));
  }
}

/* Functions that are x from 0 on: the slopes below are y and x, y e^x and e^x - 1, or with
** z = x / y e^z and e^z - 1 - z e^z. */
static void bent(rg_rule *r, int32_t id, rg_value x, rg_value y, int32_t i, int32_t k)
{
  rg_compose *f = &r->f;

  if (id == RG_OP_CELU) {
    x = widened(f, x);
    y = widened(f, y);
  }
  rg_value below = rg_f_number(f, rg_minimum_scalar, x, 0);
  rg_value z = id == RG_OP_CELU ? rg_f_div(f, below, y) : below;

  if (wanted(r, i) && id == RG_OP_CELU) {
    give(r, i, rg_f_unary(f, rg_exp, z));
  } else if (wanted(r, i)) {
    rg_value slope = id == RG_OP_PRELU ? y : rg_f_mul(f, y, rg_f_unary(f, rg_exp, z));

    give(r, i, chosen(f, rg_f_number(f, rg_lt_scalar, x, 0), slope, number_of(r, 1)));
  }
  if (wanted(r, k) && id == RG_OP_PRELU) {
    give(r, k, below);
  } else if (wanted(r, k) && id == RG_OP_ELU) {
    give(r, k, rg_f_unary(f, rg_expm1, z));
  } else if (wanted(r, k)) {
    rg_value part = rg_f_mul(f, z, rg_f_unary(f, rg_exp, z));

    give(r, k, rg_f_sub(f, rg_f_unary(f, rg_expm1, z), part));
  }
}

/* x and y are inputs i and k, or numbers. */
static void later(rg_rule *r, int32_t id, rg_value x, rg_value y, int32_t i, int32_t k)
{
  switch (id) {
  case RG_OP_REMAINDER:
    rest(r, rg_floor_divide, x, y, i, k);
    break;
  case RG_OP_FMOD:
    rest(r, rg_trunc_divide, x, y, i, k);
    break;
  case RG_OP_ATAN2:
    angle(r, x, y, i, k);
    break;
  case RG_OP_PRELU:
  case RG_OP_ELU:
  case RG_OP_CELU:
    bent(r, id, x, y, i, k);
    break;
  case RG_OP_THRESHOLD: /* where it is reached does not depend on it */
    if (wanted(r, i)) {
      give(r, i, rg_f_binary(&r->f, rg_gt, x, y));
    }
    if (wanted(r, k)) {
      rg_rule_give(r, k, rg_f_times(&r->f, r->dy, 0));
    }
    break;
  default: /* floor_divide, trunc_divide are flat */
    for (int32_t n = 0; n < r->g->call->n_in; n++) {
      if (rg_rule_needs(r, n)) {
        rg_rule_give(r, n, rg_f_times(&r->f, r->dy, 0));
      }
    }
    break;
  }
}

/* -- The first ones ------------------------------------------------------------------------ */

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
  case RG_OP_MAXIMUM:
  case RG_OP_MINIMUM:
    if (rg_rule_needs(r, 0)) {
      rg_rule_give(r, 0, rg_f_mul(&r->f, dy, winner(r, id == RG_OP_MAXIMUM ? rg_gt : rg_lt, x, y)));
    }
    if (rg_rule_needs(r, 1)) {
      rg_rule_give(r, 1, rg_f_mul(&r->f, dy, winner(r, id == RG_OP_MAXIMUM ? rg_gt : rg_lt, y, x)));
    }
    break;
  default:
    later(r, id, x, y, 0, 1);
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

  if (args->scalar && g->call->op->id > RG_OP_MINIMUM) {
    rg_value number = number_of(&r, args->value);
    rg_value x = rg_rule_in(&r, 0);

    later(&r, g->call->op->id, args->reversed ? number : x, args->reversed ? x : number,
          args->reversed ? NUMBER : 0, args->reversed ? 0 : NUMBER);
  } else if (args->scalar) {
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
