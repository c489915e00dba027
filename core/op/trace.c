/* SPDX-License-Identifier: MIT */
/*
** The trace: a ring of the last calls of a thread, with what they cost at best; and their names for
** a profiler that looks on.
**
** A call to a device returns before the device has done it.  Its own time is that between two marks
** around the call, which are only asked when the event is read: nothing waits while it is traced.
*/
#include <math.h>

#include "op/op.h"

/* Around one call; both NULL where it was the CPU's. */
typedef struct marks {
  rg_event *from;
  rg_event *to;
} marks;

typedef struct trace {
  rg_recorder recorder;
  rg_traced *events;
  marks *marks; /* one for each event; NULL until a device was asked for something */
  int64_t capacity;
  int64_t n; /* calls seen */
  bool running;
} trace;

static _Thread_local trace own;

/* -- Marks ------------------------------------------------------------------------------- */

static void marks_release(trace *t)
{
  for (int64_t i = 0; t->marks != NULL && i < t->capacity; i++) {
    rg_event_release(t->marks[i].from);
    rg_event_release(t->marks[i].to);
  }
  rg_host_free(t->marks);
  t->marks = NULL;
}

/* A mark that is the device's, set now; NULL where there is none: its time is not known then. */
static void mark(rg_event **at, int32_t device)
{
  rg_event_release(*at);
  *at = NULL;
  if (rg_event_new(device, at) != RG_OK || rg_event_set(*at) != RG_OK) {
    rg_event_release(*at);
    *at = NULL;
  }
}

static void asked(rg_recorder *self, const rg_call *call)
{
  trace *t = (trace *)self;

  if (call->device != RG_CPU && t->marks == NULL) {
    t->marks = rg_host_zeroed((size_t)t->capacity * sizeof(*t->marks));
  }
  if (call->device != RG_CPU && t->marks != NULL) {
    mark(&t->marks[t->n % t->capacity].from, call->device);
  }
}

/* -- Events ------------------------------------------------------------------------------ */

static rg_status record(rg_recorder *self, const rg_call *call, rg_tensor *const *out,
                        const rg_frame *frame, int64_t begin_ns)
{
  trace *t = (trace *)self;
  rg_cost cost = call->op->cost != NULL ? call->op->cost(call) : (rg_cost){ 0 };

  (void)out;
  if (call->device != RG_CPU && t->marks != NULL) {
    mark(&t->marks[t->n % t->capacity].to, call->device);
  }
  t->events[t->n++ % t->capacity] = (rg_traced){
    .op = call->op->name,
    .path = frame->path,
    .begin_ns = begin_ns,
    .end_ns = rg_clock_ns(),
    .flops = cost.flops,
    .bytes = cost.bytes,
    .live_bytes = rg_memory_of(call->device) != NULL ? rg_memory_of(call->device)->live_bytes : 0,
    .device_ns = NAN,
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
  marks_release(&own);
  rg_host_free(own.events);
  own = (trace){ .recorder = { .ran = record, .asked = asked, .wants_time = true },
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

void rg_trace_go_on(void)
{
  if (!own.running && own.events != NULL) {
    rg_recorder_push(&own.recorder);
    own.running = true;
  }
}

rg_status rg_trace_event(int64_t index, rg_traced *out)
{
  int64_t kept = rg_min_i64(own.n, own.capacity);
  int64_t at;

  if (out == NULL || index < 0 || index >= kept) {
    return rg_fail(RG_EARG, "trace: there is no event %lld", (long long)index);
  }
  at = (own.n - kept + index) % own.capacity;
  *out = own.events[at];
  if (out->device != RG_CPU && own.marks != NULL && own.marks[at].from != NULL &&
      own.marks[at].to != NULL) {
    RG_TRY(rg_event_between(own.marks[at].from, own.marks[at].to, &out->device_ns));
  }
  return RG_OK;
}

/* -- Names ------------------------------------------------------------------------------- */

typedef struct names {
  rg_recorder recorder;
  int32_t device; /* that has a range open, which its call did not end because it failed; 0: none */
  bool on;
} names;

static _Thread_local names naming;

static void name_ended(names *n)
{
  if (n->device != RG_CPU) {
    rg_device_named(n->device, NULL);
    n->device = RG_CPU;
  }
}

static void name_asked(rg_recorder *self, const rg_call *call)
{
  names *n = (names *)self;

  name_ended(n);
  if (call->device != RG_CPU) {
    rg_device_named(call->device, call->op->name);
    n->device = call->device;
  }
}

static rg_status name_ran(rg_recorder *self, const rg_call *call, rg_tensor *const *out,
                          const rg_frame *frame, int64_t begin_ns)
{
  (void)call;
  (void)out;
  (void)frame;
  (void)begin_ns;
  name_ended((names *)self);
  return RG_OK;
}

int32_t rg_trace_names(int32_t on)
{
  bool before = naming.on;

  if (before) {
    rg_recorder_pop(&naming.recorder);
    name_ended(&naming);
    naming.on = false;
  }
  if (on) {
    naming = (names){ .recorder = { .ran = name_ran, .asked = name_asked }, .on = true };
    rg_recorder_push(&naming.recorder);
  }
  return before;
}
