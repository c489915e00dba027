/* SPDX-License-Identifier: MIT */
/*
** Products of 8-bit factors with scales, y = act((x W') x_scale w_scale + b): signature, shape rule
** and cost.  The kernel is core/cpu/scaled.c.
**
** Scales are tensors, so that a kernel reads them where it runs: what was measured on a device
** (the largest number of a row, say) is never waited for.
*/
#include "op/scaled.h"
#include "op/list.h"
#include "op/op.h"
#include "op/product.h"

static bool is_float8(int32_t dtype)
{
  return dtype == RG_F8E4M3 || dtype == RG_F8E5M2;
}

/* -- Checks ---------------------------------------------------------------------------- */

static rg_status check_factors(const rg_call *call)
{
  static const char *const names[2] = { "x", "w" };

  for (int i = 0; i < 2; i++) {
    int32_t dtype = call->in[i]->_dtype;

    if (dtype != RG_I8 && !is_float8(dtype)) {
      return rg_fail(RG_EDTYPE, "%s: %s is %s, wanted i8, f8e4m3 or f8e5m2", call->op->name,
                     names[i], rg_dtype_name(dtype));
    }
  }
  if (is_float8(call->in[0]->_dtype) != is_float8(call->in[1]->_dtype)) {
    return rg_fail(RG_EDTYPE, "%s: x is %s and w is %s; both are i8, or both are f8e4m3 or f8e5m2",
                   call->op->name, rg_dtype_name(call->in[0]->_dtype),
                   rg_dtype_name(call->in[1]->_dtype));
  }
  return RG_OK;
}

/*
** One number for all, or one for each of n rows: as many axes as `lead`, with or without an axis of
** 1 behind them, as a reduction over the rows' elements leaves them.
*/
static rg_status check_scale(const rg_call *call, int32_t i, const int64_t *lead, int32_t n_lead,
                             const char *what)
{
  const rg_tensor *s = call->in[i];
  bool fits = s->_ndim == n_lead || (s->_ndim == n_lead + 1 && s->_shape[n_lead] == 1);
  char text[128];
  char wanted[128];

  if (s->_dtype != RG_F32) {
    return rg_fail(RG_EDTYPE, "%s: %s is %s, wanted f32", call->op->name, what,
                   rg_dtype_name(s->_dtype));
  }
  for (int32_t d = 0; d < n_lead && fits; d++) {
    fits = s->_shape[d] == lead[d];
  }
  if (!fits && s->_count != 1) {
    return rg_fail(RG_ESHAPE, "%s: %s is %s, wanted one number or %s", call->op->name, what,
                   rg_tensor_text(s, text, sizeof(text)),
                   rg_shape_text(lead, n_lead, wanted, sizeof(wanted)));
  }
  return RG_OK;
}

static rg_status check_end(const rg_call *call)
{
  const rg_scaled_args *args = call->args;

  RG_TRY(rg_product_act(call, args->act));
  if (args->dtype != RG_F32 && args->dtype != RG_BF16 && args->dtype != RG_F16) {
    const char *name = rg_dtype_name(args->dtype);

    return rg_fail(RG_EDTYPE, "%s: the result is to be %s, wanted f32, bf16 or f16", call->op->name,
                   name != NULL ? name : "of no type");
  }
  return rg_product_bias(call, 4, call->in[1]->_shape[0]);
}

/* -- The record -------------------------------------------------------------------------- */

static rg_status scaled_infer(rg_call *call)
{
  const rg_scaled_args *args = call->args;
  const rg_tensor *x, *w;

  RG_TRY(check_factors(call));
  x = call->in[0];
  w = call->in[1];
  RG_TRY(rg_product_matrix(call, 1, -1, -1, "the weight"));
  RG_TRY(rg_product_rows(call, w->_shape[1], w->_shape[0], args->dtype, &call->out[0]));
  if (x->_dtype == RG_I8 && w->_shape[1] > RG_SCALED_I8_MOST) {
    return rg_fail(RG_ESHAPE, "%s: sums of %lld products of i8 may not fit into i32; up to %d do",
                   call->op->name, (long long)w->_shape[1], RG_SCALED_I8_MOST);
  }
  RG_TRY(check_scale(call, 2, x->_shape, x->_ndim - 1, "x_scale"));
  RG_TRY(check_scale(call, 3, w->_shape, 1, "w_scale"));
  RG_TRY(check_end(call));
  call->n_out = 1;
  return RG_OK;
}

/* The sums, and two scales for each. */
static rg_cost scaled_cost(const rg_call *call)
{
  return rg_cost_of(call, 2.0 * (double)rg_meta_count(&call->out[0]) *
                              ((double)call->in[1]->_shape[1] + 1.0));
}

static const rg_arg scaled_args[] = { RG_SCALED_ARGS(RG_ARG_ROW, rg_scaled_args, ) };

const rg_op rg_op_scaled_linear = {
  .name = "scaled_linear",
  .doc =
      "8-bit x times the transpose of 8-bit w, times their scales, plus b, through an activation",
  .id = RG_OP_SCALED_LINEAR,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", NATIVE, STORED), RG_IN("w", NATIVE, STORED), RG_IN("x_scale", NATIVE, ANY),
            RG_IN("w_scale", NATIVE, ANY), RG_OPTIONAL("b", NATIVE, FLOAT)),
  .result = { "y" },
  RG_ARGS(rg_scaled_args, scaled_args),
  .infer = scaled_infer,
  .cost = scaled_cost,
};

rg_status rg_scaled_linear(const rg_tensor *x, const rg_tensor *w, const rg_tensor *x_scale,
                           const rg_tensor *w_scale, const rg_tensor *b, int32_t act, int32_t dtype,
                           rg_tensor **out)
{
  return rg_run1(&rg_op_scaled_linear, (const rg_tensor *const[]){ x, w, x_scale, w_scale, b }, 5,
                 &(rg_scaled_args){ .act = act, .dtype = dtype }, out);
}
