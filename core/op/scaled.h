/* SPDX-License-Identifier: MIT */
/*
** Arguments of products of 8-bit factors with scales, and checks that records of bytes share.
*/
#ifndef RIDGE_OP_SCALED_H
#define RIDGE_OP_SCALED_H

#include "op/op.h"

/* Products that a sum may have: (-128)^2 131072 times is 2^31, one more than i32 holds; with bytes
** less a zero point, 255 128 65794 times. */
enum { RG_SCALED_I8_MOST = 131071, RG_SCALED_MOST = 65793 };

typedef rg_scaled_linear_options rg_scaled_args;

static inline bool rg_is_bytes(int32_t dtype)
{
  return dtype == RG_I8 || dtype == RG_U8;
}

/* A result in f32, bf16, f16 or bytes. */
rg_status rg_scaled_result(const rg_call *call, int32_t dtype) RG_CHECK;

/* A zero point is a number of the type that it stands in. */
rg_status rg_scaled_zero(const rg_call *call, int64_t zero, int32_t dtype,
                         const char *what) RG_CHECK;

/* Input i, the scale of the result, is there where that is of bytes, one number. */
rg_status rg_scaled_y_scale(const rg_call *call, int32_t i, int32_t dtype) RG_CHECK;

/* Input i, the bias, is of floats, or of i32, which is added to the sums; [n]. */
rg_status rg_scaled_bias(const rg_call *call, int32_t i, int64_t n) RG_CHECK;

#endif
