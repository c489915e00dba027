/* SPDX-License-Identifier: MIT */
/*
** Ctrl-C inside one row: what goes along an axis of many elements, which is one piece of work, ends
** early, not with the row or with the pass over it.
*/
#include <string.h>

#include "op/gather.h"
#include "op/pad.h"
#include "op/resample.h"
#include "op/sort.h"
#include "op/triangle.h"
#include "press.h"
#include "ridge.h"
#include "tap.h"

static rg_tensor *drawn(int64_t n)
{
  rg_tensor *x = NULL;

  if (rg_empty(RG_F32, RG_CPU, &n, 1, &x) != RG_OK || rg_normal_(x, 0, 1, NULL) != RG_OK) {
    tap_bail(rg_error_message());
  }
  return x;
}

/* [1 x n] zeros, of which memory holds one. */
static rg_tensor *zeros(int32_t dtype, int64_t n)
{
  rg_tensor *one = NULL, *x = NULL;

  if (rg_empty(dtype, RG_CPU, (const int64_t[]){ 1, 1 }, 2, &one) != RG_OK ||
      rg_fill_(one, 0) != RG_OK || rg_expand(one, (const int64_t[]){ 1, n }, 2, &x) != RG_OK) {
    tap_bail(rg_error_message());
  }
  rg_tensor_release(one);
  return x;
}

static int32_t record_of(const char *name)
{
  for (int32_t i = 0; i < rg_record_count(); i++) {
    rg_op_facts facts;

    if (rg_op_facts_of(i, &facts) == RG_OK && strcmp(facts.name, name) == 0) {
      return i;
    }
  }
  tap_bail(name);
  return -1;
}

typedef struct row_case {
  const char *op;
  const char *what;
  const void *args;
  const rg_tensor *in[3];
  int32_t n_in;
} row_case;

/* What a call takes of the processor. */
static double run(const row_case *c, rg_status *status)
{
  rg_tensor *out[2] = { NULL, NULL };
  double begin = worked();

  *status = rg_op_call(record_of(c->op), c->in, c->n_in, c->args, NULL, out);
  double end = worked();

  rg_tensor_release(out[0]);
  rg_tensor_release(out[1]);
  return end - begin;
}

/* Presses once so much work was done. */
typedef struct presser {
  double begin;
  double after;
} presser;

static void *press_then(void *argument)
{
  const presser *p = argument;
  const struct timespec some = { .tv_nsec = 200000 };

  while (worked() - p->begin < p->after) {
    nanosleep(&some, NULL);
  }
  rg_interrupt_set();
  return NULL;
}

/* Press after an eighth of a call: does it end soon? */
static bool ends_early(const row_case *c, double whole)
{
  presser p = { .begin = worked(), .after = whole / 8 };
  rg_status status;
  pthread_t thread;

  if (pthread_create(&thread, NULL, press_then, &p) != 0) {
    tap_bail("no thread");
  }
  double pressed = run(c, &status);

  press_end(thread);
  printf("# %.4f s of %.4f s, %d\n", pressed, whole, (int)status);
  return status == RG_EINTR && pressed < whole / 8 + whole / 5 + 0.003;
}

/* Once for the memory, once for the time it takes; then pressed.  On a busy machine the press may
** come late, so that one of several has to be in time. */
static void test_row(row_case c)
{
  rg_status status;
  double whole;
  bool early = false;

  run(&c, &status);
  whole = run(&c, &status);
  is_status(status, RG_OK, c.what);
  for (int i = 0; i < 20 && !early; i++) {
    early = ends_early(&c, whole);
  }
  ok(early, "it ends early");
}

static void test_order(void)
{
  rg_tensor *x = drawn(1 << 20);
  const rg_sort_args whole = { .axis = 0 };
  const rg_topk_args few = { .axis = 0, .k = 1 << 17, .largest = 1 };

  test_row((row_case){ "sort", "a row in order", &whole, { x }, 1 });
  test_row((row_case){ "topk", "the first of a row", &few, { x }, 1 });
  rg_tensor_release(x);
}

/* All to the same place. */
static void test_scatter(void)
{
  const int64_t n = 1 << 23;
  const rg_scatter_args args = { .axis = 1, .reduce = 1 };
  rg_tensor *x = zeros(RG_F32, 1), *index = zeros(RG_I8, n), *src = zeros(RG_F32, n);

  test_row((row_case){ "scatter", "scattered", &args, { x, index, src }, 3 });
  rg_tensor_release(src);
  rg_tensor_release(index);
  rg_tensor_release(x);
}

static void test_sizes(void)
{
  const rg_resample_args size = {
    .axis = 1, .size = 1 << 21, .mode = RG_RESAMPLE_LINEAR, .last = 1
  };
  const rg_pad_args edge = { .low = { .n = 2 },
                             .high = { .n = 2, .at = { 0, 1 << 23 } },
                             .mode = RG_PAD_EDGE };
  rg_tensor *x = zeros(RG_F32, 5);

  test_row((row_case){ "resample", "another size", &size, { x }, 1 });
  test_row((row_case){ "pad", "padded", &edge, { x }, 1 });
  rg_tensor_release(x);
}

/* Bytes, one after the other, of results that fit into memory. */
static void test_bytes(void)
{
  const rg_triangle_args diagonal = { .diagonal = 0 };
  rg_tensor *x = zeros(RG_U8, 1 << 26), *wide = zeros(RG_F32, 1 << 25);

  test_row((row_case){ "triu", "one row of a triangle", &diagonal, { x }, 1 });
  test_row((row_case){ "quantize_rows", "a row as bytes", NULL, { wide }, 1 });
  rg_tensor_release(wide);
  rg_tensor_release(x);
}

int main(void)
{
  test_order();
  test_scatter();
  test_sizes();
  test_bytes();
  return done();
}
