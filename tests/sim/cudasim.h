// SPDX-License-Identifier: MIT
//
// Runs CUDA C++ kernels on the CPU, for tests only. This file is included before a .cu file that
// g++ compiles as C++, and gives the words that nvcc knows by itself their meaning here: threadIdx,
// __syncthreads, shuffles, shared memory. A CUDA thread is a fiber, a block runs on one thread of
// the host, blocks run one after the other.
//
//   RG_SIM_ORDER=fwd|rev|rand:SEED   the order of blocks, of lanes and of pending work
//   RG_SIM_ORDER=ahead|ahead:rev     the first (or last) thread that can go on always does, so that
//                                    a warp is ahead of the others as far as the barriers let it
#ifndef RIDGE_SIM_CUDASIM_H
#define RIDGE_SIM_CUDASIM_H

#define RG_SIM 1

// The toolkit's own types and prototypes; outside nvcc the qualifiers of functions are empty.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>

#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__
#undef __shared__
#define __shared__ use_RG_SHARED_or_RG_DYN_SHARED_instead

// -- What a kernel asks the scheduler ------------------------------------------------

struct rgsim_thread {
  uint3 index;
  unsigned lane;
};

struct rgsim_grid {
  uint3 block_index;
  dim3 block, grid;
  void *dynamic_shared;
};

enum rgsim_barrier_kind { RGSIM_PLAIN, RGSIM_OR, RGSIM_AND, RGSIM_COUNT };

enum rgsim_warp_op {
  RGSIM_SYNC,
  RGSIM_SHUFFLE,
  RGSIM_BALLOT,
  RGSIM_MATCH_ANY,
  RGSIM_MATCH_ALL,
  RGSIM_ADD,
  RGSIM_MAX_SIGNED,
  RGSIM_MIN_SIGNED,
  RGSIM_MAX_UNSIGNED,
  RGSIM_MIN_UNSIGNED,
  RGSIM_BIT_AND,
  RGSIM_BIT_OR,
  RGSIM_BIT_XOR,
  RGSIM_TILES,
  RGSIM_TILES_TRANSPOSED,
  RGSIM_MMA_BF16,
  RGSIM_MMA_F16,
  RGSIM_MMA_TF32,
  RGSIM_MMA_BYTES
};

// A launch: what to run, and how to be rid of it.
struct rgsim_job {
  void (*call)(void *);
  void (*destroy)(void *);
  void *closure;
  const void *kernel;
  dim3 grid, block;
  size_t smem;
};

// Not thread_local: only one block runs at a time, and a fiber may not keep the address of a
// variable of the thread that it once ran on.
#define RGSIM_LOCAL __attribute__((visibility("hidden")))
extern "C" {
extern RGSIM_LOCAL const rgsim_thread *rgsim_self;
extern RGSIM_LOCAL rgsim_grid rgsim_here;

RGSIM_LOCAL int rgsim_barrier(int kind, int predicate, const char *what, const char *file,
                              int line);
RGSIM_LOCAL uint64_t rgsim_warp(unsigned mask, int op, int source, uint64_t bits, const char *what,
                                const char *file, int line);
RGSIM_LOCAL void *rgsim_shared(int *slot, size_t bytes, const char *file, int line);
[[noreturn]] RGSIM_LOCAL void rgsim_trap(const char *file, int line);

// Defined by fakecuda: checks the configuration and puts the job into the stream.
RGSIM_LOCAL cudaError_t rgsim_submit(cudaStream_t stream, const rgsim_job *job);

// Defined by cudasim: runs the whole grid now. The caller holds the one lock of fakecuda.
RGSIM_LOCAL void rgsim_run(const rgsim_job *job);
}

// Every operation that waits carries its place, so that a report can name it.
#define RGSIM_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

#define threadIdx (rgsim_self->index)
#define blockIdx  (rgsim_here.block_index)
#define blockDim  (rgsim_here.block)
#define gridDim   (rgsim_here.grid)
constexpr int warpSize = 32;

// -- Shared memory ---------------------------------------------------------------------

template <class T, size_t N> inline auto rgsim_array(int *slot, RGSIM_PLACE) -> T (&)[N]
{
  typedef T array[N];
  return *static_cast<array *>(rgsim_shared(slot, sizeof(array), file, line));
}

#define RG_SHARED(T, name, n)   \
  static int rgsim_slot_##name; \
  auto &name = rgsim_array<T, n>(&rgsim_slot_##name)

#define RG_DYN_SHARED(T, name) T *name = static_cast<T *>(rgsim_here.dynamic_shared)

// -- Launching ---------------------------------------------------------------------------

// The arguments are copied at the launch, as the device does it; a graph may run them many times.
template <class... P> struct rgsim_closure {
  void (*kernel)(P...);
  std::tuple<P...> args;

  static void call(void *self)
  {
    auto *c = static_cast<rgsim_closure *>(self);
    std::apply(c->kernel, c->args);
  }

  static void destroy(void *self)
  {
    delete static_cast<rgsim_closure *>(self);
  }
};

template <class... P>
inline cudaError_t rgsim_launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t smem,
                                cudaStream_t stream, std::common_type_t<P>... args)
{
  typedef rgsim_closure<P...> closure;
  rgsim_job job = { closure::call,
                    closure::destroy,
                    new closure{ kernel, std::tuple<P...>(args...) },
                    reinterpret_cast<const void *>(kernel),
                    grid,
                    block,
                    smem };
  return rgsim_submit(stream, &job);
}

// -- Barriers ------------------------------------------------------------------------------

inline void __syncthreads(RGSIM_PLACE)
{
  rgsim_barrier(RGSIM_PLAIN, 0, "__syncthreads", file, line);
}

inline int __syncthreads_or(int p, RGSIM_PLACE)
{
  return rgsim_barrier(RGSIM_OR, p != 0, "__syncthreads_or", file, line);
}

inline int __syncthreads_and(int p, RGSIM_PLACE)
{
  return rgsim_barrier(RGSIM_AND, p != 0, "__syncthreads_and", file, line);
}

inline int __syncthreads_count(int p, RGSIM_PLACE)
{
  return rgsim_barrier(RGSIM_COUNT, p != 0, "__syncthreads_count", file, line);
}

inline void __syncwarp(unsigned mask = 0xffffffffu, RGSIM_PLACE)
{
  rgsim_warp(mask, RGSIM_SYNC, 0, 0, "__syncwarp", file, line);
}

// One block runs at a time, on one thread of the host: nothing is left for a fence to do.
inline void __threadfence()
{
}
inline void __threadfence_block()
{
}
inline void __threadfence_system()
{
}

// -- Warp operations ---------------------------------------------------------------------
//
// All lanes of the mask have to arrive before any goes on.

template <class T> inline uint64_t rgsim_to_bits(T v)
{
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value, "not a value of a lane");
  uint64_t bits = 0;
  memcpy(&bits, &v, sizeof v);
  return bits;
}

template <class T> inline T rgsim_from_bits(uint64_t bits)
{
  T v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

// Segments of `width` lanes; a source outside the own segment means the own value.
template <class T> inline T __shfl_sync(unsigned mask, T v, int source, int width = 32, RGSIM_PLACE)
{
  int lane = static_cast<int>(rgsim_self->lane);
  int from = (lane & ~(width - 1)) | (source & (width - 1));
  return rgsim_from_bits<T>(
      rgsim_warp(mask, RGSIM_SHUFFLE, from, rgsim_to_bits(v), "__shfl_sync", file, line));
}

template <class T>
inline T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32, RGSIM_PLACE)
{
  int lane = static_cast<int>(rgsim_self->lane), from = lane ^ bits;
  if (from > (lane | (width - 1))) from = lane;
  return rgsim_from_bits<T>(
      rgsim_warp(mask, RGSIM_SHUFFLE, from, rgsim_to_bits(v), "__shfl_xor_sync", file, line));
}

template <class T>
inline T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32, RGSIM_PLACE)
{
  int lane = static_cast<int>(rgsim_self->lane), from = lane + static_cast<int>(delta);
  if (from > (lane | (width - 1))) from = lane;
  return rgsim_from_bits<T>(
      rgsim_warp(mask, RGSIM_SHUFFLE, from, rgsim_to_bits(v), "__shfl_down_sync", file, line));
}

template <class T>
inline T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32, RGSIM_PLACE)
{
  int lane = static_cast<int>(rgsim_self->lane), from = lane - static_cast<int>(delta);
  if (from < (lane & ~(width - 1))) from = lane;
  return rgsim_from_bits<T>(
      rgsim_warp(mask, RGSIM_SHUFFLE, from, rgsim_to_bits(v), "__shfl_up_sync", file, line));
}

inline unsigned __ballot_sync(unsigned mask, int p, RGSIM_PLACE)
{
  return static_cast<unsigned>(
      rgsim_warp(mask, RGSIM_BALLOT, 0, p != 0, "__ballot_sync", file, line));
}

inline int __any_sync(unsigned mask, int p, RGSIM_PLACE)
{
  return rgsim_warp(mask, RGSIM_BALLOT, 0, p != 0, "__any_sync", file, line) != 0;
}

inline int __all_sync(unsigned mask, int p, RGSIM_PLACE)
{
  return rgsim_warp(mask, RGSIM_BALLOT, 0, p != 0, "__all_sync", file, line) == mask;
}

template <class T> inline unsigned __match_any_sync(unsigned mask, T v, RGSIM_PLACE)
{
  return static_cast<unsigned>(
      rgsim_warp(mask, RGSIM_MATCH_ANY, 0, rgsim_to_bits(v), "__match_any_sync", file, line));
}

template <class T> inline unsigned __match_all_sync(unsigned mask, T v, int *all, RGSIM_PLACE)
{
  unsigned m = static_cast<unsigned>(
      rgsim_warp(mask, RGSIM_MATCH_ALL, 0, rgsim_to_bits(v), "__match_all_sync", file, line));
  *all = m != 0;
  return m;
}

#define RGSIM_REDUCE(name, T, op)                                                            \
  inline T name(unsigned mask, T v, RGSIM_PLACE)                                             \
  {                                                                                          \
    return rgsim_from_bits<T>(rgsim_warp(mask, op, 0, rgsim_to_bits(v), #name, file, line)); \
  }

RGSIM_REDUCE(__reduce_add_sync, unsigned, RGSIM_ADD)
RGSIM_REDUCE(__reduce_add_sync, int, RGSIM_ADD)
RGSIM_REDUCE(__reduce_max_sync, unsigned, RGSIM_MAX_UNSIGNED)
RGSIM_REDUCE(__reduce_max_sync, int, RGSIM_MAX_SIGNED)
RGSIM_REDUCE(__reduce_min_sync, unsigned, RGSIM_MIN_UNSIGNED)
RGSIM_REDUCE(__reduce_min_sync, int, RGSIM_MIN_SIGNED)
RGSIM_REDUCE(__reduce_and_sync, unsigned, RGSIM_BIT_AND)
RGSIM_REDUCE(__reduce_or_sync, unsigned, RGSIM_BIT_OR)
RGSIM_REDUCE(__reduce_xor_sync, unsigned, RGSIM_BIT_XOR)
#undef RGSIM_REDUCE

inline void __trap(RGSIM_PLACE)
{
  rgsim_trap(file, line);
}

#include "cudasim_math.h"
#include "cudasim_tensor.h"

#endif
