/* SPDX-License-Identifier: MIT */
/*
** A loop over whole tensors: how long its pieces are, and in which form it is called, for each way
** that tensors may lie.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "tap.h"

/* What the loop was called for. */
static int64_t n_calls, shortest, longest;
static int32_t form_called;

static void called(int32_t form, void *y, const void *a, const void *b, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    const float x = ((const float *)a)[form == RG_FORM_ONE_RUN ? 0 : i];

    ((float *)y)[i] = x + (b != NULL ? ((const float *)b)[form == RG_FORM_RUN_ONE ? 0 : i] : 0);
  }
  shortest = n_calls == 0 || n < shortest ? n : shortest;
  longest = n_calls == 0 || n > longest ? n : longest;
  form_called = form;
  n_calls++;
}

static void run_run(void *y, const void *a, const void *b, int64_t n)
{
  called(RG_FORM_RUN_RUN, y, a, b, n);
}

static void run_one(void *y, const void *a, const void *b, int64_t n)
{
  called(RG_FORM_RUN_ONE, y, a, b, n);
}

static void one_run(void *y, const void *a, const void *b, int64_t n)
{
  called(RG_FORM_ONE_RUN, y, a, b, n);
}

static rg_loop *const loops[] = {
  [RG_FORM_RUN_RUN] = run_run, [RG_FORM_RUN_ONE] = run_one, [RG_FORM_ONE_RUN] = one_run
};

enum { ROWS = 6, WIDE = 400 };

/* rows x columns of floats that lie by strides in memory of their own, 1, 2, 3 ... */
typedef struct placed {
  float numbers[ROWS * WIDE];
  rg_tensor x;
} placed;

static void place(placed *p, int64_t rows, int64_t columns, int64_t down, int64_t right)
{
  for (int i = 0; i < ROWS * WIDE; i++) {
    p->numbers[i] = (float)i + 1;
  }
  p->x = (rg_tensor){ ._data = p->numbers, ._dtype = RG_F32, ._ndim = 2 };
  p->x._shape[0] = rows;
  p->x._shape[1] = columns;
  p->x._stride[0] = down;
  p->x._stride[1] = right;
  p->x._count = rows * columns;
  p->x._flags = right == 1 && down == columns ? RG_TENSOR_CONTIGUOUS : 0;
}

static float at(const placed *p, int64_t i, int64_t j)
{
  return p->numbers[(p->x._shape[0] == 1 ? 0 : i * p->x._stride[0]) +
                    (p->x._shape[1] == 1 ? 0 : j * p->x._stride[1])];
}

typedef struct lies {
  int64_t rows, columns, down, right;
} lies;

/* y = a + b, or a alone where b has no rows.  The loop is called so often, for so many elements,
** in that form. */
static void way(const char *what, lies y, lies a, lies b, int64_t calls, int64_t n, int32_t form)
{
  static placed py, pa, pb;
  const bool two = b.rows > 0;
  bool right = true;

  place(&py, y.rows, y.columns, y.down, y.right);
  place(&pa, a.rows, a.columns, a.down, a.right);
  place(&pb, b.rows, b.columns, b.down, b.right);
  n_calls = 0;
  is_status(rg_map_run(&(rg_map){
                .loops = loops, .y = &py.x, .a = &pa.x, .b = two ? &pb.x : NULL, .weight = 1 }),
            RG_OK, what);
  for (int64_t i = 0; i < y.rows; i++) {
    for (int64_t j = 0; j < y.columns; j++) {
      right = right && at(&py, i, j) == at(&pa, i, j) + (two ? at(&pb, i, j) : 0);
    }
  }
  ok(right, "its sums");
  is_int(n_calls, calls, "how often");
  ok(shortest == n && longest == n, "for how many");
  is_int(form_called, form, "in which form");
}

int main(void)
{
  const lies none = { 0 };
  const lies run = { 4, 100, 100, 1 }, gap = { 4, 100, 300, 1 }, row = { 1, 100, 100, 1 },
             column = { 4, 1, 1, 1 }, one = { 1, 1, 1, 1 }, apart = { 4, 100, 1, 4 },
             brief = { 4, 31, 90, 1 };

  way("side by side", run, run, run, 1, 400, RG_FORM_RUN_RUN);
  way("with one element", run, run, one, 1, 400, RG_FORM_RUN_ONE);
  way("of one element", run, one, run, 1, 400, RG_FORM_ONE_RUN);
  way("rows with gaps", gap, gap, gap, 4, 100, RG_FORM_RUN_RUN);
  way("one input with gaps", run, gap, none, 4, 100, RG_FORM_RUN_RUN);
  way("a row for all rows", run, run, row, 4, 100, RG_FORM_RUN_RUN);
  way("an element for each row", gap, run, column, 4, 100, RG_FORM_RUN_ONE);
  way("an element for each row in front", gap, column, run, 4, 100, RG_FORM_ONE_RUN);
  way("rows that are apart", run, run, apart, 1, 400, RG_FORM_RUN_RUN);
  way("an element for each row, and none else", gap, column, column, 1, 400, RG_FORM_RUN_RUN);
  way("a result that is apart", apart, run, run, 1, 400, RG_FORM_RUN_RUN);
  way("short rows", brief, brief, brief, 1, 124, RG_FORM_RUN_RUN);
  return done();
}
