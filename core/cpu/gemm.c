/* SPDX-License-Identifier: MIT */
/*
** ridge's own f32 product over packed panels, and the epilogue that both own products share.
**
** Sums are the same for any number of threads: which rows make a tile and where the inner axis is
** cut depends on the sizes alone.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/gemm.h"
#include "tensor/half.h"
#include "op/draw.h"

enum {
  /* Above this the inner axis is cut, so that a panel of b and the rows of a stay in L2
  ** (measured: 1024 is 5 % better than 2048 at 256 x 2048 x 1024, below it nothing) */
  DEPTH_MOST = 1280,
  DEPTH_CUT = 1024
};

extern const rg_gemm_kernels rg_gemm_base;
#if defined(__x86_64__)
extern const rg_gemm_kernels rg_gemm_avx2;
extern const rg_gemm_kernels rg_gemm_avx512;
#endif

const rg_gemm_kernels *rg_gemm_kernels_now(void)
{
#if defined(__x86_64__)
  switch (rg_isa()) {
  case RG_ISA_AMX:
  case RG_ISA_AVX512_BF16:
  case RG_ISA_AVX512:
    return &rg_gemm_avx512;
  case RG_ISA_AVX2:
    return &rg_gemm_avx2;
  default:
    break;
  }
#endif
  return &rg_gemm_base;
}

/* -- The epilogue --------------------------------------------------------------------------- */

/* Does it come with scale and bias? */
static bool is_clip(int32_t act)
{
  return act == RG_ACT_RELU || act == RG_ACT_RELU6;
}

static void activate(int32_t act, float *x, int64_t rows, int64_t ldx)
{
  if (act == RG_ACT_NONE || is_clip(act)) {
    return;
  }
  if (ldx == RG_PANEL) {
    rg_activate(act, RG_LANE_F32, x, rows * RG_PANEL);
    return;
  }
  for (int64_t r = 0; r < rows; r++) {
    rg_activate(act, RG_LANE_F32, x + r * ldx, RG_PANEL);
  }
}

/* Element (i, j) of the result takes draw i n + j, as rg_dropout does on the same tensor. */
static void drop(const rg_product *p, float *x, int64_t i, int64_t j, int64_t cols)
{
  float scale = (float)(1.0 / (1.0 - p->epilogue.p));
  uint64_t first = p->epilogue.draw.offset + (uint64_t)(i * p->n + j);
  uint64_t block = UINT64_MAX;
  uint32_t word[4];

  for (int64_t l = 0; l < cols; l++) {
    uint64_t number = first + (uint64_t)l;

    if (number >> 2 != block) {
      block = number >> 2;
      rg_philox(p->epilogue.draw.seed, block, word);
    }
    x[l] = rg_draw_keeps(word[number & 3], p->epilogue.p) ? x[l] * scale : 0;
  }
}

static void store_row(const rg_product *p, const float *x, int64_t i, int64_t j, int64_t cols)
{
  int64_t at = i * p->c_row + j;

  if (p->c_dtype == RG_F32) {
    float *c = (float *)p->c + at;

    if (c != x) {
      memcpy(c, x, (size_t)cols * sizeof(float));
    }
  } else {
    rg_simd()->cast->narrow[p->c_dtype]((uint16_t *)p->c + at, x, NULL, cols);
  }
}

/* Can a tile be stored in one pass?  (Sums that lie in c already are stored where they lie.) */
static bool can_finish(const rg_product *p, int64_t ldx, int64_t cols)
{
  return ldx == RG_PANEL && cols == RG_PANEL && p->epilogue.p == 0 &&
         (p->c_dtype == RG_BF16 || p->c_dtype == RG_F32);
}

static void finish(const rg_gemm *g, const float *x, int64_t i, int64_t rows, int64_t j,
                   const float *bias, float scale, int32_t act)
{
  const rg_product *p = g->p;
  int64_t at = (i * p->c_row + j) * (p->c_dtype == RG_F32 ? 4 : 2);

  g->kernels->finish(x, rows, bias, scale, act, (char *)p->c + at, p->c_row, p->c_dtype);
}

/* What lies in c is added to the tile. */
static void add(const rg_product *p, float *x, int64_t ldx, int64_t i, int64_t rows, int64_t j,
                int64_t cols)
{
  float run[RG_PANEL];

  for (int64_t r = 0; r < rows; r++) {
    rg_run_f32(p->c, p->c_dtype, (i + r) * p->c_row + j, 1, cols, run);
    for (int64_t l = 0; l < cols; l++) {
      x[r * ldx + l] += run[l];
    }
  }
}

void rg_gemm_epilogue(const rg_gemm *g, float *x, int64_t ldx, int64_t i, int64_t rows, int64_t j)
{
  const rg_product *p = g->p;
  const rg_epilogue *epilogue = &p->epilogue;
  int64_t cols = rg_min_i64(RG_PANEL, p->n - j);
  const float *bias = NULL;
  float some[RG_PANEL];

  if (epilogue->bias != NULL && epilogue->bias->_dtype == RG_F32 &&
      epilogue->bias->_stride[0] == 1 && cols == RG_PANEL) {
    bias = (const float *)epilogue->bias->_data + j;
  } else if (epilogue->bias != NULL) {
    memset(some, 0, sizeof(some));
    rg_run_f32(epilogue->bias->_data, epilogue->bias->_dtype, j * epilogue->bias->_stride[0],
               epilogue->bias->_stride[0], cols, some);
    bias = some;
  }
  bool simple = epilogue->act == RG_ACT_NONE || is_clip(epilogue->act);

  if (epilogue->adds) {
    if (bias != NULL || epilogue->scale != 1.0) {
      g->kernels->affine(x, rows, ldx, bias, (float)epilogue->scale, RG_ACT_NONE);
    }
    add(p, x, ldx, i, rows, j, cols);
    bias = NULL;
  }
  const float scale = epilogue->adds ? 1 : (float)epilogue->scale;

  if (simple && can_finish(p, ldx, cols)) {
    finish(g, x, i, rows, j, bias, scale, epilogue->act);
    return;
  }
  if (bias != NULL || scale != 1.0F || is_clip(epilogue->act)) {
    g->kernels->affine(x, rows, ldx, bias, scale,
                       is_clip(epilogue->act) ? epilogue->act : RG_ACT_NONE);
  }
  activate(epilogue->act, x, rows, ldx);
  if (can_finish(p, ldx, cols)) {
    finish(g, x, i, rows, j, NULL, 1, RG_ACT_NONE);
    return;
  }
  for (int64_t r = 0; r < rows; r++) {
    if (epilogue->p > 0) {
      drop(p, x + r * ldx, i + r, j, cols);
    }
    store_row(p, x + r * ldx, i + r, j, cols);
  }
}

/* -- The product ------------------------------------------------------------------------------ */

/* Steps k0 .. k0+kn of a panel, made now if it is not kept. */
static const float *panel_of(const rg_gemm *g, int64_t panel, int64_t k0, int64_t kn,
                             int32_t thread)
{
  if (g->b != NULL) {
    return (const float *)g->b + (panel * g->p->k + k0) * RG_PANEL;
  }
  float *room = (float *)(void *)(g->room + thread * g->room_bytes);
  rg_pack_panel(&g->p->b, RG_PACK_F32, panel, k0, kn, room);
  return room;
}

const uint16_t *rg_gemm_panel_bf16(const rg_gemm *g, int64_t panel, int32_t thread)
{
  int64_t bytes = rg_pack_panel_bytes(RG_PACK_BF16, g->p->k);

  if (g->b != NULL) {
    return (const uint16_t *)(const void *)((const char *)g->b + panel * bytes);
  }
  uint16_t *room = (uint16_t *)(void *)(g->room + thread * g->room_bytes);
  rg_pack_panel(&g->p->b, RG_PACK_BF16, panel, 0, g->p->k, room);
  return room;
}

/* Rows that are a multiple of a way of L1 apart all lie in one of its sets.  A tile of more of them
** than the set has lines (b takes one) fetches each line again at every step: in bf16, 256 x 2048 x
** 1024, 14 rows reach 0.82 of what seven do where a set has eight. */
int64_t rg_gemm_rows_most(int64_t apart, int64_t most)
{
  enum { LINE = 64, LEAST = RG_ROWS_MOST / 2 };
  const rg_machine *machine = rg_machine_facts();
  int64_t ways = machine->l1d_ways > 1 ? machine->l1d_ways : 8;
  int64_t way = machine->l1d_bytes > 0 ? machine->l1d_bytes / ways : 4096;
  int64_t step = rg_max_i64(apart & -apart, LINE); /* the power of two in it */
  int64_t sets = rg_max_i64(1, way / step);        /* that rows meet */

  return rg_min_i64(most, rg_max_i64(LEAST, (ways - 1) * sets));
}

int64_t rg_gemm_tiles_kept(int64_t rows, int64_t row_bytes)
{
  enum { LEAST = 64, L2 = 1 << 20 };
  int64_t l2 = rg_machine_facts()->l2_bytes;
  int64_t kept = (l2 > 0 ? l2 : L2) / 2 / rg_max_i64(1, row_bytes);

  return rg_max_i64(1, rg_max_i64(kept, LEAST) / rows);
}

/* Steps of a tile between two looks at a request to stop. */
enum { STEPS = 1 << 20 };

/* Row blocks i0 .. i1 of count, steps k0 .. k0+kn, one panel; x collects, or the tile if NULL. */
typedef struct part {
  int64_t i0, i1, count;
  int64_t k0, kn;
  int64_t panel;
  const float *b;
  bool last;
} part;

/* May a panel's sums go straight to c?  What follows is then done there.  A product that is cut
** collects in c; unary elementwise functions are faster over a tile without gaps. */
static bool straight(const rg_product *p, int64_t panel)
{
  return p->c_dtype == RG_F32 && !p->epilogue.adds && (panel + 1) * RG_PANEL <= p->n &&
         (p->k > DEPTH_MOST || p->epilogue.act == RG_ACT_NONE || is_clip(p->epilogue.act));
}

static void run_part(const rg_gemm *g, const part *t)
{
  const rg_product *p = g->p;
  _Alignas(64) float tile[RG_ROWS_MOST * RG_PANEL];
  int64_t j = t->panel * RG_PANEL;
  bool into_c = straight(p, t->panel);
  /* while this panel is used, the one behind it comes nearer, a share with every tile of rows */
  const float *next = t->b + (g->b != NULL ? p->k * RG_PANEL : 0);
  int64_t share = t->kn * RG_PANEL / (t->i1 - t->i0);

  for (int64_t i = t->i0; i < t->i1; i++) {
    if ((i & 3) == 3 && rg_interrupt_pending()) {
      return; /* a panel of many rows touches that many pages of a new result */
    }
    int64_t row = p->m * i / t->count;
    int64_t rows = p->m * (i + 1) / t->count - row;
    const float *a =
        (const float *)g->a + (g->across ? row + t->k0 * g->lda : row * g->lda + t->k0);
    float *c = into_c ? (float *)p->c + row * p->c_row + j : tile;
    int64_t ldc = into_c ? p->c_row : RG_PANEL;
    rg_tile_f32 *kernel = g->across   ? g->kernels->across[rows]
                          : p->m == 1 ? g->kernels->row
                                      : g->kernels->tile[rows];

    kernel(rg_min_i64(t->kn, STEPS), a, g->lda, t->b, c, ldc, t->k0 > 0, next);
    for (int64_t l = STEPS; l < t->kn && !rg_interrupt_pending(); l += STEPS) {
      kernel(rg_min_i64(t->kn - l, STEPS), a + (g->across ? l * g->lda : l), g->lda,
             t->b + l * RG_PANEL, c, ldc, true, next);
    }
    next += share;
    if (t->last) {
      rg_gemm_epilogue(g, c, ldc, row, rows, j);
    }
  }
}

/* Can the sums of this panel collect in c? */
static bool cuts(const rg_product *p, int64_t panel)
{
  return p->k > DEPTH_MOST && p->c_dtype == RG_F32 && !p->epilogue.adds &&
         (panel + 1) * RG_PANEL <= p->n;
}

/* Can those of all panels? */
static bool cuts_all(const rg_product *p)
{
  return p->n % RG_PANEL == 0 && cuts(p, 0);
}

int64_t rg_gemm_depth(const rg_product *p)
{
  return cuts_all(p) ? DEPTH_MOST : p->k;
}

/* -- Rows that are adjacent ---------------------------------------------------------------- */

enum { BLOCK = 64 }; /* rows copied together: four lines of each step */

int64_t rg_gemm_block_bytes(const rg_product *p)
{
  return (cuts_all(p) ? DEPTH_CUT + 1 : p->k) * BLOCK * (int64_t)sizeof(float);
}

/* Steps k0 .. k0+kn of rows row .. row+rows, BLOCK apart. */
static void copy_block(const rg_gemm *g, int64_t row, int64_t rows, int64_t k0, int64_t kn,
                       float *to)
{
  const float *from = (const float *)g->a + row + k0 * g->lda;

  for (int64_t l = 0; l < kn; l++, from += g->lda, to += BLOCK) {
    for (int64_t i = 0; i < rows; i += 16) { /* no prefetcher of the machine follows the lines */
      __builtin_prefetch(from + 8 * g->lda + i, 0, 3);
    }
    memcpy(to, from, (size_t)rows * sizeof(float));
  }
}

/* A block of rows, copied, times all panels of this thread. */
static void run_block(const rg_gemm *g, part *t, int64_t row, int64_t rows, const float *a,
                      int64_t j0, int64_t j1)
{
  const rg_product *p = g->p;
  _Alignas(64) float tile[RG_ROWS_MOST * RG_PANEL];
  int64_t count = (rows + g->kernels->rows_most - 1) / g->kernels->rows_most;

  for (int64_t panel = j0; panel < j1 && !rg_interrupt_pending(); panel++) {
    bool into_c = straight(p, panel);
    const float *b = (const float *)g->b + (panel * p->k + t->k0) * RG_PANEL;

    for (int64_t i = 0; i < count; i++) {
      int64_t first = rows * i / count;
      int64_t n = rows * (i + 1) / count - first;
      int64_t j = panel * RG_PANEL;
      float *c = into_c ? (float *)p->c + (row + first) * p->c_row + j : tile;
      int64_t ldc = into_c ? p->c_row : RG_PANEL;

      g->kernels->across[n](t->kn, a + first, BLOCK, b, c, ldc, t->k0 > 0, b);
      if (t->last) {
        rg_gemm_epilogue(g, c, ldc, row + first, n, j);
      }
    }
  }
}

/* All panels are packed; which rows make a block and a tile depends on the sizes alone. */
static void run_blocks(const rg_gemm *g, int32_t thread, int32_t n_threads)
{
  const rg_product *p = g->p;
  int64_t panels = (p->n + RG_PANEL - 1) / RG_PANEL;
  int64_t count = (p->m + BLOCK - 1) / BLOCK;
  int64_t j0 = g->split_rows ? 0 : panels * thread / n_threads;
  int64_t j1 = g->split_rows ? panels : panels * (thread + 1) / n_threads;
  int64_t i0 = g->split_rows ? count * thread / n_threads : 0;
  int64_t i1 = g->split_rows ? count * (thread + 1) / n_threads : count;
  int64_t n_cuts = cuts_all(p) ? (p->k + DEPTH_CUT - 1) / DEPTH_CUT : 1;
  float *room = (float *)(void *)(g->room + thread * g->room_bytes);

  for (int64_t i = i0; i < i1 && !rg_interrupt_pending(); i++) {
    int64_t row = p->m * i / count;
    int64_t rows = p->m * (i + 1) / count - row;

    for (int64_t cut = 0; cut < n_cuts; cut++) {
      part t = { .k0 = p->k * cut / n_cuts, .last = cut == n_cuts - 1 };

      t.kn = p->k * (cut + 1) / n_cuts - t.k0;
      copy_block(g, row, rows, t.k0, t.kn, room);
      run_block(g, &t, row, rows, room, j0, j1);
    }
  }
}

/* -- One thread's part ------------------------------------------------------------------------- */

/* The rows of t times all panels of this thread. */
static void run_rows(const rg_gemm *g, part *t, int64_t j0, int64_t j1, int32_t thread)
{
  const rg_product *p = g->p;
  int64_t n_cuts = (p->k + DEPTH_CUT - 1) / DEPTH_CUT;

  for (int64_t cut = 0; cut < rg_max_i64(n_cuts, 1); cut++) {
    for (t->panel = j0; t->panel < j1 && !rg_interrupt_pending(); t->panel++) {
      if (cuts(p, t->panel)) {
        t->k0 = p->k * cut / n_cuts;
        t->kn = p->k * (cut + 1) / n_cuts - t->k0;
        t->last = cut == n_cuts - 1;
      } else {
        t->k0 = 0;
        t->kn = p->k;
        t->last = true;
        if (cut > 0) {
          continue;
        }
      }
      t->b = panel_of(g, t->panel, t->k0, t->kn, thread);
      run_part(g, t);
    }
  }
}

void rg_gemm_f32(const rg_gemm *g, int32_t thread, int32_t n_threads)
{
  const rg_product *p = g->p;
  int64_t panels = (p->n + RG_PANEL - 1) / RG_PANEL;
  int64_t most = g->kernels->rows_most;
  if (!g->across && p->m > RG_ROWS_MOST / 2) { /* fewer rows are one tile in any case */
    most = rg_gemm_rows_most(g->lda * 4, most);
  }
  part t = { .count = (p->m + most - 1) / most };
  int64_t j0 = g->split_rows ? 0 : panels * thread / n_threads;
  int64_t j1 = g->split_rows ? panels : panels * (thread + 1) / n_threads;

  if (g->blocks) {
    run_blocks(g, thread, n_threads);
    return;
  }
  int64_t i0 = g->split_rows ? t.count * thread / n_threads : 0;
  int64_t i1 = g->split_rows ? t.count * (thread + 1) / n_threads : t.count;
  int64_t kept = rg_gemm_tiles_kept(most, rg_min_i64(p->k, DEPTH_MOST) * (int64_t)sizeof(float));

  for (t.i0 = i0; t.i0 < i1; t.i0 = t.i1) {
    t.i1 = rg_min_i64(i1, t.i0 + kept);
    run_rows(g, &t, j0, j1, thread);
  }
}
