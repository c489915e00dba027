/* SPDX-License-Identifier: MIT */
/*
** Products with weights of a few bits on the CPU.
**
** Up to four rows of x are multiplied by codes as these are opened in registers, bytes as bytes,
** and one row of f32 by vpdpbusd where it is (core/cpu/packed_digits.c): what crosses memory are
** the few bits.  For more rows 32 rows of w are opened into a panel of our own f32 product, as far
** along the inner axis as stays in L2, so that what opening costs is shared by all rows.  Sums are
** in f32; threads share the rows of w.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/gemm_i8.h"
#include "cpu/packed_dot.h"
#include "cpu/rows.h"
#include "op/packed_linear.h"

extern const rg_packed_kernels rg_packed_kernels_base;
#if defined(__x86_64__)
extern const rg_packed_kernels rg_packed_kernels_avx2;
extern const rg_packed_kernels rg_packed_kernels_avx512;
#endif

static const rg_packed_kernels *kernels_now(void)
{
#if defined(__x86_64__)
  if (rg_isa() >= RG_ISA_AVX2) {
    return rg_isa() >= RG_ISA_AVX512 ? &rg_packed_kernels_avx512 : &rg_packed_kernels_avx2;
  }
#endif
  return &rg_packed_kernels_base;
}

/* -- Codes ------------------------------------------------------------------------------------- */

/* Code i of a block: each plane's share. */
static uint8_t code_at(int32_t bits, const uint8_t *block, int32_t i)
{
  int32_t code = 0;

  if (bits == 8) {
    return block[i];
  }
  if (bits == 4 || bits == 6) {
    code = block[i % 16] >> (i / 16 * 4) & 15;
    block += 16;
  }
  if (bits != 4) {
    code |= (block[i % 8] >> (i / 8 * 2) & 3) << (bits == 6 ? 4 : 0);
    block += 8;
  }
  if (bits == 3) {
    code |= (block[i / 8] >> (i % 8) & 1) << 2;
  }
  return (uint8_t)code;
}

/* Into a block of zeros. */
static void set_code(int32_t bits, uint8_t *block, int32_t i, int32_t code)
{
  if (bits == 8) {
    block[i] = (uint8_t)code;
    return;
  }
  if (bits == 4 || bits == 6) {
    block[i % 16] = (uint8_t)(block[i % 16] | (code & 15) << (i / 16 * 4));
    block += 16;
  }
  if (bits != 4) {
    int32_t two = code >> (bits == 6 ? 4 : 0) & 3;

    block[i % 8] = (uint8_t)(block[i % 8] | two << (i / 8 * 2));
    block += 8;
  }
  if (bits == 3) {
    block[i / 8] = (uint8_t)(block[i / 8] | (code >> 2 & 1) << (i % 8));
  }
}

/* Blocks of codes and of bytes, one behind the other in row-major order. */
typedef struct planes {
  rg_walk codes;
  rg_walk packed;
  int64_t bytes; /* of a block */
} planes;

static planes planes_of(const rg_tensor *codes, const rg_tensor *packed, int32_t bits)
{
  planes p = { .bytes = 4 * (int64_t)bits };

  rg_walk_init(&p.codes, (const rg_tensor *const[]){ codes }, 1, codes->_shape, codes->_ndim);
  rg_walk_init(&p.packed, (const rg_tensor *const[]){ packed }, 1, packed->_shape, packed->_ndim);
  return p;
}

rg_status rg_cpu_pack_bits(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  int32_t bits = ((const rg_pack_bits_args *)call->args)->bits;
  planes p = planes_of(call->in[0], out[0], bits);

  (void)frame;
  for (int64_t b = 0; b < call->in[0]->_count / RG_CODES; b++) {
    uint8_t codes[RG_CODES];
    uint8_t block[RG_CODES] = { 0 };

    if (rg_interrupt_pending()) {
      return rg_fail(RG_EINTR, "interrupted");
    }
    rg_gather(&p.codes, 0, b * RG_CODES, RG_CODES, 1, codes);
    for (int32_t i = 0; i < RG_CODES; i++) {
      if (codes[i] >> bits != 0) {
        return rg_fail(RG_EARG, "%s: code %d at %lld does not fit into %d bits", call->op->name,
                       codes[i], (long long)(b * RG_CODES + i + 1), bits);
      }
      set_code(bits, block, i, codes[i]);
    }
    rg_scatter(&p.packed, 0, b * p.bytes, p.bytes, 1, block);
  }
  return RG_OK;
}

rg_status rg_cpu_unpack_bits(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  int32_t bits = ((const rg_pack_bits_args *)call->args)->bits;
  planes p = planes_of(out[0], call->in[0], bits);

  (void)frame;
  for (int64_t b = 0; b < out[0]->_count / RG_CODES; b++) {
    uint8_t codes[RG_CODES];
    uint8_t block[RG_CODES];

    if (rg_interrupt_pending()) {
      return rg_fail(RG_EINTR, "interrupted");
    }
    rg_gather(&p.packed, 0, b * p.bytes, p.bytes, 1, block);
    for (int32_t i = 0; i < RG_CODES; i++) {
      codes[i] = code_at(bits, block, i);
    }
    rg_scatter(&p.codes, 0, b * RG_CODES, RG_CODES, 1, codes);
  }
  return RG_OK;
}

/* -- The product ------------------------------------------------------------------------------- */

enum {
  /* Weights of a row that are opened at a time, 32 rows of them twice: 128 KB, and where there is
  ** no AVX-512 256 KB.  What is read next is foreseen the sooner the longer they are: on Zen 3,
  ** 4096 x 4096 for 32 rows, 128, 256, 512 and 1024 had 0.63, 0.75, 0.90 and 0.93 .. 1.05 of the
  ** speed of f32. */
  DEPTH = 512,
  DEPTH_MOST = 1024,
  APART = DEPTH_MOST + 16, /* of those rows: at 4 KB they would fall into two sets of L1 */
  WIDENED = 1024           /* scales that are brought to f32 at a time, of four rows at least */
};

typedef struct work {
  const rg_call *call;
  const rg_packed_linear_args *args;
  const rg_packed_kernels *kernels;
  int64_t m, n, k, groups;
  int32_t n_threads;
  float less;
  const float *x;                 /* rows without gaps; */
  const rg_packed_bytes *bytes;   /* or, where this is not NULL, */
  const int8_t *q;                /* as bytes; */
  const rg_packed_digits *digits; /* or, where this is not NULL, */
  const void *taken;              /* as digits */
  float *totals; /* of each group of each row of x, where there is a min or x is of bytes */
  rg_rows y;
  const rg_tensor *w, *scale, *min, *bias, *x_scale;
  char *room; /* of each thread */
  int64_t room_bytes;
} work;

/* What a thread has: scales and minima of some rows of w, sums, and for many rows of x w as it is
** opened. */
typedef struct place {
  float *scale, *min, *sums, *rows, *panel;
} place;

/* Rows of w whose scales are brought to f32 at a time, and numbers that they take. */
static int64_t rows_widened(const work *w)
{
  int64_t rows = WIDENED / w->groups / RG_PACKED_ROWS * RG_PACKED_ROWS;

  return rg_max_i64(RG_PACKED_ROWS, rg_min_i64(rows, RG_PANEL));
}

static int64_t widened(const work *w)
{
  return w->groups == 0 ? 0 : rg_round_up(rows_widened(w) * w->groups, 16);
}

static int64_t place_bytes(const work *w)
{
  int64_t opened = w->m > RG_PACKED_ROWS ? (int64_t)RG_PANEL * (APART + DEPTH_MOST) : 0;

  return rg_round_up((2 * widened(w) + w->m * RG_PANEL + opened) * (int64_t)sizeof(float), 64);
}

static place place_of(const work *w, int64_t thread)
{
  float *at = (float *)(void *)(w->room + thread * w->room_bytes);
  float *sums = at + 2 * widened(w);

  return (place){ .scale = at,
                  .min = at + widened(w),
                  .sums = sums,
                  .rows = sums + w->m * RG_PANEL,
                  .panel = sums + w->m * RG_PANEL + RG_PANEL * APART };
}

/* The numbers of groups g0 .. g1 of row j, from f16. */
static void widen_groups(const rg_tensor *from, int64_t j, int64_t g0, int64_t g1, float *to)
{
  const uint16_t *row = (const uint16_t *)from->_data + j * from->_stride[0];

  if (from->_stride[1] == 1) {
    rg_simd()->cast->widen[RG_F16](to, row + g0, NULL, g1 - g0);
    return;
  }
  for (int64_t g = g0; g < g1; g++) {
    rg_simd()->cast->widen[RG_F16](to + g - g0, row + g * from->_stride[1], NULL, 1);
  }
}

/* All groups of some rows from j on, one row behind the other. */
static void widen_rows(const work *w, const rg_tensor *from, int64_t j, int64_t rows, float *to)
{
  if (from->_stride[1] == 1 && from->_stride[0] == w->groups) {
    const uint16_t *first = (const uint16_t *)from->_data + j * w->groups;

    rg_simd()->cast->widen[RG_F16](to, first, NULL, rows * w->groups);
    return;
  }
  for (int64_t r = 0; r < rows; r++) {
    widen_groups(from, j + r, 0, w->groups, to + r * w->groups);
  }
}

static rg_packed_row row_of(const work *w, const place *at, int64_t j, int64_t g0, int64_t g1)
{
  return (rg_packed_row){ .w = (const uint8_t *)w->w->_data + j * w->w->_stride[0] +
                               g0 * w->args->group / 8 * w->args->bits,
                          .scale = at->scale,
                          .w_step = w->w->_stride[0],
                          .groups = g1 - g0,
                          .group = w->args->group,
                          .less = w->less };
}

/* -- Few rows -- */

/* What is added to the sums of row r of x and some rows of w: what minima make of it, or what codes
** that are multiplied as they are have too much. */
static void add_more(const work *w, const float *scale, const float *min, int64_t r, int64_t some,
                     float *sums)
{
  const float *totals = w->totals + r * w->groups;
  float by = w->min != NULL ? 1 : -w->less;
  float more[RG_PACKED_ROWS];

  if (w->min == NULL && w->bytes == NULL) {
    return;
  }
  rg_gemm_kernels_now()->dots(more, totals, w->min != NULL ? min : scale, w->groups, w->groups,
                              some);
  for (int64_t o = 0; o < some; o++) {
    sums[o] += by * more[o];
  }
}

static void sums_of(const work *w, const rg_packed_row *row, int64_t r, bool four, float *sums)
{
  int32_t bits = w->args->bits;

  if (w->digits != NULL) {
    (four ? w->digits->four : w->digits->one)(row, w->taken, sums);
  } else if (w->bytes != NULL) {
    (four ? w->bytes->four[bits] : w->bytes->one[bits])(row, w->q + r * w->k, sums);
  } else {
    (four ? w->kernels->four[bits] : w->kernels->dot[bits][1])(row, w->x + r * w->k, w->k, sums);
  }
}

/* Rows of x one by one, and columns of the result four at a time, for which x is read once. */
static void singly(const work *w, const place *at, int64_t j0, int64_t columns)
{
  int64_t most = rows_widened(w);
  int64_t some;

  for (int64_t c = 0; c < columns; c += some) {
    const float *scale = at->scale + c % most * w->groups;
    const float *min = at->min + c % most * w->groups;
    rg_packed_row row = row_of(w, at, j0 + c, 0, w->groups);

    if (c % most == 0) {
      widen_rows(w, w->scale, j0 + c, rg_min_i64(most, columns - c), at->scale);
      if (w->min != NULL) {
        widen_rows(w, w->min, j0 + c, rg_min_i64(most, columns - c), at->min);
      }
    }
    some = columns - c >= RG_PACKED_ROWS ? RG_PACKED_ROWS : 1;
    row.scale = scale;
    row.scale_step = w->groups;
    for (int64_t r = 0; r < w->m; r++) {
      float *sums = at->sums + r * RG_PANEL + c;

      sums_of(w, &row, r, some > 1, sums);
      add_more(w, scale, min, r, some, sums);
    }
  }
}

static void few(const work *w, const place *at, int64_t j, float *sums)
{
  rg_packed_row row = row_of(w, at, j, 0, w->groups);
  float y[RG_PACKED_ROWS];

  widen_groups(w->scale, j, 0, w->groups, at->scale);
  if (w->min != NULL) {
    widen_groups(w->min, j, 0, w->groups, at->min);
  }
  w->kernels->dot[w->args->bits][w->m](&row, w->x, w->k, y);
  for (int64_t r = 0; r < w->m; r++) {
    sums[r * RG_PANEL] = y[r];
    add_more(w, at->scale, at->min, r, 1, sums + r * RG_PANEL);
  }
}

/* -- Many rows -- */

static void many(const work *w, const place *at, int64_t j0, int64_t columns)
{
  const rg_gemm_kernels *gemm = rg_gemm_kernels_now();
  int64_t of_depth = (rg_isa() >= RG_ISA_AVX512 ? DEPTH : DEPTH_MOST) / w->args->group;

  for (int64_t g0 = 0; g0 < w->groups; g0 += of_depth) {
    int64_t g1 = rg_min_i64(g0 + of_depth, w->groups);
    int64_t depth = (g1 - g0) * w->args->group;
    int64_t step;

    for (int64_t c = 0; c < columns; c++) {
      rg_packed_row row = row_of(w, at, j0 + c, g0, g1);

      widen_groups(w->scale, j0 + c, g0, g1, at->scale);
      if (w->min != NULL) {
        widen_groups(w->min, j0 + c, g0, g1, at->min);
      }
      w->kernels->open[w->args->bits](&row, w->min != NULL ? at->min : NULL, at->rows + c * APART);
    }
    gemm->transpose(at->panel, at->rows, APART, depth, columns);
    for (int64_t i = 0; i < w->m; i += step) {
      step = rg_min_i64(gemm->rows_most, w->m - i);
      gemm->tile[step](depth, w->x + i * w->k + g0 * w->args->group, w->k, at->panel,
                       at->sums + i * RG_PANEL, RG_PANEL, g0 > 0, at->panel);
    }
  }
}

/* -- What follows -- */

static void finish(const work *w, float *sums, int64_t j0, int64_t columns)
{
  float bias[RG_PANEL];
  int64_t size = rg_dtype_bytes(w->args->dtype);

  if (w->bias != NULL) {
    rg_run_f32(w->bias->_data, w->bias->_dtype, j0 * w->bias->_stride[0], w->bias->_stride[0],
               columns, bias);
  }
  for (int64_t i = 0; i < w->m; i++, sums += RG_PANEL) {
    float scale = w->x_scale == NULL ? 1 : w->totals[w->m * w->groups + i];

    for (int64_t c = 0; c < columns; c++) {
      sums[c] = sums[c] * scale + (w->bias != NULL ? bias[c] : 0);
    }
    rg_activate(w->args->act, RG_LANE_F32, sums, columns);
    rg_lanes_narrow(w->args->dtype, (char *)w->y.data + (i * w->y.row + j0) * size, sums, columns);
  }
}

/* One thread's share of the panels. */
static bool share(void *context, int64_t begin, int64_t end)
{
  const work *w = context;
  int64_t panels = (w->n + RG_PANEL - 1) / RG_PANEL;

  for (int64_t t = begin; t < end; t++) {
    place at = place_of(w, t);

    for (int64_t p = panels * t / w->n_threads; p < panels * (t + 1) / w->n_threads; p++) {
      int64_t j0 = p * RG_PANEL;
      int64_t columns = rg_min_i64(RG_PANEL, w->n - j0);

      if (rg_interrupt_pending()) {
        return false;
      }
      if (w->groups == 0) {
        memset(at.sums, 0, (size_t)(w->m * RG_PANEL) * sizeof(float));
      } else if (w->m > RG_PACKED_ROWS) {
        many(w, &at, j0, columns);
      } else if (w->m == 1 || w->bytes != NULL) {
        singly(w, &at, j0, columns);
      } else {
        for (int64_t c = 0; c < columns; c++) {
          few(w, &at, j0 + c, at.sums + c);
        }
      }
      finish(w, at.sums, j0, columns);
    }
  }
  return true;
}

/* -- What is read -- */

/* Where number i of the rows of x has its scale. */
static float scale_at(const rg_tensor *s, int64_t i)
{
  int64_t at = 0;

  for (int32_t d = s->_ndim - 1; d >= 0 && s->_count > 1; d--) {
    at += i % s->_shape[d] * s->_stride[d];
    i /= s->_shape[d];
  }
  return ((const float *)s->_data)[at];
}

/* Row i of x in f32, from bytes. */
static void widen_row(const work *w, const rg_rows *x, int64_t i, float *to)
{
  const int8_t *from = (const int8_t *)x->data + i * x->row;

  for (int64_t l = 0; l < w->k; l++) {
    to[l] = from[l * x->col];
  }
}

static void take_floats(work *w, const rg_rows *x, float *to)
{
  int32_t dtype = w->call->in[0]->_dtype;
  bool as_is = dtype == RG_F32 && x->col == 1 && x->row == w->k;

  w->x = as_is ? x->data : to;
  for (int64_t i = 0; i < w->m && !as_is; i++) {
    if (dtype == RG_I8) {
      widen_row(w, x, i, to + i * w->k);
    } else {
      rg_run_f32(x->data, dtype, i * x->row, x->col, w->k, to + i * w->k);
    }
  }
  for (int64_t i = 0; i < w->m * w->groups && w->min != NULL; i++) {
    rg_simd()->reduce->fold[RG_FOLD_SUM][RG_LANE_F32](w->totals + i, w->x + i * w->args->group,
                                                      w->args->group);
  }
}

static void take_bytes(work *w, const rg_rows *x, int8_t *to)
{
  bool as_is = x->col == 1 && x->row == w->k;

  w->q = as_is ? x->data : to;
  for (int64_t i = 0; i < w->m && !as_is; i++) {
    for (int64_t l = 0; l < w->k; l++) {
      to[i * w->k + l] = ((const int8_t *)x->data)[i * x->row + l * x->col];
    }
  }
  for (int64_t i = 0; i < w->m * w->groups; i++) {
    w->totals[i] = (float)rg_i8_end_now()->total(w->q + i * w->args->group, w->args->group);
  }
}

static int64_t bytes_of_x(const work *w)
{
  return rg_round_up(w->m * w->k * (int64_t)sizeof(float), 64);
}

static int64_t bytes_of_digits(const work *w)
{
  return w->digits == NULL ? 0
                           : (w->k + w->digits->codes - 1) / w->digits->codes * w->digits->bytes;
}

/* Rows of x, the totals of their groups, and their scales. */
static void take_x(work *w, const rg_rows *x, void *to)
{
  if (w->bytes != NULL) {
    take_bytes(w, x, to);
  } else {
    take_floats(w, x, to);
  }
  if (w->digits != NULL && !w->digits->take(w->x, w->k, w->less, (char *)to + bytes_of_x(w))) {
    w->digits = NULL;
  }
  w->taken = (char *)to + bytes_of_x(w);
  for (int64_t i = 0; i < w->m && w->x_scale != NULL; i++) {
    w->totals[w->m * w->groups + i] = scale_at(w->x_scale, i);
  }
}

static rg_status run(work *w, rg_rows *x)
{
  int64_t bytes_x = bytes_of_x(w) + bytes_of_digits(w);
  int64_t bytes_t = rg_round_up(w->m * (w->groups + 1) * (int64_t)sizeof(float), 64);
  rg_block room = { 0 };
  rg_status status;

  w->room_bytes = place_bytes(w);
  RG_TRY(rg_block_alloc(RG_CPU, bytes_x + bytes_t + w->n_threads * w->room_bytes, &room));
  if (x->copied) {
    rg_rows_read(x);
  }
  w->totals = (float *)(void *)((char *)room.data + bytes_x);
  w->room = (char *)room.data + bytes_x + bytes_t;
  take_x(w, x, room.data);
  status = rg_parallel(w->n_threads, w->n_threads, share, w);
  if (status == RG_OK && w->y.copied) {
    rg_rows_write(&w->y);
  }
  rg_block_free(&room);
  return status;
}

/* A weight whose rows have gaps inside is copied. */
static rg_status with_weight(work *w, rg_rows *x)
{
  const rg_tensor *from = w->w;
  rg_tensor copy = rg_tensor_struct(from);
  rg_block room = { 0 };
  rg_status status;

  if (from->_stride[1] == 1 || from->_shape[1] <= 1) {
    return run(w, x);
  }
  RG_TRY(rg_block_alloc(RG_CPU, from->_count, &room));
  copy._data = room.data;
  copy._stride[0] = from->_shape[1];
  copy._stride[1] = 1;
  copy._flags = RG_TENSOR_CONTIGUOUS;
  status = rg_cpu_convert(&copy, from);
  w->w = &copy;
  if (status == RG_OK) {
    status = run(w, x);
  }
  w->w = from;
  rg_block_free(&room);
  return status;
}

rg_status rg_cpu_packed_linear(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_packed_linear_args *args = call->args;
  const rg_tensor *x = call->in[0];
  rg_rows rows = { 0 };
  rg_status status;
  work w = { .call = call,
             .args = args,
             .kernels = kernels_now(),
             .n = call->in[1]->_shape[0],
             .k = x->_shape[x->_ndim - 1],
             .w = call->in[1],
             .scale = call->in[2],
             .min = call->n_in > 3 ? call->in[3] : NULL,
             .bias = call->n_in > 4 ? call->in[4] : NULL,
             .x_scale = call->n_in > 5 ? call->in[5] : NULL };

  if (out[0]->_count == 0) {
    return RG_OK;
  }
  w.m = out[0]->_count / w.n;
  w.groups = w.k / args->group;
  w.less = w.min != NULL ? 0 : (float)(1 << (args->bits - 1));
  w.n_threads = rg_threads_for(2.0 * (double)w.m * (double)w.n * (double)w.k);
  w.bytes = x->_dtype == RG_I8 && w.m <= RG_PACKED_ROWS ? rg_packed_bytes_now() : NULL;
  /* for fewer rows of w, digits take longer than they gain */
  w.digits =
      w.m == 1 && w.n >= RG_PANEL && w.bytes == NULL ? rg_packed_digits_now(args->bits) : NULL;
  status = rg_rows_begin(x, &rows);
  if (status == RG_OK) {
    status = rg_rows_begin_out(out[0], &w.y);
  }
  if (status == RG_OK) {
    status = with_weight(&w, &rows);
  }
  /* behind the run: what no digit can stand for goes by floats */
  frame->path = w.m > RG_PACKED_ROWS ? "own:opened"
                : w.bytes != NULL    ? w.bytes->path
                : w.digits != NULL   ? "own:digits"
                                     : "own:dots";
  rg_rows_end(&w.y);
  rg_rows_end(&rows);
  return status;
}
