/* SPDX-License-Identifier: MIT */
/*
** Products with weights most of which are 0 on the CPU.
**
** Columns are looked at before they are read by: what lies outside is an error and no memory of
** somebody else.  Up to four rows of x are multiplied at a time; of single values more of them are
** brought side by side, sixteen at a time, so that a value meets as many.  Threads share the rows
** of w.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/product.h"
#include "cpu/rows.h"
#include "cpu/sparse_dot.h"
#include "op/sparse_linear.h"

extern const rg_sparse_kernels rg_sparse_kernels_base;
#if defined(__x86_64__)
extern const rg_sparse_kernels rg_sparse_kernels_avx2;
extern const rg_sparse_kernels rg_sparse_kernels_avx512;
#endif

static const rg_sparse_kernels *kernels_now(void)
{
#if defined(__x86_64__)
  if (rg_isa() >= RG_ISA_AVX2) {
    return rg_isa() >= RG_ISA_AVX512 ? &rg_sparse_kernels_avx512 : &rg_sparse_kernels_avx2;
  }
#endif
  return &rg_sparse_kernels_base;
}

typedef struct work {
  const rg_call *call;
  const rg_sparse_kernels *kernels;
  int64_t m, k, rows; /* rows of x, its columns, rows of the weight or of blocks of them */
  int64_t block;      /* outputs of a row: 1 or 16 */
  int32_t n_threads;
  int32_t act, dtype;
  /* all without gaps */
  const float *x;
  float *across; /* or, where it is not NULL, x[row / 16][column][row % 16] */
  const int32_t *offset, *column;
  const float *values;
  float *bias; /* or NULL */
  rg_rows y;
} work;

/* -- What is read ------------------------------------------------------------------------------ */

static bool goes_across(const work *w)
{
  return w->block == 1 && w->m > RG_SPARSE_ROWS;
}

static int64_t room_for(const rg_call *call, const work *w)
{
  int64_t bytes = rg_round_up(w->m * w->k * 4, 64) + rg_round_up(w->rows * w->block * 4, 64);

  if (goes_across(w)) {
    bytes += rg_round_up(w->m, RG_SPARSE_BLOCK) * w->k * 4;
  }

  for (int32_t i = 1; i <= 3; i++) {
    bytes += rg_is_contiguous(call->in[i]) ? 0 : rg_round_up(rg_tensor_bytes(call->in[i]), 64);
  }
  return bytes;
}

/* Sixteen rows of x side by side; behind the last one zeros. */
static void turn_x(const work *w)
{
  memset(w->across, 0, (size_t)(rg_round_up(w->m, RG_SPARSE_BLOCK) * w->k) * sizeof(float));
  for (int64_t i = 0; i < w->m; i++) {
    float *to = w->across + i / RG_SPARSE_BLOCK * RG_SPARSE_BLOCK * w->k + i % RG_SPARSE_BLOCK;

    for (int64_t l = 0; l < w->k; l++) {
      to[l * RG_SPARSE_BLOCK] = w->x[i * w->k + l];
    }
  }
}

static void take(work *w, const rg_rows *x, char *room)
{
  const rg_call *call = w->call;
  const rg_tensor *b = call->n_in > 4 ? call->in[4] : NULL;
  bool as_is = call->in[0]->_dtype == RG_F32 && x->col == 1 && x->row == w->k;
  float *to = (float *)(void *)room;

  w->x = as_is ? x->data : to;
  for (int64_t i = 0; i < w->m && !as_is; i++) {
    rg_run_f32(x->data, call->in[0]->_dtype, i * x->row, x->col, w->k, to + i * w->k);
  }
  room += rg_round_up(w->m * w->k * 4, 64);
  if (b != NULL) {
    w->bias = (float *)(void *)room;
    rg_run_f32(b->_data, b->_dtype, 0, b->_stride[0], w->rows * w->block, w->bias);
  }
  room += rg_round_up(w->rows * w->block * 4, 64);
  if (goes_across(w)) {
    w->across = (float *)(void *)room;
    room += rg_round_up(w->m, RG_SPARSE_BLOCK) * w->k * 4;
    turn_x(w);
  }
  w->offset = rg_gathered(call->in[1], &room);
  w->column = rg_gathered(call->in[2], &room);
  w->values = rg_gathered(call->in[3], &room);
}

/* Do the rows follow each other over all entries, and do columns lie inside x? */
static rg_status check(const work *w)
{
  int64_t n = w->call->in[2]->_count;
  const char *name = w->call->op->name;

  if (w->offset[0] != 0 || w->offset[w->rows] != n) {
    return rg_fail(RG_EARG, "%s: offsets go from %d to %d, wanted 0 to %lld, the number of columns",
                   name, w->offset[0], w->offset[w->rows], (long long)n);
  }
  for (int64_t r = 0; r < w->rows; r++) {
    if (w->offset[r + 1] < w->offset[r] || w->offset[r + 1] > n) {
      return rg_fail(RG_EARG, "%s: offset %lld is %d, behind one of %d", name, (long long)r + 2,
                     w->offset[r + 1], w->offset[r]);
    }
  }
  if (w->k > INT32_MAX || !w->kernels->inside(w->column, n, (int32_t)w->k)) {
    return rg_fail(RG_EARG, "%s: a column is outside of 0 .. %lld", name, (long long)w->k - 1);
  }
  return RG_OK;
}

/* -- Products ---------------------------------------------------------------------------------- */

static void row_of(const work *w, int64_t r)
{
  int64_t first = w->offset[r];
  int64_t n = w->offset[r + 1] - first;
  int64_t size = rg_dtype_bytes(w->dtype);
  rg_sparse_dot *const *dot = w->block > 1 ? w->kernels->block : w->kernels->one;
  int64_t step;

  for (int64_t i = 0; i < w->m; i += step) {
    float sums[RG_SPARSE_ROWS * RG_SPARSE_BLOCK];

    step = rg_min_i64(RG_SPARSE_ROWS, w->m - i);
    dot[step](n, w->column + first, w->values + first * w->block, w->x + i * w->k, w->k, sums);
    for (int64_t s = 0; s < step; s++) {
      float *y = sums + s * RG_SPARSE_BLOCK;

      for (int64_t j = 0; j < w->block && w->bias != NULL; j++) {
        y[j] += w->bias[r * w->block + j];
      }
      rg_activate(w->act, RG_LANE_F32, y, w->block);
      rg_lanes_narrow(w->dtype, (char *)w->y.data + ((i + s) * w->y.row + r * w->block) * size, y,
                      w->block);
    }
  }
}

/* Results of one output for sixteen rows of x at a time. */
static void column_of(const work *w, int64_t r)
{
  int64_t first = w->offset[r];
  int64_t n = w->offset[r + 1] - first;
  int64_t size = rg_dtype_bytes(w->dtype);

  for (int64_t i = 0; i < w->m; i += RG_SPARSE_BLOCK) {
    int64_t some = rg_min_i64(RG_SPARSE_BLOCK, w->m - i);
    float sums[RG_SPARSE_BLOCK];

    w->kernels->across(n, w->column + first, w->values + first, w->across + i * w->k,
                       RG_SPARSE_BLOCK, sums);
    for (int64_t s = 0; s < some && w->bias != NULL; s++) {
      sums[s] += w->bias[r];
    }
    rg_activate(w->act, RG_LANE_F32, sums, some);
    for (int64_t s = 0; s < some; s++) {
      rg_lanes_narrow(w->dtype, (char *)w->y.data + ((i + s) * w->y.row + r) * size, sums + s, 1);
    }
  }
}

static bool share(void *context, int64_t begin, int64_t end)
{
  enum { STOP_EVERY = 64 };
  const work *w = context;

  for (int64_t t = begin; t < end; t++) {
    for (int64_t r = w->rows * t / w->n_threads; r < w->rows * (t + 1) / w->n_threads; r++) {
      if (r % STOP_EVERY == 0 && rg_interrupt_pending()) {
        return false;
      }
      if (w->across != NULL) {
        column_of(w, r);
      } else {
        row_of(w, r);
      }
    }
  }
  return !rg_interrupt_pending();
}

static rg_status run(work *w, rg_rows *x)
{
  rg_block room = { 0 };
  rg_status status;

  RG_TRY(rg_block_alloc(RG_CPU, room_for(w->call, w), &room));
  if (x->copied) {
    rg_rows_read(x);
  }
  take(w, x, room.data);
  status = check(w);
  if (status == RG_OK) {
    status = rg_parallel(w->n_threads, w->n_threads, share, w);
  }
  if (status == RG_OK && w->y.copied) {
    rg_rows_write(&w->y);
  }
  rg_block_free(&room);
  return status;
}

rg_status rg_cpu_sparse_linear(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_sparse_linear_args *args = call->args;
  const rg_tensor *x = call->in[0];
  rg_rows rows = { 0 };
  rg_status status;
  work w = { .call = call,
             .kernels = kernels_now(),
             .k = x->_shape[x->_ndim - 1],
             .rows = call->in[1]->_shape[0] - 1,
             .block = call->in[3]->_ndim == 2 ? RG_SPARSE_BLOCK : 1,
             .act = args->act,
             .dtype = args->dtype };

  if (out[0]->_count == 0) {
    return RG_OK;
  }
  w.m = out[0]->_count / (w.rows * w.block);
  w.n_threads = rg_threads_for(call->op->cost(call).flops);
  frame->path = w.block > 1 ? "own:blocks" : "own:rows";
  status = rg_rows_begin(x, &rows);
  if (status == RG_OK) {
    status = rg_rows_begin_out(out[0], &w.y);
  }
  if (status == RG_OK) {
    status = run(&w, &rows);
  }
  rg_rows_end(&w.y);
  rg_rows_end(&rows);
  return status;
}
