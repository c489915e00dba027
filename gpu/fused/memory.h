/* SPDX-License-Identifier: MIT */
/*
** Loading and storing for compiled chains, N neighbours at a time: 8, or 1 at the end of a tensor.
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
#endif

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

template <int TYPE, int LIES, int N>
__device__ inline void fetch(float (&v)[N], const rg_fused_part &p, index i)
{
  if (LIES == RG_LIES_LOOSE || N == 1) {
#pragma unroll
    for (int j = 0; j < N; j++) {
      v[j] = element<TYPE>(p, place<LIES>(p, i + j));
    }
  } else if (LIES == RG_LIES_ONE) {
    float x = element<TYPE>(p, place<LIES>(p, i));

#pragma unroll
    for (int j = 0; j < N; j++) {
      v[j] = x;
    }
  } else if (TYPE == RG_PART_F32) {
    const quad *from = (const quad *)p.data + place<LIES>(p, i) / 4;
    quad low = from[0], high = from[1];

#pragma unroll
    for (int j = 0; j < N; j++) {
      v[j] = __uint_as_float(j < 4 ? low.word[j % 4] : high.word[j % 4]);
    }
  } else {
    quad all = ((const quad *)p.data)[place<LIES>(p, i) / 8];

#pragma unroll
    for (int j = 0; j < N; j++) {
      v[j] = of_half<TYPE>((unsigned short)(all.word[j / 2] >> 16 * (j % 2)));
    }
  }
}

template <int TYPE, int LIES, int N>
__device__ inline void put(const rg_fused_part &p, index i, const float (&v)[N])
{
  if (LIES != RG_LIES_WHOLE || N == 1) {
#pragma unroll
    for (int j = 0; j < N; j++) {
      if (TYPE == RG_PART_F32) {
        ((float *)p.data)[i + j] = v[j];
      } else {
        ((unsigned short *)p.data)[i + j] = half_of<TYPE>(v[j]);
      }
    }
  } else if (TYPE == RG_PART_F32) {
    quad low, high;

#pragma unroll
    for (int j = 0; j < 4; j++) {
      low.word[j] = __float_as_uint(v[j]);
      high.word[j] = __float_as_uint(v[(j + 4) % N]);
    }
    ((quad *)p.data)[i / 4] = low;
    ((quad *)p.data)[i / 4 + 1] = high;
  } else {
    quad all;

#pragma unroll
    for (int j = 0; j < 4; j++) {
      all.word[j] = half_of<TYPE>(v[2 * j % N]) | (unsigned)half_of<TYPE>(v[(2 * j + 1) % N]) << 16;
    }
    ((quad *)p.data)[i / 8] = all;
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
RG_UNARY_FORMULAS(ONE, SAME, exp)
RG_BINARY_FORMULAS(TWO, POWER, SELECT)
RG_SLOPE_FORMULAS(SLOPE, SAME, exp)

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
