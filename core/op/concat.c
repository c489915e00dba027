/* SPDX-License-Identifier: MIT */
/*
** Concatenation along an axis: signature, shape rule, cost, public entry.  The kernel is
** core/cpu/concat.c; it converts while it copies.
*/
#include "op/concat.h"
#include "op/list.h"
#include "op/rule.h"

extern const rg_op rg_op_concat;

/* Input i agrees with the first one everywhere but along the axis. */
static rg_status check_input(const rg_call *call, int32_t i, int32_t axis)
{
  const rg_tensor *first = call->in[0];
  const rg_tensor *x = call->in[i];
  char a[96];
  char b[96];
  bool agrees = x->_ndim == first->_ndim;

  for (int32_t d = 0; agrees && d < x->_ndim; d++) {
    agrees = d == axis || x->_shape[d] == first->_shape[d];
  }
  if (!agrees) {
    return rg_fail(RG_ESHAPE, "%s: %s and %s do not join along axis %d", call->op->name,
                   rg_tensor_text(first, a, sizeof(a)), rg_tensor_text(x, b, sizeof(b)), axis + 1);
  }
  return RG_OK;
}

static rg_status concat_infer(rg_call *call)
{
  const rg_concat_args *args = call->args;

  if (call->n_in < 1) {
    return rg_fail(RG_EARG, "%s: no tensors given", call->op->name);
  }
  call->out[0] = rg_meta_of(call->in[0]);
  for (int32_t i = 1; i < call->n_in; i++) {
    RG_TRY(check_input(call, i, args->axis));
    if (call->in[i]->_dtype != call->out[0].dtype) {
      RG_TRY(rg_check_computes(call->op, call->out[0].dtype));
      RG_TRY(rg_check_computes(call->op, call->in[i]->_dtype));
    }
    call->out[0].dtype = rg_promote(call->out[0].dtype, call->in[i]->_dtype);
    call->out[0].shape[args->axis] += call->in[i]->_shape[args->axis];
  }
  call->n_out = 1;
  return RG_OK;
}

static rg_cost concat_cost(const rg_call *call)
{
  return rg_cost_of(call, 0.0);
}

/* Each input's part of the incoming gradient.  Parts are views: as many steps as there
** are inputs would not fit into one rule. */
static rg_status concat_grad(rg_grad *g)
{
  const rg_concat_args *args = g->call->args;
  int64_t at = 0;

  for (int32_t i = 0; i < g->call->n_in; i++) {
    rg_rule r = rg_rule_of(g);
    int64_t size = g->in[i].shape[args->axis];

    if (g->needs[i]) {
      rg_rule_give(&r, i, rg_f_narrow(&r.f, r.dy, args->axis, at, size));
    }
    RG_TRY(rg_rule_end(&r));
    at += size;
  }
  return RG_OK;
}

static const rg_arg concat_args[] = { RG_CONCAT_ARGS(RG_ARG_ROW, rg_concat_args, ) };

const rg_op rg_op_concat = {
  .name = "concat",
  .doc = "tensors joined along an axis",
  .id = RG_OP_CONCAT,
  .amp = RG_AMP_WIDEST,
  RG_INPUTS(RG_LIST("xs", INPUT, STORED)),
  .result = { "y" },
  .stored = true,
  RG_ARGS(rg_concat_args, concat_args),
  .infer = concat_infer,
  .grad = concat_grad,
  .cost = concat_cost,
};

rg_status rg_concat(const rg_tensor *const *xs, int32_t n, int32_t axis, rg_tensor **out)
{
  rg_concat_args args;

  if (xs == NULL || n < 1) {
    return rg_fail(RG_EARG, "concat: no tensors given");
  }
  RG_TRY(rg_tensor_check(xs[0], "concat"));
  RG_TRY(rg_axis_resolve(&rg_op_concat, xs[0], axis, &args.axis));
  return rg_run1(&rg_op_concat, xs, n, &args, out);
}
