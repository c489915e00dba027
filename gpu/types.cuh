/* SPDX-License-Identifier: MIT */
/*
** Element types in kernels, from the rows of RG_DTYPE_LIST: the C++ type of a dtype and the type it
** is computed in (its lane), conversions, and the one place where the number of a dtype becomes a
** type, so that no kernel has a switch of its own.
**
** Half types are loaded and stored; all arithmetic is in float (or double, or the integer's own
** type), as on the CPU.
*/
#ifndef RIDGE_GPU_TYPES_CUH
#define RIDGE_GPU_TYPES_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <type_traits>

extern "C" {
#include "tensor/dtype.h"
}

/* -- Types ------------------------------------------------------------------------------- */

struct rg_bool {
  uint8_t v;
};

/* A type that is only stored: its bits, and what they are converted by. */
#define RG_BITS_FLOAT(name, stored)
#define RG_BITS_HALF(name, stored)
#define RG_BITS_WHOLE(name, stored)
#define RG_BITS_LOGIC(name, stored)
#define RG_BITS_STORED(name, stored)                   \
  struct rg_##name {                                   \
    stored v;                                          \
                                                       \
    __device__ inline float to_f32() const             \
    {                                                  \
      return rg_##name##_to_f32(v);                    \
    }                                                  \
    static __device__ inline rg_##name of_f32(float x) \
    {                                                  \
      return rg_##name{ rg_##name##_of_f32(x) };       \
    }                                                  \
  };
#define RG_BITS(code, name, stored, kind, ...) RG_BITS_##kind(name, stored)
RG_DTYPE_LIST(RG_BITS)

typedef __half rg_half_f16;
typedef __nv_bfloat16 rg_half_bf16;

#define RG_CXX_FLOAT(name, stored)  stored
#define RG_CXX_HALF(name, stored)   rg_half_##name
#define RG_CXX_WHOLE(name, stored)  stored
#define RG_CXX_LOGIC(name, stored)  rg_bool
#define RG_CXX_STORED(name, stored) rg_##name

typedef float rg_lane_F32;
typedef double rg_lane_F64;
typedef int64_t rg_lane_I64;
typedef int32_t rg_lane_I32;
typedef int8_t rg_lane_I8;
typedef uint8_t rg_lane_U8;

/* Of a type: its code (RG_F32 ...), its kind, the type it is computed in, its range. */
template <class T> struct rg_traits { /* words that are moved */
  static constexpr int32_t code = -1;
  static constexpr int32_t kind = 0;
  typedef T lane;
};
/* The type of a code. */
template <int32_t CODE> struct rg_coded;

#define RG_ROW(of, name, stored, KIND, LANE, its_rank, low, high) \
  template <> struct rg_traits<RG_CXX_##KIND(name, stored)> {     \
    static constexpr int32_t code = of;                           \
    static constexpr int32_t kind = RG_KIND_##KIND;               \
    static constexpr int64_t least = low;                         \
    static constexpr int64_t most = high;                         \
    typedef rg_lane_##LANE lane;                                  \
  };                                                              \
  template <> struct rg_coded<of> {                               \
    typedef RG_CXX_##KIND(name, stored) type;                     \
  };
RG_DTYPE_LIST(RG_ROW)
#undef RG_ROW

template <class T> constexpr int32_t rg_code_of = rg_traits<T>::code;

/* The type an element is computed in. */
template <class T> struct rg_lane {
  typedef typename rg_traits<T>::lane type;
};

/* -- From a dtype to its type --------------------------------------------------------------- */

/* What a dispatch hands over: using T = rg_t<decltype(t)>. */
template <class T> struct rg_type {
  typedef T type;
};
template <class TAG> using rg_t = typename TAG::type;

/* f(rg_type<T>()) with the type of a dtype of one of these kinds; of another, f's result is 0. */
#define RG_CASE(code, name, stored, KIND, ...)            \
  case code:                                              \
    if constexpr ((KINDS & RG_KIND_##KIND) != 0) {        \
      return f(rg_type<typename rg_coded<code>::type>()); \
    }                                                     \
    break;
#define RG_SWITCH(where, name)                                              \
  template <int32_t KINDS, class F>                                         \
  where inline auto name(int32_t dtype, F f)->decltype(f(rg_type<float>())) \
  {                                                                         \
    switch (dtype) {                                                        \
      RG_DTYPE_LIST(RG_CASE)                                                \
    }                                                                       \
    return decltype(f(rg_type<float>()))();                                 \
  }
RG_SWITCH(, rg_with_type)         /* on the host: launches; see rg_dispatch */
RG_SWITCH(__device__, rg_of_type) /* in a kernel, where all threads answer alike */
#undef RG_SWITCH
#undef RG_CASE

/* -- An element and its lane ----------------------------------------------------------------- */

template <class T> __device__ inline typename rg_lane<T>::type rg_get(T x)
{
  if constexpr (rg_traits<T>::kind == RG_KIND_STORED) {
    return x.to_f32();
  } else if constexpr (rg_traits<T>::kind == RG_KIND_LOGIC) {
    return x.v;
  } else {
    return x;
  }
}
template <> __device__ inline float rg_get(__half x)
{
  return __half2float(x);
}
template <> __device__ inline float rg_get(__nv_bfloat16 x)
{
  return __bfloat162float(x);
}

/* A lane's value as an element. */
template <class T> struct rg_element {
  static __device__ inline T of(typename rg_lane<T>::type x)
  {
    if constexpr (rg_traits<T>::kind == RG_KIND_STORED) {
      return T::of_f32(x);
    } else {
      return T{ x };
    }
  }
};
template <> struct rg_element<__half> {
  static __device__ inline __half of(float x)
  {
    return __float2half_rn(x);
  }
};
template <> struct rg_element<__nv_bfloat16> {
  static __device__ inline __nv_bfloat16 of(float x)
  {
    return __float2bfloat16_rn(x);
  }
};

/* A float of any type; what is stored may have another type than what is read. */
template <class L> __device__ inline L rg_load(const void *data, int32_t dtype, int64_t at)
{
  return rg_of_type<RG_KINDS_FLOAT>(
      dtype, [=](auto t) { return (L)rg_get(((const rg_t<decltype(t)> *)data)[at]); });
}

template <class L, int32_t KINDS = RG_KINDS_FLOAT>
__device__ inline void rg_store(void *data, int32_t dtype, int64_t at, L v)
{
  rg_of_type<KINDS>(dtype, [=](auto t) {
    using T = rg_t<decltype(t)>;

    ((T *)data)[at] = rg_element<T>::of((typename rg_lane<T>::type)v);
  });
}

/* A number without loss: integers as themselves, floats as double. */
struct rg_number {
  double d;
  int64_t k;
  bool whole;
};

/* Element `at` of any type of these kinds. */
template <int32_t KINDS>
__device__ inline rg_number rg_number_among(const void *data, int32_t dtype, int64_t at)
{
  return rg_of_type<KINDS>(dtype, [=](auto t) {
    using T = rg_t<decltype(t)>;
    const typename rg_lane<T>::type x = rg_get(((const T *)data)[at]);

    if constexpr (std::is_floating_point<typename rg_lane<T>::type>::value) {
      return rg_number{ x, 0, false };
    } else {
      return rg_number{ 0, x, true };
    }
  });
}

/* Of a type that is computed with. */
__device__ inline rg_number rg_number_of(const void *data, int32_t dtype, int64_t at)
{
  return rg_number_among<RG_KINDS_COMPUTED>(data, dtype, at);
}

/* Of any type. */
__device__ inline rg_number rg_stored_number_of(const void *data, int32_t dtype, int64_t at)
{
  return rg_number_among<RG_KINDS_ALL>(data, dtype, at);
}

/* Truncate, saturate, nan to 0 (rg_cast). */
__device__ inline int64_t rg_truncated(double x, double low, double high)
{
  if (x != x) {
    return 0;
  }
  if (x >= 9223372036854775808.0) {
    return high >= 9223372036854775807.0 ? INT64_MAX : (int64_t)high;
  }
  return (int64_t)(x < low ? low : x > high ? high : x);
}

/* A whole number brought into a range. */
__host__ __device__ inline int64_t rg_clamped(int64_t x, int64_t low, int64_t high)
{
  return x < low ? low : x > high ? high : x;
}

template <class T> struct rg_converted {
  static __device__ inline T of(rg_number x)
  {
    typedef rg_traits<T> of_t;

    if constexpr (of_t::kind == RG_KIND_WHOLE) {
      return (T)(x.whole ? rg_clamped(x.k, of_t::least, of_t::most)
                         : rg_truncated(x.d, (double)of_t::least, (double)of_t::most));
    } else if constexpr (of_t::kind == RG_KIND_LOGIC) {
      return T{ (uint8_t)(x.whole ? x.k != 0 : x.d != 0) };
    } else if constexpr (of_t::kind == RG_KIND_STORED) { /* beyond what double holds is too large */
      return T::of_f32(rg_f32_odd_of_f64(x.whole ? (double)x.k : x.d));
    } else {
      return x.whole ? (T)x.k : (T)x.d;
    }
  }
};
template <> __device__ inline __half rg_converted<__half>::of(rg_number x)
{
  return __double2half(x.whole ? (double)x.k : x.d);
}
template <> __device__ inline __nv_bfloat16 rg_converted<__nv_bfloat16>::of(rg_number x)
{
  return __double2bfloat16(x.whole ? (double)x.k : x.d);
}

#endif
