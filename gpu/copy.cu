/* SPDX-License-Identifier: MIT */
/*
** Filling, copying and converting.
*/
#include <type_traits>

#include "gpu/kernels.cuh"
#include "gpu/pack.cuh"

extern "C" {
#include "op/fill.h"
#include "op/signs.h"
}

/* -- Numbers ---------------------------------------------------------------------------------- */

/* One number everywhere; a thread converts it once for 16 bytes. */
template <class T>
__global__ void k_fill(const __grid_constant__ rg_strided y, double value, int64_t n, int32_t wide)
{
  const auto one = rg_get(rg_converted<T>::of(rg_number{ value, 0, false }));

  for (rg_some<rg_pack_size<T>> at(n, wide != 0); at.more(); at.next()) {
    typename rg_lane<T>::type v[rg_pack_size<T>];

#pragma unroll
    for (int k = 0; k < rg_pack_size<T>; k++) {
      v[k] = one;
    }
    rg_write<T>(y, at, v);
  }
}

/* start + i step, in double. */
template <class T>
__global__ void k_arange(const __grid_constant__ rg_strided y, double start, double step, int64_t n,
                         int32_t wide)
{
  for (rg_some<rg_pack_size<T>> at(n, wide != 0); at.more(); at.next()) {
    typename rg_lane<T>::type v[rg_pack_size<T>];

#pragma unroll
    for (int k = 0; k < rg_pack_size<T>; k++) {
      v[k] = rg_get(rg_converted<T>::of(rg_number{ start + (double)at.at(k) * step, 0, false }));
    }
    rg_write<T>(y, at, v);
  }
}

/* step 0: a fill */
static rg_status progression(const rg_call *call, rg_tensor *y, double start, double step)
{
  const int64_t n = 16 / rg_bytes_of(y->_dtype);

  if (y->_count == 0) {
    return RG_OK;
  }
  rg_strided to = rg_view_of(y);
  int32_t wide = rg_packs(to, y->_dtype, n);
  rg_launch_cfg cfg = rg_filling(y->_count, n, call);

  return rg_dispatch<RG_KINDS_ALL>(call, y->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return step == 0 ? rg_launch(k_fill<T>, cfg, to, start, y->_count, wide)
                     : rg_launch(k_arange<T>, cfg, to, start, step, y->_count, wide);
  });
}

rg_status rg_gpu_fill(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  return progression(call, out[0], ((const rg_fill_args *)call->args)->value, 0);
}

rg_status rg_gpu_arange(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_arange_args *args = (const rg_arange_args *)call->args;

  (void)frame;
  return progression(call, out[0], args->start, args->step);
}

enum { TURNS = 16 }; /* elements along an axis that are worth a tile */

/* -- Copies ----------------------------------------------------------------------------------- */

/* Any type to any. */
template <class T>
__global__ void k_convert(const __grid_constant__ rg_strided y,
                          const __grid_constant__ rg_strided x, int32_t from, int64_t n)
{
  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    ((T *)y.data)[rg_at(y, i)] =
        rg_converted<T>::of(rg_stored_number_of(x.data, from, rg_at(x, i)));
  }
}

/* A float that was loaded, as an element of T's lane; f64 is rounded once. */
template <class T, class L> __device__ inline typename rg_lane<T>::type as_lane(L x)
{
  return sizeof(L) == 8 && sizeof(T) <= 2 ? rg_get(rg_converted<T>::of(rg_number{ x, 0, false }))
                                          : (typename rg_lane<T>::type)x;
}

/* Between floats: 16 bytes of the wider type at a time. */
template <class T, class F>
__global__ void k_cast(const __grid_constant__ rg_strided y, const __grid_constant__ rg_strided x,
                       int64_t n, int32_t wide)
{
  constexpr int N = rg_pack_size<F> < rg_pack_size<T> ? rg_pack_size<F> : rg_pack_size<T>;

  for (rg_some<N> at(n, wide != 0); at.more(); at.next()) {
    typename rg_lane<F>::type from[N];
    typename rg_lane<T>::type to[N];

    rg_read<F>(x, at, from);
#pragma unroll
    for (int k = 0; k < N; k++) {
      to[k] = as_lane<T>(from[k]);
    }
    rg_write<T>(y, at, to);
  }
}

/* Without gaps on both sides it is bytes that move, and a thread does so little that its load is
** under way at once: with the views of k_copy to look at first, an H200 took 8% longer.  The thread
** behind the last 16 bytes moves what is left. */
__global__ void k_move(char *y, const char *x, int64_t bytes)
{
  const int64_t i = RG_FIRST;

  if (i < bytes / 16) {
    ((uint4 *)y)[i] = ((const uint4 *)x)[i];
  } else if (i == bytes / 16) {
    for (int64_t b = i * 16; b < bytes; b++) {
      y[b] = x[b];
    }
  }
}

/* Of one type, by its size: bits stay as they are. */
template <class T>
__global__ void k_copy(const __grid_constant__ rg_strided y, const __grid_constant__ rg_strided x,
                       int64_t n, int32_t wide)
{
  for (rg_some<rg_pack_size<T>> at(n, wide != 0); at.more(); at.next()) {
    T v[rg_pack_size<T>];

    rg_read<T>(x, at, v);
    rg_write<T>(y, at, v);
  }
}

/* Side of a tile: two bytes are as many sectors in a row of 64 as four are in one of 32. */
template <class T> constexpr int tile_side = sizeof(T) <= 2 ? 64 : 32;

/* A copy that turns memory around: x runs along one axis and y along another. */
struct transposition {
  rg_strided x, y;      /* the axes that are neither */
  int64_t rows, x_step; /* along y's memory, and how far that is in x */
  int64_t cols, y_step; /* along x's memory, and how far that is in y */
  int64_t tiles;        /* of all */
};

/* Tiles go through shared memory, so that both sides are read and written along memory; a column
** more in it, so that the elements of a column lie in different banks. */
template <class T> __global__ void k_transpose(const __grid_constant__ transposition w)
{
  constexpr int SIDE = tile_side<T>;
  RG_SHARED(T, tile, SIDE * (SIDE + 1));
  const int32_t column = (int32_t)threadIdx.x % SIDE;
  const int32_t line = (int32_t)threadIdx.x / SIDE;
  constexpr int LINES = RG_BLOCK / SIDE; /* at a time */
  const int64_t across = (w.cols + SIDE - 1) / SIDE;
  const int64_t down = (w.rows + SIDE - 1) / SIDE;

  for (int64_t t = blockIdx.x; t < w.tiles; t += gridDim.x) {
    const int64_t outer = t / (across * down);
    const int64_t row = t / across % down * SIDE;
    const int64_t col = t % across * SIDE;
    const T *x = (const T *)w.x.data + rg_at(w.x, outer);
    T *y = (T *)w.y.data + rg_at(w.y, outer);

#pragma unroll
    for (int i = 0; i < SIDE; i += LINES) {
      if (row + line + i < w.rows && col + column < w.cols) {
        tile[(line + i) * (SIDE + 1) + column] = x[(row + line + i) * w.x_step + col + column];
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < SIDE; i += LINES) {
      if (col + line + i < w.cols && row + column < w.rows) {
        y[(col + line + i) * w.y_step + row + column] = tile[column * (SIDE + 1) + line + i];
      }
    }
    __syncthreads();
  }
}

/* The axis along which a view is contiguous; -1: there is none.  An axis of one element is
** none, and nor is a short one. */
static int32_t side_axis(const rg_strided &v)
{
  int32_t axis = -1;

  for (int32_t i = 0; i < v.ndim; i++) {
    axis = v.stride[i] == 1 && v.shape[i] >= TURNS ? i : axis;
  }
  return axis;
}

/* Axes that both views cross without a gap become one, so that tiles are full. */
static void join_axes(rg_strided *x, rg_strided *y)
{
  int32_t n = 0;

  for (int32_t i = 0; i < x->ndim; i++) {
    const int64_t size = x->shape[i];

    if (size == 1) {
      continue;
    }
    if (n > 0 && x->stride[n - 1] == size * x->stride[i] &&
        y->stride[n - 1] == size * y->stride[i]) {
      x->shape[n - 1] = y->shape[n - 1] = size * x->shape[n - 1];
      n--;
    } else {
      x->shape[n] = y->shape[n] = size;
    }
    x->stride[n] = x->stride[i];
    y->stride[n] = y->stride[i];
    n++;
  }
  x->ndim = y->ndim = n;
}

/* Without axes a and b. */
static rg_strided others(const rg_strided &v, int32_t a, int32_t b)
{
  rg_strided w = {};

  w.data = v.data;
  for (int32_t i = 0; i < v.ndim; i++) {
    if (i != a && i != b) {
      w.shape[w.ndim] = v.shape[i];
      w.stride[w.ndim++] = v.stride[i];
    }
  }
  if (w.ndim == 0) {
    w.shape[w.ndim++] = 1;
  }
  return w;
}

/* Is a copy one that turns memory around? */
static bool is_transposition(rg_strided x, rg_strided y, int64_t count, transposition *w)
{
  join_axes(&x, &y);
  const int32_t a = side_axis(x);
  const int32_t b = side_axis(y);

  if (a < 0 || b < 0 || a == b || x.stride[b] == 0) {
    return false;
  }
  *w = transposition{};
  w->x = others(x, a, b);
  w->y = others(y, a, b);
  w->rows = x.shape[b];
  w->x_step = x.stride[b];
  w->cols = x.shape[a];
  w->y_step = y.stride[a];
  w->tiles = count / (w->rows * w->cols); /* times those of one matrix, which a size decides */
  return true;
}

template <class T> static cudaError_t transpose(const rg_call *call, transposition w)
{
  constexpr int64_t SIDE = tile_side<T>;
  const int64_t most = 64 * (int64_t)rg_gpu_units(call->device);

  w.tiles *= (w.rows + SIDE - 1) / SIDE * ((w.cols + SIDE - 1) / SIDE);
  const rg_launch_cfg cfg = { dim3((unsigned)rg_clamped(w.tiles, 1, most)), dim3(RG_BLOCK), 0,
                              rg_gpu_stream(call->device) };

  return rg_launch(k_transpose<T>, cfg, w);
}

template <class T>
static cudaError_t copy_of(const rg_call *call, const rg_tensor *y, const rg_strided &to,
                           const rg_strided &from, rg_frame *frame)
{
  constexpr int64_t N = rg_pack_size<T>;
  const int32_t wide = rg_packs(to, y->_dtype, N) && rg_packs(from, y->_dtype, N);
  transposition w;

  frame->path = rg_path_of(wide);
  if (to.flat == 1 && from.flat == 1 && rg_aligned(to.data, 16, 1) &&
      rg_aligned(from.data, 16, 1)) {
    const int64_t bytes = y->_count * (int64_t)sizeof(T);

    return rg_launch(k_move, rg_filling(bytes / 16 + 1, 1, call), to.data, (const char *)from.data,
                     bytes);
  }
  if (wide == 0 && is_transposition(from, to, y->_count, &w)) {
    frame->path = "transpose";
    return transpose<T>(call, w);
  }
  return rg_launch(k_copy<T>, rg_filling(y->_count, N, call), to, from, y->_count, wide);
}

static rg_status copy_bits(const rg_call *call, const rg_tensor *y, const rg_strided &to,
                           const rg_strided &from, rg_frame *frame)
{
  cudaError_t error;

  switch (rg_bytes_of(y->_dtype)) {
  case 1:
    error = copy_of<uint8_t>(call, y, to, from, frame);
    break;
  case 2:
    error = copy_of<uint16_t>(call, y, to, from, frame);
    break;
  case 4:
    error = copy_of<uint32_t>(call, y, to, from, frame);
    break;
  default:
    error = copy_of<uint64_t>(call, y, to, from, frame);
    break;
  }
  return rg_gpu_status(call->op->name, error);
}

/* Floats of all kinds. */
enum { FRACTIONS = RG_KINDS_FLOAT | RG_KIND_STORED };

template <class T>
static cudaError_t convert(const rg_call *call, const rg_tensor *y, const rg_strided &to,
                           const rg_strided &from, int32_t type, rg_frame *frame)
{
  const rg_launch_cfg cfg = rg_over(y->_count, rg_gpu_stream(call->device));

  if constexpr (!std::is_integral<typename rg_lane<T>::type>::value) {
    const int64_t most =
        rg_bytes_of(type) > (int64_t)sizeof(T) ? rg_bytes_of(type) : (int64_t)sizeof(T);
    const int64_t n = 16 / most;
    const int32_t wide = rg_packs(to, rg_code_of<T>, n) && rg_packs(from, type, n);

    frame->path = rg_path_of(wide);

    if (rg_dtype_of_kind(type, FRACTIONS)) {
      return rg_with_type<FRACTIONS>(type, [&](auto f) {
        return rg_launch(k_cast<T, rg_t<decltype(f)>>, rg_filling(y->_count, n, call), to, from,
                         y->_count, wide);
      });
    }
  }
  return rg_launch(k_convert<T>, cfg, to, from, type, y->_count);
}

rg_status rg_gpu_copy(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *x = call->in[0];
  rg_tensor *y = out[0];

  if (y->_count == 0) {
    return RG_OK;
  }
  rg_strided to = rg_view_of(y);
  rg_strided from = rg_view_as(x, y->_shape, y->_ndim);

  if (x->_dtype == y->_dtype) {
    return copy_bits(call, y, to, from, frame);
  }
  return rg_dispatch<RG_KINDS_ALL>(call, y->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return convert<T>(call, y, to, from, x->_dtype, frame);
  });
}

rg_status rg_gpu_cast(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return rg_gpu_copy(call, out, frame);
}

/* -- Signs ------------------------------------------------------------------------------------- */

/* The bits of a row begin at a byte. */
template <class T>
__global__ void k_expand(rg_strided y, const uint8_t *bits, int64_t row, int64_t col, int64_t cols,
                         double sign, int64_t n)
{
  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    int64_t j = i % cols;
    bool up = (bits[i / cols * row + (j >> 3) * col] >> (j & 7) & 1) != 0;

    ((T *)y.data)[rg_at(y, i)] = rg_converted<T>::of(rg_number{ up ? sign : -sign, 0, false });
  }
}

rg_status rg_gpu_expand_signs(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_expand_args *args = (const rg_expand_args *)call->args;
  const rg_tensor *bits = call->in[0];
  rg_tensor *y = out[0];
  rg_launch_cfg cfg = rg_over(y->_count, rg_gpu_stream(call->device));

  (void)frame;
  if (y->_count == 0) {
    return RG_OK;
  }
  return rg_dispatch<RG_KINDS_FLOAT>(call, y->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return rg_launch(k_expand<T>, cfg, rg_view_of(y), (const uint8_t *)bits->_data,
                     bits->_stride[0], bits->_stride[1], args->cols, args->sign, y->_count);
  });
}
