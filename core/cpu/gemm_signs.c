/* SPDX-License-Identifier: MIT */
/*
** Products with fixed signs on the tile registers of AMX.
**
** Half of a sketched layer's work multiplies by +-1/sqrt(R).  The signs are kept as bits and become
** tiles of +-1 as they are used, which saves most of their way through memory; the factor follows
** the sum.
**
** In f32 there is more to it: plus and minus one are exact in bf16, and any f32 number is the exact
** sum of three numbers in bf16 (24 bits of mantissa, eight in each), so f fixed is three tile
** products with sums in f32, with no more error than any f32 product has, at about twice the speed
** of the f32 units.  What else belongs to the sum follows into the same tile before the epilogue.
*/
#include "cpu/gemm.h"

enum { PARTS = 3 };

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,amx-tile,amx-bf16,bmi2")
#include <immintrin.h>

/* -- Splitting and expanding ------------------------------------------------------------------ */

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
  const __m512i quiet = _mm512_set1_epi32(0x00400000);

  for (int64_t i = 0; i < n; i += 16) {
    __mmask16 lanes = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
    __m512 rest = _mm512_maskz_loadu_ps(lanes, x + i);
    /* an infinity is its first part alone, and so is a nan, made quiet so that it stays one */
    __mmask16 nan = _mm512_cmp_ps_mask(rest, rest, _CMP_UNORD_Q);
    __mmask16 finite =
        _mm512_cmp_ps_mask(_mm512_abs_ps(rest), _mm512_set1_ps(3.402823466e38f), _CMP_LE_OQ);
    __m512i bits = _mm512_castps_si512(rest);

    rest = _mm512_castsi512_ps(_mm512_mask_or_epi32(bits, nan, bits, quiet));
    for (int p = 0; p < PARTS; p++) {
      __m512i head = cut(&rest, finite);

      _mm256_mask_storeu_epi16(y + p * part + i, lanes, _mm512_cvtepi32_epi16(head));
    }
  }
}

void rg_amx_expand(const uint32_t *words, int64_t k, uint16_t *tiles)
{
  const __m512i minus = _mm512_set1_epi16((short)0xbf80);
  const __m512i plus = _mm512_set1_epi16(0x3f80);

  /* a row of a tile holds pairs of neighbouring steps: even bits from one word, odd from the next;
  ** what stands behind the last step is multiplied by zeros */
  for (int64_t l = 0; l < k; l += RG_BF16_STEP, tiles += 2 * RG_BF16_STEP * 16) {
    for (int64_t r = 0; r < RG_BF16_STEP && l + r < k; r += 2) {
      uint32_t even = words[l + r];
      uint32_t odd = l + r + 1 < k ? words[l + r + 1] : 0;
      __mmask32 first = _pdep_u32(even, 0x55555555u) | _pdep_u32(odd, 0xaaaaaaaau);
      __mmask32 second = _pdep_u32(even >> 16, 0x55555555u) | _pdep_u32(odd >> 16, 0xaaaaaaaau);

      _mm512_storeu_si512(tiles + r * 16, _mm512_mask_blend_epi16(first, minus, plus));
      _mm512_storeu_si512(tiles + RG_BF16_STEP * 16 + r * 16,
                          _mm512_mask_blend_epi16(second, minus, plus));
    }
    for (int64_t r = k - l + ((k - l) & 1); r < RG_BF16_STEP; r += 2) {
      _mm512_storeu_si512(tiles + r * 16, plus);
      _mm512_storeu_si512(tiles + RG_BF16_STEP * 16 + r * 16, plus);
    }
  }
}

/* -- Tiles ------------------------------------------------------------------------------------ */

/* c (+)= a b over so many steps, a in parts whose products are summed; two tiles of rows, or
** one. */
static inline __attribute__((always_inline)) void block(const int parts, const bool two,
                                                        int64_t steps, const uint16_t *a,
                                                        int64_t lda, int64_t part,
                                                        const uint16_t *b, float *c, bool add)
{
  /* what the tiles read is stored by now: their loads do not say so to the compiler */
  __asm__ volatile("" : : : "memory");
  if (add) {
    _tile_loadd(0, c, RG_PANEL * 4);
    _tile_loadd(1, c + 16, RG_PANEL * 4);
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  if (two && add) {
    _tile_loadd(2, c + 16 * RG_PANEL, RG_PANEL * 4);
    _tile_loadd(3, c + 16 * RG_PANEL + 16, RG_PANEL * 4);
  } else if (two) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t l = 0; l < steps; l++, a += RG_BF16_STEP, b += 1024) {
    _tile_loadd(6, b, 64);
    _tile_loadd(7, b + 512, 64);
#pragma GCC unroll 3
    for (int p = 0; p < parts; p++) {
      _tile_loadd(4, a + p * part, lda * 2);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      if (two) {
        _tile_loadd(5, a + p * part + 16 * lda, lda * 2);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
    }
  }
  _tile_stored(0, c, RG_PANEL * 4);
  _tile_stored(1, c + 16, RG_PANEL * 4);
  if (two) {
    _tile_stored(2, c + 16 * RG_PANEL, RG_PANEL * 4);
    _tile_stored(3, c + 16 * RG_PANEL + 16, RG_PANEL * 4);
  }
}

static void fixed_block(const rg_gemm *g, int64_t row, int64_t rows, const uint16_t *tiles,
                        float *c)
{
  int64_t steps = rg_pack_depth(RG_PACK_BF16, g->p->fixed.k) / RG_BF16_STEP;
  const uint16_t *f = g->f + row * g->ldf;

  if (g->n_parts == PARTS && rows > 16) {
    block(PARTS, true, steps, f, g->ldf, g->part, tiles, c, false);
  } else if (g->n_parts == PARTS) {
    block(PARTS, false, steps, f, g->ldf, g->part, tiles, c, false);
  } else if (rows > 16) {
    block(1, true, steps, f, g->ldf, 0, tiles, c, false);
  } else {
    block(1, false, steps, f, g->ldf, 0, tiles, c, false);
  }
}

static void free_block_bf16(const rg_gemm *g, int64_t row, int64_t rows, const uint16_t *b,
                            float *c)
{
  int64_t steps = g->p->k / RG_BF16_STEP;
  const uint16_t *a = (const uint16_t *)g->a + row * g->lda;

  if (rows > 16) {
    block(1, true, steps, a, g->lda, 0, b, c, true);
  } else {
    block(1, false, steps, a, g->lda, 0, b, c, true);
  }
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

void rg_amx_expand(const uint32_t *words, int64_t k, uint16_t *tiles)
{
  (void)words;
  (void)k;
  (void)tiles;
}

static void fixed_block(const rg_gemm *g, int64_t row, int64_t rows, const uint16_t *tiles,
                        float *c)
{
  (void)g;
  (void)row;
  (void)rows;
  (void)tiles;
  (void)c;
}

static void free_block_bf16(const rg_gemm *g, int64_t row, int64_t rows, const uint16_t *b,
                            float *c)
{
  fixed_block(g, row, rows, b, c);
}

#endif

/* -- The product ------------------------------------------------------------------------------- */

/* One panel of both right factors, prepared by this thread. */
typedef struct panels {
  const uint16_t *fixed; /* tiles of +-1 */
  const void *b;         /* NULL: no other part */
} panels;

int64_t rg_gemm_signs_room(const rg_gemm *g)
{
  const rg_product *p = g->p;
  int64_t bytes = rg_pack_panel_bytes(RG_PACK_BF16, p->fixed.k);

  if (!rg_weight_keeps(&p->fixed)) {
    bytes += rg_round_up(p->fixed.k * 4, 64);
  }
  if (p->k > 0 && !rg_weight_keeps(&p->b)) {
    bytes += rg_pack_panel_bytes(g->format, p->k);
  }
  return bytes;
}

static panels panels_of(const rg_gemm *g, int64_t j, int32_t thread)
{
  const rg_product *p = g->p;
  char *room = g->room + thread * g->room_bytes;
  uint16_t *tiles = (uint16_t *)(void *)room;
  const uint32_t *words;
  panels both = { tiles, NULL };

  room += rg_pack_panel_bytes(RG_PACK_BF16, p->fixed.k);
  if (g->words != NULL) {
    words = g->words + j * p->fixed.k;
  } else {
    rg_pack_signs(&p->fixed, j, (uint32_t *)(void *)room);
    words = (uint32_t *)(void *)room;
    room += rg_round_up(p->fixed.k * 4, 64);
  }
  rg_amx_expand(words, p->fixed.k, tiles);
  if (p->k > 0 && g->b != NULL) {
    both.b = (const char *)g->b + j * rg_pack_panel_bytes(g->format, p->k);
  } else if (p->k > 0) {
    rg_pack_panel(&p->b, g->format, j, 0, p->k, room);
    both.b = room;
  }
  return both;
}

/* Rows row .. row+rows of one panel. */
static void run_block(const rg_gemm *g, const panels *b, int64_t row, int64_t rows, int64_t j)
{
  const rg_product *p = g->p;
  _Alignas(64) float c[RG_AMX_ROWS * RG_PANEL];
  int64_t n = (rows + g->kernels->rows_most - 1) / g->kernels->rows_most;

  fixed_block(g, row, rows, b->fixed, c);
  g->kernels->affine(c, rows, RG_PANEL, NULL, g->sign, false);
  if (b->b != NULL && g->format == RG_PACK_BF16) {
    free_block_bf16(g, row, rows, b->b, c);
  } else if (b->b != NULL) {
    const float *next = (const float *)b->b + (g->b != NULL ? p->k * RG_PANEL : 0);

    for (int64_t i = 0; i < n; i++) {
      int64_t first = rows * i / n;
      int64_t some = rows * (i + 1) / n - first;
      const float *a = (const float *)g->a + (row + first) * g->lda;

      g->kernels->tile[some](p->k, a, g->lda, b->b, c + first * RG_PANEL, RG_PANEL, true,
                             next + (row + first) * p->k * RG_PANEL / p->m);
    }
  }
  rg_gemm_epilogue(g, c, RG_PANEL, row, rows, j * RG_PANEL);
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
    rg_amx_configure(16, 16, 16);
  }
  for (int64_t j = j0; j < j1 && !rg_interrupt_pending(); j++) {
    panels b = panels_of(g, j, thread);

    for (int64_t i = i0; i < whole; i++) {
      run_block(g, &b, i * RG_AMX_ROWS, RG_AMX_ROWS, j);
    }
    if (whole < i1) {
      rg_amx_configure(rg_min_i64(last, 16), last - 16, 16);
      run_block(g, &b, whole * RG_AMX_ROWS, last, j);
      if (i0 < whole) {
        rg_amx_configure(16, 16, 16);
      }
    }
  }
  rg_amx_release();
}
