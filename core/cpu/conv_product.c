/* SPDX-License-Identifier: MIT */
/*
** Convolutions with kernels of 1 x 1 that see every position once, as matrix products: channels
** last, of all positions at once; channels first, of one image after the other.
*/
#include <string.h>

#include "cpu/conv.h"
#include "cpu/cpu.h"
#include "cpu/path.h"

/* Everything a run needs; in a plan it is the step's memo. */
typedef struct state {
  rg_memo memo;
  rg_ready ready;
  bool prepared;
} state;

static bool lies_well(const rg_tensor *x, int32_t dtype)
{
  return x->_dtype == dtype && rg_is_contiguous(x);
}

bool rg_conv_is_product(const rg_call *call, rg_tensor *const *out)
{
  const rg_conv2d_args *args = call->args;
  const rg_conv2d_options *o = &args->o;
  const rg_conv2d_sizes s = rg_conv2d_sizes_of(call);
  const int32_t id = call->op->id;
  const int32_t dtype = out[0]->_dtype;

  if ((dtype != RG_F32 && dtype != RG_BF16) || !lies_well(call->in[0], dtype) ||
      !lies_well(call->in[1], dtype) || !lies_well(out[0], dtype) || s.groups > 1) {
    return false;
  }
  for (int i = 0; i < 2; i++) {
    if (s.w[i] != 1 || o->stride[i] != 1 || o->pad_low[i] != 0 || o->pad_high[i] != 0) {
      return false;
    }
  }
  if (id == RG_OP_CONV2D_BACK_WEIGHT && call->n_out > 1 && out[1] != NULL &&
      !lies_well(out[1], dtype)) {
    return false;
  }
  if (o->layout == RG_NHWC) {
    return true;
  }
  /* the sum over images is none of one product; bf16 would be rounded before its bias is added */
  return id == RG_OP_CONV2D_BACK_WEIGHT ? s.n == 1
         : id == RG_OP_CONV2D           ? dtype == RG_F32 || call->n_in < 3 || call->in[2] == NULL
                                        : true;
}

static rg_weight factor(const rg_tensor *x, int64_t k, int64_t n, int64_t row, int64_t col)
{
  rg_weight w = { .k = k, .n = n, .split_k = k, .split_n = n };

  w.piece[0] = (rg_piece){
    .data = x->_data, .storage = x->_storage, .dtype = x->_dtype, .row = row, .col = col
  };
  return w;
}

/* Of all positions: rows are positions, columns channels. */
static rg_product of_all(const rg_call *call, const rg_conv2d_sizes *s)
{
  const int64_t positions = s->n * s->y[0] * s->y[1];
  rg_product p = { .m = positions, .a = call->in[0]->_data, .a_col = 1 };

  switch (call->op->id) {
  case RG_OP_CONV2D:
    p.n = s->o;
    p.k = p.a_row = s->c;
    p.b = factor(call->in[1], s->c, s->o, 1, s->c);
    break;
  case RG_OP_CONV2D_BACK_DATA:
    p.n = s->c;
    p.k = p.a_row = s->o;
    p.b = factor(call->in[1], s->o, s->c, s->c, 1);
    break;
  default:
    p.m = s->o;
    p.n = s->c;
    p.k = positions;
    p.a = call->in[1]->_data;
    p.a_row = 1;
    p.a_col = s->o;
    p.b = factor(call->in[0], positions, s->c, s->c, 1);
    return p;
  }
  p.b.piece[0].keeps = (call->in[1]->_flags & RG_TENSOR_PARAM) != 0;
  return p;
}

/* Of one image: rows are channels, columns positions. */
static rg_product of_one(const rg_call *call, const rg_conv2d_sizes *s)
{
  const int64_t positions = s->y[0] * s->y[1];
  rg_product p = { .a = call->in[1]->_data, .n = positions };

  switch (call->op->id) {
  case RG_OP_CONV2D:
    p.m = s->o;
    p.k = p.a_row = s->c;
    p.a_col = 1;
    break;
  case RG_OP_CONV2D_BACK_DATA:
    p.m = s->c;
    p.k = s->o;
    p.a_row = 1;
    p.a_col = s->c;
    break;
  default:
    p.m = s->o;
    p.n = s->c;
    p.k = p.a_row = positions;
    p.a_col = 1;
    p.b = factor(call->in[0], positions, s->c, 1, positions);
    return p;
  }
  p.b = factor(call->in[0], p.k, positions, positions, 1);
  return p;
}

static rg_product product_of(const rg_call *call, rg_tensor *const *out)
{
  const rg_conv2d_args *args = call->args;
  const rg_conv2d_sizes s = rg_conv2d_sizes_of(call);
  const bool last = args->o.layout == RG_NHWC;
  const int32_t dtype = out[0]->_dtype;
  rg_product p = last ? of_all(call, &s) : of_one(call, &s);

  p.compute = dtype;
  p.a_dtype = p.c_dtype = dtype;
  p.c = out[0]->_data;
  p.c_row = p.n;
  p.epilogue.scale = 1;
  if (call->op->id == RG_OP_CONV2D) {
    const rg_tensor *bias = call->n_in > 2 ? call->in[2] : NULL;

    p.epilogue.bias = last ? bias : NULL;
    p.epilogue.act = last || bias == NULL ? args->o.act : RG_ACT_NONE;
  }
  return p;
}

/* -- The bias, and its gradient -------------------------------------------------------------- */

typedef struct planes {
  float *y;
  const rg_tensor *bias;
  int64_t positions; /* of an image */
  int32_t act;
} planes;

static bool bias_job(void *work, int64_t begin, int64_t end)
{
  const planes *w = work;
  const int64_t channels = w->bias->_count;

  for (int64_t i = begin; i < end; i++) {
    float *y = w->y + i * w->positions;
    const float bias = rg_element_f32(w->bias->_data, w->bias->_dtype, i % channels);

    for (int64_t j = 0; j < w->positions; j++) {
      y[j] += bias;
    }
    rg_activate(w->act, RG_LANE_F32, y, w->positions);
  }
  return true;
}

/* Channels first, where a bias is of a row of the product. */
static rg_status add_bias(const rg_call *call, rg_tensor *const *out)
{
  const rg_conv2d_args *args = call->args;
  const rg_conv2d_sizes s = rg_conv2d_sizes_of(call);
  planes w = {
    .y = out[0]->_data, .bias = call->in[2], .positions = s.y[0] * s.y[1], .act = args->o.act
  };

  return rg_parallel(rg_threads_for(2.0 * (double)out[0]->_count), s.n * s.o, bias_job, &w);
}

/* Sums of dy over all positions, in f64. */
static rg_status sum_bias(const rg_call *call, rg_tensor *out)
{
  const rg_conv2d_args *args = call->args;
  const rg_conv2d_sizes s = rg_conv2d_sizes_of(call);
  const rg_tensor *dy = call->in[1];
  const bool last = args->o.layout == RG_NHWC;
  const int64_t positions = s.n * s.y[0] * s.y[1]; /* channels first there is one image */
  rg_block block = { 0 };

  RG_TRY(rg_block_alloc(RG_CPU, s.o * 16, &block));
  double *sum = block.data;
  float *line = (float *)(sum + s.o);

  memset(sum, 0, (size_t)s.o * sizeof(*sum));
  for (int64_t i = 0; i < positions; i++) {
    rg_run_f32(dy->_data, dy->_dtype, last ? i * s.o : i, last ? 1 : positions, s.o, line);
    for (int64_t j = 0; j < s.o; j++) {
      sum[j] += (double)line[j];
    }
  }
  for (int64_t j = 0; j < s.o; j++) {
    line[j] = (float)sum[j];
  }
  if (out->_dtype == RG_F32) {
    memcpy(out->_data, line, (size_t)s.o * sizeof(*line));
  } else {
    rg_lanes_narrow(out->_dtype, out->_data, line, s.o);
  }
  rg_block_free(&block);
  return RG_OK;
}

/* -- Running --------------------------------------------------------------------------------- */

static rg_status run(state *s, const rg_call *call, rg_tensor *const *out)
{
  const rg_conv2d_args *args = call->args;
  const rg_conv2d_sizes sizes = rg_conv2d_sizes_of(call);
  const bool weight = call->op->id == RG_OP_CONV2D_BACK_WEIGHT;
  const bool each = args->o.layout != RG_NHWC && !weight;
  const int64_t bytes = rg_dtype_bytes(out[0]->_dtype);
  rg_product *p = &s->ready.p;

  for (int64_t i = 0; i < (each ? sizes.n : 1); i++) {
    if (i > 0 && rg_interrupt_pending()) {
      return rg_fail(RG_EINTR, "interrupted");
    }
    if (each) {
      p->b.piece[0].data = (const char *)call->in[0]->_data + i * p->k * p->n * bytes;
      p->c = (char *)out[0]->_data + i * p->m * p->n * bytes;
    }
    RG_TRY(rg_product_go(&s->ready));
  }
  if (weight && call->n_out > 1 && out[1] != NULL) {
    return sum_bias(call, out[1]);
  }
  return call->op->id == RG_OP_CONV2D && each && call->n_in > 2 && call->in[2] != NULL
             ? add_bias(call, out)
             : RG_OK;
}

static void release(rg_memo *memo)
{
  rg_product_end(&((state *)memo)->ready);
  rg_host_free(memo);
}

rg_status rg_conv_product(const rg_call *call, rg_tensor *const *out, rg_frame *frame, bool adds)
{
  state once = { .prepared = false };
  state *s = frame->memo != NULL ? (state *)*frame->memo : &once;

  if (adds && (((const rg_conv2d_args *)call->args)->o.layout != RG_NHWC || !rg_product_adds())) {
    return rg_fail(RG_ENOSUP, "%s: no product adds to what lies there", call->op->name);
  }
  frame->path = "product";
  if (s == NULL) {
    s = rg_host_zeroed(sizeof(*s));
    if (s == NULL) {
      return rg_fail(RG_ENOMEM, "%s: no memory for a step of a plan", call->op->name);
    }
    s->memo.release = release;
    s->ready.stays = true;
    *frame->memo = &s->memo;
  }
  const bool before = rg_choice_quiet(true);
  rg_status status = RG_OK;
  if (!s->prepared) {
    s->ready.p = product_of(call, out);
    s->ready.p.epilogue.adds = adds;
    status = rg_product_prepare(&s->ready);
    s->prepared = status == RG_OK;
    if (status == RG_OK) {
      status = run(s, call, out);
    }
    rg_product_done(&s->ready);
  } else {
    status = run(s, call, out);
  }
  rg_choice_quiet(before);
  if (s == &once) {
    rg_product_end(&s->ready);
  }
  return status;
}
