/* SPDX-License-Identifier: MIT */
/*
** Steps of plans: what each is told at every replay (random numbers, modes, what was written), what
** a call that failed leaves of the plan, and what ends a replay.
*/
#include <stdlib.h>

#include "graph/plan.h"
#include "op/op.h"
#include "ridge/device.h"
#include "ridge/graph.h"
#include "ridge/ring.h"
#include "tap.h"

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })
#define SAYS(text) (strstr(rg_error_message(), (text)) != NULL)

enum { N = 4 };

static void must(rg_status status)
{
  if (status != RG_OK) {
    tap_bail(rg_error_message());
  }
}

static rg_tensor *filled(double value)
{
  rg_tensor *x = NULL;

  must(rg_empty(RG_F32, RG_CPU, SHAPE(N), 1, &x));
  must(rg_fill_(x, value));
  return x;
}

static double first(const rg_tensor *x)
{
  return ((const float *)x->_data)[0];
}

/* -- Operations of the test's own ------------------------------------------------------------ */

static bool fails;
static int32_t runs;
static int32_t fails_at; /* run, from 1; 0: none */
static void (*inside)(void);
static int32_t tf32[8]; /* what each run was under */
static int32_t memos;
static int64_t parent; /* event that the last run was in; -1: none */

static void memo_release(rg_memo *memo)
{
  memos--;
  free(memo);
}

static rg_status infer(rg_call *call)
{
  call->out[0] = rg_meta_of(call->in[0]);
  call->n_out = 1;
  call->n_draws = call->op->draws ? N : 0;
  return RG_OK;
}

static rg_cost cost(const rg_call *call)
{
  (void)call;
  return (rg_cost){ 3, 5 };
}

static rg_status kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  parent = rg_place_now.parent;
  tf32[runs % 8] = rg_modes_now()->device.tf32;
  runs++;
  if (frame->memo != NULL && *frame->memo == NULL) {
    *frame->memo = malloc(sizeof(**frame->memo));
    (*frame->memo)->release = memo_release;
    memos++;
  }
  if (inside != NULL) {
    inside();
  }
  for (int64_t i = 0; i < N; i++) {
    ((float *)out[0]->_data)[i] = (float)call->draw.offset;
  }
  return fails || runs == fails_at ? rg_fail(RG_ESYS, "as it was told") : RG_OK;
}

static const rg_op op_draw = {
  .name = "draw",
  .id = -1,
  RG_INPUTS(RG_IN("x", INPUT, ANY)),
  .draws = true,
  .infer = infer,
  .cost = cost,
  .kernel = kernel,
};

/* It writes to a and b. */
static const rg_op op_write = {
  .name = "write",
  .id = -1,
  RG_INPUTS(RG_IN("x", INPUT, ANY), RG_OPTIONAL("a", STATE, ANY), RG_OPTIONAL("y", INPUT, ANY),
            RG_OPTIONAL("b", STATE, ANY)),
  .writes = true,
  .infer = infer,
  .cost = cost,
  .kernel = kernel,
};

static rg_status draw(const rg_tensor *x, rg_tensor **out)
{
  return rg_run1(&op_draw, &x, 1, NULL, out);
}

static rg_status write(const rg_tensor *x, const rg_tensor *a, const rg_tensor *y,
                       const rg_tensor *b, rg_tensor **out)
{
  return rg_run1(&op_write, (const rg_tensor *const[]){ x, a, y, b }, 4, NULL, out);
}

/* -- A call that failed ---------------------------------------------------------------------- */

/* It is no step, and the plan is as it was: what drew before goes on drawing. */
static void test_dropped(void)
{
  rg_tensor *x = filled(1);
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;
  rg_plan *plan = NULL;
  rg_plan_facts facts;

  rg_seed(3);
  must(rg_capture_begin());
  must(draw(x, &y));
  ok(rg_capture_drew() != NULL && rg_capture_drew() == rg_capture_last(), "a step that draws");
  const step *drew = rg_capture_drew();

  must(write(x, NULL, NULL, NULL, &z));
  rg_tensor_release(z);
  ok(rg_capture_drew() == drew && rg_capture_last() != drew, "and one that does not");
  fails = true;
  is_status(draw(x, &z), RG_ESYS, "another one that draws fails");
  fails = false;
  ok(rg_capture_drew() == drew, "the first is the last that draws");
  must(rg_capture_end(&plan));
  must(rg_plan_facts_of(plan, &facts));
  is_int(facts.n_steps, 2, "the two are the plan");
  ok(facts.flops == 6 && facts.bytes == 10, "and all that it costs");
  for (int32_t i = 1; i < 4; i++) {
    const uint64_t before = rg_generator_offset(rg_generator_default());

    must(rg_plan_replay(plan, 1));
    is_int(rg_generator_offset(rg_generator_default()) - before, N, "each replay draws");
    close_to(first(y), (double)before, 0, "from where the stream is");
  }
  rg_plan_release(plan);
  rg_tensor_release(x);
  rg_tensor_release(y);
}

/* Which step found no memory. */
static void test_no_memory(void)
{
  rg_tensor *x = filled(1);
  rg_tensor *kept[3] = { NULL };
  char want[64];

  for (int32_t before = 0; before < 3 && !tap_refusing(); before++) {
    rg_tensor *y = NULL;
    bool said = false;

    must(rg_capture_begin());
    for (int32_t i = 0; i < before; i++) {
      must(write(x, NULL, NULL, NULL, &kept[i]));
    }
    (void)snprintf(want, sizeof(want), "capture: no memory for step %d", before + 1);
    for (int64_t n = 1; n < 6 && y == NULL; n++) {
      rg_alloc_fail_at(n);
      said = (write(x, NULL, NULL, NULL, &y) != RG_OK && SAYS(want)) || said;
      rg_alloc_fail_at(0);
    }
    ok(said, want);
    rg_capture_cancel();
    rg_tensor_release(y);
    for (int32_t i = 0; i < before; i++) {
      rg_tensor_release(kept[i]);
    }
  }
  rg_tensor_release(x);
}

/* However many there are before it, and behind it. */
static void test_dropped_places(void)
{
  rg_tensor *x = filled(1);
  bool right = true;

  for (int32_t before = 0; before < 4; before++) {
    rg_plan *plan = NULL;
    rg_plan_facts facts;

    must(rg_capture_begin());
    for (int32_t i = 0; i < before + 3; i++) {
      rg_tensor *y = NULL;

      fails = i == before || i == before + 1;
      right = right && (draw(x, &y) == RG_OK) == !fails;
      fails = false;
      rg_tensor_release(y);
    }
    must(rg_capture_end(&plan));
    must(rg_plan_facts_of(plan, &facts));
    right = right && facts.n_steps == before + 1;
    runs = 0;
    right = right && rg_plan_replay(plan, 1) == RG_OK && runs == before + 1;
    rg_plan_release(plan);
  }
  ok(right, "what failed is no step, and what follows is one");
  is_int(memos, 0, "nor does it keep anything");
  rg_tensor_release(x);
}

/* A plan whose only step failed is one without steps, however often it runs. */
static void test_none_left(void)
{
  rg_tensor *x = filled(1);
  rg_tensor *y = NULL;
  rg_plan *plan = NULL;

  must(rg_capture_begin());
  fails = true;
  is_status(draw(x, &y), RG_ESYS, "the only call fails");
  fails = false;
  ok(rg_capture_drew() == NULL && rg_capture_last() == NULL, "nothing drew, and there is no step");
  must(rg_capture_end(&plan));
  is_status(rg_plan_replay(plan, 3), RG_OK, "nothing runs");
  rg_interrupt_set();
  is_status(rg_plan_replay(plan, INT64_MAX), RG_EINTR, "which somebody may stop");
  is_status(rg_plan_replay(plan, 0), RG_OK, "unless it does not run at all");
  rg_interrupt_clear();
  rg_plan_release(plan);
  rg_tensor_release(x);
}

/* -- What was written ------------------------------------------------------------------------ */

static void test_written(void)
{
  rg_tensor *x = filled(1);

  for (int32_t which = 0; which < 4; which++) {
    rg_tensor *a = which & 1 ? filled(1) : NULL;
    rg_tensor *b = which & 2 ? filled(1) : NULL;
    rg_tensor *y = which == 3 ? filled(1) : NULL;
    rg_tensor *out = NULL;
    rg_plan *plan = NULL;

    must(rg_capture_begin());
    must(write(x, a, y, b, &out));
    must(rg_capture_end(&plan));
    const uint64_t before[] = { rg_tensor_version(x), a != NULL ? rg_tensor_version(a) : 0,
                                b != NULL ? rg_tensor_version(b) : 0, rg_tensor_version(out),
                                y != NULL ? rg_tensor_version(y) : 0 };

    must(rg_plan_replay(plan, 3));
    is_int(rg_tensor_version(x) - before[0], 0, "what is read is no other version");
    is_int(y != NULL ? rg_tensor_version(y) - before[4] : 0, 0, "wherever it stands");
    is_int(a != NULL ? rg_tensor_version(a) - before[1] : 3, 3, "what is written to is");
    is_int(b != NULL ? rg_tensor_version(b) - before[2] : 3, 3, "each of them");
    is_int(rg_tensor_version(out) - before[3], 3, "and what is made");
    rg_plan_release(plan);
    rg_tensor_release(a);
    rg_tensor_release(b);
    rg_tensor_release(y);
    rg_tensor_release(out);
  }
  rg_tensor_release(x);
}

/* -- What ends a replay ---------------------------------------------------------------------- */

/* Three steps; mixed: of which the second has other modes. */
static rg_plan *three(rg_tensor *x, bool mixed)
{
  rg_plan *plan = NULL;

  must(rg_capture_begin());
  for (int32_t i = 0; i < 3; i++) {
    rg_tensor *y = NULL;

    rg_device_modes_now()->tf32 = mixed && i == 1;
    must(write(x, NULL, NULL, NULL, &y));
    rg_tensor_release(y);
  }
  rg_device_modes_now()->tf32 = 0;
  must(rg_capture_end(&plan));
  return plan;
}

static void ask_to_stop(void)
{
  rg_interrupt_set();
}

static void test_ends(void)
{
  rg_tensor *x = filled(1);

  for (int32_t how = 0; how < 3; how++) { /* plain; under several modes; heard */
    rg_plan *plan = three(x, how == 1);
    int32_t reader = 0;

    if (how == 2) {
      must(rg_reader_open(1 << RG_EVENT_STEP | 1 << RG_EVENT_PLAN, 0, 100, &reader));
    }
    runs = 0;
    must(rg_plan_replay(plan, 2));
    is_int(runs, 6, "all steps run");
    ok((parent >= 0) == (how == 2) && rg_place_now.parent == -1,
       "within an event where that is heard");
    ok(tf32[0] == 0 && tf32[1] == (how == 1) && tf32[2] == 0 && tf32[3] == 0,
       "each under its own modes");
    for (int32_t at = 1; at <= 3; at++) {
      runs = 0;
      fails_at = at;
      is_status(rg_plan_replay(plan, 2), RG_ESYS, "a step fails");
      is_int(runs, at, "and nothing runs behind it");
    }
    fails_at = 0;
    runs = 0;
    inside = ask_to_stop;
    is_status(rg_plan_replay(plan, 2), RG_EINTR, "somebody asks to stop");
    ok(SAYS("interrupted"), "which is why");
    is_int(runs, 1, "the step that runs is the last");
    inside = NULL;
    rg_interrupt_clear();
    rg_device_modes_now()->tf32 = 1;
    runs = 0;
    must(rg_plan_replay(plan, 1));
    is_int(runs, 3, "the next one runs all");
    is_int(tf32[0], 0, "under the plan's modes");
    is_int(rg_modes_now()->device.tf32, 1, "not the thread's, which it has again");
    rg_device_modes_now()->tf32 = 0;
    if (how == 2) {
      rg_reader_close(reader);
    }
    rg_plan_release(plan);
  }
  is_int(memos, 0, "nothing is kept");
  rg_tensor_release(x);
}

static rg_plan *running;
static rg_status again;

static void run_again(void)
{
  again = rg_plan_replay(running, 1);
}

/* A plan does not run while it runs, also not within itself. */
static void test_running(void)
{
  rg_tensor *x = filled(1);

  running = three(x, false);
  inside = run_again;
  must(rg_plan_replay(running, 1));
  inside = NULL;
  is_status(again, RG_EARG, "a replay inside a replay of the same plan");
  fails = true;
  is_status(rg_plan_replay(running, 1), RG_ESYS, "one that fails");
  fails = false;
  must(rg_plan_replay(running, 1));
  rg_plan_release(running);
  rg_tensor_release(x);
}

/* -- Facts ----------------------------------------------------------------------------------- */

static void test_facts(void)
{
  rg_tensor *x = filled(1);
  rg_plan *plan = NULL;
  rg_plan_facts facts;

  must(rg_capture_begin());
  must(rg_capture_end(&plan));
  const int32_t number = plan->number;

  is_int(plan->warm, -1, "that ran nowhere");

  rg_device_modes_now()->tf32 = 1;
  must(rg_plan_facts_of(plan, &facts));
  ok(facts.n_steps == 0 && facts.buffer_bytes == 0 && facts.flops == 0 && facts.bytes == 0 &&
         facts.device == -1 && facts.device_graph == 0 && facts.stream == -1 && facts.mixed == 0 &&
         facts.why[0] == '\0' && facts.modes.tf32 == 1,
     "a plan of no steps has the modes that are set");
  is_status(rg_plan_facts_of(plan, NULL), RG_EARG, "facts are put somewhere");
  rg_device_modes_now()->tf32 = 0;
  rg_plan_release(plan);
  for (int32_t mixed = 0; mixed < 2; mixed++) {
    plan = three(x, mixed == 1);
    rg_device_modes_now()->tf32 = 1;
    must(rg_plan_facts_of(plan, &facts));
    rg_device_modes_now()->tf32 = 0;
    is_int(plan->number, number + 1 + mixed, "plans are numbered");
    ok(plan->first->frame.path[0] == '\0', "a kernel that does not say what it is has no name");
    must(rg_plan_replay(plan, 1));
    ok(plan->prepared && plan->workspace == NULL, "the capture was the first run of each step");
    ok(facts.n_steps == 3 && facts.flops == 9 && facts.bytes == 15 && facts.device == RG_CPU &&
           facts.device_graph == 0 && facts.stream == -1 && facts.why[0] == '\0' &&
           facts.modes.tf32 == 0 && facts.buffer_bytes > 0,
       "of one that has some, its own");
    is_int(facts.mixed, mixed, "and whether they are the same everywhere");
    rg_plan_release(plan);
  }
  rg_tensor_release(x);
}

int main(void)
{
  test_dropped();
  test_dropped_places();
  test_no_memory();
  test_none_left();
  test_written();
  test_ends();
  test_running();
  test_facts();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  return done();
}
