/* SPDX-License-Identifier: MIT */
/*
** Layer normalisation.  Rows are held in registers where a team can hold them, kept in shared
** memory where a block can, and otherwise read again.
*/
#include <math.h>

#include "gpu/norm.cuh"

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
      L v = (rg_get(x[i * step]) - mean) * scale * norm_at(w.weight, i, (L)1) +
            norm_at(w.bias, i, (L)0);

      rg_store(w.y.data, w.y_type, to + i * y_step, v);
    }
  }
}

/* Threads of a multiprocessor that rows are held by: 64 registers a thread, 80, or 128. */
template <int PACKS>
constexpr int resident = PACKS == RG_PACKS_FEW    ? 1024
                         : PACKS == RG_PACKS_SOME ? 768
                                                  : 512;

/*
** The same with rows that are held, as they are stored: halves take half of the registers that
** their lanes would, and are made lanes again in each of the three passes.
*/
template <class T, class W, class Y, int PACKS>
__global__ void __launch_bounds__(RG_BLOCK, resident<PACKS> / RG_BLOCK)
    k_layer_norm_held(const __grid_constant__ norm_work w)
{
  typedef typename rg_lane<T>::type L;
  constexpr int N = rg_pack_size<T>;
  constexpr bool AHEAD = PACKS < RG_PACKS_MOST;
  RG_SHARED(L, rooms, 2 * RG_WARPS);
  const rg_row<N, PACKS * N> row(w.n, w.width);
  const T *x = (const T *)w.x.data;
  const int64_t teams = RG_TEAMS(w.width);
  rg_raw<T, N> here[PACKS];
  rg_raw<T, N> next[PACKS];
  L *room = rooms;

  RG_PACKS_OF(row, j)
  {
    if (AHEAD && RG_TEAM(w.width) < w.rows) {
      next[j].load(x, RG_TEAM(w.width) * w.x_apart + row.at(j));
    }
  }
  for (int64_t r = RG_TEAM(w.width); r < w.rows; r += teams) {
    L v[N];
    L mean = 0;
    L sum = 0;

    RG_PACKS_OF(row, j)
    {
      if (AHEAD) {
        here[j] = next[j];
      } else {
        here[j].load(x, r * w.x_apart + row.at(j));
      }
    }
    RG_PACKS_OF(row, j)
    {
      if (AHEAD && r + teams < w.rows) {
        next[j].load(x, (r + teams) * w.x_apart + row.at(j));
      }
    }
    if (w.rms == 0) {
      RG_PACKS_OF(row, j)
      {
        here[j].get(v);
        for (int k = 0; k < N; k++) {
          mean += v[k];
        }
      }
      mean = rg_team_sum<true>(mean, w.width, room) / (L)w.n;
      room = room == rooms ? rooms + RG_WARPS : rooms;
    }
    RG_PACKS_OF(row, j)
    {
      here[j].get(v);
      for (int k = 0; k < N; k++) {
        sum += (v[k] - mean) * (v[k] - mean);
      }
    }
    L scale = (L)1 / sqrt(rg_team_sum<true>(sum, w.width, room) / (L)w.n + (L)w.eps);

    room = room == rooms ? rooms + RG_WARPS : rooms;
    if (row.first == 0 && w.mean.data != NULL) {
      ((L *)w.mean.data)[r] = mean;
      ((L *)w.scale.data)[r] = scale;
    }
    RG_PACKS_OF(row, j)
    {
      L weight[N];
      L bias[N];

      here[j].get(v);
      norm_pack<W, N>(w.weight, row.at(j), (L)1, weight);
      norm_pack<W, N>(w.bias, row.at(j), (L)0, bias);
      for (int k = 0; k < N; k++) {
        v[k] = (v[k] - mean) * scale * weight[k] + bias[k];
      }
      rg_pack_into<Y, N>(w.y.data, r * w.y_apart + row.at(j), v);
    }
  }
}

/* The same with rows that are kept; one block at least, or ptxas makes 32 registers of it for two,
** and on 8.0 spills. */
template <class T, class W, class Y>
__global__ void __launch_bounds__(RG_KEEPERS, 1)
    k_layer_norm_kept(const __grid_constant__ norm_work w)
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
    mean = w.rms == 0 ? rg_team_sum(mean, (int32_t)blockDim.x, room) / (L)w.n : 0;
    RG_KEPT_PACKS(i, n, N)
    {
      rg_unpack<T, N>(kept, i, v);
      for (int k = 0; k < N; k++) {
        sum += (v[k] - mean) * (v[k] - mean);
      }
    }
    L scale = (L)1 / sqrt(rg_team_sum(sum, (int32_t)blockDim.x, room) / (L)w.n + (L)w.eps);

    if (threadIdx.x == 0 && w.mean.data != NULL) {
      ((L *)w.mean.data)[r] = mean;
      ((L *)w.scale.data)[r] = scale;
    }
    RG_KEPT_PACKS(i, n, N)
    {
      L weight[N];
      L bias[N];

      rg_unpack<T, N>(kept, i, v);
      norm_pack<W, N>(w.weight, i, (L)1, weight);
      norm_pack<W, N>(w.bias, i, (L)0, bias);
      for (int k = 0; k < N; k++) {
        v[k] = (v[k] - mean) * scale * weight[k] + bias[k];
      }
      rg_pack_into<Y, N>(w.y.data, to + i, v);
    }
  }
}

/* The kernel that holds rows, so many packs a thread. */
template <int PACKS, class T, class W, class Y>
static cudaError_t held(const rg_call *call, const norm_work &w)
{
  return rg_launch(k_layer_norm_held<T, W, Y, PACKS>,
                   rg_taking_turns(call, w.rows, w.width, resident<PACKS>), w);
}

template <class T, class W, class Y>
static cudaError_t held_in(int32_t packs, const rg_call *call, const norm_work &w)
{
  constexpr bool MOST = rg_pack_size<T> * RG_PACKS_MOST <= RG_HOLDS;

  if constexpr (MOST) {
    if (packs == RG_PACKS_MOST) {
      return held<RG_PACKS_MOST, T, W, Y>(call, w);
    }
  }
  return packs == RG_PACKS_FEW ? held<RG_PACKS_FEW, T, W, Y>(call, w)
                               : held<RG_PACKS_SOME, T, W, Y>(call, w);
}

template <class T> static cudaError_t forward(const rg_call *call, norm_work w, rg_frame *frame)
{
  constexpr int N = rg_pack_size<T>;
  const int64_t bytes = w.n * (int64_t)sizeof(T);
  const int32_t vectors = norm_type_of(w, N, w.y_type);
  const bool packs = w.width > 1 && norm_has_types<T>(vectors, w.y_type) &&
                     rg_rows_pack(w.x, rg_code_of<T>, w.n, N) &&
                     rg_rows_pack(w.y, w.y_type, w.n, N);
  const rg_hold hold = rg_hold_of(w.n, N);

  if (packs && hold.width > 0 && w.x_apart >= 0 && w.y_apart >= 0) {
    frame->path = RG_PATH_HELD;
    w.width = hold.width;
    return norm_with_types<T>(vectors, w.y_type, [&](auto v, auto y) {
      return held_in<T, rg_t<decltype(v)>, rg_t<decltype(y)>>(hold.packs, call, w);
    });
  }
  if (packs && rg_keeps(call, bytes)) {
    ;
    return norm_with_types<T>(vectors, w.y_type, [&](auto v, auto y) {
      return rg_launch_keepers(call, k_layer_norm_kept<T, rg_t<decltype(v)>, rg_t<decltype(y)>>,
                               w.rows, bytes, w);
    });
  }
  frame->path = RG_PATH_AGAIN;
  return rg_launch(k_layer_norm<T>, rg_over(w.rows * w.width, rg_gpu_stream(call->device)), w);
}

rg_status rg_gpu_layer_norm(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *x = call->in[0];
  norm_work w = norm_work_of(call, x, out[0]);

  if (x->_count == 0) {
    return RG_OK;
  }
  w.weight = norm_vector_of(call->in[1]);
  w.bias = norm_vector_of(call->in[2]);
  if (call->n_out > 1) {
    w.mean = rg_view_of(out[1]);
    w.scale = rg_view_of(out[2]);
  }
  return rg_dispatch<RG_KINDS_FLOAT>(call, x->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return forward<T>(call, w, frame);
  });
}
