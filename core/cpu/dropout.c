/* SPDX-License-Identifier: MIT */
/*
** Dropout on the CPU: element i is kept if number offset + i is at least p 2^32, and then scaled by
** 1 / (1 - p).
*/
#include "cpu/cpu.h"
#include "op/dropout.h"

enum { PIECE = 8192 };

typedef struct dropout_work {
  rg_walk walk; /* 0: y, 1: x */
  const rg_call *call;
  int32_t dtype;
  uint32_t threshold;
} dropout_work;

#define KEEP(T)                                   \
  T scale = (T)(1.0 / (1.0 - args->p));           \
  T *to = y;                                      \
  const T *from = x;                              \
                                                  \
  for (int64_t i = 0; i < n; i++) {               \
    T v = from[i] * scale;                        \
    to[i] = number[i] >= w->threshold ? v : (T)0; \
  }

static void keep(const dropout_work *w, void *y, const void *x, const uint32_t *number, int64_t n)
{
  const rg_dropout_args *args = w->call->args;

  if (w->dtype == RG_F64) {
    KEEP(double)
  } else {
    KEEP(float)
  }
}

static bool dropout_job(void *work, int64_t begin, int64_t end)
{
  const dropout_work *w = work;
  const rg_draw *draw = &w->call->draw;
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

      rg_simd()->random->numbers(draw->seed, draw->offset + (uint64_t)at, number, n);
      keep(w, y, x, number, n);
      rg_tile_close(&w->walk, 0, at, n, w->dtype, &room[0], y);
    }
  }
  return true;
}

rg_status rg_cpu_dropout(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_dropout_args *args = call->args;
  rg_tensor *y = out[0];
  const rg_tensor *xs[] = { y, call->in[0] };
  dropout_work w = { .call = call, .dtype = y->_dtype };

  (void)frame;
  if (y->_count == 0) {
    return RG_OK;
  }
  if (args->p == 0) {
    return rg_cpu_convert(y, call->in[0]);
  }
  w.threshold = (uint32_t)(args->p * 0x1p32);
  rg_walk_init(&w.walk, xs, 2, y->_shape, y->_ndim);
  return rg_parallel(rg_threads_for(12.0 * (double)y->_count), (w.walk.count + PIECE - 1) / PIECE,
                     dropout_job, &w);
}
