/* SPDX-License-Identifier: MIT */
/*
** Cumulative sums and products along one axis, in f64 (floats) or i64 (integers) and rounded once
** for each result.
**
**   along    a row in tiles, one sum that is carried from tile to tile
**   across   the axis is not the innermost: a tile of neighbouring columns goes down the axis
*/
#include "cpu/fold.h"
#include "op/cumsum.h"

enum { GROUP = 8192 }; /* elements in one item of work, at least */

typedef double real_sum;
typedef uint64_t whole_sum; /* wraps around */

typedef union total {
  real_sum real;
  whole_sum whole;
} total;

typedef struct cumsum_work {
  rg_fold_axes x;
  rg_fold_axes y;
  int32_t from; /* types of x and y */
  int32_t to;
  bool reverse;
  bool product;
  total begin;
  int64_t group; /* along: rows in an item */
} cumsum_work;

/* -- A tile --------------------------------------------------------------------------- */

/* n elements of one row; sum is carried on. */
#define ROW(kind, meet, lane, X, Y, part)                                                          \
  static void row_##kind##_##lane(void *to, const void *from, int64_t n, bool reverse, total *sum) \
  {                                                                                                \
    const X *x = from;                                                                             \
    Y *y = to;                                                                                     \
    total s = *sum;                                                                                \
                                                                                                   \
    for (int64_t i = 0; i < n; i++) {                                                              \
      int64_t at = reverse ? n - 1 - i : i;                                                        \
                                                                                                   \
      s.part = s.part meet(part##_sum) x[at];                                                      \
      y[at] = (Y)s.part;                                                                           \
    }                                                                                              \
    *sum = s;                                                                                      \
  }                                                                                                \
  /* n columns, one element of each; sums are carried on */                                        \
  static void columns_##kind##_##lane(void *to, const void *from, int64_t n, bool reverse,         \
                                      total *sum)                                                  \
  {                                                                                                \
    const X *x = from;                                                                             \
    Y *y = to;                                                                                     \
                                                                                                   \
    (void)reverse;                                                                                 \
    for (int64_t i = 0; i < n; i++) {                                                              \
      sum[i].part = sum[i].part meet(part##_sum) x[i];                                             \
      y[i] = (Y)sum[i].part;                                                                       \
    }                                                                                              \
  }
/* clang-format off */
#define EACH(F)                          \
  F(F32, f32, float,   float,   real)    \
  F(F64, f64, double,  double,  real)    \
  F(I64, i64, int64_t, int64_t, whole)   \
  F(I32, i32, int32_t, int64_t, whole)   \
  F(I8,  i8,  int8_t,  int64_t, whole)   \
  F(U8,  u8,  uint8_t, int64_t, whole)
/* clang-format on */
#define SUMS(NAME, lane, X, Y, part)     ROW(sum, +, lane, X, Y, part)
#define PRODUCTS(NAME, lane, X, Y, part) ROW(product, *, lane, X, Y, part)
EACH(SUMS)
EACH(PRODUCTS)

typedef void adding(void *to, const void *from, int64_t n, bool reverse, total *sum);

#define ROW_SUM(NAME, lane, X, Y, part)         [RG_LANE_##NAME] = row_sum_##lane,
#define ROW_PRODUCT(NAME, lane, X, Y, part)     [RG_LANE_##NAME] = row_product_##lane,
#define COLUMNS_SUM(NAME, lane, X, Y, part)     [RG_LANE_##NAME] = columns_sum_##lane,
#define COLUMNS_PRODUCT(NAME, lane, X, Y, part) [RG_LANE_##NAME] = columns_product_##lane,
static adding *const rows[2][RG_LANE_COUNT] = { { EACH(ROW_SUM) }, { EACH(ROW_PRODUCT) } };
static adding *const columns[2][RG_LANE_COUNT] = { { EACH(COLUMNS_SUM) },
                                                   { EACH(COLUMNS_PRODUCT) } };

typedef struct tiles {
  rg_tile x;
  rg_tile y;
} tiles;

/* Elements at .. at + n - 1 of a walk over x and of one over y. */
static void add_tile(const cumsum_work *w, adding *add, const rg_walk *x, const rg_walk *y,
                     int64_t at, int64_t n, total *sum, tiles *room)
{
  const void *from = rg_tile_load(x, 0, at, n, w->from, &room->x);
  void *to = rg_tile_open(y, 0, at, n, w->to, &room->y);

  add(to, from, n, w->reverse, sum);
  rg_tile_close(y, 0, at, n, w->to, &room->y, to);
}

/* -- Along and across ------------------------------------------------------------------- */

static bool along_job(void *work, int64_t begin, int64_t end)
{
  const cumsum_work *w = work;
  adding *add = rows[w->product][rg_lane_of(w->from)];
  int64_t n = w->x.n_fold;
  int64_t n_tiles = (n + RG_TILE - 1) / RG_TILE;
  rg_walk x = w->x.fold;
  rg_walk y = w->y.fold;
  tiles room;

  for (int64_t row = begin * w->group; row < rg_min_i64(end * w->group, w->x.n_keep); row++) {
    total sum = w->begin;

    x.data[0] = w->x.keep.data[0] + rg_walk_offset(&w->x.keep, 0, row);
    y.data[0] = w->y.keep.data[0] + rg_walk_offset(&w->y.keep, 0, row);
    for (int64_t i = 0; i < n_tiles; i++) {
      int64_t at = (w->reverse ? n_tiles - 1 - i : i) * RG_TILE;

      if (rg_interrupt_pending()) {
        return false;
      }
      add_tile(w, add, &x, &y, at, rg_min_i64(RG_TILE, n - at), &sum, &room);
    }
  }
  return true;
}

static bool across_job(void *work, int64_t begin, int64_t end)
{
  const cumsum_work *w = work;
  adding *add = columns[w->product][rg_lane_of(w->from)];
  tiles room;

  for (int64_t tile = begin; tile < end; tile++) {
    int64_t at = tile * RG_TILE;
    int64_t n = rg_min_i64(RG_TILE, w->x.n_keep - at);
    rg_walk x = w->x.keep;
    rg_walk y = w->y.keep;
    total sum[RG_TILE];

    for (int64_t i = 0; i < n; i++) {
      sum[i] = w->begin;
    }
    for (int64_t i = 0; i < w->x.n_fold; i++) {
      int64_t place = w->reverse ? w->x.n_fold - 1 - i : i;

      if (rg_interrupt_pending()) {
        return false;
      }
      x.data[0] = w->x.keep.data[0] + rg_walk_offset(&w->x.fold, 0, place);
      y.data[0] = w->y.keep.data[0] + rg_walk_offset(&w->y.fold, 0, place);
      add_tile(w, add, &x, &y, at, n, sum, &room);
    }
  }
  return true;
}

static rg_status scan(const rg_call *call, rg_tensor *const *out, rg_frame *frame, bool product)
{
  const rg_cumsum_args *args = call->args;
  const rg_tensor *x = call->in[0];
  cumsum_work w = {
    .from = x->_dtype, .to = out[0]->_dtype, .reverse = args->reverse != 0, .product = product
  };
  int32_t threads = rg_threads_for(4.0 * (double)x->_count);

  if (x->_count == 0) {
    return RG_OK;
  }
  if (product && rg_dtype_is_float(w.from)) {
    w.begin.real = 1;
  } else {
    w.begin.whole = product ? 1 : 0; /* the bits of the number 0, too */
  }
  rg_fold_axes_init(&w.x, x, 1u << args->axis);
  rg_fold_axes_init(&w.y, out[0], 1u << args->axis);
  if (rg_fold_across(&w.x, rg_dtype_bytes(w.from))) {
    frame->path = "across";
    return rg_parallel(threads, (w.x.n_keep + RG_TILE - 1) / RG_TILE, across_job, &w);
  }
  frame->path = "along";
  w.group = rg_max_i64(1, GROUP / w.x.n_fold);
  return rg_parallel(threads, (w.x.n_keep + w.group - 1) / w.group, along_job, &w);
}

rg_status rg_cpu_cumsum(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return scan(call, out, frame, false);
}

rg_status rg_cpu_cumprod(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return scan(call, out, frame, true);
}
