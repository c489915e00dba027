/* SPDX-License-Identifier: MIT */
/*
** Choosing between two tensors, element by element: signature, shape and type rules, gradient,
** cost, public entry.  The kernel is core/cpu/where.c; it moves bits and computes nothing.
*/
#include <string.h>

#include "op/list.h"
#include "op/rule.h"

extern const rg_op rg_op_where;

/* -- Shape and type ------------------------------------------------------------------ */

static rg_status infer(rg_call *call)
{
  const rg_tensor *cond = call->in[0];
  const rg_tensor *x = call->in[1];
  const rg_tensor *y = call->in[2];
  rg_tensor both;
  rg_meta meta;
  char text[96];

  if (cond->_dtype != RG_BOOL && cond->_dtype != RG_U8) {
    return rg_fail(RG_EDTYPE, "%s: a condition is bool or u8, got %s", call->op->name,
                   rg_tensor_text(cond, text, sizeof(text)));
  }
  if (x->_dtype != y->_dtype) {
    RG_TRY(rg_check_computes(call->op, x->_dtype));
    RG_TRY(rg_check_computes(call->op, y->_dtype));
  }
  RG_TRY(rg_broadcast(call->op, x, y, &meta));
  both = (rg_tensor){ ._dtype = rg_promote(x->_dtype, y->_dtype), ._ndim = meta.ndim };
  memcpy(both._shape, meta.shape, sizeof(meta.shape));
  RG_TRY(rg_broadcast(call->op, cond, &both, &call->out[0]));
  call->out[0].dtype = both._dtype;
  call->compute = both._dtype;
  call->n_out = 1;
  return RG_OK;
}

/* -- Gradient -------------------------------------------------------------------------- */

/* dy where it was taken from there, else 0: what is infinite on the other side does no harm. */
static rg_value taken(rg_compose *f, rg_value cond, rg_value x, rg_value y)
{
  RG_F_STEP(rg_where(cond, x, y, &out));
}

static rg_status grad(rg_grad *g)
{
  rg_rule r = rg_rule_of(g);
  rg_value cond = rg_rule_in(&r, 0);
  rg_tensor *zero = rg_f_empty(&r.f, r.dy->_dtype, r.dy->_device, NULL, 0);

  if (zero != NULL) {
    rg_f_note(&r.f, rg_fill_(zero, 0));
  }
  if (rg_rule_needs(&r, 1)) {
    rg_rule_give(&r, 1, taken(&r.f, cond, r.dy, zero));
  }
  if (rg_rule_needs(&r, 2)) {
    rg_rule_give(&r, 2, taken(&r.f, cond, zero, r.dy));
  }
  return rg_rule_end(&r);
}

/* -- Record and entry -------------------------------------------------------------------- */

static rg_cost cost(const rg_call *call)
{
  return rg_cost_of(call, (double)rg_meta_count(&call->out[0]));
}

const rg_op rg_op_where = {
  .name = "where",
  .doc = "the element of x where a condition holds, else that of y",
  .id = RG_OP_WHERE,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("cond", BITS, ANY), RG_IN("x", INPUT, STORED), RG_IN("y", INPUT, STORED)),
  .result = { "z" },
  .stored = true,
  .save_in = 1,
  .infer = infer,
  .grad = grad,
  .cost = cost,
};

rg_status rg_where(const rg_tensor *cond, const rg_tensor *x, const rg_tensor *y, rg_tensor **out)
{
  return rg_run1(&rg_op_where, (const rg_tensor *const[]){ cond, x, y }, 3, NULL, out);
}
