/* SPDX-License-Identifier: MIT */
/*
** Random numbers by the run; what they become is in op/draw.h.
*/
#include "cpu/simd/simd.h"
#include "op/draw.h"

enum { BLOCKS = 64 }; /* Philox blocks made together */

/* The four numbers of BLOCKS blocks in a row. */
static void philox(uint64_t seed, uint64_t index, uint32_t *to)
{
  RG_INDEPENDENT for (uint32_t i = 0; i < BLOCKS; i++)
  {
    uint32_t x[4];

    rg_draw_block(seed, (uint32_t)index, (uint32_t)(index >> 32), i, x);
    to[4 * i] = x[0];
    to[4 * i + 1] = x[1];
    to[4 * i + 2] = x[2];
    to[4 * i + 3] = x[3];
  }
}

static void numbers(uint64_t seed, uint64_t first, uint32_t *to, int64_t n)
{
  uint32_t block[4 * BLOCKS];

  while (n > 0) {
    int64_t skip = (int64_t)(first % 4);
    int64_t take = 4 * BLOCKS - skip < n ? 4 * BLOCKS - skip : n;

    philox(seed, first / 4, block);
    memcpy(to, block + skip, (size_t)take * sizeof(*to));
    to += take;
    n -= take;
    first += (uint64_t)take;
  }
}

/* Rows side by side in the lanes of vectors, whole vectors of them. */
static void signs(uint64_t seed, uint32_t matrix, uint32_t row, uint32_t block, int64_t n,
                  uint32_t *to)
{
  int rows = (int)rg_round_up(n, 16);

  RG_INDEPENDENT for (int i = 0; i < rows; i++)
  {
    uint32_t x[4];

    rg_draw_signs(seed, matrix, row + (uint32_t)i, block, x);
    to[4 * i] = x[0];
    to[4 * i + 1] = x[1];
    to[4 * i + 2] = x[2];
    to[4 * i + 3] = x[3];
  }
}

static void uniform_f32(float *y, const uint32_t *x, int64_t n)
{
  RG_INDEPENDENT for (int64_t i = 0; i < n; i++)
  {
    y[i] = rg_draw_uniform_f32(x[i]);
  }
}

static void uniform_f64(double *y, const uint32_t *x, int64_t n)
{
  RG_INDEPENDENT for (int64_t i = 0; i < n; i++)
  {
    y[i] = rg_draw_uniform_f64(x[2 * i], x[2 * i + 1]);
  }
}

static void normal_f32(float *y, const uint32_t *x, int64_t n)
{
  RG_INDEPENDENT for (int64_t k = 0; k < n / 2; k++)
  {
    float pair[2];

    rg_draw_normal_f32(x[2 * k], x[2 * k + 1], pair);
    y[2 * k] = pair[0];
    y[2 * k + 1] = pair[1];
  }
}

static void normal_f64(double *y, const uint32_t *x, int64_t n)
{
  RG_INDEPENDENT for (int64_t k = 0; k < n / 2; k++)
  {
    double pair[2];

    rg_draw_normal_f64((uint64_t)x[4 * k] << 32 | x[4 * k + 1],
                       (uint64_t)x[4 * k + 2] << 32 | x[4 * k + 3], pair);
    y[2 * k] = pair[0];
    y[2 * k + 1] = pair[1];
  }
}

/* -- Table ---------------------------------------------------------------------------------- */

extern const rg_simd_random RG_SIMD_NAME(rg_simd_random);
const rg_simd_random RG_SIMD_NAME(rg_simd_random) = {
  .numbers = numbers,
  .signs = signs,
  .uniform_f32 = uniform_f32,
  .uniform_f64 = uniform_f64,
  .normal_f32 = normal_f32,
  .normal_f64 = normal_f64,
};
