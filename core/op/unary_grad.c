/* SPDX-License-Identifier: MIT */
/*
** Gradients of the unary elementwise functions: dx = f'(x) dy, from what the record says is saved.
*/
#include <math.h>

#include "op/list.h"
#include "op/rule.h"
#include "op/unary.h"

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
  default: /* sign, floor, ceil, round are flat */
    return rg_f_times(&r->f, dy, 0);
  }
}

rg_status rg_unary_grad(rg_grad *g)
{
  rg_rule r = rg_rule_of(g);

  rg_rule_give(&r, 0, derivative(&r, g->call->op->id));
  return rg_rule_end(&r);
}
