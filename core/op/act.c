/* SPDX-License-Identifier: MIT */
/*
** The derivative of an activation times the incoming gradient, in one pass: signature, shape
** rule, cost, public entry.  The kernel is core/cpu/act.c.
*/
#include "op/act.h"

#include <math.h>

#include "op/formulas.h"
#include "op/list.h"
#include "op/rule.h"

extern const rg_op rg_op_act_back;

#define OP_OF(NAME, name) [RG_ACT_##NAME] = RG_OP_##NAME,
const int32_t rg_act_ops[RG_ACT_COUNT] = { RG_ACT_LIST(OP_OF) };
#undef OP_OF

const char *rg_act_name(int32_t act)
{
#define NAME_OF(NAME, name) [RG_ACT_##NAME] = #name,
  static const char *const names[RG_ACT_COUNT] = { [RG_ACT_NONE] = "none", RG_ACT_LIST(NAME_OF) };
#undef NAME_OF

  return act >= 0 && act < RG_ACT_COUNT ? names[act] : NULL;
}

static rg_status infer(rg_call *call)
{
  const rg_act_args *args = call->args;
  char a[96];
  char b[96];

  const rg_tensor *dy = call->in[0];
  const rg_tensor *x = call->in[1];

  if (!rg_tensor_shaped(dy, x->_shape, x->_ndim)) {
    return rg_fail(RG_ESHAPE, "%s: the gradient is %s, and the activation's %s", call->op->name,
                   rg_tensor_text(dy, a, sizeof(a)), rg_tensor_text(x, b, sizeof(b)));
  }
  if (args->act <= RG_ACT_NONE || args->act >= RG_ACT_COUNT) {
    return rg_fail(RG_EARG, "%s: there is no activation %d", call->op->name, args->act);
  }
  call->out[0] = rg_meta_of(dy);
  call->out[0].dtype = rg_promote(dy->_dtype, x->_dtype);
  call->compute = call->out[0].dtype;
  call->n_out = 1;
  return RG_OK;
}

/* The second derivative: of relu and relu6 none, of tanh and sigmoid by their results, of gelu and
** silu by what goes in. */
static rg_value curve(rg_rule *r, int32_t act, rg_value x)
{
  rg_value s;

  switch (act) {
  case RG_ACT_TANH: /* 1 - y^2 */
    return rg_f_times(&r->f, x, -2);
  case RG_ACT_SIGMOID: /* y (1 - y) */
    return rg_f_from(&r->f, 1, rg_f_times(&r->f, x, 2));
  case RG_ACT_SILU: /* s (1 - s) (2 + x (1 - 2 s)), s the sigmoid */
    s = rg_f_unary(&r->f, rg_sigmoid, x);
    return rg_f_mul(
        &r->f, rg_f_mul(&r->f, s, rg_f_from(&r->f, 1, s)),
        rg_f_plus(&r->f, rg_f_mul(&r->f, x, rg_f_from(&r->f, 1, rg_f_times(&r->f, s, 2))), 2));
  case RG_ACT_GELU: /* (2 - x^2) exp(-x^2 / 2) / sqrt(2 pi) */
    s = rg_f_unary(&r->f, rg_square, x);
    return rg_f_mul(&r->f, rg_f_from(&r->f, 2, s),
                    rg_f_times(&r->f, rg_f_unary(&r->f, rg_exp, rg_f_times(&r->f, s, -0.5)),
                               M_2_SQRTPI * M_SQRT1_2 / 2));
  default:
    return rg_f_times(&r->f, x, 0);
  }
}

static rg_status grad(rg_grad *g)
{
  const rg_act_args *args = g->call->args;
  rg_rule r = rg_rule_of(g);
  rg_value dy = rg_rule_in(&r, 0);
  rg_value x = rg_rule_in(&r, 1);

  if (rg_rule_needs(&r, 1)) {
    rg_rule_give(&r, 1, rg_f_mul(&r.f, rg_f_mul(&r.f, r.dy, dy), curve(&r, args->act, x)));
  }
  if (rg_rule_needs(&r, 0)) {
    rg_rule_give(&r, 0, rg_rule_act(&r, args->act, x, x, r.dy));
  }
  return rg_rule_end(&r);
}

double rg_act_back_flops(int32_t act)
{
  /* of RG_SLOPE_FORMULAS, and times dy; the sigmoid of silu's slope once */
  static const int8_t each[RG_ACT_COUNT] = {
    [RG_ACT_RELU] = 2,    [RG_ACT_RELU6] = 3, [RG_ACT_TANH] = 3,
    [RG_ACT_SIGMOID] = 3, [RG_ACT_SILU] = 17, [RG_ACT_GELU] = 29
  };

  return each[act];
}

static rg_cost cost(const rg_call *call)
{
  const rg_act_args *args = call->args;

  return rg_cost_of(call, rg_act_back_flops(args->act) * (double)call->in[0]->_count);
}

static const rg_arg act_args[] = { RG_ACT_ARGS(RG_ARG_ROW, rg_act_args, ) };

const rg_op rg_op_act_back = {
  .name = "act_back",
  .doc =
      "the derivative of an activation times dy, from its result, or for gelu and silu its input",
  .id = RG_OP_ACT_BACK,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("dy", INPUT, FLOAT), RG_IN("x", INPUT, FLOAT)),
  .result = { "dx" },
  .save_in = 3,
  RG_ARGS(rg_act_args, act_args),
  .infer = infer,
  .grad = grad,
  .cost = cost,
};

rg_status rg_act_back(const rg_tensor *dy, const rg_tensor *x, int32_t act, rg_tensor **out)
{
  return rg_run1(&rg_op_act_back, (const rg_tensor *const[]){ dy, x }, 2,
                 &(rg_act_args){ .act = act }, out);
}
