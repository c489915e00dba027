/* SPDX-License-Identifier: MIT */
/*
** Random fills on the CPU.  Element i, in row-major order and whatever the strides, uses the
** numbers core/cpu/simd/random.c names, counted from the call's offset; so the result does not
** depend on threads, instruction set or layout.
*/
#include <math.h>

#include "cpu/cpu.h"
#include "op/draw.h"
#include "op/random.h"
#include "tensor/half.h"

enum { PIECE = 8192 };

typedef struct random_work {
  rg_walk walk;
  const rg_call *call;
  rg_tensor *y;
  /* n elements from element at on, n <= RG_TILE, as lanes of y */
  void (*draw)(const struct random_work *w, int64_t at, int64_t n, void *lanes);
  rg_lane_value below; /* uniform: the largest value of y's type below hi */
} random_work;

static bool random_job(void *work, int64_t begin, int64_t end)
{
  const random_work *w = work;
  int32_t dtype = w->y->_dtype;
  rg_tile room;

  for (int64_t i = begin; i < end; i++) {
    int64_t last = rg_min_i64((i + 1) * PIECE, w->walk.count);

    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t at = i * PIECE; at < last; at += RG_TILE) {
      int64_t n = rg_min_i64(RG_TILE, last - at);
      void *place = rg_tile_open(&w->walk, 0, at, n, dtype, &room);

      w->draw(w, at, n, place);
      rg_tile_close(&w->walk, 0, at, n, dtype, &room, place);
    }
  }
  return true;
}

static rg_status run(random_work *w, double weight)
{
  const rg_tensor *xs[] = { w->y };

  if (w->y->_count == 0) {
    return RG_OK;
  }
  rg_walk_init(&w->walk, xs, 1, w->y->_shape, w->y->_ndim);
  return rg_parallel(rg_threads_for(weight * (double)w->y->_count),
                     (w->walk.count + PIECE - 1) / PIECE, random_job, w);
}

/* Numbers for n elements from element at on, each using so many. */
static void numbers(const random_work *w, int64_t at, int64_t n, int64_t each, uint32_t *to)
{
  const rg_draw *draw = &w->call->draw;

  rg_simd()->random->numbers(draw->seed, draw->offset + (uint64_t)(at * each), to, n * each);
}

/* -- Uniform ------------------------------------------------------------------------- */

static void draw_uniform(const random_work *w, int64_t at, int64_t n, void *lanes)
{
  const rg_uniform_args *args = w->call->args;
  uint32_t x[2 * RG_TILE];

  if (w->y->_dtype == RG_F64) {
    double *y = lanes;
    double below = w->below.f64;

    numbers(w, at, n, 2, x);
    rg_simd()->random->uniform_f64(y, x, n);
    for (int64_t i = 0; i < n; i++) {
      double v = args->lo + (args->hi - args->lo) * y[i];
      y[i] = v > below ? below : v;
    }
  } else {
    float *y = lanes;
    float lo = (float)args->lo;
    float width = (float)(args->hi - args->lo);
    float below = w->below.f32;

    numbers(w, at, n, 1, x);
    rg_simd()->random->uniform_f32(y, x, n);
    for (int64_t i = 0; i < n; i++) {
      float v = lo + width * y[i];
      y[i] = v > below ? below : v;
    }
  }
}

/* The largest value of a half type below v; near: its nearest one. */
static float half_below(int32_t dtype, float near, double v)
{
  const rg_dtype *type = &rg_dtypes[dtype];
  uint16_t bits;
  float x;

  type->set_f32(&bits, &near, 1);
  x = type->get_f32(&bits);
  if ((double)x >= v) {
    /* the numbers of one sign are ordered as their bits are */
    bits = (uint16_t)(x > 0 ? bits - 1 : x < 0 ? bits + 1 : 0x8001);
    x = type->get_f32(&bits);
  }
  return x;
}

/* Rounding must not reach hi: what would is set to the value below. */
static rg_lane_value value_below(int32_t dtype, double lo, double hi)
{
  rg_lane_value v = { .f64 = 0 };
  float single = (float)hi;

  if (lo == hi) {
    return rg_lane_value_of(dtype, lo);
  }
  if (dtype == RG_F64) {
    v.f64 = nextafter(hi, -INFINITY);
  } else if (dtype == RG_F32) {
    v.f32 = (double)single >= hi ? nextafterf(single, -INFINITY) : single;
  } else {
    v.f32 = half_below(dtype, single, hi);
  }
  return v;
}

rg_status rg_cpu_uniform(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_uniform_args *args = call->args;
  random_work w = { .call = call, .y = out[0], .draw = draw_uniform };

  (void)frame;
  w.below = value_below(out[0]->_dtype, args->lo, args->hi);
  return run(&w, 12.0);
}

/* -- Normal ---------------------------------------------------------------------------- */

/* Pairs: at is even, and an odd end draws its partner too. */
static void draw_normal(const random_work *w, int64_t at, int64_t n, void *lanes)
{
  const rg_normal_args *args = w->call->args;
  int64_t even = n + (n & 1);
  uint32_t x[2 * RG_TILE];

  if (w->y->_dtype == RG_F64) {
    double z[RG_TILE];
    double *y = lanes;

    numbers(w, at, even, 2, x);
    rg_simd()->random->normal_f64(z, x, even);
    for (int64_t i = 0; i < n; i++) {
      y[i] = args->mean + args->std * z[i];
    }
  } else {
    float z[RG_TILE];
    float *y = lanes;
    float mean = (float)args->mean;
    float std = (float)args->std;

    numbers(w, at, even, 1, x);
    rg_simd()->random->normal_f32(z, x, even);
    for (int64_t i = 0; i < n; i++) {
      y[i] = mean + std * z[i];
    }
  }
}

rg_status rg_cpu_normal(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  return run(&(random_work){ .call = call, .y = out[0], .draw = draw_normal }, 30.0);
}

/* -- Signs ------------------------------------------------------------------------------- */

/* A bit each, set for +scale; at is a multiple of 32, as whole tiles are. */
static void draw_signs(const random_work *w, int64_t at, int64_t n, void *lanes)
{
  const rg_signs_args *args = w->call->args;
  uint32_t x[RG_TILE / 32];

  numbers(w, at / 32, (n + 31) / 32, 1, x);
  if (w->y->_dtype == RG_F64) {
    double *y = lanes;

    for (int64_t i = 0; i < n; i++) {
      y[i] = rg_draw_sign(x[i / 32], i) ? args->scale : -args->scale;
    }
  } else {
    float *y = lanes;
    float scale = (float)args->scale;

    for (int64_t i = 0; i < n; i++) {
      y[i] = rg_draw_sign(x[i / 32], i) ? scale : -scale;
    }
  }
}

rg_status rg_cpu_signs(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  return run(&(random_work){ .call = call, .y = out[0], .draw = draw_signs }, 2.0);
}

/* -- Integers ------------------------------------------------------------------------------- */

static void draw_randint(const random_work *w, int64_t at, int64_t n, void *lanes)
{
  const rg_randint_args *args = w->call->args;
  uint64_t range = (uint64_t)args->hi - (uint64_t)args->lo;
  uint32_t x[2 * RG_TILE];
  int64_t value[RG_TILE];

  numbers(w, at, n, 2, x);
  for (int64_t i = 0; i < n; i++) {
    value[i] = rg_draw_integer(x[2 * i], x[2 * i + 1], args->lo, range);
  }
  rg_simd()->cast->loop[RG_LANE_I64][rg_lane_of(w->y->_dtype)](lanes, value, NULL, n);
}

rg_status rg_cpu_randint(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  return run(&(random_work){ .call = call, .y = out[0], .draw = draw_randint }, 20.0);
}
