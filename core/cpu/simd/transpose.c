/* SPDX-License-Identifier: MIT */
/*
** Blocks of a matrix transposed, by square tiles in registers; the last tile of a row or column
** moves back over the one before it.
*/
#include <string.h>

#include "cpu/simd/simd.h"
#include "cpu/simd/transpose.h"

/* Without instructions that move single bytes (SSSE3) tiles of short elements are slower than
** loads and stores one by one. */
TRANSPOSED_TILE(b4x4, uint32_t, int32_t, 4)
TRANSPOSED_TILE(b8x2, uint64_t, int64_t, 2)
#if defined(__AVX2__)
TRANSPOSED_TILE(b1x16, uint8_t, int8_t, 16)
TRANSPOSED_TILE(b2x8, uint16_t, int16_t, 8)
TRANSPOSED_TILE(b2x16, uint16_t, int16_t, 16)
TRANSPOSED_TILE(b4x8, uint32_t, int32_t, 8)
TRANSPOSED_TILE(b8x4, uint64_t, int64_t, 4)
#endif
#if defined(__AVX512F__)
TRANSPOSED_TILE(b4x16, uint32_t, int32_t, 16)
TRANSPOSED_TILE(b8x8, uint64_t, int64_t, 8)
#endif

enum { SQUARE = 32 };

/* Where the tile from `at` on begins, so that it ends within n. */
static inline int64_t within(int64_t at, int64_t n, int64_t tile)
{
  return at + tile <= n ? at : n - tile;
}

#define BY_TILES(name, size, N)                                                                   \
  if (rows >= (N) && columns >= (N)) {                                                            \
    for (int64_t c = 0; c < columns; c += (N)) {                                                  \
      int64_t at_c = within(c, columns, N);                                                       \
                                                                                                  \
      for (int64_t r = 0; r < rows; r += (N)) {                                                   \
        int64_t at_r = within(r, rows, N);                                                        \
                                                                                                  \
        name##_tile(y + at_r * y_row + at_c * (size), y_row, x + at_c * x_column + at_r * (size), \
                    x_column);                                                                    \
      }                                                                                           \
    }                                                                                             \
    return;                                                                                       \
  }

/* In squares, so that lines of x are still in L1 at the next row of y. */
#define ONE_BY_ONE(size)                                                           \
  for (int64_t first = 0; first < columns; first += SQUARE) {                      \
    int64_t end = first + SQUARE < columns ? first + SQUARE : columns;             \
                                                                                   \
    for (int64_t r = 0; r < rows; r++) {                                           \
      for (int64_t c = first; c < end; c++) {                                      \
        memcpy(y + r * y_row + c * (size), x + r * (size) + c * x_column, (size)); \
      }                                                                            \
    }                                                                              \
  }

static void bytes_1(char *y, int64_t y_row, const char *x, int64_t x_column, int64_t rows,
                    int64_t columns)
{
#if defined(__AVX2__)
  BY_TILES(b1x16, 1, 16)
#endif
  ONE_BY_ONE(1)
}

static void bytes_2(char *y, int64_t y_row, const char *x, int64_t x_column, int64_t rows,
                    int64_t columns)
{
#if defined(__AVX2__)
  BY_TILES(b2x16, 2, 16)
  BY_TILES(b2x8, 2, 8)
#endif
  ONE_BY_ONE(2)
}

static void bytes_4(char *y, int64_t y_row, const char *x, int64_t x_column, int64_t rows,
                    int64_t columns)
{
#if defined(__AVX512F__)
  BY_TILES(b4x16, 4, 16)
#endif
#if defined(__AVX2__)
  BY_TILES(b4x8, 4, 8)
#endif
  BY_TILES(b4x4, 4, 4)
  ONE_BY_ONE(4)
}

static void bytes_8(char *y, int64_t y_row, const char *x, int64_t x_column, int64_t rows,
                    int64_t columns)
{
#if defined(__AVX512F__)
  BY_TILES(b8x8, 8, 8)
#endif
#if defined(__AVX2__)
  BY_TILES(b8x4, 8, 4)
#endif
  BY_TILES(b8x2, 8, 2)
  ONE_BY_ONE(8)
}

extern const rg_simd_transpose RG_SIMD_NAME(rg_simd_transpose);
const rg_simd_transpose RG_SIMD_NAME(rg_simd_transpose) = {
  .block = { bytes_1, bytes_2, bytes_4, bytes_8 },
};
