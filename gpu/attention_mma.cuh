/* SPDX-License-Identifier: MIT */
/*
** Tiles of attention on tensor cores: heads in half types, or in f32 whose factors are rounded to
** TF32, brought into shared memory by copies that go on beside the products.
**
** A block is four warps, each with 16 of the block's 64 rows.  Heads are padded with zeros to the
** D columns that a kernel is made for, and 16 bytes more keep the rows of a tile in different
** banks.
*/
#ifndef RIDGE_GPU_ATTENTION_MMA_CUH
#define RIDGE_GPU_ATTENTION_MMA_CUH

#include <math.h>

#include "gpu/attention.cuh"
#include "gpu/attention_drop.cuh"
#include "gpu/mma.cuh"

enum { RG_ATT_WARPS = 4, RG_ATT_THREADS = 128, RG_ATT_ROWS = 64 };

/* Elements of 16 bytes, and of a tile's row. */
template <class T> constexpr int rg_att_vec = 16 / (int)sizeof(T);
template <class T, int D> constexpr int rg_att_pitch = D + rg_att_vec<T>;

#define RG_LOG2E 1.44269504088896341f

/* One head of a tensor: rows of `cols` neighbouring elements, `row` elements apart. */
template <class T> struct rg_att_head {
  T *data;
  int64_t row;
  int rows, cols;
};

template <class T>
static __device__ inline rg_att_head<T> rg_att_head_of(const rg_strided &x, int64_t head)
{
  int32_t n = x.ndim;
  int64_t at = 0;

  for (int32_t d = n - 3; d >= 0; d--) {
    at += head % x.shape[d] * x.stride[d];
    head /= x.shape[d];
  }
  return rg_att_head<T>{ (T *)x.data + at, x.stride[n - 2], (int)x.shape[n - 2],
                         (int)x.shape[n - 1] };
}

/* ROWS rows from row0 on, zeros where x has ended; the copies are a part of the open group. */
template <int D, int ROWS, class T>
static __device__ inline void rg_att_bring(T *to, const rg_att_head<const T> &x, int row0)
{
  constexpr int VEC = rg_att_vec<T>;

#pragma unroll
  for (int c = (int)threadIdx.x; c < ROWS * D / VEC; c += RG_ATT_THREADS) {
    int row = c / (D / VEC), col = c % (D / VEC) * VEC;
    bool there = row0 + row < x.rows && col < x.cols;

    rg_copy16(to + row * rg_att_pitch<T, D> + col,
              there ? x.data + (row0 + row) * x.row + col : x.data, there);
  }
}

/* sum[COLS / 8 tiles of 16 x 8] = a b' for the 16 rows that `a` begins with and COLS rows of b.
** STEPS of the inner sum are written out side by side: more of them want more registers. */
template <int D, int COLS, int STEPS, class T>
static __device__ inline void rg_att_multiply(const T *a, const T *b, float sum[COLS / 8][4])
{
  constexpr int PITCH = rg_att_pitch<T, D>;

#pragma unroll
  for (int j = 0; j < COLS / 8; j++) {
    sum[j][0] = sum[j][1] = sum[j][2] = sum[j][3] = 0;
  }
#pragma unroll(STEPS)
  for (int l = 0; l < D / 16; l++) {
    uint32_t left[4];

    rg_left<false>(left, a + l * 16, PITCH);
#pragma unroll
    for (int j = 0; j < COLS / 16; j++) {
      uint32_t right[4];

      rg_right<true>(right, b + j * 16 * PITCH + l * 16, PITCH);
      rg_mma(T(), sum[2 * j], left, right);
      rg_mma(T(), sum[2 * j + 1], left, right + 2);
    }
  }
}

/* The same in TF32: of each factor a lane reads single floats, from 32 different banks, since the
** pitch is 4 past a multiple of 32. */
template <int D, int COLS, int STEPS>
static __device__ inline void rg_att_multiply(const float *a, const float *b,
                                              float sum[COLS / 8][4])
{
  constexpr int PITCH = rg_att_pitch<float, D>;
  const int at = RG_MMA_LANE / 4 * PITCH + RG_MMA_LANE % 4;

#pragma unroll
  for (int j = 0; j < COLS / 8; j++) {
    sum[j][0] = sum[j][1] = sum[j][2] = sum[j][3] = 0;
  }
#pragma unroll(STEPS)
  for (int l = 0; l < D / 8; l++) {
    const float *x = a + at + l * 8, *y = b + at + l * 8;
    const uint32_t left[4] = { rg_tf32(x[0]), rg_tf32(x[8 * PITCH]), rg_tf32(x[4]),
                               rg_tf32(x[8 * PITCH + 4]) };

#pragma unroll
    for (int j = 0; j < COLS / 8; j++) {
      const uint32_t right[2] = { rg_tf32(y[j * 8 * PITCH]), rg_tf32(y[j * 8 * PITCH + 4]) };

      rg_mma(float(), sum[j], left, right);
    }
  }
}

/* Sixteen columns of weights, two tiles of a product, as the left factor of the next one. */
template <class T>
static __device__ inline void rg_att_left(uint32_t a[4], const float x[4], const float y[4])
{
  a[0] = rg_pair(T(), x[0], x[1]);
  a[1] = rg_pair(T(), x[2], x[3]);
  a[2] = rg_pair(T(), y[0], y[1]);
  a[3] = rg_pair(T(), y[2], y[3]);
}

/* sum[D / 8 tiles] += weights[16 x COLS] times COLS rows of x. */
template <int D, int COLS, class T>
static __device__ inline void rg_att_add(const float weights[COLS / 8][4], const T *x,
                                         float sum[D / 8][4])
{
  constexpr int PITCH = rg_att_pitch<T, D>;

#pragma unroll
  for (int l = 0; l < COLS / 16; l++) {
    uint32_t left[4];

    rg_att_left<T>(left, weights[2 * l], weights[2 * l + 1]);
#pragma unroll
    for (int j = 0; j < D / 16; j++) {
      uint32_t right[4];

      rg_right<false>(right, x + l * 16 * PITCH + j * 16, PITCH);
      rg_mma(T(), sum[2 * j], left, right);
      rg_mma(T(), sum[2 * j + 1], left, right + 2);
    }
  }
}

/* The same in TF32.  A lane has columns 2 q and 2 q + 1 of its weights where the left factor wants
** q and q + 4: the order of a sum's terms is free, so rows 2 q and 2 q + 1 of x stand there. */
template <int D, int COLS>
static __device__ inline void rg_att_add(const float weights[COLS / 8][4], const float *x,
                                         float sum[D / 8][4])
{
  constexpr int PITCH = rg_att_pitch<float, D>;
  const int at = RG_MMA_LANE % 4 * 2 * PITCH + RG_MMA_LANE / 4;

#pragma unroll
  for (int l = 0; l < COLS / 8; l++) {
    const float *y = x + at + l * 8 * PITCH;
    const uint32_t left[4] = { rg_tf32(weights[l][0]), rg_tf32(weights[l][2]),
                               rg_tf32(weights[l][1]), rg_tf32(weights[l][3]) };

#pragma unroll
    for (int j = 0; j < D / 8; j++) {
      const uint32_t right[2] = { rg_tf32(y[j * 8]), rg_tf32(y[PITCH + j * 8]) };

      rg_mma(float(), sum[j], left, right);
    }
  }
}

/* Two neighbours into shared memory. */
template <class T> static __device__ inline void rg_att_put(T *to, float x, float y)
{
  *(uint32_t *)to = rg_pair(T(), x, y);
}
static __device__ inline void rg_att_put(float *to, float x, float y)
{
  *(float2 *)to = make_float2(x, y);
}

/* A warp's 16 rows into y from row0 on, by way of shared memory that no other warp touches, so that
** 16 bytes go out at a time. */
template <int D, class T>
static __device__ inline void rg_att_store(T *room, const float sum[D / 8][4],
                                           const rg_att_head<T> &y, int row0)
{
  constexpr int VEC = rg_att_vec<T>, PITCH = rg_att_pitch<T, D>;
  int lane = RG_MMA_LANE;
  T *to = room + lane / 4 * PITCH + lane % 4 * 2;

  __syncwarp();
#pragma unroll
  for (int j = 0; j < D / 8; j++) {
    rg_att_put(to + j * 8, sum[j][0], sum[j][1]);
    rg_att_put(to + 8 * PITCH + j * 8, sum[j][2], sum[j][3]);
  }
  __syncwarp();
#pragma unroll
  for (int c = lane; c < 16 * D / VEC; c += 32) {
    int row = c / (D / VEC), col = c % (D / VEC) * VEC;

    if (row0 + row < y.rows && col < y.cols) {
      *(uint4 *)(y.data + (row0 + row) * y.row + col) = *(const uint4 *)(room + row * PITCH + col);
    }
  }
}

/* -- Masks ------------------------------------------------------------------------------------ */

/* Blocks of a mask are at least so many rows and columns: a tile of 64 by 64 then meets at most
** five of them along each axis, and a warp has a lane for each. */
enum { RG_ATT_LEAST_BLOCK = 16 };

enum rg_att_seen { RG_ATT_NONE, RG_ATT_SOME, RG_ATT_ALL };

/* What of a tile, queries q0 .. q1 - 1 by keys k0 .. k1 - 1, the mask lets through; all threads of
** a block answer alike. */
static __device__ inline rg_att_seen rg_att_look(const attention &w, int q0, int q1, int k0, int k1)
{
  if (w.mask == NULL) {
    return RG_ATT_ALL;
  }
  const int block = (int)w.block, lane = RG_MMA_LANE;
  const int row = q0 / block, col = k0 / block;
  const int rows = (q1 - 1) / block - row + 1, cols = (k1 - 1) / block - col + 1;
  const bool there = lane < rows * cols;
  const bool sees =
      there && w.mask[(row + lane / cols) * w.mask_row + (col + lane % cols) * w.mask_col] != 0;

  return !__any_sync(0xffffffffu, sees)            ? RG_ATT_NONE
         : __all_sync(0xffffffffu, sees || !there) ? RG_ATT_ALL
                                                   : RG_ATT_SOME;
}

/* Does query i see key j, both of them there? */
static __device__ inline bool rg_att_sees(const attention &w, int i, int j)
{
  const int block = (int)w.block;

  return w.mask[i / block * w.mask_row + j / block * w.mask_col] != 0;
}

/* -- Launching ------------------------------------------------------------------------------- */

/* A block for each 64 rows of each head, with so much shared memory. */
template <class... P>
static inline rg_status rg_att_over(const rg_call *call, void (*kernel)(attention, P...),
                                    const attention &w, int64_t rows, size_t bytes, P... more)
{
  int64_t blocks = (rows + RG_ATT_ROWS - 1) / RG_ATT_ROWS * w.s.heads;
  cudaStream_t stream = rg_gpu_stream(call->device);

  if (blocks > INT32_MAX) {
    return rg_gpu->fail(RG_ENOSUP, "%s: %lld heads of %lld rows are more than this kernel takes",
                        call->op->name, (long long)w.s.heads, (long long)rows);
  }
  RG_CUDA(call->op->name, rg_gpu_most_shared(call->device, (const void *)kernel));
  rg_launch_cfg cfg = { dim3((unsigned)blocks), dim3(RG_ATT_THREADS), bytes, stream };

  return rg_gpu_status(call->op->name, rg_launch(kernel, cfg, w, more...));
}

#endif
