/* SPDX-License-Identifier: MIT */
/*
** bf16 products by VDPBF16PS (AVX-512 BF16): an instruction multiplies pairs of neighbouring steps
** and adds both products to a sum in f32, so that there are half as many as in f32.  And conversion
** to bf16, for this kernel and the one on tile registers.
**
** Up to 14 rows by two vectors of sums are in registers, as in f32.  Panels are packed as for AMX
** (pack.c): a row of a tile holds the pairs of 16 columns.  a is read where it lies, a pair of each
** row broadcast.  The whole inner axis passes before the sums leave their registers.  The
** instruction takes subnormal numbers for zero.
**
** Intel Architecture Instruction Set Extensions Programming Reference, VDPBF16PS.
*/
#include "cpu/gemm.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,prefer-vector-width=512")
#include <immintrin.h>

bool rg_bf16_usable(void)
{
  return rg_isa() >= RG_ISA_AVX512_BF16;
}

/* -- Conversion ----------------------------------------------------------------------------- */

void rg_bf16_pack_rows(const float *row0, const float *row1, uint16_t *tile0, uint16_t *tile1)
{
  /* first the 16 numbers of row0, then those of row1: pairs take one of each */
  const __m512i pairs = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);

  for (int half = 0; half < 2; half++) {
    __m512bh both =
        _mm512_cvtne2ps_pbh(_mm512_loadu_ps(row1 + 16 * half), _mm512_loadu_ps(row0 + 16 * half));

    _mm512_storeu_si512(half == 0 ? tile0 : tile1, _mm512_permutexvar_epi16(pairs, (__m512i)both));
  }
}

void rg_bf16_pack_pairs(const uint16_t *row0, const uint16_t *row1, uint16_t *tile0,
                        uint16_t *tile1)
{
  const __m512i first = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40,
                                         8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
  __m512i a = _mm512_loadu_si512(row0);
  __m512i b = _mm512_loadu_si512(row1);

  _mm512_storeu_si512(tile0, _mm512_permutex2var_epi16(a, first, b));
  _mm512_storeu_si512(tile1, _mm512_permutex2var_epi16(a, second, b));
}

void rg_bf16_convert(const float *x, uint16_t *y, int64_t n)
{
  int64_t i = 0;

  for (; i + 32 <= n; i += 32) {
    __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + i + 16), _mm512_loadu_ps(x + i));

    _mm512_storeu_si512(y + i, (__m512i)both);
  }
  for (; i < n; i += 16) {
    __mmask16 lanes = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
    __m256bh some = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, x + i));

    _mm256_mask_storeu_epi16(y + i, lanes, (__m256i)some);
  }
}

/* -- Tiles ------------------------------------------------------------------------------------- */

enum {
  PAIRS = RG_BF16_STEP / 2, /* of one step of the packed form */
  ROW = 2 * 16,             /* numbers in a row of a packed tile */
  TILE = PAIRS * ROW,
  /* Up to so many rows even and odd pairs have sums of their own, since the latency of an
  ** instruction is longer than all that stand beside it.  Only products of so few rows have such
  ** tiles, so sums depend on sizes alone. */
  TWICE_MOST = 3
};

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Two neighbours; a row of a view begins at any of its elements. */
typedef int32_t pair __attribute__((aligned(2), may_alias));

/* A pair of one row, in every lane, times the same pair of 32 columns. */
#define ROW_PAIR(r, at)                                                          \
  if (r < rows) {                                                                \
    __m512bh x = (__m512bh)_mm512_set1_epi32(*(const pair *)(const void *)(at)); \
                                                                                 \
    s[r][0] = _mm512_dpbf16_ps(s[r][0], x, (__m512bh)b0);                        \
    s[r][1] = _mm512_dpbf16_ps(s[r][1], x, (__m512bh)b1);                        \
  }

/* A pair of each row onto the sums; the rows at p0 .. p3 and two multiples of their distance
** reach all fourteen. */
ALWAYS_INLINE void add_pair(const int rows, __m512 s[][2], const uint16_t *b, const char *p0,
                            const char *p1, const char *p2, const char *p3, int64_t ld, int64_t ld3)
{
  __m512i b0 = _mm512_loadu_si512(b);
  __m512i b1 = _mm512_loadu_si512(b + TILE);

  ROW_PAIR(0, p0)
  ROW_PAIR(1, p0 + ld)
  ROW_PAIR(2, p0 + 2 * ld)
  ROW_PAIR(3, p0 + ld3)
  ROW_PAIR(4, p1)
  ROW_PAIR(5, p1 + ld)
  ROW_PAIR(6, p1 + 2 * ld)
  ROW_PAIR(7, p1 + ld3)
  ROW_PAIR(8, p2)
  ROW_PAIR(9, p2 + ld)
  ROW_PAIR(10, p2 + 2 * ld)
  ROW_PAIR(11, p2 + ld3)
  ROW_PAIR(12, p3)
  ROW_PAIR(13, p3 + ld)
}

/* c[r, 0..31] (+)= rows of a times a packed panel, so many steps of 32. */
ALWAYS_INLINE void tile(const int rows, int64_t steps, const uint16_t *a, int64_t lda,
                        const uint16_t *b, float *c, int64_t ldc, bool add, const char *next)
{
  const int odd = rows <= TWICE_MOST ? rows : 0;
  __m512 s[RG_ROWS_MOST][2];
  int64_t ld = lda * 2;
  int64_t ld3 = ld * 3;
  const char *p0 = (const char *)a;
  const char *p1 = p0 + (rows > 4 ? 4 * ld : 0);
  const char *p2 = p1 + (rows > 8 ? 4 * ld : 0);
  const char *p3 = p2 + (rows > 12 ? 4 * ld : 0);

#pragma GCC unroll 14
  for (int r = 0; r < rows + odd; r++) {
    s[r][0] = _mm512_setzero_ps();
    s[r][1] = _mm512_setzero_ps();
  }
  for (int64_t l = 0; l < steps; l++) {
#pragma GCC unroll 16
    for (int q = 0; q < PAIRS; q++) {
      add_pair(rows, q % 2 == 0 ? s : s + odd, b + q * ROW, p0 + 4 * q, p1 + 4 * q, p2 + 4 * q,
               p3 + 4 * q, ld, ld3);
      if (q % 4 == 3) {
        _mm_prefetch(next, _MM_HINT_T1);
        next += 64;
      }
    }
    b += 2 * TILE;
    p0 += 2 * RG_BF16_STEP;
    p1 += 2 * RG_BF16_STEP;
    p2 += 2 * RG_BF16_STEP;
    p3 += 2 * RG_BF16_STEP;
  }
#pragma GCC unroll 14
  for (int r = 0; r < rows; r++, c += ldc) {
    if (odd > 0) {
      s[r][0] = _mm512_add_ps(s[r][0], s[r + odd][0]);
      s[r][1] = _mm512_add_ps(s[r][1], s[r + odd][1]);
    }
    if (add) {
      s[r][0] = _mm512_add_ps(s[r][0], _mm512_loadu_ps(c));
      s[r][1] = _mm512_add_ps(s[r][1], _mm512_loadu_ps(c + 16));
    }
    _mm512_storeu_ps(c, s[r][0]);
    _mm512_storeu_ps(c + 16, s[r][1]);
  }
}

typedef void tile_bf16(int64_t steps, const uint16_t *a, int64_t lda, const uint16_t *b, float *c,
                       int64_t ldc, bool add, const char *next);

#define TILE_OF(rows)                                                                       \
  static void tile_##rows(int64_t steps, const uint16_t *a, int64_t lda, const uint16_t *b, \
                          float *c, int64_t ldc, bool add, const char *next)                \
  {                                                                                         \
    tile(rows, steps, a, lda, b, c, ldc, add, next);                                        \
  }
TILE_OF(1)
TILE_OF(2)
TILE_OF(3)
TILE_OF(4)
TILE_OF(5)
TILE_OF(6)
TILE_OF(7)
TILE_OF(8)
TILE_OF(9)
TILE_OF(10)
TILE_OF(11)
TILE_OF(12)
TILE_OF(13)
TILE_OF(14)

static tile_bf16 *const tiles[RG_ROWS_MOST + 1] = { NULL,    tile_1,  tile_2,  tile_3,  tile_4,
                                                    tile_5,  tile_6,  tile_7,  tile_8,  tile_9,
                                                    tile_10, tile_11, tile_12, tile_13, tile_14 };

void rg_bf16_rows(int64_t m, int64_t steps, const uint16_t *a, int64_t lda, const uint16_t *b,
                  float *c, int64_t ldc, bool add)
{
  int64_t most = rg_gemm_rows_most(lda * 2, RG_ROWS_MOST);
  int64_t count = (m + most - 1) / most;

  for (int64_t i = 0; i < count; i++) {
    int64_t row = m * i / count;

    tiles[m * (i + 1) / count - row](steps, a + row * lda, lda, b, c + row * ldc, ldc, add,
                                     (const char *)b);
  }
}

/* -- The product ------------------------------------------------------------------------------- */

/* Steps between two looks at a request to stop. */
enum { STOP_STEPS = 1 << 17 };

/* Rows i0 .. i1 of a panel's product, of count tiles. */
static void run_panel(const rg_gemm *g, const uint16_t *b, int64_t j, int64_t i0, int64_t i1,
                      int64_t count)
{
  const rg_product *p = g->p;
  _Alignas(64) float c[RG_ROWS_MOST * RG_PANEL];
  int64_t steps = rg_pack_depth(RG_PACK_BF16, p->k) / RG_BF16_STEP;
  int64_t every = rg_max_i64(1, STOP_STEPS / rg_max_i64(1, steps * RG_BF16_STEP));
  /* while this panel is used, the one behind it comes nearer, a share with every tile of rows */
  int64_t bytes = rg_pack_panel_bytes(RG_PACK_BF16, p->k);
  const char *next = (const char *)b + (g->b != NULL ? bytes : 0);
  int64_t share = bytes / (i1 - i0) / 64 * 64;

  for (int64_t i = i0; i < i1; i++) {
    if ((i - i0) % every == every - 1 && rg_interrupt_pending()) {
      return;
    }
    int64_t row = p->m * i / count;
    int64_t rows = p->m * (i + 1) / count - row;

    tiles[rows](steps, (const uint16_t *)g->a + row * g->lda, g->lda, b, c, RG_PANEL, false,
                next + (i - i0) * share);
    rg_gemm_epilogue(g, c, RG_PANEL, row, rows, j * RG_PANEL);
  }
}

void rg_gemm_bf16(const rg_gemm *g, int32_t thread, int32_t n_threads)
{
  const rg_product *p = g->p;
  int64_t panels = (p->n + RG_PANEL - 1) / RG_PANEL;
  int64_t most = rg_gemm_rows_most(g->lda * 2, RG_ROWS_MOST);
  int64_t count = (p->m + most - 1) / most;
  int64_t j0 = g->split_rows ? 0 : panels * thread / n_threads;
  int64_t j1 = g->split_rows ? panels : panels * (thread + 1) / n_threads;
  int64_t i0 = g->split_rows ? count * thread / n_threads : 0;
  int64_t i1 = g->split_rows ? count * (thread + 1) / n_threads : count;

  int64_t kept = rg_gemm_tiles_kept(most, p->k * 2);

  for (int64_t i = i0; i < i1; i += kept) {
    for (int64_t j = j0; j < j1 && !rg_interrupt_pending(); j++) {
      run_panel(g, rg_gemm_panel_bf16(g, j, thread), j, i, rg_min_i64(i1, i + kept), count);
    }
  }
}

#pragma GCC pop_options
#else

bool rg_bf16_usable(void)
{
  return false;
}

void rg_bf16_pack_rows(const float *row0, const float *row1, uint16_t *tile0, uint16_t *tile1)
{
  (void)row0, (void)row1, (void)tile0, (void)tile1;
}

void rg_bf16_pack_pairs(const uint16_t *row0, const uint16_t *row1, uint16_t *tile0,
                        uint16_t *tile1)
{
  (void)row0, (void)row1, (void)tile0, (void)tile1;
}

void rg_bf16_convert(const float *x, uint16_t *y, int64_t n)
{
  (void)x, (void)y, (void)n;
}

void rg_bf16_rows(int64_t m, int64_t steps, const uint16_t *a, int64_t lda, const uint16_t *b,
                  float *c, int64_t ldc, bool add)
{
  (void)m, (void)steps, (void)a, (void)lda, (void)b, (void)c, (void)ldc, (void)add;
}

void rg_gemm_bf16(const rg_gemm *g, int32_t thread, int32_t n_threads)
{
  (void)g, (void)thread, (void)n_threads;
}

#endif
