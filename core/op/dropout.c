/* SPDX-License-Identifier: MIT */
/*
** Dropout (Srivastava et al., 2014), scaled while training: signature, numbers taken, cost, public
** entry.  The kernel is core/cpu/dropout.c.
**
** The mask is a function of the call's draw, so a gradient needs nothing saved but that.
*/
#include "op/dropout.h"
#include "op/list.h"
#include "op/op.h"

extern const rg_op rg_op_dropout;

static rg_status dropout_infer(rg_call *call)
{
  const rg_dropout_args *args = call->args;

  RG_TRY(rg_check_arity(call, 1));
  RG_TRY(rg_check_float(call, 0));
  if (!(args->p >= 0 && args->p < 1)) {
    return rg_fail(RG_EARG, "%s: p is %g and not in [0, 1)", call->op->name, args->p);
  }
  call->out[0] = rg_meta_of(call->in[0]);
  call->n_out = 1;
  call->n_draws = args->p > 0 ? call->in[0]->_count : 0;
  return RG_OK;
}

static rg_cost dropout_cost(const rg_call *call)
{
  const double flops_a_number = 25.0; /* see op/random.c */

  return rg_cost_of(call, (double)call->in[0]->_count + flops_a_number * (double)call->n_draws);
}

const rg_op rg_op_dropout = {
  .name = "dropout",
  .sig = "dropout(x, p=0.5, generator=nil) -> y",
  .doc = "elements set to 0 with probability p, the others scaled by 1/(1-p)",
  .id = RG_OP_DROPOUT,
  .amp = RG_AMP_NONE,
  .args_size = sizeof(rg_dropout_args),
  .draws = true,
  .infer = dropout_infer,
  .cost = dropout_cost,
};

rg_status rg_dropout(const rg_tensor *x, double p, rg_generator *generator, rg_tensor **out)
{
  rg_call call = { .op = &rg_op_dropout,
                   .in = (const rg_tensor *const[]){ x },
                   .n_in = 1,
                   .args = &(rg_dropout_args){ .p = p },
                   .generator = generator };

  return rg_run_fresh(&call, out);
}
