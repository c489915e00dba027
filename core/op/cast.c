/* SPDX-License-Identifier: MIT */
/*
** Conversion to another element type: signature, cost, public entry.  The kernel is
** core/cpu/cast.c.
*/
#include "op/cast.h"
#include "op/list.h"
#include "op/rule.h"

extern const rg_op rg_op_cast;

static rg_status cast_infer(rg_call *call)
{
  const rg_cast_args *args = call->args;

  if (rg_dtype_bytes(args->dtype) == 0) {
    return rg_fail(RG_EDTYPE, "%s: there is no element type %d", call->op->name, args->dtype);
  }
  call->out[0] = rg_meta_of(call->in[0]);
  call->out[0].dtype = args->dtype;
  call->n_out = 1;
  return RG_OK;
}

static rg_cost cast_cost(const rg_call *call)
{
  return rg_cost_of(call, (double)call->in[0]->_count);
}

static rg_status cast_grad(rg_grad *g)
{
  rg_rule r = rg_rule_of(g);

  rg_rule_give(&r, 0, r.dy);
  return rg_rule_end(&r);
}

static const rg_arg cast_args[] = { RG_CAST_ARGS(RG_ARG_ROW, rg_cast_args, ) };

const rg_op rg_op_cast = {
  .name = "cast",
  .doc = "the elements converted to another type",
  .id = RG_OP_CAST,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", INPUT, STORED)),
  .result = { "y" },
  .stored = true,
  RG_ARGS(rg_cast_args, cast_args),
  .infer = cast_infer,
  .grad = cast_grad,
  .cost = cast_cost,
};

rg_status rg_cast(const rg_tensor *x, int32_t dtype, rg_tensor **out)
{
  return rg_run1(&rg_op_cast, (const rg_tensor *const[]){ x }, 1, &(rg_cast_args){ .dtype = dtype },
                 out);
}
