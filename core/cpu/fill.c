/* SPDX-License-Identifier: MIT */
/*
** Filling a tensor with one number or with a progression.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "op/fill.h"

enum { PIECE = 16384 };

/* -- One number -------------------------------------------------------------------- */

typedef struct fill_work {
  rg_walk walk;
  int64_t size;
  bool whole;                      /* side by side */
  _Alignas(64) char pattern[4096]; /* the number, over and over */
} fill_work;

static bool fill_job(void *work, int64_t begin, int64_t end)
{
  const fill_work *w = work;
  int64_t fits = (int64_t)sizeof(w->pattern) / w->size;

  for (int64_t i = begin; i < end; i++) {
    int64_t last = rg_min_i64((i + 1) * PIECE, w->walk.count);

    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t at = i * PIECE; at < last; at += fits) {
      int64_t n = rg_min_i64(fits, last - at);

      if (w->whole) {
        memcpy(w->walk.data[0] + at * w->size, w->pattern, (size_t)(n * w->size));
      } else {
        rg_scatter(&w->walk, 0, at, n, w->size, w->pattern);
      }
    }
  }
  return true;
}

rg_status rg_cpu_fill(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_fill_args *args = call->args;
  rg_tensor *y = out[0];
  const rg_tensor *xs[] = { y };
  fill_work w;

  (void)frame;
  if (y->_count == 0) {
    return RG_OK;
  }
  rg_lane_value one = rg_lane_value_of(y->_dtype, args->value);

  w.size = rg_dtype_bytes(y->_dtype);
  w.whole = rg_is_contiguous(y);
  rg_walk_init(&w.walk, xs, 1, y->_shape, y->_ndim);
  rg_lanes_narrow(y->_dtype, w.pattern, &one, 1);
  int64_t used = rg_min_i64((int64_t)sizeof(w.pattern), w.walk.count * w.size);

  for (int64_t filled = w.size; filled < used; filled *= 2) {
    memcpy(w.pattern + filled, w.pattern, (size_t)rg_min_i64(filled, used - filled));
  }
  return rg_parallel(rg_threads_for((double)y->_count), (w.walk.count + PIECE - 1) / PIECE,
                     fill_job, &w);
}

/* -- A progression -------------------------------------------------------------------- */

typedef struct arange_work {
  rg_walk walk;
  rg_tensor *y;
  rg_loop *convert;
  double start;
  double step;
} arange_work;

static bool arange_job(void *work, int64_t begin, int64_t end)
{
  const arange_work *w = work;
  double value[RG_TILE];
  rg_tile room;

  for (int64_t i = begin; i < end; i++) {
    int64_t last = rg_min_i64((i + 1) * PIECE, w->walk.count);

    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t at = i * PIECE; at < last; at += RG_TILE) {
      int64_t n = rg_min_i64(RG_TILE, last - at);
      void *y = rg_tile_open(&w->walk, 0, at, n, w->y->_dtype, &room);

      for (int64_t j = 0; j < n; j++) {
        value[j] = w->start + (double)(at + j) * w->step;
      }
      w->convert(y, value, NULL, n);
      rg_tile_close(&w->walk, 0, at, n, w->y->_dtype, &room, y);
    }
  }
  return true;
}

rg_status rg_cpu_arange(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_arange_args *args = call->args;
  rg_tensor *y = out[0];
  const rg_tensor *xs[] = { y };
  arange_work w = { .y = y, .start = args->start, .step = args->step };

  (void)frame;
  if (y->_count == 0) {
    return RG_OK;
  }
  w.convert = *rg_lanes_loop(RG_LANE_F64, y->_dtype);
  rg_walk_init(&w.walk, xs, 1, y->_shape, y->_ndim);
  return rg_parallel(rg_threads_for(3.0 * (double)y->_count), (w.walk.count + PIECE - 1) / PIECE,
                     arange_job, &w);
}
