/* SPDX-License-Identifier: MIT */
/*
** Ctrl-C inside a convolution of few channels: between its bands, and where one row takes long.
*/
#include "press.h"
#include "ridge.h"
#include "tap.h"

/* 8 channels in and out, 15 x 15 with as many results; or 16 into 12 over all rows: one row. */
typedef struct few_case {
  const char *what;
  bool back, planned, one_row;
} few_case;

static rg_tensor *ones(int64_t a, int64_t b, int64_t c, int64_t d)
{
  rg_tensor *x = NULL;

  if (rg_empty(RG_F32, RG_CPU, (const int64_t[]){ a, b, c, d }, 4, &x) != RG_OK ||
      rg_fill_(x, 1) != RG_OK) {
    tap_bail(rg_error_message());
  }
  return x;
}

static rg_status convolve(const few_case *c, const rg_tensor *x, const rg_tensor *w, rg_tensor **y)
{
  const rg_conv2d_options whole = { .pad_low = { 7, 7 }, .pad_high = { 7, 7 } };
  const rg_conv2d_options row = { .groups = 0 };
  const rg_conv2d_options *o = c->one_row ? &row : &whole;

  return c->back ? rg_conv2d_back_data(x, w, x->_shape[2], x->_shape[3], o, y)
                 : rg_conv2d(x, w, NULL, o, y);
}

static double at4(const rg_tensor *y, int64_t b, int64_t c, int64_t d)
{
  double v = 0;

  ok(rg_tensor_get(y, (const int64_t[]){ 0, b, c, d }, 4, &v) == RG_OK, "one of its numbers");
  return v;
}

/* Ones by ones: how many of the kernel's places meet the image. */
static void check(const few_case *c, const rg_tensor *y)
{
  const int64_t columns = y->_shape[3], rows = y->_shape[2];

  if (c->one_row) {
    is_int(rows, 1, "one row");
    close_to(at4(y, 0, 0, 0), 16. * 128 * 128, 0, "its first number");
    close_to(at4(y, 11, 0, columns - 1), 16. * 128 * 128, 0, "its last");
    return;
  }
  close_to(at4(y, 0, 0, 0), 8. * 8 * 8, 0, "a corner");
  close_to(at4(y, 7, rows - 1, columns - 1), 8. * 8 * 8, 0, "the last one");
  close_to(at4(y, 3, rows / 2, columns - 2), 8. * 15 * 9, 0, "an edge");
  close_to(at4(y, 4, rows / 2, columns / 2), 8. * 15 * 15, 0, "the middle");
}

static void test_few(few_case c)
{
  rg_tensor *x = c.one_row ? ones(1, 16, 128, 2048) : ones(1, 8, 1024, 1024);
  rg_tensor *w = c.one_row ? ones(12, 16, 128, 128) : ones(8, 8, 15, 15);
  rg_tensor *y = NULL;
  rg_plan *plan = NULL;
  pthread_t thread;
  double begin;

  if (c.planned) {
    if (rg_capture_begin() != RG_OK || convolve(&c, x, w, &y) != RG_OK ||
        rg_capture_end(&plan) != RG_OK) {
      tap_bail(rg_error_message());
    }
    check(&c, y);
    is_status(rg_fill_(y, 0), RG_OK, "forgotten");
  }
  thread = press_soon(&begin);
  is_status(plan != NULL ? rg_plan_replay(plan, 1) : convolve(&c, x, w, &y), RG_EINTR, c.what);
  press_end(thread);
  if (plan == NULL) {
    rg_tensor_release(y);
    y = NULL;
  }
  is_status(plan != NULL ? rg_plan_replay(plan, 1) : convolve(&c, x, w, &y), RG_OK, "whole");
  check(&c, y);
  rg_plan_release(plan);
  rg_tensor_release(y);
  rg_tensor_release(w);
  rg_tensor_release(x);
}

int main(void)
{
  is_status(rg_set_threads(1), RG_OK, "one thread");
  test_few((few_case){ "by bands", false, false, false });
  test_few((few_case){ "its gradient", true, false, false });
  test_few((few_case){ "a step of a plan", false, true, false });
  test_few((few_case){ "one row", false, false, true });
  test_few((few_case){ "one row in a plan", false, true, true });
  return done();
}
