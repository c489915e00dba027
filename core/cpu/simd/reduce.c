/* SPDX-License-Identifier: MIT */
/*
** One value out of a run: sum, product, maximum, minimum; and the exponentials of softmax.
**
** Thirty-two partial results stand side by side and are joined pairwise at the end, in an order
** that depends on the length alone: the same bits from every instruction set and any number of
** threads.
*/
#include <string.h>

#include "cpu/simd/simd.h"
#include "cpu/vec_unary.h"

enum { WIDTH = 32, BLOCK = 16 };

/* -- Folds ------------------------------------------------------------------------- */

/* first: what a partial result begins with; what: the join of x and y.  n is at least 1. */
#define FOLD(name, lane, T, first, what)                         \
  static void name##_##lane(void *to, const void *a, int64_t n)  \
  {                                                              \
    const T *from = a;                                           \
    T part[WIDTH];                                               \
    int64_t whole = n & -WIDTH;                                  \
    int64_t width = WIDTH;                                       \
                                                                 \
    for (int64_t l = 0; l < WIDTH; l++) {                        \
      part[l] = (first);                                         \
    }                                                            \
    for (int64_t i = 0; i < whole; i += WIDTH) {                 \
      for (int64_t l = 0; l < WIDTH; l++) {                      \
        T x = part[l];                                           \
        T y = from[i + l];                                       \
        part[l] = (what);                                        \
      }                                                          \
    }                                                            \
    for (int64_t l = 0; l < n - whole; l++) {                    \
      T x = part[l];                                             \
      T y = from[whole + l];                                     \
      part[l] = (what);                                          \
    }                                                            \
    while (width / 2 >= n) { /* nothing in the upper half yet */ \
      width /= 2;                                                \
    }                                                            \
    for (width /= 2; width > 0; width /= 2) {                    \
      for (int64_t l = 0; l < width; l++) {                      \
        T x = part[l];                                           \
        T y = part[l + width];                                   \
        part[l] = (what);                                        \
      }                                                          \
    }                                                            \
    *(T *)to = part[0];                                          \
  }

/* nan wins: a comparison with it is false, so it has to be looked for */
#define LARGER              (x != x ? x : x > y ? x : y)
#define SMALLER             (x != x ? x : x < y ? x : y)
#define WRAPPED(T, U, sign) ((T)((U)x sign(U) y))

#define FOLD_EXTREMES(NAME, lane, T)  \
  FOLD(max, lane, T, from[0], LARGER) \
  FOLD(min, lane, T, from[0], SMALLER)

FOLD(sum, f32, float, 0, x + y)
FOLD(sum, f64, double, 0, x + y)
FOLD(sum, i64, int64_t, 0, WRAPPED(int64_t, uint64_t, +))
FOLD(prod, f32, float, 1, x *y)
FOLD(prod, f64, double, 1, x *y)
FOLD(prod, i64, int64_t, 1, WRAPPED(int64_t, uint64_t, *))
RG_LANE_LIST(FOLD_EXTREMES)

/* -- Exponentials ---------------------------------------------------------------------- */

/* Whole blocks only, so that an element's bits do not depend on its place (see unary.c). */
#define EXP_SHIFTED(lane, T)                                                       \
  static void exp_shifted_##lane(void *y, const void *a, const void *b, int64_t n) \
  {                                                                                \
    T *to = y;                                                                     \
    const T *x = a;                                                                \
    T shift = *(const T *)b;                                                       \
    int64_t whole = n & -BLOCK;                                                    \
                                                                                   \
    RG_INDEPENDENT for (int64_t i = 0; i < whole; i++)                             \
    {                                                                              \
      to[i] = exp_##lane(x[i] - shift);                                            \
    }                                                                              \
    if (whole < n) {                                                               \
      T rest[BLOCK] = { 0 };                                                       \
      size_t bytes = (size_t)(n - whole) * sizeof(T);                              \
                                                                                   \
      memcpy(rest, x + whole, bytes);                                              \
      exp_shifted_##lane(rest, rest, b, BLOCK);                                    \
      memcpy(to + whole, rest, bytes);                                             \
    }                                                                              \
  }

EXP_SHIFTED(f32, float)
EXP_SHIFTED(f64, double)

/* -- Table ----------------------------------------------------------------------------- */

#define ROW_MAX(NAME, lane, T) [RG_LANE_##NAME] = max_##lane,
#define ROW_MIN(NAME, lane, T) [RG_LANE_##NAME] = min_##lane,

extern const rg_simd_reduce RG_SIMD_NAME(rg_simd_reduce);
const rg_simd_reduce RG_SIMD_NAME(rg_simd_reduce) = {
  .fold = {
    [RG_FOLD_SUM] = { [RG_LANE_F32] = sum_f32, [RG_LANE_F64] = sum_f64, [RG_LANE_I64] = sum_i64 },
    [RG_FOLD_PROD] = { [RG_LANE_F32] = prod_f32, [RG_LANE_F64] = prod_f64,
                       [RG_LANE_I64] = prod_i64 },
    [RG_FOLD_MAX] = { RG_LANE_LIST(ROW_MAX) },
    [RG_FOLD_MIN] = { RG_LANE_LIST(ROW_MIN) },
  },
  .exp_shifted = { exp_shifted_f32, exp_shifted_f64 },
};
