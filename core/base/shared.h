/* SPDX-License-Identifier: MIT */
/*
** What the CPU and kernels of GPUs compute by the same source: rounding up, and Philox.
*/
#ifndef RIDGE_BASE_SHARED_H
#define RIDGE_BASE_SHARED_H

#include <stdint.h>

#ifdef __CUDACC__
#define RG_BOTH static inline __host__ __device__
#else
#define RG_BOTH static inline
#endif

/* The next multiple from n on; n >= 0, multiple > 0. */
RG_BOTH int64_t rg_round_up(int64_t n, int64_t multiple)
{
  return (n + multiple - 1) / multiple * multiple;
}

/* -- Philox --------------------------------------------------------------------------- */

/*
** Philox4x32-10 of a counter whose fourth word is 0: a pure function of seed and counter, so that
** the numbers do not depend on who draws them or in which order.
**
** Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3 (SC11); constants and
** round function of its section 3.3.
*/
RG_BOTH void rg_philox_of(uint64_t seed, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t to[4])
{
  uint32_t c3 = 0;
  uint32_t k0 = (uint32_t)seed;
  uint32_t k1 = (uint32_t)(seed >> 32);

#if defined(__GNUC__) && !defined(__CUDACC__)
#pragma GCC unroll 10
#endif
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0;
    uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;

    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  to[0] = c0;
  to[1] = c1;
  to[2] = c2;
  to[3] = c3;
}

/*
** Block number index of a seed: four 32-bit numbers.  Key words are the seed's low and high half,
** counter words the index's low and high half, 0 and 0 (Random123's order).
*/
RG_BOTH void rg_philox(uint64_t seed, uint64_t index, uint32_t to[4])
{
  rg_philox_of(seed, (uint32_t)index, (uint32_t)(index >> 32), 0, to);
}

#endif
