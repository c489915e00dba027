/* SPDX-License-Identifier: MIT */
/*
** Loading and storing for compiled chains, N elements at a time: 8 neighbours, twice as many in two
** places (all loads of 16 bytes are under way before the first is needed), or 1 at the end of a
** tensor.
** This file is text for the compiler at run time (text.cu), behind data.h and formulas.h, and
** stands alone.  `index` is the type that counts are computed in.
*/
typedef float T;

#ifdef __CUDACC_RTC__
__device__ inline float of_f16(unsigned short bits)
{
  float x;

  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}

__device__ inline unsigned short f16_of(float x)
{
  unsigned short bits;

  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

__device__ inline unsigned short bf16_of(float x)
{
  unsigned short bits;

  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

__device__ inline float exp2_of(float x)
{
  float y;

  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline float reciprocal_of(float x)
{
  float y;

  asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#endif

/* As rg_quotient and rg_erf_absolute (gpu/device.cuh) have it. */
__device__ inline float quotient(float x, float y)
{
  return x * reciprocal_of(y);
}

__device__ inline float erf_absolute(float x)
{
  float t = fabs(x);

  return copysignf(1.0f - exp2_of(RG_LOG2_ERFC_F32(t, fmaf)), x);
}

template <int TYPE> __device__ inline float of_half(unsigned short bits)
{
  return TYPE == RG_PART_BF16 ? __uint_as_float((unsigned)bits << 16) : of_f16(bits);
}

template <int TYPE> __device__ inline unsigned short half_of(float x)
{
  return TYPE == RG_PART_BF16 ? bf16_of(x) : f16_of(x);
}

/* Through a type, as a result that is stored and loaded again. */
template <int TYPE> __device__ inline float rounded(float x)
{
  return TYPE == RG_PART_F32 ? x : of_half<TYPE>(half_of<TYPE>(x));
}

struct alignas(16) quad {
  unsigned word[4];
};

template <int TYPE> __device__ inline float element(const rg_fused_part &p, index at)
{
  return TYPE == RG_PART_F32 ? ((const float *)p.data)[at]
                             : of_half<TYPE>(((const unsigned short *)p.data)[at]);
}

template <int LIES> __device__ inline index place(const rg_fused_part &p, index i)
{
  return LIES == RG_LIES_WHOLE   ? i
         : LIES == RG_LIES_AGAIN ? i % (index)p.mod
                                 : i / (index)p.div % (index)p.mod;
}

/* Where the second eight of a thread are, behind its first. */
#define APART (8 * RG_FUSED_THREADS)

/* The eight of a thread's N that begin at v. */
template <int TYPE, int LIES>
__device__ inline void fetch_eight(float *v, const rg_fused_part &p, index i)
{
  if (LIES == RG_LIES_LOOSE) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
      v[j] = element<TYPE>(p, place<LIES>(p, i + j));
    }
  } else if (LIES == RG_LIES_ONE) {
    float x = element<TYPE>(p, place<LIES>(p, i));

#pragma unroll
    for (int j = 0; j < 8; j++) {
      v[j] = x;
    }
  } else if (TYPE == RG_PART_F32) {
    const quad *from = (const quad *)p.data + place<LIES>(p, i) / 4;
    quad low = from[0], high = from[1];

#pragma unroll
    for (int j = 0; j < 8; j++) {
      v[j] = __uint_as_float(j < 4 ? low.word[j % 4] : high.word[j % 4]);
    }
  } else {
    quad all = ((const quad *)p.data)[place<LIES>(p, i) / 8];

#pragma unroll
    for (int j = 0; j < 8; j++) {
      v[j] = of_half<TYPE>((unsigned short)(all.word[j / 2] >> 16 * (j % 2)));
    }
  }
}

template <int TYPE, int LIES, int N>
__device__ inline void fetch(float (&v)[N], const rg_fused_part &p, index i)
{
  if (N == 1) {
    v[0] = element<TYPE>(p, place<LIES>(p, i));
  }
#pragma unroll
  for (int k = 0; k < N / 8; k++) {
    fetch_eight<TYPE, LIES>(v + 8 * k, p, i + k * APART);
  }
}

template <int TYPE> __device__ inline void put_one(const rg_fused_part &p, index i, float x)
{
  if (TYPE == RG_PART_F32) {
    ((float *)p.data)[i] = x;
  } else {
    ((unsigned short *)p.data)[i] = half_of<TYPE>(x);
  }
}

template <int TYPE, int LIES>
__device__ inline void put_eight(const rg_fused_part &p, index i, const float *v)
{
  if (LIES != RG_LIES_WHOLE) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
      put_one<TYPE>(p, i + j, v[j]);
    }
  } else if (TYPE == RG_PART_F32) {
    quad low, high;

#pragma unroll
    for (int j = 0; j < 4; j++) {
      low.word[j] = __float_as_uint(v[j]);
      high.word[j] = __float_as_uint(v[j + 4]);
    }
    ((quad *)p.data)[i / 4] = low;
    ((quad *)p.data)[i / 4 + 1] = high;
  } else {
    quad all;

#pragma unroll
    for (int j = 0; j < 4; j++) {
      all.word[j] = half_of<TYPE>(v[2 * j]) | (unsigned)half_of<TYPE>(v[2 * j + 1]) << 16;
    }
    ((quad *)p.data)[i / 8] = all;
  }
}

template <int TYPE, int LIES, int N>
__device__ inline void put(const rg_fused_part &p, index i, const float (&v)[N])
{
  if (N == 1) {
    put_one<TYPE>(p, i, v[0]);
  }
#pragma unroll
  for (int k = 0; k < N / 8; k++) {
    put_eight<TYPE, LIES>(p, i + k * APART, v + 8 * k);
  }
}

#define SAME(f)         f
#define SELECT(c, a, b) ((c) ? (a) : (b))
#define POWER(x, y)     y == (T)2 ? x *x : pow(x, y)
#define ONE(NAME, name, ...)                  \
  __device__ inline float one_##NAME(float x) \
  {                                           \
    return (T)(__VA_ARGS__);                  \
  }
#define TWO(NAME, name, ...)                           \
  __device__ inline float two_##NAME(float x, float y) \
  {                                                    \
    return (T)(__VA_ARGS__);                           \
  }
#define SLOPE(NAME, name, ...)                  \
  __device__ inline float slope_##NAME(float x) \
  {                                             \
    return (T)(__VA_ARGS__);                    \
  }
RG_UNARY_FORMULAS(ONE, SAME, exp, erf_absolute, quotient)
RG_BINARY_FORMULAS(TWO, SAME, POWER, SELECT)
RG_SLOPE_FORMULAS(SLOPE, SAME, exp, erf_absolute, quotient)

/* What the links of a chain are written with: v is the value, w the second operand. */
#define ALL _Pragma("unroll") for (int j = 0; j < N; j++)
#define EACH(f) \
  ALL           \
  {             \
    v[j] = f;   \
  }
#define COPY(to, f) \
  ALL               \
  {                 \
    to[j] = f;      \
  }
#define TURN        \
  ALL               \
  {                 \
    float x = v[j]; \
    v[j] = w[j];    \
    w[j] = x;       \
  }
