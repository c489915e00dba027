/* SPDX-License-Identifier: MIT */
/*
** Walks over several tensors together, drawn at random: each element of each tensor is met where it
** lies, in its turn, and the runs are as long as they can be.
*/
#include "tap.h"
#include "tensor/tensor.h"

enum { TRIALS = 3000 };

static uint32_t state = 1;

static int32_t below(int32_t n)
{
  state = state * 1103515245 + 12345;
  return (int32_t)(state >> 16) % n;
}

typedef struct drawn {
  int32_t n, ndim;
  int64_t shape[RG_MAX_DIMS];
  rg_tensor x[RG_WALK_MAX];
} drawn;

/* Tensors without memory: of fewer axes, of length 1, with any strides, or without gaps. */
static void draw(drawn *d)
{
  static const int32_t types[] = { RG_F32, RG_F64, RG_F16, RG_U8 };

  *d = (drawn){ .n = 1 + below(RG_WALK_MAX), .ndim = below(5) };
  for (int32_t i = 0; i < d->ndim; i++) {
    d->shape[i] = below(12) == 0 ? 0 : 1 + below(4);
  }
  for (int32_t t = 0; t < d->n; t++) {
    rg_tensor *x = &d->x[t];
    const int32_t left = d->ndim > 0 ? below(d->ndim + 1) : 0;
    const bool dense = below(2) == 0;
    int64_t stride = 1;

    x->_dtype = types[below(4)];
    x->_ndim = d->ndim - (below(3) == 0 ? left : 0);
    x->_data = (char *)1024 + 64 * t;
    for (int32_t i = x->_ndim - 1; i >= 0; i--) {
      const int64_t size = d->shape[i + d->ndim - x->_ndim];

      x->_shape[i] = size > 1 && below(5) == 0 ? 1 : size;
      x->_stride[i] = dense ? stride : below(7);
      stride *= x->_shape[i] > 0 ? x->_shape[i] : 1;
    }
  }
}

/* Bytes from the tensor's first element to that of an index, broadcast. */
static int64_t place_of(const drawn *d, int32_t t, const int64_t *index)
{
  const rg_tensor *x = &d->x[t];
  int64_t at = 0;

  for (int32_t i = 0; i < x->_ndim; i++) {
    at += x->_shape[i] == 1 ? 0 : index[i + d->ndim - x->_ndim] * x->_stride[i];
  }
  return at * rg_dtype_bytes(x->_dtype);
}

static bool next(const drawn *d, int64_t *index)
{
  for (int32_t i = d->ndim - 1; i >= 0; i--) {
    if (++index[i] < d->shape[i]) {
      return true;
    }
    index[i] = 0;
  }
  return false;
}

/* Could the last two axes of what is left be one? */
static bool could_join(const rg_walk *w, int32_t i)
{
  for (int32_t t = 0; t < w->n; t++) {
    if (w->stride[t][i] != w->stride[t][i + 1] * w->shape[i + 1]) {
      return false;
    }
  }
  return true;
}

static bool is_right(const drawn *d)
{
  const rg_tensor *xs[RG_WALK_MAX];
  int64_t index[RG_MAX_DIMS] = { 0 };
  int64_t count = 1;
  rg_walk w;

  for (int32_t i = 0; i < d->ndim; i++) {
    count *= d->shape[i];
  }
  for (int32_t t = 0; t < d->n; t++) {
    xs[t] = &d->x[t];
  }
  rg_walk_init(&w, xs, d->n, d->shape, d->ndim);
  if (w.n != d->n || w.count != count || w.ndim < 1) {
    return false;
  }
  for (int32_t t = 0; t < d->n; t++) {
    if (w.data[t] != d->x[t]._data) {
      return false;
    }
  }
  for (int32_t i = 0; i < w.ndim; i++) {
    if ((w.shape[i] == 1 && w.ndim > 1) || (i + 1 < w.ndim && could_join(&w, i))) {
      return false; /* an axis too many */
    }
  }
  if (count == 0) {
    return rg_walk_rows(&w) == 0;
  }
  const int64_t run = w.shape[w.ndim - 1];

  if (rg_walk_rows(&w) != count / run) {
    return false;
  }
  for (int64_t row = 0; row < count / run; row++) {
    int64_t offset[RG_WALK_MAX] = { 77, 77, 77, 77 };

    rg_walk_row(&w, row, offset);
    for (int64_t i = 0; i < run; i++) {
      for (int32_t t = 0; t < d->n; t++) {
        if (offset[t] + i * w.stride[t][w.ndim - 1] != place_of(d, t, index)) {
          return false;
        }
      }
      (void)next(d, index);
    }
    for (int32_t t = d->n; t < RG_WALK_MAX; t++) {
      if (offset[t] != 77) {
        return false; /* of no tensor */
      }
    }
  }
  return true;
}

int main(void)
{
  int32_t n_right = 0;

  for (int32_t i = 0; i < TRIALS; i++) {
    drawn d;

    draw(&d);
    n_right += is_right(&d);
  }
  is_int(n_right, TRIALS, "each element of each tensor where it lies");
  return done();
}
