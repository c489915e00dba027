// SPDX-License-Identifier: MIT
//
// What every kernel in gpu/ uses: shared memory, launching, and reductions over a warp. It has one
// meaning under nvcc and under the simulator of tests/sim, which defines RG_SIM and what stands in
// for the compiler's own words (threadIdx, __syncthreads, shuffles) before this file is read.
#ifndef RIDGE_GPU_LAUNCH_CUH
#define RIDGE_GPU_LAUNCH_CUH

#include <stddef.h>
#include <utility>

#include <cuda_runtime.h>

// -- Shared memory -----------------------------------------------------------------
//
//   RG_SHARED(float, tile, 256);      an array of constant length
//   RG_DYN_SHARED(float, scratch);    a pointer to the bytes that the launch asked for
//
// Kernels never write __shared__ themselves: the simulator gives each of these its own allocation
// of exact size, filled with NaN before every block, and only so are wrong accesses seen.

#ifndef RG_SIM
#define RG_SHARED(T, name, n) __shared__ T name[n]

// One name and one type for all kernels of a file, as the compiler wants it; 128 bytes are enough
// for every vector access.
#define RG_DYN_SHARED(T, name)                                         \
  extern __shared__ __align__(128) unsigned char rg_dynamic_shared_[]; \
  T *name = reinterpret_cast<T *>(rg_dynamic_shared_)
#endif

// -- Launching -----------------------------------------------------------------------

// More than 48 KiB of dynamic shared memory must be allowed for the kernel first, with
// rg_gpu_most_shared (device.cuh).
struct rg_launch_cfg {
  dim3 grid, block;
  size_t smem;
  cudaStream_t stream;
};

// A function instead of <<<>>>: the arguments are converted to the kernel's own types, a wrong one
// is a compile error, and the launch's error is the result.
template <class... P, class... A>
inline cudaError_t rg_launch(void (*kernel)(P...), const rg_launch_cfg &cfg, A &&...args)
{
  static_assert(sizeof...(P) == sizeof...(A), "the kernel takes another number of arguments");
#ifdef RG_SIM
  return rgsim_launch<P...>(kernel, cfg.grid, cfg.block, cfg.smem, cfg.stream,
                            static_cast<P>(std::forward<A>(args))...);
#else
  cudaLaunchConfig_t lc = {};
  lc.gridDim = cfg.grid;
  lc.blockDim = cfg.block;
  lc.dynamicSmemBytes = cfg.smem;
  lc.stream = cfg.stream;
  return cudaLaunchKernelEx(&lc, kernel, static_cast<P>(std::forward<A>(args))...);
#endif
}

// The same of a kernel that was loaded at run time; P is what it takes.
#if CUDART_VERSION >= 12080
template <class P>
inline cudaError_t rg_launch_loaded(cudaKernel_t kernel, const rg_launch_cfg &cfg, P argument)
{
#ifdef RG_SIM
  return rgsim_launch<P>(reinterpret_cast<void (*)(P)>(kernel), cfg.grid, cfg.block, cfg.smem,
                         cfg.stream, argument);
#else
  void *arguments[] = { &argument };
  cudaLaunchConfig_t lc = {};
  lc.gridDim = cfg.grid;
  lc.blockDim = cfg.block;
  lc.dynamicSmemBytes = cfg.smem;
  lc.stream = cfg.stream;
  return cudaLaunchKernelExC(&lc, reinterpret_cast<const void *>(kernel), arguments);
#endif
}
#endif

// -- Reductions over the 32 lanes of a warp --------------------------------------------
//
// Every lane must call them and gets the result. The order of additions is fixed, so equal inputs
// give equal bits.

template <class T> __device__ __forceinline__ T rg_warp_sum(T v)
{
  for (int offset = 16; offset > 0; offset >>= 1) {
    v += __shfl_xor_sync(0xffffffffu, v, offset);
  }
  return v;
}

// A NaN in one lane may be lost, as in fmaxf; a kernel that must keep it looks for it itself.
template <class T> __device__ __forceinline__ T rg_warp_max(T v)
{
  for (int offset = 16; offset > 0; offset >>= 1) {
    T other = __shfl_xor_sync(0xffffffffu, v, offset);
    v = other > v ? other : v;
  }
  return v;
}

#endif
