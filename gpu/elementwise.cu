/* SPDX-License-Identifier: MIT */
/*
** Unary and binary elementwise functions.  Which function it is is asked inside the kernel, once
** for what a thread loads together and where all threads answer alike: reading and writing memory
** takes the time, and one kernel a type is less to load than one a function.
*/
#include "gpu/functions.cuh"
#include "gpu/kernels.cuh"
#include "gpu/pack.cuh"

extern "C" {
#include "op/binary.h"
}

/* -- Kernels --------------------------------------------------------------------------------- */

/* What a call is about; a number stands in the place of y, or of x (reversed). */
struct pair_work {
  rg_strided z, x, y;
  int64_t n;
  double value;
  int32_t id;
  int32_t scalar, reversed, wide;
};

template <class T>
__global__ void k_unary(int32_t id, const __grid_constant__ rg_strided y,
                        const __grid_constant__ rg_strided x, int64_t n, int32_t wide)
{
  for (rg_some<rg_pack_size<T>> at(n, wide != 0); at.more(); at.next()) {
    typename rg_lane<T>::type v[rg_pack_size<T>];

    rg_read<T>(x, at, v);
    rg_ones(id, v);
    rg_write<T>(y, at, v);
  }
}

/* The same without gaps, in whole packs: one for a thread, which loads it at once. */
template <class T> __global__ void k_unary_flat(int32_t id, char *y, const char *x, int64_t packs)
{
  const int64_t i = RG_FIRST;
  typename rg_lane<T>::type v[rg_pack_size<T>];

  if (i < packs) {
    rg_unpack<T, rg_pack_size<T>>(x, i * rg_pack_size<T>, v);
    rg_ones(id, v);
    rg_pack_into<T, rg_pack_size<T>>(y, i * rg_pack_size<T>, v);
  }
}

/* Answers: of any type, bool. */
template <class T>
__global__ void k_truth(int32_t id, const __grid_constant__ rg_strided y,
                        const __grid_constant__ rg_strided x, int64_t n, int32_t wide)
{
  for (rg_some<rg_pack_size<T>> at(n, wide != 0); at.more(); at.next()) {
    typename rg_lane<T>::type v[rg_pack_size<T>];
    uint8_t z[rg_pack_size<T>];

    rg_read<T>(x, at, v);
#pragma unroll
    for (int k = 0; k < rg_pack_size<T>; k++) {
      z[k] = rg_truth(id, v[k]);
    }
    rg_write<uint8_t>(y, at, z);
  }
}

/* Under autocast a half type is read as it is, and the result is f32. */
template <class S> __global__ void k_unary_wide(int32_t id, rg_strided y, rg_strided x, int64_t n)
{
  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    float v[1] = { rg_get(((const S *)x.data)[rg_at(x, i)]) };

    rg_ones(id, v);
    ((float *)y.data)[rg_at(y, i)] = v[0];
  }
}

/* The number of a call as its kernel computes with it: half types with itself, as a float. */
template <class T> __device__ inline typename rg_lane<T>::type number_of(const pair_work &w)
{
  typedef typename rg_lane<T>::type L;

  return sizeof(T) == 2 ? (L)w.value
                        : (L)rg_get(rg_converted<T>::of(rg_number{ w.value, 0, false }));
}

/* Both of a thread's operands, the second one in q. */
template <class T, int N, class L>
__device__ inline void operands(const pair_work &w, const rg_some<N> &at, L (&p)[N], L (&q)[N])
{
  const L v = number_of<T>(w);

  rg_read<T>(w.x, at, p);
  if (w.scalar == 0) {
    rg_read<T>(w.y, at, q);
    return;
  }
#pragma unroll
  for (int k = 0; k < N; k++) {
    L x = p[k];

    p[k] = w.reversed != 0 ? v : x;
    q[k] = w.reversed != 0 ? x : v;
  }
}

template <class T> __global__ void k_binary(const __grid_constant__ pair_work w)
{
  for (rg_some<rg_pack_size<T>> at(w.n, w.wide != 0); at.more(); at.next()) {
    typename rg_lane<T>::type p[rg_pack_size<T>];
    typename rg_lane<T>::type q[rg_pack_size<T>];

    operands<T>(w, at, p, q);
    rg_twos(w.id, p, q);
    rg_write<T>(w.z, at, p);
  }
}

/* The same without gaps, in whole packs, of which a thread has one. */
template <class T> __global__ void k_binary_flat(const __grid_constant__ pair_work w)
{
  constexpr int N = rg_pack_size<T>;
  const int64_t i = RG_FIRST * N;
  typename rg_lane<T>::type p[N];
  typename rg_lane<T>::type q[N];

  if (i >= w.n) {
    return;
  }
  rg_unpack<T, N>(w.x.data, i, p);
  if (w.scalar == 0) {
    rg_unpack<T, N>(w.y.data, i, q);
  } else {
    const auto v = number_of<T>(w);

#pragma unroll
    for (int k = 0; k < N; k++) {
      const auto x = p[k];

      p[k] = w.reversed != 0 ? v : x;
      q[k] = w.reversed != 0 ? x : v;
    }
  }
  rg_twos(w.id, p, q);
  rg_pack_into<T, N>(w.z.data, i, p);
}

template <class T> __global__ void k_compare(const __grid_constant__ pair_work w)
{
  for (rg_some<rg_pack_size<T>> at(w.n, w.wide != 0); at.more(); at.next()) {
    typename rg_lane<T>::type p[rg_pack_size<T>];
    typename rg_lane<T>::type q[rg_pack_size<T>];
    uint8_t z[rg_pack_size<T>];

    operands<T>(w, at, p, q);
#pragma unroll
    for (int k = 0; k < rg_pack_size<T>; k++) {
      z[k] = rg_compared(w.id, p[k], q[k]);
    }
    rg_write<uint8_t>(w.z, at, z);
  }
}

/* -- Calls ------------------------------------------------------------------------------------ */

static rg_status unary_wide(const rg_call *call, rg_tensor *y)
{
  const rg_tensor *x = call->in[0];
  rg_launch_cfg cfg = rg_over(y->_count, rg_gpu_stream(call->device));
  rg_strided from = rg_view_as(x, y->_shape, y->_ndim);

  if (y->_dtype != RG_F32 || (x->_dtype != RG_F16 && x->_dtype != RG_BF16)) {
    return rg_gpu->fail(RG_EDTYPE, "%s: no kernel from type %d to type %d", call->op->name,
                        x->_dtype, y->_dtype);
  }
  return rg_gpu_status(
      call->op->name,
      x->_dtype == RG_F16
          ? rg_launch(k_unary_wide<__half>, cfg, call->op->id, rg_view_of(y), from, y->_count)
          : rg_launch(k_unary_wide<__nv_bfloat16>, cfg, call->op->id, rg_view_of(y), from,
                      y->_count));
}

static rg_status answer(const rg_call *call, int32_t id, rg_tensor *y, rg_frame *frame)
{
  const rg_tensor *x = call->in[0];
  const int64_t n = 16 / rg_bytes_of(x->_dtype);

  if (y->_count == 0) {
    return RG_OK;
  }
  rg_strided to = rg_view_of(y);
  rg_strided from = rg_view_as(x, y->_shape, y->_ndim);
  int32_t wide = rg_packs(to, y->_dtype, n) && rg_packs(from, x->_dtype, n);
  rg_launch_cfg cfg = rg_filling(y->_count, n, call);

  frame->path = rg_path_of(wide);

  return rg_dispatch<RG_KINDS_COMPUTED>(call, x->_dtype, [&](auto t) {
    return rg_launch(k_truth<rg_t<decltype(t)>>, cfg, id, to, from, y->_count, wide);
  });
}

static rg_status truth(const rg_call *call, rg_tensor *y, rg_frame *frame)
{
  return answer(call, call->op->id, y, frame);
}

static rg_status unary(const rg_call *call, rg_tensor *y, rg_frame *frame)
{
  const rg_tensor *x = call->in[0];
  const int64_t n = 16 / rg_bytes_of(y->_dtype);

  if (y->_count == 0) {
    return RG_OK;
  }
  if (x->_dtype != y->_dtype) {
    return unary_wide(call, y);
  }
  if (y->_dtype == RG_BOOL) { /* bitwise_not, and bool has one bit */
    return answer(call, RG_OP_LOGICAL_NOT, y, frame);
  }
  rg_strided to = rg_view_of(y);
  rg_strided from = rg_view_as(x, y->_shape, y->_ndim);
  int32_t wide = rg_packs(to, y->_dtype, n) && rg_packs(from, x->_dtype, n);
  rg_launch_cfg cfg = rg_filling(y->_count, n, call);

  frame->path = rg_path_of(wide);

  return rg_dispatch<RG_KINDS_COMPUTED>(call, y->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return to.flat == 1 && from.flat == 1 && wide && y->_count % n == 0
               ? rg_launch(k_unary_flat<T>, cfg, call->op->id, to.data, (const char *)from.data,
                           y->_count / n)
               : rg_launch(k_unary<T>, cfg, call->op->id, to, from, y->_count, wide);
  });
}

static rg_status binary(const rg_call *call, rg_tensor *z, rg_frame *frame)
{
  const rg_binary_args *args = (const rg_binary_args *)call->args;
  const rg_tensor *x = call->in[0];
  const rg_tensor *y = args->scalar ? NULL : call->in[1];
  const int32_t id = call->op->id;
  const bool compares = id >= RG_OP_EQ && id <= RG_OP_LOGICAL_XOR;
  const int64_t n = 16 / rg_bytes_of(x->_dtype);
  pair_work w = {};

  if (z->_count == 0) {
    return RG_OK;
  }
  w.z = rg_view_of(z);
  w.x = rg_view_as(x, z->_shape, z->_ndim);
  w.y = y != NULL ? rg_view_as(y, z->_shape, z->_ndim) : w.x;
  w.n = z->_count;
  w.value = args->value;
  w.id = x->_dtype == RG_BOOL && id == RG_OP_ADD ? RG_OP_MAXIMUM : id; /* true + true is true */
  w.scalar = y == NULL;
  w.reversed = args->reversed;
  w.wide =
      rg_packs(w.z, z->_dtype, n) && rg_packs(w.x, x->_dtype, n) && rg_packs(w.y, x->_dtype, n);
  rg_launch_cfg cfg = rg_filling(w.n, n, call);
  const bool flat = w.z.flat == 1 && w.x.flat == 1 && w.y.flat == 1 && w.wide && w.n % n == 0;

  frame->path = rg_path_of(w.wide);

  return rg_dispatch<RG_KINDS_COMPUTED>(call, x->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return rg_launch(compares ? k_compare<T> : flat ? k_binary_flat<T> : k_binary<T>, cfg, w);
  });
}

#define KERNEL(NAME, name, help, class)                                                \
  rg_status rg_gpu_##name(const rg_call *call, rg_tensor *const *out, rg_frame *frame) \
  {                                                                                    \
    return KERNEL_##class(call, out[0], frame);                                        \
  }
#define KERNEL_EXACT   unary
#define KERNEL_FLOAT   unary
#define KERNEL_TRUTH   truth
#define KERNEL_INTEGER unary
RG_UNARY_LIST(KERNEL)
#undef KERNEL

#define KERNEL(NAME, name, help, class)                                                \
  rg_status rg_gpu_##name(const rg_call *call, rg_tensor *const *out, rg_frame *frame) \
  {                                                                                    \
    return binary(call, out[0], frame);                                                \
  }
RG_BINARY_LIST(KERNEL)
#undef KERNEL
