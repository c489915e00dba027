/* SPDX-License-Identifier: MIT */
/*
** The trace: a ring of the last calls of a thread, with what they cost at best.
*/
#include "op/op.h"

typedef struct trace {
  rg_recorder recorder;
  rg_traced *events;
  int64_t capacity;
  int64_t n; /* calls seen */
  bool running;
} trace;

static _Thread_local trace own;

static rg_status record(rg_recorder *self, const rg_call *call, rg_tensor *const *out,
                        const rg_frame *frame, int64_t begin_ns)
{
  trace *t = (trace *)self;
  rg_cost cost = call->op->cost != NULL ? call->op->cost(call) : (rg_cost){ 0 };

  (void)out;
  t->events[t->n++ % t->capacity] = (rg_traced){
    .op = call->op->name,
    .path = frame->path,
    .begin_ns = begin_ns,
    .end_ns = rg_clock_ns(),
    .flops = cost.flops,
    .bytes = cost.bytes,
    .live_bytes = rg_memory_of(call->device) != NULL ? rg_memory_of(call->device)->live_bytes : 0,
    .device = call->device,
    .n_threads = rg_threads_for(cost.flops),
  };
  return RG_OK;
}

rg_status rg_trace_start(int64_t capacity)
{
  rg_traced *events;

  if (capacity < 1 || capacity > ((int64_t)1 << 30)) {
    return rg_fail(RG_EARG, "trace: a capacity of %lld calls", (long long)capacity);
  }
  events = rg_host_alloc((size_t)capacity * sizeof(*events));
  if (events == NULL) {
    return rg_fail(RG_ENOMEM, "trace: no memory for %lld events", (long long)capacity);
  }
  rg_trace_stop();
  rg_host_free(own.events);
  own = (trace){ .recorder = { .ran = record, .wants_time = true },
                 .events = events,
                 .capacity = capacity,
                 .running = true };
  rg_recorder_push(&own.recorder);
  return RG_OK;
}

int64_t rg_trace_stop(void)
{
  if (own.running) {
    rg_recorder_pop(&own.recorder);
    own.running = false;
  }
  return rg_min_i64(own.n, own.capacity);
}

rg_status rg_trace_event(int64_t index, rg_traced *out)
{
  int64_t kept = rg_min_i64(own.n, own.capacity);

  if (out == NULL || index < 0 || index >= kept) {
    return rg_fail(RG_EARG, "trace: there is no event %lld", (long long)index);
  }
  *out = own.events[(own.n - kept + index) % own.capacity];
  return RG_OK;
}
