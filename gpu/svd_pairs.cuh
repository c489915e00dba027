/* SPDX-License-Identifier: MIT */
/*
** Who meets whom in a sweep over k vectors, as in a tournament: each two once, and in a round each
** vector at most one other, because the places of a round run side by side.
*/
#ifndef RIDGE_GPU_SVD_PAIRS_CUH
#define RIDGE_GPU_SVD_PAIRS_CUH

#include <cuda_runtime.h>

#include <cstdint>

/* Meetings that run side by side. */
__host__ __device__ inline int64_t rg_svd_places(int64_t k)
{
  return (k + 1) / 2;
}

/* Rounds of a sweep. */
__host__ __device__ inline int64_t rg_svd_rounds(int64_t k)
{
  return 2 * rg_svd_places(k) - 1;
}

/* Who meets in a place of a round, *i < *j: one stands still, the others go round.  False: nobody,
** because with an odd number of vectors the one that stands still is not there. */
__host__ __device__ inline bool rg_svd_pair(int64_t k, int64_t round, int64_t place, int64_t *i,
                                            int64_t *j)
{
  const int64_t ring = rg_svd_rounds(k);
  const int64_t one = place == 0 ? round : (round + place) % ring;
  const int64_t other = place == 0 ? ring : (round + ring - place) % ring;

  *i = one < other ? one : other;
  *j = one < other ? other : one;
  return *j < k;
}

#endif
