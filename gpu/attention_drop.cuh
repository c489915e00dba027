/* SPDX-License-Identifier: MIT */
/*
** Dropout of attention's weights in kernels: which of a tile are kept.  Weight (i, j) of a head has
** the number that rg_dropout gives it in the matrix of all weights, [heads x n x m], so that the
** CPU and every kernel, forward and back, drop the same ones; nothing is kept between them but the
** draw.
*/
#ifndef RIDGE_GPU_ATTENTION_DROP_CUH
#define RIDGE_GPU_ATTENTION_DROP_CUH

#include "gpu/attention.cuh"
#include "gpu/mma.cuh"

extern "C" {
#include "op/draw.h"
}

/* What the weights that are kept are multiplied by. */
static __device__ inline float rg_att_grown(const attention &w)
{
  return (float)(1.0 / (1.0 - w.p));
}

/* The place of weight (i, j) of a head in the stream. */
static __device__ inline uint64_t rg_att_number(const attention &w, const rg_draw &draw,
                                                int64_t head, int i, int j)
{
  return draw.offset + (uint64_t)((head * w.s.n + i) * w.s.m + j);
}

/* Of the four weights from place `at` of a stream on, a bit each: is it kept? */
static __device__ inline uint32_t rg_att_four(uint64_t seed, uint64_t at, double p)
{
  const uint64_t block = at / 4;
  const int skip = (int)(at % 4);
  uint32_t x[4], bits = 0;

  rg_draw_block(seed, (uint32_t)block, (uint32_t)(block >> 32), 0, x);
#pragma unroll
  for (int k = 0; k < 4; k++) {
    bits |= (uint32_t)rg_draw_keeps(x[k], p) << k;
  }
  if (skip != 0) {
    rg_draw_block(seed, (uint32_t)block, (uint32_t)(block >> 32), 1, x);
#pragma unroll
    for (int k = 0; k < 4; k++) {
      bits |= (uint32_t)rg_draw_keeps(x[k], p) << (4 + k);
    }
  }
  return bits >> skip & 15;
}

/*
** Of a warp's 16 rows from row0 on and COLS columns from col0 on, as rg_mma leaves them: bit
** 4 j + i is that of sum[j][i].  Rows are queries and columns are keys, or with BY_KEYS transposed.
**
** Numbers come in blocks of four neighbouring keys, and 16 x 8 weights are 32 blocks: each lane
** makes one (two, where rows do not begin at multiples of four), and takes its own from the others.
*/
template <int COLS, bool BY_KEYS>
static __device__ inline uint32_t rg_att_kept(const attention &w, const rg_draw &draw, int64_t head,
                                              int row0, int col0)
{
  static_assert(COLS <= 64, "a word has bits for eight tiles");
  const int lane = RG_MMA_LANE, own = lane / 4, q = lane % 4;
  uint32_t made = 0, kept = 0;

#pragma unroll 1
  for (int j = 0; j < COLS / 8; j++) {
    const int query = BY_KEYS ? col0 + j * 8 + own : row0 + own + q / 2 * 8;
    const int key = BY_KEYS ? row0 + q * 4 : col0 + j * 8 + q % 2 * 4;

    made |= rg_att_four(draw.seed, rg_att_number(w, draw, head, query, key), w.p) << (4 * j);
  }
  if (BY_KEYS) { /* keys own and own + 8 of queries 2 q and 2 q + 1 */
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int from = (2 * q + i % 2) * 4 + own / 4 + i / 2 * 2;

      kept |= (__shfl_sync(0xffffffffu, made, from) >> own % 4 & 0x11111111u) << i;
    }
  } else { /* keys 2 q and 2 q + 1 of queries own and own + 8 */
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const uint32_t theirs = __shfl_sync(0xffffffffu, made, own * 4 + r * 2 + q / 2);

      kept |= (theirs >> q % 2 * 2 & 0x33333333u) << 2 * r;
    }
  }
  return kept;
}

#endif
