/* SPDX-License-Identifier: MIT */
/*
** Pooling of bytes on the CPU.
**
** A row of windows is first folded over the rows of the image that it sees, as long as the image is
** wide, and that run over the columns of each window: with channels last a place of it is a run of
** channels, with channels first one byte.
*/
#include <math.h>
#include <string.h>

#include "cpu/cpu.h"
#include "op/conv.h"
#include "op/scaled_add.h"

typedef struct work {
  const rg_pool2d_options *o;
  bool average;
  int32_t lane;
  int32_t zero;
  int64_t run; /* channels side by side, or 1 */
  int64_t x[2], y[2];
  const uint8_t *in; /* without gaps */
  uint8_t *out;
  char *room; /* a row for each thread */
  int64_t room_bytes;
  int32_t n_threads;
  int64_t planes;
} work;

/* A row of windows may see an image of millions of columns: it ends early at Ctrl-C. */
static bool stops(int64_t j)
{
  return (j & 1023) == 0 && rg_interrupt_pending();
}

/* Rows and columns of the image that window i sees along axis d, first .. last - 1. */
static void sees(const work *w, int d, int64_t i, int64_t *first, int64_t *last)
{
  int64_t start = i * w->o->stride[d] - w->o->pad_low[d];

  *first = rg_max_i64(start, 0);
  *last = rg_min_i64(start + w->o->size[d], w->x[d]);
}

/* -- The largest ------------------------------------------------------------------------------- */

static void max_row(const work *w, const uint8_t *plane, int64_t i, uint8_t *row, uint8_t *to)
{
  rg_loop *larger = rg_simd()->binary->loop[RG_OP_MAXIMUM - RG_OP_ADD][w->lane][RG_FORM_RUN_RUN];
  int64_t wide = w->x[1] * w->run;
  int64_t first, last;

  sees(w, 0, i, &first, &last);
  memcpy(row, plane + first * wide, (size_t)wide);
  for (int64_t r = first + 1; r < last && !rg_interrupt_pending(); r++) {
    larger(row, row, plane + r * wide, wide);
  }
  for (int64_t j = 0; j < w->y[1] && !stops(j); j++, to += w->run) {
    sees(w, 1, j, &first, &last);
    if (w->run > 1) {
      memcpy(to, row + first * w->run, (size_t)w->run);
      for (int64_t c = first + 1; c < last; c++) {
        larger(to, to, row + c * w->run, w->run);
      }
    } else if (w->lane == RG_LANE_I8) {
      int8_t most = (int8_t)row[first];

      for (int64_t c = first + 1; c < last; c++) {
        most = (int8_t)row[c] > most ? (int8_t)row[c] : most;
      }
      *to = (uint8_t)most;
    } else {
      uint8_t most = row[first];

      for (int64_t c = first + 1; c < last; c++) {
        most = row[c] > most ? row[c] : most;
      }
      *to = most;
    }
  }
}

/* -- The average ------------------------------------------------------------------------------- */

static void add_run(const work *w, int32_t *sum, const uint8_t *x, int64_t n)
{
  if (w->lane == RG_LANE_I8) {
    for (int64_t i = 0; i < n; i++) {
      sum[i] += (int8_t)x[i];
    }
  } else {
    for (int64_t i = 0; i < n; i++) {
      sum[i] += x[i];
    }
  }
}

/* Means of n sums.  A quotient in f32 is rounded once, and nearer to it than the next tie as long
** as there are fewer than 2^14 elements; for more it is one in f64.  A mean of bytes is a byte. */
static void to_means(const work *w, const int32_t *sum, int64_t n, int64_t there, int64_t count,
                     uint8_t *to)
{
  enum { FEW = 1 << 14 };
  const float last_place = 12582912.0f; /* adding it rounds to whole numbers, ties to even */
  int32_t more = (int32_t)(count - there) * w->zero;

  if (count < FEW) {
    float by = (float)count;

    for (int64_t i = 0; i < n; i++) {
      float v = (float)(sum[i] + more) / by;

      v = (v + last_place) - last_place;
      to[i] = (uint8_t)(int32_t)v;
    }
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    double v = ((double)sum[i] + (double)(count - there) * w->zero) / (double)count;

    to[i] = (uint8_t)(int32_t)rint(v);
  }
}

static void avg_row(const work *w, const uint8_t *plane, int64_t i, int32_t *row, uint8_t *to)
{
  int64_t wide = w->x[1] * w->run;
  int32_t *sum = row + wide;
  int64_t rows[2], first, last;

  sees(w, 0, i, &rows[0], &rows[1]);
  memset(row, 0, (size_t)wide * sizeof(*row));
  for (int64_t r = rows[0]; r < rows[1] && !rg_interrupt_pending(); r++) {
    add_run(w, row, plane + r * wide, wide);
  }
  for (int64_t j = 0; j < w->y[1] && !stops(j); j++, to += w->run) {
    sees(w, 1, j, &first, &last);
    int64_t there = (rows[1] - rows[0]) * (last - first);

    memcpy(sum, row + first * w->run, (size_t)w->run * sizeof(*sum));
    for (int64_t q = first + 1; q < last; q++) {
      const int32_t *next = row + q * w->run;

      for (int64_t c = 0; c < w->run; c++) {
        sum[c] += next[c];
      }
    }
    to_means(w, sum, w->run, there, w->o->skip_pad != 0 ? there : w->o->size[0] * w->o->size[1],
             to);
  }
}

/* -- The kernel -------------------------------------------------------------------------------- */

static bool share(void *context, int64_t begin, int64_t end)
{
  const work *w = context;
  int64_t rows = w->planes * w->y[0];

  for (int64_t t = begin; t < end; t++) {
    char *room = w->room + t * w->room_bytes;

    for (int64_t i = rows * t / w->n_threads; i < rows * (t + 1) / w->n_threads; i++) {
      const uint8_t *plane = w->in + i / w->y[0] * w->x[0] * w->x[1] * w->run;
      uint8_t *to = w->out + i * w->y[1] * w->run;

      if (rg_interrupt_pending()) {
        return false;
      }
      if (w->average) {
        avg_row(w, plane, i % w->y[0], (int32_t *)(void *)room, to);
      } else {
        max_row(w, plane, i % w->y[0], (uint8_t *)room, to);
      }
    }
  }
  return !rg_interrupt_pending(); /* the last row may have ended early */
}

/* x or y itself, or a tensor without gaps in room. */
static rg_tensor whole(const rg_tensor *x, void *room)
{
  rg_tensor t = rg_tensor_struct(x);
  int64_t stride = 1;

  if (rg_is_contiguous(x)) {
    return t;
  }
  t._data = room;
  t._flags = RG_TENSOR_CONTIGUOUS;
  for (int32_t d = t._ndim - 1; d >= 0; d--) {
    t._stride[d] = stride;
    stride *= t._shape[d];
  }
  return t;
}

static rg_status run(work *w, const rg_tensor *from, rg_tensor *to)
{
  int64_t bytes_x = rg_is_contiguous(from) ? 0 : rg_round_up(from->_count, 64);
  int64_t bytes_y = rg_is_contiguous(to) ? 0 : rg_round_up(to->_count, 64);
  rg_block room = { 0 };
  rg_status status = RG_OK;

  w->room_bytes = rg_round_up((w->x[1] + 1) * w->run * (w->average ? 4 : 1), 64);
  RG_TRY(rg_block_alloc(RG_CPU, bytes_x + bytes_y + w->n_threads * w->room_bytes, &room));
  rg_tensor x = whole(from, room.data);
  rg_tensor y = whole(to, (char *)room.data + bytes_x);

  w->in = x._data;
  w->out = y._data;
  w->room = (char *)room.data + bytes_x + bytes_y;
  if (bytes_x > 0) {
    status = rg_cpu_convert(&x, from);
  }
  if (status == RG_OK) {
    status = rg_parallel(w->n_threads, w->n_threads, share, w);
  }
  if (status == RG_OK && bytes_y > 0) {
    status = rg_cpu_convert(to, &y);
  }
  rg_block_free(&room);
  return status;
}

rg_status rg_cpu_scaled_pool2d(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_scaled_pool2d_args *args = call->args;
  const rg_tensor *x = call->in[0];
  int32_t rows = rg_rows_axis(args->o.layout);
  int64_t channels = x->_shape[rg_channels_axis(args->o.layout)];
  bool last = args->o.layout == RG_NHWC;
  work w = { .o = &args->o,
             .average = args->more.average != 0,
             .lane = rg_lane_of(x->_dtype),
             .zero = (int32_t)args->more.x_zero,
             .run = last ? channels : 1,
             .x = { x->_shape[rows], x->_shape[rows + 1] },
             .y = { out[0]->_shape[rows], out[0]->_shape[rows + 1] },
             .planes = x->_shape[0] * (last ? 1 : channels) };

  (void)frame;
  if (out[0]->_count == 0) {
    return RG_OK;
  }
  w.n_threads = rg_threads_for(call->op->cost(call).flops);
  return run(&w, x, out[0]);
}
