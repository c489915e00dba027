/* SPDX-License-Identifier: MIT */
/*
** Numbers as bytes with scales and zero points, and back: shape rules and costs.  The kernels are
** in core/cpu/quantize.c.
**
**   q = saturate(round(x / scale) + zero),   x = (q - zero) scale
**
** as ONNX's QuantizeLinear and DequantizeLinear say it, so that the same bytes come out.  Scales
** are tensors, which kernels read where they run.
*/
#include "op/quantize.h"
#include "op/list.h"
#include "tensor/dtype.h"

extern const rg_op rg_op_quantize;
extern const rg_op rg_op_dequantize;
extern const rg_op rg_op_quantize_rows;

static bool is_bytes(int32_t dtype)
{
  return dtype == RG_I8 || dtype == RG_U8;
}

/* -- Scales ------------------------------------------------------------------------------- */

rg_quantize_spread rg_quantize_spread_of(const rg_tensor *x, int32_t axis, int64_t group)
{
  rg_quantize_spread s = { .n = 1, .inner = 1, .group = group, .blocks = 1 };

  if (x->_ndim > 0) {
    s.n = x->_shape[axis];
  }
  for (int32_t d = axis + 1; d < x->_ndim; d++) {
    s.inner *= x->_shape[d];
  }
  if (group > 0 && s.n > group) {
    s.blocks = s.n / group + (s.n % group > 0);
  }
  return s;
}

/* Are there as many numbers as places on the axis, or as blocks beside the other axes?  The axis
** itself may be left out where it is the last and one block. */
static bool fits(const rg_tensor *s, const rg_tensor *x, int32_t axis, const rg_quantize_spread *at)
{
  if (s->_count == 1) {
    return true;
  }
  if (at->group == 0) {
    return s->_ndim == 1 && s->_shape[0] == at->n;
  }
  bool without = s->_ndim == x->_ndim - 1 && axis == x->_ndim - 1 && at->blocks == 1;

  if (s->_ndim != x->_ndim && !without) {
    return false;
  }
  for (int32_t d = 0; d < s->_ndim; d++) {
    if (s->_shape[d] != (d == axis ? at->blocks : x->_shape[d])) {
      return false;
    }
  }
  return true;
}

static rg_status check_spread(const rg_call *call, int32_t i, int32_t axis, int64_t group)
{
  const rg_tensor *x = call->in[0];
  const rg_tensor *s = call->in[i];
  rg_quantize_spread at = rg_quantize_spread_of(x, axis, group);
  rg_meta wanted = rg_meta_of(x);
  char given[128];
  char text[128];

  if (fits(s, x, axis, &at)) {
    return RG_OK;
  }
  if (group == 0) {
    wanted.ndim = 1;
    wanted.shape[0] = at.n;
  } else {
    wanted.shape[axis] = at.blocks;
  }
  return rg_fail(RG_ESHAPE, "%s: %s is %s, wanted one number or %s", call->op->name,
                 call->op->input[i].name, rg_tensor_text(s, given, sizeof(given)),
                 rg_shape_text(wanted.shape, wanted.ndim, text, sizeof(text)));
}

/* bytes: the type of the quantized side. */
static rg_status check_scales(const rg_call *call, int32_t axis, int64_t group, int32_t bytes)
{
  const rg_tensor *zero = call->n_in > 2 ? call->in[2] : NULL;

  if (group < 0) {
    return rg_fail(RG_EARG, "%s: groups of %lld elements, wanted 0 or more", call->op->name,
                   (long long)group);
  }
  if (call->in[1]->_dtype != RG_F32) {
    return rg_fail(RG_EDTYPE, "%s: scale is %s, wanted f32", call->op->name,
                   rg_dtype_name(call->in[1]->_dtype));
  }
  RG_TRY(check_spread(call, 1, axis, group));
  if (zero == NULL) {
    return RG_OK;
  }
  if (!is_bytes(bytes)) {
    return rg_fail(RG_EDTYPE, "%s: there is a zero beside %s, which has none", call->op->name,
                   rg_dtype_name(bytes));
  }
  if (zero->_dtype != bytes) {
    return rg_fail(RG_EDTYPE, "%s: zero is %s, wanted %s, the type it stands in", call->op->name,
                   rg_dtype_name(zero->_dtype), rg_dtype_name(bytes));
  }
  return check_spread(call, 2, axis, group);
}

/* Scales and zero points side by side, in f32. */
static void take_room(rg_call *call)
{
  int64_t count = call->in[1]->_count;

  if (call->n_in > 2 && call->in[2] != NULL) {
    count = rg_max_i64(count, call->in[2]->_count);
  }
  call->scratch_bytes = 2 * rg_round_up(count * (int64_t)sizeof(float), 64);
}

static rg_status refuse(const rg_call *call, int32_t dtype, const char *wanted)
{
  const char *name = rg_dtype_name(dtype);

  return rg_fail(RG_EDTYPE, "%s: the result is to be %s, wanted %s", call->op->name,
                 name != NULL ? name : "of no type", wanted);
}

/* -- To bytes --------------------------------------------------------------------------------- */

static rg_status quantize_infer(rg_call *call)
{
  const rg_quantize_args *args = call->args;

  if (!is_bytes(args->dtype)) {
    return refuse(call, args->dtype, "i8 or u8");
  }
  RG_TRY(check_scales(call, args->axis, args->group, args->dtype));
  call->out[0] = rg_meta_of(call->in[0]);
  call->out[0].dtype = args->dtype;
  call->n_out = 1;
  take_room(call);
  return RG_OK;
}

/* A division, rounding, a sum and two comparisons. */
/* Is there a zero point? */
static double moved(const rg_call *call)
{
  return call->n_in > 2 && call->in[2] != NULL;
}

static rg_cost quantize_cost(const rg_call *call)
{
  /* divided, cut twice, rounded, moved */
  return rg_cost_of(call, (4.0 + moved(call)) * (double)call->in[0]->_count);
}

static const rg_arg quantize_args[] = { RG_QUANTIZE_ARGS(RG_ARG_ROW, rg_quantize_args, ) };

const rg_op rg_op_quantize = {
  .name = "quantize",
  .doc = "bytes of round(x / scale) + zero, saturated; zero for nan",
  .id = RG_OP_QUANTIZE,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", NATIVE, FLOAT), RG_IN("scale", NATIVE, ANY),
            RG_OPTIONAL("zero", NATIVE, ANY)),
  .result = { "q" },
  RG_ARGS(rg_quantize_args, quantize_args),
  .infer = quantize_infer,
  .cost = quantize_cost,
};

/* -- And back --------------------------------------------------------------------------------- */

static rg_status dequantize_infer(rg_call *call)
{
  const rg_dequantize_args *args = call->args;
  int32_t from = call->in[0]->_dtype;

  if (!is_bytes(from) && from != RG_I32) {
    return rg_fail(RG_EDTYPE, "%s: q is %s, wanted i8, u8 or i32", call->op->name,
                   rg_dtype_name(from));
  }
  if (args->dtype != RG_F32 && args->dtype != RG_BF16 && args->dtype != RG_F16) {
    return refuse(call, args->dtype, "f32, bf16 or f16");
  }
  RG_TRY(check_scales(call, args->axis, args->group, from));
  call->out[0] = rg_meta_of(call->in[0]);
  call->out[0].dtype = args->dtype;
  call->n_out = 1;
  take_room(call);
  return RG_OK;
}

static rg_cost dequantize_cost(const rg_call *call)
{
  return rg_cost_of(call, (1.0 + moved(call)) * (double)call->in[0]->_count);
}

static const rg_arg dequantize_args[] = { RG_DEQUANTIZE_ARGS(RG_ARG_ROW, rg_dequantize_args, ) };

const rg_op rg_op_dequantize = {
  .name = "dequantize",
  .doc = "(q - zero) scale",
  .id = RG_OP_DEQUANTIZE,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("q", NATIVE, WHOLE), RG_IN("scale", NATIVE, ANY),
            RG_OPTIONAL("zero", NATIVE, ANY)),
  .result = { "x" },
  RG_ARGS(rg_dequantize_args, dequantize_args),
  .infer = dequantize_infer,
  .cost = dequantize_cost,
};

/* -- Rows ------------------------------------------------------------------------------------- */

static rg_status rows_infer(rg_call *call)
{
  const rg_tensor *x = call->in[0];

  if (x->_ndim == 0) {
    return rg_fail(RG_ESHAPE, "%s: x is one number and has no rows", call->op->name);
  }
  call->out[0] = rg_meta_of(x);
  call->out[0].dtype = RG_I8;
  call->out[1] = rg_meta_of(x);
  call->out[1].dtype = RG_F32;
  call->out[1].shape[x->_ndim - 1] = 1;
  call->n_out = 2;
  return RG_OK;
}

/* The largest magnitude, then as above. */
static rg_cost rows_cost(const rg_call *call)
{
  /* the largest magnitude; divided, cut twice, rounded */
  return rg_cost_of(call, 6.0 * (double)call->in[0]->_count);
}

const rg_op rg_op_quantize_rows = {
  .name = "quantize_rows",
  .doc = "rows as i8 of -127 .. 127, and the scale of each: its largest magnitude over 127",
  .id = RG_OP_QUANTIZE_ROWS,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", NATIVE, FLOAT)),
  .result = { "q", "scale" },
  .infer = rows_infer,
  .cost = rows_cost,
};
