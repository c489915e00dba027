/* SPDX-License-Identifier: MIT */
/*
** Views: other shapes and strides over the same storage.  None of them copies.
*/
#include "tensor/tensor.h"

static rg_status axis_of(const rg_tensor *x, int32_t axis, int32_t n, const char *what,
                         int32_t *out)
{
  char text[96];
  int32_t resolved = axis < 0 ? axis + n : axis;

  if (resolved < 0 || resolved >= n) {
    return rg_fail(RG_EAXIS, "%s: there is no axis %lld in %s", what, rg_from_one(axis),
                   rg_tensor_text(x, text, sizeof(text)));
  }
  *out = resolved;
  return RG_OK;
}

/* Do length elements of an axis, from start and step apart, lie within its size?  Division rounds
** towards 0, so that nothing may be divided before it is known not to be negative. */
static bool within(int64_t size, int64_t start, int64_t length, int64_t step)
{
  if (start < 0 || length < 0 || step < 1 || start > size) {
    return false;
  }
  return length == 0 || (start < size && length - 1 <= (size - 1 - start) / step);
}

static rg_status check(const rg_tensor *x, rg_tensor **out, const char *what)
{
  RG_TRY(rg_tensor_check(x, what));
  if (out == NULL) {
    return rg_fail(RG_EARG, "%s: out is NULL", what);
  }
  return RG_OK;
}

/* A view of x with other shape and strides, its first element offset elements further. */
static rg_status make(const rg_tensor *x, const int64_t *shape, const int64_t *stride, int32_t ndim,
                      int64_t offset, rg_tensor **out)
{
  int64_t bytes =
      (char *)x->_data - (char *)x->_storage->block.data + offset * rg_dtype_bytes(x->_dtype);

  RG_TRY(rg_tensor_view_of(x->_storage, x->_dtype, shape, stride, ndim, bytes, out));
  (*out)->_flags |= x->_flags & (RG_TENSOR_PARAM | RG_TENSOR_DETACHED);
  return RG_OK;
}

/*
** Strides of x in another shape, if a view can have it: every group of joined axes of x must be
** gapless, and the new axes must split at the groups' borders.
*/
static bool strides_for(const rg_tensor *x, const int64_t *shape, int32_t ndim, int64_t *stride)
{
  int32_t from = 0;
  int32_t to = 0;

  if (x->_count == 0 || rg_tensor_bytes(x) == 0) {
    int64_t step = 1;

    for (int32_t i = ndim - 1; i >= 0; i--) {
      stride[i] = step;
      step *= rg_max_i64(shape[i], 1);
    }
    return true;
  }
  while (from < x->_ndim || to < ndim) {
    int32_t from_start = from;
    int32_t to_start = to;
    int64_t a = from < x->_ndim ? x->_shape[from++] : 1;
    int64_t b = to < ndim ? shape[to++] : 1;

    while (a != b) {
      if (a < b) {
        a *= x->_shape[from++];
      } else {
        b *= shape[to++];
      }
    }
    /* old axes from_start .. from-1 become new axes to_start .. to-1 */
    int32_t last = -1; /* innermost old axis longer than 1 */
    for (int32_t i = from_start; i < from; i++) {
      if (x->_shape[i] == 1) {
        continue;
      }
      if (last >= 0 && x->_stride[last] != x->_stride[i] * x->_shape[i]) {
        return false;
      }
      last = i;
    }
    int64_t step = last >= 0 ? x->_stride[last] : 1;
    for (int32_t i = to - 1; i >= to_start; i--) {
      stride[i] = step;
      step *= shape[i];
    }
  }
  return true;
}

rg_status rg_view(const rg_tensor *x, const int64_t *shape, int32_t ndim, rg_tensor **out)
{
  char own[96];
  char text[128];
  int64_t full[RG_MAX_DIMS];
  int64_t stride[RG_MAX_DIMS] = { 0 };
  int64_t count = 1;
  int64_t span = 1;
  int32_t open = -1;

  RG_TRY(check(x, out, "view"));
  if (ndim < 0 || ndim > RG_MAX_DIMS || (shape == NULL && ndim > 0)) {
    return rg_fail(RG_ESHAPE, "view: %d axes; at most %d are possible", ndim, RG_MAX_DIMS);
  }
  for (int32_t i = 0; i < ndim; i++) {
    full[i] = shape[i];
    if (shape[i] == -1 && open < 0) {
      open = i;
    } else if (shape[i] < 0 || !rg_count_grows(&span, shape[i])) {
      return rg_fail(RG_ESHAPE, "view: %s is no shape",
                     rg_shape_text(shape, ndim, text, sizeof(text)));
    } else {
      count *= shape[i];
    }
  }
  if (open >= 0) {
    if (count == 0 || x->_count % count != 0) {
      return rg_fail(RG_ESHAPE, "view: no size in place of -1 makes %s of %s",
                     rg_shape_text(shape, ndim, text, sizeof(text)),
                     rg_tensor_text(x, own, sizeof(own)));
    }
    full[open] = x->_count / count;
    count = x->_count;
  }
  if (count != x->_count) {
    return rg_fail(RG_ESHAPE, "view: %s has %lld elements, %s needs %lld",
                   rg_tensor_text(x, own, sizeof(own)), (long long)x->_count,
                   rg_shape_text(full, ndim, text, sizeof(text)), (long long)count);
  }
  if (!strides_for(x, full, ndim, stride)) {
    return rg_fail(RG_ESHAPE, "view: the strides of %s do not allow %s; make it contiguous first",
                   rg_tensor_text(x, own, sizeof(own)),
                   rg_shape_text(full, ndim, text, sizeof(text)));
  }
  return make(x, full, stride, ndim, 0, out);
}

rg_status rg_permute(const rg_tensor *x, const int32_t *order, int32_t n, rg_tensor **out)
{
  char text[96];
  int64_t shape[RG_MAX_DIMS];
  int64_t stride[RG_MAX_DIMS];
  uint32_t seen = 0;

  RG_TRY(check(x, out, "permute"));
  if (n != x->_ndim || (order == NULL && n > 0)) {
    return rg_fail(RG_EAXIS, "permute: %d axes named for %s", n,
                   rg_tensor_text(x, text, sizeof(text)));
  }
  for (int32_t i = 0; i < n; i++) {
    int32_t axis;

    RG_TRY(axis_of(x, order[i], n, "permute", &axis));
    if (seen >> axis & 1) {
      return rg_fail(RG_EAXIS, "permute: axis %d is named twice", axis + 1);
    }
    seen |= 1u << axis;
    shape[i] = x->_shape[axis];
    stride[i] = x->_stride[axis];
  }
  return make(x, shape, stride, n, 0, out);
}

rg_status rg_transpose(const rg_tensor *x, int32_t a, int32_t b, rg_tensor **out)
{
  int32_t order[RG_MAX_DIMS];

  RG_TRY(check(x, out, "transpose"));
  RG_TRY(axis_of(x, a, x->_ndim, "transpose", &a));
  RG_TRY(axis_of(x, b, x->_ndim, "transpose", &b));
  for (int32_t i = 0; i < x->_ndim; i++) {
    order[i] = i == a ? b : i == b ? a : i;
  }
  return rg_permute(x, order, x->_ndim, out);
}

rg_status rg_narrow(const rg_tensor *x, int32_t axis, int64_t start, int64_t length, int64_t step,
                    rg_tensor **out)
{
  char text[96];
  int64_t shape[RG_MAX_DIMS];
  int64_t stride[RG_MAX_DIMS];

  RG_TRY(check(x, out, "narrow"));
  RG_TRY(axis_of(x, axis, x->_ndim, "narrow", &axis));
  if (!within(x->_shape[axis], start, length, step)) {
    return rg_fail(RG_EAXIS, "narrow: %lld elements from %lld by %lld are outside axis %d of %s",
                   (long long)length, rg_from_one(start), (long long)step, axis + 1,
                   rg_tensor_text(x, text, sizeof(text)));
  }
  for (int32_t i = 0; i < x->_ndim; i++) {
    shape[i] = i == axis ? length : x->_shape[i];
    /* the step of one element leads nowhere, and may be too large to multiply */
    stride[i] = i == axis && length > 1 ? x->_stride[i] * step : x->_stride[i];
  }
  return make(x, shape, stride, x->_ndim, start * x->_stride[axis], out);
}

rg_status rg_select(const rg_tensor *x, int32_t axis, int64_t index, rg_tensor **out)
{
  char text[96];
  int64_t shape[RG_MAX_DIMS];
  int64_t stride[RG_MAX_DIMS];
  int32_t n = 0;

  RG_TRY(check(x, out, "select"));
  RG_TRY(axis_of(x, axis, x->_ndim, "select", &axis));
  if (index < 0 || index >= x->_shape[axis]) {
    return rg_fail(RG_EAXIS, "select: position %lld of axis %d is outside %s", rg_from_one(index),
                   axis + 1, rg_tensor_text(x, text, sizeof(text)));
  }
  for (int32_t i = 0; i < x->_ndim; i++) {
    if (i != axis) {
      shape[n] = x->_shape[i];
      stride[n++] = x->_stride[i];
    }
  }
  return make(x, shape, stride, n, index * x->_stride[axis], out);
}

rg_status rg_expand(const rg_tensor *x, const int64_t *shape, int32_t ndim, rg_tensor **out)
{
  char own[96];
  char text[128];
  int64_t stride[RG_MAX_DIMS];
  int64_t span = 1;

  RG_TRY(check(x, out, "expand"));
  if (ndim < x->_ndim || ndim > RG_MAX_DIMS || (shape == NULL && ndim > 0)) {
    return rg_fail(RG_ESHAPE, "expand: %s cannot have %d axes", rg_tensor_text(x, own, sizeof(own)),
                   ndim);
  }
  for (int32_t i = 0; i < ndim; i++) {
    int32_t axis = i - (ndim - x->_ndim);
    int64_t size = axis < 0 ? 1 : x->_shape[axis];

    if (shape[i] < 0 || (size != shape[i] && size != 1)) {
      return rg_fail(RG_ESHAPE, "expand: %s does not fill %s", rg_tensor_text(x, own, sizeof(own)),
                     rg_shape_text(shape, ndim, text, sizeof(text)));
    }
    stride[i] = axis < 0 || size != shape[i] ? 0 : x->_stride[axis];
    if (!rg_count_grows(&span, shape[i])) {
      return rg_fail(RG_ESHAPE, "expand: %s has too many elements",
                     rg_shape_text(shape, ndim, text, sizeof(text)));
    }
  }
  return make(x, shape, stride, ndim, 0, out);
}

rg_status rg_unsqueeze(const rg_tensor *x, int32_t axis, rg_tensor **out)
{
  int64_t shape[RG_MAX_DIMS];
  int64_t stride[RG_MAX_DIMS];

  RG_TRY(check(x, out, "unsqueeze"));
  if (x->_ndim == RG_MAX_DIMS) {
    return rg_fail(RG_ESHAPE, "unsqueeze: at most %d axes are possible", RG_MAX_DIMS);
  }
  RG_TRY(axis_of(x, axis, x->_ndim + 1, "unsqueeze", &axis));
  for (int32_t i = 0; i <= x->_ndim; i++) {
    int32_t own = i > axis ? i - 1 : i;

    shape[i] = i == axis ? 1 : x->_shape[own];
    stride[i] = i == axis ? 1 : x->_stride[own];
  }
  return make(x, shape, stride, x->_ndim + 1, 0, out);
}

rg_status rg_squeeze(const rg_tensor *x, int32_t axis, rg_tensor **out)
{
  char text[96];

  RG_TRY(check(x, out, "squeeze"));
  RG_TRY(axis_of(x, axis, x->_ndim, "squeeze", &axis));
  if (x->_shape[axis] != 1) {
    return rg_fail(RG_ESHAPE, "squeeze: axis %d of %s is not of size 1", axis + 1,
                   rg_tensor_text(x, text, sizeof(text)));
  }
  return rg_select(x, axis, 0, out);
}
