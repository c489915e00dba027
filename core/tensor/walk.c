/* SPDX-License-Identifier: MIT */
/*
** Walking several tensors of one (broadcast) shape together: axes of length 1 vanish and axes that
** continue each other in every tensor are joined, so most calls become one long run.
*/
#include "tensor/tensor.h"

/* Byte stride of x along axis i of a shape with ndim axes; 0 where x is broadcast. */
static int64_t stride_of(const rg_tensor *x, int32_t i, int32_t ndim, int64_t size)
{
  int32_t own = i - (ndim - x->_ndim);

  return own < 0 || x->_shape[own] == 1 ? 0 : x->_stride[own] * size;
}

/* Does axis `inner` continue axis `outer` without a gap in every tensor? */
static bool joins(const rg_walk *walk, int32_t outer, const int64_t *inner_stride,
                  int64_t inner_size)
{
  for (int32_t t = 0; t < walk->n; t++) {
    if (walk->stride[t][outer] != inner_stride[t] * inner_size) {
      return false;
    }
  }
  return true;
}

void rg_walk_init(rg_walk *walk, const rg_tensor *const *xs, int32_t n, const int64_t *shape,
                  int32_t ndim)
{
  int64_t size[RG_WALK_MAX];
  int32_t d = 0;

  walk->n = n;
  walk->count = 1;
  for (int32_t t = 0; t < n; t++) {
    size[t] = rg_dtype_bytes(xs[t]->_dtype);
    walk->data[t] = xs[t]->_data;
  }
  for (int32_t i = 0; i < ndim; i++) {
    int64_t stride[RG_WALK_MAX];

    walk->count *= shape[i];
    if (shape[i] == 1) {
      continue;
    }
    for (int32_t t = 0; t < n; t++) {
      stride[t] = stride_of(xs[t], i, ndim, size[t]);
    }
    if (d > 0 && joins(walk, d - 1, stride, shape[i])) {
      walk->shape[d - 1] *= shape[i];
      for (int32_t t = 0; t < n; t++) {
        walk->stride[t][d - 1] = stride[t];
      }
      continue;
    }
    walk->shape[d] = shape[i];
    for (int32_t t = 0; t < n; t++) {
      walk->stride[t][d] = stride[t];
    }
    d++;
  }
  if (d == 0) { /* one element, or none of an axis of size 1 */
    walk->shape[0] = 1;
    for (int32_t t = 0; t < n; t++) {
      walk->stride[t][0] = size[t];
    }
    d = 1;
  }
  walk->ndim = d;
}

int64_t rg_walk_rows(const rg_walk *walk)
{
  int64_t inner = walk->shape[walk->ndim - 1];

  return inner == 0 ? 0 : walk->count / inner;
}

void rg_walk_row(const rg_walk *walk, int64_t row, int64_t offset[RG_WALK_MAX])
{
  for (int32_t t = 0; t < walk->n; t++) {
    offset[t] = 0;
  }
  for (int32_t i = walk->ndim - 2; i >= 0; i--) {
    int64_t at = row % walk->shape[i];

    row /= walk->shape[i];
    for (int32_t t = 0; t < walk->n; t++) {
      offset[t] += at * walk->stride[t][i];
    }
  }
}
