/* SPDX-License-Identifier: MIT */
/*
** Products by OpenBLAS: gemm into f32 or f64, then the epilogue over the result.  It takes
** everything: what gemm cannot read is converted into scratch first.
*/
#include <cblas.h>
#include <omp.h>
#include <stdio.h>
#include <strings.h>

#include "cpu/cpu.h"
#include "cpu/product.h"
#include "ridge/choice.h"

const char *rg_blas_version(void)
{
  static _Thread_local char text[40];

  /* "OpenBLAS 0.3.21 NO_AFFINITY ..." */
  return sscanf(openblas_get_config(), "%*s %39s", text) == 1 ? text : "";
}

int32_t rg_blas_is_recent(void)
{
#if defined(__x86_64__)
  static const char *const cores[] = { "Haswell",  "Excavator",  "Zen",
                                       "SkylakeX", "Cooperlake", "Sapphirerapids" };
  const char *core = openblas_get_corename();

  for (size_t i = 0; i < sizeof(cores) / sizeof(*cores); i++) {
    if (strcasecmp(core, cores[i]) == 0) {
      return 1;
    }
  }
  return 0;
#else
  return 1;
#endif
}

/* A matrix as gemm wants it. */
typedef struct operand {
  const void *data;
  int64_t ld;
  CBLAS_TRANSPOSE trans;
} operand;

/* Can gemm read this in place? */
static bool as_it_lies(const void *data, int64_t row, int64_t col, int64_t rows, int64_t cols,
                       operand *out)
{
  if ((col == 1 || cols == 1) && (row >= cols || rows == 1)) {
    *out = (operand){ data, rg_max_i64(rows == 1 ? cols : row, 1), CblasNoTrans };
    return true;
  }
  if ((row == 1 || rows == 1) && (col >= rows || cols == 1)) {
    *out = (operand){ data, rg_max_i64(cols == 1 ? rows : col, 1), CblasTrans };
    return true;
  }
  return false;
}

/* -- Conversions -------------------------------------------------------------------------- */

/* Has Ctrl-C come?  Asked at the beginning of a row and now and then in it. */
static bool stops(int64_t i)
{
  return (i & 4095) == 0 && rg_interrupt_pending();
}

static void convert_a(const rg_product *p, void *out)
{
  for (int64_t i = 0; i < p->m; i++) {
    for (int64_t l = 0; l < p->k && !stops(l); l++) {
      int64_t at = i * p->a_row + l * p->a_col;

      if (p->compute == RG_F64) {
        ((double *)out)[i * p->k + l] = rg_element_f64(p->a, p->a_dtype, at);
      } else {
        ((float *)out)[i * p->k + l] = rg_element_f32(p->a, p->a_dtype, at);
      }
    }
  }
}

static double weight_f64(const rg_weight *w, int64_t k, int64_t j)
{
  const rg_piece *piece = &w->piece[0];

  if (k >= w->split_k || j >= w->split_n) {
    piece = &w->piece[1];
    k -= k >= w->split_k ? w->split_k : 0;
    j -= j >= w->split_n ? w->split_n : 0;
  }
  if (piece->sign > 0) {
    const uint8_t *bits = (const uint8_t *)piece->data + k * piece->row;

    return (bits[(j >> 3) * piece->col] >> (j & 7) & 1) != 0 ? piece->sign : -piece->sign;
  }
  return rg_element_f64(piece->data, piece->dtype, k * piece->row + j * piece->col);
}

static void convert_b(const rg_product *p, void *out)
{
  if (p->compute != RG_F64) {
    for (int64_t l = 0; l < p->k && !rg_interrupt_pending(); l += 64) {
      rg_weight_fetch(&p->b, l, rg_min_i64(64, p->k - l), 0, p->n, (float *)out + l * p->n, p->n);
    }
    return;
  }
  for (int64_t l = 0; l < p->k; l++) {
    for (int64_t j = 0; j < p->n && !stops(j); j++) {
      ((double *)out)[l * p->n + j] = weight_f64(&p->b, l, j);
    }
  }
}

/* -- The product ------------------------------------------------------------------------------ */

/* A part of a product: from place `at` on, so many rows (m), columns (n), terms of the sums (k). */
typedef struct part {
  int64_t at[3];
  int64_t size[3];
} part;

/* The elements from one row or column of an operand, as it is written down, to the next. */
static int64_t step(const operand *x, bool row)
{
  return (x->trans == CblasNoTrans) == row ? x->ld : 1;
}

static void gemm_part(const rg_product *p, const operand *a, const operand *b, void *c, int64_t ldc,
                      const part *t)
{
  const int64_t m = t->at[0], n = t->at[1], k = t->at[2];
  const int64_t in_a = m * step(a, true) + k * step(a, false);
  const int64_t in_b = k * step(b, true) + n * step(b, false);
  const int64_t in_c = m * ldc + n;
  const double beta = k > 0 ? 1 : 0; /* later terms are added */

  if (p->compute == RG_F64) {
    cblas_dgemm(CblasRowMajor, a->trans, b->trans, (int)t->size[0], (int)t->size[1],
                (int)t->size[2], 1.0, (const double *)a->data + in_a, (int)a->ld,
                (const double *)b->data + in_b, (int)b->ld, beta, (double *)c + in_c, (int)ldc);
  } else {
    cblas_sgemm(CblasRowMajor, a->trans, b->trans, (int)t->size[0], (int)t->size[1],
                (int)t->size[2], 1.0f, (const float *)a->data + in_a, (int)a->ld,
                (const float *)b->data + in_b, (int)b->ld, (float)beta, (float *)c + in_c,
                (int)ldc);
  }
}

/*
** How much the library gets at a time: what it has done soon.  Rows are cut first, and columns and
** sums only where rows alone are too long for that: a narrow part is slower.  Rows of few columns
** and terms take as long as they are read and written.
*/
static void sizes_of_parts(const rg_product *p, int64_t size[3])
{
  const double piece = 5e9;   /* operations */
  const double memory = 16e6; /* elements read and written */
  const int64_t whole[3] = { p->m, p->n, p->k };
  const int64_t least[3] = { 64, 512, 4096 };
  double rest = piece / 2;

  for (int i = 0; i < 3; i++) {
    double others = 1;

    for (int j = i + 1; j < 3; j++) {
      others *= (double)whole[j];
    }
    double fits = rest / others;

    size[i] = fits < (double)least[i] ? least[i]
              : fits < 1e9            ? (int64_t)fits / least[i] * least[i]
                                      : 1000000000;
    size[i] = rg_min_i64(size[i], whole[i]);
    rest /= (double)size[i];
  }
  const double rows = memory / (double)(p->k + p->n);

  if (rows < (double)size[0]) {
    size[0] = rows < (double)least[0] ? rg_min_i64(least[0], size[0])
                                      : (int64_t)rows / least[0] * least[0];
  }
}

/* A product in parts. */
typedef struct parts {
  const rg_product *p;
  const operand *a, *b;
  void *c;
  int64_t ldc;
  int64_t size[3];
} parts;

/* Blocks begin .. end of rows.  The library does not look at Ctrl-C. */
static bool gemm_blocks(void *work, int64_t begin, int64_t end)
{
  const parts *w = work;
  const rg_product *p = w->p;

  for (int64_t i = begin; i < end; i++) {
    part t = { .at = { i * w->size[0] } };

    for (t.at[1] = 0; t.at[1] < p->n; t.at[1] += w->size[1]) {
      for (t.at[2] = 0; t.at[2] < p->k; t.at[2] += w->size[2]) {
        if (rg_interrupt_pending()) {
          return false;
        }
        t.size[0] = rg_min_i64(w->size[0], p->m - t.at[0]);
        t.size[1] = rg_min_i64(w->size[1], p->n - t.at[1]);
        t.size[2] = rg_min_i64(w->size[2], p->k - t.at[2]);
        gemm_part(p, w->a, w->b, w->c, w->ldc, &t);
      }
    }
  }
  return true;
}

/*
** The library's threads wait for each other, busily, every few hundred rows, which costs many times
** the work where a processor is shared and rows are short.  Those are shared out here instead:
** inside of a parallel region the library takes one thread.
*/
static rg_status gemm(const rg_product *p, const operand *a, const operand *b, void *c, int64_t ldc)
{
  enum { NARROW = 64, ROWS = 64 };
  parts w = { .p = p, .a = a, .b = b, .c = c, .ldc = ldc };
  int32_t threads = p->n_threads;
  int before = omp_get_max_threads();
  rg_status status;

  sizes_of_parts(p, w.size);
  if (threads > 1 && p->n <= NARROW && p->m >= (int64_t)threads * ROWS) {
    int64_t rows = rg_round_up((p->m + threads - 1) / threads, ROWS);

    w.size[0] = rg_min_i64(w.size[0], rows);
  } else {
    threads = 1;
    if (p->n_threads != before) {
      omp_set_num_threads(p->n_threads);
    }
  }
  status = rg_parallel(threads, (p->m + w.size[0] - 1) / w.size[0], gemm_blocks, &w);
  if (threads == 1 && p->n_threads != before) {
    omp_set_num_threads(before);
  }
  return status;
}

static bool plain_epilogue(const rg_epilogue *epilogue)
{
  return epilogue->bias == NULL && epilogue->scale == 1.0 && epilogue->act == RG_ACT_NONE &&
         !(epilogue->p > 0);
}

rg_status rg_product_blas(const rg_product *p)
{
  bool wide = p->compute == RG_F64;
  int32_t want = wide ? RG_F64 : RG_F32;
  int64_t size = wide ? 8 : 4;
  operand a = { 0 }, b = { 0 };
  const rg_piece *whole = &p->b.piece[0];
  rg_block block = { 0 };
  int64_t bytes_a = 0, bytes_b = 0, bytes_c = 0;
  rg_status status = RG_OK;

  if (p->m == 0 || p->n == 0) {
    return RG_OK;
  }
  if (p->m > INT32_MAX || p->n > INT32_MAX || p->k > INT32_MAX) {
    return rg_fail(RG_ENOSUP, "OpenBLAS takes sizes up to 2147483647, not %lld x %lld x %lld",
                   (long long)p->m, (long long)p->k, (long long)p->n);
  }
  if (p->a_dtype != want || !as_it_lies(p->a, p->a_row, p->a_col, p->m, p->k, &a)) {
    bytes_a = p->m * p->k * size;
  }
  if (!rg_weight_whole(&p->b) || whole->dtype != want ||
      !as_it_lies(whole->data, whole->row, whole->col, p->k, p->n, &b)) {
    bytes_b = p->k * p->n * size;
  }
  bool direct = p->c_dtype == want;
  if (!direct) {
    bytes_c = p->m * p->n * size;
  }
  if (bytes_a + bytes_b + bytes_c > 0) {
    RG_TRY(rg_block_alloc(RG_CPU, bytes_a + bytes_b + bytes_c, &block));
  }
  char *at = block.data;
  if (bytes_a > 0) {
    convert_a(p, at);
    a = (operand){ at, p->k, CblasNoTrans };
    at += bytes_a;
  }
  if (bytes_b > 0) {
    convert_b(p, at);
    b = (operand){ at, p->n, CblasNoTrans };
    at += bytes_b;
  }
  void *c = direct ? p->c : at;
  int64_t ldc = direct ? p->c_row : p->n;
  if (p->k == 0) {
    for (int64_t i = 0; i < p->m; i++) {
      for (int64_t j = 0; j < p->n * size && !stops(j); j++) {
        ((char *)c)[i * ldc * size + j] = 0;
      }
    }
  } else {
    status = gemm(p, &a, &b, c, ldc);
  }
  if (status == RG_OK && (!direct || !plain_epilogue(&p->epilogue))) {
    for (int64_t i = 0; i < p->m && !rg_interrupt_pending(); i++) {
      if (wide) {
        rg_epilogue_row_f64(p, (double *)c + i * ldc, i, 0, p->n);
      } else {
        rg_epilogue_row(p, (float *)c + i * ldc, i, 0, p->n);
      }
    }
  }
  if (block.data != NULL) {
    rg_block_free(&block);
  }
  if (status == RG_OK && rg_interrupt_pending()) {
    return rg_fail(RG_EINTR, "interrupted");
  }
  return status;
}
