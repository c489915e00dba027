/* SPDX-License-Identifier: MIT */
/*
** Gathering rows by index on the CPU.  Taking is spread over rows; adding up over columns, so that
** a row that comes twice is added in one order, whatever the number of threads.
*/
#include <stdatomic.h>
#include <string.h>

#include "cpu/cpu.h"
#include "op/take.h"

typedef struct take_work {
  rg_walk x;     /* the table, or what is added up */
  rg_walk index; /* all numbers in a row */
  const rg_tensor *numbers;
  const rg_call *call;
  char *to;
  int32_t dtype;
  int64_t size;          /* of an element of x, or of a lane */
  int64_t rows;          /* of the table */
  int64_t n;             /* numbers */
  int64_t row;           /* elements in a row */
  int64_t piece;         /* columns or rows in one item of work */
  _Atomic int64_t wrong; /* the first number that is none of a row; n: none */
} take_work;

static int64_t number_at(const take_work *w, int64_t i)
{
  return rg_integer_at(&w->index, 0, i, w->numbers->_dtype);
}

static bool is_row(take_work *w, int64_t i, int64_t number)
{
  int64_t seen;

  if (number >= 0 && number < w->rows) {
    return true;
  }
  seen = atomic_load(&w->wrong);
  while (i < seen && !atomic_compare_exchange_weak(&w->wrong, &seen, i)) {
  }
  return false;
}

static rg_status check_numbers(const take_work *w)
{
  int64_t i = atomic_load(&w->wrong);

  if (i == w->n) {
    return RG_OK;
  }
  return rg_fail(RG_EARG, "%s: number %lld at place %lld is no row; they go from 0 to %lld",
                 w->call->op->name, (long long)number_at(w, i), (long long)i + 1,
                 (long long)w->rows - 1);
}

/* Where rows are empty there is nothing to move, but numbers to check. */
static rg_status check_all(take_work *w)
{
  for (int64_t i = 0; i < w->n; i++) {
    if (rg_stops(i)) {
      return rg_fail(RG_EINTR, "interrupted");
    }
    (void)is_row(w, i, number_at(w, i));
  }
  return check_numbers(w);
}

static void begin_work(take_work *w, const rg_call *call, int64_t rows)
{
  const rg_tensor *x = call->in[0];

  w->call = call;
  w->numbers = call->in[1];
  w->dtype = x->_dtype;
  w->size = rg_dtype_bytes(x->_dtype);
  w->rows = rows;
  w->n = w->numbers->_count;
  atomic_init(&w->wrong, w->n);
  rg_walk_init(&w->x, &x, 1, x->_shape, x->_ndim);
  rg_walk_init(&w->index, &w->numbers, 1, w->numbers->_shape, w->numbers->_ndim);
}

/* -- Taking ------------------------------------------------------------------------------- */

static bool take_job(void *work, int64_t begin, int64_t end)
{
  take_work *w = work;

  for (int64_t i = begin * w->piece; i < rg_min_i64(end * w->piece, w->n); i++) {
    int64_t number = number_at(w, i);
    bool is_there = is_row(w, i, number);

    for (int64_t at = 0; at < w->row; at += RG_LOOK) {
      if (rg_interrupt_pending()) {
        return false;
      }
      if (is_there) {
        rg_gather(&w->x, 0, number * w->row + at, rg_min_i64(RG_LOOK, w->row - at), w->size,
                  w->to + (i * w->row + at) * w->size);
      }
    }
  }
  return true;
}

rg_status rg_cpu_take(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const int64_t elements = 16384;
  take_work w = { .to = out[0]->_data };

  (void)frame;
  begin_work(&w, call, call->in[0]->_shape[0]);
  if (w.n == 0) {
    return RG_OK;
  }
  w.row = out[0]->_count / w.n;
  if (w.row == 0) {
    return check_all(&w);
  }
  w.piece = elements / rg_max_i64(w.row, 1) + 1;
  RG_TRY(rg_parallel(rg_threads_for((double)out[0]->_count), (w.n + w.piece - 1) / w.piece,
                     take_job, &w));
  return check_numbers(&w);
}

/* -- Adding up ------------------------------------------------------------------------------ */

static bool back_job(void *work, int64_t begin, int64_t end)
{
  take_work *w = work;
  int32_t lane = rg_lane_of(w->dtype);
  rg_loop *add = rg_simd()->binary->loop[0][lane][RG_FORM_RUN_RUN];
  rg_tile room;

  for (int64_t i = 0; i < w->n; i++) {
    int64_t number = number_at(w, i);

    if (rg_interrupt_pending()) {
      return false;
    }
    if (!is_row(w, i, number)) {
      continue;
    }
    for (int64_t at = begin * RG_TILE;
         at < rg_min_i64(end * RG_TILE, w->row) && !rg_interrupt_pending(); at += RG_TILE) {
      int64_t n = rg_min_i64(RG_TILE, w->row - at);
      char *to = w->to + (number * w->row + at) * w->size;

      add(to, to, rg_tile_load(&w->x, 0, i * w->row + at, n, w->dtype, &room), n);
    }
  }
  return !rg_interrupt_pending(); /* the last row may have ended early */
}

rg_status rg_cpu_take_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_take_args *args = call->args;
  bool half = rg_is_half(call->in[0]->_dtype);
  take_work w = { .to = half ? frame->scratch : out[0]->_data };

  begin_work(&w, call, args->rows);
  w.size = rg_lane_bytes(rg_lane_of(w.dtype));
  w.row = w.n > 0 ? call->in[0]->_count / w.n : 0;
  if (w.row == 0 && out[0]->_count > 0) {
    memset(out[0]->_data, 0, (size_t)rg_tensor_bytes(out[0]));
  }
  if (w.row == 0) {
    return check_all(&w);
  }
  memset(w.to, 0, (size_t)(out[0]->_count * w.size));
  RG_TRY(rg_parallel(rg_threads_for((double)call->in[0]->_count), (w.row + RG_TILE - 1) / RG_TILE,
                     back_job, &w));
  if (half) {
    rg_lanes_narrow(w.dtype, out[0]->_data, w.to, out[0]->_count);
  }
  return check_numbers(&w);
}
