/* SPDX-License-Identifier: MIT */
/*
** Pooling of images with channels first, whose rows lie in packs: a thread has one pack of a row of
** the image and the windows that begin in it, so that each element is read once a row of windows.
** Along a row windows are one or two apart and reach a column beyond the pack at most; down the
** image they are of any kind.  The order of sums is that of pool.cu, and so are the bits.
*/
#include <math.h>

#include "gpu/pool.cuh"

extern "C" {
#include "op/pool.h"
}

/* Threads by pack, row, plane. */
struct lines_work {
  pool_work<int32_t> v;
  rg_divisor<int32_t> by_packs, by_rows;
  int32_t packs, rows;
  int64_t n;
};

/* Rows are of the windows, or of the image; columns of the image. */
struct line_spot {
  int32_t n, c, row, column;
};

template <int N> __device__ inline line_spot spot_of(const lines_work &w, int32_t k)
{
  const int32_t line = k / w.by_packs;
  const int32_t plane = line / w.by_rows;
  const int32_t n = plane / w.v.big.channels;

  return line_spot{ n, plane - n * w.v.big.size[1], line - plane * w.rows,
                    (k - line * w.packs) * N };
}

/* Do windows hold the column that is d behind S times their number?  d: from -1 to S. */
__device__ inline bool reaches(const pool_work<int32_t> &v, int32_t d)
{
  return d >= -v.pad[1] && d < v.size[1] - v.pad[1];
}

/* -- Forward ----------------------------------------------------------------------------------- */

/* The windows, S columns apart, that begin in a pack.  The first of equal elements is the largest;
** nan wins. */
template <class T, int S, bool MAX>
__global__ void __launch_bounds__(RG_BLOCK) k_pool_lines(const __grid_constant__ lines_work w)
{
  typedef typename rg_lane<T>::type L;
  constexpr int N = rg_pack_size<T>;
  constexpr int E = N / S;
  const pool_work<int32_t> &v = w.v;
  const L none = MAX ? (L)-INFINITY : (L)0; /* beside the image: never more, adds nothing */
  const int64_t k = RG_FIRST;

  if (k >= w.n) {
    return;
  }
  const line_spot s = spot_of<N>(w, (int32_t)k);
  const pool_span<int32_t> rows = window_at(v, 0, s.row);
  const bool left = reaches(v, -1) && s.column > 0;
  const bool right = reaches(v, S) && s.column + N < v.big.size[3];
  int32_t from = s.n * v.big.step[0] + s.c * v.big.step[1] + rows.from * v.big.step[2] + s.column;
  int32_t place = rows.from * v.big.size[3] + s.column;
  L result[E]; /* the largest, or the sum */
  int32_t at[E];

#pragma unroll
  for (int e = 0; e < E; e++) {
    const int32_t first = e * S - v.pad[1];

    result[e] = none;
    at[e] = place + (s.column + first < 0 ? 0 : first);
  }
  for (int32_t r = rows.from; r < rows.to; r++) {
    L line[N];
    const L before = left ? (L)rg_get(((const T *)v.big.data)[from - 1]) : none;
    const L behind = right ? (L)rg_get(((const T *)v.big.data)[from + N]) : none;

    rg_unpack<T, N>(v.big.data, from, line);
#pragma unroll
    for (int d = -1; d <= S; d++) {
      if (!reaches(v, d)) {
        continue;
      }
#pragma unroll
      for (int e = 0; e < E; e++) {
        const int c = e * S + d;
        const L here = c < 0 ? before : c >= N ? behind : line[c < 0 ? 0 : c >= N ? 0 : c];

        if (MAX) {
          const bool more = !(here <= result[e]) && result[e] == result[e];

          result[e] = more ? here : result[e];
          at[e] = more ? place + c : at[e];
        } else {
          result[e] += here;
        }
      }
    }
    from += v.big.step[2];
    place += v.big.size[3];
  }
#pragma unroll
  for (int e = 0; e < E && !MAX; e++) {
    result[e] *= window_scale<L>(v, rows, window_at(v, 1, s.column / S + e));
  }
  const int32_t window = s.column / S;

  rg_pack_into<T, E>(
      v.small.data,
      s.n * v.small.step[0] + s.c * v.small.step[1] + s.row * v.small.step[2] + window, result);
  if (v.index.data != NULL) {
    rg_pack_into<int32_t, E>(
        v.index.data,
        s.n * v.index.step[0] + s.c * v.index.step[1] + s.row * v.index.step[2] + window, at);
  }
}

/* -- Back -------------------------------------------------------------------------------------- */

/* A pack of the gradient of an image: what the windows give that hold its elements, those that
** begin in the pack and the two beside them. */
template <class T, int S, bool MAX>
__global__ void __launch_bounds__(RG_BLOCK) k_pool_lines_back(const __grid_constant__ lines_work w)
{
  typedef typename rg_lane<T>::type L;
  constexpr int N = rg_pack_size<T>;
  constexpr int E = N / S;
  const pool_work<int32_t> &v = w.v;
  const int64_t k = RG_FIRST;

  if (k >= w.n) {
    return;
  }
  const line_spot s = spot_of<N>(w, (int32_t)k);
  const pool_span<int32_t> down = windows_with(v, 0, s.row);
  const bool left = reaches(v, S) && s.column > 0;
  const bool right = reaches(v, -1) && s.column + N < v.big.size[3];
  const int32_t window = s.column / S;
  const int32_t place = s.row * v.big.size[3] + s.column;
  L sum[N] = {};

  for (int32_t i = down.from; i < down.to; i++) {
    const int32_t from =
        s.n * v.small.step[0] + s.c * v.small.step[1] + i * v.small.step[2] + window;
    const int32_t of = s.n * v.index.step[0] + s.c * v.index.step[1] + i * v.index.step[2] + window;
    const pool_span<int32_t> rows = window_at(v, 0, i);
    L own[E];
    L dy[E + 2]; /* and of the windows beside them */
    int32_t own_at[E] = {};
    int32_t at[E + 2];

    dy[0] = left ? (L)rg_get(((const T *)v.small.data)[from - 1]) : (L)0;
    dy[E + 1] = right ? (L)rg_get(((const T *)v.small.data)[from + E]) : (L)0;
    rg_unpack<T, E>(v.small.data, from, own);
    if (MAX) {
      at[0] = left ? ((const int32_t *)v.index.data)[of - 1] : -1;
      at[E + 1] = right ? ((const int32_t *)v.index.data)[of + E] : -1;
      rg_unpack<int32_t, E>(v.index.data, of, own_at);
    }
#pragma unroll
    for (int e = 0; e < E; e++) {
      dy[e + 1] = own[e];
      at[e + 1] = own_at[e];
      if (MAX && rows.from == s.row) {
        check_index(v, rows, window_at(v, 1, window + e), own_at[e]);
      }
    }
#pragma unroll
    for (int e = -1; e <= E; e++) {
      const L scale =
          MAX ? (L)1 : window_scale<L>(v, rows, window_at(v, 1, window + e < 0 ? 0 : window + e));

#pragma unroll
      for (int d = -1; d <= S; d++) {
        const int c = e * S + d;

        if (c >= 0 && c < N && reaches(v, d)) {
          sum[c] += !MAX ? dy[e + 1] * scale : at[e + 1] == place + c ? dy[e + 1] : (L)0;
        }
      }
    }
  }
  rg_pack_into<T, N>(v.big.data,
                     s.n * v.big.step[0] + s.c * v.big.step[1] + s.row * v.big.step[2] + s.column,
                     sum);
}

/* -- The call ---------------------------------------------------------------------------------- */

/* Do rows lie in packs of n? */
static bool packs(const rg_image<int32_t> &x, int64_t n)
{
  return x.data == NULL || (x.step[3] == 1 && x.step[0] % n == 0 && x.step[1] % n == 0 &&
                            x.step[2] % n == 0 && rg_aligned(x.data, rg_bytes_of(x.dtype), n));
}

template <class T, int S>
static cudaError_t launch(const lines_work &w, const rg_launch_cfg &cfg, bool back)
{
  return back ? rg_launch(w.v.is_max != 0 ? k_pool_lines_back<T, S, true>
                                          : k_pool_lines_back<T, S, false>,
                          cfg, w)
              : rg_launch(w.v.is_max != 0 ? k_pool_lines<T, S, true> : k_pool_lines<T, S, false>,
                          cfg, w);
}

rg_status rg_gpu_pool_lines(const rg_call *call, const pool_work<int32_t> &v, bool back,
                            bool *taken)
{
  const int32_t step = v.stride[1];
  lines_work w = {};

  *taken = false;
  if (v.big.layout != RG_NCHW || step < 1 || step > 2 || v.pad[1] > 1 ||
      v.size[1] - v.pad[1] > step + 1 || v.small.size[3] * (int64_t)step != v.big.size[3]) {
    return RG_OK;
  }
  return rg_dispatch<RG_KINDS_FLOAT>(call, v.big.dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;
    constexpr int N = rg_pack_size<T>;

    if (v.big.size[3] % N != 0 || !packs(v.big, N) || !packs(v.small, N / step) ||
        !packs(v.index, N / step)) {
      return cudaSuccess;
    }
    *taken = true;
    w.v = v;
    w.packs = v.big.size[3] / N;
    w.rows = (back ? v.big : v.small).size[2];
    w.by_packs = rg_divisor<int32_t>::of(w.packs);
    w.by_rows = rg_divisor<int32_t>::of(w.rows);
    w.n = (int64_t)v.big.size[0] * v.big.size[1] * w.rows * w.packs;

    const rg_launch_cfg cfg = rg_filling(w.n, 1, call);

    return step == 1 ? launch<T, 1>(w, cfg, back) : launch<T, 2>(w, cfg, back);
  });
}
