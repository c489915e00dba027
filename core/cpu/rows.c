/* SPDX-License-Identifier: MIT */
/*
** Tensors as the rows of one matrix.  Any view whose leading axes have one common distance is one;
** the others (a permuted batch, say) go through a contiguous copy.
*/
#include <string.h>

#include "cpu/rows.h"

/* Fill count, row and col.  False if no single distance between rows describes x. */
static bool one_matrix(const rg_tensor *x, rg_rows *out)
{
  int32_t last = x->_ndim - 1;
  int64_t count = 1;
  int64_t step = 0;

  out->col = x->_shape[last] == 1 ? 1 : x->_stride[last];
  for (int32_t i = last - 1; i >= 0; i--) {
    if (x->_shape[i] == 1) {
      continue;
    }
    if (count == 1) {
      step = x->_stride[i];
    } else if (x->_stride[i] != step * count) {
      return false;
    }
    count *= x->_shape[i];
  }
  out->count = count;
  out->row = count == 1 ? x->_shape[last] * out->col : step;
  return true;
}

/* Copy x to or from contiguous rows, element by element. */
static void copy_rows(const rg_tensor *x, char *rows, bool write)
{
  int32_t last = x->_ndim - 1;
  size_t size = (size_t)rg_dtype_bytes(x->_dtype);
  int64_t n = x->_shape[last];
  int64_t count = n > 0 ? x->_count / n : 0;

  for (int64_t r = 0; r < count; r++) {
    int64_t rest = r;
    int64_t offset = 0;

    for (int32_t i = last - 1; i >= 0; i--) {
      offset += rest % x->_shape[i] * x->_stride[i];
      rest /= x->_shape[i];
    }
    for (int64_t j = 0; j < n; j++) {
      char *there = (char *)x->_data + (size_t)(offset + j * x->_stride[last]) * size;
      char *here = rows + (size_t)(r * n + j) * size;

      memcpy(write ? there : here, write ? here : there, size);
    }
  }
}

static rg_status take_block(const rg_tensor *x, rg_rows *out)
{
  int64_t n = x->_shape[x->_ndim - 1];

  RG_TRY(rg_block_alloc(RG_CPU, x->_count * rg_dtype_bytes(x->_dtype), &out->block));
  out->copied = true;
  out->data = out->block.data;
  out->count = n > 0 ? x->_count / n : 0;
  out->row = n;
  out->col = 1;
  return RG_OK;
}

rg_status rg_rows_begin(const rg_tensor *x, rg_rows *out)
{
  *out = (rg_rows){ .tensor = x, .data = x->_data };
  if (!one_matrix(x, out)) {
    RG_TRY(take_block(x, out));
  }
  return RG_OK;
}

rg_status rg_rows_begin_out(const rg_tensor *x, rg_rows *out)
{
  *out = (rg_rows){ .tensor = x, .data = x->_data };
  if (!one_matrix(x, out) || out->col != 1) {
    RG_TRY(take_block(x, out));
  }
  return RG_OK;
}

void rg_rows_read(const rg_rows *rows)
{
  copy_rows(rows->tensor, rows->data, false);
}

void rg_rows_write(const rg_rows *rows)
{
  copy_rows(rows->tensor, rows->data, true);
}

void rg_rows_end(rg_rows *rows)
{
  if (rows->block.data != NULL) {
    rg_block_free(&rows->block);
    rows->block.data = NULL;
  }
}
