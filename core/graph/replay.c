/* SPDX-License-Identifier: MIT */
/*
** Replay: the steps of a plan in order, with nothing between them but what a kernel cannot know:
** the next random numbers, and that something was written.
*/
#include "graph/plan.h"

static rg_status run_step(step *s)
{
  const rg_op *op = s->call.op;

  if (op->draws) {
    s->call.draw.seed = rg_generator_seed(s->generator);
    s->call.draw.offset = rg_generator_take(s->generator, (uint64_t)s->call.n_draws);
  }
  RG_TRY(s->kernel(&s->call, s->out, &s->frame));
  for (int32_t i = 0; i < s->call.n_out; i++) {
    if (s->out[i] != NULL) {
      rg_storage_wrote(s->out[i]->_storage);
    }
  }
  if (op->writes != NULL) {
    for (int32_t i = 0; i < s->call.n_in; i++) {
      if (s->call.in[i] != NULL && op->writes(&s->call, i)) {
        rg_storage_wrote(s->call.in[i]->_storage);
      }
    }
  }
  return RG_OK;
}

rg_status rg_plan_replay(rg_plan *plan, int64_t n)
{
  if (plan == NULL || n < 0) {
    return rg_fail(RG_EARG, "plan: %lld runs of %s", (long long)n,
                   plan == NULL ? "no plan" : "a plan");
  }
  if (rg_capturing()) {
    return rg_fail(RG_ECAPTURE, "plan: a replay inside a capture would not become part of it");
  }
  for (int64_t i = 0; i < n; i++) {
    for (step *s = plan->first; s != NULL; s = s->next) {
      if (rg_interrupt_pending()) {
        return rg_fail(RG_EINTR, "interrupted");
      }
      RG_TRY(run_step(s));
    }
  }
  return RG_OK;
}
