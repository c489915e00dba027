/* SPDX-License-Identifier: MIT */
/*
** The norm of many tensors together: squares are added up in f64 by pieces, and the pieces in their
** order, so that the number of threads does not show.  Where that overflows though every element is
** finite (f64 beyond 1e154), elements are divided by the largest first, as LAPACK's dnrm2 does.
*/
#include <math.h>

#include "cpu/cpu.h"
#include "op/total.h"

typedef struct total_work {
  const rg_call *call;
  double *sum; /* of each piece */
  double most; /* what elements are divided by; 0: nothing, and they are squared as they are */
  bool finds;  /* the largest element of each piece, not its sum */
} total_work;

static double piece_sum(const rg_walk *walk, int32_t dtype, int64_t at, int64_t end, rg_tile *room)
{
  rg_square_sum *f = rg_simd()->step->square_sum[rg_lane_of(dtype) == RG_LANE_F64];
  double sum = 0;

  for (; at < end; at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, end - at);

    sum += f(rg_tile_load(walk, 0, at, n, dtype, room), n);
  }
  return sum;
}

static double lane_at(const void *lanes, int32_t dtype, int64_t i)
{
  return dtype == RG_F64 ? ((const double *)lanes)[i] : (double)((const float *)lanes)[i];
}

/* The largest magnitude; infinite where something is not finite. */
static double piece_most(const rg_walk *walk, int32_t dtype, int64_t at, int64_t end, rg_tile *room)
{
  double most = 0;

  for (; at < end; at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, end - at);
    const void *lanes = rg_tile_load(walk, 0, at, n, dtype, room);

    for (int64_t i = 0; i < n; i++) {
      double v = fabs(lane_at(lanes, dtype, i));

      most = v > most ? v : v != v ? INFINITY : most;
    }
  }
  return most;
}

static double piece_scaled(const rg_walk *walk, int32_t dtype, int64_t at, int64_t end, double most,
                           rg_tile *room)
{
  double sum = 0;

  for (; at < end; at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, end - at);
    const void *lanes = rg_tile_load(walk, 0, at, n, dtype, room);

    for (int64_t i = 0; i < n; i++) {
      double v = lane_at(lanes, dtype, i) / most;

      sum += v * v;
    }
  }
  return sum;
}

static double piece_of(const total_work *w, const rg_walk *walk, int32_t dtype, int64_t at,
                       int64_t end, rg_tile *room)
{
  if (w->finds) {
    return piece_most(walk, dtype, at, end, room);
  }
  return w->most > 0 ? piece_scaled(walk, dtype, at, end, w->most, room)
                     : piece_sum(walk, dtype, at, end, room);
}

static bool total_job(void *work, int64_t begin, int64_t end)
{
  const total_work *w = work;
  int64_t first = 0; /* piece of the tensor at hand */
  rg_tile room;

  for (int32_t i = 0; i < w->call->n_in && first < end; i++) {
    const rg_tensor *x = w->call->in[i];
    int64_t pieces = rg_total_pieces(x);
    rg_walk walk;

    if (first + pieces > begin && pieces > 0) {
      rg_walk_init(&walk, &x, 1, x->_shape, x->_ndim);
      for (int64_t k = rg_max_i64(begin - first, 0); k < rg_min_i64(pieces, end - first); k++) {
        int64_t at = k * RG_TOTAL_PIECE;

        if (rg_interrupt_pending()) {
          return false;
        }
        w->sum[first + k] =
            piece_of(w, &walk, x->_dtype, at, rg_min_i64(at + RG_TOTAL_PIECE, x->_count), &room);
      }
    }
    first += pieces;
  }
  return true;
}

static rg_status pass(total_work *w, int64_t pieces)
{
  return rg_parallel(rg_threads_for((double)pieces * RG_TOTAL_PIECE), pieces, total_job, w);
}

static double sum_of(const total_work *w, int64_t pieces)
{
  double sum = 0;

  for (int64_t i = 0; i < pieces; i++) {
    sum += w->sum[i];
  }
  return sum;
}

rg_status rg_cpu_total_norm(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  total_work w = { .call = call, .sum = frame->scratch };
  int64_t pieces = call->scratch_bytes / (int64_t)sizeof(double);
  double sum = 0;
  double most = 0;

  RG_TRY(pass(&w, pieces));
  sum = sum_of(&w, pieces);
  *(double *)out[0]->_data = sqrt(sum);
  if (!isinf(sum)) {
    return RG_OK;
  }
  w.finds = true;
  RG_TRY(pass(&w, pieces));
  for (int64_t i = 0; i < pieces; i++) {
    most = fmax(most, w.sum[i]);
  }
  if (!isfinite(most)) {
    return RG_OK;
  }
  w.finds = false;
  w.most = most;
  RG_TRY(pass(&w, pieces));
  *(double *)out[0]->_data = most * sqrt(sum_of(&w, pieces));
  return RG_OK;
}
