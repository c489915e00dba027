/* SPDX-License-Identifier: MIT */
/*
** Steps of gradient rules: operations whose results are released together at the end.
*/
#include "op/rule.h"

#include <math.h>

rg_rule rg_rule_of(rg_grad *g)
{
  return (rg_rule){ .g = g, .dy = g->dout[0], .y = g->out[0] };
}

rg_status rg_rule_end(rg_rule *r)
{
  while (r->n > 0) {
    rg_tensor_release(r->made[--r->n]);
  }
  return r->status;
}

rg_value rg_rule_in(const rg_rule *r, int32_t i)
{
  return i < r->g->call->n_in ? r->g->call->in[i] : NULL;
}

bool rg_rule_needs(const rg_rule *r, int32_t i)
{
  return i < r->g->call->n_in && r->g->needs[i];
}

/* -- Steps ---------------------------------------------------------------------------- */

rg_value rg_rule_took(rg_rule *r, rg_status status, rg_tensor *out)
{
  if (r->status != RG_OK) {
    return NULL;
  }
  if (status == RG_OK && r->n == RG_RULE_STEPS) {
    rg_tensor_release(out);
    status = rg_fail(RG_EBUG, "%s: its gradient has too many steps", r->g->call->op->name);
  }
  if (status != RG_OK) {
    r->status = status;
    return NULL;
  }
  r->made[r->n++] = out;
  return out;
}

rg_value rg_rule_unary(rg_rule *r, rg_unary_entry *f, rg_value x)
{
  rg_tensor *out = NULL;
  rg_status status = r->status == RG_OK ? f(x, &out) : r->status;

  return rg_rule_took(r, status, out);
}

rg_value rg_rule_binary(rg_rule *r, rg_binary_entry *f, rg_value x, rg_value y)
{
  rg_tensor *out = NULL;
  rg_status status = r->status == RG_OK ? f(x, y, &out) : r->status;

  return rg_rule_took(r, status, out);
}

rg_value rg_rule_number(rg_rule *r, rg_number_entry *f, rg_value x, double value)
{
  rg_tensor *out = NULL;
  rg_status status = r->status == RG_OK ? f(x, value, 0, &out) : r->status;

  return rg_rule_took(r, status, out);
}

rg_value rg_rule_add(rg_rule *r, rg_value x, rg_value y)
{
  return rg_rule_binary(r, rg_add, x, y);
}

rg_value rg_rule_sub(rg_rule *r, rg_value x, rg_value y)
{
  return rg_rule_binary(r, rg_sub, x, y);
}

rg_value rg_rule_mul(rg_rule *r, rg_value x, rg_value y)
{
  return rg_rule_binary(r, rg_mul, x, y);
}

rg_value rg_rule_div(rg_rule *r, rg_value x, rg_value y)
{
  return rg_rule_binary(r, rg_div, x, y);
}

rg_value rg_rule_plus(rg_rule *r, rg_value x, double value)
{
  return rg_rule_number(r, rg_add_scalar, x, value);
}

rg_value rg_rule_times(rg_rule *r, rg_value x, double value)
{
  return rg_rule_number(r, rg_mul_scalar, x, value);
}

rg_value rg_rule_from(rg_rule *r, double value, rg_value x)
{
  rg_tensor *out = NULL;
  rg_status status = r->status == RG_OK ? rg_sub_scalar(x, value, 1, &out) : r->status;

  return rg_rule_took(r, status, out);
}

rg_value rg_rule_cast(rg_rule *r, rg_value x, int32_t dtype)
{
  rg_tensor *out = NULL;
  rg_status status = r->status;

  if (status == RG_OK && x->_dtype == dtype) {
    return x;
  }
  status = status == RG_OK ? rg_cast(x, dtype, &out) : status;
  return rg_rule_took(r, status, out);
}

rg_value rg_rule_sum(rg_rule *r, rg_value x, const int32_t *axes, int32_t n, bool keep)
{
  rg_tensor *out = NULL;
  rg_status status = r->status == RG_OK ? rg_sum(x, axes, n, keep, &out) : r->status;

  return rg_rule_took(r, status, out);
}

rg_value rg_rule_matmul(rg_rule *r, rg_value x, rg_value y)
{
  return rg_rule_binary(r, rg_matmul, x, y);
}

rg_value rg_rule_transposed(rg_rule *r, rg_value x)
{
  rg_tensor *out = NULL;
  rg_status status = r->status == RG_OK ? rg_transpose(x, -1, -2, &out) : r->status;

  return rg_rule_took(r, status, out);
}

rg_value rg_rule_shaped(rg_rule *r, rg_value x, const int64_t *shape, int32_t ndim)
{
  rg_tensor *out = NULL;
  rg_value flat;
  rg_status status;

  if (r->status != RG_OK) {
    return NULL;
  }
  if (rg_view(x, shape, ndim, &out) == RG_OK) {
    return rg_rule_took(r, RG_OK, out);
  }
  flat = rg_rule_unary(r, rg_clone, x); /* the strides do not allow a view */
  status = r->status == RG_OK ? rg_view(flat, shape, ndim, &out) : r->status;
  return rg_rule_took(r, status, out);
}

rg_value rg_rule_expanded(rg_rule *r, rg_value x, const int64_t *shape, int32_t ndim)
{
  rg_tensor *out = NULL;
  rg_status status = r->status == RG_OK ? rg_expand(x, shape, ndim, &out) : r->status;

  return rg_rule_took(r, status, out);
}

rg_value rg_rule_rows(rg_rule *r, rg_value x)
{
  int64_t shape[2];

  if (r->status != RG_OK || x->_ndim == 2) {
    return x;
  }
  shape[1] = x->_shape[x->_ndim - 1];
  shape[0] = 1;
  for (int32_t i = 0; i + 1 < x->_ndim; i++) {
    shape[0] *= x->_shape[i];
  }
  return rg_rule_shaped(r, x, shape, 2);
}

rg_value rg_rule_narrow(rg_rule *r, rg_value x, int32_t axis, int64_t start, int64_t length)
{
  rg_tensor *out = NULL;
  rg_status status = r->status == RG_OK ? rg_narrow(x, axis, start, length, 1, &out) : r->status;

  return rg_rule_took(r, status, out);
}

/* -- What goes out -------------------------------------------------------------------- */

/* x summed over the axes that meta has not, or has with size 1. */
static rg_value reduced(rg_rule *r, rg_value x, const rg_meta *meta)
{
  int32_t axes[RG_MAX_DIMS];
  int32_t n = 0;
  int32_t more;

  if (r->status != RG_OK) {
    return NULL;
  }
  more = x->_ndim - meta->ndim;
  for (int32_t i = 0; i < x->_ndim; i++) {
    if (i < more || (meta->shape[i - more] == 1 && x->_shape[i] != 1)) {
      axes[n++] = i;
    }
  }
  return n == 0 ? x : rg_rule_sum(r, x, axes, n, true);
}

void rg_rule_give(rg_rule *r, int32_t i, rg_value x)
{
  const rg_meta *meta = &r->g->in[i];

  if (!rg_rule_needs(r, i)) {
    return;
  }
  x = reduced(r, x, meta);
  if (r->status == RG_OK && !rg_tensor_shaped(x, meta->shape, meta->ndim)) {
    x = rg_rule_shaped(r, x, meta->shape, meta->ndim);
  }
  if (r->status == RG_OK) {
    x = rg_rule_cast(r, x, meta->dtype);
  }
  if (r->status == RG_OK) {
    r->g->dx[i] = rg_tensor_retain((rg_tensor *)(uintptr_t)x);
  }
}

/* -- Activations ----------------------------------------------------------------------- */

bool rg_rule_act_reads_result(int32_t act)
{
  return act == RG_ACT_NONE || act == RG_ACT_RELU || act == RG_ACT_TANH || act == RG_ACT_SIGMOID;
}

rg_value rg_rule_act(rg_rule *r, int32_t act, rg_value y, rg_value z, rg_value dy)
{
  rg_tensor *out = NULL;
  rg_status status = r->status;

  if (act == RG_ACT_NONE) {
    return dy;
  }
  if (status == RG_OK) {
    status = rg_act_back(dy, rg_rule_act_reads_result(act) ? y : z, act, &out);
  }
  return rg_rule_took(r, status, out);
}
