/* SPDX-License-Identifier: MIT */
/*
** bf16 products on the tile registers of AMX: four tiles of sums, two of a and two of b, so that
** four tile instructions need four loads.
**
** a is read where it lies (a tile load takes any distance between rows); b is packed.  The whole
** inner axis passes before the sums leave their registers.  Measured at two threads, 256 x 2048 x
** 1024: 2.2 TFLOP/s, where oneDNN 2.6 has 1.3 with packed weights.
**
** Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter 20.
*/
#include "cpu/gemm.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,amx-tile,amx-bf16")
#include <immintrin.h>

bool rg_amx_usable(void)
{
  return rg_isa() >= RG_ISA_AMX;
}

/* -- Tiles ------------------------------------------------------------------------------------- */

/* Registers: 0 1 2 3 sums (rows r0: 0 1, rows r1: 2 3), 4 5 a, 6 7 b (depth rows). */
void rg_amx_configure(int64_t r0, int64_t r1, int64_t depth)
{
  struct {
    uint8_t palette;
    uint8_t start;
    uint8_t zero[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } c = { .palette = 1 };

  _Static_assert(sizeof(c) == 64, "a tile configuration has 64 bytes");
  for (int i = 0; i < 8; i++) {
    c.row_bytes[i] = 64;
    c.rows[i] = 16;
  }
  c.rows[0] = c.rows[1] = c.rows[4] = (uint8_t)r0;
  c.rows[2] = c.rows[3] = c.rows[5] = (uint8_t)(r1 > 0 ? r1 : r0);
  c.row_bytes[4] = c.row_bytes[5] = (uint16_t)(depth * 4);
  c.rows[6] = c.rows[7] = (uint8_t)depth;
  /* GCC 12's intrinsic says it reads eight bytes: without this the others are never stored */
  __asm__ volatile("" : : "r"(&c) : "memory");
  _tile_loadconfig(&c);
}

void rg_amx_release(void)
{
  _tile_release();
}

/* What is read next: so many lines of 64 bytes with every step. */
typedef struct ahead {
  const char *at;
  int64_t lines;
} ahead;

/* Two tiles of rows and two of columns onto the sums.  With every step some of what is read next
** comes into L2: 10 % where b is large. */
static inline void multiply(int64_t steps, const uint16_t *a0, const uint16_t *a1, int64_t lda,
                            const uint16_t *b, ahead next)
{
  for (int64_t l = 0; l < steps; l++) {
    for (int64_t q = 0; q < next.lines; q++, next.at += 64) {
      _mm_prefetch(next.at, _MM_HINT_T1);
    }
    /* loads between products: 7 % faster than all loads first (measured) */
    _tile_loadd(4, a0, lda * 2);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + 512, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a1, lda * 2);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    a0 += RG_BF16_STEP;
    a1 += RG_BF16_STEP;
    b += 1024;
  }
}

/* Tile loads do not say that they read memory: what they read is stored before this. */
static inline void settle(void)
{
  __asm__ volatile("" : : : "memory");
}

static inline void zero_sums(void)
{
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

static inline void store_sums(float *c, int64_t ldc)
{
  _tile_stored(0, c, ldc * 4);
  _tile_stored(1, c + 16, ldc * 4);
  _tile_stored(2, c + 16 * ldc, ldc * 4);
  _tile_stored(3, c + 16 * ldc + 16, ldc * 4);
}

static void block_2(int64_t steps, const uint16_t *a0, const uint16_t *a1, int64_t lda,
                    const uint16_t *b, float *c, ahead next)
{
  settle();
  zero_sums();
  multiply(steps, a0, a1, lda, b, next);
  store_sums(c, RG_PANEL);
}

/* One tile of rows: odd steps have sums of their own, so that they need not wait for even ones. */
static void block_1(int64_t steps, const uint16_t *a, int64_t lda, const uint16_t *b, float *c,
                    int64_t rows)
{
  float odd[16 * RG_PANEL];
  int64_t l = 0;

  settle();
  zero_sums();
  for (; l + 2 <= steps; l += 2) {
    _tile_loadd(4, a, lda * 2);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + 512, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + RG_BF16_STEP, lda * 2);
    _tile_loadd(6, b + 1024, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_loadd(7, b + 1536, 64);
    _tile_dpbf16ps(3, 5, 7);
    a += 2 * RG_BF16_STEP;
    b += 2048;
  }
  if (l < steps) {
    _tile_loadd(4, a, lda * 2);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + 512, 64);
    _tile_dpbf16ps(1, 4, 7);
  }
  _tile_stored(0, c, RG_PANEL * 4);
  _tile_stored(1, c + 16, RG_PANEL * 4);
  _tile_stored(2, odd, RG_PANEL * 4);
  _tile_stored(3, odd + 16, RG_PANEL * 4);
  for (int64_t i = 0; i < rows * RG_PANEL; i += 16) {
    _mm512_storeu_ps(c + i, _mm512_add_ps(_mm512_loadu_ps(c + i), _mm512_loadu_ps(odd + i)));
  }
}

void rg_amx_block(int64_t steps, const uint16_t *a, int64_t lda, const uint16_t *b, float *c,
                  int64_t ldc, bool add)
{
  settle();
  if (add) {
    _tile_loadd(0, c, ldc * 4);
    _tile_loadd(1, c + 16, ldc * 4);
    _tile_loadd(2, c + 16 * ldc, ldc * 4);
    _tile_loadd(3, c + 16 * ldc + 16, ldc * 4);
  } else {
    zero_sums();
  }
  multiply(steps, a, a + 16 * lda, lda, b, (ahead){ .lines = 0 });
  store_sums(c, ldc);
  settle();
}

/* Bring the places of a block of the result nearer while it is computed: where it leaves the caches
** between calls, its stores would wait. */
static void touch(const rg_product *p, int64_t i, int64_t j)
{
  int64_t size = p->c_dtype == RG_F32 ? 4 : 2;
  const char *c = (const char *)p->c + (i * p->c_row + j) * size;

  for (int64_t r = 0; r < RG_AMX_ROWS; r++, c += p->c_row * size) {
    __builtin_prefetch(c, 1, 2);
    if (size == 4) {
      __builtin_prefetch(c + 64, 1, 2);
    }
  }
}

/* -- The product ------------------------------------------------------------------------------- */

/* The packed panel behind the one at hand, which is to come nearer within so many steps. */
static ahead behind(const rg_gemm *g, const uint16_t *b, int64_t steps)
{
  int64_t lines = rg_pack_panel_bytes(RG_PACK_BF16, g->p->k) / 64;
  ahead next = { .at = (const char *)b + lines * 64 };

  if (g->b != NULL && steps > 0) {
    next.lines = rg_min_i64(8, (lines + steps - 1) / steps);
  }
  return next;
}

/* A panel times the blocks of rows i0 .. i1, of which the last one may be a part of one. */
static void run_panel(const rg_gemm *g, const uint16_t *b, int64_t j, int64_t i0, int64_t i1)
{
  const rg_product *p = g->p;
  _Alignas(64) float c[RG_AMX_ROWS * RG_PANEL];
  int64_t steps = rg_pack_depth(RG_PACK_BF16, p->k) / RG_BF16_STEP;
  int64_t whole = rg_min_i64(i1, p->m / RG_AMX_ROWS); /* blocks with all their rows */
  int64_t last = p->m % RG_AMX_ROWS;
  int64_t r0 = rg_min_i64(last, 16);
  const uint16_t *a = g->a;
  ahead next = behind(g, b, (i1 - i0) * steps);

  for (int64_t i = i0; i < whole; i++) {
    const uint16_t *at = a + i * RG_AMX_ROWS * g->lda;

    touch(p, i * RG_AMX_ROWS, j * RG_PANEL);
    block_2(steps, at, at + 16 * g->lda, g->lda, b, c, next);
    next.at += steps * next.lines * 64;
    rg_gemm_epilogue(g, c, RG_PANEL, i * RG_AMX_ROWS, RG_AMX_ROWS, j * RG_PANEL);
  }
  if (whole < i1) {
    const uint16_t *at = a + whole * RG_AMX_ROWS * g->lda;

    rg_amx_configure(r0, last - r0, 16);
    if (last > 16) {
      block_2(steps, at, at + 16 * g->lda, g->lda, b, c, (ahead){ .lines = 0 });
    } else {
      block_1(steps, at, g->lda, b, c, last);
    }
    rg_gemm_epilogue(g, c, RG_PANEL, whole * RG_AMX_ROWS, last, j * RG_PANEL);
    rg_amx_configure(16, 16, 16);
  }
}

void rg_gemm_amx(const rg_gemm *g, int32_t thread, int32_t n_threads)
{
  const rg_product *p = g->p;
  int64_t panels = (p->n + RG_PANEL - 1) / RG_PANEL;
  int64_t rows = (p->m + RG_AMX_ROWS - 1) / RG_AMX_ROWS;
  int64_t j0 = g->split_rows ? 0 : panels * thread / n_threads;
  int64_t j1 = g->split_rows ? panels : panels * (thread + 1) / n_threads;
  int64_t i0 = g->split_rows ? rows * thread / n_threads : 0;
  int64_t i1 = g->split_rows ? rows * (thread + 1) / n_threads : rows;
  int64_t kept = rg_gemm_tiles_kept(RG_AMX_ROWS, p->k * 2);

  if (i0 >= i1 || j0 >= j1) {
    return;
  }
  rg_amx_configure(16, 16, 16);
  for (int64_t i = i0; i < i1; i += kept) {
    for (int64_t j = j0; j < j1 && !rg_interrupt_pending(); j++) {
      run_panel(g, rg_gemm_panel_bf16(g, j, thread), j, i, rg_min_i64(i1, i + kept));
    }
  }
  rg_amx_release();
}

#pragma GCC pop_options
#else

bool rg_amx_usable(void)
{
  return false;
}

void rg_amx_configure(int64_t r0, int64_t r1, int64_t depth)
{
  (void)depth;
  (void)r0;
  (void)r1;
}

void rg_amx_release(void)
{
}

void rg_amx_block(int64_t steps, const uint16_t *a, int64_t lda, const uint16_t *b, float *c,
                  int64_t ldc, bool add)
{
  (void)ldc;
  (void)add;
  (void)steps;
  (void)a;
  (void)lda;
  (void)b;
  (void)c;
}

void rg_gemm_amx(const rg_gemm *g, int32_t thread, int32_t n_threads)
{
  (void)g;
  (void)thread;
  (void)n_threads;
}

#endif
