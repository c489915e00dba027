/* SPDX-License-Identifier: MIT */
/*
** Products of bytes on the tile registers of AMX: four tiles of sums, two of a and two of b.
**
** b is packed as for vpdpbusd: a step of a panel is two rows of two tiles, side by side.  A tile
** instruction takes up to sixteen steps.  Where the steps of a run divide into equal parts that
** are long enough, all of them go through tiles; else whole sixteens do, and vpdpbusd adds the
** rest, so that nothing is read beyond a row.
**
** Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter 20; Intel Architecture
** Instruction Set Extensions Programming Reference, TDPBUSD.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/gemm_i8.h"

#if defined(__x86_64__)
extern const rg_i8_kernels rg_i8_kernels_vnni512;

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,amx-tile,amx-int8")
#include <immintrin.h>

#include "cpu/i8_row.h"

enum {
  STEPS_MOST = 16,
  STEP_BYTES = RG_PANEL * RG_I8_STEP,
  /* Up to so many rows are left to vpdpbusd: 0.6 to 0.9 of the time where b is in L1, 1.0 where it
  ** is not (measured; at three rows 0.9 and 1.1). */
  VNNI_ROWS = 2
};

/* -- How a run is cut ------------------------------------------------------------------------ */

/* What the tile registers of this thread are configured for. */
typedef struct shape {
  int64_t rows;   /* 0: given back, and whoever comes next may configure them otherwise */
  int64_t steps;  /* of a part of a run */
  int64_t depth;  /* steps of a tile instruction */
  int64_t chunks; /* tile instructions of a part */
  int64_t tail;   /* steps that are left for vpdpbusd */
} shape;

static _Thread_local shape now;

/* A tile instruction takes as long for few steps as for sixteen, and vpdpbusd takes that long for
** two: so equal parts are worth it unless they are much shorter than sixteen. */
static void cut(int64_t steps, shape *s)
{
  enum { TAIL_COST = 2 }; /* steps of vpdpbusd in the time of a tile instruction */
  int64_t least;

  s->depth = STEPS_MOST;
  s->chunks = steps / STEPS_MOST;
  s->tail = steps % STEPS_MOST;
  least = s->chunks * TAIL_COST + s->tail;
  for (int64_t depth = STEPS_MOST; depth > 0 && s->tail > 0; depth--) {
    if (steps % depth == 0 && steps / depth * TAIL_COST < least) {
      s->depth = depth;
      s->chunks = steps / depth;
      s->tail = 0;
    }
  }
}

static void prepare(int64_t rows, int64_t steps)
{
  rows = rows == 16 ? 32 : rows; /* the same, twice */
  if (now.rows == 0 || now.steps != steps) {
    cut(steps, &now);
    now.steps = steps;
    now.rows = 0;
  }
  if (now.rows != rows) {
    rg_amx_configure(rg_min_i64(rows, 16), rows - 16, now.depth);
    now.rows = rows;
  }
}

static void leave(void)
{
  if (now.rows != 0) {
    now.rows = 0;
    rg_amx_release();
  }
}

/* -- Tiles ------------------------------------------------------------------------------------- */

static inline int64_t divide_up(int64_t n, int64_t by)
{
  return by > 0 ? (n + by - 1) / by : n;
}

/* Tile loads do not say that they read memory: what they read is stored before this. */
static inline void settle(void)
{
  __asm__ volatile("" : : : "memory");
}

/* What is finished beside a run of tile instructions: a share of it behind every two of them, so
** that the processor has instructions of both kinds before it all through the run.  (Calls of
** rg_i8_finish are too long for that: they gained nothing, measured.) */
typedef struct aside {
  rg_i8_rows rows;
  int64_t left;
  int64_t share;
} aside;

/* places: so many shares there are */
static inline void begin_aside(aside *self, const rg_i8_left *left, int64_t places)
{
  const rg_i8_product *p = left->p;

  self->left = 0;
  if (left->rows == 0 || !rg_i8_has_rows(p, left->j)) {
    return;
  }
  rg_i8_rows_begin(&self->rows, rg_i8_at(p, left->i, left->j), p->y_row * rg_dtype_bytes(p->dtype),
                   p->dtype, left,
                   &(rg_i8_scales){ .x_scale = p->x_scale + left->i * p->x_step,
                                    .w_scale = p->w_scale + left->j,
                                    .bias = p->bias != NULL ? p->bias + left->j : NULL,
                                    .x_step = p->x_step,
                                    .y_scale = p->y_scale,
                                    .y_zero = (float)p->y_zero,
                                    .act = p->act });
  self->left = left->rows;
  self->share = divide_up(left->rows, places);
}

static inline __attribute__((always_inline)) void finish_share(aside *self)
{
  for (int64_t i = 0; i < self->share && self->left > 0; i++, self->left--) {
    rg_i8_rows_next(&self->rows);
  }
}

static inline void end_aside(aside *self, rg_i8_left *left)
{
  if (left->rows > 0 && !rg_i8_has_rows(left->p, left->j)) {
    rg_i8_finish_all(left);
  }
  for (; self->left > 0; self->left--) {
    rg_i8_rows_next(&self->rows);
  }
  left->rows = 0;
}

/* Two tiles of rows. */
static inline void multiply_2(const rg_i8_run *run, const uint8_t *a, const int8_t *b, int32_t *c,
                              const char *next, rg_i8_left *left)
{
  const int64_t a_step = now.depth * RG_I8_STEP;
  const int64_t b_step = now.depth * STEP_BYTES;
  const int64_t chunks = now.chunks;
  aside beside;

  begin_aside(&beside, left, 2 * run->parts * chunks);
  for (int64_t part = 0; part < run->parts; part++) {
    const uint8_t *a0 = a + part * run->part;
    const uint8_t *a1 = a0 + 16 * run->lda;
    const int8_t *at = b + part * run->steps * STEP_BYTES;

    for (int64_t l = 0; l < chunks; l++) {
      _mm_prefetch(next, _MM_HINT_T1);
      next += 64;
      _tile_loadd(4, a0, run->lda);
      _tile_loadd(6, at, STEP_BYTES);
      _tile_dpbusd(0, 4, 6);
      _tile_loadd(7, at + STEP_BYTES / 2, STEP_BYTES);
      _tile_dpbusd(1, 4, 7);
      finish_share(&beside);
      _tile_loadd(5, a1, run->lda);
      _tile_dpbusd(2, 5, 6);
      _tile_dpbusd(3, 5, 7);
      finish_share(&beside);
      a0 += a_step;
      a1 += a_step;
      at += b_step;
    }
  }
  end_aside(&beside, left);
  _tile_stored(0, c, RG_PANEL * 4);
  _tile_stored(1, c + 16, RG_PANEL * 4);
  _tile_stored(2, c + 16 * RG_PANEL, RG_PANEL * 4);
  _tile_stored(3, c + 16 * RG_PANEL + 16, RG_PANEL * 4);
}

/* One tile of rows: odd chunks have sums of their own, so that they need not wait for even ones. */
static inline void multiply_1(const rg_i8_run *run, const uint8_t *a, const int8_t *b, int32_t *c,
                              int64_t rows, rg_i8_left *left)
{
  const int64_t a_step = now.depth * RG_I8_STEP;
  const int64_t b_step = now.depth * STEP_BYTES;
  const int64_t chunks = now.chunks;
  int32_t odd[16 * RG_PANEL];
  aside beside;

  begin_aside(&beside, left, run->parts * chunks);
  for (int64_t part = 0; part < run->parts; part++) {
    const uint8_t *a0 = a + part * run->part;
    const int8_t *at = b + part * run->steps * STEP_BYTES;
    int64_t l = 0;

    for (; l + 2 <= chunks; l += 2) {
      _tile_loadd(4, a0, run->lda);
      _tile_loadd(6, at, STEP_BYTES);
      _tile_dpbusd(0, 4, 6);
      _tile_loadd(7, at + STEP_BYTES / 2, STEP_BYTES);
      _tile_dpbusd(1, 4, 7);
      finish_share(&beside);
      _tile_loadd(5, a0 + a_step, run->lda);
      _tile_loadd(6, at + b_step, STEP_BYTES);
      _tile_dpbusd(2, 5, 6);
      _tile_loadd(7, at + b_step + STEP_BYTES / 2, STEP_BYTES);
      _tile_dpbusd(3, 5, 7);
      finish_share(&beside);
      a0 += 2 * a_step;
      at += 2 * b_step;
    }
    if (l < chunks) {
      _tile_loadd(4, a0, run->lda);
      _tile_loadd(6, at, STEP_BYTES);
      _tile_dpbusd(0, 4, 6);
      _tile_loadd(7, at + STEP_BYTES / 2, STEP_BYTES);
      _tile_dpbusd(1, 4, 7);
      finish_share(&beside);
    }
  }
  end_aside(&beside, left);
  _tile_stored(0, c, RG_PANEL * 4);
  _tile_stored(1, c + 16, RG_PANEL * 4);
  _tile_stored(2, odd, RG_PANEL * 4);
  _tile_stored(3, odd + 16, RG_PANEL * 4);
  settle();
  for (int64_t i = 0; i < rows * RG_PANEL; i += 16) {
    _mm512_storeu_si512(c + i,
                        _mm512_add_epi32(_mm512_loadu_si512(c + i), _mm512_loadu_si512(odd + i)));
  }
}

/* The steps at the end of each part that fill no tile. */
static void add_tail(const rg_i8_run *run, const uint8_t *a, const int8_t *b, int32_t *c,
                     int64_t rows)
{
  const int64_t done = run->steps - now.tail;
  const rg_i8_run tail = { .parts = 1, .steps = now.tail, .lda = run->lda };
  const int64_t most = rg_i8_kernels_vnni512.rows_most;
  int32_t some[RG_I8_ROWS_MOST * RG_PANEL];

  for (int64_t part = 0; part < run->parts; part++) {
    const uint8_t *at = a + part * run->part + done * RG_I8_STEP;
    const int8_t *from = b + (part * run->steps + done) * STEP_BYTES;

    for (int64_t r = 0; r < rows; r += most) {
      rg_i8_kernels_vnni512.tile[rg_min_i64(most, rows - r)](
          &tail, at + r * run->lda, from, some + r * RG_PANEL, (const char *)from);
    }
    for (int64_t i = 0; i < rows * RG_PANEL; i += 16) {
      _mm512_storeu_si512(
          c + i, _mm512_add_epi32(_mm512_loadu_si512(c + i), _mm512_loadu_si512(some + i)));
    }
  }
}

static void beside(int64_t rows, const rg_i8_run *run, const uint8_t *a, const int8_t *b,
                   int32_t *c, const char *next, rg_i8_left *left)
{
  if (rows <= VNNI_ROWS) {
    rg_i8_kernels_vnni512.tile[rows](run, a, b, c, next);
    rg_i8_finish_all(left);
    return;
  }
  prepare(rows, run->steps);
  settle();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (rows > 16) {
    multiply_2(run, a, b, c, next, left);
  } else {
    multiply_1(run, a, b, c, rows, left);
  }
  settle();
  if (now.tail > 0) {
    add_tail(run, a, b, c, rows);
  }
}

static inline void tile(const int64_t rows, const rg_i8_run *run, const uint8_t *a, const int8_t *b,
                        int32_t *c, const char *next)
{
  rg_i8_left nothing = { .rows = 0 };

  beside(rows, run, a, b, c, next, &nothing);
}

#define TILE_OF(n)                                                                          \
  static void tile_##n(const rg_i8_run *run, const uint8_t *a, const int8_t *b, int32_t *c, \
                       const char *next)                                                    \
  {                                                                                         \
    tile(n, run, a, b, c, next);                                                            \
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
TILE_OF(15)
TILE_OF(16)
TILE_OF(17)
TILE_OF(18)
TILE_OF(19)
TILE_OF(20)
TILE_OF(21)
TILE_OF(22)
TILE_OF(23)
TILE_OF(24)
TILE_OF(25)
TILE_OF(26)
TILE_OF(27)
TILE_OF(28)
TILE_OF(29)
TILE_OF(30)
TILE_OF(31)
TILE_OF(32)
#undef TILE_OF

#pragma GCC pop_options

extern const rg_i8_kernels rg_i8_kernels_amx;
const rg_i8_kernels rg_i8_kernels_amx = {
  .path = "own:amx",
  .tile = { NULL,    tile_1,  tile_2,  tile_3,  tile_4,  tile_5,  tile_6,  tile_7,  tile_8,
            tile_9,  tile_10, tile_11, tile_12, tile_13, tile_14, tile_15, tile_16, tile_17,
            tile_18, tile_19, tile_20, tile_21, tile_22, tile_23, tile_24, tile_25, tile_26,
            tile_27, tile_28, tile_29, tile_30, tile_31, tile_32 },
  .rows_most = RG_I8_ROWS_MOST,
  .width = 1,
  .row = rg_i8_copy_row,
  .beside = beside,
  .leave = leave,
};
#endif
