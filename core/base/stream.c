/* SPDX-License-Identifier: MIT */
/*
** Streams and events, for any device.  On the CPU work is done when a call returns, so an event is
** a reading of the clock.
*/
#include <pthread.h>

#include "base/base.h"

_Static_assert((int)RG_PINNED == (int)RG_DEVICES, "one more than there are devices");

static _Thread_local uint8_t now[RG_DEVICES];
static _Atomic uint32_t used[RG_DEVICES];

struct rg_event {
  int32_t device;
  bool set;
  int64_t ns; /* on the CPU */
  void *mark; /* the driver's */
};

/* -- Streams --------------------------------------------------------------------------- */

rg_status rg_stream_enter(int32_t device, int32_t stream, int32_t *before)
{
  RG_TRY(rg_device_open(device));
  if (stream < 0 || stream >= RG_STREAMS) {
    return rg_fail(RG_EARG, "stream: there is no stream %d; they go from 0 to %d", stream,
                   RG_STREAMS - 1);
  }
  if (rg_arena_current() != NULL && stream != now[device]) {
    return rg_fail(RG_ECAPTURE, "stream: a plan is of one stream; enter it before the capture");
  }
  if (before != NULL) {
    *before = now[device];
  }
  now[device] = (uint8_t)stream;
  atomic_fetch_or(&used[device], 1u << stream);
  if (device != RG_CPU_DEVICE) {
    rg_driver_of(device)->enter(device, stream);
  }
  return RG_OK;
}

int32_t rg_stream_now(int32_t device)
{
  return device >= 0 && device < RG_DEVICES ? now[device] : 0;
}

uint32_t rg_streams_used(int32_t device)
{
  return atomic_load_explicit(&used[device], memory_order_relaxed) | 1u;
}

/* -- One caller at a time ---------------------------------------------------------------- */

static pthread_mutex_t callers[RG_DEVICES][RG_STREAMS];
static pthread_once_t callers_once = PTHREAD_ONCE_INIT;

static void make_callers(void)
{
  pthread_mutexattr_t attr;

  pthread_mutexattr_init(&attr);
  pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
  for (int32_t i = 0; i < RG_DEVICES * RG_STREAMS; i++) {
    pthread_mutex_init(&callers[0][0] + i, &attr);
  }
  pthread_mutexattr_destroy(&attr);
}

int32_t rg_stream_hold(int32_t device)
{
  const int32_t stream = now[device];

  if (device > RG_CPU_DEVICE && device < RG_DEVICES) {
    pthread_once(&callers_once, make_callers);
    pthread_mutex_lock(&callers[device][stream]);
  }
  return stream;
}

void rg_stream_let_go(int32_t device, int32_t stream)
{
  if (device > RG_CPU_DEVICE && device < RG_DEVICES) {
    pthread_mutex_unlock(&callers[device][stream]);
  }
}

/* -- Events ---------------------------------------------------------------------------- */

rg_status rg_event_new(int32_t device, rg_event **out)
{
  rg_event *event;
  rg_status status = RG_OK;

  RG_TRY(rg_device_open(device));
  event = rg_host_zeroed(sizeof(*event));
  if (event == NULL) {
    return rg_fail(RG_ENOMEM, "event: no memory for one");
  }
  event->device = device;
  if (device != RG_CPU_DEVICE) {
    status = rg_driver_of(device)->mark_new(device, &event->mark);
  }
  if (status != RG_OK) {
    rg_host_free(event);
    return status;
  }
  *out = event;
  return RG_OK;
}

void rg_event_release(rg_event *event)
{
  if (event != NULL && event->mark != NULL) {
    rg_driver_of(event->device)->mark_free(event->device, event->mark);
  }
  rg_host_free(event);
}

int32_t rg_event_device(const rg_event *event)
{
  return event->device;
}

static rg_status check(const rg_event *event)
{
  return event == NULL ? rg_fail(RG_EARG, "event: there is none") : RG_OK;
}

rg_status rg_event_set(rg_event *event)
{
  RG_TRY(check(event));
  if (event->device == RG_CPU_DEVICE) {
    event->ns = rg_clock_ns();
  } else {
    RG_TRY(rg_driver_of(event->device)->mark_set(event->device, event->mark));
  }
  event->set = true;
  return RG_OK;
}

rg_status rg_event_follow(const rg_event *event)
{
  RG_TRY(check(event));
  if (event->device == RG_CPU_DEVICE || !event->set) {
    return RG_OK;
  }
  return rg_driver_of(event->device)->mark_follow(event->device, event->mark);
}

rg_status rg_event_wait(const rg_event *event)
{
  RG_TRY(check(event));
  if (event->device == RG_CPU_DEVICE || !event->set) {
    return RG_OK;
  }
  int64_t begun = -1;

  if (rg_ring_on != 0) {
    begun = rg_ring_begin(RG_EVENT_WAIT, event->device, "wait");
  }
  rg_status status = rg_driver_of(event->device)->mark_wait(event->device, event->mark);
  if (begun >= 0) {
    (void)rg_ring_end(begun);
  }
  return status;
}

rg_status rg_event_between(const rg_event *from, const rg_event *to, double *ns)
{
  RG_TRY(check(from));
  RG_TRY(check(to));
  if (from->device != to->device) {
    return rg_fail(RG_EARG, "event: there is no time between marks of two devices");
  }
  if (!from->set || !to->set) {
    return rg_fail(RG_EARG, "event: the %s mark was not set", from->set ? "second" : "first");
  }
  if (from->device == RG_CPU_DEVICE) {
    *ns = (double)(to->ns - from->ns);
    return RG_OK;
  }
  RG_TRY(rg_event_wait(from));
  RG_TRY(rg_event_wait(to));
  return rg_driver_of(from->device)->mark_between(from->device, from->mark, to->mark, ns);
}
