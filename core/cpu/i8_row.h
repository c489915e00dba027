/* SPDX-License-Identifier: MIT */
/*
** What follows a panel's sums by AVX-512, a row at a time, so that a row may stand between other
** instructions.  Included where AVX-512 is compiled for.
**
** It rounds as the loops of core/cpu/simd/gemm_i8.c do, in the same order.
*/
#ifndef RIDGE_CPU_I8_ROW_H
#define RIDGE_CPU_I8_ROW_H

#include <immintrin.h>

#include "cpu/gemm_i8.h"

#define RG_ROW_INLINE static inline __attribute__((always_inline))

/* Rows that are left, and what is the same for all of them. */
typedef struct rg_i8_rows {
  const int32_t *sum;
  int64_t until, run, gap; /* as in rg_i8_left */
  const float *x_scale;
  int64_t x_step;
  char *y;
  int64_t y_step; /* in bytes */
  int32_t dtype;  /* RG_I8, RG_U8 or RG_F32 */
  int32_t act;    /* RG_ACT_NONE, RELU or RELU6; RG_ACT_NONE for RG_F32 */
  __m512i fix[2];
  __m512 w_scale[2];
  __m512 bias[2];
  __m512 one_over;
  __m512i zero;
} rg_i8_rows;

/* Thirty-two numbers, times one over the scale of y, as bytes, saturated; zero in words of 16 bits,
** which saturate, too.  What is not a number becomes zero. */
RG_ROW_INLINE __m256i rg_row_bytes(__m512 x0, __m512 x1, __m512 one_over, __m512i zero,
                                   bool is_signed)
{
  const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
  const __m512 far = _mm512_set1_ps(1024.0f);
  __m512 v0 = _mm512_mul_ps(x0, one_over);
  __m512 v1 = _mm512_mul_ps(x1, one_over);
  /* what is below any whole number comes out as the least one */
  __m512i i0 =
      _mm512_cvtps_epi32(_mm512_maskz_min_ps(_mm512_cmp_ps_mask(v0, v0, _CMP_ORD_Q), v0, far));
  __m512i i1 =
      _mm512_cvtps_epi32(_mm512_maskz_min_ps(_mm512_cmp_ps_mask(v1, v1, _CMP_ORD_Q), v1, far));
  __m512i words = _mm512_adds_epi16(_mm512_packs_epi32(i0, i1), zero);
  __m256i bytes = is_signed
                      ? _mm512_cvtsepi16_epi8(words)
                      : _mm512_cvtusepi16_epi8(_mm512_max_epi16(words, _mm512_setzero_si512()));

  return _mm256_permutevar8x32_epi32(bytes, order);
}

RG_ROW_INLINE void rg_i8_rows_begin(rg_i8_rows *r, void *y, int64_t y_step, int32_t dtype,
                                    const rg_i8_left *left, const rg_i8_scales *s)
{
  const int32_t *fix = left->fix;

  r->sum = left->sums;
  r->until = left->until;
  r->run = left->run;
  r->gap = left->gap * RG_PANEL;
  r->x_scale = s->x_scale;
  r->x_step = s->x_step;
  r->y = y;
  r->y_step = y_step;
  r->dtype = dtype;
  r->act = s->act;
  for (int i = 0; i < 2; i++) {
    r->fix[i] = _mm512_loadu_si512(fix + i * 16);
    r->w_scale[i] = _mm512_loadu_ps(s->w_scale + i * 16);
    /* what -0 is added to stays as it is, 0 of either sign, too */
    r->bias[i] = s->bias != NULL ? _mm512_loadu_ps(s->bias + i * 16) : _mm512_set1_ps(-0.0f);
  }
  r->one_over = _mm512_set1_ps(1.0f / s->y_scale);
  r->zero = _mm512_set1_epi16((int16_t)s->y_zero);
}

RG_ROW_INLINE void rg_i8_rows_next(rg_i8_rows *r)
{
  const __m512 x_scale = _mm512_set1_ps(*r->x_scale);
  __m512 v[2];

  for (int i = 0; i < 2; i++) {
    v[i] = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_loadu_si512(r->sum + i * 16), r->fix[i]));
    v[i] = _mm512_mul_ps(_mm512_mul_ps(v[i], x_scale), r->w_scale[i]);
    v[i] = _mm512_add_ps(v[i], r->bias[i]);
  }
  if (r->act != RG_ACT_NONE) { /* what is not a number stays that: the second operand */
    v[0] = _mm512_max_ps(_mm512_setzero_ps(), v[0]);
    v[1] = _mm512_max_ps(_mm512_setzero_ps(), v[1]);
  }
  if (r->act == RG_ACT_RELU6) {
    v[0] = _mm512_min_ps(_mm512_set1_ps(6.0f), v[0]);
    v[1] = _mm512_min_ps(_mm512_set1_ps(6.0f), v[1]);
  }
  if (r->dtype == RG_F32) {
    _mm512_storeu_ps(r->y, v[0]);
    _mm512_storeu_ps(r->y + 64, v[1]);
  } else {
    _mm256_storeu_si256((__m256i *)(void *)r->y,
                        r->dtype == RG_I8 ? rg_row_bytes(v[0], v[1], r->one_over, r->zero, true)
                                          : rg_row_bytes(v[0], v[1], r->one_over, r->zero, false));
  }
  r->sum += RG_PANEL;
  if (--r->until == 0) {
    r->until = r->run;
    r->sum += r->gap;
  }
  r->x_scale += r->x_step;
  r->y += r->y_step;
}

#endif
