/* SPDX-License-Identifier: MIT */
/*
** Sums of bytes with scales on the CPU, a tile at a time: in f32, and bytes again.
*/
#include "cpu/cpu.h"
#include "cpu/gemm_i8.h"
#include "op/scaled_add.h"

typedef struct work {
  rg_walk walk; /* y, a, b */
  int32_t dtype[3];
  const float *scale[3]; /* b's is NULL where there is none */
  float zero[3];
  int32_t act;
} work;

/* Tensor t's elements at .. at + n in f32. */
static void widen(const work *w, int32_t t, int64_t at, int64_t n, float *to)
{
  rg_tile room;
  const void *q = rg_tile_load(&w->walk, t, at, n, w->dtype[t], &room);

  rg_simd()->quantize->from[rg_lane_of(w->dtype[t])](to, q, w->scale[t], &w->zero[t], 0, n);
}

static bool some_tiles(void *context, int64_t begin, int64_t end)
{
  const work *w = context;
  rg_loop *add = rg_simd()->binary->loop[0][RG_LANE_F32][RG_FORM_RUN_RUN];
  bool is_bytes = w->dtype[0] == RG_I8 || w->dtype[0] == RG_U8;
  const rg_i8_end *bytes = rg_i8_end_now();
  _Alignas(64) float a[RG_TILE], b[RG_TILE];
  rg_tile room;

  for (int64_t t = begin; t < end; t++) {
    int64_t at = t * RG_TILE;
    int64_t n = rg_min_i64(RG_TILE, w->walk.count - at);
    void *y = rg_tile_open(&w->walk, 0, at, n, w->dtype[0], &room);
    float *sum = is_bytes ? a : y;

    if (rg_interrupt_pending()) {
      return false;
    }
    widen(w, 1, at, n, sum);
    if (w->scale[2] != NULL) {
      widen(w, 2, at, n, b);
      add(sum, sum, b, n);
    }
    rg_activate(w->act, RG_LANE_F32, sum, n);
    if (w->dtype[0] == RG_I8) {
      bytes->to_i8(y, a, n, *w->scale[0], w->zero[0]);
    } else if (is_bytes) {
      bytes->to_u8(y, a, n, *w->scale[0], w->zero[0]);
    }
    rg_tile_close(&w->walk, 0, at, n, w->dtype[0], &room, y);
  }
  return true;
}

rg_status rg_cpu_scaled_add(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_scaled_add_args *args = call->args;
  const rg_tensor *a = call->in[0];
  const rg_tensor *b = call->in[2];
  const rg_tensor *y_scale = call->n_in > 4 ? call->in[4] : NULL;
  work w = { .dtype = { out[0]->_dtype, a->_dtype, b != NULL ? b->_dtype : RG_I8 },
             .scale = { y_scale != NULL ? y_scale->_data : NULL, call->in[1]->_data,
                        b != NULL ? call->in[3]->_data : NULL },
             .zero = { (float)args->y_zero, (float)args->a_zero, (float)args->b_zero },
             .act = args->act };

  (void)frame;
  if (a->_count == 0) {
    return RG_OK;
  }
  rg_walk_init(&w.walk, (const rg_tensor *const[]){ out[0], a, b != NULL ? b : a }, 3, a->_shape,
               a->_ndim);
  return rg_parallel(rg_threads_for(10.0 * (double)a->_count), (a->_count + RG_TILE - 1) / RG_TILE,
                     some_tiles, &w);
}
