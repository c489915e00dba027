/* SPDX-License-Identifier: MIT */
/*
** What is done to elements before and behind a collective, where NCCL would do it otherwise.
**
** NCCL multiplies by a factor in the elements' own type: 1/3 in bf16 is too large by 0.2 %.  Here
** it is done in f32, and rounded once.  Its max and min of floats are fmaxf and fminf, which lose
** NaN.
*/
#include "gpu/nccl/comm.cuh"
#include "gpu/pack.cuh"

enum { BLOCK = 256, BLOCKS = 1024 };

static rg_launch_cfg filling(int64_t n, cudaStream_t stream)
{
  const int64_t wanted = (n + BLOCK - 1) / BLOCK;

  return rg_launch_cfg{ dim3((unsigned)(wanted < BLOCKS ? wanted : (int64_t)BLOCKS)), dim3(BLOCK),
                        0, stream };
}

template <class T>
__global__ void k_scale(const T *from, typename rg_lane<T>::type share, T *to, int64_t n)
{
  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    to[i] = rg_element<T>::of(share * rg_get(from[i]));
  }
}

cudaError_t rg_nccl_scale(int32_t dtype, const void *from, double share, void *to, int64_t n,
                          cudaStream_t stream)
{
  if (share == 0) {
    return cudaMemsetAsync(to, 0, (size_t)(n * rg_bytes_of(dtype)), stream);
  }
  return rg_with_type<RG_KINDS_FLOAT>(dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return rg_launch(k_scale<T>, filling(n, stream), (const T *)from,
                     (typename rg_lane<T>::type)share, (T *)to, n);
  });
}

/* -- Keys -------------------------------------------------------------------------------------- */

/* The whole number of a float, and what has its bits. */
template <class L> struct key_of;
template <> struct key_of<float> {
  typedef int32_t type;
  static constexpr int32_t most = INT32_MAX;
  static constexpr int32_t least = INT32_MIN;
};
template <> struct key_of<double> {
  typedef int64_t type;
  static constexpr int64_t most = INT64_MAX;
  static constexpr int64_t least = INT64_MIN;
};

/* Of two negative floats the larger one has the smaller bits: all but the sign are inverted. */
template <class K> __device__ static inline K in_order(K bits)
{
  return bits < 0 ? bits ^ key_of<std::conditional_t<sizeof(K) == 4, float, double>>::most : bits;
}

/* nan: what NaN becomes, the most or the least that there is */
template <class T, class L, class K>
__global__ void k_keys(const T *from, K nan, K *keys, int64_t n)
{
  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    const L x = rg_get(from[i]);
    K bits;

    memcpy(&bits, &x, sizeof(bits));
    keys[i] = x != x ? nan : in_order(bits);
  }
}

template <class T, class L, class K> __global__ void k_from_keys(const K *keys, T *to, int64_t n)
{
  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    const K bits = in_order(keys[i]); /* the most and the least have those of a NaN */
    L x;

    memcpy(&x, &bits, sizeof(x));
    to[i] = rg_element<T>::of(x);
  }
}

cudaError_t rg_nccl_keys(int32_t dtype, bool most, const void *from, void *keys, int64_t n,
                         cudaStream_t stream)
{
  return rg_with_type<RG_KINDS_FLOAT>(dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;
    using L = typename rg_lane<T>::type;
    using K = typename key_of<L>::type;

    return rg_launch(k_keys<T, L, K>, filling(n, stream), (const T *)from,
                     most ? key_of<L>::most : key_of<L>::least, (K *)keys, n);
  });
}

cudaError_t rg_nccl_from_keys(int32_t dtype, const void *keys, void *to, int64_t n,
                              cudaStream_t stream)
{
  return rg_with_type<RG_KINDS_FLOAT>(dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;
    using L = typename rg_lane<T>::type;
    using K = typename key_of<L>::type;

    return rg_launch(k_from_keys<T, L, K>, filling(n, stream), (const K *)keys, (T *)to, n);
  });
}
