/* SPDX-License-Identifier: MIT */
/*
** Cumulative sums along one axis, added up in f64 (floats) or i64 (integers) and rounded once for
** each result.  A warp takes a row, 32 elements at a time, each time with a scan over its lanes;
** where the axis is not the innermost, a thread takes a column, so that a warp reads side by side.
*/
#include "gpu/kernels.cuh"
#include "gpu/team.cuh"

extern "C" {
#include "op/cumsum.h"
}

enum { WARP = 32 };

template <class T> struct running {
  typedef typename std::conditional<std::is_floating_point<typename rg_lane<T>::type>::value,
                                    double, int64_t>::type type;
};

template <class A> __device__ inline void put(const rg_strided &y, int32_t dtype, int64_t at, A v)
{
  if constexpr (std::is_floating_point<A>::value) {
    rg_store(y.data, dtype, at, v);
  } else {
    ((int64_t *)y.data)[at] = v;
  }
}

template <class T>
__global__ void k_along(const __grid_constant__ rg_strided y, int32_t y_type,
                        const __grid_constant__ rg_strided x, int64_t rows, int64_t n, bool reverse)
{
  typedef typename running<T>::type A;
  const int64_t x_step = rg_step(x);
  const int64_t y_step = rg_step(y);
  const int32_t lane = (int32_t)threadIdx.x % WARP;

  for (int64_t row = RG_FIRST / WARP; row < rows; row += RG_NEXT / WARP) {
    const T *from = (const T *)x.data + rg_at(x, row * n);
    const int64_t to = rg_at(y, row * n);
    A carried = 0;

    for (int64_t first = 0; first < n; first += WARP) {
      const int64_t i = first + lane;
      const int64_t at = reverse ? n - 1 - i : i;
      A v = i < n ? (A)rg_get(from[at * x_step]) : (A)0;

      for (int offset = 1; offset < WARP; offset <<= 1) {
        const A before = __shfl_up_sync(0xffffffffu, v, offset);

        v = lane >= offset ? v + before : v;
      }
      v += carried;
      carried = __shfl_sync(0xffffffffu, v, WARP - 1);
      if (i < n) {
        put(y, y_type, to + at * y_step, v);
      }
    }
  }
}

template <class T>
__global__ void k_across(const __grid_constant__ rg_strided y, int32_t y_type,
                         const __grid_constant__ rg_strided x, int64_t rows, int64_t n,
                         bool reverse)
{
  const int64_t x_step = rg_step(x);
  const int64_t y_step = rg_step(y);

  for (int64_t row = RG_FIRST; row < rows; row += RG_NEXT) {
    const T *from = (const T *)x.data + rg_at(x, row * n);
    const int64_t to = rg_at(y, row * n);
    typename running<T>::type sum = 0;

    for (int64_t i = 0; i < n; i++) {
      const int64_t at = reverse ? n - 1 - i : i;

      sum += rg_get(from[at * x_step]);
      put(y, y_type, to + at * y_step, sum);
    }
  }
}

template <class T>
static cudaError_t sums(const rg_call *call, const rg_tensor *out, int32_t axis, bool reverse,
                        rg_frame *frame)
{
  const rg_tensor *x = call->in[0];
  const int64_t n = x->_shape[axis];
  const int64_t rows = x->_count / n;
  const rg_strided from = rg_axis_last(x, axis);
  const rg_strided to = rg_axis_last(out, axis);
  const bool across = from.stride[from.ndim - 1] != 1 && rows >= WARP;

  frame->path = across ? "across" : "along";
  return rg_launch(across ? k_across<T> : k_along<T>,
                   rg_over(across ? rows : rows * WARP, rg_gpu_stream(call->device)), to,
                   out->_dtype, from, rows, n, reverse);
}

rg_status rg_gpu_cumsum(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_cumsum_args *args = (const rg_cumsum_args *)call->args;
  const rg_tensor *x = call->in[0];

  if (x->_count == 0) {
    return RG_OK;
  }
  return rg_dispatch<RG_KINDS_COMPUTED>(call, x->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return sums<T>(call, out[0], args->axis, args->reverse != 0, frame);
  });
}
