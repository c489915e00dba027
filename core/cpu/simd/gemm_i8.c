/* SPDX-License-Identifier: MIT */
/*
** The inner loops of ridge's own product of bytes where there is no vpdpbusd, and what follows it,
** for one instruction set.
**
** Packed b holds four neighbouring steps of a column side by side (gemm_i8.c).  Its bytes are
** widened in registers into the pairs (0, 2) and (1, 3), in which a is laid out already; pmaddwd
** multiplies pairs of 16 bits and adds both products, which fit: at most 2 x 255 x 128.
*/
#include <math.h>
#include <string.h>

#include "cpu/gemm_i8.h"
#include "cpu/simd/simd.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* -- Tiles ----------------------------------------------------------------------------------- */

#if defined(__x86_64__)

#if defined(__AVX512BW__)
typedef __m512i whole;
#define LOAD(p)     _mm512_loadu_si512(p)
#define STORE(p, x) _mm512_storeu_si512(p, x)
#define ZERO()      _mm512_setzero_si512()
#define SPREAD(x)   _mm512_set1_epi32(x)
#define MADD(x, y)  _mm512_madd_epi16(x, y)
#define ADD(x, y)   _mm512_add_epi32(x, y)
#define SUB16(x, y) _mm512_sub_epi16(x, y)
#define LEFT(x)     _mm512_slli_epi16(x, 8)
#define RIGHT(x)    _mm512_srai_epi16(x, 8)
enum { ROWS = 10 };
#elif defined(__AVX2__)
typedef __m256i whole;
#define LOAD(p)     _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STORE(p, x) _mm256_storeu_si256((__m256i *)(void *)(p), x)
#define ZERO()      _mm256_setzero_si256()
#define SPREAD(x)   _mm256_set1_epi32(x)
#define MADD(x, y)  _mm256_madd_epi16(x, y)
#define ADD(x, y)   _mm256_add_epi32(x, y)
#define SUB16(x, y) _mm256_sub_epi16(x, y)
#define LEFT(x)     _mm256_slli_epi16(x, 8)
#define RIGHT(x)    _mm256_srai_epi16(x, 8)
enum { ROWS = 4 };
#else
typedef __m128i whole;
#define LOAD(p)     _mm_loadu_si128((const __m128i *)(const void *)(p))
#define STORE(p, x) _mm_storeu_si128((__m128i *)(void *)(p), x)
#define ZERO()      _mm_setzero_si128()
#define SPREAD(x)   _mm_set1_epi32(x)
#define MADD(x, y)  _mm_madd_epi16(x, y)
#define ADD(x, y)   _mm_add_epi32(x, y)
#define SUB16(x, y) _mm_sub_epi16(x, y)
#define LEFT(x)     _mm_slli_epi16(x, 8)
#define RIGHT(x)    _mm_srai_epi16(x, 8)
enum { ROWS = 4 };
#endif

enum {
  WIDTH = 2, /* a is widened: a row's four bytes are two pairs */
  WIDE = (int)sizeof(whole),
  ACROSS = 2 * WIDE / RG_I8_STEP, /* columns of two vectors */
  STEP_BYTES = RG_PANEL * RG_I8_STEP
};

/* As far as two vectors of a panel's columns reach. */
ALWAYS_INLINE void some_columns(const int rows, const rg_i8_run *run, const uint8_t *first,
                                const int8_t *b, int32_t *c)
{
  int64_t lda = run->lda;
  whole s[ROWS][2];

#pragma GCC unroll 10
  for (int r = 0; r < rows; r++) {
    s[r][0] = s[r][1] = ZERO();
  }
  for (int64_t part = 0; part < run->parts; part++) {
    const uint8_t *a = first + part * run->part;

    for (int64_t l = 0; l < run->steps; l++, a += 2 * RG_I8_STEP, b += STEP_BYTES) {
      whole b0 = LOAD(b);
      whole b1 = LOAD(b + WIDE);
      whole even0 = RIGHT(LEFT(b0));
      whole even1 = RIGHT(LEFT(b1));

      b0 = RIGHT(b0);
      b1 = RIGHT(b1);
#pragma GCC unroll 10
      for (int r = 0; r < rows; r++) {
        int32_t pair[2];
        whole x;

        memcpy(pair, a + r * lda, sizeof(pair));
        x = SPREAD(pair[0]);
        s[r][0] = ADD(s[r][0], MADD(x, even0));
        s[r][1] = ADD(s[r][1], MADD(x, even1));
        x = SPREAD(pair[1]);
        s[r][0] = ADD(s[r][0], MADD(x, b0));
        s[r][1] = ADD(s[r][1], MADD(x, b1));
      }
    }
  }
#pragma GCC unroll 10
  for (int r = 0; r < rows; r++) {
    STORE(c + r * RG_PANEL, s[r][0]);
    STORE(c + r * RG_PANEL + ACROSS / 2, s[r][1]);
  }
}

ALWAYS_INLINE void tile(const int rows, const rg_i8_run *run, const uint8_t *a, const int8_t *b,
                        int32_t *c)
{
  for (int j = 0; j < RG_PANEL; j += ACROSS) {
    some_columns(rows, run, a, b + j * RG_I8_STEP, c + j);
  }
}

#else

enum { ROWS = 4, WIDTH = 1, STEP_BYTES = RG_PANEL * RG_I8_STEP };

ALWAYS_INLINE void tile(const int rows, const rg_i8_run *run, const uint8_t *a, const int8_t *b,
                        int32_t *c)
{
  for (int r = 0; r < rows; r++, a += run->lda, c += RG_PANEL) {
    uint32_t sum[RG_PANEL] = { 0 };

    for (int64_t l = 0; l < run->parts * run->steps; l++) {
      const uint8_t *x = a + l / run->steps * run->part + l % run->steps * RG_I8_STEP;
      const int8_t *from = b + l * STEP_BYTES;

      for (int j = 0; j < RG_PANEL; j++) {
        for (int q = 0; q < RG_I8_STEP; q++) {
          sum[j] += (uint32_t)(x[q] * from[j * RG_I8_STEP + q]);
        }
      }
    }
    memcpy(c, sum, sizeof(sum));
  }
}

#endif

#define TILE_OF(rows)                                                                          \
  static void tile_##rows(const rg_i8_run *run, const uint8_t *a, const int8_t *b, int32_t *c, \
                          const char *next)                                                    \
  {                                                                                            \
    (void)next;                                                                                \
    tile(rows, run, a, b, c);                                                                  \
  }
TILE_OF(1)
TILE_OF(2)
TILE_OF(3)
TILE_OF(4)
#if defined(__AVX512BW__)
TILE_OF(5)
TILE_OF(6)
TILE_OF(7)
TILE_OF(8)
TILE_OF(9)
TILE_OF(10)
#endif

/* A row of a: four bytes become the pairs (0, 2) and (1, 3) of 16 bits. */
static void pack_row(uint8_t *to, const uint8_t *from, int64_t k, uint8_t flip)
{
#if defined(__x86_64__)
  uint32_t every = flip * 0x01010101u;
  int64_t steps = k / RG_I8_STEP;
  int64_t rest = k % RG_I8_STEP;
  uint32_t *pairs = (uint32_t *)(void *)to;

  for (int64_t l = 0; l < steps; l++) {
    uint32_t word;

    memcpy(&word, from + l * RG_I8_STEP, sizeof(word));
    word ^= every;
    pairs[2 * l] = word & 0x00ff00ffu;
    pairs[2 * l + 1] = word >> 8 & 0x00ff00ffu;
  }
  if (rest > 0) {
    uint32_t word = 0;

    memcpy(&word, from + steps * RG_I8_STEP, (size_t)rest);
    word = (word ^ every) & ((1u << 8 * rest) - 1);
    pairs[2 * steps] = word & 0x00ff00ffu;
    pairs[2 * steps + 1] = word >> 8 & 0x00ff00ffu;
  }
#else
  for (int64_t l = 0; l < k; l++) {
    to[l] = from[l] ^ flip;
  }
  memset(to + k, 0, (size_t)(-k & (RG_I8_STEP - 1)));
#endif
}

/* -- What follows ------------------------------------------------------------------------------ */

static void scale(float *y, int64_t ldy, const int32_t *sum, int64_t rows, const int32_t *fix,
                  const float *x_scale, int64_t step, const float *w_scale, const float *bias)
{
  for (int64_t r = 0; r < rows; r++, y += ldy, sum += RG_PANEL) {
    float of_row = x_scale[r * step];

    RG_INDEPENDENT
    for (int j = 0; j < RG_PANEL; j++) {
      y[j] = (float)(int32_t)((uint32_t)sum[j] + (uint32_t)fix[j]) * of_row * w_scale[j];
    }
    if (bias != NULL) {
      RG_INDEPENDENT
      for (int j = 0; j < RG_PANEL; j++) {
        y[j] += bias[j];
      }
    }
  }
}

/* What is not a number compares false, and comes out as zero. */
#define TO_BYTES(name, T, least, most)                                      \
  static void name(T *y, const float *x, int64_t n, float of_y, float zero) \
  {                                                                         \
    float one_over = 1.0f / of_y;                                           \
                                                                            \
    RG_INDEPENDENT                                                          \
    for (int64_t i = 0; i < n; i++) {                                       \
      float v = x[i] * one_over;                                            \
                                                                            \
      v = v == v ? rintf(v) : 0.0f;                                         \
      v += zero;                                                            \
      v = v > (least) ? v : (least);                                        \
      v = v < (most) ? v : (most);                                          \
      y[i] = (T)(int32_t)v;                                                 \
    }                                                                       \
  }
TO_BYTES(to_i8, int8_t, -128.0f, 127.0f)
TO_BYTES(to_u8, uint8_t, 0.0f, 255.0f)

static int32_t total(const int8_t *x, int64_t n)
{
  int32_t sum = 0;

  for (int64_t i = 0; i < n; i++) {
    sum += x[i];
  }
  return sum;
}

/* -- Channels by themselves -------------------------------------------------------------------- */

#if defined(__x86_64__)

/* As many bytes as there are lanes of 32 bits; where they are signed their upper halves are not
** meant. */
ALWAYS_INLINE whole bytes_at(const uint8_t *x, const bool is_signed)
{
#if defined(__AVX512BW__)
  __m128i some = _mm_loadu_si128((const __m128i *)(const void *)x);

  return is_signed ? _mm512_cvtepi8_epi32(some) : _mm512_cvtepu8_epi32(some);
#elif defined(__AVX2__)
  __m128i some = _mm_loadl_epi64((const __m128i *)(const void *)x);

  return is_signed ? _mm256_cvtepi8_epi32(some) : _mm256_cvtepu8_epi32(some);
#else
  int32_t four;

  memcpy(&four, x, sizeof(four));
  __m128i some = _mm_unpacklo_epi8(_mm_cvtsi32_si128(four), ZERO());

  if (is_signed) {
    some = RIGHT(LEFT(some));
  }
  return _mm_unpacklo_epi16(some, ZERO());
#endif
}

/* Weights are in the lower halves of their lanes, with nothing above: pmaddwd multiplies those of
** 16 bits, which differences of bytes fit into, and adds nothing. */
ALWAYS_INLINE void panel_of(int32_t *sum, int64_t n, const uint8_t *const *x,
                            const int32_t *const *w, int64_t j, int32_t zero, const bool is_signed)
{
  enum { LANES = WIDE / 4, VECTORS = RG_PANEL / LANES };
  const whole less = SPREAD(zero);
  whole s[VECTORS];

  for (int v = 0; v < VECTORS; v++) {
    s[v] = ZERO();
  }
  for (int64_t t = 0; t < n; t++) {
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) {
      whole a = SUB16(bytes_at(x[t] + j + (ptrdiff_t)v * LANES, is_signed), less);

      s[v] = ADD(s[v], MADD(a, LOAD(w[t] + j + (ptrdiff_t)v * LANES)));
    }
  }
  for (int v = 0; v < VECTORS; v++) {
    STORE(sum + (ptrdiff_t)v * LANES, s[v]);
  }
}

#endif

ALWAYS_INLINE void depth(int32_t *sum, int64_t n, const uint8_t *const *x, const int32_t *const *w,
                         int64_t j, int64_t columns, int32_t zero, const bool is_signed)
{
#if defined(__x86_64__)
  if (columns == RG_PANEL) {
    panel_of(sum, n, x, w, j, zero, is_signed);
    return;
  }
#endif
  for (int64_t c = 0; c < RG_PANEL; c++) {
    sum[c] = 0;
  }
  for (int64_t t = 0; t < n; t++) {
    for (int64_t c = 0; c < columns; c++) {
      int32_t byte = is_signed ? (int8_t)x[t][j + c] : x[t][j + c];

      sum[c] += (byte - zero) * (int16_t)w[t][j + c];
    }
  }
}

static void depth_u8(int32_t *sum, int64_t n, const uint8_t *const *x, const int32_t *const *w,
                     int64_t j, int64_t columns, int32_t zero)
{
  depth(sum, n, x, w, j, columns, zero, false);
}

static void depth_i8(int32_t *sum, int64_t n, const uint8_t *const *x, const int32_t *const *w,
                     int64_t j, int64_t columns, int32_t zero)
{
  depth(sum, n, x, w, j, columns, zero, true);
}

/* -- Tables ------------------------------------------------------------------------------------ */

extern const rg_i8_kernels RG_SIMD_NAME(rg_i8_kernels);
extern const rg_i8_end RG_SIMD_NAME(rg_i8_end);

const rg_i8_kernels RG_SIMD_NAME(rg_i8_kernels) = {
  .path = "own:pairs",
  .tile = { NULL, tile_1, tile_2, tile_3, tile_4,
#if defined(__AVX512BW__)
            tile_5, tile_6, tile_7, tile_8, tile_9, tile_10
#endif
  },
  .rows_most = ROWS,
  .width = WIDTH,
  .row = pack_row,
};

const rg_i8_end RG_SIMD_NAME(rg_i8_end) = {
  .scale = scale, .to_i8 = to_i8, .to_u8 = to_u8, .total = total, .depth = { depth_u8, depth_i8 }
};
