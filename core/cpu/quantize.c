/* SPDX-License-Identifier: MIT */
/*
** Numbers as bytes with scales and zero points on the CPU, and back.
**
** Elements are taken a tile at a time in row-major order, and of each tile the runs that have one
** scale, or scales side by side.
*/
#include "cpu/cpu.h"
#include "cpu/quantize.h"
#include "op/quantize.h"

enum { DIVIDES = 8 }; /* elementary operations that an element costs */

typedef struct work {
  rg_walk walk; /* y, x */
  int32_t y_dtype;
  int32_t x_dtype;
  rg_quantize_spread at;
  const float *scale;
  const float *zero;
  bool one; /* scale for all */
} work;

/* -- Scales side by side ---------------------------------------------------------------------- */

/* The numbers of a tensor as n floats: its own, or its one number again and again. */
static void gather(const rg_tensor *from, int64_t n, float *to)
{
  rg_walk walk;
  rg_tile room;

  rg_walk_init(&walk, (const rg_tensor *const[]){ from }, 1, from->_shape, from->_ndim);
  for (int64_t at = 0; at < from->_count && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t some = rg_min_i64(RG_TILE, from->_count - at);
    const void *lanes = rg_tile_load(&walk, 0, at, some, from->_dtype, &room);

    rg_simd()->cast->loop[rg_lane_of(from->_dtype)][RG_LANE_F32](to + at, lanes, NULL, some);
  }
  for (int64_t i = from->_count; i < n; i++) {
    to[i] = to[0];
  }
}

static void take_scales(work *w, const rg_call *call, float *scratch)
{
  const rg_tensor *scale = call->in[1];
  const rg_tensor *zero = call->n_in > 2 ? call->in[2] : NULL;
  int64_t n = rg_max_i64(scale->_count, zero != NULL ? zero->_count : 1);
  float *zeros = scratch + rg_round_up(n, 16);

  gather(scale, n, scratch);
  if (zero != NULL) {
    gather(zero, n, zeros);
  } else {
    for (int64_t i = 0; i < n; i++) {
      zeros[i] = 0;
    }
  }
  w->scale = scratch;
  w->zero = zeros;
  w->one = n == 1;
}

/* -- Runs --------------------------------------------------------------------------------- */

/* Elements at .. at + n that have one scale, or scales side by side: how many, the first scale's
** number, and the step to the next one's. */
static int64_t run_of(const work *w, int64_t at, int64_t n, int64_t *first, int64_t *step)
{
  const rg_quantize_spread *s = &w->at;
  int64_t i = at % s->inner;
  int64_t j = at / s->inner % s->n;
  int64_t outer = at / s->inner / s->n;

  *first = *step = 0;
  if (w->one) {
    return n;
  }
  if (s->group == 0) {
    *first = j;
    *step = s->inner == 1 ? 1 : 0;
    return rg_min_i64(n, s->inner == 1 ? s->n - j : s->inner - i);
  }
  *first = (outer * s->blocks + j / s->group) * s->inner + i;
  *step = s->inner == 1 ? 0 : 1;
  return rg_min_i64(n,
                    s->inner == 1 ? rg_min_i64(s->n - j, s->group - j % s->group) : s->inner - i);
}

static const float *floats_of(const work *w, int64_t at, int64_t n, rg_tile *room, float *cut)
{
  const void *x = rg_tile_load(&w->walk, 1, at, n, w->x_dtype, room);

  if (w->x_dtype != RG_F64) {
    return x;
  }
  rg_simd()->cast->loop[RG_LANE_F64][RG_LANE_F32](cut, x, NULL, n);
  return cut;
}

static bool to_bytes(void *context, int64_t begin, int64_t end)
{
  const work *w = context;
  int32_t lane = rg_lane_of(w->y_dtype);
  float least = lane == RG_LANE_I8 ? -128.0f : 0.0f;
  rg_tile room_x, room_y;
  float cut[RG_TILE];

  for (int64_t t = begin; t < end; t++) {
    int64_t at = t * RG_TILE;
    int64_t n = rg_min_i64(RG_TILE, w->walk.count - at);
    const float *x = floats_of(w, at, n, &room_x, cut);
    char *y = rg_tile_open(&w->walk, 0, at, n, w->y_dtype, &room_y);
    int64_t first, step;

    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t l = 0, run; l < n; l += run) {
      run = run_of(w, at + l, n - l, &first, &step);
      rg_simd()->quantize->to[lane](y + l, x + l, w->scale + first, w->zero + first, step, least,
                                    run);
    }
    rg_tile_close(&w->walk, 0, at, n, w->y_dtype, &room_y, y);
  }
  return true;
}

static bool from_bytes(void *context, int64_t begin, int64_t end)
{
  const work *w = context;
  int32_t lane = rg_lane_of(w->x_dtype);
  int64_t size = rg_dtype_bytes(w->x_dtype);
  rg_tile room_x, room_y;

  for (int64_t t = begin; t < end; t++) {
    int64_t at = t * RG_TILE;
    int64_t n = rg_min_i64(RG_TILE, w->walk.count - at);
    const char *q = rg_tile_load(&w->walk, 1, at, n, w->x_dtype, &room_x);
    float *y = rg_tile_open(&w->walk, 0, at, n, w->y_dtype, &room_y);
    int64_t first, step;

    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t l = 0, run; l < n; l += run) {
      run = run_of(w, at + l, n - l, &first, &step);
      rg_simd()->quantize->from[lane](y + l, q + l * size, w->scale + first, w->zero + first, step,
                                      run);
    }
    rg_tile_close(&w->walk, 0, at, n, w->y_dtype, &room_y, y);
  }
  return true;
}

/* -- The kernels ------------------------------------------------------------------------------ */

static rg_status run(const rg_call *call, rg_tensor *y, rg_frame *frame, int32_t axis,
                     int64_t group, rg_job *job)
{
  const rg_tensor *x = call->in[0];
  work w = { .y_dtype = y->_dtype, .x_dtype = x->_dtype };
  int64_t tiles = (x->_count + RG_TILE - 1) / RG_TILE;

  if (x->_count == 0) {
    return RG_OK;
  }
  rg_walk_init(&w.walk, (const rg_tensor *const[]){ y, x }, 2, x->_shape, x->_ndim);
  w.at = rg_quantize_spread_of(x, axis, group);
  take_scales(&w, call, frame->scratch);
  return rg_parallel(rg_threads_for(DIVIDES * (double)x->_count), tiles, job, &w);
}

rg_status rg_cpu_quantize(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_quantize_args *args = call->args;

  return run(call, out[0], frame, args->axis, args->group, to_bytes);
}

rg_status rg_cpu_dequantize(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_dequantize_args *args = call->args;

  return run(call, out[0], frame, args->axis, args->group, from_bytes);
}

/* -- Rows --------------------------------------------------------------------------------- */

typedef struct rows_work {
  work w;
  int64_t n; /* elements of a row */
  rg_walk scales;
} rows_work;

/* A row whose scale is nan or infinite has no byte that means something: all are 0, and the scale
** makes nan of what they stand for. */
static float quantize_row(const work *w, int64_t first, int64_t n)
{
  const rg_simd_quantize *loops = rg_simd()->quantize;
  const float least = -127.0f;
  const float zero = 0;
  rg_tile room_x, room_y;
  float cut[RG_TILE];
  float most = 0;

  for (int64_t at = first; at < first + n && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t some = rg_min_i64(RG_TILE, first + n - at);
    float here = loops->largest(floats_of(w, at, some, &room_x, cut), some);

    most = most > here || most != most ? most : here;
  }
  float scale = most / 127.0f;

  for (int64_t at = first; at < first + n && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t some = rg_min_i64(RG_TILE, first + n - at);
    const float *x = floats_of(w, at, some, &room_x, cut);
    void *y = rg_tile_open(&w->walk, 0, at, some, RG_I8, &room_y);

    loops->to[RG_LANE_I8](y, x, &scale, &zero, 0, least, some);
    rg_tile_close(&w->walk, 0, at, some, RG_I8, &room_y, y);
  }
  return scale;
}

static bool some_rows(void *context, int64_t begin, int64_t end)
{
  const rows_work *r = context;

  for (int64_t i = begin; i < end; i++) {
    if (rg_interrupt_pending()) {
      return false;
    }
    float scale = quantize_row(&r->w, i * r->n, r->n);

    rg_scatter(&r->scales, 0, i, 1, sizeof(scale), &scale);
  }
  return !rg_interrupt_pending(); /* the last row may have ended early */
}

static rg_status quantize_rows(const rg_tensor *x, const rg_tensor *q, const rg_tensor *scale)
{
  rows_work r = { .w = { .x_dtype = x->_dtype }, .n = x->_shape[x->_ndim - 1] };

  if (scale->_count == 0) {
    return RG_OK;
  }
  rg_walk_init(&r.scales, (const rg_tensor *const[]){ scale }, 1, scale->_shape, scale->_ndim);
  rg_walk_init(&r.w.walk, (const rg_tensor *const[]){ q, x }, 2, x->_shape, x->_ndim);
  return rg_parallel(rg_threads_for(DIVIDES * (double)x->_count), scale->_count, some_rows, &r);
}

/* x's shape without gaps somewhere else, with another last size. */
static rg_tensor lies_at(const rg_tensor *x, void *data, int32_t dtype, int64_t last)
{
  rg_tensor t = rg_tensor_struct(x);
  int64_t stride = 1;

  t._data = data;
  t._dtype = dtype;
  t._flags = RG_TENSOR_CONTIGUOUS;
  t._shape[t._ndim - 1] = last;
  for (int32_t d = t._ndim - 1; d >= 0; d--) {
    t._stride[d] = stride;
    stride *= t._shape[d];
  }
  t._count = stride;
  return t;
}

rg_status rg_rows_to_bytes(const rg_tensor *x, int8_t *q, float *scale)
{
  rg_tensor to = lies_at(x, q, RG_I8, x->_shape[x->_ndim - 1]);
  rg_tensor scales = lies_at(x, scale, RG_F32, 1);

  return quantize_rows(x, &to, &scales);
}

rg_status rg_cpu_quantize_rows(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  return quantize_rows(call->in[0], out[0], out[1]);
}
