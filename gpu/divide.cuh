/* SPDX-License-Identifier: MIT */
/*
** Division by what stays the same for a whole kernel.  In 32 bits it is a multiplication by an
** invariant that the host has prepared (Granlund and Montgomery, 1994): a tenth of the instructions
** of a division in 64 bits.
*/
#ifndef RIDGE_GPU_DIVIDE_CUH
#define RIDGE_GPU_DIVIDE_CUH

#include <stdint.h>

/* Of an index type: n / divisor for n from 0 to the type's largest, divisor >= 1. */
template <class I> struct rg_divisor;

template <> struct rg_divisor<int64_t> {
  int64_t by;

  static inline rg_divisor of(int64_t by)
  {
    return rg_divisor{ by };
  }
};

template <> struct rg_divisor<int32_t> {
  uint32_t multiplier, shift;

  static inline rg_divisor of(int64_t by)
  {
    uint32_t shift = 0;

    by = by < 1 ? 1 : by; /* of what is empty */

    while (((int64_t)1 << shift) < by) {
      shift++;
    }
    return rg_divisor{ (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << shift) - (uint64_t)by)) /
                                      (uint64_t)by +
                                  1),
                       shift };
  }
};

__host__ __device__ inline int64_t operator/(int64_t n, const rg_divisor<int64_t> &d)
{
  return n / d.by;
}

__host__ __device__ inline int32_t operator/(int32_t n, const rg_divisor<int32_t> &d)
{
  const uint32_t high = (uint32_t)(((uint64_t)(uint32_t)n * d.multiplier) >> 32);

  return (int32_t)((high + (uint32_t)n) >> d.shift);
}

#endif
