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

/* From the result y of the activation, or from what went into it, z (gelu, silu). */
#define SLOPES(lane, T)                                                         \
  static inline T relu_slope_##lane(T y)                                        \
  {                                                                             \
    return y > 0 ? (T)1 : (T)0;                                                 \
  }                                                                             \
  static inline T tanh_slope_##lane(T y)                                        \
  {                                                                             \
    return 1 - y * y;                                                           \
  }                                                                             \
  static inline T sigmoid_slope_##lane(T y)                                     \
  {                                                                             \
    return y * (1 - y);                                                         \
  }                                                                             \
  static inline T silu_slope_##lane(T z) /* s (1 + z (1 - s)), s the sigmoid */ \
  {                                                                             \
    T s = sigmoid_##lane(z);                                                    \
                                                                                \
    return s * (1 + z * (1 - s));                                               \
  }                                                                             \
  /* (1 + erf(z / sqrt 2)) / 2 + z exp(-z^2 / 2) / sqrt(2 pi) */                \
  static inline T gelu_slope_##lane(T z)                                        \
  {                                                                             \
    T density = (T)(M_2_SQRTPI * M_SQRT1_2 / 2) * exp_##lane((T)-0.5 * z * z);  \
                                                                                \
    return (T)0.5 * (1 + erf_##lane(z * (T)M_SQRT1_2)) + z * density;           \
  }

SLOPES(f32, float)
SLOPES(f64, double)

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

BOTH(relu)
BOTH(tanh)
BOTH(sigmoid)
BOTH(silu)
BOTH(gelu)

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

extern const rg_simd_act RG_SIMD_NAME(rg_simd_act);
const rg_simd_act RG_SIMD_NAME(rg_simd_act) = {
  .back = { [RG_ACT_RELU] = ROW(relu),
            [RG_ACT_GELU] = ROW(gelu),
            [RG_ACT_SILU] = ROW(silu),
            [RG_ACT_TANH] = ROW(tanh),
            [RG_ACT_SIGMOID] = ROW(sigmoid) },
};
