/* SPDX-License-Identifier: MIT */
/*
** Two-dimensional convolution (cross-correlation, as in every framework), in groups:
**
**   y[n,o,i,j] = act(b[o] + sum_{c,p,q} x[n, c, i s + p d - top, j s + q d - left] w[o,c,p,q])
**
** and its gradients, which are operations themselves: the one for x is a transposed convolution.
** Signatures, shape rules, cost, public entries; the kernels are in core/cpu/conv.c, the rules in
** conv_grad.c.
*/
#include <string.h>

#include "op/conv.h"
#include "op/list.h"
#include "op/product.h"

enum { MOST = 1 << 30 }; /* of strides, dilations, paddings: products of two still fit */

extern const rg_op rg_op_conv2d, rg_op_conv2d_add;

/* -- Arguments ---------------------------------------------------------------------------- */

rg_status rg_conv2d_check(const rg_call *call)
{
  const rg_conv2d_options *o = &((const rg_conv2d_args *)call->args)->o;

  for (int i = 0; i < 2; i++) {
    if (o->stride[i] < 1 || o->stride[i] > MOST || o->dilation[i] < 1 || o->dilation[i] > MOST) {
      return rg_fail(RG_EARG,
                     "%s: strides and dilations are whole numbers from 1, got %lld and %lld",
                     call->op->name, (long long)o->stride[i], (long long)o->dilation[i]);
    }
    if (o->pad_low[i] < 0 || o->pad_low[i] > MOST || o->pad_high[i] < 0 || o->pad_high[i] > MOST) {
      return rg_fail(RG_EARG, "%s: paddings are whole numbers from 0, got %lld and %lld",
                     call->op->name, (long long)o->pad_low[i], (long long)o->pad_high[i]);
    }
  }
  if (o->groups < 1 || o->groups > MOST) {
    return rg_fail(RG_EARG, "%s: there are %lld groups, wanted at least 1", call->op->name,
                   (long long)o->groups);
  }
  RG_TRY(rg_check_args(call));
  return rg_product_act(call, o->act);
}

static rg_status check_images(const rg_call *call, int32_t i, const char *what)
{
  const rg_conv2d_options *o = &((const rg_conv2d_args *)call->args)->o;
  const rg_tensor *x = call->in[i];
  char text[128];

  if (x->_ndim != 4) {
    return rg_fail(RG_ESHAPE, "%s: %s is %s, wanted 4 axes (%s)", call->op->name, what,
                   rg_tensor_text(x, text, sizeof(text)),
                   o->layout == RG_NHWC ? "batch, rows, columns, channels"
                                        : "batch, channels, rows, columns");
  }
  return RG_OK;
}

/* How far a kernel reaches; what is beyond any image is only large. */
static int64_t extent(const rg_conv2d_options *o, int i, int64_t size)
{
  int64_t reach;

  if (__builtin_mul_overflow(size - 1, o->dilation[i], &reach)) {
    reach = INT64_MAX;
  }
  return rg_min_i64(reach, INT64_MAX / 4) + 1;
}

/* Rows (i = 0) or columns of the result; below 1 where the kernel does not fit. */
static int64_t size_after(const rg_conv2d_options *o, int i, int64_t x, int64_t w)
{
  int64_t rest = x + o->pad_low[i] + o->pad_high[i] - extent(o, i, w);

  return rest < 0 ? 0 : rest / o->stride[i] + 1;
}

/* Fill out with the layout's order. */
static void image_meta(const rg_conv2d_options *o, int64_t n, int64_t c, const int64_t size[2],
                       int32_t dtype, rg_meta *out)
{
  *out = (rg_meta){ .dtype = dtype, .ndim = 4 };
  out->shape[0] = n;
  out->shape[rg_channels_axis(o->layout)] = c;
  out->shape[rg_rows_axis(o->layout)] = size[0];
  out->shape[rg_rows_axis(o->layout) + 1] = size[1];
}

/* The kernel has to suit c channels in and, where o is not negative, o channels out. */
static rg_status check_kernel(const rg_call *call, int64_t c, int64_t n_out)
{
  const rg_conv2d_options *o = &((const rg_conv2d_args *)call->args)->o;
  const rg_tensor *w = call->in[1];
  char text[128];

  if (c % o->groups != 0) { /* what the weight should be would be no answer */
    return rg_fail(RG_ESHAPE, "%s: %lld channels do not fall into %lld groups", call->op->name,
                   (long long)c, (long long)o->groups);
  }
  if (w->_ndim != 4 || w->_shape[1] * o->groups != c || w->_shape[0] % o->groups != 0 ||
      (n_out >= 0 && w->_shape[0] != n_out)) {
    return rg_fail(RG_ESHAPE,
                   "%s: the weight is %s, wanted [channels out, %lld, rows, columns] for %lld "
                   "channels in %lld groups",
                   call->op->name, rg_tensor_text(w, text, sizeof(text)),
                   (long long)(c / o->groups), (long long)c, (long long)o->groups);
  }
  if (w->_shape[0] < 1 || w->_shape[1] < 1 || w->_shape[2] < 1 || w->_shape[3] < 1) {
    return rg_fail(RG_ESHAPE, "%s: the weight is %s and has nothing in it", call->op->name,
                   rg_tensor_text(w, text, sizeof(text)));
  }
  return RG_OK;
}

/* -- Forward ------------------------------------------------------------------------------ */

rg_status rg_conv2d_shape(rg_call *call, int32_t bias, int32_t dtype)
{
  const rg_conv2d_options *o = &((const rg_conv2d_args *)call->args)->o;
  int32_t rows = rg_rows_axis(o->layout);
  char text[128];
  int64_t size[2];

  RG_TRY(check_images(call, 0, "x"));
  const rg_tensor *x = call->in[0];
  const rg_tensor *w = call->in[1];
  RG_TRY(check_kernel(call, x->_shape[rg_channels_axis(o->layout)], -1));
  RG_TRY(rg_product_bias(call, bias, w->_shape[0]));
  for (int i = 0; i < 2; i++) {
    size[i] = size_after(o, i, x->_shape[rows + i], w->_shape[2 + i]);
    if (size[i] < 1) {
      return rg_fail(RG_ESHAPE, "%s: a kernel that reaches over %lld %s does not fit into %s",
                     call->op->name, (long long)extent(o, i, w->_shape[2 + i]),
                     i == 0 ? "rows" : "columns", rg_tensor_text(x, text, sizeof(text)));
    }
  }
  image_meta(o, x->_shape[0], w->_shape[0], size, dtype, &call->out[0]);
  call->n_out = 1;
  return RG_OK;
}

static rg_status conv2d_infer(rg_call *call)
{
  int32_t dtype;

  RG_TRY(rg_conv2d_check(call));
  RG_TRY(rg_product_dtype(call, &dtype));
  RG_TRY(rg_conv2d_shape(call, 2, dtype));
  call->compute = -1;
  call->weight_cast = dtype;
  return RG_OK;
}

/* What is added has the shape of the result, of one size with it: nothing is repeated. */
static rg_status conv2d_add_infer(rg_call *call)
{
  const rg_tensor *r = call->in[2];
  char a[128];
  char b[128];
  int32_t dtype;

  RG_TRY(rg_conv2d_check(call));
  RG_TRY(rg_product_dtype(call, &dtype));
  RG_TRY(rg_conv2d_shape(call, 3, dtype));
  if (!rg_tensor_shaped(r, call->out[0].shape, call->out[0].ndim)) {
    return rg_fail(RG_ESHAPE, "%s: r is %s, wanted the result's %s", call->op->name,
                   rg_tensor_text(r, a, sizeof(a)),
                   rg_shape_text(call->out[0].shape, call->out[0].ndim, b, sizeof(b)));
  }
  call->compute = dtype;
  call->weight_cast = dtype;
  return RG_OK;
}

static rg_cost conv2d_cost(const rg_call *call)
{
  rg_conv2d_sizes s = rg_conv2d_sizes_of(call);

  return rg_cost_of(call, 2.0 * (double)s.n * (double)s.o * (double)(s.c / s.groups) *
                              (double)(s.w[0] * s.w[1]) * (double)(s.y[0] * s.y[1]));
}

/* -- Backward ----------------------------------------------------------------------------- */

static rg_status back_data_infer(rg_call *call)
{
  const rg_conv2d_args *args = call->args;
  const rg_conv2d_options *o = &args->o;
  int32_t rows = rg_rows_axis(o->layout);
  char text[128];
  int32_t dtype;

  RG_TRY(rg_conv2d_check(call));
  RG_TRY(rg_product_dtype(call, &dtype));
  RG_TRY(check_images(call, 0, "dy"));
  const rg_tensor *dy = call->in[0];
  const rg_tensor *w = call->in[1];
  if (w->_ndim != 4) {
    return rg_fail(RG_ESHAPE, "%s: the weight is %s, wanted 4 axes", call->op->name,
                   rg_tensor_text(w, text, sizeof(text)));
  }
  RG_TRY(check_kernel(call, w->_shape[1] * o->groups, dy->_shape[rg_channels_axis(o->layout)]));
  for (int i = 0; i < 2; i++) {
    if (args->size[i] < 0 || args->size[i] > MOST ||
        size_after(o, i, args->size[i], w->_shape[2 + i]) != dy->_shape[rows + i]) {
      return rg_fail(RG_ESHAPE, "%s: %lld %s do not give the %lld of dy, %s", call->op->name,
                     (long long)args->size[i], i == 0 ? "rows" : "columns",
                     (long long)dy->_shape[rows + i], rg_tensor_text(dy, text, sizeof(text)));
    }
  }
  image_meta(o, dy->_shape[0], w->_shape[1] * o->groups, args->size, dtype, &call->out[0]);
  call->n_out = 1;
  call->compute = -1;
  call->weight_cast = dtype;
  return RG_OK;
}

static rg_status back_weight_infer(rg_call *call)
{
  const rg_conv2d_args *args = call->args;
  const rg_conv2d_options *o = &args->o;
  int32_t rows = rg_rows_axis(o->layout);
  int32_t channels = rg_channels_axis(o->layout);
  char text[2][128];
  int32_t dtype;

  RG_TRY(rg_conv2d_check(call));
  RG_TRY(rg_product_dtype(call, &dtype));
  RG_TRY(check_images(call, 0, "x"));
  RG_TRY(check_images(call, 1, "dy"));
  const rg_tensor *x = call->in[0];
  const rg_tensor *dy = call->in[1];
  bool fits = x->_shape[0] == dy->_shape[0] && x->_shape[channels] % o->groups == 0 &&
              dy->_shape[channels] % o->groups == 0 && x->_shape[channels] > 0 &&
              dy->_shape[channels] > 0;

  for (int i = 0; i < 2; i++) {
    fits = fits && args->size[i] > 0 && args->size[i] <= MOST &&
           size_after(o, i, x->_shape[rows + i], args->size[i]) == dy->_shape[rows + i];
  }
  if (!fits) {
    return rg_fail(RG_ESHAPE, "%s: x is %s and dy %s, which no kernel of %lld by %lld joins",
                   call->op->name, rg_tensor_text(x, text[0], sizeof(text[0])),
                   rg_tensor_text(dy, text[1], sizeof(text[1])), (long long)args->size[0],
                   (long long)args->size[1]);
  }
  call->out[0] = (rg_meta){ .dtype = dtype,
                            .ndim = 4,
                            .shape = { dy->_shape[channels], x->_shape[channels] / o->groups,
                                       args->size[0], args->size[1] } };
  call->out[1] = (rg_meta){ .dtype = dtype, .ndim = 1, .shape = { dy->_shape[channels] } };
  call->n_out = 2;
  call->compute = -1;
  return RG_OK;
}

/* -- Sizes -------------------------------------------------------------------------------- */

rg_conv2d_sizes rg_conv2d_sizes_of(const rg_call *call)
{
  const rg_conv2d_args *args = call->args;
  rg_conv2d_sizes s = { .groups = args->o.groups };
  int32_t rows = rg_rows_axis(args->o.layout);
  int32_t channels = rg_channels_axis(args->o.layout);
  bool is_data = call->op->id == RG_OP_CONV2D_BACK_DATA;
  bool is_weight = call->op->id == RG_OP_CONV2D_BACK_WEIGHT;
  rg_meta x = is_data ? call->out[0] : rg_meta_of(call->in[0]);
  rg_meta w = is_weight ? call->out[0] : rg_meta_of(call->in[1]);
  rg_meta y = is_data     ? rg_meta_of(call->in[0])
              : is_weight ? rg_meta_of(call->in[1])
                          : call->out[0];

  s.n = x.shape[0];
  s.c = x.shape[channels];
  s.o = y.shape[channels];
  for (int i = 0; i < 2; i++) {
    s.x[i] = x.shape[rows + i];
    s.w[i] = w.shape[2 + i];
    s.y[i] = y.shape[rows + i];
  }
  return s;
}

/* -- Records ------------------------------------------------------------------------------ */

static const rg_arg conv2d_args[] = { RG_CONV2D_OPTIONS(RG_ARG_ROW, rg_conv2d_args, o.) };
static const rg_arg back_args[] = { RG_CONV2D_SIZE(RG_ARG_ROW, rg_conv2d_args, )
                                        RG_CONV2D_OPTIONS(RG_ARG_ROW, rg_conv2d_args, o.) };

const rg_op rg_op_conv2d = {
  .name = "conv2d",
  .doc = "images with kernels slid over them, plus b, through an activation",
  .id = RG_OP_CONV2D,
  .amp = RG_AMP_LOWER,
  RG_INPUTS(RG_IN("x", INPUT, FLOAT), RG_IN("w", WEIGHT, FLOAT), RG_OPTIONAL("b", BIAS, FLOAT)),
  .result = { "y" },
  .save_in = 7,
  .save_out = 1,
  RG_ARGS(rg_conv2d_args, conv2d_args),
  .infer = conv2d_infer,
  .grad = rg_conv2d_grad,
  .save = rg_conv2d_save,
  .cost = conv2d_cost,
};

const rg_op rg_op_conv2d_add = {
  .name = "conv2d_add",
  .doc = "images with kernels slid over them, plus b, plus r, through an activation",
  .id = RG_OP_CONV2D_ADD,
  .amp = RG_AMP_LOWER,
  RG_INPUTS(RG_IN("x", INPUT, FLOAT), RG_IN("w", WEIGHT, FLOAT), RG_IN("r", INPUT, FLOAT),
            RG_OPTIONAL("b", BIAS, FLOAT)),
  .result = { "y" },
  .over = 3,
  RG_ARGS(rg_conv2d_args, conv2d_args),
  .infer = conv2d_add_infer,
  .cost = conv2d_cost,
};

const rg_op rg_op_conv2d_back_data = {
  .name = "conv2d_back_data",
  .doc = "transposed convolution: the gradient of conv2d for its images",
  .id = RG_OP_CONV2D_BACK_DATA,
  .amp = RG_AMP_LOWER,
  RG_INPUTS(RG_IN("dy", INPUT, FLOAT), RG_IN("w", WEIGHT, FLOAT)),
  .result = { "dx" },
  .save_in = 3,
  RG_ARGS(rg_conv2d_args, back_args),
  .infer = back_data_infer,
  .grad = rg_conv2d_back_data_grad,
  .cost = conv2d_cost,
};

const rg_op rg_op_conv2d_back_weight = {
  .name = "conv2d_back_weight",
  .doc = "the gradients of conv2d for its kernels and its bias",
  .id = RG_OP_CONV2D_BACK_WEIGHT,
  .amp = RG_AMP_LOWER,
  RG_INPUTS(RG_IN("x", INPUT, FLOAT), RG_IN("dy", INPUT, FLOAT)),
  .result = { "dw", "db" },
  .save_in = 3,
  RG_ARGS(rg_conv2d_args, back_args),
  .infer = back_weight_infer,
  .grad = rg_conv2d_back_weight_grad,
  .cost = conv2d_cost,
};

/* -- Public ------------------------------------------------------------------------------- */

/* Zeros become what they stand for. */
rg_conv2d_args rg_conv2d_args_of(const rg_conv2d_options *options)
{
  rg_conv2d_args args;

  memset(&args, 0, sizeof(args));
  if (options != NULL) {
    args.o = *options;
  }
  for (int i = 0; i < 2; i++) {
    args.o.stride[i] = args.o.stride[i] == 0 ? 1 : args.o.stride[i];
    args.o.dilation[i] = args.o.dilation[i] == 0 ? 1 : args.o.dilation[i];
  }
  args.o.groups = args.o.groups == 0 ? 1 : args.o.groups;
  return args;
}

rg_status rg_conv2d(const rg_tensor *x, const rg_tensor *w, const rg_tensor *b,
                    const rg_conv2d_options *options, rg_tensor **out)
{
  rg_conv2d_args args = rg_conv2d_args_of(options);

  return rg_run1(&rg_op_conv2d, (const rg_tensor *const[]){ x, w, b }, 3, &args, out);
}

rg_status rg_conv2d_add(const rg_tensor *x, const rg_tensor *w, const rg_tensor *r,
                        const rg_tensor *b, const rg_conv2d_options *options, rg_tensor **out)
{
  rg_conv2d_args args = rg_conv2d_args_of(options);

  return rg_run1(&rg_op_conv2d_add, (const rg_tensor *const[]){ x, w, r, b }, 4, &args, out);
}

rg_status rg_conv2d_back_data(const rg_tensor *dy, const rg_tensor *w, int64_t rows,
                              int64_t columns, const rg_conv2d_options *options, rg_tensor **out)
{
  rg_conv2d_args args = rg_conv2d_args_of(options);

  args.size[0] = rows;
  args.size[1] = columns;
  return rg_run1(&rg_op_conv2d_back_data, (const rg_tensor *const[]){ dy, w }, 2, &args, out);
}

rg_status rg_conv2d_back_weight(const rg_tensor *x, const rg_tensor *dy, int64_t rows,
                                int64_t columns, const rg_conv2d_options *options, rg_tensor **dw,
                                rg_tensor **db)
{
  rg_conv2d_args args = rg_conv2d_args_of(options);
  rg_tensor *out[2] = { NULL, NULL };
  rg_call call = { .op = &rg_op_conv2d_back_weight,
                   .in = (const rg_tensor *const[]){ x, dy },
                   .n_in = 2,
                   .args = &args };

  args.size[0] = rows;
  args.size[1] = columns;
  RG_TRY(rg_run_fresh(&call, out));
  *dw = out[0];
  *db = out[1];
  return RG_OK;
}
