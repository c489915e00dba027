// SPDX-License-Identifier: MIT
//
// The arithmetic that CUDA adds to C++: intrinsics, loads with hints, atomics. Fast approximations
// are computed exactly here, so a kernel may be a little better on the CPU than on the device.
#ifndef RIDGE_SIM_CUDASIM_MATH_H
#define RIDGE_SIM_CUDASIM_MATH_H

// not cmath: only here exp and the like are, without std::, also functions of float, as for nvcc
#include <math.h>

// -- Approximations ------------------------------------------------------------------

inline float rsqrtf(float x)
{
  return 1.0f / sqrtf(x);
}
inline double rsqrt(double x)
{
  return 1.0 / sqrt(x);
}
inline float __frsqrt_rn(float x)
{
  return 1.0f / sqrtf(x);
}
inline float __expf(float x)
{
  return expf(x);
}
inline float __exp10f(float x)
{
  return powf(10.0f, x);
}
inline float __logf(float x)
{
  return logf(x);
}
inline float __log2f(float x)
{
  return log2f(x);
}
inline float __sinf(float x)
{
  return sinf(x);
}
inline float __cosf(float x)
{
  return cosf(x);
}
inline float __powf(float x, float y)
{
  return powf(x, y);
}
inline float __fdividef(float a, float b)
{
  return a / b;
}
inline float __saturatef(float x)
{
  return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
}

// -- Rounded as written: volatile keeps the compiler from fusing or reordering ------------

inline float __fadd_rn(float a, float b)
{
  volatile float r = a + b;
  return r;
}
inline float __fsub_rn(float a, float b)
{
  volatile float r = a - b;
  return r;
}
inline float __fmul_rn(float a, float b)
{
  volatile float r = a * b;
  return r;
}
inline float __fdiv_rn(float a, float b)
{
  return a / b;
}
inline float __frcp_rn(float a)
{
  return 1.0f / a;
}
inline float __fsqrt_rn(float a)
{
  return sqrtf(a);
}
inline float __fmaf_rn(float a, float b, float c)
{
  return fmaf(a, b, c);
}

// -- Conversions and bits ---------------------------------------------------------------

// Out of range saturates and NaN gives 0, as on the device; in C++ both are undefined.
inline int rgsim_to_int(float x)
{
  if (x != x) return 0;
  if (x >= 2147483648.0f) return 2147483647;
  if (x < -2147483648.0f) return -2147483647 - 1;
  return static_cast<int>(x);
}
inline int __float2int_rn(float x)
{
  return rgsim_to_int(nearbyintf(x));
}
inline int __float2int_rz(float x)
{
  return rgsim_to_int(truncf(x));
}
inline int __float2int_rd(float x)
{
  return rgsim_to_int(floorf(x));
}
inline int __float2int_ru(float x)
{
  return rgsim_to_int(ceilf(x));
}
inline float __int2float_rn(int x)
{
  return static_cast<float>(x);
}
inline float __uint2float_rn(unsigned x)
{
  return static_cast<float>(x);
}

template <class To, class From> inline To rgsim_cast(From from)
{
  static_assert(sizeof(To) == sizeof(From), "another size");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
inline float __uint_as_float(unsigned x)
{
  return rgsim_cast<float>(x);
}
inline float __int_as_float(int x)
{
  return rgsim_cast<float>(x);
}
inline unsigned __float_as_uint(float x)
{
  return rgsim_cast<unsigned>(x);
}
inline int __float_as_int(float x)
{
  return rgsim_cast<int>(x);
}
inline double __longlong_as_double(long long x)
{
  return rgsim_cast<double>(x);
}
inline long long __double_as_longlong(double x)
{
  return rgsim_cast<long long>(x);
}

// Byte i of the result is byte (choice >> 4 i) % 8 of low and high together.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned choice)
{
  uint64_t both = static_cast<uint64_t>(high) << 32 | low;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) {
    unsigned byte = static_cast<unsigned>(both >> (choice >> (4 * i) & 7) * 8) & 0xffu;
    r |= byte << (8 * i);
  }
  return r;
}
inline int __popc(unsigned x)
{
  return __builtin_popcount(x);
}
inline int __popcll(unsigned long long x)
{
  return __builtin_popcountll(x);
}
inline int __ffs(int x)
{
  return __builtin_ffs(x);
}
inline int __ffsll(long long x)
{
  return __builtin_ffsll(x);
}
inline int __clz(int x)
{
  return x ? __builtin_clz(static_cast<unsigned>(x)) : 32;
}
inline int __clzll(long long x)
{
  return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64;
}
inline unsigned __umulhi(unsigned a, unsigned b)
{
  return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}

// -- Minimum, maximum ----------------------------------------------------------------------

// CUDA has these in the global namespace, and of a NaN and a number they give the number.
template <class A, class B> inline std::common_type_t<A, B> min(A a, B b)
{
  typedef std::common_type_t<A, B> T;
  if constexpr (std::is_floating_point<T>::value) {
    return std::fmin(static_cast<T>(a), static_cast<T>(b));
  } else {
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
  }
}

template <class A, class B> inline std::common_type_t<A, B> max(A a, B b)
{
  typedef std::common_type_t<A, B> T;
  if constexpr (std::is_floating_point<T>::value) {
    return std::fmax(static_cast<T>(a), static_cast<T>(b));
  } else {
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
  }
}

// -- Half types, beyond what the toolkit's headers give to the host ---------------------------

inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c)
{
  return __float2bfloat16(fmaf(__bfloat162float(a), __bfloat162float(b), __bfloat162float(c)));
}
inline __half __hfma(__half a, __half b, __half c)
{
  return __float2half(fmaf(__half2float(a), __half2float(b), __half2float(c)));
}

// -- Loads and stores with hints ------------------------------------------------------------

template <class T> inline T __ldg(const T *p)
{
  return *p;
}
template <class T> inline T __ldcg(const T *p)
{
  return *p;
}
template <class T> inline T __ldcs(const T *p)
{
  return *p;
}
template <class T> inline void __stcg(T *p, T v)
{
  *p = v;
}
template <class T> inline void __stcs(T *p, T v)
{
  *p = v;
}

// -- Atomics -----------------------------------------------------------------------------
//
// Real ones: only so does the thread sanitizer know that they may meet. They order memory, which
// CUDA's do not, so a missing __threadfence is not seen.

template <class T, class F> inline T rgsim_update(T *p, F next)
{
  typedef std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t> bits;
  static_assert(sizeof(T) == sizeof(bits), "atomics have 4 or 8 bytes");
  bits *word = reinterpret_cast<bits *>(p);
  bits old = __atomic_load_n(word, __ATOMIC_RELAXED);
  for (;;) {
    T value = rgsim_cast<T>(old);
    if (__atomic_compare_exchange_n(word, &old, rgsim_cast<bits>(static_cast<T>(next(value))),
                                    false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
      return value;
    }
  }
}

// common_type_t<T> keeps the second argument from taking part in finding T.
#define RGSIM_ATOMIC(name, expression)                                       \
  template <class T> inline T name(T *p, std::common_type_t<T> v)            \
  {                                                                          \
    return rgsim_update(p, [&](T a) { return static_cast<T>(expression); }); \
  }

RGSIM_ATOMIC(atomicAdd, a + v)
RGSIM_ATOMIC(atomicSub, a - v)
RGSIM_ATOMIC(atomicMax, a < v ? v : a)
RGSIM_ATOMIC(atomicMin, v < a ? v : a)
RGSIM_ATOMIC(atomicAnd, a &v)
RGSIM_ATOMIC(atomicOr, a | v)
RGSIM_ATOMIC(atomicXor, a ^ v)
RGSIM_ATOMIC(atomicExch, ((void)a, v))
#undef RGSIM_ATOMIC

inline unsigned atomicInc(unsigned *p, unsigned limit)
{
  return rgsim_update(p, [&](unsigned a) { return a >= limit ? 0 : a + 1; });
}

template <class T> inline T atomicCAS(T *p, std::common_type_t<T> expected, std::common_type_t<T> v)
{
  return rgsim_update(p, [&](T a) { return a == expected ? v : a; });
}

#endif
