/* SPDX-License-Identifier: MIT */
/*
** Sums over the entries of a weight most of which is 0, for one instruction set.
**
** A block's sixteen values are one load, and its one column one broadcast; a single value has a
** column of its own, and nothing to be read side by side.  Entries in turn have sums of their own,
** since a sum has to wait for the one before it.
*/
#include "cpu/simd/simd.h"
#include "cpu/simd/vector.h"
#include "cpu/sparse_dot.h"

enum { BLOCK = 16, VECTORS = BLOCK / LANES, TURNS = 4 };

ALWAYS_INLINE void block(const int rows, int64_t n, const int32_t *column, const float *values,
                         const float *x, int64_t ldx, float *y)
{
  const int turns = rows == 1 && VECTORS < 4 ? TURNS : 1;
  vec sum[RG_SPARSE_ROWS * TURNS][VECTORS];
  int64_t i = 0;

  for (int s = 0; s < rows * turns; s++) {
    for (int v = 0; v < VECTORS; v++) {
      sum[s][v] = (vec){ 0 };
    }
  }
  for (; i + turns <= n; i += turns) {
    for (int t = 0; t < turns; t++) {
      const float *from = x + column[i + t];

      for (int r = 0; r < rows; r++) {
        vec at = splat(from[r * ldx]);

        for (int v = 0; v < VECTORS; v++) {
          sum[r * turns + t][v] =
              fused(at, *(const vec *)(values + (i + t) * BLOCK + (ptrdiff_t)v * LANES),
                    sum[r * turns + t][v]);
        }
      }
    }
  }
  for (; i < n; i++) {
    for (int r = 0; r < rows; r++) {
      vec at = splat(x[column[i] + r * ldx]);

      for (int v = 0; v < VECTORS; v++) {
        sum[r * turns][v] =
            fused(at, *(const vec *)(values + i * BLOCK + (ptrdiff_t)v * LANES), sum[r * turns][v]);
      }
    }
  }
  for (int r = 0; r < rows; r++) {
    for (int v = 0; v < VECTORS; v++) {
      vec all = sum[r * turns][v];

      for (int t = 1; t < turns; t++) {
        all += sum[r * turns + t][v];
      }
      *(vec *)(y + r * BLOCK + (ptrdiff_t)v * LANES) = all;
    }
  }
}

ALWAYS_INLINE void one(const int rows, int64_t n, const int32_t *column, const float *values,
                       const float *x, int64_t ldx, float *y)
{
  for (int r = 0; r < rows; r++, x += ldx) {
    float sum[TURNS] = { 0 };
    int64_t i = 0;

    for (; i + TURNS <= n; i += TURNS) {
      for (int t = 0; t < TURNS; t++) {
        sum[t] += values[i + t] * x[column[i + t]];
      }
    }
    for (; i < n; i++) {
      sum[0] += values[i] * x[column[i]];
    }
    y[r * BLOCK] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
}

/* Single values, and sixteen rows of x side by side: what is a broadcast there is a load here. */
static void across(int64_t n, const int32_t *column, const float *values, const float *x,
                   int64_t ldx, float *y)
{
  vec sum[TURNS][VECTORS];
  int64_t i = 0;

  for (int t = 0; t < TURNS; t++) {
    for (int v = 0; v < VECTORS; v++) {
      sum[t][v] = (vec){ 0 };
    }
  }
  for (; i + TURNS <= n; i += TURNS) {
    for (int t = 0; t < TURNS; t++) {
      const float *from = x + column[i + t] * ldx;
      vec at = splat(values[i + t]);

      for (int v = 0; v < VECTORS; v++) {
        sum[t][v] = fused(at, *(const vec *)(from + (ptrdiff_t)v * LANES), sum[t][v]);
      }
    }
  }
  for (; i < n; i++) {
    for (int v = 0; v < VECTORS; v++) {
      sum[0][v] = fused(splat(values[i]),
                        *(const vec *)(x + column[i] * ldx + (ptrdiff_t)v * LANES), sum[0][v]);
    }
  }
  for (int v = 0; v < VECTORS; v++) {
    vec all = sum[0][v];

    for (int t = 1; t < TURNS; t++) {
      all += sum[t][v];
    }
    *(vec *)(y + (ptrdiff_t)v * LANES) = all;
  }
}

static int inside(const int32_t *column, int64_t n, int32_t k)
{
  uint32_t most = 0;

  for (int64_t i = 0; i < n; i++) { /* negative ones are larger than all others */
    uint32_t c = (uint32_t)column[i];

    most = c > most ? c : most;
  }
  return n == 0 || most < (uint32_t)k;
}

#define DOTS(rows)                                                                                \
  static void one_##rows(int64_t n, const int32_t *column, const float *values, const float *x,   \
                         int64_t ldx, float *y)                                                   \
  {                                                                                               \
    one(rows, n, column, values, x, ldx, y);                                                      \
  }                                                                                               \
  static void block_##rows(int64_t n, const int32_t *column, const float *values, const float *x, \
                           int64_t ldx, float *y)                                                 \
  {                                                                                               \
    block(rows, n, column, values, x, ldx, y);                                                    \
  }
DOTS(1)
DOTS(2)
DOTS(3)
DOTS(4)

extern const rg_sparse_kernels RG_SIMD_NAME(rg_sparse_kernels);

const rg_sparse_kernels RG_SIMD_NAME(rg_sparse_kernels) = {
  .one = { NULL, one_1, one_2, one_3, one_4 },
  .block = { NULL, block_1, block_2, block_3, block_4 },
  .across = across,
  .inside = inside,
};
