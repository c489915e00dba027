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

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define RG_HAS_VECTOR_FORM __attribute__((simd("notinbranch")))
/* clang-format off */
RG_HAS_VECTOR_FORM extern float logf(float);     RG_HAS_VECTOR_FORM extern double log(double);
RG_HAS_VECTOR_FORM extern float log1pf(float);   RG_HAS_VECTOR_FORM extern double log1p(double);
RG_HAS_VECTOR_FORM extern float sinf(float);     RG_HAS_VECTOR_FORM extern double sin(double);
RG_HAS_VECTOR_FORM extern float cosf(float);     RG_HAS_VECTOR_FORM extern double cos(double);
RG_HAS_VECTOR_FORM extern float tanhf(float);    RG_HAS_VECTOR_FORM extern double tanh(double);
RG_HAS_VECTOR_FORM extern float erff(float);     RG_HAS_VECTOR_FORM extern double erf(double);
RG_HAS_VECTOR_FORM extern float powf(float, float);
RG_HAS_VECTOR_FORM extern double pow(double, double);
/* clang-format on */
#endif

/* -- Integers: wrap around, as the machine does -------------------------------- */

/* T: the lane; U: an unsigned type at least as wide as int, in which overflow is defined. */
#define RG_INTEGER_FUNCTIONS(T, U, lane) \
  static inline T neg_##lane(T x)        \
  {                                      \
    return (T)(0 - (U)x);                \
  }                                      \
  static inline T abs_##lane(T x)        \
  {                                      \
    return x < 0 ? neg_##lane(x) : x;    \
  }                                      \
  static inline T sign_##lane(T x)       \
  {                                      \
    return (T)((x > 0) - (x < 0));       \
  }                                      \
  static inline T square_##lane(T x)     \
  {                                      \
    return (T)((U)x * (U)x);             \
  }                                      \
  static inline T relu_##lane(T x)       \
  {                                      \
    return x < 0 ? 0 : x;                \
  }                                      \
  static inline T floor_##lane(T x)      \
  {                                      \
    return x;                            \
  }                                      \
  static inline T ceil_##lane(T x)       \
  {                                      \
    return x;                            \
  }                                      \
  static inline T round_##lane(T x)      \
  {                                      \
    return x;                            \
  }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits" /* u8 is never below 0 */
RG_INTEGER_FUNCTIONS(int64_t, uint64_t, i64)
RG_INTEGER_FUNCTIONS(int32_t, uint32_t, i32)
RG_INTEGER_FUNCTIONS(int8_t, uint32_t, i8)
RG_INTEGER_FUNCTIONS(uint8_t, uint32_t, u8)
#pragma GCC diagnostic pop
#undef RG_INTEGER_FUNCTIONS

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

static inline float exp_f32(float x)
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
static inline double exp_f64(double x)
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

/* T: the lane; f: the suffix of the C library's functions. */
#define RG_FLOAT_FUNCTIONS(T, lane, f)                                            \
  static inline T neg_##lane(T x)                                                 \
  {                                                                               \
    return -x;                                                                    \
  }                                                                               \
  static inline T abs_##lane(T x)                                                 \
  {                                                                               \
    return fabs##f(x);                                                            \
  }                                                                               \
  static inline T sign_##lane(T x)                                                \
  {                                                                               \
    return x > 0 ? (T)1 : x < 0 ? (T)-1 : x == 0 ? (T)0 : x;                      \
  }                                                                               \
  static inline T square_##lane(T x)                                              \
  {                                                                               \
    return x * x;                                                                 \
  }                                                                               \
  static inline T relu_##lane(T x)                                                \
  {                                                                               \
    return x < 0 ? (T)0 : x; /* written so that nan goes through */               \
  }                                                                               \
  static inline T floor_##lane(T x)                                               \
  {                                                                               \
    return floor##f(x);                                                           \
  }                                                                               \
  static inline T ceil_##lane(T x)                                                \
  {                                                                               \
    return ceil##f(x);                                                            \
  }                                                                               \
  static inline T round_##lane(T x)                                               \
  {                                                                               \
    return rint##f(x);                                                            \
  }                                                                               \
  static inline T sqrt_##lane(T x)                                                \
  {                                                                               \
    return sqrt##f(x);                                                            \
  }                                                                               \
  static inline T rsqrt_##lane(T x)                                               \
  {                                                                               \
    return (T)1 / sqrt##f(x);                                                     \
  }                                                                               \
  static inline T reciprocal_##lane(T x)                                          \
  {                                                                               \
    return (T)1 / x;                                                              \
  }                                                                               \
  static inline T log_##lane(T x)                                                 \
  {                                                                               \
    return log##f(x);                                                             \
  }                                                                               \
  static inline T log1p_##lane(T x)                                               \
  {                                                                               \
    return log1p##f(x);                                                           \
  }                                                                               \
  static inline T sin_##lane(T x)                                                 \
  {                                                                               \
    return sin##f(x);                                                             \
  }                                                                               \
  static inline T cos_##lane(T x)                                                 \
  {                                                                               \
    return cos##f(x);                                                             \
  }                                                                               \
  static inline T tanh_##lane(T x)                                                \
  {                                                                               \
    return tanh##f(x);                                                            \
  }                                                                               \
  static inline T erf_##lane(T x)                                                 \
  {                                                                               \
    return erf##f(x);                                                             \
  }                                                                               \
  static inline T sigmoid_##lane(T x)                                             \
  {                                                                               \
    return (T)1 / ((T)1 + exp_##lane(-x));                                        \
  }                                                                               \
  static inline T gelu_##lane(T x)                                                \
  {                                                                               \
    return (T)0.5 * x * ((T)1 + erf##f(x * (T)0.70710678118654752440));           \
  }                                                                               \
  static inline T silu_##lane(T x)                                                \
  {                                                                               \
    return x / ((T)1 + exp_##lane(-x));                                           \
  }                                                                               \
  static inline T softplus_##lane(T x) /* the larger part outside: no overflow */ \
  {                                                                               \
    return (x < 0 ? (T)0 : x) + log1p##f(exp_##lane(-fabs##f(x)));                \
  }

RG_FLOAT_FUNCTIONS(float, f32, f)
RG_FLOAT_FUNCTIONS(double, f64, )
#undef RG_FLOAT_FUNCTIONS

#endif
