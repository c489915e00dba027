/* SPDX-License-Identifier: MIT */
/*
** Products with weights of a few bits, y = act(x W' + b) with W = (code - 2^(bits - 1)) scale, or
** code scale + min: shape rules and costs.  The kernels are in core/cpu/packed_linear.c.
*/
#include "op/packed_linear.h"
#include "op/list.h"
#include "op/product.h"

extern const rg_op rg_op_pack_bits;
extern const rg_op rg_op_unpack_bits;
extern const rg_op rg_op_packed_linear;

/* -- Checks ----------------------------------------------------------------------------------- */

static rg_status check_bits(const rg_call *call, int32_t bits)
{
  if (bits != 2 && bits != 3 && bits != 4 && bits != 6 && bits != 8) {
    return rg_fail(RG_EARG, "%s: codes of %d bits, wanted 2, 3, 4, 6 or 8", call->op->name, bits);
  }
  return RG_OK;
}

static rg_status check_type(const rg_call *call, int32_t i, int32_t dtype)
{
  const rg_tensor *x = call->in[i];

  if (x != NULL && x->_dtype != dtype) {
    return rg_fail(RG_EDTYPE, "%s: %s is %s, wanted %s", call->op->name, call->op->input[i].name,
                   rg_dtype_name(x->_dtype), rg_dtype_name(dtype));
  }
  return RG_OK;
}

/* -- Codes to planes, and back ---------------------------------------------------------------- */

/* A last axis in whole blocks of so many bytes becomes one of others. */
static rg_status blocks_infer(rg_call *call, int64_t from, int64_t to)
{
  const rg_tensor *x = call->in[0];
  int32_t last = x->_ndim - 1;
  char text[128];

  RG_TRY(check_type(call, 0, RG_U8));
  if (last < 0 || x->_shape[last] % from != 0) {
    return rg_fail(RG_ESHAPE, "%s: %s is %s, wanted a last axis in whole blocks of %lld",
                   call->op->name, call->op->input[0].name, rg_tensor_text(x, text, sizeof(text)),
                   (long long)from);
  }
  call->out[0] = rg_meta_of(x);
  call->out[0].shape[last] = x->_shape[last] / from * to;
  call->n_out = 1;
  return RG_OK;
}

static rg_status pack_infer(rg_call *call)
{
  const rg_pack_bits_args *args = call->args;

  RG_TRY(check_bits(call, args->bits));
  return blocks_infer(call, RG_CODES, 4 * args->bits);
}

static rg_status unpack_infer(rg_call *call)
{
  const rg_pack_bits_args *args = call->args;

  RG_TRY(check_bits(call, args->bits));
  return blocks_infer(call, 4 * args->bits, RG_CODES);
}

static rg_cost pack_cost(const rg_call *call)
{
  return rg_cost_of(call, (double)call->in[0]->_count);
}

static const rg_arg pack_args[] = { RG_PACK_BITS_ARGS(RG_ARG_ROW, rg_pack_bits_args, ) };

const rg_op rg_op_pack_bits = {
  .name = "pack_bits",
  .doc = "codes of a few bits side by side, in planes of 32 codes along the last axis",
  .id = RG_OP_PACK_BITS,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("codes", NATIVE, ANY)),
  .result = { "packed" },
  RG_ARGS(rg_pack_bits_args, pack_args),
  .infer = pack_infer,
  .cost = pack_cost,
};

const rg_op rg_op_unpack_bits = {
  .name = "unpack_bits",
  .doc = "the codes that pack_bits laid side by side",
  .id = RG_OP_UNPACK_BITS,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("packed", NATIVE, ANY)),
  .result = { "codes" },
  RG_ARGS(rg_pack_bits_args, pack_args),
  .infer = unpack_infer,
  .cost = pack_cost,
};

/* -- The product ------------------------------------------------------------------------------ */

static rg_status check_arguments(const rg_call *call)
{
  const rg_packed_linear_args *args = call->args;
  const char *name = rg_dtype_name(args->dtype);

  RG_TRY(check_bits(call, args->bits));
  if (args->group != 32 && args->group != 64 && args->group != 128) {
    return rg_fail(RG_EARG, "%s: groups of %lld weights, wanted 32, 64 or 128", call->op->name,
                   (long long)args->group);
  }
  if (args->dtype != RG_F32 && args->dtype != RG_BF16 && args->dtype != RG_F16) {
    return rg_fail(RG_EDTYPE, "%s: the result is to be %s, wanted f32, bf16 or f16", call->op->name,
                   name != NULL ? name : "of no type");
  }
  return rg_product_act(call, args->act);
}

/* x of floats, or of i8 with one scale or one for each row. */
static rg_status check_x(const rg_call *call)
{
  const rg_tensor *x = call->in[0];
  const rg_tensor *s = call->n_in > 5 ? call->in[5] : NULL;
  int32_t lead = x->_ndim - 1;
  char text[128];
  char wanted[128];

  if (x->_dtype != RG_F32 && x->_dtype != RG_BF16 && x->_dtype != RG_F16 && x->_dtype != RG_I8) {
    return rg_fail(RG_EDTYPE, "%s: x is %s, wanted f32, bf16, f16, or i8 with an x_scale",
                   call->op->name, rg_dtype_name(x->_dtype));
  }
  if ((s != NULL) != (x->_dtype == RG_I8)) {
    return rg_fail(RG_EARG,
                   s != NULL ? "%s: there is an x_scale, and x is %s, which needs none"
                             : "%s: there is no x_scale, which x of %s needs",
                   call->op->name, rg_dtype_name(x->_dtype));
  }
  if (s == NULL || s->_count == 1) {
    return s == NULL ? RG_OK : check_type(call, 5, RG_F32);
  }
  RG_TRY(check_type(call, 5, RG_F32));
  bool fits = s->_ndim == lead || (s->_ndim == x->_ndim && s->_shape[lead] == 1);

  for (int32_t d = 0; d < lead && fits; d++) {
    fits = s->_shape[d] == x->_shape[d];
  }
  if (!fits) {
    return rg_fail(RG_ESHAPE, "%s: x_scale is %s, wanted one number or %s", call->op->name,
                   rg_tensor_text(s, text, sizeof(text)),
                   rg_shape_text(x->_shape, lead, wanted, sizeof(wanted)));
  }
  return RG_OK;
}

/* A number for each group of each row of w. */
static rg_status check_groups(const rg_call *call, int32_t i, int64_t rows, int64_t groups)
{
  if (i >= call->n_in || call->in[i] == NULL) {
    return RG_OK;
  }
  RG_TRY(check_type(call, i, RG_F16));
  return rg_product_matrix(call, i, rows, groups, call->op->input[i].name);
}

static rg_status linear_infer(rg_call *call)
{
  const rg_packed_linear_args *args = call->args;
  const rg_tensor *x = call->in[0];
  const rg_tensor *w = call->in[1];
  char text[128];

  RG_TRY(check_arguments(call));
  if (x->_ndim < 1 || x->_shape[x->_ndim - 1] % args->group != 0) {
    return rg_fail(RG_ESHAPE, "%s: x is %s, wanted a last axis in whole groups of %lld",
                   call->op->name, rg_tensor_text(x, text, sizeof(text)), (long long)args->group);
  }
  int64_t k = x->_shape[x->_ndim - 1];

  RG_TRY(check_x(call));
  RG_TRY(check_type(call, 1, RG_U8));
  RG_TRY(rg_product_matrix(call, 1, -1, k / 8 * args->bits, "the weight"));
  RG_TRY(check_groups(call, 2, w->_shape[0], k / args->group));
  RG_TRY(check_groups(call, 3, w->_shape[0], k / args->group));
  RG_TRY(rg_product_bias(call, 4, w->_shape[0]));
  RG_TRY(rg_product_rows(call, k, w->_shape[0], args->dtype, &call->out[0]));
  call->n_out = 1;
  return RG_OK;
}

static rg_cost linear_cost(const rg_call *call)
{
  const rg_tensor *x = call->in[0];

  return rg_cost_of(call,
                    2.0 * (double)rg_meta_count(&call->out[0]) * (double)x->_shape[x->_ndim - 1]);
}

static const rg_arg linear_args[] = { RG_PACKED_LINEAR_ARGS(RG_ARG_ROW, rg_packed_linear_args, ) };

const rg_op rg_op_packed_linear = {
  .name = "packed_linear",
  .doc = "x times the transpose of weights of a few bits with scales of groups, plus b, through an "
         "activation",
  .id = RG_OP_PACKED_LINEAR,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", NATIVE, ANY), RG_IN("w", BITS, ANY), RG_IN("scale", NATIVE, ANY),
            RG_OPTIONAL("min", NATIVE, ANY), RG_OPTIONAL("b", NATIVE, FLOAT),
            RG_OPTIONAL("x_scale", NATIVE, ANY)),
  .result = { "y" },
  RG_ARGS(rg_packed_linear_args, linear_args),
  .infer = linear_infer,
  .cost = linear_cost,
};
