/* SPDX-License-Identifier: MIT */
/*
** Size classes of the caching allocator: multiples of 64 bytes up to 1 KB, then eight steps a
** doubling, so at most an eighth is wasted.
*/
#ifndef RG_BASE_SIZE_CLASS_H
#define RG_BASE_SIZE_CLASS_H

#include <stdint.h>

enum { N_SMALL = 16, N_CLASSES = N_SMALL + 8 * 40 };

static inline int class_of(int64_t bytes)
{
  int log2;
  int64_t step;

  if (bytes <= 1024) {
    return bytes <= 64 ? 0 : (int)((bytes + 63) / 64) - 1;
  }
  log2 = 63 - __builtin_clzll((unsigned long long)(bytes - 1));
  step = ((bytes - 1) - ((int64_t)1 << log2)) >> (log2 - 3);
  return N_SMALL + (log2 - 10) * 8 + (int)step;
}

static inline int64_t class_bytes(int class)
{
  int log2;

  if (class < N_SMALL) {
    return (int64_t)(class + 1) * 64;
  }
  log2 = 10 + (class - N_SMALL) / 8;
  return ((int64_t)1 << log2) + ((int64_t)((class - N_SMALL) % 8 + 1) << (log2 - 3));
}

#endif
