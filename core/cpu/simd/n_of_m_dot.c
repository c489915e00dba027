/* SPDX-License-Identifier: MIT */
/*
** Sums over the entries of a weight of which n of each m inputs are there, for one instruction set.
**
** A window of x is a table of sixteen floats, from which an entry takes one for each of its sixteen
** outputs: with vectors of sixteen in one instruction (vpermps, which reads the lower four bits of
** an index and no others), with vectors of eight in two and a choice.
*/
#include <string.h>

#include "cpu/n_of_m_dot.h"
#include "cpu/simd/simd.h"
#include "cpu/simd/vector.h"

enum { WIDE = 16, VECTORS = WIDE / LANES, TURNS = 4 };

/* -- Windows of x, indices, values ------------------------------------------------------------- */

#if defined(__AVX512F__)

typedef vec window;
typedef __m512i places;

ALWAYS_INLINE window window_of(const float *x)
{
  return *(const vec *)x;
}

ALWAYS_INLINE places places_of(const uint8_t *index, int v, int upper)
{
  __m512i both = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(index + v)));

  return upper ? _mm512_srli_epi32(both, 4) : both;
}

ALWAYS_INLINE vec taken(window x, places at)
{
  return (vec)_mm512_permutexvar_ps(at, (__m512)x);
}

ALWAYS_INLINE vec widened(const uint16_t *values)
{
  __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)values));

  return (vec)_mm512_slli_epi32(wide, 16);
}

#elif defined(__AVX2__)

typedef struct window {
  __m256 low, high;
} window;
typedef __m256i places;

ALWAYS_INLINE window window_of(const float *x)
{
  return (window){ _mm256_loadu_ps(x), _mm256_loadu_ps(x + LANES) };
}

ALWAYS_INLINE places places_of(const uint8_t *index, int v, int upper)
{
  const __m128i *from = (const void *)(index + (ptrdiff_t)v * LANES);
  __m256i both = _mm256_cvtepu8_epi32(_mm_loadl_epi64(from));

  return upper ? _mm256_srli_epi32(both, 4) : both;
}

/* The fourth bit of an index, as a sign, says which half is meant. */
ALWAYS_INLINE vec taken(window x, places at)
{
  return (vec)_mm256_blendv_ps(_mm256_permutevar8x32_ps(x.low, at),
                               _mm256_permutevar8x32_ps(x.high, at),
                               _mm256_castsi256_ps(_mm256_slli_epi32(at, 28)));
}

ALWAYS_INLINE vec widened(const uint16_t *values)
{
  __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)values));

  return (vec)_mm256_slli_epi32(wide, 16);
}

#else

typedef const float *window;
typedef struct places {
  uint8_t at[LANES];
} places;

ALWAYS_INLINE window window_of(const float *x)
{
  return x;
}

ALWAYS_INLINE places places_of(const uint8_t *index, int v, int upper)
{
  places p;

  for (int j = 0; j < LANES; j++) {
    uint8_t both = index[v * LANES + j];

    p.at[j] = upper ? both >> 4 : both & 15;
  }
  return p;
}

ALWAYS_INLINE vec taken(window x, places p)
{
  vec y;

  for (int j = 0; j < LANES; j++) {
    y[j] = x[p.at[j]];
  }
  return y;
}

ALWAYS_INLINE vec widened(const uint16_t *values)
{
  uint32_t bits[LANES];
  vec y;

  for (int j = 0; j < LANES; j++) {
    bits[j] = (uint32_t)values[j] << 16;
  }
  memcpy(&y, bits, sizeof(y));
  return y;
}

#endif

ALWAYS_INLINE vec weights_of(const int narrow, const void *values, int64_t entry, int v)
{
  int64_t at = entry * WIDE + (int64_t)v * LANES;

  return narrow ? widened((const uint16_t *)values + at)
                : *(const vec *)((const float *)values + at);
}

/* -- Sums -------------------------------------------------------------------------------------- */

/* With one row a sum would wait for the one before it: entries in turn have sums of their own. */
ALWAYS_INLINE void dot(const int rows, const int narrow, const int64_t each, int64_t windows,
                       const uint8_t *index, const void *values, const float *x, int64_t ldx,
                       float *y)
{
  const int turns = rows == 1 && VECTORS == 1 ? TURNS : 1;
  vec sum[RG_N_OF_M_ROWS * TURNS][VECTORS];
  int64_t entry = 0;

  for (int s = 0; s < rows * turns; s++) {
    for (int v = 0; v < VECTORS; v++) {
      sum[s][v] = (vec){ 0 };
    }
  }
  for (int64_t w = 0; w < windows; w++) {
    window in[RG_N_OF_M_ROWS];

    for (int r = 0; r < rows; r++) {
      in[r] = window_of(x + w * WIDE + r * ldx);
    }
#pragma GCC unroll 8
    for (int64_t e = 0; e < each; e++, entry++) {
      for (int v = 0; v < VECTORS; v++) {
        /* an even number of entries a window: which half an index is in is known beforehand */
        int upper = each % 2 == 0 ? (int)(e % 2) : (int)(entry % 2);
        places at = places_of(index + entry / 2 * WIDE, v, upper);
        vec weights = weights_of(narrow, values, entry, v);

        for (int r = 0; r < rows; r++) {
          sum[r * turns + e % turns][v] =
              fused(taken(in[r], at), weights, sum[r * turns + e % turns][v]);
        }
      }
    }
  }
  for (int r = 0; r < rows; r++) {
    for (int v = 0; v < VECTORS; v++) {
      vec all = sum[r * turns][v];

      for (int t = 1; t < turns; t++) {
        all += sum[r * turns + t][v];
      }
      *(vec *)(y + r * WIDE + (ptrdiff_t)v * LANES) = all;
    }
  }
}

/* The numbers of entries that patterns usually have are known to the compiler. */
ALWAYS_INLINE void dots(const int rows, const int narrow, int64_t windows, int64_t each,
                        const uint8_t *index, const void *values, const float *x, int64_t ldx,
                        float *y)
{
  switch (each) {
  case 8:
    dot(rows, narrow, 8, windows, index, values, x, ldx, y);
    break;
  case 4:
    dot(rows, narrow, 4, windows, index, values, x, ldx, y);
    break;
  case 2:
    dot(rows, narrow, 2, windows, index, values, x, ldx, y);
    break;
  case 1:
    dot(rows, narrow, 1, windows, index, values, x, ldx, y);
    break;
  default:
    dot(rows, narrow, each, windows, index, values, x, ldx, y);
    break;
  }
}

#define DOTS(name, rows, narrow)                                                       \
  static void name##_##rows(int64_t windows, int64_t each, const uint8_t *index,       \
                            const void *values, const float *x, int64_t ldx, float *y) \
  {                                                                                    \
    dots(rows, narrow, windows, each, index, values, x, ldx, y);                       \
  }
DOTS(f32, 1, 0)
DOTS(f32, 2, 0)
DOTS(f32, 3, 0)
DOTS(f32, 4, 0)
DOTS(bf16, 1, 1)
DOTS(bf16, 2, 1)
DOTS(bf16, 3, 1)
DOTS(bf16, 4, 1)

extern const rg_n_of_m_kernels RG_SIMD_NAME(rg_n_of_m_kernels);

const rg_n_of_m_kernels RG_SIMD_NAME(rg_n_of_m_kernels) = {
  .f32 = { NULL, f32_1, f32_2, f32_3, f32_4 },
  .bf16 = { NULL, bf16_1, bf16_2, bf16_3, bf16_4 },
};
