/* SPDX-License-Identifier: MIT */
/*
** The table of element types.
*/
#include "tensor/dtype.h"

#include <math.h>

#include "tensor/tensor.h"

/* -- Conversions, by kind ---------------------------------------------------------- */

/* Truncate, saturate, nan to 0: the rule of rg_cast. */
static int64_t to_integer(double v, int64_t least, int64_t most)
{
  if (isnan(v)) {
    return 0;
  }
  v = trunc(v);
  return v >= 0x1p63 || v > (double)most ? most : v < (double)least ? least : (int64_t)v;
}

#define GET_FLOAT(name, x)  (double)(x)
#define GET_HALF(name, x)   (double)rg_##name##_to_f32(x)
#define GET_STORED(name, x) (double)rg_##name##_to_f32(x)
#define GET_WHOLE(name, x)  (double)(x)
#define GET_LOGIC(name, x)  (double)(x)

#define SET_FLOAT(name, stored, x, least, most)  (stored)(x)
#define SET_HALF(name, stored, x, least, most)   rg_##name##_of_f32(rg_f32_odd_of_f64(x))
#define SET_STORED(name, stored, x, least, most) rg_##name##_of_f32(rg_f32_odd_of_f64(x))
#define SET_WHOLE(name, stored, x, least, most)  (stored) to_integer(x, least, most)
#define SET_LOGIC(name, stored, x, least, most)  (stored)((x) != 0.0)

#define LOOPS(code, name, stored, kind, lane, rank, least, most)          \
  static void name##_get(const void *from, double *to, int64_t n)         \
  {                                                                       \
    for (int64_t i = 0; i < n; i++) {                                     \
      to[i] = GET_##kind(name, ((const stored *)from)[i]);                \
    }                                                                     \
  }                                                                       \
  static void name##_set(void *to, const double *from, int64_t n)         \
  {                                                                       \
    for (int64_t i = 0; i < n; i++) {                                     \
      ((stored *)to)[i] = SET_##kind(name, stored, from[i], least, most); \
    }                                                                     \
  }
RG_DTYPE_LIST(LOOPS)

/* As f32 and as integers, of the kinds that are such. */
#define OF_F32_FLOAT(name, stored, x) (stored)(x)
#define OF_F32_HALF(name, stored, x)  rg_##name##_of_f32(x)
#define TO_F32_FLOAT(name, x)         (float)(x)
#define TO_F32_HALF(name, x)          rg_##name##_to_f32(x)

#define SINGLE(name, stored, kind)                                   \
  static float name##_get_f32(const void *from)                      \
  {                                                                  \
    return TO_F32_##kind(name, *(const stored *)from);               \
  }                                                                  \
  static void name##_set_f32(void *to, const float *from, int64_t n) \
  {                                                                  \
    for (int64_t i = 0; i < n; i++) {                                \
      ((stored *)to)[i] = OF_F32_##kind(name, stored, from[i]);      \
    }                                                                \
  }
#define ONE_FLOAT(name, stored)  SINGLE(name, stored, FLOAT)
#define ONE_HALF(name, stored)   SINGLE(name, stored, HALF)
#define ONE_STORED(name, stored) SINGLE(name, stored, HALF)
#define ONE_WHOLE(name, stored)                                                    \
  static void name##_whole(const void *from, int64_t step, int64_t *to, int64_t n) \
  {                                                                                \
    for (int64_t i = 0; i < n; i++) {                                              \
      to[i] = ((const stored *)from)[i * step];                                    \
    }                                                                              \
  }
#define ONE_LOGIC(name, stored)                  ONE_WHOLE(name, stored)
#define ONE(code, name, stored, kind, lane, ...) ONE_##kind(name, stored)
RG_DTYPE_LIST(ONE)

/* -- The table ---------------------------------------------------------------------- */

#define HAS_FLOAT(name)  .get_f32 = name##_get_f32, .set_f32 = name##_set_f32,
#define HAS_HALF(name)   HAS_FLOAT(name)
#define HAS_STORED(name) HAS_FLOAT(name)
#define HAS_WHOLE(name)  .whole = name##_whole,
#define HAS_LOGIC(name)  HAS_WHOLE(name)

#define ROW(code, id, type, of, lane, its_rank, low, high) \
  [code] = { .name = #id,                                  \
             .stored = #type,                              \
             .bytes = sizeof(type),                        \
             .kind = RG_KIND_##of,                         \
             .rank = its_rank,                             \
             .least = low,                                 \
             .most = high,                                 \
             .get = id##_get,                              \
             .set = id##_set,                              \
             HAS_##of(id) },

const rg_dtype rg_dtypes[RG_DTYPE_COUNT] = { RG_DTYPE_LIST(ROW) };

#define SIZE(code, name, stored, ...) [code] = sizeof(stored),
const int8_t rg_dtype_sizes[RG_DTYPE_COUNT] = { RG_DTYPE_LIST(SIZE) };

/* -- Asked from outside --------------------------------------------------------------- */

static bool known(int32_t dtype)
{
  return dtype >= 0 && dtype < RG_DTYPE_COUNT;
}

int64_t rg_dtype_bytes(int32_t dtype)
{
  return known(dtype) ? rg_dtypes[dtype].bytes : 0;
}

const char *rg_dtype_name(int32_t dtype)
{
  return known(dtype) ? rg_dtypes[dtype].name : "?";
}

const char *rg_dtype_stored(int32_t dtype)
{
  return known(dtype) ? rg_dtypes[dtype].stored : "?";
}

int32_t rg_dtype_kind(int32_t dtype)
{
  return known(dtype) ? rg_dtypes[dtype].kind : 0;
}
