/* SPDX-License-Identifier: MIT */
/*
** Linear, y = act(x W' + b): its signature, shape rule and cost.  The kernel is core/cpu/linear.c.
*/
#include "op/list.h"
#include "op/op.h"
#include "op/product.h"

static rg_status linear_infer(rg_call *call)
{
  const rg_linear_args *args = call->args;
  int32_t dtype;

  RG_TRY(rg_product_arity(call, 2, 3));
  RG_TRY(rg_product_act(call, args->act));
  RG_TRY(rg_product_dtype(call, 0, true, &dtype));
  RG_TRY(rg_product_matrix(call, 1, -1, -1, "the weight"));
  const rg_tensor *w = call->in[1];
  RG_TRY(rg_product_rows(call, w->_shape[1], w->_shape[0], dtype, &call->out[0]));
  RG_TRY(rg_product_bias(call, 2, w->_shape[0]));
  call->n_out = 1;
  call->compute = -1;
  return RG_OK;
}

static rg_cost linear_cost(const rg_call *call)
{
  return rg_cost_of(call,
                    2.0 * (double)rg_meta_count(&call->out[0]) * (double)call->in[1]->_shape[1]);
}

const rg_op rg_op_linear = {
  .name = "linear",
  .sig = "linear(x, w, b=nil, act=none) -> y",
  .doc = "x times the transpose of w, plus b, through an activation",
  .id = RG_OP_LINEAR,
  .amp = RG_AMP_LOWER,
  .save_in = 7,
  .save_out = 1,
  .packs = 6,
  .args_size = sizeof(rg_linear_args),
  .infer = linear_infer,
  .grad = rg_linear_grad,
  .save = rg_linear_save,
  .cost = linear_cost,
};

rg_status rg_linear(const rg_tensor *x, const rg_tensor *w, const rg_tensor *b, int32_t act,
                    rg_tensor **out)
{
  return rg_run1(&rg_op_linear, (const rg_tensor *const[]){ x, w, b }, 3,
                 &(rg_linear_args){ .act = act }, out);
}
