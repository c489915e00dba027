/* SPDX-License-Identifier: MIT */
/*
** Convolutions of bytes with scales: signature, shape rule and cost.  The kernel is
** core/cpu/scaled_conv.c.
**
** Scales are tensors, as those of scaled_linear; zero points are arguments, since they say what
** packed weights are corrected by and what stands around an image.
*/
#include <stdio.h>
#include <string.h>

#include "op/conv.h"
#include "op/list.h"
#include "op/product.h"
#include "op/scaled.h"
#include "tensor/dtype.h"

/* -- Checks ------------------------------------------------------------------------------- */

static rg_status check_types(const rg_call *call)
{
  const rg_scaled_conv2d_more *more = &((const rg_scaled_conv2d_args *)call->args)->more;

  if (!rg_is_bytes(call->in[0]->_dtype)) {
    return rg_fail(RG_EDTYPE, "%s: x is %s, wanted i8 or u8", call->op->name,
                   rg_dtype_name(call->in[0]->_dtype));
  }
  if (call->in[1]->_dtype != RG_I8) {
    return rg_fail(RG_EDTYPE, "%s: w is %s, wanted i8", call->op->name,
                   rg_dtype_name(call->in[1]->_dtype));
  }
  return rg_scaled_result(call, more->dtype);
}

/* One number, or one for each of n channels where n is above 0. */
static rg_status check_scale(const rg_call *call, int32_t i, int64_t n, const char *what)
{
  const rg_tensor *s = call->in[i];
  char text[128];
  char wanted[48] = "";

  if (s->_dtype != RG_F32) {
    return rg_fail(RG_EDTYPE, "%s: %s is %s, wanted f32", call->op->name, what,
                   rg_dtype_name(s->_dtype));
  }
  if (s->_count != 1 && (n == 0 || s->_ndim != 1 || s->_shape[0] != n)) {
    if (n > 0) {
      (void)snprintf(wanted, sizeof(wanted), " or [%lld]", (long long)n);
    }
    return rg_fail(RG_ESHAPE, "%s: %s is %s, wanted one number%s", call->op->name, what,
                   rg_tensor_text(s, text, sizeof(text)), wanted);
  }
  return RG_OK;
}

/* -- The record --------------------------------------------------------------------------- */

static rg_status scaled_conv2d_infer(rg_call *call)
{
  const rg_scaled_conv2d_more *more = &((const rg_scaled_conv2d_args *)call->args)->more;
  int64_t depth;

  RG_TRY(rg_conv2d_check(call));
  RG_TRY(check_types(call));
  RG_TRY(rg_conv2d_shape(call, 4, more->dtype));
  const rg_tensor *w = call->in[1];
  depth = w->_shape[1] * w->_shape[2] * w->_shape[3];
  if (depth > RG_SCALED_MOST) {
    return rg_fail(RG_ESHAPE, "%s: sums of %lld products may not fit into i32; up to %d do",
                   call->op->name, (long long)depth, RG_SCALED_MOST);
  }
  RG_TRY(check_scale(call, 2, 0, "x_scale"));
  RG_TRY(check_scale(call, 3, w->_shape[0], "w_scale"));
  RG_TRY(rg_scaled_bias(call, 4, w->_shape[0]));
  RG_TRY(rg_scaled_y_scale(call, 5, more->dtype));
  RG_TRY(rg_scaled_zero(call, more->x_zero, call->in[0]->_dtype, "x_zero"));
  return rg_scaled_zero(call, more->y_zero, more->dtype, "y_zero");
}

/* The sums, and two scales for each. */
static rg_cost scaled_conv2d_cost(const rg_call *call)
{
  rg_conv2d_sizes s = rg_conv2d_sizes_of(call);

  return rg_cost_of(call, 2.0 * (double)rg_meta_count(&call->out[0]) *
                              ((double)(s.c / s.groups) * (double)(s.w[0] * s.w[1]) + 1.0));
}

static const rg_arg scaled_conv2d_args[] = {
  RG_CONV2D_OPTIONS(RG_ARG_ROW, rg_scaled_conv2d_args, conv.o.)
      RG_SCALED_CONV2D_MORE(RG_ARG_ROW, rg_scaled_conv2d_args, more.)
};

const rg_op rg_op_scaled_conv2d = {
  .name = "scaled_conv2d",
  .doc = "conv2d of bytes, times their scales, plus b, through an activation; bytes again if asked",
  .id = RG_OP_SCALED_CONV2D,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", NATIVE, ANY), RG_IN("w", NATIVE, ANY), RG_IN("x_scale", NATIVE, ANY),
            RG_IN("w_scale", NATIVE, ANY), RG_OPTIONAL("b", NATIVE, ANY),
            RG_OPTIONAL("y_scale", NATIVE, ANY)),
  .result = { "y" },
  RG_ARGS(rg_scaled_conv2d_args, scaled_conv2d_args),
  .infer = scaled_conv2d_infer,
  .cost = scaled_conv2d_cost,
};

rg_status rg_scaled_conv2d(const rg_tensor *x, const rg_tensor *w, const rg_tensor *x_scale,
                           const rg_tensor *w_scale, const rg_tensor *b, const rg_tensor *y_scale,
                           const rg_scaled_conv2d_options *options, rg_tensor **out)
{
  rg_scaled_conv2d_args args;

  memset(&args, 0, sizeof(args));
  args.conv = rg_conv2d_args_of(options != NULL ? &options->conv : NULL);
  if (options != NULL) {
    args.more = options->more;
  }
  return rg_run1(&rg_op_scaled_conv2d,
                 (const rg_tensor *const[]){ x, w, x_scale, w_scale, b, y_scale }, 6, &args, out);
}
