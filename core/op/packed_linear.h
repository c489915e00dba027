/* SPDX-License-Identifier: MIT */
/*
** Arguments of products with weights of a few bits, and how such weights lie.
**
** Codes come in blocks of 32, a block as planes of bits: four bits of each in 16 bytes (code i and
** code i + 16 in byte i, the lower half first), two bits of each in 8 (codes i, i + 8, i + 16,
** i + 24 in byte i), one bit of each in 4 (bit i).  8 bits are the bytes themselves; 6 are planes
** of four, the lower ones, and two; 3 of two and one.
*/
#ifndef RIDGE_OP_PACKED_LINEAR_H
#define RIDGE_OP_PACKED_LINEAR_H

#include "op/op.h"

enum { RG_CODES = 32 }; /* of a block, which takes four bytes a bit */

/* clang-format off */
#define RG_PACK_BITS_ARGS(A, S, AT) \
  A(S, AT, i32, bits, WHOLE, RG_REQUIRED, "of a code: 2, 3, 4, 6 or 8")
#define RG_PACKED_LINEAR_ARGS(A, S, AT) \
  A(S, AT, i32, bits, WHOLE, RG_REQUIRED, "of a weight: 2, 3, 4, 6 or 8") \
  A(S, AT, i64, group, WHOLE, 32, "weights that share a scale: 32, 64 or 128") \
  A(S, AT, i32, act, ACT, RG_ACT_NONE, "activation") \
  A(S, AT, i32, dtype, DTYPE, RG_F32, "of the result: f32, bf16 or f16")
/* clang-format on */
RG_ARGS_STRUCT(rg_pack_bits_args, RG_PACK_BITS_ARGS);
RG_ARGS_STRUCT(rg_packed_linear_args, RG_PACKED_LINEAR_ARGS);

#endif
