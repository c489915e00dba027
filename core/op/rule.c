/* SPDX-License-Identifier: MIT */
/*
** Gradient rules: what they begin with, what they give out.
*/
#include "op/rule.h"

#include <math.h>

#include "op/act.h"
#include "tensor/scope.h"

rg_rule rg_rule_of(rg_grad *g)
{
  return (rg_rule){ .f = { .what = g->call->op->name }, .g = g, .dy = g->dout[0], .y = g->out[0] };
}

rg_status rg_rule_end(rg_rule *r)
{
  return rg_f_end(&r->f);
}

rg_value rg_rule_in(const rg_rule *r, int32_t i)
{
  return i < r->g->call->n_in ? r->g->call->in[i] : NULL;
}

bool rg_rule_needs(const rg_rule *r, int32_t i)
{
  return i < r->g->call->n_in && r->g->needs[i];
}

/* -- What goes out -------------------------------------------------------------------- */

extern const rg_op rg_op_sum, rg_op_cast;

void rg_rule_into(const rg_rule *r, int32_t in, const rg_op *op, int32_t i)
{
  if (r->f.status == RG_OK && r->g->target != NULL && rg_rule_needs(r, in)) {
    rg_target(op, i, r->g->target(r->g, in));
  }
}

/* x summed over the axes that meta, that of input `in`, has not, or has with size 1. */
static rg_value reduced(rg_rule *r, rg_value x, int32_t in, const rg_meta *meta)
{
  int32_t axes[RG_MAX_DIMS];
  int32_t n = 0;
  int32_t more;

  if (r->f.status != RG_OK) {
    return NULL;
  }
  more = x->_ndim - meta->ndim;
  for (int32_t i = 0; i < x->_ndim; i++) {
    if (i < more || (meta->shape[i - more] == 1 && x->_shape[i] != 1)) {
      axes[n++] = i;
    }
  }
  if (n == 0) {
    return x;
  }
  rg_rule_into(r, in, &rg_op_sum, 0);
  return rg_f_sum(&r->f, x, axes, n, true);
}

void rg_rule_give(rg_rule *r, int32_t i, rg_value x)
{
  const rg_meta *meta = &r->g->in[i];

  if (!rg_rule_needs(r, i)) {
    return;
  }
  x = reduced(r, x, i, meta);
  if (r->f.status == RG_OK && !rg_tensor_shaped(x, meta->shape, meta->ndim)) {
    x = rg_f_shaped(&r->f, x, meta->shape, meta->ndim);
  }
  if (r->f.status == RG_OK && x->_dtype != meta->dtype) {
    rg_rule_into(r, i, &rg_op_cast, 0);
    x = rg_f_cast(&r->f, x, meta->dtype);
  }
  if (r->f.status == RG_OK) {
    r->g->dx[i] = rg_f_hold(x);
    rg_target_drop(r->g->target != NULL ? r->g->target(r->g, i) : NULL);
  }
}

/* -- Activations ----------------------------------------------------------------------- */

bool rg_rule_act_reads_result(int32_t act)
{
  return act != RG_ACT_GELU && act != RG_ACT_SILU;
}

extern const rg_op rg_op_act_back;

/* May a gradient be overwritten?  Nobody else has it, and nobody will go back through it or look
** at what it was. */
static bool is_ours(rg_value dy)
{
  int32_t recording = rg_grad_mode(0);
  int32_t anomaly = rg_grad_anomaly(0);

  rg_grad_mode(recording);
  rg_grad_anomaly(anomaly);
  return recording == 0 && anomaly == 0 && rg_is_contiguous(dy) && rg_tensor_is_sole(dy);
}

rg_value rg_rule_act(rg_rule *r, int32_t act, rg_value y, rg_value z, rg_value dy)
{
  rg_value x = rg_rule_act_reads_result(act) ? y : z;
  rg_act_args args = { .act = act };
  rg_tensor *out = NULL;
  rg_status status = r->f.status;

  if (act == RG_ACT_NONE) {
    return dy;
  }
  if (status == RG_OK && dy->_dtype == rg_promote(dy->_dtype, x->_dtype) && is_ours(dy)) {
    rg_f_note(&r->f, rg_run_into(&rg_op_act_back, (const rg_tensor *const[]){ dy, x }, 2, &args,
                                 (rg_tensor *)(uintptr_t)dy));
    return r->f.status == RG_OK ? dy : NULL;
  }
  if (status == RG_OK) {
    status = rg_act_back(dy, x, act, &out);
  }
  return rg_f_took(&r->f, status, out);
}
