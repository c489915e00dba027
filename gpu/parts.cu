/* SPDX-License-Identifier: MIT */
/*
** What is made of many elements or many tensors, part by part: the position of an extreme element,
** concatenation, derivatives of activations.
*/
#include "gpu/functions.cuh"
#include "gpu/kernels.cuh"
#include "gpu/pack.cuh"
#include "gpu/team.cuh"

extern "C" {
#include "op/act.h"
#include "op/argmax.h"
#include "op/concat.h"
}

/* -- Positions --------------------------------------------------------------------------------- */

/* Is v, at i, better than w, at j?  The first nan wins, else the first of equals; -1: none. */
template <class L> __device__ inline bool beats(int32_t least, L v, int64_t i, L w, int64_t j)
{
  if (i < 0 || j < 0) {
    return i >= 0;
  }
  if (v != v || w != w) {
    return v != v && (w == w || i < j);
  }
  return v == w ? i < j : least ? v < w : v > w;
}

/* A block has `width` rows of the axis that x was permuted to end with, and so many threads less
** for each; neighbours are threads of a row, or where rows are adjacent (across), rows. */
template <class T>
__global__ void k_position(const __grid_constant__ rg_strided y,
                           const __grid_constant__ rg_strided x, int64_t rows, int64_t n,
                           int32_t width, int32_t across, int32_t least)
{
  typedef typename rg_lane<T>::type L;
  constexpr int N = rg_pack_size<T>;
  RG_SHARED(L, value, RG_BLOCK);
  RG_SHARED(int64_t, place, RG_BLOCK);
  const int32_t t = (int32_t)threadIdx.x;
  const int32_t lanes = RG_BLOCK / width;
  const int32_t lane = across ? t / width : t % lanes;
  const int32_t apart = across ? width : 1;
  const int64_t step = x.stride[x.ndim - 1];

  for (int64_t first = (int64_t)blockIdx.x * width; first < rows;
       first += (int64_t)gridDim.x * width) {
    int64_t row = first + (across ? t % width : t / lanes);
    const T *from = (const T *)x.data + (row < rows ? rg_at(x, row * n) : 0);
    L best = 0;
    int64_t at = -1;

    const rg_stretch<T> run(from, row < rows ? n : 0, step == 1 && !across);

#pragma unroll 2
    for (int64_t i = run.first + lane * N; i < run.last; i += N * lanes) {
      L v[N];

      rg_unpack<T, N>(from, i, v);
#pragma unroll
      for (int k = 0; k < N; k++) {
        if (beats(least, v[k], i + k, best, at)) {
          best = v[k];
          at = i + k;
        }
      }
    }
    for (int64_t k = lane; k < run.loose(); k += lanes) {
      const int64_t i = run.loose_at(k);
      const L v = rg_get(from[i * step]);

      if (beats(least, v, i, best, at)) {
        best = v;
        at = i;
      }
    }
    value[t] = best;
    place[t] = at;
    __syncthreads();
    for (int32_t half = lanes / 2; half > 0; half /= 2) {
      int32_t other = t + half * apart;

      if (lane < half && beats(least, value[other], place[other], value[t], place[t])) {
        value[t] = value[other];
        place[t] = place[other];
      }
      __syncthreads();
    }
    if (lane == 0 && row < rows) {
      ((int64_t *)y.data)[rg_at(y, row)] = place[t];
    }
  }
}

static rg_status position(const rg_call *call, rg_tensor *y, int32_t least)
{
  const int32_t axis = ((const rg_argmax_args *)call->args)->axis;
  const rg_tensor *x = call->in[0];
  const int64_t n = x->_shape[axis];
  const int64_t rows = y->_count;
  rg_strided from = rg_axis_last(x, axis);
  int32_t across = from.ndim > 1 && from.stride[from.ndim - 1] > from.stride[from.ndim - 2];
  int32_t width = n >= 1024 ? 1 : n >= 64 ? 8 : RG_BLOCK;

  if (rows == 0) {
    return RG_OK;
  }
  width = across && n >= 32 ? 32 : width;
  while (across && width / 2 >= rows) {
    width /= 2;
  }
  rg_launch_cfg cfg = rg_over((rows + width - 1) / width * RG_BLOCK, rg_gpu_stream(call->device));

  return rg_dispatch<RG_KINDS_COMPUTED>(call, x->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return rg_launch(k_position<T>, cfg, rg_view_of(y), from, rows, n, width, across, least);
  });
}

rg_status rg_gpu_argmax(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  return position(call, out[0], 0);
}

rg_status rg_gpu_argmin(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  return position(call, out[0], 1);
}

/* -- Joining ----------------------------------------------------------------------------------- */

enum { JOINED = 8 }; /* tensors in one launch: what a launch can be told is 4 KiB */

struct joined {
  rg_strided from[JOINED];
  rg_strided to[JOINED]; /* windows into the result */
  int64_t count[JOINED];
  int32_t dtype[JOINED];
  int32_t wide[JOINED];
};

/* Of one type, by its size: bits stay as they are. */
template <class T> __global__ void k_concat(const __grid_constant__ joined j)
{
  const rg_strided &from = j.from[blockIdx.y];
  const rg_strided &to = j.to[blockIdx.y];

  for (rg_some<rg_pack_size<T>> at(j.count[blockIdx.y], j.wide[blockIdx.y] != 0); at.more();
       at.next()) {
    T v[rg_pack_size<T>];

    rg_read<T>(from, at, v);
    rg_write<T>(to, at, v);
  }
}

/* Of several types. */
template <class T> __global__ void k_concat_mixed(const __grid_constant__ joined j, int32_t dtype)
{
  const rg_strided &from = j.from[blockIdx.y];
  const rg_strided &to = j.to[blockIdx.y];
  const int32_t type = j.dtype[blockIdx.y];

  for (int64_t i = RG_FIRST; i < j.count[blockIdx.y]; i += RG_NEXT) {
    int64_t at = rg_at(from, i);

    ((T *)to.data)[rg_at(to, i)] =
        type == dtype ? ((const T *)from.data)[at] /* bits stay as they are */
                      : rg_converted<T>::of(rg_stored_number_of(from.data, type, at));
  }
}

/* One launch, of n tensors, the largest of so many elements. */
static rg_status join(const rg_call *call, const joined &j, int32_t n, int64_t most, int32_t dtype)
{
  const int64_t size = rg_bytes_of(dtype);
  rg_launch_cfg cfg = rg_filling(most, 16 / size, call);
  bool mixed = false;

  if (most == 0) {
    return RG_OK;
  }
  for (int32_t i = 0; i < n; i++) {
    mixed = mixed || j.dtype[i] != dtype;
  }
  cfg.grid.y = (unsigned)n;
  if (!mixed) {
    return rg_gpu_status(call->op->name, size == 1   ? rg_launch(k_concat<uint8_t>, cfg, j)
                                         : size == 2 ? rg_launch(k_concat<uint16_t>, cfg, j)
                                         : size == 4 ? rg_launch(k_concat<uint32_t>, cfg, j)
                                                     : rg_launch(k_concat<uint64_t>, cfg, j));
  }
  cfg = rg_over(most, rg_gpu_stream(call->device));
  cfg.grid.y = (unsigned)n;
  return rg_dispatch<RG_KINDS_ALL>(call, dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return rg_launch(k_concat_mixed<T>, cfg, j, dtype);
  });
}

/* The part of y that x goes to, which begins at `begin` along the axis. */
static rg_strided window(const rg_tensor *y, const rg_tensor *x, int32_t axis, int64_t begin)
{
  rg_tensor part = *y;
  int64_t outer = 1;
  rg_strided v;

  for (int32_t i = 0; i < axis; i++) {
    outer *= y->_shape[i];
  }
  part._shape[axis] = x->_shape[axis];
  part._count = x->_count;
  if (outer != 1) {
    part._flags &= ~(uint32_t)RG_TENSOR_CONTIGUOUS; /* gaps, unless nothing lies outside the axis */
  }
  v = rg_view_of(&part);
  v.data = (char *)y->_data + begin * y->_stride[axis] * rg_bytes_of(y->_dtype);
  return v;
}

rg_status rg_gpu_concat(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const int32_t axis = ((const rg_concat_args *)call->args)->axis;
  const rg_tensor *y = out[0];
  const int64_t pack = 16 / rg_bytes_of(y->_dtype);
  int64_t begin = 0;

  (void)frame;
  for (int32_t i = 0; i < call->n_in;) {
    joined j = {};
    int64_t most = 0;
    int32_t n = 0;

    for (; n < JOINED && i < call->n_in; i++) {
      const rg_tensor *x = call->in[i];

      j.from[n] = rg_view_of(x);
      j.to[n] = window(y, x, axis, begin);
      j.count[n] = x->_count;
      j.dtype[n] = x->_dtype;
      j.wide[n] = rg_packs(j.from[n], y->_dtype, pack) && rg_packs(j.to[n], y->_dtype, pack);
      most = x->_count > most ? x->_count : most;
      begin += x->_shape[axis];
      n++;
    }
    RG_TRY(join(call, j, n, most, y->_dtype));
  }
  return RG_OK;
}

/* -- Derivatives of activations ---------------------------------------------------------------- */

template <class T>
__global__ void
k_act_back(const __grid_constant__ rg_strided dx, const __grid_constant__ rg_strided dy,
           const __grid_constant__ rg_strided x, int32_t act, int64_t n, int32_t wide)
{
  for (rg_some<rg_pack_size<T>> at(n, wide != 0); at.more(); at.next()) {
    typename rg_lane<T>::type v[rg_pack_size<T>];
    typename rg_lane<T>::type d[rg_pack_size<T>];

    rg_read<T>(x, at, v);
    rg_read<T>(dy, at, d);
#pragma unroll
    for (int k = 0; k < rg_pack_size<T>; k++) {
      d[k] *= rg_slope(act, v[k]);
    }
    rg_write<T>(dx, at, d);
  }
}

rg_status rg_gpu_act_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const int32_t act = ((const rg_act_args *)call->args)->act;
  const rg_tensor *y = out[0];
  const int64_t n = 16 / rg_bytes_of(y->_dtype);

  if (y->_count == 0) {
    return RG_OK;
  }
  rg_strided dx = rg_view_of(y);
  rg_strided dy = rg_view_of(call->in[0]);
  rg_strided x = rg_view_of(call->in[1]);
  int32_t wide =
      rg_packs(dx, y->_dtype, n) && rg_packs(dy, y->_dtype, n) && rg_packs(x, y->_dtype, n);
  rg_launch_cfg cfg = rg_filling(y->_count, n, call);

  frame->path = rg_path_of(wide);

  return rg_dispatch<RG_KINDS_FLOAT>(call, y->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return rg_launch(k_act_back<T>, cfg, dx, dy, x, act, y->_count, wide);
  });
}
