/* SPDX-License-Identifier: MIT */
/*
** What the kernels share: element types and the lanes they compute in, views of tensors, and how a
** kernel is launched over so many elements.
**
** Half types are loaded and stored; all arithmetic is in float (or double, or the integer's own
** type), as on the CPU.
*/
#ifndef RIDGE_GPU_DEVICE_CUH
#define RIDGE_GPU_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

extern "C" {
#include "gpu/plugin.h"
#include "tensor/f8.h"
}
#include "gpu/launch.cuh"

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

/* -- Element types ---------------------------------------------------------------------- */

struct rg_bool {
  uint8_t v;
};
struct rg_f8e4m3 {
  uint8_t v;
};
struct rg_f8e5m2 {
  uint8_t v;
};

/* D(code, type) for each; what only stores (RG_EIGHTS) is copied and converted. */
#define RG_HALVES(D)   D(RG_F16, __half) D(RG_BF16, __nv_bfloat16)
#define RG_FLOATS(D)   D(RG_F32, float) D(RG_F64, double) RG_HALVES(D)
#define RG_INTEGERS(D) D(RG_I64, int64_t) D(RG_I32, int32_t) D(RG_I8, int8_t) D(RG_U8, uint8_t)
#define RG_TYPES(D)    RG_FLOATS(D) RG_INTEGERS(D) D(RG_BOOL, rg_bool)
#define RG_EIGHTS(D)   D(RG_F8E4M3, rg_f8e4m3) D(RG_F8E5M2, rg_f8e5m2)
#define RG_STORED(D)   RG_TYPES(D) RG_EIGHTS(D)

/* RG_F32 and so on of a type. */
template <class T> constexpr int32_t rg_code_of = -1;
#define RG_CODE(code, T) template <> constexpr int32_t rg_code_of<T> = code;
RG_STORED(RG_CODE)
#undef RG_CODE

/* The type an element is computed in. */
template <class T> struct rg_lane {
  typedef T type;
};
template <> struct rg_lane<__half> {
  typedef float type;
};
template <> struct rg_lane<__nv_bfloat16> {
  typedef float type;
};
template <> struct rg_lane<rg_bool> {
  typedef uint8_t type;
};
template <> struct rg_lane<rg_f8e4m3> {
  typedef float type;
};
template <> struct rg_lane<rg_f8e5m2> {
  typedef float type;
};

template <class T> __device__ inline typename rg_lane<T>::type rg_get(T x)
{
  return x;
}
template <> __device__ inline float rg_get(__half x)
{
  return __half2float(x);
}
template <> __device__ inline float rg_get(__nv_bfloat16 x)
{
  return __bfloat162float(x);
}
template <> __device__ inline uint8_t rg_get(rg_bool x)
{
  return x.v;
}
template <> __device__ inline float rg_get(rg_f8e4m3 x)
{
  return rg_f8e4m3_to_f32(x.v);
}
template <> __device__ inline float rg_get(rg_f8e5m2 x)
{
  return rg_f8e5m2_to_f32(x.v);
}

/* A lane's value as an element. */
template <class T> struct rg_element {
  static __device__ inline T of(typename rg_lane<T>::type x)
  {
    return x;
  }
};
template <> struct rg_element<__half> {
  static __device__ inline __half of(float x)
  {
    return __float2half_rn(x);
  }
};
template <> struct rg_element<__nv_bfloat16> {
  static __device__ inline __nv_bfloat16 of(float x)
  {
    return __float2bfloat16_rn(x);
  }
};
template <> struct rg_element<rg_bool> {
  static __device__ inline rg_bool of(uint8_t x)
  {
    return rg_bool{ x };
  }
};
template <> struct rg_element<rg_f8e4m3> {
  static __device__ inline rg_f8e4m3 of(float x)
  {
    return rg_f8e4m3{ rg_f8e4m3_of_f32(x) };
  }
};
template <> struct rg_element<rg_f8e5m2> {
  static __device__ inline rg_f8e5m2 of(float x)
  {
    return rg_f8e5m2{ rg_f8e5m2_of_f32(x) };
  }
};

/* -- Conversion --------------------------------------------------------------------------- */

/* A number without loss: integers as themselves, floats as double. */
struct rg_number {
  double d;
  int64_t k;
  bool whole;
};

/* Of a type that is computed with. */
__device__ inline rg_number rg_number_of(const void *data, int32_t dtype, int64_t at)
{
  switch (dtype) {
  case RG_F32:
    return rg_number{ ((const float *)data)[at], 0, false };
  case RG_F64:
    return rg_number{ ((const double *)data)[at], 0, false };
  case RG_F16:
    return rg_number{ __half2float(((const __half *)data)[at]), 0, false };
  case RG_BF16:
    return rg_number{ __bfloat162float(((const __nv_bfloat16 *)data)[at]), 0, false };
  case RG_I64:
    return rg_number{ 0, ((const int64_t *)data)[at], true };
  case RG_I32:
    return rg_number{ 0, ((const int32_t *)data)[at], true };
  case RG_I8:
    return rg_number{ 0, ((const int8_t *)data)[at], true };
  default:
    return rg_number{ 0, ((const uint8_t *)data)[at], true };
  }
}

/* Of any type. */
__device__ inline rg_number rg_stored_number_of(const void *data, int32_t dtype, int64_t at)
{
  switch (dtype) {
  case RG_F8E4M3:
    return rg_number{ rg_f8e4m3_to_f32(((const uint8_t *)data)[at]), 0, false };
  case RG_F8E5M2:
    return rg_number{ rg_f8e5m2_to_f32(((const uint8_t *)data)[at]), 0, false };
  default:
    return rg_number_of(data, dtype, at);
  }
}

/* Truncate, saturate, nan to 0 (rg_cast). */
__device__ inline int64_t rg_truncated(double x, double low, double high)
{
  if (x != x) {
    return 0;
  }
  if (x >= 9223372036854775808.0) {
    return high >= 9223372036854775807.0 ? INT64_MAX : (int64_t)high;
  }
  return (int64_t)(x < low ? low : x > high ? high : x);
}

/* A whole number brought into a range. */
__host__ __device__ inline int64_t rg_clamped(int64_t x, int64_t low, int64_t high)
{
  return x < low ? low : x > high ? high : x;
}

template <class T> struct rg_converted {
  static __device__ inline T of(rg_number x);
};
template <> __device__ inline float rg_converted<float>::of(rg_number x)
{
  return x.whole ? (float)x.k : (float)x.d;
}
template <> __device__ inline double rg_converted<double>::of(rg_number x)
{
  return x.whole ? (double)x.k : x.d;
}
template <> __device__ inline __half rg_converted<__half>::of(rg_number x)
{
  return __double2half(x.whole ? (double)x.k : x.d);
}
template <> __device__ inline __nv_bfloat16 rg_converted<__nv_bfloat16>::of(rg_number x)
{
  return __double2bfloat16(x.whole ? (double)x.k : x.d);
}
/* Whole numbers beyond what double holds are too large anyway. */
template <> __device__ inline rg_f8e4m3 rg_converted<rg_f8e4m3>::of(rg_number x)
{
  return rg_f8e4m3{ rg_f8e4m3_of_f32(rg_f32_odd_of_f64(x.whole ? (double)x.k : x.d)) };
}
template <> __device__ inline rg_f8e5m2 rg_converted<rg_f8e5m2>::of(rg_number x)
{
  return rg_f8e5m2{ rg_f8e5m2_of_f32(rg_f32_odd_of_f64(x.whole ? (double)x.k : x.d)) };
}
template <> __device__ inline int64_t rg_converted<int64_t>::of(rg_number x)
{
  return x.whole ? x.k : rg_truncated(x.d, -9223372036854775808.0, 9223372036854775807.0);
}
template <> __device__ inline int32_t rg_converted<int32_t>::of(rg_number x)
{
  return (int32_t)(x.whole ? rg_clamped(x.k, INT32_MIN, INT32_MAX)
                           : rg_truncated(x.d, -2147483648.0, 2147483647.0));
}
template <> __device__ inline int8_t rg_converted<int8_t>::of(rg_number x)
{
  return (int8_t)(x.whole ? rg_clamped(x.k, -128, 127) : rg_truncated(x.d, -128, 127));
}
template <> __device__ inline uint8_t rg_converted<uint8_t>::of(rg_number x)
{
  return (uint8_t)(x.whole ? rg_clamped(x.k, 0, 255) : rg_truncated(x.d, 0, 255));
}
template <> __device__ inline rg_bool rg_converted<rg_bool>::of(rg_number x)
{
  return rg_bool{ (uint8_t)(x.whole ? x.k != 0 : x.d != 0) };
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

template <class L> __device__ inline L rg_activated(int32_t act, L x)
{
  switch (act) {
  case RG_ACT_RELU:
    return x < 0 ? (L)0 : x; /* nan stays nan */
  case RG_ACT_GELU:
    return (L)0.5 * x * ((L)1 + erf(x * (L)0.70710678118654752440));
  case RG_ACT_SILU:
    return x / ((L)1 + exp(-x));
  case RG_ACT_TANH:
    return tanh(x);
  case RG_ACT_SIGMOID:
    return (L)1 / ((L)1 + exp(-x));
  default:
    return x;
  }
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

/* Where element i is, in elements from the first. */
__device__ inline int64_t rg_at(const rg_strided &v, int64_t i)
{
  int64_t at = 0;

  if (v.flat) {
    return v.flat == 1 ? i : 0;
  }
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
