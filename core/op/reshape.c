/* SPDX-License-Identifier: MIT */
/*
** Views of another shape: the same elements in other axes, or repeated along axes of size 1.
*/
#include "op/list.h"
#include "op/view.h"

/* -- Another shape --------------------------------------------------------------------------- */

/*
** Strides of x in another shape, if a view can have it: every group of joined axes of x must be
** gapless, and the new axes must split at the groups' borders.
*/
static bool strides_for(const rg_tensor *x, const int64_t *shape, int32_t ndim, int64_t *stride)
{
  int32_t from = 0;
  int32_t to = 0;

  if (rg_is_contiguous(x) || rg_tensor_bytes(x) == 0) {
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

/* Sizes that are a shape of x's elements, with a number in place of -1. */
static rg_status resolve_shape(const rg_op *op, const rg_tensor *x, rg_sizes *shape)
{
  char own[96];
  char text[128];
  int32_t ndim = (int32_t)shape->n;
  int64_t count = 1;
  int64_t span = 1;
  int32_t open = -1;

  if (shape->n < 0 || shape->n > RG_MAX_DIMS) {
    return rg_fail(RG_ESHAPE, "%s: %d axes; at most %d are possible", op->name, ndim, RG_MAX_DIMS);
  }
  for (int32_t i = 0; i < ndim; i++) {
    if (shape->at[i] == -1 && open < 0) {
      open = i;
    } else if (shape->at[i] < 0 || !rg_count_grows(&span, shape->at[i])) {
      return rg_fail(RG_ESHAPE, "%s: %s is no shape", op->name,
                     rg_shape_text(shape->at, ndim, text, sizeof(text)));
    } else {
      count *= shape->at[i];
    }
  }
  if (open >= 0) {
    if (count == 0 || x->_count % count != 0) {
      return rg_fail(RG_ESHAPE, "%s: no size in place of -1 makes %s of %s", op->name,
                     rg_shape_text(shape->at, ndim, text, sizeof(text)),
                     rg_tensor_text(x, own, sizeof(own)));
    }
    shape->at[open] = x->_count / count;
    count = x->_count;
  }
  if (count != x->_count) {
    return rg_fail(RG_ESHAPE, "%s: %s has %lld elements, %s needs %lld", op->name,
                   rg_tensor_text(x, own, sizeof(own)), (long long)x->_count,
                   rg_shape_text(shape->at, ndim, text, sizeof(text)), (long long)count);
  }
  return RG_OK;
}

static inline rg_status view_at(const rg_op *op, const rg_tensor *x, void *given, rg_layout *at)
{
  rg_shape_args *args = given;
  char own[96];
  char text[128];
  int32_t ndim = (int32_t)args->shape.n;

  RG_TRY(resolve_shape(op, x, &args->shape));
  if (!strides_for(x, args->shape.at, ndim, at->strides)) {
    if (op->expand != NULL) {
      at->ndim = RG_NO_VIEW;
      return RG_OK;
    }
    return rg_fail(RG_ESHAPE, "%s: the strides of %s do not allow %s; make it contiguous first",
                   op->name, rg_tensor_text(x, own, sizeof(own)),
                   rg_shape_text(args->shape.at, ndim, text, sizeof(text)));
  }
  at->ndim = ndim;
  at->shape = args->shape.at;
  return RG_OK;
}

static const rg_arg shape_args[] = { RG_SHAPE_ARGS(RG_ARG_ROW, rg_shape_args, ) };

const rg_op rg_op_view = {
  .name = "view",
  .doc = "the same elements in another shape",
  .id = RG_OP_VIEW,
  RG_INPUTS(RG_IN("x", INPUT, STORED)),
  .result = { "y" },
  RG_ARGS(rg_shape_args, shape_args),
  .view = view_at,
};

rg_status rg_view(const rg_tensor *x, const int64_t *shape, int32_t ndim, rg_tensor **out)
{
  rg_shape_args args;

  rg_take_sizes(&args.shape, shape, ndim);
  return rg_view_by(&rg_op_view, view_at, x, &args, out);
}

/* Where the strides allow no view. */
static rg_status reshape_expand(const rg_call *call, rg_tensor **out)
{
  const rg_shape_args *args = call->args;
  rg_tensor *flat;
  rg_status status;

  RG_TRY(rg_clone(call->in[0], &flat));
  status = rg_view(flat, args->shape.at, (int32_t)args->shape.n, out);
  rg_tensor_release(flat);
  return status;
}

const rg_op rg_op_reshape = {
  .name = "reshape",
  .doc = "the same elements in another shape: a view where the strides allow one, else a copy",
  .id = RG_OP_RESHAPE,
  RG_INPUTS(RG_IN("x", INPUT, STORED)),
  .result = { "y" },
  RG_ARGS(rg_shape_args, shape_args),
  .view = view_at,
  .expand = reshape_expand,
};

rg_status rg_reshape(const rg_tensor *x, const int64_t *shape, int32_t ndim, rg_tensor **out)
{
  rg_shape_args args;

  rg_take_sizes(&args.shape, shape, ndim);
  return rg_view_by(&rg_op_reshape, view_at, x, &args, out);
}

/* -- Repeated --------------------------------------------------------------------------------- */

static inline rg_status expand_at(const rg_op *op, const rg_tensor *x, void *given, rg_layout *at)
{
  const rg_sizes *shape = &((const rg_expand_args *)given)->shape;
  int32_t ndim = (int32_t)shape->n;
  char own[96];
  char text[128];
  int64_t span = 1;

  if (shape->n < x->_ndim || shape->n > RG_MAX_DIMS) {
    return rg_fail(RG_ESHAPE, "%s: %s cannot have %d axes", op->name,
                   rg_tensor_text(x, own, sizeof(own)), ndim);
  }
  at->ndim = ndim;
  at->shape = shape->at;
  for (int32_t i = 0; i < ndim; i++) {
    int32_t axis = i - (ndim - x->_ndim);
    int64_t size = axis < 0 ? 1 : x->_shape[axis];

    if (shape->at[i] < 0 || (size != shape->at[i] && size != 1)) {
      return rg_fail(RG_ESHAPE, "%s: %s does not fill %s", op->name,
                     rg_tensor_text(x, own, sizeof(own)),
                     rg_shape_text(shape->at, ndim, text, sizeof(text)));
    }
    at->strides[i] = axis < 0 || size != shape->at[i] ? 0 : x->_stride[axis];
    if (!rg_count_grows(&span, shape->at[i])) {
      return rg_fail(RG_ESHAPE, "%s: %s has too many elements", op->name,
                     rg_shape_text(shape->at, ndim, text, sizeof(text)));
    }
  }
  return RG_OK;
}

static const rg_arg expand_args[] = { RG_EXPAND_ARGS(RG_ARG_ROW, rg_expand_args, ) };

const rg_op rg_op_expand = {
  .name = "expand",
  .doc = "axes of size 1 repeated",
  .id = RG_OP_EXPAND,
  RG_INPUTS(RG_IN("x", INPUT, STORED)),
  .result = { "y" },
  RG_ARGS(rg_expand_args, expand_args),
  .view = expand_at,
};

rg_status rg_expand(const rg_tensor *x, const int64_t *shape, int32_t ndim, rg_tensor **out)
{
  rg_expand_args args;

  rg_take_sizes(&args.shape, shape, ndim);
  return rg_view_by(&rg_op_expand, expand_at, x, &args, out);
}
