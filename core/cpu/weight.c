/* SPDX-License-Identifier: MIT */
/*
** The right factor of a product as its packers see it: numbers in f32, wherever they come from.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/gemm.h"
#include "tensor/f8.h"
#include "tensor/half.h"

rg_weight rg_weight_of(const rg_tensor *x, bool transposed)
{
  int r = transposed ? 1 : 0;
  rg_weight w = { .k = x->_shape[r], .n = x->_shape[1 - r] };

  w.split_k = w.k;
  w.split_n = w.n;
  w.piece[0] = (rg_piece){ .data = x->_data,
                           .storage = x->_storage,
                           .dtype = x->_dtype,
                           .keeps = (x->_flags & RG_TENSOR_PARAM) != 0,
                           .row = x->_stride[r],
                           .col = x->_stride[1 - r] };
  return w;
}

rg_weight rg_weight_part(const rg_weight *w, int64_t k0, int64_t kn, int64_t j0, int64_t jn)
{
  rg_weight part = { .k = kn, .n = jn, .split_k = kn, .split_n = jn };
  rg_piece *piece = &part.piece[0];

  *piece = w->piece[0];
  piece->data = (const char *)piece->data +
                (k0 * piece->row + j0 * piece->col) * rg_dtype_bytes(piece->dtype);
  return part;
}

bool rg_weight_whole(const rg_weight *w)
{
  return w->piece[1].data == NULL && !(w->piece[0].sign > 0);
}

bool rg_weight_keeps(const rg_weight *w)
{
  return w->piece[0].keeps && rg_weight_whole(w);
}

/* -- Elements ----------------------------------------------------------------------------- */

float rg_element_f32(const void *data, int32_t dtype, int64_t i)
{
  return dtype == RG_F32
             ? ((const float *)data)[i]
             : rg_dtypes[dtype].get_f32((const char *)data + i * rg_dtypes[dtype].bytes);
}

double rg_element_f64(const void *data, int32_t dtype, int64_t i)
{
  return dtype == RG_F64 ? ((const double *)data)[i] : (double)rg_element_f32(data, dtype, i);
}

void rg_run_f32(const void *data, int32_t dtype, int64_t first, int64_t step, int64_t n, float *out)
{
  if (step == 1 && dtype == RG_F32) {
    memcpy(out, (const float *)data + first, (size_t)n * sizeof(float));
  } else if (step == 1 && rg_is_narrow(dtype)) {
    rg_simd()->cast->widen[dtype](out, (const char *)data + first * rg_dtype_bytes(dtype), NULL, n);
  } else {
    for (int64_t i = 0; i < n; i++) {
      out[i] = rg_element_f32(data, dtype, first + i * step);
    }
  }
}

/* -- Blocks ----------------------------------------------------------------------------------- */

/* A run of row k inside one piece, whose own indices these are. */
static void fetch_run(const rg_piece *piece, int64_t k, int64_t j, int64_t n, float *out)
{
  if (!(piece->sign > 0)) {
    rg_run_f32(piece->data, piece->dtype, k * piece->row + j * piece->col, piece->col, n, out);
  } else if (piece->col == 1) {
    rg_gemm_kernels_now()->signs(out, (const uint8_t *)piece->data + k * piece->row, j, n,
                                 (float)piece->sign);
  } else {
    for (int64_t i = j; i < j + n; i++) {
      const uint8_t *byte = (const uint8_t *)piece->data + k * piece->row + (i >> 3) * piece->col;

      *out++ = (*byte >> (i & 7) & 1) != 0 ? (float)piece->sign : -(float)piece->sign;
    }
  }
}

void rg_weight_fetch(const rg_weight *w, int64_t k0, int64_t kn, int64_t j0, int64_t jn, float *out,
                     int64_t stride)
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
