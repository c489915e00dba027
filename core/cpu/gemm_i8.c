/* SPDX-License-Identifier: MIT */
/*
** ridge's own product of bytes: which kernels, its right factor packed, and the loops around tiles.
**
** A block of rows of a, laid out as the kernels read it, stays in L2 while all panels of b pass by
** it.  The epilogue takes each tile of sums while it is in L1.
*/
#include <stdatomic.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "cpu/cpu.h"
#include "cpu/gemm_i8.h"

extern const rg_i8_kernels rg_i8_kernels_base;
extern const rg_i8_end rg_i8_end_base;
#if defined(__x86_64__)
extern const rg_i8_kernels rg_i8_kernels_avx2;
extern const rg_i8_kernels rg_i8_kernels_avx512;
extern const rg_i8_kernels rg_i8_kernels_vnni256;
extern const rg_i8_kernels rg_i8_kernels_vnni512;
extern const rg_i8_kernels rg_i8_kernels_amx;
extern const rg_i8_end rg_i8_end_avx2;
extern const rg_i8_end rg_i8_end_avx512;
#endif

/* -- Which kernels ---------------------------------------------------------------------------- */

#if defined(__x86_64__)
static bool has_vnni512(void)
{
  return __builtin_cpu_supports("avx512vnni");
}

/* What does not change is asked once: CPUID leaves a virtual machine, which takes longer than a
** small product. */
static bool once(_Atomic int32_t *known, bool (*ask)(void))
{
  enum { NOT_ASKED, NO, YES };
  int32_t said = atomic_load_explicit(known, memory_order_relaxed);

  if (said == NOT_ASKED) {
    said = ask() ? YES : NO;
    atomic_store_explicit(known, said, memory_order_relaxed);
  }
  return said == YES;
}

/* Leaf 7.1, EAX, bit 4: compilers' names for it are younger than some that build this. */
static bool ask_vnni256(void)
{
  uint32_t a, b, c, d;

  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & (1u << 4)) != 0;
}

static bool has_vnni256(void)
{
  static _Atomic int32_t known;

  return once(&known, ask_vnni256);
}

static bool ask_tiles(void)
{
  return has_vnni512() && strstr(rg_machine_facts()->isa, "amx_int8") != NULL;
}

static bool has_tiles(void)
{
  static _Atomic int32_t known;

  return once(&known, ask_tiles);
}
#endif

const rg_i8_kernels *rg_i8_kernels_now(void)
{
#if defined(__x86_64__)
  if (rg_isa() >= RG_ISA_AMX && has_tiles()) {
    return &rg_i8_kernels_amx;
  }
  if (rg_isa() >= RG_ISA_AVX512) {
    return has_vnni512() ? &rg_i8_kernels_vnni512 : &rg_i8_kernels_avx512;
  }
  if (rg_isa() >= RG_ISA_AVX2) {
    return has_vnni256() ? &rg_i8_kernels_vnni256 : &rg_i8_kernels_avx2;
  }
#endif
  return &rg_i8_kernels_base;
}

const rg_i8_end *rg_i8_end_now(void)
{
#if defined(__x86_64__)
  if (rg_isa() >= RG_ISA_AVX2) {
    return rg_isa() >= RG_ISA_AVX512 ? &rg_i8_end_avx512 : &rg_i8_end_avx2;
  }
#endif
  return &rg_i8_end_base;
}

const rg_i8_kernels *rg_i8_kernels_at(int32_t i)
{
  const rg_i8_kernels *all[7] = { &rg_i8_kernels_base };
#if defined(__x86_64__)
  int32_t level = rg_machine_facts()->isa_level;
  int n = 1;

  if (level >= RG_ISA_AVX2) {
    all[n++] = &rg_i8_kernels_avx2;
    if (has_vnni256()) {
      all[n++] = &rg_i8_kernels_vnni256;
    }
  }
  if (level >= RG_ISA_AVX512) {
    all[n++] = &rg_i8_kernels_avx512;
    if (has_vnni512()) {
      all[n++] = &rg_i8_kernels_vnni512;
    }
    if (level >= RG_ISA_AMX && has_tiles()) {
      all[n++] = &rg_i8_kernels_amx;
    }
  }
#endif
  return i >= 0 && i < 7 ? all[i] : NULL;
}

/* -- Packing b --------------------------------------------------------------------------------- */

enum { STEP_BYTES = RG_PANEL * RG_I8_STEP };

int64_t rg_i8_depth(int64_t k)
{
  return (k + RG_I8_STEP - 1) / RG_I8_STEP;
}

int64_t rg_i8_panel_bytes(int64_t k)
{
  return rg_i8_depth(k) * STEP_BYTES + RG_PANEL * (int64_t)sizeof(int32_t);
}

static int64_t depth_of(const rg_i8_weight *w)
{
  return w->size[0] * w->size[1] * w->size[2];
}

/* Column j as adjacent bytes; to: room for them. */
static const int8_t *column_of(const rg_i8_weight *w, int64_t j, int8_t *to)
{
  const int8_t *from = w->data + j * w->n_step;
  int8_t *at = to;

  if (w->size[0] == 1 && w->size[1] == 1 && w->step[2] == 1) {
    return from;
  }
  for (int64_t p = 0; p < w->size[0]; p++) {
    for (int64_t q = 0; q < w->size[1]; q++) {
      const int8_t *some = from + p * w->step[0] + q * w->step[1];

      for (int64_t c = 0; c < w->size[2]; c++) {
        *at++ = some[c * w->step[2]];
      }
    }
  }
  return to;
}

static void pack_column(const int8_t *from, int64_t k, int8_t *to)
{
  int64_t whole = k / RG_I8_STEP;

  for (int64_t l = 0; l < whole; l++) {
    memcpy(to + l * STEP_BYTES, from + l * RG_I8_STEP, RG_I8_STEP);
  }
  if (k % RG_I8_STEP > 0) {
    memcpy(to + whole * STEP_BYTES, from + whole * RG_I8_STEP, (size_t)(k % RG_I8_STEP));
  }
}

/* Whole steps of whole panels are words, which are transposed as such where they lie as such. */
static bool lies_in_words(const rg_i8_weight *w, int64_t k)
{
  return w->size[0] == 1 && w->size[1] == 1 && w->step[2] == 1 && k % RG_I8_STEP == 0 &&
         w->n_step % RG_I8_STEP == 0 && (uintptr_t)w->data % RG_I8_STEP == 0;
}

static void pack_panel(const rg_i8_weight *w, int64_t j, int64_t k, int8_t *room, int8_t *to)
{
  int32_t *sums = (int32_t *)(void *)(to + rg_i8_depth(k) * STEP_BYTES);
  int64_t columns = rg_min_i64(RG_PANEL, w->n - j);
  bool in_words = lies_in_words(w, k);

  if (in_words) {
    rg_gemm_kernels_now()->transpose((float *)(void *)to,
                                     (const float *)(const void *)(w->data + j * w->n_step),
                                     w->n_step / RG_I8_STEP, k / RG_I8_STEP, columns);
  } else if (columns < RG_PANEL) {
    memset(to, 0, (size_t)rg_i8_depth(k) * STEP_BYTES);
  } else if (k % RG_I8_STEP > 0) {
    memset((char *)sums - STEP_BYTES, 0, STEP_BYTES);
  }
  memset(sums, 0, RG_PANEL * sizeof(*sums));
  for (int64_t c = 0; c < columns; c++) {
    const int8_t *from = column_of(w, j + c, room);

    sums[c] = rg_i8_end_now()->total(from, k);
    if (!in_words) {
      pack_column(from, k, to + c * RG_I8_STEP);
    }
  }
}

typedef struct packing {
  const rg_i8_weight *w;
  int8_t *to;
  int8_t *room; /* a column for each thread */
  int32_t n_threads;
} packing;

static bool pack_share(void *work, int64_t begin, int64_t end)
{
  const packing *job = work;
  int64_t k = depth_of(job->w);
  int64_t panels = (job->w->n + RG_PANEL - 1) / RG_PANEL;
  int64_t bytes = rg_i8_panel_bytes(k);

  for (int64_t t = begin; t < end; t++) {
    for (int64_t i = panels * t / job->n_threads; i < panels * (t + 1) / job->n_threads; i++) {
      if (rg_interrupt_pending()) {
        return false;
      }
      pack_panel(job->w, i * RG_PANEL, k, job->room + t * k, job->to + i * bytes);
    }
  }
  return true;
}

static rg_status pack_all(const rg_i8_weight *w, int32_t n_threads, int8_t *to)
{
  packing job = { .w = w, .to = to, .n_threads = n_threads };
  rg_block room = { 0 };
  rg_status status;

  RG_TRY(rg_block_alloc(RG_CPU, rg_max_i64(64, n_threads * depth_of(w)), &room));
  job.room = room.data;
  status = rg_parallel(n_threads, n_threads, pack_share, &job);
  rg_block_free(&room);
  return status;
}

/* Panels that stay with the storage. */
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

static void key_of(const rg_i8_weight *w, uint64_t key[4])
{
  uint64_t step = (uint64_t)w->n_step;

  for (int i = 0; i < 3; i++) {
    step = step * 1099511628211u ^ (uint64_t)w->step[i];
    step = step * 1099511628211u ^ (uint64_t)w->size[i];
  }
  key[0] = 0x6938; /* "i8" */
  key[1] = (uint64_t)((const char *)w->data - (const char *)w->storage->block.data);
  key[2] = (uint64_t)depth_of(w) << 32 ^ (uint64_t)w->n;
  key[3] = step;
}

/* Begin what is kept, with room for so many bytes. */
static rg_status begin(const rg_i8_weight *w, const uint64_t key[4], int64_t bytes, kept **out)
{
  kept *self = rg_host_zeroed(sizeof(*self));
  rg_status status;

  if (self == NULL) {
    return rg_fail(RG_ENOMEM, "no memory to describe a packed weight");
  }
  memcpy(self->derived.key, key, sizeof(self->derived.key));
  self->derived.version = rg_storage_version(w->storage);
  self->derived.release = kept_release;
  status = rg_block_alloc_shared(RG_CPU, bytes, &self->block);
  if (status != RG_OK) {
    rg_host_free(self);
    return status;
  }
  self->derived.bytes = self->block.bytes;
  *out = self;
  return RG_OK;
}

rg_status rg_i8_pack(const rg_i8_weight *w, int32_t n_threads, rg_i8_packed *out)
{
  int64_t bytes = (w->n + RG_PANEL - 1) / RG_PANEL * rg_i8_panel_bytes(depth_of(w));
  uint64_t key[4];
  rg_status status;
  kept *self;

  memset(out, 0, sizeof(*out));
  if (!w->keeps) {
    RG_TRY(rg_block_alloc(RG_CPU, bytes, &out->room));
    out->data = out->room.data;
    status = pack_all(w, n_threads, out->room.data);
    if (status != RG_OK) {
      rg_i8_unpack(out);
    }
    return status;
  }
  key_of(w, key);
  self = (kept *)rg_derived_find(w->storage, key);
  if (self == NULL) {
    RG_TRY(begin(w, key, bytes, &self));
    status = pack_all(w, n_threads, self->block.data);
    if (status != RG_OK) {
      kept_release(&self->derived);
      return status;
    }
    rg_derived_keep(w->storage, &self->derived);
  }
  out->data = self->block.data;
  return RG_OK;
}

void rg_i8_unpack(rg_i8_packed *packed)
{
  if (packed->room.data != NULL) {
    rg_block_free(&packed->room);
    packed->room.data = NULL;
  }
}

/* -- Blocks ------------------------------------------------------------------------------------ */

typedef struct plan {
  const rg_i8_kernels *kernels;
  int64_t ld;     /* bytes of a row of a */
  int64_t tiles;  /* of all rows */
  int64_t blocks; /* of tiles */
  int64_t chunks; /* of panels, where there are too few blocks for the threads */
  int64_t panels;
  int64_t room; /* of a thread */
} plan;

static int64_t divide_up(int64_t n, int64_t by)
{
  return (n + by - 1) / by;
}

static plan plan_of(const rg_i8_product *p)
{
  enum { L2 = 1 << 18, LINE = 64 };
  plan a = { .kernels = rg_i8_kernels_now() };
  int64_t l2 = rg_machine_facts()->l2_bytes;
  int64_t most;

  a.panels = divide_up(p->n, RG_PANEL);
  a.ld = rg_round_up(rg_i8_depth(p->k) * RG_I8_STEP * a.kernels->width, LINE);
  a.ld += a.ld % (8 * LINE) == 0 ? LINE : 0; /* else all rows fall into a few sets of L1 */
  a.tiles = divide_up(p->m, a.kernels->rows_most);
  /* tiles whose rows take a quarter of L2 */
  most = rg_max_i64(1, (l2 > 0 ? l2 / 4 : L2) / (a.ld * a.kernels->rows_most));
  a.blocks = rg_max_i64(1, divide_up(a.tiles, most));
  if (a.blocks < p->n_threads) {
    a.blocks = rg_max_i64(1, rg_min_i64(p->n_threads, divide_up(a.tiles, 4)));
  }
  a.chunks = a.blocks >= p->n_threads ? 1 : rg_min_i64(a.panels, divide_up(p->n_threads, a.blocks));
  a.room = rg_round_up((divide_up(a.tiles, a.blocks) * a.kernels->rows_most) * a.ld, 4096);
  return a;
}

int64_t rg_i8_room(const rg_i8_product *p)
{
  return plan_of(p).room * rg_max_i64(1, p->n_threads);
}

typedef struct work {
  const rg_i8_product *p;
  plan plan;
  char *room;
} work;

static int64_t row_of(const work *w, int64_t tile)
{
  return w->p->m * tile / w->plan.tiles;
}

/* Bytes less a zero point reach 255, those of i8 without one -128; weights -128. */
rg_status rg_i8_whole_bias(const rg_call *call, int64_t at, int64_t n, int64_t k, int32_t *to)
{
  const rg_tensor *b = call->in[4];
  int64_t most = 255 * 128 * k;

  for (int64_t j = 0; j < n; j++) {
    int32_t v = ((const int32_t *)b->_data)[(at + j) * b->_stride[0]];

    if (v != 0 && (v < 0 ? -(int64_t)v : v) + most > INT32_MAX) {
      return rg_fail(RG_EARG,
                     "%s: the bias at %lld is %d, with which a sum of %lld products may not fit "
                     "into i32",
                     call->op->name, (long long)(at + j + 1), v, (long long)k);
    }
    to[j] = v;
  }
  return RG_OK;
}

/* -- Blocks times panels ---------------------------------------------------------------------- */

/* Tiles t0 .. t1, whose rows lie in room, times a panel. */
static void run_panel(const work *w, rg_i8_pipe *pipe, int64_t t0, int64_t t1, int64_t panel,
                      const uint8_t *room)
{
  const rg_i8_product *p = w->p;
  const rg_i8_run run = { .parts = 1, .steps = rg_i8_depth(p->k), .lda = w->plan.ld };
  int64_t bytes = rg_i8_panel_bytes(p->k);
  /* while this panel is used, the one behind it comes nearer, a share with every tile */
  const char *next = (const char *)p->b + rg_min_i64(panel + 1, w->plan.panels - 1) * bytes;
  int64_t share = bytes / (t1 - t0) / 64 * 64;

  rg_i8_pipe_panel(pipe, panel);
  for (int64_t t = t0; t < t1; t++) {
    int64_t i = row_of(w, t);
    int64_t rows = row_of(w, t + 1) - i;

    rg_i8_pipe_tile(pipe, &run, room + (i - row_of(w, t0)) * w->plan.ld, next + (t - t0) * share, i,
                    rows);
  }
}

void rg_i8_leave(const rg_i8_kernels *kernels)
{
  if (kernels->leave != NULL) {
    kernels->leave();
  }
}

/* One thread's share of the blocks, or of the panels of each. */
static bool run_units(const work *w, rg_i8_pipe *pipe, int64_t begin, int64_t end)
{
  const plan *a = &w->plan;
  int64_t units = a->blocks * a->chunks;
  int64_t n_threads = rg_max_i64(1, w->p->n_threads);

  for (int64_t t = begin; t < end; t++) {
    uint8_t *room = (uint8_t *)w->room + t * a->room;

    for (int64_t u = units * t / n_threads; u < units * (t + 1) / n_threads; u++) {
      int64_t block = u / a->chunks;
      int64_t chunk = u % a->chunks;
      int64_t t0 = a->tiles * block / a->blocks;
      int64_t t1 = a->tiles * (block + 1) / a->blocks;

      w->p->fill(w->p->context, a->kernels, row_of(w, t0), row_of(w, t1), room, a->ld);
      for (int64_t j = a->panels * chunk / a->chunks; j < a->panels * (chunk + 1) / a->chunks;
           j++) {
        if (rg_interrupt_pending()) {
          return false;
        }
        run_panel(w, pipe, t0, t1, j, room);
      }
    }
  }
  return true;
}

static bool run_share(void *context, int64_t begin, int64_t end)
{
  const work *w = context;
  rg_i8_pipe pipe;
  bool all;

  rg_i8_pipe_begin(&pipe, w->p);
  all = run_units(w, &pipe, begin, end);
  rg_i8_pipe_end(&pipe);
  return all;
}

rg_status rg_i8_multiply(const rg_i8_product *p, void *room)
{
  work w = { .p = p, .plan = plan_of(p), .room = room };

  if (p->m == 0 || p->n == 0) {
    return RG_OK;
  }
  return rg_parallel(p->n_threads, rg_max_i64(1, p->n_threads), run_share, &w);
}
