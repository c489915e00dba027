/* SPDX-License-Identifier: MIT */
/*
** Replay: the steps of a plan in order, with nothing between them but what a kernel cannot know:
** the next random numbers, and that something was written.  A recomputed step has the numbers that
** its first run had in this replay.  A derived step runs only where something wrote to what it
** reads since it ran last.  A device that can note what it is asked for runs all of it as
** a CUDA graph (device_graph.c).
*/
#include "graph/plan.h"

void rg_step_draw(step *s)
{
  if (s->repeats != NULL) {
    s->call.draw = s->repeats->call.draw;
    return;
  }
  s->call.draw.seed = rg_generator_seed(s->generator);
  s->call.draw.offset = rg_generator_take(s->generator, (uint64_t)s->call.n_draws);
}

void rg_step_wrote(const step *s)
{
  for (int32_t i = 0; i < s->call.n_out; i++) {
    if (s->out[i] != NULL) {
      rg_storage_wrote(s->out[i]->_storage);
    }
  }
  if (s->call.op->writes) {
    for (int32_t i = 0; i < s->call.n_in; i++) {
      if (s->call.in[i] != NULL && rg_call_writes(&s->call, i)) {
        rg_storage_wrote(s->call.in[i]->_storage);
      }
    }
  }
}

/* Has nothing written to what a derived step reads since it ran? */
static bool is_derived(const step *s)
{
  for (int32_t i = 0; i < s->call.n_in && s->derived_is_there; i++) {
    const rg_tensor *x = s->call.in[i];

    if (x != NULL && rg_storage_version(x->_storage) != s->derived_of[i]) {
      return false;
    }
  }
  return s->derived_is_there;
}

/* Versions are read before the kernel reads the contents: who writes meanwhile is seen later. */
static rg_status derive(step *s)
{
  s->derived_is_there = false;
  for (int32_t i = 0; i < s->call.n_in; i++) {
    const rg_tensor *x = s->call.in[i];

    if (x != NULL) {
      s->derived_of[i] = rg_storage_version(x->_storage);
    }
  }
  RG_TRY(s->kernel(&s->call, s->out, &s->frame));
  rg_step_wrote(s);
  s->derived_is_there = true;
  return RG_OK;
}

static rg_status run_step(step *s)
{
  if (s->derived_of != NULL) {
    return derive(s);
  }
  if (s->call.op->draws) {
    rg_step_draw(s);
  }
  RG_TRY(s->kernel(&s->call, s->out, &s->frame));
  rg_step_wrote(s);
  return RG_OK;
}

/* The same as an event, for readers of steps.  Where the plan is one graph the step's numbers lie
** on the device for it, and not for a step that runs by itself. */
static rg_status observe_step(step *s, int32_t index)
{
  const rg_draw *draw_at = s->call.draw_at;
  const char *module = rg_place_now.module;
  int64_t begun;
  rg_status status;

  s->call.draw_at = NULL;
  rg_place_now.module = s->module;
  begun = rg_observe_begin(&s->call, RG_EVENT_STEP);
  status = run_step(s);
  if (status == RG_OK && begun >= 0) {
    rg_observe_step_end(begun, &s->call, s->out, s->frame.path, index, &s->observed);
  }
  rg_place_now.module = module;
  s->call.draw_at = draw_at;
  return status;
}

/* Copies into and out of pinned memory are done, and other streams are waited for. */
static rg_status order_tensor(const rg_tensor *x, bool writes)
{
  if (x == NULL) {
    return RG_OK;
  }
  RG_TRY(rg_tensor_arrived(x));
  return rg_tensor_stream_order(x, writes);
}

static rg_status order_streams(const rg_plan *plan)
{
  bool shared = plan->device > RG_CPU && (rg_streams_used(plan->device) & ~1u) != 0;

  if (!shared && !plan->pinned && !plan->several) {
    return RG_OK;
  }
  for (const step *s = plan->first; s != NULL; s = s->next) {
    for (int32_t i = 0; i < s->call.n_in; i++) {
      RG_TRY(order_tensor(s->call.in[i], rg_call_writes(&s->call, i)));
    }
    for (int32_t i = 0; i < s->call.n_out; i++) {
      RG_TRY(order_tensor(s->out[i], true));
    }
    rg_arena_ran(plan->arena, rg_stream_now(s->call.device));
  }
  return RG_OK;
}

static bool steps_are_heard(void)
{
  return (rg_ring_on & (1u << RG_EVENT_STEP)) != 0;
}

/* A step of a plan of several devices. */
static rg_status run_apart(step *s, bool heard, int32_t index)
{
  const int32_t stream = rg_stream_hold(s->call.device);
  rg_status status = heard ? observe_step(s, index) : run_step(s);

  rg_stream_let_go(s->call.device, stream);
  return status;
}

/* A step runs for the first time: what it works in lies where nothing lives then, if it fits. */
static void borrow(const rg_plan *plan, const step *s)
{
  rg_arena_borrow(plan->workspace, plan->arena, plan->device == RG_CPU ? s->at : -1);
}

/* Others make their results there when it has run. */
static rg_status gave_back(const rg_plan *plan, const step *s)
{
  return rg_arena_borrowed(plan->workspace) == 0
             ? RG_OK
             : rg_fail(RG_EBUG, "plan: %s keeps the memory that it works in", s->call.op->name);
}

/* Inline: a replay of one small step takes tens of nanoseconds. */
static inline __attribute__((always_inline)) rg_status run_each(rg_plan *plan, bool heard,
                                                                bool first)
{
  int32_t index = 0;

  for (step *s = plan->first; s != NULL; s = s->next) {
    if (rg_interrupt_pending()) {
      return rg_fail(RG_EINTR, "interrupted");
    }
    if (s->derived_of != NULL && is_derived(s)) {
      index++;
      continue;
    }
    if (plan->mixed) {
      (void)rg_modes_enter(&s->modes);
    }
    if (first) {
      borrow(plan, s);
    }
    RG_TRY(plan->several ? run_apart(s, heard, index)
           : heard       ? observe_step(s, index)
                         : run_step(s));
    if (first) {
      RG_TRY(gave_back(plan, s));
    }
    index++;
  }
  return RG_OK;
}

/* The same where no step draws, is derived or has modes of its own, and nobody hears them. */
static inline __attribute__((always_inline)) rg_status run_plain(rg_plan *plan)
{
  for (step *s = plan->first; s != NULL; s = s->next) {
    if (rg_interrupt_pending()) {
      return rg_fail(RG_EINTR, "interrupted");
    }
    RG_TRY(s->kernel(&s->call, s->out, &s->frame));
    rg_step_wrote(s);
  }
  return RG_OK;
}

/* A kernel takes its workspace when its step first runs, gives it back and writes to it at every
** run, as within a capture nobody else gets it.  Where the first run is a replay it comes from an
** arena of its own: blocks of the plan's that are free by now are results of other steps.  What a
** run that failed left with its steps may be half made, and is made again. */
static rg_status run_first(rg_plan *plan)
{
  if (plan->workspace == NULL) {
    RG_TRY(rg_arena_new(&plan->workspace));
    rg_arena_lends(plan->workspace);
  }
  rg_arena *before = rg_arena_swap(plan->workspace);
  rg_status status = run_each(plan, steps_are_heard(), true);

  (void)rg_arena_swap(before);
  plan->prepared = status == RG_OK;
  for (step *s = plan->first; s != NULL; s = s->next) {
    plan->derives = plan->derives || s->derived_of != NULL;
    if (!plan->prepared) {
      rg_step_forget(s);
    }
  }
  rg_arena_borrow(plan->workspace, plan->arena, -1);
  return status;
}

static rg_status run_steps(rg_plan *plan)
{
  RG_TRY(plan->prepared ? run_each(plan, steps_are_heard(), false) : run_first(plan));
  rg_plan_warmed(plan);
  return RG_OK;
}

/* Does it run as a CUDA graph now?  Not while somebody hears its steps. */
static bool is_graph(rg_plan *plan)
{
  return plan->device > RG_CPU && !steps_are_heard() && rg_device_graph_ready(plan);
}

/* Once, where it may be on a device. */
static rg_status run_held(rg_plan *plan)
{
  const int32_t device = (int32_t)rg_max_i64(plan->device, RG_CPU); /* of several each step holds */
  const int32_t stream = rg_stream_hold(device);
  rg_status status = is_graph(plan) ? rg_device_graph_run(plan) : run_steps(plan);

  rg_stream_let_go(device, stream);
  return status;
}

/* n times, as a CUDA graph from the run on that allows it.  On the CPU nothing stands between one
** prepared run and the next, and each step asks for an interrupt. */
static rg_status run_all(rg_plan *plan, int64_t n)
{
  bool heard = steps_are_heard();

  for (int64_t i = 0; i < n; i++) {
    if (plan->device == RG_CPU && plan->prepared && plan->first != NULL) {
      bool plain = !heard && !plan->mixed && plan->drew == NULL && !plan->derives;

      RG_TRY(plain ? run_plain(plan) : run_each(plan, heard, false));
      continue;
    }
    if (rg_interrupt_pending()) {
      return rg_fail(RG_EINTR, "interrupted");
    }
    RG_TRY(run_held(plan));
  }
  return RG_OK;
}

/* All of them, as one event. */
static rg_status replay(rg_plan *plan, int64_t n)
{
  rg_place before = rg_place_now;
  int64_t begun = -1;
  rg_status status;

  if (rg_ring_on != 0 && plan->device >= RG_CPU) {
    begun = rg_ring_begin(RG_EVENT_PLAN, plan->device, "plan");
  }
  if (begun >= 0) {
    rg_place_now.parent = begun;
  }
  status = run_all(plan, n);
  rg_place_now = before;
  rg_noted *event = begun >= 0 ? rg_ring_end(begun) : NULL;

  if (event != NULL) {
    event->step = plan->number;
    event->flops = plan->flops * (double)n;
    event->bytes = plan->bytes * (double)n;
  }
  return status;
}

/* Who asks for the same bits each time does not get a plan that promised nothing. */
static rg_status refuse_varying(const rg_plan *plan)
{
  const char *module = plan->varies->module;
  int64_t at = 1;

  for (const step *s = plan->first; s != plan->varies; s = s->next) {
    at++;
  }
  return rg_fail(
      RG_ECAPTURE,
      "plan: deterministic is on, and step %lld of %lld (%s%s%s on %s) was captured with "
      "it off and may give other bits each time; capture the plan again, or turn it off "
      "to run the plan as it is",
      (long long)at, (long long)plan->n_steps, plan->varies->call.op->name,
      module != NULL ? ", " : "", module != NULL ? module : "",
      rg_device_name(plan->varies->call.device));
}

static rg_status replay_behind(rg_plan *plan, int64_t n)
{
  RG_TRY(order_streams(plan));
  return replay(plan, n);
}

/* As a CUDA graph or step by step, under the modes of the first step, which are mostly those of
** all. */
static rg_status replay_here(rg_plan *plan, int64_t n)
{
  int32_t before;

  if (n == 0) {
    return RG_OK;
  }
  if (!is_graph(plan) && plan->device_graph.handle == NULL) {
    return replay_behind(plan, n);
  }
  if (steps_are_heard()) {
    rg_ring_graph(n);
  }
  /* its stream is not always ours */
  RG_TRY(rg_stream_enter(plan->device, plan->device_graph.stream, &before));
  rg_status status = replay_behind(plan, n);
  rg_status back = rg_stream_enter(plan->device, before, NULL);

  return status != RG_OK ? status : back;
}

rg_status rg_plan_replay(rg_plan *plan, int64_t n)
{
  const rg_modes *before;
  rg_status status;

  if (plan == NULL || n < 0) {
    return rg_fail(RG_EARG, "plan: %lld runs of %s", (long long)n,
                   plan == NULL ? "no plan" : "a plan");
  }
  if (rg_capturing()) {
    return rg_fail(RG_ECAPTURE, "plan: a replay inside a capture would not become part of it");
  }
  if (plan->varies != NULL && n > 0 && rg_modes_now()->device.deterministic != 0) {
    return refuse_varying(plan);
  }
  if (atomic_exchange_explicit(&plan->running, true, memory_order_acquire)) {
    return rg_fail(RG_EARG, "plan: another thread runs it, and both would write into its buffers; "
                            "a clone of it runs beside it");
  }
  before = rg_modes_enter(plan->first != NULL ? &plan->first->modes : NULL);
  status = replay_here(plan, n);
  (void)rg_modes_enter(before);
  atomic_store_explicit(&plan->running, false, memory_order_release);
  return status;
}
