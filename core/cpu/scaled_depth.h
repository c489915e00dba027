/* SPDX-License-Identifier: MIT */
/*
** Convolutions of bytes in which each channel has a kernel of its own.
*/
#ifndef RIDGE_CPU_SCALED_DEPTH_H
#define RIDGE_CPU_SCALED_DEPTH_H

#include "cpu/gemm_i8.h"
#include "op/conv.h"

enum { RG_DEPTH_TAPS = 64 }; /* elements of a kernel, at most */

typedef struct rg_scaled_depth {
  rg_conv2d_sizes s;
  const rg_conv2d_options *o;
  const rg_i8_product *p; /* what follows: its columns are all channels */
  const uint8_t *x;       /* channels last, without gaps */
  bool is_signed;
  int32_t zero;
  int32_t *w; /* room for rg_scaled_depth_room bytes */
} rg_scaled_depth;

bool rg_scaled_depth_takes(const rg_conv2d_sizes *s);
int64_t rg_scaled_depth_room(const rg_conv2d_sizes *s, const rg_conv2d_options *o);
rg_status rg_scaled_depth_run(const rg_scaled_depth *d, const rg_tensor *weight) RG_CHECK;

#endif
