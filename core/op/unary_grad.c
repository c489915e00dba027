/* SPDX-License-Identifier: MIT */
/*
** Gradients of the unary elementwise functions: dx = f'(x) dy, from what the record says is saved.
*/
#include <math.h>

#include "op/list.h"
#include "op/rule.h"
#include "op/unary.h"

/* f16 as f32: squares of what is above 255 are infinite in f16. */
static rg_value widened(rg_compose *f, rg_value x)
{
  return x != NULL && x->_dtype == RG_F16 ? rg_f_cast(f, x, RG_F32) : x;
}

/* 1 / (x^2 + b)^(1/2); minus: 1 / (b - x^2)^(1/2) */
static rg_value inverse_root(rg_compose *f, rg_value x, bool minus, double b)
{
  rg_value square = rg_f_unary(f, rg_square, widened(f, x));

  return rg_f_unary(f, rg_rsqrt, rg_f_plus(f, minus ? rg_f_unary(f, rg_neg, square) : square, b));
}

/* x where a condition holds, else y or the number v. */
static rg_value chosen(rg_compose *f, rg_value cond, rg_value x, rg_value y)
{
  RG_F_STEP(rg_where(cond, x, y, &out));
}

static rg_value chosen_number(rg_compose *f, rg_value cond, rg_value x, double v)
{
  rg_tensor *number = f->status == RG_OK ? rg_f_empty(f, x->_dtype, x->_device, NULL, 0) : NULL;

  if (number != NULL) {
    rg_f_note(f, rg_fill_(number, v));
  }
  return chosen(f, cond, x, number);
}

/* mish: t + x s (1 - t^2) with t = tanh(softplus(x)), s = sigmoid(x) */
static rg_value mish_slope(rg_compose *f, rg_value x)
{
  rg_value t = rg_f_unary(f, rg_tanh, rg_f_unary(f, rg_softplus, x));
  rg_value rest = rg_f_from(f, 1, rg_f_unary(f, rg_square, t));
  rg_value s = rg_f_unary(f, rg_sigmoid, x);

  return rg_f_add(f, t, rg_f_mul(f, rg_f_mul(f, x, s), rest));
}

/* hardswish: 0 below -3, 1 above 3, x / 3 + 1/2 between */
static rg_value hardswish_slope(rg_compose *f, rg_value x)
{
  rg_value inside = rg_f_number(f, rg_le_scalar, rg_f_unary(f, rg_abs, x), 3);
  rg_value outside = rg_f_cast(f, rg_f_number(f, rg_gt_scalar, x, 3), x != NULL ? x->_dtype : 0);

  return chosen(f, inside, rg_f_plus(f, rg_f_times(f, x, 1.0 / 3), 0.5), outside);
}

/* The derivative times dy of what came later; NULL where it is 0 everywhere. */
static rg_value another(rg_rule *r, int32_t id, rg_value x)
{
  const double alpha = 1.75809934084737685994; /* selu's: 1.0507 times 1.6733 */
  rg_value y = r->y;
  rg_value dy = r->dy;
  rg_compose *f = &r->f;

  switch (id) {
  case RG_OP_EXP2:
    return rg_f_times(f, rg_f_mul(f, dy, y), M_LN2);
  case RG_OP_EXPM1:
    return rg_f_mul(f, dy, rg_f_plus(f, y, 1));
  case RG_OP_LOG2:
    return rg_f_times(f, rg_f_div(f, dy, x), M_LOG2E);
  case RG_OP_TAN: /* 1 + y^2 */
    return rg_f_mul(f, dy, rg_f_plus(f, rg_f_unary(f, rg_square, y), 1));
  case RG_OP_ASIN:
    return rg_f_mul(f, dy, inverse_root(f, x, true, 1));
  case RG_OP_ACOS:
    return rg_f_unary(f, rg_neg, rg_f_mul(f, dy, inverse_root(f, x, true, 1)));
  case RG_OP_ATAN:
    return rg_f_div(f, dy, rg_f_plus(f, rg_f_unary(f, rg_square, widened(f, x)), 1));
  case RG_OP_SINH:
    return rg_f_mul(f, dy, rg_f_unary(f, rg_cosh, x));
  case RG_OP_COSH:
    return rg_f_mul(f, dy, rg_f_unary(f, rg_sinh, x));
  case RG_OP_ASINH:
    return rg_f_mul(f, dy, inverse_root(f, x, false, 1));
  case RG_OP_ACOSH:
    return rg_f_mul(f, dy, inverse_root(f, x, false, -1));
  case RG_OP_ATANH:
    return rg_f_div(f, dy, rg_f_from(f, 1, rg_f_unary(f, rg_square, x)));
  case RG_OP_SELU: /* the exponential is the result and alpha */
    return rg_f_mul(f, dy,
                    chosen_number(f, rg_f_number(f, rg_lt_scalar, y, 0), rg_f_plus(f, y, alpha),
                                  1.05070098735548049342));
  case RG_OP_MISH:
    return rg_f_mul(f, dy, mish_slope(f, x));
  case RG_OP_SOFTSIGN:
    x = rg_f_unary(f, rg_reciprocal, rg_f_plus(f, rg_f_unary(f, rg_abs, x), 1));
    return rg_f_mul(f, dy, rg_f_unary(f, rg_square, x));
  case RG_OP_HARDSIGMOID:
    x = rg_f_number(f, rg_lt_scalar, rg_f_unary(f, rg_abs, x), 3);
    return rg_f_times(f, rg_f_mul(f, dy, x), 1.0 / 6);
  case RG_OP_HARDSWISH:
    return rg_f_mul(f, dy, hardswish_slope(f, x));
  default: /* sign, floor, ceil, round, trunc are flat */
    return rg_f_times(f, dy, 0);
  }
}

/* The derivative times dy; NULL where it is 0 everywhere. */
static rg_value derivative(rg_rule *r, int32_t id)
{
  rg_value x = rg_rule_in(r, 0);
  rg_value y = r->y;
  rg_value dy = r->dy;

  switch (id) {
  case RG_OP_NEG:
    return rg_f_unary(&r->f, rg_neg, dy);
  case RG_OP_ABS:
    return rg_f_mul(&r->f, dy, rg_f_unary(&r->f, rg_sign, x));
  case RG_OP_SQUARE:
    return rg_f_mul(&r->f, dy, rg_f_times(&r->f, x, 2));
  case RG_OP_RELU:
    return rg_rule_act(r, RG_ACT_RELU, y, NULL, dy);
  case RG_OP_RELU6:
    return rg_rule_act(r, RG_ACT_RELU6, y, NULL, dy);
  case RG_OP_SQRT: /* 1 / (2 y) */
    return rg_f_times(&r->f, rg_f_div(&r->f, dy, y), 0.5);
  case RG_OP_RSQRT: /* -y^3 / 2 */
    return rg_f_times(
        &r->f, rg_f_mul(&r->f, dy, rg_f_mul(&r->f, y, rg_f_unary(&r->f, rg_square, y))), -0.5);
  case RG_OP_RECIPROCAL:
    return rg_f_unary(&r->f, rg_neg, rg_f_mul(&r->f, dy, rg_f_unary(&r->f, rg_square, y)));
  case RG_OP_EXP:
    return rg_f_mul(&r->f, dy, y);
  case RG_OP_LOG:
    return rg_f_div(&r->f, dy, x);
  case RG_OP_LOG1P:
    return rg_f_div(&r->f, dy, rg_f_plus(&r->f, x, 1));
  case RG_OP_SIN:
    return rg_f_mul(&r->f, dy, rg_f_unary(&r->f, rg_cos, x));
  case RG_OP_COS:
    return rg_f_unary(&r->f, rg_neg, rg_f_mul(&r->f, dy, rg_f_unary(&r->f, rg_sin, x)));
  case RG_OP_TANH:
    return rg_rule_act(r, RG_ACT_TANH, y, NULL, dy);
  case RG_OP_ERF: /* 2 / sqrt(pi) exp(-x^2) */
    x = rg_f_unary(&r->f, rg_exp, rg_f_unary(&r->f, rg_neg, rg_f_unary(&r->f, rg_square, x)));
    return rg_f_times(&r->f, rg_f_mul(&r->f, dy, x), M_2_SQRTPI);
  case RG_OP_SIGMOID:
    return rg_rule_act(r, RG_ACT_SIGMOID, y, NULL, dy);
  case RG_OP_GELU:
    return rg_rule_act(r, RG_ACT_GELU, NULL, x, dy);
  case RG_OP_SILU:
    return rg_rule_act(r, RG_ACT_SILU, NULL, x, dy);
  case RG_OP_SOFTPLUS:
    return rg_f_mul(&r->f, dy, rg_f_unary(&r->f, rg_sigmoid, x));
  default:
    return another(r, id, x);
  }
}

rg_status rg_unary_grad(rg_grad *g)
{
  rg_rule r = rg_rule_of(g);

  rg_rule_give(&r, 0, derivative(&r, g->call->op->id));
  return rg_rule_end(&r);
}
