/* SPDX-License-Identifier: MIT */
/*
** Softmax along one axis, and its gradient.  Rows are held in registers where a team can hold them,
** kept in shared memory where a block can, and otherwise read again.
*/
#include <math.h>

#include "gpu/kernels.cuh"
#include "gpu/rows.cuh"

extern "C" {
#include "op/softmax.h"
}

/* -- Softmax ----------------------------------------------------------------------------------- */

/* The maximum is subtracted first, so that no exponential overflows; nan, +inf, and -inf alone make
** the sum nan, and so the row. */
template <class T>
__global__ void k_softmax(rg_strided y, int32_t y_type, rg_strided x, int64_t rows, int64_t n,
                          int32_t width)
{
  typedef typename rg_lane<T>::type L;
  RG_SHARED(L, room, RG_WARPS);
  const int64_t x_step = rg_step(x);
  const int64_t y_step = rg_step(y);
  const int32_t lane = (int32_t)threadIdx.x % width;

  for (int64_t row = RG_TEAM(width); row < rows; row += RG_TEAMS(width)) {
    const T *from = (const T *)x.data + rg_at(x, row * n);
    int64_t to = rg_at(y, row * n);
    L most = -(L)INFINITY;
    L sum = 0;

    for (int64_t i = lane; i < n; i += width) {
      L v = rg_get(from[i * x_step]);

      most = v > most ? v : most;
    }
    most = rg_team_max(most, width, room);
    for (int64_t i = lane; i < n; i += width) {
      sum += exp(rg_get(from[i * x_step]) - most);
    }
    L scale = (L)1 / rg_team_sum(sum, width, room);

    for (int64_t i = lane; i < n; i += width) {
      rg_store(y.data, y_type, to + i * y_step, exp(rg_get(from[i * x_step]) - most) * scale);
    }
  }
}

/* The same with rows that are held.  What is rounded to a half type has the exponential that needs
** no correction: (x - most) log2(e) rounded to float moves it by less than 1e-5 of itself. */
template <class T, class Y, int PACKS>
__global__ void __launch_bounds__(RG_BLOCK, rg_resident<PACKS> / RG_BLOCK)
    k_softmax_held(Y *y, int64_t y_apart, const T *x, int64_t x_apart, int64_t rows, int64_t n,
                   int32_t width)
{
  typedef typename rg_lane<T>::type L;
  constexpr int N = rg_pack_size<T>;
  constexpr bool AHEAD = PACKS < RG_PACKS_MOST;
  RG_SHARED(L, most_room, RG_WARPS);
  RG_SHARED(L, sum_room, RG_WARPS);
  const rg_row<N, PACKS * N> row(n, width);
  const int64_t teams = RG_TEAMS(width);
  rg_raw<T, N> next[PACKS];

  RG_PACKS_OF(row, j)
  {
    if (AHEAD && RG_TEAM(width) < rows) {
      next[j].load(x, RG_TEAM(width) * x_apart + row.at(j));
    }
  }
  for (int64_t r = RG_TEAM(width); r < rows; r += teams) {
    L v[PACKS][N];
    L most = -(L)INFINITY;
    L sum = 0;

    RG_PACKS_OF(row, j)
    {
      if (AHEAD) {
        next[j].get(v[j]);
      } else {
        rg_unpack<T, N>(x, r * x_apart + row.at(j), v[j]);
      }
    }
    RG_PACKS_OF(row, j)
    {
      if (AHEAD && r + teams < rows) {
        next[j].load(x, (r + teams) * x_apart + row.at(j));
      }
    }
    RG_PACKS_OF(row, j)
    {
      for (int k = 0; k < N; k++) {
        most = v[j][k] > most ? v[j][k] : most;
      }
    }
    most = rg_team_max<true>(most, width, most_room);
    RG_PACKS_OF(row, j)
    {
      for (int k = 0; k < N; k++) {
        v[j][k] = rg_exp<sizeof(Y) == 2>(v[j][k] - most);
        sum += v[j][k];
      }
    }
    L scale = (L)1 / rg_team_sum<true>(sum, width, sum_room);

    RG_PACKS_OF(row, j)
    {
      for (int k = 0; k < N; k++) {
        v[j][k] *= scale;
      }
      rg_pack_into<Y, N>(y, r * y_apart + row.at(j), v[j]);
    }
  }
}

/* The same with rows that are kept. */
template <class T, class Y>
__global__ void __launch_bounds__(RG_KEEPERS)
    k_softmax_kept(const __grid_constant__ rg_strided y, const __grid_constant__ rg_strided x,
                   int64_t rows, int32_t n)
{
  typedef typename rg_lane<T>::type L;
  constexpr int N = rg_pack_size<T>;
  RG_SHARED(L, room, RG_KEEPER_WARPS);
  RG_DYN_SHARED(T, kept);

  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const int64_t to = rg_at(y, r * n);
    L v[N];
    L most = -(L)INFINITY;
    L sum = 0;

    rg_keep(kept, (const T *)x.data + rg_at(x, r * n), n);
    rg_kept();
    RG_KEPT_PACKS(i, n, N)
    {
      rg_unpack<T, N>(kept, i, v);
      for (int k = 0; k < N; k++) {
        most = v[k] > most ? v[k] : most;
      }
    }
    most = rg_team_max(most, (int32_t)blockDim.x, room);
    RG_KEPT_PACKS(i, n, N)
    {
      rg_unpack<T, N>(kept, i, v);
      for (int k = 0; k < N; k++) {
        sum += exp(v[k] - most);
      }
    }
    L scale = (L)1 / rg_team_sum(sum, (int32_t)blockDim.x, room);

    RG_KEPT_PACKS(i, n, N)
    {
      rg_unpack<T, N>(kept, i, v);
      for (int k = 0; k < N; k++) {
        v[k] = exp(v[k] - most) * scale;
      }
      rg_pack_into<Y, N>(y.data, to + i, v);
    }
  }
}

/* dx = y (dy - sum(dy y)) */
template <class T>
__global__ void k_softmax_back(rg_strided dx, rg_strided dy, rg_strided y, int64_t rows, int64_t n,
                               int32_t width)
{
  typedef typename rg_lane<T>::type L;
  RG_SHARED(L, room, RG_WARPS);
  const int64_t dx_step = rg_step(dx);
  const int64_t dy_step = rg_step(dy);
  const int64_t y_step = rg_step(y);
  const int32_t lane = (int32_t)threadIdx.x % width;

  for (int64_t row = RG_TEAM(width); row < rows; row += RG_TEAMS(width)) {
    const T *grad = (const T *)dy.data + rg_at(dy, row * n);
    const T *result = (const T *)y.data + rg_at(y, row * n);
    T *to = (T *)dx.data + rg_at(dx, row * n);
    L sum = 0;

    for (int64_t i = lane; i < n; i += width) {
      sum += rg_get(grad[i * dy_step]) * rg_get(result[i * y_step]);
    }
    sum = rg_team_sum(sum, width, room);
    for (int64_t i = lane; i < n; i += width) {
      to[i * dx_step] =
          rg_element<T>::of(rg_get(result[i * y_step]) * (rg_get(grad[i * dy_step]) - sum));
    }
  }
}

template <class T>
__global__ void
k_softmax_back_held(const __grid_constant__ rg_strided dx, const __grid_constant__ rg_strided dy,
                    const __grid_constant__ rg_strided y, int64_t rows, int64_t n, int32_t width)
{
  typedef typename rg_lane<T>::type L;
  constexpr int N = rg_pack_size<T>;
  RG_SHARED(L, room, RG_WARPS);
  const rg_row<N, RG_HOLDS_TWO> row(n, width);

  for (int64_t r = RG_TEAM(width); r < rows; r += RG_TEAMS(width)) {
    const T *grad = (const T *)dy.data + rg_at(dy, r * n);
    const T *result = (const T *)y.data + rg_at(y, r * n);
    T *to = (T *)dx.data + rg_at(dx, r * n);
    L g[row.packs][N];
    L v[row.packs][N];
    L sum = 0;

    RG_PACKS_OF(row, j)
    {
      rg_unpack<T, N>(grad, row.at(j), g[j]);
      rg_unpack<T, N>(result, row.at(j), v[j]);
    }
    RG_PACKS_OF(row, j)
    {
      for (int k = 0; k < N; k++) {
        sum += g[j][k] * v[j][k];
      }
    }
    sum = rg_team_sum(sum, width, room);
    RG_PACKS_OF(row, j)
    {
      for (int k = 0; k < N; k++) {
        g[j][k] = v[j][k] * (g[j][k] - sum);
      }
      rg_pack_into<T, N>(to, row.at(j), g[j]);
    }
  }
}

/* Both rows are kept, one behind the other. */
template <class T>
__global__ void __launch_bounds__(RG_KEEPERS)
    k_softmax_back_kept(const __grid_constant__ rg_strided dx,
                        const __grid_constant__ rg_strided dy, const __grid_constant__ rg_strided y,
                        int64_t rows, int32_t n)
{
  typedef typename rg_lane<T>::type L;
  constexpr int N = rg_pack_size<T>;
  RG_SHARED(L, room, RG_KEEPER_WARPS);
  RG_DYN_SHARED(T, kept);

  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    T *to = (T *)dx.data + rg_at(dx, r * n);
    L g[N];
    L v[N];
    L sum = 0;

    rg_keep(kept, (const T *)dy.data + rg_at(dy, r * n), n);
    rg_keep(kept + n, (const T *)y.data + rg_at(y, r * n), n);
    rg_kept();
    RG_KEPT_PACKS(i, n, N)
    {
      rg_unpack<T, N>(kept, i, g);
      rg_unpack<T, N>(kept, n + i, v);
      for (int k = 0; k < N; k++) {
        sum += g[k] * v[k];
      }
    }
    sum = rg_team_sum(sum, (int32_t)blockDim.x, room);
    RG_KEPT_PACKS(i, n, N)
    {
      rg_unpack<T, N>(kept, i, g);
      rg_unpack<T, N>(kept, n + i, v);
      for (int k = 0; k < N; k++) {
        g[k] = v[k] * (g[k] - sum);
      }
      rg_pack_into<T, N>(to, i, g);
    }
  }
}

/* -- Calls ------------------------------------------------------------------------------------- */

/* The kernel that holds rows, for so many packs a thread. */
template <int PACKS, class T, class Y>
static cudaError_t held(const rg_call *call, const rg_strided &y, int64_t y_apart,
                        const rg_strided &x, int64_t x_apart, int64_t rows, int64_t n,
                        int32_t width)
{
  return rg_launch(k_softmax_held<T, Y, PACKS>,
                   rg_taking_turns(call, rows, width, rg_resident<PACKS>), (Y *)y.data, y_apart,
                   (const T *)x.data, x_apart, rows, n, width);
}

/* Rows that can be moved in packs, y of the type of x or of its lane: held, or kept where a block
** can; false: neither. */
template <class T, class Y>
static bool in_packs(const rg_call *call, const rg_strided &y, const rg_strided &x, int64_t rows,
                     int64_t n, rg_frame *frame, cudaError_t *error)
{
  constexpr int N = rg_pack_size<T>;
  const rg_hold hold = rg_hold_of(n, N);
  const int64_t apart = rg_rows_apart(x, 1);
  const int64_t y_apart = rg_rows_apart(y, 1);
  const int64_t bytes = n * (int64_t)sizeof(T);

  if (hold.width > 0 && apart >= 0 && y_apart >= 0) {
    const int32_t width = hold.width;

    ;
    if constexpr (N * RG_PACKS_MOST <= RG_HOLDS) {
      if (hold.packs == RG_PACKS_MOST) {
        *error = held<RG_PACKS_MOST, T, Y>(call, y, y_apart, x, apart, rows, n, width);
        return true;
      }
    }
    *error = hold.packs == RG_PACKS_FEW
                 ? held<RG_PACKS_FEW, T, Y>(call, y, y_apart, x, apart, rows, n, width)
                 : held<RG_PACKS_SOME, T, Y>(call, y, y_apart, x, apart, rows, n, width);
    return true;
  }
  if (rg_keeps(call, bytes)) {
    frame->path = RG_PATH_KEPT;
    *error = rg_launch_keepers(call, k_softmax_kept<T, Y>, rows, bytes, y, x, rows, (int32_t)n);
    return true;
  }
  return false;
}

template <class T>
static cudaError_t softmax(const rg_call *call, const rg_strided &y, int32_t y_type,
                           const rg_strided &x, int64_t rows, int64_t n, rg_frame *frame)
{
  typedef typename rg_lane<T>::type L;
  constexpr int N = rg_pack_size<T>;
  const int32_t width = rg_team_width(&x, n, rows);
  const bool packs =
      width > 1 && rg_rows_pack(x, rg_code_of<T>, n, N) && rg_rows_pack(y, y_type, n, N);
  cudaError_t error = cudaSuccess;

  if (packs && y_type == rg_code_of<T> && in_packs<T, T>(call, y, x, rows, n, frame, &error)) {
    return error;
  }
  if (packs && y_type == rg_code_of<L> && in_packs<T, L>(call, y, x, rows, n, frame, &error)) {
    return error;
  }
  frame->path = RG_PATH_AGAIN;
  return rg_launch(k_softmax<T>, rg_over(rows * width, rg_gpu_stream(call->device)), y, y_type, x,
                   rows, n, width);
}

template <class T>
static cudaError_t softmax_back(const rg_call *call, const rg_strided &dx, const rg_strided &dy,
                                const rg_strided &y, int64_t rows, int64_t n, rg_frame *frame)
{
  constexpr int N = rg_pack_size<T>;
  const int64_t bytes = 2 * n * (int64_t)sizeof(T);
  const int32_t width = rg_two_width(rg_team_width(&y, n, rows), n);
  const rg_launch_cfg cfg = rg_over(rows * width, rg_gpu_stream(call->device));
  const bool packs = rg_rows_pack(dx, rg_code_of<T>, n, N) &&
                     rg_rows_pack(dy, rg_code_of<T>, n, N) && rg_rows_pack(y, rg_code_of<T>, n, N);
  const bool held = packs && rg_holds(width, n, RG_HOLDS_TWO);

  frame->path = held ? RG_PATH_HELD : RG_PATH_AGAIN;
  if (packs && width > 1 && !held && rg_keeps(call, bytes)) {
    frame->path = RG_PATH_KEPT;
    return rg_launch_keepers(call, k_softmax_back_kept<T>, rows, bytes, dx, dy, y, rows,
                             (int32_t)n);
  }
  return rg_launch(held ? k_softmax_back_held<T> : k_softmax_back<T>, cfg, dx, dy, y, rows, n,
                   width);
}

rg_status rg_gpu_softmax(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_softmax_args *args = (const rg_softmax_args *)call->args;
  const rg_tensor *x = call->in[0];

  if (x->_count == 0) {
    return RG_OK;
  }
  int64_t n = x->_shape[args->axis];
  int64_t rows = x->_count / n;
  rg_strided from = rg_axis_last(x, args->axis);
  rg_strided to = rg_axis_last(out[0], args->axis);

  return rg_dispatch<RG_KINDS_FLOAT>(call, x->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return softmax<T>(call, to, out[0]->_dtype, from, rows, n, frame);
  });
}

rg_status rg_gpu_softmax_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_softmax_args *args = (const rg_softmax_args *)call->args;
  const rg_tensor *dx = out[0];

  if (dx->_count == 0) {
    return RG_OK;
  }
  int64_t n = dx->_shape[args->axis];
  int64_t rows = dx->_count / n;
  rg_strided to = rg_axis_last(dx, args->axis);
  rg_strided dy = rg_axis_last(call->in[0], args->axis);
  rg_strided y = rg_axis_last(call->in[1], args->axis);

  return rg_dispatch<RG_KINDS_FLOAT>(call, dx->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return softmax_back<T>(call, to, dy, y, rows, n, frame);
  });
}
