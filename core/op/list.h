/* SPDX-License-Identifier: MIT */
/*
** Every operation, one line each: from here come the enum, the table of records and the table of
** CPU kernels, so that a missing record or kernel is a link error.
**
** OP(NAME, name): record rg_op_<name>, kernel rg_cpu_<name>, id RG_OP_<NAME>.
*/
#ifndef RIDGE_OP_LIST_H
#define RIDGE_OP_LIST_H

#include "ridge/op.h"

/* clang-format off */
#define RG_OP_OF_LIST(NAME, name, help, class) RG_OP_LINE(NAME, name)
#define RG_DEVICE_OP_LIST                   \
  RG_UNARY_LIST(RG_OP_OF_LIST)              \
  RG_BINARY_LIST(RG_OP_OF_LIST)             \
  RG_OP_LINE(WHERE,       where)            \
  RG_OP_LINE(ACT_BACK,    act_back)         \
  RG_OP_LINE(FILL,        fill)             \
  RG_OP_LINE(ARANGE,      arange)           \
  RG_OP_LINE(COPY,        copy)             \
  RG_OP_LINE(CAST,        cast)             \
  RG_OP_LINE(CONCAT,      concat)           \
  RG_OP_LINE(TAKE,        take)             \
  RG_OP_LINE(TAKE_BACK,   take_back)        \
  RG_OP_LINE(UNIFORM,     uniform)          \
  RG_OP_LINE(NORMAL,      normal)           \
  RG_OP_LINE(SIGNS,       signs)            \
  RG_OP_LINE(RANDINT,     randint)          \
  RG_OP_LINE(DROPOUT,     dropout)          \
  RG_OP_LINE(DROPOUT_BACK, dropout_back)    \
  RG_OP_LINE(SUM,         sum)              \
  RG_OP_LINE(MEAN,        mean)             \
  RG_OP_LINE(PROD,        prod)             \
  RG_OP_LINE(MAX,         max)              \
  RG_OP_LINE(MIN,         min)              \
  RG_OP_LINE(NORM,        norm)             \
  RG_OP_LINE(CUMSUM,      cumsum)           \
  RG_OP_LINE(ARGMAX,      argmax)           \
  RG_OP_LINE(ARGMIN,      argmin)           \
  RG_OP_LINE(SOFTMAX,     softmax)          \
  RG_OP_LINE(SOFTMAX_BACK, softmax_back)    \
  RG_OP_LINE(LAYER_NORM,  layer_norm)       \
  RG_OP_LINE(LAYER_NORM_BACK,      layer_norm_back)       \
  RG_OP_LINE(ATTENTION,   attention)        \
  RG_OP_LINE(ATTENTION_BACK,       attention_back)        \
  RG_OP_LINE(ATTENTION_DROPOUT,      attention_dropout)      \
  RG_OP_LINE(ATTENTION_DROPOUT_BACK, attention_dropout_back) \
  RG_OP_LINE(CROSS_ENTROPY,        cross_entropy)         \
  RG_OP_LINE(CROSS_ENTROPY_BACK,   cross_entropy_back)    \
  RG_OP_LINE(SGD_STEP,    sgd_step)         \
  RG_OP_LINE(ADAM_STEP,   adam_step)        \
  RG_OP_LINE(LION_STEP,   lion_step)        \
  RG_OP_LINE(TOTAL_NORM,  total_norm)       \
  RG_OP_LINE(ALL_REDUCE,  all_reduce)       \
  RG_OP_LINE(MATMUL,      matmul)           \
  RG_OP_LINE(LINEAR,      linear)           \
  RG_OP_LINE(LINEAR_DROPOUT,       linear_dropout)        \
  RG_OP_LINE(LOWRANK_LINEAR,       lowrank_linear)        \
  RG_OP_LINE(SKETCHED_LINEAR,      sketched_linear)       \
  RG_OP_LINE(SKETCHED_LINEAR_BITS, sketched_linear_bits)  \
  RG_OP_LINE(SKETCHED_LINEAR_SEED, sketched_linear_seed)  \
  RG_OP_LINE(SCALED_LINEAR, scaled_linear)  \
  RG_OP_LINE(EXPAND_SIGNS, expand_signs)    \
  RG_OP_LINE(SIGN_BITS,   sign_bits)        \
  RG_OP_LINE(CONV2D,      conv2d)           \
  RG_OP_LINE(CONV2D_BACK_DATA,     conv2d_back_data)      \
  RG_OP_LINE(CONV2D_BACK_WEIGHT,   conv2d_back_weight)    \
  RG_OP_LINE(SCALED_CONV2D,        scaled_conv2d)         \
  RG_OP_LINE(MAX_POOL2D,  max_pool2d)       \
  RG_OP_LINE(MAX_POOL2D_BACK,      max_pool2d_back)       \
  RG_OP_LINE(AVG_POOL2D,  avg_pool2d)       \
  RG_OP_LINE(AVG_POOL2D_BACK,      avg_pool2d_back)       \
  RG_OP_LINE(SVD,         svd)              \
  RG_OP_LINE(FUSED,       fused)

/* Those whose kernels are the CPU's alone so far: gpu/ has none of them. */
#define RG_CPU_OP_LIST                      \
  RG_OP_LINE(GATHER,      gather)           \
  RG_OP_LINE(SCATTER,     scatter)          \
  RG_OP_LINE(SORT,        sort)             \
  RG_OP_LINE(TOPK,        topk)             \
  RG_OP_LINE(PAD,         pad)              \
  RG_OP_LINE(PAD_BACK,    pad_back)         \
  RG_OP_LINE(TRIL,        tril)             \
  RG_OP_LINE(TRIU,        triu)             \
  RG_OP_LINE(RESAMPLE,    resample)         \
  RG_OP_LINE(RESAMPLE_BACK,        resample_back)         \
  RG_OP_LINE(CUMPROD,     cumprod)          \
  RG_OP_LINE(QUANTIZE,    quantize)         \
  RG_OP_LINE(DEQUANTIZE,  dequantize)       \
  RG_OP_LINE(QUANTIZE_ROWS,        quantize_rows)         \
  RG_OP_LINE(PACK_BITS,   pack_bits)        \
  RG_OP_LINE(UNPACK_BITS, unpack_bits)      \
  RG_OP_LINE(PACKED_LINEAR,        packed_linear)         \
  RG_OP_LINE(SPARSE_LINEAR,        sparse_linear)         \
  RG_OP_LINE(N_OF_M_LINEAR,        n_of_m_linear)         \
  RG_OP_LINE(CONV2D_ADD,  conv2d_add)       \
  RG_OP_LINE(SCALED_ADD,  scaled_add)       \
  RG_OP_LINE(SCALED_POOL2D,        scaled_pool2d)

#define RG_OP_LIST RG_DEVICE_OP_LIST RG_CPU_OP_LIST
/* clang-format on */

/* Records without kernels: views, and what is made of several. */
/* clang-format off */
#define RG_BODY_LIST                        \
  RG_OP_LINE(VIEW,        view)             \
  RG_OP_LINE(RESHAPE,     reshape)          \
  RG_OP_LINE(PERMUTE,     permute)          \
  RG_OP_LINE(TRANSPOSE,   transpose)        \
  RG_OP_LINE(NARROW,      narrow)           \
  RG_OP_LINE(SELECT,      select)           \
  RG_OP_LINE(EXPAND,      expand)           \
  RG_OP_LINE(UNSQUEEZE,   unsqueeze)        \
  RG_OP_LINE(SQUEEZE,     squeeze)          \
  RG_OP_LINE(DETACH,      detach)           \
  RG_OP_LINE(AS_STRIDED,  as_strided)       \
  RG_OP_LINE(GROUP_NORM,  group_norm)       \
  RG_OP_LINE(BATCH_NORM,  batch_norm)       \
  RG_OP_LINE(SKETCHED_CONV2D,      sketched_conv2d)       \
  RG_OP_LINE(HEADS,       heads)            \
  RG_OP_LINE(FEATURE_ATTENTION,    feature_attention)     \
  RG_OP_LINE(RECURRENT_CELL,       recurrent_cell)        \
  RG_OP_LINE(RECURRENT,   recurrent)
/* clang-format on */

#define RG_OP_LINE(NAME, name) RG_OP_##NAME,
enum { RG_OP_LIST RG_OP_COUNT, RG_OP_LAST_KERNEL = RG_OP_COUNT - 1, RG_BODY_LIST RG_RECORD_COUNT };
#undef RG_OP_LINE

#endif
