/* SPDX-License-Identifier: MIT */
/*
** Winograd convolutions of bytes in whole numbers: kernels of 3 x 3 and stride 1, F(2 x 2, 3 x 3).
**
** Four results take 16 products for each channel in the place of 36.  Every factor fits into 16
** bits, and sums of four times the result are exact: the weight's transformation has halves, so it
** is taken twice along each axis.  Where there is vpdpbusd, products of bytes are as fast directly.
**
** Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016.
*/
#ifndef RIDGE_CPU_SCALED_WINOGRAD_H
#define RIDGE_CPU_SCALED_WINOGRAD_H

#include "cpu/gemm_i8.h"
#include "op/conv.h"

enum {
  RG_WINOGRAD_CHUNK = 16,        /* channels in are padded with 0 to a multiple */
  RG_WINOGRAD_CHANNELS = 1 << 10 /* at most: four times a sum fits into 32 bits */
};

typedef struct rg_winograd_i8 {
  /* 16 pixels of c channels become 16 runs of factors, step apart; by whether they are signed */
  void (*image[2])(const uint8_t *const *x, int64_t c, int32_t zero, int16_t *v, int64_t step);
  /* m[r][0..31] = sum_l v[r][2 l] u[l][..] + v[r][2 l + 1] u[l][..] over n rows: u has two factors
  ** of 16 bits for each column */
  void (*product)(int64_t n, int64_t pairs, const int16_t *v, int64_t ld, const int32_t *u,
                  int32_t *m);
  /* n tiles of 2 x 2 results out of 16 panels of rows, step apart: those of two rows */
  void (*results)(int64_t n, const int32_t *m, int64_t step, int32_t *y0, int32_t *y1);
} rg_winograd_i8;

typedef struct rg_scaled_winograd {
  rg_conv2d_sizes s;
  const rg_conv2d_options *o;
  const rg_i8_product *p; /* what follows */
  const uint8_t *x;       /* channels last, without gaps */
  bool is_signed;
  int32_t zero;
  void *room; /* for rg_scaled_winograd_room bytes */
} rg_scaled_winograd;

/* Is it expected to be faster than tiles of the product that kernels of the set in use take? */
bool rg_scaled_winograd_takes(const rg_conv2d_sizes *s, const rg_conv2d_options *o,
                              const rg_tensor *weight);
int64_t rg_scaled_winograd_room(const rg_conv2d_sizes *s, int32_t n_threads);
rg_status rg_scaled_winograd_run(const rg_scaled_winograd *d, const rg_tensor *weight) RG_CHECK;

#endif
