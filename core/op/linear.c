/* SPDX-License-Identifier: MIT */
/*
** Linear, y = act(x W' + b): its signature, shape rule and cost.  The kernel is core/cpu/linear.c.
*/
#include "op/dropout.h"
#include "op/list.h"
#include "op/op.h"
#include "op/product.h"

static rg_status linear_infer(rg_call *call)
{
  const rg_linear_args *args = call->args;
  int32_t dtype;

  RG_TRY(rg_product_act(call, args->act));
  RG_TRY(rg_product_dtype(call, &dtype));
  RG_TRY(rg_product_matrix(call, 1, -1, -1, "the weight"));
  const rg_tensor *w = call->in[1];
  RG_TRY(rg_product_rows(call, w->_shape[1], w->_shape[0], dtype, &call->out[0]));
  RG_TRY(rg_product_bias(call, 2, w->_shape[0]));
  call->n_out = 1;
  call->compute = -1;
  call->weight_cast = dtype;
  return RG_OK;
}

/* The same with the draw of the dropout as hidden result. */
static rg_status dropout_infer(rg_call *call)
{
  const rg_linear_args *args = call->args;

  RG_TRY(linear_infer(call));
  RG_TRY(rg_check_args(call));
  call->out[1] = rg_draw_meta();
  call->n_out = 2;
  call->n_draws = args->p > 0 ? rg_meta_count(&call->out[0]) : 0;
  return RG_OK;
}

static rg_cost linear_cost(const rg_call *call)
{
  return rg_cost_of(call,
                    2.0 * (double)rg_meta_count(&call->out[0]) * (double)call->in[1]->_shape[1]);
}

static const rg_arg linear_args[] = { RG_LINEAR_ARGS(RG_ARG_ROW, rg_linear_args, ) };
static const rg_arg linear_dropout_args[] = { RG_LINEAR_DROPOUT_ARGS(RG_ARG_ROW,
                                                                     rg_linear_args, ) };

const rg_op rg_op_linear = {
  .name = "linear",
  .doc = "x times the transpose of w, plus b, through an activation",
  .id = RG_OP_LINEAR,
  .amp = RG_AMP_LOWER,
  RG_INPUTS(RG_IN("x", INPUT, FLOAT), RG_IN("w", WEIGHT, FLOAT), RG_OPTIONAL("b", BIAS, FLOAT)),
  .result = { "y" },
  .save_in = 7,
  .save_out = 1,
  RG_ARGS(rg_linear_args, linear_args),
  .infer = linear_infer,
  .grad = rg_linear_grad,
  .save = rg_linear_save,
  .cost = linear_cost,
};

const rg_op rg_op_linear_dropout = {
  .name = "linear_dropout",
  .doc = "linear, and dropout in the same pass",
  .id = RG_OP_LINEAR_DROPOUT,
  .amp = RG_AMP_LOWER,
  RG_INPUTS(RG_IN("x", INPUT, FLOAT), RG_IN("w", WEIGHT, FLOAT), RG_OPTIONAL("b", BIAS, FLOAT)),
  .result = { "y", "draw" },
  .save_in = 7,
  .save_out = 1,
  .n_hidden = 1,
  .draws = true,
  RG_ARGS(rg_linear_args, linear_dropout_args),
  .infer = dropout_infer,
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

rg_status rg_linear_dropout(const rg_tensor *x, const rg_tensor *w, const rg_tensor *b, int32_t act,
                            double p, rg_generator *generator, rg_tensor **out)
{
  rg_call call = { .op = &rg_op_linear_dropout,
                   .in = (const rg_tensor *const[]){ x, w, b },
                   .n_in = 3,
                   .args = &(rg_linear_args){ .act = act, .p = p },
                   .generator = generator };

  return rg_run_fresh(&call, out);
}
