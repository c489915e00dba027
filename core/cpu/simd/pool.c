/* SPDX-License-Identifier: MIT */
/*
** Pooling windows, many at a time: output j sees the same box of the image as output 0, j steps
** further on, so that neighbours are windows side by side (a step is their stride) or channels (a
** step is 1).  Steps of 1 and 2 have loops of their own; others read one number at a time.
*/
#include "cpu/simd/simd.h"
#include "cpu/simd/vector.h"

/* The loop over outputs for a step that the compiler knows, where there is one. */
#define STEPPED(LOOP)     \
  if (step == 1) {        \
    LOOP(1)               \
  } else if (step == 2) { \
    LOOP(2)               \
  } else {                \
    LOOP(step)            \
  }

/* -- The largest ------------------------------------------------------------------------------ */

/* Every second number of two vectors, the second of which begins with the last of the first. */
#define EVEN_16 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31
#define EVEN_8  0, 2, 4, 6, 9, 11, 13, 15
#define EVEN_4  0, 2, 5, 7
#define EVEN_2  0, 3
#define EVEN_1  0

/* Outputs in a large vector and in a small one: a vector that is wider than the processor's GCC
** compares lane by lane. */
#if defined(__AVX512F__)
#define SIZES_f32 16, 4
#define SIZES_f64 8, 4
#elif defined(__AVX2__)
#define SIZES_f32 8, 4
#define SIZES_f64 4, 2
#else
#define SIZES_f32 4, 2
#define SIZES_f64 4, 2
#endif

/* L outputs in a vector, written as such because GCC makes none of a loop that also keeps places.
** Where every second number is wanted, the second load begins one early, so that nothing behind
** the last is read. */
#define MAX_BLOCK(T, I, L, name)                                                                 \
  typedef T vec_##name##L __attribute__((vector_size((L) * sizeof(T)), aligned(sizeof(T))));     \
  typedef I mask_##name##L __attribute__((vector_size((L) * sizeof(T))));                        \
  typedef int32_t place_##name##L __attribute__((vector_size((L)*4), aligned(4)));               \
                                                                                                 \
  static inline __attribute__((always_inline)) void load_##name##L(vec_##name##L *v, const T *x, \
                                                                   int64_t step)                 \
  {                                                                                              \
    if (step == 1) {                                                                             \
      *v = *(const vec_##name##L *)x;                                                            \
    } else if (step == 2 && (L) > 1) {                                                           \
      vec_##name##L low = *(const vec_##name##L *)x;                                             \
      vec_##name##L high = *(const vec_##name##L *)(x + (L)-1);                                  \
                                                                                                 \
      *v = SHUFFLE(mask_##name##L, low, high, EVEN_##L);                                         \
    } else {                                                                                     \
      for (int l = 0; l < (L); l++) {                                                            \
        (*v)[l] = x[l * step];                                                                   \
      }                                                                                          \
    }                                                                                            \
  }                                                                                              \
                                                                                                 \
  static inline __attribute__((always_inline)) void max_##name##L(                               \
      const rg_pool_box *b, T *y, int32_t *index, const T *x, int64_t step, int32_t first)       \
  {                                                                                              \
    vec_##name##L best = { 0 };                                                                  \
    vec_##name##L v = { 0 };                                                                     \
    place_##name##L place = { 0 };                                                               \
                                                                                                 \
    load_##name##L(&best, x, step);                                                              \
    for (int64_t r = 0; r < b->rows; r++) {                                                      \
      const T *from = x + r * b->row_step;                                                       \
      int32_t here = (int32_t)(r * b->width);                                                    \
                                                                                                 \
      for (int64_t c = 0; c < b->columns; c++, here++, from += b->column_step) {                 \
        mask_##name##L more;                                                                     \
                                                                                                 \
        load_##name##L(&v, from, step);                                                          \
        more = (v > best) | ((v != v) & (best == best));                                         \
                                                                                                 \
        best = (vec_##name##L)(((mask_##name##L)v & more) | ((mask_##name##L)best & ~more));     \
        if (index != NULL) {                                                                     \
          place_##name##L take = __builtin_convertvector(more, place_##name##L);                 \
                                                                                                 \
          place = (take & here) | (place & ~take);                                               \
        }                                                                                        \
      }                                                                                          \
    }                                                                                            \
    *(vec_##name##L *)y = best;                                                                  \
    for (int l = 0; index != NULL && l < (L); l++) {                                             \
      index[l] = first + l * b->apart + place[l];                                                \
    }                                                                                            \
  }

/* The last block lies over the one before it, so that none is cut off. */
#define MAX_BLOCKS(L, name)                                                       \
  for (int64_t at = 0; at < n; at += (L)) {                                       \
    int64_t j = rg_min_i64(at, n - (L));                                          \
                                                                                  \
    max_##name##L(b, y + j, index != NULL ? index + j : NULL, x + j * step, step, \
                  b->here + (int32_t)j * b->apart);                               \
  }

/* Inlined where step and whether index is NULL are known. */
#define MAX(...) MAX_OF(__VA_ARGS__)
#define MAX_OF(T, I, name, LARGE, SMALL)                                                     \
  MAX_BLOCK(T, I, LARGE, name)                                                               \
  MAX_BLOCK(T, I, SMALL, name)                                                               \
  MAX_BLOCK(T, I, 1, name)                                                                   \
  static inline __attribute__((always_inline)) void blocks_##name(                           \
      const rg_pool_box *b, T *y, int32_t *index, const T *x, int64_t step)                  \
  {                                                                                          \
    int64_t n = b->n;                                                                        \
                                                                                             \
    if (n >= (LARGE)) {                                                                      \
      MAX_BLOCKS(LARGE, name)                                                                \
    } else if (n >= (SMALL)) {                                                               \
      MAX_BLOCKS(SMALL, name)                                                                \
    } else {                                                                                 \
      MAX_BLOCKS(1, name)                                                                    \
    }                                                                                        \
  }                                                                                          \
  static inline __attribute__((always_inline)) void steps_##name(const rg_pool_box *b, T *y, \
                                                                 int32_t *index, const T *x) \
  {                                                                                          \
    if (b->step == 1) {                                                                      \
      blocks_##name(b, y, index, x, 1);                                                      \
    } else if (b->step == 2) {                                                               \
      blocks_##name(b, y, index, x, 2);                                                      \
    } else {                                                                                 \
      blocks_##name(b, y, index, x, b->step);                                                \
    }                                                                                        \
  }                                                                                          \
  static void max_##name(const rg_pool_box *b, void *y, int32_t *index, const void *image)   \
  {                                                                                          \
    if (index == NULL) {                                                                     \
      steps_##name(b, y, NULL, image);                                                       \
    } else {                                                                                 \
      steps_##name(b, y, index, image);                                                      \
    }                                                                                        \
  }

/* -- Averages --------------------------------------------------------------------------------- */

enum { SOME = 32 }; /* outputs whose results stay in registers while the box passes */

#define SUM_OF(STEP, many)                                               \
  {                                                                      \
    T sum[SOME];                                                         \
                                                                         \
    for (int64_t l = 0; l < (many); l++) {                               \
      sum[l] = 0;                                                        \
    }                                                                    \
    for (int64_t r = 0; r < b->rows; r++) {                              \
      const T *from = x + r * b->row_step + j * (STEP);                  \
                                                                         \
      for (int64_t c = 0; c < b->columns; c++, from += b->column_step) { \
        for (int64_t l = 0; l < (many); l++) {                           \
          sum[l] += from[l * (STEP)];                                    \
        }                                                                \
      }                                                                  \
    }                                                                    \
    for (int64_t l = 0; l < (many); l++) {                               \
      y[j + l] = sum[l] * scale;                                         \
    }                                                                    \
  }

/* Blocks lie over each other at the end, as those of the largest do. */
#define SUM_BLOCKS(STEP, SIZE)                 \
  for (int64_t at = 0; at < n; at += (SIZE)) { \
    int64_t j = rg_min_i64(at, n - (SIZE));    \
                                               \
    SUM_OF(STEP, SIZE)                         \
  }
#define SUM_LOOP(STEP)     \
  if (n >= SOME) {         \
    SUM_BLOCKS(STEP, SOME) \
  } else if (n >= 8) {     \
    SUM_BLOCKS(STEP, 8)    \
  } else if (n >= 4) {     \
    SUM_BLOCKS(STEP, 4)    \
  } else {                 \
    SUM_BLOCKS(STEP, 1)    \
  }

#define AVG(type, name)                                                     \
  static void avg_##name(const rg_pool_box *b, void *to, const void *image) \
  {                                                                         \
    typedef type T;                                                         \
    T *restrict y = to;                                                     \
    const T *restrict x = image;                                            \
    const int64_t n = b->n;                                                 \
    const int64_t step = b->step;                                           \
    const T scale = (T)b->scale;                                            \
                                                                            \
    STEPPED(SUM_LOOP)                                                       \
  }

#define SPREAD_LOOP(STEP)           \
  RG_INDEPENDENT                    \
  for (int64_t j = 0; j < n; j++) { \
    x[j * (STEP)] += y[j] * scale;  \
  }

/* From the last column to the first, so that an element of the image gets what windows side by side
** give it in their order. */
#define AVG_BACK(type, name)                                                       \
  static void avg_back_##name(const rg_pool_box *b, void *image, const void *from) \
  {                                                                                \
    typedef type T;                                                                \
    const T *y = from;                                                             \
    const int64_t n = b->n;                                                        \
    const int64_t step = b->step;                                                  \
    const T scale = (T)b->scale;                                                   \
                                                                                   \
    for (int64_t r = 0; r < b->rows; r++) {                                        \
      for (int64_t c = b->columns; c-- > 0;) {                                     \
        T *x = (T *)image + r * b->row_step + c * b->column_step;                  \
                                                                                   \
        STEPPED(SPREAD_LOOP)                                                       \
      }                                                                            \
    }                                                                              \
  }

MAX(float, int32_t, f32, SIZES_f32)
MAX(double, int64_t, f64, SIZES_f64)
AVG(float, f32)
AVG(double, f64)
AVG_BACK(float, f32)
AVG_BACK(double, f64)

extern const rg_simd_pool RG_SIMD_NAME(rg_simd_pool);
const rg_simd_pool RG_SIMD_NAME(rg_simd_pool) = {
  .max = { max_f32, max_f64 },
  .avg = { avg_f32, avg_f64 },
  .avg_back = { avg_back_f32, avg_back_f64 },
};
