/* SPDX-License-Identifier: MIT */
/*
** Products of 8-bit factors with scales on the CPU: all sums first, then scales, bias, activation
** and conversion over runs of them that stay in L1.
**
** Sums of i8 are oneDNN's where it may multiply bytes into 32 bits (AVX-512 VNNI, AMX): elsewhere
** it halves a factor so that no sum of two products leaves 16 bits, and loses its last place
** (oneDNN, "Nuances of int8 computations").  There, and where it is not wanted, they are a loop.
**
** Every 8-bit float is a number of bf16: their sums are those of products in bf16, which widen them
** as they pack.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/dnnl.h"
#include "cpu/gemm.h"
#include "cpu/path.h"
#include "cpu/rows.h"
#include "op/scaled.h"

enum { RUN = 512 }; /* sums finished together: 2 KB */

typedef struct work {
  rg_rows x, y;
  int64_t m, n, k;
  int32_t n_threads;
  bool whole; /* factors are i8 and sums i32, else f32 */
  /* factors of i8, adjacent along k */
  const int8_t *a, *b;
  int64_t lda, ldb;
  /* in the result's own memory where that is f32 */
  void *sums;
  int64_t lds;
  /* f32 without gaps; x_scale is one number where x_step is 0, w_scale has n in any case */
  float *x_scale, *w_scale, *bias;
  int64_t x_step;
  int32_t act, dtype;
  rg_dnnl *dnnl; /* or NULL */
  void *own;     /* its scratch */
  rg_block room;
} work;

/* -- Numbers beside the factors ------------------------------------------------------------- */

/* The scales of rows, in their order. */
static void gather_scale(const rg_tensor *s, int64_t n, float *to)
{
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = i;
    int64_t at = 0;

    for (int32_t d = s->_ndim - 1; d >= 0; d--) {
      at += rest % s->_shape[d] * s->_stride[d];
      rest /= s->_shape[d];
    }
    to[i] = ((const float *)s->_data)[at];
  }
}

static void gather(work *w, const rg_call *call)
{
  const rg_tensor *x_scale = call->in[2];
  const rg_tensor *w_scale = call->in[3];
  const rg_tensor *b = call->n_in > 4 ? call->in[4] : NULL;

  gather_scale(x_scale, w->x_step == 0 ? 1 : w->m, w->x_scale);
  gather_scale(w_scale, w_scale->_count == 1 ? 1 : w->n, w->w_scale);
  for (int64_t j = 1; j < w->n && w_scale->_count == 1; j++) {
    w->w_scale[j] = w->w_scale[0];
  }
  if (b != NULL) {
    rg_run_f32(b->_data, b->_dtype, 0, b->_stride[0], w->n, w->bias);
  }
}

/* -- Sums -------------------------------------------------------------------------------------- */

/* Rows of bytes without gaps. */
static void copy_rows(const int8_t *from, int64_t row, int64_t col, int64_t rows, int64_t k,
                      int8_t *to)
{
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t l = 0; l < k; l++) {
      to[i * k + l] = from[i * row + l * col];
    }
  }
}

static bool add_up(void *context, int64_t begin, int64_t end)
{
  const work *w = context;
  const rg_gemm_kernels *kernels = rg_gemm_kernels_now();

  for (int64_t i = begin; i < end; i++) {
    if (rg_interrupt_pending()) {
      return false;
    }
    kernels->dots_i8((int32_t *)w->sums + i * w->lds, w->a + i * w->lda, w->b, w->ldb, w->k, w->n);
  }
  return true;
}

static rg_dnnl_array matrix(int64_t rows, int64_t cols, int64_t row, int64_t col, int32_t dtype)
{
  return (rg_dnnl_array){
    .size = { rows, cols }, .stride = { row, col }, .ndim = 2, .dtype = dtype, .inner = dtype
  };
}

/* Are bytes multiplied exactly, and does the user let the library do it? */
static bool wants_dnnl(const work *w)
{
  int32_t path = rg_modes_now()->gemm;

  return w->whole && w->k > 0 && (path == RG_GEMM_AUTO || path == RG_GEMM_ONEDNN) &&
         rg_dnnl_adds_bytes();
}

static rg_status find_dnnl(work *w)
{
  rg_dnnl_spec spec;
  rg_status status;

  if (!wants_dnnl(w)) {
    return RG_OK;
  }
  memset(&spec, 0, sizeof(spec)); /* specs are compared byte by byte */
  spec.kind = RG_DNNL_MATMUL;
  spec.act = RG_ACT_NONE;
  spec.n_threads = w->n_threads;
  spec.array[RG_DNNL_SRC] = matrix(w->m, w->k, w->lda, 1, RG_I8);
  spec.array[RG_DNNL_WEIGHT] = matrix(w->k, w->n, 1, w->ldb, RG_I8);
  spec.array[RG_DNNL_DST] = matrix(w->m, w->n, w->lds, 1, RG_I32);
  status = rg_dnnl_cached(&spec, &w->dnnl);
  return status == RG_ENOSUP ? RG_OK : status; /* it has no such product: the loop does */
}

static rg_status multiply_bytes(work *w, rg_frame *frame)
{
  frame->path = w->dnnl != NULL ? "onednn" : "loop";
  if (w->dnnl != NULL) {
    void *const data[] = { [RG_DNNL_SRC] = (void *)(uintptr_t)w->a,
                           [RG_DNNL_WEIGHT] = (void *)(uintptr_t)w->b,
                           [RG_DNNL_BIAS] = NULL,
                           [RG_DNNL_DST] = w->sums };

    rg_waits_for(w->n_threads);
    return rg_dnnl_run(w->dnnl, data, w->own);
  }
  return rg_parallel(w->n_threads, w->m, add_up, w);
}

static rg_status multiply_floats(work *w, const rg_call *call, rg_frame *frame)
{
  rg_ready r = { .p = { .m = w->m,
                        .n = w->n,
                        .k = w->k,
                        .compute = RG_BF16,
                        .a = w->x.data,
                        .a_dtype = call->in[0]->_dtype,
                        .a_row = w->x.row,
                        .a_col = w->x.col,
                        .b = rg_weight_of(call->in[1], true),
                        .c = w->sums,
                        .c_dtype = RG_F32,
                        .c_row = w->lds,
                        .epilogue = { .scale = 1 } } };
  rg_status status = rg_product_prepare(&r);

  if (status == RG_OK) {
    status = rg_product_go(&r);
    frame->path = r.path;
  }
  rg_product_end(&r);
  return status;
}

/* -- What follows ------------------------------------------------------------------------------ */

static void load_run(const work *w, int64_t at, int64_t n, float *some)
{
  if (w->whole) {
    rg_simd()->cast->loop[RG_LANE_I32][RG_LANE_F32](some, (const int32_t *)w->sums + at, NULL, n);
  } else {
    memcpy(some, (const float *)w->sums + at, (size_t)n * sizeof(float));
  }
}

static void scale_run(const work *w, int64_t i, int64_t j, int64_t n, float *some)
{
  rg_loop *const *mul = rg_simd()->binary->loop[RG_OP_MUL - RG_OP_ADD][RG_LANE_F32];
  rg_loop *const *add = rg_simd()->binary->loop[0][RG_LANE_F32];

  mul[RG_FORM_RUN_ONE](some, some, w->x_scale + i * w->x_step, n);
  mul[RG_FORM_RUN_RUN](some, some, w->w_scale + j, n);
  if (w->bias != NULL) {
    add[RG_FORM_RUN_RUN](some, some, w->bias + j, n);
  }
  rg_activate(w->act, RG_LANE_F32, some, n);
}

static bool finish(void *context, int64_t begin, int64_t end)
{
  const work *w = context;
  int64_t size = rg_dtype_bytes(w->dtype);
  _Alignas(64) float some[RUN];

  for (int64_t i = begin; i < end; i++) {
    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t j = 0; j < w->n; j += RUN) {
      int64_t n = rg_min_i64(RUN, w->n - j);

      load_run(w, i * w->lds + j, n, some);
      scale_run(w, i, j, n, some);
      rg_lanes_narrow(w->dtype, (char *)w->y.data + (i * w->y.row + j) * size, some, n);
    }
  }
  return true;
}

/* -- The kernel -------------------------------------------------------------------------------- */

/* All that is needed for the call, in one block. */
static rg_status take_room(work *w, const rg_call *call)
{
  const rg_tensor *weight = call->in[1];
  bool as_is_x = !w->whole || (w->x.col == 1 && w->x.row >= w->k);
  bool as_is_w =
      !w->whole || ((weight->_stride[1] == 1 || w->k == 1) && weight->_stride[0] >= w->k);
  bool in_place = w->dtype == RG_F32;
  int64_t bytes_a = as_is_x ? 0 : rg_round_up(w->m * w->k, 64);
  int64_t bytes_b = as_is_w ? 0 : rg_round_up(w->n * w->k, 64);
  int64_t bytes_s = in_place ? 0 : rg_round_up(w->m * w->n * 4, 64);
  int64_t bytes_x = rg_round_up((w->x_step == 0 ? 1 : w->m) * 4, 64);
  int64_t bytes_w = rg_round_up(w->n * 4, 64);
  int64_t bytes_own = 0;
  char *at;

  w->lda = as_is_x ? w->x.row : w->k;
  w->ldb = as_is_w ? weight->_stride[0] : w->k;
  w->lds = in_place ? w->y.row : w->n;
  if (w->m == 1) { /* one row has no distance to a next one, but oneDNN checks it */
    w->lda = rg_max_i64(w->lda, w->k);
    w->lds = rg_max_i64(w->lds, w->n);
  }
  RG_TRY(find_dnnl(w));
  if (w->dnnl != NULL) {
    bytes_own = rg_round_up(rg_dnnl_scratch_bytes(w->dnnl), 64);
  }
  RG_TRY(rg_block_alloc(RG_CPU, bytes_a + bytes_b + bytes_s + bytes_x + 2 * bytes_w + bytes_own,
                        &w->room));
  at = w->room.data;
  w->a = as_is_x ? w->x.data : (int8_t *)at;
  at += bytes_a;
  w->b = as_is_w ? weight->_data : (int8_t *)at;
  at += bytes_b;
  w->sums = in_place ? w->y.data : at;
  at += bytes_s;
  w->x_scale = (float *)(void *)at;
  at += bytes_x;
  w->w_scale = (float *)(void *)at;
  at += bytes_w;
  w->bias = call->n_in > 4 && call->in[4] != NULL ? (float *)(void *)at : NULL;
  at += bytes_w;
  w->own = at;
  if (!as_is_x) {
    copy_rows(w->x.data, w->x.row, w->x.col, w->m, w->k, (int8_t *)(uintptr_t)w->a);
  }
  if (!as_is_w) {
    copy_rows(weight->_data, weight->_stride[0], weight->_stride[1], w->n, w->k,
              (int8_t *)(uintptr_t)w->b);
  }
  return RG_OK;
}

static rg_status run(work *w, const rg_call *call, rg_frame *frame)
{
  int32_t n_finish = rg_threads_for(8.0 * (double)w->m * (double)w->n);

  if (w->x.copied) {
    rg_rows_read(&w->x);
  }
  RG_TRY(take_room(w, call));
  gather(w, call);
  RG_TRY(w->whole ? multiply_bytes(w, frame) : multiply_floats(w, call, frame));
  RG_TRY(rg_parallel(n_finish, w->m, finish, w));
  if (w->y.copied) {
    rg_rows_write(&w->y);
  }
  return RG_OK;
}

rg_status rg_cpu_scaled_linear(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_scaled_args *args = call->args;
  work w = { .act = args->act, .dtype = args->dtype, .whole = call->in[0]->_dtype == RG_I8 };
  rg_status status;

  if (out[0]->_count == 0) {
    return RG_OK;
  }
  status = rg_rows_begin(call->in[0], &w.x);
  if (status == RG_OK) {
    status = rg_rows_begin_out(out[0], &w.y);
  }
  if (status == RG_OK) {
    w.n = call->in[1]->_shape[0];
    w.k = call->in[1]->_shape[1];
    w.m = out[0]->_count / w.n;
    w.x_step = call->in[2]->_count == 1 ? 0 : 1;
    w.n_threads = rg_threads_for(2.0 * (double)w.m * (double)w.n * (double)w.k);
    status = run(&w, call, frame);
  }
  if (w.room.data != NULL) {
    rg_block_free(&w.room);
  }
  rg_rows_end(&w.y);
  rg_rows_end(&w.x);
  return status;
}
