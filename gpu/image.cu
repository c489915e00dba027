/* SPDX-License-Identifier: MIT */
/*
** Convolutions and pooling, as the formulas say them: each result element is one sum that gathers
** what belongs to it, in a fixed order, so that no result depends on which thread ran first.  Any
** layout and any strides.
**
** These are the plain kernels, for what cuDNN (dnn/image.cu) does not take.
*/
#include <math.h>

#include "gpu/dnn/dnn.h"
#include "gpu/kernels.cuh"
#include "gpu/late.cuh"

extern "C" {
#include "op/conv.h"
#include "op/pool.h"
}

enum { WARP = 32 };

/* -- Images ------------------------------------------------------------------------------------ */

/* A tensor's numbers by batch, channel, row, column, or by those of a kernel: channel out, channel
** in, row, column.  A side without data is not there. */
struct image_side {
  char *data;
  int64_t size[4], step[4];
  int32_t dtype, layout;
};

/* Which number. */
struct image_spot {
  int64_t n, c, row, column;
};

/* Kernels lie as images with channels first do. */
static image_side side_of(const rg_tensor *x, int32_t layout)
{
  const int32_t axis[4] = { 0, rg_channels_axis(layout), rg_rows_axis(layout),
                            rg_rows_axis(layout) + 1 };
  image_side s = {};

  s.data = (char *)x->_data;
  s.dtype = x->_dtype;
  s.layout = layout;
  for (int i = 0; i < 4; i++) {
    s.size[i] = x->_shape[axis[i]];
    s.step[i] = x->_stride[axis[i]];
  }
  return s;
}

__device__ inline int64_t side_at(const image_side &s, const image_spot &p)
{
  return p.n * s.step[0] + p.c * s.step[1] + p.row * s.step[2] + p.column * s.step[3];
}

/* Element i in the order of the layout, so that neighbours write side by side. */
__device__ inline image_spot spot_of(const image_side &s, int64_t i)
{
  int64_t area = s.size[2] * s.size[3];
  int64_t place = s.layout == RG_NHWC ? i / s.size[1] % area : i % area;
  int64_t c = s.layout == RG_NHWC ? i % s.size[1] : i / area % s.size[1];

  return image_spot{ i / (area * s.size[1]), c, place / s.size[3], place % s.size[3] };
}

/* A number in the type that sums are made in. */
template <class L> __device__ inline L side_get(const image_side &s, const image_spot &p)
{
  return rg_load<L>(s.data, s.dtype, side_at(s, p));
}

template <class L> __device__ inline void side_put(const image_side &s, const image_spot &p, L v)
{
  rg_store(s.data, s.dtype, side_at(s, p), v);
}

/* A kernel of the lane that `type` is computed in, over n elements of so many threads each. */
template <class W>
static rg_status run(const rg_call *call, int32_t type, void (*wide)(W, int64_t),
                     void (*narrow)(W, int64_t), const W &w, int64_t n, int64_t threads)
{
  rg_launch_cfg cfg = rg_over(n * threads, rg_gpu_stream(call->device));

  if (n == 0) {
    return RG_OK;
  }
  return rg_gpu_status(call->op->name, rg_launch(type == RG_F64 ? wide : narrow, cfg, w, n));
}

/* For the functions below, which take a call, out and a frame. */
#define RUN(kernel, w, n, threads) \
  (frame->path = "direct", run(call, out[0]->_dtype, kernel<double>, kernel<float>, w, n, threads))

/* -- Convolution ------------------------------------------------------------------------------- */

struct conv_work {
  image_side x, w, y, b;
  int64_t in_group, out_group; /* channels */
  int64_t stride[2], dilation[2], pad[2];
  int32_t compute; /* the type the factors are read in */
  int32_t act;
};

/* A factor; what is wider than the type of the product is rounded to it (autocast). */
template <class L>
__device__ inline L factor_at(const conv_work &v, const image_side &s, const image_spot &p)
{
  L x = side_get<L>(s, p);

  if (v.compute == RG_BF16 && s.dtype != RG_BF16) {
    x = (L)__bfloat162float(__float2bfloat16_rn((float)x));
  }
  return x;
}

/* Row p of the kernel at row i of the result: which row of x; -1: outside.  Columns are axis 1. */
__device__ inline int64_t row_of(const conv_work &v, int axis, int64_t i, int64_t p)
{
  int64_t at = i * v.stride[axis] + p * v.dilation[axis] - v.pad[axis];

  return at >= 0 && at < v.x.size[2 + axis] ? at : -1;
}

/* Which row of y row p of the kernel brings to this row of x; -1: none. */
__device__ inline int64_t row_from(const conv_work &v, int axis, int64_t row, int64_t p)
{
  int64_t at = row + v.pad[axis] - p * v.dilation[axis];
  int64_t i = at / v.stride[axis];

  return at >= 0 && at % v.stride[axis] == 0 && i < v.y.size[2 + axis] ? i : -1;
}

template <class L> __global__ void k_conv2d(conv_work v, int64_t n)
{
  for (int64_t k = RG_FIRST; k < n; k += RG_NEXT) {
    image_spot s = spot_of(v.y, k);
    int64_t first = s.c / v.out_group * v.in_group;
    L sum = 0;

    for (int64_t p = 0; p < v.w.size[2]; p++) {
      int64_t row = row_of(v, 0, s.row, p);

      for (int64_t q = 0; row >= 0 && q < v.w.size[3]; q++) {
        int64_t column = row_of(v, 1, s.column, q);

        for (int64_t c = 0; column >= 0 && c < v.in_group; c++) {
          sum += factor_at<L>(v, v.x, image_spot{ s.n, first + c, row, column }) *
                 factor_at<L>(v, v.w, image_spot{ s.c, c, p, q });
        }
      }
    }
    sum += v.b.data != NULL ? side_get<L>(v.b, image_spot{ s.c, 0, 0, 0 }) : (L)0;
    side_put(v.y, s, rg_activated(v.act, sum));
  }
}

/* What follows a convolution whose sums are there. */
template <class L> __global__ void k_conv2d_epilogue(conv_work v, int64_t n)
{
  for (int64_t k = RG_FIRST; k < n; k += RG_NEXT) {
    image_spot s = spot_of(v.y, k);
    L b = v.b.data != NULL ? side_get<L>(v.b, image_spot{ s.c, 0, 0, 0 }) : (L)0;

    side_put(v.y, s, rg_activated(v.act, side_get<L>(v.y, s) + b));
  }
}

template <class L> __global__ void k_conv2d_back_data(conv_work v, int64_t n)
{
  for (int64_t k = RG_FIRST; k < n; k += RG_NEXT) {
    image_spot s = spot_of(v.x, k);
    int64_t first = s.c / v.in_group * v.out_group;
    L sum = 0;

    for (int64_t p = 0; p < v.w.size[2]; p++) {
      int64_t i = row_from(v, 0, s.row, p);

      for (int64_t q = 0; i >= 0 && q < v.w.size[3]; q++) {
        int64_t j = row_from(v, 1, s.column, q);

        for (int64_t o = first; j >= 0 && o < first + v.out_group; o++) {
          sum += factor_at<L>(v, v.y, image_spot{ s.n, o, i, j }) *
                 factor_at<L>(v, v.w, image_spot{ o, s.c % v.in_group, p, q });
        }
      }
    }
    side_put(v.x, s, sum);
  }
}

/* dw and, behind its elements, db.  They are few and each sums over all images, so a warp makes
** one: lane l takes places l, l + 32, ... of y. */
template <class L> __global__ void k_conv2d_back_weight(conv_work v, int64_t n)
{
  const int64_t lane = threadIdx.x % WARP;
  const int64_t places = v.y.size[0] * v.y.size[2] * v.y.size[3];
  const int64_t n_w = n - v.y.size[1];
  image_side plane = v.y;

  plane.size[1] = 1; /* of one channel of y */
  for (int64_t k = RG_FIRST / WARP; k < n; k += RG_NEXT / WARP) {
    bool is_bias = k >= n_w;
    image_spot w = spot_of(v.w, k);
    int64_t o = is_bias ? k - n_w : w.n;
    int64_t c = o / v.out_group * v.in_group + w.c;
    L sum = 0;

    for (int64_t at = lane; at < places; at += WARP) {
      image_spot y = spot_of(plane, at);
      image_spot x = { y.n, c, row_of(v, 0, y.row, w.row), row_of(v, 1, y.column, w.column) };

      y.c = o;
      if (is_bias) {
        sum += factor_at<L>(v, v.y, y);
      } else if (x.row >= 0 && x.column >= 0) {
        sum += factor_at<L>(v, v.x, x) * factor_at<L>(v, v.y, y);
      }
    }
    sum = rg_warp_sum(sum);
    if (lane == 0) {
      side_put(is_bias ? v.b : v.w, is_bias ? image_spot{ o, 0, 0, 0 } : w, sum);
    }
  }
}

/* x, w, b and y of the formula, whichever of them is the result, which is of type `type`. */
static conv_work conv_of(const rg_call *call, const rg_tensor *x, const rg_tensor *w,
                         const rg_tensor *b, const rg_tensor *y, int32_t type)
{
  const rg_conv2d_options *o = &((const rg_conv2d_args *)call->args)->o;
  conv_work v = {};

  v.x = side_of(x, o->layout);
  v.w = side_of(w, RG_NCHW);
  v.y = side_of(y, o->layout);
  if (b != NULL) {
    v.b.data = (char *)b->_data;
    v.b.dtype = b->_dtype;
    v.b.step[0] = b->_stride[0];
  }
  v.in_group = v.x.size[1] / o->groups;
  v.out_group = v.y.size[1] / o->groups;
  for (int i = 0; i < 2; i++) {
    v.stride[i] = o->stride[i];
    v.dilation[i] = o->dilation[i];
    v.pad[i] = o->pad_low[i];
  }
  v.act = o->act;
  v.compute = type == RG_BF16 || type == RG_F64 ? type : RG_F32; /* f16 computes in f32 */
  return v;
}

rg_status rg_gpu_conv2d(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *b = call->n_in > 2 ? call->in[2] : NULL;
  conv_work v = conv_of(call, call->in[0], call->in[1], b, out[0], out[0]->_dtype);
  int32_t done = rg_dnn_conv2d(call, out, frame);

  return done == RG_DNN_DONE  ? RG_OK
         : done == RG_DNN_SUM ? run(call, out[0]->_dtype, k_conv2d_epilogue<double>,
                                    k_conv2d_epilogue<float>, v, out[0]->_count, 1)
                              : RUN(k_conv2d, v, out[0]->_count, 1);
}

rg_status rg_gpu_conv2d_back_data(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  if (rg_dnn_conv2d_back_data(call, out, frame) == RG_DNN_DONE) {
    return RG_OK;
  }
  conv_work v = conv_of(call, out[0], call->in[1], NULL, call->in[0], out[0]->_dtype);

  return RUN(k_conv2d_back_data, v, out[0]->_count, 1);
}

rg_status rg_gpu_conv2d_back_weight(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  if (rg_dnn_conv2d_back_weight(call, out, frame) == RG_DNN_DONE) {
    return RG_OK;
  }
  conv_work v = conv_of(call, call->in[0], out[0], out[1], call->in[1], out[0]->_dtype);

  return RUN(k_conv2d_back_weight, v, out[0]->_count + out[1]->_count, WARP);
}

/* -- Pooling ----------------------------------------------------------------------------------- */

struct pool_work {
  image_side big;   /* the images' own rows and columns */
  image_side small; /* a row and a column for each window */
  image_side index; /* where each maximum was: row * columns + column */
  int64_t size[2], stride[2], pad[2];
  int32_t skip_pad, is_max;
  rg_late_for late; /* back of a maximum: indices are anybody's numbers */
};

/* Rows, or columns: from the first to one behind the last. */
struct pool_span {
  int64_t from, to;
};

/* What window i holds of the image.  Columns are axis 1. */
__device__ inline pool_span window_at(const pool_work &v, int axis, int64_t i)
{
  int64_t from = i * v.stride[axis] - v.pad[axis];
  int64_t to = from + v.size[axis];

  return pool_span{ from < 0 ? 0 : from, to < v.big.size[2 + axis] ? to : v.big.size[2 + axis] };
}

/* Which windows hold a row. */
__device__ inline pool_span windows_with(const pool_work &v, int axis, int64_t row)
{
  int64_t at = row + v.pad[axis];
  int64_t to = at / v.stride[axis] + 1;

  return pool_span{ at < v.size[axis] ? 0 : (at - v.size[axis]) / v.stride[axis] + 1,
                    to < v.small.size[2 + axis] ? to : v.small.size[2 + axis] };
}

/* One divided by what an average divides by. */
template <class L>
__device__ inline L window_scale(const pool_work &v, const pool_span &r, const pool_span &c)
{
  return (L)(1.0 / (v.skip_pad != 0 ? (double)((r.to - r.from) * (c.to - c.from))
                                    : (double)v.size[0] * (double)v.size[1]));
}

/* The first of equal elements is the largest; nan wins. */
template <class L> __global__ void k_pool2d(pool_work v, int64_t n)
{
  for (int64_t k = RG_FIRST; k < n; k += RG_NEXT) {
    image_spot s = spot_of(v.small, k);
    pool_span rows = window_at(v, 0, s.row);
    pool_span columns = window_at(v, 1, s.column);
    L sum = 0;
    L best = 0;
    int64_t at = -1;

    for (int64_t r = rows.from; r < rows.to; r++) {
      for (int64_t c = columns.from; c < columns.to; c++) {
        L here = side_get<L>(v.big, image_spot{ s.n, s.c, r, c });

        sum += here;
        if (at < 0 || here > best || (here != here && best == best)) {
          best = here;
          at = r * v.big.size[3] + c;
        }
      }
    }
    side_put(v.small, s, v.is_max != 0 ? best : sum * window_scale<L>(v, rows, columns));
    if (v.index.data != NULL) {
      ((int32_t *)v.index.data)[side_at(v.index, s)] = (int32_t)at;
    }
  }
}

/* What a window that holds an element gives to it.  An index outside its window is none that ridge
** made: it gives nothing, and is reported. */
template <class L>
__device__ inline L share_of(const pool_work &v, const image_spot &window, const image_spot &to)
{
  pool_span rows = window_at(v, 0, window.row);
  pool_span columns = window_at(v, 1, window.column);
  L dy = side_get<L>(v.small, window);

  if (v.is_max == 0) {
    return dy * window_scale<L>(v, rows, columns);
  }
  int64_t at = ((const int32_t *)v.index.data)[side_at(v.index, window)];
  int64_t row = at / v.big.size[3];
  int64_t column = at % v.big.size[3];

  if (row < rows.from || row >= rows.to || column < columns.from || column >= columns.to) {
    bool inside = at >= 0 && at < v.big.size[2] * v.big.size[3];

    rg_late_tell(v.late, inside ? RG_LATE_WINDOW : RG_LATE_RANGE, at,
                 v.big.size[2] * v.big.size[3]);
    return 0;
  }
  return row == to.row && column == to.column ? dy : (L)0;
}

template <class L> __global__ void k_pool2d_back(pool_work v, int64_t n)
{
  for (int64_t k = RG_FIRST; k < n; k += RG_NEXT) {
    image_spot s = spot_of(v.big, k);
    pool_span rows = windows_with(v, 0, s.row);
    pool_span columns = windows_with(v, 1, s.column);
    L sum = 0;

    for (int64_t i = rows.from; i < rows.to; i++) {
      for (int64_t j = columns.from; j < columns.to; j++) {
        sum += share_of<L>(v, image_spot{ s.n, s.c, i, j }, s);
      }
    }
    side_put(v.big, s, sum);
  }
}

static pool_work pool_of(const rg_call *call, const rg_tensor *big, const rg_tensor *small,
                         const rg_tensor *index, bool is_max)
{
  const rg_pool2d_options *o = &((const rg_pool2d_args *)call->args)->o;
  pool_work v = {};

  v.big = side_of(big, o->layout);
  v.small = side_of(small, o->layout);
  v.index = index != NULL ? side_of(index, o->layout) : image_side{};
  for (int i = 0; i < 2; i++) {
    v.size[i] = o->size[i];
    v.stride[i] = o->stride[i];
    v.pad[i] = o->pad_low[i];
  }
  v.skip_pad = o->skip_pad;
  v.is_max = is_max;
  return v;
}

rg_status rg_gpu_max_pool2d(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *index = call->n_out > 1 ? out[1] : NULL;

  return RUN(k_pool2d, pool_of(call, call->in[0], out[0], index, true), out[0]->_count, 1);
}

rg_status rg_gpu_max_pool2d_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  pool_work v = pool_of(call, out[0], call->in[0], call->in[1], true);

  RG_TRY(rg_late_begin(call, &v.late));
  return RUN(k_pool2d_back, v, out[0]->_count, 1);
}

rg_status rg_gpu_avg_pool2d(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return RUN(k_pool2d, pool_of(call, call->in[0], out[0], NULL, false), out[0]->_count, 1);
}

rg_status rg_gpu_avg_pool2d_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return RUN(k_pool2d_back, pool_of(call, out[0], call->in[0], NULL, false), out[0]->_count, 1);
}
