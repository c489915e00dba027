/* SPDX-License-Identifier: MIT */
/*
** Position of the first largest or smallest element along an axis.  A tile is folded to its extreme
** first, which vectorises; only a tile that improves on the best so far is searched.
*/
#include "cpu/fold.h"
#include "op/argmax.h"

enum { OUTPUTS = 64 };

typedef struct search {
  rg_fold_axes axes;
  rg_tensor *y;
  rg_walk out;
  int32_t dtype;
  bool least;
} search;

/* The best element so far. */
typedef struct best {
  rg_lane_value value;
  int64_t at; /* -1: none yet */
  bool final; /* it is nan, which wins over all behind it */
} best;

/* v ~= v finds nan. */
#define LOOK(NAME, lane, T)                                                                        \
  static void look_##lane(const search *s, const T *x, int64_t at, int64_t n, best *so_far)        \
  {                                                                                                \
    rg_fold *fold = rg_simd()->reduce->fold[s->least ? RG_FOLD_MIN : RG_FOLD_MAX][RG_LANE_##NAME]; \
    T other = so_far->value.lane;                                                                  \
    T v;                                                                                           \
                                                                                                   \
    fold(&v, x, n);                                                                                \
    so_far->final = v != v;                                                                        \
    if (so_far->at < 0 || so_far->final || (s->least ? v < other : v > other)) {                   \
      int64_t i = 0;                                                                               \
                                                                                                   \
      while (so_far->final ? x[i] == x[i] : x[i] != v) {                                           \
        i++;                                                                                       \
      }                                                                                            \
      so_far->value.lane = v;                                                                      \
      so_far->at = at + i;                                                                         \
    }                                                                                              \
  }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtautological-compare" /* integers are never nan */
RG_LANE_LIST(LOOK)
#pragma GCC diagnostic pop

static int64_t position(const search *s, const rg_walk *walk, rg_tile *room)
{
  best so_far = { .at = -1 };

  for (int64_t at = 0; at < s->axes.n_fold && !so_far.final && !rg_interrupt_pending();
       at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, s->axes.n_fold - at);
    const void *x = rg_tile_load(walk, 0, at, n, s->dtype, room);

    switch (rg_lane_of(s->dtype)) {
#define CASE(NAME, lane, T)            \
  case RG_LANE_##NAME:                 \
    look_##lane(s, x, at, n, &so_far); \
    break;
      RG_LANE_LIST(CASE)
    }
  }
  return so_far.at;
}

static bool search_job(void *work, int64_t begin, int64_t end)
{
  const search *s = work;
  rg_walk walk = s->axes.fold;
  rg_tile room;
  rg_tile result;
  int64_t *positions = (int64_t *)(void *)result.lanes;

  for (int64_t i = begin; i < end; i++) {
    int64_t first = i * OUTPUTS;
    int64_t n = rg_min_i64(OUTPUTS, s->axes.n_keep - first);

    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t o = 0; o < n; o++) {
      walk.data[0] = s->axes.keep.data[0] + rg_walk_offset(&s->axes.keep, 0, first + o);
      positions[o] = position(s, &walk, &room);
    }
    if (rg_interrupt_pending()) { /* a search may have stopped */
      return false;
    }
    rg_tile_close(&s->out, 0, first, n, RG_I64, &result, result.lanes);
  }
  return true;
}

static rg_status find(const rg_call *call, rg_tensor *y, bool least)
{
  const rg_argmax_args *args = call->args;
  const rg_tensor *x = call->in[0];
  const rg_tensor *ys[] = { y };
  search s = { .y = y, .dtype = x->_dtype, .least = least };

  if (y->_count == 0) {
    return RG_OK;
  }
  rg_fold_axes_init(&s.axes, x, 1u << args->axis);
  rg_walk_init(&s.out, ys, 1, y->_shape, y->_ndim);
  return rg_parallel(rg_threads_for(2.0 * (double)x->_count),
                     (s.axes.n_keep + OUTPUTS - 1) / OUTPUTS, search_job, &s);
}

rg_status rg_cpu_argmax(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  return find(call, out[0], false);
}

rg_status rg_cpu_argmin(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  return find(call, out[0], true);
}
