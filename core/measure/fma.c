/* SPDX-License-Identifier: MIT */
/*
** Loops that do nothing but multiply and add in registers: what the ceilings of arithmetic are
** measured with, and the compute half of the sentinel.
**
** Twelve chains, because a multiply-add takes four cycles on the cores of the last ten years and
** two can start in each; twelve fit the sixteen registers of AVX2.  Written with intrinsics because
** the core is compiled without contraction: a product and a sum in C stay two instructions.
*/
#include <string.h>

#include "measure/measure.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* x -> x SCALE + SHIFT converges to 1, so no value overflows or becomes subnormal */
#define SCALE 0.5f
#define SHIFT 0.5f

/* the compiler must believe that a value is used and may have changed */
#define KEEP(value) __asm__ volatile("" : "+m"(value))

typedef float f32x4 __attribute__((vector_size(16)));
typedef double f64x2 __attribute__((vector_size(16)));

/*
** What the chains came to, so that the loops can be tested: added up behind the loop, it takes
** nothing of what is timed.
*/
static double sum_f32(const void *acc, size_t bytes)
{
  const char *from = acc;
  double sum = 0;
  float x;

  for (size_t at = 0; at < bytes; at += sizeof(x)) {
    memcpy(&x, from + at, sizeof(x));
    sum += x;
  }
  return sum;
}

static double sum_f64(const void *acc, size_t bytes)
{
  const char *from = acc;
  double sum = 0;
  double x;

  for (size_t at = 0; at < bytes; at += sizeof(x)) {
    memcpy(&x, from + at, sizeof(x));
    sum += x;
  }
  return sum;
}

/* -- Any machine: a product and a sum --------------------------------------------- */

static double fma_f32_base(int64_t steps)
{
  f32x4 acc[RG_FMA_CHAINS];
  const f32x4 scale = { SCALE, SCALE, SCALE, SCALE };
  const f32x4 shift = { SHIFT, SHIFT, SHIFT, SHIFT };

  for (int j = 0; j < RG_FMA_CHAINS; j++) {
    acc[j] = (f32x4){ 0 } + (float)j;
  }
  for (int64_t i = 0; i < steps; i++) {
#pragma GCC unroll 12
    for (int j = 0; j < RG_FMA_CHAINS; j++) {
      acc[j] = acc[j] * scale + shift;
    }
  }
  KEEP(acc);
  return sum_f32(acc, sizeof(acc));
}

static double fma_f64_base(int64_t steps)
{
  f64x2 acc[RG_FMA_CHAINS];
  const f64x2 scale = { SCALE, SCALE };
  const f64x2 shift = { SHIFT, SHIFT };

  for (int j = 0; j < RG_FMA_CHAINS; j++) {
    acc[j] = (f64x2){ 0 } + (double)j;
  }
  for (int64_t i = 0; i < steps; i++) {
#pragma GCC unroll 12
    for (int j = 0; j < RG_FMA_CHAINS; j++) {
      acc[j] = acc[j] * scale + shift;
    }
  }
  KEEP(acc);
  return sum_f64(acc, sizeof(acc));
}

static double fma_l1_base(const float *x, int64_t n, int64_t passes)
{
  f32x4 acc[8] = { { 0 } };
  const f32x4 scale = { SCALE, SCALE, SCALE, SCALE };

  for (int64_t p = 0; p < passes; p++) {
    for (int64_t i = 0; i < n; i += 32) {
#pragma GCC unroll 8
      for (int j = 0; j < 8; j++) {
        acc[j] = acc[j] * scale + *(const f32x4 *)(const void *)(x + i + 4 * j);
      }
    }
  }
  KEEP(acc);
  return sum_f32(acc, sizeof(acc));
}

#if defined(__x86_64__)

/* -- AVX2 ---------------------------------------------------------------------------- */

__attribute__((target("avx2,fma"))) static double fma_f32_avx2(int64_t steps)
{
  __m256 acc[RG_FMA_CHAINS];
  const __m256 scale = _mm256_set1_ps(SCALE);
  const __m256 shift = _mm256_set1_ps(SHIFT);

  for (int j = 0; j < RG_FMA_CHAINS; j++) {
    acc[j] = _mm256_set1_ps((float)j);
  }
  for (int64_t i = 0; i < steps; i++) {
#pragma GCC unroll 12
    for (int j = 0; j < RG_FMA_CHAINS; j++) {
      acc[j] = _mm256_fmadd_ps(acc[j], scale, shift);
    }
  }
  KEEP(acc);
  return sum_f32(acc, sizeof(acc));
}

__attribute__((target("avx2,fma"))) static double fma_f64_avx2(int64_t steps)
{
  __m256d acc[RG_FMA_CHAINS];
  const __m256d scale = _mm256_set1_pd(SCALE);
  const __m256d shift = _mm256_set1_pd(SHIFT);

  for (int j = 0; j < RG_FMA_CHAINS; j++) {
    acc[j] = _mm256_set1_pd((double)j);
  }
  for (int64_t i = 0; i < steps; i++) {
#pragma GCC unroll 12
    for (int j = 0; j < RG_FMA_CHAINS; j++) {
      acc[j] = _mm256_fmadd_pd(acc[j], scale, shift);
    }
  }
  KEEP(acc);
  return sum_f64(acc, sizeof(acc));
}

__attribute__((target("avx2,fma"))) static double fma_l1_avx2(const float *x, int64_t n,
                                                              int64_t passes)
{
  __m256 acc[8];
  const __m256 scale = _mm256_set1_ps(SCALE);

  for (int j = 0; j < 8; j++) {
    acc[j] = _mm256_setzero_ps();
  }
  for (int64_t p = 0; p < passes; p++) {
    for (int64_t i = 0; i < n; i += 64) {
#pragma GCC unroll 8
      for (int j = 0; j < 8; j++) {
        acc[j] = _mm256_fmadd_ps(acc[j], scale, _mm256_loadu_ps(x + i + 8 * j));
      }
    }
  }
  KEEP(acc);
  return sum_f32(acc, sizeof(acc));
}

/* -- AVX-512 ------------------------------------------------------------------------- */

__attribute__((target("avx512f"))) static double fma_f32_avx512(int64_t steps)
{
  __m512 acc[RG_FMA_CHAINS];
  const __m512 scale = _mm512_set1_ps(SCALE);
  const __m512 shift = _mm512_set1_ps(SHIFT);

  for (int j = 0; j < RG_FMA_CHAINS; j++) {
    acc[j] = _mm512_set1_ps((float)j);
  }
  for (int64_t i = 0; i < steps; i++) {
#pragma GCC unroll 12
    for (int j = 0; j < RG_FMA_CHAINS; j++) {
      acc[j] = _mm512_fmadd_ps(acc[j], scale, shift);
    }
  }
  KEEP(acc);
  return sum_f32(acc, sizeof(acc));
}

__attribute__((target("avx512f"))) static double fma_f64_avx512(int64_t steps)
{
  __m512d acc[RG_FMA_CHAINS];
  const __m512d scale = _mm512_set1_pd(SCALE);
  const __m512d shift = _mm512_set1_pd(SHIFT);

  for (int j = 0; j < RG_FMA_CHAINS; j++) {
    acc[j] = _mm512_set1_pd((double)j);
  }
  for (int64_t i = 0; i < steps; i++) {
#pragma GCC unroll 12
    for (int j = 0; j < RG_FMA_CHAINS; j++) {
      acc[j] = _mm512_fmadd_pd(acc[j], scale, shift);
    }
  }
  KEEP(acc);
  return sum_f64(acc, sizeof(acc));
}

__attribute__((target("avx512f"))) static double fma_l1_avx512(const float *x, int64_t n,
                                                               int64_t passes)
{
  __m512 acc[8];
  const __m512 scale = _mm512_set1_ps(SCALE);

  for (int j = 0; j < 8; j++) {
    acc[j] = _mm512_setzero_ps();
  }
  for (int64_t p = 0; p < passes; p++) {
    for (int64_t i = 0; i < n; i += 128) {
#pragma GCC unroll 8
      for (int j = 0; j < 8; j++) {
        acc[j] = _mm512_fmadd_ps(acc[j], scale, _mm512_loadu_ps(x + i + 16 * j));
      }
    }
  }
  KEEP(acc);
  return sum_f32(acc, sizeof(acc));
}

/* -- bf16 ------------------------------------------------------------------------------ */

__attribute__((target("avx512f,avx512bf16"))) double rg_loop_dot_bf16(int64_t steps)
{
  __m512 acc[RG_FMA_CHAINS];
  const __m512 small = _mm512_set1_ps(0x1p-10f); /* sums stay exact for 2^20 steps */
  const __m512bh a = _mm512_cvtne2ps_pbh(small, small);

  for (int j = 0; j < RG_FMA_CHAINS; j++) {
    acc[j] = _mm512_set1_ps((float)(j + 1));
  }
  for (int64_t i = 0; i < steps; i++) {
#pragma GCC unroll 12
    for (int j = 0; j < RG_FMA_CHAINS; j++) {
      acc[j] = _mm512_dpbf16_ps(acc[j], a, a);
    }
  }
  KEEP(acc);
  return sum_f32(acc, sizeof(acc));
}

/* The layout that LDTILECFG reads (Intel SDM, volume 1, 18.3). */
typedef struct tile_config {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tile_config;

__attribute__((target("amx-tile,amx-bf16"))) void rg_loop_amx_bf16(int64_t steps)
{
  tile_config config = { .palette = 1 };
  uint16_t zeros[16 * 32] = { 0 };

  for (int i = 0; i < 8; i++) {
    config.row_bytes[i] = 64;
    config.rows[i] = 16;
  }
  /* gcc 12's intrinsics do not say that they read these, and their stores would be dropped */
  __asm__ volatile("" : : "r"(&config), "r"(zeros) : "memory");
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, zeros, 64);
  _tile_loadd(5, zeros, 64);
  _tile_loadd(6, zeros, 64);
  _tile_loadd(7, zeros, 64);
  for (int64_t i = 0; i < steps; i++) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

bool rg_loop_amx_permit(void)
{
  /* Linux Documentation/arch/x86/xstate.rst: ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
  enum { REQUEST = 0x1023, TILE_DATA = 18 };

  return rg_machine_facts()->has_amx_bf16 && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

#else

double rg_loop_dot_bf16(int64_t steps)
{
  (void)steps;
  return 0;
}

void rg_loop_amx_bf16(int64_t steps)
{
  (void)steps;
}

bool rg_loop_amx_permit(void)
{
  return false;
}

#endif

/* -- Choice ------------------------------------------------------------------------------ */

int32_t rg_loop_vector_bytes(int32_t isa)
{
  return isa >= RG_ISA_AVX512 ? 64 : isa >= RG_ISA_AVX2 ? 32 : 16;
}

double rg_loop_fma_f32(int32_t isa, int64_t steps)
{
#if defined(__x86_64__)
  if (isa >= RG_ISA_AVX512) {
    return fma_f32_avx512(steps);
  }
  if (isa >= RG_ISA_AVX2) {
    return fma_f32_avx2(steps);
  }
#endif
  (void)isa;
  return fma_f32_base(steps);
}

double rg_loop_fma_f64(int32_t isa, int64_t steps)
{
#if defined(__x86_64__)
  if (isa >= RG_ISA_AVX512) {
    return fma_f64_avx512(steps);
  }
  if (isa >= RG_ISA_AVX2) {
    return fma_f64_avx2(steps);
  }
#endif
  (void)isa;
  return fma_f64_base(steps);
}

double rg_loop_fma_l1(int32_t isa, const float *x, int64_t n, int64_t passes)
{
#if defined(__x86_64__)
  if (isa >= RG_ISA_AVX512) {
    return fma_l1_avx512(x, n, passes);
  }
  if (isa >= RG_ISA_AVX2) {
    return fma_l1_avx2(x, n, passes);
  }
#endif
  (void)isa;
  return fma_l1_base(x, n, passes);
}

uint64_t rg_loop_chain(int64_t n)
{
  uint64_t sum = (uint64_t)n;
  uint64_t step = 3;

  for (int64_t i = 0; i < n; i += 8) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
      /* both are hidden: the compiler would add eight at once, and recent cores add a constant
      ** while they rename registers, in no time at all (Golden Cove: six a cycle) */
      __asm__ volatile("" : "+r"(step), "+r"(sum));
      sum += step;
    }
  }
  return sum;
}
