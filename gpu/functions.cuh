/* SPDX-License-Identifier: MIT */
/*
** Unary and binary elementwise functions, by the id of their operation, in the type they are
** computed in: what the kernels of one function and those of a chain of them share.  Which function
** it is, is asked once for all elements that a thread has together.
*/
#ifndef RIDGE_GPU_FUNCTIONS_CUH
#define RIDGE_GPU_FUNCTIONS_CUH

#include <float.h>
#include <type_traits>

#include "gpu/device.cuh"

extern "C" {
#include "op/list.h"
}

/* -- Functions of one ----------------------------------------------------------------------- */

/* f of each */
template <class L, int N, class F> __device__ inline void rg_each(L (&v)[N], F f)
{
#pragma unroll
  for (int k = 0; k < N; k++) {
    v[k] = f(v[k]);
  }
}

/* Overflow is defined in it. */
template <class T>
using rg_wide = typename std::conditional<sizeof(T) == 8, uint64_t, uint32_t>::type;

template <class T, int N> __device__ inline void rg_ones(int32_t id, T (&v)[N])
{
  typedef rg_wide<T> U;
#define CASE(NAME, name, ...)                         \
  case RG_OP_##NAME:                                  \
    rg_each(v, [](T x) { return (T)(__VA_ARGS__); }); \
    break;
  if constexpr (std::is_floating_point<T>::value) {
    switch (id) {
      RG_UNARY_FORMULAS(CASE, RG_LIBRARY, exp, rg_erf_absolute, rg_quotient)
    }
  } else {
    switch (id) {
      RG_UNARY_INTEGER_FORMULAS(CASE)
    }
  }
#undef CASE
}

/* The largest finite number. */
template <class T> constexpr T rg_most_finite = sizeof(T) == 8 ? (T)DBL_MAX : (T)FLT_MAX;

template <class T> __device__ inline bool rg_truth(int32_t id, T x)
{
#define CASE(NAME, name, ...) \
  case RG_OP_##NAME:          \
    return __VA_ARGS__;
  if constexpr (std::is_floating_point<T>::value) {
    switch (id) {
      RG_TRUTH_FORMULAS(CASE, rg_most_finite<T>)
    default:
      return false;
    }
  } else {
    switch (id) {
      RG_TRUTH_INTEGER_FORMULAS(CASE)
    default:
      return false;
    }
  }
#undef CASE
}

/* -- Functions of two ------------------------------------------------------------------------ */

template <class T> __device__ inline bool rg_compared(int32_t id, T x, T y)
{
#define CASE(NAME, name, ...) \
  case RG_OP_##NAME:          \
    return __VA_ARGS__;
  switch (id) {
    RG_COMPARE_FORMULAS(CASE)
  default:
    return false;
  }
#undef CASE
}

/* x = f(x, y) of each */
template <class L, int N, class F>
__device__ inline void rg_each_two(L (&x)[N], const L (&y)[N], F f)
{
#pragma unroll
  for (int k = 0; k < N; k++) {
    x[k] = f(x[k], y[k]);
  }
}

template <class T, int N> __device__ inline void rg_twos(int32_t id, T (&p)[N], const T (&q)[N])
{
  typedef rg_wide<T> U;
#define CASE(NAME, name, ...)                                     \
  case RG_OP_##NAME:                                              \
    rg_each_two(p, q, [](T x, T y) { return (T)(__VA_ARGS__); }); \
    break;
  if constexpr (std::is_floating_point<T>::value) {
    switch (id) {
      RG_BINARY_FORMULAS(CASE, RG_LIBRARY, RG_POWER, RG_SELECT)
    }
  } else {
    switch (id) {
      RG_BINARY_INTEGER_FORMULAS(CASE)
    }
  }
#undef CASE
}

/* -- Derivatives of activations ---------------------------------------------------------------- */

/* By the result of the activation or, for gelu and silu, by what went into it. */
template <class T> __device__ inline T rg_slope(int32_t act, T x)
{
#define CASE(NAME, name, ...) \
  case RG_ACT_##NAME:         \
    return (T)(__VA_ARGS__);
  switch (act) {
    RG_SLOPE_FORMULAS(CASE, RG_LIBRARY, exp, rg_erf_absolute, rg_quotient)
  default:
    return 0;
  }
#undef CASE
}

#endif
