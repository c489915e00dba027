/* SPDX-License-Identifier: MIT */
/*
** Position of the largest or smallest element: signatures, shape rule, cost, public entries.  The
** kernels are in core/cpu/argmax.c.
*/
#include "op/argmax.h"
#include "op/list.h"
#include "op/op.h"

extern const rg_op rg_op_argmax;
extern const rg_op rg_op_argmin;

static rg_status infer(rg_call *call)
{
  const rg_argmax_args *args = call->args;
  rg_meta *out = &call->out[0];
  char text[96];

  const rg_tensor *x = call->in[0];

  if (x->_shape[args->axis] == 0) {
    return rg_fail(RG_EARG, "%s: axis %d of %s is empty", call->op->name, args->axis + 1,
                   rg_tensor_text(x, text, sizeof(text)));
  }
  out->dtype = RG_I64;
  out->ndim = 0;
  for (int32_t i = 0; i < x->_ndim; i++) {
    if (i != args->axis) {
      out->shape[out->ndim++] = x->_shape[i];
    } else if (args->keep) {
      out->shape[out->ndim++] = 1;
    }
  }
  call->n_out = 1;
  return RG_OK;
}

static rg_cost cost(const rg_call *call)
{
  return rg_cost_of(call, (double)call->in[0]->_count);
}

static const rg_arg argmax_args[] = { RG_ARGMAX_ARGS(RG_ARG_ROW, rg_argmax_args, ) };

const rg_op rg_op_argmax = {
  .name = "argmax",
  .doc = "position of the first largest element along an axis; nan wins",
  .id = RG_OP_ARGMAX,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", INPUT, ANY)),
  .result = { "i" },
  .method = true,
  RG_ARGS(rg_argmax_args, argmax_args),
  .infer = infer,
  .cost = cost,
};

const rg_op rg_op_argmin = {
  .name = "argmin",
  .doc = "position of the first smallest element along an axis; nan wins",
  .id = RG_OP_ARGMIN,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", INPUT, ANY)),
  .result = { "i" },
  .method = true,
  RG_ARGS(rg_argmax_args, argmax_args),
  .infer = infer,
  .cost = cost,
};

static rg_status position(const rg_op *op, const rg_tensor *x, int32_t axis, int32_t keep,
                          rg_tensor **out)
{
  rg_argmax_args args = { .keep = keep != 0 };

  RG_TRY(rg_tensor_check(x, op->name));
  RG_TRY(rg_axis_resolve(op, x, axis, &args.axis));
  return rg_run1(op, (const rg_tensor *const[]){ x }, 1, &args, out);
}

rg_status rg_argmax(const rg_tensor *x, int32_t axis, int32_t keep, rg_tensor **out)
{
  return position(&rg_op_argmax, x, axis, keep, out);
}

rg_status rg_argmin(const rg_tensor *x, int32_t axis, int32_t keep, rg_tensor **out)
{
  return position(&rg_op_argmin, x, axis, keep, out);
}
