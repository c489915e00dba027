/* SPDX-License-Identifier: MIT */
/*
** Notes: all steps of a plan as one thing that its device does at one word (a CUDA graph), so that
** what the host spends on a replay does not depend on how many steps there are.
**
** The plan was run once when it was captured, so whatever kernels keep is there; now they run a
** second time while the device only takes note of what it is asked for.  Random numbers are others
** at each replay: a step that draws reads where they begin from memory of the device (draw_at),
** which is written before each run.  Where a kernel cannot be noted the steps go on running one by
** one, and the plan says why.
*/
#include <stdio.h>
#include <string.h>

#include "graph/plan.h"

/* -- Random numbers ------------------------------------------------------------------- */

/* A place on the device for each step that draws. */
static rg_status place_draws(rg_plan *plan)
{
  rg_note *note = &plan->note;
  int64_t n = 0;

  for (const step *s = plan->first; s != NULL; s = s->next) {
    n += s->call.op->draws;
  }
  if (n == 0) {
    return RG_OK;
  }
  note->next = rg_host_alloc((size_t)n * sizeof(*note->next));
  if (note->next == NULL) {
    return rg_fail(RG_ENOMEM, "plan: no memory for the random numbers of %lld steps", (long long)n);
  }
  RG_TRY(rg_block_alloc_shared(plan->device, n * (int64_t)sizeof(*note->next), &note->draws));
  note->n_draws = n;
  n = 0;
  for (step *s = plan->first; s != NULL; s = s->next) {
    if (s->call.op->draws) {
      s->call.draw_at = (const rg_draw *)note->draws.data + n++;
    }
  }
  return RG_OK;
}

static rg_status draw(rg_plan *plan)
{
  rg_note *note = &plan->note;
  int64_t n = 0;

  for (step *s = plan->first; s != NULL; s = s->next) {
    if (s->call.op->draws) {
      rg_step_draw(s);
      note->next[n++] = s->call.draw;
    }
  }
  /* it is not pinned: when this returns it has been read */
  return rg_device_copy(plan->device, note->draws.data, RG_CPU, note->next,
                        n * (int64_t)sizeof(*note->next), true);
}

/* -- Taking note ---------------------------------------------------------------------- */

static rg_status run_kernels(rg_plan *plan)
{
  for (step *s = plan->first; s != NULL; s = s->next) {
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
  (void)snprintf(plan->note.why, sizeof(plan->note.why), "%s", rg_error_message());
  ended = driver->graph_end(plan->device, &plan->note.graph);
  if (ran != RG_OK && plan->note.graph != NULL) {
    driver->graph_free(plan->device, plan->note.graph);
    plan->note.graph = NULL;
  }
  if (ran != RG_OK) {
    return rg_fail(ran, "%s", plan->note.why);
  }
  return ended;
}

/* Back to steps that bring their numbers themselves. */
static void refuse(rg_plan *plan)
{
  plan->note.refused = true;
  (void)snprintf(plan->note.why, sizeof(plan->note.why), "%s", rg_error_message());
  for (step *s = plan->first; s != NULL; s = s->next) {
    s->call.draw_at = NULL;
  }
}

bool rg_plan_noted(rg_plan *plan)
{
  rg_note *note = &plan->note;

  if (note->graph == NULL && !note->refused) {
    note->stream = rg_stream_now(plan->device);
    if (take(plan) != RG_OK) {
      refuse(plan);
    }
  }
  return note->graph != NULL;
}

/* -- Running -------------------------------------------------------------------------- */

rg_status rg_note_run(rg_plan *plan)
{
  if (plan->note.n_draws > 0) {
    RG_TRY(draw(plan));
  }
  RG_TRY(rg_driver_of(plan->device)->graph_run(plan->device, plan->note.graph));
  for (const step *s = plan->first; s != NULL; s = s->next) {
    rg_step_wrote(s);
  }
  return RG_OK;
}

void rg_note_release(rg_plan *plan)
{
  if (plan->note.graph != NULL) {
    rg_driver_of(plan->device)->graph_free(plan->device, plan->note.graph);
  }
  rg_block_free(&plan->note.draws);
  rg_host_free(plan->note.next);
}
