// SPDX-License-Identifier: MIT
//
// Kernels for the simulator's own tests: right ones, and ones with a planted mistake. nvcc compiles
// them too.
#include "launch.cuh"
#include "test_sim.h"

#include <float.h>

enum { BLOCK = 256, WARPS = BLOCK / 32 };
#define FULL 0xffffffffu

// -- Right ------------------------------------------------------------------------------

__global__ void k_add(float *y, const float *a, const float *b, int n)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a[i] + b[i];
}

__global__ void k_scale(float *y, float factor, int n)
{
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    y[i] *= factor;
  }
}

template <bool BARRIER> __global__ void k_block_sum(float *y, const float *x)
{
  RG_SHARED(float, part, BLOCK);
  int t = threadIdx.x;
  part[t] = x[blockIdx.x * BLOCK + t];
  if (BARRIER) __syncthreads();
  for (int step = BLOCK / 2; step > 0; step /= 2) {
    if (t < step) part[t] += part[t + step];
    if (BARRIER) __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = part[0];
}

__global__ void k_warp_sum(float *sums, float *maxima, const float *x)
{
  int i = blockIdx.x * 32 + threadIdx.x;
  float sum = rg_warp_sum(x[i]), maximum = rg_warp_max(x[i]);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = sum;
    maxima[blockIdx.x] = maximum;
  }
}

// A row for each block: maximum and sum in one pass, over lanes, then over warps.
template <bool BARRIER>
__global__ void __launch_bounds__(BLOCK)
    k_softmax(float *__restrict__ y, const float *__restrict__ x, int cols)
{
  RG_SHARED(float, maxima, WARPS);
  RG_SHARED(float, sums, WARPS);
  const float *from = x + static_cast<long>(blockIdx.x) * cols;
  float *to = y + static_cast<long>(blockIdx.x) * cols;
  float m = -FLT_MAX, s = 0.0f;
  for (int c = threadIdx.x; c < cols; c += BLOCK) {
    float larger = fmaxf(m, from[c]);
    s = s * __expf(m - larger) + __expf(from[c] - larger);
    m = larger;
  }
  float of_warp = rg_warp_max(m);
  s = rg_warp_sum(s * __expf(m - of_warp));
  if (threadIdx.x % 32 == 0) {
    maxima[threadIdx.x / 32] = of_warp;
    sums[threadIdx.x / 32] = s;
  }
  if (BARRIER) __syncthreads();
  float of_row = -FLT_MAX, total = 0.0f;
#pragma unroll
  for (int w = 0; w < WARPS; w++)
    of_row = fmaxf(of_row, maxima[w]);
#pragma unroll
  for (int w = 0; w < WARPS; w++)
    total += sums[w] * __expf(maxima[w] - of_row);
  for (int c = threadIdx.x; c < cols; c += BLOCK)
    to[c] = __expf(from[c] - of_row) / total;
}

__global__ void k_reverse(float *y, const float *x)
{
  RG_DYN_SHARED(float, copy);
  copy[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = copy[blockDim.x - 1 - threadIdx.x];
}

__global__ void k_votes(votes *out)
{
  int t = threadIdx.x, lane = t % 32;
  votes v;
  v.ballot = __ballot_sync(FULL, lane % 3 == 0);
  v.match = __match_any_sync(FULL, lane / 8);
  v.add = __reduce_add_sync(FULL, static_cast<unsigned>(lane));
  v.any = __any_sync(FULL, t == 5) != 0;
  v.all = __all_sync(FULL, t < 32) != 0;
  v.max = __reduce_max_sync(FULL, -t);
  v.count = __syncthreads_count(t % 4 == 0);
  v.block_or = __syncthreads_or(t == 63) != 0;
  v.block_and = __syncthreads_and(t < 63) != 0;
  v.up = __shfl_up_sync(FULL, t, 3);
  v.down = __shfl_down_sync(FULL, t, 3, 16);
  v.broadcast = __shfl_sync(FULL, t, 7, 8);
  out[t] = v;
}

// Both halves of a warp are in different operations at the same time.
__global__ void k_halves(unsigned *y)
{
  unsigned t = threadIdx.x;
  if (t < 16) {
    unsigned sum = t;
    for (int i = 8; i > 0; i /= 2)
      sum += __shfl_xor_sync(0x0000ffffu, sum, i);
    y[t] = sum;
  } else {
    y[t] = __ballot_sync(0xffff0000u, t % 2);
  }
  __syncwarp();
}

__global__ void k_histogram(int *bins, float *sum, const int *x, int n)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicAdd(&bins[x[i]], 1);
  atomicAdd(sum, 0.5f);
}

__global__ void k_indices(int *y)
{
  int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  int i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
  y[i] = i;
}

__global__ void k_nothing()
{
}

// -- Wrong ------------------------------------------------------------------------------

__global__ void k_deadlock(float *)
{
  if (threadIdx.x < 16) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}

__global__ void k_two_barriers(float *)
{
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void k_outside_mask(float *y)
{
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, y[threadIdx.x], 16);
}

__global__ void k_not_in_own_mask(float *)
{
  __syncwarp(0x0000ffffu);
}

__global__ void k_ended_lane(float *)
{
  if (threadIdx.x == 3) return;
  __syncwarp();
}

__global__ void k_two_operations(float *y)
{
  if (threadIdx.x < 16) {
    __syncwarp();
  } else {
    y[threadIdx.x] = __shfl_sync(FULL, y[threadIdx.x], 0);
  }
}

#ifdef RG_SIM
__global__ void k_static_too_large(float *y)
{
  RG_SHARED(float, large, 12289);
  y[0] = large[0];
}
#endif

__global__ void k_past_shared(float *y)
{
  RG_SHARED(float, s, 32);
  float *p = s; // of unknown length to the compiler
  p[threadIdx.x + 1] = 1.0f;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];
}

__global__ void k_past_global(float *y)
{
  y[threadIdx.x + 1] = 1.0f;
}

__global__ void k_race(float *y)
{
  y[0] = static_cast<float>(threadIdx.x);
}

// The shuffle makes the lanes meet, but orders no memory.
__global__ void k_warp_race(float *y)
{
  RG_SHARED(float, s, 32);
  s[threadIdx.x] = y[threadIdx.x];
  (void)__shfl_sync(FULL, 0, 0);
  y[threadIdx.x] = s[31 - threadIdx.x];
}

// -- Functions of the host ------------------------------------------------------------------

static rg_launch_cfg over(int n, cudaStream_t s)
{
  return { dim3((n + BLOCK - 1) / BLOCK), dim3(BLOCK), 0, s };
}

cudaError_t test_add(float *y, const float *a, const float *b, int n, cudaStream_t s)
{
  return rg_launch(k_add, over(n, s), y, a, b, n);
}

// Few blocks, so that each thread has several elements.
cudaError_t test_scale(float *y, float factor, int n, cudaStream_t s)
{
  return rg_launch(k_scale, { dim3(2), dim3(BLOCK), 0, s }, y, factor, n);
}

cudaError_t test_block_sum(float *y, const float *x, int blocks, bool barrier, cudaStream_t s)
{
  return rg_launch(barrier ? k_block_sum<true> : k_block_sum<false>,
                   { dim3(blocks), dim3(BLOCK), 0, s }, y, x);
}

cudaError_t test_warp_sum(float *sums, float *maxima, const float *x, int warps, cudaStream_t s)
{
  return rg_launch(k_warp_sum, { dim3(warps), dim3(32), 0, s }, sums, maxima, x);
}

cudaError_t test_softmax(float *y, const float *x, int rows, int cols, bool barrier, cudaStream_t s)
{
  return rg_launch(barrier ? k_softmax<true> : k_softmax<false>, { dim3(rows), dim3(BLOCK), 0, s },
                   y, x, cols);
}

cudaError_t test_reverse(float *y, const float *x, int n, size_t smem, cudaStream_t s)
{
  return rg_launch(k_reverse, { dim3(1), dim3(n), smem, s }, y, x);
}

cudaError_t test_allow_reverse(size_t smem)
{
  return cudaFuncSetAttribute(reinterpret_cast<const void *>(k_reverse),
                              cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(smem));
}

cudaError_t test_votes(votes *v, cudaStream_t s)
{
  return rg_launch(k_votes, { dim3(1), dim3(64), 0, s }, v);
}

cudaError_t test_halves(unsigned *y, cudaStream_t s)
{
  return rg_launch(k_halves, { dim3(1), dim3(32), 0, s }, y);
}

cudaError_t test_histogram(int *bins, float *sum, const int *x, int n, cudaStream_t s)
{
  return rg_launch(k_histogram, over(n, s), bins, sum, x, n);
}

cudaError_t test_indices(int *y, dim3 grid, dim3 block, cudaStream_t s)
{
  return rg_launch(k_indices, { grid, block, 0, s }, y);
}

cudaError_t test_nothing(dim3 grid, dim3 block, size_t smem, cudaStream_t s)
{
  return rg_launch(k_nothing, { grid, block, smem, s });
}

cudaError_t test_mistake(int which, float *y, cudaStream_t s)
{
  rg_launch_cfg warp = { dim3(1), dim3(32), 0, s }, two = { dim3(1), dim3(64), 0, s };
  switch (which) {
  case HALF_AT_BARRIER:
    return rg_launch(k_deadlock, warp, y);
  case TWO_BARRIERS:
    return rg_launch(k_two_barriers, two, y);
  case OUTSIDE_MASK:
    return rg_launch(k_outside_mask, warp, y);
  case NOT_IN_OWN_MASK:
    return rg_launch(k_not_in_own_mask, warp, y);
  case ENDED_LANE:
    return rg_launch(k_ended_lane, warp, y);
  case TWO_OPERATIONS:
    return rg_launch(k_two_operations, warp, y);
#ifdef RG_SIM
  case STATIC_TOO_LARGE:
    return rg_launch(k_static_too_large, warp, y);
#endif
  case PAST_SHARED:
    return rg_launch(k_past_shared, warp, y);
  case PAST_GLOBAL:
    return rg_launch(k_past_global, warp, y);
  case RACE:
    return rg_launch(k_race, warp, y);
  case WARP_RACE:
    return rg_launch(k_warp_race, warp, y);
  default:
    return test_tensor_mistake(which, y, s);
  }
}
