/* SPDX-License-Identifier: MIT */
/*
** The gradient of softmax on the CPU, y (dy - sum(dy y)): a row at a time, in tiles.
*/
#include "cpu/cpu.h"
#include "op/softmax.h"

enum { ELEMENTS = 8192 }; /* in one item of work */

typedef struct back_work {
  rg_walk walk;     /* dx, dy, y, with the axis as the last one */
  int32_t dtype[3]; /* of each */
  int32_t wide;     /* 1: f64 */
  int64_t n;        /* elements of a row */
  int64_t rows;
  int64_t group; /* rows in one item */
} back_work;

/* x with an axis moved behind all others. */
static rg_tensor axis_last(const rg_tensor *x, int32_t axis)
{
  rg_tensor y = rg_tensor_struct(x);

  for (int32_t i = axis; i + 1 < x->_ndim; i++) {
    y._shape[i] = x->_shape[i + 1];
    y._stride[i] = x->_stride[i + 1];
  }
  y._shape[x->_ndim - 1] = x->_shape[axis];
  y._stride[x->_ndim - 1] = x->_stride[axis];
  return y;
}

typedef struct back_room {
  rg_tile dx;
  rg_tile dy;
  rg_tile y;
} back_room;

static void back_row(const back_work *w, int64_t row, back_room *room)
{
  const rg_simd_norm *loops = rg_simd()->norm;
  double sum = 0;

  for (int64_t at = 0; at < w->n && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, w->n - at);
    int64_t place = row * w->n + at;

    sum += loops->dot[w->wide](rg_tile_load(&w->walk, 1, place, n, w->dtype[1], &room->dy),
                               rg_tile_load(&w->walk, 2, place, n, w->dtype[2], &room->y), n);
  }
  for (int64_t at = 0; at < w->n && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, w->n - at);
    int64_t place = row * w->n + at;
    void *to = rg_tile_open(&w->walk, 0, place, n, w->dtype[0], &room->dx);

    loops->softmax_back[w->wide](to, rg_tile_load(&w->walk, 1, place, n, w->dtype[1], &room->dy),
                                 rg_tile_load(&w->walk, 2, place, n, w->dtype[2], &room->y), sum,
                                 n);
    rg_tile_close(&w->walk, 0, place, n, w->dtype[0], &room->dx, to);
  }
}

static bool back_job(void *work, int64_t begin, int64_t end)
{
  const back_work *w = work;
  back_room room;

  for (int64_t row = begin * w->group; row < rg_min_i64(end * w->group, w->rows); row++) {
    if (rg_interrupt_pending()) {
      return false;
    }
    back_row(w, row, &room);
  }
  return !rg_interrupt_pending();
}

rg_status rg_cpu_softmax_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_softmax_args *args = call->args;
  const rg_tensor *three[] = { out[0], call->in[0], call->in[1] };
  rg_tensor moved[3];
  const rg_tensor *xs[3];
  back_work w = { .wide = rg_lane_of(out[0]->_dtype) == RG_LANE_F64 };

  (void)frame;
  if (out[0]->_count == 0) {
    return RG_OK;
  }
  for (int i = 0; i < 3; i++) {
    moved[i] = axis_last(three[i], args->axis);
    xs[i] = &moved[i];
    w.dtype[i] = three[i]->_dtype;
  }
  w.n = out[0]->_shape[args->axis];
  w.rows = out[0]->_count / w.n;
  w.group = ELEMENTS / w.n + 1;
  rg_walk_init(&w.walk, xs, 3, moved[0]._shape, moved[0]._ndim);
  return rg_parallel(rg_threads_for(4.0 * (double)out[0]->_count), (w.rows + w.group - 1) / w.group,
                     back_job, &w);
}
