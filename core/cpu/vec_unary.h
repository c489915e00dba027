/* SPDX-License-Identifier: MIT */
/*
** The functions of one element behind the operations of RG_UNARY_LIST, one for each lane type:
** exp_f32, neg_i64 and so on.  Plain C; core/cpu/simd/unary.c makes vector loops of them.
**
** The transcendental ones are the C library's.  On x86-64 glibc has vector forms of them (libmvec),
** which GCC calls in loops where the declaration says so; their error is below 4 units in the last
** place (glibc manual, "Errors in Math Functions"), measured below 2 for exp.
*/
#ifndef RIDGE_CPU_VEC_UNARY_H
#define RIDGE_CPU_VEC_UNARY_H

#include <math.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define RG_HAS_VECTOR_FORM __attribute__((simd("notinbranch")))
/* clang-format off */
RG_HAS_VECTOR_FORM extern float expf(float);     RG_HAS_VECTOR_FORM extern double exp(double);
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
#define RG_INTEGER_FUNCTIONS(T, U, lane)      \
  static inline T neg_##lane(T x)             \
  {                                           \
    return (T)(0 - (U)x);                     \
  }                                           \
  static inline T abs_##lane(T x)             \
  {                                           \
    return x < 0 ? neg_##lane(x) : x;         \
  }                                           \
  static inline T sign_##lane(T x)            \
  {                                           \
    return (T)((x > 0) - (x < 0));            \
  }                                           \
  static inline T square_##lane(T x)          \
  {                                           \
    return (T)((U)x * (U)x);                  \
  }                                           \
  static inline T relu_##lane(T x)            \
  {                                           \
    return x < 0 ? 0 : x;                     \
  }                                           \
  static inline T floor_##lane(T x)           \
  {                                           \
    return x;                                 \
  }                                           \
  static inline T ceil_##lane(T x)            \
  {                                           \
    return x;                                 \
  }                                           \
  static inline T round_##lane(T x)           \
  {                                           \
    return x;                                 \
  }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits" /* u8 is never below 0 */
RG_INTEGER_FUNCTIONS(int64_t, uint64_t, i64)
RG_INTEGER_FUNCTIONS(int32_t, uint32_t, i32)
RG_INTEGER_FUNCTIONS(int8_t, uint32_t, i8)
RG_INTEGER_FUNCTIONS(uint8_t, uint32_t, u8)
#pragma GCC diagnostic pop
#undef RG_INTEGER_FUNCTIONS

/* -- Floats --------------------------------------------------------------------- */

/* T: the lane; f: the suffix of the C library's functions. */
#define RG_FLOAT_FUNCTIONS(T, lane, f)                                         \
  static inline T neg_##lane(T x)                                              \
  {                                                                            \
    return -x;                                                                 \
  }                                                                            \
  static inline T abs_##lane(T x)                                              \
  {                                                                            \
    return fabs##f(x);                                                         \
  }                                                                            \
  static inline T sign_##lane(T x)                                             \
  {                                                                            \
    return x > 0 ? (T)1 : x < 0 ? (T)-1 : x == 0 ? (T)0 : x;                   \
  }                                                                            \
  static inline T square_##lane(T x)                                           \
  {                                                                            \
    return x * x;                                                              \
  }                                                                            \
  static inline T relu_##lane(T x)                                             \
  {                                                                            \
    return x < 0 ? (T)0 : x; /* written so that nan goes through */            \
  }                                                                            \
  static inline T floor_##lane(T x)                                            \
  {                                                                            \
    return floor##f(x);                                                        \
  }                                                                            \
  static inline T ceil_##lane(T x)                                             \
  {                                                                            \
    return ceil##f(x);                                                         \
  }                                                                            \
  static inline T round_##lane(T x)                                            \
  {                                                                            \
    return rint##f(x);                                                         \
  }                                                                            \
  static inline T sqrt_##lane(T x)                                             \
  {                                                                            \
    return sqrt##f(x);                                                         \
  }                                                                            \
  static inline T rsqrt_##lane(T x)                                            \
  {                                                                            \
    return (T)1 / sqrt##f(x);                                                  \
  }                                                                            \
  static inline T reciprocal_##lane(T x)                                       \
  {                                                                            \
    return (T)1 / x;                                                           \
  }                                                                            \
  static inline T exp_##lane(T x)                                              \
  {                                                                            \
    return exp##f(x);                                                          \
  }                                                                            \
  static inline T log_##lane(T x)                                              \
  {                                                                            \
    return log##f(x);                                                          \
  }                                                                            \
  static inline T log1p_##lane(T x)                                            \
  {                                                                            \
    return log1p##f(x);                                                        \
  }                                                                            \
  static inline T sin_##lane(T x)                                              \
  {                                                                            \
    return sin##f(x);                                                          \
  }                                                                            \
  static inline T cos_##lane(T x)                                              \
  {                                                                            \
    return cos##f(x);                                                          \
  }                                                                            \
  static inline T tanh_##lane(T x)                                             \
  {                                                                            \
    return tanh##f(x);                                                         \
  }                                                                            \
  static inline T erf_##lane(T x)                                              \
  {                                                                            \
    return erf##f(x);                                                          \
  }                                                                            \
  static inline T sigmoid_##lane(T x)                                          \
  {                                                                            \
    return (T)1 / ((T)1 + exp##f(-x));                                         \
  }                                                                            \
  static inline T gelu_##lane(T x)                                             \
  {                                                                            \
    return (T)0.5 * x * ((T)1 + erf##f(x * (T)0.70710678118654752440));        \
  }                                                                            \
  static inline T silu_##lane(T x)                                             \
  {                                                                            \
    return x / ((T)1 + exp##f(-x));                                            \
  }                                                                            \
  static inline T softplus_##lane(T x) /* the larger part outside: no overflow */ \
  {                                                                            \
    return (x < 0 ? (T)0 : x) + log1p##f(exp##f(-fabs##f(x)));                 \
  }

RG_FLOAT_FUNCTIONS(float, f32, f)
RG_FLOAT_FUNCTIONS(double, f64, )
#undef RG_FLOAT_FUNCTIONS

#endif
