/* SPDX-License-Identifier: MIT */
/*
** Reductions over any axes of tensors with any strides.
**
**   along    the elements of one output are brought together in tiles, each tile is folded, then
**            the tiles' results, then the chunks'
**   across   where outputs are contiguous in memory, whole rows are folded element by element,
**            64 rows to a partial result, 64 of these to a chunk
**
** Either way the error of a float sum of n numbers grows like n / 2^11 + log n, not like n, and
** which numbers meet does not depend on the number of threads.  Half types are summed in f32.
*/
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "cpu/fold.h"
#include "op/reduce.h"

enum {
  TILES = RG_REDUCE_CHUNK / RG_TILE,
  ROWS = 64, /* rows to a partial result, partial results to a chunk: 64 * 64 = CHUNK_ROWS */
};

/* What happens to an element before it is folded. */
enum { BEFORE_NOTHING, BEFORE_ABS, BEFORE_SQUARE, BEFORE_POWER };

typedef struct reduction {
  rg_fold_axes axes;
  rg_tensor *y;
  rg_walk out; /* over y */
  double p;
  char *scratch; /* [n_keep x n_chunks] lanes */
  int64_t chunk; /* folded elements in one */
  int64_t n_chunks;
  int64_t tiles;    /* across: in a row of outputs */
  rg_fold *fold;    /* many to one */
  rg_loop *join;    /* two rows to one */
  rg_loop *to_lane; /* integers to i64; NULL: they are lanes already */
  int64_t size;     /* of a lane */
  int32_t dtype;    /* of x */
  int32_t lane;
  int32_t before;
  bool mean;
  _Atomic bool out_of_range; /* a norm's sum left the range of its type */
} reduction;

/* -- Bringing elements together -------------------------------------------------------- */

/* Room for one tile on its way to the lanes that are folded. */
typedef struct place {
  rg_tile load;
  _Alignas(64) unsigned char lanes[RG_TILE * 8];
} place;

/* Lanes to be folded, from loaded ones; scale: NULL or a lane to multiply with first. */
static const void *prepare(const reduction *r, const void *x, int64_t n, const void *scale,
                           place *room)
{
  const rg_simd_tables *simd = rg_simd();
  void *to = room->lanes;

  if (r->to_lane != NULL) {
    r->to_lane(to, x, NULL, n);
    x = to;
  }
  if (scale != NULL) {
    simd->binary->loop[RG_OP_MUL - RG_OP_ADD][r->lane][RG_FORM_RUN_ONE](to, x, scale, n);
    x = to;
  }
  if (r->before == BEFORE_SQUARE) {
    simd->unary->loop[RG_OP_SQUARE - RG_OP_NEG][r->lane](to, x, NULL, n);
    return to;
  }
  if (r->before != BEFORE_NOTHING) {
    simd->unary->loop[RG_OP_ABS - RG_OP_NEG][r->lane](to, x, NULL, n);
    x = to;
  }
  if (r->before == BEFORE_POWER) {
    float p = (float)r->p;
    const void *power = r->lane == RG_LANE_F64 ? (const void *)&r->p : (const void *)&p;

    simd->binary->loop[RG_OP_POW - RG_OP_ADD][r->lane][RG_FORM_RUN_ONE](to, x, power, n);
  }
  return x;
}

/* Fold elements begin .. end - 1 of one output, at most a chunk of them. */
static void fold_run(const reduction *r, const rg_walk *walk, int64_t begin, int64_t end,
                     const void *scale, place *room, void *value)
{
  _Alignas(64) char part[TILES * 8];
  int64_t n_parts = 0;

  for (int64_t at = begin; at < end; at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, end - at);
    const void *x = rg_tile_load(walk, 0, at, n, r->dtype, &room->load);

    r->fold(part + n_parts * r->size, prepare(r, x, n, scale, room), n);
    n_parts++;
  }
  r->fold(value, part, n_parts);
}

/* -- Results --------------------------------------------------------------------------------- */

/* Did a sum of powers of f32 or f64 overflow, or lose what it was made of? */
static bool left_range(const reduction *r, const void *lanes, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    double v =
        r->lane == RG_LANE_F64 ? ((const double *)lanes)[i] : (double)((const float *)lanes)[i];
    double low = r->lane == RG_LANE_F64 ? 0x1p-900 : 0x1p-90;

    if (isinf(v) || v < low) {
      return true;
    }
  }
  return false;
}

static void finish_mean(const reduction *r, void *lanes, int64_t n)
{
  double count = (double)r->axes.n_fold;

  if (r->lane == RG_LANE_I64) { /* exact so far; the place of an i64 has room for the f32 */
    for (int64_t i = 0; i < n; i++) {
      float v = (float)((double)((const int64_t *)lanes)[i] / count);

      memcpy((float *)lanes + i, &v, sizeof(v));
    }
  } else if (r->lane == RG_LANE_F64) {
    for (int64_t i = 0; i < n; i++) {
      ((double *)lanes)[i] /= count;
    }
  } else {
    for (int64_t i = 0; i < n; i++) {
      ((float *)lanes)[i] /= (float)count;
    }
  }
}

/* The p-th root of sums of powers. */
static void finish_norm(const reduction *r, void *lanes, int64_t n)
{
  const rg_simd_tables *simd = rg_simd();
  double root = 1.0 / r->p;
  float root_f32 = (float)root;
  const void *power = r->lane == RG_LANE_F64 ? (const void *)&root : (const void *)&root_f32;

  if (r->before == BEFORE_SQUARE) {
    simd->unary->loop[RG_OP_SQRT - RG_OP_NEG][r->lane](lanes, lanes, NULL, n);
  } else if (r->before == BEFORE_POWER) {
    simd->binary->loop[RG_OP_POW - RG_OP_ADD][r->lane][RG_FORM_RUN_ONE](lanes, lanes, power, n);
  }
}

/* Outputs at .. at + n - 1 stand in room->lanes. */
static void finish(reduction *r, int64_t at, int64_t n, rg_tile *room)
{
  if (r->mean) {
    finish_mean(r, room->lanes, n);
  } else if (r->before == BEFORE_SQUARE || r->before == BEFORE_POWER) {
    if (left_range(r, room->lanes, n)) {
      atomic_store_explicit(&r->out_of_range, true, memory_order_relaxed);
    }
    finish_norm(r, room->lanes, n);
  }
  rg_tile_close(&r->out, 0, at, n, r->y->_dtype, room, room->lanes);
}

/* -- Along ------------------------------------------------------------------------------------- */

enum { OUTPUTS = 64 }; /* in one item */

static bool along_job(void *work, int64_t begin, int64_t end)
{
  reduction *r = work;
  rg_walk walk = r->axes.fold;
  rg_tile result;
  place room;

  for (int64_t i = begin; i < end; i++) {
    int64_t first = i * OUTPUTS;
    int64_t n = rg_min_i64(OUTPUTS, r->axes.n_keep - first);

    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t o = 0; o < n; o++) {
      walk.data[0] = r->axes.keep.data[0] + rg_walk_offset(&r->axes.keep, 0, first + o);
      fold_run(r, &walk, 0, r->axes.n_fold, NULL, &room, result.lanes + o * r->size);
    }
    finish(r, first, n, &result);
  }
  return true;
}

/* Item i is chunk i % n_chunks of output i / n_chunks. */
static bool along_chunk_job(void *work, int64_t begin, int64_t end)
{
  reduction *r = work;
  rg_walk walk = r->axes.fold;
  place room;

  for (int64_t i = begin; i < end; i++) {
    int64_t at = i % r->n_chunks * r->chunk;

    if (rg_interrupt_pending()) {
      return false;
    }
    walk.data[0] = r->axes.keep.data[0] + rg_walk_offset(&r->axes.keep, 0, i / r->n_chunks);
    fold_run(r, &walk, at, rg_min_i64(at + r->chunk, r->axes.n_fold), NULL, &room,
             r->scratch + i * r->size);
  }
  return true;
}

/* -- Across ------------------------------------------------------------------------------------ */

/* Join rows begin .. end - 1 of n columns at base into sum. */
static void join_rows(const reduction *r, const char *base, int64_t n, int64_t begin, int64_t end,
                      place *room, char *sum)
{
  _Alignas(64) char part[RG_TILE * 8];
  size_t bytes = (size_t)(n * r->size);
  bool half = rg_is_half(r->dtype);

  for (int64_t row = begin; row < end; row++) {
    const void *x = base + rg_walk_offset(&r->axes.fold, 0, row);
    bool first = (row - begin) % ROWS == 0;

    if (half) {
      rg_simd()->cast->widen[r->dtype](room->load.lanes, x, NULL, n);
      x = room->load.lanes;
    }
    x = prepare(r, x, n, NULL, room);
    if (first) {
      memcpy(part, x, bytes);
    } else {
      r->join(part, part, x, n);
    }
    if ((row - begin) % ROWS == ROWS - 1 || row == end - 1) {
      if (row - begin < ROWS) {
        memcpy(sum, part, bytes);
      } else {
        r->join(sum, sum, part, n);
      }
    }
  }
}

/* Item i: a tile of outputs in a row, one chunk of the rows that are folded into it. */
static bool across_job(void *work, int64_t begin, int64_t end)
{
  reduction *r = work;
  const rg_walk *keep = &r->axes.keep;
  int64_t width = keep->shape[keep->ndim - 1];
  rg_tile result;
  place room;

  for (int64_t i = begin; i < end; i++) {
    int64_t chunk = i % r->n_chunks;
    int64_t column = i / r->n_chunks % r->tiles * RG_TILE;
    int64_t first = i / r->n_chunks / r->tiles * width + column;
    int64_t n = rg_min_i64(RG_TILE, width - column);
    int64_t row = chunk * r->chunk;

    if (rg_interrupt_pending()) {
      return false;
    }
    join_rows(r, keep->data[0] + rg_walk_offset(keep, 0, first), n, row,
              rg_min_i64(row + r->chunk, r->axes.n_fold), &room, (char *)result.lanes);
    if (r->n_chunks == 1) {
      finish(r, first, n, &result);
      continue;
    }
    for (int64_t o = 0; o < n; o++) {
      memcpy(r->scratch + ((first + o) * r->n_chunks + chunk) * r->size, result.lanes + o * r->size,
             (size_t)r->size);
    }
  }
  return true;
}

/* -- Chunks together -------------------------------------------------------------------------- */

static bool gather_job(void *work, int64_t begin, int64_t end)
{
  reduction *r = work;
  rg_tile result;

  for (int64_t i = begin; i < end; i++) {
    int64_t first = i * OUTPUTS;
    int64_t n = rg_min_i64(OUTPUTS, r->axes.n_keep - first);

    for (int64_t o = 0; o < n; o++) {
      r->fold(result.lanes + o * r->size, r->scratch + (first + o) * r->n_chunks * r->size,
              r->n_chunks);
    }
    finish(r, first, n, &result);
  }
  return true;
}

/* -- Norms that left the range of their type --------------------------------------------------- */

/* The largest |x| of one output, then the sum of (|x| s)^p with s a power of two near 1 /
** largest. */
static void norm_scaled(reduction *r, const rg_walk *walk, place *room, void *value)
{
  const rg_simd_tables *simd = rg_simd();
  reduction largest = *r;
  char part[2 * sizeof(double)] = { 0 };
  double s = 1.0;
  float s_f32;

  largest.before = BEFORE_ABS;
  largest.fold = simd->reduce->fold[RG_FOLD_MAX][r->lane];
  for (int pass = 0; pass < 2; pass++) {
    const reduction *now = pass == 0 ? &largest : r;

    s_f32 = (float)s;
    for (int64_t at = 0; at < r->axes.n_fold && !rg_interrupt_pending(); at += RG_REDUCE_CHUNK) {
      const void *scale = r->lane == RG_LANE_F64 ? (const void *)&s : (const void *)&s_f32;

      fold_run(now, walk, at, rg_min_i64(at + RG_REDUCE_CHUNK, r->axes.n_fold),
               pass == 0 ? NULL : scale, room, part + (at == 0 ? 0 : r->size));
      if (at > 0) {
        now->fold(part, part, 2);
      }
    }
    if (pass == 0) {
      double m = r->lane == RG_LANE_F64 ? *(double *)(void *)part : (double)*(float *)(void *)part;
      int exponent;

      if (m == 0 || !isfinite(m)) {
        memcpy(value, part, (size_t)r->size);
        return;
      }
      frexp(m, &exponent);
      /* the factor itself has to be a normal number */
      exponent = r->lane == RG_LANE_F64 ? exponent : exponent > 126 ? 126 : exponent;
      exponent = r->lane == RG_LANE_F64 && exponent > 1022 ? 1022 : exponent;
      s = ldexp(1.0, exponent < (r->lane == RG_LANE_F64 ? -1022 : -126)
                         ? (r->lane == RG_LANE_F64 ? 1022 : 126)
                         : -exponent);
    }
  }
  finish_norm(r, part, 1);
  if (r->lane == RG_LANE_F64) {
    *(double *)value = *(double *)(void *)part / s;
  } else {
    *(float *)value = *(float *)(void *)part / s_f32;
  }
}

static bool scaled_job(void *work, int64_t begin, int64_t end)
{
  reduction *r = work;
  rg_walk walk = r->axes.fold;
  rg_tile result;
  place room;

  for (int64_t o = begin; o < end; o++) {
    if (rg_interrupt_pending()) {
      return false;
    }
    walk.data[0] = r->axes.keep.data[0] + rg_walk_offset(&r->axes.keep, 0, o);
    norm_scaled(r, &walk, &room, result.lanes);
    if (rg_interrupt_pending()) {
      return false;
    }
    rg_tile_close(&r->out, 0, o, 1, r->y->_dtype, &result, result.lanes);
  }
  return true;
}

/* -- Kernels ----------------------------------------------------------------------------------- */

static rg_status run(reduction *r)
{
  rg_fold_axes *axes = &r->axes;
  int32_t threads = rg_threads_for((double)axes->n_keep * (double)axes->n_fold);
  bool across = rg_fold_across(axes, rg_dtype_bytes(r->dtype));
  int64_t blocks = (axes->n_keep + OUTPUTS - 1) / OUTPUTS;

  r->chunk = across ? RG_REDUCE_CHUNK_ROWS : RG_REDUCE_CHUNK;
  r->n_chunks = (axes->n_fold + r->chunk - 1) / r->chunk;
  if (across) {
    int64_t width = axes->keep.shape[axes->keep.ndim - 1];

    r->tiles = (width + RG_TILE - 1) / RG_TILE;
    RG_TRY(rg_parallel(threads, axes->n_keep / width * r->tiles * r->n_chunks, across_job, r));
  } else if (r->n_chunks == 1) {
    RG_TRY(rg_parallel(threads, blocks, along_job, r));
  } else {
    RG_TRY(rg_parallel(threads, axes->n_keep * r->n_chunks, along_chunk_job, r));
  }
  if (r->n_chunks > 1) {
    RG_TRY(rg_parallel(1, blocks, gather_job, r));
  }
  if (r->out_of_range) {
    return rg_parallel(threads, axes->n_keep, scaled_job, r);
  }
  return RG_OK;
}

static rg_status reduce(const rg_call *call, rg_tensor *y, rg_frame *frame, int32_t fold,
                        int32_t before)
{
  static const int32_t joins[RG_FOLD_COUNT] = {
    [RG_FOLD_SUM] = RG_OP_ADD,
    [RG_FOLD_PROD] = RG_OP_MUL,
    [RG_FOLD_MAX] = RG_OP_MAXIMUM,
    [RG_FOLD_MIN] = RG_OP_MINIMUM,
  };
  const rg_reduce_args *args = call->args;
  const rg_simd_tables *simd = rg_simd();
  const rg_tensor *x = call->in[0];
  const rg_tensor *ys[] = { y };
  int32_t lane = rg_lane_of(x->_dtype);
  reduction r = { .y = y,
                  .p = args->p,
                  .scratch = frame->scratch,
                  .dtype = x->_dtype,
                  .lane = lane,
                  .before = before,
                  .mean = call->op->id == RG_OP_MEAN };

  rg_fold_axes_init(&r.axes, x, args->axes);
  if (r.axes.n_keep == 0) {
    return RG_OK;
  }
  rg_walk_init(&r.out, ys, 1, y->_shape, y->_ndim);
  if (fold <= RG_FOLD_PROD && lane != RG_LANE_F32 && lane != RG_LANE_F64) {
    r.lane = RG_LANE_I64;
    r.to_lane = lane == RG_LANE_I64 ? NULL : simd->cast->loop[lane][RG_LANE_I64];
  }
  r.size = rg_lane_bytes(r.lane);
  r.fold = simd->reduce->fold[fold][r.lane];
  r.join = simd->binary->loop[joins[fold] - RG_OP_ADD][r.lane][RG_FORM_RUN_RUN];
  if (r.axes.n_fold == 0) { /* the sum of nothing is 0, the product 1 */
    rg_tile room;
    rg_lane_value nothing = rg_lane_value_of(y->_dtype, fold == RG_FOLD_PROD ? 1.0 : 0.0);

    for (int64_t i = 0; i < r.axes.n_keep; i++) {
      memcpy(room.lanes, &nothing, sizeof(nothing));
      rg_tile_close(&r.out, 0, i, 1, y->_dtype, &room, room.lanes);
    }
    return RG_OK;
  }
  return run(&r);
}

#define KERNEL(name, fold)                                                             \
  rg_status rg_cpu_##name(const rg_call *call, rg_tensor *const *out, rg_frame *frame) \
  {                                                                                    \
    return reduce(call, out[0], frame, fold, BEFORE_NOTHING);                          \
  }
KERNEL(sum, RG_FOLD_SUM)
KERNEL(mean, RG_FOLD_SUM)
KERNEL(prod, RG_FOLD_PROD)
KERNEL(max, RG_FOLD_MAX)
KERNEL(min, RG_FOLD_MIN)

rg_status rg_cpu_norm(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  double p = ((const rg_reduce_args *)call->args)->p;

  return reduce(call, out[0], frame, isinf(p) ? RG_FOLD_MAX : RG_FOLD_SUM,
                isinf(p) || p == 1.0 ? BEFORE_ABS
                : p == 2.0           ? BEFORE_SQUARE
                                     : BEFORE_POWER);
}
