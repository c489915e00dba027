/* SPDX-License-Identifier: MIT */
/*
** What attention does to a tile of scores between two products.  Rows are whole blocks of 32.
*/
#include <math.h>
#include <string.h>

#include "cpu/simd/simd.h"
#include "cpu/vec_unary.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

enum { WIDTH = 32 };

/*
** One of the 32 results that stand side by side, joined by halves: 16 and 16, 8 and 8, down to one.
** With AVX2 in registers (measured: through memory it took a third of the time of a row of 256).
*/
#if defined(__AVX512F__)

static inline float largest_of(const float *part)
{
  return _mm512_reduce_max_ps(_mm512_max_ps(_mm512_loadu_ps(part), _mm512_loadu_ps(part + 16)));
}

static inline float sum_of(const float *part)
{
  return _mm512_reduce_add_ps(_mm512_add_ps(_mm512_loadu_ps(part), _mm512_loadu_ps(part + 16)));
}

#else

#define LARGER(x, y) ((x) > (y) ? (x) : (y))
#define SUM(x, y)    ((x) + (y))
#if defined(__AVX2__)
#define JOINED(name, join8, join4, join1)                                     \
  static inline float name(const float *part)                                 \
  {                                                                           \
    __m256 a = join8(_mm256_loadu_ps(part + 16), _mm256_loadu_ps(part));      \
    __m256 b = join8(_mm256_loadu_ps(part + 24), _mm256_loadu_ps(part + 8));  \
    __m256 c = join8(b, a);                                                   \
    __m128 d = join4(_mm256_extractf128_ps(c, 1), _mm256_castps256_ps128(c)); \
    __m128 e = join4(_mm_movehl_ps(d, d), d);                                 \
                                                                              \
    return join1(_mm_cvtss_f32(_mm_movehdup_ps(e)), _mm_cvtss_f32(e));        \
  }
JOINED(largest_of, _mm256_max_ps, _mm_max_ps, LARGER)
JOINED(sum_of, _mm256_add_ps, _mm_add_ps, SUM)
#else
#define JOINED(name, join)                                   \
  static inline float name(float *part)                      \
  {                                                          \
    for (int64_t width = WIDTH / 2; width > 0; width /= 2) { \
      for (int64_t l = 0; l < width; l++) {                  \
        part[l] = join(part[l + width], part[l]);            \
      }                                                      \
    }                                                        \
    return part[0];                                          \
  }
JOINED(largest_of, LARGER)
JOINED(sum_of, SUM)
#endif

#endif

static float largest(const float *x, int64_t n, float scale)
{
  float part[WIDTH];

  for (int64_t l = 0; l < WIDTH; l++) {
    part[l] = -INFINITY;
  }
  for (int64_t i = 0; i < n; i += WIDTH) {
    for (int64_t l = 0; l < WIDTH; l++) {
      float y = x[i + l] * scale;

      part[l] = y > part[l] ? y : part[l];
    }
  }
  return largest_of(part);
}

/*
** e^x for x that is not above 0 by more than rounding: what exp_f32 does less the cases of large
** arguments; below -87 it is 0, where exp_f32 goes on to numbers below the normal range.
*/
static inline float exp_below(float x)
{
  int32_t n;
  float scale;
  float p = exp_rest_f32(x < -87.0f ? 0.0f : x, &n);
  uint32_t power = (uint32_t)(n + 127) << 23;

  memcpy(&scale, &power, sizeof(scale));
  return x < -87.0f ? 0.0f : p * scale;
}

/* The same to 8e-5 of its value, for weights that are rounded to eight bits: a cubic with the least
** largest relative error on |r| <= log(2) / 2, and log(2) in one piece. */
static inline float exp_coarse(float x)
{
  float c = x < -87.0f ? 0.0f : x;
  uint32_t bits;
  float scale;
  float k = RG_MADD_F32(c, 1.44269504f, 0x1.8p23f);

  memcpy(&bits, &k, sizeof(bits));
  float r = RG_MADD_F32(k - 0x1.8p23f, -0.69314718f, c);
  float p = RG_MADD_F32(0.165668225f, r, 0.504964268f);
  p = RG_MADD_F32(p, r, 1.00016425f);
  p = RG_MADD_F32(p, r, 0.999928045f);
  uint32_t power = (bits - 0x4b400000u + 127) << 23;
  memcpy(&scale, &power, sizeof(scale));
  return x < -87.0f ? 0.0f : p * scale;
}

/* x = exp(x scale - shift); their sum. */
static float exponentials(float *x, int64_t n, float scale, float shift, bool coarse)
{
  float part[WIDTH] = { 0 };

  if (coarse) {
    RG_INDEPENDENT for (int64_t i = 0; i < n; i++)
    {
      x[i] = exp_coarse(x[i] * scale - shift);
    }
  } else {
    RG_INDEPENDENT for (int64_t i = 0; i < n; i++)
    {
      x[i] = exp_below(x[i] * scale - shift);
    }
  }
  for (int64_t i = 0; i < n; i += WIDTH) {
    for (int64_t l = 0; l < WIDTH; l++) {
      part[l] += x[i + l];
    }
  }
  return sum_of(part);
}

/* A nan is never the largest, but its exponential is one. */
static void soften(float *x, int64_t ldx, int64_t rows, int64_t n, float scale, bool coarse,
                   float *most, float *sum, float *shrink)
{
  for (int64_t r = 0; r < rows; r++) {
    shrink[r] = largest(x + r * ldx, n, scale);
  }
  RG_INDEPENDENT for (int64_t r = 0; r < rows; r++)
  {
    float now = shrink[r] > most[r] ? shrink[r] : most[r];

    /* nothing seen before: there is nothing to shrink, and no difference of infinities */
    shrink[r] = most[r] > -INFINITY ? exp_below(most[r] - now) : 0;
    most[r] = now;
  }
  for (int64_t r = 0; r < rows; r++) {
    float shift = most[r] > -INFINITY ? most[r] : 0; /* still nothing: exponentials of -inf */

    sum[r] = sum[r] * shrink[r] + exponentials(x + r * ldx, n, scale, shift, coarse);
  }
}

static void weights(float *x, int64_t rows, int64_t n, float scale, const float *lse)
{
  for (int64_t r = 0; r < rows; r++, x += n) {
    RG_INDEPENDENT for (int64_t i = 0; i < n; i++)
    {
      x[i] = exp_f32(x[i] * scale - lse[i]);
    }
  }
}

static void slopes(float *dx, const float *weight, int64_t rows, int64_t n, float scale,
                   const float *sum)
{
  for (int64_t r = 0; r < rows; r++, dx += n, weight += n) {
    RG_INDEPENDENT for (int64_t i = 0; i < n; i++)
    {
      dx[i] = weight[i] * (dx[i] - sum[i]) * scale;
    }
  }
}

extern const rg_simd_attention RG_SIMD_NAME(rg_simd_attention);
const rg_simd_attention RG_SIMD_NAME(rg_simd_attention) = {
  .soften = soften,
  .weights = weights,
  .slopes = slopes,
};
