/* SPDX-License-Identifier: MIT */
/*
** Theoretical occupancy by NVIDIA's own calculator, which is a header of the toolkit: the warps of
** as many blocks as a multiprocessor holds at once, over the warps that it can hold.
*/
#include <limits.h>
#include <math.h>

#include <cuda_occupancy.h>

#include "gpu/cupti/activity.cuh"

double rg_cupti_occupancy(const rg_activity *kernel)
{
  static int32_t device;
  static cudaDeviceProp p;
  const int threads = kernel->block[0] * kernel->block[1] * kernel->block[2];
  cudaOccFuncAttributes attributes;
  cudaOccDeviceState state;
  cudaOccResult result;

  if (kernel->device < 1 || threads < 1) {
    return NAN;
  }
  if (kernel->device != device) {
    device = 0;
    if (cudaGetDeviceProperties(&p, kernel->device - 1) != cudaSuccess) {
      (void)cudaGetLastError();
      return NAN;
    }
    device = kernel->device;
  }
  const cudaOccDeviceProp properties(p);

  attributes.maxThreadsPerBlock = INT_MAX;
  attributes.numRegs = kernel->registers;
  attributes.sharedSizeBytes = (size_t)kernel->static_bytes;
  attributes.partitionedGCConfig = PARTITIONED_GC_OFF;
  attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  attributes.maxDynamicSharedSizeBytes = (size_t)kernel->dynamic_bytes;
  attributes.numBlockBarriers = 1;
  if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &properties, &attributes, &state, threads,
                                              (size_t)kernel->dynamic_bytes) != CUDA_OCC_SUCCESS) {
    return NAN;
  }
  const int warps = (threads + p.warpSize - 1) / p.warpSize;

  return (double)result.activeBlocksPerMultiprocessor * warps * p.warpSize /
         p.maxThreadsPerMultiProcessor;
}
