/* SPDX-License-Identifier: MIT */
/*
** Copies, with broadcasting and conversion: signature, shape rule, cost, public entries.  The
** kernel is core/cpu/copy.c.
*/
#include "op/copy.h"
#include "op/list.h"
#include "op/rule.h"

extern const rg_op rg_op_copy;

static rg_status copy_infer(rg_call *call)
{
  const rg_copy_args *args = call->args;
  const rg_meta *meta = &args->meta;
  char a[96];
  char b[96];

  const rg_tensor *x = call->in[0];
  bool fits = x->_ndim <= meta->ndim;

  for (int32_t i = 0; fits && i < x->_ndim; i++) {
    fits = x->_shape[i] == 1 || x->_shape[i] == meta->shape[i + meta->ndim - x->_ndim];
  }
  if (!fits) {
    return rg_fail(RG_ESHAPE, "%s: %s does not broadcast to %s", call->op->name,
                   rg_tensor_text(x, a, sizeof(a)),
                   rg_shape_text(meta->shape, meta->ndim, b, sizeof(b)));
  }
  call->out[0] = *meta;
  call->n_out = 1;
  return RG_OK;
}

static rg_cost copy_cost(const rg_call *call)
{
  return rg_cost_of(call, 0.0);
}

static rg_status copy_grad(rg_grad *g)
{
  rg_rule r = rg_rule_of(g);

  rg_rule_give(&r, 0, r.dy);
  return rg_rule_end(&r);
}

static const rg_arg copy_args[] = { RG_COPY_ARGS(RG_ARG_ROW, rg_copy_args, ) };

const rg_op rg_op_copy = {
  .name = "copy",
  .doc = "the elements of another tensor, broadcast and converted",
  .id = RG_OP_COPY,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("y", INPUT, STORED)),
  .result = { "x" },
  .into = true,
  .stored = true,
  RG_ARGS(rg_copy_args, copy_args),
  .infer = copy_infer,
  .grad = copy_grad,
  .cost = copy_cost,
};

rg_status rg_copy_(rg_tensor *x, const rg_tensor *y)
{
  RG_TRY(rg_tensor_check(x, "copy"));
  RG_TRY(rg_tensor_check(y, "copy"));
  if (x->_device != y->_device) {
    return rg_copy_across(x, y);
  }
  return rg_run_into(&rg_op_copy, (const rg_tensor *const[]){ y }, 1,
                     &(rg_copy_args){ .meta = rg_meta_of(x) }, x);
}

rg_status rg_clone(const rg_tensor *x, rg_tensor **out)
{
  RG_TRY(rg_tensor_check(x, "clone"));
  return rg_run1(&rg_op_copy, (const rg_tensor *const[]){ x }, 1,
                 &(rg_copy_args){ .meta = rg_meta_of(x) }, out);
}

rg_status rg_contiguous(const rg_tensor *x, rg_tensor **out)
{
  RG_TRY(rg_tensor_check(x, "contiguous"));
  if (!rg_is_contiguous(x)) {
    return rg_clone(x, out);
  }
  if (out == NULL) {
    return rg_fail(RG_EARG, "contiguous: out is NULL");
  }
  *out = rg_tensor_retain((rg_tensor *)x);
  return RG_OK;
}
