/* SPDX-License-Identifier: MIT */
/*
** Functions of one element and of two.  Which function it is is asked inside the kernel, where all
** threads answer alike: reading and writing memory takes the time, and one kernel a type is less to
** load than one a function.
*/
#include "gpu/functions.cuh"
#include "gpu/kernels.cuh"

extern "C" {
#include "op/binary.h"
}

/* -- Kernels --------------------------------------------------------------------------------- */

template <class T> __global__ void k_unary(int32_t id, rg_strided y, rg_strided x, int64_t n)
{
  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    ((T *)y.data)[rg_at(y, i)] = rg_element<T>::of(rg_one(id, rg_get(((T *)x.data)[rg_at(x, i)])));
  }
}

template <class T>
__global__ void k_binary(int32_t id, rg_strided z, rg_strided x, rg_strided y, int64_t n)
{
  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    ((T *)z.data)[rg_at(z, i)] = rg_element<T>::of(
        rg_two(id, rg_get(((T *)x.data)[rg_at(x, i)]), rg_get(((T *)y.data)[rg_at(y, i)])));
  }
}

template <class T>
__global__ void k_compare(int32_t id, rg_strided z, rg_strided x, rg_strided y, int64_t n)
{
  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    ((uint8_t *)z.data)[rg_at(z, i)] =
        rg_compared(id, rg_get(((T *)x.data)[rg_at(x, i)]), rg_get(((T *)y.data)[rg_at(y, i)]));
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
      ((uint8_t *)z.data)[rg_at(z, i)] = rg_compared(id, p, q);
    } else {
      ((T *)z.data)[rg_at(z, i)] = rg_element<T>::of(rg_two(id, p, q));
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
