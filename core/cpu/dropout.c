/* SPDX-License-Identifier: MIT */
/*
** Dropout on the CPU: element i is kept if number offset + i says so (op/draw.h), and then scaled
** by 1 / (1 - p).
*/
#include "cpu/cpu.h"
#include "op/draw.h"
#include "op/dropout.h"

enum { PIECE = 8192 };

typedef struct dropout_work {
  rg_walk walk; /* 0: y, 1: x */
  double p;
  rg_draw draw;
  int32_t dtype;
} dropout_work;

#define KEEP(T)                                     \
  const double p = w->p;                            \
  T scale = (T)(1.0 / (1.0 - p));                   \
  T *to = y;                                        \
  const T *from = x;                                \
                                                    \
  for (int64_t i = 0; i < n; i++) {                 \
    T v = from[i] * scale;                          \
    to[i] = rg_draw_keeps(number[i], p) ? v : (T)0; \
  }

static void keep(const dropout_work *w, void *y, const void *x, const uint32_t *number, int64_t n)
{
  if (w->dtype == RG_F64) {
    KEEP(double)
  } else {
    KEEP(float)
  }
}

static bool dropout_job(void *work, int64_t begin, int64_t end)
{
  const dropout_work *w = work;
  uint32_t number[RG_TILE];
  rg_tile room[2];

  for (int64_t i = begin; i < end; i++) {
    int64_t last = rg_min_i64((i + 1) * PIECE, w->walk.count);

    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t at = i * PIECE; at < last; at += RG_TILE) {
      int64_t n = rg_min_i64(RG_TILE, last - at);
      void *y = rg_tile_open(&w->walk, 0, at, n, w->dtype, &room[0]);
      const void *x = rg_tile_load(&w->walk, 1, at, n, w->dtype, &room[1]);

      rg_simd()->random->numbers(w->draw.seed, w->draw.offset + (uint64_t)at, number, n);
      keep(w, y, x, number, n);
      rg_tile_close(&w->walk, 0, at, n, w->dtype, &room[0], y);
    }
  }
  return true;
}

static rg_status apply(rg_tensor *y, const rg_tensor *x, double p, rg_draw draw)
{
  const rg_tensor *xs[] = { y, x };
  dropout_work w = { .p = p, .draw = draw, .dtype = y->_dtype };

  if (y->_count == 0) {
    return RG_OK;
  }
  if (p == 0) {
    return rg_cpu_convert(y, x);
  }
  rg_walk_init(&w.walk, xs, 2, y->_shape, y->_ndim);
  return rg_parallel(rg_threads_for(12.0 * (double)y->_count), (w.walk.count + PIECE - 1) / PIECE,
                     dropout_job, &w);
}

void rg_cpu_keep_draw(const rg_call *call, int32_t i, rg_tensor *const *out)
{
  if (call->n_out > i) {
    uint64_t *kept = out[i]->_data;

    kept[0] = call->draw.seed;
    kept[1] = call->draw.offset;
  }
}

rg_status rg_cpu_dropout(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_dropout_args *args = call->args;

  (void)frame;
  rg_cpu_keep_draw(call, 1, out);
  return apply(out[0], call->in[0], args->p, call->draw);
}

rg_status rg_cpu_dropout_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_dropout_args *args = call->args;
  const uint64_t *kept = call->in[1]->_data;

  (void)frame;
  return apply(out[0], call->in[0], args->p, (rg_draw){ .seed = kept[0], .offset = kept[1] });
}
