/* SPDX-License-Identifier: MIT */
/*
** The part of a storage that requires a gradient, where it is not all of it: columns of a matrix
** that holds two (sketched layers keep trained and fixed factors side by side, for one product).
**
** Such a window is `width` bytes of every `pitch`, from byte `first` of each.  Its gradient is
** kept without the gaps, so the other columns take no gradient memory.
*/
#include "grad/node.h"
#include "op/view.h"

/* -- Which window ---------------------------------------------------------------------------- */

/* The axis whose steps are so many elements wide; -1: none. */
static int32_t axis_of_stride(const rg_tensor *x, int64_t stride, uint32_t left)
{
  for (int32_t i = 0; i < x->_ndim; i++) {
    if ((left >> i & 1) != 0 && x->_stride[i] == stride) {
      return i;
    }
  }
  return -1;
}

rg_window rg_window_of(const rg_tensor *x)
{
  const int64_t bytes = rg_dtype_bytes(x->_dtype);
  const int64_t offset = (char *)x->_data - (char *)x->_storage->block.data;
  int64_t run = 1;
  int32_t axis;
  uint32_t left = 0; /* axes that are not in the run */
  rg_window w = { .pitch = x->_storage->bytes };

  for (int32_t i = 0; i < x->_ndim; i++) {
    left |= x->_shape[i] > 1 ? 1u << i : 0;
  }
  while ((axis = axis_of_stride(x, run, left)) >= 0) {
    run *= x->_shape[axis];
    left &= ~(1u << axis);
  }
  for (int32_t i = 0; i < x->_ndim; i++) {
    if ((left >> i & 1) != 0) {
      w.pitch = x->_stride[i] * bytes;
      left &= ~(1u << i);
      break;
    }
  }
  w.width = run * bytes;
  w.first = w.pitch > 0 ? offset % w.pitch : 0;
  if (x->_count == 0 || left != 0 || w.pitch <= 0 || w.first + w.width > w.pitch ||
      x->_storage->bytes % w.pitch != 0 || w.width == w.pitch ||
      x->_count * bytes != x->_storage->bytes / w.pitch * w.width) {
    return (rg_window){ 0 };
  }
  return w;
}

int64_t rg_window_bytes(const rg_window *w, int64_t storage_bytes)
{
  return w->width == 0 ? storage_bytes : storage_bytes / w->pitch * w->width;
}

/* -- Where a tensor lies --------------------------------------------------------------------- */

/* Bytes from the first to behind the last element of x in one row, axis `but` left out, which may
** be none of x's; -1 where x steps through rows and columns at once. */
static int64_t extent(const rg_window *w, const rg_tensor *x, int32_t but)
{
  const int64_t bytes = rg_dtype_bytes(x->_dtype);
  int64_t sum = bytes;

  for (int32_t i = 0; i < x->_ndim; i++) {
    const int64_t step = x->_stride[i] * bytes;

    if (i == but || x->_shape[i] <= 1 || step % w->pitch == 0) {
      continue;
    }
    if (step < 0 || step > w->pitch) {
      return -1;
    }
    sum += (x->_shape[i] - 1) * step;
  }
  return sum;
}

static rg_fit fit_of(const rg_window *w, int64_t column, int64_t wide)
{
  if (column >= w->first && column + wide <= w->first + w->width) {
    return RG_FIT_INSIDE;
  }
  return column + wide <= w->first || column >= w->first + w->width ? RG_FIT_OUTSIDE
                                                                    : RG_FIT_ACROSS;
}

rg_fit rg_window_fit(const rg_window *w, const rg_tensor *x, int64_t offset)
{
  const int64_t column = w->width > 0 ? offset % w->pitch : 0;
  int64_t wide;

  if (w->width == 0 || x->_count == 0) {
    return RG_FIT_INSIDE;
  }
  wide = extent(w, x, x->_ndim);
  return wide < 0 || column + wide > w->pitch ? RG_FIT_ACROSS : fit_of(w, column, wide);
}

bool rg_window_cut(const rg_window *w, const rg_tensor *x, int64_t offset, int32_t *axis,
                   int64_t *start, int64_t *length)
{
  const int64_t bytes = rg_dtype_bytes(x->_dtype);
  const int64_t column = offset % w->pitch;

  for (int32_t i = 0; i < x->_ndim; i++) {
    const int64_t step = x->_stride[i] * bytes;
    const int64_t wide = extent(w, x, i);
    int64_t inside = 0;
    bool whole = step > 0 && step < w->pitch && wide > 0 &&
                 column + (x->_shape[i] - 1) * step + wide <= w->pitch;

    for (int64_t k = 0; k < x->_shape[i] && whole; k++) {
      const rg_fit fit = fit_of(w, column + k * step, wide);

      whole = fit != RG_FIT_ACROSS;
      if (fit == RG_FIT_INSIDE) {
        *start = inside++ == 0 ? k : *start;
      }
    }
    if (whole && inside > 0) {
      *axis = i;
      *length = inside;
      return true;
    }
  }
  return false;
}

rg_status rg_window_view(const rg_window *w, const rg_tensor *flow, const rg_tensor *x,
                         int64_t offset, rg_tensor **out)
{
  const int64_t bytes = rg_dtype_bytes(x->_dtype);
  int64_t stride[8];

  if (w->width == 0) {
    return rg_as_strided(flow, x->_shape, x->_stride, x->_ndim, offset / bytes, out);
  }
  for (int32_t i = 0; i < x->_ndim; i++) {
    const int64_t step = x->_stride[i] * bytes;

    stride[i] = step % w->pitch == 0 ? step / w->pitch * (w->width / bytes) : x->_stride[i];
  }
  offset = offset / w->pitch * w->width + offset % w->pitch - w->first;
  return rg_as_strided(flow, x->_shape, stride, x->_ndim, x->_count > 0 ? offset / bytes : 0, out);
}
