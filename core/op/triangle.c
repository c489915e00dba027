/* SPDX-License-Identifier: MIT */
/*
** The part of matrices on one side of a diagonal, 0 elsewhere: shape rule, gradient, cost.  The
** kernels are in core/cpu/triangle.c.
*/
#include "op/list.h"
#include "op/rule.h"
#include "op/triangle.h"

extern const rg_op rg_op_tril;
extern const rg_op rg_op_triu;

static rg_status infer(rg_call *call)
{
  const rg_tensor *x = call->in[0];
  char text[96];

  if (x->_ndim < 2) {
    return rg_fail(RG_ESHAPE, "%s: x is %s, wanted matrices", call->op->name,
                   rg_tensor_text(x, text, sizeof(text)));
  }
  call->out[0] = rg_meta_of(x);
  call->n_out = 1;
  return RG_OK;
}

/* The gradient is that part of the incoming one. */
static rg_status grad(rg_grad *g)
{
  rg_rule r = rg_rule_of(g);
  rg_tensor *out = NULL;
  rg_status status = r.f.status;

  if (status == RG_OK) {
    status = rg_run1(g->call->op, (const rg_tensor *const[]){ r.dy }, 1, g->call->args, &out);
  }
  rg_rule_give(&r, 0, rg_f_took(&r.f, status, out));
  return rg_rule_end(&r);
}

static rg_cost cost(const rg_call *call)
{
  return rg_cost_of(call, 0);
}

static const rg_arg triangle_args[] = { RG_TRIANGLE_ARGS(RG_ARG_ROW, rg_triangle_args, ) };

const rg_op rg_op_tril = {
  .name = "tril",
  .doc = "matrices with 0 above a diagonal",
  .id = RG_OP_TRIL,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", NATIVE, STORED)),
  .result = { "y" },
  .method = true,
  .stored = true,
  RG_ARGS(rg_triangle_args, triangle_args),
  .infer = infer,
  .grad = grad,
  .cost = cost,
};

const rg_op rg_op_triu = {
  .name = "triu",
  .doc = "matrices with 0 below a diagonal",
  .id = RG_OP_TRIU,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", NATIVE, STORED)),
  .result = { "y" },
  .method = true,
  .stored = true,
  RG_ARGS(rg_triangle_args, triangle_args),
  .infer = infer,
  .grad = grad,
  .cost = cost,
};
