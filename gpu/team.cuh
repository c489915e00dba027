/* SPDX-License-Identifier: MIT */
/*
** What kernels that work row by row share: teams of threads, floats of a type that is known when
** the kernel runs, and an axis moved to the end.
**
** A row has a team: one thread where rows are short or lie across memory, a warp, or a block. Which
** it is depends on the shape and the strides alone, and so do the bits of the results.
*/
#ifndef RIDGE_GPU_TEAM_CUH
#define RIDGE_GPU_TEAM_CUH

#include "gpu/device.cuh"

/* -- Teams ------------------------------------------------------------------------------------- */

enum { RG_WARP = 32, RG_WARPS = RG_BLOCK / RG_WARP };

/* Rows of a team's threads: team, team + teams, ...; lane: a thread's place in its team. */
#define RG_TEAM(width)  (RG_FIRST / (width))
#define RG_TEAMS(width) (RG_NEXT / (width))

/* The sum, or the largest, over a team; every thread of it comes here and gets it.  room: one for
** each warp of a block, which all is the team where that is more than a warp.  With TURNS it is
** another one than at the call before, so that nobody waits until all have read it. */
template <bool MOST, bool TURNS = false, class L>
__device__ inline L rg_team(L v, int32_t width, L *room)
{
  if (width == 1) {
    return v;
  }
  v = MOST ? rg_warp_max(v) : rg_warp_sum(v);
  if (width == RG_WARP) {
    return v;
  }
  if (threadIdx.x % RG_WARP == 0) {
    room[threadIdx.x / RG_WARP] = v;
  }
  __syncthreads();
  v = room[0];
  for (int32_t i = 1; i < width / RG_WARP; i++) {
    v = MOST ? (room[i] > v ? room[i] : v) : v + room[i];
  }
  if (!TURNS) {
    __syncthreads();
  }
  return v;
}

template <bool TURNS = false, class L> __device__ inline L rg_team_sum(L v, int32_t width, L *room)
{
  return rg_team<false, TURNS>(v, width, room);
}

/* nan may be lost */
template <bool TURNS = false, class L> __device__ inline L rg_team_max(L v, int32_t width, L *room)
{
  return rg_team<true, TURNS>(v, width, room);
}

/* Two sums over each team of a block, all of whose threads come here.  room: two for each warp,
** taken in turns as above. */
template <class L> __device__ inline void rg_team_sums(L *a, L *b, int32_t width, L *room)
{
  const int32_t lane = (int32_t)threadIdx.x % RG_WARP;

  *a = rg_warp_sum(*a);
  *b = rg_warp_sum(*b);
  if (width == RG_WARP) {
    return;
  }
  if (lane == 0) {
    room[threadIdx.x / RG_WARP * 2] = *a;
    room[threadIdx.x / RG_WARP * 2 + 1] = *b;
  }
  __syncthreads();
  const L *of = room + 2 * ((int32_t)threadIdx.x / width * (width / RG_WARP) + lane);
  const bool there = lane < width / RG_WARP;

  *a = rg_warp_sum(there ? of[0] : (L)0);
  *b = rg_warp_sum(there ? of[1] : (L)0);
}

/* Threads for a row of n elements of x, whose last axis it is. */
inline int32_t rg_team_width(const rg_strided *x, int64_t n, int64_t rows)
{
  const int64_t many = 1024; /* rows that keep a device busy with a thread each */
  bool across = x->ndim > 1 && x->stride[x->ndim - 1] > x->stride[x->ndim - 2];

  return n <= 8 || (across && rows >= many) ? 1 : n <= 1024 ? (int32_t)RG_WARP : (int32_t)RG_BLOCK;
}

/* How far it is from element to element of a row. */
__device__ inline int64_t rg_step(const rg_strided &x)
{
  return x.stride[x.ndim - 1];
}

/* -- Axes -------------------------------------------------------------------------------------- */

/* x with an axis moved behind all others. */
inline rg_strided rg_axis_last(const rg_tensor *x, int32_t axis)
{
  rg_tensor y = *x;
  int32_t last = x->_ndim - 1;

  for (int32_t i = axis; i < last; i++) {
    y._shape[i] = x->_shape[i + 1];
    y._stride[i] = x->_stride[i + 1];
  }
  y._shape[last] = x->_shape[axis];
  y._stride[last] = x->_stride[axis];
  if (axis != last) {
    y._flags &= ~(uint32_t)RG_TENSOR_CONTIGUOUS;
  }
  return rg_view_of(&y);
}

#endif
