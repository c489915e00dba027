/* SPDX-License-Identifier: MIT */
/*
** Padding on the CPU, and its gradient.
**
** For each axis a table says where each element comes from.  A row of the result is what the tables
** of the other axes make of a row of x, whose middle is copied at once.  The gradient is spread
** over the first axes that nothing was done to: what is behind them is added up in one order.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "op/pad.h"

enum {
  GROUP = 16384, /* elements in one item of work, at least */
};

typedef struct pad_work {
  const rg_tensor *x; /* pad: what is padded; pad_back: dx */
  rg_walk wide;       /* the padded one */
  int32_t dtype;
  int32_t ndim;
  int64_t size;
  int64_t n; /* elements in a row of the padded one; rows of it */
  int64_t rows;
  int64_t shape[RG_MAX_DIMS]; /* of the padded one */
  int64_t *from[RG_MAX_DIMS];
  int64_t stride[RG_MAX_DIMS]; /* of the other: bytes, pad_back: lanes */
  int64_t first;               /* the row's own elements: from first to behind */
  int64_t behind;
  int64_t group; /* rows in one item */
  char *data;
  char *direct; /* the result where it is contiguous, or NULL */
  char value[8];
} pad_work;

/* False: Ctrl-C. */
static bool begin_work(pad_work *w, const rg_sizes *low, int32_t mode, const rg_tensor *padded,
                       const int64_t *size, int64_t *tables)
{
  w->ndim = padded->_ndim;
  w->n = w->ndim > 0 ? padded->_shape[w->ndim - 1] : 1;
  w->rows = padded->_count / w->n;
  for (int32_t i = 0; i < w->ndim; i++) {
    w->shape[i] = padded->_shape[i];
    w->from[i] = tables;
    for (int64_t at = 0; at < w->shape[i]; at++) {
      if (rg_stops(at)) {
        return false;
      }
      tables[at] = size[i] > 0 ? rg_pad_from(mode, at - low->at[i], size[i]) : -1;
    }
    tables += w->shape[i];
  }
  w->first = 0;
  w->behind = w->n;
  if (w->ndim > 0) {
    int64_t before = low->at[w->ndim - 1];

    w->first = rg_min_i64(rg_max_i64(before, 0), w->n);
    w->behind = rg_max_i64(w->first, rg_min_i64(w->n, size[w->ndim - 1] + before));
  }
  rg_walk_init(&w->wide, &padded, 1, padded->_shape, padded->_ndim);
  return true;
}

/* Where the row of x begins that row `row` is made of, in what strides count; -1: there is none. */
static int64_t row_at(const pad_work *w, int64_t row)
{
  int64_t offset = 0;

  for (int32_t i = w->ndim - 2; i >= 0; i--) {
    int64_t from = w->from[i][row % w->shape[i]];

    row /= w->shape[i];
    if (from < 0) {
      return -1;
    }
    offset += from * w->stride[i];
  }
  return offset;
}

/* -- Padding ----------------------------------------------------------------------------------- */

#define PICK(T)                                                                                   \
  {                                                                                               \
    T value;                                                                                      \
                                                                                                  \
    memcpy(&value, w->value, sizeof(value));                                                      \
    for (int64_t i = first; i < behind; i++) {                                                    \
      ((T *)to)[i - first] =                                                                      \
          row != NULL && from[i] >= 0 ? *(const T *)(const void *)(row + from[i] * step) : value; \
    }                                                                                             \
  }

/* Elements first .. behind - 1 of a row, by the table; row NULL: constants. */
static void pick(const pad_work *w, const char *row, int64_t first, int64_t behind, void *to)
{
  const int64_t *from = w->ndim > 0 ? w->from[w->ndim - 1] : NULL;
  int64_t step = w->ndim > 0 ? w->stride[w->ndim - 1] : 0;
  static const int64_t only = 0;

  from = from == NULL ? &only : from;
  switch (w->size) {
  case 1:
    PICK(uint8_t)
    break;
  case 2:
    PICK(uint16_t)
    break;
  case 4:
    PICK(uint32_t)
    break;
  default:
    PICK(uint64_t)
    break;
  }
}

/* The same, its middle at once where that is contiguous. */
static void fill_part(const pad_work *w, const char *row, int64_t first, int64_t behind, char *to)
{
  int64_t a = rg_min_i64(rg_max_i64(w->first, first), behind);
  int64_t b = rg_max_i64(a, rg_min_i64(w->behind, behind));
  int64_t step = w->ndim > 0 ? w->stride[w->ndim - 1] : 0;

  if (row == NULL || step != w->size || a == b) {
    pick(w, row, first, behind, to);
    return;
  }
  pick(w, row, first, a, to);
  memcpy(to + (a - first) * w->size, row + w->from[w->ndim - 1][a] * step,
         (size_t)((b - a) * w->size));
  pick(w, row, b, behind, to + (b - first) * w->size);
}

static bool pad_job(void *work, int64_t begin, int64_t end)
{
  const pad_work *w = work;
  _Alignas(64) char room[RG_TILE * 8];

  for (int64_t row = begin * w->group; row < rg_min_i64(end * w->group, w->rows); row++) {
    int64_t offset = row_at(w, row);
    const char *from = offset < 0 ? NULL : w->data + offset;

    for (int64_t at = 0; at < w->n && w->direct != NULL; at += RG_LOOK) {
      if (rg_interrupt_pending()) {
        return false;
      }
      fill_part(w, from, at, rg_min_i64(at + RG_LOOK, w->n),
                w->direct + (row * w->n + at) * w->size);
    }
    for (int64_t at = 0; at < w->n && w->direct == NULL; at += RG_TILE) {
      int64_t n = rg_min_i64(RG_TILE, w->n - at);

      if (rg_interrupt_pending()) {
        return false;
      }
      fill_part(w, from, at, at + n, room);
      rg_scatter(&w->wide, 0, row * w->n + at, n, w->size, room);
    }
  }
  return true;
}

rg_status rg_cpu_pad(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_pad_args *args = call->args;
  const rg_tensor *x = call->in[0];
  rg_tensor *y = out[0];
  pad_work w = { .x = x, .dtype = x->_dtype, .size = rg_dtype_bytes(x->_dtype), .data = x->_data };

  if (y->_count == 0) {
    return RG_OK;
  }
  rg_lane_value one = rg_lane_value_of(x->_dtype, args->value);

  rg_lanes_narrow(x->_dtype, w.value, &one, 1);
  if (!begin_work(&w, &args->low, args->mode, y, x->_shape, frame->scratch)) {
    return rg_fail(RG_EINTR, "interrupted");
  }
  for (int32_t i = 0; i < x->_ndim; i++) {
    w.stride[i] = x->_stride[i] * w.size;
  }
  w.direct = rg_is_contiguous(y) ? y->_data : NULL;
  w.group = rg_max_i64(1, GROUP / w.n);
  return rg_parallel(rg_threads_for((double)y->_count), (w.rows + w.group - 1) / w.group, pad_job,
                     &w);
}

/* -- Back ------------------------------------------------------------------------------------- */

#define ADD(T)                                         \
  {                                                    \
    T *to = (T *)(void *)w->data + offset;             \
                                                       \
    for (int64_t i = 0; i < n; i++) {                  \
      if (from[at + i] >= 0) {                         \
        to[from[at + i] * step] += ((const T *)dy)[i]; \
      }                                                \
    }                                                  \
  }

/* Items are parts along the first axes that nothing was done to. */
static bool back_job(void *work, int64_t begin, int64_t end)
{
  const pad_work *w = work;
  static const int64_t only = 0;
  const int64_t *from = w->ndim > 0 ? w->from[w->ndim - 1] : &only;
  int64_t step = w->ndim > 0 ? w->stride[w->ndim - 1] : 0;
  rg_tile room;

  for (int64_t row = begin * w->group; row < rg_min_i64(end * w->group, w->rows); row++) {
    int64_t offset = row_at(w, row);

    for (int64_t at = 0; at < w->n && offset >= 0; at += RG_TILE) {
      if (rg_interrupt_pending()) {
        return false;
      }
      int64_t n = rg_min_i64(RG_TILE, w->n - at);
      const void *dy = rg_tile_load(&w->wide, 0, row * w->n + at, n, w->dtype, &room);

      if (w->dtype == RG_F64) {
        ADD(double)
      } else {
        ADD(float)
      }
    }
  }
  return true;
}

rg_status rg_cpu_pad_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_pad_back_args *args = call->args;
  const rg_tensor *dy = call->in[0];
  rg_tensor *dx = out[0];
  bool half = rg_is_half(dx->_dtype);
  int64_t lane = dx->_dtype == RG_F64 ? 8 : 4;
  int64_t tables = 0;
  int64_t apart = 1;
  pad_work w = { .dtype = dy->_dtype };
  int64_t next = 1;

  if (dx->_count == 0) {
    return RG_OK;
  }
  for (int32_t i = 0; i < dy->_ndim; i++) {
    tables += dy->_shape[i];
  }
  w.data = half ? (char *)frame->scratch + rg_round_up(tables * (int64_t)sizeof(int64_t), 64)
                : dx->_data;
  memset(w.data, 0, (size_t)(dx->_count * lane));
  if (dy->_count > 0) {
    bool free = true;

    if (!begin_work(&w, &args->low, args->mode, dy, dx->_shape, frame->scratch)) {
      return rg_fail(RG_EINTR, "interrupted");
    }
    for (int32_t i = dx->_ndim - 1; i >= 0; i--) {
      w.stride[i] = next;
      next *= dx->_shape[i];
    }
    for (int32_t i = 0; i < dx->_ndim - 1 && free; i++) {
      free = args->low.at[i] == 0 && args->high.at[i] == 0;
      apart *= free ? dx->_shape[i] : 1;
    }
    w.group = w.rows / apart;
    RG_TRY(rg_parallel(rg_threads_for((double)dy->_count), apart, back_job, &w));
  }
  if (half) {
    rg_lanes_narrow(dx->_dtype, dx->_data, w.data, dx->_count);
  }
  return RG_OK;
}
