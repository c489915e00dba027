/* SPDX-License-Identifier: MIT */
/*
** Winograd convolutions of bytes: the weight's factors, which are kept with it, and blocks of tiles
** that stay in L2 while all panels of them pass by.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/scaled_winograd.h"

enum { POINTS = 16, TILES_AT_ONCE = RG_I8_ROWS_MOST / 2 };

extern const rg_winograd_i8 rg_winograd_i8_base;
#if defined(__x86_64__)
extern const rg_winograd_i8 rg_winograd_i8_avx2;
extern const rg_winograd_i8 rg_winograd_i8_avx512;
#endif

static const rg_winograd_i8 *loops_now(void)
{
#if defined(__x86_64__)
  if (rg_isa() >= RG_ISA_AVX2) {
    return rg_isa() >= RG_ISA_AVX512 ? &rg_winograd_i8_avx512 : &rg_winograd_i8_avx2;
  }
#endif
  return &rg_winograd_i8_base;
}

/* -- Sizes ------------------------------------------------------------------------------------- */

static int64_t half_of(int64_t n)
{
  return (n + 1) / 2;
}

static int64_t tiles_of(const rg_conv2d_sizes *s)
{
  return s->n * half_of(s->y[0]) * half_of(s->y[1]);
}

static int64_t pairs_of(const rg_conv2d_sizes *s)
{
  return half_of(s->c);
}

static int64_t panels_of(const rg_conv2d_sizes *s)
{
  return (s->o + RG_PANEL - 1) / RG_PANEL;
}

/* Factors of 16 bits of a tile at one point. */
static int64_t ld_of(const rg_conv2d_sizes *s)
{
  int64_t ld = rg_round_up(s->c, RG_WINOGRAD_CHUNK);

  return ld % 64 == 0 ? ld + RG_WINOGRAD_CHUNK : ld; /* else rows fall into a few sets of L1 */
}

/* Tiles of a block: what they take is half of L2. */
static int64_t block_of(const rg_conv2d_sizes *s, int32_t n_threads)
{
  enum { L2 = 1 << 20, MOST = 192, STEP = 24 /* rows of every set's loops */ };
  int64_t l2 = rg_machine_facts()->l2_bytes;
  int64_t bytes = POINTS * (ld_of(s) * (int64_t)sizeof(int16_t) + RG_PANEL * 4);
  int64_t n = rg_min_i64(MOST, (l2 > 0 ? l2 / 2 : L2) / bytes);
  int64_t share = (tiles_of(s) + n_threads - 1) / rg_max_i64(1, n_threads);

  n = rg_max_i64(STEP, n / STEP * STEP);
  return rg_max_i64(1, rg_min_i64(n, share));
}

static int64_t image_bytes(const rg_conv2d_sizes *s, int64_t block)
{
  return rg_round_up(POINTS * block * ld_of(s) * (int64_t)sizeof(int16_t), 64);
}

static int64_t thread_bytes(const rg_conv2d_sizes *s, int64_t block)
{
  return image_bytes(s, block) + POINTS * block * RG_PANEL * (int64_t)sizeof(int32_t);
}

int64_t rg_scaled_winograd_room(const rg_conv2d_sizes *s, int32_t n_threads)
{
  int64_t block = block_of(s, n_threads);

  return rg_max_i64(1, n_threads) * thread_bytes(s, block) + rg_round_up(s->c, 64);
}

/* In products of 16 bits: what both ways multiply, and about as many as take as long as the
** transformations of a tile and of a weight that is not kept.  A weight's factors are 3.6 times the
** bytes of the weight: where L2 has no room for them they come anew for each block. */
bool rg_scaled_winograd_takes(const rg_conv2d_sizes *s, const rg_conv2d_options *o,
                              const rg_tensor *weight)
{
  enum { IMAGE = 200, RESULT = 120, WEIGHT = 4000, FETCH = 150, L2 = 1 << 20 };
  int64_t l2 = rg_machine_facts()->l2_bytes;
  bool keeps = (weight->_flags & RG_TENSOR_PARAM) != 0;
  double c = (double)rg_round_up(s->c, 2), n = (double)(panels_of(s) * RG_PANEL);
  double direct = (double)(s->n * s->y[0] * s->y[1]) * 9 * c * n;
  double here = (double)tiles_of(s) * (POINTS * c * n + IMAGE * (double)ld_of(s) + RESULT * n) +
                (keeps ? 0 : WEIGHT * c * n);

  if (2 * POINTS * c * n > (double)(l2 > 0 ? l2 : L2) / 2) {
    int64_t block = block_of(s, 1);

    here += FETCH * c * n * (double)((tiles_of(s) + block - 1) / block);
  }
  for (int i = 0; i < 2; i++) {
    if (s->w[i] != 3 || o->stride[i] != 1 || o->dilation[i] != 1) {
      return false;
    }
  }
  return s->groups == 1 && s->c <= RG_WINOGRAD_CHANNELS && rg_i8_kernels_now()->width == 2 &&
         here < direct;
}

/* -- The weight -------------------------------------------------------------------------------- */

/* Twice the transformation along an axis: three elements become four. */
static void spread(const int32_t *g, int64_t step, int32_t *to, int64_t to_step)
{
  to[0] = 2 * g[0];
  to[to_step] = g[0] + g[step] + g[2 * step];
  to[2 * to_step] = g[0] - g[step] + g[2 * step];
  to[3 * to_step] = 2 * g[2 * step];
}

/* The 16 factors of a column and a channel. */
static void factors(const rg_tensor *w, int64_t column, int64_t channel, int32_t to[POINTS])
{
  const int8_t *from = (const int8_t *)w->_data + column * w->_stride[0] + channel * w->_stride[1];
  int32_t g[9], some[12];

  for (int i = 0; i < 9; i++) {
    g[i] = from[i / 3 * w->_stride[2] + i % 3 * w->_stride[3]];
  }
  for (int j = 0; j < 3; j++) {
    spread(g + j, 3, some + j, 3);
  }
  for (int i = 0; i < 4; i++) {
    spread(some + (ptrdiff_t)3 * i, 1, to + (ptrdiff_t)4 * i, 1);
  }
}

/* Panels of 32 columns; in each the 16 points, in each pairs of channels. */
static int64_t weight_count(const rg_conv2d_sizes *s)
{
  return panels_of(s) * POINTS * pairs_of(s) * RG_PANEL;
}

typedef struct packing {
  const rg_conv2d_sizes *s;
  const rg_tensor *w;
  int32_t *to;
} packing;

static bool pack_columns(void *work, int64_t begin, int64_t end)
{
  const packing *job = work;
  int64_t pairs = pairs_of(job->s);

  for (int64_t column = begin; column < end; column++) {
    int32_t *to = job->to + column / RG_PANEL * POINTS * pairs * RG_PANEL + column % RG_PANEL;

    for (int64_t l = 0; l < pairs; l++) {
      int32_t low[POINTS] = { 0 }, high[POINTS] = { 0 };

      if (column < job->s->o) {
        factors(job->w, column, 2 * l, low);
      }
      if (column < job->s->o && 2 * l + 1 < job->s->c) {
        factors(job->w, column, 2 * l + 1, high);
      }
      for (int64_t i = 0; i < POINTS; i++) {
        to[(i * pairs + l) * RG_PANEL] =
            (int32_t)(((uint32_t)low[i] & 0xffffu) | (uint32_t)high[i] << 16);
      }
    }
  }
  return !rg_interrupt_pending();
}

typedef struct kept {
  rg_derived derived;
  rg_block block;
} kept;

static void kept_release(rg_derived *derived)
{
  kept *self = (kept *)derived;

  if (self->block.data != NULL) {
    rg_block_free(&self->block);
  }
  rg_host_free(self);
}

static void key_of(const rg_conv2d_sizes *s, const rg_tensor *w, uint64_t key[4])
{
  uint64_t step = 0;

  for (int i = 0; i < 4; i++) {
    step = step * 1099511628211u ^ (uint64_t)w->_stride[i];
  }
  key[0] = 0x77696e6f6938; /* "winoi8" */
  key[1] = (uint64_t)((const char *)w->_data - (const char *)w->_storage->block.data);
  key[2] = (uint64_t)s->c << 32 ^ (uint64_t)s->o;
  key[3] = step;
}

/* A parameter's factors stay with its storage until it changes: *out is NULL for other weights,
** which take *block. */
static rg_status pack(const rg_scaled_winograd *d, const rg_tensor *w, rg_block *block,
                      const int32_t **out)
{
  bool keeps = (w->_flags & RG_TENSOR_PARAM) != 0;
  int64_t bytes = weight_count(&d->s) * (int64_t)sizeof(int32_t);
  packing job = { .s = &d->s, .w = w };
  uint64_t key[4];
  kept *self = NULL;
  rg_status status;

  if (!keeps) {
    RG_TRY(rg_block_alloc(RG_CPU, bytes, block));
    job.to = block->data;
    *out = job.to;
    return rg_parallel(d->p->n_threads, panels_of(&d->s) * RG_PANEL, pack_columns, &job);
  }
  key_of(&d->s, w, key);
  self = (kept *)rg_derived_find(w->_storage, key);
  if (self == NULL) {
    self = rg_host_zeroed(sizeof(*self));
    if (self == NULL) {
      return rg_fail(RG_ENOMEM, "no memory to describe a packed weight");
    }
    memcpy(self->derived.key, key, sizeof(key));
    self->derived.version = rg_storage_version(w->_storage);
    self->derived.release = kept_release;
    status = rg_block_alloc_shared(RG_CPU, bytes, &self->block);
    job.to = self->block.data;
    if (status == RG_OK) {
      status = rg_parallel(d->p->n_threads, panels_of(&d->s) * RG_PANEL, pack_columns, &job);
    }
    if (status != RG_OK) {
      kept_release(&self->derived);
      return status;
    }
    self->derived.bytes = self->block.bytes;
    rg_derived_keep(w->_storage, &self->derived);
  }
  *out = self->block.data;
  return RG_OK;
}

/* -- Blocks ------------------------------------------------------------------------------------ */

typedef struct work {
  const rg_scaled_winograd *d;
  const rg_winograd_i8 *loops;
  const int32_t *u;
  const uint8_t *blank; /* a pixel that stands for 0 */
  int64_t block;
  int64_t high, wide; /* tiles of an image */
} work;

/* The factors of a tile. */
static void load_tile(const work *w, int64_t tile, int16_t *v, int64_t step)
{
  const rg_conv2d_sizes *s = &w->d->s;
  int64_t image = tile / (w->high * w->wide);
  int64_t row = tile / w->wide % w->high * 2 - w->d->o->pad_low[0];
  int64_t column = tile % w->wide * 2 - w->d->o->pad_low[1];
  const uint8_t *at[POINTS];

  for (int64_t i = 0; i < POINTS; i++) {
    int64_t r = row + i / 4, q = column + i % 4;
    bool there = r >= 0 && r < s->x[0] && q >= 0 && q < s->x[1];

    at[i] = there ? w->d->x + ((image * s->x[0] + r) * s->x[1] + q) * s->c : w->blank;
  }
  w->loops->image[w->d->is_signed](at, s->c, w->d->zero, v, step);
}

/* Results of tiles t .. t + n of a row of them. */
static void finish(const work *w, const int32_t *m, int64_t step, int64_t t, int64_t n, int64_t j)
{
  const rg_conv2d_sizes *s = &w->d->s;
  const rg_i8_product *p = w->d->p;
  int64_t image = t / (w->high * w->wide);
  int64_t row = t / w->wide % w->high * 2;
  int64_t column = t % w->wide * 2;
  int64_t across = rg_min_i64(2 * n, s->y[1] - column);
  int64_t i = (image * s->y[0] + row) * s->y[1] + column;
  _Alignas(64) int32_t y[2][RG_I8_ROWS_MOST * RG_PANEL];
  int32_t fix[RG_PANEL] = { 0 };

  if (p->whole != NULL) {
    memcpy(fix, p->whole + j, sizeof(fix));
  }
  w->loops->results(n, m, step, y[0], y[1]);
  rg_i8_finish(p, y[0], fix, i, across, j);
  if (row + 1 < s->y[0]) {
    rg_i8_finish(p, y[1], fix, i + s->y[1], across, j);
  }
}

/* Tiles t0 .. t1, at most a block. */
static void run_block(const work *w, int64_t t0, int64_t t1, int16_t *v, int32_t *m)
{
  const rg_conv2d_sizes *s = &w->d->s;
  int64_t ld = ld_of(s), pairs = pairs_of(s), n = t1 - t0;

  for (int64_t t = 0; t < n; t++) {
    load_tile(w, t0 + t, v + t * ld, w->block * ld);
  }
  for (int64_t panel = 0; panel < panels_of(s) && !rg_interrupt_pending(); panel++) {
    for (int64_t i = 0; i < POINTS; i++) {
      w->loops->product(n, pairs, v + i * w->block * ld, ld,
                        w->u + (panel * POINTS + i) * pairs * RG_PANEL,
                        m + i * w->block * RG_PANEL);
    }
    for (int64_t t = 0, some; t < n; t += some) {
      some = rg_min_i64(rg_min_i64(TILES_AT_ONCE, n - t), w->wide - (t0 + t) % w->wide);
      finish(w, m + t * RG_PANEL, w->block * RG_PANEL, t0 + t, some, panel * RG_PANEL);
    }
  }
}

/* Shares begin .. end of the tiles, as many as there are threads. */
static bool run_shares(void *context, int64_t begin, int64_t end)
{
  const work *w = context;
  const rg_conv2d_sizes *s = &w->d->s;
  int64_t tiles = tiles_of(s), shares = rg_max_i64(1, w->d->p->n_threads);

  for (int64_t k = begin; k < end; k++) {
    char *room = (char *)w->d->room + k * thread_bytes(s, w->block);
    int64_t last = tiles * (k + 1) / shares;

    for (int64_t t = tiles * k / shares; t < last && !rg_interrupt_pending(); t += w->block) {
      run_block(w, t, rg_min_i64(t + w->block, last), (int16_t *)(void *)room,
                (int32_t *)(void *)(room + image_bytes(s, w->block)));
    }
  }
  return !rg_interrupt_pending();
}

rg_status rg_scaled_winograd_run(const rg_scaled_winograd *d, const rg_tensor *weight)
{
  int64_t block = block_of(&d->s, d->p->n_threads);
  int64_t shares = rg_max_i64(1, d->p->n_threads);
  uint8_t *blank = (uint8_t *)d->room + shares * thread_bytes(&d->s, block);
  work w = { .d = d,
             .loops = loops_now(),
             .blank = blank,
             .block = block,
             .high = half_of(d->s.y[0]),
             .wide = half_of(d->s.y[1]) };
  rg_block room = { 0 };
  rg_status status;

  memset(blank, (uint8_t)d->zero, (size_t)d->s.c);
  status = pack(d, weight, &room, &w.u);
  if (status == RG_OK) {
    status = rg_parallel(d->p->n_threads, shares, run_shares, &w);
  }
  if (room.data != NULL) {
    rg_block_free(&room);
  }
  return status;
}
