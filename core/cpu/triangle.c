/* SPDX-License-Identifier: MIT */
/*
** The part of matrices on one side of a diagonal, on the CPU: a row is copied up to where, or from
** where, it lies there.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "op/triangle.h"

enum { GROUP = 16384 }; /* elements in one item of work, at least */

typedef struct triangle_work {
  rg_walk x;
  rg_walk y;
  int64_t size;
  int64_t rows; /* of a matrix */
  int64_t n;    /* columns */
  int64_t all;  /* rows */
  int64_t group;
  int64_t diagonal;
  bool upper;
} triangle_work;

static bool job(void *work, int64_t begin, int64_t end)
{
  const triangle_work *w = work;
  _Alignas(64) char room[RG_TILE * 8];

  for (int64_t row = begin * w->group; row < rg_min_i64(end * w->group, w->all); row++) {
    int64_t edge = row % w->rows + w->diagonal; /* the column on the diagonal */

    edge = rg_max_i64(0, rg_min_i64(w->upper ? edge : edge + 1, w->n));
    for (int64_t at = 0; at < w->n; at += RG_TILE) {
      int64_t n = rg_min_i64(RG_TILE, w->n - at);
      int64_t split = rg_max_i64(0, rg_min_i64(edge - at, n));
      int64_t first = w->upper ? split : 0;
      int64_t kept = w->upper ? n - split : split;

      if (rg_interrupt_pending()) {
        return false;
      }
      memset(room, 0, (size_t)(n * w->size));
      if (kept > 0) {
        rg_gather(&w->x, 0, row * w->n + at + first, kept, w->size, room + first * w->size);
      }
      rg_scatter(&w->y, 0, row * w->n + at, n, w->size, room);
    }
  }
  return true;
}

static rg_status triangle(const rg_call *call, rg_tensor *const *out, bool upper)
{
  const int64_t most = (int64_t)1 << 40; /* beyond any matrix; the sum with a row still fits */
  const rg_triangle_args *args = call->args;
  const rg_tensor *x = call->in[0];
  const rg_tensor *y = out[0];
  triangle_work w = { .size = rg_dtype_bytes(x->_dtype),
                      .diagonal = rg_max_i64(-most, rg_min_i64(args->diagonal, most)),
                      .upper = upper };

  if (x->_count == 0) {
    return RG_OK;
  }
  w.rows = x->_shape[x->_ndim - 2];
  w.n = x->_shape[x->_ndim - 1];
  w.all = x->_count / w.n;
  w.group = rg_max_i64(1, GROUP / w.n);
  rg_walk_init(&w.x, &x, 1, x->_shape, x->_ndim);
  rg_walk_init(&w.y, &y, 1, y->_shape, y->_ndim);
  return rg_parallel(rg_threads_for((double)x->_count), (w.all + w.group - 1) / w.group, job, &w);
}

rg_status rg_cpu_tril(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  return triangle(call, out, false);
}

rg_status rg_cpu_triu(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  return triangle(call, out, true);
}
