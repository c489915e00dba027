/* SPDX-License-Identifier: MIT */
/*
** Layer normalisation and its gradients.  Rows are held in registers where a team can hold them,
** kept in shared memory where a block can, and otherwise read again.
*/
#include <math.h>

#include "gpu/kernels.cuh"
#include "gpu/rows.cuh"

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
template <class T> __global__ void k_layer_norm(const __grid_constant__ norm_work w)
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

/* A pack of a vector, whose elements are contiguous. */
template <int N, class L>
__device__ inline void vector_pack(const vector &v, int32_t i, L otherwise, L (&to)[N])
{
  for (int k = 0; k < N; k++) {
    to[k] = otherwise;
  }
  if (v.data != NULL) {
    rg_load_pack<N>(v.data, v.dtype, i, to);
  }
}

/* The same with rows that are held. */
template <class T> __global__ void k_layer_norm_held(const __grid_constant__ norm_work w)
{
  typedef typename rg_lane<T>::type L;
  constexpr int N = rg_pack_size<T>;
  RG_SHARED(L, room, RG_WARPS);
  const rg_row<N, RG_HOLDS> row(w.n, w.width);

  for (int64_t r = RG_TEAM(w.width); r < w.rows; r += RG_TEAMS(w.width)) {
    const T *x = (const T *)w.x.data + rg_at(w.x, r * w.n);
    const int64_t to = rg_at(w.y, r * w.n);
    L v[row.packs][N];
    L mean = 0;
    L sum = 0;

    RG_PACKS_OF(row, j)
    {
      rg_unpack<T, N>(x, row.at(j), v[j]);
    }
    RG_PACKS_OF(row, j)
    {
      for (int k = 0; k < N; k++) {
        mean += v[j][k];
      }
    }
    mean = w.rms == 0 ? rg_team_sum(mean, w.width, room) / (L)w.n : 0;
    RG_PACKS_OF(row, j)
    {
      for (int k = 0; k < N; k++) {
        v[j][k] -= mean;
        sum += v[j][k] * v[j][k];
      }
    }
    L scale = (L)1 / sqrt(rg_team_sum(sum, w.width, room) / (L)w.n + (L)w.eps);

    if (row.first == 0 && w.mean.data != NULL) {
      ((L *)w.mean.data)[r] = mean;
      ((L *)w.scale.data)[r] = scale;
    }
    RG_PACKS_OF(row, j)
    {
      L weight[N];
      L bias[N];

      vector_pack(w.weight, row.at(j), (L)1, weight);
      vector_pack(w.bias, row.at(j), (L)0, bias);
      for (int k = 0; k < N; k++) {
        v[j][k] = v[j][k] * scale * weight[k] + bias[k];
      }
      rg_store_pack<N>(w.y.data, w.y_type, to + row.at(j), v[j]);
    }
  }
}

/* The same with rows that are kept. */
template <class T>
__global__ void __launch_bounds__(RG_KEEPERS) k_layer_norm_kept(const __grid_constant__ norm_work w)
{
  typedef typename rg_lane<T>::type L;
  constexpr int N = rg_pack_size<T>;
  RG_SHARED(L, room, RG_KEEPER_WARPS);
  RG_DYN_SHARED(T, kept);
  const int32_t n = (int32_t)w.n;

  for (int64_t r = blockIdx.x; r < w.rows; r += gridDim.x) {
    const int64_t to = rg_at(w.y, r * w.n);
    L v[N];
    L mean = 0;
    L sum = 0;

    rg_keep(kept, (const T *)w.x.data + rg_at(w.x, r * w.n), n);
    rg_kept();
    RG_KEPT_PACKS(i, n, N)
    {
      rg_unpack<T, N>(kept, i, v);
      for (int k = 0; k < N; k++) {
        mean += v[k];
      }
    }
    mean = w.rms == 0 ? rg_team_sum(mean, RG_KEEPERS, room) / (L)w.n : 0;
    RG_KEPT_PACKS(i, n, N)
    {
      rg_unpack<T, N>(kept, i, v);
      for (int k = 0; k < N; k++) {
        sum += (v[k] - mean) * (v[k] - mean);
      }
    }
    L scale = (L)1 / sqrt(rg_team_sum(sum, RG_KEEPERS, room) / (L)w.n + (L)w.eps);

    if (threadIdx.x == 0 && w.mean.data != NULL) {
      ((L *)w.mean.data)[r] = mean;
      ((L *)w.scale.data)[r] = scale;
    }
    RG_KEPT_PACKS(i, n, N)
    {
      L weight[N];
      L bias[N];

      rg_unpack<T, N>(kept, i, v);
      vector_pack(w.weight, i, (L)1, weight);
      vector_pack(w.bias, i, (L)0, bias);
      for (int k = 0; k < N; k++) {
        v[k] = (v[k] - mean) * scale * weight[k] + bias[k];
      }
      rg_store_pack<N>(w.y.data, w.y_type, to + i, v);
    }
  }
}

/* dx = scale (g - mean(g) - z mean(g z)), with g = dy w and z = (x - mean) scale. */
template <class T> __global__ void k_layer_norm_back(const __grid_constant__ norm_work w)
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

/* The same with rows that are held: x and dy have one type. */
template <class T> __global__ void k_layer_norm_back_held(const __grid_constant__ norm_work w)
{
  typedef typename rg_lane<T>::type L;
  constexpr int N = rg_pack_size<T>;
  RG_SHARED(L, room, RG_WARPS);
  const rg_row<N, RG_HOLDS_TWO> row(w.n, w.width);

  for (int64_t r = RG_TEAM(w.width); r < w.rows; r += RG_TEAMS(w.width)) {
    const T *x = (const T *)w.x.data + rg_at(w.x, r * w.n);
    const T *dy = (const T *)w.dy.data + rg_at(w.dy, r * w.n);
    T *dx = (T *)w.y.data + rg_at(w.y, r * w.n);
    L mean = ((const L *)w.mean.data)[rg_at(w.mean, r)];
    L scale = ((const L *)w.scale.data)[rg_at(w.scale, r)];
    L z[row.packs][N];
    L g[row.packs][N];
    L a = 0;
    L b = 0;

    RG_PACKS_OF(row, j)
    {
      rg_unpack<T, N>(x, row.at(j), z[j]);
      rg_unpack<T, N>(dy, row.at(j), g[j]);
    }
    RG_PACKS_OF(row, j)
    {
      L weight[N];

      vector_pack(w.weight, row.at(j), (L)1, weight);
      for (int k = 0; k < N; k++) {
        z[j][k] = (z[j][k] - mean) * scale;
        g[j][k] *= weight[k];
        a += g[j][k];
        b += g[j][k] * z[j][k];
      }
    }
    a = w.rms == 0 ? rg_team_sum(a, w.width, room) / (L)w.n : 0;
    b = rg_team_sum(b, w.width, room) / (L)w.n;
    RG_PACKS_OF(row, j)
    {
      for (int k = 0; k < N; k++) {
        g[j][k] = scale * (g[j][k] - a - z[j][k] * b);
      }
      rg_pack_into<T, N>(dx, row.at(j), g[j]);
    }
  }
}

/* Both rows are kept, one behind the other. */
template <class T>
__global__ void __launch_bounds__(RG_KEEPERS)
    k_layer_norm_back_kept(const __grid_constant__ norm_work w)
{
  typedef typename rg_lane<T>::type L;
  constexpr int N = rg_pack_size<T>;
  RG_SHARED(L, room, RG_KEEPER_WARPS);
  RG_DYN_SHARED(T, kept);
  const int32_t n = (int32_t)w.n;

  for (int64_t r = blockIdx.x; r < w.rows; r += gridDim.x) {
    T *dx = (T *)w.y.data + rg_at(w.y, r * w.n);
    L mean = ((const L *)w.mean.data)[rg_at(w.mean, r)];
    L scale = ((const L *)w.scale.data)[rg_at(w.scale, r)];
    L z[N];
    L g[N];
    L weight[N];
    L a = 0;
    L b = 0;

    rg_keep(kept, (const T *)w.x.data + rg_at(w.x, r * w.n), n);
    rg_keep(kept + n, (const T *)w.dy.data + rg_at(w.dy, r * w.n), n);
    rg_kept();
    RG_KEPT_PACKS(i, n, N)
    {
      rg_unpack<T, N>(kept, i, z);
      rg_unpack<T, N>(kept, n + i, g);
      vector_pack(w.weight, i, (L)1, weight);
      for (int k = 0; k < N; k++) {
        a += g[k] * weight[k];
        b += g[k] * weight[k] * ((z[k] - mean) * scale);
      }
    }
    a = w.rms == 0 ? rg_team_sum(a, RG_KEEPERS, room) / (L)w.n : 0;
    b = rg_team_sum(b, RG_KEEPERS, room) / (L)w.n;
    RG_KEPT_PACKS(i, n, N)
    {
      rg_unpack<T, N>(kept, i, z);
      rg_unpack<T, N>(kept, n + i, g);
      vector_pack(w.weight, i, (L)1, weight);
      for (int k = 0; k < N; k++) {
        g[k] = scale * (g[k] * weight[k] - a - (z[k] - mean) * scale * b);
      }
      rg_pack_into<T, N>(dx, i, g);
    }
  }
}

enum { SIDE = 2, COLUMNS = SIDE * RG_WARP }; /* columns of a thread and of a block */

/* dw and db of one part of the rows: a thread has two columns and every eighth row.  Columns that
** do not come in twos are taken one after the other.
** parts: [n_parts x 2 x n] */
template <class T>
__global__ void k_columns(const __grid_constant__ norm_work w, typename rg_lane<T>::type *parts,
                          int32_t wide)
{
  typedef typename rg_lane<T>::type L;
  RG_SHARED(L, sums, 2 * SIDE * RG_BLOCK);
  const int64_t column = (int64_t)blockIdx.x * COLUMNS + SIDE * (threadIdx.x % RG_WARP);
  const int64_t begin = w.rows * blockIdx.y / gridDim.y;
  const int64_t end = w.rows * (blockIdx.y + 1) / gridDim.y;
  L sum[2 * SIDE] = {};

#pragma unroll 4
  for (int64_t row = begin + threadIdx.x / RG_WARP; column < w.n && row < end; row += RG_WARPS) {
    const int64_t from = rg_at(w.x, row * w.n);
    const int64_t dy_from = rg_at(w.dy, row * w.n);
    L mean = ((const L *)w.mean.data)[rg_at(w.mean, row)];
    L scale = ((const L *)w.scale.data)[rg_at(w.scale, row)];
    L x[SIDE] = {};
    L dy[SIDE] = {};

    if (wide != 0) {
      rg_unpack<T, SIDE>(w.x.data, from + column, x);
      rg_unpack<T, SIDE>(w.dy.data, dy_from + column, dy);
    } else {
      for (int32_t k = 0; k < SIDE && column + k < w.n; k++) {
        x[k] = rg_get(((const T *)w.x.data)[from + (column + k) * rg_step(w.x)]);
        dy[k] = rg_load<L>(w.dy.data, w.dy_type, dy_from + (column + k) * rg_step(w.dy));
      }
    }
    for (int32_t k = 0; k < SIDE; k++) {
      sum[k] += dy[k] * ((x[k] - mean) * scale);
      sum[SIDE + k] += dy[k];
    }
  }
  for (int32_t k = 0; k < 2 * SIDE; k++) {
    sums[k * RG_BLOCK + threadIdx.x] = sum[k];
  }
  __syncthreads();
  for (int32_t k = 0; threadIdx.x < RG_WARP && k < 2 * SIDE; k++) {
    const int64_t to = column + k % SIDE;
    L all = sum[k];

    for (int32_t i = 1; i < RG_WARPS; i++) {
      all += sums[k * RG_BLOCK + threadIdx.x + i * RG_WARP];
    }
    if (to < w.n) {
      parts[(2 * blockIdx.y + k / SIDE) * w.n + to] = all;
    }
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

/* Can all vectors that are there be moved in packs of so many? */
static bool vectors_pack(const norm_work &w, int64_t n)
{
  const vector *all[2] = { &w.weight, &w.bias };
  bool fit = true;

  for (const vector *v : all) {
    fit =
        fit && (v->data == NULL || (v->step == 1 && rg_aligned(v->data, rg_bytes_of(v->dtype), n)));
  }
  return fit;
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

template <class T>
static cudaError_t forward(const rg_call *call, const norm_work &w, rg_frame *frame)
{
  constexpr int N = rg_pack_size<T>;
  const int64_t bytes = w.n * (int64_t)sizeof(T);
  const bool held = rg_holds(w.width, w.n, RG_HOLDS);
  const bool packs = rg_rows_pack(w.x, rg_code_of<T>, w.n, N) &&
                     rg_rows_pack(w.y, w.y_type, w.n, N) && vectors_pack(w, N);

  frame->path = packs && held ? RG_PATH_HELD : RG_PATH_AGAIN;
  if (packs && w.width > 1 && !held && rg_keeps(call, bytes)) {
    frame->path = RG_PATH_KEPT;
    return rg_launch_keepers(call, k_layer_norm_kept<T>, w.rows, bytes, w);
  }
  return rg_launch(packs && held ? k_layer_norm_held<T> : k_layer_norm<T>,
                   rg_over(w.rows * w.width, rg_gpu_stream(call->device)), w);
}

rg_status rg_gpu_layer_norm(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *x = call->in[0];
  norm_work w = work_of(call, x, out[0]);

  if (x->_count == 0) {
    return RG_OK;
  }
  w.weight = vector_of(call->in[1]);
  w.bias = vector_of(call->in[2]);
  if (call->n_out > 1) {
    w.mean = rg_view_of(out[1]);
    w.scale = rg_view_of(out[2]);
  }
  return rg_dispatch<RG_KINDS_FLOAT>(call, x->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return forward<T>(call, w, frame);
  });
}

/* dx */
template <class T>
static cudaError_t back_x(const rg_call *call, const norm_work &w, rg_frame *frame)
{
  constexpr int N = rg_pack_size<T>;
  const int64_t bytes = 2 * w.n * (int64_t)sizeof(T);
  const bool held = rg_holds(w.width, w.n, RG_HOLDS_TWO);
  const bool packs = w.dy_type == rg_code_of<T> && rg_rows_pack(w.x, rg_code_of<T>, w.n, N) &&
                     rg_rows_pack(w.y, rg_code_of<T>, w.n, N) &&
                     rg_rows_pack(w.dy, w.dy_type, w.n, N) && vectors_pack(w, N);

  frame->path = packs && held ? RG_PATH_HELD : RG_PATH_AGAIN;
  if (packs && w.width > 1 && !held && rg_keeps(call, bytes)) {
    frame->path = RG_PATH_KEPT;
    return rg_launch_keepers(call, k_layer_norm_back_kept<T>, w.rows, bytes, w);
  }
  return rg_launch(packs && held ? k_layer_norm_back_held<T> : k_layer_norm_back<T>,
                   rg_over(w.rows * w.width, rg_gpu_stream(call->device)), w);
}

template <class T>
static rg_status back(const rg_call *call, const norm_work &w, rg_tensor *const *out,
                      rg_frame *frame)
{
  typedef typename rg_lane<T>::type L;
  cudaStream_t stream = rg_gpu_stream(call->device);
  /* scratch was asked for with the sums of so many parts, and a weight that is not copied here */
  int64_t n_parts = w.rows > 0 ? (call->scratch_bytes / (w.n * (int64_t)sizeof(L)) - 1) / 2 : 0;
  rg_launch_cfg columns = { dim3((unsigned)((w.n + COLUMNS - 1) / COLUMNS), (unsigned)n_parts),
                            dim3(RG_BLOCK), 0, stream };
  int32_t wide = w.dy_type == rg_code_of<T> && rg_rows_pack(w.x, rg_code_of<T>, w.n, SIDE) &&
                 rg_rows_pack(w.dy, w.dy_type, w.n, SIDE);

  if (w.rows > 0) {
    RG_CUDA(call->op->name, back_x<T>(call, w, frame));
    RG_CUDA(call->op->name, rg_launch(k_columns<T>, columns, w, (L *)frame->scratch, wide));
  }
  return rg_gpu_status(call->op->name,
                       rg_launch(k_join<L>, rg_over(2 * w.n, stream), (L *)out[1]->_data,
                                 (L *)out[2]->_data, (const L *)frame->scratch, w.n, n_parts));
}

rg_status rg_gpu_layer_norm_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *x = call->in[RG_LNB_X];
  norm_work w = work_of(call, x, out[0]);

  w.width = rg_two_width(w.width, w.n);
  w.dy = rg_view_of(call->in[RG_LNB_DY]);
  w.dy_type = call->in[RG_LNB_DY]->_dtype;
  w.mean = rg_view_of(call->in[RG_LNB_MEAN]);
  w.scale = rg_view_of(call->in[RG_LNB_SCALE]);
  w.weight = vector_of(call->in[RG_LNB_WEIGHT]);
  return rg_dispatch<RG_KINDS_FLOAT>(call, x->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return back<T>(call, w, out, frame);
  });
}
