/* SPDX-License-Identifier: MIT */
/*
** Copies: between any strides, with broadcasting and conversion.  A copy that exchanges axes goes
** by bands of rows (simd/transpose.c), so that both sides touch each cache line once.
*/
#include "cpu/cpu.h"
#include "op/copy.h"

enum {
  PIECE_BYTES = 65536, /* between two looks at the interrupt flag */
  BAND = 32, /* rows written together: 32 elements of 2 bytes are a line of what is read */
  RUN = 1024 /* columns, likewise between two looks */
};

/* -- Same type ---------------------------------------------------------------------- */

typedef struct copy_work {
  rg_walk walk; /* 0: y, 1: x */
  int64_t size;
  int64_t piece; /* elements */
  bool y_whole;  /* side by side, in the order of the walk */
  bool x_whole;
} copy_work;

static bool copy_job(void *work, int64_t begin, int64_t end)
{
  const copy_work *w = work;
  const rg_walk *walk = &w->walk;
  _Alignas(64) char room[4096];
  int64_t fits = (int64_t)sizeof(room) / w->size;

  for (int64_t i = begin; i < end; i++) {
    int64_t at = i * w->piece;
    int64_t n = rg_min_i64(w->piece, walk->count - at);

    if (rg_interrupt_pending()) {
      return false;
    }
    if (w->y_whole) {
      rg_gather(walk, 1, at, n, w->size, walk->data[0] + at * w->size);
    } else if (w->x_whole) {
      rg_scatter(walk, 0, at, n, w->size, walk->data[1] + at * w->size);
    } else {
      for (int64_t done = 0; done < n; done += fits) {
        int64_t some = rg_min_i64(fits, n - done);

        rg_gather(walk, 1, at + done, some, w->size, room);
        rg_scatter(walk, 0, at + done, some, w->size, room);
      }
    }
  }
  return true;
}

/* -- Exchanged axes -------------------------------------------------------------------- */

/* How many bands the rows of a matrix are cut into: alike, so that each has rows for a tile. */
static int64_t bands_of(int64_t rows)
{
  return (rows + BAND - 1) / BAND;
}

/* Item i is one band of rows of one of the matrices that the last two axes make. */
static bool exchange_job(void *work, int64_t begin, int64_t end)
{
  const copy_work *w = work;
  const rg_walk *walk = &w->walk;
  int32_t c_axis = walk->ndim - 1;
  int32_t r_axis = walk->ndim - 2;
  int64_t rows = walk->shape[r_axis], columns = walk->shape[c_axis];
  int64_t bands = bands_of(rows);
  int64_t x_column = walk->stride[1][c_axis];
  rg_transpose_block *block = rg_simd()->transpose->block[__builtin_ctzll((uint64_t)w->size)];

  for (int64_t i = begin; i < end; i++) {
    int64_t band = i % bands;
    int64_t row = rows * band / bands;
    int64_t n = rows * (band + 1) / bands - row;
    int64_t at = (i / bands * rows + row) * columns;
    char *y = walk->data[0] + rg_walk_offset(walk, 0, at);
    const char *x = walk->data[1] + rg_walk_offset(walk, 1, at);

    for (int64_t c = 0; c < columns; c += RUN) {
      if (rg_interrupt_pending()) {
        return false;
      }
      block(y + c * w->size, walk->stride[0][r_axis], x + c * x_column, x_column, n,
            rg_min_i64(RUN, columns - c));
    }
  }
  return true;
}

static rg_status copy_same(rg_tensor *y, const rg_tensor *x)
{
  copy_work w = { .size = rg_dtype_bytes(y->_dtype) };
  const rg_tensor *xs[] = { y, x };

  rg_walk_init(&w.walk, xs, 2, y->_shape, y->_ndim);
  int32_t last = w.walk.ndim - 1;
  int32_t threads = rg_threads_for(2.0 * (double)w.walk.count);

  if (last > 0 && w.walk.stride[0][last] == w.size && w.walk.stride[1][last] != w.size &&
      w.walk.stride[1][last - 1] == w.size && w.walk.shape[last] >= 2 &&
      w.walk.shape[last - 1] >= 4) {
    int64_t rows = w.walk.shape[last - 1];

    return rg_parallel(threads, w.walk.count / (w.walk.shape[last] * rows) * bands_of(rows),
                       exchange_job, &w);
  }
  w.piece = PIECE_BYTES / w.size;
  w.y_whole = last == 0 ? w.walk.stride[0][0] == w.size : rg_is_contiguous(y);
  w.x_whole = x->_count == y->_count && rg_is_contiguous(x);
  return rg_parallel(threads, (w.walk.count + w.piece - 1) / w.piece, copy_job, &w);
}

/* -- Conversion -------------------------------------------------------------------------- */

/* A narrow type and f32, both side by side: the loop straight from one to the other. */
static rg_loop *const *direct_loop(const rg_tensor *y, const rg_tensor *x)
{
  const rg_simd_cast *cast = rg_simd()->cast;

  if (!rg_is_contiguous(y) || !rg_is_contiguous(x) || x->_count != y->_count) {
    return NULL;
  }
  if (rg_is_narrow(y->_dtype) && x->_dtype == RG_F32) {
    return &cast->narrow[y->_dtype];
  }
  if (rg_is_narrow(x->_dtype) && y->_dtype == RG_F32) {
    return &cast->widen[x->_dtype];
  }
  return NULL;
}

rg_status rg_cpu_convert(rg_tensor *y, const rg_tensor *x)
{
  rg_map map = { .y = y, .a = x, .weight = 2.0 };

  if (y->_count == 0) {
    return RG_OK;
  }
  if (y->_dtype == x->_dtype) {
    return copy_same(y, x);
  }
  map.loops = direct_loop(y, x);
  map.raw = map.loops != NULL;
  if (!map.raw) {
    map.loops = rg_lanes_loop(rg_lane_of(x->_dtype), y->_dtype);
  }
  return rg_map_run(&map);
}

rg_status rg_cpu_copy(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  return rg_cpu_convert(out[0], call->in[0]);
}
