/* SPDX-License-Identifier: MIT */
/*
** Softmax along one axis: its signature, type rule, gradient and cost.  The kernel is
** core/cpu/softmax.c.
*/
#include "op/list.h"
#include "op/rule.h"
#include "op/softmax.h"

extern const rg_op rg_op_softmax;

static rg_status softmax_infer(rg_call *call)
{
  RG_TRY(rg_check_arity(call, 1));
  RG_TRY(rg_check_float(call, 0));
  call->out[0] = rg_meta_of(call->in[0]);
  call->n_out = 1;
  if (rg_autocast_for(call) >= 0) {
    call->out[0].dtype = rg_autocast_for(call); /* the kernel reads half types as they are */
  }
  return RG_OK;
}

/* y (dy - sum(dy y)) */
static rg_status softmax_grad(rg_grad *g)
{
  const rg_softmax_args *args = g->call->args;
  rg_rule r = rg_rule_of(g);
  rg_value weighted = rg_rule_mul(&r, r.dy, r.y);
  rg_value sum = rg_rule_sum(&r, weighted, &args->axis, 1, true);

  rg_rule_give(&r, 0, rg_rule_sub(&r, weighted, rg_rule_mul(&r, r.y, sum)));
  return rg_rule_end(&r);
}

/* Maximum, difference, exponential (10, see op/unary.c), sum, product. */
static rg_cost softmax_cost(const rg_call *call)
{
  return rg_cost_of(call, 14.0 * (double)call->in[0]->_count);
}

const rg_op rg_op_softmax = {
  .name = "softmax",
  .sig = "softmax(x, axis=-1) -> y",
  .doc = "exp(x), scaled to sum to one along an axis",
  .id = RG_OP_SOFTMAX,
  .amp = RG_AMP_F32,
  .save_out = 1,
  .args_size = sizeof(rg_softmax_args),
  .infer = softmax_infer,
  .grad = softmax_grad,
  .cost = softmax_cost,
};

rg_status rg_softmax(const rg_tensor *x, int32_t axis, rg_tensor **out)
{
  rg_softmax_args args;

  RG_TRY(rg_tensor_check(x, "softmax"));
  RG_TRY(rg_axis_resolve(&rg_op_softmax, x, axis, &args.axis));
  return rg_run1(&rg_op_softmax, (const rg_tensor *const[]){ x }, 1, &args, out);
}
