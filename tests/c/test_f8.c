/* SPDX-License-Identifier: MIT */
/*
** f8e4m3 and f8e5m2: every pattern against the standard's definition, and rounding of f32 and f64
** against a search for the nearest pattern; one number at a time, and by the loops of every
** instruction set.
*/
#include <float.h>

#include "ridge.h"
#include "tap.h"
#include "tensor/f8.h"
#include "tensor/half.h"

/* -- What a pattern means -------------------------------------------------------- */

typedef struct kind {
  const char *name;
  int32_t dtype;
  int fraction_bits;
  int bias;
  int n_finite; /* patterns from 0 on without a sign */
  uint8_t over; /* what stands for more than the largest */
  float (*wide)(uint8_t h);
  uint8_t (*narrow)(float x);
} kind;

static const kind kinds[] = {
  { "f8e4m3", RG_F8E4M3, 3, 7, 0x7f, 0x7f, rg_f8e4m3_to_f32, rg_f8e4m3_of_f32 },
  { "f8e5m2", RG_F8E5M2, 2, 15, 0x7c, 0x7c, rg_f8e5m2_to_f32, rg_f8e5m2_of_f32 },
};

/* Sign, exponent and fraction, without regard to nan and infinity. */
static double number_of(const kind *k, int h)
{
  int exponent = (h & 0x7f) >> k->fraction_bits;
  int fraction = h & ((1 << k->fraction_bits) - 1);
  double sign = h & 0x80 ? -1 : 1;

  return exponent == 0 ? sign * ldexp(fraction, 1 - k->bias - k->fraction_bits)
                       : sign * ldexp((1 << k->fraction_bits) + fraction,
                                      exponent - k->bias - k->fraction_bits);
}

static double value_of(const kind *k, int h)
{
  if ((h & 0x7f) < k->n_finite) {
    return number_of(k, h);
  }
  if (k->dtype == RG_F8E5M2 && (h & 0x7f) == 0x7c) {
    return h & 0x80 ? -INFINITY : INFINITY;
  }
  return NAN;
}

static bool same(double a, double b)
{
  return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* -- All patterns ---------------------------------------------------------------- */

static void test_patterns(const kind *k)
{
  int wrong_wide = 0;
  int wrong_back = 0;
  char what[96];

  for (int h = 0; h <= 0xff; h++) {
    double want = value_of(k, h);
    float got = k->wide((uint8_t)h);

    wrong_wide += !same((double)got, want) || (signbit(got) != 0) != (h >> 7);
    wrong_back += k->narrow(got) != (isnan(want) ? (h | 0x7f) : h);
  }
  snprintf(what, sizeof(what), "%s: every pattern is the number it stands for", k->name);
  is_int(wrong_wide, 0, what);
  snprintf(what, sizeof(what), "%s: and comes back as it was, nan as the one with all bits",
           k->name);
  is_int(wrong_back, 0, what);
}

static void test_ends(void)
{
  ok(rg_f8e4m3_to_f32(0x7e) == 448, "f8e4m3: the largest number");
  ok(rg_f8e5m2_to_f32(0x7b) == 57344, "f8e5m2: the largest number");
  is_int(rg_f8e4m3_of_f32(464), 0x7e, "f8e4m3: 464 is half-way to 480, and 448 the even one");
  is_int(rg_f8e4m3_of_f32(nextafterf(464, 500)), 0x7f, "f8e4m3: a little more is nan");
  is_int(rg_f8e4m3_of_f32(-INFINITY), 0xff, "f8e4m3: so is infinity, with its sign");
  is_int(rg_f8e5m2_of_f32(nextafterf(61440, 0)), 0x7b, "f8e5m2: below 61440 is the largest");
  is_int(rg_f8e5m2_of_f32(61440), 0x7c, "f8e5m2: from there on it is infinity");
  is_int(rg_f8e5m2_of_f32(-INFINITY), 0xfc, "f8e5m2: infinity keeps its sign");
  is_int(rg_f8e4m3_of_f32(0x1p-10f), 0, "f8e4m3: half the smallest number is 0");
  is_int(rg_f8e4m3_of_f32(nextafterf(0x1p-10f, 1)), 1, "f8e4m3: a little more is the smallest");
  is_int(rg_f8e5m2_of_f32(-0x1p-17f), 0x80, "f8e5m2: half the smallest number is 0, with its sign");
  is_int(rg_f8e5m2_of_f32(-nextafterf(0x1p-17f, 1)), 0x81, "f8e5m2: likewise");
}

/* -- Rounding -------------------------------------------------------------------- */

/* The nearest pattern, by looking for x between the middles of neighbours, which double holds. */
static uint8_t nearest(const kind *k, double x)
{
  uint8_t sign = signbit(x) ? 0x80 : 0;
  int h = 0;

  if (isnan(x)) {
    return (uint8_t)(sign | 0x7f);
  }
  while (h < k->n_finite) {
    /* the number behind the largest is the one that there would be with more exponents */
    double middle = (number_of(k, h) + number_of(k, h + 1)) / 2;

    if (fabs(x) < middle || (fabs(x) == middle && h % 2 == 0)) {
      return (uint8_t)(sign | h);
    }
    h++;
  }
  return (uint8_t)(sign | k->over);
}

/* f32: every upper half with the lower ones where rounding may turn. */
enum { N_LOWER = 6, N_SINGLE = 65536 * N_LOWER };

static int64_t n_single = N_SINGLE;

static void fill_singles(float *x)
{
  static const uint32_t lower[N_LOWER] = { 0, 1, 0x7fff, 0x8000, 0x8001, 0xffff };

  for (uint32_t i = 0; i < N_SINGLE; i++) {
    x[i] = rg_f32_of_bits((i / N_LOWER) << 16 | lower[i % N_LOWER]);
  }
}

/* f64: middles of all neighbours, of these types and the halves, and the doubles and floats beside
** them, where rounding to f32 in between would be seen; and what f32 does not hold. */
enum { N_BESIDE = 5, N_DOUBLE = 2 * 2 * 128 * N_BESIDE + 12 };

static int64_t fill_doubles(double *x)
{
  static const double more[12] = { 1e300,     -1e300,          1e-300,  DBL_MAX,
                                   0x1p-1074, -0x1p-1074,      1.4e-45, 0x1p-150,
                                   0x1p-149,  (double)FLT_MAX, 3.5e38,  -0.0 };
  int64_t n = 0;

  for (size_t j = 0; j < 2; j++) {
    for (int h = 0; h < 128; h++) {
      double middle = (number_of(&kinds[j], h) + number_of(&kinds[j], h + 1)) / 2;

      for (double sign = -1; sign <= 1; sign += 2) {
        x[n++] = sign * nextafter(middle, 0);
        x[n++] = sign * middle;
        x[n++] = sign * nextafter(middle, INFINITY);
        x[n++] = sign * (double)nextafterf((float)middle, 0);
        x[n++] = sign * (double)nextafterf((float)middle, INFINITY);
      }
    }
  }
  for (size_t j = 0; j < sizeof(more) / sizeof(more[0]); j++) {
    x[n++] = more[j];
  }
  return n;
}

static void test_rounding(const kind *k, const float *single, const double *wide)
{
  int wrong = 0;
  char what[96];

  for (int64_t i = 0; i < n_single; i++) {
    wrong += k->narrow(single[i]) != nearest(k, (double)single[i]);
  }
  snprintf(what, sizeof(what), "%s: f32 goes to nearest, ties to even", k->name);
  is_int(wrong, 0, what);
  wrong = 0;
  for (int64_t i = 0; i < N_DOUBLE; i++) {
    wrong += k->narrow(rg_f32_odd_of_f64(wide[i])) != nearest(k, wide[i]);
  }
  snprintf(what, sizeof(what), "%s: so does f64, in one rounding", k->name);
  is_int(wrong, 0, what);
}

/* -- Loops ----------------------------------------------------------------------- */

static rg_tensor *tensor_of(const void *data, int32_t dtype, int64_t n)
{
  rg_tensor *x = NULL;

  if (rg_empty(dtype, RG_CPU, &n, 1, &x) != RG_OK ||
      rg_tensor_write(x, data, n * rg_dtype_bytes(dtype)) != RG_OK) {
    tap_bail("a tensor of test data");
  }
  return x;
}

/* How many elements of x do not become what they should, and back. */
static int wrong_casts(const kind *k, const rg_tensor *x, double (*value)(const void *, int64_t))
{
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;
  int wrong = 0;

  if (rg_cast(x, k->dtype, &y) != RG_OK || rg_cast(y, RG_F32, &z) != RG_OK) {
    tap_bail(rg_error_message());
  }
  for (int64_t i = 0; i < x->_count; i++) {
    uint8_t got = ((const uint8_t *)y->_data)[i];
    uint8_t want = nearest(k, value(x->_data, i));

    wrong += got != want;
    wrong += !same((double)((const float *)z->_data)[i], value_of(k, got));
  }
  rg_tensor_release(y);
  rg_tensor_release(z);
  return wrong;
}

static double single_at(const void *data, int64_t i)
{
  return (double)((const float *)data)[i];
}

static double double_at(const void *data, int64_t i)
{
  return ((const double *)data)[i];
}

static void test_loops(const kind *k, const float *single, const double *wide)
{
  rg_tensor *x = tensor_of(single, RG_F32, n_single);
  rg_tensor *y = tensor_of(wide, RG_F64, N_DOUBLE);
  int32_t best = rg_machine_facts()->isa_level;
  char what[96];

  for (int32_t isa = 0; isa <= best; isa++) {
    is_status(rg_set_isa(isa), RG_OK, "an instruction set of this processor");
    snprintf(what, sizeof(what), "%s: tensors of f32, instruction set %d", k->name, isa);
    is_int(wrong_casts(k, x, single_at), 0, what);
    snprintf(what, sizeof(what), "%s: tensors of f64, instruction set %d", k->name, isa);
    is_int(wrong_casts(k, y, double_at), 0, what);
  }
  rg_tensor_release(x);
  rg_tensor_release(y);
}

/* f64 to the halves is rounded once too. */
static void test_halves(void)
{
  static const struct {
    int32_t dtype;
    double x;
    uint16_t want;
  } cases[] = {
    { RG_F16, 1 + 0x1p-11 + 0x1p-40, 0x3c01 },  { RG_F16, 1 + 0x1p-11, 0x3c00 },
    { RG_F16, 65520 - 0x1p-30, 0x7bff },        { RG_F16, 0x1p-25 + 0x1p-70, 1 },
    { RG_BF16, 1 + 0x1p-8 + 0x1p-40, 0x3f81 },  { RG_BF16, 1 + 0x1p-8, 0x3f80 },
    { RG_BF16, -1 - 0x1p-8 - 0x1p-40, 0xbf81 }, { RG_BF16, 1 + 3 * 0x1p-8 - 0x1p-40, 0x3f81 },
  };

  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    rg_tensor *x = tensor_of(&cases[i].x, RG_F64, 1);
    rg_tensor *y = NULL;

    is_status(rg_cast(x, cases[i].dtype, &y), RG_OK, "a double becomes a half");
    is_int(*(const uint16_t *)y->_data, cases[i].want, "in one rounding");
    rg_tensor_release(x);
    rg_tensor_release(y);
  }
}

int main(void)
{
  float *single = malloc(N_SINGLE * sizeof(*single));
  double *wide = malloc(N_DOUBLE * sizeof(*wide));

  if (single == NULL || wide == NULL) {
    tap_bail("no memory");
  }
  n_single = tap_refusing() ? 64 : N_SINGLE;
  fill_singles(single);
  is_int(fill_doubles(wide), N_DOUBLE, "as many doubles as there is room for");
  test_ends();
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    test_patterns(&kinds[i]);
    test_rounding(&kinds[i], single, wide);
    test_loops(&kinds[i], single, wide);
  }
  test_halves();
  free(single);
  free(wide);
  return done();
}
