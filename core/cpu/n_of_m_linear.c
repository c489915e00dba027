/* SPDX-License-Identifier: MIT */
/*
** Products with weights of which n of each m inputs are there on the CPU.
**
** Rows of x are read in whole windows: where the last one is not whole, or x is no f32, from a copy
** with zeros behind each row.  Up to four of them are multiplied at a time; threads share the
** outputs.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/n_of_m_dot.h"
#include "cpu/product.h"
#include "cpu/rows.h"
#include "op/n_of_m_linear.h"

extern const rg_n_of_m_kernels rg_n_of_m_kernels_base;
#if defined(__x86_64__)
extern const rg_n_of_m_kernels rg_n_of_m_kernels_avx2;
extern const rg_n_of_m_kernels rg_n_of_m_kernels_avx512;
#endif

static const rg_n_of_m_kernels *kernels_now(void)
{
#if defined(__x86_64__)
  if (rg_isa() >= RG_ISA_AVX2) {
    return rg_isa() >= RG_ISA_AVX512 ? &rg_n_of_m_kernels_avx512 : &rg_n_of_m_kernels_avx2;
  }
#endif
  return &rg_n_of_m_kernels_base;
}

typedef struct work {
  const rg_call *call;
  rg_n_of_m_dot *const *dot;
  int64_t m, k, n;           /* rows of x, its columns, outputs */
  int64_t windows, each;     /* of a row of x, entries of a window */
  int64_t index_step, bytes; /* of sixteen outputs: bytes of the index, and of the values */
  int32_t n_threads;
  int32_t act, dtype;
  const float *x;
  int64_t ldx;
  const uint8_t *index;
  const char *values;
  float *bias; /* or NULL */
  rg_rows y;
} work;

/* -- What is read ------------------------------------------------------------------------------ */

static int64_t room_for(const rg_call *call, const work *w)
{
  int64_t bytes = w->m * w->windows * RG_WINDOW * 4 + rg_round_up(w->n * 4, 64);

  for (int32_t i = 1; i <= 2; i++) {
    bytes += rg_is_contiguous(call->in[i]) ? 0 : rg_round_up(rg_tensor_bytes(call->in[i]), 64);
  }
  return bytes;
}

static void take(work *w, const rg_rows *x, char *room)
{
  const rg_call *call = w->call;
  const rg_tensor *b = call->n_in > 3 ? call->in[3] : NULL;
  int64_t wide = w->windows * RG_WINDOW;
  bool as_is = call->in[0]->_dtype == RG_F32 && x->col == 1 && w->k == wide;
  float *to = (float *)(void *)room;

  w->x = as_is ? x->data : to;
  w->ldx = as_is ? x->row : wide;
  for (int64_t i = 0; i < w->m && !as_is; i++) {
    rg_run_f32(x->data, call->in[0]->_dtype, i * x->row, x->col, w->k, to + i * wide);
    memset(to + i * wide + w->k, 0, (size_t)(wide - w->k) * sizeof(float));
  }
  room += w->m * wide * 4;
  if (b != NULL) {
    w->bias = (float *)(void *)room;
    rg_run_f32(b->_data, b->_dtype, 0, b->_stride[0], w->n, w->bias);
  }
  room += rg_round_up(w->n * 4, 64);
  w->index = rg_gathered(call->in[1], &room);
  w->values = rg_gathered(call->in[2], &room);
}

/* -- Products ---------------------------------------------------------------------------------- */

/* Outputs 16 t and up, of all rows. */
static void outputs_of(const work *w, int64_t t)
{
  int64_t some = rg_min_i64(RG_WINDOW, w->n - t * RG_WINDOW);
  int64_t size = rg_dtype_bytes(w->dtype);
  int64_t step;

  for (int64_t i = 0; i < w->m; i += step) {
    float sums[RG_N_OF_M_ROWS * RG_WINDOW];

    step = rg_min_i64(RG_N_OF_M_ROWS, w->m - i);
    w->dot[step](w->windows, w->each, w->index + t * w->index_step, w->values + t * w->bytes,
                 w->x + i * w->ldx, w->ldx, sums);
    for (int64_t s = 0; s < step; s++) {
      float *y = sums + s * RG_WINDOW;

      for (int64_t j = 0; j < some && w->bias != NULL; j++) {
        y[j] += w->bias[t * RG_WINDOW + j];
      }
      rg_activate(w->act, RG_LANE_F32, y, some);
      rg_lanes_narrow(w->dtype, (char *)w->y.data + ((i + s) * w->y.row + t * RG_WINDOW) * size, y,
                      some);
    }
  }
}

static bool share(void *context, int64_t begin, int64_t end)
{
  enum { STOP_EVERY = 8 };
  const work *w = context;
  int64_t tiles = rg_windows(w->n);

  for (int64_t s = begin; s < end; s++) {
    for (int64_t t = tiles * s / w->n_threads; t < tiles * (s + 1) / w->n_threads; t++) {
      if (t % STOP_EVERY == 0 && rg_interrupt_pending()) {
        return false;
      }
      outputs_of(w, t);
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
  status = rg_parallel(w->n_threads, w->n_threads, share, w);
  if (status == RG_OK && w->y.copied) {
    rg_rows_write(&w->y);
  }
  rg_block_free(&room);
  return status;
}

rg_status rg_cpu_n_of_m_linear(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_n_of_m_linear_args *args = call->args;
  const rg_tensor *x = call->in[0];
  const rg_tensor *values = call->in[2];
  const rg_n_of_m_kernels *kernels = kernels_now();
  rg_rows rows = { 0 };
  rg_status status;
  work w = { .call = call,
             .dot = values->_dtype == RG_BF16 ? kernels->bf16 : kernels->f32,
             .k = x->_shape[x->_ndim - 1],
             .n = args->rows,
             .index_step = call->in[1]->_shape[1] * RG_WINDOW,
             .bytes = values->_shape[1] * RG_WINDOW * rg_dtype_bytes(values->_dtype),
             .act = args->act,
             .dtype = args->dtype };

  if (out[0]->_count == 0) {
    return RG_OK;
  }
  w.m = out[0]->_count / w.n;
  w.windows = rg_windows(w.k);
  w.each = w.windows > 0 ? values->_shape[1] / w.windows : 0;
  w.n_threads = rg_threads_for(call->op->cost(call).flops);
  frame->path = "own:n_of_m";
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
