/* SPDX-License-Identifier: MIT */
/*
** Softmax along one axis: its signature, type rule, gradient and cost.  The kernel is
** core/cpu/softmax.c.
*/
#include "op/list.h"
#include "op/rule.h"
#include "op/softmax.h"

extern const rg_op rg_op_softmax;
extern const rg_op rg_op_softmax_back;

static rg_status softmax_infer(rg_call *call)
{
  call->out[0] = rg_meta_of(call->in[0]);
  call->n_out = 1;
  if (rg_autocast_for(call) >= 0) {
    call->out[0].dtype = rg_autocast_for(call); /* the kernel reads half types as they are */
  }
  return RG_OK;
}

static rg_status softmax_grad(rg_grad *g)
{
  const rg_softmax_args *args = g->call->args;
  rg_rule r = rg_rule_of(g);
  rg_tensor *out = NULL;
  rg_status status = r.f.status;

  if (status == RG_OK) {
    status = rg_softmax_back(r.dy, r.y, args->axis, &out);
  }
  rg_rule_give(&r, 0, rg_f_took(&r.f, status, out));
  return rg_rule_end(&r);
}

/* Maximum, difference, exponential (10, see op/unary.c), sum, product. */
static rg_cost softmax_cost(const rg_call *call)
{
  return rg_cost_of(call, 14.0 * (double)call->in[0]->_count);
}

static const rg_arg softmax_args[] = { RG_SOFTMAX_ARGS(RG_ARG_ROW, rg_softmax_args, ) };

const rg_op rg_op_softmax = {
  .name = "softmax",
  .doc = "exp(x), scaled to sum to one along an axis",
  .id = RG_OP_SOFTMAX,
  .amp = RG_AMP_F32,
  RG_INPUTS(RG_IN("x", INPUT, FLOAT)),
  .result = { "y" },
  .method = true,
  .save_out = 1,
  RG_ARGS(rg_softmax_args, softmax_args),
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

/* -- Back -------------------------------------------------------------------------------- */

static rg_status back_infer(rg_call *call)
{
  char a[96];
  char b[96];

  const rg_tensor *dy = call->in[0];
  const rg_tensor *y = call->in[1];

  if (!rg_tensor_shaped(dy, y->_shape, y->_ndim)) {
    return rg_fail(RG_ESHAPE, "%s: the gradient is %s, and the result %s", call->op->name,
                   rg_tensor_text(dy, a, sizeof(a)), rg_tensor_text(y, b, sizeof(b)));
  }
  call->out[0] = rg_meta_of(dy);
  call->out[0].dtype = rg_promote(dy->_dtype, y->_dtype);
  call->compute = call->out[0].dtype;
  call->n_out = 1;
  return RG_OK;
}

/* dx = y (dy - sum(dy y)): linear in dy, with itself as its transpose; and with s the sums,
** dz (dy - s(dy y)) - dy s(dz y) for y. */
static rg_status back_grad(rg_grad *g)
{
  const rg_softmax_args *args = g->call->args;
  rg_rule r = rg_rule_of(g);
  rg_value dy = rg_rule_in(&r, 0);
  rg_value y = rg_rule_in(&r, 1);
  rg_tensor *out = NULL;
  rg_status status = r.f.status;

  if (rg_rule_needs(&r, 0)) {
    status = rg_softmax_back(r.dy, y, args->axis, &out);
    rg_rule_give(&r, 0, rg_f_took(&r.f, status, out));
  }
  if (rg_rule_needs(&r, 1)) {
    rg_value flat = rg_f_sum(&r.f, rg_f_mul(&r.f, dy, y), &args->axis, 1, true);
    rg_value sums = rg_f_sum(&r.f, rg_f_mul(&r.f, r.dy, y), &args->axis, 1, true);

    rg_rule_give(
        &r, 1,
        rg_f_sub(&r.f, rg_f_mul(&r.f, r.dy, rg_f_sub(&r.f, dy, flat)), rg_f_mul(&r.f, dy, sums)));
  }
  return rg_rule_end(&r);
}

/* Two products, a sum, a difference. */
static rg_cost back_cost(const rg_call *call)
{
  return rg_cost_of(call, 4.0 * (double)call->in[0]->_count);
}

const rg_op rg_op_softmax_back = {
  .name = "softmax_back",
  .doc = "the gradient of softmax, y (dy - sum(dy y)), from its result",
  .id = RG_OP_SOFTMAX_BACK,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("dy", INPUT, FLOAT), RG_IN("y", INPUT, FLOAT)),
  .result = { "dx" },
  .save_in = 3,
  RG_ARGS(rg_softmax_args, softmax_args),
  .infer = back_infer,
  .grad = back_grad,
  .cost = back_cost,
};

rg_status rg_softmax_back(const rg_tensor *dy, const rg_tensor *y, int32_t axis, rg_tensor **out)
{
  rg_softmax_args args;

  RG_TRY(rg_tensor_check(y, "softmax_back"));
  RG_TRY(rg_axis_resolve(&rg_op_softmax_back, y, axis, &args.axis));
  return rg_run1(&rg_op_softmax_back, (const rg_tensor *const[]){ dy, y }, 2, &args, out);
}
