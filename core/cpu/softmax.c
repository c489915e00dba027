/* SPDX-License-Identifier: MIT */
/*
** Softmax along one axis.  The maximum is subtracted first, so that no exponential overflows; a row
** of -inf alone, and one with nan or +inf, gives nan everywhere (inf - inf), as in PyTorch.
**
**   along    a row is contiguous (or is gathered in tiles): maximum, exponentials and
**            their sum, product with 1 / sum
**   across   the axis is not the innermost: the same for many columns at once, row by row
*/
#include <string.h>

#include "cpu/fold.h"
#include "op/softmax.h"

enum {
  ROW = 4096,   /* elements: what a row's exponentials may fill before they are computed twice */
  GROUP = 8192, /* elements in one item of work */
  LONG_ROW = 1 << 20 /* elements between two looks at Ctrl-C */
};

typedef struct softmax_work {
  rg_fold_axes x;
  rg_fold_axes y;
  int32_t from; /* types of x and y; both have the same lane type */
  int32_t to;
  int32_t lane;
  int64_t size;
  int64_t group; /* rows or columns in an item */
  int64_t tiles; /* across: in a row of columns */
} softmax_work;

static rg_loop *binary_loop(const softmax_work *w, int32_t op, int32_t form)
{
  return rg_simd()->binary->loop[op - RG_OP_ADD][w->lane][form];
}

/* 1 / x in place. */
static void invert(const softmax_work *w, void *x, int64_t n)
{
  rg_simd()->unary->loop[RG_OP_RECIPROCAL - RG_OP_NEG][w->lane](x, x, NULL, n);
}

/* -- Along ---------------------------------------------------------------------------- */

/* A row at hand: x and y are contiguous and have the lane type.  Each pass looks at Ctrl-C: a row
** may have billions of elements. */
static void row_direct(const softmax_work *w, char *y, const char *x, int64_t n)
{
  const rg_simd_reduce *reduce = rg_simd()->reduce;
  rg_lane_value part[2] = { { .f64 = 0 } };
  char *sums = (char *)part; /* two lanes side by side */
  rg_lane_value most[2] = { { .f64 = 0 } };
  char *pair = (char *)most;

  for (int64_t at = 0; at < n && !rg_interrupt_pending(); at += LONG_ROW) {
    reduce->fold[RG_FOLD_MAX][w->lane](pair + (at > 0 ? w->size : 0), x + at * w->size,
                                       rg_min_i64(LONG_ROW, n - at));
    if (at > 0) {
      reduce->fold[RG_FOLD_MAX][w->lane](pair, pair, 2);
    }
  }
  for (int64_t at = 0; at < n && !rg_interrupt_pending(); at += LONG_ROW) {
    reduce->exp_shifted[w->lane == RG_LANE_F64](y + at * w->size, x + at * w->size, most,
                                                rg_min_i64(LONG_ROW, n - at));
  }
  for (int64_t at = 0; at < n && !rg_interrupt_pending(); at += ROW) {
    reduce->fold[RG_FOLD_SUM][w->lane](sums + w->size, y + at * w->size, rg_min_i64(ROW, n - at));
    reduce->fold[RG_FOLD_SUM][w->lane](sums, sums, 2);
  }
  invert(w, sums, 1);
  for (int64_t at = 0; at < n && !rg_interrupt_pending(); at += LONG_ROW) {
    binary_loop(w, RG_OP_MUL, RG_FORM_RUN_ONE)(y + at * w->size, y + at * w->size, sums,
                                               rg_min_i64(LONG_ROW, n - at));
  }
}

typedef struct row_room {
  rg_tile x;
  rg_tile y;
  _Alignas(64) char row[ROW * 8];
} row_room;

/* Maximum of a row in tiles. */
static rg_lane_value row_most(const softmax_work *w, const rg_walk *x, row_room *room)
{
  rg_fold *fold = rg_simd()->reduce->fold[RG_FOLD_MAX][w->lane];
  rg_lane_value part[2];
  char *pair = (char *)part;

  for (int64_t at = 0; at < w->x.n_fold && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, w->x.n_fold - at);

    fold(pair + (at > 0 ? w->size : 0), rg_tile_load(x, 0, at, n, w->from, &room->x), n);
    if (at > 0) {
      fold(pair, pair, 2);
    }
  }
  return part[0];
}

/* Any strides and types; exponentials of rows longer than ROW are computed a second time. */
static void row_tiled(const softmax_work *w, const rg_walk *y, const rg_walk *x, row_room *room)
{
  const rg_simd_reduce *reduce = rg_simd()->reduce;
  rg_loop *exp_shifted = reduce->exp_shifted[w->lane == RG_LANE_F64];
  rg_lane_value most = row_most(w, x, room);
  rg_lane_value part[2] = { { .f64 = 0 } };
  char *sums = (char *)part;
  bool keep = w->x.n_fold <= ROW;

  for (int64_t at = 0; at < w->x.n_fold && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, w->x.n_fold - at);
    char *e = room->row + (keep ? at * w->size : 0);

    exp_shifted(e, rg_tile_load(x, 0, at, n, w->from, &room->x), &most, n);
    reduce->fold[RG_FOLD_SUM][w->lane](sums + w->size, e, n);
    reduce->fold[RG_FOLD_SUM][w->lane](sums, sums, 2);
  }
  invert(w, sums, 1);
  for (int64_t at = 0; at < w->x.n_fold && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, w->x.n_fold - at);
    char *e = room->row + (keep ? at * w->size : 0);
    void *place = rg_tile_open(y, 0, at, n, w->to, &room->y);

    if (!keep) {
      exp_shifted(e, rg_tile_load(x, 0, at, n, w->from, &room->x), &most, n);
    }
    binary_loop(w, RG_OP_MUL, RG_FORM_RUN_ONE)(place, e, sums, n);
    rg_tile_close(y, 0, at, n, w->to, &room->y, place);
  }
}

static bool along_job(void *work, int64_t begin, int64_t end)
{
  const softmax_work *w = work;
  rg_walk x = w->x.fold;
  rg_walk y = w->y.fold;
  bool direct = w->from == w->to && !rg_is_half(w->from) && x.ndim == 1 && y.ndim == 1 &&
                x.stride[0][0] == w->size && y.stride[0][0] == w->size;
  row_room room;

  for (int64_t i = begin; i < end; i++) {
    int64_t last = rg_min_i64((i + 1) * w->group, w->x.n_keep);

    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t row = i * w->group; row < last; row++) {
      x.data[0] = w->x.keep.data[0] + rg_walk_offset(&w->x.keep, 0, row);
      y.data[0] = w->y.keep.data[0] + rg_walk_offset(&w->y.keep, 0, row);
      if (direct) {
        row_direct(w, y.data[0], x.data[0], w->x.n_fold);
      } else {
        row_tiled(w, &y, &x, &room);
      }
    }
  }
  return !rg_interrupt_pending();
}

/* -- Across --------------------------------------------------------------------------- */

/* Has Ctrl-C come?  Asked for at every 256th row i. */
static bool stops(int64_t i)
{
  return (i & 255) == 255 && rg_interrupt_pending();
}

/* n columns from x to y, which are contiguous in each row. */
static void columns(const softmax_work *w, char *y, const char *x, int64_t n)
{
  rg_loop *maximum = binary_loop(w, RG_OP_MAXIMUM, RG_FORM_RUN_RUN);
  rg_loop *sub = binary_loop(w, RG_OP_SUB, RG_FORM_RUN_RUN);
  rg_loop *add = binary_loop(w, RG_OP_ADD, RG_FORM_RUN_RUN);
  rg_loop *mul = binary_loop(w, RG_OP_MUL, RG_FORM_RUN_RUN);
  rg_loop *exponential = rg_simd()->unary->loop[RG_OP_EXP - RG_OP_NEG][w->lane];
  int64_t step = w->x.fold.stride[0][0];
  int64_t y_step = w->y.fold.stride[0][0];
  _Alignas(64) char most[RG_TILE * 8];
  _Alignas(64) char sum[RG_TILE * 8] = { 0 };

  memcpy(most, x, (size_t)(n * w->size));
  for (int64_t i = 1; i < w->x.n_fold && !stops(i); i++) {
    maximum(most, most, x + i * step, n);
  }
  for (int64_t i = 0; i < w->x.n_fold && !stops(i); i++) {
    char *row = y + i * y_step;

    sub(row, x + i * step, most, n);
    exponential(row, row, NULL, n);
    add(sum, sum, row, n);
  }
  invert(w, sum, n);
  for (int64_t i = 0; i < w->x.n_fold && !stops(i); i++) {
    mul(y + i * y_step, y + i * y_step, sum, n);
  }
}

static bool across_job(void *work, int64_t begin, int64_t end)
{
  const softmax_work *w = work;
  const rg_walk *keep = &w->x.keep;
  int64_t width = keep->shape[keep->ndim - 1];

  for (int64_t i = begin; i < end; i++) {
    int64_t column = i % w->tiles * w->group;
    int64_t at = i / w->tiles * width + column;

    if (rg_interrupt_pending()) {
      return false;
    }
    columns(w, w->y.keep.data[0] + rg_walk_offset(&w->y.keep, 0, at),
            keep->data[0] + rg_walk_offset(keep, 0, at), rg_min_i64(w->group, width - column));
  }
  return !rg_interrupt_pending();
}

/* -- Kernel ----------------------------------------------------------------------------- */

rg_status rg_cpu_softmax(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_softmax_args *args = call->args;
  const rg_tensor *x = call->in[0];
  rg_tensor *y = out[0];
  softmax_work w = { .from = x->_dtype, .to = y->_dtype, .lane = rg_lane_of(x->_dtype) };

  (void)frame;
  if (x->_count == 0) {
    return RG_OK;
  }
  int32_t threads = rg_threads_for(15.0 * (double)x->_count);

  w.size = rg_lane_bytes(w.lane);
  rg_fold_axes_init(&w.x, x, 1u << args->axis);
  rg_fold_axes_init(&w.y, y, 1u << args->axis);
  if (w.from == w.to && !rg_is_half(w.from) && rg_fold_across(&w.x, w.size) &&
      rg_fold_across(&w.y, w.size) &&
      w.x.keep.shape[w.x.keep.ndim - 1] == w.y.keep.shape[w.y.keep.ndim - 1]) {
    int64_t width = w.x.keep.shape[w.x.keep.ndim - 1];

    w.group = rg_min_i64(RG_TILE, width);
    w.tiles = (width + w.group - 1) / w.group;
    return rg_parallel(threads, w.x.n_keep / width * w.tiles, across_job, &w);
  }
  w.group = rg_max_i64(1, GROUP / w.x.n_fold);
  return rg_parallel(threads, (w.x.n_keep + w.group - 1) / w.group, along_job, &w);
}
