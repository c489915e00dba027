/* SPDX-License-Identifier: MIT */
/*
** Capture: calls run as usual, but each inside a new step of a plan.  Memory comes from the plan's
** arena, so what is freed meanwhile is used again only by later steps, in the same order at replay.
*/
#include "graph/plan.h"

static _Thread_local rg_plan *capturing;
static _Thread_local rg_arena *arena_before;

static rg_status run_kernel(step *s)
{
  const int32_t stream = rg_stream_hold(s->call.device);
  rg_status status = s->kernel(&s->call, s->out, &s->frame);

  rg_stream_let_go(s->call.device, stream);
  return status;
}

/* Scratch lies where later steps of the plan may make their results, also that of a derived step,
** whose results lie elsewhere: what other derived steps made there has to stay when it runs. */
static rg_status take_scratch(const rg_call *call, rg_block *out)
{
  rg_arena *before = rg_arena_swap(capturing->arena);
  rg_status status = rg_block_alloc(call->device, call->scratch_bytes, out);

  (void)rg_arena_swap(before);
  return status;
}

/* What the kernel will work in gets room in the plan's layout. */
static rg_status foresee(const step *s)
{
  rg_arena *before = rg_arena_swap(capturing->arena);
  rg_status status = rg_backend_foresee(&s->call, s->out);

  (void)rg_arena_swap(before);
  return status;
}

/* The dispatcher's hook: copy the call into a step, then run the step; not in a dry capture. */
static rg_status capture_call(const rg_call *call, rg_kernel *kernel, rg_tensor *const *out,
                              rg_frame *frame)
{
  rg_block scratch = { 0 };
  rg_cost cost = call->op->cost != NULL ? call->op->cost(call) : (rg_cost){ 0 };
  step *s;
  rg_status status;

  RG_TRY(rg_plan_add(capturing, call, kernel, out, &s));
  if (call->scratch_bytes > 0) {
    status = take_scratch(call, &scratch);
    if (status != RG_OK) {
      rg_plan_drop_last(capturing);
      return status;
    }
    s->frame.scratch = scratch.data;
  }
  s->at = rg_arena_time(capturing->arena);
  status = rg_capture_dry ? foresee(s) : run_kernel(s);
  if (scratch.data != NULL) {
    rg_block_free(&scratch);
  }
  if (status != RG_OK) {
    rg_plan_drop_last(capturing);
    return status;
  }
  if (rg_capture_dry) {
    rg_plan_cools(capturing);
  } else {
    rg_plan_warms(capturing);
  }
  frame->path = s->frame.path;
  capturing->flops += cost.flops;
  capturing->bytes += cost.bytes;
  return RG_OK;
}

rg_plan *rg_capture_swap(rg_plan *plan)
{
  rg_plan *before = capturing;

  if (before != NULL) {
    rg_arena_swap(arena_before);
    rg_weight_cast_end();
  }
  if (plan != NULL) {
    arena_before = rg_arena_swap(plan->arena);
  }
  rg_capture_active = plan != NULL ? capture_call : NULL;
  rg_host_access_refused = plan != NULL;
  capturing = plan;
  return before;
}

rg_status rg_capture_begin(void)
{
  rg_plan *plan;

  if (capturing != NULL) {
    return rg_fail(RG_ECAPTURE, "capture: another one is under way");
  }
  RG_TRY(rg_plan_new(&plan));
  (void)rg_capture_swap(plan);
  return RG_OK;
}

rg_status rg_capture_end(rg_plan **out)
{
  if (capturing == NULL || out == NULL) {
    return rg_fail(RG_ECAPTURE, "capture: none is under way");
  }
  *out = rg_capture_swap(NULL);
  return RG_OK;
}

void rg_capture_cancel(void)
{
  rg_plan_release(rg_capture_swap(NULL));
}

void rg_capture_forget(void)
{
  rg_plan *plan = rg_capture_swap(NULL);

  rg_plan_unnumber(plan);
  rg_plan_release(plan);
}

rg_status rg_capture_keeps(rg_arena **before)
{
  if (capturing->workspace == NULL) {
    RG_TRY(rg_arena_new(&capturing->workspace));
  }
  *before = rg_arena_swap(capturing->workspace);
  return RG_OK;
}

step *rg_capture_last(void)
{
  /* the list's end lies in the last step, at its beginning */
  return capturing != NULL && capturing->first != NULL ? (step *)capturing->last : NULL;
}

step *rg_capture_drew(void)
{
  return capturing != NULL ? capturing->drew : NULL;
}

int32_t rg_capturing(void)
{
  return capturing != NULL;
}
