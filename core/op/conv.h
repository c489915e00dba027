/* SPDX-License-Identifier: MIT */
/*
** Arguments of convolutions, and the sizes that follow from them.
*/
#ifndef RIDGE_OP_CONV_H
#define RIDGE_OP_CONV_H

#include "op/op.h"
#include "ridge/image.h"

/* conv2d and its gradients */
typedef struct rg_conv2d_args {
  rg_conv2d_options o; /* no zeros where 1 is meant */
  int64_t size[2];     /* of the gradient: rows and columns of x, or of the kernel */
} rg_conv2d_args;

/* scaled_conv2d: conv comes first, so that what reads arguments of conv2d reads these */
typedef struct rg_scaled_conv2d_args {
  rg_conv2d_args conv;
  rg_scaled_conv2d_more more;
} rg_scaled_conv2d_args;

/* clang-format off */
#define RG_CONV2D_SIZE(A, S, AT) \
  A(S, AT, i64x2, size, WHOLE, RG_REQUIRED, "rows and columns of the gradient")
/* clang-format on */

/* Every size of one convolution, whatever the layout. */
typedef struct rg_conv2d_sizes {
  int64_t n;
  int64_t c;    /* channels in */
  int64_t o;    /* channels out */
  int64_t x[2]; /* rows and columns of x */
  int64_t w[2]; /* of the kernel */
  int64_t y[2]; /* of the result */
  int64_t groups;
} rg_conv2d_sizes;

/* Axes of rows and columns, and of channels, in a layout. */
static inline int32_t rg_rows_axis(int32_t layout)
{
  return layout == RG_NHWC ? 1 : 2;
}
static inline int32_t rg_channels_axis(int32_t layout)
{
  return layout == RG_NHWC ? 3 : 1;
}

/* The sizes of a call of conv2d, conv2d_back_data or conv2d_back_weight after its infer. */
rg_conv2d_sizes rg_conv2d_sizes_of(const rg_call *call);

/* Check options as conv2d does; then x, w and input number bias, and fill out[0], of a type. */
rg_status rg_conv2d_check(const rg_call *call) RG_CHECK;
rg_status rg_conv2d_shape(rg_call *call, int32_t bias, int32_t dtype) RG_CHECK;

/* Options with what zeros stand for. */
rg_conv2d_args rg_conv2d_args_of(const rg_conv2d_options *options);

rg_status rg_conv2d_grad(rg_grad *g);
rg_status rg_conv2d_back_data_grad(rg_grad *g);
rg_status rg_conv2d_back_weight_grad(rg_grad *g);
void rg_conv2d_save(const rg_call *call, int32_t *in, int32_t *out);

#endif
