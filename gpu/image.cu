/* SPDX-License-Identifier: MIT */
/*
** Convolutions, as the formulas say them: each result element is one sum that gathers what belongs
** to it, in a fixed order, so that no result depends on which thread ran first.  Any
** layout and any strides.
**
** These are the plain kernels, for what cuDNN (dnn/image.cu) does not take.
*/
#include <math.h>

#include "gpu/dnn/dnn.h"
#include "gpu/image.cuh"
#include "gpu/kernels.cuh"
#include "gpu/pack.cuh"

enum { WARP = 32 };

/* -- Images ------------------------------------------------------------------------------------ */

typedef rg_image<int64_t> image_side;
typedef rg_image_spot<int64_t> image_spot;

/* A number in the type that sums are made in. */
template <class L> __device__ inline L side_get(const image_side &s, const image_spot &p)
{
  return rg_load<L>(s.data, s.dtype, rg_image_at(s, p));
}

template <class L> __device__ inline void side_put(const image_side &s, const image_spot &p, L v)
{
  rg_store(s.data, s.dtype, rg_image_at(s, p), v);
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
    image_spot s = rg_image_spot_of(v.y, k);
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

template <class L> __global__ void k_conv2d_back_data(conv_work v, int64_t n)
{
  for (int64_t k = RG_FIRST; k < n; k += RG_NEXT) {
    image_spot s = rg_image_spot_of(v.x, k);
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
  plane.channels.by = 1;
  for (int64_t k = RG_FIRST / WARP; k < n; k += RG_NEXT / WARP) {
    bool is_bias = k >= n_w;
    image_spot w = rg_image_spot_of(v.w, k);
    int64_t o = is_bias ? k - n_w : w.n;
    int64_t c = o / v.out_group * v.in_group + w.c;
    L sum = 0;

    for (int64_t at = lane; at < places; at += WARP) {
      image_spot y = rg_image_spot_of(plane, at);
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

  v.x = rg_image_of<int64_t>(x, o->layout);
  v.w = rg_image_of<int64_t>(w, RG_NCHW);
  v.y = rg_image_of<int64_t>(y, o->layout);
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

/* -- After cuDNN's sums ------------------------------------------------------------------------ */

template <class I> struct epilogue_work {
  rg_image<I> y;
  const void *bias; /* or NULL; one for each channel */
  I bias_step;
  int32_t bias_dtype, act;
};

/* y = act(y + bias), V neighbours a thread: of one channel, or one channel after the other. */
template <class T, int V, class I>
__global__ void k_conv2d_epilogue(const __grid_constant__ epilogue_work<I> v, int64_t n)
{
  typedef typename rg_lane<T>::type L;

  for (int64_t k = RG_FIRST; k < n; k += RG_NEXT) {
    const rg_image_spot<I> s = rg_image_spot_of(v.y, (I)(k * V));
    const I at = V > 1 ? (I)(k * V) : rg_image_at(v.y, s);
    const bool along = v.y.layout == RG_NHWC;
    L y[V];

    rg_unpack<T, V>(v.y.data, at, y);
    if (v.bias != NULL) {
      L b = rg_load<L>(v.bias, v.bias_dtype, s.c * v.bias_step);

#pragma unroll
      for (int e = 0; e < V; e++) {
        if (along && e > 0) {
          b = rg_load<L>(v.bias, v.bias_dtype, (s.c + e) * v.bias_step);
        }
        y[e] += b;
      }
    }
    rg_activate(v.act, y);
    rg_pack_into<T, V>(v.y.data, at, y);
  }
}

template <class I>
static rg_status finish(const rg_call *call, const rg_tensor *b, const rg_tensor *y)
{
  const rg_conv2d_options *o = &((const rg_conv2d_args *)call->args)->o;
  epilogue_work<I> v = {};

  v.y = rg_image_of<I>(y, o->layout);
  v.act = o->act;
  if (b != NULL) {
    v.bias = b->_data;
    v.bias_step = (I)b->_stride[0];
    v.bias_dtype = b->_dtype;
  }
  return rg_dispatch<RG_KINDS_FLOAT>(call, y->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;
    constexpr int V = rg_pack_size<T>;
    const int64_t inner = o->layout == RG_NHWC ? v.y.size[1] : (int64_t)v.y.size[2] * v.y.size[3];
    const bool wide =
        rg_image_is_dense(v.y) && inner % V == 0 && rg_aligned(v.y.data, (int64_t)sizeof(T), V);
    const int64_t n = y->_count / (wide ? V : 1);

    return rg_launch(wide ? k_conv2d_epilogue<T, V, I> : k_conv2d_epilogue<T, 1, I>,
                     rg_filling(n, 1, call), v, n);
  });
}

/* -- The calls --------------------------------------------------------------------------------- */

rg_status rg_gpu_conv2d(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *b = call->n_in > 2 ? call->in[2] : NULL;
  conv_work v = conv_of(call, call->in[0], call->in[1], b, out[0], out[0]->_dtype);
  int32_t done = rg_dnn_conv2d(call, out, frame);

  return done == RG_DNN_DONE  ? RG_OK
         : done == RG_DNN_SUM ? (rg_image_is_narrow(out[0]) ? finish<int32_t>(call, b, out[0])
                                                            : finish<int64_t>(call, b, out[0]))
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
