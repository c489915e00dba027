/* SPDX-License-Identifier: MIT */
/*
** Reductions over axes: signatures, shape and type rules, costs, public entries.  The kernels are
** in core/cpu/reduce.c.
*/
#include <math.h>

#include "op/list.h"
#include "op/op.h"
#include "op/reduce.h"

extern const rg_op rg_op_sum, rg_op_mean, rg_op_prod, rg_op_max, rg_op_min, rg_op_norm;

/* -- Shape --------------------------------------------------------------------------- */

/* The axes as bits; none named means all. */
static rg_status axes_of(const rg_op *op, const rg_tensor *x, const int32_t *axes, int32_t n,
                         uint32_t *out)
{
  uint32_t bits = 0;

  RG_TRY(rg_tensor_check(x, op->name));
  if (n < 0 || (n > 0 && axes == NULL)) {
    return rg_fail(RG_EARG, "%s: %d axes given", op->name, n);
  }
  for (int32_t i = 0; i < n; i++) {
    int32_t axis;

    RG_TRY(rg_axis_resolve(op, x, axes[i], &axis));
    if ((bits >> axis & 1) != 0) {
      return rg_fail(RG_EAXIS, "%s: axis %d is named twice", op->name, axis + 1);
    }
    bits |= 1u << axis;
  }
  *out = n == 0 ? (1u << x->_ndim) - 1 : bits;
  return RG_OK;
}

/* Elements that become one. */
static int64_t fold_count(const rg_call *call)
{
  const rg_reduce_args *args = call->args;
  int64_t count = 1;

  for (int32_t i = 0; i < call->in[0]->_ndim; i++) {
    count *= (args->axes >> i & 1) != 0 ? call->in[0]->_shape[i] : 1;
  }
  return count;
}

/* For the results of chunks of n elements each. */
static int64_t scratch_for(const rg_call *call, int64_t n)
{
  const int64_t outputs = rg_meta_count(&call->out[0]);
  int64_t chunk = call->device == RG_CPU ? RG_REDUCE_CHUNK_ROWS : RG_REDUCE_PART;
  int64_t chunks = (n + chunk - 1) / chunk;

  if (call->device != RG_CPU) {
    chunks = rg_min_i64(chunks, RG_REDUCE_RESULTS / rg_max_i64(outputs, 1));
  }
  return chunks > 1 ? outputs * chunks * (int64_t)sizeof(double) : 0;
}

/* out[0]'s shape, and scratch for the chunks' results. */
static rg_status infer_shape(rg_call *call)
{
  const rg_reduce_args *args = call->args;
  rg_meta *out = &call->out[0];

  const rg_tensor *x = call->in[0];

  out->dtype = x->_dtype;
  out->ndim = 0;
  for (int32_t i = 0; i < x->_ndim; i++) {
    if ((args->axes >> i & 1) == 0) {
      out->shape[out->ndim++] = x->_shape[i];
    } else if (args->keep) {
      out->shape[out->ndim++] = 1;
    }
  }
  call->n_out = 1;
  call->scratch_bytes = scratch_for(call, fold_count(call));
  return RG_OK;
}

/* Half types give f32 where autocast says so; the kernel reads them as they are. */
static void widen_result(rg_call *call)
{
  if (rg_dtype_is_float(call->in[0]->_dtype) && rg_autocast_for(call) >= 0) {
    call->out[0].dtype = rg_autocast_for(call);
  }
}

static rg_status refuse_nothing(const rg_call *call)
{
  char text[96];

  if (fold_count(call) == 0) {
    return rg_fail(RG_EARG, "%s: nothing to take it of in %s", call->op->name,
                   rg_tensor_text(call->in[0], text, sizeof(text)));
  }
  return RG_OK;
}

/* -- Types ------------------------------------------------------------------------------ */

/* sum, prod: integers become i64 */
static rg_status sum_infer(rg_call *call)
{
  RG_TRY(infer_shape(call));
  if (!rg_dtype_is_float(call->in[0]->_dtype)) {
    call->out[0].dtype = RG_I64;
  }
  widen_result(call);
  return RG_OK;
}

static rg_status mean_infer(rg_call *call)
{
  RG_TRY(infer_shape(call));
  RG_TRY(refuse_nothing(call));
  if (!rg_dtype_is_float(call->in[0]->_dtype)) {
    call->out[0].dtype = RG_F32;
  }
  widen_result(call);
  return RG_OK;
}

static rg_status extreme_infer(rg_call *call)
{
  RG_TRY(infer_shape(call));
  return refuse_nothing(call);
}

static rg_status norm_infer(rg_call *call)
{
  const rg_reduce_args *args = call->args;

  RG_TRY(infer_shape(call));
  if (!(args->p > 0)) {
    return rg_fail(RG_EARG, "%s: p is %g and not above 0", call->op->name, args->p);
  }
  widen_result(call);
  return RG_OK;
}

/* -- Costs -------------------------------------------------------------------------------- */

static rg_cost cost(const rg_call *call)
{
  return rg_cost_of(call, (double)call->in[0]->_count);
}

/* |x|^p and the sum; a power counts 21 (see op/binary.c). */
static rg_cost norm_cost(const rg_call *call)
{
  const rg_reduce_args *args = call->args;
  double each = args->p == 1.0 || args->p == 2.0 || isinf(args->p) ? 2.0 : 23.0;

  return rg_cost_of(call, each * (double)call->in[0]->_count);
}

/* -- Records ---------------------------------------------------------------------------------- */

static const rg_arg reduce_args[] = { RG_REDUCE_ARGS(RG_ARG_ROW, rg_reduce_args, ) };
static const rg_arg norm_args[] = { RG_NORM_ARGS(RG_ARG_ROW, rg_reduce_args, ) };

const rg_op rg_op_sum = {
  .name = "sum",
  .doc = "sum over axes",
  .id = RG_OP_SUM,
  .amp = RG_AMP_F32,
  RG_INPUTS(RG_IN("x", INPUT, ANY)),
  .result = { "y" },
  .method = true,
  RG_ARGS(rg_reduce_args, reduce_args),
  .infer = sum_infer,
  .grad = rg_sum_grad,
  .cost = cost,
};

const rg_op rg_op_mean = {
  .name = "mean",
  .doc = "mean over axes",
  .id = RG_OP_MEAN,
  .amp = RG_AMP_F32,
  RG_INPUTS(RG_IN("x", INPUT, ANY)),
  .result = { "y" },
  .method = true,
  RG_ARGS(rg_reduce_args, reduce_args),
  .infer = mean_infer,
  .grad = rg_mean_grad,
  .cost = cost,
};

const rg_op rg_op_prod = {
  .name = "prod",
  .doc = "product over axes",
  .id = RG_OP_PROD,
  .amp = RG_AMP_F32,
  RG_INPUTS(RG_IN("x", INPUT, ANY)),
  .result = { "y" },
  .method = true,
  .save_in = 1,
  .save_out = 1,
  RG_ARGS(rg_reduce_args, reduce_args),
  .infer = sum_infer,
  .grad = rg_prod_grad,
  .cost = cost,
};

const rg_op rg_op_max = {
  .name = "max",
  .doc = "maximum over axes; nan wins",
  .id = RG_OP_MAX,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", INPUT, ANY)),
  .result = { "y" },
  .method = true,
  .save_in = 1,
  .save_out = 1,
  RG_ARGS(rg_reduce_args, reduce_args),
  .infer = extreme_infer,
  .grad = rg_extreme_grad,
  .cost = cost,
};

const rg_op rg_op_min = {
  .name = "min",
  .doc = "minimum over axes; nan wins",
  .id = RG_OP_MIN,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", INPUT, ANY)),
  .result = { "y" },
  .method = true,
  .save_in = 1,
  .save_out = 1,
  RG_ARGS(rg_reduce_args, reduce_args),
  .infer = extreme_infer,
  .grad = rg_extreme_grad,
  .cost = cost,
};

const rg_op rg_op_norm = {
  .name = "norm",
  .doc = "p-norm over axes, p = infinity the largest |x|",
  .id = RG_OP_NORM,
  .amp = RG_AMP_F32,
  RG_INPUTS(RG_IN("x", INPUT, FLOAT)),
  .result = { "y" },
  .method = true,
  .save_in = 1,
  .save_out = 1,
  RG_ARGS(rg_reduce_args, norm_args),
  .infer = norm_infer,
  .grad = rg_norm_grad,
  .cost = norm_cost,
};

/* -- Public entries ---------------------------------------------------------------------------- */

static rg_status reduce(const rg_op *op, const rg_tensor *x, double p, const int32_t *axes,
                        int32_t n, int32_t keep, rg_tensor **out)
{
  rg_reduce_args args = { .keep = keep != 0, .p = p };

  RG_TRY(axes_of(op, x, axes, n, &args.axes));
  return rg_run1(op, (const rg_tensor *const[]){ x }, 1, &args, out);
}

#define ENTRY(name)                                                                     \
  rg_status rg_##name(const rg_tensor *x, const int32_t *axes, int32_t n, int32_t keep, \
                      rg_tensor **out)                                                  \
  {                                                                                     \
    return reduce(&rg_op_##name, x, 0.0, axes, n, keep, out);                           \
  }
ENTRY(sum)
ENTRY(mean)
ENTRY(prod)
ENTRY(max)
ENTRY(min)

rg_status rg_norm(const rg_tensor *x, double p, const int32_t *axes, int32_t n, int32_t keep,
                  rg_tensor **out)
{
  return reduce(&rg_op_norm, x, p, axes, n, keep, out);
}
