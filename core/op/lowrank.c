/* SPDX-License-Identifier: MIT */
/*
** Low-rank linear, y = act((x A) B + b): its signature, shape rule and cost.  The kernel is
** core/cpu/lowrank.c.
*/
#include "op/list.h"
#include "op/op.h"
#include "op/product.h"

static rg_status lowrank_infer(rg_call *call)
{
  const rg_linear_args *args = call->args;
  int32_t dtype;

  RG_TRY(rg_product_act(call, args->act));
  RG_TRY(rg_product_dtype(call, &dtype));
  RG_TRY(rg_product_matrix(call, 1, -1, -1, "a"));
  RG_TRY(rg_product_matrix(call, 2, call->in[1]->_shape[1], -1, "b"));
  int64_t n_in = call->in[1]->_shape[0];
  int64_t rank = call->in[1]->_shape[1];
  int64_t n_out = call->in[2]->_shape[1];
  RG_TRY(rg_product_rows(call, n_in, n_out, dtype, &call->out[0]));
  RG_TRY(rg_product_bias(call, 3, n_out));
  /* hidden: z = x A, which the gradients of B and of A read */
  RG_TRY(rg_product_rows(call, n_in, rank, dtype, &call->out[1]));
  call->n_out = 2;
  call->compute = -1;
  call->weight_cast = dtype;
  return RG_OK;
}

static rg_cost lowrank_cost(const rg_call *call)
{
  const rg_tensor *a = call->in[1];
  const rg_tensor *b = call->in[2];
  int64_t n_out = b->_shape[1];
  double rows = n_out > 0 ? (double)rg_meta_count(&call->out[0]) / (double)n_out : 0;

  return rg_cost_of(call, 2.0 * rows * (double)a->_shape[1] * (double)(a->_shape[0] + n_out));
}

static const rg_arg linear_args[] = { RG_LINEAR_ARGS(RG_ARG_ROW, rg_linear_args, ) };

const rg_op rg_op_lowrank_linear = {
  .name = "lowrank_linear",
  .doc = "x times a times b, plus the bias, through an activation: a dense layer of rank k",
  .id = RG_OP_LOWRANK_LINEAR,
  .amp = RG_AMP_LOWER,
  RG_INPUTS(RG_IN("x", INPUT, FLOAT), RG_IN("a", WEIGHT, FLOAT), RG_IN("b", WEIGHT, FLOAT),
            RG_OPTIONAL("bias", BIAS, FLOAT)),
  .result = { "y", "inner" },
  .save_in = 15,
  .save_out = 1,
  .n_hidden = 1,
  RG_ARGS(rg_linear_args, linear_args),
  .infer = lowrank_infer,
  .grad = rg_lowrank_grad,
  .save = rg_lowrank_save,
  .cost = lowrank_cost,
};

rg_status rg_lowrank_linear(const rg_tensor *x, const rg_tensor *a, const rg_tensor *b,
                            const rg_tensor *bias, int32_t act, rg_tensor **out)
{
  return rg_run1(&rg_op_lowrank_linear, (const rg_tensor *const[]){ x, a, b, bias }, 4,
                 &(rg_linear_args){ .act = act }, out);
}
