/* SPDX-License-Identifier: MIT */
/*
** A product of matrices in half types on tensor cores, c = epilogue(sign f fixed + a b), a tile of
** 64 x 128 a block: three stages of 32 steps each come through shared memory while another one is
** multiplied.
**
** `fixed` are signs of one bit each: they become the registers that the tensor cores take as they
** are needed, as +-1, and the factor `sign` follows the sum, as on the CPU (core/cpu/gemm_signs.c).
** From a seed the bits of a stage are 32 Philox blocks, one for each thread of a warp, the warps
** taking turns: they go into shared memory and never through that of the device.
*/
#ifndef RIDGE_GPU_TILE_CUH
#define RIDGE_GPU_TILE_CUH

#include "gpu/mma.cuh"
#include "gpu/tile_epilogue.cuh"

enum {
  RG_TILE_THREADS = 128, /* four warps, each with 32 x 64 of the tile */
  RG_TILE_ROWS = 64,
  RG_TILE_COLS = 128,
  RG_TILE_STEP = 32,
  RG_TILE_STAGES = 3,
  RG_TILE_PITCH = RG_TILE_STEP + 8,   /* of rows that are steps long */
  RG_TILE_A_PITCH = RG_TILE_ROWS + 8, /* of steps that are rows of a transposed a */
  RG_TILE_B_PITCH = RG_TILE_COLS + 8, /* of steps that are rows of b */
  RG_TILE_END_PITCH = RG_TILE_COLS + 4,
  RG_TILE_A = RG_TILE_ROWS * RG_TILE_PITCH,
  RG_TILE_B = RG_TILE_COLS * RG_TILE_PITCH, /* the larger of both ways to keep b */
  RG_TILE_STAGE = RG_TILE_A + RG_TILE_B,
  RG_TILE_BYTES = RG_TILE_STAGES * RG_TILE_STAGE * 2
};

/* Rows of a and b are at multiples of 16 bytes and whole eights long, in memory: a
** transposed a has a row for each step, a transposed b one for each column of the product.  What
** meets the signs, f, is not transposed. */
struct rg_tiled {
  const void *a, *b;
  int64_t a_row, b_row; /* in elements */
  int64_t m;
  int n;
  int k;
  int k_fixed;        /* 0: no signs */
  int64_t f_at, a_at; /* columns of `a` that meet the signs, and b, from these on */
  const uint8_t *bits;
  int64_t bits_row;    /* bytes */
  const int64_t *seed; /* of the signs instead of bits */
  uint32_t matrix;     /* and which of them */
  float sign;
  int split; /* 1: the products go side by side, a b first, and each has n columns */
  rg_epilogue epilogue;
};

/* -- Stages ---------------------------------------------------------------------------------- */

/* `at`: where in a row of `a` the first of k steps is. */
template <bool TRANSPOSED, class T>
static __device__ inline void rg_tile_bring_a(T *to, const rg_tiled &w, int64_t row0, int64_t at,
                                              int k0, int k)
{
  constexpr int WIDTH = TRANSPOSED ? RG_TILE_ROWS : RG_TILE_STEP;
  constexpr int PITCH = TRANSPOSED ? RG_TILE_A_PITCH : RG_TILE_PITCH;
  int64_t first_row = TRANSPOSED ? k0 : row0, first = TRANSPOSED ? row0 : k0;
  int64_t rows = TRANSPOSED ? k : w.m, cols = TRANSPOSED ? w.m : k;
  const T *from = (const T *)w.a;

#pragma unroll
  for (int i = 0; i < RG_TILE_ROWS * RG_TILE_STEP / 8 / RG_TILE_THREADS; i++) {
    int c = i * RG_TILE_THREADS + (int)threadIdx.x;
    int row = c / (WIDTH / 8), col = c % (WIDTH / 8) * 8;
    bool there = first_row + row < rows && first + col < cols;

    rg_copy16(to + row * PITCH + col,
              there ? from + (first_row + row) * w.a_row + at + first + col : from, there);
  }
}

template <bool TRANSPOSED, class T>
static __device__ inline void rg_tile_bring_b(T *to, const rg_tiled &w, int col0, int k0)
{
  constexpr int WIDTH = TRANSPOSED ? RG_TILE_STEP : RG_TILE_COLS;
  constexpr int PITCH = TRANSPOSED ? RG_TILE_PITCH : RG_TILE_B_PITCH;
  int row0 = TRANSPOSED ? col0 : k0, first = TRANSPOSED ? k0 : col0;
  int rows = TRANSPOSED ? w.n : w.k, cols = TRANSPOSED ? w.k : w.n;
  const T *from = (const T *)w.b;

#pragma unroll
  for (int i = 0; i < RG_TILE_COLS * RG_TILE_STEP / 8 / RG_TILE_THREADS; i++) {
    int c = i * RG_TILE_THREADS + (int)threadIdx.x;
    int row = c / (WIDTH / 8), col = c % (WIDTH / 8) * 8;
    bool there = row0 + row < rows && first + col < cols;

    rg_copy16(to + row * PITCH + col, there ? from + (row0 + row) * w.b_row + first + col : from,
              there);
  }
}

/* 32 steps of four words; what lies behind the last step or column is multiplied by zeros or
** goes nowhere. */
static __device__ inline void rg_tile_bring_bits(uint32_t *to, const rg_tiled &w, int col0, int k0)
{
  int row = (int)threadIdx.x / 4, word = (int)threadIdx.x % 4;
  int64_t at = (k0 + row) * w.bits_row + col0 / 8 + word * 4;
  int left = k0 + row < w.k_fixed ? (w.n + 7) / 8 - col0 / 8 - word * 4 : 0; /* bytes there are */
  uint32_t *into = to + row * 4 + word;

  if ((uintptr_t)(w.bits + at) % 4 == 0 && left >= 4) {
    rg_copy4(into, w.bits + at, true);
    return;
  }
  uint32_t bits = 0;

#pragma unroll
  for (int i = 0; i < 4; i++) {
    bits |= i < left ? (uint32_t)w.bits[at + i] << (8 * i) : 0;
  }
  *into = bits;
}

/* The same from a seed, by one warp: a tile is as wide as a block of signs. */
static __device__ inline void rg_tile_make_bits(uint32_t *to, uint64_t seed, uint32_t matrix,
                                                int col0, int k0)
{
  int row = (int)threadIdx.x % 32;
  uint32_t x[4];

  rg_draw_signs(seed, matrix, (uint32_t)(k0 + row), (uint32_t)(col0 / RG_SIGNS_A_BLOCK), x);
  *(uint4 *)(to + row * 4) = uint4{ x[0], x[1], x[2], x[3] };
}

/* -- Products -------------------------------------------------------------------------------- */

template <bool A_TRANSPOSED, bool TRANSPOSED, class T, class S>
static __device__ inline void rg_tile_multiply(const T *a, const T *b, int warp_row, int warp_col,
                                               S (&sum)[2][RG_TILE_COLS / 16][4])
{
#pragma unroll
  for (int l = 0; l < RG_TILE_STEP; l += 16) {
    uint32_t left[2][4];

#pragma unroll
    for (int i = 0; i < 2; i++) {
      int row = warp_row + i * 16;

      if (A_TRANSPOSED) {
        rg_left<true>(left[i], a + l * RG_TILE_A_PITCH + row, RG_TILE_A_PITCH);
      } else {
        rg_left<false>(left[i], a + row * RG_TILE_PITCH + l, RG_TILE_PITCH);
      }
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
      int col = warp_col + j * 16;
      uint32_t right[4];

      if (TRANSPOSED) {
        rg_right<true>(right, b + col * RG_TILE_PITCH + l, RG_TILE_PITCH);
      } else {
        rg_right<false>(right, b + l * RG_TILE_B_PITCH + col, RG_TILE_B_PITCH);
      }
#pragma unroll
      for (int i = 0; i < 2; i++) {
        rg_mma(T(), sum[i][2 * j], left[i], right);
        rg_mma(T(), sum[i][2 * j + 1], left[i], right + 2);
      }
    }
  }
}

/* One as both halves of a register. */
static __device__ inline uint32_t rg_ones(__nv_bfloat16)
{
  return 0x3f803f80u;
}
static __device__ inline uint32_t rg_ones(__half)
{
  return 0x3c003c00u;
}

/* Minus one where the top bit of byte `at` of low (high) is not set, as the low (high) half. */
template <class T>
static __device__ inline uint32_t rg_signs_of(uint32_t low, uint32_t high, int at)
{
  uint32_t chosen = __byte_perm(low, high, (uint32_t)(at << 4 | (at + 4) << 12));

  return (~chosen & 0x80008000u) | rg_ones(T());
}

/* The same with signs: lane l needs column l / 4 of each eight, in steps 2 (l % 4), the next, and
** both 8 further. */
template <class T>
static __device__ inline void rg_tile_multiply_signs(const T *a, const uint32_t *bits, int warp_col,
                                                     float (&sum)[2][RG_TILE_COLS / 16][4])
{
  int lane = RG_MMA_LANE, up = 7 - lane / 4;

#pragma unroll
  for (int l = 0; l < RG_TILE_STEP; l += 16) {
    uint32_t left[2][4];
    uint32_t x[4][2]; /* this lane's column of each eight in the top bit of a byte */

    rg_left<false>(left[0], a + l, RG_TILE_PITCH);
    rg_left<false>(left[1], a + 16 * RG_TILE_PITCH + l, RG_TILE_PITCH);
#pragma unroll
    for (int r = 0; r < 4; r++) {
      int step = l + lane % 4 * 2 + r % 2 + r / 2 * 8;
      uint2 words = *(const uint2 *)(bits + step * 4 + warp_col / 32);

      x[r][0] = words.x << up;
      x[r][1] = words.y << up;
    }
#pragma unroll
    for (int j = 0; j < 8; j++) {
      uint32_t right[2] = { rg_signs_of<T>(x[0][j / 4], x[1][j / 4], j % 4),
                            rg_signs_of<T>(x[2][j / 4], x[3][j / 4], j % 4) };

      rg_mma(T(), sum[0][j], left[0], right);
      rg_mma(T(), sum[1][j], left[1], right);
    }
  }
}

/* -- The end --------------------------------------------------------------------------------- */

/* By way of shared memory, so that eight columns go out together: epilogue(row, column, n, eight
** sums), n of them there.  Whole sums become floats here. */
template <class S, class E>
static __device__ inline void
rg_tile_epilogue(float *room, const rg_tiled &w, S (&sum)[2][RG_TILE_COLS / 16][4], int warp_row,
                 int warp_col, int64_t row0, int col0, const E &epilogue)
{
  int lane = RG_MMA_LANE;

  __syncthreads(); /* all are done with the last stage */
#pragma unroll
  for (int i = 0; i < 2; i++) {
#pragma unroll
    for (int j = 0; j < RG_TILE_COLS / 16; j++) {
#pragma unroll
      for (int r = 0; r < 2; r++) {
        int row = warp_row + i * 16 + lane / 4 + r * 8;
        int col = warp_col + j * 8 + lane % 4 * 2;

        *(float2 *)(room + row * RG_TILE_END_PITCH + col) =
            float2{ (float)sum[i][j][2 * r], (float)sum[i][j][2 * r + 1] };
      }
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int c = (int)threadIdx.x; c < RG_TILE_ROWS * RG_TILE_COLS / 8; c += RG_TILE_THREADS) {
    int row = c / (RG_TILE_COLS / 8), col = c % (RG_TILE_COLS / 8) * 8;
    int n = w.n - col0 - col < 8 ? w.n - col0 - col : 8;

    if (row0 + row < w.m && n > 0) {
      const float4 *from = (const float4 *)(room + row * RG_TILE_END_PITCH + col);
      float4 x = from[0], y = from[1];
      float v[8] = { x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w };

      epilogue(row0 + row, col0 + col, n, v);
    }
  }
}

/* -- The whole tile ---------------------------------------------------------------------------- */

/* Block x is of rows, y of columns (with `split` those of the second product follow).  room: of
** RG_TILE_BYTES.  SEED: the signs are made, not brought. */
template <bool A_TRANSPOSED, bool TRANSPOSED, bool SEED, class T>
static __device__ inline void rg_tile_product(T *room, const rg_tiled &w)
{
  static_assert((int)RG_TILE_COLS == (int)RG_SIGNS_A_BLOCK && RG_TILE_STEP == 32,
                "a stage of signs is a block for each thread of a warp");
  int tiles = (w.n + RG_TILE_COLS - 1) / RG_TILE_COLS;
  bool second = (int)blockIdx.y >= tiles; /* by `split` alone */
  int col0 = ((int)blockIdx.y - (second ? tiles : 0)) * RG_TILE_COLS;
  int64_t row0 = (int64_t)blockIdx.x * RG_TILE_ROWS;
  int warp = (int)threadIdx.x / 32;
  int warp_row = warp / 2 * 32, warp_col = warp % 2 * (RG_TILE_COLS / 2);
  int k_fixed = w.split != 0 && !second ? 0 : w.k_fixed;
  int n_fixed = (k_fixed + RG_TILE_STEP - 1) / RG_TILE_STEP;
  int steps = n_fixed + (second ? 0 : (w.k + RG_TILE_STEP - 1) / RG_TILE_STEP);
  float sum[2][RG_TILE_COLS / 16][4] = {};
  uint64_t seed = SEED ? (uint64_t)*w.seed : 0;
  auto bring = [&](int s) {
    T *stage = room + s % RG_TILE_STAGES * RG_TILE_STAGE;

    if (s < n_fixed) {
      rg_tile_bring_a<false>(stage, w, row0, w.f_at, s * RG_TILE_STEP, k_fixed);
      if (!SEED) {
        rg_tile_bring_bits((uint32_t *)(stage + RG_TILE_A), w, col0, s * RG_TILE_STEP);
      } else if (s % (RG_TILE_THREADS / 32) == warp) {
        rg_tile_make_bits((uint32_t *)(stage + RG_TILE_A), seed, w.matrix, col0, s * RG_TILE_STEP);
      }
    } else if (s < steps) {
      rg_tile_bring_a<A_TRANSPOSED>(stage, w, row0, w.a_at, (s - n_fixed) * RG_TILE_STEP, w.k);
      rg_tile_bring_b<TRANSPOSED>(stage + RG_TILE_A, w, col0, (s - n_fixed) * RG_TILE_STEP);
    }
    rg_copy_commit();
  };

  bring(0);
  bring(1);
  for (int s = 0; s < steps; s++) {
    const T *a = room + s % RG_TILE_STAGES * RG_TILE_STAGE, *b = a + RG_TILE_A;

    rg_copy_wait<1>();
    __syncthreads(); /* stage s is there, and all are done with the one before */
    bring(s + 2);
    if (s < n_fixed) {
      rg_tile_multiply_signs(a + warp_row * RG_TILE_PITCH, (const uint32_t *)b, warp_col, sum);
    } else {
      rg_tile_multiply<A_TRANSPOSED, TRANSPOSED>(a, b, warp_row, warp_col, sum);
    }
    if (s + 1 == n_fixed) {
#pragma unroll
      for (int i = 0; i < 2 * RG_TILE_COLS / 16; i++) {
#pragma unroll
        for (int l = 0; l < 4; l++) {
          sum[i / (RG_TILE_COLS / 16)][i % (RG_TILE_COLS / 16)][l] *= w.sign;
        }
      }
    }
  }
  rg_copy_wait<0>();
  rg_tile_epilogue((float *)room, w, sum, warp_row, warp_col, row0, col0,
                   [&](int64_t row, int64_t col, int n, float v[8]) {
                     rg_epilogue_eight(w.epilogue, row, (second ? w.n : 0) + col, n, v);
                   });
}

#endif
