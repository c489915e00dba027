/* SPDX-License-Identifier: MIT */
/*
** Rows that stay in registers: a team (team.cuh) reads a row once, in packs of 16 bytes that lie
** beside those of its neighbours, each thread holding up to H elements, and writes its result once.
** Rows that do not lie so, or are longer, are read again by other kernels.
*/
#ifndef RIDGE_GPU_ROWS_CUH
#define RIDGE_GPU_ROWS_CUH

#include "gpu/pack.cuh"
#include "gpu/team.cuh"

/* Elements of a thread, at most: of one row, and of two at once. */
enum { RG_HOLDS = 32, RG_HOLDS_TWO = 16 };

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

#endif
