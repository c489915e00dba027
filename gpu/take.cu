/* SPDX-License-Identifier: MIT */
/*
** Gathering rows of a table by index.
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

enum { PIECES = 4 }; /* of a row, under way at once */

/* By the size of a piece, one element or several: bits stay as they are.  n: pieces in a row. */
template <class T>
__global__ void k_take(const __grid_constant__ rg_strided y, const __grid_constant__ rg_strided x,
                       const __grid_constant__ rg_numbers index, int64_t n, int32_t width)
{
  const int32_t lane = (int32_t)threadIdx.x % width;

  for (int64_t row = RG_TEAM(width); row < index.n; row += RG_TEAMS(width)) {
    int64_t from = rg_number_at(index, row);
    bool fits = lane == 0 ? rg_checked(index, from) : rg_in_range(index, from);

    for (int64_t first = lane; first < n; first += PIECES * width) {
      T v[PIECES] = {};

#pragma unroll
      for (int k = 0; k < PIECES; k++) {
        if (fits && first + k * width < n) {
          v[k] = ((const T *)x.data)[rg_at(x, from * n + first + k * width)];
        }
      }
#pragma unroll
      for (int k = 0; k < PIECES; k++) {
        if (first + k * width < n) {
          ((T *)y.data)[rg_at(y, row * n + first + k * width)] = v[k];
        }
      }
    }
  }
}

enum { DEPTH = 8, COLUMNS = DEPTH * RG_WARP }; /* of a row of the table, in one warp */

/*
** A warp adds up, in their order, all rows with one number: that of row w of the table (by_row), or
** that of place w of the index if it is the first with it.  32 numbers are looked at at once.  A
** thread has DEPTH columns, in packs where rows can be moved in them.
*/
template <class T, int N>
__global__ void k_take_back(T *dx, const __grid_constant__ rg_strided dy,
                            const __grid_constant__ rg_numbers index, int64_t n, int32_t by_row)
{
  typedef typename rg_lane<T>::type L;
  const int64_t lane = threadIdx.x % RG_WARP;
  const int64_t first = (int64_t)blockIdx.y * COLUMNS + lane * N;
  const int64_t warps = by_row ? index.limit : index.n;

  for (int64_t w = RG_FIRST / RG_WARP; w < warps; w += RG_NEXT / RG_WARP) {
    int64_t mine = by_row ? w : rg_number_at(index, w);
    bool seen = !(by_row || blockIdx.y > 0 ? rg_in_range(index, mine) : rg_checked(index, mine));
    L sum[DEPTH / N][N] = {};

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

#pragma unroll
        for (int32_t k = 0; k < DEPTH / N; k++) {
          const int64_t column = first + k * N * RG_WARP;
          L v[N];

          if (column < n) {
            rg_unpack<T, N>(dy.data, rg_at(dy, row * n + column), v);
#pragma unroll
            for (int j = 0; j < N; j++) {
              sum[k][j] += v[j];
            }
          }
        }
      }
    }
#pragma unroll
    for (int32_t k = 0; k < DEPTH / N && !seen; k++) {
      if (first + k * N * RG_WARP < n) {
        rg_pack_into<T, N>(dx, mine * n + first + k * N * RG_WARP, sum[k]);
      }
    }
  }
}

/* The bytes of a piece that rows of n elements can be moved in: 16 or fewer, down to an element. */
static int64_t piece_of(const rg_tensor *x, const rg_strided &from, const rg_strided &to, int64_t n)
{
  const int64_t size = rg_bytes_of(x->_dtype);
  const int64_t step = x->_shape[0] > 1 ? x->_stride[0] * size : 0;
  int64_t piece = 16;
  int64_t next = 1; /* the stride of a row without gaps: only rows may lie apart */

  for (int32_t i = x->_ndim - 1; i > 0; i--) {
    if (x->_shape[i] != 1 && x->_stride[i] != next) {
      return size;
    }
    next *= x->_shape[i];
  }
  if (to.flat != 1) {
    return size;
  }
  while (piece > size && (((uint64_t)n * (uint64_t)size | (uint64_t)step | (uintptr_t)from.data |
                           (uintptr_t)to.data) %
                          (uint64_t)piece) != 0) {
    piece /= 2;
  }
  return piece > size ? piece : size;
}

/* Rows of n pieces, so many apart, as a matrix. */
static rg_strided rows_of(char *data, int64_t rows, int64_t n, int64_t apart)
{
  rg_strided v = {};

  v.data = data;
  v.ndim = 2;
  v.shape[0] = rows;
  v.shape[1] = n;
  v.stride[0] = apart;
  v.stride[1] = 1;
  return v;
}

/* Threads of a row of n pieces: with PIECES each, but at least eight beside each other. */
static int32_t width_for(int64_t n)
{
  int32_t width = 1;

  while (width < (int32_t)RG_BLOCK && (width < 8 ? width < n : width * PIECES < n)) {
    width *= 2;
  }
  return width;
}

rg_status rg_gpu_take(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *x = call->in[0];
  rg_tensor *y = out[0];
  rg_numbers index;

  RG_TRY(rg_numbers_of(call, call->in[1], x->_shape[0], &index));
  int64_t n = index.n > 0 ? y->_count / index.n : 0;
  rg_strided to = rg_view_of(y);
  rg_strided from = rg_view_of(x);
  const int64_t size = rg_bytes_of(x->_dtype);
  const int64_t piece = piece_of(x, from, to, n);

  if (piece > size) {
    const int64_t step = x->_shape[0] > 1 ? x->_stride[0] : n;

    n = n * size / piece;
    to = rows_of(to.data, index.n, n, n);
    from = rows_of(from.data, index.limit, n, step * size / piece);
  }
  int32_t width = width_for(n);
  rg_launch_cfg cfg = rg_over(index.n * width, rg_gpu_stream(call->device));
  cudaError_t error;

  frame->path = rg_path_of(piece == 16);
  if (index.n == 0) {
    return RG_OK;
  }
  if (n == 0) {
    return rg_gpu_status(call->op->name, rg_launch(k_look, cfg, index));
  }
  switch (piece) {
  case 1:
    error = rg_launch(k_take<uint8_t>, cfg, to, from, index, n, width);
    break;
  case 2:
    error = rg_launch(k_take<uint16_t>, cfg, to, from, index, n, width);
    break;
  case 4:
    error = rg_launch(k_take<uint32_t>, cfg, to, from, index, n, width);
    break;
  case 8:
    error = rg_launch(k_take<uint64_t>, cfg, to, from, index, n, width);
    break;
  default:
    error = rg_launch(k_take<uint4>, cfg, to, from, index, n, width);
    break;
  }
  return rg_gpu_status(call->op->name, error);
}

/* Can rows of dy and dx, n elements each, be moved in packs? */
template <class T> static bool packs_back(const rg_tensor &dy, const rg_tensor *dx, int64_t n)
{
  constexpr int64_t N = rg_pack_size<T>;

  return n % N == 0 && rg_is_contiguous(&dy) && rg_aligned(dy._data, sizeof(T), N) &&
         rg_aligned(dx->_data, sizeof(T), N);
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
  return rg_dispatch<RG_KINDS_FLOAT>(call, dx->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    frame->path = rg_path_of(packs_back<T>(*dy, dx, n));
    return rg_launch(packs_back<T>(*dy, dx, n) ? k_take_back<T, rg_pack_size<T>>
                                               : k_take_back<T, 1>,
                     cfg, (T *)dx->_data, rg_view_of(dy), index, n, (int32_t)by_row);
  });
}
