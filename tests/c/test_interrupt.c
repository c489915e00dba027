/* SPDX-License-Identifier: MIT */
/*
** Ctrl-C inside one long call: it is asked for once the call has worked for a while, by the
** processor's time, and the call says that it was interrupted.
*/
#include <pthread.h>
#include <time.h>

#include "base/base.h"
#include "ridge.h"
#include "tap.h"

static double worked(void)
{
  struct timespec now;

  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Far more than the door needs before it hands the call to a kernel. */
static void *press(void *argument)
{
  double begin = *(double *)argument;
  struct timespec some = { .tv_nsec = 1000000 };

  while (worked() - begin < 0.02) {
    nanosleep(&some, NULL);
  }
  rg_interrupt_set();
  return NULL;
}

static rg_tensor *ones(int32_t dtype, int64_t batch, int64_t n)
{
  rg_tensor *x = NULL;

  if (rg_empty(dtype, RG_CPU, (const int64_t[]){ batch, n, n }, 3, &x) != RG_OK ||
      rg_fill_(x, 1) != RG_OK) {
    tap_bail(rg_error_message());
  }
  return x;
}

/* A product that takes seconds on one thread. */
static void test_product(const char *path, int32_t isa, int32_t dtype, int64_t batch, int64_t n,
                         const char *what)
{
  rg_tensor *x = ones(dtype, batch, n);
  rg_tensor *y = ones(dtype, batch, n);
  rg_tensor *z = NULL;
  pthread_t thread;
  double begin;

  is_status(rg_set_gemm_path(path), RG_OK, path);
  is_status(rg_set_isa(isa), RG_OK, "an instruction set");
  begin = worked();
  if (pthread_create(&thread, NULL, press, &begin) != 0) {
    tap_bail("no thread");
  }
  is_status(rg_matmul(x, y, &z), RG_EINTR, what);
  pthread_join(thread, NULL);
  rg_interrupt_clear();
  rg_tensor_release(z);
  rg_tensor_release(x);
  rg_tensor_release(y);
}

/* -- Calls that read one long axis of an expanded tensor ------------------------------------- */

static int64_t far = (int64_t)1 << 50;

static rg_tensor *long_one(int32_t dtype)
{
  rg_tensor *one = NULL;
  rg_tensor *x = NULL;

  if (rg_empty(dtype, RG_CPU, (const int64_t[]){ 1, 1 }, 2, &one) != RG_OK ||
      rg_fill_(one, 1) != RG_OK || rg_expand(one, (const int64_t[]){ 1, far }, 2, &x) != RG_OK) {
    tap_bail(rg_error_message());
  }
  rg_tensor_release(one);
  return x;
}

static rg_status largest(const rg_tensor *x, rg_tensor **out)
{
  return rg_argmax(x, 1, 0, out);
}

static rg_status least(const rg_tensor *x, rg_tensor **out)
{
  return rg_argmin(x, 1, 0, out);
}

/* Ones, of which memory holds one. */
static rg_tensor *vector(int32_t dtype, int64_t n)
{
  rg_tensor *one = NULL;
  rg_tensor *x = NULL;

  if (rg_empty(dtype, RG_CPU, (const int64_t[]){ 1 }, 1, &one) != RG_OK ||
      rg_fill_(one, 1) != RG_OK || rg_expand(one, &n, 1, &x) != RG_OK) {
    tap_bail(rg_error_message());
  }
  rg_tensor_release(one);
  return x;
}

static rg_status loss(const rg_tensor *x, rg_tensor **out)
{
  rg_tensor *label = vector(RG_I64, 1);
  rg_status status = rg_cross_entropy(x, label, NULL, NULL, out);

  rg_tensor_release(label);
  return status;
}

static rg_status weighted_loss(const rg_tensor *x, rg_tensor **out)
{
  rg_tensor *label = vector(RG_I64, 1);
  rg_tensor *weight = vector(RG_F64, far);
  rg_status status = rg_cross_entropy(x, label, weight, NULL, out);

  rg_tensor_release(label);
  rg_tensor_release(weight);
  return status;
}

static void test_far(rg_status (*call)(const rg_tensor *x, rg_tensor **out), int32_t dtype,
                     const char *what)
{
  rg_tensor *x = long_one(dtype);
  rg_tensor *y = NULL;
  pthread_t thread;
  double begin = worked();

  if (pthread_create(&thread, NULL, press, &begin) != 0) {
    tap_bail("no thread");
  }
  is_status(call(x, &y), RG_EINTR, what);
  pthread_join(thread, NULL);
  rg_interrupt_clear();
  rg_tensor_release(y);
  rg_tensor_release(x);
}

/* -- A batch of images ------------------------------------------------------------------------- */

static rg_tensor *images(int64_t n, int64_t c, int64_t size)
{
  rg_tensor *x = NULL;

  if (rg_empty(RG_F32, RG_CPU, (const int64_t[]){ n, c, size, size }, 4, &x) != RG_OK ||
      rg_fill_(x, 1) != RG_OK) {
    tap_bail(rg_error_message());
  }
  return x;
}

/* 1.05e11 operations, which are done in pieces. */
static void test_conv(bool back)
{
  rg_conv2d_options o = { .pad_low = { 3, 3 }, .pad_high = { 3, 3 } };
  rg_tensor *x = images(64, 128, 32);
  rg_tensor *w = images(128, 128, 7);
  rg_tensor *y = NULL;
  pthread_t thread;
  double middle = 0, corner = 0, begin = worked();
  rg_status status;

  if (pthread_create(&thread, NULL, press, &begin) != 0) {
    tap_bail("no thread");
  }
  status = back ? rg_conv2d_back_data(x, w, 32, 32, &o, &y) : rg_conv2d(x, w, NULL, &o, &y);
  is_status(status, RG_EINTR, back ? "a convolution's gradient" : "a convolution");
  pthread_join(thread, NULL);
  rg_interrupt_clear();
  rg_tensor_release(y);
  y = NULL;
  status = back ? rg_conv2d_back_data(x, w, 32, 32, &o, &y) : rg_conv2d(x, w, NULL, &o, &y);
  is_status(status, RG_OK, "whole");
  ok(rg_tensor_get(y, (const int64_t[]){ 63, 127, 16, 16 }, 4, &middle) == RG_OK &&
         rg_tensor_get(y, (const int64_t[]){ 40, 5, 0, 31 }, 4, &corner) == RG_OK,
     "two of its numbers");
  close_to(middle, 128 * 49, 0, "the last image's middle");
  close_to(corner, 128 * 16, 0, "a corner");
  rg_tensor_release(y);
  rg_tensor_release(w);
  rg_tensor_release(x);
}

/* -- A library's call that cannot be stopped -------------------------------------------------- */

static rg_tensor *drawn(int32_t dtype, int64_t n)
{
  rg_tensor *x = NULL;

  if (rg_empty(dtype, RG_CPU, (const int64_t[]){ n, n }, 2, &x) != RG_OK ||
      rg_normal_(x, 0, 1, NULL) != RG_OK) {
    tap_bail(rg_error_message());
  }
  return x;
}

/* The call is left, what it took is given back once it is done, and the next one is right. */
static void test_svd(int32_t dtype)
{
  rg_tensor *x = drawn(dtype, 1200);
  rg_tensor *small = drawn(dtype, 150);
  rg_tensor *u = NULL, *s = NULL, *vt = NULL, *y = NULL;
  int64_t before = rg_memory_of(RG_CPU)->live_bytes;
  pthread_t thread;
  double begin = worked();
  double norm = 0, of_s = 0;

  if (pthread_create(&thread, NULL, press, &begin) != 0) {
    tap_bail("no thread");
  }
  is_status(rg_svd(x, &u, &s, &vt), RG_EINTR, "svd");
  ok(rg_aside_left(), "and LAPACK still works");
  pthread_join(thread, NULL);
  is_status(rg_svd(small, &u, &s, &vt), RG_EINTR, "the next is not begun while Ctrl-C stands");
  rg_interrupt_clear();
  is_status(rg_svd(small, &u, &s, &vt), RG_OK, "it waits for the one that was left");
  ok(!rg_aside_left(), "which is gone");
  is_status(rg_norm(small, 2, NULL, 0, 0, &y), RG_OK, "norm");
  ok(rg_tensor_get(y, NULL, 0, &norm) == RG_OK, "of the matrix");
  rg_tensor_release(y);
  is_status(rg_norm(s, 2, NULL, 0, 0, &y), RG_OK, "norm");
  ok(rg_tensor_get(y, NULL, 0, &of_s) == RG_OK, "of its values");
  close_to(of_s, norm, norm * 1e-4, "are the same");
  rg_tensor_release(y);
  rg_tensor_release(u);
  rg_tensor_release(s);
  rg_tensor_release(vt);
  is_int(rg_memory_of(RG_CPU)->live_bytes, before, "all memory came back");
  rg_tensor_release(small);
  rg_tensor_release(x);
}

int main(void)
{
  is_status(rg_set_threads(1), RG_OK, "one thread");
  test_product("own", RG_ISA_BASE, RG_F32, 1, 3072, "own kernels in f32");
  test_product("openblas", RG_ISA_BASE, RG_F64, 1, 4096, "OpenBLAS in f64");
  test_product("openblas", RG_ISA_BASE, RG_F32, 1, 4096, "OpenBLAS in f32");
  test_product("own", RG_ISA_BASE, RG_I32, 1, 1024, "whole numbers");
  test_product("own", RG_ISA_BASE, RG_F32, 4096, 64, "a batch of small ones");
  test_far(largest, RG_F32, "argmax");
  test_far(least, RG_I64, "argmin");
  test_far(loss, RG_F32, "cross entropy of many classes");
  test_far(weighted_loss, RG_F64, "the sum of many weights");
  test_conv(false);
  test_conv(true);
  test_svd(RG_F64);
  test_svd(RG_F32);
  return done();
}
