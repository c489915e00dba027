// SPDX-License-Identifier: MIT
//
// The kernels of the simulator's own tests, as functions of the host.
#ifndef RIDGE_SIM_TEST_SIM_H
#define RIDGE_SIM_TEST_SIM_H

#include <cuda_runtime_api.h>

// What test_votes writes for each of its 64 threads.
struct votes {
  unsigned ballot, match, add;
  int any, all, max, count, block_or, block_and, up, down, broadcast;
};

cudaError_t test_add(float *y, const float *a, const float *b, int n, cudaStream_t s);
cudaError_t test_scale(float *y, float factor, int n, cudaStream_t s);
cudaError_t test_block_sum(float *y, const float *x, int blocks, bool barrier, cudaStream_t s);
cudaError_t test_warp_sum(float *sums, float *maxima, const float *x, int warps, cudaStream_t s);
cudaError_t test_softmax(float *y, const float *x, int rows, int cols, bool barrier,
                         cudaStream_t s);
cudaError_t test_reverse(float *y, const float *x, int n, size_t smem, cudaStream_t s);
cudaError_t test_allow_reverse(size_t smem);
cudaError_t test_votes(votes *v, cudaStream_t s);
cudaError_t test_halves(unsigned *y, cudaStream_t s);
cudaError_t test_histogram(int *bins, float *sum, const int *x, int n, cudaStream_t s);
cudaError_t test_indices(int *y, dim3 grid, dim3 block, cudaStream_t s);
cudaError_t test_nothing(dim3 grid, dim3 block, size_t smem, cudaStream_t s);

// Tensor cores (test_sim_mma.cu). a [16 x 16] b [16 x 8] into c, numbers that bf16 and f16 hold.
// How the factors come into registers:
enum { BY_LAYOUT, BY_TILES, BY_TRANSPOSED_TILES };
cudaError_t test_product(float *c, const float *a, const float *b, bool brain, int how,
                         cudaStream_t s);
// a [16 x 32] b [32 x 8] of bytes is added to 1, 2, 3, 4 in the registers of each lane; by the
// layout or by tiles.
cudaError_t test_tf32(float *c, const float *a, const float *b, bool rounded, cudaStream_t s);
cudaError_t test_bytes(int *c, const signed char *a, const signed char *b, int how, cudaStream_t s);
// What ldmatrix gives of four 8 x 8 matrices of the numbers 0 .. 255: [32 lanes x 4] registers.
cudaError_t test_tiles(unsigned *r, bool transposed, cudaStream_t s);
// y = x doubled, n a multiple of 512, through two buffers that copies fill in turn; wrong without
// the wait, or without the barrier before a buffer is filled again.
cudaError_t test_pipeline(float *y, const float *x, int n, bool wait, bool barrier, cudaStream_t s);

// Kernels that are wrong, each in its own way.
enum mistake {
  HALF_AT_BARRIER, // the others at a warp operation: a deadlock
  TWO_BARRIERS,    // at two lines
  OUTSIDE_MASK,    // a shuffle from a lane that takes no part
  NOT_IN_OWN_MASK,
  ENDED_LANE,       // a lane ends while others wait for it
  TWO_OPERATIONS,   // under one mask
  STATIC_TOO_LARGE, // shared memory
  PAST_SHARED,      // for the address sanitizer
  PAST_GLOBAL,      // for the address sanitizer
  RACE,             // for the thread sanitizer
  WARP_RACE,        // for the thread sanitizer: right in every order, but no __syncwarp
  HALF_A_PRODUCT,   // the other lanes are elsewhere
  TWO_PRODUCTS,     // some lanes load tiles while others multiply
  CROOKED_TILE,     // a row at no multiple of 16 bytes
  CROOKED_COPY,     // likewise
  FORGOTTEN_COPY    // the thread ends without a wait
};
cudaError_t test_mistake(int which, float *y, cudaStream_t s);
cudaError_t test_tensor_mistake(int which, float *y, cudaStream_t s);

#endif
