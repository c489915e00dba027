/* SPDX-License-Identifier: MIT */
/*
** The inner loops of ridge's own products in f32, for one instruction set.
**
** A tile is up to 14 rows by two vectors of sums held in registers; each step of the inner axis
** loads two vectors of b and broadcasts one number of each row of a.  Measured at two threads on an
** AVX-512 machine: 0.8 of the peak at 256 x 2048 x 1024, where oneDNN 2.6 has 0.63.  The packed
** panel is 32 columns wide everywhere; narrower vectors go over it in strips.
*/
#include <string.h>

#include "cpu/gemm.h"
#include "cpu/simd/simd.h"
#include "cpu/simd/transpose.h"
#include "tensor/half.h"

#if defined(__AVX512F__)
enum { ROWS = 14 };
#else
enum { ROWS = 6 };
#endif

typedef int32_t mask __attribute__((vector_size(LANES * 4)));
enum { STRIP = 2 * LANES };

ALWAYS_INLINE vec load(const float *x)
{
  return *(const vec *)x;
}

ALWAYS_INLINE void store(float *x, vec y)
{
  *(vec *)x = y;
}

/* -- Tiles ---------------------------------------------------------------------------- */

/* With 16 registers a tile of six rows takes them all.  Compilers that draw loads of the next step
** forward run out of them, and one or two sums pass through the stack in the innermost loop, where
** each multiplication waits for the one before: this holds sums in registers and loads in order. */
#if defined(__x86_64__) && !defined(__AVX512F__)
#define HELD(s) __asm__ volatile("" : "+x"((s)[0]), "+x"((s)[1]) : : "memory")
#else
#define HELD(s) (void)(s)
#endif

/* One row of a strip; four row pointers and two multiples of lda reach all fourteen rows. */
#define ROW(r, pointer, offset)                                     \
  if (r < rows) {                                                   \
    vec x = splat(*(const float *)(pointer + (offset) + 4 * step)); \
    s[r][0] = fused(x, b0, s[r][0]);                                \
    s[r][1] = fused(x, b1, s[r][1]);                                \
    HELD(s[r]);                                                     \
  }

#define STEP(number)                            \
  do {                                          \
    enum { step = number };                     \
    vec b0 = load(b + step * RG_PANEL);         \
    vec b1 = load(b + step * RG_PANEL + LANES); \
    ROW(0, p0, 0)                               \
    ROW(1, p0, ld)                              \
    ROW(2, p0, 2 * ld)                          \
    ROW(3, p0, ld3)                             \
    ROW(4, p1, 0)                               \
    ROW(5, p1, ld)                              \
    ROW(6, p1, 2 * ld)                          \
    ROW(7, p1, ld3)                             \
    ROW(8, p2, 0)                               \
    ROW(9, p2, ld)                              \
    ROW(10, p2, 2 * ld)                         \
    ROW(11, p2, ld3)                            \
    ROW(12, p3, 0)                              \
    ROW(13, p3, ld)                             \
  } while (0)

/* Where the sums will go comes nearer while they are made.  (Measured with AVX2 alone: up to 1.16
** times as fast where c is not in L2.) */
ALWAYS_INLINE void fetch_c(const int rows, float *c, int64_t ldc)
{
#if !defined(__AVX512F__)
  for (int r = 0; r < rows; r++) {
    __builtin_prefetch(c + r * ldc, 1, 3);
  }
#else
  (void)rows, (void)c, (void)ldc;
#endif
}

/* The sums of a strip go to c, or on top of what is there. */
ALWAYS_INLINE void strip_end(const int rows, vec s[][2], float *c, int64_t ldc, bool add)
{
#pragma GCC unroll 14
  for (int r = 0; r < rows; r++) {
    float *to = c + r * ldc;

    if (add) {
      s[r][0] += load(to);
      s[r][1] += load(to + LANES);
    }
    store(to, s[r][0]);
    store(to + LANES, s[r][1]);
  }
}

ALWAYS_INLINE void strip(const int rows, int64_t k, const float *a, int64_t lda, const float *b,
                         float *c, int64_t ldc, bool add, const float *next)
{
  vec s[RG_ROWS_MOST][2];
  int64_t ld = lda * 4;
  int64_t ld3 = ld * 3;
  const char *p0 = (const char *)a;
  const char *p1 = p0 + (rows > 4 ? 4 * ld : 0);
  const char *p2 = p1 + (rows > 8 ? 4 * ld : 0);
  const char *p3 = p2 + (rows > 12 ? 4 * ld : 0);
  int64_t l = 0;

#pragma GCC unroll 14
  for (int r = 0; r < rows; r++) {
    s[r][0] = (vec){ 0 };
    s[r][1] = (vec){ 0 };
  }
  fetch_c(rows, c, ldc);
  for (; l + 4 <= k; l += 4) {
    STEP(0);
    STEP(1);
    STEP(2);
    STEP(3);
    __builtin_prefetch(next, 0, 2);
    next += 16;
    b += 4 * RG_PANEL;
    p0 += 16;
    p1 += 16;
    p2 += 16;
    p3 += 16;
  }
  for (; l < k; l++) {
    STEP(0);
    b += RG_PANEL;
    p0 += 4;
    p1 += 4;
    p2 += 4;
    p3 += 4;
  }
  strip_end(rows, s, c, ldc, add);
}

/* The same where a is adjacent across its rows, which then come side by side with every step. Its
** lines lie far apart, and no prefetcher of the machine follows them. */
ALWAYS_INLINE void strip_across(const int rows, int64_t k, const float *a, int64_t lda,
                                const float *b, float *c, int64_t ldc, bool add, const float *next)
{
  vec s[RG_ROWS_MOST][2];

#pragma GCC unroll 14
  for (int r = 0; r < rows; r++) {
    s[r][0] = (vec){ 0 };
    s[r][1] = (vec){ 0 };
  }
  fetch_c(rows, c, ldc);
  for (int64_t l = 0; l < k; l++, a += lda, b += RG_PANEL) {
    vec b0 = load(b);
    vec b1 = load(b + LANES);

    __builtin_prefetch(a + 12 * lda, 0, 3);
    if (l % 4 == 0) {
      __builtin_prefetch(next, 0, 2);
      next += 16;
    }
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++) {
      vec x = splat(a[r]);

      s[r][0] = fused(x, b0, s[r][0]);
      s[r][1] = fused(x, b1, s[r][1]);
    }
  }
  strip_end(rows, s, c, ldc, add);
}

/* A product of one row: the sums of neighbouring steps are independent, or each would wait for the
** one before.  Not for the odd row of a taller product: how rows are shared out must not show. */
static void row(int64_t k, const float *a, int64_t lda, const float *b, float *c, int64_t ldc,
                bool add, const float *next)
{
  (void)lda;
  (void)ldc;
  (void)next;
  for (int j = 0; j < RG_PANEL; j += STRIP, b += STRIP) {
    vec s[4][2] = { { { 0 } } };
    int64_t l = 0;

    for (; l + 4 <= k; l += 4) {
#pragma GCC unroll 4
      for (int u = 0; u < 4; u++) {
        vec x = splat(a[l + u]);

        s[u][0] = fused(x, load(b + (l + u) * RG_PANEL), s[u][0]);
        s[u][1] = fused(x, load(b + (l + u) * RG_PANEL + LANES), s[u][1]);
      }
    }
    for (; l < k; l++) {
      vec x = splat(a[l]);

      s[0][0] = fused(x, load(b + l * RG_PANEL), s[0][0]);
      s[0][1] = fused(x, load(b + l * RG_PANEL + LANES), s[0][1]);
    }
    vec first = (s[0][0] + s[1][0]) + (s[2][0] + s[3][0]);
    vec second = (s[0][1] + s[1][1]) + (s[2][1] + s[3][1]);
    if (add) {
      first += load(c + j);
      second += load(c + j + LANES);
    }
    store(c + j, first);
    store(c + j + LANES, second);
  }
}

#define TILE(rows)                                                                            \
  static void tile_##rows(int64_t k, const float *a, int64_t lda, const float *b, float *c,   \
                          int64_t ldc, bool add, const float *next)                           \
  {                                                                                           \
    for (int j = 0; j < RG_PANEL; j += STRIP) {                                               \
      strip(rows, k, a, lda, b + j, c + j, ldc, add, next);                                   \
    }                                                                                         \
  }                                                                                           \
  static void across_##rows(int64_t k, const float *a, int64_t lda, const float *b, float *c, \
                            int64_t ldc, bool add, const float *next)                         \
  {                                                                                           \
    for (int j = 0; j < RG_PANEL; j += STRIP) {                                               \
      strip_across(rows, k, a, lda, b + j, c + j, ldc, add, next);                            \
    }                                                                                         \
  }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)
#if defined(__AVX512F__)
TILE(7)
TILE(8)
TILE(9)
TILE(10)
TILE(11)
TILE(12)
TILE(13)
TILE(14)
#endif

/* -- Epilogue --------------------------------------------------------------------------- */

/* nan stays nan */
static inline vec not_below_0(vec x)
{
  return (vec)((mask)x & ~(mask)(x < 0));
}

static inline vec not_above_6(vec x)
{
  mask above = (mask)(x > 6);

  return (vec)(((mask)x & ~above) | ((mask)splat(6) & above));
}

static inline vec clipped(vec y, int32_t act)
{
  y = act == RG_ACT_NONE ? y : not_below_0(y);
  return act == RG_ACT_RELU6 ? not_above_6(y) : y;
}

static void affine(float *x, int64_t rows, int64_t ldx, const float *bias, float scale, int32_t act)
{
  static const float none[RG_PANEL];
  const float *shift = bias != NULL ? bias : none;

  for (int64_t r = 0; r < rows; r++, x += ldx) {
    for (int j = 0; j < RG_PANEL; j += LANES) {
      store(x + j, clipped(fused(load(x + j), splat(scale), load(shift + j)), act));
    }
  }
}

/* A copy of whole rows keeps -0, which x * 1 + 0 does not. */
static inline void finish_row(const float *x, bool change, const float *shift, float scale,
                              int32_t act, float *y)
{
  for (int j = 0; j < RG_PANEL; j += LANES) {
    vec v = load(x + j);

    store(y + j, change ? clipped(fused(v, splat(scale), load(shift + j)), act) : v);
  }
}

static void finish(const float *x, int64_t rows, const float *bias, float scale, int32_t act,
                   void *c, int64_t ldc, int32_t dtype)
{
  static const float none[RG_PANEL];
  const float *shift = bias != NULL ? bias : none;
  bool change = bias != NULL || scale != 1 || act != RG_ACT_NONE;

  for (int64_t r = 0; r < rows; r++, x += RG_PANEL) {
    if (dtype == RG_F32) {
      finish_row(x, change, shift, scale, act, (float *)c + r * ldc);
    } else {
      uint16_t *to = (uint16_t *)c + r * ldc;
      float y[RG_PANEL];

      finish_row(x, change, shift, scale, act, y);
      for (int j = 0; j < RG_PANEL; j++) {
        to[j] = rg_bf16_of_f32(y[j]);
      }
    }
  }
}

/* -- Rows that lie anywhere --------------------------------------------------------------- */

#if defined(__AVX2__) && !defined(__AVX512F__)
enum { COLUMNS = RG_GATHERED_COLUMNS };

/* Sums stay in registers over all taps. */
ALWAYS_INLINE void gather(const int rows, const rg_gather_tile *t)
{
  vec s[RG_GATHERED_ROWS][2];
  const float *const *at = t->x;
  const float *b = t->b;

#pragma GCC unroll 6
  for (int r = 0; r < rows; r++) {
    s[r][0] = load(t->bias);
    s[r][1] = load(t->bias + LANES);
  }
  fetch_c(rows, t->c, t->ldc);
  for (int64_t tap = 0; tap < t->taps; tap++, at += rows) {
    const float *x[RG_GATHERED_ROWS];
    int64_t l = 0;

#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
      x[r] = at[r] + t->shift;
    }
    for (; l + 4 <= t->k; l += 4, b += 4 * COLUMNS) {
#pragma GCC unroll 4
      for (int u = 0; u < 4; u++) {
        vec b0 = load(b + u * COLUMNS);
        vec b1 = load(b + u * COLUMNS + LANES);

#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
          vec y = splat(x[r][l + u]);

          s[r][0] = fused(y, b0, s[r][0]);
          s[r][1] = fused(y, b1, s[r][1]);
          HELD(s[r]);
        }
      }
    }
    for (; l < t->k; l++, b += COLUMNS) {
      vec b0 = load(b);
      vec b1 = load(b + LANES);

#pragma GCC unroll 6
      for (int r = 0; r < rows; r++) {
        vec y = splat(x[r][l]);

        s[r][0] = fused(y, b0, s[r][0]);
        s[r][1] = fused(y, b1, s[r][1]);
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < rows; r++) {
    float *c = t->c + r * t->ldc;

#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
      if (t->adds) {
        s[r][i] += load(c + i * LANES);
      }
      store(c + i * LANES, clipped(s[r][i], t->act));
    }
  }
}

#define GATHERED(rows)                                 \
  static void gathered_##rows(const rg_gather_tile *t) \
  {                                                    \
    gather(rows, t);                                   \
  }
GATHERED(1)
GATHERED(2)
GATHERED(3)
GATHERED(4)
GATHERED(5)
GATHERED(6)
#endif

/* -- For packing -------------------------------------------------------------------------- */

static void signs(float *y, const uint8_t *bits, int64_t first, int64_t n, float sign)
{
  int64_t i = 0;

  for (; i < n && ((first + i) & 7) != 0; i++) {
    y[i] = (bits[(first + i) >> 3] >> ((first + i) & 7) & 1) != 0 ? sign : -sign;
  }
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    uint16_t some;

    memcpy(&some, bits + ((first + i) >> 3), sizeof(some));
    _mm512_storeu_ps(y + i,
                     _mm512_mask_blend_ps(some, _mm512_set1_ps(-sign), _mm512_set1_ps(sign)));
  }
#endif
  for (; i + 8 <= n; i += 8) {
    unsigned byte = bits[(first + i) >> 3];

    for (unsigned l = 0; l < 8; l++) {
      y[i + l] = (byte & 1u << l) != 0 ? sign : -sign;
    }
  }
  for (; i < n; i++) {
    y[i] = (bits[(first + i) >> 3] >> ((first + i) & 7) & 1) != 0 ? sign : -sign;
  }
}

#if defined(__AVX512F__)
TRANSPOSED_TILE(lanes, int32_t, int32_t, 16)
#elif defined(__AVX2__)
TRANSPOSED_TILE(lanes, int32_t, int32_t, 8)
#else
TRANSPOSED_TILE(lanes, int32_t, int32_t, 4)
#endif

static void transpose(float *y, const float *x, int64_t ldx, int64_t k, int64_t cols)
{
  int64_t done = 0;

  if (cols == RG_PANEL) {
    for (; done + LANES <= k; done += LANES) {
      for (int64_t j = 0; j < RG_PANEL; j += LANES) {
        lanes_tile(y + done * RG_PANEL + j, RG_PANEL * 4, x + done + j * ldx, ldx * 4);
      }
    }
  }
  for (int64_t l = done; l < k; l++) {
    for (int64_t j = 0; j < RG_PANEL; j++) {
      y[l * RG_PANEL + j] = j < cols ? x[j * ldx + l] : 0;
    }
  }
}

/* -- One row times unpacked weights ----------------------------------------------------------- */

ALWAYS_INLINE vec load_bf16(const uint16_t *x)
{
  typedef uint32_t words __attribute__((vector_size(LANES * 4)));
  words wide;

  for (int i = 0; i < LANES; i++) {
    wide[i] = (uint32_t)x[i] << 16;
  }
  return (vec)wide;
}

static float one_bf16(uint16_t x)
{
  uint32_t word = (uint32_t)x << 16;
  float y;

  memcpy(&y, &word, sizeof(y));
  return y;
}

#define IDENTITY(x) (x)
#define DOTS(name, T, LOAD, ONE)                                                            \
  static void name(float *y, const float *x, const T *w, int64_t ldw, int64_t k, int64_t n) \
  {                                                                                         \
    int64_t j = 0;                                                                          \
                                                                                            \
    for (; j < n; j += 4) {                                                                 \
      int64_t most = n - j < 4 ? n - j : 4;                                                 \
      vec s[4][2] = { { { 0 } } };                                                          \
      float tail[4] = { 0 };                                                                \
      const T *at[4];                                                                       \
      int64_t l = 0;                                                                        \
                                                                                            \
      for (int64_t r = 0; r < 4; r++) {                                                     \
        at[r] = w + (j + (r < most ? r : 0)) * ldw;                                         \
      }                                                                                     \
      for (; l + STRIP <= k; l += STRIP) {                                                  \
        vec x0 = load(x + l);                                                               \
        vec x1 = load(x + l + LANES);                                                       \
        for (int r = 0; r < 4; r++) {                                                       \
          s[r][0] = fused(x0, LOAD(at[r] + l), s[r][0]);                                    \
          s[r][1] = fused(x1, LOAD(at[r] + l + LANES), s[r][1]);                            \
        }                                                                                   \
      }                                                                                     \
      for (; l < k; l++) {                                                                  \
        for (int r = 0; r < 4; r++) {                                                       \
          tail[r] += x[l] * ONE(at[r][l]);                                                  \
        }                                                                                   \
      }                                                                                     \
      for (int64_t r = 0; r < most; r++) {                                                  \
        y[j + r] = sum_of(s[r][0] + s[r][1]) + tail[r];                                     \
      }                                                                                     \
    }                                                                                       \
  }
DOTS(dots, float, load, IDENTITY)
DOTS(dots_bf16, uint16_t, load_bf16, one_bf16)

/* -- Table ------------------------------------------------------------------------------------- */

extern const rg_gemm_kernels RG_SIMD_NAME(rg_gemm);

const rg_gemm_kernels RG_SIMD_NAME(rg_gemm) = {
  .tile = { NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6,
#if defined(__AVX512F__)
            tile_7, tile_8, tile_9, tile_10, tile_11, tile_12, tile_13, tile_14
#endif
  },
  .across = { NULL, across_1, across_2, across_3, across_4, across_5, across_6,
#if defined(__AVX512F__)
              across_7, across_8, across_9, across_10, across_11, across_12, across_13, across_14
#endif
  },
#if defined(__AVX2__) && !defined(__AVX512F__)
  .gathered = { NULL, gathered_1, gathered_2, gathered_3, gathered_4, gathered_5, gathered_6 },
#endif
  .row = row,
  .rows_most = ROWS,
  .affine = affine,
  .finish = finish,
  .signs = signs,
  .transpose = transpose,
  .dots = dots,
  .dots_bf16 = dots_bf16,
};
