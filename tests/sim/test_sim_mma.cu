// SPDX-License-Identifier: MIT
//
// Kernels on tensor cores for the simulator's own tests, right ones and wrong ones, written by the
// layouts of the PTX manual. nvcc compiles them too.
#include "gpu/mma.cuh"
#include "test_sim.h"

// -- Right ------------------------------------------------------------------------------

template <class T> static __device__ T half_of(float x);
template <> __device__ __half half_of(float x)
{
  return __float2half_rn(x);
}
template <> __device__ __nv_bfloat16 half_of(float x)
{
  return __float2bfloat16_rn(x);
}

// One warp.
template <class T, int HOW> __global__ void k_product16(float *y, const float *x, const float *z)
{
  RG_SHARED(T, left, 16 * 24);
  RG_SHARED(T, right, 16 * 24);
  const T kind = half_of<T>(0);
  int lane = threadIdx.x, g = lane / 4, q = lane % 4 * 2;
  uint32_t a[4], b[4];
  float c[4] = {};
  for (int i = lane; i < 16 * 24; i += 32)
    left[i] = right[i] = half_of<T>(0);
  __syncwarp();
  for (int i = lane; i < 256; i += 32)
    left[HOW == BY_TRANSPOSED_TILES ? i % 16 * 24 + i / 16 : i / 16 * 24 + i % 16] =
        half_of<T>(x[i]);
  for (int i = lane; i < 128; i += 32) {
    int row = i / 8, col = i % 8;
    right[HOW == BY_TRANSPOSED_TILES ? col * 24 + row : row * 24 + col] = half_of<T>(z[i]);
  }
  __syncwarp();
  if (HOW == BY_LAYOUT) {
    for (int i = 0; i < 4; i++) {
      const float *from = x + (g + i % 2 * 8) * 16 + q + i / 2 * 8;
      a[i] = rg_pair(kind, from[0], from[1]);
    }
    for (int i = 0; i < 2; i++) {
      const float *from = z + (q + i * 8) * 8 + g;
      b[i] = rg_pair(kind, from[0], from[8]);
    }
  } else {
    rg_left<HOW == BY_TRANSPOSED_TILES>(a, left, 24);
    rg_right<HOW == BY_TRANSPOSED_TILES>(b, right, 24);
  }
  rg_mma(kind, c, a, b);
  for (int i = 0; i < 4; i++)
    y[(g + i / 2 * 8) * 8 + q + i % 2] = c[i];
}

// One warp, TF32, by the layout of the manual, with factors rounded or as they are.
template <bool ROUNDED> __global__ void k_product8(float *y, const float *x, const float *z)
{
  int lane = threadIdx.x, g = lane / 4, q = lane % 4;
  uint32_t a[4], b[2];
  float c[4] = {};
  auto bits = [](float v) { return ROUNDED ? rg_tf32(v) : __float_as_uint(v); };
  for (int i = 0; i < 4; i++)
    a[i] = bits(x[(g + i % 2 * 8) * 8 + q + i / 2 * 4]);
  for (int i = 0; i < 2; i++)
    b[i] = bits(z[(q + i * 4) * 8 + g]);
  rg_mma(float(), c, a, b);
  for (int i = 0; i < 4; i++)
    y[(g + i / 2 * 8) * 8 + q * 2 + i % 2] = c[i];
}

// One warp, bytes: by the layout of the manual, or as tiles in which b lies by columns.
template <int HOW> __global__ void k_product32(int *y, const int8_t *x, const int8_t *z)
{
  RG_SHARED(rg_bytes, left, 16 * 24);
  RG_SHARED(rg_bytes, right, 16 * 24);
  int lane = threadIdx.x, g = lane / 4, q = lane % 4 * 4;
  uint32_t a[4] = {}, b[4] = {};
  int32_t c[4] = { 1, 2, 3, 4 };
  for (int i = lane; i < 16 * 24; i += 32)
    left[i] = right[i] = rg_bytes{ { 0, 0 } };
  __syncwarp();
  for (int i = lane; i < 512; i += 32)
    left[i / 32 * 24 + i % 32 / 2].v[i % 2] = x[i];
  __syncwarp();
  for (int i = lane; i < 128; i += 32) {
    int col = i % 8, row = i / 8 * 2;
    right[col * 24 + row / 2] = rg_bytes{ { z[row * 8 + col], z[row * 8 + 8 + col] } };
  }
  __syncwarp();
  if (HOW == BY_LAYOUT) {
    for (int i = 0; i < 16; i++)
      a[i / 4] |= static_cast<uint32_t>(
                      static_cast<uint8_t>(x[(g + i / 4 % 2 * 8) * 32 + q + i % 4 + i / 8 * 16]))
                  << (i % 4 * 8);
    for (int i = 0; i < 8; i++)
      b[i / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(z[(q + i % 4 + i / 4 * 16) * 8 + g]))
                  << (i % 4 * 8);
  } else {
    rg_left<false>(a, left, 24);
    rg_right<true>(b, right, 24);
  }
  rg_mma(rg_bytes(), c, a, b);
  for (int i = 0; i < 4; i++)
    y[(g + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i];
}

template <bool TRANSPOSED> __global__ void k_tiles(unsigned *y)
{
  RG_SHARED(uint16_t, x, 256);
  uint32_t r[4];
  for (int i = threadIdx.x; i < 256; i += 32)
    x[i] = static_cast<uint16_t>(i);
  __syncwarp();
  rg_tiles<TRANSPOSED>(r, x + threadIdx.x * 8);
  for (int i = 0; i < 4; i++)
    y[threadIdx.x * 4 + i] = r[i];
}

// 128 threads, 512 numbers at a time; a thread reads what another one has copied.
template <bool WAIT, bool BARRIER> __global__ void k_pipeline(float *y, const float *x, int n)
{
  RG_SHARED(float, room, 2 * 512);
  int t = threadIdx.x;
  rg_copy16(room + t * 4, x + t * 4, true);
  rg_copy_commit();
  for (int at = 0, stage = 0; at < n; at += 512, stage ^= 1) {
    bool more = at + 512 < n;
    rg_copy16(room + (stage ^ 1) * 512 + t * 4, more ? x + at + 512 + t * 4 : x, more);
    rg_copy_commit();
    if (WAIT) rg_copy_wait<1>();
    __syncthreads();
    for (int i = 0; i < 4; i++) {
      int j = (t + 1) % 128 * 4 + i;
      y[at + j] = 2.0f * room[stage * 512 + j];
    }
    if (BARRIER) __syncthreads();
  }
  rg_copy_wait<0>();
}

// -- Wrong ------------------------------------------------------------------------------

__global__ void k_half_a_product(float *y)
{
  uint32_t a[4] = {}, b[2] = {};
  float c[4] = {};
  if (threadIdx.x < 16) {
    rg_mma(__float2half_rn(0), c, a, b);
  } else {
    __syncwarp(0xffff0000u);
    __syncthreads();
  }
  y[threadIdx.x] = c[0];
}

__global__ void k_two_products(float *y)
{
  RG_SHARED(uint16_t, x, 256);
  uint32_t a[4] = {}, b[2] = {};
  float c[4] = {};
  if (threadIdx.x < 16) {
    rg_mma(__float2half_rn(0), c, a, b);
  } else {
    rg_tiles<false>(a, x + threadIdx.x * 8);
  }
  y[threadIdx.x] = c[0];
}

__global__ void k_crooked_tile(float *y)
{
  RG_SHARED(uint16_t, x, 512);
  uint32_t r[4];
  rg_tiles<false>(r, x + threadIdx.x * 12);
  y[threadIdx.x] = static_cast<float>(r[0]);
}

__global__ void k_crooked_copy(float *y)
{
  RG_SHARED(float, x, 8);
  rg_copy16(x + 1, y, true);
  rg_copy_commit();
  rg_copy_wait<0>();
}

__global__ void k_forgotten_copy(float *y)
{
  RG_SHARED(float, x, 4);
  rg_copy16(x, y, threadIdx.x == 0);
  rg_copy_commit();
}

// -- Functions of the host ------------------------------------------------------------------

template <class T>
static cudaError_t product_of(float *c, const float *a, const float *b, int how, cudaStream_t s)
{
  return rg_launch(how == BY_LAYOUT  ? k_product16<T, BY_LAYOUT>
                   : how == BY_TILES ? k_product16<T, BY_TILES>
                                     : k_product16<T, BY_TRANSPOSED_TILES>,
                   { dim3(1), dim3(32), 0, s }, c, a, b);
}

cudaError_t test_product(float *c, const float *a, const float *b, bool brain, int how,
                         cudaStream_t s)
{
  return brain ? product_of<__nv_bfloat16>(c, a, b, how, s) : product_of<__half>(c, a, b, how, s);
}

cudaError_t test_tf32(float *c, const float *a, const float *b, bool rounded, cudaStream_t s)
{
  return rg_launch(rounded ? k_product8<true> : k_product8<false>, { dim3(1), dim3(32), 0, s }, c,
                   a, b);
}

cudaError_t test_bytes(int *c, const int8_t *a, const int8_t *b, int how, cudaStream_t s)
{
  return rg_launch(how == BY_LAYOUT ? k_product32<BY_LAYOUT> : k_product32<BY_TILES>,
                   { dim3(1), dim3(32), 0, s }, c, a, b);
}

cudaError_t test_tiles(unsigned *r, bool transposed, cudaStream_t s)
{
  return rg_launch(transposed ? k_tiles<true> : k_tiles<false>, { dim3(1), dim3(32), 0, s }, r);
}

cudaError_t test_pipeline(float *y, const float *x, int n, bool wait, bool barrier, cudaStream_t s)
{
  return rg_launch(!wait     ? k_pipeline<false, true>
                   : barrier ? k_pipeline<true, true>
                             : k_pipeline<true, false>,
                   { dim3(1), dim3(128), 0, s }, y, x, n);
}

cudaError_t test_tensor_mistake(int which, float *y, cudaStream_t s)
{
  rg_launch_cfg warp = { dim3(1), dim3(32), 0, s };
  switch (which) {
  case HALF_A_PRODUCT:
    return rg_launch(k_half_a_product, warp, y);
  case TWO_PRODUCTS:
    return rg_launch(k_two_products, warp, y);
  case CROOKED_TILE:
    return rg_launch(k_crooked_tile, warp, y);
  case CROOKED_COPY:
    return rg_launch(k_crooked_copy, warp, y);
  case FORGOTTEN_COPY:
    return rg_launch(k_forgotten_copy, warp, y);
  default:
    return cudaErrorInvalidValue;
  }
}
