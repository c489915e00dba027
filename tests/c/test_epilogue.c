/* SPDX-License-Identifier: MIT */
/*
** An activation as an argument of a product or convolution has the bits of the function called on
** what comes out without it, wherever an element stands.
*/
#include <stdio.h>
#include <string.h>

#include "ridge.h"
#include "tap.h"

enum { COLUMNS = 150, MOST = 2048 };

typedef rg_status function(const rg_tensor *x, rg_tensor **out);

static function *const functions[RG_ACT_COUNT] = {
  [RG_ACT_RELU] = rg_relu, [RG_ACT_GELU] = rg_gelu,       [RG_ACT_SILU] = rg_silu,
  [RG_ACT_TANH] = rg_tanh, [RG_ACT_SIGMOID] = rg_sigmoid, [RG_ACT_RELU6] = rg_relu6
};

/* Numbers in [-2, 2), of a shape of ndim axes. */
static rg_tensor *made(int32_t dtype, const int64_t *shape, int32_t ndim)
{
  static uint32_t state = 1;
  rg_tensor *x = NULL;
  double values[MOST];
  int64_t count = 1;

  for (int32_t i = 0; i < ndim; i++) {
    count *= shape[i];
  }
  for (int64_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    values[i] = (double)(state >> 8) / (1 << 22) - 2;
  }
  if (rg_tensor_from_doubles(values, count, dtype, shape, ndim, &x) != RG_OK) {
    tap_bail(rg_error_message());
  }
  return x;
}

static uint64_t bits_of(double x)
{
  uint64_t bits;

  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

/* y: with the activation; plain: without it. */
static void compare(int32_t act, rg_tensor *y, rg_tensor *plain, const char *what)
{
  rg_tensor *wanted = NULL;
  double got[MOST], want[MOST];
  int64_t different = 0;

  is_status(functions[act](plain, &wanted), RG_OK, "the function");
  if (rg_tensor_to_doubles(y, got, y->_count) != RG_OK ||
      rg_tensor_to_doubles(wanted, want, y->_count) != RG_OK) {
    tap_bail(rg_error_message());
  }
  for (int64_t i = 0; i < y->_count; i++) {
    different += bits_of(got[i]) != bits_of(want[i]);
  }
  is_int(different, 0, what);
  rg_tensor_release(wanted);
  rg_tensor_release(plain);
  rg_tensor_release(y);
}

static void test_linear(int32_t dtype, int64_t m, const char *way)
{
  rg_tensor *x = made(dtype, (const int64_t[]){ m, 9 }, 2);
  rg_tensor *w = made(dtype, (const int64_t[]){ COLUMNS, 9 }, 2);
  rg_tensor *b = made(dtype, (const int64_t[]){ COLUMNS }, 1);
  char what[80];

  is_status(rg_set_gemm_path(way), RG_OK, "the way is known");
  for (int32_t act = 1; act < RG_ACT_COUNT; act++) {
    rg_tensor *y = NULL, *plain = NULL;

    (void)snprintf(what, sizeof(what), "activation %d of linear, %d rows, %s, %s", (int)act, (int)m,
                   rg_dtype_name(dtype), way);
    is_status(rg_linear(x, w, b, act, &y), RG_OK, "with it");
    is_status(rg_linear(x, w, b, RG_ACT_NONE, &plain), RG_OK, "without it");
    compare(act, y, plain, what);
  }
  is_status(rg_set_gemm_path("auto"), RG_OK, "back");
  rg_tensor_release(x);
  rg_tensor_release(w);
  rg_tensor_release(b);
}

static void test_conv2d(void)
{
  rg_tensor *x = made(RG_F64, (const int64_t[]){ 1, 2, 9, 9 }, 4);
  rg_tensor *w = made(RG_F64, (const int64_t[]){ 3, 2, 2, 2 }, 4);

  for (int32_t act = 1; act < RG_ACT_COUNT; act++) {
    const rg_conv2d_options with = { .act = act }, none = { 0 };
    rg_tensor *y = NULL, *plain = NULL;
    char what[80];

    (void)snprintf(what, sizeof(what), "activation %d of conv2d in f64", (int)act);
    is_status(rg_conv2d(x, w, NULL, &with, &y), RG_OK, "with it");
    is_status(rg_conv2d(x, w, NULL, &none, &plain), RG_OK, "without it");
    compare(act, y, plain, what);
  }
  rg_tensor_release(x);
  rg_tensor_release(w);
}

/* Long rows times the identity, and under a kernel that is the number one: the activations are
** those of the rows. */
static void test_long_rows(int64_t m)
{
  static const int64_t square[] = { COLUMNS, COLUMNS }, one[] = { 1, 1, 1, 1 };
  static double identity[COLUMNS * COLUMNS];
  rg_tensor *w = NULL, *kernel = NULL;

  for (int64_t i = 0; i < COLUMNS; i++) {
    identity[i * COLUMNS + i] = 1;
  }
  is_status(rg_tensor_from_doubles(identity, COLUMNS * COLUMNS, RG_F64, square, 2, &w), RG_OK,
            "the identity");
  is_status(rg_tensor_from_doubles(identity, 1, RG_F64, one, 4, &kernel), RG_OK, "one");
  for (int32_t act = 1; act < RG_ACT_COUNT; act++) {
    rg_tensor *rows = made(RG_F64, (const int64_t[]){ m, COLUMNS }, 2);
    rg_tensor *image = made(RG_F64, (const int64_t[]){ 1, 1, m, COLUMNS }, 4);
    const rg_conv2d_options with = { .act = act };
    rg_tensor *y = NULL, *z = NULL;
    char what[80];

    is_status(rg_linear(rows, w, NULL, act, &y), RG_OK, "a product");
    is_status(rg_conv2d(image, kernel, NULL, &with, &z), RG_OK, "a convolution");
    (void)snprintf(what, sizeof(what), "activation %d of %d long rows", (int)act, (int)m);
    compare(act, y, rows, what);
    compare(act, z, image, what);
  }
  rg_tensor_release(w);
  rg_tensor_release(kernel);
}

int main(void)
{
  int64_t before = rg_live_tensors();

  for (int64_t m = 1; m <= 5; m += 4) {
    test_linear(RG_F32, m, "own");
    test_linear(RG_F32, m, "openblas");
    test_linear(RG_F64, m, "auto");
    test_long_rows(m);
  }
  test_conv2d();
  is_int(rg_live_tensors(), before, "nothing leaks");
  return done();
}
