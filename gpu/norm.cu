/* SPDX-License-Identifier: MIT */
/*
** Layer normalisation and its gradients.
*/
#include <math.h>

#include "gpu/kernels.cuh"
#include "gpu/team.cuh"

extern "C" {
#include "op/norm.h"
}

/* A number for each element of a row; without data all are the same. */
struct vector {
  const void *data;
  int64_t step;
  int32_t dtype;
};

static vector vector_of(const rg_tensor *x)
{
  return x != NULL ? vector{ x->_data, x->_stride[0], x->_dtype } : vector{};
}

template <class L> __device__ inline L at(const vector &v, int64_t i, L otherwise)
{
  return v.data != NULL ? rg_load<L>(v.data, v.dtype, i * v.step) : otherwise;
}

struct norm_work {
  rg_strided x;
  rg_strided y; /* or dx */
  rg_strided dy;
  rg_strided mean; /* of rows; forward: written, contiguous, without data if nobody wants them */
  rg_strided scale;
  vector weight;
  vector bias;
  int64_t rows;
  int64_t n;
  double eps;
  int32_t rms;
  int32_t y_type;
  int32_t dy_type;
  int32_t width;
};

/* y = (x - mean) scale w + b, with scale = 1 / sqrt(variance + eps). */
template <class T> __global__ void k_layer_norm(norm_work w)
{
  typedef typename rg_lane<T>::type L;
  RG_SHARED(L, room, RG_WARPS);
  const int64_t step = rg_step(w.x);
  const int64_t y_step = rg_step(w.y);
  const int32_t lane = (int32_t)threadIdx.x % w.width;

  for (int64_t row = RG_TEAM(w.width); row < w.rows; row += RG_TEAMS(w.width)) {
    const T *x = (const T *)w.x.data + rg_at(w.x, row * w.n);
    int64_t to = rg_at(w.y, row * w.n);
    L mean = 0;
    L sum = 0;

    for (int64_t i = lane; w.rms == 0 && i < w.n; i += w.width) {
      mean += rg_get(x[i * step]);
    }
    mean = w.rms == 0 ? rg_team_sum(mean, w.width, room) / (L)w.n : 0;
    for (int64_t i = lane; i < w.n; i += w.width) {
      L v = rg_get(x[i * step]) - mean;

      sum += v * v;
    }
    L scale = (L)1 / sqrt(rg_team_sum(sum, w.width, room) / (L)w.n + (L)w.eps);

    if (lane == 0 && w.mean.data != NULL) {
      ((L *)w.mean.data)[row] = mean;
      ((L *)w.scale.data)[row] = scale;
    }
    for (int64_t i = lane; i < w.n; i += w.width) {
      L v = (rg_get(x[i * step]) - mean) * scale * at(w.weight, i, (L)1) + at(w.bias, i, (L)0);

      rg_store(w.y.data, w.y_type, to + i * y_step, v);
    }
  }
}

/* dx = scale (g - mean(g) - z mean(g z)), with g = dy w and z = (x - mean) scale. */
template <class T> __global__ void k_layer_norm_back(norm_work w)
{
  typedef typename rg_lane<T>::type L;
  RG_SHARED(L, room, RG_WARPS);
  const int64_t step = rg_step(w.x);
  const int64_t dy_step = rg_step(w.dy);
  const int64_t dx_step = rg_step(w.y);
  const int32_t lane = (int32_t)threadIdx.x % w.width;

  for (int64_t row = RG_TEAM(w.width); row < w.rows; row += RG_TEAMS(w.width)) {
    const T *x = (const T *)w.x.data + rg_at(w.x, row * w.n);
    T *dx = (T *)w.y.data + rg_at(w.y, row * w.n);
    int64_t dy = rg_at(w.dy, row * w.n);
    L mean = ((const L *)w.mean.data)[rg_at(w.mean, row)];
    L scale = ((const L *)w.scale.data)[rg_at(w.scale, row)];
    L a = 0;
    L b = 0;

    for (int64_t i = lane; i < w.n; i += w.width) {
      L g = rg_load<L>(w.dy.data, w.dy_type, dy + i * dy_step) * at(w.weight, i, (L)1);

      a += g;
      b += g * ((rg_get(x[i * step]) - mean) * scale);
    }
    a = w.rms == 0 ? rg_team_sum(a, w.width, room) / (L)w.n : 0;
    b = rg_team_sum(b, w.width, room) / (L)w.n;
    for (int64_t i = lane; i < w.n; i += w.width) {
      L g = rg_load<L>(w.dy.data, w.dy_type, dy + i * dy_step) * at(w.weight, i, (L)1);
      L z = (rg_get(x[i * step]) - mean) * scale;

      dx[i * dx_step] = rg_element<T>::of(scale * (g - a - z * b));
    }
  }
}

/* dw and db of one part of the rows: blocks of a warp's columns, each warp with every eighth row.
** parts: [n_parts x 2 x n] */
template <class T> __global__ void k_columns(norm_work w, typename rg_lane<T>::type *parts)
{
  typedef typename rg_lane<T>::type L;
  RG_SHARED(L, dws, RG_BLOCK);
  RG_SHARED(L, dbs, RG_BLOCK);
  const int64_t column = (int64_t)blockIdx.x * RG_WARP + threadIdx.x % RG_WARP;
  const int64_t begin = w.rows * blockIdx.y / gridDim.y;
  const int64_t end = w.rows * (blockIdx.y + 1) / gridDim.y;
  L dw = 0;
  L db = 0;

  for (int64_t row = begin + threadIdx.x / RG_WARP; column < w.n && row < end; row += RG_WARPS) {
    int64_t from = rg_at(w.x, row * w.n) + column * rg_step(w.x);
    L mean = ((const L *)w.mean.data)[rg_at(w.mean, row)];
    L scale = ((const L *)w.scale.data)[rg_at(w.scale, row)];
    L dy = rg_load<L>(w.dy.data, w.dy_type, rg_at(w.dy, row * w.n) + column * rg_step(w.dy));

    dw += dy * ((rg_get(((const T *)w.x.data)[from]) - mean) * scale);
    db += dy;
  }
  dws[threadIdx.x] = dw;
  dbs[threadIdx.x] = db;
  __syncthreads();
  if (threadIdx.x < RG_WARP && column < w.n) {
    for (int32_t i = 1; i < RG_WARPS; i++) {
      dw += dws[threadIdx.x + i * RG_WARP];
      db += dbs[threadIdx.x + i * RG_WARP];
    }
    parts[2 * blockIdx.y * w.n + column] = dw;
    parts[(2 * blockIdx.y + 1) * w.n + column] = db;
  }
}

template <class L> __global__ void k_join(L *dw, L *db, const L *parts, int64_t n, int64_t n_parts)
{
  for (int64_t i = RG_FIRST; i < 2 * n; i += RG_NEXT) {
    L sum = 0;

    for (int64_t k = 0; k < n_parts; k++) {
      sum += parts[2 * k * n + i];
    }
    (i < n ? dw : db)[i < n ? i : i - n] = sum;
  }
}

static norm_work work_of(const rg_call *call, const rg_tensor *x, rg_tensor *y)
{
  const rg_layer_norm_args *args = (const rg_layer_norm_args *)call->args;
  norm_work w = {};

  w.x = rg_view_of(x);
  w.y = rg_view_of(y);
  w.y_type = y->_dtype;
  w.n = x->_shape[x->_ndim - 1];
  w.rows = x->_count / w.n;
  w.eps = args->eps;
  w.rms = args->rms;
  w.width = rg_team_width(&w.x, w.n, w.rows);
  return w;
}

rg_status rg_gpu_layer_norm(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *x = call->in[0];
  norm_work w = work_of(call, x, out[0]);
  rg_launch_cfg cfg = rg_over(w.rows * w.width, rg_gpu_stream(call->device));

  (void)frame;
  if (x->_count == 0) {
    return RG_OK;
  }
  w.weight = vector_of(call->in[1]);
  w.bias = vector_of(call->in[2]);
  if (call->n_out > 1) {
    w.mean = rg_view_of(out[1]);
    w.scale = rg_view_of(out[2]);
  }
  switch (x->_dtype) {
#define CASE(code, T) \
  case code:          \
    return rg_gpu_status(call->op->name, rg_launch(k_layer_norm<T>, cfg, w));
    RG_FLOATS(CASE)
#undef CASE
  default:
    return rg_gpu->fail(RG_EDTYPE, "%s: no kernel for type %d", call->op->name, x->_dtype);
  }
}

template <class T>
static rg_status back(const rg_call *call, norm_work w, rg_tensor *const *out, void *scratch)
{
  typedef typename rg_lane<T>::type L;
  cudaStream_t stream = rg_gpu_stream(call->device);
  /* scratch was asked for with the sums of so many parts, and a weight that is not copied here */
  int64_t n_parts = w.rows > 0 ? (call->scratch_bytes / (w.n * (int64_t)sizeof(L)) - 1) / 2 : 0;
  rg_launch_cfg columns = { dim3((unsigned)((w.n + RG_WARP - 1) / RG_WARP), (unsigned)n_parts),
                            dim3(RG_BLOCK), 0, stream };

  if (w.rows > 0) {
    RG_CUDA(call->op->name, rg_launch(k_layer_norm_back<T>, rg_over(w.rows * w.width, stream), w));
    RG_CUDA(call->op->name, rg_launch(k_columns<T>, columns, w, (L *)scratch));
  }
  return rg_gpu_status(call->op->name,
                       rg_launch(k_join<L>, rg_over(2 * w.n, stream), (L *)out[1]->_data,
                                 (L *)out[2]->_data, (const L *)scratch, w.n, n_parts));
}

rg_status rg_gpu_layer_norm_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *x = call->in[RG_LNB_X];
  norm_work w = work_of(call, x, out[0]);

  w.dy = rg_view_of(call->in[RG_LNB_DY]);
  w.dy_type = call->in[RG_LNB_DY]->_dtype;
  w.mean = rg_view_of(call->in[RG_LNB_MEAN]);
  w.scale = rg_view_of(call->in[RG_LNB_SCALE]);
  w.weight = vector_of(call->in[RG_LNB_WEIGHT]);
  switch (x->_dtype) {
#define CASE(code, T) \
  case code:          \
    return back<T>(call, w, out, frame->scratch);
    RG_FLOATS(CASE)
#undef CASE
  default:
    return rg_gpu->fail(RG_EDTYPE, "%s: no kernel for type %d", call->op->name, x->_dtype);
  }
}
