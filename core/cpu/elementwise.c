/* SPDX-License-Identifier: MIT */
/*
** A loop over whole tensors.  Three ways, by what the tensors look like:
**
**   run    everything side by side: the loop itself, in pieces if it is long
**   rows   long rows with unit stride, some inputs repeated: the loop on each row
**   tiles  anything else (strides, short rows, half types): runs of RG_TILE elements are brought
**          together, computed and taken back (core/cpu/tile.c)
**
** The pieces are the same for any number of threads.
*/
#include "cpu/cpu.h"

enum {
  PIECE = 16384,     /* elements between two looks at the interrupt flag */
  SHORTEST_ROW = 32, /* below it the loop's start-up costs more than bringing rows together */
  NARROW_PIECE = 4096
};

/* -- Run ------------------------------------------------------------------------------ */

typedef struct run_work {
  rg_loop *loop;
  char *y;
  const char *a;
  const char *b;
  int64_t n;
  int64_t y_size;
  int64_t a_size; /* 0: one element for all */
  int64_t b_size;
} run_work;

static bool run_job(void *work, int64_t begin, int64_t end)
{
  const run_work *w = work;

  for (int64_t i = begin; i < end; i++) {
    int64_t at = i * PIECE;

    if (rg_interrupt_pending()) {
      return false;
    }
    w->loop(w->y + at * w->y_size, w->a + at * w->a_size, w->b + at * w->b_size,
            rg_min_i64(PIECE, w->n - at));
  }
  return true;
}

/* x has every element of the result, in its order, side by side. */
static inline bool is_run(const rg_tensor *x, int64_t n)
{
  return x->_count == n && rg_is_contiguous(x);
}

static rg_status __attribute__((noinline)) map_long(const rg_map *map, rg_loop *loop, const void *a,
                                                    int64_t a_size, const void *b, int64_t b_size)
{
  int64_t n = map->y->_count;

  return rg_parallel(rg_threads_for(map->weight * (double)n), (n + PIECE - 1) / PIECE, run_job,
                     &(run_work){ .loop = loop,
                                  .y = map->y->_data,
                                  .a = a,
                                  .b = b,
                                  .n = n,
                                  .y_size = rg_dtype_bytes(map->y->_dtype),
                                  .a_size = a_size,
                                  .b_size = b_size });
}

static inline rg_status map_run(const rg_map *map, rg_loop *loop, const void *a, int64_t a_size,
                                const void *b, int64_t b_size)
{
  if (map->y->_count <= PIECE) {
    loop(map->y->_data, a, b, map->y->_count);
    return RG_OK;
  }
  return map_long(map, loop, a, a_size, b, b_size);
}

/* -- Rows ------------------------------------------------------------------------------- */

typedef struct row_work {
  const rg_map *map;
  rg_walk walk;
  int32_t form;   /* which loop, where b or a stands still along a row */
  int64_t row;    /* elements of a row */
  int64_t rows;   /* of the walk */
  int64_t pieces; /* of a row that is longer than a piece, else 1 */
  int64_t group;  /* rows done together, where they are shorter */
} row_work;

/* The walk's position: an index for each outer axis, a byte offset for each tensor. */
typedef struct row_place {
  int64_t index[RG_MAX_DIMS];
  int64_t offset[RG_WALK_MAX];
} row_place;

static void row_locate(const rg_walk *walk, int64_t row, row_place *p)
{
  rg_walk_row(walk, row, p->offset);
  for (int32_t i = walk->ndim - 2; i >= 0; i--) {
    p->index[i] = row % walk->shape[i];
    row /= walk->shape[i];
  }
}

static void row_next(const rg_walk *walk, row_place *p)
{
  for (int32_t i = walk->ndim - 2; i >= 0; i--) {
    bool wraps = ++p->index[i] == walk->shape[i];

    for (int32_t t = 0; t < walk->n; t++) {
      p->offset[t] += walk->stride[t][i] * (wraps ? 1 - walk->shape[i] : 1);
    }
    if (!wraps) {
      return;
    }
    p->index[i] = 0;
  }
}

/* n elements from column at on of the row at p. */
static void row_part(const row_work *w, const row_place *p, int64_t at, int64_t n)
{
  const rg_map *map = w->map;
  const rg_walk *walk = &w->walk;
  const char *x[RG_WALK_MAX];

  for (int32_t t = 0; t < walk->n; t++) {
    x[t] = walk->data[t] + p->offset[t] + at * walk->stride[t][walk->ndim - 1];
  }
  if (map->b != NULL) {
    map->loops[w->form]((char *)x[0], x[1], x[2], n);
  } else if (map->one_form == RG_FORM_ONE_RUN) {
    map->loops[w->form]((char *)x[0], map->one, x[1], n);
  } else {
    map->loops[w->form]((char *)x[0], x[1], map->one, n);
  }
}

static bool row_job(void *work, int64_t begin, int64_t end)
{
  const row_work *w = work;
  row_place p;

  for (int64_t i = begin; i < end; i++) {
    int64_t row = i / w->pieces * w->group;
    int64_t last = rg_min_i64(row + w->group, w->rows);
    int64_t at = i % w->pieces * PIECE;

    if (rg_interrupt_pending()) {
      return false;
    }
    row_locate(&w->walk, row, &p);
    for (; row < last; row++) {
      row_part(w, &p, at, rg_min_i64(PIECE, w->row - at));
      row_next(&w->walk, &p);
    }
  }
  return true;
}

/* The form for a row where each input moves by its size or stands still; -1: neither. */
static int32_t row_form(const rg_map *map, const rg_walk *walk)
{
  int32_t inner = walk->ndim - 1;
  const rg_tensor *const xs[] = { map->y, map->a, map->b };
  bool still[RG_WALK_MAX] = { false };

  for (int32_t t = 0; t < walk->n; t++) {
    int64_t stride = walk->stride[t][inner];

    still[t] = t > 0 && stride == 0;
    if (rg_is_narrow(xs[t]->_dtype) || (!still[t] && stride != rg_dtype_bytes(xs[t]->_dtype))) {
      return -1;
    }
  }
  if (map->b == NULL) {
    return still[1] ? -1 : map->one != NULL ? map->one_form : RG_FORM_RUN_RUN;
  }
  return still[1] && still[2] ? -1
         : still[2]           ? RG_FORM_RUN_ONE
         : still[1]           ? RG_FORM_ONE_RUN
                              : RG_FORM_RUN_RUN;
}

/* -- Tiles -------------------------------------------------------------------------------- */

typedef struct tile_work {
  const rg_map *map;
  rg_walk walk;
} tile_work;

static void tile(const rg_map *map, const rg_walk *walk, int64_t at, int64_t n, rg_tile room[3])
{
  int32_t form = map->one != NULL ? map->one_form : RG_FORM_RUN_RUN;
  void *y = rg_tile_open(walk, 0, at, n, map->y->_dtype, &room[0]);
  const void *a = rg_tile_load(walk, 1, at, n, map->a->_dtype, &room[1]);
  const void *b =
      map->b != NULL ? rg_tile_load(walk, 2, at, n, map->b->_dtype, &room[2]) : map->one;

  if (form == RG_FORM_ONE_RUN) {
    map->loops[form](y, b, a, n);
  } else {
    map->loops[form](y, a, b, n);
  }
  rg_tile_close(walk, 0, at, n, map->y->_dtype, &room[0], y);
}

static bool tile_job(void *work, int64_t begin, int64_t end)
{
  const tile_work *w = work;
  rg_tile room[3];

  for (int64_t i = begin; i < end; i++) {
    int64_t last = rg_min_i64((i + 1) * NARROW_PIECE, w->walk.count);

    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t at = i * NARROW_PIECE; at < last; at += RG_TILE) {
      tile(w->map, &w->walk, at, rg_min_i64(RG_TILE, last - at), room);
    }
  }
  return true;
}

/* -- Choosing -------------------------------------------------------------------------------- */

/* The first way, if it is open: *done tells.  Cheap, since most calls are short. */
static inline rg_status try_run(const rg_map *map, bool *done)
{
  const rg_tensor *x = map->a;
  const rg_tensor *y = map->b;
  int64_t n = map->y->_count;
  int64_t size;

  *done = true;
  if (!rg_is_contiguous(map->y) ||
      (!map->raw && (rg_is_narrow(x->_dtype) || rg_is_narrow(map->y->_dtype)))) {
    *done = false;
    return RG_OK;
  }
  size = rg_dtype_bytes(x->_dtype);
  if (y == NULL && is_run(x, n)) {
    if (map->one != NULL && map->one_form == RG_FORM_ONE_RUN) {
      return map_run(map, map->loops[RG_FORM_ONE_RUN], map->one, 0, x->_data, size);
    }
    return map_run(map, map->loops[map->one != NULL ? RG_FORM_RUN_ONE : 0], x->_data, size,
                   map->one, 0);
  }
  if (y != NULL && is_run(x, n) && is_run(y, n)) {
    return map_run(map, map->loops[RG_FORM_RUN_RUN], x->_data, size, y->_data, size);
  }
  if (y != NULL && is_run(x, n) && y->_count == 1) {
    return map_run(map, map->loops[RG_FORM_RUN_ONE], x->_data, size, y->_data, 0);
  }
  if (y != NULL && is_run(y, n) && x->_count == 1) {
    return map_run(map, map->loops[RG_FORM_ONE_RUN], x->_data, 0, y->_data, size);
  }
  *done = false;
  return RG_OK;
}

/* The other two; apart, so that the first does not pay for their room on the stack. */
static rg_status __attribute__((noinline)) map_strided(const rg_map *map)
{
  const rg_tensor *xs[] = { map->y, map->a, map->b };
  row_work rows;
  tile_work tiles;

  rows.map = map;
  rg_walk_init(&rows.walk, xs, map->b != NULL ? 3 : 2, map->y->_shape, map->y->_ndim);
  int32_t threads = rg_threads_for(map->weight * (double)rows.walk.count);

  rows.row = rows.walk.shape[rows.walk.ndim - 1];
  rows.form = rows.row >= SHORTEST_ROW ? row_form(map, &rows.walk) : -1;
  if (rows.form >= 0) {
    rows.rows = rg_walk_rows(&rows.walk);
    rows.pieces = (rows.row + PIECE - 1) / PIECE;
    rows.group = rg_max_i64(PIECE / rows.row, 1);
    return rg_parallel(threads, (rows.rows + rows.group - 1) / rows.group * rows.pieces, row_job,
                       &rows);
  }
  tiles.map = map;
  tiles.walk = rows.walk;
  return rg_parallel(threads, (rows.walk.count + NARROW_PIECE - 1) / NARROW_PIECE, tile_job,
                     &tiles);
}

rg_status rg_map_run(const rg_map *map)
{
  bool done;

  if (map->y->_count == 0) {
    return RG_OK;
  }
  RG_TRY(try_run(map, &done));
  return done ? RG_OK : map_strided(map);
}
