/* SPDX-License-Identifier: MIT */
/*
** Copies: between any strides, with broadcasting and conversion.  A copy that exchanges axes goes
** through square blocks, so that both sides touch each cache line once.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "op/copy.h"

enum {
  PIECE_BYTES = 65536, /* between two looks at the interrupt flag */
  SQUARE = 32          /* 32 x 32 elements of 8 bytes are 8 KB, a sixth of L1 */
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

/* Copy a block of rows x columns; steps in bytes, y's columns and x's rows side by side. */
#define SQUARE_COPY(T)                                                                          \
  for (int64_t r = 0; r < rows; r++) {                                                          \
    for (int64_t c = 0; c < columns; c++) {                                                     \
      memcpy(y + r * y_row + c * (int64_t)sizeof(T), x + r * (int64_t)sizeof(T) + c * x_column, \
             sizeof(T));                                                                        \
    }                                                                                           \
  }                                                                                             \
  break

static void square(char *y, int64_t y_row, const char *x, int64_t x_column, int64_t rows,
                   int64_t columns, int64_t size)
{
  switch (size) {
  case 1:
    SQUARE_COPY(uint8_t);
  case 2:
    SQUARE_COPY(uint16_t);
  case 4:
    SQUARE_COPY(uint32_t);
  default:
    SQUARE_COPY(uint64_t);
  }
}

/* Item i is one band of SQUARE rows of one of the matrices that the last two axes make. */
static bool exchange_job(void *work, int64_t begin, int64_t end)
{
  const copy_work *w = work;
  const rg_walk *walk = &w->walk;
  int32_t c_axis = walk->ndim - 1;
  int32_t r_axis = walk->ndim - 2;
  int64_t bands = (walk->shape[r_axis] + SQUARE - 1) / SQUARE;
  int64_t matrix = walk->shape[r_axis] * walk->shape[c_axis];

  for (int64_t i = begin; i < end; i++) {
    int64_t row = i % bands * SQUARE;
    int64_t at = i / bands * matrix + row * walk->shape[c_axis];
    char *y = walk->data[0] + rg_walk_offset(walk, 0, at);
    const char *x = walk->data[1] + rg_walk_offset(walk, 1, at);

    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t c = 0; c < walk->shape[c_axis]; c += SQUARE) {
      square(y + c * w->size, walk->stride[0][r_axis], x + c * walk->stride[1][c_axis],
             walk->stride[1][c_axis], rg_min_i64(SQUARE, walk->shape[r_axis] - row),
             rg_min_i64(SQUARE, walk->shape[c_axis] - c), w->size);
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
      w.walk.stride[1][last - 1] == w.size && w.walk.shape[last] >= 4 &&
      w.walk.shape[last - 1] >= 4) {
    int64_t bands = (w.walk.shape[last - 1] + SQUARE - 1) / SQUARE;
    int64_t matrix = w.walk.shape[last] * w.walk.shape[last - 1];

    return rg_parallel(threads, w.walk.count / matrix * bands, exchange_job, &w);
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
