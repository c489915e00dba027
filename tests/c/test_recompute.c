/* SPDX-License-Identifier: MIT */
/*
** Random numbers of what is computed again while a plan is recorded: which draw repeats which, what
** a replay gives them, what is refused, and when memory runs out.
*/
#include "graph/ir.h"
#include "ridge/graph.h"
#include "ridge/ir.h"
#include "tap.h"

enum { N = 40 };

static const double RATE = 0.5;

static rg_tensor *filled(double value)
{
  rg_tensor *x = NULL;

  if (rg_empty(RG_F32, RG_CPU, (const int64_t[]){ N }, 1, &x) != RG_OK ||
      rg_fill_(x, value) != RG_OK) {
    tap_bail("no tensor");
  }
  return x;
}

static bool same(const rg_tensor *a, const rg_tensor *b)
{
  return memcmp(a->_data, b->_data, N * sizeof(float)) == 0;
}

/* -- A function that runs, and runs again ------------------------------------------------ */

enum { MOST = 48 };

typedef struct run {
  rg_tensor *y[2][MOST]; /* what the first and the second run made */
  int32_t n;
  int32_t more; /* draws of the second run beside those of the first */
  double rate;  /* of the second run's last draw */
} run;

static rg_status pass(const rg_tensor *x, run *r, int32_t which)
{
  const int32_t n = r->n + (which == 1 ? r->more : 0);

  for (int32_t i = 0; i < n; i++) {
    const bool last = which == 1 && i == n - 1;

    if (i < MOST) {
      RG_TRY(rg_dropout(x, last ? r->rate : RATE, NULL, &r->y[which][i]));
    }
  }
  return RG_OK;
}

/* The same numbers again, marked as the Lua side does. */
static rg_status both(const rg_tensor *x, run *r)
{
  rg_generator *g = rg_generator_default();
  const uint64_t seed = rg_generator_seed(g);
  const uint64_t before = rg_generator_offset(g);
  rg_recomputed part = { .on = 1 };
  int64_t recording;
  rg_status status;

  part.next = rg_record_draws(&recording);
  RG_TRY(pass(x, r, 0));
  part.end = rg_record_draws(&recording);
  const uint64_t after = rg_generator_offset(g);

  rg_generator_set(g, seed, before);
  rg_record_recomputed(&part);
  status = pass(x, r, 1);
  rg_record_recomputed(&part);
  rg_generator_set(g, seed, after);
  return status;
}

static void clear(run *r)
{
  for (int32_t i = 0; i < 2 * MOST; i++) {
    rg_tensor_release(r->y[i / MOST][i % MOST]);
    r->y[i / MOST][i % MOST] = NULL;
  }
}

static rg_status outputs(const run *r)
{
  for (int32_t i = 0; i < 2 * r->n; i++) {
    RG_TRY(rg_record_output(r->y[i % 2][i / 2], RG_OUTPUT_RETURNED, NULL));
  }
  return RG_OK;
}

/* plan: the one that was captured. */
static rg_status recorded(const rg_tensor *x, run *r, rg_graph **g, rg_plan **plan)
{
  rg_status status;

  RG_TRY(rg_capture_begin());
  status = rg_record_begin(1);
  status = status == RG_OK ? both(x, r) : status;
  status = status == RG_OK ? outputs(r) : status;
  status = status == RG_OK ? rg_record_end(g) : status;
  if (status == RG_OK) {
    return rg_capture_end(plan);
  }
  rg_record_cancel();
  rg_capture_cancel();
  return status;
}

/* -- Replays ------------------------------------------------------------------------------- */

static void check_replays(rg_plan *plan, rg_tensor *const *y, int32_t n, const char *what)
{
  rg_generator *g = rg_generator_default();
  rg_tensor *x = filled(1);
  bool alike = true;
  bool eager = true;

  for (int32_t k = 0; k < 3; k++) {
    rg_seed((uint64_t)k + 20);
    is_status(rg_plan_replay(plan, 1), RG_OK, what);
    is_int(rg_generator_offset(g), n * N, "the stream moves on by the first run alone");
    rg_seed((uint64_t)k + 20);
    for (int32_t i = 0; i < n; i++) {
      rg_tensor *want = NULL;

      alike = alike && same(y[2 * i], y[2 * i + 1]);
      eager = rg_dropout(x, RATE, NULL, &want) == RG_OK && eager && same(want, y[2 * i]);
      rg_tensor_release(want);
    }
  }
  ok(alike, "both runs have the same numbers");
  ok(eager, "which are those of the call, others each time");
  rg_tensor_release(x);
}

static void test_replays(void)
{
  run r = { .n = 20, .rate = RATE };
  rg_tensor *x = filled(1);
  rg_tensor *y[2 * MOST] = { NULL };
  rg_graph *g = NULL;
  rg_plan *plan = NULL;
  int32_t n_right = 0;

  rg_seed(7);
  is_status(recorded(x, &r, &g, &plan), RG_OK, "recorded");
  for (int32_t i = 0; i < r.n; i++) {
    const rg_ir_node *first = rg_ir_node_at(g, i);
    const rg_ir_node *second = rg_ir_node_at(g, r.n + i);

    n_right += first->repeats == -1 && !first->recomputed && second->repeats == i &&
               second->recomputed && second->draw == r.n + i;
  }
  is_int(n_right, r.n, "each draw of the second run repeats its own");
  is_status(rg_graph_check(g), RG_OK, "every invariant holds");
  for (int32_t i = 0; i < 2 * r.n; i++) {
    y[i] = r.y[i % 2][i / 2];
  }
  check_replays(plan, y, r.n, "a replay of what was captured");
  rg_plan_release(plan);
  memset(y, 0, sizeof(y));
  is_status(rg_graph_plan(g, y, &plan), RG_OK, "a plan of the graph");
  check_replays(plan, y, r.n, "a replay of what was emitted");
  rg_plan_release(plan);
  for (int32_t i = 0; i < 2 * r.n; i++) {
    rg_tensor_release(y[i]);
  }
  rg_graph_release(g);
  clear(&r);
  rg_tensor_release(x);
}

/* A part that is computed again within one that is: its second run is the third. */
static void test_nested(void)
{
  rg_generator *g = rg_generator_default();
  rg_recomputed part = { .on = 1 };
  rg_tensor *x = filled(1);
  rg_tensor *y[6] = { NULL };
  rg_graph *graph = NULL;
  rg_plan *plan = NULL;
  int64_t recording;

  rg_seed(7);
  is_status(rg_capture_begin(), RG_OK, "a capture");
  is_status(rg_record_begin(1), RG_OK, "is recorded");
  for (int32_t i = 0; i < 3; i++) { /* the last two draws of a run are the next one's */
    const int32_t before = rg_record_draws(&recording);

    rg_generator_set(g, 7, 0);
    if (i > 0) {
      part = (rg_recomputed){ .on = 1, .next = before - 2, .end = before };
      rg_record_recomputed(&part);
    }
    is_status(rg_dropout(x, RATE, NULL, &y[2 * i]), RG_OK, "a draw");
    is_status(rg_dropout(x, RATE, NULL, &y[2 * i + 1]), RG_OK, "another one");
    if (i > 0) {
      rg_record_recomputed(&part);
      is_int(part.next, before, "both were repeated");
      is_int(part.on, 1, "until then");
    }
  }
  ok(recording > 0, "a recording has a number");
  for (int32_t i = 0; i < 6; i++) {
    is_status(rg_record_output(y[i], RG_OUTPUT_RETURNED, NULL), RG_OK, "an output");
  }
  is_status(rg_record_end(&graph), RG_OK, "the end");
  is_int(rg_record_draws(&recording), 0, "no draws without a recording");
  is_int(recording, 0, "which has no number");
  is_status(rg_capture_end(&plan), RG_OK, "of both");
  for (int32_t i = 2; i < 6; i++) {
    is_int(rg_ir_node_at(graph, i)->repeats, i % 2, "it stands for the first of all");
  }
  is_status(rg_plan_replay(plan, 1), RG_OK, "a replay");
  ok(same(y[0], y[2]) && same(y[0], y[4]) && same(y[1], y[5]) && !same(y[0], y[1]),
     "the same numbers three times");
  rg_graph_release(graph);
  rg_plan_release(plan);
  for (int32_t i = 0; i < 6; i++) {
    rg_tensor_release(y[i]);
  }
  rg_tensor_release(x);
}

/* -- What cannot be ------------------------------------------------------------------------ */

static void test_refused(void)
{
  static const struct {
    int32_t more;
    double rate;
    const char *says;
  } cases[] = {
    { 1, 0.5,
      "recompute: dropout draws random numbers in the second run of a part, and its first "
      "run drew none there" },
    { 0, 0.25,
      "recompute: dropout draws other random numbers in the second run of a part than in "
      "its first" },
  };

  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    run r = { .n = 2, .more = cases[i].more, .rate = cases[i].rate };
    rg_tensor *x = filled(1);
    rg_graph *g = NULL;
    rg_plan *plan = NULL;

    is_status(recorded(x, &r, &g, &plan), RG_ECAPTURE, "the two runs are not alike");
    ok(strcmp(rg_error_message(), cases[i].says) == 0, cases[i].says);
    ok(g == NULL && plan == NULL && !rg_capturing(), "and nothing is left on");
    clear(&r);
    rg_tensor_release(x);
  }
}

/* A part whose second run draws from another place, or as a part that there never was. */
static void test_places(void)
{
  static const char other[] =
      "recompute: dropout draws other random numbers in the second run of a "
      "part than in its first";
  static const char none[] = "recompute: dropout draws random numbers in the second run of a part, "
                             "and its first run drew none there";
  static const char size[] = "recompute: dropout draws 39 random numbers in the second run of a "
                             "part, where dropout drew 40 in its first";
  static const char function[] =
      "recompute: uniform draws 40 random numbers in the second run of a "
      "part, where dropout drew 40 in its first";
  static const struct {
    uint64_t seed;
    uint64_t offset;
    int32_t next;
    int32_t end;
    int32_t how;
    const char *says;
  } cases[] = { { 7, 0, 0, 1, 0, NULL },   { 8, 0, 0, 1, 0, other },   { 7, 40, 0, 1, 0, other },
                { 7, 0, 1, 100, 0, none }, { 7, 0, 0, 0, 0, none },    { 7, 0, 0, 100, 0, NULL },
                { 7, 0, 0, 1, 1, size },   { 7, 0, 0, 1, 2, function } };

  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    rg_recomputed part = { .on = 1, .next = cases[i].next, .end = cases[i].end };
    rg_tensor *x = filled(1);
    rg_tensor *y[2] = { NULL };
    rg_tensor *small = NULL;
    rg_graph *g = NULL;

    is_status(rg_narrow(x, 0, 0, N - 1, 1, &small), RG_OK, "one number fewer");
    rg_seed(7);
    is_status(rg_capture_begin(), RG_OK, "a capture");
    is_status(rg_record_begin(1), RG_OK, "is recorded");
    is_status(rg_dropout(x, RATE, NULL, &y[0]), RG_OK, "a draw");
    rg_generator_set(rg_generator_default(), cases[i].seed, cases[i].offset);
    rg_record_recomputed(&part);
    is_status(cases[i].how == 2   ? rg_uniform_(x, 0, 1, NULL)
              : cases[i].how == 1 ? rg_dropout(small, RATE, NULL, &y[1])
                                  : rg_dropout(x, RATE, NULL, &y[1]),
              RG_OK, "and a second one");
    rg_record_recomputed(&part);
    is_status(rg_record_end(&g), cases[i].says == NULL ? RG_OK : RG_ECAPTURE, "that repeats it");
    if (!ok(cases[i].says == NULL || strcmp(rg_error_message(), cases[i].says) == 0, "or not")) {
      printf("#   got %s\n#  want %s\n", rg_error_message(), cases[i].says);
    }
    rg_capture_cancel();
    rg_graph_release(g);
    rg_tensor_release(small);
    rg_tensor_release(x);
    rg_tensor_release(y[0]);
    rg_tensor_release(y[1]);
  }
}

/* One number is drawn and repeated; none are neither. */
static void test_few(void)
{
  rg_recomputed part = { .on = 1 };
  rg_tensor *x = NULL;
  rg_tensor *y[4] = { NULL };
  rg_graph *g = NULL;
  int64_t recording;

  is_status(rg_empty(RG_F32, RG_CPU, (const int64_t[]){ 1 }, 1, &x), RG_OK, "one number");
  is_status(rg_fill_(x, 1), RG_OK, "that is there");
  rg_seed(7);
  is_status(rg_capture_begin(), RG_OK, "a capture");
  is_status(rg_record_begin(1), RG_OK, "is recorded");
  for (int32_t i = 0; i < 2; i++) {
    rg_generator_set(rg_generator_default(), 7, 0);
    if (i == 1) {
      part.end = rg_record_draws(&recording);
      is_int(part.end, 1, "one draw");
      rg_record_recomputed(&part);
    }
    is_status(rg_dropout(x, 0, NULL, &y[2 * i]), RG_OK, "a call that draws none");
    is_status(rg_dropout(x, RATE, NULL, &y[2 * i + 1]), RG_OK, "and one");
  }
  rg_record_recomputed(&part);
  is_int(part.next, 1, "is repeated");
  is_status(rg_record_end(&g), RG_OK, "the end");
  rg_capture_cancel();
  is_int(rg_ir_node_at(g, 2)->repeats, -1, "none has none to repeat");
  is_int(rg_ir_node_at(g, 3)->repeats, 1, "one that");
  rg_graph_release(g);
  rg_tensor_release(x);
  for (int32_t i = 0; i < 4; i++) {
    rg_tensor_release(y[i]);
  }
}

static void test_memory(void)
{
  rg_tensor *x = filled(1);
  int64_t before = rg_live_tensors();
  int64_t refused = 0;
  bool clean = true;
  rg_status status;

  if (tap_refusing()) {
    rg_tensor_release(x);
    return;
  }
  do {
    run r = { .n = 18, .rate = RATE };
    rg_tensor *y[2 * MOST] = { NULL };
    rg_graph *g = NULL;
    rg_plan *plan = NULL;
    rg_plan *emitted = NULL;

    rg_alloc_fail_at(++refused);
    status = recorded(x, &r, &g, &plan);
    status = status == RG_OK ? rg_graph_plan(g, y, &emitted) : status;
    clean = clean && (status != RG_OK || rg_alloc_injected()); /* it was refused nothing */
    rg_alloc_fail_at(0);
    clean = clean && (status == RG_OK || status == RG_ENOMEM) && !rg_capturing();
    rg_plan_release(plan);
    rg_plan_release(emitted);
    rg_graph_release(g);
    clear(&r);
    for (int32_t i = 0; i < 2 * MOST; i++) {
      rg_tensor_release(y[i]);
    }
  } while (clean && status != RG_OK && refused < 10000);
  ok(clean && refused > 50, "allocation after allocation is refused");
  is_status(status, RG_OK, "until none is");
  is_int(rg_live_tensors(), before, "no tensor is left");
  rg_tensor_release(x);
}

int main(void)
{
  test_replays();
  test_nested();
  test_refused();
  test_places();
  test_few();
  test_memory();
  return done();
}
