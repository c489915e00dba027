/* SPDX-License-Identifier: MIT */
/*
** The 8-bit floats of the OCP standard ("8-bit Floating Point Specification", 2023) to and from
** f32, one number at a time, in the same steps on every processor and every GPU.
**
**            sign exponent mantissa  largest   smallest above 0  not a number
**   f8e4m3   1    4        3         448       2^-9              s1111111, no infinities
**   f8e5m2   1    5        2         57344     2^-16             s11111mm but mm = 00: infinity
**
** Rounding is to nearest even.  What rounds beyond the largest becomes nan in f8e4m3 and infinity
** in f8e5m2 (the standard's mode without saturation, as torch converts); nan stays nan with its
** sign, and is s1111111 then.
*/
#ifndef RIDGE_TENSOR_F8_H
#define RIDGE_TENSOR_F8_H

#include <stdint.h>
#include <string.h>

#include "base/shared.h"

RG_BOTH uint32_t rg_f8_bits(float x)
{
  uint32_t u;

  memcpy(&u, &x, sizeof(u));
  return u;
}

RG_BOTH float rg_f8_float(uint32_t u)
{
  float x;

  memcpy(&x, &u, sizeof(x));
  return x;
}

/*
** shift: mantissa bits that f32 has more.  least: bits of the f32 that is the smallest normal
** number.  unit: an f32 so large that its last place is the smallest number above 0.  over: what is
** larger than the largest.
*/
RG_BOTH uint8_t rg_f8_narrowed(float x, uint32_t shift, uint32_t least, float unit, uint32_t over)
{
  uint32_t u = rg_f8_bits(x);
  uint32_t rest = u & 0x7fffffffu;
  /* the exponent of `least` becomes 1; half of the last place that stays, ties to even */
  uint32_t normal =
      (rest - least + (1u << 23) + (1u << (shift - 1)) - 1u + (rest >> shift & 1u)) >> shift;
  /* the addition rounds a number below `least` to that last place */
  uint32_t tiny = rg_f8_bits(rg_f8_float(rest) + unit) - rg_f8_bits(unit);
  uint32_t y = rest < least ? tiny : normal;

  y = y > over ? over : y;
  y = rest > 0x7f800000u ? 0x7fu : y;
  return (uint8_t)(u >> 24 & 0x80u) | (uint8_t)y;
}

/* last: the smallest number above 0.  over: as above.  nan: the first that is no number. */
RG_BOTH float rg_f8_widened(uint8_t h, uint32_t shift, uint32_t least, float last, uint32_t over,
                            uint32_t nan)
{
  uint32_t rest = h & 0x7fu;
  uint32_t normal = (rest << shift) + least - (1u << 23);
  uint32_t tiny = rg_f8_bits((float)(int32_t)rest * last);
  uint32_t y = rest < 1u << (23 - shift) ? tiny : normal;

  y = rest >= over ? 0x7f800000u : y;
  y = rest >= nan ? 0x7fc00000u : y;
  return rg_f8_float((uint32_t)(h & 0x80u) << 24 | y);
}

RG_BOTH uint8_t rg_f8e4m3_of_f32(float x)
{
  return rg_f8_narrowed(x, 20, 0x3c800000u, 16384.0f, 0x7f);
}

RG_BOTH uint8_t rg_f8e5m2_of_f32(float x)
{
  return rg_f8_narrowed(x, 21, 0x38800000u, 128.0f, 0x7c);
}

RG_BOTH float rg_f8e4m3_to_f32(uint8_t h)
{
  return rg_f8_widened(h, 20, 0x3c800000u, 1.0f / 512, 0x7f, 0x7f);
}

RG_BOTH float rg_f8e5m2_to_f32(uint8_t h)
{
  return rg_f8_widened(h, 21, 0x38800000u, 1.0f / 65536, 0x7c, 0x7d);
}

/*
** v as a float that rounds on to fewer bits as v itself would: of the two floats around v the odd
** one (Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded sums").
*/
RG_BOTH float rg_f32_odd_of_f64(double v)
{
  float f = (float)v;
  double near = (double)f;
  /* the other float around v is one place nearer to 0, or one farther */
  uint32_t less = (near < 0 ? -near : near) > (v < 0 ? -v : v);
  uint32_t more = (near < 0 ? -near : near) < (v < 0 ? -v : v);
  uint32_t u = rg_f8_bits(f);

  return rg_f8_float((u & 1u) != 0 ? u : u + more - less);
}

#endif
