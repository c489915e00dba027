/* SPDX-License-Identifier: MIT */
/*
** Cumulative sums along one axis: type rule, gradient and cost.  The kernel is core/cpu/cumsum.c.
*/
#include "op/cumsum.h"
#include "op/list.h"
#include "op/rule.h"

extern const rg_op rg_op_cumsum;

/* As a sum: integers become i64, half types f32 where autocast says so. */
static rg_status infer(rg_call *call)
{
  int32_t dtype = call->in[0]->_dtype;

  call->out[0] = rg_meta_of(call->in[0]);
  call->n_out = 1;
  if (!rg_dtype_is_float(dtype)) {
    call->out[0].dtype = RG_I64;
  } else if (rg_autocast_for(call) >= 0) {
    call->out[0].dtype = rg_autocast_for(call); /* the kernel reads half types as they are */
  }
  return RG_OK;
}

/* An element is in every sum from its own on: the gradient runs the other way. */
static rg_status grad(rg_grad *g)
{
  rg_cumsum_args args = *(const rg_cumsum_args *)g->call->args;
  rg_rule r = rg_rule_of(g);
  rg_tensor *out = NULL;
  rg_status status = r.f.status;

  args.reverse = !args.reverse;
  if (status == RG_OK) {
    status = rg_run1(&rg_op_cumsum, (const rg_tensor *const[]){ r.dy }, 1, &args, &out);
  }
  rg_rule_give(&r, 0, rg_f_took(&r.f, status, out));
  return rg_rule_end(&r);
}

static rg_cost cost(const rg_call *call)
{
  return rg_cost_of(call, (double)call->in[0]->_count);
}

static const rg_arg cumsum_args[] = { RG_CUMSUM_ARGS(RG_ARG_ROW, rg_cumsum_args, ) };

const rg_op rg_op_cumsum = {
  .name = "cumsum",
  .doc = "the sum of an element and all before it along an axis",
  .id = RG_OP_CUMSUM,
  .amp = RG_AMP_F32,
  RG_INPUTS(RG_IN("x", INPUT, ANY)),
  .result = { "y" },
  .method = true,
  RG_ARGS(rg_cumsum_args, cumsum_args),
  .infer = infer,
  .grad = grad,
  .cost = cost,
};
