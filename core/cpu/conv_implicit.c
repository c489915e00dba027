/* SPDX-License-Identifier: MIT */
/*
** Convolutions with channels last as matrix products, without the matrix (implicit GEMM): a row of
** it is a position of the result, and for each tap of the kernel a pointer says where the channels
** lie that this position reads there, or a row of zeros in the padding.
**
** Dukhan: The Indirect Convolution Algorithm (2019).  Pointers are made for a block of rows, whose
** images stay in L2 while all columns of the weights come by; sums stay in registers over all taps,
** and the epilogue (bias, what lies in the result, activation) is done there.  A result is one sum
** in one order, however rows and threads are shared out.
*/
#include <stdatomic.h>
#include <string.h>

#include "cpu/conv.h"
#include "cpu/cpu.h"
#include "cpu/gemm.h"

enum { COLUMNS = RG_GATHERED_COLUMNS, ROWS = RG_GATHERED_ROWS };

/* Pointers of a block take memory, which grows with the taps. */
enum { MOST_TAPS = 1024 };

/* At least so many tiles are in a block: the weights come by once for each of them. */
enum { LEAST_TILES = 8 };

typedef struct work {
  const float *x;
  float *y;
  const float *weights; /* [groups x strips x taps x in x COLUMNS] */
  const float *bias;    /* [groups x strips x COLUMNS] */
  const float *zeros;   /* a pixel of the padding */
  rg_conv2d_sizes s;
  const rg_conv2d_options *o;
  int64_t in, outs, taps; /* channels of one group */
  int64_t strips;         /* of columns, of one group */
  int64_t positions, tiles;
  int64_t block, blocks; /* tiles of a block */
  int64_t parts;         /* of the strips of all groups, shared out among threads */
  int32_t act;
  bool adds;
  char *rooms;
  int64_t room_bytes;
  atomic_int next_room;
} work;

bool rg_conv_may_be_implicit(const rg_call *call, rg_tensor *const *out)
{
  const rg_conv2d_args *args = call->args;

  if (call->op->id != RG_OP_CONV2D || args->o.layout != RG_NHWC || out[0]->_dtype != RG_F32 ||
      !rg_is_contiguous(out[0]) || rg_gemm_kernels_now()->gathered[1] == NULL) {
    return false;
  }
  for (int i = 0; i < 2; i++) {
    if (call->in[i]->_dtype != RG_F32 || !rg_is_contiguous(call->in[i])) {
      return false;
    }
  }
  const rg_conv2d_sizes s = rg_conv2d_sizes_of(call);

  return s.w[0] <= MOST_TAPS && s.w[1] <= MOST_TAPS && s.w[0] * s.w[1] <= MOST_TAPS;
}

/* -- Weights --------------------------------------------------------------------------------- */

static int64_t weight_count(const work *w)
{
  return w->s.groups * w->strips * w->taps * w->in * COLUMNS;
}

/* Strips of 16 results, in the order in which a tile reads them; false where one of the weights is
** inf or nan, which times the zeros of the padding would be nan. */
static bool pack(const work *w, const float *from, float *to)
{
  float rest = 0;

  for (int64_t i = 0; i < w->s.groups * w->strips; i++) {
    const int64_t first = i % w->strips * COLUMNS;
    const int64_t columns = rg_min_i64(COLUMNS, w->outs - first);
    const float *strip = from + (i / w->strips * w->outs + first) * w->in * w->taps;

    for (int64_t tap = 0; tap < w->taps; tap++) {
      for (int64_t c = 0; c < w->in; c++, to += COLUMNS) {
        for (int64_t j = 0; j < COLUMNS; j++) {
          to[j] = j < columns ? strip[(j * w->in + c) * w->taps + tap] : 0;
          rest += to[j] * 0;
        }
      }
      if (rg_interrupt_pending()) {
        return true; /* nobody reads what is there */
      }
    }
  }
  return rest == 0;
}

/* Kept with a parameter until it is written to. */
typedef struct kept {
  rg_derived derived;
  rg_block block;
  bool finite;
} kept;

static void kept_release(rg_derived *derived)
{
  kept *self = (kept *)derived;

  if (self->block.data != NULL) {
    rg_block_free(&self->block);
  }
  rg_host_free(self);
}

static rg_status get_kept(const work *w, const rg_tensor *weight, const kept **out)
{
  rg_storage *storage = weight->_storage;
  const uint64_t key[4] = {
    0x696d706c69636974u, /* "implicit" */
    (uint64_t)((const char *)weight->_data - (const char *)storage->block.data),
    (uint64_t)w->in << 32 | (uint64_t)w->outs, (uint64_t)w->s.groups << 32 | (uint64_t)w->taps
  };
  kept *self = (kept *)rg_derived_find(storage, key);

  if (self == NULL) {
    self = rg_host_zeroed(sizeof(*self));
    if (self == NULL) {
      return rg_fail(RG_ENOMEM, "no memory to describe a packed weight");
    }
    memcpy(self->derived.key, key, sizeof(key));
    self->derived.version = rg_storage_version(storage);
    self->derived.release = kept_release;
    rg_status status =
        rg_block_alloc_shared(RG_CPU, weight_count(w) * (int64_t)sizeof(float), &self->block);

    if (status == RG_OK) {
      self->derived.bytes = self->block.bytes;
      self->finite = pack(w, weight->_data, self->block.data);
      status = rg_interrupt_pending() ? rg_fail(RG_EINTR, "interrupted") : RG_OK;
    }
    if (status != RG_OK) {
      kept_release(&self->derived);
      return status;
    }
    rg_derived_keep(storage, &self->derived);
  }
  *out = self;
  return RG_OK;
}

/* -- One block ------------------------------------------------------------------------------- */

static int64_t first_of(const work *w, int64_t tile)
{
  return w->positions * tile / w->tiles;
}

/* Where tiles begin .. end read, tile by tile, tap by tap, row by row. */
static void gather(const work *w, int64_t begin, int64_t end, const float **to)
{
  const rg_conv2d_sizes *s = &w->s;
  const rg_conv2d_options *o = w->o;

  for (int64_t tile = begin; tile < end; tile++) {
    const int64_t first = first_of(w, tile), rows = first_of(w, tile + 1) - first;

    for (int64_t r = 0; r < rows; r++) {
      const int64_t at = first + r, column = at % s->y[1];
      const int64_t row = at / s->y[1] % s->y[0], image = at / s->y[1] / s->y[0];
      const float *x = w->x + image * s->x[0] * s->x[1] * s->c;

      for (int64_t i = 0; i < s->w[0]; i++) {
        const int64_t y = row * o->stride[0] + i * o->dilation[0] - o->pad_low[0];
        const bool inside = y >= 0 && y < s->x[0];

        for (int64_t j = 0; j < s->w[1]; j++) {
          const int64_t z = column * o->stride[1] + j * o->dilation[1] - o->pad_low[1];

          to[(i * s->w[1] + j) * rows + r] =
              inside && z >= 0 && z < s->x[1] ? x + (y * s->x[1] + z) * s->c : w->zeros;
        }
      }
    }
    to += rows * w->taps;
  }
}

/* A tile of few columns, or with another activation, beside the result. */
static void run_apart(const work *w, rg_gather_tile *t, int64_t rows, int64_t columns, float *y)
{
  void (*const kernel)(const rg_gather_tile *) = rg_gemm_kernels_now()->gathered[rows];
  const bool clips = w->act == RG_ACT_NONE || w->act == RG_ACT_RELU || w->act == RG_ACT_RELU6;
  float tile[ROWS * COLUMNS];

  for (int64_t r = 0; w->adds && r < rows; r++) {
    memset(tile + r * COLUMNS, 0, COLUMNS * sizeof(*tile));
    memcpy(tile + r * COLUMNS, y + r * w->s.o, (size_t)columns * sizeof(*tile));
  }
  t->c = tile;
  t->ldc = COLUMNS;
  t->act = clips ? w->act : RG_ACT_NONE;
  kernel(t);
  if (!clips) {
    rg_activate(w->act, RG_LANE_F32, tile, rows * COLUMNS);
  }
  for (int64_t r = 0; r < rows; r++) {
    memcpy(y + r * w->s.o, tile + r * COLUMNS, (size_t)columns * sizeof(*tile));
  }
}

/* A strip of columns of a block of rows. */
static void run_strip(const work *w, int64_t strip, int64_t begin, int64_t end,
                      const float *const *x)
{
  const rg_gemm_kernels *kernels = rg_gemm_kernels_now();
  const int64_t group = strip / w->strips, first = strip % w->strips * COLUMNS;
  const int64_t columns = rg_min_i64(COLUMNS, w->outs - first);
  const bool apart = columns < COLUMNS ||
                     !(w->act == RG_ACT_NONE || w->act == RG_ACT_RELU || w->act == RG_ACT_RELU6);
  rg_gather_tile t = { .taps = w->taps,
                       .k = w->in,
                       .shift = group * w->in,
                       .b = w->weights + strip * w->taps * w->in * COLUMNS,
                       .bias = w->bias + strip * COLUMNS,
                       .ldc = w->s.o,
                       .act = w->act,
                       .adds = w->adds };

  for (int64_t tile = begin; tile < end; tile++) {
    const int64_t at = first_of(w, tile), rows = first_of(w, tile + 1) - at;
    float *y = w->y + at * w->s.o + group * w->outs + first;

    t.x = x;
    if (apart) {
      run_apart(w, &t, rows, columns, y);
    } else {
      t.c = y;
      kernels->gathered[rows](&t);
    }
    x += rows * w->taps;
  }
}

static bool blocks_job(void *job, int64_t begin, int64_t end)
{
  work *w = job;
  const int64_t strips = w->s.groups * w->strips;
  const float **room =
      (const float **)(void *)(w->rooms + atomic_fetch_add(&w->next_room, 1) * w->room_bytes);

  for (int64_t at = begin; at < end; at++) {
    const int64_t block = at / w->parts, part = at % w->parts;
    const int64_t first = block * w->block, last = rg_min_i64(w->tiles, first + w->block);

    if (at == begin || part == 0) {
      gather(w, first, last, room);
    }
    for (int64_t i = strips * part / w->parts; i < strips * (part + 1) / w->parts; i++) {
      if (rg_interrupt_pending()) {
        return false;
      }
      run_strip(w, i, first, last, room);
    }
  }
  return true;
}

/* -- All of them ----------------------------------------------------------------------------- */

static work work_of(const rg_call *call, rg_tensor *const *out, bool adds)
{
  enum { L2 = 1 << 19, SHARE = 4 };
  const rg_conv2d_args *args = call->args;
  const rg_conv2d_sizes s = rg_conv2d_sizes_of(call);
  const int64_t l2 = rg_machine_facts()->l2_bytes > 0 ? rg_machine_facts()->l2_bytes : L2;
  work w = { .x = call->in[0]->_data, .y = out[0]->_data, .s = s, .o = &args->o, .adds = adds };

  w.act = args->o.act;
  w.in = s.c / s.groups;
  w.outs = s.o / s.groups;
  w.taps = s.w[0] * s.w[1];
  w.strips = (w.outs + COLUMNS - 1) / COLUMNS;
  w.positions = s.n * s.y[0] * s.y[1];
  w.tiles = (w.positions + ROWS - 1) / ROWS;
  const int64_t read =
      rg_min_i64(w.taps, args->o.stride[0] * args->o.stride[1]); /* of a position */
  const int64_t tile_bytes = ROWS * s.c * read * (int64_t)sizeof(float);

  w.block = rg_min_i64(w.tiles, rg_max_i64(LEAST_TILES, l2 / SHARE / tile_bytes));
  return w;
}

/* For so many threads: where blocks are few they are cut along their strips, too. */
static void share(work *w, int32_t threads)
{
  const int64_t strips = w->s.groups * w->strips;

  w->blocks = (w->tiles + w->block - 1) / w->block;
  w->parts = threads == 1 || w->blocks >= 4 * threads
                 ? 1
                 : rg_min_i64(strips, (4 * threads + w->blocks - 1) / w->blocks);
}

/* In a plan's arena the workspace's address stays good. */
typedef struct step {
  rg_memo memo;
  void *room;
  int32_t threads; /* that have a part of it */
} step;

static void release(rg_memo *memo)
{
  rg_host_free(memo);
}

static rg_status keep(const rg_call *call, rg_frame *frame, void *room, int32_t threads)
{
  step *s = rg_host_zeroed(sizeof(*s));

  if (s == NULL) {
    return rg_fail(RG_ENOMEM, "%s: no memory for a step of a plan", call->op->name);
  }
  s->memo.release = release;
  s->room = room;
  s->threads = threads;
  *frame->memo = &s->memo;
  return RG_OK;
}

/* The workspace: zeros, the bias, weights that are not kept, and the threads' pointers. */
static int64_t zeros_of(const work *w)
{
  return rg_round_up(w->s.c, COLUMNS);
}

static int64_t shared_count(const work *w, bool keeps)
{
  return zeros_of(w) + w->s.groups * w->strips * COLUMNS + (keeps ? 0 : weight_count(w));
}

static rg_status run(work *w, const rg_call *call, char *room, bool keeps, int32_t threads,
                     bool *finite)
{
  const rg_tensor *bias = call->n_in > 2 ? call->in[2] : NULL;
  float *zeros = (float *)(void *)room, *to = zeros + zeros_of(w);
  const int64_t n_bias = w->s.groups * w->strips * COLUMNS;

  memset(zeros, 0, (size_t)(zeros_of(w) + n_bias) * sizeof(*zeros));
  for (int64_t i = 0; bias != NULL && i < w->s.o; i++) {
    to[i / w->outs * w->strips * COLUMNS + i % w->outs] =
        rg_element_f32(bias->_data, bias->_dtype, i * bias->_stride[0]);
  }
  w->zeros = zeros;
  w->bias = to;
  if (keeps) {
    const kept *k;

    RG_TRY(get_kept(w, call->in[1], &k));
    w->weights = k->block.data;
    *finite = k->finite;
  } else {
    w->weights = to + n_bias;
    *finite = pack(w, call->in[1]->_data, to + n_bias);
  }
  w->rooms = room + rg_round_up(shared_count(w, keeps) * (int64_t)sizeof(float), 64);
  return *finite ? rg_parallel(threads, w->blocks * w->parts, blocks_job, w) : RG_OK;
}

/* The bytes of it, for so many threads. */
static int64_t room_of(work *w, bool keeps, int32_t threads)
{
  share(w, threads);
  w->room_bytes = rg_round_up(w->block * ROWS * w->taps * (int64_t)sizeof(float *), 64);
  return rg_round_up(shared_count(w, keeps) * (int64_t)sizeof(float), 64) + threads * w->room_bytes;
}

static bool keeps_weights(const rg_call *call)
{
  return (call->in[1]->_flags & RG_TENSOR_PARAM) != 0;
}

rg_status rg_conv_implicit_foresee(const rg_call *call, rg_tensor *const *out)
{
  work w = work_of(call, out, false);
  rg_block block = { 0 };

  RG_TRY(rg_block_alloc(
      RG_CPU, room_of(&w, keeps_weights(call), rg_threads_for(call->op->cost(call).flops)),
      &block));
  rg_block_free(&block);
  return RG_OK;
}

rg_status rg_conv_implicit(const rg_call *call, rg_tensor *const *out, rg_frame *frame, bool adds,
                           bool *finite)
{
  const bool keeps = keeps_weights(call);
  step *s = frame->memo != NULL ? (step *)*frame->memo : NULL;
  work w = work_of(call, out, adds);
  int32_t threads = rg_threads_for(call->op->cost(call).flops);
  rg_block block = { 0 };
  rg_status status = RG_OK;

  /* at each replay the workspace of the first run, and as many threads at most */
  threads = s != NULL ? (int32_t)rg_min_i64(threads, s->threads) : threads;
  const int64_t bytes = room_of(&w, keeps, threads);

  if (s == NULL) {
    RG_TRY(rg_block_alloc(RG_CPU, bytes, &block));
    if (frame->memo != NULL) {
      status = keep(call, frame, block.data, threads);
    }
  }
  if (status == RG_OK) {
    status = run(&w, call, s != NULL ? s->room : block.data, keeps, threads, finite);
  }
  if (block.data != NULL) {
    rg_block_free(&block);
  }
  return status;
}
