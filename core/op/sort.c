/* SPDX-License-Identifier: MIT */
/*
** Putting the elements along an axis in order, and finding the largest or smallest few: shape
** rules, gradients, costs.  The kernels are in core/cpu/sort.c.
**
** Equal elements keep their order.  nan is the largest of all: last, and first where the largest
** come first.
*/
#include <math.h>

#include "op/gather.h"
#include "op/list.h"
#include "op/rule.h"
#include "op/sort.h"

extern const rg_op rg_op_sort;
extern const rg_op rg_op_topk;

/* Values and where they stood, k of them along the axis. */
static void results(rg_call *call, int32_t axis, int64_t k)
{
  const rg_tensor *x = call->in[0];
  int64_t n = x->_shape[axis];

  call->out[0] = rg_meta_of(x);
  call->out[0].shape[axis] = k;
  call->out[1] = call->out[0];
  call->out[1].dtype = RG_I64;
  call->n_out = 2;
  if (call->device == RG_CPU && x->_count > 0) {
    call->scratch_bytes = rg_sort_parts(x->_count / n, n) * rg_sort_room(n);
  }
}

static rg_status sort_infer(rg_call *call)
{
  const rg_sort_args *args = call->args;

  results(call, args->axis, call->in[0]->_shape[args->axis]);
  return RG_OK;
}

static rg_status topk_infer(rg_call *call)
{
  const rg_topk_args *args = call->args;
  const rg_tensor *x = call->in[0];
  char text[96];

  if (args->k < 0 || args->k > x->_shape[args->axis]) {
    return rg_fail(RG_EARG, "%s: %lld elements of axis %d of %s", call->op->name,
                   (long long)args->k, args->axis + 1, rg_tensor_text(x, text, sizeof(text)));
  }
  results(call, args->axis, args->k);
  return RG_OK;
}

/* The gradient of each value goes to where it stood. */
static rg_status back(rg_grad *g, int32_t axis)
{
  rg_rule r = rg_rule_of(g);

  if (r.dy != NULL) {
    rg_rule_give(&r, 0, rg_f_scattered(&r.f, &g->in[0], axis, g->out[1], r.dy));
  }
  return rg_rule_end(&r);
}

static rg_status sort_grad(rg_grad *g)
{
  return back(g, ((const rg_sort_args *)g->call->args)->axis);
}

static rg_status topk_grad(rg_grad *g)
{
  return back(g, ((const rg_topk_args *)g->call->args)->axis);
}

/* Comparisons, at best: log2 n! about n log2 n for a row, and n log2 k for k of it. */
static rg_cost sort_cost(const rg_call *call)
{
  const rg_sort_args *args = call->args;
  double n = (double)call->in[0]->_shape[args->axis];

  return rg_cost_of(call, (double)call->in[0]->_count * log2(n + 1));
}

static rg_cost topk_cost(const rg_call *call)
{
  const rg_topk_args *args = call->args;

  return rg_cost_of(call, (double)call->in[0]->_count * log2((double)args->k + 1));
}

static const rg_arg sort_args[] = { RG_SORT_ARGS(RG_ARG_ROW, rg_sort_args, ) };
static const rg_arg topk_args[] = { RG_TOPK_ARGS(RG_ARG_ROW, rg_topk_args, ) };

const rg_op rg_op_sort = {
  .name = "sort",
  .doc = "the elements along an axis in order, and where each stood, from 0; nan is the largest",
  .id = RG_OP_SORT,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", NATIVE, ANY)),
  .result = { "y", "index" },
  .save_out = 2,
  RG_ARGS(rg_sort_args, sort_args),
  .infer = sort_infer,
  .grad = sort_grad,
  .cost = sort_cost,
};

const rg_op rg_op_topk = {
  .name = "topk",
  .doc = "the k largest along an axis in order, and where each stood, from 0; nan is the largest",
  .id = RG_OP_TOPK,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", NATIVE, ANY)),
  .result = { "y", "index" },
  .save_out = 2,
  RG_ARGS(rg_topk_args, topk_args),
  .infer = topk_infer,
  .grad = topk_grad,
  .cost = topk_cost,
};
