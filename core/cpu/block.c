/* SPDX-License-Identifier: MIT */
/*
** Products of small blocks.
*/
#include "cpu/block.h"

#include <string.h>

#include "cpu/cpu.h"

enum { RUN = 512 };

/* -- Matrices --------------------------------------------------------------------------------- */

rg_matrix rg_matrix_of(const rg_tensor *x, int64_t i)
{
  int32_t last = x->_ndim - 1;
  int64_t offset = 0;

  for (int32_t axis = last - 2; axis >= 0; axis--) {
    offset += i % x->_shape[axis] * x->_stride[axis];
    i /= x->_shape[axis];
  }
  return (rg_matrix){ .data = (char *)x->_data + offset * rg_dtype_bytes(x->_dtype),
                      .row = x->_stride[last - 1],
                      .col = x->_stride[last],
                      .dtype = x->_dtype };
}

rg_matrix rg_matrix_transposed(rg_matrix x)
{
  return (rg_matrix){ .data = x.data, .row = x.col, .col = x.row, .dtype = x.dtype };
}

rg_matrix rg_matrix_from(rg_matrix x, int64_t row)
{
  x.data = (char *)x.data + row * x.row * rg_dtype_bytes(x.dtype);
  return x;
}

void rg_matrix_store(rg_matrix x, int64_t i, const float *from, int64_t n)
{
  int64_t size = rg_dtype_bytes(x.dtype);
  char *to = (char *)x.data + i * x.row * size;
  uint16_t half[RUN];

  for (int64_t at = 0; at < n; at += RUN) {
    int64_t run = rg_min_i64(RUN, n - at);
    const char *some = (const char *)(from + at);

    if (x.dtype != RG_F32) {
      rg_simd()->cast->narrow[x.dtype](half, from + at, NULL, run);
      some = (const char *)half;
    }
    if (x.col == 1) {
      memcpy(to + at * size, some, (size_t)(run * size));
      continue;
    }
    for (int64_t j = 0; j < run; j++) {
      memcpy(to + (at + j) * x.col * size, some + j * size, (size_t)size);
    }
  }
}

/* -- Factors ---------------------------------------------------------------------------------- */

rg_block_form rg_block_form_of(int32_t dtype)
{
  bool pairs = dtype == RG_BF16 && rg_bf16_usable();

  return (rg_block_form){ .format = pairs ? RG_PACK_BF16 : RG_PACK_F32,
                          .size = pairs ? 2 : 4,
                          .amx = pairs && rg_amx_usable() };
}

int64_t rg_block_depth(rg_block_form f, int64_t k)
{
  return rg_pack_depth(f.format, k);
}

/* One row in bf16. */
static void row_bf16(rg_matrix x, int64_t i, int64_t k, uint16_t *to)
{
  float some[RUN];

  if (x.dtype == RG_BF16 && x.col == 1) {
    memcpy(to, (const uint16_t *)x.data + i * x.row, (size_t)k * 2);
    return;
  }
  for (int64_t at = 0; at < k; at += RUN) {
    int64_t run = rg_min_i64(RUN, k - at);

    rg_run_f32(x.data, x.dtype, i * x.row + at * x.col, x.col, run, some);
    rg_bf16_convert(some, to + at, run);
  }
}

void rg_block_rows(rg_block_form f, rg_matrix x, int64_t rows, int64_t k, void *to)
{
  int64_t depth = rg_block_depth(f, k);
  int64_t all = rg_round_up(rows, RG_PANEL);
  char *at = to;

  for (int64_t i = 0; i < rows; i++, at += depth * f.size) {
    if (f.format == RG_PACK_BF16) {
      row_bf16(x, i, k, (uint16_t *)(void *)at);
    } else {
      rg_run_f32(x.data, x.dtype, i * x.row, x.col, k, (float *)(void *)at);
    }
    memset(at + k * f.size, 0, (size_t)((depth - k) * f.size));
  }
  memset(at, 0, (size_t)((all - rows) * depth * f.size));
}

const void *rg_block_left(rg_block_form f, const float *x, int64_t rows, int64_t k, void *room)
{
  if (f.format == RG_PACK_F32) {
    return x;
  }
  rg_bf16_convert(x, room, rows * k);
  return room;
}

void rg_block_pack(rg_block_form f, rg_matrix x, int64_t k, int64_t n, void *to)
{
  rg_weight w = { .k = k, .n = n, .split_k = k, .split_n = n };

  w.piece[0] = (rg_piece){ .data = x.data, .dtype = x.dtype, .row = x.row, .col = x.col };
  for (int64_t panel = 0; panel * RG_PANEL < n; panel++) {
    rg_pack_panel(&w, f.format, panel, 0, k, (char *)to + panel * rg_pack_panel_bytes(f.format, k));
  }
}

/* -- Products --------------------------------------------------------------------------------- */

void rg_block_begin(rg_block_form f)
{
  if (f.amx) {
    rg_amx_configure(16, 16, 16);
  }
}

void rg_block_end(rg_block_form f)
{
  if (f.amx) {
    rg_amx_release();
  }
}

/* step: from one row of a to the next; tiles: the kernels that go with it. */
static void mul_f32(rg_tile_f32 *const *tiles, int64_t step, int64_t m, int64_t panels, int64_t k,
                    const float *a, int64_t lda, const float *b, float *c, int64_t ldc, bool add)
{
  const rg_gemm_kernels *kernels = rg_gemm_kernels_now();
  int64_t most = step > 1 ? rg_gemm_rows_most(step * 4, kernels->rows_most) : kernels->rows_most;
  int64_t count = (m + most - 1) / most;

  for (int64_t panel = 0; panel < panels; panel++, b += k * RG_PANEL) {
    for (int64_t i = 0; i < count; i++) {
      int64_t row = m * i / count;
      int64_t rows = m * (i + 1) / count - row;

      tiles[rows](k, a + row * step, lda, b, c + row * ldc + panel * RG_PANEL, ldc, add, b);
    }
  }
}

static void mul_bf16(rg_block_form f, int64_t m, int64_t panels, int64_t k, const uint16_t *a,
                     int64_t lda, const uint16_t *b, float *c, int64_t ldc, bool add)
{
  int64_t depth = rg_pack_depth(RG_PACK_BF16, k);

  for (int64_t panel = 0; panel < panels; panel++, b += depth * RG_PANEL) {
    if (!f.amx) {
      rg_bf16_rows(rg_round_up(m, RG_AMX_ROWS), depth / RG_BF16_STEP, a, lda, b,
                   c + panel * RG_PANEL, ldc, add);
      continue;
    }
    for (int64_t i = 0; i < m; i += RG_AMX_ROWS) {
      rg_amx_block(depth / RG_BF16_STEP, a + i * lda, lda, b, c + i * ldc + panel * RG_PANEL, ldc,
                   add);
    }
  }
}

void rg_block_mul(rg_block_form f, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda,
                  const void *b, float *c, int64_t ldc, bool add)
{
  int64_t panels = (n + RG_PANEL - 1) / RG_PANEL;

  if (f.format == RG_PACK_BF16) {
    mul_bf16(f, m, panels, k, a, lda, b, c, ldc, add);
  } else {
    mul_f32(rg_gemm_kernels_now()->tile, lda, m, panels, k, a, lda, b, c, ldc, add);
  }
}

void rg_block_mul_across(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                         const float *b, float *c, int64_t ldc)
{
  mul_f32(rg_gemm_kernels_now()->across, 1, m, (n + RG_PANEL - 1) / RG_PANEL, k, a, lda, b, c, ldc,
          true);
}
