/* SPDX-License-Identifier: MIT */
/*
** f16 and bf16 to and from f32, one number at a time, round to nearest even; kernels have vector
** forms of the same rule.
*/
#ifndef RIDGE_TENSOR_HALF_H
#define RIDGE_TENSOR_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t rg_bits_of_f32(float x)
{
  uint32_t u;

  memcpy(&u, &x, sizeof(u));
  return u;
}

static inline float rg_f32_of_bits(uint32_t u)
{
  float x;

  memcpy(&x, &u, sizeof(x));
  return x;
}

static inline float rg_bf16_to_f32(uint16_t h)
{
  return rg_f32_of_bits((uint32_t)h << 16);
}

static inline uint16_t rg_bf16_of_f32(float x)
{
  uint32_t u = rg_bits_of_f32(x);

  if ((u & 0x7fffffffu) > 0x7f800000u) {
    return (uint16_t)((u >> 16) | 0x40); /* nan stays nan, and quiet */
  }
  return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}

static inline float rg_f16_to_f32(uint16_t h)
{
  uint32_t sign = (uint32_t)(h & 0x8000) << 16;
  uint32_t rest = h & 0x7fffu;

  if (rest >= 0x7c00) { /* infinity and nan */
    return rg_f32_of_bits(sign | 0x7f800000u | (rest & 0x3ff) << 13);
  }
  if (rest >= 0x400) { /* normal */
    return rg_f32_of_bits(sign | ((rest << 13) + 0x38000000u));
  }
  /* subnormal: rest * 2^-24, exact in f32 */
  return rg_f32_of_bits(sign | rg_bits_of_f32((float)rest * 0x1p-24f));
}

static inline uint16_t rg_f16_of_f32(float x)
{
  uint32_t u = rg_bits_of_f32(x);
  uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
  uint32_t rest = u & 0x7fffffffu;

  if (rest > 0x7f800000u) {
    return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x1ff));
  }
  if (rest >= 0x477ff000u) { /* rounds to 65536 or is above: infinity */
    return (uint16_t)(sign | 0x7c00);
  }
  if (rest < 0x38800000u) { /* below 2^-14: subnormal, rounded by adding 2^-1 in units of 2^-24 */
    float magnitude = rg_f32_of_bits(rest);

    return (uint16_t)(sign | (rg_bits_of_f32(magnitude + 0.5f) - 0x3f000000u));
  }
  rest += 0xc8000fffu + (rest >> 13 & 1);
  return (uint16_t)(sign | rest >> 13);
}

#endif
