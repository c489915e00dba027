/* SPDX-License-Identifier: MIT */
/*
** Loops of the binary elementwise functions, each in three forms: two runs, a run and one number,
** one number and a run.  Integers wrap around.
*/
#include <string.h>

#include "cpu/simd/simd.h"
#include "cpu/vec_unary.h" /* the vector forms of the C library */

/* -- Functions ---------------------------------------------------------------------- */

/* Functions, because vector loops are shorter where both sides are computed. */
static inline float select_f32(bool c, float a, float b)
{
  return c ? a : b;
}
static inline double select_f64(bool c, double a, double b)
{
  return c ? a : b;
}

#define FUNCTION(name, lane, wide, ...)   \
  static inline lane name(lane x, lane y) \
  {                                       \
    typedef lane T;                       \
    typedef wide U;                       \
    (void)sizeof(U);                      \
    return (T)(__VA_ARGS__);              \
  }
#define OF_I64(NAME, name, ...) FUNCTION(name##_i64, int64_t, uint64_t, __VA_ARGS__)
#define OF_I32(NAME, name, ...) FUNCTION(name##_i32, int32_t, uint32_t, __VA_ARGS__)
#define OF_I8(NAME, name, ...)  FUNCTION(name##_i8, int8_t, uint32_t, __VA_ARGS__)
#define OF_U8(NAME, name, ...)  FUNCTION(name##_u8, uint8_t, uint32_t, __VA_ARGS__)
#define OF_F32(NAME, name, ...) FUNCTION(name##_f32, float, float, __VA_ARGS__)
#define OF_F64(NAME, name, ...) FUNCTION(name##_f64, double, double, __VA_ARGS__)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits" /* u8 is never below 0 */
RG_BINARY_INTEGER_FORMULAS(OF_I64)
RG_BINARY_INTEGER_FORMULAS(OF_I32)
RG_BINARY_INTEGER_FORMULAS(OF_I8)
RG_BINARY_INTEGER_FORMULAS(OF_U8)
#pragma GCC diagnostic pop
RG_BINARY_FORMULAS(OF_F32, RG_LIBRARY_F32, powf, select_f32)
RG_BINARY_FORMULAS(OF_F64, RG_LIBRARY_F64, pow, select_f64)

/* -- Loops ---------------------------------------------------------------------------- */

/* R: the result's type; what: the value of one element from x and y. */
#define LOOPS(name, lane, T, R, what)                                              \
  static void name##_##lane##_rr(void *z, const void *a, const void *b, int64_t n) \
  {                                                                                \
    R *to = z;                                                                     \
    const T *p = a;                                                                \
    const T *q = b;                                                                \
    RG_INDEPENDENT for (int64_t i = 0; i < n; i++)                                 \
    {                                                                              \
      T x = p[i];                                                                  \
      T y = q[i];                                                                  \
      to[i] = what;                                                                \
    }                                                                              \
  }                                                                                \
  static void name##_##lane##_ro(void *z, const void *a, const void *b, int64_t n) \
  {                                                                                \
    R *to = z;                                                                     \
    const T *p = a;                                                                \
    T y = *(const T *)b;                                                           \
    RG_INDEPENDENT for (int64_t i = 0; i < n; i++)                                 \
    {                                                                              \
      T x = p[i];                                                                  \
      to[i] = what;                                                                \
    }                                                                              \
  }                                                                                \
  static void name##_##lane##_or(void *z, const void *a, const void *b, int64_t n) \
  {                                                                                \
    R *to = z;                                                                     \
    T x = *(const T *)a;                                                           \
    const T *q = b;                                                                \
    RG_INDEPENDENT for (int64_t i = 0; i < n; i++)                                 \
    {                                                                              \
      T y = q[i];                                                                  \
      to[i] = what;                                                                \
    }                                                                              \
  }

#define DEFINE_ARITH(name)                             \
  LOOPS(name, f32, float, float, name##_f32(x, y))     \
  LOOPS(name, f64, double, double, name##_f64(x, y))   \
  LOOPS(name, i64, int64_t, int64_t, name##_i64(x, y)) \
  LOOPS(name, i32, int32_t, int32_t, name##_i32(x, y)) \
  LOOPS(name, i8, int8_t, int8_t, name##_i8(x, y))     \
  LOOPS(name, u8, uint8_t, uint8_t, name##_u8(x, y))

#define DEFINE_RATIO(name)                         \
  LOOPS(name, f32, float, float, name##_f32(x, y)) \
  LOOPS(name, f64, double, double, name##_f64(x, y))

#define DEFINE_COMPARE(NAME, name, ...)           \
  LOOPS(name, f32, float, uint8_t, __VA_ARGS__)   \
  LOOPS(name, f64, double, uint8_t, __VA_ARGS__)  \
  LOOPS(name, i64, int64_t, uint8_t, __VA_ARGS__) \
  LOOPS(name, i32, int32_t, uint8_t, __VA_ARGS__) \
  LOOPS(name, i8, int8_t, uint8_t, __VA_ARGS__)   \
  LOOPS(name, u8, uint8_t, uint8_t, __VA_ARGS__)

#define DEFINE_INTEGER(name)                           \
  LOOPS(name, i64, int64_t, int64_t, name##_i64(x, y)) \
  LOOPS(name, i32, int32_t, int32_t, name##_i32(x, y)) \
  LOOPS(name, i8, int8_t, int8_t, name##_i8(x, y))     \
  LOOPS(name, u8, uint8_t, uint8_t, name##_u8(x, y))

DEFINE_ARITH(add)
DEFINE_ARITH(sub)
DEFINE_ARITH(mul)
DEFINE_ARITH(maximum)
DEFINE_ARITH(minimum)
DEFINE_ARITH(trunc_divide)
DEFINE_RATIO(div)
DEFINE_RATIO(prelu)
DEFINE_RATIO(threshold)
DEFINE_INTEGER(bitwise_and)
DEFINE_INTEGER(bitwise_or)
DEFINE_INTEGER(bitwise_xor)
DEFINE_INTEGER(bitwise_left_shift)
DEFINE_INTEGER(bitwise_right_shift)
RG_COMPARE_FORMULAS(DEFINE_COMPARE)

/* -- Functions of the C library ----------------------------------------------------------- */

/* Whole blocks only, so that an element's bits do not depend on its place (see unary.c). */
enum { BLOCK = 16 };

#define BLOCK_LOOP(name, lane, T, form, moves_a, moves_b)                              \
  static void name##_##lane##_##form(void *z, const void *a, const void *b, int64_t n) \
  {                                                                                    \
    int64_t whole = n & -BLOCK;                                                        \
    size_t bytes = (size_t)(n - whole) * sizeof(T);                                    \
                                                                                       \
    name##_block_##lane##_##form(z, a, b, whole);                                      \
    if (whole < n) {                                                                   \
      T x[BLOCK] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };                 \
      T y[BLOCK] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };                 \
                                                                                       \
      memcpy(x, (const T *)a + (moves_a ? whole : 0), moves_a ? bytes : sizeof(T));    \
      memcpy(y, (const T *)b + (moves_b ? whole : 0), moves_b ? bytes : sizeof(T));    \
      name##_block_##lane##_##form(x, x, y, BLOCK);                                    \
      memcpy((T *)z + whole, x, bytes);                                                \
    }                                                                                  \
  }

#define BLOCK_LOOPS(name, lane, T)                     \
  LOOPS(name##_block, lane, T, T, name##_##lane(x, y)) \
  BLOCK_LOOP(name, lane, T, rr, 1, 1)                  \
  BLOCK_LOOP(name, lane, T, ro, 1, 0)                  \
  BLOCK_LOOP(name, lane, T, or, 0, 1)
#define DEFINE_BLOCKS(name)     \
  BLOCK_LOOPS(name, f32, float) \
  BLOCK_LOOPS(name, f64, double)

DEFINE_BLOCKS(pow)
DEFINE_BLOCKS(atan2)
DEFINE_BLOCKS(elu)
DEFINE_BLOCKS(celu)

/* -- Remainders --------------------------------------------------------------------------- */

/* Of f32 by way of f64, which is exact where the quotient is below 2^28: it has 53 bits, of which a
** factor takes 24, and the nearest that a quotient comes to a whole number that it is not is 2^-24.
** The C library's takes five times as long; it does what is left. */
static inline float quick_fmodf(float x, float y)
{
  double q = trunc((double)x / (double)y);

  return copysignf((float)((double)x - q * (double)y), x);
}
static inline bool is_quick(float x, float y)
{
  return (fabs((double)x / (double)y) < 0x1p28) & (fabsf(y) <= FLT_MAX);
}

#define QUICK_LIBRARY_fmod        quick_fmodf
#define QUICK_LIBRARY_rint        rintf
#define QUICK_LIBRARY_trunc       truncf
#define QUICK_LIBRARY_atan2       atan2f
#define QUICK_LIBRARY_expm1       expm1f
#define QUICK_LIBRARY(function)   QUICK_LIBRARY_##function
#define OF_QUICK(NAME, name, ...) FUNCTION(name##_quick, float, float, __VA_ARGS__)
RG_BINARY_FORMULAS(OF_QUICK, QUICK_LIBRARY, powf, select_f32)

enum { QUICK = 64 }; /* elements that are looked at together */

#define QUICK_LOOP(name, form, at_a, at_b)                                        \
  static void name##_f32_##form(void *z, const void *a, const void *b, int64_t n) \
  {                                                                               \
    float made[QUICK];                                                            \
                                                                                  \
    for (int64_t begin = 0; begin < n; begin += QUICK) {                          \
      int32_t m = (int32_t)rg_min_i64(QUICK, n - begin);                          \
      const float *p = (const float *)a + (at_a)*begin;                           \
      const float *q = (const float *)b + (at_b)*begin;                           \
      int32_t slow = 0;                                                           \
                                                                                  \
      for (int32_t i = 0; i < m; i++) {                                           \
        made[i] = name##_quick(p[(at_a)*i], q[(at_b)*i]);                         \
        slow |= !is_quick(p[(at_a)*i], q[(at_b)*i]);                              \
      }                                                                           \
      for (int32_t i = 0; slow != 0 && i < m; i++) {                              \
        made[i] = name##_f32(p[(at_a)*i], q[(at_b)*i]);                           \
      }                                                                           \
      memcpy((float *)z + begin, made, (size_t)m * sizeof(float));                \
    }                                                                             \
  }

#define DEFINE_REMAINDER(name)                         \
  QUICK_LOOP(name, rr, 1, 1)                           \
  QUICK_LOOP(name, ro, 1, 0)                           \
  QUICK_LOOP(name, or, 0, 1)                           \
  LOOPS(name, f64, double, double, name##_f64(x, y))   \
  LOOPS(name, i64, int64_t, int64_t, name##_i64(x, y)) \
  LOOPS(name, i32, int32_t, int32_t, name##_i32(x, y)) \
  LOOPS(name, i8, int8_t, int8_t, name##_i8(x, y))     \
  LOOPS(name, u8, uint8_t, uint8_t, name##_u8(x, y))

DEFINE_REMAINDER(remainder)
DEFINE_REMAINDER(fmod)
DEFINE_REMAINDER(floor_divide)

/* -- Table ------------------------------------------------------------------------------ */

#define FORMS(name, lane)                                                           \
  {                                                                                 \
    [RG_FORM_RUN_RUN] = name##_##lane##_rr, [RG_FORM_RUN_ONE] = name##_##lane##_ro, \
    [RG_FORM_ONE_RUN] = name##_##lane##_or                                          \
  }
#define ROW_ARITH(name)                                                 \
  {                                                                     \
    [RG_LANE_F32] = FORMS(name, f32), [RG_LANE_F64] = FORMS(name, f64), \
    [RG_LANE_I64] = FORMS(name, i64), [RG_LANE_I32] = FORMS(name, i32), \
    [RG_LANE_I8] = FORMS(name, i8), [RG_LANE_U8] = FORMS(name, u8)      \
  }
#define ROW_COMPARE(name) ROW_ARITH(name)
#define ROW_INTEGER(name)                                               \
  {                                                                     \
    [RG_LANE_I64] = FORMS(name, i64), [RG_LANE_I32] = FORMS(name, i32), \
    [RG_LANE_I8] = FORMS(name, i8), [RG_LANE_U8] = FORMS(name, u8)      \
  }
#define ROW_RATIO(name)                                                \
  {                                                                    \
    [RG_LANE_F32] = FORMS(name, f32), [RG_LANE_F64] = FORMS(name, f64) \
  }
#define ROW(NAME, name, help, class) [RG_OP_##NAME - RG_OP_ADD] = ROW_##class(name),

extern const rg_simd_binary RG_SIMD_NAME(rg_simd_binary);
const rg_simd_binary RG_SIMD_NAME(rg_simd_binary) = { .loop = { RG_BINARY_LIST(ROW) } };
