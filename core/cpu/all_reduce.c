/* SPDX-License-Identifier: MIT */
/*
** All-reduce: tile by tile, so that every tensor crosses memory once to be read and once to be
** written.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "op/op.h"
#include "ridge/collective.h"

enum { PIECE = 16384 }; /* elements in one item of work */

typedef struct all_reduce_work {
  const rg_call *call;
  rg_walk walk[RG_MAX_REPLICAS];
  int32_t dtype;
  int64_t count;
  bool wide;   /* f64 */
  double over; /* what the sum is divided by */
} all_reduce_work;

#define SUM_OF(T, name)                                             \
  static void name(T *restrict sum, const T *restrict x, int64_t n) \
  {                                                                 \
    for (int64_t i = 0; i < n; i++) {                               \
      sum[i] += x[i];                                               \
    }                                                               \
  }                                                                 \
  static void name##_over(T *sum, T over, int64_t n)                \
  {                                                                 \
    for (int64_t i = 0; i < n; i++) {                               \
      sum[i] /= over;                                               \
    }                                                               \
  }
SUM_OF(float, add_f32)
SUM_OF(double, add_f64)
#undef SUM_OF

static void reduce_tile(const all_reduce_work *w, int64_t at, int64_t n)
{
  const size_t bytes = (size_t)n * (w->wide ? sizeof(double) : sizeof(float));
  rg_tile sum;
  rg_tile room;

  memcpy(sum.lanes, rg_tile_load(&w->walk[0], 0, at, n, w->dtype, &room), bytes);
  for (int32_t i = 1; i < w->call->n_in; i++) {
    const void *x = rg_tile_load(&w->walk[i], 0, at, n, w->dtype, &room);

    if (w->wide) {
      add_f64((double *)sum.lanes, x, n);
    } else {
      add_f32((float *)sum.lanes, x, n);
    }
  }
  if (w->over > 1 && w->wide) {
    add_f64_over((double *)sum.lanes, w->over, n);
  } else if (w->over > 1) {
    add_f32_over((float *)sum.lanes, (float)w->over, n);
  }
  for (int32_t i = 0; i < w->call->n_in; i++) {
    void *to = rg_tile_open(&w->walk[i], 0, at, n, w->dtype, &room);

    memcpy(to, sum.lanes, bytes);
    rg_tile_close(&w->walk[i], 0, at, n, w->dtype, &room, to);
  }
}

static bool reduce_job(void *work, int64_t begin, int64_t end)
{
  const all_reduce_work *w = work;
  const int64_t last = rg_min_i64(end * PIECE, w->count);

  for (int64_t at = begin * PIECE; at < last; at += RG_TILE) {
    reduce_tile(w, at, rg_min_i64(RG_TILE, last - at));
  }
  return true; /* replicas half reduced would be worse than a call that ends late */
}

rg_status rg_cpu_all_reduce(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_all_reduce_options *options = call->args;
  const rg_tensor *first = call->in[0];
  all_reduce_work w = { .call = call,
                        .dtype = first->_dtype,
                        .count = first->_count,
                        .wide = rg_lane_of(first->_dtype) == RG_LANE_F64,
                        .over = options->mean != 0 ? call->n_in : 1 };

  (void)out;
  (void)frame;
  for (int32_t i = 0; i < call->n_in; i++) {
    rg_walk_init(&w.walk[i], &call->in[i], 1, first->_shape, first->_ndim);
  }
  return rg_parallel(rg_threads_for((double)call->n_in * (double)w.count),
                     (w.count + PIECE - 1) / PIECE, reduce_job, &w);
}
