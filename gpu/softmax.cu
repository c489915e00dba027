/* SPDX-License-Identifier: MIT */
/*
** Softmax along one axis, and its gradient.
*/
#include <math.h>

#include "gpu/kernels.cuh"
#include "gpu/team.cuh"

extern "C" {
#include "op/softmax.h"
}

/* -- Softmax ----------------------------------------------------------------------------------- */

/* The maximum is taken off first, so that no exponential overflows; nan, +inf, and -inf alone make
** the sum nan, and so the row. */
template <class T>
__global__ void k_softmax(rg_strided y, int32_t y_type, rg_strided x, int64_t rows, int64_t n,
                          int32_t width)
{
  typedef typename rg_lane<T>::type L;
  RG_SHARED(L, room, RG_WARPS);
  const int64_t x_step = rg_step(x);
  const int64_t y_step = rg_step(y);
  const int32_t lane = (int32_t)threadIdx.x % width;

  for (int64_t row = RG_TEAM(width); row < rows; row += RG_TEAMS(width)) {
    const T *from = (const T *)x.data + rg_at(x, row * n);
    int64_t to = rg_at(y, row * n);
    L most = -(L)INFINITY;
    L sum = 0;

    for (int64_t i = lane; i < n; i += width) {
      L v = rg_get(from[i * x_step]);

      most = v > most ? v : most;
    }
    most = rg_team_max(most, width, room);
    for (int64_t i = lane; i < n; i += width) {
      sum += exp(rg_get(from[i * x_step]) - most);
    }
    L scale = (L)1 / rg_team_sum(sum, width, room);

    for (int64_t i = lane; i < n; i += width) {
      rg_store(y.data, y_type, to + i * y_step, exp(rg_get(from[i * x_step]) - most) * scale);
    }
  }
}

/* dx = y (dy - sum(dy y)) */
template <class T>
__global__ void k_softmax_back(rg_strided dx, rg_strided dy, rg_strided y, int64_t rows, int64_t n,
                               int32_t width)
{
  typedef typename rg_lane<T>::type L;
  RG_SHARED(L, room, RG_WARPS);
  const int64_t dx_step = rg_step(dx);
  const int64_t dy_step = rg_step(dy);
  const int64_t y_step = rg_step(y);
  const int32_t lane = (int32_t)threadIdx.x % width;

  for (int64_t row = RG_TEAM(width); row < rows; row += RG_TEAMS(width)) {
    const T *grad = (const T *)dy.data + rg_at(dy, row * n);
    const T *result = (const T *)y.data + rg_at(y, row * n);
    T *to = (T *)dx.data + rg_at(dx, row * n);
    L sum = 0;

    for (int64_t i = lane; i < n; i += width) {
      sum += rg_get(grad[i * dy_step]) * rg_get(result[i * y_step]);
    }
    sum = rg_team_sum(sum, width, room);
    for (int64_t i = lane; i < n; i += width) {
      to[i * dx_step] =
          rg_element<T>::of(rg_get(result[i * y_step]) * (rg_get(grad[i * dy_step]) - sum));
    }
  }
}

rg_status rg_gpu_softmax(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_softmax_args *args = (const rg_softmax_args *)call->args;
  const rg_tensor *x = call->in[0];

  (void)frame;
  if (x->_count == 0) {
    return RG_OK;
  }
  int64_t n = x->_shape[args->axis];
  int64_t rows = x->_count / n;
  rg_strided from = rg_turned(x, args->axis);
  rg_strided to = rg_turned(out[0], args->axis);
  int32_t width = rg_team_width(&from, n, rows);
  rg_launch_cfg cfg = rg_over(rows * width, rg_gpu_stream(call->device));

  switch (x->_dtype) {
#define CASE(code, T)                    \
  case code:                             \
    return rg_gpu_status(call->op->name, \
                         rg_launch(k_softmax<T>, cfg, to, out[0]->_dtype, from, rows, n, width));
    RG_FLOATS(CASE)
#undef CASE
  default:
    return rg_gpu->fail(RG_EDTYPE, "%s: no kernel for type %d", call->op->name, x->_dtype);
  }
}

rg_status rg_gpu_softmax_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_softmax_args *args = (const rg_softmax_args *)call->args;
  const rg_tensor *dx = out[0];

  (void)frame;
  if (dx->_count == 0) {
    return RG_OK;
  }
  int64_t n = dx->_shape[args->axis];
  int64_t rows = dx->_count / n;
  rg_strided to = rg_turned(dx, args->axis);
  rg_strided dy = rg_turned(call->in[0], args->axis);
  rg_strided y = rg_turned(call->in[1], args->axis);
  int32_t width = rg_team_width(&y, n, rows);
  rg_launch_cfg cfg = rg_over(rows * width, rg_gpu_stream(call->device));

  switch (dx->_dtype) {
#define CASE(code, T)                    \
  case code:                             \
    return rg_gpu_status(call->op->name, \
                         rg_launch(k_softmax_back<T>, cfg, to, dy, y, rows, n, width));
    RG_FLOATS(CASE)
#undef CASE
  default:
    return rg_gpu->fail(RG_EDTYPE, "%s: no kernel for type %d", call->op->name, dx->_dtype);
  }
}
