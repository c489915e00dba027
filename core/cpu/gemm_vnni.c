/* SPDX-License-Identifier: MIT */
/*
** Products of bytes by vpdpbusd: with vectors of 512 bits where AVX-512 VNNI is, of 256 where only
** AVX-VNNI is.
**
** Intel Architecture Instruction Set Extensions Programming Reference, VPDPBUSD.
*/
#include <string.h>

#include "cpu/gemm_i8.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

void rg_i8_copy_row(uint8_t *to, const uint8_t *from, int64_t k, uint8_t flip)
{
  if (flip == 0) {
    memmove(to, from, (size_t)k);
  } else {
    int64_t l = 0;

    for (; l + 64 <= k; l += 64) {
      uint64_t some[8];

      memcpy(some, from + l, sizeof(some));
      for (int i = 0; i < 8; i++) {
        some[i] ^= flip * 0x0101010101010101u;
      }
      memcpy(to + l, some, sizeof(some));
    }
    for (; l < k; l++) {
      to[l] = from[l] ^ flip;
    }
  }
  memset(to + k, 0, (size_t)(-k & (RG_I8_STEP - 1)));
}

/* -- 512 bits ------------------------------------------------------------------------------ */

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,prefer-vector-width=512")
#define VEC          __m512i
#define ROWS         14
#define LOAD(p)      _mm512_loadu_si512(p)
#define STORE(p, x)  _mm512_storeu_si512(p, x)
#define ZERO()       _mm512_setzero_si512()
#define SPREAD(x)    _mm512_set1_epi32(x)
#define DOT(s, x, y) _mm512_dpbusd_epi32(s, x, y)
#define ADD(x, y)    _mm512_add_epi32(x, y)
#define NAMED(x)     x##_512
#include "cpu/vnni_tile.h"
#pragma GCC pop_options

extern const rg_i8_kernels rg_i8_kernels_vnni512;
const rg_i8_kernels rg_i8_kernels_vnni512 = {
  .path = "own:vnni",
  .tile = { NULL, tile_1_512, tile_2_512, tile_3_512, tile_4_512, tile_5_512, tile_6_512,
            tile_7_512, tile_8_512, tile_9_512, tile_10_512, tile_11_512, tile_12_512, tile_13_512,
            tile_14_512 },
  .rows_most = 14,
  .width = 1,
  .row = rg_i8_copy_row,
};

/* -- 256 bits ------------------------------------------------------------------------------ */

#pragma GCC push_options
#pragma GCC target("avx2,avxvnni")
#define VEC          __m256i
#define ROWS         6
#define LOAD(p)      _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STORE(p, x)  _mm256_storeu_si256((__m256i *)(void *)(p), x)
#define ZERO()       _mm256_setzero_si256()
#define SPREAD(x)    _mm256_set1_epi32(x)
#define DOT(s, x, y) _mm256_dpbusd_avx_epi32(s, x, y)
#define ADD(x, y)    _mm256_add_epi32(x, y)
#define NAMED(x)     x##_256
#include "cpu/vnni_tile.h"
#pragma GCC pop_options

extern const rg_i8_kernels rg_i8_kernels_vnni256;
const rg_i8_kernels rg_i8_kernels_vnni256 = {
  .path = "own:vnni",
  .tile = { NULL, tile_1_256, tile_2_256, tile_3_256, tile_4_256, tile_5_256, tile_6_256 },
  .rows_most = 6,
  .width = 1,
  .row = rg_i8_copy_row,
};

#endif
