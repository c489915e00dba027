/* SPDX-License-Identifier: MIT */
/*
** Views: every kind against the same rule written out with indices, views of views, strides beside
** sizes of 1 and 0, and what is refused.
*/
#include <stdlib.h>

#include "base/base.h"
#include "op/view.h"
#include "tap.h"
#include "tensor/tensor.h"

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })
#define SAYS(text) (strstr(rg_error_message(), (text)) != NULL)

/* 0, 1, 2, ... in row-major order. */
static rg_tensor *counted(int32_t ndim, const int64_t *shape)
{
  rg_tensor *x = NULL;

  if (rg_empty(RG_F32, RG_CPU, shape, ndim, &x) != RG_OK) {
    tap_bail(rg_error_message());
  }
  for (int64_t i = 0; i < x->_count; i++) {
    ((float *)x->_data)[i] = (float)i;
  }
  return x;
}

static double at(const rg_tensor *x, const int64_t *index)
{
  double value = NAN;

  return rg_tensor_get(x, index, x->_ndim, &value) == RG_OK ? value : NAN;
}

static bool shaped(const rg_tensor *x, int32_t ndim, const int64_t *shape)
{
  bool same = x->_ndim == ndim;

  for (int32_t i = 0; same && i < ndim; i++) {
    same = x->_shape[i] == shape[i];
  }
  return same;
}

/* Row-major index number i of a shape. */
static void unravel(const rg_tensor *x, int64_t i, int64_t *index)
{
  for (int32_t a = x->_ndim - 1; a >= 0; a--) {
    index[a] = i % x->_shape[a];
    i /= x->_shape[a];
  }
}

/* Do the elements of x, row-major, equal count numbers? */
static bool holds(const rg_tensor *x, int64_t count, const double *want)
{
  int64_t index[RG_MAX_DIMS];
  bool same = x->_count == count;

  for (int64_t i = 0; same && i < count; i++) {
    unravel(x, i, index);
    same = at(x, index) == want[i];
  }
  return same;
}

#define HOLDS(x, ...)                                                       \
  holds((x), (int64_t)(sizeof((double[]){ __VA_ARGS__ }) / sizeof(double)), \
        (const double[]){ __VA_ARGS__ })

static bool contiguous(const rg_tensor *x)
{
  return (x->_flags & RG_TENSOR_CONTIGUOUS) != 0;
}

/* -- Each kind ------------------------------------------------------------------- */

static void test_view(void)
{
  rg_tensor *x = counted(3, SHAPE(2, 3, 4));
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;

  is_status(rg_view(x, SHAPE(6, -1), 2, &y), RG_OK, "6 x what is left");
  ok(shaped(y, 2, SHAPE(6, 4)) && contiguous(y) && y->_data == x->_data, "is 6 x 4");
  rg_tensor_release(y);
  is_status(rg_view(x, SHAPE(24), 1, &y), RG_OK, "one axis");
  ok(at(y, SHAPE(23)) == 23, "of all");
  rg_tensor_release(y);
  is_status(rg_view(x, SHAPE(2, 1, 3, 2, 1, 2, 1), 7, &y), RG_OK, "seven axes, some of size 1");
  ok(at(y, SHAPE(1, 0, 2, 1, 0, 1, 0)) == 23, "of all");
  is_status(rg_view(y, SHAPE(1, 24, 1), 3, &z), RG_OK, "and back to one");
  ok(at(z, SHAPE(0, 17, 0)) == 17, "in order");
  rg_tensor_release(z);
  rg_tensor_release(y);
  y = x;
  is_status(rg_view(x, SHAPE(5, 5), 2, &y), RG_ESHAPE, "another number of elements");
  ok(SAYS("24") && SAYS("25") && SAYS("[5,5]"), "is named");
  is_status(rg_view(x, SHAPE(-1, -1), 2, &y), RG_ESHAPE, "two unknown sizes");
  is_status(rg_view(x, SHAPE(-1, 5), 2, &y), RG_ESHAPE, "no whole size");
  is_status(rg_view(x, SHAPE(-1, 0), 2, &y), RG_ESHAPE, "no size beside 0");
  is_status(rg_view(x, SHAPE(-2, -12), 2, &y), RG_ESHAPE, "negative sizes");
  is_status(rg_view(x, SHAPE((int64_t)1 << 62, 4), 2, &y), RG_ESHAPE, "too many elements");
  is_status(rg_view(x, SHAPE(0, (int64_t)1 << 62, 4), 3, &y), RG_ESHAPE, "even beside 0");
  is_status(rg_view(x, NULL, 1, &y), RG_ESHAPE, "no shape");
  is_status(rg_view(x, SHAPE(24), 9, &y), RG_ESHAPE, "nine axes");
  is_status(rg_view(x, SHAPE(24), 1, NULL), RG_EARG, "no place to go");
  is_status(rg_view(NULL, SHAPE(24), 1, &y), RG_EARG, "no tensor");
  ok(y == x, "out is written only on success");
  rg_tensor_release(x);
}

static void test_permute(void)
{
  rg_tensor *x = counted(3, SHAPE(2, 3, 4));
  rg_tensor *y = NULL;
  bool right = true;

  is_status(rg_permute(x, (int32_t[]){ 2, 0, -2 }, 3, &y), RG_OK, "other order, one from behind");
  ok(shaped(y, 3, SHAPE(4, 2, 3)) && !contiguous(y), "has the sizes in it");
  for (int64_t i = 0; i < 24; i++) {
    int64_t k[3];

    unravel(x, i, k);
    right = right && at(y, SHAPE(k[2], k[0], k[1])) == (double)i;
  }
  ok(right, "and the elements");
  rg_tensor_release(y);
  is_status(rg_transpose(x, -1, 1, &y), RG_OK, "two axes changed");
  ok(shaped(y, 3, SHAPE(2, 4, 3)) && at(y, SHAPE(1, 3, 2)) == 23, "one for the other");
  rg_tensor_release(y);
  y = x;
  is_status(rg_permute(x, (int32_t[]){ 0, 1 }, 2, &y), RG_EAXIS, "too few");
  is_status(rg_permute(x, (int32_t[]){ 0, 1, 1 }, 3, &y), RG_EAXIS, "one twice");
  ok(SAYS("axis 2"), "is named");
  is_status(rg_permute(x, (int32_t[]){ 0, 1, 3 }, 3, &y), RG_EAXIS, "one that is not there");
  ok(SAYS("axis 4") && SAYS("f32[2,3,4]"), "is named, counted from 1");
  is_status(rg_permute(x, NULL, 3, &y), RG_EAXIS, "none");
  is_status(rg_transpose(x, 0, 3, &y), RG_EAXIS, "transpose with one that is not there");
  is_status(rg_transpose(x, INT32_MAX, 0, &y), RG_EAXIS, "or the largest");
  is_status(rg_transpose(x, INT32_MIN, 0, &y), RG_EAXIS, "or the smallest");
  ok(y == x, "out is written only on success");
  rg_tensor_release(x);
}

static void test_narrow(void)
{
  rg_tensor *x = counted(2, SHAPE(3, 7));
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;

  is_status(rg_narrow(x, 1, 1, 3, 2, &y), RG_OK, "three columns, every second");
  ok(HOLDS(y, 1, 3, 5, 8, 10, 12, 15, 17, 19), "from the second");
  is_status(rg_narrow(y, -1, 1, 2, 1, &z), RG_OK, "a range of that");
  ok(HOLDS(z, 3, 5, 10, 12, 17, 19), "steps as it does");
  rg_tensor_release(z);
  is_status(rg_narrow(y, 1, 0, 2, 2, &z), RG_OK, "every second of that");
  ok(HOLDS(z, 1, 5, 8, 12, 15, 19), "is every fourth");
  rg_tensor_release(z);
  rg_tensor_release(y);
  is_status(rg_narrow(x, 0, 1, 1, 1, &y), RG_OK, "one row");
  ok(contiguous(y) && HOLDS(y, 7, 8, 9, 10, 11, 12, 13), "has no gaps");
  rg_tensor_release(y);
  is_status(rg_narrow(x, 1, 7, 0, 1, &y), RG_OK, "nothing, from the end");
  ok(y->_count == 0 && contiguous(y), "is empty");
  rg_tensor_release(y);
  is_status(rg_narrow(x, 1, 6, 1, INT64_MAX, &y), RG_OK, "one element by a step beyond all");
  ok(HOLDS(y, 6, 13, 20), "takes no step");
  rg_tensor_release(y);
  is_status(rg_narrow(x, 1, 0, 4, 2, &y), RG_OK, "the last step ends on the last element");
  rg_tensor_release(y);
  y = x;
  is_status(rg_narrow(x, 1, 1, 4, 2, &y), RG_EAXIS, "one step too far");
  ok(SAYS("4 elements from 2 by 2") && SAYS("axis 2") && SAYS("f32[3,7]"), "is named");
  is_status(rg_narrow(x, 1, 0, 8, 1, &y), RG_EAXIS, "more than there are");
  is_status(rg_narrow(x, 1, 8, 0, 1, &y), RG_EAXIS, "nothing from beyond the end");
  is_status(rg_narrow(x, 1, -1, 1, 1, &y), RG_EAXIS, "before the begin");
  is_status(rg_narrow(x, 1, 0, -1, 1, &y), RG_EAXIS, "fewer than none");
  is_status(rg_narrow(x, 1, 0, 2, 0, &y), RG_EAXIS, "no step");
  is_status(rg_narrow(x, 1, 0, INT64_MAX, INT64_MAX, &y), RG_EAXIS, "everything at once");
  is_status(rg_narrow(x, 1, INT64_MAX, 1, 1, &y), RG_EAXIS, "from far away");
  is_status(rg_narrow(x, 1, 7, 1, 2, &y), RG_EAXIS, "one from behind the last, by two");
  is_status(rg_narrow(x, 2, 0, 1, 1, &y), RG_EAXIS, "no such axis");
  ok(y == x, "out is written only on success");
  rg_tensor_release(x);
}

static void test_select(void)
{
  rg_tensor *x = counted(3, SHAPE(2, 3, 4));
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;

  is_status(rg_select(x, 1, 2, &y), RG_OK, "the third of the middle axis");
  ok(shaped(y, 2, SHAPE(2, 4)) && HOLDS(y, 8, 9, 10, 11, 20, 21, 22, 23), "goes away");
  is_status(rg_select(y, 1, 3, &z), RG_OK, "of that the fourth");
  ok(HOLDS(z, 11, 23), "too");
  rg_tensor_release(y);
  is_status(rg_select(z, 0, 1, &y), RG_OK, "down to a scalar");
  ok(y->_ndim == 0 && at(y, NULL) == 23, "with a value");
  rg_tensor_release(z);
  z = x;
  is_status(rg_select(y, 0, 0, &z), RG_EAXIS, "which has no axis");
  is_status(rg_select(x, 1, 3, &z), RG_EAXIS, "past the end");
  ok(SAYS("position 4 of axis 2"), "is named");
  is_status(rg_select(x, 1, -1, &z), RG_EAXIS, "before the begin");
  is_status(rg_select(x, 1, INT64_MAX, &z), RG_EAXIS, "far past the end");
  ok(z == x, "out is written only on success");
  rg_tensor_release(y);
  rg_tensor_release(x);
}

static void test_expand(void)
{
  rg_tensor *x = counted(2, SHAPE(3, 1));
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;

  is_status(rg_expand(x, SHAPE(2, 3, 2), 3, &y), RG_OK, "repeated twice and in front");
  ok(HOLDS(y, 0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2), "without a copy");
  ok(y->_stride[0] == 0 && y->_stride[2] == 0 && y->_data == x->_data, "by strides of 0");
  is_status(rg_narrow(y, 1, 0, 2, 2, &z), RG_OK, "a part of that");
  ok(HOLDS(z, 0, 0, 2, 2, 0, 0, 2, 2), "is one");
  rg_tensor_release(z);
  z = x;
  is_status(rg_view(y, SHAPE(12), 1, &z), RG_ESHAPE, "which is no row in memory");
  ok(z == x && SAYS("contiguous"), "and the message says what helps");
  rg_tensor_release(y);
  is_status(rg_expand(x, SHAPE(3, 0), 2, &y), RG_OK, "to nothing");
  is_int(y->_count, 0, "is nothing");
  rg_tensor_release(y);
  y = x;
  is_status(rg_expand(x, SHAPE(4, 2), 2, &y), RG_ESHAPE, "a size that is not 1");
  ok(SAYS("f32[3,1]") && SAYS("[4,2]"), "is named");
  is_status(rg_expand(x, SHAPE(3), 1, &y), RG_ESHAPE, "fewer axes");
  is_status(rg_expand(x, SHAPE(3, -1), 2, &y), RG_ESHAPE, "a negative size");
  is_status(rg_expand(x, SHAPE((int64_t)1 << 61, 3, 64), 3, &y), RG_ESHAPE, "too many elements");
  is_status(rg_expand(x, NULL, 2, &y), RG_ESHAPE, "no shape");
  ok(y == x, "out is written only on success");
  rg_tensor_release(x);
}

static void test_squeeze(void)
{
  rg_tensor *x = counted(2, SHAPE(2, 3));
  rg_tensor *full = counted(8, SHAPE(1, 1, 1, 1, 1, 1, 1, 1));
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;

  is_status(rg_unsqueeze(x, 1, &y), RG_OK, "an axis in the middle");
  ok(shaped(y, 3, SHAPE(2, 1, 3)) && contiguous(y) && HOLDS(y, 0, 1, 2, 3, 4, 5), "of size 1");
  is_status(rg_squeeze(y, -2, &z), RG_OK, "taken out");
  ok(shaped(z, 2, SHAPE(2, 3)), "again");
  rg_tensor_release(z);
  rg_tensor_release(y);
  is_status(rg_unsqueeze(x, -1, &y), RG_OK, "at the end");
  ok(shaped(y, 3, SHAPE(2, 3, 1)), "behind the last");
  rg_tensor_release(y);
  is_status(rg_unsqueeze(x, 2, &y), RG_OK, "counted from the front");
  ok(shaped(y, 3, SHAPE(2, 3, 1)), "likewise");
  rg_tensor_release(y);
  y = x;
  is_status(rg_unsqueeze(x, 3, &y), RG_EAXIS, "beyond");
  is_status(rg_unsqueeze(x, -4, &y), RG_EAXIS, "before");
  is_status(rg_unsqueeze(full, 0, &y), RG_ESHAPE, "a ninth");
  is_status(rg_squeeze(x, 0, &y), RG_ESHAPE, "an axis of another size");
  ok(SAYS("axis 1") && SAYS("f32[2,3]"), "is named");
  is_status(rg_squeeze(x, 2, &y), RG_EAXIS, "no such axis");
  ok(y == x, "out is written only on success");
  rg_tensor_release(full);
  rg_tensor_release(x);
}

/* What narrow takes is what a walk over the positions finds inside, and nothing else. */
static void test_narrow_everywhere(void)
{
  enum { MOST = 6 };
  int64_t wrong = 0;
  int64_t taken = 0;

  for (int64_t size = 0; size <= MOST; size++) {
    rg_tensor *x = counted(1, SHAPE(size));

    for (int64_t i = 0; i < 9 * 9 * 9; i++) {
      int64_t start = i % 9 - 1;
      int64_t length = i / 9 % 9;
      int64_t step = i / 81 + 1;
      bool fits = start >= 0 && start <= size;
      rg_tensor *y = NULL;

      for (int64_t k = 0; k < length; k++) {
        fits = fits && start + k * step < size;
      }
      rg_status status = rg_narrow(x, 0, start, length, step, &y);
      bool right = (status == RG_OK) == fits && (fits || status == RG_EAXIS);

      for (int64_t k = 0; right && fits && k < length; k++) {
        right = at(y, SHAPE(k)) == (double)(start + k * step);
      }
      taken += status == RG_OK;
      wrong += !right;
      rg_tensor_release(y);
    }
    rg_tensor_release(x);
  }
  is_int(wrong, 0, "every start, length and step is judged as positions are");
  ok(taken > 100, "and many are taken");
}

/* The last defence: no view is made that reaches out of its storage, whoever asks for it. */
static void test_storage(void)
{
  rg_tensor *x = counted(2, SHAPE(2, 3));
  rg_tensor *y = NULL;

#define VIEW_OF(shape, stride, n, offset) \
  rg_tensor_view_of(x->_storage, RG_F32, shape, stride, n, offset, &y)
  is_status(VIEW_OF(SHAPE(2, 3), SHAPE(3, 1), 2, 4), RG_EBUG, "one element too far");
  ok(SAYS("[2,3]") && SAYS("24 bytes"), "is named");
  is_status(VIEW_OF(SHAPE(6), SHAPE(1), 1, -4), RG_EBUG, "one too early");
  is_status(VIEW_OF(SHAPE(4), SHAPE(2), 1, 0), RG_EBUG, "steps too long");
  is_status(VIEW_OF(SHAPE(4), SHAPE(-1), 1, 8), RG_EBUG, "backwards over the begin");
  is_status(VIEW_OF(NULL, NULL, 0, 24), RG_EBUG, "a scalar behind the end");
  is_status(VIEW_OF(SHAPE(3, 3), SHAPE(INT64_MAX / 2, INT64_MAX / 2), 2, 0), RG_EBUG,
            "what no pointer can reach");
  ok(y == NULL, "out is written only on success");
  is_status(VIEW_OF(SHAPE(3), SHAPE(2), 1, 4), RG_OK, "up to the last element");
  ok(HOLDS(y, 1, 3, 5), "every second");
  rg_tensor_release(y);
  is_status(VIEW_OF(SHAPE(5, 0), SHAPE(INT64_MAX, 1), 2, 24), RG_OK, "nothing reaches nowhere");
  rg_tensor_release(y);
#undef VIEW_OF
  rg_tensor_release(x);
}

/* -- Strides where they do not matter -------------------------------------------- */

static void test_ones(void)
{
  rg_tensor *x = counted(3, SHAPE(4, 1, 3));
  rg_tensor *transposed = NULL;
  rg_tensor *y = NULL;

  is_status(rg_transpose(x, 0, 1, &transposed), RG_OK, "an axis of size 1 moved");
  ok(contiguous(transposed), "leaves no gaps");
  is_status(rg_view(transposed, SHAPE(12), 1, &y), RG_OK, "so it is a row");
  ok(at(y, SHAPE(11)) == 11, "in order");
  rg_tensor_release(y);
  rg_tensor_release(transposed);
  is_status(rg_narrow(x, 2, 1, 1, 1, &transposed), RG_OK, "one column");
  ok(!contiguous(transposed) && HOLDS(transposed, 1, 4, 7, 10), "has gaps");
  is_status(rg_view(transposed, SHAPE(2, 2), 2, &y), RG_OK, "that are all alike");
  ok(HOLDS(y, 1, 4, 7, 10), "and allow another shape");
  rg_tensor_release(y);
  rg_tensor_release(transposed);
  is_status(rg_narrow(x, 2, 0, 2, 1, &transposed), RG_OK, "two columns");
  y = x;
  is_status(rg_view(transposed, SHAPE(8), 1, &y), RG_ESHAPE, "have two kinds of gaps");
  ok(y == x, "and do not");
  is_status(rg_view(transposed, SHAPE(2, 2, 2), 3, &y), RG_OK, "but may be split where they are");
  ok(HOLDS(y, 0, 1, 3, 4, 6, 7, 9, 10), "in order");
  rg_tensor_release(y);
  rg_tensor_release(transposed);
  rg_tensor_release(x);
}

static void test_nothing(void)
{
  rg_tensor *x = counted(3, SHAPE(3, 0, 2));
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;

  is_status(rg_view(x, SHAPE(0, 7), 2, &y), RG_OK, "nothing in another shape");
  ok(contiguous(y) && y->_count == 0, "is nothing");
  is_status(rg_permute(x, (int32_t[]){ 2, 1, 0 }, 3, &z), RG_OK, "transposed");
  ok(contiguous(z), "it has no gaps");
  rg_tensor_release(z);
  is_status(rg_narrow(x, 1, 0, 0, 5, &z), RG_OK, "nothing of nothing");
  rg_tensor_release(z);
  is_status(rg_view(x, SHAPE(2, -1), 2, &z), RG_OK, "an unknown size");
  is_int(z->_shape[1], 0, "is 0");
  rg_tensor_release(z);
  is_status(rg_expand(x, SHAPE(4, 3, 0, 2), 4, &z), RG_OK, "repeated");
  is_int(z->_count, 0, "nothing is nothing");
  rg_tensor_release(z);
  rg_tensor_release(y);
  rg_tensor_release(x);
}

/* -- Overlap --------------------------------------------------------------------- */

static void test_overlap(void)
{
  rg_tensor *x = counted(2, SHAPE(4, 6));
  rg_tensor *other = counted(2, SHAPE(4, 6));
  rg_tensor *top = NULL;
  rg_tensor *bottom = NULL;
  rg_tensor *again = NULL;

  is_status(rg_narrow(x, 0, 0, 2, 1, &top), RG_OK, "upper half");
  is_status(rg_narrow(x, 0, 2, 2, 1, &bottom), RG_OK, "lower half");
  is_status(rg_narrow(x, 0, 0, 2, 1, &again), RG_OK, "upper half again");
  ok(!rg_tensor_overlap(top, bottom), "halves do not touch");
  ok(rg_tensor_overlap(top, x) && rg_tensor_overlap(x, bottom), "each touches the whole");
  ok(!rg_tensor_overlap(x, other), "another storage never");
  ok(rg_tensor_same_view(top, again) && !rg_tensor_same_view(top, bottom), "same and not");
  ok(!rg_tensor_same_view(top, x), "a part is not the whole");
  rg_tensor_release(top);
  rg_tensor_release(bottom);
  rg_tensor_release(again);
  rg_tensor_release(other);
  rg_tensor_release(x);
}

/* -- Views of views, at random --------------------------------------------------- */

/* A random view; the element of it at any index must be the one a plain list of addresses says. */
static void test_random(void)
{
  uint32_t seed = 12345;
  bool right = true;
  int views = 0;

  for (int round = 0; round < (tap_refusing() ? 20 : 2000) && right; round++) {
    rg_tensor *x = counted(3, SHAPE(4, 3, 6));

    for (int depth = 0; depth < 4; depth++) {
      double want[400];
      int64_t index[RG_MAX_DIMS];
      rg_tensor *y = NULL;
      int32_t axis;
      int64_t n;

      seed = seed * 1664525 + 1013904223;
      axis = x->_ndim > 0 ? (int32_t)(seed >> 8) % x->_ndim : 0;
      if (x->_ndim == 0 || x->_count == 0) {
        break;
      }
      n = x->_shape[axis];
      switch (seed >> 28 & 3) {
      case 0: { /* every second, without the first */
        int64_t length = (n - 1 + 1) / 2;

        if (n < 2 || rg_narrow(x, axis, 1, length, 2, &y) != RG_OK) {
          continue;
        }
        for (int64_t i = 0; i < y->_count; i++) {
          unravel(y, i, index);
          index[axis] = 1 + 2 * index[axis];
          want[i] = at(x, index);
        }
        break;
      }
      case 1: /* the last axis and this one */
        right = right && rg_transpose(x, axis, -1, &y) == RG_OK;
        for (int64_t i = 0; i < y->_count; i++) {
          unravel(y, i, index);
          n = index[axis];
          index[axis] = index[y->_ndim - 1];
          index[y->_ndim - 1] = n;
          want[i] = at(x, index);
        }
        break;
      case 2: /* the last position */
        right = right && rg_select(x, axis, n - 1, &y) == RG_OK;
        for (int64_t i = 0; i < y->_count; i++) {
          unravel(y, i, index);
          for (int32_t a = y->_ndim; a > axis; a--) {
            index[a] = index[a - 1];
          }
          index[axis] = n - 1;
          want[i] = at(x, index);
        }
        break;
      default: /* one axis, where the strides allow it */
        if (rg_view(x, SHAPE(-1), 1, &y) != RG_OK) {
          continue;
        }
        for (int64_t i = 0; i < x->_count; i++) {
          unravel(x, i, index);
          want[i] = at(x, index);
        }
        break;
      }
      right = right && holds(y, y->_count, want);
      rg_tensor_release(x);
      x = y;
      views++;
    }
    rg_tensor_release(x);
  }
  printf("# %d views of views\n", views);
  ok(right, "each element is where the rules put it");
}

/* Any shape, strides and offset, as they were given; one after the other, so that none is what
** the call before had. */
/* Views that reach one element beyond the 24 of x, at either end, or so far that no number says
** where; an empty one may lie anywhere. */
static void test_beyond(const rg_tensor *x)
{
  static const struct {
    int32_t ndim;
    int64_t shape[2], stride[2], offset;
    rg_status status;
  } all[] = { { 1, { 24 }, { 1 }, 0, RG_OK },
              { 1, { 25 }, { 1 }, 0, RG_EARG },
              { 1, { 2 }, { 23 }, 0, RG_OK },
              { 1, { 2 }, { 24 }, 0, RG_EARG },
              { 2, { 4, 6 }, { 6, 1 }, 0, RG_OK },
              { 2, { 4, 7 }, { 6, 1 }, 0, RG_EARG },
              { 2, { 4, 6 }, { 6, 1 }, 1, RG_EARG },
              { 1, { 1 }, { 100 }, 23, RG_OK },
              { 1, { 1 }, { 100 }, 24, RG_EARG },
              { 1, { 24 }, { -1 }, 23, RG_OK },
              { 1, { 25 }, { -1 }, 23, RG_EARG },
              { 1, { 3 }, { INT64_MAX }, 0, RG_EARG },
              { 2, { 2, 2 }, { INT64_MAX, INT64_MAX }, 0, RG_EARG },
              { 2, { 2, 2 }, { INT64_MIN, INT64_MIN }, 0, RG_EARG },
              { 2, { 0, 9 }, { 100, 100 }, 0, RG_OK },
              { 1, { -1 }, { 1 }, 0, RG_ESHAPE } };

  for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
    rg_tensor *y = NULL;
    char what[64];

    (void)snprintf(what, sizeof(what), "view %d, at an end of its memory", (int)i + 1);
    is_status(rg_as_strided(x, all[i].shape, all[i].stride, all[i].ndim, all[i].offset, &y),
              all[i].status, what);
    rg_tensor_release(y);
  }
}

static void test_strided(void)
{
  static const struct {
    int32_t ndim;
    int64_t shape[3], stride[3], offset;
  } all[] = { { 2, { 2, 3 }, { 6, 1 }, 4 },
              { 1, { 4 }, { 5 }, 1 },
              { 3, { 2, 1, 2 }, { 3, 7, 8 }, 0 },
              { 0, { 0 }, { 0 }, 9 } };
  const int64_t size = 24;
  rg_tensor *x = NULL;

  is_status(rg_empty(RG_F32, RG_CPU, &size, 1, &x), RG_OK, "24 elements");
  for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
    rg_tensor *y = NULL;

    is_status(rg_as_strided(x, all[i].shape, all[i].stride, all[i].ndim, all[i].offset, &y), RG_OK,
              "a view of them");
    if (y == NULL) {
      continue;
    }
    is_int(y->_ndim, all[i].ndim, "as many axes");
    for (int32_t k = 0; k < y->_ndim && k < all[i].ndim; k++) {
      is_int(y->_shape[k], all[i].shape[k], "of that size");
      is_int(y->_stride[k], all[i].stride[k], "that far apart");
    }
    is_int((float *)y->_data - (float *)x->_data, all[i].offset, "from there on");
    rg_tensor_release(y);
  }
  test_beyond(x);
  rg_tensor_release(x);
}

int main(void)
{
  test_view();
  test_permute();
  test_narrow();
  test_narrow_everywhere();
  test_storage();
  test_select();
  test_expand();
  test_squeeze();
  test_ones();
  test_nothing();
  test_overlap();
  test_random();
  test_strided();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  is_int(rg_memory_of(RG_CPU)->live_bytes, 0, "no memory is left");
  return done();
}
