/* SPDX-License-Identifier: MIT */
/*
** Loops that move bytes: a read and McCalpin's triad ("Memory bandwidth and machine balance in
** current high performance computers", 1995).
**
** One body, compiled for each instruction set: vectors of 64 bytes, which the compiler cuts where
** registers are smaller.  The read combines by exclusive or, one cycle, so that it never waits.
*/
#include "measure/measure.h"

#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#define FOR_AVX2   __attribute__((target("avx2,fma")))
#define FOR_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#endif

typedef uint64_t u64x8 __attribute__((vector_size(64), may_alias));
typedef float f32x16 __attribute__((vector_size(64), may_alias));

static inline __attribute__((always_inline)) uint64_t read_body(const void *data, int64_t bytes,
                                                                int64_t passes)
{
  const u64x8 *p = data;
  const int64_t n = bytes / (int64_t)sizeof(u64x8);
  u64x8 a = { 0 };
  u64x8 b = { 0 };
  u64x8 c = { 0 };
  u64x8 d = { 0 };
  uint64_t sum = 0;

  for (int64_t pass = 0; pass < passes; pass++) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < n; i += 4) {
      a ^= p[i];
      b ^= p[i + 1];
      c ^= p[i + 2];
      d ^= p[i + 3];
    }
    /* the next pass reads the same memory, and has to */
    __asm__ volatile("" : : "r"(p) : "memory");
  }
  a ^= b;
  c ^= d;
  a ^= c;
  for (int j = 0; j < 8; j++) {
    sum ^= a[j];
  }
  return sum;
}

static inline __attribute__((always_inline)) void triad_body(float *a, const float *b,
                                                             const float *c, float scale, int64_t n)
{
  f32x16 *pa = (void *)a;
  const f32x16 *pb = (const void *)b;
  const f32x16 *pc = (const void *)c;
  const int64_t m = n / 16;

#pragma GCC unroll 4
  for (int64_t i = 0; i < m; i++) {
    pa[i] = pb[i] + scale * pc[i];
  }
}

static uint64_t read_base(const void *data, int64_t bytes, int64_t passes)
{
  return read_body(data, bytes, passes);
}

static void triad_base(float *a, const float *b, const float *c, float scale, int64_t n)
{
  triad_body(a, b, c, scale, n);
}

#if defined(__x86_64__)

FOR_AVX2 static uint64_t read_avx2(const void *data, int64_t bytes, int64_t passes)
{
  return read_body(data, bytes, passes);
}

FOR_AVX2 static void triad_avx2(float *a, const float *b, const float *c, float scale, int64_t n)
{
  triad_body(a, b, c, scale, n);
}

FOR_AVX512 static uint64_t read_avx512(const void *data, int64_t bytes, int64_t passes)
{
  return read_body(data, bytes, passes);
}

FOR_AVX512 static void triad_avx512(float *a, const float *b, const float *c, float scale,
                                    int64_t n)
{
  triad_body(a, b, c, scale, n);
}

#endif

void rg_loop_write_past(void *data, int64_t bytes, unsigned char value)
{
#if defined(__x86_64__)
  const __m128i vector = _mm_set1_epi8((char)value);
  __m128i *p = data;

  for (int64_t i = 0; i < bytes / (int64_t)sizeof(vector); i++) {
    _mm_stream_si128(p + i, vector);
  }
  _mm_sfence();
#else
  memset(data, value, (size_t)bytes);
#endif
}

uint64_t rg_loop_read(int32_t isa, const void *data, int64_t bytes, int64_t passes)
{
#if defined(__x86_64__)
  if (isa >= RG_ISA_AVX512) {
    return read_avx512(data, bytes, passes);
  }
  if (isa >= RG_ISA_AVX2) {
    return read_avx2(data, bytes, passes);
  }
#endif
  (void)isa;
  return read_base(data, bytes, passes);
}

void rg_loop_triad(int32_t isa, float *a, const float *b, const float *c, float scale, int64_t n)
{
#if defined(__x86_64__)
  if (isa >= RG_ISA_AVX512) {
    triad_avx512(a, b, c, scale, n);
    return;
  }
  if (isa >= RG_ISA_AVX2) {
    triad_avx2(a, b, c, scale, n);
    return;
  }
#endif
  (void)isa;
  triad_base(a, b, c, scale, n);
}
