/* SPDX-License-Identifier: MIT */
/*
** Putting the elements along an axis in order on the CPU.
**
** An element becomes a whole number that compares as it does (the bits of a float, inverted so that
** they ascend; Knuth, vol. 3, 5.2.5), with nan above all and -0 as 0.  Rows of some length are
** sorted by their digits, bytes from the lowest, which keeps equal ones in their order; short ones
** by insertion.  Of few wanted the best so far are a heap, whose worst one turns most away.
*/
#include <string.h>

#include "cpu/fold.h"
#include "op/sort.h"

enum {
  SHORT = 48,
  DIGIT = 256,
};

typedef struct sort_work {
  rg_fold_axes x;
  rg_fold_axes y;
  rg_fold_axes index;
  int32_t dtype;
  int32_t lane;
  int64_t size;
  int64_t n;     /* elements of a row */
  int64_t k;     /* wanted */
  uint64_t flip; /* all bits where the largest come first */
  int64_t parts;
  char *scratch;
} sort_work;

/* -- Keys --------------------------------------------------------------------------------- */

static uint64_t key_f32(float v)
{
  uint32_t bits;

  v = v + 0.0f; /* -0 becomes 0 */
  memcpy(&bits, &v, sizeof(bits));
  return v != v ? UINT32_MAX : (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

static uint64_t key_f64(double v)
{
  uint64_t bits;

  v = v + 0.0;
  memcpy(&bits, &v, sizeof(bits));
  return v != v ? UINT64_MAX : bits >> 63 != 0 ? ~bits : bits | (uint64_t)1 << 63;
}

static uint64_t key_i64(int64_t v)
{
  return (uint64_t)v ^ (uint64_t)1 << 63;
}

static uint64_t key_i32(int32_t v)
{
  return (uint32_t)v ^ 0x80000000u;
}

static uint64_t key_i8(int8_t v)
{
  return (uint64_t)((int64_t)v + 128);
}

static uint64_t key_u8(uint8_t v)
{
  return v;
}

#define KEYS(NAME, lane, T)                                                                        \
  static void keys_##lane(const void *from, int64_t at, int64_t n, uint64_t flip, rg_sort_key *to) \
  {                                                                                                \
    const T *x = from;                                                                             \
                                                                                                   \
    for (int64_t i = 0; i < n; i++) {                                                              \
      to[i] = (rg_sort_key){ .key = key_##lane(x[i]) ^ flip, .at = at + i };                       \
    }                                                                                              \
  }
RG_LANE_LIST(KEYS)

typedef void making(const void *from, int64_t at, int64_t n, uint64_t flip, rg_sort_key *to);

#define ROW(NAME, lane, T) [RG_LANE_##NAME] = keys_##lane,
static making *const makes[RG_LANE_COUNT] = { RG_LANE_LIST(ROW) };

/* -- In order ----------------------------------------------------------------------------- */

static void insert(rg_sort_key *x, int64_t n)
{
  for (int64_t i = 1; i < n; i++) {
    rg_sort_key v = x[i];
    int64_t at = i;

    for (; at > 0 && x[at - 1].key > v.key; at--) {
      x[at] = x[at - 1];
    }
    x[at] = v;
  }
}

/* How often each digit comes; false: Ctrl-C. */
static bool count_digits(const rg_sort_key *x, int64_t n, int64_t shift, int64_t *count)
{
  for (int64_t at = 0; at < n; at += RG_LOOK) {
    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t i = at; i < rg_min_i64(at + RG_LOOK, n); i++) {
      count[x[i].key >> shift & 255]++;
    }
  }
  return true;
}

/* Each to the next place of its digit; false: Ctrl-C. */
static bool deal(const rg_sort_key *x, int64_t n, int64_t shift, int64_t *place, rg_sort_key *to)
{
  for (int64_t at = 0; at < n; at += RG_LOOK) {
    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t i = at; i < rg_min_i64(at + RG_LOOK, n); i++) {
      to[place[x[i].key >> shift & 255]++] = x[i];
    }
  }
  return true;
}

/* By bytes from the lowest; digits that all have are passed over.  The result is where it says;
** NULL: Ctrl-C. */
static rg_sort_key *by_digits(rg_sort_key *x, rg_sort_key *other, int64_t n, int64_t bytes)
{
  for (int64_t byte = 0; byte < bytes; byte++) {
    int64_t count[DIGIT] = { 0 };
    int64_t first = 0;

    if (!count_digits(x, n, 8 * byte, count)) {
      return NULL;
    }
    if (count[x[0].key >> (8 * byte) & 255] == n) {
      continue;
    }
    for (int32_t d = 0; d < DIGIT; d++) {
      int64_t many = count[d];

      count[d] = first;
      first += many;
    }
    if (!deal(x, n, 8 * byte, count, other)) {
      return NULL;
    }
    rg_sort_key *swap = x;

    x = other;
    other = swap;
  }
  return x;
}

static rg_sort_key *put_in_order(const sort_work *w, rg_sort_key *x, rg_sort_key *other, int64_t n)
{
  if (n <= SHORT) {
    insert(x, n);
    return x;
  }
  return by_digits(x, other, n, rg_lane_bytes(w->lane));
}

/* -- The first k --------------------------------------------------------------------------- */

/* Is a to stand behind b? */
static bool behind(const rg_sort_key *a, const rg_sort_key *b)
{
  return a->key > b->key || (a->key == b->key && a->at > b->at);
}

/* A heap whose root comes last: x[i] sinks to its place. */
static void sink(rg_sort_key *x, int64_t n, int64_t i)
{
  rg_sort_key v = x[i];

  for (int64_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
    child += child + 1 < n && behind(&x[child + 1], &x[child]) ? 1 : 0;
    if (!behind(&x[child], &v)) {
      break;
    }
    x[i] = x[child];
    i = child;
  }
  x[i] = v;
}

/* The first k of n, to the front, in order; false: Ctrl-C. */
static bool first_few(rg_sort_key *x, int64_t n, int64_t k)
{
  for (int64_t i = k / 2 - 1; i >= 0; i--) {
    if (rg_stops(i)) {
      return false;
    }
    sink(x, k, i);
  }
  for (int64_t i = k; i < n; i++) {
    if (rg_stops(i)) {
      return false;
    }
    if (x[i].key < x[0].key) { /* an equal one stands behind */
      x[0] = x[i];
      sink(x, k, 0);
    }
  }
  for (int64_t left = k - 1; left > 0; left--) {
    rg_sort_key last = x[0];

    if (rg_stops(left)) {
      return false;
    }
    x[0] = x[left];
    x[left] = last;
    sink(x, left, 0);
  }
  return true;
}

/* -- Rows ----------------------------------------------------------------------------------- */

#define PICK(T)                                    \
  for (int64_t i = 0; i < n; i++) {                \
    ((T *)to)[i] = ((const T *)from)[order[i].at]; \
  }

/* n elements themselves in their new order. */
static void pick(const sort_work *w, const void *from, const rg_sort_key *order, int64_t n,
                 void *to)
{
  switch (w->size) {
  case 1:
    PICK(uint8_t);
    break;
  case 2:
    PICK(uint16_t);
    break;
  case 4:
    PICK(uint32_t);
    break;
  default:
    PICK(uint64_t);
    break;
  }
}

/* The elements of a row, and their keys. */
static bool load(const sort_work *w, const rg_walk *x, rg_sort_key *keys, char *elements)
{
  rg_tile room;

  for (int64_t at = 0; at < w->n; at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, w->n - at);

    if (rg_stops(at)) {
      return false;
    }
    makes[w->lane](rg_tile_load(x, 0, at, n, w->dtype, &room), at, n, w->flip, keys + at);
    rg_gather(x, 0, at, n, w->size, elements + at * w->size);
  }
  return true;
}

/* What was found to where it belongs, by way of a stretch of room. */
static bool store(const sort_work *w, const rg_walk *y, const rg_walk *index, const char *elements,
                  const rg_sort_key *keys, char *room)
{
  for (int64_t at = 0; at < w->k; at += RG_LOOK) {
    int64_t n = rg_min_i64(RG_LOOK, w->k - at);

    if (rg_interrupt_pending()) {
      return false;
    }
    pick(w, elements, keys + at, n, room);
    rg_scatter(y, 0, at, n, w->size, room);
    for (int64_t i = 0; i < n; i++) {
      ((int64_t *)(void *)room)[i] = keys[at + i].at;
    }
    rg_scatter(index, 0, at, n, 8, room);
  }
  return true;
}

static bool sort_row(const sort_work *w, int64_t row, char *scratch)
{
  rg_sort_key *keys = (rg_sort_key *)(void *)scratch;
  rg_sort_key *other = keys + w->n;
  rg_sort_key *sorted = keys;
  char *elements = (char *)(other + w->n);
  rg_walk x = w->x.fold;
  rg_walk y = w->y.fold;
  rg_walk index = w->index.fold;

  x.data[0] = w->x.keep.data[0] + rg_walk_offset(&w->x.keep, 0, row);
  y.data[0] = w->y.keep.data[0] + rg_walk_offset(&w->y.keep, 0, row);
  index.data[0] = w->index.keep.data[0] + rg_walk_offset(&w->index.keep, 0, row);
  if (!load(w, &x, keys, elements)) {
    return false;
  }
  if (w->k <= w->n / 8) {
    if (!first_few(keys, w->n, w->k)) {
      return false;
    }
  } else {
    sorted = put_in_order(w, keys, other, w->n);
  }
  /* the other keys are not needed any more: results go there */
  return sorted != NULL &&
         store(w, &y, &index, elements, sorted, (char *)(sorted == keys ? other : keys));
}

static bool sort_job(void *work, int64_t begin, int64_t end)
{
  const sort_work *w = work;

  for (int64_t part = begin; part < end; part++) {
    for (int64_t row = part * w->x.n_keep / w->parts; row < (part + 1) * w->x.n_keep / w->parts;
         row++) {
      if (rg_interrupt_pending() || !sort_row(w, row, w->scratch + part * rg_sort_room(w->n))) {
        return false;
      }
    }
  }
  return true;
}

static rg_status sort(const rg_call *call, rg_tensor *const *out, rg_frame *frame, int32_t axis,
                      bool descending)
{
  const rg_tensor *x = call->in[0];
  int64_t n = x->_shape[axis];
  sort_work w = { .dtype = x->_dtype,
                  .lane = rg_lane_of(x->_dtype),
                  .size = rg_dtype_bytes(x->_dtype),
                  .n = n,
                  .k = out[0]->_shape[axis],
                  .flip = descending ? UINT64_MAX : 0,
                  .scratch = frame->scratch };

  if (out[0]->_count == 0) {
    return RG_OK;
  }
  if (rg_lane_bytes(w.lane) < 8) {
    w.flip &= ((uint64_t)1 << (8 * rg_lane_bytes(w.lane))) - 1;
  }
  rg_fold_axes_init(&w.x, x, 1u << axis);
  rg_fold_axes_init(&w.y, out[0], 1u << axis);
  rg_fold_axes_init(&w.index, out[1], 1u << axis);
  w.parts = rg_sort_parts(w.x.n_keep, n);
  return rg_parallel(rg_threads_for(16.0 * (double)x->_count), w.parts, sort_job, &w);
}

rg_status rg_cpu_sort(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_sort_args *args = call->args;

  return sort(call, out, frame, args->axis, args->descending != 0);
}

rg_status rg_cpu_topk(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_topk_args *args = call->args;

  return sort(call, out, frame, args->axis, args->largest != 0);
}
