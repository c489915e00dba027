/* SPDX-License-Identifier: MIT */
/*
** Weights of a few bits times x of bytes where there is no vpdpbusd: by vpmaddubsw, which
** multiplies unsigned codes by signed x and adds two products in 16 bits.  Up to six bits these
** cannot saturate: at most 2 x 63 x 128.  Codes of eight bits are multiplied by vpmaddwd.
**
** A lane sums the same four neighbours as one of vpdpbusd does, and lanes are added up in the same
** order: so results are those of core/cpu/packed_vnni.c to the last bit.
*/
#include <string.h>

#include "cpu/packed_dot.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { CODES = 32 };

#pragma GCC push_options
#pragma GCC target("avx2,fma")

/* The codes of a block in their order, as bytes; not of eight bits. */
ALWAYS_INLINE __m256i bytes_of(const int bits, const uint8_t *p)
{
  __m256i code = _mm256_setzero_si256();
  __m256i two;
  int64_t eight;
  int32_t ones;

  if (bits == 4 || bits == 6) {
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)p);

    code = _mm256_inserti128_si256(_mm256_castsi128_si256(low), _mm_srli_epi16(low, 4), 1);
    code = _mm256_and_si256(code, _mm256_set1_epi8(15));
    p += 16;
  }
  if (bits == 4) {
    return code;
  }
  memcpy(&eight, p, sizeof(eight));
  two = _mm256_srlv_epi64(_mm256_set1_epi64x(eight), _mm256_setr_epi64x(0, 2, 4, 6));
  two = _mm256_and_si256(two, _mm256_set1_epi8(3));
  if (bits == 6) {
    return _mm256_or_si256(code, _mm256_slli_epi16(two, 4));
  }
  if (bits == 3) {
    const __m256i byte =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);

    memcpy(&ones, p + 8, sizeof(ones));
    code = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(ones), byte), bit);
    code = _mm256_and_si256(_mm256_cmpeq_epi8(code, bit), _mm256_set1_epi8(4));
    two = _mm256_or_si256(two, code);
  }
  return two;
}

/* Four neighbours a lane, of 32 codes and as many numbers of x. */
ALWAYS_INLINE __m256i products(const int bits, const uint8_t *w, __m256i x)
{
  if (bits == 8) {
    __m256i code = _mm256_loadu_si256((const __m256i *)(const void *)w);
    __m256i even = _mm256_and_si256(code, _mm256_set1_epi16(255));
    __m256i odd = _mm256_srli_epi16(code, 8);

    even = _mm256_madd_epi16(even, _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
    odd = _mm256_madd_epi16(odd, _mm256_srai_epi16(x, 8));
    return _mm256_add_epi32(even, odd);
  }
  return _mm256_madd_epi16(_mm256_maddubs_epi16(bytes_of(bits, w), x), _mm256_set1_epi16(1));
}

ALWAYS_INLINE float total(__m256 x)
{
  __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));

  y = _mm_add_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}

ALWAYS_INLINE void dot(const int bits, const int outs, const rg_packed_row *row, const int8_t *x,
                       float *y)
{
  const uint8_t *w = row->w;
  __m256 sum[RG_PACKED_ROWS];

  for (int o = 0; o < outs; o++) {
    sum[o] = _mm256_setzero_ps();
  }
  for (int64_t g = 0; g < row->groups; g++) {
    __m256i here[RG_PACKED_ROWS];

    for (int o = 0; o < outs; o++) {
      here[o] = _mm256_setzero_si256();
    }
    for (int64_t i = 0; i < row->group; i += CODES, x += CODES, w += 4 * bits) {
      __m256i some = _mm256_loadu_si256((const __m256i *)(const void *)x);

      for (int o = 0; o < outs; o++) {
        here[o] = _mm256_add_epi32(here[o], products(bits, w + o * row->w_step, some));
        __builtin_prefetch(w + (o + outs) * row->w_step); /* what comes after these rows */
      }
    }
    for (int o = 0; o < outs; o++) {
      sum[o] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(here[o]),
                               _mm256_set1_ps(row->scale[g + o * row->scale_step]), sum[o]);
    }
  }
  for (int o = 0; o < outs; o++) {
    y[o] = total(sum[o]);
  }
}

#define DOTS(bits)                                                             \
  static void one_##bits(const rg_packed_row *row, const int8_t *x, float *y)  \
  {                                                                            \
    dot(bits, 1, row, x, y);                                                   \
  }                                                                            \
  static void four_##bits(const rg_packed_row *row, const int8_t *x, float *y) \
  {                                                                            \
    dot(bits, 4, row, x, y);                                                   \
  }
DOTS(2)
DOTS(3)
DOTS(4)
DOTS(6)
DOTS(8)

#pragma GCC pop_options

const rg_packed_bytes rg_packed_bytes_pairs = {
  .path = "own:pairs",
  .one = { [2] = one_2, [3] = one_3, [4] = one_4, [6] = one_6, [8] = one_8 },
  .four = { [2] = four_2, [3] = four_3, [4] = four_4, [6] = four_6, [8] = four_8 },
};
#endif
