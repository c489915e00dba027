/* SPDX-License-Identifier: MIT */
/*
** Another size of an axis by interpolation: shape rules, gradients, costs, and the weights, which
** are those of ONNX's Resize.  The kernels are in core/cpu/resample.c.
*/
#include <math.h>

#include "op/list.h"
#include "op/resample.h"
#include "op/rule.h"

extern const rg_op rg_op_resample;
extern const rg_op rg_op_resample_back;

enum { MOST = 1 << 30 };

/* -- Weights ---------------------------------------------------------------------------------- */

static double scale_of(const rg_resample_args *args, int64_t from, int64_t to)
{
  return args->scale > 0 ? args->scale : (double)to / (double)from;
}

/* How far the kernel reaches on one side, in elements. */
static int64_t reach(const rg_resample_args *args, double scale)
{
  double width = args->mode == RG_RESAMPLE_CUBIC ? 2 : 1;

  return (int64_t)ceil(args->antialias != 0 && scale < 1 ? width / scale : width);
}

int64_t rg_resample_taps(const rg_resample_args *args, int64_t from, int64_t to)
{
  return args->mode == RG_RESAMPLE_NEAREST ? 1 : 2 * reach(args, scale_of(args, from, to));
}

/* Where result `at` lies on the axis. */
static double place_of(const rg_resample_args *args, double from, double to, double at)
{
  double scale = args->scale > 0 ? args->scale : to / from;
  double wide = args->scale > 0 ? scale * from : to; /* the size before it was rounded */

  switch (args->coordinates) {
  case RG_COORDINATES_PYTORCH_HALF_PIXEL:
    return to == 1 ? 0 : (at + 0.5) / scale - 0.5;
  case RG_COORDINATES_ALIGN_CORNERS:
    return wide == 1 ? 0 : at * (from - 1) / (wide - 1);
  case RG_COORDINATES_ASYMMETRIC:
    return at / scale;
  case RG_COORDINATES_HALF_PIXEL_SYMMETRIC:
    return from / 2 * (1 - to / wide) + (at + 0.5) / scale - 0.5;
  case RG_COORDINATES_CROP:
    return to == 1
               ? (args->first + args->last) * (from - 1) / 2
               : args->first * (from - 1) + at * (args->last - args->first) * (from - 1) / (to - 1);
  default:
    return (at + 0.5) / scale - 0.5;
  }
}

static double kernel(const rg_resample_args *args, double x)
{
  double a = args->cubic;

  x = fabs(x);
  if (args->mode == RG_RESAMPLE_LINEAR) {
    return x < 1 ? 1 - x : 0;
  }
  return x <= 1  ? ((a + 2) * x - (a + 3)) * x * x + 1
         : x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
                 : 0;
}

static double nearest(int32_t rounding, double place)
{
  switch (rounding) {
  case RG_ROUND_PREFER_CEIL:
    return floor(place + 0.5);
  case RG_ROUND_FLOOR:
    return floor(place);
  case RG_ROUND_CEIL:
    return ceil(place);
  default:
    return ceil(place - 0.5);
  }
}

static int64_t clamped(double at, int64_t n)
{
  return at < 0 ? 0 : at > (double)(n - 1) ? n - 1 : (int64_t)at;
}

rg_taps rg_resample_at(const rg_resample_args *args, int64_t from, int64_t to, int64_t at,
                       int64_t *index, double *weight)
{
  double place = place_of(args, (double)from, (double)to, (double)at);
  double scale = scale_of(args, from, to);
  double sum = 0;
  rg_taps taps = { .n = 0 };

  if (args->coordinates == RG_COORDINATES_CROP && !(place >= 0 && place <= (double)(from - 1))) {
    taps.more = args->value;
    return taps;
  }
  if (args->mode == RG_RESAMPLE_NEAREST) {
    index[0] = clamped(nearest(args->rounding, place), from);
    weight[0] = 1;
    taps.n = 1;
    return taps;
  }
  int64_t wide = reach(args, scale);
  double narrow = args->antialias != 0 && scale < 1 ? scale : 1;

  for (int64_t i = 1 - wide; i <= wide; i++) {
    double element = floor(place) + (double)i;
    double w = kernel(args, (element - place) * narrow);

    if (args->exclude != 0 && (element < 0 || element > (double)(from - 1))) {
      w = 0;
    }
    if (w != 0) { /* what has no weight may be nan or infinite */
      index[taps.n] = clamped(element, from);
      weight[taps.n++] = w;
      sum += w;
    }
  }
  if (args->exclude != 0 || narrow < 1) {
    for (int64_t i = 0; i < taps.n; i++) {
      weight[i] /= sum;
    }
  }
  return taps;
}

/* -- Checks ------------------------------------------------------------------------------------ */

static bool is_one_of(int32_t value, int32_t n)
{
  return value >= 0 && value < n;
}

/* from: the axis that is resampled, to: what it becomes. */
static rg_status check(const rg_call *call, int64_t from, int64_t to)
{
  const rg_resample_args *args = call->args;
  const rg_tensor *x = call->in[0];
  char text[96];

  if (!is_one_of(args->mode, RG_RESAMPLE_MODES) ||
      !is_one_of(args->coordinates, RG_COORDINATES_COUNT) ||
      !is_one_of(args->rounding, RG_ROUND_COUNT)) {
    return rg_fail(RG_EARG, "%s: there is no mode %d with coordinates %d and rounding %d",
                   call->op->name, args->mode, args->coordinates, args->rounding);
  }
  if (from < 0 || from > MOST || to < 0 || to > MOST || (from == 0 && to > 0)) {
    return rg_fail(RG_EARG, "%s: axis %d of %s does not become one of %lld", call->op->name,
                   args->axis + 1, rg_tensor_text(x, text, sizeof(text)), (long long)args->size);
  }
  if (!(args->scale >= 0) || !(args->scale < 1e9) || (args->scale > 0 && args->scale < 1e-9) ||
      !isfinite(args->cubic) || !(fabs(args->first) < 1e9) || !(fabs(args->last) < 1e9)) {
    return rg_fail(RG_EARG, "%s: a scale of %g, a cubic coefficient of %g, a crop from %g to %g",
                   call->op->name, args->scale, args->cubic, args->first, args->last);
  }
  double all = (double)to * (double)(from > 0 ? rg_resample_taps(args, from, to) : 0);

  if (all > 1e12) { /* beyond any memory; the bytes of more would not be counted in 64 bits */
    return rg_fail(RG_EARG, "%s: %lld results of %g elements each are too many", call->op->name,
                   (long long)to, all / (double)to);
  }
  return RG_OK;
}

static int64_t room(int32_t dtype, int64_t count)
{
  return rg_round_up(count * (dtype == RG_F64 ? 8 : 4), 64);
}

/* The table, what is read where it has gaps or is narrow, and what is made where that is narrow. */
static void take_room(rg_call *call, int64_t from, int64_t to)
{
  const rg_resample_args *args = call->args;
  const rg_tensor *x = call->in[0];
  bool half = x->_dtype == RG_F16 || x->_dtype == RG_BF16;

  call->n_out = 1;
  if (call->device != RG_CPU || x->_count == 0 || rg_meta_count(&call->out[0]) == 0) {
    return;
  }
  call->scratch_bytes = rg_round_up(to * (int64_t)sizeof(rg_taps), 64) +
                        2 * rg_round_up(to * rg_resample_taps(args, from, to) * 8, 64);
  if (half || !rg_is_contiguous(x)) {
    call->scratch_bytes += room(x->_dtype, x->_count);
  }
  if (half) {
    call->scratch_bytes += room(x->_dtype, rg_meta_count(&call->out[0]));
  }
}

/* -- Forward ---------------------------------------------------------------------------------- */

static rg_status infer(rg_call *call)
{
  const rg_resample_args *args = call->args;
  const rg_tensor *x = call->in[0];

  RG_TRY(check(call, x->_shape[args->axis], args->size));
  call->out[0] = rg_meta_of(x);
  call->out[0].shape[args->axis] = args->size;
  take_room(call, x->_shape[args->axis], args->size);
  return RG_OK;
}

/* The other record on dy, with the size of what is made. */
static rg_status other(rg_grad *g, const rg_op *op)
{
  rg_resample_args args = *(const rg_resample_args *)g->call->args;
  rg_rule r = rg_rule_of(g);
  rg_tensor *out = NULL;
  rg_status status = r.f.status;

  args.size = g->in[0].shape[args.axis];
  args.value = 0;
  if (status == RG_OK) {
    status = rg_run1(op, (const rg_tensor *const[]){ r.dy }, 1, &args, &out);
  }
  rg_rule_give(&r, 0, rg_f_took(&r.f, status, out));
  return rg_rule_end(&r);
}

static rg_status grad(rg_grad *g)
{
  return other(g, &rg_op_resample_back);
}

/* A product and a sum for each element of each result. */
static rg_cost cost(const rg_call *call)
{
  const rg_resample_args *args = call->args;
  const rg_tensor *x = call->in[0];

  return rg_cost_of(call, 2.0 * (double)rg_meta_count(&call->out[0]) *
                              (double)rg_resample_taps(args, rg_max_i64(x->_shape[args->axis], 1),
                                                       rg_max_i64(args->size, 1)));
}

static const rg_arg resample_args[] = { RG_RESAMPLE_ARGS(RG_ARG_ROW, rg_resample_args, ) };

const rg_op rg_op_resample = {
  .name = "resample",
  .doc = "an axis of another size, by interpolation",
  .id = RG_OP_RESAMPLE,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", NATIVE, FLOAT)),
  .result = { "y" },
  RG_ARGS(rg_resample_args, resample_args),
  .infer = infer,
  .grad = grad,
  .cost = cost,
};

/* -- Back ------------------------------------------------------------------------------------- */

static rg_status back_infer(rg_call *call)
{
  const rg_resample_args *args = call->args;
  const rg_tensor *dy = call->in[0];

  RG_TRY(check(call, args->size, dy->_shape[args->axis]));
  call->out[0] = rg_meta_of(dy);
  call->out[0].shape[args->axis] = args->size;
  take_room(call, args->size, dy->_shape[args->axis]);
  return RG_OK;
}

static rg_status back_grad(rg_grad *g)
{
  return other(g, &rg_op_resample);
}

static rg_cost back_cost(const rg_call *call)
{
  const rg_resample_args *args = call->args;
  const rg_tensor *dy = call->in[0];

  return rg_cost_of(call, 2.0 * (double)dy->_count *
                              (double)rg_resample_taps(args, rg_max_i64(args->size, 1),
                                                       rg_max_i64(dy->_shape[args->axis], 1)));
}

const rg_op rg_op_resample_back = {
  .name = "resample_back",
  .doc = "the gradient of resample: to what each result was made of, by its weights",
  .id = RG_OP_RESAMPLE_BACK,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("dy", NATIVE, FLOAT)),
  .result = { "dx" },
  RG_ARGS(rg_resample_args, resample_args),
  .infer = back_infer,
  .grad = back_grad,
  .cost = back_cost,
};
