/* SPDX-License-Identifier: MIT */
/*
** f32 products with fixed signs on the tile registers of AMX.
**
** Half of a sketched layer's work multiplies by +-1/sqrt(R).  Plus and minus one are exact in bf16,
** and any f32 number is the exact sum of three numbers in bf16 (24 bits of mantissa, eight in each),
** so f fixed = sign (f1 + f2 + f3)(+-1): three tile products with sums in f32, with no more error than
** any f32 product has, at about twice the speed of the f32 units.  What else belongs to the sum
** comes from the ordinary f32 tiles, into the same tile, before the way out.
*/
#include "cpu/gemm.h"

enum { PARTS = 3 };

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,amx-tile,amx-bf16")
#include <immintrin.h>

/* -- Splitting ------------------------------------------------------------------------------ */

/* Cut off all but the first eight bits of the mantissas; what is cut stays in x. */
static __m512i cut(__m512 *x, __mmask16 finite)
{
  __m512i bits = _mm512_castps_si512(*x);
  __m512i head = _mm512_and_si512(bits, _mm512_set1_epi32((int)0xffff0000u));

  *x = _mm512_maskz_sub_ps(finite, *x, _mm512_castsi512_ps(head));
  return _mm512_srli_epi32(head, 16);
}

void rg_amx_split(const float *x, uint16_t *y, int64_t part, int64_t n)
{
  for (int64_t i = 0; i < n; i += 16) {
    __mmask16 lanes = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
    __m512 rest = _mm512_maskz_loadu_ps(lanes, x + i);
    /* an infinity is its first part alone, and so is a nan, made quiet so that it stays one */
    __mmask16 nan = _mm512_cmp_ps_mask(rest, rest, _CMP_UNORD_Q);
    __mmask16 finite = _mm512_cmp_ps_mask(_mm512_abs_ps(rest), _mm512_set1_ps(3.402823466e38f),
                                          _CMP_LE_OQ);
    rest = _mm512_castsi512_ps(_mm512_mask_or_epi32(_mm512_castps_si512(rest), nan,
                                                    _mm512_castps_si512(rest),
                                                    _mm512_set1_epi32(0x00400000)));
    for (int p = 0; p < PARTS; p++) {
      __m512i head = cut(&rest, finite);

      _mm256_mask_storeu_epi16(y + p * part + i, lanes, _mm512_cvtepi32_epi16(head));
    }
  }
}

/* -- Tiles ------------------------------------------------------------------------------------ */

static void block_2(int64_t steps, const uint16_t *f, int64_t ldf, int64_t part,
                    const uint16_t *b, float *c)
{
  __asm__ volatile("" : : : "memory"); /* what the tiles read is stored: their loads do not say so */
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t l = 0; l < steps; l++, f += RG_AMX_STEP, b += 1024) {
    _tile_loadd(6, b, 64);
    _tile_loadd(7, b + 512, 64);
#pragma GCC unroll 3
    for (int p = 0; p < PARTS; p++) {
      _tile_loadd(4, f + p * part, ldf * 2);
      _tile_loadd(5, f + p * part + 16 * ldf, ldf * 2);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c, RG_PANEL * 4);
  _tile_stored(1, c + 16, RG_PANEL * 4);
  _tile_stored(2, c + 16 * RG_PANEL, RG_PANEL * 4);
  _tile_stored(3, c + 16 * RG_PANEL + 16, RG_PANEL * 4);
}

static void block_1(int64_t steps, const uint16_t *f, int64_t ldf, int64_t part,
                    const uint16_t *b, float *c)
{
  __asm__ volatile("" : : : "memory"); /* what the tiles read is stored: their loads do not say so */
  _tile_zero(0);
  _tile_zero(1);
  for (int64_t l = 0; l < steps; l++, f += RG_AMX_STEP, b += 1024) {
    _tile_loadd(6, b, 64);
    _tile_loadd(7, b + 512, 64);
#pragma GCC unroll 3
    for (int p = 0; p < PARTS; p++) {
      _tile_loadd(4, f + p * part, ldf * 2);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
    }
  }
  _tile_stored(0, c, RG_PANEL * 4);
  _tile_stored(1, c + 16, RG_PANEL * 4);
}

#pragma GCC pop_options
#else

void rg_amx_split(const float *x, uint16_t *y, int64_t part, int64_t n)
{
  (void)x;
  (void)y;
  (void)part;
  (void)n;
}

static void block_2(int64_t steps, const uint16_t *f, int64_t ldf, int64_t part,
                    const uint16_t *b, float *c)
{
  (void)steps;
  (void)f;
  (void)ldf;
  (void)part;
  (void)b;
  (void)c;
}

static void block_1(int64_t steps, const uint16_t *f, int64_t ldf, int64_t part,
                    const uint16_t *b, float *c)
{
  block_2(steps, f, ldf, part, b, c);
}

#endif

/* -- The product ---------------------------------------------------------------------------------- */

/* Both panels of b, packed now where they are not kept. */
typedef struct panels {
  const uint16_t *fixed;
  const float *b;
} panels;

static panels panels_of(const rg_gemm *g, int64_t j, int32_t thread)
{
  const rg_product *p = g->p;
  char *room = g->room + thread * g->room_bytes;
  int64_t fixed_bytes = rg_pack_panel_bytes(RG_PACK_BF16, p->fixed.k);
  panels both = { NULL, NULL };

  if (g->fixed != NULL) {
    both.fixed = (const uint16_t *)((const char *)g->fixed + j * fixed_bytes);
  } else {
    rg_pack_signs(&p->fixed, j, room);
    both.fixed = (const uint16_t *)room;
    room += fixed_bytes;
  }
  if (p->k > 0 && g->b != NULL) {
    both.b = (const float *)g->b + j * p->k * RG_PANEL;
  } else if (p->k > 0) {
    rg_pack_panel(&p->b, RG_PACK_F32, j, 0, p->k, room);
    both.b = (const float *)(void *)room;
  }
  return both;
}

/* Rows row .. row+rows of one panel. */
static void run_block(const rg_gemm *g, const panels *b, int64_t row, int64_t rows, int64_t j)
{
  const rg_product *p = g->p;
  _Alignas(64) float c[RG_AMX_ROWS * RG_PANEL];
  int64_t depth = rg_pack_depth(RG_PACK_BF16, p->fixed.k);
  const uint16_t *f = g->parts + row * depth;
  int64_t part = p->m * depth;
  int64_t n = (rows + g->kernels->rows_most - 1) / g->kernels->rows_most;

  if (rows > 16) {
    block_2(depth / RG_AMX_STEP, f, depth, part, b->fixed, c);
  } else {
    block_1(depth / RG_AMX_STEP, f, depth, part, b->fixed, c);
  }
  g->kernels->affine(c, rows, RG_PANEL, NULL, g->sign, false);
  for (int64_t i = 0; i < n && b->b != NULL; i++) {
    int64_t first = rows * i / n;
    int64_t some = rows * (i + 1) / n - first;
    const float *a = (const float *)g->a + (row + first) * g->lda;

    g->kernels->tile[some](p->k, a, g->lda, b->b, c + first * RG_PANEL, RG_PANEL, true);
  }
  rg_gemm_end(g, c, RG_PANEL, row, rows, j * RG_PANEL);
}

void rg_gemm_signs(const rg_gemm *g, int32_t thread, int32_t n_threads)
{
  const rg_product *p = g->p;
  int64_t panels_all = (p->n + RG_PANEL - 1) / RG_PANEL;
  int64_t blocks = (p->m + RG_AMX_ROWS - 1) / RG_AMX_ROWS;
  int64_t j0 = g->split_rows ? 0 : panels_all * thread / n_threads;
  int64_t j1 = g->split_rows ? panels_all : panels_all * (thread + 1) / n_threads;
  int64_t i0 = g->split_rows ? blocks * thread / n_threads : 0;
  int64_t i1 = g->split_rows ? blocks * (thread + 1) / n_threads : blocks;
  int64_t whole = rg_min_i64(i1, p->m / RG_AMX_ROWS);
  int64_t last = p->m % RG_AMX_ROWS;

  if (i0 >= i1 || j0 >= j1) {
    return;
  }
  if (i0 < whole) {
    rg_amx_configure(16, 16);
  }
  for (int64_t j = j0; j < j1; j++) {
    panels b = panels_of(g, j, thread);

    for (int64_t i = i0; i < whole; i++) {
      run_block(g, &b, i * RG_AMX_ROWS, RG_AMX_ROWS, j);
    }
    if (whole < i1) {
      rg_amx_configure(rg_min_i64(last, 16), last - 16);
      run_block(g, &b, whole * RG_AMX_ROWS, last, j);
      if (i0 < whole) {
        rg_amx_configure(16, 16);
      }
    }
  }
  rg_amx_release();
}
