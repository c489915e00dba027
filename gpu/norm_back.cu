/* SPDX-License-Identifier: MIT */
/*
** Gradients of layer normalisation: rows that a block can hold are read once, for dx and for their
** share of dw and db; sums over rows are of parts of them, which are joined.
*/
#include "gpu/norm.cuh"

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
      L g = rg_load<L>(w.dy.data, w.dy_type, dy + i * dy_step) * norm_at(w.weight, i, (L)1);

      a += g;
      b += g * ((rg_get(x[i * step]) - mean) * scale);
    }
    a = w.rms == 0 ? rg_team_sum(a, w.width, room) / (L)w.n : 0;
    b = rg_team_sum(b, w.width, room) / (L)w.n;
    for (int64_t i = lane; i < w.n; i += w.width) {
      L g = rg_load<L>(w.dy.data, w.dy_type, dy + i * dy_step) * norm_at(w.weight, i, (L)1);
      L z = (rg_get(x[i * step]) - mean) * scale;

      dx[i * dx_step] = rg_element<T>::of(scale * (g - a - z * b));
    }
  }
}

/* Threads of a block that holds rows; packs of each of a row's two tensors a thread has. */
enum { HOLDERS = 512, HOLDER_WARPS = HOLDERS / RG_WARP, PACKS = 2 };

/*
** The same with rows that are held, and dw and db of a part of the rows beside them in one reading:
** a thread has the same columns of each row of its team, and their sums.
**
** parts: [n_parts x 2 x n], a part for each block
*/
template <class T, class W, class D>
__global__ void __launch_bounds__(HOLDERS)
    k_layer_norm_back_held(const __grid_constant__ norm_work w, typename rg_lane<T>::type *parts)
{
  typedef typename rg_lane<T>::type L;
  constexpr int N = rg_pack_size<T>;
  constexpr bool AHEAD = sizeof(D) == sizeof(T);
  RG_SHARED(L, rooms, 2 * 2 * HOLDER_WARPS);
  RG_SHARED(L, sums, 2 * N * HOLDERS);
  const rg_row<N, PACKS * N> row(w.n, w.width);
  const int32_t thread = (int32_t)threadIdx.x;
  const int32_t teams = HOLDERS / w.width;
  const int64_t begin = w.rows * blockIdx.x / gridDim.x;
  const int64_t end = w.rows * (blockIdx.x + 1) / gridDim.x;
  const int64_t turns = (end - begin + teams - 1) / teams;
  rg_raw<T, N> next_x[PACKS];
  rg_raw<D, N> next_dy[PACKS];
  rg_raw<W, N> weight[PACKS];
  L dw[PACKS][N] = {};
  L db[PACKS][N] = {};
  L next_mean = 0;
  L next_scale = 0;
  const auto load = [&](int64_t r) {
    if (r < end) {
      RG_PACKS_OF(row, j)
      {
        next_x[j].load(w.x.data, r * w.x_apart + row.at(j));
        next_dy[j].load(w.dy.data, r * w.dy_apart + row.at(j));
      }
      next_mean = ((const L *)w.mean.data)[r * w.mean_apart];
      next_scale = ((const L *)w.scale.data)[r * w.scale_apart];
    }
  };

  RG_PACKS_OF(row, j)
  {
    L by[N];

    norm_pack<W, N>(w.weight, row.at(j), (L)1, by);
    weight[j].put(by);
  }
  int64_t r = begin + thread / w.width;

  if (AHEAD) {
    load(r);
  }
  /* all teams of a block take as many turns, because all of them meet in each */
  for (int64_t turn = 0; turn < turns; turn++, r += teams) {
    if (!AHEAD) {
      load(r);
    }
    const L mean = next_mean;
    const L scale = next_scale;
    L z[PACKS][N];
    L g[PACKS][N];
    L a = 0;
    L b = 0;

    RG_PACKS_OF(row, j)
    {
      next_x[j].get(z[j]);
      next_dy[j].get(g[j]);
    }
    if (AHEAD) {
      load(r + teams);
    }
    RG_PACKS_OF(row, j)
    {
      L by[N];

      if (r >= end) {
        continue;
      }
      if (AHEAD) {
        weight[j].get(by);
      } else { /* registers are short */
        norm_pack<W, N>(w.weight, row.at(j), (L)1, by);
      }
      for (int k = 0; k < N; k++) {
        z[j][k] = (z[j][k] - mean) * scale;
        dw[j][k] += g[j][k] * z[j][k];
        db[j][k] += g[j][k];
        g[j][k] *= by[k];
        a += g[j][k];
        b += g[j][k] * z[j][k];
      }
    }
    rg_team_sums(&a, &b, w.width, rooms + turn % 2 * 2 * HOLDER_WARPS);
    a = w.rms == 0 ? scale * (a / (L)w.n) : 0;
    b = scale * (b / (L)w.n);
    RG_PACKS_OF(row, j)
    {
      if (r >= end) {
        continue;
      }
      for (int k = 0; k < N; k++) {
        g[j][k] = scale * g[j][k] - a - z[j][k] * b;
      }
      rg_pack_into<T, N>(w.y.data, r * w.y_apart + row.at(j), g[j]);
    }
  }
  /* the teams' sums, in their order */
  L *to = parts + 2 * (int64_t)blockIdx.x * w.n;

  for (int j = 0; j < PACKS; j++) {
    for (int k = 0; teams > 1 && k < N; k++) {
      sums[k * HOLDERS + thread] = dw[j][k];
      sums[(N + k) * HOLDERS + thread] = db[j][k];
    }
    __syncthreads();
    for (int k = 0; thread < w.width && k < N; k++) {
      for (int32_t from = thread + w.width; from < HOLDERS; from += w.width) {
        dw[j][k] += sums[k * HOLDERS + from];
        db[j][k] += sums[(N + k) * HOLDERS + from];
      }
    }
    __syncthreads();
    if (thread < w.width && row.has(j)) {
      rg_pack_into<L, N>(to, row.at(j), dw[j]);
      rg_pack_into<L, N>(to + w.n, row.at(j), db[j]);
    }
  }
}

/* Both rows are kept, one behind the other. */
template <class T, class W>
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
      norm_pack<W, N>(w.weight, i, (L)1, weight);
      for (int k = 0; k < N; k++) {
        a += g[k] * weight[k];
        b += g[k] * weight[k] * ((z[k] - mean) * scale);
      }
    }
    a = w.rms == 0 ? scale * (rg_team_sum(a, (int32_t)blockDim.x, room) / (L)w.n) : 0;
    b = scale * (rg_team_sum(b, (int32_t)blockDim.x, room) / (L)w.n);
    RG_KEPT_PACKS(i, n, N)
    {
      rg_unpack<T, N>(kept, i, z);
      rg_unpack<T, N>(kept, n + i, g);
      norm_pack<W, N>(w.weight, i, (L)1, weight);
      for (int k = 0; k < N; k++) {
        g[k] = scale * (g[k] * weight[k]) - a - (z[k] - mean) * scale * b;
      }
      rg_pack_into<T, N>(dx, i, g);
    }
  }
}

/* Columns of a thread and of a block; blocks for each multiprocessor that are enough. */
enum { SIDE = 2, COLUMNS = SIDE * RG_WARP, ENOUGH = 24 };

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

/* A warp has 32 neighbours of every eighth part. */
template <class L> __global__ void k_join(L *dw, L *db, const L *parts, int64_t n, int32_t n_parts)
{
  RG_SHARED(L, sums, RG_BLOCK);
  const int64_t i = (int64_t)blockIdx.x * RG_WARP + threadIdx.x % RG_WARP;
  L sum = 0;

#pragma unroll 8
  for (int32_t k = (int32_t)threadIdx.x / RG_WARP; i < 2 * n && k < n_parts; k += RG_WARPS) {
    sum += parts[2 * k * n + i];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x < RG_WARP && i < 2 * n) {
    for (int32_t k = 1; k < RG_WARPS; k++) {
      sum += sums[k * RG_WARP + threadIdx.x];
    }
    (i < n ? dw : db)[i < n ? i : i - n] = sum;
  }
}

/* dx by a kernel that takes a row twice, then the sums over rows by another: of fewer parts than
** there is room for where there are many columns, so that each thread has some rows. */
template <class T>
static cudaError_t one_by_one(const rg_call *call, const norm_work &w, int32_t vectors, bool packs,
                              typename rg_lane<T>::type *parts, int64_t *n_parts, rg_frame *frame)
{
  cudaStream_t stream = rg_gpu_stream(call->device);
  const int64_t bytes = 2 * w.n * (int64_t)sizeof(T);
  const int64_t across = (w.n + COLUMNS - 1) / COLUMNS;

  *n_parts = rg_clamped((int64_t)ENOUGH * rg_gpu_units(call->device) / across, 1, *n_parts);
  const rg_launch_cfg columns = { dim3((unsigned)across, (unsigned)*n_parts), dim3(RG_BLOCK), 0,
                                  stream };
  const int32_t wide = w.dy_type == rg_code_of<T> && rg_rows_pack(w.x, rg_code_of<T>, w.n, SIDE) &&
                       rg_rows_pack(w.dy, w.dy_type, w.n, SIDE);
  cudaError_t error;

  if (packs && w.dy_type == rg_code_of<T> && rg_keeps(call, bytes)) {
    frame->path = RG_PATH_KEPT;
    error = norm_with_types<T>(vectors, w.dy_type, [&](auto v, auto) {
      return rg_launch_keepers(call, k_layer_norm_back_kept<T, rg_t<decltype(v)>>, w.rows, bytes,
                               w);
    });
  } else {
    frame->path = RG_PATH_AGAIN;
    error = rg_launch(k_layer_norm_back<T>, rg_over(w.rows * w.width, stream), w);
  }
  return error != cudaSuccess ? error : rg_launch(k_columns<T>, columns, w, parts, wide);
}

template <class T>
static cudaError_t back_rows(const rg_call *call, norm_work w, typename rg_lane<T>::type *parts,
                             int64_t *n_parts, rg_frame *frame)
{
  constexpr int N = rg_pack_size<T>;
  const int32_t vectors = norm_type_of(w, N, w.dy_type);
  const bool packs = w.width > 1 && norm_has_types<T>(vectors, w.dy_type) &&
                     rg_rows_pack(w.x, rg_code_of<T>, w.n, N) &&
                     rg_rows_pack(w.y, rg_code_of<T>, w.n, N) &&
                     rg_rows_pack(w.dy, w.dy_type, w.n, N);
  const bool even = w.x_apart >= 0 && w.y_apart >= 0 && w.dy_apart >= 0 && w.mean_apart >= 0 &&
                    w.scale_apart >= 0;

  if (!packs || !even || w.n > HOLDERS * PACKS * N) {
    return one_by_one<T>(call, w, vectors, packs, parts, n_parts, frame);
  }
  frame->path = RG_PATH_HELD;
  w.width = RG_WARP;
  while (w.n > w.width * PACKS * N) {
    w.width *= 2;
  }
  return norm_with_types<T>(vectors, w.dy_type, [&](auto v, auto d) {
    const rg_launch_cfg cfg = { dim3((unsigned)*n_parts), dim3(HOLDERS), 0,
                                rg_gpu_stream(call->device) };

    return rg_launch(k_layer_norm_back_held<T, rg_t<decltype(v)>, rg_t<decltype(d)>>, cfg, w,
                     parts);
  });
}

template <class T>
static rg_status back(const rg_call *call, const norm_work &w, rg_tensor *const *out,
                      rg_frame *frame)
{
  typedef typename rg_lane<T>::type L;
  cudaStream_t stream = rg_gpu_stream(call->device);
  /* scratch was asked for with the sums of so many parts, and a weight that is not copied here */
  int64_t n_parts = w.rows > 0 ? (call->scratch_bytes / (w.n * (int64_t)sizeof(L)) - 1) / 2 : 0;
  const rg_launch_cfg join = { dim3((unsigned)((2 * w.n + RG_WARP - 1) / RG_WARP)), dim3(RG_BLOCK),
                               0, stream };

  if (w.rows > 0) {
    RG_CUDA(call->op->name, back_rows<T>(call, w, (L *)frame->scratch, &n_parts, frame));
  }
  return rg_gpu_status(call->op->name,
                       rg_launch(k_join<L>, join, (L *)out[1]->_data, (L *)out[2]->_data,
                                 (const L *)frame->scratch, w.n, (int32_t)n_parts));
}

rg_status rg_gpu_layer_norm_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *x = call->in[RG_LNB_X];
  norm_work w = norm_work_of(call, x, out[0]);

  w.dy = rg_view_of(call->in[RG_LNB_DY]);
  w.dy_type = call->in[RG_LNB_DY]->_dtype;
  w.mean = rg_view_of(call->in[RG_LNB_MEAN]);
  w.scale = rg_view_of(call->in[RG_LNB_SCALE]);
  w.dy_apart = rg_rows_apart(w.dy, 1);
  w.mean_apart = rg_rows_apart(w.mean, 0);
  w.scale_apart = rg_rows_apart(w.scale, 0);
  w.weight = norm_vector_of(call->in[RG_LNB_WEIGHT]);
  return rg_dispatch<RG_KINDS_FLOAT>(call, x->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return back<T>(call, w, out, frame);
  });
}
