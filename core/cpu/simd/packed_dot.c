/* SPDX-License-Identifier: MIT */
/*
** Weights of a few bits, opened in registers as they are multiplied, for one instruction set.  How
** they lie is said in core/op/packed_linear.h.
**
** With vectors of sixteen the codes are places in a table of as many floats, of which an
** instruction reads the lower bits of a place and no others (vpermps): nothing has to be masked or
** converted.  With vectors of eight that does for codes of two bits (vpermilps); others become
** whole numbers of 32 bits, eight bytes at a time, and then floats.
*/
#include <string.h>

#include "cpu/packed_dot.h"
#include "cpu/simd/simd.h"
#include "cpu/simd/vector.h"

enum { CODES = 32, VECTORS = CODES / LANES };

/* -- A block of codes ------------------------------------------------------------------------- */

#if defined(__AVX512F__)

/* The table: all numbers that codes of up to four bits stand for. */
typedef vec decoder;

ALWAYS_INLINE decoder decoder_of(const int bits, float less)
{
  decoder table;

  for (int i = 0; i < LANES; i++) {
    table[i] = (float)(bits < 4 ? i & ((1 << bits) - 1) : i) - less;
  }
  return table;
}

/* Bits 2 (i / 8) and up of byte i % 8, for i from `from` to `from` + 15. */
ALWAYS_INLINE __m512i pairs(const uint8_t *p, int from)
{
  __m128i eight = _mm_loadl_epi64((const __m128i *)(const void *)p);
  __m512i twice = _mm512_cvtepu8_epi32(_mm_unpacklo_epi64(eight, eight));
  __m512i by = _mm512_mask_set1_epi32(_mm512_set1_epi32(from / 4), 0xff00, from / 4 + 2);

  return _mm512_srlv_epi32(twice, by);
}

ALWAYS_INLINE vec whole(__m512i codes, float less)
{
  return (vec)_mm512_cvtepi32_ps(codes) - splat(less);
}

ALWAYS_INLINE void decode(const int bits, const uint8_t *p, decoder table, float less, vec *c)
{
  __m512i low, high;

  if (bits == 8) {
    c[0] = whole(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p)), less);
    c[1] = whole(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(p + 16))), less);
    return;
  }
  if (bits == 4 || bits == 6) {
    low = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
    high = _mm512_srli_epi32(low, 4);
    p += 16;
  } else {
    low = pairs(p, 0);
    high = pairs(p, 16);
    p += 8;
  }
  if (bits == 6) {
    const __m512i of_low = _mm512_set1_epi32(15);
    const __m512i of_high = _mm512_set1_epi32(48);

    low = _mm512_ternarylogic_epi32(of_low, low, _mm512_slli_epi32(pairs(p, 0), 4), 0xca);
    high = _mm512_ternarylogic_epi32(of_low, high, _mm512_slli_epi32(pairs(p, 16), 4), 0xca);
    c[0] = whole(_mm512_and_si512(low, _mm512_or_si512(of_low, of_high)), less);
    c[1] = whole(_mm512_and_si512(high, _mm512_or_si512(of_low, of_high)), less);
    return;
  }
  if (bits == 3) {
    const __m512i three = _mm512_set1_epi32(3);
    const __m512i four = _mm512_set1_epi32(4);
    uint32_t ones;

    memcpy(&ones, p, sizeof(ones));
    low = _mm512_and_si512(low, three);
    high = _mm512_and_si512(high, three);
    low = _mm512_mask_or_epi32(low, (__mmask16)ones, low, four);
    high = _mm512_mask_or_epi32(high, (__mmask16)(ones >> 16), high, four);
  }
  c[0] = (vec)_mm512_permutexvar_ps(low, (__m512)table);
  c[1] = (vec)_mm512_permutexvar_ps(high, (__m512)table);
}

#elif defined(__AVX2__)

/* The table: all numbers that codes of two bits stand for, in each half. */
typedef __m256 decoder;

ALWAYS_INLINE decoder decoder_of(const int bits, float less)
{
  (void)bits;
  return _mm256_sub_ps(_mm256_setr_ps(0, 1, 2, 3, 0, 1, 2, 3), _mm256_set1_ps(less));
}

/* Eight bytes, each in a lane. */
ALWAYS_INLINE __m256i eight(const uint8_t *p)
{
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p));
}

ALWAYS_INLINE vec whole(__m256i codes, __m256i less)
{
  return (vec)_mm256_cvtepi32_ps(_mm256_sub_epi32(codes, less));
}

ALWAYS_INLINE void decode(const int bits, const uint8_t *p, decoder table, float less, vec *c)
{
  const __m256i minus = _mm256_set1_epi32((int32_t)less);
  const __m256i low = _mm256_set1_epi32(15);
  const __m256i high = _mm256_set1_epi32(48);
  __m256i code[VECTORS], two;

  if (bits == 8) {
    for (int v = 0; v < VECTORS; v++) {
      c[v] = whole(eight(p + 8 * v), minus);
    }
    return;
  }
  if (bits == 4 || bits == 6) {
    for (int v = 0; v < 2; v++) {
      two = eight(p + 8 * v);
      code[v] = _mm256_and_si256(two, low);
      code[v + 2] = _mm256_srli_epi32(two, 4);
    }
    p += 16;
  }
  if (bits != 4) {
    two = eight(p);
    p += 8;
  }
  if (bits == 6) {
    code[0] = _mm256_or_si256(code[0], _mm256_and_si256(_mm256_slli_epi32(two, 4), high));
    code[1] = _mm256_or_si256(code[1], _mm256_and_si256(_mm256_slli_epi32(two, 2), high));
    code[2] = _mm256_or_si256(code[2], _mm256_and_si256(two, high));
    code[3] = _mm256_or_si256(code[3], _mm256_and_si256(_mm256_srli_epi32(two, 2), high));
  }
  if (bits == 4 || bits == 6) {
    for (int v = 0; v < VECTORS; v++) {
      c[v] = whole(code[v], minus);
    }
    return;
  }
  for (int v = 0; v < VECTORS; v++) {
    c[v] = (vec)_mm256_permutevar_ps(table, _mm256_srli_epi32(two, 2 * v));
  }
  if (bits == 3) {
    /* bit 8 v + i of 32, where it is 4 as a whole number */
    const __m256i up = _mm256_setr_epi32(2, 1, 0, 0, 0, 0, 0, 0);
    const __m256i down = _mm256_setr_epi32(0, 0, 0, 1, 2, 3, 4, 5);
    const __m256i four = _mm256_set1_epi32(4);

    for (int v = 0; v < VECTORS; v++) {
      __m256i ones = _mm256_set1_epi32(p[v]);

      ones = _mm256_srlv_epi32(_mm256_sllv_epi32(ones, up), down);
      c[v] += (vec)_mm256_cvtepi32_ps(_mm256_and_si256(ones, four));
    }
  }
}

#else

typedef int decoder;

ALWAYS_INLINE decoder decoder_of(const int bits, float less)
{
  (void)less;
  return bits;
}

ALWAYS_INLINE void decode(const int bits, const uint8_t *p, decoder table, float less, vec *c)
{
  uint8_t code[CODES] = { 0 };
  float number[CODES];

  (void)table;
  if (bits == 8) {
    memcpy(code, p, sizeof(code));
  }
  if (bits == 4 || bits == 6) {
    for (int i = 0; i < 16; i++) {
      code[i] = p[i] & 15;
      code[i + 16] = p[i] >> 4;
    }
    p += 16;
  }
  if (bits == 2 || bits == 3 || bits == 6) {
    const int by = bits == 6 ? 4 : 0;

    for (int i = 0; i < 8; i++) {
      code[i] = (uint8_t)(code[i] | (p[i] & 3) << by);
      code[i + 8] = (uint8_t)(code[i + 8] | (p[i] >> 2 & 3) << by);
      code[i + 16] = (uint8_t)(code[i + 16] | (p[i] >> 4 & 3) << by);
      code[i + 24] = (uint8_t)(code[i + 24] | p[i] >> 6 << by);
    }
    p += 8;
  }
  if (bits == 3) {
    for (int i = 0; i < CODES; i++) {
      code[i] = (uint8_t)(code[i] | (p[i / 8] >> i % 8 & 1) << 2);
    }
  }
  for (int i = 0; i < CODES; i++) {
    number[i] = (float)code[i] - less;
  }
  memcpy(c, number, sizeof(number));
}

#endif

/* -- Sums of a row ----------------------------------------------------------------------------- */

/* Some rows of x times a row of weights, or one times some: each is read once for all others. */
ALWAYS_INLINE void dot(const int bits, const int rows, const int outs, const rg_packed_row *row,
                       const float *x, int64_t ldx, float *y)
{
  const decoder table = decoder_of(bits, row->less);
  const uint8_t *w = row->w;
  vec sum[RG_PACKED_ROWS];

  for (int r = 0; r < rows * outs; r++) {
    sum[r] = (vec){ 0 };
  }
  for (int64_t g = 0; g < row->groups; g++) {
    vec here[RG_PACKED_ROWS];

    for (int r = 0; r < rows * outs; r++) {
      here[r] = (vec){ 0 };
    }
    for (int64_t i = 0; i < row->group; i += CODES, x += CODES, w += 4 * bits) {
      for (int o = 0; o < outs; o++) {
        vec c[VECTORS];

        decode(bits, w + o * row->w_step, table, row->less, c);
        __builtin_prefetch(w + (o + outs) * row->w_step); /* what comes after these rows */
        for (int r = 0; r < rows; r++) {
          for (int v = 0; v < VECTORS; v++) {
            here[o + r] =
                fused(c[v], *(const vec *)(x + r * ldx + (ptrdiff_t)v * LANES), here[o + r]);
          }
        }
      }
    }
    for (int o = 0; o < outs; o++) {
      for (int r = 0; r < rows; r++) {
        sum[o + r] = fused(here[o + r], splat(row->scale[g + o * row->scale_step]), sum[o + r]);
      }
    }
  }
  for (int r = 0; r < rows * outs; r++) {
    y[r] = sum_of(sum[r]);
  }
}

ALWAYS_INLINE void open_row(const int bits, const rg_packed_row *row, const float *min, float *y)
{
  const decoder table = decoder_of(bits, row->less);
  const uint8_t *w = row->w;

  for (int64_t g = 0; g < row->groups; g++) {
    vec scale = splat(row->scale[g]);
    vec more = splat(min != NULL ? min[g] : 0);

    for (int64_t i = 0; i < row->group; i += CODES, y += CODES, w += 4 * bits) {
      vec c[VECTORS];

      decode(bits, w, table, row->less, c);
      __builtin_prefetch(w + row->w_step); /* the row that comes next */
      for (int v = 0; v < VECTORS; v++) {
        *(vec *)(y + (ptrdiff_t)v * LANES) = fused(c[v], scale, more);
      }
    }
  }
}

/* -- Tables ----------------------------------------------------------------------------------- */

#define DOT(bits, rows)                                                                            \
  static void dot_##bits##_##rows(const rg_packed_row *row, const float *x, int64_t ldx, float *y) \
  {                                                                                                \
    dot(bits, rows, 1, row, x, ldx, y);                                                            \
  }
#define OF_BITS(bits)                                                                      \
  DOT(bits, 1)                                                                             \
  DOT(bits, 2)                                                                             \
  DOT(bits, 3)                                                                             \
  DOT(bits, 4)                                                                             \
  static void four_##bits(const rg_packed_row *row, const float *x, int64_t ldx, float *y) \
  {                                                                                        \
    dot(bits, 1, 4, row, x, ldx, y);                                                       \
  }                                                                                        \
  static void open_##bits(const rg_packed_row *row, const float *min, float *y)            \
  {                                                                                        \
    open_row(bits, row, min, y);                                                           \
  }
OF_BITS(2)
OF_BITS(3)
OF_BITS(4)
OF_BITS(6)
OF_BITS(8)

extern const rg_packed_kernels RG_SIMD_NAME(rg_packed_kernels);

#define DOTS(bits) [bits] = { NULL, dot_##bits##_1, dot_##bits##_2, dot_##bits##_3, dot_##bits##_4 }
const rg_packed_kernels RG_SIMD_NAME(rg_packed_kernels) = {
  .dot = { DOTS(2), DOTS(3), DOTS(4), DOTS(6), DOTS(8) },
  .four = { [2] = four_2, [3] = four_3, [4] = four_4, [6] = four_6, [8] = four_8 },
  .open = { [2] = open_2, [3] = open_3, [4] = open_4, [6] = open_6, [8] = open_8 },
};
