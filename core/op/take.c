/* SPDX-License-Identifier: MIT */
/*
** Gathering rows of a table by index: batches of a data set, embeddings.  Signatures, shape rules,
** gradients, costs, public entries; the kernels are in core/cpu/take.c.
*/
#include "op/list.h"
#include "op/rule.h"
#include "op/take.h"

extern const rg_op rg_op_take;
extern const rg_op rg_op_take_back;

static rg_status infer(rg_call *call)
{
  rg_meta *out = &call->out[0];
  char a[96];
  char b[96];

  const rg_tensor *x = call->in[0];
  const rg_tensor *index = call->in[1];

  if (x->_ndim < 1 || x->_ndim - 1 + index->_ndim > RG_MAX_DIMS) {
    return rg_fail(RG_ESHAPE, "%s: rows of %s by an index %s make %d axes; 1 to %d are possible",
                   call->op->name, rg_tensor_text(x, a, sizeof(a)),
                   rg_tensor_text(index, b, sizeof(b)), x->_ndim - 1 + index->_ndim, RG_MAX_DIMS);
  }
  out->dtype = x->_dtype;
  out->ndim = 0;
  for (int32_t i = 0; i < index->_ndim; i++) {
    out->shape[out->ndim++] = index->_shape[i];
  }
  for (int32_t i = 1; i < x->_ndim; i++) {
    out->shape[out->ndim++] = x->_shape[i];
  }
  call->n_out = 1;
  return RG_OK;
}

static rg_status grad(rg_grad *g)
{
  rg_rule r = rg_rule_of(g);
  rg_tensor *out = NULL;
  rg_status status = r.f.status;

  if (status == RG_OK) {
    rg_rule_into(&r, 0, &rg_op_take_back, 0);
    status = rg_take_back(r.dy, rg_rule_in(&r, 1), g->in[0].shape[0], &out);
  }
  rg_rule_give(&r, 0, rg_f_took(&r.f, status, out));
  return rg_rule_end(&r);
}

/* Each row is read and written once. */
static rg_cost cost(const rg_call *call)
{
  rg_cost cost = { .bytes = 2.0 * (double)rg_meta_bytes(&call->out[0]) };

  cost.bytes += (double)rg_tensor_bytes(call->in[1]);
  return cost;
}

static const rg_arg take_args[] = { RG_TAKE_ARGS(RG_ARG_ROW, rg_take_args, ) };

const rg_op rg_op_take = {
  .name = "take",
  .doc = "rows of x gathered by index, from 0",
  .id = RG_OP_TAKE,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", NATIVE, STORED), RG_IN("index", INDEX, WHOLE)),
  .result = { "y" },
  .method = true,
  .stored = true,
  .save_in = 2,
  .infer = infer,
  .grad = grad,
  .cost = cost,
};

rg_status rg_take(const rg_tensor *x, const rg_tensor *index, rg_tensor **out)
{
  return rg_run1(&rg_op_take, (const rg_tensor *const[]){ x, index }, 2, NULL, out);
}

/* -- Back --------------------------------------------------------------------------------- */

static rg_status back_infer(rg_call *call)
{
  const rg_take_args *args = call->args;
  rg_meta *out = &call->out[0];
  char a[96];
  char b[96];

  const rg_tensor *dy = call->in[0];
  const rg_tensor *index = call->in[1];
  bool fits = dy->_ndim >= index->_ndim && dy->_ndim - index->_ndim < RG_MAX_DIMS;

  for (int32_t i = 0; fits && i < index->_ndim; i++) {
    fits = dy->_shape[i] == index->_shape[i];
  }
  if (!fits) {
    return rg_fail(RG_ESHAPE, "%s: %s has no row for each number of %s", call->op->name,
                   rg_tensor_text(dy, a, sizeof(a)), rg_tensor_text(index, b, sizeof(b)));
  }
  if (args->rows < 0) {
    return rg_fail(RG_EARG, "%s: a table of %lld rows", call->op->name, (long long)args->rows);
  }
  out->dtype = dy->_dtype;
  out->ndim = 1;
  out->shape[0] = args->rows;
  for (int32_t i = index->_ndim; i < dy->_ndim; i++) {
    out->shape[out->ndim++] = dy->_shape[i];
  }
  call->n_out = 1;
  if (call->device == RG_CPU && (dy->_dtype == RG_F16 || dy->_dtype == RG_BF16)) {
    call->scratch_bytes = (int64_t)sizeof(float) * rg_meta_count(out); /* added up in f32 */
  }
  return RG_OK;
}

static rg_status back_grad(rg_grad *g)
{
  rg_rule r = rg_rule_of(g);
  rg_tensor *out = NULL;
  rg_status status = r.f.status;

  if (status == RG_OK) {
    status = rg_take(r.dy, rg_rule_in(&r, 1), &out);
  }
  rg_rule_give(&r, 0, rg_f_took(&r.f, status, out));
  return rg_rule_end(&r);
}

static rg_cost back_cost(const rg_call *call)
{
  return rg_cost_of(call, (double)call->in[0]->_count);
}

const rg_op rg_op_take_back = {
  .name = "take_back",
  .doc = "rows added up at their numbers, from 0: the gradient of take",
  .id = RG_OP_TAKE_BACK,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("dy", NATIVE, FLOAT), RG_IN("index", INDEX, WHOLE)),
  .result = { "dx" },
  .save_in = 2,
  RG_ARGS(rg_take_args, take_args),
  .infer = back_infer,
  .grad = back_grad,
  .cost = back_cost,
};

rg_status rg_take_back(const rg_tensor *dy, const rg_tensor *index, int64_t rows, rg_tensor **out)
{
  return rg_run1(&rg_op_take_back, (const rg_tensor *const[]){ dy, index }, 2,
                 &(rg_take_args){ .rows = rows }, out);
}
