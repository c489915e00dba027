/* SPDX-License-Identifier: MIT */
/*
** Tiles of a product of bytes by vpdpbusd: an instruction multiplies four neighbouring unsigned
** bytes of a by four signed ones of b, and adds all products to a sum of 32 bits, without
** saturation.  Included once for each width of vectors, by names:
**
**   VEC, ROWS         a vector, rows of the tallest tile
**   LOAD, STORE, ZERO, SPREAD, DOT, ADD
**   NAMED(x)          what x is called here
**
** Two vectors of columns pass over a panel at a time: up to ROWS by two sums are in registers, as
** in the other own products.
*/

enum {
  NAMED(wide) = (int)sizeof(VEC),
  NAMED(across) = 2 * (int)sizeof(VEC) / RG_I8_STEP,
  /* Up to so many rows even and odd steps have sums of their own, since the latency of an
  ** instruction is longer than all that stand beside it. */
  NAMED(twice_most) = 3
};

/* Four bytes of one row, in every lane, times those of all columns. */
#define ROW_STEP(r, at)              \
  if (r < rows) {                    \
    int32_t four;                    \
    VEC x;                           \
                                     \
    memcpy(&four, at, sizeof(four)); \
    x = SPREAD(four);                \
    s[r][0] = DOT(s[r][0], x, b0);   \
    s[r][1] = DOT(s[r][1], x, b1);   \
  }

/* The rows at p0 .. p3 and two multiples of their distance reach all fourteen. */
ALWAYS_INLINE void NAMED(step)(const int rows, VEC s[][2], const int8_t *b, const uint8_t *p0,
                               const uint8_t *p1, const uint8_t *p2, const uint8_t *p3, int64_t ld,
                               int64_t ld3)
{
  VEC b0 = LOAD(b);
  VEC b1 = LOAD(b + NAMED(wide));

  ROW_STEP(0, p0)
  ROW_STEP(1, p0 + ld)
  ROW_STEP(2, p0 + 2 * ld)
  ROW_STEP(3, p0 + ld3)
  ROW_STEP(4, p1)
  ROW_STEP(5, p1 + ld)
  ROW_STEP(6, p1 + 2 * ld)
  ROW_STEP(7, p1 + ld3)
  ROW_STEP(8, p2)
  ROW_STEP(9, p2 + ld)
  ROW_STEP(10, p2 + 2 * ld)
  ROW_STEP(11, p2 + ld3)
  ROW_STEP(12, p3)
  ROW_STEP(13, p3 + ld)
}

#undef ROW_STEP

ALWAYS_INLINE void NAMED(columns)(const int rows, const rg_i8_run *run, const uint8_t *a,
                                  const int8_t *b, int32_t *c, const char *next)
{
  enum { UNROLLED = 4, STEP_BYTES = RG_PANEL * RG_I8_STEP };
  const int odd = rows <= NAMED(twice_most) ? rows : 0;
  VEC s[ROWS][2];
  int64_t steps = run->steps;
  int64_t ld = run->lda;
  int64_t ld3 = ld * 3;

#pragma GCC unroll 14
  for (int r = 0; r < rows + odd; r++) {
    s[r][0] = s[r][1] = ZERO();
  }
  for (int64_t part = 0; part < run->parts; part++) {
    const uint8_t *p0 = a + part * run->part;
    const uint8_t *p1 = p0 + (rows > 4 ? 4 * ld : 0);
    const uint8_t *p2 = p1 + (rows > 8 ? 4 * ld : 0);
    const uint8_t *p3 = p2 + (rows > 12 ? 4 * ld : 0);
    int64_t l = 0;

    for (; l + UNROLLED <= steps; l += UNROLLED) {
#pragma GCC unroll 4
      for (int q = 0; q < UNROLLED; q++) {
        NAMED(step)
        (rows, q % 2 == 0 ? s : s + odd, b + q * STEP_BYTES, p0 + q * RG_I8_STEP,
         p1 + q * RG_I8_STEP, p2 + q * RG_I8_STEP, p3 + q * RG_I8_STEP, ld, ld3);
      }
      _mm_prefetch(next, _MM_HINT_T1);
      next += 64;
      b += UNROLLED * STEP_BYTES;
      p0 += UNROLLED * RG_I8_STEP;
      p1 += UNROLLED * RG_I8_STEP;
      p2 += UNROLLED * RG_I8_STEP;
      p3 += UNROLLED * RG_I8_STEP;
    }
    for (; l < steps; l++) {
      NAMED(step)(rows, s, b, p0, p1, p2, p3, ld, ld3);
      b += STEP_BYTES;
      p0 += RG_I8_STEP;
      p1 += RG_I8_STEP;
      p2 += RG_I8_STEP;
      p3 += RG_I8_STEP;
    }
  }
#pragma GCC unroll 14
  for (int r = 0; r < rows; r++) {
    if (odd > 0) {
      s[r][0] = ADD(s[r][0], s[r + odd][0]);
      s[r][1] = ADD(s[r][1], s[r + odd][1]);
    }
    STORE(c + r * RG_PANEL, s[r][0]);
    STORE(c + r * RG_PANEL + NAMED(across) / 2, s[r][1]);
  }
}

ALWAYS_INLINE void NAMED(tile)(const int rows, const rg_i8_run *run, const uint8_t *a,
                               const int8_t *b, int32_t *c, const char *next)
{
  for (int j = 0; j < RG_PANEL; j += NAMED(across)) {
    NAMED(columns)(rows, run, a, b + j * RG_I8_STEP, c + j, next);
  }
}

#define TILE_OF(n)                                                                                 \
  static void NAMED(tile_##n)(const rg_i8_run *run, const uint8_t *a, const int8_t *b, int32_t *c, \
                              const char *next)                                                    \
  {                                                                                                \
    NAMED(tile)(n, run, a, b, c, next);                                                            \
  }
TILE_OF(1)
TILE_OF(2)
TILE_OF(3)
TILE_OF(4)
TILE_OF(5)
TILE_OF(6)
#if ROWS > 6
TILE_OF(7)
TILE_OF(8)
TILE_OF(9)
TILE_OF(10)
TILE_OF(11)
TILE_OF(12)
TILE_OF(13)
TILE_OF(14)
#endif
#undef TILE_OF

#undef VEC
#undef ROWS
#undef LOAD
#undef STORE
#undef ZERO
#undef SPREAD
#undef DOT
#undef ADD
#undef NAMED
