/* SPDX-License-Identifier: MIT */
/*
** Views: other shapes and strides over the same storage.  None of them copies, so their records
** have no kernel but a rule how the view lies.  The tape needs none for them: a gradient is the
** same window into the gradient of the storage.
*/
#include <string.h>

#include "op/list.h"
#include "op/view.h"

/* -- Entry -------------------------------------------------------------------------------- */

rg_status rg_view_observed(const rg_op *op, const rg_tensor *x, const void *args, rg_tensor **y)
{
  rg_call call = { .op = op,
                   .in = &x,
                   .n_in = 1,
                   .args = args,
                   .device = x->_device,
                   .compute = -1,
                   .weight_cast = -1,
                   .n_out = 1 };
  int64_t begun = rg_observe_begin(&call, RG_EVENT_VIEW);

  if (begun >= 0) {
    rg_observe_end(begun, &call, y, "");
  }
  rg_status status = rg_graph_recorder != NULL ? rg_graph_recorder->ran(&call, y) : RG_OK;

  if (status != RG_OK) {
    rg_tensor_release(*y);
    *y = NULL;
  }
  return status;
}

rg_status rg_run_view(const rg_op *op, const rg_tensor *x, void *args, rg_tensor **out)
{
  return rg_view_by(op, op->view, x, args, out);
}

/* -- Axes and ranges ------------------------------------------------------------------------- */

/* Of x, to be changed. */
static inline void copy_axes(const rg_tensor *x, rg_layout *at)
{
  at->shape = at->sizes;
  memcpy(at->sizes, x->_shape, sizeof(at->sizes));
  memcpy(at->strides, x->_stride, sizeof(at->strides));
}

static inline rg_status axis_of(const rg_op *op, const rg_tensor *x, int32_t *axis, int32_t n)
{
  char text[96];
  int32_t resolved = *axis < 0 ? *axis + n : *axis;

  if (resolved < 0 || resolved >= n) {
    return rg_fail(RG_EAXIS, "%s: there is no axis %lld in %s", op->name, rg_from_one(*axis),
                   rg_tensor_text(x, text, sizeof(text)));
  }
  *axis = resolved;
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

/* -- Another order --------------------------------------------------------------------------- */

static inline rg_status permute_at(const rg_op *op, const rg_tensor *x, void *given, rg_layout *at)
{
  rg_sizes *order = &((rg_permute_args *)given)->order;
  char text[96];
  uint32_t seen = 0;

  if (order->n != x->_ndim) {
    return rg_fail(RG_EAXIS, "%s: %d axes named for %s", op->name,
                   order->n < 0 ? 0 : (int32_t)order->n, rg_tensor_text(x, text, sizeof(text)));
  }
  at->shape = at->sizes;
  for (int32_t i = 0; i < x->_ndim; i++) {
    int32_t axis = (int32_t)order->at[i];

    RG_TRY(axis_of(op, x, &axis, x->_ndim));
    if (seen >> axis & 1) {
      return rg_fail(RG_EAXIS, "%s: axis %d is named twice", op->name, axis + 1);
    }
    seen |= 1u << axis;
    order->at[i] = axis;
    at->sizes[i] = x->_shape[axis];
    at->strides[i] = x->_stride[axis];
  }
  return RG_OK;
}

static const rg_arg permute_args[] = { RG_PERMUTE_ARGS(RG_ARG_ROW, rg_permute_args, ) };

const rg_op rg_op_permute = {
  .name = "permute",
  .doc = "axes in another order",
  .id = RG_OP_PERMUTE,
  RG_INPUTS(RG_IN("x", INPUT, STORED)),
  .result = { "y" },
  RG_ARGS(rg_permute_args, permute_args),
  .view = permute_at,
};

rg_status rg_permute(const rg_tensor *x, const int32_t *order, int32_t n, rg_tensor **out)
{
  rg_permute_args args;

  args.order.n = order != NULL || n <= 0 ? n : -1;
  for (int32_t i = 0; i < n && n <= RG_MAX_DIMS && order != NULL; i++) {
    args.order.at[i] = order[i];
  }
  return rg_view_by(&rg_op_permute, permute_at, x, &args, out);
}

static inline rg_status transpose_at(const rg_op *op, const rg_tensor *x, void *given,
                                     rg_layout *at)
{
  rg_transpose_args *args = given;

  RG_TRY(axis_of(op, x, &args->a, x->_ndim));
  RG_TRY(axis_of(op, x, &args->b, x->_ndim));
  copy_axes(x, at);
  at->sizes[args->a] = x->_shape[args->b];
  at->sizes[args->b] = x->_shape[args->a];
  at->strides[args->a] = x->_stride[args->b];
  at->strides[args->b] = x->_stride[args->a];
  return RG_OK;
}

static const rg_arg transpose_args[] = { RG_TRANSPOSE_ARGS(RG_ARG_ROW, rg_transpose_args, ) };

const rg_op rg_op_transpose = {
  .name = "transpose",
  .doc = "two axes exchanged",
  .id = RG_OP_TRANSPOSE,
  RG_INPUTS(RG_IN("x", INPUT, STORED)),
  .result = { "y" },
  RG_ARGS(rg_transpose_args, transpose_args),
  .view = transpose_at,
};

rg_status rg_transpose(const rg_tensor *x, int32_t a, int32_t b, rg_tensor **out)
{
  return rg_view_by(&rg_op_transpose, transpose_at, x, &(rg_transpose_args){ .a = a, .b = b }, out);
}

/* -- Parts ----------------------------------------------------------------------------------- */

static inline rg_status narrow_at(const rg_op *op, const rg_tensor *x, void *given, rg_layout *at)
{
  rg_narrow_args *args = given;
  char text[96];

  RG_TRY(axis_of(op, x, &args->axis, x->_ndim));
  if (!within(x->_shape[args->axis], args->start, args->length, args->step)) {
    return rg_fail(RG_EAXIS, "%s: %lld elements from %lld by %lld are outside axis %d of %s",
                   op->name, (long long)args->length, rg_from_one(args->start),
                   (long long)args->step, args->axis + 1, rg_tensor_text(x, text, sizeof(text)));
  }
  at->shape = at->sizes;
  for (int32_t i = 0; i < x->_ndim; i++) {
    at->sizes[i] = i == args->axis ? args->length : x->_shape[i];
    at->strides[i] = x->_stride[i];
  }
  if (args->length > 1) { /* the step of one element leads nowhere, and may be too large */
    at->strides[args->axis] *= args->step;
  }
  at->offset = args->start * x->_stride[args->axis];
  return RG_OK;
}

static const rg_arg narrow_args[] = { RG_NARROW_ARGS(RG_ARG_ROW, rg_narrow_args, ) };

const rg_op rg_op_narrow = {
  .name = "narrow",
  .doc = "a range of one axis",
  .id = RG_OP_NARROW,
  RG_INPUTS(RG_IN("x", INPUT, STORED)),
  .result = { "y" },
  RG_ARGS(rg_narrow_args, narrow_args),
  .view = narrow_at,
};

rg_status rg_narrow(const rg_tensor *x, int32_t axis, int64_t start, int64_t length, int64_t step,
                    rg_tensor **out)
{
  rg_narrow_args args = { .axis = axis, .start = start, .length = length, .step = step };

  return rg_view_by(&rg_op_narrow, narrow_at, x, &args, out);
}

/* Axis `axis` of x left out. */
static inline void leave_out(const rg_tensor *x, int32_t axis, rg_layout *at)
{
  int32_t n = 0;

  for (int32_t i = 0; i < x->_ndim; i++) {
    if (i != axis) {
      at->sizes[n] = x->_shape[i];
      at->strides[n++] = x->_stride[i];
    }
  }
  at->ndim = n;
  at->shape = at->sizes;
}

static inline rg_status select_at(const rg_op *op, const rg_tensor *x, void *given, rg_layout *at)
{
  rg_select_args *args = given;
  char text[96];

  RG_TRY(axis_of(op, x, &args->axis, x->_ndim));
  if (args->index < 0 || args->index >= x->_shape[args->axis]) {
    return rg_fail(RG_EAXIS, "%s: position %lld of axis %d is outside %s", op->name,
                   rg_from_one(args->index), args->axis + 1, rg_tensor_text(x, text, sizeof(text)));
  }
  leave_out(x, args->axis, at);
  at->offset = args->index * x->_stride[args->axis];
  return RG_OK;
}

static const rg_arg select_args[] = { RG_SELECT_ARGS(RG_ARG_ROW, rg_select_args, ) };

const rg_op rg_op_select = {
  .name = "select",
  .doc = "one position of an axis, which goes away",
  .id = RG_OP_SELECT,
  RG_INPUTS(RG_IN("x", INPUT, STORED)),
  .result = { "y" },
  RG_ARGS(rg_select_args, select_args),
  .view = select_at,
};

rg_status rg_select(const rg_tensor *x, int32_t axis, int64_t index, rg_tensor **out)
{
  return rg_view_by(&rg_op_select, select_at, x, &(rg_select_args){ .axis = axis, .index = index },
                    out);
}

/* -- Axes of size 1 -------------------------------------------------------------------------- */

static inline rg_status unsqueeze_at(const rg_op *op, const rg_tensor *x, void *given,
                                     rg_layout *at)
{
  rg_one_axis_args *args = given;

  if (x->_ndim == RG_MAX_DIMS) {
    return rg_fail(RG_ESHAPE, "%s: at most %d axes are possible", op->name, RG_MAX_DIMS);
  }
  RG_TRY(axis_of(op, x, &args->axis, x->_ndim + 1));
  at->ndim = x->_ndim + 1;
  at->shape = at->sizes;
  for (int32_t i = 0; i <= x->_ndim; i++) {
    int32_t own = i > args->axis ? i - 1 : i;

    at->sizes[i] = i == args->axis ? 1 : x->_shape[own];
    at->strides[i] = i == args->axis ? 1 : x->_stride[own];
  }
  return RG_OK;
}

static const rg_arg one_axis_args[] = { RG_ONE_AXIS_ARGS(RG_ARG_ROW, rg_one_axis_args, ) };

const rg_op rg_op_unsqueeze = {
  .name = "unsqueeze",
  .doc = "an axis of size 1 put in",
  .id = RG_OP_UNSQUEEZE,
  RG_INPUTS(RG_IN("x", INPUT, STORED)),
  .result = { "y" },
  RG_ARGS(rg_one_axis_args, one_axis_args),
  .view = unsqueeze_at,
};

rg_status rg_unsqueeze(const rg_tensor *x, int32_t axis, rg_tensor **out)
{
  return rg_view_by(&rg_op_unsqueeze, unsqueeze_at, x, &(rg_one_axis_args){ .axis = axis }, out);
}

static inline rg_status squeeze_at(const rg_op *op, const rg_tensor *x, void *given, rg_layout *at)
{
  rg_one_axis_args *args = given;
  char text[96];

  RG_TRY(axis_of(op, x, &args->axis, x->_ndim));
  if (x->_shape[args->axis] != 1) {
    return rg_fail(RG_ESHAPE, "%s: axis %d of %s is not of size 1", op->name, args->axis + 1,
                   rg_tensor_text(x, text, sizeof(text)));
  }
  leave_out(x, args->axis, at);
  return RG_OK;
}

const rg_op rg_op_squeeze = {
  .name = "squeeze",
  .doc = "an axis of size 1 taken out",
  .id = RG_OP_SQUEEZE,
  RG_INPUTS(RG_IN("x", INPUT, STORED)),
  .result = { "y" },
  RG_ARGS(rg_one_axis_args, one_axis_args),
  .view = squeeze_at,
};

rg_status rg_squeeze(const rg_tensor *x, int32_t axis, rg_tensor **out)
{
  return rg_view_by(&rg_op_squeeze, squeeze_at, x, &(rg_one_axis_args){ .axis = axis }, out);
}

/* -- The same elements ----------------------------------------------------------------------- */

static inline rg_status detach_at(const rg_op *op, const rg_tensor *x, void *given, rg_layout *at)
{
  (void)op;
  (void)given;
  at->stride = x->_stride;
  at->flags = RG_TENSOR_DETACHED;
  return RG_OK;
}

const rg_op rg_op_detach = {
  .name = "detach",
  .doc = "the same elements, through which no gradient flows",
  .id = RG_OP_DETACH,
  RG_INPUTS(RG_IN("x", INPUT, STORED)),
  .result = { "y" },
  .view = detach_at,
};

rg_status rg_detach(const rg_tensor *x, rg_tensor **out)
{
  return rg_view_by(&rg_op_detach, detach_at, x, NULL, out);
}

/* -- Any strides ----------------------------------------------------------------------------- */

/* Graphs out of files have such views, too.  A tensor without memory stands for one of any. */
static rg_status check_reach(const rg_op *op, const rg_tensor *x, const rg_as_strided_args *args)
{
  const int64_t size = rg_dtype_sizes[x->_dtype];
  int64_t low = args->offset, high = args->offset;
  bool empty = false, far = false;
  char a[96], b[96];

  for (int64_t i = 0; i < args->shape.n; i++) {
    int64_t reach = 0;

    empty = empty || args->shape.at[i] == 0;
    if (args->shape.at[i] < 0) {
      return rg_fail(RG_ESHAPE, "%s: %s is no shape", op->name,
                     rg_shape_text(args->shape.at, (int32_t)args->shape.n, a, sizeof(a)));
    }
    far = far || __builtin_mul_overflow(args->shape.at[i] - 1, args->stride.at[i], &reach) ||
          __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high);
  }
  if (x->_storage == NULL || empty) {
    return RG_OK;
  }
  const int64_t begin = ((char *)x->_data - (char *)x->_storage->block.data) / size;

  if (far || low < -begin || high >= x->_storage->bytes / size - begin) {
    return rg_fail(RG_EARG, "%s: %s from element %lld reaches out of the memory of %s", op->name,
                   rg_shape_text(args->shape.at, (int32_t)args->shape.n, a, sizeof(a)),
                   rg_from_one(args->offset), rg_tensor_text(x, b, sizeof(b)));
  }
  return RG_OK;
}

static inline rg_status as_strided_at(const rg_op *op, const rg_tensor *x, void *given,
                                      rg_layout *at)
{
  const rg_as_strided_args *args = given;
  char text[96];

  if (args->shape.n < 0 || args->shape.n > RG_MAX_DIMS || args->stride.n != args->shape.n) {
    return rg_fail(RG_ESHAPE, "%s: %lld sizes and %lld strides for %s", op->name,
                   (long long)args->shape.n, (long long)args->stride.n,
                   rg_tensor_text(x, text, sizeof(text)));
  }
  RG_TRY(check_reach(op, x, args));
  at->ndim = (int32_t)args->shape.n;
  at->offset = args->offset;
  at->shape = args->shape.at;
  at->stride = args->stride.at;
  return RG_OK;
}

static const rg_arg as_strided_args[] = { RG_AS_STRIDED_ARGS(RG_ARG_ROW, rg_as_strided_args, ) };

const rg_op rg_op_as_strided = {
  .name = "as_strided",
  .doc = "any window into the memory of a tensor",
  .id = RG_OP_AS_STRIDED,
  RG_INPUTS(RG_IN("x", INPUT, STORED)),
  .result = { "y" },
  RG_ARGS(rg_as_strided_args, as_strided_args),
  .view = as_strided_at,
};

rg_status rg_as_strided(const rg_tensor *x, const int64_t *shape, const int64_t *stride,
                        int32_t ndim, int64_t offset, rg_tensor **out)
{
  rg_as_strided_args args;

  args.offset = offset;
  rg_take_sizes(&args.shape, shape, ndim);
  rg_take_sizes(&args.stride, stride, ndim);
  return rg_view_by(&rg_op_as_strided, as_strided_at, x, &args, out);
}
