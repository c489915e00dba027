/* SPDX-License-Identifier: MIT */
/*
** Matrix product on the CPU: the batch is walked, or made one tall product where the right factor
** does not change; integers go through a plain loop.
*/
#include <string.h>

#include "cpu/product.h"
#include "op/product.h"

rg_kernel rg_cpu_matmul;

/* One matrix of an operand, and how to get from one to the next along each batch axis. */
typedef struct side {
  const rg_tensor *tensor;
  int64_t row, col;
  int64_t step[RG_MAX_DIMS];
} side;

typedef struct batch {
  int64_t m, n, k;
  int64_t count;
  int32_t ndim;
  int64_t shape[RG_MAX_DIMS];
  side x, y, z;
} batch;

/* Rows and columns of the last two axes; a vector is one row (is_row) or one column. */
static side side_of(const rg_tensor *x, bool is_row, const batch *b)
{
  side s = { .tensor = x };
  int32_t n_batch = x->_ndim > 2 ? x->_ndim - 2 : 0;

  if (x->_ndim == 1) {
    s.row = is_row ? 0 : x->_stride[0];
    s.col = is_row ? x->_stride[0] : 0;
  } else if (x->_ndim >= 2) {
    s.row = x->_stride[x->_ndim - 2];
    s.col = x->_stride[x->_ndim - 1];
  }
  for (int32_t i = 0; i < n_batch; i++) {
    int32_t at = b->ndim - n_batch + i;
    s.step[at] = x->_shape[i] == 1 ? 0 : x->_stride[i];
  }
  return s;
}

static batch batch_of(const rg_call *call, const rg_tensor *z)
{
  const rg_tensor *x = call->in[0];
  const rg_tensor *y = call->in[1];
  int32_t tail = (x->_ndim > 1) + (y->_ndim > 1);
  batch b = { .count = 1, .ndim = z->_ndim - tail };

  for (int32_t i = 0; i < b.ndim; i++) {
    b.shape[i] = z->_shape[i];
    b.count *= z->_shape[i];
  }
  b.m = x->_ndim > 1 ? x->_shape[x->_ndim - 2] : 1;
  b.k = x->_shape[x->_ndim - 1];
  b.n = y->_ndim > 1 ? y->_shape[y->_ndim - 1] : 1;
  b.x = side_of(x, true, &b);
  b.y = side_of(y, false, &b);
  b.z.tensor = z;
  for (int32_t i = 0; i < b.ndim; i++) {
    b.z.step[i] = z->_stride[i];
  }
  if (x->_ndim > 1 && y->_ndim > 1) {
    b.z.row = z->_stride[b.ndim];
    b.z.col = z->_stride[b.ndim + 1];
  } else if (tail == 1) {
    b.z.row = x->_ndim > 1 ? z->_stride[b.ndim] : 0;
    b.z.col = y->_ndim > 1 ? z->_stride[b.ndim] : 0;
  }
  return b;
}

static int64_t offset_of(const batch *b, const side *s, int64_t index)
{
  int64_t offset = 0;

  for (int32_t i = b->ndim - 1; i >= 0; i--) {
    offset += index % b->shape[i] * s->step[i];
    index /= b->shape[i];
  }
  return offset;
}

/*
** Where the right factor is the same for the whole of the last batch axis, that axis and the rows
** are one longer axis of rows, if the left factor and the result allow it.
*/
static void fold(batch *b)
{
  while (b->ndim > 0) {
    int32_t i = b->ndim - 1;
    int64_t size = b->shape[i];
    bool joins = size == 1 || b->m == 1 ||
                 (b->x.step[i] == b->x.row * b->m && b->z.step[i] == b->z.row * b->m);

    if ((size != 1 && b->y.step[i] != 0) || !joins) {
      return;
    }
    if (size != 1 && b->m == 1) {
      b->x.row = b->x.step[i];
      b->z.row = b->z.step[i];
    }
    b->m *= size;
    b->count = size > 0 ? b->count / size : 0;
    b->ndim = i;
  }
}

/* -- Integers ----------------------------------------------------------------------------- */

static int64_t load_integer(const rg_tensor *x, int64_t at)
{
  switch (x->_dtype) {
  case RG_I64:
    return ((const int64_t *)x->_data)[at];
  case RG_I32:
    return ((const int32_t *)x->_data)[at];
  case RG_I8:
    return ((const int8_t *)x->_data)[at];
  default:
    return ((const uint8_t *)x->_data)[at];
  }
}

/* Sums wrap around like the type's own addition. */
static void store_integer(const rg_tensor *x, int64_t at, uint64_t value)
{
  int64_t size = rg_dtype_bytes(x->_dtype);

  memcpy((char *)x->_data + at * size, &value, (size_t)size); /* little end first */
}

static void integer_product(const batch *b, int64_t x0, int64_t y0, int64_t z0)
{
  for (int64_t i = 0; i < b->m; i++) {
    for (int64_t j = 0; j < b->n; j++) {
      uint64_t sum = 0;

      for (int64_t l = 0; l < b->k; l++) {
        sum += (uint64_t)load_integer(b->x.tensor, x0 + i * b->x.row + l * b->x.col) *
               (uint64_t)load_integer(b->y.tensor, y0 + l * b->y.row + j * b->y.col);
      }
      store_integer(b->z.tensor, z0 + i * b->z.row + j * b->z.col, sum);
    }
  }
}

/* -- Floats ---------------------------------------------------------------------------------- */

static rg_status float_product(const batch *b, int64_t x0, int64_t y0, int64_t z0,
                               const char **path)
{
  int32_t dtype = b->z.tensor->_dtype;
  int64_t size = rg_dtype_bytes(dtype);
  rg_tensor y = *b->y.tensor;
  rg_block block = { 0 };
  char *z = (char *)b->z.tensor->_data + z0 * size;
  bool direct = b->z.col == 1 || b->n == 1;
  rg_product p = { .m = b->m,
                   .n = b->n,
                   .k = b->k,
                   .compute = dtype == RG_F64 ? RG_F64 : dtype == RG_BF16 ? RG_BF16 : RG_F32,
                   .a = (const char *)b->x.tensor->_data +
                        x0 * rg_dtype_bytes(b->x.tensor->_dtype),
                   .a_dtype = b->x.tensor->_dtype,
                   .a_row = b->x.row,
                   .a_col = b->x.col,
                   .c = z,
                   .c_dtype = dtype,
                   .c_row = b->z.row,
                   .end = { .scale = 1 } };

  y._data = (char *)y._data + y0 * rg_dtype_bytes(y._dtype);
  p.b = (rg_weight){ .k = b->k, .n = b->n, .split_k = b->k, .split_n = b->n };
  p.b.piece[0] = (rg_piece){ .tensor = &y, .row = b->y.row, .col = b->y.col };
  if (!direct) {
    RG_TRY(rg_block_alloc(RG_CPU, b->m * b->n * size, &block));
    p.c = block.data;
    p.c_row = b->n;
  }
  rg_status status = rg_product_run(&p, path);
  if (!direct) {
    for (int64_t i = 0; status == RG_OK && i < b->m * b->n; i++) {
      memcpy(z + (i / b->n * b->z.row + i % b->n * b->z.col) * size,
             (char *)block.data + i * size, (size_t)size);
    }
    rg_block_free(&block);
  }
  return status;
}

rg_status rg_cpu_matmul(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  batch b = batch_of(call, out[0]);
  bool floats = rg_dtype_is_float(out[0]->_dtype);

  if (out[0]->_count == 0) {
    return RG_OK;
  }
  fold(&b);
  for (int64_t i = 0; i < b.count; i++) {
    int64_t x0 = offset_of(&b, &b.x, i);
    int64_t y0 = offset_of(&b, &b.y, i);
    int64_t z0 = offset_of(&b, &b.z, i);

    if (floats) {
      RG_TRY(float_product(&b, x0, y0, z0, &frame->path));
    } else {
      integer_product(&b, x0, y0, z0);
      frame->path = "loop";
    }
  }
  return RG_OK;
}
