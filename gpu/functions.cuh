/* SPDX-License-Identifier: MIT */
/*
** Unary and binary elementwise functions, by the id of their operation, in the type they are
** computed in: what the kernels of one function and those of a chain of them share.  Which function
** it is, is asked once for all elements that a thread has together.
*/
#ifndef RIDGE_GPU_FUNCTIONS_CUH
#define RIDGE_GPU_FUNCTIONS_CUH

#include <type_traits>

#include "gpu/device.cuh"
#include "gpu/formulas.h"

extern "C" {
#include "op/list.h"
}

/* -- Functions of one ----------------------------------------------------------------------- */

template <class T> __device__ inline T rg_exact(int32_t id, T x)
{
  switch (id) {
  case RG_OP_NEG:
    return (T)(0 - x);
  case RG_OP_ABS:
    return x < 0 ? (T)(0 - x) : x;
  case RG_OP_SIGN:
    return (T)((x > 0) - (x < 0));
  case RG_OP_SQUARE:
    return (T)(x * x);
  case RG_OP_RELU:
    return x < 0 ? (T)0 : x;
  default:
    return x; /* floor, ceil, round of a whole number */
  }
}

/* f of each */
template <class L, int N, class F> __device__ inline void rg_each(L (&v)[N], F f)
{
#pragma unroll
  for (int k = 0; k < N; k++) {
    v[k] = f(v[k]);
  }
}

template <class T, int N> __device__ inline void rg_real(int32_t id, T (&v)[N])
{
#define CASE(NAME, ...)                               \
  case RG_OP_##NAME:                                  \
    rg_each(v, [](T x) { return (T)(__VA_ARGS__); }); \
    break;
  switch (id) {
    RG_ONE_FORMULAS(CASE)
  }
#undef CASE
}

/* unsigned inside, where overflow wraps around */
__device__ inline int64_t rg_one(int32_t id, int64_t x)
{
  return id == RG_OP_SQUARE                              ? (int64_t)((uint64_t)x * (uint64_t)x)
         : id == RG_OP_NEG || (id == RG_OP_ABS && x < 0) ? (int64_t)(0 - (uint64_t)x)
                                                         : rg_exact(id, x);
}
__device__ inline int32_t rg_one(int32_t id, int32_t x)
{
  return id == RG_OP_SQUARE                              ? (int32_t)((uint32_t)x * (uint32_t)x)
         : id == RG_OP_NEG || (id == RG_OP_ABS && x < 0) ? (int32_t)(0 - (uint32_t)x)
                                                         : rg_exact(id, x);
}
__device__ inline int8_t rg_one(int32_t id, int8_t x)
{
  return (int8_t)rg_exact(id, (int)x);
}
__device__ inline uint8_t rg_one(int32_t id, uint8_t x)
{
  return id == RG_OP_NEG ? (uint8_t)(0 - x) : (uint8_t)rg_exact(id, (int)x);
}

template <class L, int N> __device__ inline void rg_ones(int32_t id, L (&v)[N])
{
  if constexpr (std::is_floating_point<L>::value) {
    rg_real(id, v);
  } else {
    rg_each(v, [id](L x) { return rg_one(id, x); });
  }
}

/* -- Functions of two ------------------------------------------------------------------------ */

template <class T> __device__ inline bool rg_compared(int32_t id, T x, T y)
{
  switch (id) {
  case RG_OP_EQ:
    return x == y;
  case RG_OP_NE:
    return x != y;
  case RG_OP_LT:
    return x < y;
  case RG_OP_LE:
    return x <= y;
  case RG_OP_GT:
    return x > y;
  default:
    return x >= y;
  }
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

template <class T, int N> __device__ inline void rg_two_real(int32_t id, T (&p)[N], const T (&q)[N])
{
#define CASE(NAME, ...)                                           \
  case RG_OP_##NAME:                                              \
    rg_each_two(p, q, [](T x, T y) { return (T)(__VA_ARGS__); }); \
    break;
  switch (id) {
    RG_TWO_FORMULAS(CASE)
  }
#undef CASE
}

template <class T, class U> __device__ inline T rg_two_whole(int32_t id, T x, T y)
{
  switch (id) {
  case RG_OP_ADD:
    return (T)((U)x + (U)y);
  case RG_OP_SUB:
    return (T)((U)x - (U)y);
  case RG_OP_MUL:
    return (T)((U)x * (U)y);
  case RG_OP_MAXIMUM:
    return x > y ? x : y;
  default:
    return x < y ? x : y;
  }
}

__device__ inline int64_t rg_two(int32_t id, int64_t x, int64_t y)
{
  return rg_two_whole<int64_t, uint64_t>(id, x, y);
}
__device__ inline int32_t rg_two(int32_t id, int32_t x, int32_t y)
{
  return rg_two_whole<int32_t, uint32_t>(id, x, y);
}
__device__ inline int8_t rg_two(int32_t id, int8_t x, int8_t y)
{
  return rg_two_whole<int8_t, uint32_t>(id, x, y);
}
__device__ inline uint8_t rg_two(int32_t id, uint8_t x, uint8_t y)
{
  return rg_two_whole<uint8_t, uint32_t>(id, x, y);
}

template <class L, int N> __device__ inline void rg_twos(int32_t id, L (&x)[N], const L (&y)[N])
{
  if constexpr (std::is_floating_point<L>::value) {
    rg_two_real(id, x, y);
  } else {
    rg_each_two(x, y, [id](L a, L b) { return rg_two(id, a, b); });
  }
}

/* -- Derivatives of activations ---------------------------------------------------------------- */

/* By the result of the activation or, for gelu and silu, by what went into it. */
template <class T> __device__ inline T rg_slope(int32_t act, T x)
{
#define CASE(NAME, ...) \
  case RG_ACT_##NAME:   \
    return (T)(__VA_ARGS__);
  switch (act) {
    RG_SLOPE_FORMULAS(CASE)
  default:
    return 0;
  }
#undef CASE
}

#endif
