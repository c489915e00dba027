/* SPDX-License-Identifier: MIT */
/*
** The three loops of a Winograd convolution of bytes, F(2 x 2, 3 x 3), in whole numbers, for one
** instruction set (cpu/scaled_winograd.h).
*/
#include <string.h>

#include "cpu/scaled_winograd.h"
#include "cpu/simd/simd.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* -- Tiles of the image ------------------------------------------------------------------------ */

enum { CHUNK = RG_WINOGRAD_CHUNK }; /* channels at a time */

typedef int16_t halves __attribute__((vector_size(CHUNK * 2), aligned(2)));
typedef uint8_t bytes_u8 __attribute__((vector_size(CHUNK), aligned(1)));
typedef int8_t bytes_i8 __attribute__((vector_size(CHUNK), aligned(1)));

/* Along one axis: 4 numbers of the image become 4 factors. */
#define SPREAD(d0, d1, d2, d3, to, step) \
  (to)[0] = (d0) - (d2);                 \
  (to)[step] = (d1) + (d2);              \
  (to)[2 * (step)] = (d2) - (d1);        \
  (to)[3 * (step)] = (d1) - (d3);

/* CHUNK channels from byte l on of 16 pixels. */
ALWAYS_INLINE void chunk_of(const uint8_t *const *x, int64_t l, const int16_t zero, int16_t *v,
                            int64_t step, const bool is_signed)
{
  halves some[16], out[16];

  for (int j = 0; j < 4; j++) {
    halves d[4];

    for (int i = 0; i < 4; i++) {
      const uint8_t *from = x[4 * i + j] + l;

      if (is_signed) {
        d[i] = __builtin_convertvector(*(const bytes_i8 *)(const void *)from, halves) - zero;
      } else {
        d[i] = __builtin_convertvector(*(const bytes_u8 *)(const void *)from, halves) - zero;
      }
    }
    SPREAD(d[0], d[1], d[2], d[3], some + j, 4)
  }
  for (int i = 0; i < 4; i++) {
    const halves *d = some + (ptrdiff_t)4 * i;

    SPREAD(d[0], d[1], d[2], d[3], out + (ptrdiff_t)4 * i, 1)
  }
  for (int i = 0; i < 16; i++) {
    *(halves *)(void *)(v + i * step) = out[i];
  }
}

ALWAYS_INLINE void image(const uint8_t *const *x, int64_t c, int32_t zero, int16_t *v, int64_t step,
                         const bool is_signed)
{
  int64_t l = 0;

  for (; l + CHUNK <= c; l += CHUNK) {
    chunk_of(x, l, (int16_t)zero, v + l, step, is_signed);
  }
  if (l < c) { /* what is behind the last channel may not be read, and counts as 0 */
    uint8_t rest[16][CHUNK];
    const uint8_t *at[16];

    for (int i = 0; i < 16; i++) {
      memset(rest[i], (uint8_t)zero, CHUNK);
      memcpy(rest[i], x[i] + l, (size_t)(c - l));
      at[i] = rest[i];
    }
    chunk_of(at, 0, (int16_t)zero, v + l, step, is_signed);
  }
}

static void image_u8(const uint8_t *const *x, int64_t c, int32_t zero, int16_t *v, int64_t step)
{
  image(x, c, zero, v, step, false);
}

static void image_i8(const uint8_t *const *x, int64_t c, int32_t zero, int16_t *v, int64_t step)
{
  image(x, c, zero, v, step, true);
}

/* -- The products ------------------------------------------------------------------------------ */

#if defined(__x86_64__)

#if defined(__AVX512BW__)
typedef __m512i whole;
#define LOAD(p)     _mm512_loadu_si512(p)
#define STORE(p, x) _mm512_storeu_si512(p, x)
#define ZERO()      _mm512_setzero_si512()
#define EACH(x)     _mm512_set1_epi32(x)
#define MADD(x, y)  _mm512_madd_epi16(x, y)
#define ADD(x, y)   _mm512_add_epi32(x, y)
enum { ROWS = 8 };
#elif defined(__AVX2__)
typedef __m256i whole;
#define LOAD(p)     _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STORE(p, x) _mm256_storeu_si256((__m256i *)(void *)(p), x)
#define ZERO()      _mm256_setzero_si256()
#define EACH(x)     _mm256_set1_epi32(x)
#define MADD(x, y)  _mm256_madd_epi16(x, y)
#define ADD(x, y)   _mm256_add_epi32(x, y)
enum { ROWS = 6 };
#else
typedef __m128i whole;
#define LOAD(p)     _mm_loadu_si128((const __m128i *)(const void *)(p))
#define STORE(p, x) _mm_storeu_si128((__m128i *)(void *)(p), x)
#define ZERO()      _mm_setzero_si128()
#define EACH(x)     _mm_set1_epi32(x)
#define MADD(x, y)  _mm_madd_epi16(x, y)
#define ADD(x, y)   _mm_add_epi32(x, y)
enum { ROWS = 4 };
#endif

enum { ACROSS = 2 * (int)sizeof(whole) / 4 }; /* columns of two vectors */

/* With AVX2 twelve of sixteen registers hold sums: loads stay in order, so that the others do. */
#if defined(__AVX2__) && !defined(__AVX512BW__)
#define HELD(s) __asm__ volatile("" : "+x"((s)[0]), "+x"((s)[1]) : : "memory");
#else
#define HELD(s)
#endif

ALWAYS_INLINE void some_rows(const int rows, int64_t pairs, const int16_t *v, int64_t ld,
                             const int32_t *u, int32_t *m)
{
  for (int j = 0; j < RG_PANEL; j += ACROSS) {
    whole s[ROWS][2];

#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      s[r][0] = s[r][1] = ZERO();
    }
    for (int64_t l = 0; l < pairs; l++) {
      const whole b0 = LOAD(u + l * RG_PANEL + j), b1 = LOAD(u + l * RG_PANEL + j + ACROSS / 2);

#pragma GCC unroll 8
      for (int r = 0; r < rows; r++) {
        int32_t pair;
        whole x;

        memcpy(&pair, v + r * ld + 2 * l, sizeof(pair));
        x = EACH(pair);
        s[r][0] = ADD(s[r][0], MADD(x, b0));
        s[r][1] = ADD(s[r][1], MADD(x, b1));
        HELD(s[r])
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      STORE(m + r * RG_PANEL + j, s[r][0]);
      STORE(m + r * RG_PANEL + j + ACROSS / 2, s[r][1]);
    }
  }
}

#else

enum { ROWS = 1 };

ALWAYS_INLINE void some_rows(const int rows, int64_t pairs, const int16_t *v, int64_t ld,
                             const int32_t *u, int32_t *m)
{
  (void)rows, (void)ld;
  memset(m, 0, RG_PANEL * sizeof(*m));
  for (int64_t l = 0; l < pairs; l++) {
    for (int j = 0; j < RG_PANEL; j++) {
      uint32_t pair = (uint32_t)u[l * RG_PANEL + j];

      m[j] += v[2 * l] * (int16_t)pair + v[2 * l + 1] * (int16_t)(pair >> 16);
    }
  }
}

#endif

static void product(int64_t n, int64_t pairs, const int16_t *v, int64_t ld, const int32_t *u,
                    int32_t *m)
{
  for (; n >= ROWS; n -= ROWS, v += ROWS * ld, m += ROWS * RG_PANEL) {
    some_rows(ROWS, pairs, v, ld, u, m);
  }
  if (ROWS > 2 && n >= ROWS / 2) {
    some_rows(ROWS / 2, pairs, v, ld, u, m);
    n -= ROWS / 2;
    v += ROWS / 2 * ld;
    m += ROWS / 2 * RG_PANEL;
  }
  for (; n > 0; n--, v += ld, m += RG_PANEL) {
    some_rows(1, pairs, v, ld, u, m);
  }
}

/* -- Results ----------------------------------------------------------------------------------- */

/* Sums are four times the results, in 32 bits that wrap on the way. */
static void results(int64_t n, const int32_t *m, int64_t step, int32_t *y0, int32_t *y1)
{
  for (int64_t t = 0; t < n; t++, m += RG_PANEL, y0 += 2 * RG_PANEL, y1 += 2 * RG_PANEL) {
    RG_INDEPENDENT
    for (int j = 0; j < RG_PANEL; j++) {
      uint32_t low[4], high[4];

      for (int i = 0; i < 4; i++) {
        uint32_t a = (uint32_t)m[i * step + j], b = (uint32_t)m[(4 + i) * step + j];
        uint32_t c = (uint32_t)m[(8 + i) * step + j], d = (uint32_t)m[(12 + i) * step + j];

        low[i] = a + b + c;
        high[i] = b - c - d;
      }
      y0[j] = (int32_t)(low[0] + low[1] + low[2]) >> 2;
      y0[RG_PANEL + j] = (int32_t)(low[1] - low[2] - low[3]) >> 2;
      y1[j] = (int32_t)(high[0] + high[1] + high[2]) >> 2;
      y1[RG_PANEL + j] = (int32_t)(high[1] - high[2] - high[3]) >> 2;
    }
  }
}

extern const rg_winograd_i8 RG_SIMD_NAME(rg_winograd_i8);
const rg_winograd_i8 RG_SIMD_NAME(rg_winograd_i8) = { .image = { image_u8, image_i8 },
                                                      .product = product,
                                                      .results = results };
