/* SPDX-License-Identifier: MIT */
/*
** Pooling as all of its kernels see it.
*/
#ifndef RIDGE_GPU_POOL_CUH
#define RIDGE_GPU_POOL_CUH

#include "gpu/image.cuh"
#include "gpu/late.cuh"
#include "gpu/pack.cuh"

template <class I> struct pool_work {
  rg_image<I> big;   /* the images' own rows and columns */
  rg_image<I> small; /* a row and a column for each window */
  rg_image<I> index; /* where each maximum was: row * columns + column */
  I size[2], stride[2], pad[2];
  rg_divisor<I> by_stride[2];
  double scale; /* one divided by the elements of a whole window */
  int32_t skip_pad, is_max;
  rg_late_for late; /* back of a maximum: indices are anybody's numbers */
};

/* -- Windows ----------------------------------------------------------------------------------- */

/* Rows, or columns: from the first to one behind the last. */
template <class I> struct pool_span {
  I from, to;
};

/* What window i holds of the image.  Columns are axis 1. */
template <class I> __device__ inline pool_span<I> window_at(const pool_work<I> &v, int axis, I i)
{
  const I from = i * v.stride[axis] - v.pad[axis];
  const I to = from + v.size[axis];

  return pool_span<I>{ from < 0 ? 0 : from, to < v.big.size[2 + axis] ? to : v.big.size[2 + axis] };
}

/* Which windows hold a row. */
template <class I>
__device__ inline pool_span<I> windows_with(const pool_work<I> &v, int axis, I row)
{
  const I at = row + v.pad[axis];
  const I to = at / v.by_stride[axis] + 1;

  return pool_span<I>{ at < v.size[axis] ? 0 : (at - v.size[axis]) / v.by_stride[axis] + 1,
                       to < v.small.size[2 + axis] ? to : v.small.size[2 + axis] };
}

/* One divided by what an average divides by. */
template <class L, class I>
__device__ inline L window_scale(const pool_work<I> &v, const pool_span<I> &r,
                                 const pool_span<I> &c)
{
  const I n = (r.to - r.from) * (c.to - c.from);

  return (L)(v.skip_pad == 0 || n == v.size[0] * v.size[1] ? v.scale : 1.0 / (double)n);
}

/* An index outside its window is none that ridge made: it gives nothing to anybody, and is
** reported, by the thread of the window's first element. */
template <class I>
__device__ inline void check_index(const pool_work<I> &v, const pool_span<I> &rows,
                                   const pool_span<I> &columns, int32_t at)
{
  const I area = v.big.size[2] * v.big.size[3];
  const bool inside = at >= 0 && at < area;
  const I row = (I)(inside ? at : 0) / v.big.columns;
  const I column = (I)at - row * v.big.size[3];

  if (!inside || row < rows.from || row >= rows.to || column < columns.from ||
      column >= columns.to) {
    rg_late_tell(v.late, inside ? RG_LATE_WINDOW : RG_LATE_RANGE, at, area);
  }
}

/* The same calls with neighbours in a row of an image that are moved together (pool_lines.cu).
** *taken: it was; false where rows do not lie so. */
rg_status rg_gpu_pool_lines(const rg_call *call, const pool_work<int32_t> &v, bool back,
                            bool *taken);

#endif
