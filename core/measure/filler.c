/* SPDX-License-Identifier: MIT */
/*
** Work that keeps a device busy while the host asks it for more.  Where a call takes the device
** less than it takes the host to ask, the marks of a window would hold the host's time; behind a
** filler all calls are in the queue before the device comes to the first.
**
** It is a copy of memory within the device, no kernel that waits for a word of the host: such a
** one holds up what is loaded at its first launch, for ever (nvbench #240).
*/
#include <pthread.h>

#include "measure/measure.h"

enum {
  MOST = 256, /* copies: some milliseconds, and room in the queue for what is timed */
  TRIALS = 4,
  SMALLEST = 4 << 20,
  LARGEST = 128 << 20 /* a copy must take much longer than asking for it */
};

/* A device's memory for it, kept until the end. */
typedef struct scratch {
  unsigned char *data;
  int64_t half;
  double copy_ns; /* of one half over the other */
  bool tried;
} scratch;

static scratch scratches[RG_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static rg_status copy(const scratch *s, int32_t device)
{
  return rg_device_copy(device, s->data, device, s->data + s->half, s->half, true);
}

/* How long one copy takes, after one that is not looked at. */
static rg_status time_copy(scratch *s, int32_t device, rg_event *from, rg_event *to)
{
  double ns;

  RG_TRY(copy(s, device));
  RG_TRY(rg_event_set(from));
  for (int i = 0; i < TRIALS; i++) {
    RG_TRY(copy(s, device));
  }
  RG_TRY(rg_event_set(to));
  RG_TRY(rg_event_between(from, to, &ns));
  s->copy_ns = ns / TRIALS;
  return RG_OK;
}

static rg_status prepare(scratch *s, int32_t device)
{
  rg_event *from = NULL;
  rg_event *to = NULL;
  rg_status status;
  rg_device_facts facts;
  int64_t bytes;
  void *data = NULL;

  s->tried = true;
  RG_TRY(rg_device_facts_of(device, &facts));
  bytes = rg_max_i64(SMALLEST, rg_min_i64(LARGEST, facts.memory_bytes / 1024));
  if (rg_driver_of(device)->take(device, bytes, &data) != RG_OK) {
    return RG_OK; /* there is none: nothing is filled, and the window says so */
  }
  s->data = data;
  s->half = bytes / 2;
  status = rg_event_new(device, &from);
  if (status == RG_OK) {
    status = rg_event_new(device, &to);
  }
  if (status == RG_OK) {
    status = time_copy(s, device, from, to);
  }
  rg_event_release(from);
  rg_event_release(to);
  return status;
}

rg_status rg_fill(int32_t device, double ns, double *filled_ns)
{
  scratch *s = &scratches[device];
  rg_status status = RG_OK;
  int64_t n;

  *filled_ns = 0;
  (void)pthread_mutex_lock(&lock);
  if (!s->tried) {
    status = prepare(s, device);
  }
  (void)pthread_mutex_unlock(&lock);
  if (status != RG_OK || s->data == NULL || s->copy_ns <= 0) {
    return status;
  }
  n = rg_min_i64(MOST, 1 + (int64_t)(ns / s->copy_ns));
  for (int64_t i = 0; i < n; i++) {
    RG_TRY(copy(s, device));
  }
  *filled_ns = (double)n * s->copy_ns;
  return RG_OK;
}
