/* SPDX-License-Identifier: MIT */
/*
** Filling with one number or a progression: signatures, costs, public entries.  The kernels are in
** core/cpu/fill.c.
*/
#include "op/fill.h"
#include "op/list.h"
#include "op/op.h"

extern const rg_op rg_op_fill;
extern const rg_op rg_op_arange;

/* -- One number -------------------------------------------------------------------- */

static rg_status fill_infer(rg_call *call)
{
  const rg_fill_args *args = call->args;

  call->out[0] = args->meta;
  call->n_out = 1;
  return RG_OK;
}

static rg_cost fill_cost(const rg_call *call)
{
  return rg_cost_of(call, 0.0);
}

static const rg_arg fill_args[] = { RG_FILL_ARGS(RG_ARG_ROW, rg_fill_args, ) };
static const rg_arg arange_args[] = { RG_ARANGE_ARGS(RG_ARG_ROW, rg_arange_args, ) };

const rg_op rg_op_fill = {
  .name = "fill",
  .doc = "every element set to one number",
  .id = RG_OP_FILL,
  .amp = RG_AMP_NONE,
  .result = { "x" },
  .method = true,
  .into = true,
  .stored = true,
  RG_ARGS(rg_fill_args, fill_args),
  .infer = fill_infer,
  .cost = fill_cost,
};

rg_status rg_fill_(rg_tensor *x, double value)
{
  RG_TRY(rg_tensor_check(x, "fill"));
  return rg_run_into(&rg_op_fill, NULL, 0, &(rg_fill_args){ .meta = rg_meta_of(x), .value = value },
                     x);
}

/* -- A progression -------------------------------------------------------------------- */

static rg_status arange_infer(rg_call *call)
{
  const rg_arange_args *args = call->args;

  call->out[0] = args->meta;
  call->n_out = 1;
  return RG_OK;
}

static rg_cost arange_cost(const rg_call *call)
{
  return rg_cost_of(call, 2.0 * (double)rg_meta_count(&call->out[0]));
}

const rg_op rg_op_arange = {
  .name = "arange",
  .doc = "start, start + step, start + 2 step, ... in row-major order",
  .id = RG_OP_ARANGE,
  .amp = RG_AMP_NONE,
  .result = { "x" },
  .into = true,
  .stored = true,
  RG_ARGS(rg_arange_args, arange_args),
  .infer = arange_infer,
  .cost = arange_cost,
};

rg_status rg_arange_(rg_tensor *x, double start, double step)
{
  RG_TRY(rg_tensor_check(x, "arange"));
  return rg_run_into(&rg_op_arange, NULL, 0,
                     &(rg_arange_args){ .meta = rg_meta_of(x), .start = start, .step = step }, x);
}
