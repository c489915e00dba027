/* SPDX-License-Identifier: MIT */
/*
** Plans: what is captured, whose memory it is, what survives, what is refused, and what a failure
** leaves behind.
*/
#include <pthread.h>
#include <stdlib.h>

#include "op/op.h"
#include "ridge/graph.h"
#include "tap.h"

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })
#define SAYS(text) (strstr(rg_error_message(), (text)) != NULL)

static int64_t live(void)
{
  return rg_memory_of(RG_CPU)->live_bytes;
}

static rg_tensor *filled(int64_t n, double value)
{
  rg_tensor *x = NULL;

  if (rg_empty(RG_F32, RG_CPU, &n, 1, &x) != RG_OK || rg_fill_(x, value) != RG_OK) {
    tap_bail(rg_error_message());
  }
  return x;
}

static double first(const rg_tensor *x)
{
  double value = NAN;

  return rg_tensor_get(x, SHAPE(0), 1, &value) == RG_OK ? value : NAN;
}

/* -- Operations of the test's own ------------------------------------------------ */

/* y = x + 1, through scratch; fails when told to; keeps a memo; counts its runs. */
static bool plus_fails;
static int plus_runs;
static int memos;
static void *scratch_seen;

static void memo_release(rg_memo *memo)
{
  memos--;
  free(memo);
}

static rg_status plus_infer(rg_call *call)
{
  call->out[0] = rg_meta_of(call->in[0]);
  call->n_out = 1;
  call->scratch_bytes = rg_meta_bytes(&call->out[0]);
  return RG_OK;
}

static rg_cost plus_cost(const rg_call *call)
{
  return rg_cost_of(call, (double)rg_meta_count(&call->out[0]));
}

static rg_status plus_kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  float *aside = frame->scratch;

  plus_runs++;
  scratch_seen = aside;
  if (plus_fails) {
    return rg_fail(RG_ESYS, "plus: as it was told");
  }
  if (frame->memo != NULL && *frame->memo == NULL) {
    *frame->memo = malloc(sizeof(**frame->memo));
    (*frame->memo)->release = memo_release;
    memos++;
  }
  for (int64_t i = 0; i < out[0]->_count; i++) {
    aside[i] = ((const float *)call->in[0]->_data)[i] + 1;
  }
  memcpy(out[0]->_data, aside, (size_t)rg_tensor_bytes(out[0]));
  frame->path = "aside";
  return RG_OK;
}

static const rg_op op_plus = {
  .name = "plus",
  .id = -1,
  RG_INPUTS(RG_IN("x", INPUT, ANY)),
  .infer = plus_infer,
  .cost = plus_cost,
  .kernel = plus_kernel,
};

static rg_status plus(const rg_tensor *x, rg_tensor **out)
{
  return rg_run1(&op_plus, &x, 1, NULL, out);
}

/* -- Capture --------------------------------------------------------------------- */

static void test_steps(void)
{
  rg_tensor *x = filled(100, 1);
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;
  rg_plan *plan = NULL;
  rg_plan_facts facts = { 0 };

  is_int(rg_capturing(), 0, "nothing is captured");
  is_status(rg_capture_begin(), RG_OK, "begin");
  is_int(rg_capturing(), 1, "this thread captures");
  is_status(plus(x, &y), RG_OK, "a call");
  is_status(rg_add(y, x, &z), RG_OK, "and another");
  is_status(rg_capture_end(&plan), RG_OK, "end");
  is_int(rg_capturing(), 0, "captures no more");
  close_to(first(z), 3, 0, "the calls ran as they were captured");
  is_status(rg_plan_facts_of(plan, &facts), RG_OK, "facts");
  is_int(facts.n_steps, 2, "two steps");
  const char *names[3] = { "", "", "" };

  is_status(rg_plan_step_names(plan, names, 3), RG_OK, "names of steps");
  ok(strcmp(names[0], "plus") == 0, "the first by name");
  ok(strcmp(names[1], "add") == 0, "and the second");
  ok(names[2] == NULL, "there is no third");
  is_status(rg_plan_step_names(NULL, names, 1), RG_EARG, "of no plan");
  ok(SAYS("steps of no plan"), "as it says");
  is_status(rg_plan_step_names(plan, NULL, 1), RG_EARG, "into nothing");
  is_status(rg_plan_step_names(plan, NULL, 0), RG_OK, "none of them into nothing");
  is_status(rg_plan_step_names(plan, names, -1), RG_EARG, "a negative number of them");
  ok(facts.flops >= 100 && facts.bytes >= 800, "what it costs at best");
  is_int(facts.buffer_bytes, 2 * 448, "its buffers: y, and scratch that then becomes z");

  is_status(rg_fill_(x, 10), RG_OK, "another input");
  is_status(rg_plan_replay(plan, 1), RG_OK, "replayed");
  close_to(first(z), 21, 0, "is read at replay");
  is_status(rg_plan_replay(plan, 0), RG_OK, "no times is nothing");
  is_status(rg_plan_replay(plan, -1), RG_EARG, "fewer is refused");
  is_status(rg_plan_replay(NULL, 1), RG_EARG, "so is no plan");
  is_status(rg_plan_facts_of(NULL, &facts), RG_EARG, "which has no facts");
  ok(rg_plan_retain(plan) == plan && rg_plan_retain(NULL) == NULL, "held once more");
  rg_plan_release(plan);
  is_status(rg_plan_replay(plan, 3), RG_OK, "it is still there");
  rg_plan_release(plan);
  rg_plan_release(NULL);
  is_int(memos, 0, "what a step kept went with it");
  rg_tensor_release(x);
  rg_tensor_release(y);
  rg_tensor_release(z);
  is_int(live(), 0, "nothing is left");
}

/* A captured chain of n calls of which only the last result is kept. */
static rg_status chain(rg_tensor *x, int n, rg_tensor **out)
{
  rg_tensor *now = rg_tensor_retain(x);

  for (int i = 0; i < n; i++) {
    rg_tensor *next = NULL;
    rg_status status = plus(now, &next);

    rg_tensor_release(now);
    if (status != RG_OK) {
      return status;
    }
    now = next;
  }
  *out = now;
  return RG_OK;
}

static void test_memory(void)
{
  rg_tensor *x = filled(1000, 0);
  rg_tensor *y = NULL;
  rg_tensor *outside = NULL;
  rg_plan *plan = NULL;
  rg_plan_facts facts = { 0 };
  rg_memory before;
  bool undisturbed;

  is_status(rg_capture_begin(), RG_OK, "begin");
  is_status(chain(x, 50, &y), RG_OK, "fifty calls in a row");
  is_status(rg_capture_end(&plan), RG_OK, "end");
  is_status(rg_plan_facts_of(plan, &facts), RG_OK, "facts");
  is_int(facts.buffer_bytes, 3 * 4096, "what nobody needs any more serves later steps");
  close_to(first(y), 50, 0, "fifty");
  before = *rg_memory_of(RG_CPU);
  is_status(rg_plan_replay(plan, 100), RG_OK, "a hundred times");
  is_int(rg_memory_of(RG_CPU)->n_requests, before.n_requests, "without an allocation");
  close_to(first(y), 50, 0, "fifty again");
  is_int(plus_runs > 0 && scratch_seen != NULL, 1, "with the scratch it was captured with");

  /* memory that looks free must not be anybody else's: fill all that can be had */
  outside = filled(1000, 7);
  is_status(rg_plan_replay(plan, 1), RG_OK, "replayed beside a new tensor");
  undisturbed = true;
  for (int64_t i = 0; i < 1000; i++) {
    undisturbed = undisturbed && ((float *)outside->_data)[i] == 7;
  }
  ok(undisturbed, "which it does not touch");
  rg_plan_release(plan);
  close_to(first(y), 50, 0, "the result survives the plan");
  is_int(live(), 3 * 4000, "and its memory alone");
  rg_tensor_release(y);
  rg_tensor_release(x);
  rg_tensor_release(outside);
  is_int(live(), 0, "nothing is left");
}

static void test_held(void)
{
  rg_tensor *x = filled(1000, 1);
  rg_tensor *y = NULL;
  rg_plan *plan = NULL;
  uint64_t version;

  is_status(rg_capture_begin(), RG_OK, "begin");
  is_status(chain(x, 2, &y), RG_OK, "two calls");
  is_status(rg_capture_end(&plan), RG_OK, "end");
  version = rg_tensor_version(y);
  rg_tensor_release(x);
  is_int(live(), 2 * 4000, "an input is held by the plan");
  is_status(rg_plan_replay(plan, 2), RG_OK, "which still reads it");
  close_to(first(y), 3, 0, "as it was");
  is_int(rg_tensor_version(y) - version, 2, "each replay is a version of the result");
  rg_tensor_release(y);
  is_int(live(), 4000, "a result is not held");
  is_status(rg_plan_replay(plan, 1), RG_OK, "though it is still written");
  rg_plan_release(plan);
  is_int(live(), 0, "the input goes with the plan");
}

/* State made before the capture is written by every replay. */
static void test_in_place(void)
{
  rg_tensor *sum = filled(10, 0);
  rg_tensor *x = filled(10, 2);
  rg_tensor *half = NULL;
  rg_plan *plan = NULL;

  is_status(rg_narrow(sum, 0, 5, 5, 1, &half), RG_OK, "half of it");
  is_status(rg_capture_begin(), RG_OK, "begin");
  is_status(rg_add_(sum, x), RG_OK, "added to all");
  is_status(rg_add_scalar_(half, 1), RG_OK, "and to the half");
  is_status(rg_capture_end(&plan), RG_OK, "end");
  rg_tensor_release(half);
  is_status(rg_plan_replay(plan, 9), RG_OK, "nine times more");
  close_to(((float *)sum->_data)[0], 20, 0, "is ten times the one");
  close_to(((float *)sum->_data)[9], 30, 0, "and the other");
  rg_plan_release(plan);
  rg_tensor_release(sum);
  rg_tensor_release(x);
}

/* A scope may end inside a capture. */
static void test_scope(void)
{
  rg_tensor *x = filled(1000, 0);
  rg_tensor *y = NULL;
  rg_plan *plan = NULL;
  rg_plan_facts facts = { 0 };
  int32_t depth;

  is_status(rg_capture_begin(), RG_OK, "begin");
  depth = rg_scope_enter();
  is_status(chain(x, 50, &y), RG_OK, "fifty calls inside a scope");
  rg_scope_leave(depth);
  is_status(rg_capture_end(&plan), RG_OK, "end");
  is_status(rg_plan_facts_of(plan, &facts), RG_OK, "facts");
  is_int(facts.buffer_bytes, 3 * 4096, "take no more memory than without one");
  is_status(rg_plan_replay(plan, 1), RG_OK, "replayed");
  close_to(first(y), 50, 0, "fifty");
  rg_plan_release(plan);
  rg_tensor_release(x);
  rg_tensor_release(y);
}

/* -- Refused --------------------------------------------------------------------- */

static void test_refused(void)
{
  rg_tensor *x = filled(10, 1);
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;
  rg_plan *plan = NULL;
  rg_plan *other = NULL;
  int64_t size = 11;
  double value = 0;

  is_status(rg_capture_end(&plan), RG_ECAPTURE, "no end without a begin");
  ok(plan == NULL, "makes no plan");
  rg_capture_cancel();
  is_status(rg_capture_begin(), RG_OK, "begin");
  is_status(rg_capture_begin(), RG_ECAPTURE, "but not twice");
  is_status(rg_capture_end(NULL), RG_ECAPTURE, "no end without a place for the plan");
  is_int(rg_capturing(), 1, "the first goes on");
  is_status(rg_tensor_get(x, SHAPE(0), 1, &value), RG_ECAPTURE, "no number leaves a capture");
  is_status(plus(x, &y), RG_OK, "a call");
  is_status(rg_empty(RG_F32, RG_CPU, &size, 1, &z), RG_OK, "a tensor of another size");
  rg_tensor_release(z);
  z = filled(11, 0); /* a call too */
  is_status(rg_run_into(&op_plus, (const rg_tensor *const[]){ x }, 1, NULL, z), RG_ESHAPE,
            "a call that fails its checks");
  plus_fails = true;
  rg_tensor_release(z);
  z = NULL;
  is_status(plus(y, &z), RG_ESYS, "a kernel that fails");
  plus_fails = false;
  ok(z == NULL, "gives nothing");
  is_status(plus(y, &z), RG_OK, "the next one works");
  is_status(rg_capture_end(&plan), RG_OK, "end");
  const char *names[4] = { NULL, NULL, NULL, "" };

  is_status(rg_plan_step_names(plan, names, 4), RG_OK, "names of steps");
  is_int(names[2] != NULL && names[3] == NULL, 1, "what failed is no step");
  is_status(rg_fill_(x, 5), RG_OK, "another input");
  is_status(rg_plan_replay(plan, 1), RG_OK, "and the plan can be used");
  close_to(first(z), 7, 0, "rightly");

  is_status(rg_capture_begin(), RG_OK, "while another is captured");
  is_status(rg_plan_replay(plan, 1), RG_ECAPTURE, "it is not replayed");
  is_status(rg_capture_end(&other), RG_OK, "end");
  is_status(rg_plan_replay(other, 5), RG_OK, "a plan without steps does nothing");
  rg_plan_release(other);
  plus_fails = true;
  is_status(rg_plan_replay(plan, 1), RG_ESYS, "a step that fails says so");
  plus_fails = false;
  rg_plan_release(plan);
  rg_tensor_release(x);
  rg_tensor_release(y);
  rg_tensor_release(z);
  is_int(live(), 0, "nothing is left");
}

static void test_cancel(void)
{
  rg_tensor *x = filled(10, 1);
  rg_tensor *y = NULL;
  double value = 0;

  is_status(rg_capture_begin(), RG_OK, "begin");
  is_status(plus(x, &y), RG_OK, "a call");
  rg_capture_cancel();
  is_int(rg_capturing(), 0, "cancelled");
  is_int(memos, 0, "with all its steps");
  is_status(rg_tensor_get(y, SHAPE(3), 1, &value), RG_OK, "elements are read again");
  close_to(value, 2, 0, "and results are there");
  rg_tensor_release(x);
  rg_tensor_release(y);
  is_int(live(), 0, "nothing is left");
}

static void test_interrupt(void)
{
  rg_tensor *x = filled(10, 1);
  rg_tensor *y = NULL;
  rg_plan *plan = NULL;
  int before;

  is_status(rg_capture_begin(), RG_OK, "begin");
  is_status(plus(x, &y), RG_OK, "a call");
  rg_interrupt_set();
  rg_tensor *z = NULL;
  is_status(plus(y, &z), RG_EINTR, "a request to stop is seen by the next");
  rg_interrupt_clear();
  is_status(rg_capture_end(&plan), RG_OK, "end");
  before = plus_runs;
  rg_interrupt_set();
  is_status(rg_plan_replay(plan, 1000000), RG_EINTR, "and by a replay");
  rg_interrupt_clear();
  is_int(plus_runs, before, "before its first step");
  is_status(rg_plan_replay(plan, 2), RG_OK, "which can go on");
  is_int(plus_runs, before + 2, "afterwards");
  rg_plan_release(plan);
  rg_tensor_release(x);
  rg_tensor_release(y);
}

/* A stream goes on at each replay, and lives as long as the plan. */
static void test_draws(void)
{
  rg_generator *g = NULL;
  rg_tensor *x = filled(100, 0);
  rg_tensor *eager = filled(100, 0);
  rg_plan *plan = NULL;
  float seen[3][100];

  is_status(rg_generator_new(3, &g), RG_OK, "a stream");
  is_status(rg_capture_begin(), RG_OK, "begin");
  is_status(rg_uniform_(x, 0, 1, g), RG_OK, "drawn");
  is_status(rg_capture_end(&plan), RG_OK, "end");
  for (int i = 0; i < 3; i++) {
    if (i > 0) {
      is_status(rg_plan_replay(plan, 1), RG_OK, "drawn again");
    }
    memcpy(seen[i], x->_data, sizeof(seen[i]));
  }
  is_int(rg_generator_offset(g), 300, "three hundred numbers");
  rg_generator_release(g);
  is_status(rg_plan_replay(plan, 1), RG_OK, "the plan holds the stream");
  rg_plan_release(plan);
  is_status(rg_generator_new(3, &g), RG_OK, "the same one, without a plan");
  for (int i = 0; i < 3; i++) {
    is_status(rg_uniform_(eager, 0, 1, g), RG_OK, "drawn");
    ok(memcmp(eager->_data, seen[i], sizeof(seen[i])) == 0, "gives the same numbers");
  }
  rg_generator_release(g);
  rg_tensor_release(x);
  rg_tensor_release(eager);
}

/* -- Allocation failure at every point ------------------------------------------- */

static rg_status capture_all(rg_tensor *x, rg_tensor **out, rg_plan **plan)
{
  rg_tensor *views[3] = { 0 };
  rg_status status;

  RG_TRY(rg_capture_begin());
  status = rg_narrow(x, 0, 0, 50, 2, &views[0]);
  if (status == RG_OK) {
    status = rg_add(views[0], views[0], &views[1]);
  }
  if (status == RG_OK) {
    status = rg_cast(views[1], RG_F64, &views[2]);
  }
  if (status == RG_OK) {
    status = chain(x, 2, out);
  }
  if (status == RG_OK) {
    status = rg_add_(*out, x);
  }
  for (int i = 0; i < 3; i++) {
    rg_tensor_release(views[i]);
  }
  if (status != RG_OK) {
    rg_capture_cancel();
    return status;
  }
  return rg_capture_end(plan);
}

static void test_no_memory(void)
{
  rg_tensor *x = filled(100, 4);
  int64_t tensors = rg_live_tensors();
  int64_t bytes = live();
  rg_status status = RG_ENOMEM;
  bool clean = true;
  int n = 0;

  while (status != RG_OK && n < 200) {
    rg_tensor *y = NULL;
    rg_plan *plan = NULL;

    rg_alloc_fail_at(++n);
    status = capture_all(x, &y, &plan);
    rg_alloc_fail_at(0);
    clean = clean && !rg_capturing() && (status == RG_OK || status == RG_ENOMEM);
    if (status == RG_OK) {
      is_status(rg_plan_replay(plan, 1), RG_OK, "with all it asks for, the plan works");
      close_to(first(y), 10, 0, "rightly");
    }
    rg_plan_release(plan);
    rg_tensor_release(y);
    clean = clean && rg_live_tensors() == tensors && live() == bytes && memos == 0;
  }
  printf("# %d allocations were refused in turn\n", n - 1);
  ok(n > 15, "each allocation was refused once");
  ok(clean, "and left nothing behind");
  rg_tensor_release(x);
}

/* A capture goes on after a call that got no memory, whatever it asked for. */
static void test_goes_on(void)
{
  rg_tensor *x = filled(100, 1);
  rg_tensor *y = NULL;
  rg_plan *plan = NULL;
  rg_plan_facts facts = { 0 };
  rg_status status = RG_ENOMEM;
  int n = 0;

  is_status(rg_capture_begin(), RG_OK, "begin");
  while (status == RG_ENOMEM && n < 20) {
    rg_alloc_fail_at(++n);
    status = plus(x, &y);
    rg_alloc_fail_at(0);
  }
  is_status(rg_capture_end(&plan), RG_OK, "end");
  ok(status == RG_OK && n > 4, "header, storage, block, step and scratch were refused");
  is_status(rg_plan_facts_of(plan, &facts), RG_OK, "facts");
  is_int(facts.n_steps, 1, "only the call that worked is a step");
  rg_plan_release(plan);
  rg_tensor_release(x);
  rg_tensor_release(y);
}

/* -- Two threads ----------------------------------------------------------------- */

enum { RUNS = 2000 };

/* Capture and replay with a shared weight; returns NULL when every result is right. */
static void *own_plan(void *weight)
{
  rg_tensor *x = filled(500, 1);
  rg_tensor *y = NULL;
  rg_plan *plan = NULL;
  void *bad = weight;

  if (rg_capture_begin() == RG_OK) {
    rg_tensor *product = NULL;
    rg_status status = rg_mul(x, weight, &product);

    if (status == RG_OK) {
      status = rg_add(product, x, &y);
    }
    rg_tensor_release(product);
    bad = rg_capture_end(&plan) != RG_OK || status != RG_OK ? weight : NULL;
  }
  for (int i = 0; i < RUNS && bad == NULL; i++) {
    if (rg_fill_(x, i) != RG_OK || rg_plan_replay(plan, 1) != RG_OK || first(y) != 4.0 * i) {
      bad = weight;
    }
  }
  rg_plan_release(plan);
  rg_tensor_release(x);
  rg_tensor_release(y);
  return bad;
}

static void test_threads(void)
{
  rg_tensor *weight = filled(500, 3);
  pthread_t threads[2];

  for (int i = 0; i < 2; i++) {
    pthread_create(&threads[i], NULL, own_plan, weight);
  }
  for (int i = 0; i < 2; i++) {
    void *bad;

    pthread_join(threads[i], &bad);
    ok(bad == NULL, "a plan beside another that reads the same weight");
  }
  rg_tensor_release(weight);
  is_int(live(), 0, "nothing is left");
}

int main(void)
{
  test_steps();
  test_memory();
  test_held();
  test_in_place();
  test_scope();
  test_refused();
  test_cancel();
  test_interrupt();
  test_draws();
  test_no_memory();
  test_goes_on();
  test_threads();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  is_int(live(), 0, "no memory is left");
  return done();
}
