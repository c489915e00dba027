/* SPDX-License-Identifier: MIT */
/*
** What becomes of the elements that ranks bring: added up or multiplied in the order of the ranks,
** in a wider type where there is one, and rounded once.
*/
#include <math.h>
#include <string.h>

#include "dist/group.h"
#include "tensor/half.h"

/* Elements that are computed at a time: three such blocks lie in L1. */
enum { BLOCK = 512 };

/* -- Blocks in the type that is computed in -------------------------------------------------- */

static void load_f32(int32_t dtype, const void *from, int64_t at, int32_t n, float *to)
{
  if (dtype == RG_F32) {
    memcpy(to, (const float *)from + at, (size_t)n * sizeof(float));
    return;
  }
  for (int32_t i = 0; i < n; i++) {
    uint16_t h = ((const uint16_t *)from)[at + i];

    to[i] = dtype == RG_F16 ? rg_f16_to_f32(h) : rg_bf16_to_f32(h);
  }
}

static void store_f32(int32_t dtype, const float *from, void *to, int64_t at, int32_t n)
{
  if (dtype == RG_F32) {
    memcpy((float *)to + at, from, (size_t)n * sizeof(float));
    return;
  }
  for (int32_t i = 0; i < n; i++) {
    ((uint16_t *)to)[at + i] = dtype == RG_F16 ? rg_f16_of_f32(from[i]) : rg_bf16_of_f32(from[i]);
  }
}

static void load_f64(int32_t dtype, const void *from, int64_t at, int32_t n, double *to)
{
  (void)dtype;
  memcpy(to, (const double *)from + at, (size_t)n * sizeof(double));
}

static void store_f64(int32_t dtype, const double *from, void *to, int64_t at, int32_t n)
{
  (void)dtype;
  memcpy((double *)to + at, from, (size_t)n * sizeof(double));
}

static void load_i64(int32_t dtype, const void *from, int64_t at, int32_t n, int64_t *to)
{
  for (int32_t i = 0; i < n; i++) {
    int64_t j = at + i;

    to[i] = dtype == RG_I64   ? ((const int64_t *)from)[j]
            : dtype == RG_I32 ? ((const int32_t *)from)[j]
            : dtype == RG_I8  ? ((const int8_t *)from)[j]
                              : ((const uint8_t *)from)[j];
  }
}

static void store_i64(int32_t dtype, const int64_t *from, void *to, int64_t at, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    int64_t j = at + i;

    switch (dtype) {
    case RG_I64:
      ((int64_t *)to)[j] = from[i];
      break;
    case RG_I32:
      ((int32_t *)to)[j] = (int32_t)from[i];
      break;
    case RG_I8:
      ((int8_t *)to)[j] = (int8_t)from[i];
      break;
    default:
      ((uint8_t *)to)[j] = (uint8_t)from[i];
      break;
    }
  }
}

/* -- A block --------------------------------------------------------------------------------- */

/* Whole numbers are added and multiplied without a sign, so that what is too large wraps as it does
** in tensors.  Of a zero of each sign -0 is the smaller one, whichever comes first: so it is on
** devices, which compare bits. */
#define ADD_FLOAT(a, x, share)     ((a) + (x))
#define ADD_WHOLE(a, x, share)     ((int64_t)((uint64_t)(a) + (uint64_t)(x)))
#define ADD_SHARE(a, x, share)     ((a) + (share) * (x))
#define TIMES_FLOAT(a, x, share)   ((a) * (x))
#define TIMES_WHOLE(a, x, share)   ((int64_t)((uint64_t)(a) * (uint64_t)(x)))
#define TIE(a, x, keeps)           ((a) == (x) && (keeps)) /* of zeros */
#define LARGER_FLOAT(a, x, share)  (isnan(a) || (a) > (x) || TIE(a, x, !signbit(a)) ? (a) : (x))
#define SMALLER_FLOAT(a, x, share) (isnan(a) || (a) < (x) || TIE(a, x, signbit(a)) ? (a) : (x))
#define LARGER_WHOLE(a, x, share)  ((a) > (x) ? (a) : (x))
#define SMALLER_WHOLE(a, x, share) ((a) < (x) ? (a) : (x))
#define LOOP(n, combine, a, x, w)        \
  for (int32_t i = 0; i < (n); i++) {    \
    (a)[i] = combine((a)[i], (x)[i], w); \
  }

/* clang-format off */
#define BLOCKS_OF_FLOATS(name, lane, load, store)                                                 \
  static void name(int32_t op, int32_t dtype, const void *const *parts, const double *weights,    \
                   double all, int32_t n, int64_t at, int32_t m, void *out)                       \
  {                                                                                               \
    lane sum[BLOCK];                                                                              \
    lane x[BLOCK];                                                                                \
                                                                                                  \
    if (op == RG_GROUP_WEIGHTED) {                                                                \
      memset(sum, 0, sizeof(sum));                                                                \
    } else {                                                                                      \
      load(dtype, parts[0], at, m, sum);                                                          \
    }                                                                                             \
    for (int32_t r = op == RG_GROUP_WEIGHTED ? 0 : 1; r < n; r++) {                               \
      lane share = op == RG_GROUP_WEIGHTED && all > 0 ? (lane)(weights[r] / all) : 0;             \
                                                                                                  \
      if (op == RG_GROUP_WEIGHTED && !(weights[r] > 0)) continue;                                 \
      load(dtype, parts[r], at, m, x);                                                            \
      if (op == RG_GROUP_WEIGHTED) {                                                              \
        LOOP(m, ADD_SHARE, sum, x, share)                                                         \
      } else if (op == RG_GROUP_MAX) {                                                            \
        LOOP(m, LARGER_FLOAT, sum, x, 0)                                                          \
      } else if (op == RG_GROUP_MIN) {                                                            \
        LOOP(m, SMALLER_FLOAT, sum, x, 0)                                                         \
      } else if (op == RG_GROUP_PROD) {                                                           \
        LOOP(m, TIMES_FLOAT, sum, x, 0)                                                           \
      } else {                                                                                    \
        LOOP(m, ADD_FLOAT, sum, x, 0)                                                             \
      }                                                                                           \
    }                                                                                             \
    for (int32_t i = 0; i < m && op == RG_GROUP_MEAN; i++) {                                      \
      sum[i] /= (lane)n;                                                                          \
    }                                                                                             \
    store(dtype, sum, out, at, m);                                                                \
  }
/* clang-format on */
BLOCKS_OF_FLOATS(block_f32, float, load_f32, store_f32)
BLOCKS_OF_FLOATS(block_f64, double, load_f64, store_f64)

static void block_i64(int32_t op, int32_t dtype, const void *const *parts, int32_t n, int64_t at,
                      int32_t m, void *out)
{
  int64_t sum[BLOCK];
  int64_t x[BLOCK];

  load_i64(dtype, parts[0], at, m, sum);
  for (int32_t r = 1; r < n; r++) {
    load_i64(dtype, parts[r], at, m, x);
    if (op == RG_GROUP_MAX) {
      LOOP(m, LARGER_WHOLE, sum, x, 0)
    } else if (op == RG_GROUP_MIN) {
      LOOP(m, SMALLER_WHOLE, sum, x, 0)
    } else if (op == RG_GROUP_PROD) {
      LOOP(m, TIMES_WHOLE, sum, x, 0)
    } else {
      LOOP(m, ADD_WHOLE, sum, x, 0)
    }
  }
  store_i64(dtype, sum, out, at, m);
}

void rg_group_reduce(int32_t op, int32_t dtype, const void *const *parts, const double *weights,
                     int32_t n, int64_t count, void *out)
{
  double all = 0;

  for (int32_t r = 0; r < n; r++) {
    all += weights[r];
  }
  for (int64_t at = 0; at < count; at += BLOCK) {
    int32_t m = (int32_t)(count - at < BLOCK ? count - at : BLOCK);

    if (dtype == RG_F64) {
      block_f64(op, dtype, parts, weights, all, n, at, m, out);
    } else if ((rg_dtype_kind(dtype) & (RG_KIND_FLOAT | RG_KIND_HALF)) != 0) {
      block_f32(op, dtype, parts, weights, all, n, at, m, out);
    } else {
      block_i64(op, dtype, parts, n, at, m, out);
    }
  }
}
