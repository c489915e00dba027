/* SPDX-License-Identifier: MIT */
/*
** The timeline: when each call of a thread began and ended on its stream.  On a device both ends
** are marks in the stream, read when the recording stops, so that nobody waits for the sake of it;
** on the CPU they are readings of the clock.
**
** Each device has an origin, a mark set while it had nothing to do, beside a reading of the host's
** clock: that puts all of them on one axis.
*/
#include "base/base.h"

typedef struct entry {
  const char *name;
  int32_t device;
  int32_t stream;
  rg_event *begin; /* NULL on the CPU */
  rg_event *end;
  double begin_ns; /* since the start */
  double end_ns;   /* below begin_ns: it did not come to its end */
} entry;

typedef struct timeline {
  entry *entries;
  int64_t capacity;
  int64_t n;
  int64_t n_lost;
  int64_t start_ns;
  rg_event *origin[RG_DEVICES];
  int64_t origin_ns[RG_DEVICES]; /* since the start */
} timeline;

_Thread_local bool rg_timeline_on;
static _Thread_local timeline own;

static void forget(void)
{
  for (int64_t i = 0; i < own.n; i++) {
    rg_event_release(own.entries[i].begin);
    rg_event_release(own.entries[i].end);
  }
  for (int32_t i = 0; i < RG_DEVICES; i++) {
    rg_event_release(own.origin[i]);
  }
  rg_host_free(own.entries);
  own = (timeline){ 0 };
}

static rg_status set_origin(int32_t device)
{
  rg_event *origin = NULL;
  rg_status status = rg_device_wait(device);

  if (status == RG_OK) {
    status = rg_event_new(device, &origin);
  }
  if (status == RG_OK) {
    status = rg_event_set(origin);
  }
  if (status == RG_OK) {
    status = rg_event_wait(origin);
  }
  if (status != RG_OK) {
    rg_event_release(origin);
    return status;
  }
  own.origin[device] = origin;
  own.origin_ns[device] = rg_clock_ns() - own.start_ns;
  return RG_OK;
}

rg_status rg_timeline_start(int64_t capacity)
{
  rg_status status = RG_OK;

  if (capacity < 1 || capacity > 1 << 24) {
    return rg_fail(RG_EARG, "timeline: a capacity of %lld calls", (long long)capacity);
  }
  if (rg_timeline_on) {
    return rg_fail(RG_EARG, "timeline: one is being recorded already");
  }
  forget();
  own.entries = rg_host_alloc((size_t)capacity * sizeof(*own.entries));
  if (own.entries == NULL) {
    return rg_fail(RG_ENOMEM, "timeline: no memory for %lld calls", (long long)capacity);
  }
  own.capacity = capacity;
  own.start_ns = rg_clock_ns();
  for (int32_t i = 1; i < RG_DEVICES && status == RG_OK; i++) {
    if (rg_driver_of(i) != NULL) {
      status = set_origin(i);
    }
  }
  if (status != RG_OK) {
    forget();
    return status;
  }
  rg_timeline_on = true;
  return RG_OK;
}

void rg_timeline_note(int32_t on)
{
  rg_timeline_on = on != 0 && own.entries != NULL;
}

static rg_status mark(int32_t device, rg_event **out)
{
  rg_status status;

  RG_TRY(rg_event_new(device, out));
  status = rg_event_set(*out);
  if (status != RG_OK) {
    rg_event_release(*out);
    *out = NULL;
  }
  return status;
}

int64_t rg_span_begin(int32_t device, const char *name)
{
  entry *e;
  bool there = own.n < own.capacity;

  if (there && device != RG_CPU_DEVICE && own.origin[device] == NULL) {
    there = set_origin(device) == RG_OK; /* it was opened since the start */
  }
  if (there) {
    e = &own.entries[own.n];
    *e = (entry){ .name = name, .device = device, .stream = rg_stream_now(device), .end_ns = -1 };
    e->begin_ns = (double)(rg_clock_ns() - own.start_ns);
    there = device == RG_CPU_DEVICE || mark(device, &e->begin) == RG_OK;
  }
  if (!there) {
    own.n_lost++;
    return -1;
  }
  return own.n++;
}

void rg_span_end(int64_t span)
{
  entry *e = span >= 0 && span < own.n ? &own.entries[span] : NULL;

  if (e == NULL) {
    return;
  }
  if (e->device == RG_CPU_DEVICE) {
    e->end_ns = (double)(rg_clock_ns() - own.start_ns);
  } else if (mark(e->device, &e->end) != RG_OK) {
    own.n_lost++;
  }
}

static rg_status read_marks(entry *e)
{
  double begin;
  double end;

  if (e->device == RG_CPU_DEVICE || e->begin == NULL || e->end == NULL) {
    return RG_OK;
  }
  RG_TRY(rg_event_between(own.origin[e->device], e->begin, &begin));
  RG_TRY(rg_event_between(own.origin[e->device], e->end, &end));
  e->begin_ns = (double)own.origin_ns[e->device] + begin;
  e->end_ns = (double)own.origin_ns[e->device] + end;
  return RG_OK;
}

rg_status rg_timeline_stop(int64_t *n, int64_t *n_lost)
{
  rg_status status = RG_OK;

  rg_timeline_on = false;
  for (int64_t i = 0; i < own.n; i++) {
    entry *e = &own.entries[i];

    if (status == RG_OK) {
      status = read_marks(e);
    }
    rg_event_release(e->begin);
    rg_event_release(e->end);
    e->begin = e->end = NULL;
  }
  *n = own.n;
  *n_lost = own.n_lost;
  return status;
}

rg_status rg_timeline_span(int64_t index, rg_span *out)
{
  const entry *e;

  if (out == NULL || index < 0 || index >= own.n) {
    return rg_fail(RG_EARG, "timeline: there is no call %lld", (long long)index);
  }
  e = &own.entries[index];
  *out = (rg_span){ .name = e->name,
                    .device = e->device,
                    .stream = e->stream,
                    .begin_ns = e->begin_ns,
                    .end_ns = e->end_ns };
  return RG_OK;
}
