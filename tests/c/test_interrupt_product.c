/* SPDX-License-Identifier: MIT */
/*
** Ctrl-C inside a product, by every way: the libraries get parts that they have done soon, and what
** is made of parts is right.
*/
#include <sys/resource.h>

#include "press.h"
#include "ridge.h"
#include "tap.h"

#include "op/op.h"
#include "op/product.h"

extern const rg_op rg_op_matmul;

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
  thread = press_soon(&begin);
  is_status(rg_matmul(x, y, &z), RG_EINTR, what);
  press_end(thread);
  rg_tensor_release(z);
  rg_tensor_release(x);
  rg_tensor_release(y);
}

/* -- One product in parts ------------------------------------------------------------------  */

/* Ones, but its last row and then its last column; transposed: it lies as its transpose does. */
static rg_tensor *matrix(int64_t rows, int64_t cols, bool transposed, const double last[2])
{
  const int64_t shape[2] = { transposed ? cols : rows, transposed ? rows : cols };
  rg_tensor *x = NULL, *view = NULL;

  if (rg_empty(RG_F32, RG_CPU, shape, 2, &x) != RG_OK || rg_fill_(x, 1) != RG_OK) {
    tap_bail(rg_error_message());
  }
  if (transposed) {
    if (rg_transpose(x, 0, 1, &view) != RG_OK) {
      tap_bail(rg_error_message());
    }
    rg_tensor_release(x);
    x = view;
  }
  for (int32_t axis = 0; axis < 2; axis++) {
    rg_tensor *edge = NULL;

    if (rg_narrow(x, axis, x->_shape[axis] - 1, 1, 1, &edge) != RG_OK ||
        rg_fill_(edge, last[axis]) != RG_OK) {
      tap_bail(rg_error_message());
    }
    rg_tensor_release(edge);
  }
  return x;
}

static double at2(const rg_tensor *x, int64_t i, int64_t j)
{
  double value = 0;

  ok(rg_tensor_get(x, (const int64_t[]){ i, j }, 2, &value) == RG_OK, "an element");
  return value;
}

/* A product whose rows alone do not make it short: it stops within, and whole it is right. */
static void test_parts(const char *path, const int64_t size[3], bool transposed, const char *what)
{
  const int64_t m = size[0], n = size[1], k = size[2];
  const double sum = (double)(k - 1);
  rg_tensor *x = matrix(m, k, transposed, (const double[]){ 5, 3 });
  rg_tensor *y = matrix(k, n, transposed, (const double[]){ 1, 2 });
  rg_tensor *z = NULL;
  pthread_t thread;
  double begin;

  is_status(rg_set_gemm_path(path), RG_OK, path);
  thread = press_soon(&begin);
  is_status(rg_matmul(x, y, &z), RG_EINTR, what);
  press_end(thread);
  is_status(rg_matmul(x, y, &z), RG_OK, "whole");
  close_to(at2(z, 0, 0), sum + 3, 0, "its first element");
  close_to(at2(z, 0, n - 1), 2 * (sum + 3), 0, "the last of a row");
  close_to(at2(z, m - 1, 0), 5 * sum + 3, 0, "the last of a column");
  close_to(at2(z, m - 1, n - 1), 2 * (5 * sum + 3), 0, "the last of all");
  close_to(at2(z, m / 2, n / 2), sum + 3, 0, "one in the middle");
  rg_tensor_release(z);
  rg_tensor_release(x);
  rg_tensor_release(y);
}

/* A result that is the first rows of a larger tensor: the last part may make rows again, and none
** behind them. */
static void test_within(const char *path, const int64_t size[3], const char *what)
{
  const int64_t m = size[0], n = size[1], k = size[2], behind = 8;
  rg_tensor *x = matrix(m, k, false, (const double[]){ 5, 3 });
  rg_tensor *y = matrix(k, n, false, (const double[]){ 1, 2 });
  rg_tensor *all = NULL, *z = NULL;

  if (rg_empty(RG_F32, RG_CPU, (const int64_t[]){ m + behind, n }, 2, &all) != RG_OK ||
      rg_fill_(all, -7) != RG_OK || rg_narrow(all, 0, 0, m, 1, &z) != RG_OK) {
    tap_bail(rg_error_message());
  }
  is_status(rg_set_gemm_path(path), RG_OK, path);
  is_status(rg_run_into(&rg_op_matmul, (const rg_tensor *const[]){ x, y }, 2,
                        &(rg_matmul_args){ .compute = -1 }, z),
            RG_OK, what);
  close_to(at2(all, m - 1, n - 1), 2 * (5 * (double)(k - 1) + 3), 0, "its last element");
  for (int64_t i = m; i < m + behind; i++) {
    close_to(at2(all, i, 0), -7, 0, "a row behind it");
    close_to(at2(all, i, n - 1), -7, 0, "to its end");
  }
  rg_tensor_release(z);
  rg_tensor_release(all);
  rg_tensor_release(y);
  rg_tensor_release(x);
}

/* Rows of few operations take as long as they are read: stopped, the last ones are not made. */
static void test_narrow(const char *path, const char *what)
{
  const int64_t m = 12000000, k = 12;
  rg_tensor *x = NULL, *y = NULL, *z = NULL;
  pthread_t thread;
  double begin;

  if (rg_empty(RG_F32, RG_CPU, (const int64_t[]){ m, k }, 2, &x) != RG_OK ||
      rg_fill_(x, 1) != RG_OK ||
      rg_empty(RG_F32, RG_CPU, (const int64_t[]){ k, 1 }, 2, &y) != RG_OK ||
      rg_fill_(y, 1) != RG_OK ||
      rg_empty(RG_F32, RG_CPU, (const int64_t[]){ m, 1 }, 2, &z) != RG_OK ||
      rg_fill_(z, -7) != RG_OK) {
    tap_bail(rg_error_message());
  }
  is_status(rg_set_gemm_path(path), RG_OK, path);
  thread = press_soon(&begin);
  is_status(rg_run_into(&rg_op_matmul, (const rg_tensor *const[]){ x, y }, 2,
                        &(rg_matmul_args){ .compute = -1 }, z),
            RG_EINTR, what);
  press_end(thread);
  close_to(at2(z, m - 1, 0), -7, 0, "its last row was not made");
  is_status(rg_run_into(&rg_op_matmul, (const rg_tensor *const[]){ x, y }, 2,
                        &(rg_matmul_args){ .compute = -1 }, z),
            RG_OK, "whole");
  close_to(at2(z, 0, 0), k, 0, "its first row");
  close_to(at2(z, m / 2, 0), k, 0, "one in the middle");
  close_to(at2(z, m - 1, 0), k, 0, "its last row");
  rg_tensor_release(z);
  rg_tensor_release(y);
  rg_tensor_release(x);
}

/* One sum of many whole numbers, of which memory holds one. */
static void test_long_sum(void)
{
  const int64_t terms = (int64_t)1 << 33;
  rg_tensor *one = NULL, *x = NULL, *y = NULL, *z = NULL;
  pthread_t thread;
  double begin;

  if (rg_empty(RG_I64, RG_CPU, (const int64_t[]){ 1, 1 }, 2, &one) != RG_OK ||
      rg_fill_(one, 1) != RG_OK || rg_expand(one, (const int64_t[]){ 1, terms }, 2, &x) != RG_OK ||
      rg_transpose(x, 0, 1, &y) != RG_OK) {
    tap_bail(rg_error_message());
  }
  thread = press_soon(&begin);
  is_status(rg_matmul(x, y, &z), RG_EINTR, "one long sum of whole numbers");
  press_end(thread);
  rg_tensor_release(z);
  rg_tensor_release(y);
  rg_tensor_release(x);
  rg_tensor_release(one);
}

/* Sums so long that packing them takes seconds: it stops within one panel, and a tile within one
** sum, which is made of parts then. */
static void test_long_panel(void)
{
  const int64_t terms = ((int64_t)1 << 21) + 3;
  const int64_t far = (int64_t)1 << 26;
  rg_tensor *one = NULL, *x = NULL, *y = NULL, *wide = NULL, *long_x = NULL, *long_y = NULL;
  rg_tensor *z = NULL;
  struct rusage before, after;
  pthread_t thread;
  double begin;

  if (rg_empty(RG_F32, RG_CPU, (const int64_t[]){ 1, 1 }, 2, &one) != RG_OK ||
      rg_fill_(one, 1) != RG_OK || rg_expand(one, (const int64_t[]){ 4, far }, 2, &wide) != RG_OK ||
      rg_transpose(wide, 0, 1, &long_y) != RG_OK ||
      rg_expand(one, (const int64_t[]){ 2, far }, 2, &long_x) != RG_OK) {
    tap_bail(rg_error_message());
  }
  is_status(rg_set_gemm_path("own"), RG_OK, "own kernels");
  getrusage(RUSAGE_SELF, &before);
  thread = press_soon(&begin);
  is_status(rg_matmul(long_x, long_y, &z), RG_EINTR, "one panel of many steps");
  press_end(thread);
  getrusage(RUSAGE_SELF, &after);
  ok(after.ru_maxrss - before.ru_maxrss < (int64_t)2 << 20, "of 8 GB it touched less than 2");
  rg_tensor_release(long_x);
  rg_tensor_release(long_y);
  rg_tensor_release(wide);
  x = matrix(2, terms, false, (const double[]){ 5, 3 });
  y = matrix(terms, 4, false, (const double[]){ 1, 2 });
  is_status(rg_matmul(x, y, &z), RG_OK, "a sum of three parts");
  close_to(at2(z, 0, 0), (double)terms + 2, 0, "its first element");
  close_to(at2(z, 1, 3), 2 * (5 * (double)(terms - 1) + 3), 0, "its last");
  rg_tensor_release(z);
  rg_tensor_release(x);
  rg_tensor_release(y);
  rg_tensor_release(one);
}

int main(void)
{
  is_status(rg_set_threads(1), RG_OK, "one thread");
  test_product("own", RG_ISA_BASE, RG_F32, 1, 3072, "own kernels in f32");
  test_product("openblas", RG_ISA_BASE, RG_F64, 1, 4096, "OpenBLAS in f64");
  test_product("openblas", RG_ISA_BASE, RG_F32, 1, 4096, "OpenBLAS in f32");
  test_product("onednn", RG_ISA_BASE, RG_F32, 1, 4096, "oneDNN in f32");
  test_parts("openblas", (const int64_t[]){ 64, 513, 80000 }, false, "columns and long sums");
  test_parts("openblas", (const int64_t[]){ 64, 513, 80000 }, true, "the same, transposed");
  test_parts("onednn", (const int64_t[]){ 997, 4096, 8192 }, false, "rows for oneDNN");
  test_parts("onednn", (const int64_t[]){ 997, 4096, 8192 }, true, "the same, transposed");
  test_within("onednn", (const int64_t[]){ 997, 4096, 8192 }, "rows for oneDNN into a part");
  test_within("openblas", (const int64_t[]){ 64, 513, 80000 }, "columns and long sums into one");
  test_narrow("openblas", "long and narrow by OpenBLAS");
  test_narrow("onednn", "long and narrow by oneDNN");
  is_status(rg_set_threads(2), RG_OK, "two threads");
  test_narrow("openblas", "the same, rows shared");
  is_status(rg_set_threads(1), RG_OK, "one thread");
  test_product("own", RG_ISA_BASE, RG_I32, 1, 1024, "whole numbers");
  test_long_sum();
  test_long_panel();
  test_product("own", RG_ISA_BASE, RG_F32, 4096, 64, "a batch of small ones");
  return done();
}
