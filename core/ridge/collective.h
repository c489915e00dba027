/* SPDX-License-Identifier: MIT */
/*
** Collectives: what replicas of one net, in one process, do together.  What is said in ridge/op.h
** of all operations holds here.
*/
#ifndef RIDGE_COLLECTIVE_H
#define RIDGE_COLLECTIVE_H

#include "ridge/op.h"

enum { RG_MAX_REPLICAS = 16 };

/* What an all-reduce can be told. */
/* clang-format off */
#define RG_ALL_REDUCE_OPTIONS(A, S, AT) \
  A(S, AT, i32, mean, FLAG, 0, "the sum divided by the number of tensors")
/* clang-format on */
RG_ARGS_STRUCT(rg_all_reduce_options, RG_ALL_REDUCE_OPTIONS);

/*
** All-reduce: let every tensor become the sum of all.  It is added up in the order of the list, in
** f32 (f64 for f64), and rounded once; so all have the same bits.  No gradient flows through it.
**
** Tensors on several devices are copied to that of the first, reduced there, and copied back.
**
** xs       n tensors of one shape and float type, any strides, on any devices; written to
** n        1 to RG_MAX_REPLICAS
** options  NULL: the sum
** RG_ESHAPE, RG_EDTYPE; RG_EARG: two of them share memory; RG_ECAPTURE: a plan stays on one
** device.
*/
RG_API rg_status rg_all_reduce_(rg_tensor *const *xs, int32_t n,
                                const rg_all_reduce_options *options) RG_CHECK;

#endif
