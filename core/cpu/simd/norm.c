/* SPDX-License-Identifier: MIT */
/*
** Runs of one row in layer normalisation and in the gradient of softmax. Sums are kept in lanes
** side by side and joined in their order, so that they depend on the length alone.
*/
#include "cpu/simd/simd.h"

enum { WIDTH = 16 };

#define JOINED(T, part)                 \
  T sum = 0;                            \
  for (int64_t l = 0; l < WIDTH; l++) { \
    sum += (part)[l];                   \
  }

/* sum of x; sum of (x - mean)^2 */
#define SUMS(lane, T)                                                    \
  static double sum_##lane(const void *from, int64_t n)                  \
  {                                                                      \
    const T *x = from;                                                   \
    T part[WIDTH] = { 0 };                                               \
    int64_t whole = n & -WIDTH;                                          \
                                                                         \
    for (int64_t i = 0; i < whole; i += WIDTH) {                         \
      for (int64_t l = 0; l < WIDTH; l++) {                              \
        part[l] += x[i + l];                                             \
      }                                                                  \
    }                                                                    \
    for (int64_t i = whole; i < n; i++) {                                \
      part[i - whole] += x[i];                                           \
    }                                                                    \
    JOINED(T, part)                                                      \
    return (double)sum;                                                  \
  }                                                                      \
                                                                         \
  static double squares_##lane(const void *from, double mean, int64_t n) \
  {                                                                      \
    const T *x = from;                                                   \
    const T m = (T)mean;                                                 \
    T part[WIDTH] = { 0 };                                               \
    int64_t whole = n & -WIDTH;                                          \
                                                                         \
    for (int64_t i = 0; i < whole; i += WIDTH) {                         \
      for (int64_t l = 0; l < WIDTH; l++) {                              \
        part[l] += (x[i + l] - m) * (x[i + l] - m);                      \
      }                                                                  \
    }                                                                    \
    for (int64_t i = whole; i < n; i++) {                                \
      part[i - whole] += (x[i] - m) * (x[i] - m);                        \
    }                                                                    \
    JOINED(T, part)                                                      \
    return (double)sum;                                                  \
  }

/* y = (x - mean) scale w + b */
#define APPLY(lane, T)                                                            \
  static void apply_##lane(void *to, const void *from, double mean, double scale, \
                           const void *weight, const void *bias, int64_t n)       \
  {                                                                               \
    const T *x = from, *w = weight, *b = bias;                                    \
    const T m = (T)mean, s = (T)scale;                                            \
    T *y = to;                                                                    \
                                                                                  \
    RG_INDEPENDENT for (int64_t i = 0; i < n; i++)                                \
    {                                                                             \
      y[i] = (x[i] - m) * s * w[i] + b[i];                                        \
    }                                                                             \
  }

/* With g = dy w and z = (x - mean) scale: the sums of g and of g z; dw += dy z, db += dy. */
#define BACK_SUMS(lane, T)                                                                     \
  static void back_sums_##lane(const void *grad, const void *from, double mean, double scale,  \
                               const void *weight, void *dweight, void *dbias, double sums[2], \
                               int64_t n)                                                      \
  {                                                                                            \
    const T *dy = grad, *x = from, *w = weight;                                                \
    const T m = (T)mean, s = (T)scale;                                                         \
    T *dw = dweight, *db = dbias;                                                              \
    T first[WIDTH] = { 0 };                                                                    \
    T second[WIDTH] = { 0 };                                                                   \
    int64_t whole = n & -WIDTH;                                                                \
                                                                                               \
    for (int64_t i = 0; i < whole; i += WIDTH) {                                               \
      RG_INDEPENDENT for (int64_t l = 0; l < WIDTH; l++)                                       \
      {                                                                                        \
        T z = (x[i + l] - m) * s;                                                              \
        T g = dy[i + l] * w[i + l];                                                            \
                                                                                               \
        dw[i + l] += dy[i + l] * z;                                                            \
        db[i + l] += dy[i + l];                                                                \
        first[l] += g;                                                                         \
        second[l] += g * z;                                                                    \
      }                                                                                        \
    }                                                                                          \
    for (int64_t i = whole; i < n; i++) {                                                      \
      T z = (x[i] - m) * s;                                                                    \
      T g = dy[i] * w[i];                                                                      \
                                                                                               \
      dw[i] += dy[i] * z;                                                                      \
      db[i] += dy[i];                                                                          \
      first[i - whole] += g;                                                                   \
      second[i - whole] += g * z;                                                              \
    }                                                                                          \
    {                                                                                          \
      JOINED(T, first)                                                                         \
      sums[0] += (double)sum;                                                                  \
    }                                                                                          \
    {                                                                                          \
      JOINED(T, second)                                                                        \
      sums[1] += (double)sum;                                                                  \
    }                                                                                          \
  }

/* dx = scale (g - a - z b) */
#define BACK_APPLY(lane, T)                                                                      \
  static void back_apply_##lane(void *to, const void *grad, const void *from, double mean,       \
                                double scale, const void *weight, double a, double b, int64_t n) \
  {                                                                                              \
    const T *dy = grad, *x = from, *w = weight;                                                  \
    const T m = (T)mean, s = (T)scale, p = (T)a, q = (T)b;                                       \
    T *dx = to;                                                                                  \
                                                                                                 \
    RG_INDEPENDENT for (int64_t i = 0; i < n; i++)                                               \
    {                                                                                            \
      dx[i] = s * (dy[i] * w[i] - p - (x[i] - m) * s * q);                                       \
    }                                                                                            \
  }

/* The sum of a b; dx = y (dy - sum) */
#define SOFTMAX_BACK(lane, T)                                                                 \
  static double dot_##lane(const void *first, const void *second, int64_t n)                  \
  {                                                                                           \
    const T *a = first, *b = second;                                                          \
    T part[WIDTH] = { 0 };                                                                    \
    int64_t whole = n & -WIDTH;                                                               \
                                                                                              \
    for (int64_t i = 0; i < whole; i += WIDTH) {                                              \
      for (int64_t l = 0; l < WIDTH; l++) {                                                   \
        part[l] += a[i + l] * b[i + l];                                                       \
      }                                                                                       \
    }                                                                                         \
    for (int64_t i = whole; i < n; i++) {                                                     \
      part[i - whole] += a[i] * b[i];                                                         \
    }                                                                                         \
    JOINED(T, part)                                                                           \
    return (double)sum;                                                                       \
  }                                                                                           \
                                                                                              \
  static void softmax_back_##lane(void *to, const void *grad, const void *result, double sum, \
                                  int64_t n)                                                  \
  {                                                                                           \
    const T *dy = grad, *y = result;                                                          \
    const T s = (T)sum;                                                                       \
    T *dx = to;                                                                               \
                                                                                              \
    RG_INDEPENDENT for (int64_t i = 0; i < n; i++)                                            \
    {                                                                                         \
      dx[i] = y[i] * (dy[i] - s);                                                             \
    }                                                                                         \
  }

#define BOTH(WHAT) \
  WHAT(f32, float) \
  WHAT(f64, double)

BOTH(SUMS)
BOTH(APPLY)
BOTH(BACK_SUMS)
BOTH(BACK_APPLY)
BOTH(SOFTMAX_BACK)

/* -- Table ------------------------------------------------------------------------------- */

extern const rg_simd_norm RG_SIMD_NAME(rg_simd_norm);
const rg_simd_norm RG_SIMD_NAME(rg_simd_norm) = {
  .sum = { sum_f32, sum_f64 },
  .squares = { squares_f32, squares_f64 },
  .apply = { apply_f32, apply_f64 },
  .back_sums = { back_sums_f32, back_sums_f64 },
  .back_apply = { back_apply_f32, back_apply_f64 },
  .dot = { dot_f32, dot_f64 },
  .softmax_back = { softmax_back_f32, softmax_back_f64 },
};
