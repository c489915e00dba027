/* SPDX-License-Identifier: MIT */
/*
** Rows of a table by their numbers.
*/
#include "gpu/kernels.cuh"
#include "gpu/numbers.cuh"
#include "gpu/pack.cuh"
#include "gpu/team.cuh"

extern "C" {
#include "op/take.h"
}

/* Numbers that no row is made of or comes from are looked at all the same. */
__global__ void k_look(rg_numbers k)
{
  for (int64_t i = RG_FIRST; i < k.n; i += RG_NEXT) {
    (void)rg_checked(k, rg_number_at(k, i));
  }
}

/* -- Taking and adding up ---------------------------------------------------------------------- */

/* By the size of an element: bits stay as they are. */
template <class T>
__global__ void k_take(rg_strided y, rg_strided x, rg_numbers index, int64_t n, int32_t width)
{
  const int32_t lane = (int32_t)threadIdx.x % width;

  for (int64_t row = RG_TEAM(width); row < index.n; row += RG_TEAMS(width)) {
    int64_t from = rg_number_at(index, row);
    bool fits = lane == 0 ? rg_checked(index, from) : rg_in_range(index, from);

    for (int64_t i = lane; i < n; i += width) {
      ((T *)y.data)[rg_at(y, row * n + i)] =
          fits ? ((const T *)x.data)[rg_at(x, from * n + i)] : T();
    }
  }
}

enum { DEPTH = 8, COLUMNS = DEPTH * RG_WARP }; /* of a row of the table, in one warp */

/*
** A warp adds up, in their order, all rows with one number: that of row w of the table (by_row), or
** that of place w of the index if it is the first with it.  32 numbers are looked at at once.
*/
template <class T>
__global__ void k_take_back(T *dx, rg_strided dy, rg_numbers index, int64_t n, int32_t by_row)
{
  typedef typename rg_lane<T>::type L;
  const int64_t first = (int64_t)blockIdx.y * COLUMNS + threadIdx.x % RG_WARP;
  const int64_t lane = threadIdx.x % RG_WARP;
  const int64_t warps = by_row ? index.limit : index.n;

  for (int64_t w = RG_FIRST / RG_WARP; w < warps; w += RG_NEXT / RG_WARP) {
    int64_t mine = by_row ? w : rg_number_at(index, w);
    bool seen = !(by_row || blockIdx.y > 0 ? rg_in_range(index, mine) : rg_checked(index, mine));
    L sum[DEPTH] = {};

    for (int64_t i = 0; !by_row && !seen && i < w; i += RG_WARP) {
      seen = __any_sync(0xffffffffu, i + lane < w && rg_number_at(index, i + lane) == mine) != 0;
    }
    for (int64_t i = by_row ? 0 : w; !seen && i < index.n; i += RG_WARP) {
      int64_t number = i + lane < index.n ? rg_number_at(index, i + lane) : -1;
      bool same = i + lane < index.n && number == mine;

      if (by_row && w == 0 && blockIdx.y == 0 && i + lane < index.n) {
        (void)rg_checked(index, number); /* the first warp sees them all */
      }
      for (unsigned left = __ballot_sync(0xffffffffu, same); left != 0; left &= left - 1) {
        int64_t row = i + __ffs((int)left) - 1;

        for (int32_t k = 0; k < DEPTH; k++) {
          if (first + k * RG_WARP < n) {
            sum[k] += rg_get(((const T *)dy.data)[rg_at(dy, row * n + first + k * RG_WARP)]);
          }
        }
      }
    }
    for (int32_t k = 0; k < DEPTH && !seen; k++) {
      if (first + k * RG_WARP < n) {
        dx[mine * n + first + k * RG_WARP] = rg_element<T>::of(sum[k]);
      }
    }
  }
}

rg_status rg_gpu_take(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *x = call->in[0];
  rg_tensor *y = out[0];
  rg_numbers index;

  RG_TRY(rg_numbers_of(call, call->in[1], x->_shape[0], &index));
  int64_t n = index.n > 0 ? y->_count / index.n : 0;
  int32_t width = n <= 8 ? 1 : n <= 1024 ? (int32_t)RG_WARP : (int32_t)RG_BLOCK;
  rg_launch_cfg cfg = rg_over(index.n * width, rg_gpu_stream(call->device));
  rg_strided to = rg_view_of(y);
  rg_strided from = rg_view_of(x);
  cudaError_t error;

  (void)frame;
  if (index.n == 0) {
    return RG_OK;
  }
  if (n == 0) {
    return rg_gpu_status(call->op->name, rg_launch(k_look, cfg, index));
  }
  switch (rg_bytes_of(x->_dtype)) {
  case 1:
    error = rg_launch(k_take<uint8_t>, cfg, to, from, index, n, width);
    break;
  case 2:
    error = rg_launch(k_take<uint16_t>, cfg, to, from, index, n, width);
    break;
  case 4:
    error = rg_launch(k_take<uint32_t>, cfg, to, from, index, n, width);
    break;
  default:
    error = rg_launch(k_take<uint64_t>, cfg, to, from, index, n, width);
    break;
  }
  return rg_gpu_status(call->op->name, error);
}

rg_status rg_gpu_take_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *dy = call->in[0];
  rg_tensor *dx = out[0];
  rg_numbers index;

  RG_TRY(rg_numbers_of(call, call->in[1], dx->_shape[0], &index));
  int64_t n = index.n > 0 ? dy->_count / index.n : 0;
  cudaStream_t stream = rg_gpu_stream(call->device);
  bool by_row = index.limit <= index.n; /* fewer warps then, and each row is written */
  rg_launch_cfg cfg = rg_over((by_row ? index.limit : index.n) * RG_WARP, stream);

  (void)frame;
  cfg.grid.y = (unsigned)((n + COLUMNS - 1) / COLUMNS);
  if (dx->_count > 0 && !(by_row && n > 0)) {
    RG_CUDA(call->op->name,
            cudaMemsetAsync(dx->_data, 0, (size_t)(dx->_count * rg_bytes_of(dx->_dtype)), stream));
  }
  if (index.n == 0) {
    return RG_OK;
  }
  if (n == 0 || index.limit == 0) {
    cfg = rg_over(index.n, stream);
    return rg_gpu_status(call->op->name, rg_launch(k_look, cfg, index));
  }
  switch (dx->_dtype) {
#define CASE(code, T)                                                                   \
  case code:                                                                            \
    return rg_gpu_status(call->op->name, rg_launch(k_take_back<T>, cfg, (T *)dx->_data, \
                                                   rg_view_of(dy), index, n, (int32_t)by_row));
    RG_FLOATS(CASE)
#undef CASE
  default:
    return rg_gpu->fail(RG_EDTYPE, "%s: no kernel for this type", call->op->name);
  }
}
