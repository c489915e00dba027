/* SPDX-License-Identifier: MIT */
/*
** Products of 8-bit factors with scales on the CPU.
**
** i8 is multiplied by our own product of bytes (gemm_i8.c), whose epilogue does the rest; or by
** oneDNN where w is not kept packed, which it reads in place.  It has to multiply bytes into 32
** bits for that (AVX-512 VNNI, AMX): elsewhere it halves a factor so that no sum of two products
** leaves 16 bits, and loses its last place (oneDNN, "Nuances of int8 computations").  What it
** leaves are sums, which are finished in runs that stay in L1.  Zero points, a bias of i32 and
** results of bytes are in the epilogue of our own product alone.
**
** Floats without a scale become rows of i8 first, while they are in the cache.
**
** Every 8-bit float is a number of bf16: their sums are those of products in bf16, which widen them
** as they pack, finished likewise.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/dnnl.h"
#include "cpu/gemm_i8.h"
#include "cpu/path.h"
#include "cpu/quantize.h"
#include "cpu/rows.h"
#include "op/scaled.h"

enum { RUN = 512 }; /* sums finished together: 2 KB */

typedef struct work {
  rg_rows x, y;
  int64_t m, n, k;
  int32_t n_threads;
  bool whole; /* factors are bytes and sums i32, else f32 */
  bool own;   /* which only our own product can do */
  bool keeps; /* w is a weight, whose packed form is kept */
  /* factors of i8, adjacent along k */
  const int8_t *a, *b;
  int64_t lda, ldb;
  /* in the result's own memory where that is f32 */
  void *sums;
  int64_t lds;
  /* f32 without gaps; x_scale is one number where x_step is 0; w_scale has n in any case and, as
  ** bias, whole panels of them */
  float *x_scale, *w_scale, *bias;
  int32_t *whole_bias; /* instead of bias, where that is of i32 */
  int64_t x_step;
  int32_t act, dtype;
  uint8_t flip; /* of the bytes of x */
  int32_t x_zero, y_zero;
  float y_scale;
  rg_dnnl *dnnl; /* or NULL: our own product, */
  rg_i8_product bytes;
  rg_i8_packed packed;
  void *scratch; /* of either */
  rg_block room;
} work;

/* -- Numbers beside the factors ------------------------------------------------------------- */

/* The scales of rows, in their order. */
static void gather_scale(const rg_tensor *s, int64_t n, float *to)
{
  if (rg_is_contiguous(s)) {
    memcpy(to, s->_data, (size_t)n * sizeof(float));
    return;
  }
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

static rg_status gather(work *w, const rg_call *call)
{
  const rg_tensor *x_scale = call->in[2];
  const rg_tensor *w_scale = call->in[3];
  const rg_tensor *b = call->n_in > 4 ? call->in[4] : NULL;

  if (x_scale != NULL) {
    gather_scale(x_scale, w->x_step == 0 ? 1 : w->m, w->x_scale);
  }
  gather_scale(w_scale, w_scale->_count == 1 ? 1 : w->n, w->w_scale);
  for (int64_t j = 1; j < w->n && w_scale->_count == 1; j++) {
    w->w_scale[j] = w->w_scale[0];
  }
  if (w->bias != NULL) {
    rg_run_f32(b->_data, b->_dtype, 0, b->_stride[0], w->n, w->bias);
  }
  for (int64_t j = w->n; j < rg_round_up(w->n, RG_PANEL); j++) {
    w->w_scale[j] = 0;
    if (w->bias != NULL) {
      w->bias[j] = 0;
    }
  }
  if (w->whole_bias == NULL) {
    return RG_OK;
  }
  memset(w->whole_bias, 0, (size_t)rg_round_up(w->n, RG_PANEL) * sizeof(int32_t));
  return rg_i8_whole_bias(call, 0, w->n, w->k, w->whole_bias);
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

static rg_dnnl_array matrix(int64_t rows, int64_t cols, int64_t row, int64_t col, int32_t dtype)
{
  return (rg_dnnl_array){
    .size = { rows, cols }, .stride = { row, col }, .ndim = 2, .dtype = dtype, .inner = dtype
  };
}

/* Is it the library's work, and does it multiply bytes exactly?  Our own kernels pack w, which
** takes 0.1 to 0.65 of the time of a product that comes once. */
static bool wants_dnnl(const work *w)
{
  int32_t path = rg_modes_now()->gemm;

  return w->whole && !w->own && w->k > 0 &&
         (path == RG_GEMM_ONEDNN || (path == RG_GEMM_AUTO && !w->keeps)) && rg_dnnl_adds_bytes();
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

/* Rows of x; the signs of i8 are flipped, since our own kernels read unsigned bytes. */
static void fill_rows(const void *context, const rg_i8_kernels *kernels, int64_t i0, int64_t i1,
                      uint8_t *to, int64_t ld)
{
  const work *w = context;
  const uint8_t *from = (const uint8_t *)w->x.data + i0 * w->x.row;

  for (int64_t i = i0; i < i1; i++, from += w->x.row, to += ld) {
    if (w->x.col == 1) {
      kernels->row(to, from, w->k, w->flip);
      continue;
    }
    for (int64_t l = 0; l < w->k; l += RUN) { /* whole steps */
      int64_t n = rg_min_i64(RUN, w->k - l);
      uint8_t some[RUN];

      for (int64_t q = 0; q < n; q++) {
        some[q] = from[(l + q) * w->x.col];
      }
      kernels->row(to + l * kernels->width, some, n, w->flip);
    }
  }
}

/* As the product is before there is room. */
static void describe_own(work *w)
{
  w->bytes = (rg_i8_product){ .m = w->m,
                              .n = w->n,
                              .k = w->k,
                              .n_threads = w->n_threads,
                              .fill = fill_rows,
                              .context = w,
                              .offset = w->flip + w->x_zero,
                              .x_step = w->x_step,
                              .act = w->act,
                              .dtype = w->dtype,
                              .y_scale = w->y_scale,
                              .y_zero = w->y_zero,
                              .y = w->y.data,
                              .y_row = w->y.row };
}

static rg_status multiply_own(work *w, const rg_call *call, rg_frame *frame)
{
  const rg_tensor *weight = call->in[1];
  const rg_i8_weight b = { .data = weight->_data,
                           .storage = weight->_storage,
                           .n = w->n,
                           .n_step = weight->_stride[0],
                           .size = { 1, 1, w->k },
                           .step = { 0, 0, w->k == 1 ? 1 : weight->_stride[1] },
                           .keeps = w->keeps };
  rg_status status;

  frame->path = rg_i8_kernels_now()->path;
  w->bytes.x_scale = w->x_scale;
  w->bytes.w_scale = w->w_scale;
  w->bytes.bias = w->bias;
  w->bytes.whole = w->whole_bias;
  RG_TRY(rg_i8_pack(&b, w->n_threads, &w->packed));
  w->bytes.b = w->packed.data;
  status = rg_i8_multiply(&w->bytes, w->scratch);
  rg_i8_unpack(&w->packed);
  return status;
}

static rg_status multiply_dnnl(work *w)
{
  void *const data[] = { [RG_DNNL_SRC] = (void *)(uintptr_t)w->a,
                         [RG_DNNL_WEIGHT] = (void *)(uintptr_t)w->b,
                         [RG_DNNL_BIAS] = NULL,
                         [RG_DNNL_DST] = w->sums };

  rg_waits_for(w->n_threads);
  return rg_dnnl_run(w->dnnl, data, w->scratch);
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

/* Rows of bytes as oneDNN takes them; where they lie otherwise they are copied. */
static rg_status take_rows(work *w, const rg_call *call, int64_t bytes[2])
{
  const rg_tensor *weight = call->in[1];
  bool as_is_x = w->x.col == 1 && w->x.row >= w->k;
  bool as_is_w = (weight->_stride[1] == 1 || w->k == 1) && weight->_stride[0] >= w->k;

  w->lda = as_is_x ? w->x.row : w->k;
  w->ldb = as_is_w ? weight->_stride[0] : w->k;
  if (w->m == 1) { /* one row has no distance to a next one, but oneDNN checks it */
    w->lda = rg_max_i64(w->lda, w->k);
    w->lds = rg_max_i64(w->lds, w->n);
  }
  RG_TRY(find_dnnl(w));
  if (w->dnnl != NULL) {
    bytes[0] = as_is_x ? 0 : rg_round_up(w->m * w->k, 64);
    bytes[1] = as_is_w ? 0 : rg_round_up(w->n * w->k, 64);
  }
  return RG_OK;
}

/* All that is needed for the call, in one block. */
static rg_status take_room(work *w, const rg_call *call)
{
  const rg_tensor *weight = call->in[1];
  bool in_place = w->dtype == RG_F32;
  bool is_own;
  int64_t bytes[2] = { 0, 0 };
  int64_t bytes_s = 0;
  int64_t bytes_x = w->x_scale != NULL ? 0 : rg_round_up((w->x_step == 0 ? 1 : w->m) * 4, 64);
  int64_t bytes_w = rg_round_up(w->n, RG_PANEL) * 4;
  int64_t bytes_scratch = 0;
  char *at;

  w->lds = in_place ? w->y.row : w->n;
  RG_TRY(take_rows(w, call, bytes));
  is_own = w->whole && w->dnnl == NULL;
  if (is_own) {
    describe_own(w);
    bytes_scratch = rg_i8_room(&w->bytes);
  } else {
    bytes_s = in_place ? 0 : rg_round_up(w->m * w->n * 4, 64);
    bytes_scratch = w->dnnl == NULL ? 0 : rg_round_up(rg_dnnl_scratch_bytes(w->dnnl), 64);
  }
  RG_TRY(rg_block_alloc(
      RG_CPU, bytes[0] + bytes[1] + bytes_s + bytes_x + 2 * bytes_w + bytes_scratch, &w->room));
  at = w->room.data;
  w->scratch = at;
  at += bytes_scratch;
  w->a = bytes[0] == 0 ? w->x.data : (int8_t *)at;
  at += bytes[0];
  w->b = bytes[1] == 0 ? weight->_data : (int8_t *)at;
  at += bytes[1];
  w->sums = in_place ? w->y.data : at;
  at += bytes_s;
  if (bytes_x > 0) {
    w->x_scale = (float *)(void *)at;
    at += bytes_x;
  }
  w->w_scale = (float *)(void *)at;
  at += bytes_w;
  if (call->n_in > 4 && call->in[4] != NULL) {
    bool is_whole = call->in[4]->_dtype == RG_I32;

    w->bias = is_whole ? NULL : (float *)(void *)at;
    w->whole_bias = is_whole ? (int32_t *)(void *)at : NULL;
  }
  if (bytes[0] > 0) {
    copy_rows(w->x.data, w->x.row, w->x.col, w->m, w->k, (int8_t *)(uintptr_t)w->a);
  }
  if (bytes[1] > 0) {
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
  RG_TRY(gather(w, call));
  if (w->whole && w->dnnl == NULL) {
    RG_TRY(multiply_own(w, call, frame));
  } else {
    frame->path = "onednn";
    RG_TRY(w->whole ? multiply_dnnl(w) : multiply_floats(w, call, frame));
    RG_TRY(rg_parallel(n_finish, w->m, finish, w));
  }
  if (w->y.copied) {
    rg_rows_write(&w->y);
  }
  return RG_OK;
}

/* x as rows: its own, or those of i8 that floats become, with scales of their own, in the call's
** scratch. */
static rg_status take_x(work *w, const rg_call *call, void *scratch)
{
  const rg_tensor *x = call->in[0];

  if (call->in[2] != NULL) {
    return rg_rows_begin(x, &w->x);
  }
  w->x_scale = scratch;
  w->x = (rg_rows){ .data = (char *)scratch + rg_round_up(w->m * (int64_t)sizeof(float), 64),
                    .count = w->m,
                    .row = w->k,
                    .col = 1 };
  return rg_rows_to_bytes(x, w->x.data, w->x_scale);
}

static void describe(work *w, const rg_call *call, const rg_tensor *y)
{
  const rg_scaled_args *args = call->args;
  const rg_tensor *y_scale = call->n_in > 5 ? call->in[5] : NULL;
  bool has_whole_bias = call->n_in > 4 && call->in[4] != NULL && call->in[4]->_dtype == RG_I32;

  w->act = args->act;
  w->dtype = args->dtype;
  w->x_zero = (int32_t)args->x_zero;
  w->y_zero = (int32_t)args->y_zero;
  w->y_scale = y_scale != NULL ? *(const float *)y_scale->_data : 0;
  w->whole = call->in[1]->_dtype == RG_I8;
  w->flip = call->in[0]->_dtype == RG_U8 ? 0 : 0x80;
  w->own = w->flip == 0 || w->x_zero != 0 || y_scale != NULL || has_whole_bias;
  w->n = call->in[1]->_shape[0];
  w->k = call->in[1]->_shape[1];
  w->keeps = (call->in[1]->_flags & RG_TENSOR_PARAM) != 0;
  w->m = y->_count / w->n;
  w->x_step = call->in[2] != NULL && call->in[2]->_count == 1 ? 0 : 1;
  w->n_threads = rg_threads_for(2.0 * (double)w->m * (double)w->n * (double)w->k);
}

rg_status rg_cpu_scaled_linear(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  work w;
  rg_status status;

  memset(&w, 0, sizeof(w));
  if (out[0]->_count == 0) {
    return RG_OK;
  }
  describe(&w, call, out[0]);
  status = take_x(&w, call, frame->scratch);
  if (status == RG_OK) {
    status = rg_rows_begin_out(out[0], &w.y);
  }
  if (status == RG_OK) {
    status = run(&w, call, frame);
  }
  if (w.room.data != NULL) {
    rg_block_free(&w.room);
  }
  rg_rows_end(&w.y);
  rg_rows_end(&w.x);
  return status;
}
