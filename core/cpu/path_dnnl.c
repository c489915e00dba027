/* SPDX-License-Identifier: MIT */
/*
** Products by oneDNN: its primitive found or made, the weight in its packed form, and what it
** cannot do itself (a scale, dropout, f16) done over its f32 result; so are activations but for
** relu and relu6, whose bits are those of the same function called behind the product.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/packed.h"
#include "cpu/path.h"
#include "tensor/half.h"

/* Where things lie in scratch. */
typedef struct layout {
  int64_t a, b, c, own; /* bytes of each; 0: not needed */
} layout;

/* -- Converting ------------------------------------------------------------------------------- */

/* n numbers as the type oneDNN is to read. */
static void write_run(const float *x, int32_t dtype, void *to, int64_t at, int64_t n)
{
  if (dtype == RG_BF16) {
    rg_simd()->cast->narrow[RG_BF16]((uint16_t *)to + at, x, NULL, n);
  } else {
    memcpy((float *)to + at, x, (size_t)n * sizeof(float));
  }
}

static void convert_a(const rg_product *p, int32_t dtype, void *to)
{
  float some[256];

  for (int64_t i = 0; i < p->m && !rg_interrupt_pending(); i++) {
    for (int64_t l = 0; l < p->k; l += 256) {
      int64_t n = rg_min_i64(256, p->k - l);

      rg_run_f32(p->a, p->a_dtype, i * p->a_row + l * p->a_col, p->a_col, n, some);
      write_run(some, dtype, to, i * p->k + l, n);
    }
  }
}

static void convert_b(const rg_weight *w, int32_t dtype, void *to)
{
  float some[256];

  for (int64_t l = 0; l < w->k && !rg_interrupt_pending(); l++) {
    for (int64_t j = 0; j < w->n; j += 256) {
      int64_t n = rg_min_i64(256, w->n - j);

      rg_weight_fetch(w, l, 1, j, n, some, n);
      write_run(some, dtype, to, l * w->n + j, n);
    }
  }
}

/* -- The packed weight ------------------------------------------------------------------------- */

/* A matrix in its own layout. */
static rg_dnnl_array matrix(int64_t rows, int64_t cols, int64_t row, int64_t col, int32_t dtype)
{
  return (rg_dnnl_array){
    .size = { rows, cols }, .stride = { row, col }, .ndim = 2, .dtype = dtype, .inner = dtype
  };
}

static rg_status pack_into(void *context, const rg_dnnl *dnnl, void *to)
{
  const rg_weight *w = context;
  int32_t dtype = rg_dnnl_packed_dtype(dnnl);
  const rg_piece *piece = &w->piece[0];
  rg_dnnl_array lies = matrix(w->k, w->n, piece->row, piece->col, dtype);
  rg_block plain = { 0 };
  rg_status status;

  if (piece->dtype == dtype && (piece->row == 1 || piece->col == 1)) {
    return rg_dnnl_pack(dnnl, &lies, piece->data, to);
  }
  RG_TRY(rg_block_alloc(RG_CPU, w->k * w->n * rg_dtype_bytes(dtype), &plain));
  convert_b(w, dtype, plain.data);
  lies = matrix(w->k, w->n, w->n, 1, dtype);
  status = rg_product_if_whole();
  if (status == RG_OK) {
    status = rg_dnnl_pack(dnnl, &lies, plain.data, to);
  }
  rg_block_free(&plain);
  return status;
}

static rg_status get_packed(rg_ready *r)
{
  rg_weight *w = &r->p.b;
  const rg_piece *piece = &w->piece[0];
  int64_t offset = (const char *)piece->data - (const char *)piece->storage->block.data;
  uint64_t strides = (uint64_t)piece->row << 32 ^ (uint64_t)piece->col;
  uint64_t key[4] = { 0, (uint64_t)offset, (uint64_t)w->k << 32 | (uint64_t)w->n,
                      strides ^ (uint64_t)piece->dtype << 60 };

  return rg_packed_get(piece->storage, key, r->dnnl, pack_into, w, &r->packed, &r->version);
}

/* -- Running ----------------------------------------------------------------------------------- */

static int32_t type_of(const rg_product *p)
{
  bool pairs = p->compute == RG_BF16 && rg_dnnl_reads_bf16();

  return pairs ? RG_BF16 : RG_F32;
}

static bool reads_a(const rg_product *p, int32_t dtype)
{
  return p->a_dtype == dtype &&
         ((p->a_col == 1 && p->a_row >= p->k) || (p->a_row == 1 && p->a_col >= p->m));
}

static bool reads_b(const rg_weight *w, int32_t dtype)
{
  const rg_piece *piece = &w->piece[0];

  return rg_weight_whole(w) && piece->dtype == dtype &&
         ((piece->col == 1 && piece->row >= w->n) || (piece->row == 1 && piece->col >= w->k));
}

/* The library adds a bias in f32, or of the factors' type. */
static bool has_plain_bias(const rg_epilogue *epilogue, int32_t dtype)
{
  const rg_tensor *bias = epilogue->bias;

  return bias == NULL ||
         ((bias->_dtype == RG_F32 || bias->_dtype == dtype) && bias->_stride[0] == 1);
}

static layout layout_of(const rg_ready *r)
{
  const rg_product *p = &r->p;
  int32_t dtype = type_of(p);
  int64_t size = rg_dtype_bytes(dtype);
  layout l = { 0 };

  l.a = reads_a(p, dtype) ? 0 : rg_round_up(p->m * p->k * size, 64);
  l.b = rg_weight_keeps(&p->b) || reads_b(&p->b, dtype) ? 0 : rg_round_up(p->k * p->n * size, 64);
  l.c = r->plain_epilogue || p->c_dtype == RG_F32 ? 0 : rg_round_up(p->m * p->n * 4, 64);
  l.own = r->dnnl != NULL ? rg_round_up(rg_dnnl_scratch_bytes(r->dnnl), 64) : 0;
  return l;
}

/* The epilogue over f32 sums. */
typedef struct finish {
  const rg_product *p;
  const float *sums;
  int64_t row;
} finish;

static bool finish_rows(void *work, int64_t begin, int64_t end)
{
  const finish *f = work;

  for (int64_t i = begin; i < end && !rg_interrupt_pending(); i++) {
    rg_epilogue_row(f->p, f->sums + i * f->row, i, 0, f->p->n);
  }
  return !rg_interrupt_pending();
}

static rg_status go_dnnl(rg_ready *r)
{
  const rg_product *p = &r->p;
  int32_t dtype = type_of(p);
  layout l = layout_of(r);
  char *scratch = r->a;
  const void *a = p->a;
  const void *b = p->b.piece[0].data;
  const void *bias = r->plain_epilogue && p->epilogue.bias != NULL ? p->epilogue.bias->_data : NULL;
  void *c = l.c > 0 ? scratch + l.a + l.b : p->c;
  int64_t ldc = l.c > 0 ? p->n : p->c_row;

  if (rg_weight_keeps(&p->b)) {
    if (r->packed == NULL || rg_storage_version(p->b.piece[0].storage) != r->version) {
      RG_TRY(get_packed(r));
    }
    b = r->packed;
  }
  if (l.a > 0) {
    convert_a(p, dtype, scratch);
    a = scratch;
  }
  if (l.b > 0) {
    convert_b(&p->b, dtype, scratch + l.a);
    b = scratch + l.a;
  }
  const int64_t row_a = (l.a > 0 ? p->k : p->a_row) * rg_dtype_bytes(dtype);
  const int64_t row_c = ldc * rg_dtype_bytes(l.c > 0 ? RG_F32 : p->c_dtype);

  for (int64_t end = r->rows; end < p->m + r->rows; end += r->rows) {
    const int64_t first = rg_min_i64(end, p->m) - r->rows; /* the last rows may be made twice */
    void *const data[] = { [RG_DNNL_SRC] = (char *)(uintptr_t)a + first * row_a,
                           [RG_DNNL_WEIGHT] = (void *)(uintptr_t)b,
                           [RG_DNNL_BIAS] = (void *)(uintptr_t)bias,
                           [RG_DNNL_DST] = (char *)c + first * row_c };

    RG_TRY(rg_product_if_whole());
    RG_TRY(rg_dnnl_run(r->dnnl, data, scratch + l.a + l.b + l.c));
  }
  if (!r->plain_epilogue) {
    finish f = { p, c, ldc };

    RG_TRY(rg_parallel(p->n_threads, p->m, finish_rows, &f));
  }
  return rg_product_if_whole();
}

/* The library does not look at Ctrl-C: so many rows at a time as it has done soon. */
static int64_t rows_at_a_time(const rg_product *p)
{
  const double piece = 2e10;  /* operations */
  const double memory = 32e6; /* elements read and written: narrow rows take as long as these */
  const double work = 2.0 * (double)p->m * (double)p->n * (double)p->k / piece;
  const double moved = (double)p->m * (double)(p->k + p->n) / memory;
  const double pieces = work > moved ? work : moved;

  if (pieces < 2) {
    return p->m;
  }
  return pieces > (double)p->m / 64 ? rg_min_i64(64, p->m)
                                    : (p->m + (int64_t)pieces - 1) / (int64_t)pieces;
}

/* The product of r->rows rows as oneDNN is told of it. */
static void spec_of(const rg_ready *r, int32_t dtype, rg_dnnl_spec *spec)
{
  const rg_product *p = &r->p;
  const rg_piece *piece = &p->b.piece[0];
  bool direct_a = reads_a(p, dtype);
  bool direct_b = reads_b(&p->b, dtype);
  int32_t c_dtype = r->plain_epilogue ? p->c_dtype : RG_F32;
  int64_t c_row = r->plain_epilogue || p->c_dtype == RG_F32 ? p->c_row : p->n;

  memset(spec, 0, sizeof(*spec)); /* specs are compared byte by byte */
  spec->kind = RG_DNNL_MATMUL;
  spec->act = r->plain_epilogue ? p->epilogue.act : RG_ACT_NONE;
  spec->n_threads = p->n_threads;
  spec->worker = r->worker;
  spec->array[RG_DNNL_SRC] =
      matrix(r->rows, p->k, direct_a ? p->a_row : p->k, direct_a ? p->a_col : 1, dtype);
  if (rg_weight_keeps(&p->b)) {
    spec->array[RG_DNNL_WEIGHT] = matrix(p->k, p->n, 0, 0, dtype);
    spec->array[RG_DNNL_WEIGHT].form = RG_DNNL_PACKED;
  } else {
    spec->array[RG_DNNL_WEIGHT] =
        matrix(p->k, p->n, direct_b ? piece->row : p->n, direct_b ? piece->col : 1, dtype);
  }
  if (r->plain_epilogue && p->epilogue.bias != NULL) {
    spec->array[RG_DNNL_BIAS] = matrix(1, p->n, p->n, 1, p->epilogue.bias->_dtype);
  }
  spec->array[RG_DNNL_DST] = matrix(r->rows, p->n, c_row, 1, c_dtype);
}

rg_status rg_product_prepare_dnnl(rg_ready *r)
{
  const rg_product *p = &r->p;
  int32_t dtype = type_of(p);
  rg_dnnl_spec spec;

  r->plain_epilogue = p->epilogue.scale == 1.0 && !(p->epilogue.p > 0) &&
                      (p->epilogue.act == RG_ACT_NONE || p->epilogue.act == RG_ACT_RELU ||
                       p->epilogue.act == RG_ACT_RELU6) &&
                      has_plain_bias(&p->epilogue, dtype) &&
                      (p->c_dtype == RG_F32 || p->c_dtype == dtype);
  r->rows = rows_at_a_time(p);
  spec_of(r, dtype, &spec);
  r->path = p->c_dtype == dtype ? "onednn" : "onednn:f32";
  r->go = go_dnnl;
  if (r->stays) {
    RG_TRY(rg_dnnl_new(&spec, &r->dnnl));
  } else {
    RG_TRY(rg_dnnl_cached(&spec, &r->dnnl));
  }
  layout l = layout_of(r);
  int64_t bytes = l.a + l.b + l.c + l.own;
  if (bytes > 0) {
    RG_TRY(rg_block_alloc(RG_CPU, bytes, &r->scratch));
    r->a = r->scratch.data;
  }
  return RG_OK;
}
