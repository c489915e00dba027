/* SPDX-License-Identifier: MIT */
/*
** The widest vector of floats of the instruction set a file is compiled for, where loops keep their
** sums in registers by hand.
*/
#ifndef RIDGE_CPU_SIMD_VECTOR_H
#define RIDGE_CPU_SIMD_VECTOR_H

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

typedef float vec __attribute__((vector_size(LANES * 4), aligned(4)));

/* Lanes of two vectors; mask: a vector type of integers as wide. */
#ifdef __clang__
#define SHUFFLE(mask, low, high, ...) __builtin_shufflevector(low, high, __VA_ARGS__)
#else
#define SHUFFLE(mask, low, high, ...) __builtin_shuffle(low, high, (mask){ __VA_ARGS__ })
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* x y + z, rounded once where there is an instruction for it. */
ALWAYS_INLINE vec fused(vec x, vec y, vec z)
{
#if defined(__AVX512F__)
  return (vec)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)z);
#elif defined(__FMA__)
  return (vec)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)z);
#else
  return x * y + z;
#endif
}

ALWAYS_INLINE vec splat(float x)
{
  return x - (vec){ 0 };
}

ALWAYS_INLINE float sum_of(vec x)
{
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)x);
#else
  float sum = 0;

  for (int i = 0; i < LANES; i++) {
    sum += x[i];
  }
  return sum;
#endif
}

#endif
