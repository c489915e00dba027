/* SPDX-License-Identifier: MIT */
/*
** Pooling over windows of images: signatures, shape rules, gradients, cost, public entries.  The
** kernels are in core/cpu/pool.c.
**
** Where each maximum was is a hidden result of max_pool2d; of equal elements it is the first one.
*/
#include <string.h>

#include "op/conv.h"
#include "op/list.h"
#include "op/pool.h"
#include "op/rule.h"

enum { MOST = 1 << 30 }; /* of sizes and strides: products of two still fit */

extern const rg_op rg_op_max_pool2d;
extern const rg_op rg_op_max_pool2d_back;
extern const rg_op rg_op_avg_pool2d;
extern const rg_op rg_op_avg_pool2d_back;

/* -- Checks ------------------------------------------------------------------------------- */

static rg_status check_options(const rg_call *call)
{
  const rg_pool2d_options *o = &((const rg_pool2d_args *)call->args)->o;

  for (int i = 0; i < 2; i++) {
    if (o->size[i] < 1 || o->size[i] > MOST || o->stride[i] < 1 || o->stride[i] > MOST) {
      return rg_fail(RG_EARG, "%s: windows and strides are whole numbers from 1, got %lld and %lld",
                     call->op->name, (long long)o->size[i], (long long)o->stride[i]);
    }
    if (o->pad_low[i] < 0 || o->pad_low[i] >= o->size[i] || o->pad_high[i] < 0 ||
        o->pad_high[i] >= o->size[i]) {
      return rg_fail(RG_EARG,
                     "%s: a padding of %lld and %lld for a window of %lld; it has to be smaller",
                     call->op->name, (long long)o->pad_low[i], (long long)o->pad_high[i],
                     (long long)o->size[i]);
    }
  }
  return rg_check_args(call);
}

static rg_status check_images(const rg_call *call, const char *what)
{
  char text[128];

  if (call->in[0]->_ndim != 4) {
    return rg_fail(RG_ESHAPE, "%s: %s is %s, wanted 4 axes", call->op->name, what,
                   rg_tensor_text(call->in[0], text, sizeof(text)));
  }
  return check_options(call);
}

static int64_t size_after(const rg_pool2d_options *o, int i, int64_t x)
{
  int64_t rest = x + o->pad_low[i] + o->pad_high[i] - o->size[i];

  return rest < 0 ? 0 : rest / o->stride[i] + 1;
}

/* Half types are widened in scratch, and what is computed is narrowed. */
static int64_t wide_bytes(int32_t dtype, int64_t count)
{
  bool half = dtype == RG_F16 || dtype == RG_BF16;

  return half ? rg_round_up(count * 4, 64) : 0;
}

/* x, where it is not read in place, and the result; the kernels of a GPU need neither. */
static int64_t scratch_for(const rg_call *call)
{
  const rg_tensor *x = call->in[0];
  int64_t bytes = wide_bytes(x->_dtype, rg_meta_count(&call->out[0]));

  if (call->device != RG_CPU) {
    return 0;
  }
  if (rg_is_contiguous(x) && wide_bytes(x->_dtype, 1) == 0) {
    return bytes;
  }
  return bytes + rg_round_up(x->_count * (x->_dtype == RG_F64 ? 8 : 4), 64);
}

/* -- Forward ------------------------------------------------------------------------------ */

rg_status rg_pool2d_infer(rg_call *call)
{
  const rg_pool2d_options *o = &((const rg_pool2d_args *)call->args)->o;
  int32_t rows = rg_rows_axis(o->layout);
  char text[128];

  RG_TRY(check_images(call, "x"));
  const rg_tensor *x = call->in[0];
  call->out[0] = rg_meta_of(x);
  for (int i = 0; i < 2; i++) {
    call->out[0].shape[rows + i] = size_after(o, i, x->_shape[rows + i]);
    /* of padding alone there is no largest element, and an image without rows has nothing else */
    if (call->out[0].shape[rows + i] < 1 || x->_shape[rows + i] < 1) {
      return rg_fail(RG_ESHAPE, "%s: a window of %lld %s does not fit into %s", call->op->name,
                     (long long)o->size[i], i == 0 ? "rows" : "columns",
                     rg_tensor_text(x, text, sizeof(text)));
    }
  }
  call->n_out = 1;
  call->compute = -1;
  call->scratch_bytes = scratch_for(call);
  if (call->op->n_hidden > 0) {
    if (x->_shape[rows] * x->_shape[rows + 1] > INT32_MAX) {
      return rg_fail(RG_ESHAPE, "%s: images of %s are too large to count their elements in i32",
                     call->op->name, rg_tensor_text(x, text, sizeof(text)));
    }
    call->out[1] = call->out[0];
    call->out[1].dtype = RG_I32;
    call->n_out = 2;
  }
  return RG_OK;
}

static rg_cost pool_cost(const rg_call *call)
{
  const rg_pool2d_options *o = &((const rg_pool2d_args *)call->args)->o;

  return rg_cost_of(call,
                    (double)rg_meta_count(&call->out[0]) * (double)o->size[0] * (double)o->size[1]);
}

static rg_status max_grad(rg_grad *g)
{
  const rg_pool2d_args *args = g->call->args;
  const int64_t *size = &g->in[0].shape[rg_rows_axis(args->o.layout)];
  rg_rule r = rg_rule_of(g);
  rg_tensor *out = NULL;
  rg_status status = rg_max_pool2d_back(r.dy, g->out[1], size[0], size[1], &args->o, &out);

  rg_rule_give(&r, 0, rg_f_took(&r.f, status, out));
  return rg_rule_end(&r);
}

static rg_status avg_grad(rg_grad *g)
{
  const rg_pool2d_args *args = g->call->args;
  const int64_t *size = &g->in[0].shape[rg_rows_axis(args->o.layout)];
  rg_rule r = rg_rule_of(g);
  rg_tensor *out = NULL;
  rg_status status = rg_avg_pool2d_back(r.dy, size[0], size[1], &args->o, &out);

  rg_rule_give(&r, 0, rg_f_took(&r.f, status, out));
  return rg_rule_end(&r);
}

/* -- Backward ----------------------------------------------------------------------------- */

static rg_status back_infer(rg_call *call)
{
  const rg_pool2d_args *args = call->args;
  const rg_pool2d_options *o = &args->o;
  const int64_t size[2] = { args->rows, args->columns };
  int32_t rows = rg_rows_axis(o->layout);
  bool has_index = call->op->n_inputs > 1;
  char text[2][128];

  RG_TRY(check_images(call, "dy"));
  const rg_tensor *dy = call->in[0];
  call->out[0] = rg_meta_of(dy);
  for (int i = 0; i < 2; i++) {
    if (size[i] < 1 || size[i] > MOST || size_after(o, i, size[i]) != dy->_shape[rows + i]) {
      return rg_fail(RG_ESHAPE, "%s: %lld %s do not give the %lld of dy, %s", call->op->name,
                     (long long)size[i], i == 0 ? "rows" : "columns",
                     (long long)dy->_shape[rows + i], rg_tensor_text(dy, text[0], sizeof(text[0])));
    }
    call->out[0].shape[rows + i] = size[i];
  }
  if (has_index) {
    const rg_tensor *index = call->in[1];

    if (index->_dtype != RG_I32 || index->_ndim != 4 || !rg_is_contiguous(index) ||
        memcmp(index->_shape, dy->_shape, 4 * sizeof(int64_t)) != 0) {
      return rg_fail(RG_ESHAPE, "%s: the index is %s, wanted i32 side by side, in the shape of %s",
                     call->op->name, rg_tensor_text(index, text[0], sizeof(text[0])),
                     rg_tensor_text(dy, text[1], sizeof(text[1])));
    }
  }
  call->n_out = 1;
  call->compute = -1;
  call->scratch_bytes = scratch_for(call);
  return RG_OK;
}

/* The average's gradient is linear: its own gradient is the average again. */
static rg_status avg_back_grad(rg_grad *g)
{
  const rg_pool2d_args *args = g->call->args;
  rg_rule r = rg_rule_of(g);
  rg_tensor *out = NULL;
  rg_status status = rg_avg_pool2d(r.dy, &args->o, &out);

  rg_rule_give(&r, 0, rg_f_took(&r.f, status, out));
  return rg_rule_end(&r);
}

static rg_cost back_cost(const rg_call *call)
{
  const rg_pool2d_options *o = &((const rg_pool2d_args *)call->args)->o;
  double windows = call->op->n_inputs > 1 ? 1 : (double)o->size[0] * (double)o->size[1];

  return rg_cost_of(call, (double)call->in[0]->_count * windows);
}

/* -- Records ------------------------------------------------------------------------------ */

static const rg_arg pool2d_args[] = { RG_POOL2D_OPTIONS(RG_ARG_ROW, rg_pool2d_args, o.) };
static const rg_arg pool2d_back_args[] = { RG_POOL2D_SIZE(RG_ARG_ROW, rg_pool2d_args, )
                                               RG_POOL2D_OPTIONS(RG_ARG_ROW, rg_pool2d_args, o.) };

const rg_op rg_op_max_pool2d = {
  .name = "max_pool2d",
  .doc = "the largest element of each window",
  .id = RG_OP_MAX_POOL2D,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", INPUT, FLOAT)),
  .result = { "y", "index" },
  RG_ARGS(rg_pool2d_args, pool2d_args),
  .n_hidden = 1,
  .infer = rg_pool2d_infer,
  .grad = max_grad,
  .cost = pool_cost,
};

const rg_op rg_op_max_pool2d_back = {
  .name = "max_pool2d_back",
  .doc = "the gradient of max_pool2d: to where each maximum was",
  .id = RG_OP_MAX_POOL2D_BACK,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("dy", INPUT, FLOAT), RG_IN("index", BITS, ANY)),
  .result = { "dx" },
  RG_ARGS(rg_pool2d_args, pool2d_back_args),
  .infer = back_infer,
  .cost = back_cost,
};

const rg_op rg_op_avg_pool2d = {
  .name = "avg_pool2d",
  .doc = "the average of each window",
  .id = RG_OP_AVG_POOL2D,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", INPUT, FLOAT)),
  .result = { "y" },
  RG_ARGS(rg_pool2d_args, pool2d_args),
  .infer = rg_pool2d_infer,
  .grad = avg_grad,
  .cost = pool_cost,
};

const rg_op rg_op_avg_pool2d_back = {
  .name = "avg_pool2d_back",
  .doc = "the gradient of avg_pool2d: spread over each window",
  .id = RG_OP_AVG_POOL2D_BACK,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("dy", INPUT, FLOAT)),
  .result = { "dx" },
  RG_ARGS(rg_pool2d_args, pool2d_back_args),
  .infer = back_infer,
  .grad = avg_back_grad,
  .cost = back_cost,
};

/* -- Public ------------------------------------------------------------------------------- */

static rg_status run(const rg_op *op, const rg_tensor *x, const rg_tensor *index, int64_t rows,
                     int64_t columns, const rg_pool2d_options *options, rg_tensor **out)
{
  rg_pool2d_args args;
  rg_call call = {
    .op = op, .in = (const rg_tensor *const[]){ x, index }, .n_in = op->n_inputs, .args = &args
  };

  if (options == NULL) {
    return rg_fail(RG_EARG, "%s: there are no options to say the window's size", op->name);
  }
  memset(&args, 0, sizeof(args));
  args.o = *options;
  args.rows = rows;
  args.columns = columns;
  for (int i = 0; i < 2; i++) {
    args.o.stride[i] = args.o.stride[i] == 0 ? args.o.size[i] : args.o.stride[i];
  }
  return rg_run_fresh(&call, out);
}

rg_status rg_max_pool2d(const rg_tensor *x, const rg_pool2d_options *options, rg_tensor **out)
{
  return run(&rg_op_max_pool2d, x, NULL, 0, 0, options, out);
}

rg_status rg_avg_pool2d(const rg_tensor *x, const rg_pool2d_options *options, rg_tensor **out)
{
  return run(&rg_op_avg_pool2d, x, NULL, 0, 0, options, out);
}

rg_status rg_max_pool2d_back(const rg_tensor *dy, const rg_tensor *index, int64_t rows,
                             int64_t columns, const rg_pool2d_options *options, rg_tensor **out)
{
  return run(&rg_op_max_pool2d_back, dy, index, rows, columns, options, out);
}

rg_status rg_avg_pool2d_back(const rg_tensor *dy, int64_t rows, int64_t columns,
                             const rg_pool2d_options *options, rg_tensor **out)
{
  return run(&rg_op_avg_pool2d_back, dy, NULL, rows, columns, options, out);
}
