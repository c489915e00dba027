/* SPDX-License-Identifier: MIT */
/*
** The right factor of a product as its packers see it: numbers in f32, wherever they come from.
*/
#include "cpu/product.h"
#include "tensor/half.h"

rg_weight rg_weight_of(const rg_tensor *x, bool transposed)
{
  int r = transposed ? 1 : 0;
  rg_weight w = { .k = x->_shape[r], .n = x->_shape[1 - r] };

  w.split_k = w.k;
  w.split_n = w.n;
  w.piece[0] = (rg_piece){ .tensor = x, .row = x->_stride[r], .col = x->_stride[1 - r] };
  return w;
}

bool rg_weight_keeps(const rg_weight *w)
{
  for (int i = 0; i < RG_WEIGHT_PIECES; i++) {
    const rg_piece *piece = &w->piece[i];

    if (piece->tensor != NULL &&
        ((piece->tensor->_flags & RG_TENSOR_PARAM) == 0 || piece->sign > 0)) {
      return false;
    }
  }
  return true;
}

/* -- One element ------------------------------------------------------------------------ */

float rg_element_f32(const void *data, int32_t dtype, int64_t i)
{
  switch (dtype) {
  case RG_F32:
    return ((const float *)data)[i];
  case RG_BF16:
    return rg_bf16_to_f32(((const uint16_t *)data)[i]);
  case RG_F16:
    return rg_f16_to_f32(((const uint16_t *)data)[i]);
  default:
    return (float)((const double *)data)[i];
  }
}

double rg_element_f64(const void *data, int32_t dtype, int64_t i)
{
  return dtype == RG_F64 ? ((const double *)data)[i] : (double)rg_element_f32(data, dtype, i);
}

/* -- Blocks ----------------------------------------------------------------------------------- */

/* n elements of one type, step apart, as f32. */
static void convert_run(const void *data, int32_t dtype, int64_t first, int64_t step, int64_t n,
                        float *out)
{
  if (dtype == RG_F32) {
    const float *x = (const float *)data + first;
    for (int64_t i = 0; i < n; i++) {
      out[i] = x[i * step];
    }
  } else if (dtype == RG_BF16) {
    const uint16_t *x = (const uint16_t *)data + first;
    for (int64_t i = 0; i < n; i++) {
      out[i] = rg_bf16_to_f32(x[i * step]);
    }
  } else {
    for (int64_t i = 0; i < n; i++) {
      out[i] = rg_element_f32(data, dtype, first + i * step);
    }
  }
}

static void sign_run(const rg_piece *piece, int64_t k, int64_t j, int64_t n, float *out)
{
  const uint8_t *bits = (const uint8_t *)piece->tensor->_data + k * piece->row;

  for (int64_t i = 0; i < n; i++) {
    int64_t at = j + i;
    out[i] = (bits[(at >> 3) * piece->col] >> (at & 7) & 1) != 0 ? piece->sign : -piece->sign;
  }
}

/* A run of row k inside one piece, whose own indices these are. */
static void fetch_run(const rg_piece *piece, int64_t k, int64_t j, int64_t n, float *out)
{
  if (piece->sign > 0) {
    sign_run(piece, k, j, n, out);
  } else {
    convert_run(piece->tensor->_data, piece->tensor->_dtype, k * piece->row + j * piece->col,
                piece->col, n, out);
  }
}

void rg_weight_fetch(const rg_weight *w, int64_t k0, int64_t kn, int64_t j0, int64_t jn,
                     float *out, int64_t stride)
{
  for (int64_t k = k0; k < k0 + kn; k++, out += stride) {
    if (k >= w->split_k) {
      fetch_run(&w->piece[1], k - w->split_k, j0, jn, out);
      continue;
    }
    int64_t first = w->split_n - j0;
    first = first < 0 ? 0 : first > jn ? jn : first;
    if (first > 0) {
      fetch_run(&w->piece[0], k, j0, first, out);
    }
    if (first < jn) {
      fetch_run(&w->piece[1], k, j0 + first - w->split_n, jn - first, out + first);
    }
  }
}
