/* SPDX-License-Identifier: MIT */
/*
** Weights of four or two bits times x of f32 in whole numbers, by vpdpbusd.
**
** A block of 32 numbers of x becomes whole numbers of 24 bits, by the largest power of two that
** fits, and each of them three digits of 8 bits with a sign: q = (d0 256 + d1) 256 + d2.  Codes
** times a digit are summed exactly, and so is what the digits make together: the largest sum of a
** lane, 15 x 8 x 2^23, is less than 2^31.  So a number is off by no more than 2^-23 of the largest
** of its block, and not at all where it has few bits; its group's sum is rounded once.  To be
** multiplied as floats, codes have to become floats one by one; here 64 are taken apart at a time.
**
** The idea is Ozaki's (Ozaki, Ogita, Oishi, Rump 2012, "Error-free transformations of matrix
** multiplication by using fast routines of matrix multiplication and its applications").
*/
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/packed_dot.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { BLOCK = 32, DIGITS = 3 };

/* No whole number above it: its first digit would be beyond 127. */
#define LARGEST 8355000.0F
/* Below it the power of two might be infinite. */
#define SMALLEST 1e-30F

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma")

/* A step of x: 64 bytes of codes hold 8 / bits planes of 64 codes. */
#define PLANES(bits) (8 / (bits))
#define BLOCKS(bits) (16 / (bits))

/* Behind the digits of a step: what the codes have too much times the sum of x, and how many times
** as large x was made, of each lane. */
#define STEP_BYTES(bits) ((DIGITS * PLANES(bits) + 2) * 64)

/* The largest power of two by which the largest number of a block stays within three digits. */
static float power_for(float most)
{
  uint32_t bits;
  float by;

  memcpy(&bits, &most, sizeof(bits));
  bits = (2 * 127 + 22 - (bits >> 23)) << 23;
  memcpy(&by, &bits, sizeof(by));
  return most * by > LARGEST ? by / 2 : by;
}

/* The sums of four lanes in a row, in the lower lanes. */
ALWAYS_INLINE __m512i by_four(__m512i v)
{
  v = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, _MM_PERM_BADC));
  v = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, _MM_PERM_CDAB));
  return _mm512_maskz_compress_epi32(0x1111, v);
}

/* Block b of a step, from 32 floats or, behind the end of x, from zeros; false where they are no
** numbers or too small. */
ALWAYS_INLINE bool take_block(const int bits, const float *x, int32_t less, int64_t b, char *step)
{
  const int places = BLOCK / PLANES(bits); /* bytes of the block in a plane */
  char *behind = step + (ptrdiff_t)DIGITS * PLANES(bits) * 64;
  __m512 v[2] = { _mm512_loadu_ps(x), _mm512_loadu_ps(x + 16) };
  float most = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(v[0]), _mm512_abs_ps(v[1])));
  __m512i total = _mm512_setzero_si512();
  float power = most > 0 ? power_for(most) : 1;

  if ((_mm512_fpclass_ps_mask(v[0], 0x99) | _mm512_fpclass_ps_mask(v[1], 0x99)) != 0 ||
      (most > 0 && most < SMALLEST)) {
    return false;
  }
  for (int h = 0; h < 2; h++) {
    const __m512i half = _mm512_set1_epi32(128);
    __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(v[h], _mm512_set1_ps(power)));
    __m512i q1 = _mm512_srai_epi32(_mm512_add_epi32(q, half), 8);
    __m512i q0 = _mm512_srai_epi32(_mm512_add_epi32(q1, half), 8);
    __m128i digit[DIGITS] = {
      _mm512_cvtepi32_epi8(q0),
      _mm512_cvtepi32_epi8(_mm512_sub_epi32(q1, _mm512_slli_epi32(q0, 8))),
      _mm512_cvtepi32_epi8(_mm512_sub_epi32(q, _mm512_slli_epi32(q1, 8))),
    };

    total = _mm512_add_epi32(total, q);
    for (int d = 0; d < DIGITS; d++) {
      char *to = step + (ptrdiff_t)d * PLANES(bits) * 64 + b * places;

      if (bits == 4) {
        _mm_storeu_si128((void *)(to + (ptrdiff_t)h * 64), digit[d]);
      } else {
        _mm_storel_epi64((void *)(to + (ptrdiff_t)h * 128), digit[d]);
        _mm_storeh_pd((void *)(to + (ptrdiff_t)h * 128 + 64), _mm_castsi128_pd(digit[d]));
      }
    }
  }
  if (bits == 2) {
    __m256i low = _mm512_castsi512_si256(total);

    low = _mm256_add_epi32(low, _mm512_extracti64x4_epi64(total, 1));
    total = _mm512_castsi256_si512(low);
  }
  total = _mm512_mullo_epi32(by_four(total), _mm512_set1_epi32(-less));
  if (bits == 4) {
    _mm_storeu_si128((void *)(behind + 16 * b), _mm512_castsi512_si128(total));
    _mm_storeu_ps((float *)(void *)(behind + 64 + 16 * b), _mm_set1_ps(1 / power));
  } else {
    _mm_storel_epi64((void *)(behind + 8 * b), _mm512_castsi512_si128(total));
    _mm_storel_pi((void *)(behind + 64 + 8 * b), _mm_set1_ps(1 / power));
  }
  return true;
}

ALWAYS_INLINE bool take(const int bits, const float *x, int64_t k, float less, char *to)
{
  static const float none[BLOCK] = { 0 };
  int64_t blocks = k / BLOCK;

  for (int64_t b = 0; b < rg_round_up(blocks, BLOCKS(bits)); b++) {
    char *step = to + b / BLOCKS(bits) * STEP_BYTES(bits);

    if (!take_block(bits, b < blocks ? x + b * BLOCK : none, (int32_t)less, b % BLOCKS(bits),
                    step)) {
      return false;
    }
  }
  return true;
}

/* What a step of a row adds to the lanes of its sum. */
ALWAYS_INLINE __m512 step_of(const int bits, __m512i codes, const char *step, __m512 scale,
                             __m512 sum)
{
  const __m512i mask = _mm512_set1_epi8((char)((1 << bits) - 1));
  const __m512i *x = (const __m512i *)(const void *)step;
  const __m512i *behind = x + (ptrdiff_t)DIGITS * PLANES(bits);
  __m512i code[PLANES(2)];
  __m512i q = _mm512_setzero_si512();

  for (int p = 0; p < PLANES(bits); p++) {
    code[p] = _mm512_and_si512(p == 0 ? codes : _mm512_srli_epi16(codes, p * bits), mask);
  }
  for (int d = 0; d < DIGITS; d++) {
    q = d == 0 ? q : _mm512_slli_epi32(q, 8);
    for (int p = 0; p < PLANES(bits); p++) {
      q = _mm512_dpbusd_epi32(q, code[p], _mm512_loadu_si512(x + (ptrdiff_t)d * PLANES(bits) + p));
    }
  }
  q = _mm512_add_epi32(q, _mm512_loadu_si512(behind));
  scale = _mm512_mul_ps(scale, _mm512_loadu_ps((const float *)(const void *)(behind + 1)));
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(q), scale, sum);
}

ALWAYS_INLINE void dot(const int bits, const int outs, const rg_packed_row *row, const char *x,
                       float *y)
{
  const int64_t bytes = row->groups * row->group / 8 * bits;
  const int64_t scales = BLOCKS(bits) * BLOCK / row->group; /* of a step */
  const int64_t w_step = row->w_step;
  const int64_t scale_step = row->scale_step;
  const uint8_t *w = row->w;
  const float *scale = row->scale;
  __m512 sum[RG_PACKED_ROWS];
  int32_t lanes[16];
  __m512i of_lane;

  for (int i = 0; i < 16; i++) {
    lanes[i] = (int32_t)(i * scales / 16);
  }
  of_lane = _mm512_loadu_si512(lanes);
  for (int o = 0; o < outs; o++) {
    sum[o] = _mm512_setzero_ps();
  }
  for (int64_t at = 0; at < bytes; at += 64, x += STEP_BYTES(bits), scale += scales) {
    int64_t left = bytes - at;
    __mmask64 in = left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
    __mmask16 has = (__mmask16)((1U << rg_min_i64(scales, left * 8 / bits / row->group)) - 1);

    for (int o = 0; o < outs; o++) {
      const uint8_t *from = w + o * w_step + at;
      __m512 by = _mm512_maskz_loadu_ps(has, scale + o * scale_step);

      sum[o] = step_of(bits, _mm512_maskz_loadu_epi8(in, from), x,
                       _mm512_permutexvar_ps(of_lane, by), sum[o]);
      __builtin_prefetch(from + outs * w_step); /* what comes after these rows */
    }
  }
  for (int o = 0; o < outs; o++) {
    y[o] = _mm512_reduce_add_ps(sum[o]);
  }
}

#define OF_BITS(bits)                                                        \
  static bool take_##bits(const float *x, int64_t k, float less, void *to)   \
  {                                                                          \
    return take(bits, x, k, less, to);                                       \
  }                                                                          \
  static void one_##bits(const rg_packed_row *row, const void *x, float *y)  \
  {                                                                          \
    dot(bits, 1, row, x, y);                                                 \
  }                                                                          \
  static void four_##bits(const rg_packed_row *row, const void *x, float *y) \
  {                                                                          \
    dot(bits, 4, row, x, y);                                                 \
  }
OF_BITS(4)
OF_BITS(2)

#pragma GCC pop_options

static const rg_packed_digits of_four = {
  .codes = BLOCKS(4) * BLOCK, .bytes = STEP_BYTES(4), .take = take_4, .one = one_4, .four = four_4
};
static const rg_packed_digits of_two = {
  .codes = BLOCKS(2) * BLOCK, .bytes = STEP_BYTES(2), .take = take_2, .one = one_2, .four = four_2
};
#endif

const rg_packed_digits *rg_packed_digits_now(int32_t bits)
{
#if defined(__x86_64__)
  if (rg_isa() >= RG_ISA_AVX512 && __builtin_cpu_supports("avx512vnni")) {
    return bits == 4 ? &of_four : bits == 2 ? &of_two : NULL;
  }
#endif
  (void)bits;
  return NULL;
}
