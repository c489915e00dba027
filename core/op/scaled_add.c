/* SPDX-License-Identifier: MIT */
/*
** Sums and pooling of bytes with scales, so that bytes stay bytes from layer to layer: shape rules
** and costs.  The kernels are core/cpu/scaled_add.c and core/cpu/scaled_pool.c.
*/
#include "op/scaled_add.h"

#include "op/act.h"
#include "op/list.h"
#include "op/pool.h"
#include "op/product.h"
#include "op/scaled.h"
#include "op/unary.h"

extern const rg_op rg_op_scaled_add;
extern const rg_op rg_op_scaled_pool2d;

/* -- Checks ----------------------------------------------------------------------------------- */

static rg_status check_bytes(const rg_call *call, int32_t i)
{
  if (!rg_is_bytes(call->in[i]->_dtype)) {
    return rg_fail(RG_EDTYPE, "%s: %s is %s, wanted i8 or u8", call->op->name,
                   call->op->input[i].name, rg_dtype_name(call->in[i]->_dtype));
  }
  return RG_OK;
}

/* The scale of an input: one number. */
static rg_status check_scale(const rg_call *call, int32_t i)
{
  const rg_tensor *s = call->in[i];
  char text[128];

  if (s->_dtype != RG_F32) {
    return rg_fail(RG_EDTYPE, "%s: %s is %s, wanted f32", call->op->name, call->op->input[i].name,
                   rg_dtype_name(s->_dtype));
  }
  if (s->_count != 1) {
    return rg_fail(RG_ESHAPE, "%s: %s is %s, wanted one number", call->op->name,
                   call->op->input[i].name, rg_tensor_text(s, text, sizeof(text)));
  }
  return RG_OK;
}

/* -- Sums ------------------------------------------------------------------------------------- */

/* b and its scale come together. */
static rg_status check_second(const rg_call *call)
{
  const rg_scaled_add_args *args = call->args;
  const rg_tensor *a = call->in[0];
  const rg_tensor *b = call->in[2];
  bool same;
  char text[2][128];

  if ((b != NULL) != (call->in[3] != NULL)) {
    return rg_fail(RG_EARG, "%s: b and b_scale come together", call->op->name);
  }
  if (b == NULL) {
    return args->b_zero == 0 ? RG_OK
                             : rg_fail(RG_EARG, "%s: there is a b_zero, and no b", call->op->name);
  }
  RG_TRY(check_bytes(call, 2));
  RG_TRY(check_scale(call, 3));
  same = a->_ndim == b->_ndim;
  for (int32_t d = 0; same && d < a->_ndim; d++) {
    same = a->_shape[d] == b->_shape[d];
  }
  if (!same) {
    return rg_fail(RG_ESHAPE, "%s: a is %s and b %s, which differ in shape", call->op->name,
                   rg_tensor_text(a, text[0], sizeof(text[0])),
                   rg_tensor_text(b, text[1], sizeof(text[1])));
  }
  return rg_scaled_zero(call, args->b_zero, b->_dtype, "b_zero");
}

static rg_status add_infer(rg_call *call)
{
  const rg_scaled_add_args *args = call->args;

  RG_TRY(check_bytes(call, 0));
  RG_TRY(check_scale(call, 1));
  RG_TRY(check_second(call));
  RG_TRY(rg_product_act(call, args->act));
  RG_TRY(rg_scaled_result(call, args->dtype));
  RG_TRY(rg_scaled_y_scale(call, 4, args->dtype));
  RG_TRY(rg_scaled_zero(call, args->a_zero, call->in[0]->_dtype, "a_zero"));
  RG_TRY(rg_scaled_zero(call, args->y_zero, args->dtype, "y_zero"));
  call->out[0] = rg_meta_of(call->in[0]);
  call->out[0].dtype = args->dtype;
  call->n_out = 1;
  return RG_OK;
}

/* An input is moved by its zero point and scaled; bytes again are divided, cut twice, rounded and
** moved. */
static rg_cost add_cost(const rg_call *call)
{
  const rg_scaled_add_args *args = call->args;
  double each = 1 + (args->a_zero != 0);

  if (call->in[2] != NULL) {
    each += 2 + (args->b_zero != 0);
  }
  if (args->act != RG_ACT_NONE) {
    each += rg_unary_flops(rg_act_ops[args->act]);
  }
  if (args->dtype == RG_I8 || args->dtype == RG_U8) {
    each += 4 + (args->y_zero != 0);
  }
  return rg_cost_of(call, each * (double)call->in[0]->_count);
}

static const rg_arg add_args[] = { RG_SCALED_ADD_ARGS(RG_ARG_ROW, rg_scaled_add_args, ) };

const rg_op rg_op_scaled_add = {
  .name = "scaled_add",
  .doc = "the sum of bytes with scales, through an activation, as bytes with another scale",
  .id = RG_OP_SCALED_ADD,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("a", NATIVE, ANY), RG_IN("a_scale", NATIVE, ANY), RG_OPTIONAL("b", NATIVE, ANY),
            RG_OPTIONAL("b_scale", NATIVE, ANY), RG_OPTIONAL("y_scale", NATIVE, ANY)),
  .result = { "y" },
  RG_ARGS(rg_scaled_add_args, add_args),
  .infer = add_infer,
  .cost = add_cost,
};

/* -- Pooling ---------------------------------------------------------------------------------- */

/* A window is summed in i32, with what its padding stands for. */
static rg_status check_window(const rg_call *call)
{
  const rg_scaled_pool2d_args *args = call->args;
  int64_t most = INT32_MAX / (call->in[0]->_dtype == RG_U8 ? 255 : 128);

  /* as a quotient: the product of two sides may leave 64 bits */
  if (args->more.average != 0 && args->o.size[0] > most / args->o.size[1]) {
    return rg_fail(RG_ESHAPE,
                   "%s: sums of %lld x %lld bytes of %s may not fit into i32; up to %lld do",
                   call->op->name, (long long)args->o.size[0], (long long)args->o.size[1],
                   rg_dtype_name(call->in[0]->_dtype), (long long)most);
  }
  return RG_OK;
}

static rg_status pool_infer(rg_call *call)
{
  const rg_scaled_pool2d_args *args = call->args;

  RG_TRY(check_bytes(call, 0));
  RG_TRY(rg_pool2d_infer(call));
  RG_TRY(check_window(call));
  call->scratch_bytes = 0;
  return rg_scaled_zero(call, args->more.x_zero, call->in[0]->_dtype, "x_zero");
}

static rg_cost pool_cost(const rg_call *call)
{
  const rg_pool2d_options *o = &((const rg_scaled_pool2d_args *)call->args)->o;

  return rg_cost_of(call,
                    (double)rg_meta_count(&call->out[0]) * (double)o->size[0] * (double)o->size[1]);
}

static const rg_arg pool_args[] = { RG_POOL2D_OPTIONS(RG_ARG_ROW, rg_scaled_pool2d_args, o.)
                                        RG_SCALED_POOL2D_MORE(RG_ARG_ROW, rg_scaled_pool2d_args,
                                                              more.) };

const rg_op rg_op_scaled_pool2d = {
  .name = "scaled_pool2d",
  .doc = "the largest byte of each window, or the average, ties to even",
  .id = RG_OP_SCALED_POOL2D,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", NATIVE, ANY)),
  .result = { "y" },
  RG_ARGS(rg_scaled_pool2d_args, pool_args),
  .infer = pool_infer,
  .cost = pool_cost,
};
