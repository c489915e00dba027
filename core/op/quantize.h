/* SPDX-License-Identifier: MIT */
/*
** Arguments of quantization, and which scale belongs to which element.
*/
#ifndef RIDGE_OP_QUANTIZE_H
#define RIDGE_OP_QUANTIZE_H

#include "op/op.h"

/* clang-format off */
#define RG_QUANTIZE_ARGS(A, S, AT) \
  A(S, AT, i32, axis, AXIS, -1, "along which scales change") \
  A(S, AT, i64, group, WHOLE, 0, "elements of the axis that share a scale; 0: [n] of the axis") \
  A(S, AT, i32, dtype, DTYPE, RG_I8, "of the result: i8 or u8")
#define RG_DEQUANTIZE_ARGS(A, S, AT) \
  A(S, AT, i32, axis, AXIS, -1, "along which scales change") \
  A(S, AT, i64, group, WHOLE, 0, "elements of the axis that share a scale; 0: [n] of the axis") \
  A(S, AT, i32, dtype, DTYPE, RG_F32, "of the result: f32, bf16 or f16")
/* clang-format on */
RG_ARGS_STRUCT(rg_quantize_args, RG_QUANTIZE_ARGS);
RG_ARGS_STRUCT(rg_dequantize_args, RG_DEQUANTIZE_ARGS);

/*
** A tensor as [outer x n x inner] around the axis.  The scale of element (o, j, i) is number
** (o blocks + j / group) inner + i, or j where group is 0.
*/
typedef struct rg_quantize_spread {
  int64_t n;
  int64_t inner;
  int64_t group;  /* 0: a scale for each place on the axis */
  int64_t blocks; /* of the axis */
} rg_quantize_spread;

rg_quantize_spread rg_quantize_spread_of(const rg_tensor *x, int32_t axis, int64_t group);

#endif
