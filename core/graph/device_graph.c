/* SPDX-License-Identifier: MIT */
/*
** Device graphs: all steps of a plan as one launch of its device (a CUDA graph), so that
** what the host spends on a replay does not depend on how many steps there are.
**
** While a CUDA graph is captured nothing can be started, allocated or timed, so steps are captured
** only when all of them have run before on the same stream: then whatever kernels keep for it is
** there, and the choice among them is made.  The capture itself was such a run, unless it was on
** another stream, or dry; then the next replay goes step by step and the one after it is captured.
** On another stream a device graph goes on running on its own (replay.c).
**
** Random numbers are others at each replay: a step that draws reads where they begin from memory of
** the device (draw_at), which is written before each run.  Where a kernel cannot be captured the
** steps go on running one by one, and the plan says why.
*/
#include <stdio.h>
#include <string.h>

#include "graph/plan.h"

/* -- How steps ran ----------------------------------------------------------------------- */

static bool is_warm(const rg_plan *plan)
{
  return plan->warm == rg_stream_now(plan->device);
}

void rg_plan_warmed(rg_plan *plan)
{
  if (!is_warm(plan)) {
    plan->warm = rg_stream_now(plan->device);
    plan->device_graph.refused = false; /* it may be had as they ran now */
  }
}

void rg_plan_warms(rg_plan *plan)
{
  if (plan->n_steps == 1) {
    rg_plan_warmed(plan);
  } else if (!is_warm(plan)) {
    plan->warm = -1;
  }
}

void rg_plan_cools(rg_plan *plan)
{
  plan->warm = -1;
  plan->prepared = false;
}

/* -- Random numbers ------------------------------------------------------------------- */

/* A place on the device for each step that draws. */
static rg_status place_draws(rg_plan *plan)
{
  rg_device_graph *graph = &plan->device_graph;
  int64_t n = 0;

  for (const step *s = plan->first; s != NULL; s = s->next) {
    n += s->call.op->draws;
  }
  if (n == 0) {
    return RG_OK;
  }
  graph->next = rg_host_alloc((size_t)n * sizeof(*graph->next));
  if (graph->next == NULL) {
    return rg_fail(RG_ENOMEM, "plan: no memory for the random numbers of %lld steps", (long long)n);
  }
  RG_TRY(rg_block_alloc_shared(plan->device, n * (int64_t)sizeof(*graph->next), &graph->draws));
  n = 0;
  for (step *s = plan->first; s != NULL; s = s->next) {
    if (s->call.op->draws) {
      s->call.draw_at = (const rg_draw *)graph->draws.data + n++;
    }
  }
  return RG_OK;
}

/* Back to steps that bring their numbers themselves. */
static void take_draws_back(rg_plan *plan)
{
  rg_device_graph *graph = &plan->device_graph;

  for (step *s = plan->first; s != NULL; s = s->next) {
    s->call.draw_at = NULL;
  }
  rg_block_free(&graph->draws);
  rg_host_free(graph->next);
  graph->next = NULL;
}

static rg_status draw(rg_plan *plan)
{
  rg_device_graph *graph = &plan->device_graph;
  int64_t n = 0;

  for (step *s = plan->first; s != NULL; s = s->next) {
    if (s->call.op->draws) {
      rg_step_draw(s);
      graph->next[n++] = s->call.draw;
    }
  }
  /* it is not pinned: when this returns it has been read */
  return rg_device_copy(plan->device, graph->draws.data, RG_CPU, graph->next,
                        n * (int64_t)sizeof(*graph->next), true);
}

/* -- Capturing ---------------------------------------------------------------------- */

static rg_status run_kernels(rg_plan *plan)
{
  for (step *s = plan->first; s != NULL; s = s->next) {
    (void)rg_modes_enter(&s->modes); /* the replay takes them back */
    RG_TRY(s->kernel(&s->call, s->out, &s->frame));
  }
  return RG_OK;
}

static rg_status take(rg_plan *plan)
{
  const rg_driver *driver = rg_driver_of(plan->device);
  rg_status ran;
  rg_status ended;

  RG_TRY(place_draws(plan));
  RG_TRY(driver->graph_begin(plan->device));
  ran = run_kernels(plan);
  (void)snprintf(plan->device_graph.why, sizeof(plan->device_graph.why), "%s", rg_error_message());
  ended = driver->graph_end(plan->device, &plan->device_graph.handle);
  if (ran != RG_OK && plan->device_graph.handle != NULL) {
    driver->graph_free(plan->device, plan->device_graph.handle);
    plan->device_graph.handle = NULL;
  }
  if (ran != RG_OK) {
    return rg_fail(ran, "%s", plan->device_graph.why);
  }
  return ended;
}

static void refuse(rg_plan *plan)
{
  plan->device_graph.refused = true;
  (void)snprintf(plan->device_graph.why, sizeof(plan->device_graph.why), "%s", rg_error_message());
  take_draws_back(plan);
}

bool rg_device_graph_ready(rg_plan *plan)
{
  rg_device_graph *graph = &plan->device_graph;

  if (graph->handle == NULL && !graph->refused && is_warm(plan)) {
    const int32_t stream = rg_stream_hold(plan->device);

    graph->stream = plan->warm;
    if (take(plan) != RG_OK) {
      refuse(plan);
    }
    rg_stream_let_go(plan->device, stream);
  }
  return graph->handle != NULL;
}

/* -- Running -------------------------------------------------------------------------- */

rg_status rg_device_graph_run(rg_plan *plan)
{
  if (plan->device_graph.next != NULL) {
    RG_TRY(draw(plan));
  }
  RG_TRY(rg_driver_of(plan->device)->graph_run(plan->device, plan->device_graph.handle));
  for (const step *s = plan->first; s != NULL; s = s->next) {
    rg_step_wrote(s);
  }
  return RG_OK;
}

void rg_device_graph_release(rg_plan *plan)
{
  if (plan->device_graph.handle != NULL) {
    rg_driver_of(plan->device)->graph_free(plan->device, plan->device_graph.handle);
  }
  rg_block_free(&plan->device_graph.draws);
  rg_host_free(plan->device_graph.next);
}
