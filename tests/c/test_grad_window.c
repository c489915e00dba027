/* SPDX-License-Identifier: MIT */
/*
** Columns of a storage that require a gradient, against each of their elements: which window they
** are, how views lie to it, what is cut from views across its border, and where its gradient keeps
** each element.
*/
#include "grad/node.h"
#include "tap.h"

enum { MOST = 512 };

static void must(rg_status status)
{
  if (status != RG_OK) {
    tap_bail(rg_error_message());
  }
}

/* 0, 1, 2 ...: each element is its own place. */
static rg_tensor *counted(const int64_t *shape, int32_t ndim, int32_t dtype)
{
  rg_tensor *x = NULL;

  must(rg_empty(dtype, RG_CPU, shape, ndim, &x));
  must(rg_arange_(x, 0, 1));
  return x;
}

static int64_t offset_of(const rg_tensor *x)
{
  return (char *)x->_data - (char *)x->_storage->block.data;
}

/* The places of x's elements, in their order. */
static int64_t places(const rg_tensor *x, double *at)
{
  rg_tensor *whole = NULL;
  const int64_t n = x->_count;

  must(rg_contiguous(x, &whole));
  must(rg_tensor_to_doubles(whole, at, n));
  rg_tensor_release(whole);
  return n;
}

/* -- Storages of rows and columns ----------------------------------------------------------- */

typedef struct table {
  int64_t rows, cols, first, width; /* elements; the window is columns first .. first + width - 1 */
  rg_tensor *x;
  rg_tensor *flow; /* of the window alone */
  rg_window w;
} table;

static bool is_inside(const table *t, double where)
{
  int64_t column = (int64_t)where % t->cols;

  return column >= t->first && column < t->first + t->width;
}

/* Where the gradient of the window has that element. */
static double kept_at(const table *t, double where)
{
  return (double)((int64_t)where / t->cols * t->width + (int64_t)where % t->cols - t->first);
}

static void check_view(const table *t, const rg_tensor *v)
{
  double at[MOST];
  double kept[MOST];
  int64_t n = places(v, at);
  int64_t n_in = 0;
  rg_fit fit = rg_window_fit(&t->w, v, offset_of(v));
  bool right;

  for (int64_t i = 0; i < n; i++) {
    n_in += is_inside(t, at[i]);
  }
  right = fit == (n == 0 || n_in == n ? RG_FIT_INSIDE : n_in == 0 ? RG_FIT_OUTSIDE : RG_FIT_ACROSS);
  if (fit == RG_FIT_INSIDE && n > 0) {
    rg_tensor *part = NULL;

    must(rg_window_view(&t->w, t->flow, v, offset_of(v), &part));
    (void)places(part, kept);
    for (int64_t i = 0; i < n; i++) {
      right = right && kept[i] == kept_at(t, at[i]);
    }
    rg_tensor_release(part);
  }
  if (fit == RG_FIT_ACROSS) {
    int64_t start = -1;
    int64_t length = -1;
    int32_t axis = -1;

    right = right && rg_window_cut(&t->w, v, offset_of(v), &axis, &start, &length);
    if (right) {
      rg_tensor *cut = NULL;

      must(rg_narrow(v, axis, start, length, 1, &cut));
      n = places(cut, at);
      right = n == n_in; /* as many as there are inside, and all of these are */
      for (int64_t i = 0; i < n; i++) {
        right = right && is_inside(t, at[i]);
      }
      rg_tensor_release(cut);
    }
  }
  if (!right) {
    char text[96];

    ok(false, "a view");
    printf("# %lld x %lld, columns %lld + %lld; %s from %lld: fit %d\n", (long long)t->rows,
           (long long)t->cols, (long long)t->first, (long long)t->width,
           rg_tensor_text(v, text, sizeof(text)), (long long)offset_of(v), (int)fit);
  }
}

/* Rows a, a + s ... of columns b .. b + m - 1, as they are, transposed and with an axis more. */
static void check_views(const table *t)
{
  for (int64_t b = 0; b < t->cols; b++) {
    for (int64_t m = 0; m <= t->cols - b; m++) {
      for (int64_t a = 0; a < t->rows; a++) {
        for (int64_t s = 1; s <= 2; s++) {
          rg_tensor *v[4] = { NULL };

          must(rg_narrow(t->x, 1, b, m, 1, &v[0]));
          must(rg_narrow(v[0], 0, a, (t->rows - a + s - 1) / s, s, &v[1]));
          must(rg_transpose(v[1], 0, 1, &v[2]));
          must(rg_unsqueeze(v[1], 1, &v[3]));
          for (int i = 1; i < 4; i++) {
            check_view(t, v[i]);
          }
          for (int i = 0; i < 4; i++) {
            rg_tensor_release(v[i]);
          }
        }
      }
    }
  }
}

static void test_table(int64_t rows, int64_t cols, int64_t first, int64_t width, int32_t dtype)
{
  table t = { .rows = rows, .cols = cols, .first = first, .width = width };
  const int64_t bytes = rg_dtype_bytes(dtype);
  const bool whole = width == cols;
  rg_tensor *part = NULL;
  rg_tensor *transposed = NULL;

  t.x = counted((const int64_t[]){ rows, cols }, 2, dtype);
  t.flow = counted((const int64_t[]){ rows * width }, 1, dtype);
  must(rg_narrow(t.x, 1, first, width, 1, &part));
  must(rg_transpose(part, 0, 1, &transposed));
  t.w = rg_window_of(part);
  ok(t.w.width == (whole ? 0 : width * bytes) && t.w.pitch == (whole ? 0 : cols * bytes) &&
         t.w.first == (whole ? 0 : first * bytes),
     "columns are a window, all of them none");
  is_int(rg_window_bytes(&t.w, t.x->_storage->bytes), rows * width * bytes, "of so many bytes");
  rg_window other = rg_window_of(transposed);
  ok(other.width == t.w.width && other.pitch == t.w.pitch && other.first == t.w.first,
     "the same transposed");
  if (!whole) {
    check_views(&t);
  }
  rg_tensor_release(transposed);
  rg_tensor_release(part);
  rg_tensor_release(t.flow);
  rg_tensor_release(t.x);
}

/* -- What is no window ------------------------------------------------------------------------ */

static void none(rg_tensor *x, const char *what)
{
  rg_window w = rg_window_of(x);

  ok(w.width == 0 && w.pitch == 0 && w.first == 0, what);
  rg_tensor_release(x);
}

static void test_none(void)
{
  rg_tensor *x = counted((const int64_t[]){ 4, 6 }, 2, RG_F32);
  rg_tensor *some = NULL;
  rg_tensor *v = NULL;
  rg_window w;

  must(rg_narrow(x, 0, 1, 2, 1, &some));
  must(rg_narrow(some, 1, 2, 3, 1, &v));
  none(v, "columns of some rows");
  must(rg_narrow(x, 1, 0, 3, 2, &v));
  none(v, "every other column");
  must(rg_narrow(x, 1, 2, 0, 1, &v));
  none(v, "no columns");
  must(rg_narrow(x, 0, 1, 2, 2, &v));
  w = rg_window_of(v);
  ok(w.pitch == 48 && w.first == 24 && w.width == 24, "every other row is the end of two");
  rg_tensor_release(v);
  rg_tensor_release(some);
  rg_tensor_release(x);
}

/* The same with as many axes as there may be. */
static void test_axes(void)
{
  rg_tensor *x = counted((const int64_t[]){ 1, 1, 2, 1, 1, 3, 1, 2 }, 8, RG_F32);
  rg_tensor *v = NULL;
  rg_window w;
  int64_t start = -1;
  int64_t length = -1;
  int32_t axis = -1;

  must(rg_narrow(x, 5, 1, 1, 1, &v));
  w = rg_window_of(v);
  ok(w.pitch == 24 && w.first == 8 && w.width == 8, "the middle of three");
  is_int(rg_window_fit(&w, v, offset_of(v)), RG_FIT_INSIDE, "is inside");
  is_int(rg_window_fit(&w, x, 0), RG_FIT_ACROSS, "all of it is not");
  ok(rg_window_cut(&w, x, 0, &axis, &start, &length), "but has a part");
  ok(axis == 5 && start == 1 && length == 1, "which is that");
  rg_tensor_release(v);
  rg_tensor_release(x);
}

/* Planes of a box: a window with several axes in it. */
static void test_box(void)
{
  rg_tensor *x = counted((const int64_t[]){ 2, 3, 4 }, 3, RG_F64);
  rg_tensor *v = NULL;
  rg_window w;

  must(rg_narrow(x, 1, 1, 2, 1, &v));
  w = rg_window_of(v);
  ok(w.pitch == 96 && w.first == 32 && w.width == 64, "two of three planes");
  is_int(rg_window_fit(&w, v, offset_of(v)), RG_FIT_INSIDE, "are inside");
  is_int(rg_window_fit(&w, x, 0), RG_FIT_ACROSS, "the box is not");
  rg_tensor_release(v);
  must(rg_narrow(x, 1, 0, 1, 1, &v));
  is_int(rg_window_fit(&w, v, 0), RG_FIT_OUTSIDE, "and the third plane is outside");
  rg_tensor_release(v);
  must(rg_narrow(x, 0, 1, 1, 1, &v));
  w = rg_window_of(v);
  ok(w.pitch == 192 && w.first == 96 && w.width == 96,
     "one of two boxes is the end of its storage");
  is_int(rg_window_bytes(&w, 192), 96, "of half the bytes");
  rg_tensor_release(v);
  rg_tensor_release(x);
}

int main(void)
{
  for (int64_t rows = 1; rows <= 3; rows++) {
    for (int64_t cols = 1; cols <= 5; cols++) {
      for (int64_t first = 0; first < cols; first++) {
        for (int64_t width = 1; width <= cols - first; width++) {
          test_table(rows, cols, first, width, (rows + cols + first) % 2 != 0 ? RG_F32 : RG_F64);
        }
      }
    }
  }
  test_none();
  test_box();
  test_axes();
  return done();
}
