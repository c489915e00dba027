/* SPDX-License-Identifier: MIT */
/*
** Tensors of eight axes, as many as there may be, and of one more: views, functions over axes, rows
** by numbers.
*/
#include <string.h>

#include "ridge.h"
#include "tap.h"

enum { N = 24 };

static const int64_t SHAPE[9] = { 1, 2, 1, 3, 1, 2, 1, 2, 1 }; /* of which the last is too many */

static void must(rg_status status)
{
  if (status != RG_OK) {
    tap_bail(rg_error_message());
  }
}

/* Its elements, in their order, are these times `step`, beginning at `from`. */
static bool counts(rg_tensor *x, int64_t n, double from, double step)
{
  double got[N * 2];
  rg_tensor *whole = NULL;
  bool right = x != NULL && x->_count == n;

  if (right) {
    must(rg_contiguous(x, &whole));
    must(rg_tensor_to_doubles(whole, got, n));
    for (int64_t i = 0; i < n; i++) {
      right = right && got[i] == from + step * (double)i;
    }
    rg_tensor_release(whole);
  }
  rg_tensor_release(x);
  return right;
}

static rg_tensor *made(int32_t ndim)
{
  rg_tensor *x = NULL;

  must(rg_empty(RG_F32, RG_CPU, SHAPE, ndim, &x));
  must(rg_arange_(x, 0, 1));
  return x;
}

static void test_views(rg_tensor *x)
{
  static const int32_t order[] = { 7, 6, 5, 4, 3, 2, 1, 0 };
  static const int64_t wide[] = { 2, 2, 1, 3, 1, 2, 1, 2 };
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;

  is_status(rg_permute(x, order, 8, &y), RG_OK, "all axes the other way round");
  ok(y->_shape[0] == 2 && y->_shape[7] == 1 && y->_shape[4] == 3, "have their lengths");
  is_status(rg_permute(y, order, 8, &z), RG_OK, "and back");
  rg_tensor_release(y);
  ok(counts(z, N, 0, 1), "it is as it was");
  is_status(rg_transpose(x, 0, 7, &y), RG_OK, "the first and the last");
  ok(y->_shape[0] == 2 && y->_shape[7] == 1, "change places");
  rg_tensor_release(y);
  is_status(rg_view(x, SHAPE, 8, &y), RG_OK, "a view of eight axes");
  ok(counts(y, N, 0, 1), "is the same");
  is_status(rg_view(x, SHAPE, 9, &y), RG_ESHAPE, "there is none of nine");
  ok(strcmp(rg_error_message(), "view: 9 axes; at most 8 are possible") == 0, "which says so");
  is_status(rg_reshape(x, SHAPE, 9, &y), RG_ESHAPE, "nor a copy");
  ok(strcmp(rg_error_message(), "reshape: 9 axes; at most 8 are possible") == 0, "which says so");
  is_status(rg_empty(RG_F32, RG_CPU, SHAPE, 9, &y), RG_ESHAPE, "nor a tensor");
  is_status(rg_expand(x, wide, 8, &y), RG_OK, "the first axis twice");
  is_int(y->_count, 2 * N, "has twice as many");
  rg_tensor_release(y);
  is_status(rg_narrow(x, 7, 1, 1, 1, &y), RG_OK, "the second of the last axis");
  ok(counts(y, N / 2, 1, 2), "is every other number");
  is_status(rg_squeeze(x, 6, &y), RG_OK, "seven axes");
  is_int(y->_ndim, 7, "are left");
  is_status(rg_unsqueeze(y, 6, &z), RG_OK, "one more");
  is_int(z->_ndim, 8, "are eight");
  rg_tensor_release(z);
  rg_tensor_release(y);
  is_status(rg_unsqueeze(x, 0, &y), RG_ESHAPE, "nine are too many");
}

static void test_functions(rg_tensor *x)
{
  static const int32_t all[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
  static const int32_t last[] = { 7 };
  rg_tensor *y = NULL;

  is_status(rg_sum(x, all, 8, false, &y), RG_OK, "a sum over eight axes");
  ok(y->_ndim == 0 && counts(y, 1, N * (N - 1) / 2, 0), "is the sum");
  is_status(rg_sum(x, last, 1, true, &y), RG_OK, "over the last one");
  ok(y->_ndim == 8 && counts(y, N / 2, 1, 4), "of pairs");
  is_status(rg_argmax(x, 7, false, &y), RG_OK, "the larger of each pair");
  ok(y->_ndim == 7 && counts(y, N / 2, 1, 0), "is the second");
  is_status(rg_add(x, x, &y), RG_OK, "a sum of two");
  ok(y->_ndim == 8 && counts(y, N, 0, 2), "of each element");
  is_status(rg_concat((const rg_tensor *const[]){ x, x }, 2, 7, &y), RG_OK, "twice, side by side");
  ok(y->_shape[7] == 4 && y->_count == 2 * N, "twice as long");
  rg_tensor_release(y);
}

/* Rows by numbers: the axes of the numbers stand in the place of the first. */
static void test_rows(rg_tensor *x)
{
  for (int32_t axes = 1; axes <= 4; axes++) {
    const int64_t one[4] = { 1, 1, 1, 1 };
    rg_tensor *narrow = NULL;
    rg_tensor *index = NULL;
    rg_tensor *y = NULL;

    must(rg_narrow(x, 1, 0, 1, 1, &narrow)); /* 12 numbers */
    must(rg_reshape(narrow, (const int64_t[]){ 3, 1, 2, 1, 2, 1 }, 6, &y));
    rg_tensor_release(narrow);
    narrow = y;
    must(rg_empty(RG_I64, RG_CPU, one, axes, &index));
    must(rg_fill_(index, 1));
    y = NULL;
    if (axes <= 3) {
      is_status(rg_take(narrow, index, &y), RG_OK, "a row by numbers of so many axes");
      is_int(y->_ndim, 5 + axes, "has the axes of both");
      ok(counts(y, 4, 4, 1), "and is that row");
    } else {
      is_status(rg_take(narrow, index, &y), RG_ESHAPE, "nine are too many");
    }
    rg_tensor_release(index);
    rg_tensor_release(narrow);
  }
}

int main(void)
{
  rg_tensor *x = made(8);

  test_views(x);
  test_functions(x);
  test_rows(x);
  rg_tensor_release(x);
  is_int(rg_live_tensors(), 0, "nothing leaks");
  return done();
}
