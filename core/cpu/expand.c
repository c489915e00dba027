/* SPDX-License-Identifier: MIT */
/*
** Signs kept as bits become numbers.
*/
#include "cpu/cpu.h"
#include "op/signs.h"

rg_kernel rg_cpu_expand_signs;

typedef struct expand_work {
  rg_walk walk;
  const rg_tensor *bits;
  int64_t cols;
  double sign;
  int32_t dtype;
} expand_work;

static bool is_up(const expand_work *w, int64_t at)
{
  const rg_tensor *bits = w->bits;
  int64_t col = at % w->cols;
  const uint8_t *row = (const uint8_t *)bits->_data + at / w->cols * bits->_stride[0];

  return (row[(col >> 3) * bits->_stride[1]] >> (col & 7) & 1) != 0;
}

static bool expand_tiles(void *work, int64_t begin, int64_t end)
{
  const expand_work *w = work;
  rg_tile room;

  for (int64_t i = begin; i < end; i++) {
    int64_t at = i * RG_TILE;
    int64_t n = rg_min_i64(RG_TILE, w->walk.count - at);
    void *to = rg_tile_open(&w->walk, 0, at, n, w->dtype, &room);

    for (int64_t k = 0; k < n; k++) {
      double x = is_up(w, at + k) ? w->sign : -w->sign;

      if (w->dtype == RG_F64) {
        ((double *)to)[k] = x;
      } else {
        ((float *)to)[k] = (float)x;
      }
    }
    rg_tile_close(&w->walk, 0, at, n, w->dtype, &room, to);
  }
  return true;
}

rg_status rg_cpu_expand_signs(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_expand_args *args = call->args;
  const rg_tensor *xs[] = { out[0] };
  expand_work w = {
    .bits = call->in[0], .cols = args->cols, .sign = args->sign, .dtype = args->dtype
  };

  (void)frame;
  if (out[0]->_count == 0) {
    return RG_OK;
  }
  rg_walk_init(&w.walk, xs, 1, out[0]->_shape, out[0]->_ndim);
  return rg_parallel(rg_threads_for(2.0 * (double)out[0]->_count),
                     (out[0]->_count + RG_TILE - 1) / RG_TILE, expand_tiles, &w);
}
