/* SPDX-License-Identifier: MIT */
/*
** What ways of convolutions are expected to take.
*/
#ifndef RIDGE_CPU_CONV_MODEL_H
#define RIDGE_CPU_CONV_MODEL_H

#include "cpu/conv.h"

/* Element types and instruction sets that have rates of their own. */
enum {
  RG_RATES_F32_AVX2,
  RG_RATES_F32_AVX512,
  RG_RATES_BF16_AVX512, /* by f32, in part */
  RG_RATES_BF16_AVX512_BF16,
  RG_RATES_BF16_AMX,
  RG_RATES_SETS
};

/* Kernels: oneDNN's of vectors of channels, with copies (BLOCKED; FIRST: of at most three channels,
** which some of them read channels first) and in place (PLAIN; for AVX2, forward, by themselves:
** groups whose channels do not fill vectors (TAILS), and kernels of 1 x 1 (POINTS, STRIDED)); its
** matrix products, channels first (COLUMNS) or of images of one channel (ONE), which are both;
** those of one kernel a channel (DEPTH), and what takes their place where there are none: products
** of copies that lie channels first (COPIED), or a vector of channels for each of them (VECTOR);
** ours, of which IMPLICIT is for vectors of eight alone. */
enum {
  RG_RATES_BLOCKED,
  RG_RATES_FIRST,
  RG_RATES_PLAIN,
  RG_RATES_TAILS,
  RG_RATES_POINTS,
  RG_RATES_STRIDED,
  RG_RATES_COLUMNS,
  RG_RATES_ONE,
  RG_RATES_BLOCKED_DEPTH,
  RG_RATES_PLAIN_DEPTH,
  RG_RATES_COLUMNS_DEPTH,
  RG_RATES_COPIED_DEPTH,
  RG_RATES_VECTOR_DEPTH,
  RG_RATES_TILES,
  RG_RATES_PRODUCT,
  RG_RATES_IMPLICIT,
  RG_RATES_KERNELS
};

enum { RG_RATES_TERMS = 10 };

/* The way that is expected to be the fastest of those that can do it. */
int32_t rg_conv_expected(const rg_call *call, rg_tensor *const *out, const bool able[RG_WAYS]);

/* The same of sizes alone, with rates of a set; RG_CONV_AUTO: of no way are there any. */
int32_t rg_conv_fastest(const rg_conv2d_sizes *s, const rg_conv2d_options *o, int32_t work,
                        int32_t set, const bool able[RG_WAYS]);

/* What each term of conv_model.c takes; work: 0: conv2d, 1: its gradient for x, 2: for the weight;
** layout: 0: channels first, 1: last.  Zeros where no such kernel was measured. */
const int32_t *rg_conv_rates(int32_t set, int32_t work, int32_t layout, int32_t kernels);

#endif
