/* SPDX-License-Identifier: MIT */
/*
** Arguments of views.  A recorded call has them resolved: axes and positions are not negative, no
** size is -1.
*/
#ifndef RIDGE_OP_VIEW_H
#define RIDGE_OP_VIEW_H

#include "op/op.h"

/* clang-format off */
#define RG_SHAPE_ARGS(A, S, AT) \
  A(S, AT, sizes, shape, SHAPE, RG_REQUIRED, "sizes; one may be -1 and is worked out")
#define RG_EXPAND_ARGS(A, S, AT) \
  A(S, AT, sizes, shape, SHAPE, RG_REQUIRED, "sizes; axes of size 1 may get any")
#define RG_PERMUTE_ARGS(A, S, AT) \
  A(S, AT, sizes, order, ORDER, RG_REQUIRED, "every axis once")
#define RG_TRANSPOSE_ARGS(A, S, AT) \
  A(S, AT, i32, a, AXIS, -2, "one axis") \
  A(S, AT, i32, b, AXIS, -1, "and the other")
#define RG_NARROW_ARGS(A, S, AT) \
  A(S, AT, i32, axis, AXIS, RG_REQUIRED, "whose range it is") \
  A(S, AT, i64, start, POSITION, RG_REQUIRED, "the first position") \
  A(S, AT, i64, length, WHOLE, RG_REQUIRED, "positions") \
  A(S, AT, i64, step, WHOLE, 1, "between two of them")
#define RG_SELECT_ARGS(A, S, AT) \
  A(S, AT, i32, axis, AXIS, RG_REQUIRED, "which goes away") \
  A(S, AT, i64, index, POSITION, RG_REQUIRED, "the position on it")
#define RG_ONE_AXIS_ARGS(A, S, AT) \
  A(S, AT, i32, axis, AXIS, RG_REQUIRED, "the axis of size 1")
#define RG_AS_STRIDED_ARGS(A, S, AT) \
  A(S, AT, sizes, shape, SHAPE, RG_REQUIRED, "sizes") \
  A(S, AT, sizes, stride, STRIDES, RG_REQUIRED, "elements from one position to the next") \
  A(S, AT, i64, offset, WHOLE, 0, "elements from the first of x to the first of the view")
/* clang-format on */
RG_ARGS_STRUCT(rg_shape_args, RG_SHAPE_ARGS);
RG_ARGS_STRUCT(rg_expand_args, RG_EXPAND_ARGS);
RG_ARGS_STRUCT(rg_permute_args, RG_PERMUTE_ARGS);
RG_ARGS_STRUCT(rg_transpose_args, RG_TRANSPOSE_ARGS);
RG_ARGS_STRUCT(rg_narrow_args, RG_NARROW_ARGS);
RG_ARGS_STRUCT(rg_select_args, RG_SELECT_ARGS);
RG_ARGS_STRUCT(rg_one_axis_args, RG_ONE_AXIS_ARGS);
RG_ARGS_STRUCT(rg_as_strided_args, RG_AS_STRIDED_ARGS);

/* -- Entries --------------------------------------------------------------------------------- */

typedef rg_status rg_view_rule(const rg_op *op, const rg_tensor *x, void *args, rg_layout *at);

/* A view was made while somebody looks on. */
rg_status rg_view_observed(const rg_op *op, const rg_tensor *x, const void *args, rg_tensor **y);

/* The entry of views.  Each entry has it with its own rule compiled into it, because a view is
** little more than a struct. */
static inline __attribute__((always_inline)) rg_status
rg_view_by(const rg_op *op, rg_view_rule *rule, const rg_tensor *x, void *args, rg_tensor **out)
{
  rg_layout at;

  if (x == NULL || (x->_flags & RG_TENSOR_ASK) != 0) {
    RG_TRY(rg_tensor_check(x, op->name));
  }
  if (out == NULL) {
    return rg_fail(RG_EARG, "%s: out is NULL", op->name);
  }
  at.ndim = x->_ndim;
  at.flags = 0;
  at.offset = 0;
  at.shape = x->_shape;
  at.stride = at.strides;
  RG_TRY(rule(op, x, args, &at));
  if (op->expand != NULL && at.ndim == RG_NO_VIEW) {
    return rg_run_body(op, &x, 1, args, out);
  }
  const char *first = x->_storage->block.data;
  int64_t bytes = (char *)x->_data - first + at.offset * rg_dtype_sizes[x->_dtype];

  RG_TRY(rg_tensor_view_of(x->_storage, x->_dtype, at.shape, at.stride, at.ndim, bytes, out));
  (*out)->_flags |= at.flags | (x->_flags & (RG_TENSOR_PARAM | RG_TENSOR_DETACHED));
  return (rg_ring_on & RG_RING_VIEWS) != 0 ? rg_view_observed(op, x, args, out) : RG_OK;
}

/* A list of the caller's; one that cannot be is refused by the rule, by its n. */
static inline void rg_take_sizes(rg_sizes *sizes, const int64_t *at, int32_t n)
{
  sizes->n = at != NULL || n <= 0 ? n : -1;
  for (int32_t i = 0; i < n && n <= RG_MAX_DIMS && at != NULL; i++) {
    sizes->at[i] = at[i];
  }
}

/* A view of x's storage with any shape and strides; its first element lies offset elements behind
** that of x. */
rg_status rg_as_strided(const rg_tensor *x, const int64_t *shape, const int64_t *stride,
                        int32_t ndim, int64_t offset, rg_tensor **out) RG_CHECK;

#endif
