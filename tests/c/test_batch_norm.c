/* SPDX-License-Identifier: MIT */
/*
** Batch normalisation by hand: which mean and variance it goes by, what goes into the running ones,
** on either axis, and which of them stay as they were.
*/
#include "ridge.h"
#include "tap.h"

static void must(rg_status status)
{
  if (status != RG_OK) {
    tap_bail(rg_error_message());
  }
}

static rg_tensor *given(const int64_t *shape, int32_t ndim, const double *values)
{
  rg_tensor *x = NULL;
  int64_t n = 1;

  for (int32_t i = 0; i < ndim; i++) {
    n *= shape[i];
  }
  must(rg_empty(RG_F64, RG_CPU, shape, ndim, &x));
  must(rg_tensor_write(x, values, n * (int64_t)sizeof(double)));
  return x;
}

static bool holds(const rg_tensor *x, double a, double b)
{
  double got[2];

  must(rg_tensor_to_doubles(x, got, 2));
  return fabs(got[0] - a) < 1e-12 && fabs(got[1] - b) < 1e-12;
}

/* Two channels of four values: 1 2 3 6 and 0 0 4 8, with mean 3 and variance 3.5 or 14/3, and mean
** 3 and variance 11 or 44/3. */
static void test(int32_t axis, int32_t batch, int32_t keep)
{
  static const double by_row[] = { 1, 2, 3, 6, 0, 0, 4, 8 };
  static const double by_column[] = { 1, 0, 2, 0, 3, 4, 6, 8 };
  const int64_t shape[2][2] = { { 2, 4 }, { 4, 2 } };
  rg_tensor *x = given(shape[axis], 2, axis == 0 ? by_row : by_column);
  rg_tensor *mean = given((const int64_t[]){ 2 }, 1, (const double[]){ 1, 2 });
  rg_tensor *var = given((const int64_t[]){ 2 }, 1, (const double[]){ 4, 9 });
  rg_tensor *weight = given((const int64_t[]){ 2 }, 1, (const double[]){ 2, 3 });
  rg_tensor *bias = given((const int64_t[]){ 2 }, 1, (const double[]){ 10, 20 });
  const rg_batch_norm_options o = {
    .eps = 0.5, .momentum = 0.25, .axis = axis, .batch = batch, .keep = keep
  };
  rg_tensor *y = NULL;
  double got[8];
  bool right = true;

  is_status(rg_batch_norm(x, weight, bias, mean, var, &o, &y), RG_OK, "two channels");
  must(rg_tensor_to_doubles(y, got, 8));
  for (int c = 0; c < 2; c++) {
    for (int i = 0; i < 4; i++) {
      const double m = batch ? 3 : c + 1;
      const double v = batch ? (c == 0 ? 3.5 : 11) : (c == 0 ? 4 : 9);
      const double want = (by_row[4 * c + i] - m) / sqrt(v + 0.5) * (c + 2) + 10 * (c + 1);

      right = right && fabs(got[axis == 0 ? 4 * c + i : 2 * i + c] - want) < 1e-12;
    }
  }
  ok(right, batch ? "by the batch's mean and variance" : "by the running ones");
  if (batch && keep) {
    ok(holds(mean, 1.5, 2.25), "a quarter of the batch's mean goes into the running one");
    ok(holds(var, 3 + 14.0 / 12, 6.75 + 44.0 / 12), "and of its variance, the unbiased one");
  } else {
    ok(holds(mean, 1, 2) && holds(var, 4, 9), "which stay as they were");
  }
  ok(holds(weight, 2, 3) && holds(bias, 10, 20), "weight and bias are only read");
  rg_tensor_release(y);
  y = NULL;
  is_status(rg_batch_norm(x, NULL, NULL, mean, var, &o, &y), RG_OK, "without weight and bias");
  rg_tensor_release(y);
  rg_tensor_release(bias);
  rg_tensor_release(weight);
  rg_tensor_release(var);
  rg_tensor_release(mean);
  rg_tensor_release(x);
}

int main(void)
{
  const int64_t before = rg_live_tensors();

  for (int32_t way = 0; way < 8; way++) {
    test(way & 1, way >> 1 & 1, way >> 2);
  }
  is_int(rg_live_tensors(), before, "nothing leaks");
  return done();
}
