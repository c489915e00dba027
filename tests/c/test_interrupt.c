/* SPDX-License-Identifier: MIT */
/*
** Ctrl-C inside one long call: it is asked for once the call has worked for a while, by the
** processor's time, and the call says that it was interrupted.
*/
#include <signal.h>
#include <sys/resource.h>

#include "base/base.h"
#include "press.h"
#include "ridge.h"
#include "tap.h"

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
  double begin;
  pthread_t thread = press_soon(&begin);

  is_status(call(x, &y), RG_EINTR, what);
  press_end(thread);
  rg_tensor_release(y);
  rg_tensor_release(x);
}

/* Rows of one byte each, one after the other: nothing of them is handed out. */
static void test_take(void)
{
  rg_tensor *x = vector(RG_U8, 2);
  rg_tensor *rows = vector(RG_I64, (int64_t)1 << 31);
  rg_tensor *y = NULL;
  double begin;
  pthread_t thread = press_soon(&begin);

  is_status(rg_take(x, rows, &y), RG_EINTR, "rows");
  press_end(thread);
  ok(y == NULL, "no rows");
  rg_tensor_release(y);
  rg_tensor_release(rows);
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

typedef struct conv_case {
  const char *what;
  int32_t kind; /* of what: the convolution, the gradient of its images, of its weight */
  int64_t n, size, kernel;
  bool planned;
  int32_t groups; /* 0: one */
} conv_case;

static int64_t in_group(const conv_case *c)
{
  return 128 / (c->groups > 1 ? c->groups : 1);
}

static rg_status convolve(const conv_case *c, const rg_tensor *x, const rg_tensor *w, rg_tensor **y)
{
  const int64_t pad = c->kernel / 2;
  rg_conv2d_options o = { .pad_low = { pad, pad }, .pad_high = { pad, pad }, .groups = c->groups };
  rg_tensor *db = NULL;
  rg_status status;

  switch (c->kind) {
  case 0:
    return rg_conv2d(x, w, NULL, &o, y);
  case 1:
    return rg_conv2d_back_data(x, w, c->size, c->size, &o, y);
  default:
    status = rg_conv2d_back_weight(x, x, c->kernel, c->kernel, &o, y, &db);
    rg_tensor_release(db);
    return status;
  }
}

static double at4(const rg_tensor *y, int64_t a, int64_t b, int64_t c, int64_t d)
{
  double v = 0;

  ok(rg_tensor_get(y, (const int64_t[]){ a, b, c, d }, 4, &v) == RG_OK, "one of its numbers");
  return v;
}

/* Ones, but threes in channel 127 of what is cut into channels. */
static void mark(rg_tensor *x, int32_t axis)
{
  rg_tensor *channel = NULL;

  if (rg_narrow(x, axis, 127, 1, 1, &channel) != RG_OK || rg_fill_(channel, 3) != RG_OK) {
    tap_bail(rg_error_message());
  }
  rg_tensor_release(channel);
}

/* Ones by ones: how many of the kernel's places meet the images, at the last place in the middle,
** and in a corner. */
static void check_conv(const conv_case *c, const rg_tensor *y)
{
  const int64_t half = c->kernel / 2;
  const double inside = (double)(c->size - half);
  const int64_t last = in_group(c) - 1;
  /* what is three: all that comes to a channel, or one of those that come to it */
  const double sum = c->kind == 1 && c->groups > 1 ? (double)last + 3 : 3 * (double)(last + 1);

  if (c->kind == 2) {
    double all = (double)(c->n * c->size * c->size);

    close_to(at4(y, 127, last, half, half), 9 * all, all * 1e-5, "the middle of the last kernel");
    close_to(at4(y, 0, last < 5 ? 0 : 5, 0, 0), (double)c->n * inside * inside, all * 1e-6,
             "a corner");
    return;
  }
  close_to(at4(y, c->n - 1, 127, c->size / 2, c->size / 2), sum * (double)(c->kernel * c->kernel),
           0, "the middle of the last image");
  close_to(at4(y, 0, 5, 0, c->size - 1), (double)((last + 1) * (half + 1) * (half + 1)), 0,
           "a corner");
}

/* 1.03e11 operations, which are done in pieces; fewer where there are few channels in a group. */
static void test_conv(conv_case c)
{
  rg_tensor *x = images(c.n, 128, c.size);
  rg_tensor *w = images(128, in_group(&c), c.kernel);
  rg_tensor *y = NULL;
  rg_plan *plan = NULL;
  pthread_t thread;
  double begin;
  rg_status status;

  mark(c.kind == 2 ? x : w, c.kind == 2 || (c.kind == 1 && c.groups < 2));
  if (c.planned) {
    if (rg_capture_begin() != RG_OK || convolve(&c, x, w, &y) != RG_OK ||
        rg_capture_end(&plan) != RG_OK) {
      tap_bail(rg_error_message());
    }
    check_conv(&c, y);
    is_status(rg_fill_(y, 0), RG_OK, "forgotten");
  }
  thread = press_soon(&begin);
  status = c.planned ? rg_plan_replay(plan, 1) : convolve(&c, x, w, &y);
  is_status(status, RG_EINTR, c.what);
  press_end(thread);
  if (!c.planned) {
    rg_tensor_release(y);
    y = NULL;
  }
  is_status(c.planned ? rg_plan_replay(plan, 1) : convolve(&c, x, w, &y), RG_OK, "whole");
  check_conv(&c, y);
  rg_plan_release(plan);
  rg_tensor_release(y);
  rg_tensor_release(w);
  rg_tensor_release(x);
}

/* -- One image of one channel, which is one piece of work ------------------------------------ */

static rg_tensor *plane(int32_t dtype, int64_t rows, int64_t columns)
{
  rg_tensor *x = NULL;

  if (rg_empty(dtype, RG_CPU, (const int64_t[]){ 1, 1, rows, columns }, 4, &x) != RG_OK ||
      rg_fill_(x, 1) != RG_OK) {
    tap_bail(rg_error_message());
  }
  return x;
}

typedef struct plane_case {
  const char *what;
  int32_t dtype;
  int32_t
      kind; /* 0: convolution, 1: gradient of the image, 2: of the kernel; 3: largest, 4: mean */
  int64_t size;
  int64_t kernel;
} plane_case;

/* Rows of zeros above the image, nothing beside it. */
enum { ABOVE = 9 };

static rg_status run_plane(const plane_case *c, const rg_tensor *x, const rg_tensor *w,
                           const rg_tensor *dy, rg_tensor **y)
{
  const rg_conv2d_options o = { .pad_low = { ABOVE, 0 } };
  const rg_pool2d_options p = { .size = { c->kernel, c->kernel }, .stride = { 1, 1 } };
  rg_tensor *second = NULL;
  rg_status status;

  switch (c->kind) {
  case 0:
    return rg_conv2d(x, w, NULL, &o, y);
  case 1:
    return rg_conv2d_back_data(dy, w, c->size, c->size, &o, y);
  case 2:
    status = rg_conv2d_back_weight(x, dy, c->kernel, c->kernel, &o, y, &second);
    break;
  case 3:
    return rg_max_pool2d(x, &p, y);
  default:
    return rg_avg_pool2d(x, &p, y);
  }
  rg_tensor_release(second);
  return status;
}

/* Ones by ones: what place `at` of the result along an axis adds up, by counting.  With p zeros
** before the image, place i of the kernel brings place r - p + i of the image to place r of what
** a convolution makes, for kinds 0, 1 and 2 alike. */
static double met_along(const plane_case *c, int axis, int64_t at)
{
  const int64_t pad = axis == 0 ? ABOVE : 0, made = c->size - c->kernel + 1 + pad;
  double n = 0;

  if (c->kind == 2) {
    for (int64_t r = 0; r < made; r++) {
      n += r - pad + at >= 0 && r - pad + at < c->size;
    }
  }
  for (int64_t i = 0; c->kind < 2 && i < c->kernel; i++) {
    const int64_t other = c->kind == 0 ? at - pad + i : at + pad - i;

    n += other >= 0 && other < (c->kind == 0 ? c->size : made);
  }
  return c->kind < 3 ? n : 1;
}

/* Each row and each column once: the result is made in bands of them. */
static void check_bands(const plane_case *c, const rg_tensor *y)
{
  int64_t wrong = 0;

  for (int axis = 0; axis < 2; axis++) {
    const double across = met_along(c, 1 - axis, 20);

    for (int64_t i = 0; i < y->_shape[2 + axis]; i++) {
      const double met = met_along(c, axis, i) * across;
      double value = 0;

      if (rg_tensor_get(y, (const int64_t[]){ 0, 0, axis == 0 ? i : 20, axis == 0 ? 20 : i }, 4,
                        &value) != RG_OK ||
          fabs(value - met) > met * 1e-5) {
        wrong++;
      }
    }
  }
  is_int(wrong, 0, "rows and columns");
}

/* Ones by ones: how often the places of the result meet others, first and last. */
static void check_plane(const plane_case *c, const rg_tensor *y)
{
  const double k = (double)c->kernel, n = (double)c->size, made = n - k + 1;
  const double first[] = { (k - ABOVE) * k, ABOVE + 1, made * made, 1, 1 };
  const double last[] = { k * k, 1, (made + ABOVE) * made, 1, 1 };

  close_to(at4(y, 0, 0, 0, 0), first[c->kind], first[c->kind] * 1e-5, "its first number");
  close_to(at4(y, 0, 0, y->_shape[2] - 1, y->_shape[3] - 1), last[c->kind], last[c->kind] * 1e-5,
           "its last");
  check_bands(c, y);
}

static void test_plane(plane_case c)
{
  const int64_t made = c.size - c.kernel + 1;
  rg_tensor *x = plane(c.dtype, c.size, c.size);
  rg_tensor *w = plane(c.dtype, c.kernel, c.kernel);
  rg_tensor *dy = plane(c.dtype, made + ABOVE, made);
  rg_tensor *y = NULL;
  double begin;
  pthread_t thread = press_soon(&begin);

  is_status(run_plane(&c, x, w, dy, &y), RG_EINTR, c.what);
  press_end(thread);
  is_status(run_plane(&c, x, w, dy, &y), RG_OK, "whole");
  check_plane(&c, y);
  rg_tensor_release(y);
  rg_tensor_release(dy);
  rg_tensor_release(w);
  rg_tensor_release(x);
}

/* What is prepared for a row of a norm stops too: little of its scratch is touched. */
static void test_long_norm(void)
{
  const int64_t n = (int64_t)1 << 26;
  rg_tensor *one = NULL, *x = NULL, *y = NULL;
  struct rusage before, after;

  if (rg_empty(RG_F32, RG_CPU, (const int64_t[]){ 1, 1 }, 2, &one) != RG_OK ||
      rg_fill_(one, 1) != RG_OK || rg_expand(one, (const int64_t[]){ 1, n }, 2, &x) != RG_OK) {
    tap_bail(rg_error_message());
  }
  rg_interrupt_set();
  getrusage(RUSAGE_SELF, &before);
  is_status(rg_layer_norm(x, NULL, NULL, 1e-5, 0, &y), RG_EINTR, "a norm of one long row");
  getrusage(RUSAGE_SELF, &after);
  rg_interrupt_clear();
  ok(after.ru_maxrss - before.ru_maxrss < 65536, "of 768 MB it touched less than 64");
  rg_tensor_release(y);
  rg_tensor_release(x);
  rg_tensor_release(one);
}

/* A row whose exponentials are all equal. */
static void test_long_row(void)
{
  const int64_t n = (int64_t)1 << 25;
  rg_tensor *x = NULL, *y = NULL;
  pthread_t thread;
  double begin, value = 0;

  if (rg_empty(RG_F32, RG_CPU, &n, 1, &x) != RG_OK || rg_fill_(x, 1) != RG_OK) {
    tap_bail(rg_error_message());
  }
  thread = press_soon(&begin);
  is_status(rg_softmax(x, 0, &y), RG_EINTR, "softmax of one long row");
  press_end(thread);
  is_status(rg_softmax(x, 0, &y), RG_OK, "whole");
  ok(rg_tensor_get(y, (const int64_t[]){ n - 1 }, 1, &value) == RG_OK, "its last number");
  close_to(value * (double)n, 1, 1e-4, "is one of n equal ones");
  rg_tensor_release(y);
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
  double begin;
  double norm = 0, of_s = 0;
  pthread_t thread = press_soon(&begin);

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

static void see_signals(void *work)
{
  pthread_sigmask(SIG_BLOCK, NULL, work);
}

static void drop_signals(void *work)
{
  (void)work;
}

/* A signal that LAPACK's thread took would be handled where nobody looks for it. */
static void test_aside_signals(void)
{
  static sigset_t there;
  sigset_t before;
  sigset_t after;
  const int each[] = { SIGINT, SIGTERM, SIGALRM, SIGPROF, SIGUSR1, SIGCHLD };

  sigemptyset(&there);
  pthread_sigmask(SIG_BLOCK, NULL, &before);
  is_status(rg_aside(see_signals, drop_signals, &there), RG_OK, "a call on a thread aside");
  pthread_sigmask(SIG_BLOCK, NULL, &after);
  for (size_t i = 0; i < sizeof(each) / sizeof(*each); i++) {
    ok(sigismember(&there, each[i]) == 1, "which gets no signal");
    is_int(sigismember(&after, each[i]), sigismember(&before, each[i]), "the caller does");
  }
}

int main(void)
{
  test_aside_signals();
  is_status(rg_set_threads(1), RG_OK, "one thread");
  test_long_norm(); /* the memory of what comes later would hide it */
  test_far(largest, RG_F32, "argmax");
  test_far(least, RG_I64, "argmin");
  test_far(loss, RG_F32, "cross entropy of many classes");
  test_far(weighted_loss, RG_F64, "the sum of many weights");
  test_take();
  test_conv((conv_case){ "a convolution", 0, 64, 32, 7, false, 0 });
  test_conv((conv_case){ "its gradient", 1, 64, 32, 7, false, 0 });
  test_conv((conv_case){ "the gradient of its weight", 2, 64, 32, 7, false, 0 });
  test_conv((conv_case){ "a convolution of one image", 0, 1, 256, 7, false, 0 });
  test_conv((conv_case){ "its gradient", 1, 1, 256, 7, false, 0 });
  test_conv((conv_case){ "a step of a plan", 0, 1, 256, 7, true, 0 });
  test_conv((conv_case){ "a step of a plan", 2, 64, 32, 7, true, 0 });
  test_conv((conv_case){ "a convolution by groups", 0, 1, 256, 9, false, 64 });
  test_conv((conv_case){ "its gradient", 1, 1, 256, 9, false, 64 });
  test_conv((conv_case){ "the gradient of its weight", 2, 2, 256, 9, false, 64 });
  test_conv((conv_case){ "a step of a plan", 0, 1, 256, 9, true, 64 });
  test_plane((plane_case){ "a convolution of one channel", RG_F32, 0, 400, 100 });
  test_plane((plane_case){ "its gradient", RG_F32, 1, 400, 100 });
  test_plane((plane_case){ "the gradient of its kernel", RG_F32, 2, 400, 100 });
  test_plane((plane_case){ "a convolution in f64", RG_F64, 0, 120, 60 });
  test_plane((plane_case){ "its gradient", RG_F64, 1, 120, 60 });
  test_plane((plane_case){ "the gradient of its kernel", RG_F64, 2, 120, 60 });
  test_plane((plane_case){ "the largest of large windows", RG_F32, 3, 560, 120 });
  test_plane((plane_case){ "the means of large windows", RG_F32, 4, 560, 120 });
  test_long_row();
  test_svd(RG_F64);
  test_svd(RG_F32);
  return done();
}
