/* SPDX-License-Identifier: MIT */
/*
** Functions of one element and of two.  Which function it is is asked inside the kernel, where all
** threads answer alike: reading and writing memory takes the time, and one kernel a type is less to
** load than one a function.
*/
#include "gpu/kernels.cuh"

extern "C" {
#include "op/binary.h"
#include "op/list.h"
}

/* -- Functions of one ----------------------------------------------------------------------- */

template <class T> __device__ inline T exact(int32_t id, T x)
{
  switch (id) {
  case RG_OP_NEG:
    return (T)(0 - x);
  case RG_OP_ABS:
    return x < 0 ? (T)(0 - x) : x;
  case RG_OP_SIGN:
    return (T)((x > 0) - (x < 0));
  case RG_OP_SQUARE:
    return (T)(x * x);
  case RG_OP_RELU:
    return x < 0 ? (T)0 : x;
  default:
    return x; /* floor, ceil, round of a whole number */
  }
}

/* log(1 + e^x) and its kind in the lane's own precision */
template <class T> __device__ inline T real(int32_t id, T x)
{
  switch (id) {
  case RG_OP_NEG:
    return -x;
  case RG_OP_ABS:
    return fabs(x);
  case RG_OP_SIGN:
    return x > 0 ? (T)1 : x < 0 ? (T)-1 : x == 0 ? (T)0 : x;
  case RG_OP_SQUARE:
    return x * x;
  case RG_OP_RELU:
    return x < 0 ? (T)0 : x; /* nan goes through */
  case RG_OP_FLOOR:
    return floor(x);
  case RG_OP_CEIL:
    return ceil(x);
  case RG_OP_ROUND:
    return rint(x);
  case RG_OP_SQRT:
    return sqrt(x);
  case RG_OP_RSQRT:
    return (T)1 / sqrt(x);
  case RG_OP_RECIPROCAL:
    return (T)1 / x;
  case RG_OP_EXP:
    return exp(x);
  case RG_OP_LOG:
    return log(x);
  case RG_OP_LOG1P:
    return log1p(x);
  case RG_OP_SIN:
    return sin(x);
  case RG_OP_COS:
    return cos(x);
  case RG_OP_TANH:
    return tanh(x);
  case RG_OP_ERF:
    return erf(x);
  case RG_OP_SIGMOID:
    return (T)1 / ((T)1 + exp(-x));
  case RG_OP_GELU:
    return (T)0.5 * x * ((T)1 + erf(x * (T)0.70710678118654752440));
  case RG_OP_SILU:
    return x / ((T)1 + exp(-x));
  default:
    return (x < 0 ? (T)0 : x) + log1p(exp(-fabs(x))); /* softplus */
  }
}

__device__ inline float one(int32_t id, float x)
{
  return real(id, x);
}
__device__ inline double one(int32_t id, double x)
{
  return real(id, x);
}
/* unsigned inside, where overflow wraps around */
__device__ inline int64_t one(int32_t id, int64_t x)
{
  return id == RG_OP_SQUARE                              ? (int64_t)((uint64_t)x * (uint64_t)x)
         : id == RG_OP_NEG || (id == RG_OP_ABS && x < 0) ? (int64_t)(0 - (uint64_t)x)
                                                         : exact(id, x);
}
__device__ inline int32_t one(int32_t id, int32_t x)
{
  return id == RG_OP_SQUARE                              ? (int32_t)((uint32_t)x * (uint32_t)x)
         : id == RG_OP_NEG || (id == RG_OP_ABS && x < 0) ? (int32_t)(0 - (uint32_t)x)
                                                         : exact(id, x);
}
__device__ inline int8_t one(int32_t id, int8_t x)
{
  return (int8_t)exact(id, (int)x);
}
__device__ inline uint8_t one(int32_t id, uint8_t x)
{
  return id == RG_OP_NEG ? (uint8_t)(0 - x) : (uint8_t)exact(id, (int)x);
}

/* -- Functions of two ------------------------------------------------------------------------ */

template <class T> __device__ inline bool compared(int32_t id, T x, T y)
{
  switch (id) {
  case RG_OP_EQ:
    return x == y;
  case RG_OP_NE:
    return x != y;
  case RG_OP_LT:
    return x < y;
  case RG_OP_LE:
    return x <= y;
  case RG_OP_GT:
    return x > y;
  default:
    return x >= y;
  }
}

/* x != x finds nan, which wins on either side. */
template <class T> __device__ inline T larger(T x, T y)
{
  return x != x ? x : x > y ? x : y;
}
template <class T> __device__ inline T smaller(T x, T y)
{
  return x != x ? x : x < y ? x : y;
}

template <class T> __device__ inline T two_real(int32_t id, T x, T y)
{
  switch (id) {
  case RG_OP_ADD:
    return x + y;
  case RG_OP_SUB:
    return x - y;
  case RG_OP_MUL:
    return x * y;
  case RG_OP_DIV:
    return x / y;
  case RG_OP_POW:
    return y == (T)2 ? x * x : pow(x, y);
  case RG_OP_MAXIMUM:
    return larger(x, y);
  default:
    return smaller(x, y);
  }
}

template <class T, class U> __device__ inline T two_whole(int32_t id, T x, T y)
{
  switch (id) {
  case RG_OP_ADD:
    return (T)((U)x + (U)y);
  case RG_OP_SUB:
    return (T)((U)x - (U)y);
  case RG_OP_MUL:
    return (T)((U)x * (U)y);
  case RG_OP_MAXIMUM:
    return x > y ? x : y;
  default:
    return x < y ? x : y;
  }
}

__device__ inline float two(int32_t id, float x, float y)
{
  return two_real(id, x, y);
}
__device__ inline double two(int32_t id, double x, double y)
{
  return two_real(id, x, y);
}
__device__ inline int64_t two(int32_t id, int64_t x, int64_t y)
{
  return two_whole<int64_t, uint64_t>(id, x, y);
}
__device__ inline int32_t two(int32_t id, int32_t x, int32_t y)
{
  return two_whole<int32_t, uint32_t>(id, x, y);
}
__device__ inline int8_t two(int32_t id, int8_t x, int8_t y)
{
  return two_whole<int8_t, uint32_t>(id, x, y);
}
__device__ inline uint8_t two(int32_t id, uint8_t x, uint8_t y)
{
  return two_whole<uint8_t, uint32_t>(id, x, y);
}

/* -- Kernels --------------------------------------------------------------------------------- */

template <class T> __global__ void k_unary(int32_t id, rg_strided y, rg_strided x, int64_t n)
{
  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    ((T *)y.data)[rg_at(y, i)] = rg_element<T>::of(one(id, rg_get(((T *)x.data)[rg_at(x, i)])));
  }
}

template <class T>
__global__ void k_binary(int32_t id, rg_strided z, rg_strided x, rg_strided y, int64_t n)
{
  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    ((T *)z.data)[rg_at(z, i)] = rg_element<T>::of(
        two(id, rg_get(((T *)x.data)[rg_at(x, i)]), rg_get(((T *)y.data)[rg_at(y, i)])));
  }
}

template <class T>
__global__ void k_compare(int32_t id, rg_strided z, rg_strided x, rg_strided y, int64_t n)
{
  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    ((uint8_t *)z.data)[rg_at(z, i)] =
        compared(id, rg_get(((T *)x.data)[rg_at(x, i)]), rg_get(((T *)y.data)[rg_at(y, i)]));
  }
}

/* With a number in the place of x (reversed) or of y. */
template <class T>
__global__ void k_scalar(int32_t id, rg_strided z, rg_strided x, double value, int32_t reversed,
                         int32_t compares, int64_t n)
{
  typedef typename rg_lane<T>::type lane;
  lane v = rg_get(rg_converted<T>::of(rg_number{ value, 0, false }));

  if (sizeof(T) == 2) {
    v = (lane)value; /* half types compute with the number itself, as a float */
  }
  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    lane a = rg_get(((T *)x.data)[rg_at(x, i)]);
    lane p = reversed ? v : a;
    lane q = reversed ? a : v;

    if (compares) {
      ((uint8_t *)z.data)[rg_at(z, i)] = compared(id, p, q);
    } else {
      ((T *)z.data)[rg_at(z, i)] = rg_element<T>::of(two(id, p, q));
    }
  }
}

/* -- Calls ------------------------------------------------------------------------------------ */

static rg_status unary(const rg_call *call, rg_tensor *y)
{
  const rg_tensor *x = call->in[0];
  rg_launch_cfg cfg = rg_over(y->_count, rg_gpu_stream(call->device));

  if (y->_count == 0) {
    return RG_OK;
  }
  switch (y->_dtype) {
#define CASE(code, T)                                                            \
  case code:                                                                     \
    return rg_gpu_status(call->op->name,                                         \
                         rg_launch(k_unary<T>, cfg, call->op->id, rg_view_of(y), \
                                   rg_view_as(x, y->_shape, y->_ndim), y->_count));
    RG_TYPES(CASE)
#undef CASE
  default:
    return rg_gpu->fail(RG_EDTYPE, "%s: no kernel for type %d", call->op->name, y->_dtype);
  }
}

static rg_status binary(const rg_call *call, rg_tensor *z)
{
  const rg_binary_args *args = (const rg_binary_args *)call->args;
  const rg_tensor *x = call->in[0];
  const rg_tensor *y = args->scalar ? NULL : call->in[1];
  int32_t id = call->op->id;
  bool compares = id >= RG_OP_EQ && id <= RG_OP_GE;
  rg_launch_cfg cfg = rg_over(z->_count, rg_gpu_stream(call->device));

  if (z->_count == 0) {
    return RG_OK;
  }
  if (x->_dtype == RG_BOOL && id == RG_OP_ADD) {
    id = RG_OP_MAXIMUM; /* true + true is true */
  }
  rg_strided to = rg_view_of(z);
  rg_strided a = rg_view_as(x, z->_shape, z->_ndim);
  rg_strided b = y != NULL ? rg_view_as(y, z->_shape, z->_ndim) : a;

  switch (x->_dtype) {
#define CASE(code, T)                                                                         \
  case code:                                                                                  \
    return rg_gpu_status(call->op->name,                                                      \
                         y == NULL  ? rg_launch(k_scalar<T>, cfg, id, to, a, args->value,     \
                                                args->reversed, (int32_t)compares, z->_count) \
                         : compares ? rg_launch(k_compare<T>, cfg, id, to, a, b, z->_count)   \
                                    : rg_launch(k_binary<T>, cfg, id, to, a, b, z->_count));
    RG_TYPES(CASE)
#undef CASE
  default:
    return rg_gpu->fail(RG_EDTYPE, "%s: no kernel for type %d", call->op->name, x->_dtype);
  }
}

#define KERNEL(NAME, name, help, class)                                                \
  rg_status rg_gpu_##name(const rg_call *call, rg_tensor *const *out, rg_frame *frame) \
  {                                                                                    \
    (void)frame;                                                                       \
    return unary(call, out[0]);                                                        \
  }
RG_UNARY_LIST(KERNEL)
#undef KERNEL

#define KERNEL(NAME, name, help, class)                                                \
  rg_status rg_gpu_##name(const rg_call *call, rg_tensor *const *out, rg_frame *frame) \
  {                                                                                    \
    (void)frame;                                                                       \
    return binary(call, out[0]);                                                       \
  }
RG_BINARY_LIST(KERNEL)
#undef KERNEL
