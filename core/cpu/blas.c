/* SPDX-License-Identifier: MIT */
/*
** Products by OpenBLAS: gemm into f32 or f64, then the epilogue over the result.  It takes
** everything: what gemm cannot read is converted into scratch first.
*/
#include <cblas.h>

#include "cpu/product.h"

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

static void convert_a(const rg_product *p, void *out)
{
  for (int64_t i = 0; i < p->m; i++) {
    for (int64_t l = 0; l < p->k; l++) {
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
    rg_weight_fetch(&p->b, 0, p->k, 0, p->n, out, p->n);
    return;
  }
  for (int64_t l = 0; l < p->k; l++) {
    for (int64_t j = 0; j < p->n; j++) {
      ((double *)out)[l * p->n + j] = weight_f64(&p->b, l, j);
    }
  }
}

/* -- The product ------------------------------------------------------------------------------ */

/* Rows first .. first + m - 1. */
static void gemm_rows(const rg_product *p, const operand *a, const operand *b, void *c, int64_t ldc,
                      int64_t first, int64_t m)
{
  int64_t at = first * (a->trans == CblasNoTrans ? a->ld : 1);

  if (p->compute == RG_F64) {
    cblas_dgemm(CblasRowMajor, a->trans, b->trans, (int)m, (int)p->n, (int)p->k, 1.0,
                (const double *)a->data + at, (int)a->ld, b->data, (int)b->ld, 0.0,
                (double *)c + first * ldc, (int)ldc);
  } else {
    cblas_sgemm(CblasRowMajor, a->trans, b->trans, (int)m, (int)p->n, (int)p->k, 1.0f,
                (const float *)a->data + at, (int)a->ld, b->data, (int)b->ld, 0.0f,
                (float *)c + first * ldc, (int)ldc);
  }
}

/* The library does not look at Ctrl-C: it gets so many rows at a time as it has done soon. */
static rg_status gemm(const rg_product *p, const operand *a, const operand *b, void *c, int64_t ldc)
{
  const double piece = 5e9; /* operations */
  double rows = piece / (2.0 * (double)p->n * (double)p->k);
  int64_t most = rows < 64 ? 64 : rows < 1e9 ? (int64_t)rows / 64 * 64 : 1000000000;

  for (int64_t first = 0; first < p->m; first += most) {
    if (rg_interrupt_pending()) {
      return rg_fail(RG_EINTR, "interrupted");
    }
    gemm_rows(p, a, b, c, ldc, first, rg_min_i64(most, p->m - first));
  }
  return RG_OK;
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
      for (int64_t j = 0; j < p->n * size; j++) {
        ((char *)c)[i * ldc * size + j] = 0;
      }
    }
  } else {
    status = gemm(p, &a, &b, c, ldc);
  }
  if (status == RG_OK && (!direct || !plain_epilogue(&p->epilogue))) {
    for (int64_t i = 0; i < p->m; i++) {
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
  return status;
}
