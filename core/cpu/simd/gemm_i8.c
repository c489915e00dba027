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
#if defined(__AVX512BW__)
#include "cpu/i8_row.h"
#endif
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* -- Tiles ----------------------------------------------------------------------------------- */

#if defined(__x86_64__)

#if defined(__AVX512BW__)
typedef __m512i whole;
#define LOAD(p)      _mm512_loadu_si512(p)
#define STORE(p, x)  _mm512_storeu_si512(p, x)
#define ZERO()       _mm512_setzero_si512()
#define SPREAD(x)    _mm512_set1_epi32(x)
#define MADD(x, y)   _mm512_madd_epi16(x, y)
#define ADD(x, y)    _mm512_add_epi32(x, y)
#define SUB16(x, y)  _mm512_sub_epi16(x, y)
#define LEFT(x)      _mm512_slli_epi16(x, 8)
#define RIGHT(x)     _mm512_srai_epi16(x, 8)
#define LOW16(x, y)  _mm512_unpacklo_epi16(x, y) /* of each 128 bits */
#define HIGH16(x, y) _mm512_unpackhi_epi16(x, y)
enum { ROWS = 10 };
#elif defined(__AVX2__)
typedef __m256i whole;
#define LOAD(p)      _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STORE(p, x)  _mm256_storeu_si256((__m256i *)(void *)(p), x)
#define ZERO()       _mm256_setzero_si256()
#define SPREAD(x)    _mm256_set1_epi32(x)
#define MADD(x, y)   _mm256_madd_epi16(x, y)
#define ADD(x, y)    _mm256_add_epi32(x, y)
#define SUB16(x, y)  _mm256_sub_epi16(x, y)
#define LEFT(x)      _mm256_slli_epi16(x, 8)
#define RIGHT(x)     _mm256_srai_epi16(x, 8)
#define LOW16(x, y)  _mm256_unpacklo_epi16(x, y) /* of each 128 bits */
#define HIGH16(x, y) _mm256_unpackhi_epi16(x, y)
enum { ROWS = 6 };
#else
typedef __m128i whole;
#define LOAD(p)      _mm_loadu_si128((const __m128i *)(const void *)(p))
#define STORE(p, x)  _mm_storeu_si128((__m128i *)(void *)(p), x)
#define ZERO()       _mm_setzero_si128()
#define SPREAD(x)    _mm_set1_epi32(x)
#define MADD(x, y)   _mm_madd_epi16(x, y)
#define ADD(x, y)    _mm_add_epi32(x, y)
#define SUB16(x, y)  _mm_sub_epi16(x, y)
#define LEFT(x)      _mm_slli_epi16(x, 8)
#define RIGHT(x)     _mm_srai_epi16(x, 8)
#define LOW16(x, y)  _mm_unpacklo_epi16(x, y) /* of each 128 bits */
#define HIGH16(x, y) _mm_unpackhi_epi16(x, y)
enum { ROWS = 4 };
#endif

enum {
  WIDTH = 2, /* a is widened: a row's four bytes are two pairs */
  WIDE = (int)sizeof(whole),
  ACROSS = 2 * WIDE / RG_I8_STEP, /* columns of two vectors */
  STEP_BYTES = RG_PANEL * RG_I8_STEP
};

/* With AVX2 six rows take 12 of 16 registers for sums, and what is widened of b, a pair of a and a
** product the others.  Compilers that draw loads forward run out of them, and sums pass through the
** stack: this holds sums in registers and loads in order. */
#if defined(__AVX2__) && !defined(__AVX512BW__)
#define TIGHT(rows) ((rows) > 4)
#define HELD(s)                                                     \
  if (TIGHT(rows)) {                                                \
    __asm__ volatile("" : "+x"((s)[0]), "+x"((s)[1]) : : "memory"); \
  }
#else
#define TIGHT(rows) false
#define HELD(s)
#endif

/* A pair of one row times those of two vectors of columns. */
#define PAIR(r, at)                      \
  if (r < rows) {                        \
    int32_t pair;                        \
    whole x;                             \
                                         \
    memcpy(&pair, at, sizeof(pair));     \
    x = SPREAD(pair);                    \
    s[r][0] = ADD(s[r][0], MADD(x, b0)); \
    s[r][1] = ADD(s[r][1], MADD(x, b1)); \
    HELD(s[r])                           \
  }

/* The rows at p0 .. p2 and two multiples of their distance reach all ten. */
ALWAYS_INLINE void pairs(const int rows, whole s[][2], whole b0, whole b1, const uint8_t *p0,
                         const uint8_t *p1, const uint8_t *p2, int64_t ld, int64_t ld3)
{
  PAIR(0, p0)
  PAIR(1, p0 + ld)
  PAIR(2, p0 + 2 * ld)
  PAIR(3, p0 + ld3)
  PAIR(4, p1)
  PAIR(5, p1 + ld)
  PAIR(6, p1 + 2 * ld)
  PAIR(7, p1 + ld3)
  PAIR(8, p2)
  PAIR(9, p2 + ld)
}

#undef PAIR

/* As far as two vectors of a panel's columns reach. */
ALWAYS_INLINE void some_columns(const int rows, const rg_i8_run *run, const uint8_t *first,
                                const int8_t *b, int32_t *c, const char *next)
{
  enum { AHEAD = 16 * STEP_BYTES }; /* a panel streams from L2 past each tile */
  int64_t ld = run->lda;
  int64_t ld3 = ld * 3;
  whole s[ROWS][2];

#pragma GCC unroll 10
  for (int r = 0; r < rows; r++) {
    s[r][0] = s[r][1] = ZERO();
  }
  for (int64_t part = 0; part < run->parts; part++) {
    const uint8_t *p0 = first + part * run->part;
    const uint8_t *p1 = p0 + (rows > 4 ? 4 * ld : 0);
    const uint8_t *p2 = p1 + (rows > 8 ? 4 * ld : 0);

    for (int64_t l = 0; l < run->steps; l++) {
      if (TIGHT(rows)) {
        _mm_prefetch((const char *)b + AHEAD, _MM_HINT_T0);
      }
      if (TIGHT(rows) && l % 4 == 0) {
        _mm_prefetch(next, _MM_HINT_T1);
        next += 64;
      }
      /* b is widened twice, so that no more registers are taken */
      pairs(rows, s, RIGHT(LEFT(LOAD(b))), RIGHT(LEFT(LOAD(b + WIDE))), p0, p1, p2, ld, ld3);
      pairs(rows, s, RIGHT(LOAD(b)), RIGHT(LOAD(b + WIDE)), p0 + RG_I8_STEP, p1 + RG_I8_STEP,
            p2 + RG_I8_STEP, ld, ld3);
      b += STEP_BYTES;
      p0 += WIDTH * RG_I8_STEP;
      p1 += WIDTH * RG_I8_STEP;
      p2 += WIDTH * RG_I8_STEP;
    }
  }
#pragma GCC unroll 10
  for (int r = 0; r < rows; r++) {
    STORE(c + r * RG_PANEL, s[r][0]);
    STORE(c + r * RG_PANEL + ACROSS / 2, s[r][1]);
  }
}

ALWAYS_INLINE void tile(const int rows, const rg_i8_run *run, const uint8_t *a, const int8_t *b,
                        int32_t *c, const char *next)
{
  for (int j = 0; j < RG_PANEL; j += ACROSS) {
    some_columns(rows, run, a, b + j * RG_I8_STEP, c + j, next);
    next += run->parts * ((run->steps + 3) / 4) * 64;
  }
}

#else

enum { ROWS = 4, WIDTH = 1, STEP_BYTES = RG_PANEL * RG_I8_STEP };

ALWAYS_INLINE void tile(const int rows, const rg_i8_run *run, const uint8_t *a, const int8_t *b,
                        int32_t *c, const char *next)
{
  (void)next;
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
    tile(rows, run, a, b, c, next);                                                            \
  }
TILE_OF(1)
TILE_OF(2)
TILE_OF(3)
TILE_OF(4)
#if defined(__AVX2__)
TILE_OF(5)
TILE_OF(6)
#endif
#if defined(__AVX512BW__)
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

ALWAYS_INLINE void scale_rows(float *y, int64_t ldy, const int32_t *sum, int64_t rows,
                              const int32_t *fix, const float *x_scale, int64_t step,
                              const float *w_scale, const float *bias)
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

static void scale(float *y, int64_t ldy, const int32_t *sum, int64_t rows, const int32_t *fix,
                  const float *x_scale, int64_t step, const float *w_scale, const float *bias)
{
  scale_rows(y, ldy, sum, rows, fix, x_scale, step, w_scale, bias);
}

#if defined(__x86_64__)

#if defined(__AVX512BW__)

/* A panel of numbers as bytes, saturated. */
ALWAYS_INLINE void panel_to_bytes(uint8_t *y, const float *x, float one_over, int32_t zero,
                                  const bool is_signed)
{
  __m256i bytes =
      rg_row_bytes(_mm512_loadu_ps(x), _mm512_loadu_ps(x + 16), _mm512_set1_ps(one_over),
                   _mm512_set1_epi16((int16_t)zero), is_signed);

  _mm256_storeu_si256((__m256i *)(void *)y, bytes);
}

#else

/* round(x one_over) + zero of one vector as whole numbers, beyond any byte where that is; what is
** not a number comes out as zero. */
ALWAYS_INLINE whole rounded(const float *x, float one_over, int32_t zero)
{
  const float far = 1024.0f;

#if defined(__AVX2__)
  __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x), _mm256_set1_ps(one_over));

  v = _mm256_and_ps(_mm256_min_ps(v, _mm256_set1_ps(far)), _mm256_cmp_ps(v, v, _CMP_ORD_Q));
  return ADD(_mm256_cvtps_epi32(_mm256_max_ps(v, _mm256_set1_ps(-far))), SPREAD(zero));
#else
  __m128 v = _mm_mul_ps(_mm_loadu_ps(x), _mm_set1_ps(one_over));

  v = _mm_and_ps(_mm_min_ps(v, _mm_set1_ps(far)), _mm_cmpord_ps(v, v));
  return ADD(_mm_cvtps_epi32(_mm_max_ps(v, _mm_set1_ps(-far))), SPREAD(zero));
#endif
}

/* A panel of them as bytes, saturated. */
ALWAYS_INLINE void panel_to_bytes(uint8_t *y, const float *x, float one_over, int32_t zero,
                                  const bool is_signed)
{
  enum { LANES = WIDE / 4, VECTORS = RG_PANEL / LANES };
  whole v[VECTORS];

  for (int i = 0; i < VECTORS; i++) {
    v[i] = rounded(x + (ptrdiff_t)i * LANES, one_over, zero);
  }
#if defined(__AVX2__)
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  __m256i low = _mm256_packs_epi32(v[0], v[1]), high = _mm256_packs_epi32(v[2], v[3]);
  __m256i bytes = is_signed ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high);

  STORE(y, _mm256_permutevar8x32_epi32(bytes, order));
#else
  for (int i = 0; i < VECTORS; i += 4) {
    __m128i low = _mm_packs_epi32(v[i], v[i + 1]), high = _mm_packs_epi32(v[i + 2], v[i + 3]);

    STORE(y + (ptrdiff_t)i * LANES,
          is_signed ? _mm_packs_epi16(low, high) : _mm_packus_epi16(low, high));
  }
#endif
}

#endif

ALWAYS_INLINE int64_t whole_panels(uint8_t *y, const float *x, int64_t n, float one_over,
                                   float zero, const bool is_signed)
{
  int64_t whole_n = n & -RG_PANEL;

  for (int64_t i = 0; i < whole_n; i += RG_PANEL) {
    panel_to_bytes(y + i, x + i, one_over, (int32_t)zero, is_signed);
  }
  return whole_n;
}

#else

ALWAYS_INLINE int64_t whole_panels(uint8_t *y, const float *x, int64_t n, float one_over,
                                   float zero, const bool is_signed)
{
  (void)y, (void)x, (void)n, (void)one_over, (void)zero, (void)is_signed;
  return 0;
}

#endif

/* What is not a number compares false, and comes out as zero. */
ALWAYS_INLINE float one_byte(float x, float one_over, float zero, float least, float most)
{
  float v = x * one_over;

  v = (v == v ? rintf(v) : 0.0f) + zero;
  v = v > least ? v : least;
  return v < most ? v : most;
}

#define TO_BYTES(name, T, least, most, is_signed)                                              \
  ALWAYS_INLINE void name##_times(T *y, const float *x, int64_t n, float one_over, float zero) \
  {                                                                                            \
    int64_t i = whole_panels((uint8_t *)y, x, n, one_over, zero, is_signed);                   \
                                                                                               \
    for (; i < n; i++) {                                                                       \
      y[i] = (T)(int32_t)one_byte(x[i], one_over, zero, least, most);                          \
    }                                                                                          \
  }                                                                                            \
  static void name(T *y, const float *x, int64_t n, float of_y, float zero)                    \
  {                                                                                            \
    name##_times(y, x, n, 1.0f / of_y, zero);                                                  \
  }
TO_BYTES(to_i8, int8_t, -128.0f, 127.0f, true)
TO_BYTES(to_u8, uint8_t, 0.0f, 255.0f, false)

/* scale, ReLU or ReLU6, and to_i8 or to_u8, a row at a time in registers. */
#define TO_PANEL(name, T, to_bytes)                                                               \
  static void name(uint8_t *y, int64_t ldy, const int32_t *sum, int64_t rows, const int32_t *fix, \
                   const rg_i8_scales *s)                                                         \
  {                                                                                               \
    const float *x_scale = s->x_scale;                                                            \
    const float one_over = 1.0f / s->y_scale;                                                     \
                                                                                                  \
    for (int64_t r = 0; r < rows; r++, y += ldy, sum += RG_PANEL, x_scale += s->x_step) {         \
      float some[RG_PANEL];                                                                       \
                                                                                                  \
      scale_rows(some, RG_PANEL, sum, 1, fix, x_scale, 0, s->w_scale, s->bias);                   \
      if (s->act != RG_ACT_NONE) {                                                                \
        for (int j = 0; j < RG_PANEL; j++) {                                                      \
          some[j] = some[j] < 0 ? 0 : some[j];                                                    \
        }                                                                                         \
      }                                                                                           \
      if (s->act == RG_ACT_RELU6) {                                                               \
        for (int j = 0; j < RG_PANEL; j++) {                                                      \
          some[j] = some[j] > 6 ? 6 : some[j];                                                    \
        }                                                                                         \
      }                                                                                           \
      to_bytes##_times((T *)y, some, RG_PANEL, one_over, s->y_zero);                              \
    }                                                                                             \
  }
TO_PANEL(panel_i8, int8_t, to_i8)
TO_PANEL(panel_u8, uint8_t, to_u8)

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

/* Bytes as 16 bits each, as many as there are lanes of those. */
ALWAYS_INLINE whole widened(const uint8_t *x, const bool is_signed)
{
#if defined(__AVX512BW__)
  __m256i some = _mm256_loadu_si256((const __m256i *)(const void *)x);

  return is_signed ? _mm512_cvtepi8_epi16(some) : _mm512_cvtepu8_epi16(some);
#elif defined(__AVX2__)
  __m128i some = _mm_loadu_si128((const __m128i *)(const void *)x);

  return is_signed ? _mm256_cvtepi8_epi16(some) : _mm256_cvtepu8_epi16(some);
#else
  __m128i some = _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(const void *)x), ZERO());

  return is_signed ? RIGHT(LEFT(some)) : some;
#endif
}

/* The sums of lanes as those of columns: two vectors of LOW and HIGH, which take turns by 128 bits.
*/
ALWAYS_INLINE void store_in_order(int32_t *sum, whole low, whole high)
{
#if defined(__AVX512BW__)
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);

  STORE(sum, _mm512_permutex2var_epi64(low, first, high));
  STORE(sum + 16, _mm512_permutex2var_epi64(low, second, high));
#elif defined(__AVX2__)
  STORE(sum, _mm256_permute2x128_si256(low, high, 0x20));
  STORE(sum + 8, _mm256_permute2x128_si256(low, high, 0x31));
#else
  STORE(sum, low);
  STORE(sum + 4, high);
#endif
}

enum { BYTES = WIDE / 2, CHUNKS = RG_PANEL / BYTES }; /* columns of two vectors of sums */

/* pmaddwd multiplies two taps of a column, of 16 bits, which differences of bytes fit into, and
** adds the products. */
ALWAYS_INLINE void depth(int32_t *sum, int64_t rows, int64_t n, const uint8_t *const *x,
                         int64_t step, const int32_t *w, int32_t zero, const bool is_signed)
{
  const whole less = SPREAD((int32_t)((uint32_t)(uint16_t)zero * 0x10001u));

  for (int64_t r = 0; r < rows; r++, sum += RG_PANEL) {
    whole low[CHUNKS], high[CHUNKS];

    for (int v = 0; v < CHUNKS; v++) {
      low[v] = high[v] = ZERO();
    }
    for (int64_t t = 0; t < n; t++) {
      const uint8_t *even = x[2 * t] + r * step, *odd = x[2 * t + 1] + r * step;
      const int32_t *pair = w + t * RG_PANEL;

#pragma GCC unroll 4
      for (int v = 0; v < CHUNKS; v++) {
        whole a = SUB16(widened(even + (ptrdiff_t)v * BYTES, is_signed), less);
        whole b = SUB16(widened(odd + (ptrdiff_t)v * BYTES, is_signed), less);

        low[v] = ADD(low[v], MADD(LOW16(a, b), LOAD(pair + (ptrdiff_t)v * BYTES)));
        high[v] = ADD(high[v], MADD(HIGH16(a, b), LOAD(pair + (ptrdiff_t)v * BYTES + WIDE / 4)));
      }
    }
    for (int v = 0; v < CHUNKS; v++) {
      store_in_order(sum + (ptrdiff_t)v * BYTES, low[v], high[v]);
    }
  }
}

#else

ALWAYS_INLINE void depth(int32_t *sum, int64_t rows, int64_t n, const uint8_t *const *x,
                         int64_t step, const int32_t *w, int32_t zero, const bool is_signed)
{
  for (int64_t r = 0; r < rows; r++, sum += RG_PANEL) {
    for (int64_t c = 0; c < RG_PANEL; c++) {
      sum[c] = 0;
    }
    for (int64_t t = 0; t < 2 * n; t++) {
      for (int64_t c = 0; c < RG_PANEL; c++) {
        uint8_t byte = x[t][r * step + c];
        int16_t by = (int16_t)((uint32_t)w[t / 2 * RG_PANEL + c] >> t % 2 * 16);

        sum[c] += ((is_signed ? (int8_t)byte : byte) - zero) * by;
      }
    }
  }
}

#endif

static void depth_u8(int32_t *sum, int64_t rows, int64_t n, const uint8_t *const *x, int64_t step,
                     const int32_t *w, int32_t zero)
{
  depth(sum, rows, n, x, step, w, zero, false);
}

static void depth_i8(int32_t *sum, int64_t rows, int64_t n, const uint8_t *const *x, int64_t step,
                     const int32_t *w, int32_t zero)
{
  depth(sum, rows, n, x, step, w, zero, true);
}

/* As LOW16 and HIGH16 deal the columns of a chunk out to lanes. */
static const uint8_t depth_column[RG_PANEL] = {
#if defined(__AVX512BW__)
  0, 1, 2, 3, 8,  9,  10, 11, 16, 17, 18, 19, 24, 25, 26, 27,
  4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31
#elif defined(__AVX2__)
  0,  1,  2,  3,  8,  9,  10, 11, 4,  5,  6,  7,  12, 13, 14, 15,
  16, 17, 18, 19, 24, 25, 26, 27, 20, 21, 22, 23, 28, 29, 30, 31
#else
  0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
  16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
#endif
};

/* -- Tables ------------------------------------------------------------------------------------ */

extern const rg_i8_kernels RG_SIMD_NAME(rg_i8_kernels);
extern const rg_i8_end RG_SIMD_NAME(rg_i8_end);

const rg_i8_kernels RG_SIMD_NAME(rg_i8_kernels) = {
  .path = "own:pairs",
  .tile = { NULL, tile_1, tile_2, tile_3, tile_4,
#if defined(__AVX2__)
            tile_5, tile_6,
#endif
#if defined(__AVX512BW__)
            tile_7, tile_8, tile_9, tile_10
#endif
  },
  .rows_most = ROWS,
  .width = WIDTH,
  .row = pack_row,
};

const rg_i8_end RG_SIMD_NAME(rg_i8_end) = { .scale = scale,
                                            .to_i8 = to_i8,
                                            .to_u8 = to_u8,
                                            .panel = { panel_u8, panel_i8 },
                                            .total = total,
                                            .depth = { depth_u8, depth_i8 },
                                            .depth_column = depth_column };
