/* SPDX-License-Identifier: MIT */
/*
** Arguments of the gathering and scattering of elements, and entries for gradients.
*/
#ifndef RIDGE_OP_GATHER_H
#define RIDGE_OP_GATHER_H

#include "op/compose.h"

/* What scatter does where an element comes to a place. */
enum {
  RG_SCATTER_SET,
  RG_SCATTER_ADD,
  RG_SCATTER_MUL,
  RG_SCATTER_MAX,
  RG_SCATTER_MIN,
  RG_SCATTER_COUNT
};

/* clang-format off */
#define RG_GATHER_ARGS(A, S, AT) \
  A(S, AT, i32, axis, AXIS, -1, "along which positions count")
#define RG_SCATTER_ARGS(A, S, AT) \
  RG_GATHER_ARGS(A, S, AT) \
  A(S, AT, i32, reduce, WHOLE, 0, "0: the last one stays; 1 adds, 2 multiplies, 3 max, 4 min")
/* clang-format on */
RG_ARGS_STRUCT(rg_gather_args, RG_GATHER_ARGS);
RG_ARGS_STRUCT(rg_scatter_args, RG_SCATTER_ARGS);

/* For gradients; axis: 0 .. ndim - 1. */
rg_status rg_gather_along(const rg_tensor *x, int32_t axis, const rg_tensor *index,
                          rg_tensor **out) RG_CHECK;
rg_status rg_scatter_along(const rg_tensor *x, int32_t axis, const rg_tensor *index,
                           const rg_tensor *src, int32_t reduce, rg_tensor **out) RG_CHECK;

/* dy added up at its positions, in zeros of a type and shape: the gradient of gathering. */
rg_value rg_f_scattered(rg_compose *f, const rg_meta *like, int32_t axis, rg_value index,
                        rg_value dy);

#endif
