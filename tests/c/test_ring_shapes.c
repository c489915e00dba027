/* SPDX-License-Identifier: MIT */
/*
** Types and shapes of events: calls that differ in one thing alone are told apart, however often
** they come and behind whichever other one.
*/
#include <stdio.h>
#include <string.h>

#include "tap.h"
#include "op/op.h"
#include "ridge/element.h"
#include "ridge/op.h"
#include "ridge/ring.h"

enum { OP = 1 << RG_EVENT_OP, MOST = 64, ROUNDS = 3 };

typedef struct kind {
  int32_t dtype;
  int32_t ndim;
  int64_t shape[4];
  const char *text;
} kind;

/* All of no elements or of six: sizes in other places, other axes, other types. */
static const kind KINDS[] = {
  { RG_F32, 1, { 6 }, "f32[6]" },
  { RG_F32, 2, { 2, 3 }, "f32[2,3]" },
  { RG_F32, 2, { 3, 2 }, "f32[3,2]" },
  { RG_F32, 2, { 1, 6 }, "f32[1,6]" },
  { RG_F32, 2, { 6, 1 }, "f32[6,1]" },
  { RG_F32, 3, { 1, 2, 3 }, "f32[1,2,3]" },
  { RG_F32, 3, { 2, 1, 3 }, "f32[2,1,3]" },
  { RG_F32, 3, { 2, 3, 1 }, "f32[2,3,1]" },
  { RG_F32, 4, { 1, 1, 2, 3 }, "f32[1,1,2,3]" },
  { RG_F32, 1, { 0 }, "f32[0]" },
  { RG_F32, 2, { 0, 0 }, "f32[0,0]" },
  { RG_F32, 2, { 0, 6 }, "f32[0,6]" },
  { RG_F32, 2, { 6, 0 }, "f32[6,0]" },
  { RG_BF16, 2, { 2, 3 }, "bf16[2,3]" },
  { RG_BF16, 2, { 3, 2 }, "bf16[3,2]" },
  { RG_F64, 2, { 2, 3 }, "f64[2,3]" },
  { RG_F64, 1, { 6 }, "f64[6]" },
};

enum { N_KINDS = sizeof(KINDS) / sizeof(KINDS[0]), N_ADDED = 4 };

static rg_tensor *made(const kind *k)
{
  rg_tensor *x = NULL;

  is_status(rg_empty(k->dtype, RG_CPU, k->shape, k->ndim, &x), RG_OK, k->text);
  return x;
}

/* The shapes of the one event that came since `at`; NULL: it is not one. */
static const char *next_text(int32_t reader, int64_t *at)
{
  rg_happening e = { 0 };

  if (rg_reader_next(reader, at, &e) != RG_OK || e.name == NULL) {
    return NULL;
  }
  return rg_shapes_text(e.shapes);
}

static void test_alike(int32_t reader, int64_t *at)
{
  rg_tensor *x[N_KINDS];
  rg_tensor *y = NULL;
  int n_right = 0;

  for (int i = 0; i < N_KINDS; i++) {
    x[i] = made(&KINDS[i]);
  }
  while (next_text(reader, at) != NULL) {
  }
  for (int k = 0; k < ROUNDS * N_KINDS; k++) {
    const int i = k / N_KINDS == 1 ? N_KINDS - 1 - k % N_KINDS : k % N_KINDS;
    char text[MOST];
    const char *told;

    (void)snprintf(text, sizeof(text), "%s -> %s", KINDS[i].text, KINDS[i].text);
    told = rg_neg(x[i], &y) == RG_OK ? next_text(reader, at) : NULL;
    n_right += told != NULL && strcmp(told, text) == 0;
    rg_tensor_release(y);
    y = NULL;
  }
  is_int(n_right, ROUNDS * N_KINDS, "each of one tensor is told apart");
  for (int i = 0; i < N_KINDS; i++) {
    rg_tensor_release(x[i]);
  }
}

/* The same two, one or the other first; and one whose first is the result of another. */
static void test_places(int32_t reader, int64_t *at)
{
  static const int PAIRS[N_ADDED][2] = { { 0, 3 }, { 3, 0 }, { 3, 3 }, { 0, 0 } };
  static const char *const TEXTS[N_ADDED] = {
    "f32[6] f32[1,6] -> f32[1,6]",
    "f32[1,6] f32[6] -> f32[1,6]",
    "f32[1,6] f32[1,6] -> f32[1,6]",
    "f32[6] f32[6] -> f32[6]",
  };
  int n_right = 0;

  for (int k = 0; k < ROUNDS * N_ADDED; k++) {
    const int i = k % N_ADDED;
    rg_tensor *a = made(&KINDS[PAIRS[i][0]]);
    rg_tensor *b = made(&KINDS[PAIRS[i][1]]);
    rg_tensor *y = NULL;
    const char *told;

    while (next_text(reader, at) != NULL) {
    }
    told = rg_add(a, b, &y) == RG_OK ? next_text(reader, at) : NULL;
    n_right += told != NULL && strcmp(told, TEXTS[i]) == 0;
    rg_tensor_release(a);
    rg_tensor_release(b);
    rg_tensor_release(y);
  }
  is_int(n_right, ROUNDS * N_ADDED, "each of two tensors is told apart");
}

/* Sizes of one tensor are not taken for those of another, whatever they add up to: four axes, each
** of a size below five, parted between two tensors in every way. */
static void test_between(void)
{
  extern const rg_op rg_op_copy;
  enum { BELOW = 5, AXES = 4 };
  rg_tensor *y = made(&KINDS[0]);
  int n_right = 0;
  int n = 0;

  for (int first = 1; first < AXES; first++) {
    for (int k = 0; k < BELOW * BELOW * BELOW * BELOW; k++) {
      const int64_t sizes[AXES] = { k % BELOW, k / BELOW % BELOW, k / BELOW / BELOW % BELOW,
                                    k / BELOW / BELOW / BELOW };
      rg_tensor *x[2] = { NULL, NULL };
      char text[MOST];
      char shape[2][MOST];

      if (rg_empty(RG_F32, RG_CPU, sizes, first, &x[0]) != RG_OK ||
          rg_empty(RG_F32, RG_CPU, sizes + first, AXES - first, &x[1]) != RG_OK) {
        tap_bail("no memory for tensors of a few bytes");
      }
      const rg_tensor *in[] = { x[0], x[1] };
      const rg_call call = { .op = &rg_op_copy, .in = in, .n_in = 2, .n_out = 1 };
      const char *told = rg_shapes_text(rg_shapes_of(&call, &y));

      (void)snprintf(text, sizeof(text), "f32%s f32%s -> f32[6]",
                     rg_shape_text(sizes, first, shape[0], MOST),
                     rg_shape_text(sizes + first, AXES - first, shape[1], MOST));
      n_right += strcmp(told, text) == 0;
      n++;
      rg_tensor_release(x[0]);
      rg_tensor_release(x[1]);
    }
  }
  is_int(n_right, n, "no size is taken for that of another tensor");
  rg_tensor_release(y);
}

/* Tensors behind the sixteenth are counted, and that is all that differs. */
static void test_more(int32_t reader, int64_t *at)
{
  enum { MORE = 20 };
  rg_tensor *x = made(&KINDS[9]);
  const rg_tensor *many[MORE];
  int n_right = 0;

  for (int i = 0; i < MORE; i++) {
    many[i] = x;
  }
  for (int k = 0; k < ROUNDS * MORE; k++) {
    const int n = 1 + k % MORE;
    rg_tensor *y = NULL;
    char text[MOST];
    const char *told;

    while (next_text(reader, at) != NULL) {
    }
    (void)snprintf(text, sizeof(text), " and %d more -> f32[0]", n - 15);
    told = rg_concat(many, n, 0, &y) == RG_OK ? next_text(reader, at) : NULL;
    n_right += told != NULL && (n > 15 ? strstr(told, text) != NULL : strstr(told, "more") == NULL);
    rg_tensor_release(y);
  }
  is_int(n_right, ROUNDS * MORE, "how many more there are is told");
  rg_tensor_release(x);
}

/* Without memory for the table, its index or a key a call has no shapes; the next one may. */
static void test_no_memory(void)
{
  extern const rg_op rg_op_copy;
  rg_tensor *x = made(&KINDS[0]);
  const rg_tensor *in[] = { x };
  const rg_call call = { .op = &rg_op_copy, .in = in, .n_in = 1, .n_out = 1 };

  for (int64_t n = 1; n <= 3; n++) {
    rg_alloc_fail_at(n);
    const int32_t id = rg_shapes_of(&call, &x);
    rg_alloc_fail_at(0);
    is_int(id, -1, "no memory, no shapes");
  }
  const int32_t id = rg_shapes_of(&call, &x);

  ok(strcmp(rg_shapes_text(id), "f32[6] -> f32[6]") == 0, "then there is some");
  is_int(rg_shapes_of(&call, &x), id, "and it is kept");
  rg_tensor_release(x);
}

/* Behind as many combinations as are remembered an event says that its shapes are not told, each
** time; those that came before are told still. */
static void test_too_many(void)
{
  extern const rg_op rg_op_copy;
  enum { ROOM = 8192 };
  rg_tensor *y = made(&KINDS[0]);
  int n_told = 0;
  int n_left = 0;

  for (int k = 0; k < 2 * (ROOM + 600); k++) {
    const int64_t size = 1000 + k % (ROOM + 600);
    const int64_t shape[] = { 0, size };
    rg_tensor *x = NULL;
    char text[MOST];

    if (rg_empty(RG_F32, RG_CPU, shape, 2, &x) != RG_OK) {
      tap_bail("no memory for tensors of a few bytes");
    }
    const rg_tensor *in[] = { x };
    const rg_call call = { .op = &rg_op_copy, .in = in, .n_in = 1, .n_out = 1 };
    const char *told = rg_shapes_text(rg_shapes_of(&call, &y));

    (void)snprintf(text, sizeof(text), "f32[0,%d] -> f32[6]", (int)size);
    n_told += strcmp(told, text) == 0;
    n_left += strcmp(told, "(too many shapes)") == 0;
    rg_tensor_release(x);
  }
  ok(n_told > 2 * (ROOM - 5000) && n_told < 2 * ROOM && n_left >= 2 * 600, "most are remembered");
  is_int(n_told + n_left, 2 * (ROOM + 600), "and all others say that they are not");
  ok(strcmp(rg_shapes_text(-1), "") == 0, "which is not what no memory says");
  rg_tensor_release(y);
}

int main(void)
{
  int32_t reader = -1;
  int64_t at = 0;

  test_no_memory();
  is_status(rg_reader_open(OP, 0, 1000, &reader), RG_OK, "a reader");
  test_alike(reader, &at);
  test_places(reader, &at);
  test_between();
  test_more(reader, &at);
  test_too_many();
  rg_reader_close(reader);
  return done();
}
