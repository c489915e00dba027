/* SPDX-License-Identifier: MIT */
/*
** Tiles: short runs of elements of strided tensors, side by side and in a type that loops know.
** Whatever strides and narrow types a tensor has, loops see plain arrays.
*/
#include <string.h>

#include "cpu/cpu.h"

/* -- Lanes ----------------------------------------------------------------------- */

int64_t rg_lane_bytes(int32_t lane)
{
#define BYTES(NAME, name, T) [RG_LANE_##NAME] = sizeof(T),
  static const int8_t bytes[RG_LANE_COUNT] = { RG_LANE_LIST(BYTES) };
#undef BYTES

  return bytes[lane];
}

rg_loop *const *rg_lanes_loop(int32_t from, int32_t dtype)
{
  const rg_simd_cast *cast = rg_simd()->cast;

  if (dtype == RG_BOOL) {
    return &cast->to_bool[from];
  }
  if (from == RG_LANE_F64 && rg_is_narrow(dtype)) {
    return &cast->f64_to_odd;
  }
  return &cast->loop[from][rg_lane_of(dtype)];
}

rg_lane_value rg_lane_value_of(int32_t dtype, double value)
{
  const rg_simd_cast *cast = rg_simd()->cast;
  rg_lane_value lane = { .f64 = 0 };

  (*rg_lanes_loop(RG_LANE_F64, dtype))(&lane, &value, NULL, 1);
  if (rg_is_narrow(dtype)) {
    uint16_t narrow = 0;

    cast->narrow[dtype](&narrow, &lane, NULL, 1);
    cast->widen[dtype](&lane, &narrow, NULL, 1);
  }
  return lane;
}

void rg_lanes_narrow(int32_t dtype, void *to, const void *lanes, int64_t n)
{
  if (rg_is_narrow(dtype)) {
    rg_simd()->cast->narrow[dtype](to, lanes, NULL, n);
  } else {
    memcpy(to, lanes, (size_t)(n * rg_dtype_bytes(dtype)));
  }
}

/* -- Strided runs ------------------------------------------------------------------ */

#define STRIDED_COPY(T)             \
  for (int64_t i = 0; i < n; i++) { \
    memcpy(to, from, sizeof(T));    \
    to += to_step;                  \
    from += from_step;              \
  }                                 \
  break

/* n elements from one place to another, steps in bytes. */
static void copy_run(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                     int64_t size)
{
  if (to_step == size && from_step == size) {
    memcpy(to, from, (size_t)(n * size));
    return;
  }
  switch (size) {
  case 1:
    STRIDED_COPY(uint8_t);
  case 2:
    STRIDED_COPY(uint16_t);
  case 4:
    STRIDED_COPY(uint32_t);
  default:
    STRIDED_COPY(uint64_t);
  }
}

/* Where a walk stands: an index for each axis and the byte offset in one tensor. */
typedef struct place {
  int64_t index[RG_MAX_DIMS];
  int64_t offset;
} place;

static void locate(const rg_walk *walk, int32_t t, int64_t at, place *p)
{
  p->offset = 0;
  for (int32_t i = walk->ndim - 1; i > 0; i--) {
    p->index[i] = at % walk->shape[i];
    at /= walk->shape[i];
    p->offset += p->index[i] * walk->stride[t][i];
  }
  p->index[0] = at;
  p->offset += at * walk->stride[t][0];
}

/* Go run elements on along the innermost axis, and to the next row when it ends. */
static void advance(const rg_walk *walk, int32_t t, place *p, int64_t run)
{
  int32_t i = walk->ndim - 1;

  p->index[i] += run;
  p->offset += run * walk->stride[t][i];
  while (i > 0 && p->index[i] == walk->shape[i]) {
    p->offset -= walk->shape[i] * walk->stride[t][i];
    p->index[i] = 0;
    i--;
    p->index[i]++;
    p->offset += walk->stride[t][i];
  }
}

int64_t rg_walk_offset(const rg_walk *walk, int32_t t, int64_t at)
{
  place p;

  locate(walk, t, at, &p);
  return p.offset;
}

void rg_gather(const rg_walk *walk, int32_t t, int64_t at, int64_t n, int64_t size, void *to)
{
  int32_t inner = walk->ndim - 1;
  char *next = to;
  place p;

  locate(walk, t, at, &p);
  while (n > 0) {
    int64_t run = rg_min_i64(n, walk->shape[inner] - p.index[inner]);

    copy_run(next, size, walk->data[t] + p.offset, walk->stride[t][inner], run, size);
    next += run * size;
    n -= run;
    advance(walk, t, &p, run);
  }
}

void rg_scatter(const rg_walk *walk, int32_t t, int64_t at, int64_t n, int64_t size,
                const void *from)
{
  int32_t inner = walk->ndim - 1;
  const char *next = from;
  place p;

  locate(walk, t, at, &p);
  while (n > 0) {
    int64_t run = rg_min_i64(n, walk->shape[inner] - p.index[inner]);

    copy_run(walk->data[t] + p.offset, walk->stride[t][inner], next, size, run, size);
    next += run * size;
    n -= run;
    advance(walk, t, &p, run);
  }
}

int64_t rg_integer_at(const rg_walk *walk, int32_t t, int64_t at, int32_t dtype)
{
  const char *element = walk->data[t] + rg_walk_offset(walk, t, at);

  int64_t number;

  rg_dtypes[dtype].whole(element, 1, &number, 1);
  return number;
}

/* -- Tiles --------------------------------------------------------------------------- */

/* The elements' own memory if they are contiguous, else NULL. */
static char *side_by_side(const rg_walk *walk, int32_t t, int64_t at, int64_t n, int64_t size)
{
  int32_t inner = walk->ndim - 1;
  place p;

  if (walk->stride[t][inner] != size) {
    return NULL;
  }
  if (inner == 0) {
    return walk->data[t] + at * size;
  }
  locate(walk, t, at, &p);
  return p.index[inner] + n <= walk->shape[inner] ? walk->data[t] + p.offset : NULL;
}

const void *rg_tile_load(const rg_walk *walk, int32_t t, int64_t at, int64_t n, int32_t dtype,
                         rg_tile *room)
{
  int64_t size = rg_dtype_bytes(dtype);
  bool narrow = rg_is_narrow(dtype);
  const void *raw = side_by_side(walk, t, at, n, size);

  if (raw == NULL) {
    void *to = narrow ? room->narrow : room->lanes;

    rg_gather(walk, t, at, n, size, to);
    raw = to;
  }
  if (!narrow) {
    return raw;
  }
  rg_simd()->cast->widen[dtype](room->lanes, raw, NULL, n);
  return room->lanes;
}

void *rg_tile_open(const rg_walk *walk, int32_t t, int64_t at, int64_t n, int32_t dtype,
                   rg_tile *room)
{
  void *own = rg_is_narrow(dtype) ? NULL : side_by_side(walk, t, at, n, rg_dtype_bytes(dtype));

  return own != NULL ? own : room->lanes;
}

void rg_tile_close(const rg_walk *walk, int32_t t, int64_t at, int64_t n, int32_t dtype,
                   rg_tile *room, const void *from)
{
  int64_t size = rg_dtype_bytes(dtype);

  if (from != room->lanes) {
    return; /* computed in place */
  }
  if (rg_is_narrow(dtype)) {
    char *own = side_by_side(walk, t, at, n, size);
    void *to = own != NULL ? (void *)own : (void *)room->narrow;

    rg_simd()->cast->narrow[dtype](to, from, NULL, n);
    if (own != NULL) {
      return;
    }
    from = room->narrow;
  }
  rg_scatter(walk, t, at, n, size, from);
}

const void *rg_gathered(const rg_tensor *x, char **room)
{
  rg_walk walk;
  void *to = *room;

  if (rg_is_contiguous(x)) {
    return x->_data;
  }
  rg_walk_init(&walk, (const rg_tensor *const[]){ x }, 1, x->_shape, x->_ndim);
  rg_gather(&walk, 0, 0, x->_count, rg_dtype_bytes(x->_dtype), to);
  *room += rg_round_up(rg_tensor_bytes(x), 64);
  return to;
}
