/* SPDX-License-Identifier: MIT */
/*
** Loops of the unary elementwise functions.
**
** A function of the C library gives slightly different bits in its vector and its scalar form, and
** the compiler uses the scalar one for what is left over at the end of a loop.  So that the value
** of an element does not depend on where it stands, those loops run over whole blocks and the rest
** is padded to one.
*/
#include <string.h>

#include "cpu/simd/simd.h"
#include "cpu/vec_unary.h"

enum { BLOCK = 16 }; /* elements in the widest vector */

/* -- Loops ------------------------------------------------------------------------ */

#define LOOP(name, lane, T, R)                                                       \
  static void name##_##lane##_loop(void *y, const void *a, const void *b, int64_t n) \
  {                                                                                  \
    R *to = y;                                                                       \
    const T *x = a;                                                                  \
                                                                                     \
    (void)b;                                                                         \
    RG_INDEPENDENT for (int64_t i = 0; i < n; i++)                                   \
    {                                                                                \
      to[i] = name##_##lane(x[i]);                                                   \
    }                                                                                \
  }

#define BLOCK_LOOP(name, lane, T)                                                    \
  static void name##_##lane##_loop(void *y, const void *a, const void *b, int64_t n) \
  {                                                                                  \
    T *to = y;                                                                       \
    const T *x = a;                                                                  \
    int64_t whole = n & -BLOCK;                                                      \
                                                                                     \
    RG_INDEPENDENT for (int64_t i = 0; i < whole; i++)                               \
    {                                                                                \
      to[i] = name##_##lane(x[i]);                                                   \
    }                                                                                \
    if (whole < n) {                                                                 \
      T rest[BLOCK] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };            \
      size_t bytes = (size_t)(n - whole) * sizeof(T);                                \
                                                                                     \
      memcpy(rest, x + whole, bytes);                                                \
      name##_##lane##_loop(rest, rest, b, BLOCK);                                    \
      memcpy(to + whole, rest, bytes);                                               \
    }                                                                                \
  }

#define DEFINE_EXACT(name)          \
  LOOP(name, f32, float, float)     \
  LOOP(name, f64, double, double)   \
  LOOP(name, i64, int64_t, int64_t) \
  LOOP(name, i32, int32_t, int32_t) \
  LOOP(name, i8, int8_t, int8_t)    \
  LOOP(name, u8, uint8_t, uint8_t)

#define DEFINE_INTEGER(name)        \
  LOOP(name, i64, int64_t, int64_t) \
  LOOP(name, i32, int32_t, int32_t) \
  LOOP(name, i8, int8_t, int8_t)    \
  LOOP(name, u8, uint8_t, uint8_t)

#define DEFINE_TRUTH(name)          \
  LOOP(name, f32, float, uint8_t)   \
  LOOP(name, f64, double, uint8_t)  \
  LOOP(name, i64, int64_t, uint8_t) \
  LOOP(name, i32, int32_t, uint8_t) \
  LOOP(name, i8, int8_t, uint8_t)   \
  LOOP(name, u8, uint8_t, uint8_t)

#define DEFINE_FLOAT(name)     \
  BLOCK_LOOP(name, f32, float) \
  BLOCK_LOOP(name, f64, double)

#define DEFINE(NAME, name, help, class) DEFINE_##class(name)
RG_UNARY_LIST(DEFINE)

/* -- Table ------------------------------------------------------------------------ */

#define ROW_EXACT(name)                                               \
  {                                                                   \
    [RG_LANE_F32] = name##_f32_loop, [RG_LANE_F64] = name##_f64_loop, \
    [RG_LANE_I64] = name##_i64_loop, [RG_LANE_I32] = name##_i32_loop, \
    [RG_LANE_I8] = name##_i8_loop, [RG_LANE_U8] = name##_u8_loop      \
  }
#define ROW_TRUTH(name) ROW_EXACT(name)
#define ROW_INTEGER(name)                                             \
  {                                                                   \
    [RG_LANE_I64] = name##_i64_loop, [RG_LANE_I32] = name##_i32_loop, \
    [RG_LANE_I8] = name##_i8_loop, [RG_LANE_U8] = name##_u8_loop      \
  }
#define ROW_FLOAT(name)                                              \
  {                                                                  \
    [RG_LANE_F32] = name##_f32_loop, [RG_LANE_F64] = name##_f64_loop \
  }
#define ROW(NAME, name, help, class) [RG_OP_##NAME - RG_OP_NEG] = ROW_##class(name),

extern const rg_simd_unary RG_SIMD_NAME(rg_simd_unary);
const rg_simd_unary RG_SIMD_NAME(rg_simd_unary) = { .loop = { RG_UNARY_LIST(ROW) } };
