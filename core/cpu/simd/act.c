/* SPDX-License-Identifier: MIT */
/*
** Derivatives of activations times the incoming gradient, each in three forms: two runs, a run and
** one number, one number and a run.  Whole blocks, as in unary.c: the value of an element must not
** depend on where it stands.
*/
#include <math.h>
#include <string.h>

#include "cpu/simd/simd.h"
#include "cpu/vec_unary.h"

enum { BLOCK = 16 }; /* elements in the widest vector */

#define SLOPE_F32(NAME, name, ...)              \
  static inline float name##_slope_f32(float x) \
  {                                             \
    typedef float T;                            \
    return (T)(__VA_ARGS__);                    \
  }
#define SLOPE_F64(NAME, name, ...)                \
  static inline double name##_slope_f64(double x) \
  {                                               \
    typedef double T;                             \
    return (T)(__VA_ARGS__);                      \
  }
RG_SLOPE_FORMULAS(SLOPE_F32, RG_LIBRARY_F32, exponential_f32, erff, RG_QUOTIENT)
RG_SLOPE_FORMULAS(SLOPE_F64, RG_LIBRARY_F64, exponential_f64, erf, RG_QUOTIENT)

/* to[i] = dy[i d] slope(x[i s]): d and s are 0 for one number. */
#define LOOP(name, lane, T, form, d, s)                                                \
  static void name##_##lane##_##form(void *y, const void *a, const void *b, int64_t n) \
  {                                                                                    \
    T *to = y;                                                                         \
    const T *dy = a;                                                                   \
    const T *x = b;                                                                    \
    int64_t whole = n & -BLOCK;                                                        \
                                                                                       \
    RG_INDEPENDENT for (int64_t i = 0; i < whole; i++)                                 \
    {                                                                                  \
      to[i] = dy[i * (d)] * name##_slope_##lane(x[i * (s)]);                           \
    }                                                                                  \
    if (whole < n) {                                                                   \
      T first[BLOCK] = { 0 };                                                          \
      T second[BLOCK] = { 0 };                                                         \
      size_t bytes = (size_t)(n - whole) * sizeof(T);                                  \
                                                                                       \
      memcpy(first, dy + whole * (d), (d) != 0 ? bytes : sizeof(T));                   \
      memcpy(second, x + whole * (s), (s) != 0 ? bytes : sizeof(T));                   \
      name##_##lane##_##form(first, first, second, BLOCK);                             \
      memcpy(to + whole, first, bytes);                                                \
    }                                                                                  \
  }

#define FORMS(name, lane, T)         \
  LOOP(name, lane, T, run_run, 1, 1) \
  LOOP(name, lane, T, run_one, 1, 0) \
  LOOP(name, lane, T, one_run, 0, 1)

#define BOTH(name)        \
  FORMS(name, f32, float) \
  FORMS(name, f64, double)

#define ACT(NAME, name) BOTH(name)
RG_ACT_LIST(ACT)

/* -- Table ------------------------------------------------------------------------------- */

#define LANE(name, lane)                                                                      \
  {                                                                                           \
    [RG_FORM_RUN_RUN] = name##_##lane##_run_run, [RG_FORM_RUN_ONE] = name##_##lane##_run_one, \
    [RG_FORM_ONE_RUN] = name##_##lane##_one_run                                               \
  }
#define ROW(name)                    \
  {                                  \
    LANE(name, f32), LANE(name, f64) \
  }

#define ACT_ROW(NAME, name) [RG_ACT_##NAME] = ROW(name),

extern const rg_simd_act RG_SIMD_NAME(rg_simd_act);
const rg_simd_act RG_SIMD_NAME(rg_simd_act) = {
  .back = { RG_ACT_LIST(ACT_ROW) },
};
