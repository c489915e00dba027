/* SPDX-License-Identifier: MIT */
/*
** Images, and kernels of convolutions, as the kernels of image.cu and pool.cu see them: any layout
** and any strides.  I is the type that places are computed in, 32 bits where they suffice.
*/
#ifndef RIDGE_GPU_IMAGE_CUH
#define RIDGE_GPU_IMAGE_CUH

#include "gpu/device.cuh"
#include "gpu/divide.cuh"

extern "C" {
#include "op/conv.h"
}

/* A tensor's numbers by batch, channel, row, column, or by those of a kernel: channel out, channel
** in, row, column.  One without data is not there. */
template <class I> struct rg_image {
  char *data;
  I size[4], step[4];
  rg_divisor<I> channels, area, columns;
  int32_t dtype, layout;
};

/* Which number. */
template <class I> struct rg_image_spot {
  I n, c, row, column;
};

/* Kernels lie as images with channels first do. */
template <class I> inline rg_image<I> rg_image_of(const rg_tensor *x, int32_t layout)
{
  const int32_t axis[4] = { 0, rg_channels_axis(layout), rg_rows_axis(layout),
                            rg_rows_axis(layout) + 1 };
  rg_image<I> s = {};

  s.data = (char *)x->_data;
  s.dtype = x->_dtype;
  s.layout = layout;
  for (int i = 0; i < 4; i++) {
    s.size[i] = (I)x->_shape[axis[i]];
    s.step[i] = (I)x->_stride[axis[i]];
  }
  s.channels = rg_divisor<I>::of(s.size[1]);
  s.area = rg_divisor<I>::of((int64_t)s.size[2] * s.size[3]);
  s.columns = rg_divisor<I>::of(s.size[3]);
  return s;
}

/* Do 32 bits hold every place in a tensor? */
inline bool rg_image_is_narrow(const rg_tensor *x)
{
  int64_t reach = 1;

  for (int32_t i = 0; i < x->_ndim; i++) {
    const int64_t step = x->_stride[i] < 0 ? -x->_stride[i] : x->_stride[i];

    if (x->_shape[i] > INT32_MAX || step > INT32_MAX) {
      return false;
    }
    reach += (x->_shape[i] - 1) * step;
  }
  return reach <= INT32_MAX && x->_count <= INT32_MAX;
}

/* Do its numbers lie in the order of its layout, without gaps? */
template <class I> inline bool rg_image_is_dense(const rg_image<I> &s)
{
  static const int axes[2][4] = { { 3, 2, 1, 0 }, { 1, 3, 2, 0 } }; /* from the innermost */
  int64_t next = 1;

  for (int axis : axes[s.layout == RG_NHWC]) {
    if (s.size[axis] != 1 && s.step[axis] != next) {
      return false;
    }
    next *= s.size[axis];
  }
  return true;
}

template <class I> __device__ inline I rg_image_at(const rg_image<I> &s, const rg_image_spot<I> &p)
{
  return p.n * s.step[0] + p.c * s.step[1] + p.row * s.step[2] + p.column * s.step[3];
}

/* Element i in the order of the layout, so that neighbours write side by side. */
template <class I> __device__ inline rg_image_spot<I> rg_image_spot_of(const rg_image<I> &s, I i)
{
  const bool last = s.layout == RG_NHWC;
  const I outer = last ? i / s.channels : i / s.area; /* of a pixel, or of a plane */
  const I inner = last ? i - outer * s.size[1] : i - outer * (s.size[2] * s.size[3]);
  const I n = last ? outer / s.area : outer / s.channels;
  const I rest = last ? outer - n * (s.size[2] * s.size[3]) : outer - n * s.size[1];
  const I place = last ? rest : inner;
  const I row = place / s.columns;

  return rg_image_spot<I>{ n, last ? inner : rest, row, place - row * s.size[3] };
}

#endif
