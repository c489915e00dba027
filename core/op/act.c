/* SPDX-License-Identifier: MIT */
/*
** The derivative of an activation times what arrives, in one pass: signature, shape rule, cost,
** public entry.  The kernel is core/cpu/act.c.
*/
#include "op/act.h"
#include "op/list.h"

extern const rg_op rg_op_act_back;

static rg_status infer(rg_call *call)
{
  const rg_act_args *args = call->args;
  char a[96];
  char b[96];

  RG_TRY(rg_check_arity(call, 2));
  RG_TRY(rg_check_float(call, 0));
  RG_TRY(rg_check_float(call, 1));
  const rg_tensor *dy = call->in[0];
  const rg_tensor *x = call->in[1];
  bool same = dy->_ndim == x->_ndim;

  for (int32_t i = 0; same && i < x->_ndim; i++) {
    same = dy->_shape[i] == x->_shape[i];
  }
  if (!same) {
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

static rg_cost cost(const rg_call *call)
{
  const rg_act_args *args = call->args;
  bool curved = args->act == RG_ACT_GELU || args->act == RG_ACT_SILU;

  return rg_cost_of(call, (curved ? 20.0 : 3.0) * (double)call->in[0]->_count);
}

const rg_op rg_op_act_back = {
  .name = "act_back",
  .sig = "act_back(dy, x, act) -> dx",
  .doc =
      "the derivative of an activation times dy, from its result, or for gelu and silu its input",
  .id = RG_OP_ACT_BACK,
  .amp = RG_AMP_NONE,
  .args_size = sizeof(rg_act_args),
  .infer = infer,
  .cost = cost,
};

rg_status rg_act_back(const rg_tensor *dy, const rg_tensor *x, int32_t act, rg_tensor **out)
{
  return rg_run1(&rg_op_act_back, (const rg_tensor *const[]){ dy, x }, 2,
                 &(rg_act_args){ .act = act }, out);
}
