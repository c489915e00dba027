/* SPDX-License-Identifier: MIT */
/*
** Layer normalisation on the CPU: a row at a time, in tiles. What is added up over rows is added in
** parts of neighbouring rows, and the parts in their order: the number of threads does not show.
*/
#include <math.h>
#include <string.h>

#include "cpu/cpu.h"
#include "op/norm.h"

enum {
  ELEMENTS = 8192, /* in one item of work */
  PIECE = 1 << 20, /* bytes between two looks at the interrupt flag */
};

typedef struct norm_work {
  rg_walk x;    /* 1: y, or dx; 2: dy */
  rg_walk rows; /* 0: mean, 1: scale */
  const rg_layer_norm_args *args;
  const rg_simd_norm *loops;
  int32_t dtype[3]; /* of the tensors of x */
  int32_t wide;     /* 1: rows are f64 */
  int64_t size;     /* bytes of a lane */
  int64_t n;        /* elements of a row */
  int64_t count;    /* rows */
  int64_t group;    /* rows in one item */
  char *weight;     /* as lanes, 1 where there is none */
  char *bias;
  char *sums; /* of each part: dw, db */
  void *mean; /* of each row; NULL: nobody wants them */
  void *scale;
} norm_work;

static double lane_at(const norm_work *w, const void *lanes, int64_t i)
{
  return w->wide != 0 ? ((const double *)lanes)[i] : (double)((const float *)lanes)[i];
}

static void set_lane(const norm_work *w, void *lanes, int64_t i, double value)
{
  if (w->wide != 0) {
    ((double *)lanes)[i] = value;
  } else {
    ((float *)lanes)[i] = (float)value;
  }
}

/* Zeros; memory that is touched for the first time takes seconds for some GB. */
static void zero(void *to, int64_t bytes)
{
  for (int64_t at = 0; at < bytes && !rg_interrupt_pending(); at += PIECE) {
    memset((char *)to + at, 0, (size_t)rg_min_i64(PIECE, bytes - at));
  }
}

/* A vector as lanes side by side, or one value everywhere. */
static void spread(const norm_work *w, const rg_tensor *x, double value, char *to)
{
  rg_walk walk;
  rg_tile room;

  for (int64_t at = 0; x == NULL && at < w->n && !rg_interrupt_pending(); at += RG_TILE) {
    for (int64_t i = at; i < rg_min_i64(at + RG_TILE, w->n); i++) {
      set_lane(w, to, i, value);
    }
  }
  if (x == NULL) {
    return;
  }
  rg_walk_init(&walk, &x, 1, x->_shape, 1);
  for (int64_t at = 0; at < w->n && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, w->n - at);
    const void *lanes = rg_tile_load(&walk, 0, at, n, x->_dtype, &room);

    if ((x->_dtype == RG_F64) == (w->wide != 0)) {
      memcpy(to + at * w->size, lanes, (size_t)(n * w->size));
      continue;
    }
    for (int64_t i = 0; i < n; i++) { /* f32 beside f64 */
      set_lane(w, to, at + i,
               x->_dtype == RG_F64 ? ((const double *)lanes)[i]
                                   : (double)((const float *)lanes)[i]);
    }
  }
}

static void begin_work(norm_work *w, const rg_call *call, const rg_tensor *x)
{
  w->args = call->args;
  w->loops = rg_simd()->norm;
  w->wide = x->_dtype == RG_F64;
  w->size = w->wide != 0 ? 8 : 4;
  w->n = x->_shape[x->_ndim - 1];
  w->count = x->_count / w->n;
  w->group = ELEMENTS / w->n + 1;
}

static const void *load(const norm_work *w, int32_t t, int64_t row, int64_t at, int64_t n,
                        rg_tile *room)
{
  return rg_tile_load(&w->x, t, row * w->n + at, n, w->dtype[t], room);
}

/* -- Forward -------------------------------------------------------------------------------- */

/* Mean and 1 / sqrt(variance + eps) of a row. */
static void facts_of(const norm_work *w, int64_t row, double *mean, double *scale, rg_tile *room)
{
  double sum = 0;

  *mean = 0;
  for (int64_t at = 0; w->args->rms == 0 && at < w->n && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, w->n - at);

    sum += w->loops->sum[w->wide](load(w, 0, row, at, n, room), n);
  }
  if (w->args->rms == 0) {
    *mean = sum / (double)w->n;
  }
  sum = 0;
  for (int64_t at = 0; at < w->n && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, w->n - at);

    sum += w->loops->squares[w->wide](load(w, 0, row, at, n, room), *mean, n);
  }
  *scale = 1 / sqrt(sum / (double)w->n + w->args->eps);
}

static bool forward_job(void *work, int64_t begin, int64_t end)
{
  const norm_work *w = work;
  rg_tile room[2];

  for (int64_t row = begin * w->group; row < rg_min_i64(end * w->group, w->count); row++) {
    double mean;
    double scale;

    if (rg_interrupt_pending()) {
      return false;
    }
    facts_of(w, row, &mean, &scale, &room[0]);
    if (w->mean != NULL) {
      set_lane(w, w->mean, row, mean);
      set_lane(w, w->scale, row, scale);
    }
    for (int64_t at = 0; at < w->n && !rg_interrupt_pending(); at += RG_TILE) {
      int64_t n = rg_min_i64(RG_TILE, w->n - at);
      void *to = rg_tile_open(&w->x, 1, row * w->n + at, n, w->dtype[1], &room[1]);

      w->loops->apply[w->wide](to, load(w, 0, row, at, n, &room[0]), mean, scale,
                               w->weight + at * w->size, w->bias + at * w->size, n);
      rg_tile_close(&w->x, 1, row * w->n + at, n, w->dtype[1], &room[1], to);
    }
  }
  return !rg_interrupt_pending();
}

rg_status rg_cpu_layer_norm(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *xs[] = { call->in[0], out[0] };
  norm_work w = { .dtype = { xs[0]->_dtype, xs[1]->_dtype } };

  if (xs[0]->_count == 0) {
    return RG_OK;
  }
  begin_work(&w, call, xs[0]);
  w.weight = frame->scratch;
  w.bias = w.weight + w.n * w.size;
  w.mean = call->n_out > 1 ? out[1]->_data : NULL;
  w.scale = call->n_out > 1 ? out[2]->_data : NULL;
  spread(&w, call->in[1], 1, w.weight);
  spread(&w, call->in[2], 0, w.bias);
  rg_walk_init(&w.x, xs, 2, xs[0]->_shape, xs[0]->_ndim);
  return rg_parallel(rg_threads_for(8.0 * (double)xs[0]->_count), (w.count + w.group - 1) / w.group,
                     forward_job, &w);
}

/* -- Back ------------------------------------------------------------------------------------ */

typedef struct back_room {
  rg_tile x;
  rg_tile dy;
  rg_tile dx;
  rg_tile one;
} back_room;

static void back_row(const norm_work *w, int64_t row, char *dw, char *db, back_room *room)
{
  int32_t type = w->wide != 0 ? RG_F64 : RG_F32;
  double mean = lane_at(w, rg_tile_load(&w->rows, 0, row, 1, type, &room->one), 0);
  double scale = lane_at(w, rg_tile_load(&w->rows, 1, row, 1, type, &room->one), 0);
  double sums[2] = { 0, 0 };

  for (int64_t at = 0; at < w->n && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, w->n - at);

    w->loops->back_sums[w->wide](
        load(w, 2, row, at, n, &room->dy), load(w, 0, row, at, n, &room->x), mean, scale,
        w->weight + at * w->size, dw + at * w->size, db + at * w->size, sums, n);
  }
  double a = w->args->rms != 0 ? 0 : sums[0] / (double)w->n;
  double b = sums[1] / (double)w->n;

  for (int64_t at = 0; at < w->n && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, w->n - at);
    void *to = rg_tile_open(&w->x, 1, row * w->n + at, n, w->dtype[1], &room->dx);

    w->loops->back_apply[w->wide](to, load(w, 2, row, at, n, &room->dy),
                                  load(w, 0, row, at, n, &room->x), mean, scale,
                                  w->weight + at * w->size, a, b, n);
    rg_tile_close(&w->x, 1, row * w->n + at, n, w->dtype[1], &room->dx, to);
  }
}

/* One part after the other: its rows, into its own sums. */
static bool back_job(void *work, int64_t begin, int64_t end)
{
  const norm_work *w = work;
  int64_t parts = rg_norm_parts(w->count, 0);
  back_room room;

  for (int64_t part = begin; part < end; part++) {
    char *dw = w->sums + 2 * part * w->n * w->size;
    char *db = dw + w->n * w->size;

    zero(dw, 2 * w->n * w->size);
    for (int64_t row = w->count * part / parts; row < w->count * (part + 1) / parts; row++) {
      if (rg_interrupt_pending()) {
        return false;
      }
      back_row(w, row, dw, db, &room);
    }
  }
  return !rg_interrupt_pending();
}

/* The sums of all parts. */
static void join(const norm_work *w, int64_t parts, int64_t which, void *to)
{
  rg_loop *add =
      rg_simd()->binary->loop[0][w->wide != 0 ? RG_LANE_F64 : RG_LANE_F32][RG_FORM_RUN_RUN];

  zero(to, w->n * w->size);
  for (int64_t part = 0; part < parts; part++) {
    const char *sums = w->sums + (2 * part + which) * w->n * w->size;

    for (int64_t at = 0; at < w->n && !rg_interrupt_pending(); at += RG_TILE) {
      char *lanes = (char *)to + at * w->size;

      add(lanes, lanes, sums + at * w->size, rg_min_i64(RG_TILE, w->n - at));
    }
  }
}

rg_status rg_cpu_layer_norm_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *x = call->in[RG_LNB_X];
  const rg_tensor *xs[] = { x, out[0], call->in[RG_LNB_DY] };
  const rg_tensor *rows[] = { call->in[RG_LNB_MEAN], call->in[RG_LNB_SCALE] };
  norm_work w = { .dtype = { x->_dtype, out[0]->_dtype, xs[2]->_dtype } };

  begin_work(&w, call, x);
  w.weight = frame->scratch;
  w.sums = w.weight + w.n * w.size;
  spread(&w, call->in[RG_LNB_WEIGHT], 1, w.weight);
  int64_t parts = rg_norm_parts(w.count, 0);

  if (w.count > 0) {
    rg_walk_init(&w.x, xs, 3, x->_shape, x->_ndim);
    rg_walk_init(&w.rows, rows, 2, rows[0]->_shape, rows[0]->_ndim);
    RG_TRY(rg_parallel(rg_threads_for(14.0 * (double)x->_count), parts, back_job, &w));
  }
  join(&w, parts, 0, out[1]->_data);
  join(&w, parts, 1, out[2]->_data);
  return rg_interrupt_pending() ? rg_fail(RG_EINTR, "interrupted") : RG_OK;
}
