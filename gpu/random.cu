/* SPDX-License-Identifier: MIT */
/*
** Random fills and dropout: the CPU's own numbers (op/draw.h), which do not depend on who draws
** them.  Threads make and store neighbours together, 16 bytes of them where they are contiguous.
*/
#include "gpu/kernels.cuh"
#include "gpu/pack.cuh"
#include "gpu/sketch.cuh"

extern "C" {
#include "op/draw.h"
#include "op/dropout.h"
#include "op/random.h"
#include "op/signs.h"
}

/* The numbers of a stream by their places; the four of a block serve neighbours. */
struct numbers {
  uint64_t seed;
  uint64_t block = ~(uint64_t)0;
  uint32_t four[4] = {};

  __device__ inline explicit numbers(uint64_t seed_) : seed(seed_)
  {
  }
  __device__ inline uint32_t at(uint64_t which)
  {
    if (which / 4 != block) {
      block = which / 4;
      rg_draw_block(seed, (uint32_t)block, (uint32_t)(block >> 32), 0, four);
    }
    return which % 4 == 0 ? four[0] : which % 4 == 1 ? four[1] : which % 4 == 2 ? four[2] : four[3];
  }
};

/* What is the same in all fills: where to, whether in packs, and blocks for it. */
struct filling {
  rg_strided y;
  int32_t wide;
  rg_launch_cfg cfg;
};

static filling filling_of(const rg_call *call, const rg_tensor *y)
{
  const int64_t n = 16 / rg_bytes_of(y->_dtype);
  rg_strided to = rg_view_of(y);

  return filling{ to, rg_packs(to, y->_dtype, n), rg_filling(y->_count, n, call) };
}

/* -- Uniform --------------------------------------------------------------------------------- */

/* What rounding to a half type must not reach is checked behind the rounding. */
template <class T> __device__ inline bool reaches(T y, double hi)
{
  return (double)rg_get(y) >= hi;
}

/* The number of type T below y, whose bits are ordered as the numbers of one sign are. */
template <class T> __device__ inline T below(T y)
{
  typedef typename std::conditional<
      sizeof(T) == 8, uint64_t,
      typename std::conditional<sizeof(T) == 4, uint32_t, uint16_t>::type>::type U;
  U bits;

  memcpy(&bits, &y, sizeof(bits));
  float v = (float)rg_get(y);
  bits = (U)(v > 0 ? bits - 1 : v < 0 ? bits + 1 : ((U)1 << (8 * sizeof(U) - 1)) + 1);
  memcpy((void *)&y, &bits, sizeof(bits));
  return y;
}

/* Element i. */
template <class T>
__device__ inline T uniform_at(numbers &x, uint64_t offset, int64_t i, double lo, double hi)
{
  T v;

  if (sizeof(T) == 8) {
    uint64_t at = offset + 2 * (uint64_t)i;
    uint32_t high = x.at(at);

    v = (T)(lo + (hi - lo) * rg_draw_uniform_f64(high, x.at(at + 1)));
  } else {
    float u = rg_draw_uniform_f32(x.at(offset + (uint64_t)i));
    float single = (float)lo + (float)(hi - lo) * u;

    v = rg_element<T>::of((typename rg_lane<T>::type)single);
  }
  if (lo < hi && reaches(v, hi)) {
    v = rg_converted<T>::of(rg_number{ hi, 0, false });
    v = reaches(v, hi) ? below(v) : v;
  }
  return v;
}

template <class T>
__global__ void k_uniform(const __grid_constant__ rg_strided y, double lo, double hi,
                          rg_drawn drawn, int64_t n, int32_t wide)
{
  rg_draw draw = rg_draw_now(drawn);

  for (rg_some<rg_pack_size<T>> at(n, wide != 0); at.more(); at.next()) {
    typename rg_lane<T>::type v[rg_pack_size<T>];
    numbers x(draw.seed);

#pragma unroll
    for (int k = 0; k < rg_pack_size<T>; k++) {
      v[k] = rg_get(uniform_at<T>(x, draw.offset, at.at(k), lo, hi));
    }
    rg_write<T>(y, at, v);
  }
}

rg_status rg_gpu_uniform(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_uniform_args *a = (const rg_uniform_args *)call->args;
  rg_tensor *y = out[0];

  (void)frame;
  if (y->_count == 0) {
    return RG_OK;
  }
  const filling to = filling_of(call, y);
  return rg_dispatch<RG_KINDS_FLOAT>(call, y->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return rg_launch(k_uniform<T>, to.cfg, to.y, a->lo, a->hi, rg_drawn_by(call), y->_count,
                     to.wide);
  });
}

/* -- Normal ---------------------------------------------------------------------------------- */

/* Pair k; an odd end draws its partner too. */
template <class T>
__device__ inline void normal_pair(numbers &x, uint64_t offset, int64_t k, double mean, double std,
                                   typename rg_lane<T>::type v[2])
{
  if constexpr (sizeof(T) == 8) {
    uint64_t at = offset + 4 * (uint64_t)k;
    uint64_t bits[2];

    for (int j = 0; j < 2; j++) {
      uint32_t high = x.at(at + 2 * (uint64_t)j);

      bits[j] = (uint64_t)high << 32 | x.at(at + 2 * (uint64_t)j + 1);
    }
    rg_draw_normal_f64(bits[0], bits[1], v);
    v[0] = mean + std * v[0];
    v[1] = mean + std * v[1];
  } else {
    uint64_t at = offset + 2 * (uint64_t)k;
    uint32_t radius = x.at(at);

    rg_draw_normal_f32(radius, x.at(at + 1), v);
    v[0] = (float)mean + (float)std * v[0];
    v[1] = (float)mean + (float)std * v[1];
  }
}

/* In packs of whole pairs where they are contiguous, and the rest in pairs. */
template <class T>
__global__ void __launch_bounds__(RG_BLOCK, 4)
    k_normal(const __grid_constant__ rg_strided y, double mean, double std, rg_drawn drawn,
             int64_t n, int32_t wide)
{
  constexpr int N = rg_pack_size<T>;
  const int64_t packed = wide != 0 ? n / N * N : 0;
  rg_draw draw = rg_draw_now(drawn);

  for (int64_t i = RG_FIRST * N; i < packed; i += RG_NEXT * N) {
    typename rg_lane<T>::type v[N];
    numbers x(draw.seed);

#pragma unroll
    for (int k = 0; k < N; k += 2) {
      normal_pair<T>(x, draw.offset, (i + k) / 2, mean, std, v + k);
    }
    rg_pack_into<T, N>(y.data, rg_at(y, i), v);
  }
  for (int64_t k = packed / 2 + RG_FIRST; 2 * k < n; k += RG_NEXT) {
    typename rg_lane<T>::type v[2];
    numbers x(draw.seed);

    normal_pair<T>(x, draw.offset, k, mean, std, v);
    ((T *)y.data)[rg_at(y, 2 * k)] = rg_element<T>::of(v[0]);
    if (2 * k + 1 < n) {
      ((T *)y.data)[rg_at(y, 2 * k + 1)] = rg_element<T>::of(v[1]);
    }
  }
}

rg_status rg_gpu_normal(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_normal_args *a = (const rg_normal_args *)call->args;
  rg_tensor *y = out[0];

  (void)frame;
  if (y->_count == 0) {
    return RG_OK;
  }
  const filling to = filling_of(call, y);

  return rg_dispatch<RG_KINDS_FLOAT>(call, y->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return rg_launch(k_normal<T>, to.cfg, to.y, a->mean, a->std, rg_drawn_by(call), y->_count,
                     to.wide);
  });
}

/* -- Signs and whole numbers ------------------------------------------------------------------ */

/* A bit each, set for +scale. */
template <class T>
__global__ void k_signs(const __grid_constant__ rg_strided y, double scale, rg_drawn drawn,
                        int64_t n, int32_t wide)
{
  const typename rg_lane<T>::type s = (typename rg_lane<T>::type)scale;
  rg_draw draw = rg_draw_now(drawn);

  for (rg_some<rg_pack_size<T>> at(n, wide != 0); at.more(); at.next()) {
    typename rg_lane<T>::type v[rg_pack_size<T>];
    numbers x(draw.seed);

#pragma unroll
    for (int k = 0; k < rg_pack_size<T>; k++) {
      int64_t i = at.at(k);

      v[k] = rg_draw_sign(x.at(draw.offset + (uint64_t)i / 32), i) ? s : -s;
    }
    rg_write<T>(y, at, v);
  }
}

rg_status rg_gpu_signs(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_signs_args *a = (const rg_signs_args *)call->args;
  rg_tensor *y = out[0];

  (void)frame;
  if (y->_count == 0) {
    return RG_OK;
  }
  const filling to = filling_of(call, y);

  return rg_dispatch<RG_KINDS_FLOAT>(call, y->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return rg_launch(k_signs<T>, to.cfg, to.y, a->scale, rg_drawn_by(call), y->_count, to.wide);
  });
}

/* Signs as bits from a seed: a thread makes a block of 128, or what a row still has. */
__global__ void k_sign_bits(uint8_t *to, const int64_t *seed, uint32_t matrix, int64_t cols,
                            int64_t blocks, int64_t n)
{
  int64_t row_bytes = (cols + 7) / 8;

  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    int64_t row = i / blocks, block = i % blocks;
    int64_t left = cols - block * RG_SIGNS_A_BLOCK;
    uint8_t *at = to + row * row_bytes + block * (RG_SIGNS_A_BLOCK / 8);
    uint32_t x[4];

    rg_draw_signs((uint64_t)*seed, matrix, (uint32_t)row, (uint32_t)block, x);
#pragma unroll
    for (int k = 0; k < RG_SIGNS_A_BLOCK / 8; k++) {
      uint32_t byte = x[k / 4] >> (8 * (k % 4));
      int64_t more = left - 8 * k;

      if (more > 0) {
        at[k] = (uint8_t)(more < 8 ? byte & ((1u << more) - 1) : byte);
      }
    }
  }
}

rg_status rg_gpu_make_sign_bits(const rg_call *call, const rg_tensor *seed, int32_t matrix,
                                int64_t rows, int64_t cols, void *to)
{
  int64_t blocks = (cols + RG_SIGNS_A_BLOCK - 1) / RG_SIGNS_A_BLOCK;
  int64_t n = rows * blocks;

  if (n == 0) {
    return RG_OK;
  }
  return rg_gpu_status(
      call->op->name, rg_launch(k_sign_bits, rg_over(n, rg_gpu_stream(call->device)), (uint8_t *)to,
                                (const int64_t *)seed->_data, (uint32_t)matrix, cols, blocks, n));
}

rg_status rg_gpu_sign_bits(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_sign_args *args = (const rg_sign_args *)call->args;

  (void)frame;
  return rg_gpu_make_sign_bits(call, call->in[0], args->matrix, args->rows, args->cols,
                               out[0]->_data);
}

template <class T>
__global__ void k_randint(const __grid_constant__ rg_strided y, int64_t lo, uint64_t range,
                          rg_drawn drawn, int64_t n, int32_t wide)
{
  constexpr int N = rg_pack_size<T> < 8 ? rg_pack_size<T> : 8; /* two numbers for each */
  rg_draw draw = rg_draw_now(drawn);

  for (rg_some<N> at(n, wide != 0); at.more(); at.next()) {
    typename rg_lane<T>::type v[N];
    numbers x(draw.seed);

#pragma unroll
    for (int k = 0; k < N; k++) {
      const uint64_t which = draw.offset + 2 * (uint64_t)at.at(k);
      const uint32_t high = x.at(which);
      const int64_t one = rg_draw_integer(high, x.at(which + 1), lo, range);

      v[k] = rg_get(rg_converted<T>::of(rg_number{ 0, one, true }));
    }
    rg_write<T>(y, at, v);
  }
}

rg_status rg_gpu_randint(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_randint_args *a = (const rg_randint_args *)call->args;
  rg_tensor *y = out[0];
  uint64_t range = (uint64_t)a->hi - (uint64_t)a->lo;

  (void)frame;
  if (y->_count == 0) {
    return RG_OK;
  }
  const filling to = filling_of(call, y);

  return rg_dispatch<RG_KINDS_COMPUTED>(call, y->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return rg_launch(k_randint<T>, to.cfg, to.y, a->lo, range, rg_drawn_by(call), y->_count,
                     to.wide);
  });
}

/* -- Dropout ---------------------------------------------------------------------------------- */

/* Element i is kept as its number says, and then scaled.  keep: where the first thread writes the
** draw to. */
template <class T>
__global__ void k_dropout(const __grid_constant__ rg_strided y,
                          const __grid_constant__ rg_strided x, double p, rg_drawn drawn,
                          rg_draw *keep, int64_t n, int32_t wide)
{
  typedef typename rg_lane<T>::type lane;
  rg_draw draw = rg_draw_now(drawn);
  lane scale = (lane)(1.0 / (1.0 - p));

  if (keep != NULL && RG_FIRST == 0) {
    *keep = draw;
  }
  for (rg_some<rg_pack_size<T>> at(n, wide != 0); at.more(); at.next()) {
    lane v[rg_pack_size<T>];
    numbers drawn_here(draw.seed);

    rg_read<T>(x, at, v);
#pragma unroll
    for (int k = 0; k < rg_pack_size<T>; k++) {
      const uint32_t number = drawn_here.at(draw.offset + (uint64_t)at.at(k));

      v[k] = rg_draw_keeps(number, p) ? v[k] * scale : (lane)0;
    }
    rg_write<T>(y, at, v);
  }
}

static rg_status dropout(const rg_call *call, rg_tensor *y, const rg_drawn &drawn, rg_draw *keep,
                         rg_frame *frame)
{
  const rg_tensor *x = call->in[0];
  const double p = ((const rg_dropout_args *)call->args)->p;
  const int64_t n = 16 / rg_bytes_of(y->_dtype);
  rg_strided to = rg_view_of(y);
  rg_strided from = rg_view_as(x, y->_shape, y->_ndim);
  int32_t wide = rg_packs(to, y->_dtype, n) && rg_packs(from, y->_dtype, n);
  rg_launch_cfg cfg = rg_filling(y->_count, n, call);

  frame->path = rg_path_of(wide);
  return rg_dispatch<RG_KINDS_FLOAT>(call, y->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return rg_launch(k_dropout<T>, cfg, to, from, p, drawn, keep, y->_count, wide);
  });
}

rg_status rg_gpu_dropout(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return dropout(call, out[0], rg_drawn_by(call), call->n_out > 1 ? (rg_draw *)out[1]->_data : NULL,
                 frame);
}

rg_status rg_gpu_dropout_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return dropout(call, out[0], rg_drawn{ {}, (const rg_draw *)call->in[1]->_data }, NULL, frame);
}
