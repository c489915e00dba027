/* SPDX-License-Identifier: MIT */
/*
** Loops that convert between lane types, and between f32 and the types narrower than it.
**
** Into integers everything is truncated and saturated, nan becomes 0; the comparisons come before
** the conversion because C does not define what a float out of range converts to.
*/
#include "cpu/simd/simd.h"
#include "tensor/dtype.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

/* -- One element ------------------------------------------------------------------ */

/* S: a float type.  low and end: the range of T, end exclusive, both exact in S. */
#define FLOAT_TO_INTEGER(from, to, S, T, low, end, least, most)                          \
  static inline T from##_to_##to(S x)                                                    \
  {                                                                                      \
    return x >= (S)(end) ? (T)(most) : x < (S)(low) ? (T)(least) : x != x ? (T)0 : (T)x; \
  }

#define FROM_FLOAT(from, S)                                                      \
  FLOAT_TO_INTEGER(from, i64, S, int64_t, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX) \
  FLOAT_TO_INTEGER(from, i32, S, int32_t, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX) \
  FLOAT_TO_INTEGER(from, i8, S, int8_t, -128, 128, INT8_MIN, INT8_MAX)           \
  FLOAT_TO_INTEGER(from, u8, S, uint8_t, 0, 256, 0, UINT8_MAX)                   \
  static inline float from##_to_f32(S x)                                         \
  {                                                                              \
    return (float)x;                                                             \
  }                                                                              \
  static inline double from##_to_f64(S x)                                        \
  {                                                                              \
    return (double)x;                                                            \
  }

FROM_FLOAT(f32, float)
FROM_FLOAT(f64, double)

#define INTEGER_TO_INTEGER(from, to, S, T, least, most)  \
  static inline T from##_to_##to(S x)                    \
  {                                                      \
    int64_t v = x;                                       \
    return (T)(v > (int64_t)(most)    ? (int64_t)(most)  \
               : v < (int64_t)(least) ? (int64_t)(least) \
                                      : v);              \
  }

#define FROM_INTEGER(from, S)                                     \
  INTEGER_TO_INTEGER(from, i64, S, int64_t, INT64_MIN, INT64_MAX) \
  INTEGER_TO_INTEGER(from, i32, S, int32_t, INT32_MIN, INT32_MAX) \
  INTEGER_TO_INTEGER(from, i8, S, int8_t, INT8_MIN, INT8_MAX)     \
  INTEGER_TO_INTEGER(from, u8, S, uint8_t, 0, UINT8_MAX)          \
  static inline float from##_to_f32(S x)                          \
  {                                                               \
    return (float)x;                                              \
  }                                                               \
  static inline double from##_to_f64(S x)                         \
  {                                                               \
    return (double)x;                                             \
  }

FROM_INTEGER(i64, int64_t)
FROM_INTEGER(i32, int32_t)
FROM_INTEGER(i8, int8_t)
FROM_INTEGER(u8, uint8_t)

/* -- Loops -------------------------------------------------------------------------- */

#define LOOP(name, S, T, what)                                              \
  static void name##_loop(void *y, const void *a, const void *b, int64_t n) \
  {                                                                         \
    T *to = y;                                                              \
    const S *p = a;                                                         \
                                                                            \
    (void)b;                                                                \
    RG_INDEPENDENT for (int64_t i = 0; i < n; i++)                          \
    {                                                                       \
      S x = p[i];                                                           \
      to[i] = (T)(what);                                                    \
    }                                                                       \
  }

#define FROM(NAME, from, S)                         \
  LOOP(from##_to_f32, S, float, from##_to_f32(x))   \
  LOOP(from##_to_f64, S, double, from##_to_f64(x))  \
  LOOP(from##_to_i64, S, int64_t, from##_to_i64(x)) \
  LOOP(from##_to_i32, S, int32_t, from##_to_i32(x)) \
  LOOP(from##_to_i8, S, int8_t, from##_to_i8(x))    \
  LOOP(from##_to_u8, S, uint8_t, from##_to_u8(x))   \
  LOOP(from##_to_bool, S, uint8_t, x != 0)
RG_LANE_LIST(FROM)

LOOP(bf16_to_f32, uint16_t, float, rg_bf16_to_f32(x))
LOOP(f32_to_bf16, float, uint16_t, rg_bf16_of_f32(x))
/* Types that are only stored, from their rows (RG_DTYPE_LIST). */
#define STORED_FLOAT(code, name, stored)
#define STORED_HALF(code, name, stored)
#define STORED_WHOLE(code, name, stored)
#define STORED_LOGIC(code, name, stored)
#define STORED_STORED(code, name, stored)                   \
  LOOP(name##_to_f32, stored, float, rg_##name##_to_f32(x)) \
  LOOP(f32_to_##name, float, stored, rg_##name##_of_f32(x))
#define STORED(code, name, stored, kind, ...) STORED_##kind(code, name, stored)
RG_DTYPE_LIST(STORED)
#undef STORED_STORED

LOOP(f64_to_odd, double, float, rg_f32_odd_of_f64(x))
LOOP(f16_to_f32_plain, uint16_t, float, rg_f16_to_f32(x))
LOOP(f32_to_f16_plain, float, uint16_t, rg_f16_of_f32(x))

/* Eight at a time by the instruction for it, the rest by the same rule in C. */
static void f16_to_f32_loop(void *y, const void *a, const void *b, int64_t n)
{
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    __m128i h = _mm_loadu_si128((const __m128i *)((const uint16_t *)a + i));

    _mm256_storeu_ps((float *)y + i, _mm256_cvtph_ps(h));
  }
#endif
  f16_to_f32_plain_loop((float *)y + i, (const uint16_t *)a + i, b, n - i);
}

static void f32_to_f16_loop(void *y, const void *a, const void *b, int64_t n)
{
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps((const float *)a + i), _MM_FROUND_TO_NEAREST_INT);

    _mm_storeu_si128((__m128i *)((uint16_t *)y + i), h);
  }
#endif
  f32_to_f16_plain_loop((uint16_t *)y + i, (const float *)a + i, b, n - i);
}

/* -- Table ---------------------------------------------------------------------------- */

#define ROW(NAME, from, S)                                                                     \
  [RG_LANE_##NAME] = { [RG_LANE_F32] = from##_to_f32_loop, [RG_LANE_F64] = from##_to_f64_loop, \
                       [RG_LANE_I64] = from##_to_i64_loop, [RG_LANE_I32] = from##_to_i32_loop, \
                       [RG_LANE_I8] = from##_to_i8_loop,   [RG_LANE_U8] = from##_to_u8_loop },
#define TO_BOOL(NAME, from, S) [RG_LANE_##NAME] = from##_to_bool_loop,

extern const rg_simd_cast RG_SIMD_NAME(rg_simd_cast);
const rg_simd_cast RG_SIMD_NAME(rg_simd_cast) = {
  .loop = { RG_LANE_LIST(ROW) },
  .to_bool = { RG_LANE_LIST(TO_BOOL) },
#define STORED_STORED(code, name, stored) [code] = name##_to_f32_loop,
  .widen = { [RG_F16] = f16_to_f32_loop, [RG_BF16] = bf16_to_f32_loop, RG_DTYPE_LIST(STORED) },
#undef STORED_STORED
#define STORED_STORED(code, name, stored) [code] = f32_to_##name##_loop,
  .narrow = { [RG_F16] = f32_to_f16_loop, [RG_BF16] = f32_to_bf16_loop, RG_DTYPE_LIST(STORED) },
#undef STORED_STORED
  .f64_to_odd = f64_to_odd_loop,
};
