/* SPDX-License-Identifier: MIT */
/*
** What the numbers of a stream become: the same additions and multiplications on every processor
** and every GPU (no fused ones), so that a seed gives the same bits everywhere.
**
** x[0], x[1], ... being the 32-bit Philox numbers from the call's offset on:
**   uniform f32   y[i] = (x[i] >> 8) 2^-24
**   uniform f64   y[i] = ((x[2i] >> 5) 2^26 + (x[2i+1] >> 6)) 2^-53
**   normal        Box and Muller (1958): a pair of results from a radius sqrt(-2 log u) and an
**                 angle, y[2k] = r cos a, y[2k+1] = r sin a;
**                 f32: u = (x[2k] + 1/2) 2^-32, a = 2 pi x[2k+1] 2^-32
**                 f64: u and a from the 64 bits of x[4k], x[4k+1] and of x[4k+2], x[4k+3]
**   signs         y[i] = + where bit i % 32 of x[i / 32] is set, else -: one number makes 32
**
** The fixed signs of a sketched layer come from no stream; see rg_draw_signs.
**
** Polynomials: Moshier's Cephes (logf, sinf, cosf) and Sun's fdlibm (log, sin, cos); the normals
** are within 3 units in the last place of the exact formula for r up to where cos or sin vanish.
*/
#ifndef RIDGE_OP_DRAW_H
#define RIDGE_OP_DRAW_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/shared.h"

/* -- Blocks --------------------------------------------------------------------------- */

/* Block `low + i` of a stream, carried into high. */
RG_BOTH void rg_draw_block(uint64_t seed, uint32_t low, uint32_t high, uint32_t i, uint32_t to[4])
{
  uint32_t c0 = low + i;

  rg_philox_of(seed, c0, high + (c0 < low ? 1u : 0u), 0, to);
}

/* -- Signs ---------------------------------------------------------------------------- */

/* Is sign i, of a run that begins at bit 0 of this number's first, a plus? */
RG_BOTH bool rg_draw_sign(uint32_t x, int64_t i)
{
  return (x >> (i & 31) & 1u) != 0;
}

/*
** The fixed signs of a sketched layer, wherever they are needed: signs 128 block .. 128 block + 127
** of a row of U1 or U2, as the bits of four numbers, the first sign lowest in to[0].
**
** They depend on the seed and on their place alone, not on how many columns there are, so that a
** tile of 128 columns and 32 rows is 32 blocks.  The third word of the counter is 0 for every
** stream, however far it has gone: no sign is a number that was drawn for anything else.
*/
enum { RG_SIGNS_A_BLOCK = 128, RG_DRAW_U1 = 1, RG_DRAW_U2 = 2 };

RG_BOTH void rg_draw_signs(uint64_t seed, uint32_t matrix, uint32_t row, uint32_t block,
                           uint32_t to[4])
{
  rg_philox_of(seed, block, row, matrix, to);
}

/* -- Uniform -------------------------------------------------------------------------- */

RG_BOTH float rg_draw_uniform_f32(uint32_t x)
{
  return (float)(int32_t)(x >> 8) * (1.0f / 16777216.0f);
}

RG_BOTH double rg_draw_uniform_f64(uint32_t x0, uint32_t x1)
{
  double high = (double)(int32_t)(x0 >> 5);
  double low = (double)(int32_t)(x1 >> 6);

  return (high * 67108864.0 + low) * (1.0 / 9007199254740992.0);
}

/* -- Normal, f32 ---------------------------------------------------------------------- */

/* log u for normal u > 0: u = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt 2. */
RG_BOTH float rg_draw_log_f32(float u)
{
  uint32_t bits;
  float f;

  memcpy(&bits, &u, sizeof(bits));
  uint32_t shifted = bits - 0x3f3504f3u; /* sqrt(1/2) becomes 0 */
  float e = (float)((int32_t)shifted >> 23);
  bits = (shifted & 0x007fffffu) + 0x3f3504f3u;
  memcpy(&f, &bits, sizeof(f));
  f -= 1.0f;
  float z = f * f;
  float p = 7.0376836292e-2f;

  p = p * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  p = p * f * z;
  p = p + e * -2.12194440e-4f;
  p = p - 0.5f * z;
  return (f + p) + e * 0.693359375f;
}

RG_BOTH void rg_draw_normal_f32(uint32_t radius, uint32_t turn, float y[2])
{
  /* by halves, since only signed 32-bit numbers convert in one instruction */
  float whole = (float)(int32_t)(radius >> 16) * 65536.0f + (float)(int32_t)(radius & 0xffff);
  float r = sqrtf(-2.0f * rg_draw_log_f32((whole + 0.5f) * (1.0f / 4294967296.0f)));
  /* the nearest quarter turn and what is left of it, -1/8 .. 1/8 of a turn */
  uint32_t quarter = (turn + 0x20000000u) >> 30;
  float a = (float)(int32_t)(turn << 2) * ((1.0f / 4294967296.0f) * 1.57079632679489662f);
  float z = a * a;
  float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * a + a;
  float c =
      ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z -
      0.5f * z + 1.0f;
  float p = (quarter & 1) != 0 ? -s : c;
  float q = (quarter & 1) != 0 ? c : s;
  float side = (quarter & 2) != 0 ? -r : r;

  y[0] = side * p;
  y[1] = side * q;
}

/* -- Normal, f64 ---------------------------------------------------------------------- */

RG_BOTH double rg_draw_log_f64(double u)
{
  uint64_t bits;
  uint64_t shifted;
  double f;

  memcpy(&bits, &u, sizeof(bits));
  shifted = bits - 0x3fe6a09e667f3bcdu;
  double e = (double)((int64_t)shifted >> 52);
  bits = (shifted & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu;
  memcpy(&f, &bits, sizeof(f));
  f -= 1.0;
  double s = f / (2.0 + f);
  double z = s * s;
  double w = z * z;
  double t1 = w * (3.999999999940941908e-01 +
                   w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  double t2 = z * (6.666666666666735130e-01 +
                   w * (2.857142874366239149e-01 +
                        w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  double half = 0.5 * f * f;

  return e * 6.93147180369123816490e-01 -
         ((half - (s * (half + (t1 + t2)) + e * 1.90821492927058770002e-10)) - f);
}

RG_BOTH void rg_draw_normal_f64(uint64_t radius, uint64_t turn, double y[2])
{
  double u = ((double)(int64_t)(radius >> 11) + 0.5) * (1.0 / 9007199254740992.0);
  double r = sqrt(-2.0 * rg_draw_log_f64(u));
  uint64_t quarter = (turn + 0x2000000000000000u) >> 62;
  double a = (double)(int64_t)(turn << 2) *
             ((1.0 / 4294967296.0) * (1.0 / 4294967296.0) * 1.57079632679489661923);
  double z = a * a;
  double s =
      a + a * z *
              (-1.66666666666666324348e-01 +
               z * (8.33333333332248946124e-03 +
                    z * (-1.98412698298579493134e-04 +
                         z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 +
                                                                z * 1.58969099521155010221e-10)))));
  double c =
      1.0 -
      (0.5 * z -
       z * z *
           (4.16666666666666019037e-02 +
            z * (-1.38888888888741095749e-03 +
                 z * (2.48015872894767294178e-05 +
                      z * (-2.75573143513906633035e-07 +
                           z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11))))));
  double p = (quarter & 1) != 0 ? -s : c;
  double q = (quarter & 1) != 0 ? c : s;
  double side = (quarter & 2) != 0 ? -r : r;

  y[0] = side * p;
  y[1] = side * q;
}

/* -- Dropout -------------------------------------------------------------------------- */

/* Is an element with this number kept? */
RG_BOTH bool rg_draw_keeps(uint32_t x, double p)
{
  return x >= (uint32_t)(p * 4294967296.0);
}

/* -- Whole numbers -------------------------------------------------------------------- */

/*
** lo + floor(r range / 2^64), r the 64 bits of two numbers: of the `range` results none is more
** likely than another by more than range / 2^64 of its probability.
*/
RG_BOTH int64_t rg_draw_integer(uint32_t x0, uint32_t x1, int64_t lo, uint64_t range)
{
  uint64_t r = (uint64_t)x0 << 32 | x1;
  /* the high half of the 128-bit product, by halves: 128-bit integers are not C11 */
  uint64_t low = (r & 0xffffffffu) * (range & 0xffffffffu);
  uint64_t middle = (r >> 32) * (range & 0xffffffffu) + (low >> 32);
  uint64_t cross = (r & 0xffffffffu) * (range >> 32) + (middle & 0xffffffffu);
  uint64_t high = (r >> 32) * (range >> 32) + (middle >> 32) + (cross >> 32);

  return (int64_t)((uint64_t)lo + high);
}

#endif
