/* SPDX-License-Identifier: MIT */
/*
** Neighbours that are loaded and stored together: memory is crossed in 16 bytes a thread where
** tensors are contiguous and begin at a multiple of that, and element by element elsewhere.
*/
#ifndef RIDGE_GPU_PACK_CUH
#define RIDGE_GPU_PACK_CUH

#include "gpu/device.cuh"

/* N neighbours, and the words that move them: the compiler moves halves by at most 8 bytes. */
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) rg_pack {
  T v[N];
};

template <int BYTES> struct rg_words {
  uint4 w[BYTES / 16];
};
template <> struct rg_words<8> {
  uint2 w;
};
template <> struct rg_words<4> {
  uint32_t w;
};
template <> struct rg_words<2> {
  uint16_t w;
};
template <> struct rg_words<1> {
  uint8_t w;
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
  return rg_with_type<RG_KINDS_ALL>(dtype,
                                    [](auto t) { return (int64_t)sizeof(rg_t<decltype(t)>); });
}

/* How elements are loaded and stored, as a trace says it: 16 bytes a thread, or one by one. */
inline const char *rg_path_of(bool wide)
{
  return wide ? "packs" : "elements";
}

/* Can n elements at a time of a view be moved together?  Where the last axis is contiguous and
** n divides it, and where all along it are one element, which is read only. */
inline bool rg_packs(const rg_strided &v, int32_t dtype, int64_t n)
{
  const int32_t last = v.ndim - 1;
  bool fits = rg_aligned(v.data, rg_bytes_of(dtype), n);

  if (v.flat != 0) {
    return v.flat == 2 || fits;
  }
  if (v.shape[last] % n != 0 || v.stride[last] == 0) {
    return v.shape[last] % n == 0;
  }
  for (int32_t i = 0; i < last; i++) {
    fits = fits && v.stride[i] % n == 0;
  }
  return fits && v.stride[last] == 1;
}

/* Blocks for n elements, so many at a time, for each thread once: blocks that begin in the order of
** memory keep fewer of its pages open than threads that go on a grid further. */
inline rg_launch_cfg rg_filling(int64_t n, int64_t at_a_time, const rg_call *call)
{
  const int64_t wanted = (n + RG_BLOCK * at_a_time - 1) / (RG_BLOCK * at_a_time);

  return rg_launch_cfg{ dim3((unsigned)rg_clamped(wanted, 1, INT32_MAX)), dim3(RG_BLOCK), 0,
                        rg_gpu_stream(call->device) };
}

template <class T, int N, class L>
__device__ inline void rg_unpack(const void *data, int64_t at, L (&v)[N])
{
  rg_words<sizeof(T) *N> words = *(const rg_words<sizeof(T) * N> *)((const T *)data + at);
  rg_pack<T, N> p;

  memcpy((void *)&p, &words, sizeof(p));
#pragma unroll
  for (int k = 0; k < N; k++) {
    v[k] = (L)rg_get(p.v[k]);
  }
}

template <class T, int N, class L>
__device__ inline void rg_pack_into(void *data, int64_t at, const L (&v)[N])
{
  rg_words<sizeof(T) * N> words;
  rg_pack<T, N> p;

#pragma unroll
  for (int k = 0; k < N; k++) {
    p.v[k] = rg_element<T>::of((typename rg_lane<T>::type)v[k]);
  }
  memcpy((void *)&words, (const void *)&p, sizeof(p));
  *(rg_words<sizeof(T) * N> *)((T *)data + at) = words;
}

/*
** The elements that a thread takes at a time, N of n: side by side where all views pack (wide),
** otherwise as far apart as there are threads, so that neighbours of a warp stay neighbours.
**
**   for (rg_some<N> at(n, wide); at.more(); at.next()) {
**     rg_read<T>(x, at, v); ... rg_write<T>(y, at, v);
*/
template <int N> struct rg_some {
  int64_t i;
  int64_t n;
  bool wide;

  __device__ inline rg_some(int64_t n_, bool wide_)
      : i(RG_FIRST * (wide_ ? N : 1)), n(n_), wide(wide_)
  {
  }
  __device__ inline bool more() const
  {
    return i < n;
  }
  __device__ inline void next()
  {
    i += RG_NEXT * N;
  }
  __device__ inline bool whole() const
  {
    return wide && i + N <= n;
  }
  __device__ inline int64_t at(int k) const
  {
    return i + k * (wide ? 1 : RG_NEXT);
  }
};

/* What is behind the end is 0. */
template <class T, int N, class L>
__device__ inline void rg_read(const rg_strided &x, const rg_some<N> &at, L (&v)[N])
{
#pragma unroll
  for (int k = 0; k < N; k++) {
    v[k] = 0;
  }
  const T *from = (const T *)x.data;

  if (!at.whole()) {
#pragma unroll 1 /* a place takes many divisions: written once, not N times */
    for (int j = 0; j < N; j++) {
      const L one = at.at(j) < at.n ? (L)rg_get(from[rg_at(x, at.at(j))]) : (L)0;

#pragma unroll
      for (int k = 0; k < N; k++) {
        v[k] = k == j ? one : v[k];
      }
    }
  } else if (x.flat == 2 || (x.flat == 0 && x.stride[x.ndim - 1] == 0)) {
    const L one = (L)rg_get(from[rg_at(x, at.i)]);

#pragma unroll
    for (int k = 0; k < N; k++) {
      v[k] = one;
    }
  } else {
    rg_unpack<T, N>(from, rg_at(x, at.i), v);
  }
}

template <class T, int N, class L>
__device__ inline void rg_write(const rg_strided &y, const rg_some<N> &at, const L (&v)[N])
{
  if (at.whole()) {
    rg_pack_into<T, N>(y.data, rg_at(y, at.i), v);
    return;
  }
#pragma unroll 1
  for (int j = 0; j < N && at.at(j) < at.n; j++) {
    L one = v[0];

#pragma unroll
    for (int k = 1; k < N; k++) {
      one = k == j ? v[k] : one;
    }
    ((T *)y.data)[rg_at(y, at.at(j))] = rg_element<T>::of((typename rg_lane<T>::type)one);
  }
}

/*
** Elements side by side that begin anywhere: loose ones before the first multiple of 16 bytes,
** packs from `first` on and before `last`, loose ones behind them; those are fewer than two packs.
** Where elements are not contiguous, all of them are loose.
*/
template <class T> struct rg_stretch {
  int64_t first, last, n;

  __device__ inline rg_stretch(const void *from, int64_t n_, bool side_by_side) : n(n_)
  {
    first = (int64_t)((16 - (uintptr_t)from % 16) % 16 / sizeof(T));
    first = side_by_side && first < n ? first : n;
    last = first + (n - first) / rg_pack_size<T> * rg_pack_size<T>;
  }
  __device__ inline int64_t loose() const
  {
    return first + n - last;
  }
  __device__ inline int64_t loose_at(int64_t k) const
  {
    return k < first ? k : last + k - first;
  }
};

/* The same for floats of a type that is known when the kernel runs; all threads answer alike. */
template <int N, class L>
__device__ inline void rg_load_pack(const void *data, int32_t dtype, int64_t at, L (&v)[N])
{
  rg_of_type<RG_KINDS_FLOAT>(dtype, [&](auto t) { rg_unpack<rg_t<decltype(t)>, N>(data, at, v); });
}

template <int N, class L>
__device__ inline void rg_store_pack(void *data, int32_t dtype, int64_t at, const L (&v)[N])
{
  rg_of_type<RG_KINDS_FLOAT>(dtype,
                             [&](auto t) { rg_pack_into<rg_t<decltype(t)>, N>(data, at, v); });
}

#endif
