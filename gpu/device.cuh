/* SPDX-License-Identifier: MIT */
/*
** What the kernels share: the plugin's state, views of tensors, which kernel a type has, and how it
** is launched over so many elements.
*/
#ifndef RIDGE_GPU_DEVICE_CUH
#define RIDGE_GPU_DEVICE_CUH

#include <cuda_runtime.h>

extern "C" {
#include "gpu/plugin.h"
#include "op/formulas.h"
}
#include "gpu/launch.cuh"
#include "gpu/types.cuh"

/* -- The plugin's state (plugin.cu) ----------------------------------------------------- */

extern const rg_gpu_host *rg_gpu; /* what ridge gave */

/* The stream of a device's work; makes the device current. */
cudaStream_t rg_gpu_stream(int32_t device);

/*
** Room for one call's intermediate result, until the next one asks; NULL where there is none.
**
** While the device's stream is being captured the workspace does not grow (NULL), because a capture
** cannot wait for the work that uses it: run the call once before.  What a capture was given is
** never freed, because the graph holds its address.
*/
void *rg_gpu_workspace(int32_t device, int64_t bytes);

/* The same of one call's several intermediate results, each of a part of its own. */
enum {
  RG_PART_CALL, /* rg_gpu_workspace */
  RG_PART_LEFT, /* factors of a product, brought into form */
  RG_PART_RIGHT,
  RG_PART_BIAS,
  RG_PART_SUM,   /* a product before its end */
  RG_PART_SIGNS, /* bits made from a seed, for the plain kernel */
  RG_PARTS
};
void *rg_gpu_workspace_part(int32_t device, int32_t part, int64_t bytes);

/* Where ridge poisons its memory (rg_gpu_host.poison): fill a workspace with 0xff before a call
** uses it; while the stream is captured that is a part of the graph. */
void rg_gpu_poison(int32_t device, void *data, int64_t bytes);

/* Is the device's stream being captured? */
bool rg_gpu_captures(int32_t device);

/* RG_ENOMEM and a sentence: the part of a workspace that a call needs is not to be had. */
rg_status rg_gpu_no_room(int32_t device, const char *what, int64_t bytes);

/* What tells one kind of GPU from another, for files that are kept; 0 where it cannot be told. */
int64_t rg_gpu_identity(int32_t device);

/* Let a kernel have as much dynamic shared memory as the device's blocks can have: once for each
** kernel and device, whoever comes first, so that no thread takes from another what it needs. */
cudaError_t rg_gpu_most_shared(int32_t device, const void *kernel);

/* How many blocks a device runs side by side, at least: its multiprocessors. */
inline int32_t rg_gpu_units(int32_t device)
{
  int units = 0;
  cudaError_t error = cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, device - 1);

  return error == cudaSuccess && units > 0 ? units : 1;
}

/* 90 of 9.0; 0 where it cannot be told. */
inline int32_t rg_gpu_capability(int32_t device)
{
  int major = 0;
  int minor = 0;

  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device - 1) !=
          cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device - 1) !=
          cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return 10 * major + minor;
}

/* RG_OK, or a sentence with the error's name.  After an error that stays, the first of them is the
** answer to every later one: what follows it is not its own fault. */
rg_status rg_gpu_status(const char *what, cudaError_t error);

/* For who deals with a failure by himself (another algorithm, less memory): it is read away.
** RG_OK, or RG_EDEVICE where the device is lost: then there is nothing left to try. */
rg_status rg_gpu_lost(int32_t device, const char *what);

#define RG_CUDA(what, call) RG_TRY(rg_gpu_status(what, call))

/* -- Kernels by type ---------------------------------------------------------------------- */

inline rg_status rg_answer(const rg_call *call, cudaError_t error)
{
  return rg_gpu_status(call->op->name, error);
}
inline rg_status rg_answer(const rg_call *, rg_status status)
{
  return status;
}

/*
** The answer to a call from f(t), t standing for the type of a dtype; RG_EDTYPE where that is of no
** kind that there are kernels for.
**
**   return rg_dispatch<RG_KINDS_FLOAT>(call, x->_dtype, [&](auto t) {
**     return rg_launch(k_this<rg_t<decltype(t)>>, cfg, to, from);
**   });
*/
template <int32_t KINDS, class F>
inline rg_status rg_dispatch(const rg_call *call, int32_t dtype, F f)
{
  if (!rg_dtype_of_kind(dtype, KINDS)) {
    return rg_gpu->fail(RG_EDTYPE, "%s: no kernel for type %d", call->op->name, dtype);
  }
  return rg_answer(call, rg_with_type<KINDS>(dtype, f));
}

/* -- Random numbers -------------------------------------------------------------------------- */

/* Where the random numbers of a call begin: given by the host or, where `at` is not NULL, read from
** the device's memory (what an earlier call drew, what a replay draws). */
struct rg_drawn {
  rg_draw given;
  const rg_draw *at;
};

inline rg_drawn rg_drawn_by(const rg_call *call)
{
  return rg_drawn{ call->draw, call->draw_at };
}

__device__ inline rg_draw rg_draw_now(const rg_drawn &d)
{
  return d.at != NULL ? *d.at : d.given;
}

/* -- Activations ------------------------------------------------------------------------------ */

/* A square is no matter of logarithms. */
#define RG_POWER(x, y)     y == (T)2 ? x *x : pow(x, y)
#define RG_SELECT(c, a, b) ((c) ? (a) : (b))
#define RG_LIBRARY(f)      f

/* 2^x of x <= 0 by the unit for it: what is below the normal range is 0. */
__device__ inline float rg_exp2(float x)
{
#ifdef RG_SIM
  return x < -126.0f ? 0.0f : exp2f(x);
#else
  float y;

  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

/* x / y for y >= 1, in a third of the instructions of a division that is rounded once: off by two
** units of the last place. */
__device__ inline float rg_quotient(float x, float y)
{
#ifdef RG_SIM
  return x * (1.0f / y);
#else
  float r;

  asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(y));
  return x * r;
#endif
}
__device__ inline double rg_quotient(double x, double y)
{
  return x / y;
}

/* erf, off by 1.3e-7 at most, in half of the instructions of the vendor's: where 1 is added to it,
** its relative error near 0 does not count. */
__device__ inline float rg_erf_absolute(float x)
{
  const float t = fabsf(x);

  return copysignf(1.0f - rg_exp2(RG_LOG2_ERFC_F32(t, fmaf)), x);
}
__device__ inline double rg_erf_absolute(double x)
{
  return erf(x);
}

#define RG_FUNCTION(NAME, name, ...)                        \
  template <class T> __device__ inline T rg_one_##name(T x) \
  {                                                         \
    return (T)(__VA_ARGS__);                                \
  }
RG_UNARY_FORMULAS(RG_FUNCTION, RG_LIBRARY, exp, rg_erf_absolute, rg_quotient)
#undef RG_FUNCTION

template <class L> __device__ inline L rg_activated(int32_t act, L x)
{
#define CASE(NAME, name) \
  case RG_ACT_##NAME:    \
    return rg_one_##name(x);
  switch (act) {
    RG_ACT_LIST(CASE)
  default:
    return x;
  }
#undef CASE
}

/* The same of each: which it is, is asked once. */
template <class L, int N> __device__ inline void rg_activate(int32_t act, L (&v)[N])
{
#define CASE(NAME, name)                          \
  case RG_ACT_##NAME:                             \
    _Pragma("unroll") for (int k = 0; k < N; k++) \
    {                                             \
      v[k] = rg_one_##name(v[k]);                 \
    }                                             \
    break;
  switch (act) {
    RG_ACT_LIST(CASE)
  default:
    break;
  }
#undef CASE
}

/* -- Views ---------------------------------------------------------------------------------- */

/* A tensor as a kernel sees it, broadcast to a shape. */
struct rg_strided {
  char *data;
  int64_t shape[RG_MAX_DIMS];
  int64_t stride[RG_MAX_DIMS]; /* elements; 0 where it is repeated */
  int32_t ndim;
  int32_t flat; /* 1: element i is at i; 2: there is one element for all */
};

inline rg_strided rg_view_as(const rg_tensor *x, const int64_t *shape, int32_t ndim)
{
  rg_strided v = {};
  bool same = x->_ndim == ndim;
  int32_t more = ndim - x->_ndim;

  v.data = (char *)x->_data;
  v.ndim = ndim;
  for (int32_t i = 0; i < ndim; i++) {
    int64_t size = i < more ? 1 : x->_shape[i - more];

    v.shape[i] = shape[i];
    v.stride[i] = size == 1 ? 0 : x->_stride[i - more];
    same = same && size == shape[i];
  }
  v.flat = x->_count == 1 ? 2 : same && (x->_flags & RG_TENSOR_CONTIGUOUS) != 0 ? 1 : 0;
  return v;
}

inline rg_strided rg_view_of(const rg_tensor *x)
{
  return rg_view_as(x, x->_shape, x->_ndim);
}

/* Where element i is, in elements from the first.  Divisions wait for each other, so unrolling by
** four, which the compiler would do, is of no use: up to four axes never came to that code, and it
** was most of a kernel's. */
__device__ inline int64_t rg_at(const rg_strided &v, int64_t i)
{
  int64_t at = 0;

  if (v.flat) {
    return v.flat == 1 ? i : 0;
  }
#pragma unroll 1
  for (int32_t d = v.ndim - 1; d > 0; d--) {
    int64_t size = v.shape[d];
    bool narrow = (uint64_t)(i | size) >> 32 == 0; /* divisions by 32 bits take a tenth */
    int64_t outer = narrow ? (int64_t)((uint32_t)i / (uint32_t)size) : i / size;

    at += (i - outer * size) * v.stride[d];
    i = outer;
  }
  return at + i * v.stride[0];
}

/* -- Launching ------------------------------------------------------------------------------ */

enum { RG_BLOCK = 256 };

/* The first element of a thread, and how far it is to its next. */
#define RG_FIRST ((int64_t)blockIdx.x * blockDim.x + threadIdx.x)
#define RG_NEXT  ((int64_t)gridDim.x * blockDim.x)

/* Blocks for n elements, each thread in a loop where there are very many. */
inline rg_launch_cfg rg_over(int64_t n, cudaStream_t stream)
{
  int64_t blocks = (n + RG_BLOCK - 1) / RG_BLOCK;

  return rg_launch_cfg{ dim3((unsigned)(blocks < 1       ? 1
                                        : blocks > 65535 ? 65535
                                                         : blocks)),
                        dim3(RG_BLOCK), 0, stream };
}

#endif
