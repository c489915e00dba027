/* SPDX-License-Identifier: MIT */
/*
** Plans and their steps: copying a call so that it can be run again, and releasing it.
**
** A storage from the plan's own arena is held weakly: its memory may serve a later step once nobody
** needs it, in the same order at every replay.  Any other storage (inputs, weights) is held for as
** long as the plan lives.
*/
#include <stdio.h>
#include <string.h>

#include "base/layout.h"
#include "base/size_class.h"
#include "graph/plan.h"
#include "op/call.h"

static _Atomic int32_t n_plans;

static bool is_own(const rg_plan *plan, const rg_storage *storage)
{
  return storage->block.arena == plan->arena;
}

/* Freeze a tensor at the step's next place. */
static rg_tensor *freeze(rg_plan *plan, step *s, const rg_tensor *x)
{
  rg_tensor *copy = &s->tensors[s->n_tensors++];

  plan->pinned = plan->pinned || (x->_flags & RG_TENSOR_PINNED) != 0;
  *copy = rg_tensor_struct(x);
  if (is_own(plan, x->_storage)) {
    rg_storage_hold(x->_storage);
  } else {
    rg_storage_retain(x->_storage);
  }
  return copy;
}

rg_status rg_plan_new(rg_plan **out)
{
  rg_plan *plan = rg_host_zeroed(sizeof(*plan));
  rg_status status;

  if (plan == NULL) {
    return rg_fail(RG_ENOMEM, "plan: no memory for it");
  }
  atomic_init(&plan->refs, 1);
  plan->number = atomic_fetch_add(&n_plans, 1) + 1;
  plan->last = &plan->first;
  plan->device = -1;
  plan->warm = -1;
  plan->prepared = true;
  status = rg_arena_new(&plan->arena);
  if (status != RG_OK) {
    rg_host_free(plan);
    return status;
  }
  *out = plan;
  return RG_OK;
}

void rg_plan_unnumber(const rg_plan *plan)
{
  int32_t number = plan->number;

  (void)atomic_compare_exchange_strong(&n_plans, &number, number - 1);
}

rg_status rg_plan_add(rg_plan *plan, const rg_call *call, rg_kernel *kernel, rg_tensor *const *out,
                      step **added)
{
  int64_t n_in = call->n_in;
  int64_t n_out = call->n_out;
  int64_t tensors = rg_round_up(sizeof(step), RG_CALL_ALIGN);
  int64_t list = tensors + rg_round_up((n_in + n_out) * (int64_t)sizeof(rg_tensor), RG_CALL_ALIGN);
  int64_t copy = list + rg_round_up(n_out * (int64_t)sizeof(rg_tensor *), RG_CALL_ALIGN);
  char *block = rg_host_zeroed((size_t)(copy + rg_call_room(call)));
  step *s = (step *)block;
  const rg_tensor **in;

  if (s == NULL) {
    return rg_fail(RG_ENOMEM, "capture: no memory for step %lld", (long long)plan->n_steps + 1);
  }
  s->tensors = (rg_tensor *)(block + tensors);
  s->out = (rg_tensor **)(block + list);
  s->kernel = kernel;
  in = rg_call_copy(&s->call, call, block + copy);
  s->frame.memo = &s->memo;
  s->frame.path = "";
  s->module = rg_place_now.module;
  s->modes = *rg_modes_now();
  for (int64_t i = 0; i < n_in; i++) {
    in[i] = call->in[i] != NULL ? freeze(plan, s, call->in[i]) : NULL;
  }
  for (int64_t i = 0; i < n_out; i++) {
    s->out[i] = out[i] != NULL ? freeze(plan, s, out[i]) : NULL;
  }
  if (call->op->draws) {
    s->generator =
        rg_generator_retain(call->generator != NULL ? call->generator : rg_generator_default());
    plan->drew = s;
  }
  *plan->last = s;
  plan->last = &s->next;
  plan->n_steps++;
  plan->several = plan->several || (plan->n_steps > 1 && plan->device != call->device);
  plan->device = plan->several ? -1 : call->device;
  plan->mixed = plan->mixed || !rg_modes_same(&s->modes, &plan->first->modes);
  if (plan->varies == NULL && rg_backend_varies(call->device, call->op, &s->modes)) {
    plan->varies = s;
  }
  rg_arena_ran(plan->arena, rg_stream_now(call->device));
  *added = s;
  return RG_OK;
}

rg_status rg_step_derives(step *s)
{
  s->derived_of = rg_host_zeroed((size_t)s->call.n_in * sizeof(*s->derived_of));
  return s->derived_of != NULL ? RG_OK : rg_fail(RG_ENOMEM, "plan: no memory for a derived step");
}

void rg_step_forget(step *s)
{
  if (s->memo != NULL) {
    s->memo->release(s->memo);
    s->memo = NULL;
  }
}

void rg_plan_drop(rg_plan *plan, step *s)
{
  rg_step_forget(s);
  plan->varies = plan->varies == s ? NULL : plan->varies;
  for (int32_t i = 0; i < s->n_tensors; i++) {
    rg_storage *storage = s->tensors[i]._storage;

    if (is_own(plan, storage)) {
      rg_storage_unhold(storage);
    } else {
      rg_storage_release(storage);
    }
  }
  rg_generator_release(s->generator);
  rg_host_free(s->derived_of);
  rg_host_free(s);
  plan->n_steps--;
}

void rg_plan_drop_last(rg_plan *plan)
{
  step **link = &plan->first;

  plan->drew = NULL;
  while (*link != NULL && (*link)->next != NULL) {
    plan->drew = (*link)->call.op->draws ? *link : plan->drew;
    link = &(*link)->next;
  }
  if (*link != NULL) {
    rg_plan_drop(plan, *link);
    *link = NULL;
    plan->last = link;
  }
}

rg_plan *rg_plan_retain(rg_plan *plan)
{
  if (plan != NULL) {
    atomic_fetch_add(&plan->refs, 1);
  }
  return plan;
}

void rg_plan_release(rg_plan *plan)
{
  if (plan == NULL || atomic_fetch_sub(&plan->refs, 1) != 1) {
    return;
  }
  rg_device_graph_release(plan);
  rg_plan_forget(plan);
  while (plan->first != NULL) {
    step *next = plan->first->next;

    rg_plan_drop(plan, plan->first);
    plan->first = next;
  }
  rg_arena_close(plan->workspace);
  rg_arena_close(plan->arena);
  rg_host_free(plan);
}

/* What derived steps make, with what its blocks are rounded up by. */
static int64_t kept_bytes(const rg_plan *plan)
{
  int64_t sum = 0;

  for (const step *s = plan->first; s != NULL; s = s->next) {
    for (int32_t i = 0; s->derived_of != NULL && i < s->call.n_out; i++) {
      sum += s->out[i] != NULL ? class_bytes(s->out[i]->_storage->block.size_class) : 0;
    }
  }
  return sum;
}

rg_status rg_plan_facts_of(const rg_plan *plan, rg_plan_facts *out)
{
  if (plan == NULL || out == NULL) {
    return rg_fail(RG_EARG, "plan: a pointer is NULL");
  }
  const rg_modes *modes = plan->first != NULL ? &plan->first->modes : rg_modes_now();

  *out =
      (rg_plan_facts){ .n_steps = plan->n_steps,
                       .buffer_bytes =
                           rg_arena_bytes(plan->arena) + rg_arena_bytes(plan->workspace),
                       .live_bytes = rg_arena_live(plan->arena),
                       .kept_bytes = kept_bytes(plan),
                       .flops = plan->flops,
                       .bytes = plan->bytes,
                       .device = plan->device,
                       .device_graph = plan->device_graph.handle != NULL,
                       .stream = plan->device_graph.handle != NULL ? plan->device_graph.stream : -1,
                       .modes = modes->device,
                       .gemm = modes->gemm,
                       .mixed = plan->mixed };
  (void)snprintf(out->why, sizeof(out->why), "%s", out->device_graph ? "" : plan->device_graph.why);
  return RG_OK;
}

rg_status rg_plan_step_names(const rg_plan *plan, const char **names, int64_t n)
{
  const step *s = plan == NULL ? NULL : plan->first;

  if (plan == NULL || n < 0 || (n > 0 && names == NULL)) {
    return rg_fail(RG_EARG, "plan: the names of %lld steps of %s", (long long)n,
                   plan == NULL ? "no plan" : "a plan");
  }
  for (int64_t i = 0; i < n; i++) {
    names[i] = s != NULL ? s->call.op->name : NULL;
    s = s != NULL ? s->next : NULL;
  }
  return RG_OK;
}

/* Of a step's i-th product; RG_BY_NONE where it has no such. */
static int32_t way_of(const step *s, int32_t i, rg_plan_way *way)
{
  const rg_memo *memo = s->memo;

  way->op = s->call.op->name;
  way->path = s->frame.path;
  way->module = s->module;
  way->by = memo != NULL && memo->chosen != NULL ? memo->chosen(memo, i, &way->choice) : RG_BY_NONE;
  return way->by;
}

int64_t rg_plan_ways(const rg_plan *plan, rg_plan_way *out, int64_t n)
{
  int64_t count = 0;
  int64_t number = 0;

  for (const step *s = plan->first; s != NULL; s = s->next, number++) {
    rg_plan_way way = { .step = number };

    for (int32_t i = 0; way_of(s, i, &way) != RG_BY_NONE || i == 0; i++) {
      if (count < n) {
        out[count] = way;
      }
      count++;
    }
  }
  return count;
}

int32_t rg_plan_prepared(const rg_plan *plan)
{
  return plan->prepared;
}
