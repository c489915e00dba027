/* SPDX-License-Identifier: MIT */
/*
** Optimizer steps over a run of one parameter, and the sum of squares.
*/
#include <math.h>

#include "cpu/simd/simd.h"

/* b = momentum b + take g; the first step begins with b = g, which is momentum 0 and take 1. */
#define SGD(lane, T, UNUSED)                                                \
  static void sgd_##lane(void *param, const void *grad, void *const *state, \
                         const rg_step_numbers *c, int64_t n)               \
  {                                                                         \
    T *p = param;                                                           \
    const T *gs = grad;                                                     \
    T *b = state[0];                                                        \
    const T scale = (T)c->scale, decay = (T)c->decay, rate = (T)c->rate;    \
    const T keep = (T)c->beta1, take = (T)c->beta2, ahead = (T)c->ahead;    \
                                                                            \
    if (b == NULL) {                                                        \
      RG_INDEPENDENT for (int64_t i = 0; i < n; i++)                        \
      {                                                                     \
        p[i] -= rate * (scale * gs[i] + decay * p[i]);                      \
      }                                                                     \
      return;                                                               \
    }                                                                       \
    RG_INDEPENDENT for (int64_t i = 0; i < n; i++)                          \
    {                                                                       \
      T g = scale * gs[i] + decay * p[i];                                   \
      T m = keep * b[i] + take * g;                                         \
                                                                            \
      b[i] = m;                                                             \
      /* ahead: Nesterov's momentum, else 0; then the step is m itself */   \
      p[i] -= rate * (c->nesterov ? g + ahead * m : m);                     \
    }                                                                       \
  }

#define ADAM(lane, T, ROOT)                                                          \
  static void adam_##lane(void *param, const void *grad, void *const *state,         \
                          const rg_step_numbers *c, int64_t n)                       \
  {                                                                                  \
    T *p = param;                                                                    \
    const T *gs = grad;                                                              \
    T *m = state[0];                                                                 \
    T *v = state[1];                                                                 \
    T *most = state[2];                                                              \
    const T scale = (T)c->scale, decay = (T)c->decay, shrink = (T)c->shrink;         \
    const T rate = (T)c->rate, root = (T)c->root, eps = (T)c->eps;                   \
    const T beta2 = (T)c->beta2, new1 = (T)(1 - c->beta1), new2 = (T)(1 - c->beta2); \
                                                                                     \
    if (most == NULL) {                                                              \
      RG_INDEPENDENT for (int64_t i = 0; i < n; i++)                                 \
      {                                                                              \
        T g = scale * gs[i] + decay * p[i];                                          \
        T a = m[i] + new1 * (g - m[i]);                                              \
        T b = beta2 * v[i] + new2 * g * g;                                           \
                                                                                     \
        m[i] = a;                                                                    \
        v[i] = b;                                                                    \
        p[i] = shrink * p[i] - rate * (a / (ROOT(b) * root + eps));                  \
      }                                                                              \
      return;                                                                        \
    }                                                                                \
    RG_INDEPENDENT for (int64_t i = 0; i < n; i++)                                   \
    {                                                                                \
      T g = scale * gs[i] + decay * p[i];                                            \
      T a = m[i] + new1 * (g - m[i]);                                                \
      T b = beta2 * v[i] + new2 * g * g;                                             \
      T top = most[i] > b ? most[i] : b;                                             \
                                                                                     \
      m[i] = a;                                                                      \
      v[i] = b;                                                                      \
      most[i] = top;                                                                 \
      p[i] = shrink * p[i] - rate * (a / (ROOT(top) * root + eps));                  \
    }                                                                                \
  }

#define LION(lane, T, UNUSED)                                                \
  static void lion_##lane(void *param, const void *grad, void *const *state, \
                          const rg_step_numbers *c, int64_t n)               \
  {                                                                          \
    T *p = param;                                                            \
    const T *gs = grad;                                                      \
    T *m = state[0];                                                         \
    const T scale = (T)c->scale, shrink = (T)c->shrink, rate = (T)c->rate;   \
    const T new1 = (T)(1 - c->beta1), new2 = (T)(1 - c->beta2);              \
                                                                             \
    RG_INDEPENDENT for (int64_t i = 0; i < n; i++)                           \
    {                                                                        \
      T g = scale * gs[i];                                                   \
      T way = m[i] + new1 * (g - m[i]);                                      \
      T sign = (T)((way > 0) - (way < 0));                                   \
                                                                             \
      m[i] += new2 * (g - m[i]);                                             \
      /* nan has no sign: it has to show */                                  \
      p[i] = shrink * p[i] - rate * (way == way ? sign : way);               \
    }                                                                        \
  }

enum { WIDTH = 16 };

/* Partial sums side by side, joined in their order. */
#define SQUARE_SUM(lane, T, UNUSED)                            \
  static double square_sum_##lane(const void *from, int64_t n) \
  {                                                            \
    const T *x = from;                                         \
    double part[WIDTH] = { 0 };                                \
    double sum = 0;                                            \
    int64_t whole = n & -WIDTH;                                \
                                                               \
    for (int64_t i = 0; i < whole; i += WIDTH) {               \
      for (int64_t l = 0; l < WIDTH; l++) {                    \
        part[l] += (double)x[i + l] * (double)x[i + l];        \
      }                                                        \
    }                                                          \
    for (int64_t i = whole; i < n; i++) {                      \
      part[i - whole] += (double)x[i] * (double)x[i];          \
    }                                                          \
    for (int64_t l = 0; l < WIDTH; l++) {                      \
      sum += part[l];                                          \
    }                                                          \
    return sum;                                                \
  }

#define BOTH(WHAT)        \
  WHAT(f32, float, sqrtf) \
  WHAT(f64, double, sqrt)

BOTH(SGD)
BOTH(ADAM)
BOTH(LION)
BOTH(SQUARE_SUM)

/* -- Table ------------------------------------------------------------------------------- */

extern const rg_simd_step RG_SIMD_NAME(rg_simd_step);
const rg_simd_step RG_SIMD_NAME(rg_simd_step) = {
  .sgd = { sgd_f32, sgd_f64 },
  .adam = { adam_f32, adam_f64 },
  .lion = { lion_f32, lion_f64 },
  .square_sum = { square_sum_f32, square_sum_f64 },
};
