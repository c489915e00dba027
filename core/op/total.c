/* SPDX-License-Identifier: MIT */
/*
** The norm of many tensors together: signature, shape rule, cost, public entry.  The kernel is in
** core/cpu/total.c.
*/
#include "op/list.h"
#include "op/rule.h"
#include "ridge/step.h"
#include "op/total.h"

extern const rg_op rg_op_total_norm;

int64_t rg_total_pieces(const rg_tensor *x)
{
  return (x->_count + RG_TOTAL_PIECE - 1) / RG_TOTAL_PIECE;
}

static rg_status infer(rg_call *call)
{
  int64_t pieces = 0;

  if (call->n_in < 1) {
    return rg_fail(RG_EARG, "%s: no tensors given", call->op->name);
  }
  for (int32_t i = 0; i < call->n_in; i++) {
    pieces += rg_total_pieces(call->in[i]);
  }
  call->out[0] = (rg_meta){ .dtype = RG_F64 };
  call->n_out = 1;
  call->scratch_bytes = pieces * (int64_t)sizeof(double);
  return RG_OK;
}

/* dx = x dy / y for each of them; where all is 0, so is the gradient.  There may be more inputs
** than a rule has steps. */
static rg_status grad(rg_grad *g)
{
  rg_rule r = rg_rule_of(g);
  rg_value factor = rg_f_div(&r.f, r.dy, rg_f_number(&r.f, rg_maximum_scalar, r.y, 1e-300));

  for (int32_t i = 0; i < g->call->n_in && r.f.status == RG_OK; i++) {
    rg_tensor *wide = NULL;

    if (g->needs[i]) {
      r.f.status = rg_mul(g->call->in[i], factor, &wide);
    }
    if (wide != NULL) {
      r.f.status = rg_cast(wide, g->in[i].dtype, &g->dx[i]);
    }
    rg_tensor_release(wide);
  }
  return rg_rule_end(&r);
}

static rg_cost cost(const rg_call *call)
{
  double n = 0;

  for (int32_t i = 0; i < call->n_in; i++) {
    n += (double)call->in[i]->_count;
  }
  return rg_cost_of(call, 2 * n);
}

const rg_op rg_op_total_norm = {
  .name = "total_norm",
  .doc = "the Euclidean norm of all elements of all tensors",
  .id = RG_OP_TOTAL_NORM,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_LIST("xs", INPUT, FLOAT)),
  .result = { "y" },
  .save_in = RG_SAVE_ALL,
  .save_out = 1,
  .infer = infer,
  .grad = grad,
  .cost = cost,
};

rg_status rg_total_norm(const rg_tensor *const *xs, int32_t n, rg_tensor **out)
{
  if (xs == NULL || n < 1) {
    return rg_fail(RG_EARG, "total_norm: no tensors given");
  }
  return rg_run1(&rg_op_total_norm, xs, n, NULL, out);
}
