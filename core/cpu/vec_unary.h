/* SPDX-License-Identifier: MIT */
/*
** The unary elementwise functions behind the operations of RG_UNARY_LIST, one for each lane type:
** exp_f32, neg_i64 and so on.  Plain C; core/cpu/simd/unary.c makes vector loops of them.
**
** The exponential is our own: the C library's vector form leaves the vector for arguments that
** over- or underflow, which masked softmax is full of.  The other transcendental functions are the
** C library's.  On x86-64 glibc has vector forms of them (libmvec), which GCC calls in loops where
** the declaration says so; their error is below 4 units in the last place (glibc manual, "Errors in
** Math Functions").
*/
#ifndef RIDGE_CPU_VEC_UNARY_H
#define RIDGE_CPU_VEC_UNARY_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "op/formulas.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define RG_HAS_VECTOR_FORM __attribute__((simd("notinbranch")))
/* clang-format off */
RG_HAS_VECTOR_FORM extern float logf(float);     RG_HAS_VECTOR_FORM extern double log(double);
RG_HAS_VECTOR_FORM extern float log1pf(float);   RG_HAS_VECTOR_FORM extern double log1p(double);
RG_HAS_VECTOR_FORM extern float sinf(float);     RG_HAS_VECTOR_FORM extern double sin(double);
RG_HAS_VECTOR_FORM extern float cosf(float);     RG_HAS_VECTOR_FORM extern double cos(double);
RG_HAS_VECTOR_FORM extern float tanhf(float);    RG_HAS_VECTOR_FORM extern double tanh(double);
RG_HAS_VECTOR_FORM extern float erff(float);     RG_HAS_VECTOR_FORM extern double erf(double);
RG_HAS_VECTOR_FORM extern float exp2f(float);    RG_HAS_VECTOR_FORM extern double exp2(double);
RG_HAS_VECTOR_FORM extern float expm1f(float);   RG_HAS_VECTOR_FORM extern double expm1(double);
RG_HAS_VECTOR_FORM extern float log2f(float);    RG_HAS_VECTOR_FORM extern double log2(double);
RG_HAS_VECTOR_FORM extern float tanf(float);     RG_HAS_VECTOR_FORM extern double tan(double);
RG_HAS_VECTOR_FORM extern float asinf(float);    RG_HAS_VECTOR_FORM extern double asin(double);
RG_HAS_VECTOR_FORM extern float acosf(float);    RG_HAS_VECTOR_FORM extern double acos(double);
RG_HAS_VECTOR_FORM extern float atanf(float);    RG_HAS_VECTOR_FORM extern double atan(double);
RG_HAS_VECTOR_FORM extern float sinhf(float);    RG_HAS_VECTOR_FORM extern double sinh(double);
RG_HAS_VECTOR_FORM extern float coshf(float);    RG_HAS_VECTOR_FORM extern double cosh(double);
RG_HAS_VECTOR_FORM extern float asinhf(float);   RG_HAS_VECTOR_FORM extern double asinh(double);
RG_HAS_VECTOR_FORM extern float acoshf(float);   RG_HAS_VECTOR_FORM extern double acosh(double);
RG_HAS_VECTOR_FORM extern float atanhf(float);   RG_HAS_VECTOR_FORM extern double atanh(double);
RG_HAS_VECTOR_FORM extern float atan2f(float, float);
RG_HAS_VECTOR_FORM extern double atan2(double, double);
RG_HAS_VECTOR_FORM extern float powf(float, float);
RG_HAS_VECTOR_FORM extern double pow(double, double);
/* clang-format on */
#endif

/* -- Integers: wrap around, as the machine does -------------------------------- */

#define RG_INTEGER_FUNCTION(name, lane, wide, ...) \
  static inline lane name(lane x)                  \
  {                                                \
    typedef lane T;                                \
    typedef wide U;                                \
    (void)sizeof(U);                               \
    return (T)(__VA_ARGS__);                       \
  }
#define RG_INTEGER_I64(NAME, name, ...) \
  RG_INTEGER_FUNCTION(name##_i64, int64_t, uint64_t, __VA_ARGS__)
#define RG_INTEGER_I32(NAME, name, ...) \
  RG_INTEGER_FUNCTION(name##_i32, int32_t, uint32_t, __VA_ARGS__)
#define RG_INTEGER_I8(NAME, name, ...) RG_INTEGER_FUNCTION(name##_i8, int8_t, uint32_t, __VA_ARGS__)
#define RG_INTEGER_U8(NAME, name, ...) \
  RG_INTEGER_FUNCTION(name##_u8, uint8_t, uint32_t, __VA_ARGS__)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits" /* u8 is never below 0 */
RG_UNARY_INTEGER_FORMULAS(RG_INTEGER_I64)
RG_UNARY_INTEGER_FORMULAS(RG_INTEGER_I32)
RG_UNARY_INTEGER_FORMULAS(RG_INTEGER_I8)
RG_UNARY_INTEGER_FORMULAS(RG_INTEGER_U8)
#pragma GCC diagnostic pop

/* -- Exponential ------------------------------------------------------------------- */

/* x y + z, rounded once where the processor can; the polynomials below hold their error either
** way. */
#ifdef __FMA__
#define RG_MADD_F32(x, y, z) __builtin_fmaf(x, y, z)
#define RG_MADD_F64(x, y, z) __builtin_fma(x, y, z)
#else
#define RG_MADD_F32(x, y, z) ((x) * (y) + (z))
#define RG_MADD_F64(x, y, z) ((x) * (y) + (z))
#endif

/*
** e^x = 2^n e^r with n = round(x log2 e), |r| <= log(2) / 2; n is read off the low bits of a float
** to which 1.5 2^23 was added.  Polynomial: Moshier's Cephes, expf.  2^n in two factors, so that
** results below the normal range and infinity come out of the last multiplication.  What would be 0
** is computed from 0 instead: producing an underflow takes the processor a hundred cycles.  Error
** below 1 unit in the last place (in the normal range); nan goes through the comparisons.
*/
static inline float exp_rest_f32(float c, int32_t *n) /* e^r; n: for 2^n */
{
  uint32_t bits;

  float k = RG_MADD_F32(c, 1.44269504f, 0x1.8p23f);
  memcpy(&bits, &k, sizeof(bits));
  k -= 0x1.8p23f;
  float r = RG_MADD_F32(k, -0.693359375f, c);
  r = RG_MADD_F32(k, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = RG_MADD_F32(p, r, 1.3981999507e-3f);
  p = RG_MADD_F32(p, r, 8.3334519073e-3f);
  p = RG_MADD_F32(p, r, 4.1665795894e-2f);
  p = RG_MADD_F32(p, r, 1.6666665459e-1f);
  p = RG_MADD_F32(p, r, 5.0000001201e-1f);
  *n = (int32_t)(bits - 0x4b400000u);
  return RG_MADD_F32(p * r, r, r) + 1.0f;
}

static inline float exponential_f32(float x)
{
  float c = x < -104.0f ? 0.0f : x;
  int32_t n;
  float scale[2];

  c = c > 89.0f ? 89.0f : c;
  float p = exp_rest_f32(c, &n);
  int32_t half = n >> 1;
  uint32_t low = (uint32_t)(half + 127) << 23;
  uint32_t high = (uint32_t)(n - half + 127) << 23;
  memcpy(&scale[0], &low, sizeof(low));
  memcpy(&scale[1], &high, sizeof(high));
  return x < -104.0f ? 0.0f : p * scale[0] * scale[1];
}

/* The same with the exponential series to r^13, whose remainder is 4e-18. */
static inline double exponential_f64(double x)
{
  double c = x < -746.0 ? 0.0 : x;
  uint64_t bits;
  double scale[2];

  c = c > 710.0 ? 710.0 : c;
  double k = RG_MADD_F64(c, 1.4426950408889634, 0x1.8p52);
  memcpy(&bits, &k, sizeof(bits));
  k -= 0x1.8p52;
  double r = RG_MADD_F64(k, -6.93147180369123816490e-01, c);
  r = RG_MADD_F64(k, -1.90821492927058770002e-10, r);
  double p = 1.0 / 6227020800.0;
  p = RG_MADD_F64(p, r, 1.0 / 479001600.0);
  p = RG_MADD_F64(p, r, 1.0 / 39916800.0);
  p = RG_MADD_F64(p, r, 1.0 / 3628800.0);
  p = RG_MADD_F64(p, r, 1.0 / 362880.0);
  p = RG_MADD_F64(p, r, 1.0 / 40320.0);
  p = RG_MADD_F64(p, r, 1.0 / 5040.0);
  p = RG_MADD_F64(p, r, 1.0 / 720.0);
  p = RG_MADD_F64(p, r, 1.0 / 120.0);
  p = RG_MADD_F64(p, r, 1.0 / 24.0);
  p = RG_MADD_F64(p, r, 1.0 / 6.0);
  p = RG_MADD_F64(p, r, 0.5);
  p = RG_MADD_F64(p * r, r, r) + 1.0;
  int64_t n = (int64_t)(bits - 0x4338000000000000u);
  int64_t half = n >> 1;
  uint64_t low = (uint64_t)(half + 1023) << 52;
  uint64_t high = (uint64_t)(n - half + 1023) << 52;
  memcpy(&scale[0], &low, sizeof(low));
  memcpy(&scale[1], &high, sizeof(high));
  return x < -746.0 ? 0.0 : p * scale[0] * scale[1];
}

/* -- Floats --------------------------------------------------------------------- */

/* A function of the C library for a lane. */
#define RG_LIBRARY_F32(function) function##f
#define RG_LIBRARY_F64(function) function

#define RG_REAL_F32(NAME, name, ...)      \
  static inline float name##_f32(float x) \
  {                                       \
    typedef float T;                      \
    return (T)(__VA_ARGS__);              \
  }
#define RG_REAL_F64(NAME, name, ...)        \
  static inline double name##_f64(double x) \
  {                                         \
    typedef double T;                       \
    return (T)(__VA_ARGS__);                \
  }
RG_UNARY_FORMULAS(RG_REAL_F32, RG_LIBRARY_F32, exponential_f32, erff, RG_QUOTIENT)
RG_UNARY_FORMULAS(RG_REAL_F64, RG_LIBRARY_F64, exponential_f64, erf, RG_QUOTIENT)

/* -- Answers: 1 or 0 ------------------------------------------------------------ */

#define RG_TRUTH_OF(name, lane, ...) \
  static inline uint8_t name(lane x) \
  {                                  \
    return (uint8_t)(__VA_ARGS__);   \
  }
#define RG_TRUTH_F32(NAME, name, ...) RG_TRUTH_OF(name##_f32, float, __VA_ARGS__)
#define RG_TRUTH_F64(NAME, name, ...) RG_TRUTH_OF(name##_f64, double, __VA_ARGS__)
#define RG_TRUTH_I64(NAME, name, ...) RG_TRUTH_OF(name##_i64, int64_t, __VA_ARGS__)
#define RG_TRUTH_I32(NAME, name, ...) RG_TRUTH_OF(name##_i32, int32_t, __VA_ARGS__)
#define RG_TRUTH_I8(NAME, name, ...)  RG_TRUTH_OF(name##_i8, int8_t, __VA_ARGS__)
#define RG_TRUTH_U8(NAME, name, ...)  RG_TRUTH_OF(name##_u8, uint8_t, __VA_ARGS__)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtautological-compare" /* no integer is nan */
#pragma GCC diagnostic ignored "-Wfloat-equal"
RG_TRUTH_FORMULAS(RG_TRUTH_F32, FLT_MAX)
RG_TRUTH_FORMULAS(RG_TRUTH_F64, DBL_MAX)
RG_TRUTH_INTEGER_FORMULAS(RG_TRUTH_I64)
RG_TRUTH_INTEGER_FORMULAS(RG_TRUTH_I32)
RG_TRUTH_INTEGER_FORMULAS(RG_TRUTH_I8)
RG_TRUTH_INTEGER_FORMULAS(RG_TRUTH_U8)
#pragma GCC diagnostic pop

#endif
