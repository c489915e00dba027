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

/* start + i step, in double; a fill is a progression that stands still. */
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

static rg_status arange(const rg_call *call, rg_tensor *y, double start, double step)
{
  const int64_t n = 16 / rg_bytes_of(y->_dtype);

  if (y->_count == 0) {
    return RG_OK;
  }
  rg_strided to = rg_view_of(y);
  int32_t wide = rg_packs(to, y->_dtype, n);
  rg_launch_cfg cfg = rg_filling(y->_count, n, call);

  switch (y->_dtype) {
#define CASE(code, T)                    \
  case code:                             \
    return rg_gpu_status(call->op->name, \
                         rg_launch(k_arange<T>, cfg, to, start, step, y->_count, wide));
    RG_STORED(CASE)
#undef CASE
  default:
    return rg_gpu->fail(RG_EDTYPE, "%s: no kernel for type %d", call->op->name, y->_dtype);
  }
}

rg_status rg_gpu_fill(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  return arange(call, out[0], ((const rg_fill_args *)call->args)->value, 0);
}

rg_status rg_gpu_arange(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_arange_args *args = (const rg_arange_args *)call->args;

  (void)frame;
  return arange(call, out[0], args->start, args->step);
}

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

static rg_status copy_bits(const rg_call *call, const rg_tensor *y, const rg_strided &to,
                           const rg_strided &from)
{
  const int64_t size = rg_bytes_of(y->_dtype);
  const int32_t wide = rg_packs(to, y->_dtype, 16 / size) && rg_packs(from, y->_dtype, 16 / size);
  const rg_launch_cfg cfg = rg_filling(y->_count, 16 / size, call);
  cudaError_t error;

  switch (size) {
  case 1:
    error = rg_launch(k_copy<uint8_t>, cfg, to, from, y->_count, wide);
    break;
  case 2:
    error = rg_launch(k_copy<uint16_t>, cfg, to, from, y->_count, wide);
    break;
  case 4:
    error = rg_launch(k_copy<uint32_t>, cfg, to, from, y->_count, wide);
    break;
  default:
    error = rg_launch(k_copy<uint64_t>, cfg, to, from, y->_count, wide);
    break;
  }
  return rg_gpu_status(call->op->name, error);
}

template <class T>
static cudaError_t convert(const rg_call *call, const rg_tensor *y, const rg_strided &to,
                           const rg_strided &from, int32_t type)
{
  const rg_launch_cfg cfg = rg_over(y->_count, rg_gpu_stream(call->device));

  if constexpr (!std::is_integral<typename rg_lane<T>::type>::value) {
    const int64_t most =
        rg_bytes_of(type) > (int64_t)sizeof(T) ? rg_bytes_of(type) : (int64_t)sizeof(T);
    const int64_t n = 16 / most;
    const int32_t wide = rg_packs(to, rg_code_of<T>, n) && rg_packs(from, type, n);

    switch (type) {
#define CASE(code, F) \
  case code:          \
    return rg_launch(k_cast<T, F>, rg_filling(y->_count, n, call), to, from, y->_count, wide);
      RG_FLOATS(CASE)
      RG_EIGHTS(CASE)
#undef CASE
    default:
      break;
    }
  }
  return rg_launch(k_convert<T>, cfg, to, from, type, y->_count);
}

rg_status rg_gpu_copy(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *x = call->in[0];
  rg_tensor *y = out[0];

  (void)frame;
  if (y->_count == 0) {
    return RG_OK;
  }
  rg_strided to = rg_view_of(y);
  rg_strided from = rg_view_as(x, y->_shape, y->_ndim);

  if (x->_dtype == y->_dtype) {
    return copy_bits(call, y, to, from);
  }
  switch (y->_dtype) {
#define CASE(code, T) \
  case code:          \
    return rg_gpu_status(call->op->name, convert<T>(call, y, to, from, x->_dtype));
    RG_STORED(CASE)
#undef CASE
  default:
    return rg_gpu->fail(RG_EDTYPE, "%s: no kernel for type %d", call->op->name, y->_dtype);
  }
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
  switch (y->_dtype) {
#define CASE(code, T)                                                                             \
  case code:                                                                                      \
    return rg_gpu_status(call->op->name,                                                          \
                         rg_launch(k_expand<T>, cfg, rg_view_of(y), (const uint8_t *)bits->_data, \
                                   bits->_stride[0], bits->_stride[1], args->cols, args->sign,    \
                                   y->_count));
    RG_FLOATS(CASE)
#undef CASE
  default:
    return rg_gpu->fail(RG_EDTYPE, "%s: no kernel for type %d", call->op->name, y->_dtype);
  }
}
