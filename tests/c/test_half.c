/* SPDX-License-Identifier: MIT */
/*
** f16 and bf16: every one of the 65536 patterns against arithmetic in double, and rounding at every
** border between two neighbours.
*/
#include "tap.h"
#include "tensor/half.h"

/* -- What a pattern means -------------------------------------------------------- */

/* Sign, exponent and fraction of a small float put together in double: exact. */
static double value_of(uint16_t h, int fraction_bits, int bias)
{
  int exponent_bits = 15 - fraction_bits;
  int top = (1 << exponent_bits) - 1;
  int exponent = h >> fraction_bits & top;
  int fraction = h & ((1 << fraction_bits) - 1);
  double sign = h & 0x8000 ? -1 : 1;

  if (exponent == top) {
    return fraction != 0 ? NAN : sign * INFINITY;
  }
  if (exponent == 0) {
    return sign * ldexp(fraction, 1 - bias - fraction_bits);
  }
  return sign * ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

typedef struct kind {
  const char *name;
  int fraction_bits;
  int bias;
  float (*wide)(uint16_t h);
  uint16_t (*narrow)(float x);
} kind;

static bool same(double a, double b)
{
  return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* -- All patterns ---------------------------------------------------------------- */

static void test_patterns(const kind *k)
{
  int wrong_wide = 0;
  int wrong_back = 0;
  int wrong_nan = 0;
  char what[96];

  for (uint32_t i = 0; i <= 0xffff; i++) {
    uint16_t h = (uint16_t)i;
    double want = value_of(h, k->fraction_bits, k->bias);
    float got = k->wide(h);
    uint16_t back = k->narrow(got);

    wrong_wide += !same((double)got, want);
    if (isnan(want)) {
      wrong_nan += !isnan(value_of(back, k->fraction_bits, k->bias)) || (back ^ h) >> 15;
    } else {
      wrong_back += back != h;
    }
  }
  snprintf(what, sizeof(what), "%s: every pattern is the number it stands for", k->name);
  is_int(wrong_wide, 0, what);
  snprintf(what, sizeof(what), "%s: and comes back as it was", k->name);
  is_int(wrong_back, 0, what);
  snprintf(what, sizeof(what), "%s: nan stays nan and keeps its sign", k->name);
  is_int(wrong_nan, 0, what);
}

/* -- Rounding -------------------------------------------------------------------- */

/* The nearest pattern to x, ties to the even one, by looking at both neighbours in double. */
static uint16_t nearest(double x, uint16_t low, const kind *k)
{
  uint16_t high = (uint16_t)(low + 1);
  double a = value_of(low, k->fraction_bits, k->bias);
  double b = value_of(high, k->fraction_bits, k->bias);

  if (isinf(b)) { /* the next number there would be */
    b = ldexp(1, (1 << (14 - k->fraction_bits)));
  }
  if (x - a != b - x) {
    return x - a < b - x ? low : high;
  }
  return low & 1 ? high : low;
}

/* Between every two neighbours: the middle, and the floats beside it and beside the two. */
static void test_rounding(const kind *k)
{
  int top = ((1 << (15 - k->fraction_bits)) - 1) << k->fraction_bits;
  int wrong = 0;
  char what[96];

  for (int i = 0; i < top; i++) {
    uint16_t low = (uint16_t)i;
    double a = value_of(low, k->fraction_bits, k->bias);
    double b = i + 1 == top ? ldexp(1, 1 << (14 - k->fraction_bits))
                            : value_of((uint16_t)(low + 1), k->fraction_bits, k->bias);
    float middle = (float)((a + b) / 2);
    float points[] = { nextafterf((float)a, INFINITY), nextafterf(middle, 0), middle,
                       nextafterf(middle, INFINITY), nextafterf((float)b, 0) };

    for (size_t p = 0; p < sizeof(points) / sizeof(points[0]); p++) {
      if (isfinite(points[p])) {
        uint16_t want = nearest((double)points[p], low, k);

        wrong += k->narrow(points[p]) != want;
        wrong += k->narrow(-points[p]) != (want | 0x8000);
      }
    }
  }
  snprintf(what, sizeof(what), "%s: to nearest, ties to even, between all neighbours", k->name);
  is_int(wrong, 0, what);
}

/* -- Ends ------------------------------------------------------------------------ */

static void test_ends(void)
{
  is_int(rg_f16_of_f32(65519.996f), 0x7bff, "f16: below 65520 is the largest number");
  is_int(rg_f16_of_f32(65520.0f), 0x7c00, "f16: from there on it is infinity");
  is_int(rg_f16_of_f32(1e30f), 0x7c00, "f16: far above too");
  is_int(rg_f16_of_f32(-INFINITY), 0xfc00, "f16: infinity keeps its sign");
  is_int(rg_f16_of_f32(0x1p-25f), 0, "f16: half the smallest number is 0");
  is_int(rg_f16_of_f32(nextafterf(0x1p-25f, 1)), 1, "f16: a little more is the smallest");
  is_int(rg_f16_of_f32(-0.0f), 0x8000, "f16: -0 keeps its sign");
  is_int(rg_f16_of_f32(1e-42f), 0, "f16: subnormals of f32 are 0");
  is_int(rg_bf16_of_f32(3.4028235e38f), 0x7f80, "bf16: the largest f32 rounds to infinity");
  is_int(rg_bf16_of_f32(-0.0f), 0x8000, "bf16: -0 keeps its sign");
  is_int(rg_bf16_of_f32(rg_f32_of_bits(0x7f800001)), 0x7fc0, "bf16: a nan of low bits stays nan");
  is_int(rg_f16_of_f32(rg_f32_of_bits(0x7f800001)), 0x7e00, "f16: likewise");
}

int main(void)
{
  static const kind kinds[] = {
    { "f16", 10, 15, rg_f16_to_f32, rg_f16_of_f32 },
    { "bf16", 7, 127, rg_bf16_to_f32, rg_bf16_of_f32 },
  };

  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    test_patterns(&kinds[i]);
    test_rounding(&kinds[i]);
  }
  test_ends();
  return done();
}
