/* SPDX-License-Identifier: MIT */
/*
** Group and batch normalisation: the mean and variance of channels.
*/
#include "layer/compound.h"
#include "ridge/norm.h"

/* x weight + bias, a number for each channel. */
static rg_value affine(rg_compose *f, rg_value x, rg_value weight, rg_value bias, int32_t axis)
{
  int32_t ndim = x != NULL ? x->_ndim : 0;

  if (weight != NULL) {
    x = rg_f_mul(f, x, rg_f_along(f, weight, axis, ndim));
  }
  return bias != NULL ? rg_f_add(f, x, rg_f_along(f, bias, axis, ndim)) : x;
}

/* Is y, where it is given, one number for each of n channels? */
static rg_status check_channels(const char *what, const char *name, const rg_tensor *y, int64_t n)
{
  char text[128];

  if (y == NULL) {
    return RG_OK;
  }
  if (!rg_tensor_shaped(y, &n, 1)) {
    return rg_fail(RG_ESHAPE, "%s: the %s is %s, wanted [%lld]", what, name,
                   rg_tensor_text(y, text, sizeof(text)), (long long)n);
  }
  return RG_OK;
}

/* -- Groups -------------------------------------------------------------------------- */

/* clang-format off */
#define RG_GROUP_NORM_ARGS(A, S, AT) \
  A(S, AT, f64, eps, FROM0, 1e-5, "added to the variance") \
  A(S, AT, i64, groups, WHOLE, RG_REQUIRED, "of channels")
/* clang-format on */
RG_ARGS_STRUCT(rg_group_norm_args, RG_GROUP_NORM_ARGS);

static rg_status group_norm_infer(rg_call *call)
{
  const rg_tensor *x = call->in[0];
  int64_t groups = ((const rg_group_norm_args *)call->args)->groups;
  char text[128];

  if (x->_ndim < 2 || groups < 1 || x->_shape[1] % groups != 0) {
    return rg_fail(RG_ESHAPE, "group_norm: x is %s, whose channels do not fall into %lld groups",
                   rg_tensor_text(x, text, sizeof(text)), (long long)groups);
  }
  RG_TRY(check_channels("group_norm", "weight", call->in[1], x->_shape[1]));
  return check_channels("group_norm", "bias", call->in[2], x->_shape[1]);
}

static rg_value normalised(rg_compose *f, rg_value x, double eps)
{
  RG_F_STEP(rg_layer_norm(x, NULL, NULL, eps, 0, &out));
}

static rg_status group_norm_expand(const rg_call *call, rg_tensor **out)
{
  const rg_group_norm_args *args = call->args;
  const rg_tensor *x = call->in[0];
  rg_compose f = { .what = "group_norm" };
  int64_t flat[] = { x->_shape[0], args->groups, x->_shape[1] / args->groups };

  for (int32_t i = 2; i < x->_ndim; i++) { /* not by the count, which is 0 without rows */
    flat[2] *= x->_shape[i];
  }
  rg_value y = normalised(&f, rg_f_shaped(&f, x, flat, 3), args->eps);

  y = rg_f_shaped(&f, y, x->_shape, x->_ndim);
  return rg_f_give(&f, affine(&f, y, call->in[1], call->in[2], 1), out);
}

static const rg_arg group_norm_args[] = { RG_GROUP_NORM_ARGS(RG_ARG_ROW, rg_group_norm_args, ) };

const rg_op rg_op_group_norm = {
  .name = "group_norm",
  .doc = "mean 0 and variance 1 in each group of channels of a row",
  .id = RG_OP_GROUP_NORM,
  RG_INPUTS(RG_IN("x", INPUT, ANY), RG_OPTIONAL("weight", WEIGHT, ANY),
            RG_OPTIONAL("bias", BIAS, ANY)),
  .result = { "y" },
  RG_ARGS(rg_group_norm_args, group_norm_args),
  .infer = group_norm_infer,
  .expand = group_norm_expand,
};

rg_status rg_group_norm(const rg_tensor *x, const rg_tensor *weight, const rg_tensor *bias,
                        int64_t groups, double eps, rg_tensor **out)
{
  return rg_run_body(&rg_op_group_norm, (const rg_tensor *const[]){ x, weight, bias }, 3,
                     &(rg_group_norm_args){ .eps = eps, .groups = groups }, out);
}

/* -- Batches ------------------------------------------------------------------------- */

static rg_value mean_of(rg_compose *f, rg_value x, const int32_t *axes, int32_t n)
{
  RG_F_STEP(rg_mean(x, axes, n, 1, &out));
}

/* running = (1 - share) running + share factor value */
static void blend(rg_compose *f, rg_tensor *running, rg_value value, double share, double factor)
{
  rg_value flat = rg_f_shaped(f, rg_f_unary(f, rg_detach, value), running->_shape, 1);
  rg_value part = rg_f_times(f, rg_f_cast(f, flat, running->_dtype), share * factor);

  if (f->status == RG_OK) {
    rg_f_note(f, rg_mul_scalar_(running, 1 - share));
  }
  if (f->status == RG_OK) {
    rg_f_note(f, rg_add_(running, part));
  }
}

/* By the batch's own mean and variance. */
static rg_value by_batch(rg_compose *f, rg_value x, rg_tensor *mean, rg_tensor *var,
                         const rg_batch_norm_options *o, int32_t axis)
{
  int32_t others[RG_MAX_DIMS];
  int32_t n = 0;
  double count = (double)x->_count / (double)x->_shape[axis];

  for (int32_t i = 0; i < x->_ndim; i++) {
    if (i != axis) {
      others[n++] = i;
    }
  }
  rg_value middle = mean_of(f, x, others, n);
  rg_value centred = rg_f_sub(f, x, middle);
  rg_value spread = mean_of(f, rg_f_unary(f, rg_square, centred), others, n);

  if (o->keep && f->status == RG_OK) {
    int32_t before = rg_grad_mode(0);

    blend(f, mean, middle, o->momentum, 1);
    blend(f, var, spread, o->momentum, count / (count - 1));
    (void)rg_grad_mode(before);
  }
  return rg_f_mul(f, centred, rg_f_unary(f, rg_rsqrt, rg_f_plus(f, spread, o->eps)));
}

static rg_value by_running(rg_compose *f, rg_value x, rg_value mean, rg_value var, double eps,
                           int32_t axis)
{
  rg_value centred = rg_f_sub(f, x, rg_f_along(f, mean, axis, x->_ndim));
  rg_value scale = rg_f_unary(f, rg_rsqrt, rg_f_plus(f, var, eps));

  return rg_f_mul(f, centred, rg_f_along(f, scale, axis, x->_ndim));
}

/* In the order of the call. */
enum { X, WEIGHT, SHIFT, MEAN, VAR };

static int32_t axis_of(const rg_call *call)
{
  const rg_batch_norm_options *o = call->args;

  return o->axis < 0 ? o->axis + call->in[X]->_ndim : o->axis;
}

static rg_status batch_norm_infer(rg_call *call)
{
  const rg_batch_norm_options *o = call->args;
  const rg_tensor *x = call->in[X];
  const rg_tensor *mean = call->in[MEAN];
  int32_t axis = axis_of(call);
  char text[128];

  if (x->_ndim < 2 || axis < 0 || axis >= x->_ndim || x->_shape[axis] != mean->_count) {
    return rg_fail(RG_ESHAPE, "batch_norm: x is %s, wanted %lld channels on axis %d",
                   rg_tensor_text(x, text, sizeof(text)), (long long)mean->_count,
                   o->axis < 0 ? o->axis : o->axis + 1);
  }
  RG_TRY(check_channels("batch_norm", "running mean", mean, x->_shape[axis]));
  RG_TRY(check_channels("batch_norm", "running variance", call->in[VAR], x->_shape[axis]));
  RG_TRY(check_channels("batch_norm", "weight", call->in[WEIGHT], x->_shape[axis]));
  RG_TRY(check_channels("batch_norm", "bias", call->in[SHIFT], x->_shape[axis]));
  if (o->batch && x->_count < 2 * x->_shape[axis]) {
    return rg_fail(RG_EARG,
                   "batch_norm: one value a channel in %s has no variance; train with more rows",
                   rg_tensor_text(x, text, sizeof(text)));
  }
  return RG_OK;
}

/* What the record says is written to. */
static rg_tensor *state(const rg_call *call, int32_t i)
{
  return (rg_tensor *)(uintptr_t)call->in[i];
}

static rg_status batch_norm_expand(const rg_call *call, rg_tensor **out)
{
  const rg_batch_norm_options *o = call->args;
  int32_t axis = axis_of(call);
  rg_compose f = { .what = "batch_norm" };
  rg_value y = o->batch ? by_batch(&f, call->in[X], state(call, MEAN), state(call, VAR), o, axis)
                        : by_running(&f, call->in[X], call->in[MEAN], call->in[VAR], o->eps, axis);

  return rg_f_give(&f, affine(&f, y, call->in[WEIGHT], call->in[SHIFT], axis), out);
}

static const rg_arg batch_norm_args[] = { RG_BATCH_NORM_OPTIONS(RG_ARG_ROW,
                                                                rg_batch_norm_options, ) };

const rg_op rg_op_batch_norm = {
  .name = "batch_norm",
  .doc = "mean 0 and variance 1 in each channel, of the batch or as they ran",
  .id = RG_OP_BATCH_NORM,
  .writes = true,
  RG_INPUTS(RG_IN("x", INPUT, ANY), RG_OPTIONAL("weight", WEIGHT, ANY),
            RG_OPTIONAL("bias", BIAS, ANY), RG_IN("mean", STATE, ANY), RG_IN("var", STATE, ANY)),
  .result = { "y" },
  RG_ARGS(rg_batch_norm_options, batch_norm_args),
  .infer = batch_norm_infer,
  .expand = batch_norm_expand,
};

rg_status rg_batch_norm(const rg_tensor *x, const rg_tensor *weight, const rg_tensor *bias,
                        rg_tensor *mean, rg_tensor *var, const rg_batch_norm_options *options,
                        rg_tensor **out)
{
  if (options == NULL) {
    return rg_fail(RG_EARG, "batch_norm: a pointer is NULL");
  }
  return rg_run_body(&rg_op_batch_norm, (const rg_tensor *const[]){ x, weight, bias, mean, var }, 5,
                     options, out);
}
