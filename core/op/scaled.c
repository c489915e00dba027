/* SPDX-License-Identifier: MIT */
/*
** Products of 8-bit factors with scales, y = act((x W') x_scale w_scale + b): signature, shape rule
** and cost, and what other records of bytes check too.  The kernel is core/cpu/scaled.c.
**
** Scales are tensors, so that a kernel reads them where it runs: what was measured on a device
** (the largest number of a row, say) is never waited for.
*/
#include <string.h>

#include "op/list.h"
#include "op/product.h"
#include "op/scaled.h"
#include "tensor/dtype.h"

static bool is_float8(int32_t dtype)
{
  return dtype == RG_F8E4M3 || dtype == RG_F8E5M2;
}

/* -- Checks that records of bytes share ---------------------------------------------------- */

rg_status rg_scaled_result(const rg_call *call, int32_t dtype)
{
  const char *name = rg_dtype_name(dtype);

  if (dtype == RG_F32 || dtype == RG_BF16 || dtype == RG_F16 || rg_is_bytes(dtype)) {
    return RG_OK;
  }
  return rg_fail(RG_EDTYPE, "%s: the result is to be %s, wanted f32, bf16, f16, i8 or u8",
                 call->op->name, name != NULL ? name : "of no type");
}

rg_status rg_scaled_zero(const rg_call *call, int64_t zero, int32_t dtype, const char *what)
{
  int64_t least = rg_is_bytes(dtype) ? rg_dtypes[dtype].least : 0;
  int64_t most = rg_is_bytes(dtype) ? rg_dtypes[dtype].most : 0;

  if (zero < least || zero > most) {
    return rg_fail(RG_EARG, "%s: %s is %lld, wanted %lld .. %lld beside %s", call->op->name, what,
                   (long long)zero, (long long)least, (long long)most, rg_dtype_name(dtype));
  }
  return RG_OK;
}

rg_status rg_scaled_y_scale(const rg_call *call, int32_t i, int32_t dtype)
{
  const rg_tensor *s = i < call->n_in ? call->in[i] : NULL;
  char text[128];

  if ((s != NULL) != rg_is_bytes(dtype)) {
    return rg_fail(RG_EARG,
                   s != NULL ? "%s: there is a y_scale, and the result is %s, which needs none"
                             : "%s: there is no y_scale, which a result of %s needs",
                   call->op->name, rg_dtype_name(dtype));
  }
  if (s != NULL && s->_dtype != RG_F32) {
    return rg_fail(RG_EDTYPE, "%s: y_scale is %s, wanted f32", call->op->name,
                   rg_dtype_name(s->_dtype));
  }
  if (s != NULL && s->_count != 1) {
    return rg_fail(RG_ESHAPE, "%s: y_scale is %s, wanted one number", call->op->name,
                   rg_tensor_text(s, text, sizeof(text)));
  }
  return RG_OK;
}

rg_status rg_scaled_bias(const rg_call *call, int32_t i, int64_t n)
{
  const rg_tensor *b = i < call->n_in ? call->in[i] : NULL;
  char text[128];

  if (b != NULL && b->_dtype != RG_I32 && !rg_dtype_is_float(b->_dtype)) {
    return rg_fail(RG_EDTYPE, "%s: the bias is %s, wanted a float type or i32", call->op->name,
                   rg_tensor_text(b, text, sizeof(text)));
  }
  return rg_product_bias(call, i, n);
}

/* -- Checks ---------------------------------------------------------------------------- */

static rg_status check_x(const rg_call *call)
{
  int32_t x = call->in[0]->_dtype;
  bool has_scale = call->in[2] != NULL;

  if (!rg_is_bytes(x) && !is_float8(x) && (has_scale || !rg_dtype_is_float(x))) {
    return rg_fail(RG_EDTYPE, "%s: x is %s, wanted i8, u8, f8e4m3 or f8e5m2%s", call->op->name,
                   rg_dtype_name(x), has_scale ? "" : ", or floats that are quantized by rows");
  }
  if (!has_scale && !rg_dtype_is_float(x)) {
    return rg_fail(RG_EARG, "%s: there is no x_scale, which x of %s needs", call->op->name,
                   rg_dtype_name(x));
  }
  return RG_OK;
}

static rg_status check_factors(const rg_call *call)
{
  int32_t x = call->in[0]->_dtype;
  int32_t w = call->in[1]->_dtype;

  RG_TRY(check_x(call));
  if (w != RG_I8 && !is_float8(w)) {
    return rg_fail(RG_EDTYPE, "%s: w is %s, wanted i8, f8e4m3 or f8e5m2", call->op->name,
                   rg_dtype_name(w));
  }
  if (!is_float8(x) && x != RG_I8 && w != RG_I8) {
    return rg_fail(RG_EDTYPE, "%s: w is %s, wanted i8 beside %s", call->op->name, rg_dtype_name(w),
                   rg_dtype_name(x));
  }
  if (is_float8(x) != is_float8(w)) {
    return rg_fail(RG_EDTYPE, "%s: x is %s and w is %s; both are i8, or both are f8e4m3 or f8e5m2",
                   call->op->name, rg_dtype_name(x), rg_dtype_name(w));
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
  int32_t x = call->in[0]->_dtype;

  RG_TRY(rg_product_act(call, args->act));
  RG_TRY(rg_scaled_result(call, args->dtype));
  if (is_float8(x) && rg_is_bytes(args->dtype)) {
    return rg_fail(RG_EDTYPE, "%s: the result is to be %s, wanted f32, bf16 or f16 beside %s",
                   call->op->name, rg_dtype_name(args->dtype), rg_dtype_name(x));
  }
  if (is_float8(x) && call->n_in > 4 && call->in[4] != NULL && call->in[4]->_dtype == RG_I32) {
    return rg_fail(RG_EDTYPE, "%s: the bias is i32, wanted a float type beside %s", call->op->name,
                   rg_dtype_name(x));
  }
  RG_TRY(rg_scaled_bias(call, 4, call->in[1]->_shape[0]));
  RG_TRY(rg_scaled_y_scale(call, 5, args->dtype));
  RG_TRY(rg_scaled_zero(call, args->x_zero, x, "x_zero"));
  return rg_scaled_zero(call, args->y_zero, args->dtype, "y_zero");
}

/* How many products of bytes a sum may have. */
static int64_t depth_most(const rg_call *call)
{
  const rg_scaled_args *args = call->args;

  return call->in[0]->_dtype == RG_U8 || args->x_zero != 0 ? RG_SCALED_MOST : RG_SCALED_I8_MOST;
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
  if (w->_dtype == RG_I8 && w->_shape[1] > depth_most(call)) {
    return rg_fail(RG_ESHAPE, "%s: sums of %lld products of %s may not fit into i32; up to %lld do",
                   call->op->name, (long long)w->_shape[1],
                   rg_is_bytes(x->_dtype) ? rg_dtype_name(x->_dtype) : "i8",
                   (long long)depth_most(call));
  }
  if (call->in[2] != NULL) {
    RG_TRY(check_scale(call, 2, x->_shape, x->_ndim - 1, "x_scale"));
  }
  RG_TRY(check_scale(call, 3, w->_shape, 1, "w_scale"));
  RG_TRY(check_end(call));
  call->n_out = 1;
  if (call->in[2] == NULL && call->device == RG_CPU) {
    int64_t rows = 1; /* which rows of nothing are, too: each has its scale */

    for (int32_t d = 0; d < x->_ndim - 1; d++) {
      rows *= x->_shape[d];
    }
    call->scratch_bytes = rg_round_up(rows * (int64_t)sizeof(float), 64) + rows * w->_shape[1];
  }
  return RG_OK;
}

/* The sums, and two scales for each. */
static rg_cost scaled_cost(const rg_call *call)
{
  return rg_cost_of(call, 2.0 * (double)rg_meta_count(&call->out[0]) *
                              ((double)call->in[1]->_shape[1] + 1.0));
}

static const rg_arg scaled_args[] = { RG_SCALED_LINEAR_OPTIONS(RG_ARG_ROW, rg_scaled_args, ) };

const rg_op rg_op_scaled_linear = {
  .name = "scaled_linear",
  .doc =
      "8-bit x times the transpose of 8-bit w, times their scales, plus b, through an activation",
  .id = RG_OP_SCALED_LINEAR,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", NATIVE, STORED), RG_IN("w", NATIVE, STORED),
            RG_OPTIONAL("x_scale", NATIVE, ANY), RG_IN("w_scale", NATIVE, ANY),
            RG_OPTIONAL("b", NATIVE, ANY), RG_OPTIONAL("y_scale", NATIVE, ANY)),
  .result = { "y" },
  RG_ARGS(rg_scaled_args, scaled_args),
  .infer = scaled_infer,
  .cost = scaled_cost,
};

rg_status rg_scaled_linear(const rg_tensor *x, const rg_tensor *w, const rg_tensor *x_scale,
                           const rg_tensor *w_scale, const rg_tensor *b, int32_t act, int32_t dtype,
                           rg_tensor **out)
{
  return rg_scaled_linear_with(x, w, x_scale, w_scale, b, NULL,
                               &(rg_scaled_linear_options){ .act = act, .dtype = dtype }, out);
}

rg_status rg_scaled_linear_with(const rg_tensor *x, const rg_tensor *w, const rg_tensor *x_scale,
                                const rg_tensor *w_scale, const rg_tensor *b,
                                const rg_tensor *y_scale, const rg_scaled_linear_options *options,
                                rg_tensor **out)
{
  rg_scaled_args args;

  memset(&args, 0, sizeof(args)); /* graphs compare arguments byte by byte */
  if (options != NULL) {
    args = *options;
  }
  return rg_run1(&rg_op_scaled_linear,
                 (const rg_tensor *const[]){ x, w, x_scale, w_scale, b, y_scale }, 6, &args, out);
}
