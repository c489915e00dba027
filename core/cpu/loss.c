/* SPDX-License-Identifier: MIT */
/*
** Cross entropy on the CPU: a row at a time, in tiles of classes.  The maximum is subtracted before
** the exponentials; what is added up over rows is added in f64 and in their order.
*/
#include <math.h>
#include <stdatomic.h>

#include "cpu/cpu.h"
#include "op/loss.h"

enum { ELEMENTS = 8192 }; /* in one item of work */

typedef struct loss_work {
  rg_walk x;      /* all elements; 1: dx */
  rg_walk labels; /* a row each; 1: the gradient that arrives, 2: lse */
  rg_walk weight; /* a class each */
  const rg_call *call;
  const rg_cross_entropy_options *o;
  int32_t dtype; /* of x and dx */
  int32_t lane;
  int32_t weight_dtype; /* -1: there is none */
  int32_t dy_dtype;
  int64_t rows;
  int64_t classes;
  int64_t group; /* rows in one item */
  double weight_sum;
  double total;          /* what a mean divides by */
  double *loss;          /* of each row */
  double *part;          /* its share of total */
  void *lse;             /* NULL: nobody wants it */
  _Atomic int64_t wrong; /* the first row whose label is no class; rows: none */
} loss_work;

typedef struct loss_room {
  rg_tile x;
  rg_tile y;
  rg_tile weight;
  rg_tile one;
} loss_room;

static double lane_at(int32_t lane, const void *lanes, int64_t i)
{
  return lane == RG_LANE_F64 ? ((const double *)lanes)[i] : ((const float *)lanes)[i];
}

static void set_lane(int32_t lane, void *lanes, int64_t i, double value)
{
  if (lane == RG_LANE_F64) {
    ((double *)lanes)[i] = value;
  } else {
    ((float *)lanes)[i] = (float)value;
  }
}

/* One float element of a walk. */
static double number_at(const rg_walk *walk, int32_t t, int64_t at, int32_t dtype, rg_tile *room)
{
  return lane_at(rg_lane_of(dtype), rg_tile_load(walk, t, at, 1, dtype, room), 0);
}

static int64_t label_at(const loss_work *w, int64_t row)
{
  const rg_tensor *labels = w->call->in[w->x.n > 1 ? RG_CEB_LABELS : 1];

  return rg_integer_at(&w->labels, 0, row, labels->_dtype);
}

static double weight_at(const loss_work *w, int64_t label, loss_room *room)
{
  return w->weight_dtype < 0 ? 1 : number_at(&w->weight, 0, label, w->weight_dtype, &room->one);
}

/* The label of a row; false: the row does not count, or its label is no class. */
static bool counts(loss_work *w, int64_t row, int64_t *label)
{
  *label = label_at(w, row);
  if (*label == w->o->ignore) {
    return false;
  }
  if (*label < 0 || *label >= w->classes) {
    int64_t seen = atomic_load(&w->wrong);

    while (row < seen && !atomic_compare_exchange_weak(&w->wrong, &seen, row)) {
    }
    return false;
  }
  return true;
}

static rg_status check_labels(const loss_work *w)
{
  int64_t row = atomic_load(&w->wrong);

  if (row == w->rows) {
    return RG_OK;
  }
  return rg_fail(RG_EARG, "%s: label %lld in row %lld is no class; they go from 0 to %lld",
                 w->call->op->name, (long long)label_at(w, row), (long long)row + 1,
                 (long long)w->classes - 1);
}

static const void *tile_of(const loss_work *w, int64_t row, int64_t at, int64_t n, loss_room *room)
{
  return rg_tile_load(&w->x, 0, row * w->classes + at, n, w->dtype, &room->x);
}

/* -- Forward ----------------------------------------------------------------------------- */

/* The largest score of a row. */
static rg_lane_value most_of(const loss_work *w, int64_t row, loss_room *room)
{
  rg_fold *fold = rg_simd()->reduce->fold[RG_FOLD_MAX][w->lane];
  int64_t size = rg_lane_bytes(w->lane);
  rg_lane_value part[2] = { { .f64 = 0 } };
  char *pair = (char *)part; /* two lanes side by side */

  for (int64_t at = 0; at < w->classes && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, w->classes - at);

    fold(pair + (at > 0 ? size : 0), tile_of(w, row, at, n, room), n);
    if (at > 0) {
      fold(pair, pair, 2);
    }
  }
  return part[0];
}

/* log(sum(exp(x))) of a row. */
static double log_sum_exp(const loss_work *w, int64_t row, loss_room *room)
{
  const rg_simd_reduce *reduce = rg_simd()->reduce;
  rg_lane_value most = most_of(w, row, room);
  double sum = 0;
  int64_t at = 0;

  do {
    int64_t n = rg_min_i64(RG_TILE, w->classes - at);
    rg_lane_value part;

    reduce->exp_shifted[w->lane == RG_LANE_F64](room->y.lanes, tile_of(w, row, at, n, room), &most,
                                                n);
    reduce->fold[RG_FOLD_SUM][w->lane](&part, room->y.lanes, n);
    sum += lane_at(w->lane, &part, 0);
    at += RG_TILE;
  } while (at < w->classes && !rg_interrupt_pending());
  return lane_at(w->lane, &most, 0) + log(sum);
}

/* sum_c w[c] x[c] of a row. */
static double weighted_sum(const loss_work *w, int64_t row, loss_room *room)
{
  double sum = 0;

  for (int64_t at = 0; at < w->classes && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, w->classes - at);
    const void *x = tile_of(w, row, at, n, room);

    for (int64_t c = 0; c < n; c++) {
      sum += weight_at(w, at + c, room) * lane_at(w->lane, x, c);
    }
  }
  return sum;
}

static bool forward_job(void *work, int64_t begin, int64_t end)
{
  loss_work *w = work;
  double s = w->o->smoothing;
  loss_room room;

  for (int64_t row = begin * w->group; row < rg_min_i64(end * w->group, w->rows); row++) {
    int64_t label;
    bool counting = counts(w, row, &label);
    double lse = log_sum_exp(w, row, &room);

    if (rg_interrupt_pending()) {
      return false;
    }
    if (w->lse != NULL) {
      set_lane(w->lane, w->lse, row, lse);
    }
    w->loss[row] = 0;
    w->part[row] = 0;
    if (!counting) {
      continue;
    }
    double weight = weight_at(w, label, &room);
    double score = number_at(&w->x, 0, row * w->classes + label, w->dtype, &room.one);

    w->loss[row] = (1 - s) * weight * (lse - score);
    w->part[row] = weight;
    if (s > 0) {
      w->loss[row] += s / (double)w->classes * (w->weight_sum * lse - weighted_sum(w, row, &room));
    }
  }
  return !rg_interrupt_pending();
}

static void begin_work(loss_work *w, const rg_call *call, int32_t x_at, int32_t weight_at_input)
{
  const rg_tensor *x = call->in[x_at];
  const rg_tensor *weight = call->n_in > weight_at_input ? call->in[weight_at_input] : NULL;
  loss_room room;

  w->call = call;
  w->o = &((const rg_cross_entropy_args *)call->args)->o;
  w->dtype = x->_dtype;
  w->lane = rg_lane_of(x->_dtype);
  w->classes = x->_shape[x->_ndim - 1];
  w->rows = x->_count / w->classes;
  w->group = ELEMENTS / w->classes + 1;
  w->weight_dtype = -1;
  w->weight_sum = (double)w->classes;
  atomic_init(&w->wrong, w->rows);
  if (weight != NULL) {
    w->weight_dtype = weight->_dtype;
    w->weight_sum = 0;
    rg_walk_init(&w->weight, &weight, 1, weight->_shape, 1);
    for (int64_t c = 0; c < w->classes && !rg_interrupt_pending(); c++) {
      w->weight_sum += weight_at(w, c, &room);
    }
  }
}

static int32_t threads_for(const loss_work *w)
{
  return rg_threads_for(15.0 * (double)w->rows * (double)w->classes);
}

static int64_t items(const loss_work *w)
{
  return (w->rows + w->group - 1) / w->group;
}

rg_status rg_cpu_cross_entropy(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  loss_work w = { .loss = frame->scratch };
  const rg_tensor *x = call->in[0];
  double loss = 0;
  double total = 0;

  begin_work(&w, call, 0, 2);
  w.part = w.loss + w.rows;
  w.lse = call->n_out > 1 ? out[1]->_data : NULL;
  rg_walk_init(&w.x, &x, 1, x->_shape, x->_ndim);
  rg_walk_init(&w.labels, &call->in[1], 1, call->in[1]->_shape, call->in[1]->_ndim);
  RG_TRY(rg_parallel(threads_for(&w), items(&w), forward_job, &w));
  RG_TRY(check_labels(&w));
  for (int64_t row = 0; row < w.rows; row++) {
    loss += w.loss[row];
    total += w.part[row];
  }
  if (w.o->reduction != RG_LOSS_MEAN) {
    total = 1;
  }
  if (w.o->reduction != RG_LOSS_NONE) {
    set_lane(w.lane, out[0]->_data, 0, loss / total);
  }
  for (int64_t row = 0; w.o->reduction == RG_LOSS_NONE && row < w.rows; row++) {
    set_lane(w.lane, out[0]->_data, row, w.loss[row]);
  }
  if (call->n_out > 2) {
    set_lane(w.lane, out[2]->_data, 0, total);
  }
  return RG_OK;
}

/* -- Back -------------------------------------------------------------------------------- */

/* One tile: scale ((weight (1 - s) + s/C sum_c w[c]) p[c] - s/C w[c]), the label's share apart. */
static void back_tile(const loss_work *w, void *to, int64_t at, int64_t n, double scale,
                      double share, loss_room *room)
{
  rg_loop *mul = rg_simd()->binary->loop[RG_OP_MUL - RG_OP_ADD][w->lane][RG_FORM_RUN_ONE];
  double even = scale * w->o->smoothing / (double)w->classes;
  rg_lane_value factor;

  set_lane(w->lane, &factor, 0, scale * share);
  mul(to, to, &factor, n);
  for (int64_t c = 0; even != 0 && c < n; c++) {
    set_lane(w->lane, to, c, lane_at(w->lane, to, c) - even * weight_at(w, at + c, room));
  }
}

static void back_row(loss_work *w, int64_t row, loss_room *room)
{
  const rg_simd_reduce *reduce = rg_simd()->reduce;
  int64_t label;
  bool counting = counts(w, row, &label);
  double scale = counting ? number_at(&w->labels, 1, row, w->dy_dtype, &room->one) / w->total : 0;
  double weight = counting ? weight_at(w, label, room) : 0;
  double s = w->o->smoothing;
  double share = weight * (1 - s) + w->weight_sum * s / (double)w->classes;
  rg_lane_value lse;

  set_lane(w->lane, &lse, 0,
           number_at(&w->labels, 2, row, w->lane == RG_LANE_F64 ? RG_F64 : RG_F32, &room->one));
  for (int64_t at = 0; at < w->classes && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, w->classes - at);
    int64_t place = row * w->classes + at;
    void *to = rg_tile_open(&w->x, 1, place, n, w->dtype, &room->y);

    if (counting) {
      reduce->exp_shifted[w->lane == RG_LANE_F64](to, tile_of(w, row, at, n, room), &lse, n);
      back_tile(w, to, at, n, scale, share, room);
      if (label >= at && label < at + n) {
        double own = scale * weight * (1 - s);

        set_lane(w->lane, to, label - at, lane_at(w->lane, to, label - at) - own);
      }
    } else {
      for (int64_t c = 0; c < n; c++) {
        set_lane(w->lane, to, c, 0);
      }
    }
    rg_tile_close(&w->x, 1, place, n, w->dtype, &room->y, to);
  }
}

static bool back_job(void *work, int64_t begin, int64_t end)
{
  loss_work *w = work;
  loss_room room;

  for (int64_t row = begin * w->group; row < rg_min_i64(end * w->group, w->rows); row++) {
    if (rg_interrupt_pending()) {
      return false;
    }
    back_row(w, row, &room);
  }
  return !rg_interrupt_pending();
}

rg_status rg_cpu_cross_entropy_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *labels = call->in[RG_CEB_LABELS];
  const rg_tensor *xs[] = { call->in[RG_CEB_X], out[0] };
  const rg_tensor *rows[] = { labels, call->in[RG_CEB_DY], call->in[RG_CEB_LSE] };
  rg_tensor flat = rg_tensor_struct(call->in[RG_CEB_TOTAL]);
  const rg_tensor *total = &flat;
  rg_walk one;
  rg_tile room;
  loss_work w = { .dy_dtype = call->in[RG_CEB_DY]->_dtype };

  (void)frame;
  begin_work(&w, call, RG_CEB_X, RG_CEB_WEIGHT);
  if (xs[0]->_count == 0) {
    return RG_OK;
  }
  rg_walk_init(&one, &total, 1, flat._shape, flat._ndim);
  w.total = w.o->reduction == RG_LOSS_MEAN ? number_at(&one, 0, 0, flat._dtype, &room) : 1;
  rg_walk_init(&w.x, xs, 2, xs[0]->_shape, xs[0]->_ndim);
  rg_walk_init(&w.labels, rows, 3, labels->_shape, labels->_ndim);
  RG_TRY(rg_parallel(threads_for(&w), items(&w), back_job, &w));
  return check_labels(&w);
}
