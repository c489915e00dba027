/* SPDX-License-Identifier: MIT */
/*
** Which operations have kernels.  One that is not here answers that its device has no kernel for
** it: nothing goes to the CPU unasked.
*/
#ifndef RIDGE_GPU_KERNELS_CUH
#define RIDGE_GPU_KERNELS_CUH

#include "gpu/device.cuh"

extern "C" {
#include "op/list.h"
}

/* K(NAME, name) for each operation beside those of one and two elements. */
#define RG_GPU_LIST(K)                          \
  K(FILL, fill)                                 \
  K(ARANGE, arange)                             \
  K(COPY, copy)                                 \
  K(EXPAND_SIGNS, expand_signs)                 \
  K(SIGN_BITS, sign_bits)                       \
  K(CAST, cast)                                 \
  K(UNIFORM, uniform)                           \
  K(NORMAL, normal)                             \
  K(SIGNS, signs)                               \
  K(RANDINT, randint)                           \
  K(DROPOUT, dropout)                           \
  K(DROPOUT_BACK, dropout_back)                 \
  K(MATMUL, matmul)                             \
  K(LINEAR, linear)                             \
  K(LINEAR_DROPOUT, linear_dropout)             \
  K(LOWRANK_LINEAR, lowrank_linear)             \
  K(SKETCHED_LINEAR, sketched_linear)           \
  K(SKETCHED_LINEAR_BITS, sketched_linear_bits) \
  K(SKETCHED_LINEAR_SEED, sketched_linear_seed) \
  K(SCALED_LINEAR, scaled_linear)               \
  K(SGD_STEP, sgd_step)                         \
  K(ADAM_STEP, adam_step)                       \
  K(LION_STEP, lion_step)                       \
  K(SUM, sum)                                   \
  K(MEAN, mean)                                 \
  K(PROD, prod)                                 \
  K(MAX, max)                                   \
  K(MIN, min)                                   \
  K(NORM, norm)                                 \
  K(ARGMAX, argmax)                             \
  K(ARGMIN, argmin)                             \
  K(SOFTMAX, softmax)                           \
  K(SOFTMAX_BACK, softmax_back)                 \
  K(LAYER_NORM, layer_norm)                     \
  K(LAYER_NORM_BACK, layer_norm_back)           \
  K(CROSS_ENTROPY, cross_entropy)               \
  K(CROSS_ENTROPY_BACK, cross_entropy_back)     \
  K(TAKE, take)                                 \
  K(TAKE_BACK, take_back)                       \
  K(CONCAT, concat)                             \
  K(ACT_BACK, act_back)                         \
  K(TOTAL_NORM, total_norm)                     \
  K(ATTENTION, attention)                       \
  K(ATTENTION_BACK, attention_back)             \
  K(CONV2D, conv2d)                             \
  K(CONV2D_BACK_DATA, conv2d_back_data)         \
  K(CONV2D_BACK_WEIGHT, conv2d_back_weight)     \
  K(MAX_POOL2D, max_pool2d)                     \
  K(MAX_POOL2D_BACK, max_pool2d_back)           \
  K(AVG_POOL2D, avg_pool2d)                     \
  K(AVG_POOL2D_BACK, avg_pool2d_back)           \
  K(SVD, svd)

#define RG_GPU_DECLARE(NAME, name) \
  rg_status rg_gpu_##name(const rg_call *call, rg_tensor *const *out, rg_frame *frame);
#define RG_GPU_DECLARE4(NAME, name, help, class) RG_GPU_DECLARE(NAME, name)
RG_UNARY_LIST(RG_GPU_DECLARE4)
RG_BINARY_LIST(RG_GPU_DECLARE4)
RG_GPU_LIST(RG_GPU_DECLARE)
rg_status rg_gpu_chain(const rg_call *call, rg_tensor *const *out, rg_frame *frame);
#undef RG_GPU_DECLARE4
#undef RG_GPU_DECLARE

#endif
