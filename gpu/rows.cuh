/* SPDX-License-Identifier: MIT */
/*
** Rows that are read once.  Held in registers: a team (team.cuh) reads a row in packs of 16 bytes
** that lie beside those of its neighbours, each thread holding up to H elements, and writes its
** result.  Kept in shared memory, where they are longer: a large block has a row, each thread its
** own packs of it.  Rows that do not lie in packs, or are longer still, are read again by other
** kernels.
*/
#ifndef RIDGE_GPU_ROWS_CUH
#define RIDGE_GPU_ROWS_CUH

#include "gpu/mma.cuh"
#include "gpu/pack.cuh"
#include "gpu/team.cuh"

/* Elements of a thread, at most: of one row, and of two at once. */
enum { RG_HOLDS = 32, RG_HOLDS_TWO = 16 };

/* How rows are read, as a trace says it: once into registers, once into shared memory, or again
** from where they are. */
#define RG_PATH_HELD  "registers"
#define RG_PATH_KEPT  "shared memory"
#define RG_PATH_AGAIN "again"

/* Can rows of n elements, the last axis of x, be moved in packs of so many? */
inline bool rg_rows_pack(const rg_strided &x, int32_t dtype, int64_t n, int64_t pack)
{
  bool fits = n % pack == 0 && rg_aligned(x.data, rg_bytes_of(dtype), pack);

  for (int32_t i = 0; i < x.ndim - 1; i++) {
    fits = fits && x.stride[i] % pack == 0;
  }
  return fits && x.stride[x.ndim - 1] == 1;
}

/* Are they held by teams of so many threads?  Not by single threads, whose rows are short. */
inline bool rg_holds(int32_t width, int64_t n, int32_t holds)
{
  return width > 1 && n <= (int64_t)width * holds;
}

/* The team for two rows at once. */
inline int32_t rg_two_width(int32_t width, int64_t n)
{
  return width == RG_WARP && !rg_holds(width, n, RG_HOLDS_TWO) ? (int32_t)RG_BLOCK : width;
}

/* A thread's part of a row of n elements: pack j, of N, begins at at(j). */
template <int N, int HOLDS> struct rg_row {
  static constexpr int packs = HOLDS / N;
  int32_t n, first, apart;

  __device__ inline rg_row(int64_t n_, int32_t width)
      : n((int32_t)n_), first((int32_t)threadIdx.x % width * N), apart(width * N)
  {
  }
  __device__ inline int32_t at(int j) const
  {
    return first + j * apart;
  }
  __device__ inline bool has(int j) const
  {
    return at(j) < n;
  }
};

/* The packs of a row that a thread has, with j known to the compiler. */
#define RG_PACKS_OF(row, j) \
  _Pragma("unroll") for (int j = 0; j < (row).packs; j++) if ((row).has(j))

/* -- In registers, the next row on its way ----------------------------------------------------- */

/* As many blocks as a device runs side by side take rows in turn.  A thread asks for its packs of
** its next row before it works on those it has, so that memory is never idle.  It has them as they
** are stored: halves take half the registers of their lanes. */

/* N neighbours as stored. */
template <class T, int N> struct rg_raw {
  rg_words<(int)sizeof(T) * N> words;

  __device__ inline void load(const void *data, int64_t at)
  {
    words = *(const rg_words<(int)sizeof(T) * N> *)((const T *)data + at);
  }
  template <class L> __device__ inline void get(L (&v)[N]) const
  {
    rg_unpack<T, N>(&words, 0, v);
  }
  template <class L> __device__ inline void put(const L (&v)[N])
  {
    rg_pack_into<T, N>(&words, 0, v);
  }
};

/* exp, or for what is rounded to a half type the one of few instructions. */
template <bool HALF, class L> __device__ inline L rg_exp(L x)
{
  return HALF ? exp2(x * (L)1.4426950408889634) : exp(x);
}

/* Packs of a thread: two or four of this row and the next, or eight without one under way. */
enum { RG_PACKS_FEW = 2, RG_PACKS_SOME = 4, RG_PACKS_MOST = 8 };

/* Threads of a multiprocessor that there are registers for, in blocks of at most RG_BLOCK. */
template <int PACKS> constexpr int rg_resident = PACKS == RG_PACKS_FEW ? 768 : 512;

/* How rows are held; a team of no threads: not. */
struct rg_hold {
  int32_t width, packs;
};

/* Of rows of n elements, in packs of so many: the narrowest team whose threads have enough, because
** narrow teams wait for fewer. */
inline rg_hold rg_hold_of(int64_t n, int64_t pack)
{
  if (n <= RG_WARP * RG_PACKS_FEW * pack) {
    return rg_hold{ RG_WARP, RG_PACKS_FEW };
  }
  for (int32_t width = RG_WARP; width <= RG_BLOCK; width *= 2) {
    if (n <= width * RG_PACKS_SOME * pack) {
      return rg_hold{ width, RG_PACKS_SOME };
    }
  }
  const bool fit = pack * RG_PACKS_MOST <= RG_HOLDS && n <= RG_BLOCK * RG_PACKS_MOST * pack;

  return fit ? rg_hold{ (int32_t)RG_BLOCK, RG_PACKS_MOST } : rg_hold{};
}

/* Blocks that are one team, or of teams that are a warp each: all rows, or as many as fit where a
** multiprocessor has so many threads. */
inline rg_launch_cfg rg_taking_turns(const rg_call *call, int64_t rows, int32_t width,
                                     int32_t resident)
{
  const int32_t block = width == RG_WARP ? (int32_t)RG_BLOCK : width;
  const int64_t most = (int64_t)rg_gpu_units(call->device) * (resident / block);
  const int64_t wanted = (rows * width + block - 1) / block;

  return rg_launch_cfg{ dim3((unsigned)rg_clamped(wanted, 1, most)), dim3((unsigned)block), 0,
                        rg_gpu_stream(call->device) };
}

/* How far the rows of x, all of its axes but some last ones, are apart in memory; -1 where they are
** not equally far. */
inline int64_t rg_rows_apart(const rg_strided &x, int32_t last)
{
  int64_t apart = 0;
  int64_t rows = 1;

  for (int32_t i = x.ndim - last - 1; i >= 0; i--) {
    if (x.shape[i] == 1) {
      continue;
    }
    if (rows > 1 && x.stride[i] != apart * rows) {
      return -1;
    }
    apart = rows > 1 ? apart : x.stride[i];
    rows *= x.shape[i];
  }
  return apart;
}

/* -- In shared memory -------------------------------------------------------------------------- */

/* Threads of a block that keeps a row, at most: such a block is alone on a multiprocessor.  Half of
** them where there is room for several, which read while others compute. */
enum { RG_KEEPERS = 1024, RG_KEEPER_WARPS = RG_KEEPERS / RG_WARP };

/* A thread's packs of a row of n elements. */
#define RG_KEPT_PACKS(i, n, N) \
  for (int32_t i = (int32_t)threadIdx.x * N; i < (n); i += (int32_t)blockDim.x * N)

/* A row on its way into shared memory, all of it at once; both are at multiples of 16 bytes. */
template <class T> __device__ inline void rg_keep(T *kept, const T *from, int32_t n)
{
  RG_KEPT_PACKS(i, n, rg_pack_size<T>)
  {
    rg_copy16(kept + i, from + i, true);
  }
  rg_copy_commit();
}

/* Until this thread's packs are there; nobody else reads them. */
__device__ inline void rg_kept(void)
{
  rg_copy_wait<0>();
}

/* Can so many blocks, side by side, keep so many bytes each?  Beside them is scratch for sums over
** a team, and what the device takes for itself. */
inline bool rg_keeps(const rg_call *call, int64_t bytes, int64_t blocks = 1)
{
  const int64_t beside = blocks > 1 ? 2048 : 1024;
  int most = 0;
  cudaError_t error =
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, call->device - 1);

  return error == cudaSuccess && blocks * (bytes + beside) <= most;
}

/* A block for each row, keeping so many bytes. */
template <class... P, class... A>
inline cudaError_t rg_launch_keepers(const rg_call *call, void (*kernel)(P...), int64_t rows,
                                     int64_t bytes, A &&...args)
{
  const unsigned threads = rg_keeps(call, bytes, 2) ? RG_KEEPERS / 2 : RG_KEEPERS;
  const rg_launch_cfg cfg = { dim3((unsigned)rg_clamped(rows, 1, INT32_MAX)), dim3(threads),
                              (size_t)bytes, rg_gpu_stream(call->device) };
  cudaError_t error = rg_gpu_most_shared(call->device, (const void *)kernel);

  return error != cudaSuccess ? error : rg_launch(kernel, cfg, std::forward<A>(args)...);
}

#endif
