/* SPDX-License-Identifier: MIT */
/*
** Dropout (Srivastava et al., 2014), scaled while training: signature, numbers taken, gradient,
** cost, public entry.  The kernel is core/cpu/dropout.c.
**
** The mask is a function of the call's draw, which is a hidden result of two integers: the gradient
** makes the same mask again from it, in a replayed plan too.
*/
#include "op/dropout.h"
#include "op/list.h"
#include "op/rule.h"

extern const rg_op rg_op_dropout;
extern const rg_op rg_op_dropout_back;

rg_meta rg_draw_meta(void)
{
  return (rg_meta){ .dtype = RG_I64, .ndim = 1, .shape = { 2 } };
}

rg_status rg_draw_check(const rg_call *call, const rg_tensor *draw)
{
  char text[96];

  if (draw->_dtype != RG_I64 || draw->_ndim != 1 || draw->_shape[0] != 2 ||
      !rg_is_contiguous(draw)) {
    return rg_fail(RG_ESHAPE, "%s: the draw is %s, wanted i64[2]", call->op->name,
                   rg_tensor_text(draw, text, sizeof(text)));
  }
  return RG_OK;
}

static rg_status dropout_infer(rg_call *call)
{
  const rg_dropout_args *args = call->args;

  RG_TRY(rg_check_args(call));
  call->out[0] = rg_meta_of(call->in[0]);
  call->out[1] = rg_draw_meta();
  call->n_out = 2;
  call->n_draws = args->p > 0 ? call->in[0]->_count : 0;
  return RG_OK;
}

static rg_cost dropout_cost(const rg_call *call)
{
  const double flops_a_number = 25.0; /* see op/random.c */

  return rg_cost_of(call, (double)call->in[0]->_count + flops_a_number * (double)call->n_draws);
}

rg_value rg_rule_dropped(rg_rule *r, rg_value dy, rg_value draw, double p)
{
  rg_tensor *out = NULL;
  rg_status status = r->f.status;

  if (status == RG_OK && p == 0) {
    return dy;
  }
  if (status == RG_OK) {
    status = rg_dropout_back(dy, draw, p, &out);
  }
  return rg_f_took(&r->f, status, out);
}

static rg_status dropout_grad(rg_grad *g)
{
  const rg_dropout_args *args = g->call->args;
  rg_rule r = rg_rule_of(g);

  rg_rule_give(&r, 0, rg_rule_dropped(&r, r.dy, g->out[1], args->p));
  return rg_rule_end(&r);
}

static const rg_arg dropout_args[] = { RG_DROPOUT_ARGS(RG_ARG_ROW, rg_dropout_args, ) };

const rg_op rg_op_dropout = {
  .name = "dropout",
  .doc = "elements set to 0 with probability p, the others scaled by 1/(1-p)",
  .id = RG_OP_DROPOUT,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", INPUT, FLOAT)),
  .result = { "y", "draw" },
  .method = true,
  RG_ARGS(rg_dropout_args, dropout_args),
  .draws = true,
  .n_hidden = 1,
  .infer = dropout_infer,
  .grad = dropout_grad,
  .cost = dropout_cost,
};

/* -- The same elements again ------------------------------------------------------------ */

static rg_status back_infer(rg_call *call)
{
  RG_TRY(rg_draw_check(call, call->in[1]));
  RG_TRY(rg_check_args(call));
  call->out[0] = rg_meta_of(call->in[0]);
  call->n_out = 1;
  return RG_OK;
}

static rg_cost back_cost(const rg_call *call)
{
  const double flops_a_number = 25.0; /* see op/random.c */

  return rg_cost_of(call, (1.0 + flops_a_number) * (double)call->in[0]->_count);
}

static rg_status back_grad(rg_grad *g)
{
  const rg_dropout_args *args = g->call->args;
  rg_rule r = rg_rule_of(g);

  rg_rule_give(&r, 0, rg_rule_dropped(&r, r.dy, rg_rule_in(&r, 1), args->p));
  return rg_rule_end(&r);
}

const rg_op rg_op_dropout_back = {
  .name = "dropout_back",
  .doc = "dropout with the mask of an earlier draw: its gradient",
  .id = RG_OP_DROPOUT_BACK,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("dy", INPUT, FLOAT), RG_IN("draw", BITS, ANY)),
  .result = { "dx" },
  .save_in = 2,
  RG_ARGS(rg_dropout_args, dropout_args),
  .infer = back_infer,
  .grad = back_grad,
  .cost = back_cost,
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

rg_status rg_dropout_(rg_tensor *x, double p, rg_generator *generator)
{
  rg_call call = { .op = &rg_op_dropout,
                   .in = (const rg_tensor *const[]){ x },
                   .n_in = 1,
                   .args = &(rg_dropout_args){ .p = p },
                   .generator = generator };

  RG_TRY(rg_tensor_check(x, "dropout_"));
  return rg_run(&call, (rg_tensor *[RG_MAX_OUT]){ x });
}

rg_status rg_dropout_back(const rg_tensor *dy, const rg_tensor *draw, double p, rg_tensor **out)
{
  return rg_run1(&rg_op_dropout_back, (const rg_tensor *const[]){ dy, draw }, 2,
                 &(rg_dropout_args){ .p = p }, out);
}
