/* SPDX-License-Identifier: MIT */
/*
** Operations on images: convolutions and pooling.  What is said in ridge/op.h of all operations
** holds here.
*/
#ifndef RIDGE_IMAGE_H
#define RIDGE_IMAGE_H

#include "ridge/op.h"

/* The order of an image's axes: batch, channels, rows, columns, or the channels last. */
enum { RG_NCHW, RG_NHWC };

/* What a convolution can be told; all zero: step 1, dilation 1, no padding, one group,
** no activation. */
/* clang-format off */
#define RG_CONV2D_OPTIONS(A, S, AT) \
  A(S, AT, i64x2, stride, WHOLE, 1, "step, or {rows, columns}") \
  A(S, AT, i64x2, dilation, WHOLE, 1, "distance of the kernel's elements") \
  A(S, AT, i64x2, pad_low, WHOLE, 0, "rows of zeros above, columns of them on the left") \
  A(S, AT, i64x2, pad_high, WHOLE, 0, "below, on the right") \
  A(S, AT, i64, groups, WHOLE, 1, "channels fall into so many groups") \
  A(S, AT, i32, layout, LAYOUT, RG_NCHW, "channels first or last") \
  A(S, AT, i32, act, ACT, RG_ACT_NONE, "RG_ACT_...")
/* clang-format on */
RG_ARGS_STRUCT(rg_conv2d_options, RG_CONV2D_OPTIONS);

/*
** Two-dimensional convolution (cross-correlation):
**
**   y[n,o,i,j] = act(b[o] + sum_{c,p,q} x[n, c, i s + p d - top, j s + q d - left] w[o,c,p,q])
**
** x        [n x c x h x w] or, with RG_NHWC, [n x h x w x c]; float
** w        [o x c/groups x kh x kw] in either layout; packed once per version where it is a weight
** b        [o] or NULL
** options  NULL: all zero
** out      new tensor [n x o x oh x ow] or [n x oh x ow x o],
**          oh = (h + top + bottom - d (kh - 1) - 1) / s + 1, rounded down
** f64 runs a plain loop of our own, f32 of few channels in tiles of our own, all else in
** oneDNN; f16 computes in f32.
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_conv2d(const rg_tensor *x, const rg_tensor *w, const rg_tensor *b,
                           const rg_conv2d_options *options, rg_tensor **out) RG_CHECK;

/*
** The same with a tensor of the result's shape added before the activation, in one pass:
**
**   y = act(conv2d(x, w, b) + r)
**
** x, w, b, options, out  as for rg_conv2d
** r                      [n x o x oh x ow] or [n x oh x ow x o]: added before the activation
** f16 computes in f32 and is rounded behind each step, bf16 once.  What passes make of a residual
** connection; there is no gradient, and no kernel but the CPU's.
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_conv2d_add(const rg_tensor *x, const rg_tensor *w, const rg_tensor *r,
                               const rg_tensor *b, const rg_conv2d_options *options,
                               rg_tensor **out) RG_CHECK;

/* What a convolution of bytes can be told besides. */
/* clang-format off */
#define RG_SCALED_CONV2D_MORE(A, S, AT) \
  A(S, AT, i64, x_zero, WHOLE, 0, "the byte of x that stands for 0") \
  A(S, AT, i64, y_zero, WHOLE, 0, "that of a result of bytes") \
  A(S, AT, i32, dtype, DTYPE, RG_F32, "of the result: f32, bf16, f16, i8 or u8")
/* clang-format on */
RG_ARGS_STRUCT(rg_scaled_conv2d_more, RG_SCALED_CONV2D_MORE);

typedef struct rg_scaled_conv2d_options {
  rg_conv2d_options conv;
  rg_scaled_conv2d_more more;
} rg_scaled_conv2d_options;

/*
** Convolution of bytes with the scales that they stand for:
**
**   y = act(b[o] + x_scale w_scale[o] sum_{c,p,q} (x[n, c, i s + p d - top, j s + q d - left]
**                                                  - x_zero) w[o,c,p,q])
**
** Sums are exact, all else is computed in f32.  Where the result is of bytes they are
** round(y (1 / y_scale)) + y_zero, ties to even, saturated, and y_zero for nan.  What is around an
** image stands for 0.  There is no gradient.
**
** x        i8 or u8, as for rg_conv2d
** w        i8 [o x c/groups x kh x kw], c/groups kh kw <= 65793, so that no sum can overflow;
**          packed once per version where it is a weight
** x_scale  f32, one number
** w_scale  f32, one number, or one for each channel of the result: [o]
** b        [o], float; or i32, in units of x_scale w_scale, which is added to the sums (on the CPU,
**          and for c/groups kh kw <= 65792); or NULL
** y_scale  f32, one number, for a result of bytes; else NULL
** options  NULL: all zero
** out      new tensor, of the shape of rg_conv2d's
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_scaled_conv2d(const rg_tensor *x, const rg_tensor *w, const rg_tensor *x_scale,
                                  const rg_tensor *w_scale, const rg_tensor *b,
                                  const rg_tensor *y_scale, const rg_scaled_conv2d_options *options,
                                  rg_tensor **out) RG_CHECK;

/*
** Transposed convolution: the gradient of rg_conv2d for x, given that for y.
**
** dy             as rg_conv2d's result
** w              as there
** rows, columns  of x: strides above 1 leave several possible
** options        as there; the activation is not part of it
** out            new tensor, as x
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_conv2d_back_data(const rg_tensor *dy, const rg_tensor *w, int64_t rows,
                                     int64_t columns, const rg_conv2d_options *options,
                                     rg_tensor **out) RG_CHECK;

/*
** The gradients of rg_conv2d for w and b, given that for y.
**
** x, dy          as rg_conv2d's input and result
** rows, columns  of the kernel
** options        as there; the activation is not part of it
** dw             out: new tensor [o x c/groups x rows x columns]
** db             out: new tensor [o]
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_conv2d_back_weight(const rg_tensor *x, const rg_tensor *dy, int64_t rows,
                                       int64_t columns, const rg_conv2d_options *options,
                                       rg_tensor **dw, rg_tensor **db) RG_CHECK;

/* -- Pooling --------------------------------------------------------------------- */

/* What a pooling can be told. */
/* clang-format off */
#define RG_POOL2D_OPTIONS(A, S, AT) \
  A(S, AT, i64x2, size, WHOLE, RG_REQUIRED, "rows and columns of the window, at least 1") \
  A(S, AT, i64x2, stride, WHOLE, 0, "step, or {rows, columns}; the size when left out (0)") \
  A(S, AT, i64x2, pad_low, WHOLE, 0, "above, on the left; less than the size") \
  A(S, AT, i64x2, pad_high, WHOLE, 0, "below, on the right") \
  A(S, AT, i32, layout, LAYOUT, RG_NCHW, "channels first or last") \
  A(S, AT, i32, skip_pad, FLAG, 0, "averages divide by what lies in the image, not by the size")
/* clang-format on */
RG_ARGS_STRUCT(rg_pool2d_options, RG_POOL2D_OPTIONS);

/*
** The largest, or the average, of each window.
**
** x        [n x c x h x w] or, with RG_NHWC, [n x h x w x c]; float
** options  there must be some
** out      new tensor [n x c x oh x ow] or [n x oh x ow x c],
**          oh = (h + top + bottom - size) / stride + 1, rounded down
** Padding is never the largest, and 0 in averages; nan wins.
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_max_pool2d(const rg_tensor *x, const rg_pool2d_options *options,
                               rg_tensor **out) RG_CHECK;
RG_API rg_status rg_avg_pool2d(const rg_tensor *x, const rg_pool2d_options *options,
                               rg_tensor **out) RG_CHECK;

/*
** The gradients of the above for x.
**
** dy             as their result
** index          i32, as dy: where each maximum was, row * columns + column
** rows, columns  of x
** options        as there
** out            new tensor, as x
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_max_pool2d_back(const rg_tensor *dy, const rg_tensor *index, int64_t rows,
                                    int64_t columns, const rg_pool2d_options *options,
                                    rg_tensor **out) RG_CHECK;
RG_API rg_status rg_avg_pool2d_back(const rg_tensor *dy, int64_t rows, int64_t columns,
                                    const rg_pool2d_options *options, rg_tensor **out) RG_CHECK;

#endif
