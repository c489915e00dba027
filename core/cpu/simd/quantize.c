/* SPDX-License-Identifier: MIT */
/*
** Runs of numbers as bytes with scales and zero points, and back.
**
** A quotient is cut to what the type holds, less the zero point, before it is rounded: bounds are
** whole, so the result is the same, and what is left is small enough to be rounded (to nearest,
** ties to even) by adding a number whose last place is 1.
*/
#include <string.h>

#include "cpu/simd/simd.h"

/* What is not a number compares false, and comes out as the zero point. */
#define TO_BYTE(i, s, z)                     \
  do {                                       \
    const float last_place = 12582912.0f;    \
    float low = least - (z);                 \
    float high = most - (z);                 \
    float v = x[i] / (s);                    \
                                             \
    v = v == v ? v : 0.0f;                   \
    v = v > low ? v : low;                   \
    v = v < high ? v : high;                 \
    v = (v + last_place) - last_place + (z); \
    y[i] = (byte)(int32_t)v;                 \
  } while (0)

#define TO_BYTES(name, T, top)                                                                    \
  static void name(void *to, const float *x, const float *scale, const float *zero, int64_t step, \
                   float least, int64_t n)                                                        \
  {                                                                                               \
    typedef T byte;                                                                               \
    const float most = (top);                                                                     \
    byte *y = to;                                                                                 \
                                                                                                  \
    if (step == 0) {                                                                              \
      float s = *scale;                                                                           \
      float z = *zero;                                                                            \
                                                                                                  \
      RG_INDEPENDENT                                                                              \
      for (int64_t i = 0; i < n; i++) {                                                           \
        TO_BYTE(i, s, z);                                                                         \
      }                                                                                           \
      return;                                                                                     \
    }                                                                                             \
    RG_INDEPENDENT                                                                                \
    for (int64_t i = 0; i < n; i++) {                                                             \
      TO_BYTE(i, scale[i], zero[i]);                                                              \
    }                                                                                             \
  }
TO_BYTES(to_i8, int8_t, 127.0f)
TO_BYTES(to_u8, uint8_t, 255.0f)

#define FROM_BYTES(name, T)                                                           \
  static void name(float *y, const void *from, const float *scale, const float *zero, \
                   int64_t step, int64_t n)                                           \
  {                                                                                   \
    const T *q = from;                                                                \
                                                                                      \
    if (step == 0) {                                                                  \
      float s = *scale;                                                               \
      float z = *zero;                                                                \
                                                                                      \
      RG_INDEPENDENT                                                                  \
      for (int64_t i = 0; i < n; i++) {                                               \
        y[i] = ((float)q[i] - z) * s;                                                 \
      }                                                                               \
      return;                                                                         \
    }                                                                                 \
    RG_INDEPENDENT                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                 \
      y[i] = ((float)q[i] - zero[i]) * scale[i];                                      \
    }                                                                                 \
  }
FROM_BYTES(from_i8, int8_t)
FROM_BYTES(from_u8, uint8_t)
FROM_BYTES(from_i32, int32_t)

/* Without their signs the bits of floats are in the order of magnitudes, nan above all. */
static float largest(const float *x, int64_t n)
{
  int32_t most = 0;
  float y;

  for (int64_t i = 0; i < n; i++) {
    int32_t bits;

    memcpy(&bits, x + i, sizeof(bits));
    bits &= INT32_MAX;
    most = bits > most ? bits : most;
  }
  memcpy(&y, &most, sizeof(y));
  return y;
}

extern const rg_simd_quantize RG_SIMD_NAME(rg_simd_quantize);

const rg_simd_quantize RG_SIMD_NAME(rg_simd_quantize) = {
  .to = { [RG_LANE_I8] = to_i8, [RG_LANE_U8] = to_u8 },
  .from = { [RG_LANE_I8] = from_i8, [RG_LANE_U8] = from_u8, [RG_LANE_I32] = from_i32 },
  .largest = largest,
};
