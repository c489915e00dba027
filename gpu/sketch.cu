/* SPDX-License-Identifier: MIT */
/*
** Sketched layers with one bit a sign, as two products that expand the signs in registers:
**
**   z = x [S1|U2],   y = epilogue(z [U1;S2]),   U = +-sign.
**
** The bits are read, or made from a seed where they are needed (SEED).
**
** Or with the signs as numbers in memory, by cublasLt, which is faster where there are many rows.
**
** In bf16 and f16 on tensor cores (tile.cuh).  In f32 a block makes 128 x 64 of the result and a
** thread 8 x 8 of that: a byte of bits is a row of what it multiplies with.
*/
#include <math.h>

#include "gpu/pack.cuh"
#include "gpu/sketch.cuh"
#include "gpu/tile.cuh"

extern "C" {
#include "op/product.h"
}

/* -- Half types -------------------------------------------------------------------------------- */

template <class T, bool SEED>
__global__ void __launch_bounds__(RG_TILE_THREADS, 3) k_sketch_halves(rg_tiled w)
{
  RG_DYN_SHARED(T, room);

  rg_tile_product<false, false, SEED>(room, w);
}

/* -- f32 --------------------------------------------------------------------------------------- */

enum { THREADS = 128, ROWS = 128, COLS = 64, STEP = 16, PITCH = ROWS + 4 };

/* What a thread brings of the next step, while the one before is multiplied. */
struct coming {
  float a[STEP]; /* of row threadIdx.x */
  float b[8];    /* columns 8 (threadIdx.x % 8) .. of step threadIdx.x / 8 */
  uint32_t bits; /* or their signs; from a seed 32 of them, columns 32 (lane % 2) .. of step
                 ** lane / 2, in the lanes of one warp */
};

/* n <= 8 numbers, then zeros. */
static __device__ inline void bring_eight(float to[8], const float *from, int n)
{
  if (n >= 8 && (uintptr_t)from % 16 == 0) {
    float4 x = ((const float4 *)from)[0], y = ((const float4 *)from)[1];

    to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
    to[4] = y.x, to[5] = y.y, to[6] = y.z, to[7] = y.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; i++) {
    to[i] = i < n ? from[i] : 0.0f;
  }
}

/* Half a block of signs, the columns of this tile: two threads make the same one. */
static __device__ inline uint32_t make_bits(const rg_tiled &w, uint64_t seed, int col0, int k0)
{
  int lane = (int)threadIdx.x % 32;
  bool upper = col0 % RG_SIGNS_A_BLOCK != 0;
  uint32_t x[4];

  rg_draw_signs(seed, w.matrix, (uint32_t)(k0 + lane / 2), (uint32_t)(col0 / RG_SIGNS_A_BLOCK), x);
  return lane % 2 == 0 ? (upper ? x[2] : x[0]) : (upper ? x[3] : x[1]);
}

static __device__ inline void bring(const rg_tiled &w, coming &next, int64_t row0, int col0, int k0,
                                    bool is_signs, bool has_bits)
{
  int k = is_signs ? w.k_fixed : w.k;
  int64_t row = row0 + (int)threadIdx.x;
  const float *a =
      (const float *)w.a + (row < w.m ? row : 0) * w.a_row + (is_signs ? w.f_at : w.a_at) + k0;
  int step = k0 + (int)threadIdx.x / 8, col = col0 + (int)threadIdx.x % 8 * 8;
  bool there = step < k && col < w.n;

  bring_eight(next.a, a, row < w.m ? k - k0 : 0);
  bring_eight(next.a + 8, a + 8, row < w.m ? k - k0 - 8 : 0);
  next.bits = there && is_signs && has_bits ? w.bits[step * w.bits_row + col / 8] : 0;
  bring_eight(next.b, (const float *)w.b + (there && !is_signs ? step * w.b_row + col : 0),
              there && !is_signs ? w.n - col : 0);
}

template <bool SEED>
static __device__ inline void put(const coming &next, float *a, float *b, uint32_t *bits,
                                  bool is_maker)
{
#pragma unroll
  for (int l = 0; l < STEP; l++) {
    a[l * PITCH + (int)threadIdx.x] = next.a[l];
  }
  float4 *to = (float4 *)(b + (int)threadIdx.x / 8 * COLS + (int)threadIdx.x % 8 * 8);

  to[0] = float4{ next.b[0], next.b[1], next.b[2], next.b[3] };
  to[1] = float4{ next.b[4], next.b[5], next.b[6], next.b[7] };
  if (!SEED) {
    ((uint8_t *)bits)[threadIdx.x] = (uint8_t)next.bits;
  } else if (is_maker) {
    bits[threadIdx.x % 32] = next.bits;
  }
}

/* Eight numbers of shared memory. */
static __device__ inline void eight(float to[8], const float *from)
{
  float4 x = ((const float4 *)from)[0], y = ((const float4 *)from)[1];

  to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
  to[4] = y.x, to[5] = y.y, to[6] = y.z, to[7] = y.w;
}

template <bool SIGNS>
static __device__ inline void multiply(const float *a, const float *b, const uint8_t *bits,
                                       float sum[8][8])
{
  int row = (int)threadIdx.x / 8 * 8, col = (int)threadIdx.x % 8;

#pragma unroll 4
  for (int l = 0; l < STEP; l++) {
    float x[8], y[8];

    eight(x, a + l * PITCH + row);
    if (SIGNS) {
      uint32_t byte = ~(uint32_t)bits[l * 8 + col];

#pragma unroll
      for (int j = 0; j < 8; j++) {
        y[j] = __uint_as_float(0x3f800000u | (byte << (31 - j) & 0x80000000u));
      }
    } else {
      eight(y, b + l * COLS + col * 8);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
#pragma unroll
      for (int j = 0; j < 8; j++) {
        sum[i][j] += x[i] * y[j];
      }
    }
  }
}

/* Blocks as of rg_tile_product. */
template <bool SEED> __global__ void __launch_bounds__(THREADS, 3) k_sketch_f32(rg_tiled w)
{
  RG_SHARED(float, a, STEP *PITCH);
  RG_SHARED(float, b, STEP *COLS);
  RG_SHARED(uint32_t, bits, THREADS / 4); /* a byte for eight columns of a step */
  int tiles = (w.n + COLS - 1) / COLS;
  bool second = (int)blockIdx.y >= tiles; /* by `split` alone */
  int col0 = ((int)blockIdx.y - (second ? tiles : 0)) * COLS;
  int64_t row0 = (int64_t)blockIdx.x * ROWS;
  int n_fixed = w.split != 0 && !second ? 0 : (w.k_fixed + STEP - 1) / STEP;
  int steps = n_fixed + (second ? 0 : (w.k + STEP - 1) / STEP);
  coming next;
  float sum[8][8] = {};
  uint64_t seed = SEED ? (uint64_t)*w.seed : 0;
  int warp = (int)threadIdx.x / 32;
  auto bring_step = [&](int s) {
    bool is_signs = s < n_fixed;

    bring(w, next, row0, col0, (is_signs ? s : s - n_fixed) * STEP, is_signs, !SEED);
    if (SEED && is_signs && s % (THREADS / 32) == warp) {
      next.bits = make_bits(w, seed, col0, s * STEP);
    }
  };

  if (steps > 0) {
    bring_step(0);
  }
  for (int s = 0; s < steps; s++) {
    __syncthreads(); /* all are done with the step before */
    put<SEED>(next, a, b, bits, s % (THREADS / 32) == warp);
    __syncthreads();
    if (s + 1 < steps) {
      bring_step(s + 1);
    }
    if (s < n_fixed) {
      multiply<true>(a, b, (const uint8_t *)bits, sum);
    } else {
      multiply<false>(a, b, (const uint8_t *)bits, sum);
    }
    if (s + 1 == n_fixed) {
#pragma unroll
      for (int i = 0; i < 64; i++) {
        sum[i / 8][i % 8] *= w.sign;
      }
    }
  }
  int col = col0 + (int)threadIdx.x % 8 * 8;

#pragma unroll
  for (int i = 0; i < 8; i++) {
    int64_t row = row0 + (int)threadIdx.x / 8 * 8 + i;

    if (row < w.m && col < w.n) {
      rg_epilogue_eight(w.epilogue, row, (second ? w.n : 0) + col, w.n - col < 8 ? w.n - col : 8,
                        sum[i]);
    }
  }
}

/* -- Which ------------------------------------------------------------------------------------- */

/* All axes but the last as rows, so far apart; false where they do not lie so. */
static bool rows_of(const rg_tensor *x, int64_t *rows, int64_t *step)
{
  int32_t last = x->_ndim - 1;

  *rows = 1;
  *step = x->_shape[last];
  for (int32_t d = last - 1; d >= 0; d--) {
    if (x->_shape[d] != 1 && *rows == 1) {
      *step = x->_stride[d];
    } else if (x->_shape[d] != 1 && x->_stride[d] != *rows * *step) {
      return false;
    }
    *rows *= x->_shape[d];
  }
  return x->_shape[last] == 1 || x->_stride[last] == 1;
}

/* In half types a kernel brings eight elements at a time. */
static bool is_aligned(const rg_tensor *x, int64_t step)
{
  return (uintptr_t)x->_data % 16 == 0 && step % 8 == 0 && x->_shape[x->_ndim - 1] % 8 == 0;
}

static bool is_matrix(const rg_tensor *x, int32_t dtype)
{
  return x->_dtype == dtype && (x->_shape[1] == 1 || x->_stride[1] == 1);
}

rg_sketched rg_gpu_sketched(const rg_call *call)
{
  const rg_tensor *const *in = call->in;
  bool seed = call->op->id == RG_OP_SKETCHED_LINEAR_SEED;
  int bias = seed ? 4 : 5;
  rg_sketched w = {};

  w.s1 = in[1];
  w.s2 = in[bias - 1];
  w.u1 = seed ? NULL : in[2];
  w.u2 = seed ? NULL : in[3];
  w.seed = seed ? in[2] : NULL;
  w.bias = call->n_in > bias ? in[bias] : NULL;
  return w;
}

bool rg_gpu_sketch_fits(const rg_call *call, rg_tensor *const *out)
{
  const rg_sketched w = rg_gpu_sketched(call);
  const rg_tensor *x = call->in[0], *s1 = w.s1, *s2 = w.s2;
  int32_t dtype = out[0]->_dtype;
  bool halves = dtype == RG_BF16 || dtype == RG_F16;
  const int64_t most = 1 << 28;
  int64_t m, x_row, y_row, z_row;
  bool fits = (halves || dtype == RG_F32) && x->_dtype == dtype && is_matrix(s1, dtype) &&
              is_matrix(s2, dtype) &&
              (w.seed != NULL || (is_matrix(w.u1, RG_U8) && is_matrix(w.u2, RG_U8))) &&
              rows_of(x, &m, &x_row) && rows_of(out[0], &m, &y_row) && m > 0 && m <= most &&
              s1->_shape[0] > 0 && s1->_shape[0] <= most && s1->_shape[1] > 0 &&
              s1->_shape[1] <= 1 << 20 && s2->_shape[1] > 0 && s2->_shape[1] <= 1 << 20;

  if (fits && call->n_out > 1) {
    fits = out[1]->_dtype == dtype && rows_of(out[1], &m, &z_row) &&
           (!halves || is_aligned(out[1], z_row));
  }
  return fits && (!halves || (is_aligned(x, x_row) && is_aligned(s1, s1->_stride[0]) &&
                              is_aligned(s2, s2->_stride[0])));
}

/* -- Signs as numbers -------------------------------------------------------------------------- */

/* Rows of cols numbers: of a factor, and +-1 in the columns from `split` on or (rows) the rows
** before it. */
template <class T>
__global__ void k_sketch_expand(T *to, int64_t n_rows, int64_t cols, const T *factor,
                                int64_t factor_row, const uint8_t *bits, int64_t bits_row,
                                int64_t split, int32_t rows)
{
  const int64_t eights = cols / 8;

  for (int64_t i = RG_FIRST; i < n_rows * eights; i += RG_NEXT) {
    const int64_t row = i / eights;
    const int64_t col = i % eights * 8;
    float v[8];

    if (rows ? row < split : col >= split) {
      const uint32_t byte = bits[row * bits_row + (rows ? col : col - split) / 8];

#pragma unroll
      for (int c = 0; c < 8; c++) {
        v[c] = (byte >> c & 1) != 0 ? 1.0f : -1.0f;
      }
    } else {
      rg_unpack<T, 8>(factor, (rows ? row - split : row) * factor_row + col, v);
    }
    rg_pack_into<T, 8>(to, row * cols + col, v);
  }
}

/* In f16 sums of signs alone, not yet divided by the root of their rank, might be too large. */
bool rg_gpu_sketch_expands(const rg_call *call, rg_tensor *const *out)
{
  const int64_t enough = 128;
  const int64_t most = (int64_t)512 << 20;
  const rg_sketched w = rg_gpu_sketched(call);
  const rg_tensor *s1 = w.s1, *s2 = w.s2;
  int32_t dtype = out[0]->_dtype;
  int64_t size = dtype == RG_F32 ? 4 : 2;
  int64_t cols = s2->_shape[1];

  return rg_gpu->modes()->vendor && call->n_out == 1 && (dtype == RG_F32 || dtype == RG_BF16) &&
         rg_gpu_sketch_fits(call, out) && out[0]->_count >= enough * cols &&
         is_aligned(s1, s1->_stride[0]) && is_aligned(s2, s2->_stride[0]) &&
         2 * s1->_shape[1] * (s1->_shape[0] + cols) * size <= most;
}

template <class T>
static cudaError_t expand(const rg_call *call, const rg_sketched &w, const uint8_t *const bits[2],
                          const int64_t row[2], void *const to[2])
{
  const rg_tensor *s1 = w.s1, *s2 = w.s2;
  const int64_t half = s1->_shape[1], n_in = s1->_shape[0], n_out = s2->_shape[1];
  cudaStream_t stream = rg_gpu_stream(call->device);
  cudaError_t e =
      rg_launch(k_sketch_expand<T>, rg_over(n_in * 2 * half / 8, stream), (T *)to[0], n_in,
                2 * half, (const T *)s1->_data, s1->_stride[0], bits[0], row[0], half, 0);

  return e != cudaSuccess ? e
                          : rg_launch(k_sketch_expand<T>, rg_over(2 * half * n_out / 8, stream),
                                      (T *)to[1], 2 * half, n_out, (const T *)s2->_data,
                                      s2->_stride[0], bits[1], row[1], half, 1);
}

rg_status rg_gpu_sketch_expand(const rg_call *call, const rg_sketched &w,
                               const uint8_t *const bits[2], const int64_t row[2], void *to[2],
                               bool *taken)
{
  const int64_t half = w.s1->_shape[1];
  const int64_t size = w.s1->_dtype == RG_F32 ? 4 : 2;
  /* right factors they are, in the form that a product wants: so the part is free */
  const int64_t first = 2 * half * w.s1->_shape[0] * size;
  const int64_t bytes = first + 2 * half * w.s2->_shape[1] * size;
  char *room = (char *)rg_gpu_workspace_part(call->device, RG_PART_RIGHT, bytes);

  *taken = room != NULL;
  if (room == NULL) {
    return RG_OK;
  }
  to[0] = room;
  to[1] = room + first;
  return rg_gpu_status(call->op->name, w.s1->_dtype == RG_F32
                                           ? expand<float>(call, w, bits, row, to)
                                           : expand<__nv_bfloat16>(call, w, bits, row, to));
}

/* -- Launching --------------------------------------------------------------------------------- */

template <bool SEED> static cudaError_t start(const rg_tiled &w, rg_launch_cfg cfg, int32_t dtype)
{
  return dtype == RG_BF16  ? rg_launch(k_sketch_halves<__nv_bfloat16, SEED>, cfg, w)
         : dtype == RG_F16 ? rg_launch(k_sketch_halves<__half, SEED>, cfg, w)
                           : rg_launch(k_sketch_f32<SEED>, cfg, w);
}

static rg_status launch(const rg_call *call, const rg_tiled &w, int32_t dtype)
{
  bool halves = dtype != RG_F32;
  int64_t rows = halves ? (int)RG_TILE_ROWS : (int)ROWS;
  int64_t cols = halves ? (int)RG_TILE_COLS : (int)COLS;
  int64_t tiles = (w.n + cols - 1) / cols * (w.split != 0 ? 2 : 1);
  rg_launch_cfg cfg = { dim3((unsigned)((w.m + rows - 1) / rows), (unsigned)tiles),
                        dim3(halves ? (unsigned)RG_TILE_THREADS : (unsigned)THREADS),
                        halves ? (size_t)RG_TILE_BYTES : 0, rg_gpu_stream(call->device) };

  return rg_gpu_status(call->op->name,
                       w.seed != NULL ? start<true>(w, cfg, dtype) : start<false>(w, cfg, dtype));
}

/* The factors of both products: `factor` beside or below the signs. */
static rg_tiled product_of(const rg_tensor *factor, const rg_tensor *bits, float sign)
{
  rg_tiled w = {};

  w.b = factor->_data;
  w.b_row = factor->_stride[0];
  w.n = (int)factor->_shape[1];
  w.k = w.k_fixed = (int)factor->_shape[0];
  if (bits != NULL) {
    w.bits = (const uint8_t *)bits->_data;
    w.bits_row = bits->_stride[0];
  }
  w.sign = sign;
  w.epilogue.scale = 1;
  return w;
}

static void from_seed(rg_tiled &w, const rg_tensor *seed, uint32_t matrix)
{
  if (seed != NULL) {
    w.seed = (const int64_t *)seed->_data;
    w.matrix = matrix;
  }
}

rg_status rg_gpu_sketch(const rg_call *call, rg_tensor *const *out)
{
  const rg_sketch_args *args = (const rg_sketch_args *)call->args;
  const rg_sketched parts = rg_gpu_sketched(call);
  const rg_tensor *bias = parts.bias;
  int64_t half = parts.s1->_shape[1];
  float sign = (float)(1.0 / sqrt((double)half / args->n_terms));
  int32_t dtype = out[0]->_dtype;
  rg_tiled first = product_of(parts.s1, parts.u2, sign);
  rg_tiled second = product_of(parts.s2, parts.u1, sign);

  from_seed(first, parts.seed, RG_DRAW_U2);
  from_seed(second, parts.seed, RG_DRAW_U1);
  (void)rows_of(call->in[0], &first.m, &first.a_row);
  first.a = call->in[0]->_data;
  first.split = 1;
  first.epilogue.dtype = dtype;
  first.epilogue.cols = first.epilogue.row = 2 * half;
  if (call->n_out > 1) {
    (void)rows_of(out[1], &first.m, &first.epilogue.row);
    first.epilogue.data = out[1]->_data;
  } else {
    int64_t bytes = first.m * 2 * half * (dtype == RG_F32 ? 4 : 2);

    first.epilogue.data = rg_gpu_workspace(call->device, bytes);
    if (first.epilogue.data == NULL) {
      return rg_gpu_no_room(call->device, call->op->name, bytes);
    }
  }
  second.a = first.epilogue.data;
  second.a_row = first.epilogue.row;
  second.f_at = 0;
  second.a_at = half;
  second.epilogue.dtype = dtype;
  second.epilogue.data = out[0]->_data;
  second.epilogue.cols = second.n;
  (void)rows_of(out[0], &second.m, &second.epilogue.row);
  second.epilogue.scale = (float)(1.0 / (2.0 * args->n_terms));
  second.epilogue.act = args->act;
  second.epilogue.p = args->p;
  second.epilogue.draw = rg_drawn_by(call);
  if (bias != NULL) {
    second.epilogue.bias = bias->_data;
    second.epilogue.bias_step = bias->_stride[0];
    second.epilogue.bias_dtype = bias->_dtype;
  }
  RG_TRY(launch(call, first, dtype));
  return launch(call, second, dtype);
}
