/* SPDX-License-Identifier: MIT */
/*
** Gathering and scattering elements by their positions along one axis, on the CPU.
**
** The index is gone through in pieces of its rows (its last axis), whose positions are widened
** first.  Scattering is spread over what cannot meet: along the axis it goes in order, so that of
** several elements at one place the last one stays, or they are added up in one order, whatever
** the number of threads.
*/
#include <stdatomic.h>
#include <string.h>

#include "cpu/cpu.h"
#include "op/gather.h"

enum { GROUP = 8192 }; /* elements in one item of work, at least */

typedef struct spots_work {
  rg_walk index;
  rg_walk other; /* what goes there, or where what is found goes to */
  int32_t index_type;
  int32_t dtype;
  int32_t lane;   /* scattering: -1 moves elements as they are, else what computes */
  int32_t reduce; /* RG_SCATTER_... */
  int64_t size;   /* bytes of an element in the table */
  char *table;
  int64_t limit;  /* positions along the axis */
  int64_t along;  /* bytes from one to the next */
  int64_t step;   /* bytes in the table from one element of a row to the next, its axis aside */
  int64_t row;    /* elements in a row of the index */
  int64_t pieces; /* of a row */
  int32_t n;      /* outer axes, the item's: all but a row's, and but the axis where it is apart */
  int64_t shape[RG_MAX_DIMS];
  int64_t stride[RG_MAX_DIMS]; /* bytes in the table */
  int64_t place[RG_MAX_DIMS];  /* elements of the index */
  int64_t repeats;             /* rows that an item does one after the other: along the axis */
  int64_t repeat_place;
  int64_t group; /* pieces in one item of work */
  _Atomic bool wrong;
} spots_work;

/* -- Positions ---------------------------------------------------------------------------- */

/* n positions from place `at` of the index on. */
static void load_positions(const spots_work *w, int64_t at, int64_t n, int64_t *to)
{
  _Alignas(8) char room[RG_TILE * 8];

  if (w->index_type == RG_I64) {
    rg_gather(&w->index, 0, at, n, 8, to);
    return;
  }
  rg_gather(&w->index, 0, at, n, rg_dtype_bytes(w->index_type), room);
  for (int64_t i = 0; i < n; i++) {
    to[i] = w->index_type == RG_I32  ? ((const int32_t *)(void *)room)[i]
            : w->index_type == RG_I8 ? ((const int8_t *)room)[i]
                                     : ((const uint8_t *)room)[i];
  }
}

/* Are all of them on the axis?  Those that are not become 0, and the call fails behind. */
static void check_positions(spots_work *w, int64_t *at, int64_t n)
{
  uint64_t limit = (uint64_t)w->limit;
  bool wrong = false;

  for (int64_t i = 0; i < n; i++) {
    wrong |= (uint64_t)at[i] >= limit;
  }
  if (wrong) {
    atomic_store(&w->wrong, true);
    for (int64_t i = 0; i < n; i++) {
      at[i] = (uint64_t)at[i] >= limit ? 0 : at[i];
    }
  }
}

/* The first wrong one, in words. */
static rg_status found_wrong(const rg_call *call, const spots_work *w)
{
  const rg_tensor *index = call->in[1];
  int64_t limit = w->limit;

  for (int64_t i = 0; i < index->_count; i++) {
    int64_t at = rg_integer_at(&w->index, 0, i, index->_dtype);

    if ((i & (GROUP - 1)) == 0 && rg_interrupt_pending()) {
      return rg_fail(RG_EINTR, "interrupted");
    }
    if (at < 0 || at >= limit) {
      return rg_fail(RG_EARG, "%s: position %lld at place %lld is outside; they go from 0 to %lld",
                     call->op->name, (long long)at, (long long)i + 1, (long long)limit - 1);
    }
  }
  return RG_OK;
}

/*
** table: whose axis it is (x, or the result), as bytes at data.  ordered: rows along the axis are
** one item's, in order.
*/
static void begin_work(spots_work *w, const rg_call *call, const rg_tensor *table, char *data,
                       const int64_t *strides, int32_t axis, bool ordered)
{
  const rg_tensor *index = call->in[1];
  int32_t last = index->_ndim - 1;
  int64_t place = 1;

  w->index_type = index->_dtype;
  w->dtype = table->_dtype;
  w->table = data;
  w->limit = table->_shape[axis];
  w->along = strides[axis] * w->size;
  w->row = index->_shape[last];
  w->step = axis == last ? 0 : strides[last] * w->size;
  w->pieces = (w->row + RG_TILE - 1) / RG_TILE;
  w->repeats = 1;
  atomic_init(&w->wrong, false);
  rg_walk_init(&w->index, &index, 1, index->_shape, index->_ndim);
  for (int32_t i = last; i >= 0; i--) {
    if (i == axis && i != last && ordered) {
      w->repeats = index->_shape[i];
      w->repeat_place = place;
    } else if (i != last) {
      w->shape[w->n] = index->_shape[i];
      w->stride[w->n] = i == axis ? 0 : strides[i] * w->size;
      w->place[w->n] = place;
      w->n++;
    }
    place *= index->_shape[i];
  }
}

static int64_t items_of(const spots_work *w)
{
  int64_t items = 1;

  for (int32_t i = 0; i < w->n; i++) {
    items *= w->shape[i];
  }
  return items;
}

/* Where item i begins: in the table, in the index. */
static void item_at(const spots_work *w, int64_t i, int64_t *table, int64_t *place)
{
  *table = 0;
  *place = 0;
  for (int32_t k = 0; k < w->n; k++) {
    int64_t at = i % w->shape[k];

    i /= w->shape[k];
    *table += at * w->stride[k];
    *place += at * w->place[k];
  }
}

/* -- Gathering ---------------------------------------------------------------------------- */

#define FETCH(name, T)                                                                       \
  static void fetch_##name(const char *from, int64_t step, int64_t along, const int64_t *at, \
                           int64_t n, void *to)                                              \
  {                                                                                          \
    T *y = to;                                                                               \
                                                                                             \
    for (int64_t i = 0; i < n; i++) {                                                        \
      y[i] = *(const T *)(const void *)(from + i * step + at[i] * along);                    \
    }                                                                                        \
  }
FETCH(1, uint8_t)
FETCH(2, uint16_t)
FETCH(4, uint32_t)
FETCH(8, uint64_t)

static void fetch(const spots_work *w, const char *from, const int64_t *at, int64_t n, void *to)
{
  switch (w->size) {
  case 1:
    fetch_1(from, w->step, w->along, at, n, to);
    break;
  case 2:
    fetch_2(from, w->step, w->along, at, n, to);
    break;
  case 4:
    fetch_4(from, w->step, w->along, at, n, to);
    break;
  default:
    fetch_8(from, w->step, w->along, at, n, to);
    break;
  }
}

static bool gather_job(void *work, int64_t begin, int64_t end)
{
  spots_work *w = work;
  int64_t last = rg_min_i64(end * w->group, items_of(w) * w->pieces);
  int64_t at[RG_TILE];
  _Alignas(8) char room[RG_TILE * 8];

  for (int64_t i = begin * w->group; i < last; i++) {
    int64_t first = i % w->pieces * RG_TILE;
    int64_t n = rg_min_i64(RG_TILE, w->row - first);
    int64_t table;
    int64_t place;

    if (rg_interrupt_pending()) {
      return false;
    }
    item_at(w, i / w->pieces, &table, &place);
    load_positions(w, place + first, n, at);
    check_positions(w, at, n);
    if (w->limit > 0) {
      fetch(w, w->table + table + first * w->step, at, n, room);
      rg_scatter(&w->other, 0, place + first, n, w->size, room);
    }
  }
  return true;
}

rg_status rg_cpu_gather(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_gather_args *args = call->args;
  const rg_tensor *x = call->in[0];
  const rg_tensor *y = out[0];
  spots_work w = { .size = rg_dtype_bytes(x->_dtype) };

  (void)frame;
  if (y->_count == 0) {
    return RG_OK;
  }
  rg_walk_init(&w.other, &y, 1, y->_shape, y->_ndim);
  begin_work(&w, call, x, x->_data, x->_stride, args->axis, false);
  int64_t pieces = items_of(&w) * w.pieces;

  w.group = rg_max_i64(1, GROUP / rg_min_i64(w.row, RG_TILE));
  RG_TRY(rg_parallel(rg_threads_for(2.0 * (double)y->_count), (pieces + w.group - 1) / w.group,
                     gather_job, &w));
  return atomic_load(&w.wrong) ? found_wrong(call, &w) : RG_OK;
}

/* -- Scattering --------------------------------------------------------------------------- */

#define SET(name, T)                                                                          \
  static void set_##name(char *to, int64_t step, int64_t along, const int64_t *at, int64_t n, \
                         const void *from)                                                    \
  {                                                                                           \
    const T *x = from;                                                                        \
                                                                                              \
    for (int64_t i = 0; i < n; i++) {                                                         \
      *(T *)(void *)(to + i * step + at[i] * along) = x[i];                                   \
    }                                                                                         \
  }
SET(1, uint8_t)
SET(2, uint16_t)
SET(4, uint32_t)
SET(8, uint64_t)

/* v != v finds nan, which wins.  Whole numbers wrap around, in W. */
#define EACH(F)             \
  F(f32, float, float)      \
  F(f64, double, double)    \
  F(i64, int64_t, uint64_t) \
  F(i32, int32_t, uint32_t) \
  F(i8, int8_t, uint32_t)   \
  F(u8, uint8_t, uint32_t)
#define MEET(lane, T, W)                                                                       \
  static void meet_##lane(char *to, int64_t step, int64_t along, const int64_t *at, int64_t n, \
                          const void *from, int32_t reduce)                                    \
  {                                                                                            \
    const T *x = from;                                                                         \
                                                                                               \
    for (int64_t i = 0; i < n; i++) {                                                          \
      T *y = (T *)(void *)(to + i * step + at[i] * along);                                     \
      T v = x[i];                                                                              \
                                                                                               \
      switch (reduce) {                                                                        \
      case RG_SCATTER_ADD:                                                                     \
        *y = (T)((W)*y + (W)v);                                                                \
        break;                                                                                 \
      case RG_SCATTER_MUL:                                                                     \
        *y = (T)((W)*y * (W)v);                                                                \
        break;                                                                                 \
      case RG_SCATTER_MAX:                                                                     \
        *y = v > *y || v != v ? v : *y;                                                        \
        break;                                                                                 \
      default:                                                                                 \
        *y = v < *y || v != v ? v : *y;                                                        \
        break;                                                                                 \
      }                                                                                        \
    }                                                                                          \
  }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtautological-compare" /* integers are never nan */
EACH(MEET)
#pragma GCC diagnostic pop

static void meet(const spots_work *w, char *to, const int64_t *at, int64_t n, const void *from)
{
  if (w->lane >= 0) {
    switch (w->lane) {
#define CASE(NAME, lane, T)                                     \
  case RG_LANE_##NAME:                                          \
    meet_##lane(to, w->step, w->along, at, n, from, w->reduce); \
    break;
      RG_LANE_LIST(CASE)
    }
    return;
  }
  switch (w->size) {
  case 1:
    set_1(to, w->step, w->along, at, n, from);
    break;
  case 2:
    set_2(to, w->step, w->along, at, n, from);
    break;
  case 4:
    set_4(to, w->step, w->along, at, n, from);
    break;
  default:
    set_8(to, w->step, w->along, at, n, from);
    break;
  }
}

/* n elements of src from `place` of the index on, to their positions. */
static void scatter_piece(spots_work *w, int64_t place, int64_t n, char *to)
{
  int64_t at[RG_TILE];
  rg_tile room;
  const void *from = room.lanes;

  load_positions(w, place, n, at);
  check_positions(w, at, n);
  if (w->limit == 0) {
    return;
  }
  if (w->lane >= 0) {
    from = rg_tile_load(&w->other, 0, place, n, w->dtype, &room);
  } else {
    rg_gather(&w->other, 0, place, n, w->size, room.lanes);
  }
  meet(w, to, at, n, from);
}

/* Where the axis is the rows' own a row is one piece of work, else a part of all rows along it. */
static bool scatter_job(void *work, int64_t begin, int64_t end)
{
  spots_work *w = work;
  bool own = w->step == 0 && w->repeats == 1;
  int64_t parts = own ? 1 : w->pieces;
  int64_t last = rg_min_i64(end * w->group, items_of(w) * parts);

  for (int64_t i = begin * w->group; i < last; i++) {
    int64_t first = i % parts * RG_TILE;
    int64_t behind = own ? w->row : rg_min_i64(first + RG_TILE, w->row);
    int64_t table;
    int64_t place;

    item_at(w, i / parts, &table, &place);
    for (int64_t k = 0; k < w->repeats; k++) {
      for (int64_t at = first; at < behind; at += RG_TILE) { /* a row may be very long */
        if (rg_interrupt_pending()) {
          return false;
        }
        scatter_piece(w, place + k * w->repeat_place + at, rg_min_i64(RG_TILE, behind - at),
                      w->table + table + at * w->step);
      }
    }
  }
  return true;
}

/* bool: a sum of truths is "any", a product "all". */
static int32_t reduce_for(int32_t dtype, int32_t reduce)
{
  if (dtype != RG_BOOL) {
    return reduce;
  }
  return reduce == RG_SCATTER_ADD   ? RG_SCATTER_MAX
         : reduce == RG_SCATTER_MUL ? RG_SCATTER_MIN
                                    : reduce;
}

/* Elements of x as lanes side by side. */
static void widen(const rg_tensor *x, char *to, int64_t size)
{
  rg_walk walk;
  rg_tile room;

  rg_walk_init(&walk, &x, 1, x->_shape, x->_ndim);
  for (int64_t at = 0; at < x->_count && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, x->_count - at);

    memcpy(to + at * size, rg_tile_load(&walk, 0, at, n, x->_dtype, &room), (size_t)(n * size));
  }
}

static rg_status scatter(const rg_call *call, rg_tensor *y, char *data, const int64_t *strides,
                         int32_t lane, int64_t size)
{
  const rg_scatter_args *args = call->args;
  const rg_tensor *src = call->in[2];
  spots_work w = { .size = size, .lane = lane, .reduce = reduce_for(y->_dtype, args->reduce) };

  rg_walk_init(&w.other, &src, 1, src->_shape, src->_ndim);
  begin_work(&w, call, y, data, strides, args->axis, true);
  bool own = w.step == 0 && w.repeats == 1;
  int64_t parts = items_of(&w) * (own ? 1 : w.pieces);
  int64_t each = own ? w.row : w.repeats * rg_min_i64(w.row, RG_TILE);

  w.group = rg_max_i64(1, GROUP / each);
  RG_TRY(rg_parallel(rg_threads_for(2.0 * (double)src->_count), (parts + w.group - 1) / w.group,
                     scatter_job, &w));
  return atomic_load(&w.wrong) ? found_wrong(call, &w) : RG_OK;
}

rg_status rg_cpu_scatter(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_scatter_args *args = call->args;
  const rg_tensor *x = call->in[0];
  rg_tensor *y = out[0];
  bool computes = args->reduce != RG_SCATTER_SET;
  int32_t lane = computes ? rg_lane_of(x->_dtype) : -1;
  int64_t strides[RG_MAX_DIMS];
  int64_t next = 1;

  if (call->in[2]->_count == 0 || !(computes && rg_is_half(x->_dtype))) {
    RG_TRY(rg_cpu_convert(y, x));
    return call->in[2]->_count == 0
               ? RG_OK
               : scatter(call, y, y->_data, y->_stride, lane, rg_dtype_bytes(x->_dtype));
  }
  for (int32_t i = x->_ndim - 1; i >= 0; i--) {
    strides[i] = next;
    next *= x->_shape[i];
  }
  widen(x, frame->scratch, (int64_t)sizeof(float));
  RG_TRY(scatter(call, y, frame->scratch, strides, lane, (int64_t)sizeof(float)));
  const rg_tensor *ys[] = { y };
  rg_walk walk;
  rg_tile room;

  rg_walk_init(&walk, ys, 1, y->_shape, y->_ndim);
  for (int64_t at = 0; at < y->_count && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, y->_count - at);

    memcpy(room.lanes, (const float *)frame->scratch + at, (size_t)n * sizeof(float));
    rg_tile_close(&walk, 0, at, n, y->_dtype, &room, room.lanes);
  }
  return rg_interrupt_pending() ? rg_fail(RG_EINTR, "interrupted") : RG_OK;
}
