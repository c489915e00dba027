/* SPDX-License-Identifier: MIT */
/*
** The CPU's kernels, one for each line of op/list.h, and its vector loops, one table for each
** instruction set.
*/
#include "cpu/conv.h"
#include "cpu/cpu.h"
#include "cpu/simd/simd.h"

/* -- Kernels ------------------------------------------------------------------------- */

#define RG_OP_LINE(NAME, name) [RG_OP_##NAME] = rg_cpu_##name,
static rg_kernel *const kernels[RG_OP_COUNT] = { RG_OP_LIST };
#undef RG_OP_LINE

/* Convolutions work in images of other layouts: no other kernel takes as much. */
static rg_status foresee(const rg_call *call, rg_tensor *const *out)
{
  switch (call->op->id) {
  case RG_OP_CONV2D:
  case RG_OP_CONV2D_BACK_DATA:
  case RG_OP_CONV2D_BACK_WEIGHT:
    return rg_conv_foresee(call, out);
  case RG_OP_CONV2D_ADD:
    return rg_conv_add_foresee(call, out);
  default:
    return RG_OK;
  }
}

const rg_backend *rg_cpu_backend(void)
{
  static const rg_backend backend = { .name = "cpu", .kernels = kernels, .foresee = foresee };

  return &backend;
}

/* -- Instruction sets ------------------------------------------------------------------ */

#define DECLARE(isa)                                      \
  extern const rg_simd_unary rg_simd_unary_##isa;         \
  extern const rg_simd_binary rg_simd_binary_##isa;       \
  extern const rg_simd_cast rg_simd_cast_##isa;           \
  extern const rg_simd_reduce rg_simd_reduce_##isa;       \
  extern const rg_simd_random rg_simd_random_##isa;       \
  extern const rg_simd_step rg_simd_step_##isa;           \
  extern const rg_simd_norm rg_simd_norm_##isa;           \
  extern const rg_simd_act rg_simd_act_##isa;             \
  extern const rg_simd_attention rg_simd_attention_##isa; \
  extern const rg_simd_pool rg_simd_pool_##isa;           \
  extern const rg_simd_conv rg_simd_conv_##isa;           \
  extern const rg_simd_transpose rg_simd_transpose_##isa; \
  extern const rg_simd_where rg_simd_where_##isa;         \
  extern const rg_simd_quantize rg_simd_quantize_##isa;
#define TABLES(isa)                                                                                \
  {                                                                                                \
    .unary = &rg_simd_unary_##isa, .binary = &rg_simd_binary_##isa, .cast = &rg_simd_cast_##isa,   \
    .reduce = &rg_simd_reduce_##isa, .random = &rg_simd_random_##isa, .step = &rg_simd_step_##isa, \
    .norm = &rg_simd_norm_##isa, .act = &rg_simd_act_##isa, .attention = &rg_simd_attention_##isa, \
    .pool = &rg_simd_pool_##isa, .conv = &rg_simd_conv_##isa,                                      \
    .transpose = &rg_simd_transpose_##isa, .where = &rg_simd_where_##isa,                          \
    .quantize = &rg_simd_quantize_##isa                                                            \
  }

DECLARE(base)
#ifdef __x86_64__
DECLARE(avx2)
DECLARE(avx512)
#endif

const rg_simd_tables rg_simd_by_isa[RG_ISA_COUNT] = {
  [RG_ISA_BASE] = TABLES(base),
#ifdef __x86_64__
  [RG_ISA_AVX2] = TABLES(avx2),
  [RG_ISA_AVX512] = TABLES(avx512),
  /* these have products of bf16 of their own (gemm_bf16.c, gemm_amx.c), the same loops otherwise */
  [RG_ISA_AVX512_BF16] = TABLES(avx512),
  [RG_ISA_AMX] = TABLES(avx512),
#endif
};
