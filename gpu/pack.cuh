/* SPDX-License-Identifier: MIT */
/*
** Neighbours that are loaded and stored together: memory is crossed in 16 bytes a thread where
** tensors lie side by side and begin at a multiple of that, and element by element elsewhere.
*/
#ifndef RIDGE_GPU_PACK_CUH
#define RIDGE_GPU_PACK_CUH

#include "gpu/device.cuh"

/* What one instruction moves, or two where N elements are more than 16 bytes. */
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) rg_pack {
  T v[N];
};

/* Elements of 16 bytes. */
template <class T> constexpr int rg_pack_size = 16 / (int)sizeof(T);

/* Does an array begin where n elements of so many bytes can be moved together? */
inline bool rg_aligned(const void *data, int64_t bytes, int64_t n)
{
  return (uintptr_t)data % (uintptr_t)(bytes * n < 16 ? bytes * n : 16) == 0;
}

inline int64_t rg_bytes_of(int32_t dtype)
{
  switch (dtype) {
#define CASE(code, T) \
  case code:          \
    return (int64_t)sizeof(T);
    RG_TYPES(CASE)
#undef CASE
  default:
    return 0;
  }
}

/* Can n elements at a time of a view be moved together, or are they all one? */
inline bool rg_packs(const rg_strided &v, int32_t dtype, int64_t n)
{
  return v.flat == 2 || (v.flat == 1 && rg_aligned(v.data, rg_bytes_of(dtype), n));
}

template <class T, int N, class L>
__device__ inline void rg_unpack(const void *data, int64_t at, L (&v)[N])
{
  rg_pack<T, N> p = *(const rg_pack<T, N> *)((const T *)data + at);

#pragma unroll
  for (int k = 0; k < N; k++) {
    v[k] = (L)rg_get(p.v[k]);
  }
}

template <class T, int N, class L>
__device__ inline void rg_pack_into(void *data, int64_t at, const L (&v)[N])
{
  rg_pack<T, N> p;

#pragma unroll
  for (int k = 0; k < N; k++) {
    p.v[k] = rg_element<T>::of((typename rg_lane<T>::type)v[k]);
  }
  *(rg_pack<T, N> *)((T *)data + at) = p;
}

/* The same for floats of a type that is known when the kernel runs; all threads answer alike. */
template <int N, class L>
__device__ inline void rg_load_pack(const void *data, int32_t dtype, int64_t at, L (&v)[N])
{
  switch (dtype) {
#define CASE(code, T)             \
  case code:                      \
    rg_unpack<T, N>(data, at, v); \
    break;
    RG_FLOATS(CASE)
#undef CASE
  }
}

template <int N, class L>
__device__ inline void rg_store_pack(void *data, int32_t dtype, int64_t at, const L (&v)[N])
{
  switch (dtype) {
#define CASE(code, T)                \
  case code:                         \
    rg_pack_into<T, N>(data, at, v); \
    break;
    RG_FLOATS(CASE)
#undef CASE
  }
}

#endif
