/* SPDX-License-Identifier: MIT */
/*
** What the nodes and values of a graph share: arrays that grow, up to a border, texts that are kept
** once, modes and streams that have one number.
*/
#include "graph/store.h"
#include "ir.h"

enum { TEXTS = 300, FIRST_ROOM = 16, FIRST_BUCKETS = 64 };

/* -- Arrays ------------------------------------------------------------------------------ */

static void test_arrays(void)
{
  rg_ir_array a = { 0 };

  is_status(rg_ir_reserve(&a, 0, 4), RG_OK, "room for none");
  ok(a.data == NULL && a.room == 0, "is there");
  is_status(rg_ir_reserve(&a, 1, 4), RG_OK, "room for one");
  is_int(a.room, FIRST_ROOM, "is some");
  const void *before = a.data;

  RG_IR_PUSH(a, int32_t, 7);
  is_status(rg_ir_reserve(&a, FIRST_ROOM - 1, 4), RG_OK, "as many as there is room for");
  ok(a.data == before, "need no more");
  is_status(rg_ir_reserve(&a, FIRST_ROOM, 4), RG_OK, "one more");
  is_int(a.room, 2 * FIRST_ROOM, "needs twice the room");
  ok(a.n == 1 && *RG_IR_AT(a, int32_t, 0) == 7, "with what is there");
  is_status(rg_ir_reserve(&a, 200, 4), RG_OK, "many");
  is_int(a.room, 201, "are given as much as they need");
  ok(*RG_IR_AT(a, int32_t, 0) == 7, "with what is there");
  rg_host_free(a.data);
}

/* The most there can be: no memory is asked for behind it.  Nothing is written here. */
static void test_border(void)
{
  rg_ir_array a = { .n = INT32_MAX / 2 - 1 };
  char said[64];

  if (tap_refusing()) {
    return;
  }
  rg_alloc_fail_at(1);
  is_status(rg_ir_reserve(&a, 1, 1), RG_ENOMEM, "as many as there may be");
  ok(SAYS("graph: no memory for it"), "are asked for");
  rg_alloc_fail_at(0);
  for (int32_t i = 0; i < 2; i++) {
    is_status(rg_ir_reserve(&a, i == 0 ? 2 : INT32_MAX, 1), RG_ENOMEM, "more");
    (void)snprintf(said, sizeof(said), "graph: it has too many nodes, %lld of a kind",
                   (long long)a.n + (i == 0 ? 2 : INT32_MAX));
    ok(SAYS(said), "are not");
  }
  ok(a.data == NULL && a.room == 0, "and nothing changes");
}

/* -- Texts ------------------------------------------------------------------------------- */

static const char *text_of(int32_t i)
{
  static char text[32];

  (void)snprintf(text, sizeof(text), "net.lua:%d", i);
  return text;
}

static void test_texts(void)
{
  rg_graph *g;
  rg_ir_text number[TEXTS];
  rg_ir_text again = -1;
  bool kept = true;
  bool right = true;

  must(rg_ir_new(&g));
  must(rg_ir_text_add(g, NULL, &again));
  is_int(again, 0, "no text");
  must(rg_ir_text_add(g, "", &again));
  is_int(again, 0, "is an empty one");
  is_int(g->n_texts, 0, "which is not kept");
  for (int32_t i = 0; i < TEXTS; i++) {
    int32_t buckets = FIRST_BUCKETS;

    must(rg_ir_text_add(g, text_of(i), &number[i]));
    must(rg_ir_text_add(g, text_of(i), &again));
    while (buckets < 2 * (i + 2)) { /* for one more, which is asked for the second time */
      buckets *= 2;
    }
    kept = kept && again == number[i] && g->n_texts == i + 1;
    right = right && g->bucket.n == buckets;
  }
  ok(kept, "each is kept once");
  ok(right, "in a table that is at most half full");
  for (int32_t i = 0; i < TEXTS; i++) {
    must(rg_ir_text_add(g, text_of(i), &again));
    kept = kept && again == number[i] && strcmp(rg_ir_text_of(g, number[i]), text_of(i)) == 0;
  }
  ok(kept, "and found behind all others");
  rg_graph_release(g);
}

/* -- Modes and streams --------------------------------------------------------------------- */

static void test_modes(void)
{
  enum { N = 9 };
  rg_graph *g;
  rg_graph_modes modes[N + 1];
  int32_t number[N + 1];
  int32_t again;

  must(rg_ir_new(&g));
  for (int32_t i = 0; i <= N; i++) { /* each field is another one once */
    memset(&modes[i], 0, sizeof(modes[i]));
    if (i > 0) {
      ((int32_t *)&modes[i])[i - 1] = 1;
    }
    must(rg_ir_modes_add(g, &modes[i], &number[i]));
  }
  bool right = true;

  for (int32_t i = 0; i <= N; i++) {
    must(rg_ir_modes_add(g, &modes[i], &again));
    right = right && again == number[i] && number[i] == number[0] + i &&
            memcmp(rg_ir_modes_of(g, again), &modes[i], sizeof(modes[i])) == 0;
  }
  ok(right, "equal modes have one number, others have others");
  rg_graph_release(g);
}

/* What kernels are chosen by, and nothing else. */
static void test_run_modes(void)
{
  static const bool counts[] = { false, false, false, false, true, true, true, true, true };
  int32_t x;
  rg_graph *g;

  must(rg_ir_new(&g));
  x = outside(g, RG_VALUE_INPUT, "x", 2, 3);
  rg_ir_node *node[2];

  for (int32_t i = 0; i < 2; i++) {
    x = unary(g, &rg_op_neg, x);
  }
  node[0] = rg_ir_node_at(g, 0);
  node[1] = rg_ir_node_at(g, 1);
  for (int32_t i = 0; i < 9; i++) {
    rg_graph_modes modes = *rg_ir_modes_of(g, node[0]->modes);

    ((int32_t *)&modes)[i] += 1;
    must(rg_ir_modes_add(g, &modes, &node[1]->modes));
    is_int(rg_ir_runs_alike(g, node[0], node[1]), !counts[i], "do two nodes run alike?");
    is_int(rg_ir_runs_alike(g, node[1], node[1]), 1, "one with itself");
  }
  const rg_graph_modes modes = {
    .vendor = 1, .autotune = 2, .deterministic = 3, .tf32 = 4, .gemm = 5
  };
  const rg_modes run = rg_ir_run_modes(&modes);

  ok(run.device.vendor == 1 && run.device.autotune == 2 && run.device.deterministic == 3 &&
         run.device.tf32 == 4 && run.gemm == 5,
     "each of them is what it was");
  rg_graph_release(g);
}

static void test_streams(void)
{
  enum { N = 20 };
  rg_graph *g;
  rg_generator *stream[N];
  int32_t number = -1;
  bool right = true;

  must(rg_ir_new(&g));
  must(rg_ir_generator_add(g, NULL, &number));
  is_int(number, 0, "none is the default one");
  must(rg_ir_generator_add(g, rg_generator_default(), &number));
  is_int(number, 0, "which is 0");
  ok(rg_ir_generator_of(g, 0) == NULL && rg_ir_generator_of(g, -1) == NULL, "and not kept");
  for (int32_t i = 0; i < N; i++) {
    must(rg_generator_new((uint64_t)i, &stream[i]));
    must(rg_ir_generator_add(g, stream[i], &number));
    right = right && number == i + 1;
  }
  for (int32_t i = 0; i < N; i++) {
    must(rg_ir_generator_add(g, stream[i], &number));
    right = right && number == i + 1 && rg_ir_generator_of(g, number) == stream[i];
    rg_generator_release(stream[i]);
  }
  ok(right, "each has one number, from 1");
  ok(rg_generator_seed(rg_ir_generator_of(g, N)) == N - 1, "and is held");
  rg_graph_release(g);
}

int main(void)
{
  test_arrays();
  test_border();
  test_texts();
  test_modes();
  test_run_modes();
  test_streams();
  return done();
}
