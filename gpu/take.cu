/* SPDX-License-Identifier: MIT */
/*
** Gathering rows of a table by index, and the gradient of the table: rows added up by number.
**
** Few rows are added up where they are found: a warp looks at all numbers for those of its row.
** More are put in order first, by counting: how many have each number; where in a list those of
** each number begin, as whole warps get room there, in any order; each into its room, in any order;
** and each room sorted.  So the sums are made in the order of the index, whoever came first, with
** the same bits each time, and nothing is read on the host.
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

/* Of a row of the table, in one warp; such pieces of a row in one launch, of which a grid can have
** 65535, and fewer are enough to fill a GPU. */
enum { DEPTH = 8, COLUMNS = DEPTH * RG_WARP, MOST = 4096 };

/*
** A warp adds up, in their order, all rows with one number: that of row w of the table (by_row), or
** that of place w of the index if it is the first with it.  32 numbers are looked at at once.  A
** thread has DEPTH columns, in packs where rows can be moved in them.
*/
template <class T, int N>
__global__ void k_take_back(T *dx, const __grid_constant__ rg_strided dy,
                            const __grid_constant__ rg_numbers index, int64_t begin, int64_t n,
                            int32_t by_row)
{
  typedef typename rg_lane<T>::type L;
  const int64_t lane = threadIdx.x % RG_WARP;
  const int64_t first = begin + (int64_t)blockIdx.y * COLUMNS + lane * N;
  const bool checks = begin + blockIdx.y == 0; /* others have other columns of the same rows */
  const int64_t warps = by_row ? index.limit : index.n;

  for (int64_t w = RG_FIRST / RG_WARP; w < warps; w += RG_NEXT / RG_WARP) {
    int64_t mine = by_row ? w : rg_number_at(index, w);
    bool seen = !(by_row || !checks ? rg_in_range(index, mine) : rg_checked(index, mine));
    L sum[DEPTH / N][N] = {};

    for (int64_t i = 0; !by_row && !seen && i < w; i += RG_WARP) {
      seen = __any_sync(0xffffffffu, i + lane < w && rg_number_at(index, i + lane) == mine) != 0;
    }
    for (int64_t i = by_row ? 0 : w; !seen && i < index.n; i += RG_WARP) {
      int64_t number = i + lane < index.n ? rg_number_at(index, i + lane) : -1;
      bool same = i + lane < index.n && number == mine;

      if (by_row && w == 0 && checks && i + lane < index.n) {
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

/* -- Putting numbers in order ------------------------------------------------------------------ */

/* Places 0 .. n - 1 of an index, those of one number behind each other.  Of number r there are
** count[r]; they end before end[r], which until all have come is where the next one goes. */
struct rg_places {
  int32_t *count, *end; /* for each row of the table */
  int32_t *total;       /* how much of the list is given away */
  int32_t *come;        /* places as they came */
  int32_t *sorted;      /* and in order */
};

__global__ void k_places_count(rg_places p, const __grid_constant__ rg_numbers index)
{
  for (int64_t i = RG_FIRST; i < index.n; i += RG_NEXT) {
    int64_t number = rg_number_at(index, i);

    if (rg_checked(index, number)) {
      atomicAdd(&p.count[number], 1);
    }
  }
}

/* Room in the list for 32 numbers of a warp at once. */
__global__ void k_places_room(rg_places p, int64_t limit)
{
  const int32_t lane = (int32_t)threadIdx.x % RG_WARP;

  for (int64_t first = RG_FIRST - lane; first < limit; first += RG_NEXT) {
    int32_t mine = first + lane < limit ? p.count[first + lane] : 0;
    int32_t up_to = mine; /* and all lanes before */
    int32_t begin = 0;

    for (int32_t step = 1; step < RG_WARP; step *= 2) {
      int32_t before = __shfl_up_sync(0xffffffffu, up_to, step);

      up_to += lane >= step ? before : 0;
    }
    if (lane == RG_WARP - 1 && up_to > 0) {
      begin = atomicAdd(p.total, up_to);
    }
    begin = __shfl_sync(0xffffffffu, begin, RG_WARP - 1);
    if (first + lane < limit) {
      p.end[first + lane] = begin + up_to - mine;
    }
  }
}

__global__ void k_places_come(rg_places p, const __grid_constant__ rg_numbers index)
{
  for (int64_t i = RG_FIRST; i < index.n; i += RG_NEXT) {
    int64_t number = rg_number_at(index, i);

    if (rg_in_range(index, number)) {
      p.come[atomicAdd(&p.end[number], 1)] = (int32_t)i;
    }
  }
}

/* A warp sorts n places of one number: by how many are before each, or where they are many, finding
** them all again in the index.  Of that no index makes more than the square root of its size. */
__device__ inline void rg_sort_places(const rg_numbers &index, int64_t number, const int32_t *come,
                                      int32_t *sorted, int32_t n)
{
  const int32_t lane = (int32_t)threadIdx.x % RG_WARP;

  if ((int64_t)n * n <= 4 * index.n) {
    for (int32_t i = lane; i < n; i += RG_WARP) {
      int32_t mine = come[i];
      int32_t before = 0;

      for (int32_t j = 0; j < n; j++) {
        before += come[j] < mine ? 1 : 0;
      }
      sorted[before] = mine;
    }
    return;
  }
  for (int64_t i = 0; i < index.n; i += RG_WARP) {
    bool same = i + lane < index.n && rg_number_at(index, i + lane) == number;
    unsigned all = __ballot_sync(0xffffffffu, same);

    if (same) {
      sorted[__popc(all & ((1u << lane) - 1))] = (int32_t)(i + lane);
    }
    sorted += __popc(all);
  }
}

__global__ void k_places_sort(rg_places p, const __grid_constant__ rg_numbers index)
{
  const int32_t lane = (int32_t)threadIdx.x % RG_WARP;

  for (int64_t first = RG_FIRST - lane; first < index.limit; first += RG_NEXT) {
    bool there = first + lane < index.limit;
    int32_t n = there ? p.count[first + lane] : 0;
    int32_t at = there ? p.end[first + lane] - n : 0;

    if (n == 1) {
      p.sorted[at] = p.come[at];
    }
    for (unsigned left = __ballot_sync(0xffffffffu, n > 1); left != 0; left &= left - 1) {
      int32_t who = __ffs((int)left) - 1;
      int32_t from = __shfl_sync(0xffffffffu, at, who);

      rg_sort_places(index, first + who, p.come + from, p.sorted + from,
                     __shfl_sync(0xffffffffu, n, who));
    }
  }
}

/* A warp adds up the rows of one number, as k_take_back does: that of row w of the table (by_row),
** or that of place w of the index if it is the first with it. */
template <class T, int N>
__global__ void k_take_back_sorted(T *dx, const __grid_constant__ rg_strided dy,
                                   const __grid_constant__ rg_numbers index, rg_places p,
                                   int64_t begin, int64_t n, int32_t by_row)
{
  typedef typename rg_lane<T>::type L;
  const int64_t lane = threadIdx.x % RG_WARP;
  const int64_t first = begin + (int64_t)blockIdx.y * COLUMNS + lane * N;
  const int64_t warps = by_row ? index.limit : index.n;

  for (int64_t w = RG_FIRST / RG_WARP; w < warps; w += RG_NEXT / RG_WARP) {
    int64_t row = by_row ? w : rg_number_at(index, w);
    bool fits = by_row || rg_in_range(index, row);
    int32_t many = fits ? p.count[row] : 0;
    const int32_t *place = p.sorted + (fits ? p.end[row] - many : 0);
    L sum[DEPTH / N][N] = {};

    if (!by_row && (!fits || place[0] != w)) {
      continue;
    }
#pragma unroll 4
    for (int32_t i = 0; i < many; i++) {
      const int64_t from = place[i] * n;

#pragma unroll
      for (int32_t k = 0; k < DEPTH / N; k++) {
        const int64_t column = first + k * N * RG_WARP;
        L v[N] = {};

        if (column < n) {
          rg_unpack<T, N>(dy.data, rg_at(dy, from + column), v);
        }
#pragma unroll
        for (int j = 0; j < N; j++) {
          sum[k][j] += v[j];
        }
      }
    }
#pragma unroll
    for (int32_t k = 0; k < DEPTH / N; k++) {
      if (first + k * N * RG_WARP < n) {
        rg_pack_into<T, N>(dx, row * n + first + k * N * RG_WARP, sum[k]);
      }
    }
  }
}

/* -- The calls --------------------------------------------------------------------------------- */

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

/* Places in order; p->sorted is NULL where that is not worth it or there is no room: few numbers
** are found as fast where they are. */
static rg_status places_of(const rg_call *call, const rg_numbers &index, rg_places *p)
{
  const int64_t few = 256;
  const int64_t ints = 2 * (index.limit + index.n) + 1;
  cudaStream_t stream = rg_gpu_stream(call->device);
  rg_launch_cfg over_rows = rg_over(index.limit, stream);
  rg_launch_cfg over_index = rg_over(index.n, stream);
  const char *what = call->op->name;
  int32_t *room;

  *p = rg_places{};
  if (index.n <= few || index.n > INT32_MAX || index.limit > INT32_MAX) {
    return RG_OK;
  }
  room = (int32_t *)rg_gpu_workspace(call->device, ints * 4);
  if (room == NULL) {
    return RG_OK;
  }
  p->total = room;
  p->count = room + 1;
  p->end = p->count + index.limit;
  p->come = p->end + index.limit;
  p->sorted = p->come + index.n;
  RG_CUDA(what, cudaMemsetAsync(room, 0, (size_t)(index.limit + 1) * 4, stream));
  RG_CUDA(what, rg_launch(k_places_count, over_index, *p, index));
  RG_CUDA(what, rg_launch(k_places_room, over_rows, *p, index.limit));
  RG_CUDA(what, rg_launch(k_places_come, over_index, *p, index));
  return rg_gpu_status(what, rg_launch(k_places_sort, over_rows, *p, index));
}

rg_status rg_gpu_take_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *dy = call->in[0];
  rg_tensor *dx = out[0];
  rg_numbers index;
  rg_places places;

  RG_TRY(rg_numbers_of(call, call->in[1], dx->_shape[0], &index));
  int64_t n = index.n > 0 ? dy->_count / index.n : 0;
  cudaStream_t stream = rg_gpu_stream(call->device);

  if (index.n > 0 && (n == 0 || index.limit == 0)) {
    return rg_gpu_status(call->op->name, rg_launch(k_look, rg_over(index.n, stream), index));
  }
  RG_TRY(places_of(call, index, &places));
  const bool sorted = places.sorted != NULL;
  /* a warp for each row of the table writes all of it; with far fewer numbers than rows those
  ** without any are cleared before */
  const bool by_row = index.limit <= (sorted ? 8 : 1) * index.n;
  rg_launch_cfg cfg = rg_over((by_row ? index.limit : index.n) * RG_WARP, stream);

  if (dx->_count > 0 && !by_row) {
    RG_CUDA(call->op->name,
            cudaMemsetAsync(dx->_data, 0, (size_t)(dx->_count * rg_bytes_of(dx->_dtype)), stream));
  }
  if (index.n == 0) {
    return RG_OK;
  }
  return rg_dispatch<RG_KINDS_FLOAT>(call, dx->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;
    const bool packs = packs_back<T>(*dy, dx, n);
    T *to = (T *)dx->_data;

    cudaError_t error = cudaSuccess;

    frame->path = rg_path_of(packs);
    for (int64_t begin = 0; begin < n && error == cudaSuccess; begin += MOST * COLUMNS) {
      cfg.grid.y = (unsigned)rg_clamped((n - begin + COLUMNS - 1) / COLUMNS, 1, MOST);
      error =
          sorted
              ? rg_launch(packs ? k_take_back_sorted<T, rg_pack_size<T>> : k_take_back_sorted<T, 1>,
                          cfg, to, rg_view_of(dy), index, places, begin, n, (int32_t)by_row)
              : rg_launch(packs ? k_take_back<T, rg_pack_size<T>> : k_take_back<T, 1>, cfg, to,
                          rg_view_of(dy), index, begin, n, (int32_t)by_row);
    }
    return error;
  });
}
