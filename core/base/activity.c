/* SPDX-License-Identifier: MIT */
/*
** What GPUs do, as their driver's tracer tells it (rg_tracer): who records, and which event a
** thread asks a device for.
*/
#include <pthread.h>

#include "base/base.h"

enum { MOST = 1 << 24 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const rg_tracer *recording; /* the tracer that records; NULL: none does */
static const rg_tracer *kept;      /* that has what was recorded last */
static int64_t n_kept;

/* This thread records; its device has been asked for an event, which has not ended. */
static _Thread_local bool records;
static _Thread_local int32_t asked;

void rg_activity_asked(int32_t device, int64_t serial)
{
  const rg_tracer *tracer;

  if (asked != RG_CPU_DEVICE) {
    tracer = rg_driver_of(asked)->tracer;
    tracer->leave();
    asked = RG_CPU_DEVICE;
  }
  if (serial >= 0 && device != RG_CPU_DEVICE && rg_driver_of(device) != NULL) {
    tracer = rg_driver_of(device)->tracer;
    if (tracer != NULL) {
      tracer->enter(serial);
      asked = device;
    }
  }
}

static rg_status begin(int64_t capacity)
{
  const rg_driver *driver = rg_driver_that_pins();

  if (driver == NULL) {
    return rg_fail(RG_EDEVICE, "activity: no GPU is open");
  }
  if (driver->tracer == NULL) {
    return rg_fail(RG_EDEVICE, "activity: this GPU's kernels cannot be traced");
  }
  if (recording != NULL) {
    return rg_fail(RG_EDEVICE, "activity: kernels are recorded already, by another profile");
  }
  RG_TRY(driver->tracer->begin(capacity));
  recording = driver->tracer;
  kept = NULL;
  n_kept = 0;
  return RG_OK;
}

rg_status rg_activity_begin(int64_t capacity)
{
  rg_status status;

  if (capacity < 1 || capacity > MOST) {
    return rg_fail(RG_EARG, "activity: capacity is %lld; 1 to %d is expected", (long long)capacity,
                   MOST);
  }
  pthread_mutex_lock(&lock);
  status = begin(capacity);
  pthread_mutex_unlock(&lock);
  if (status == RG_OK) {
    records = true;
    rg_ring_on |= RG_RING_TRACED;
  }
  return status;
}

rg_status rg_activity_end(rg_activity_facts *out)
{
  rg_status status;

  if (out == NULL) {
    return rg_fail(RG_EARG, "activity: out is NULL");
  }
  if (!records) {
    return rg_fail(RG_EARG, "activity: this thread records nothing");
  }
  rg_activity_asked(RG_CPU_DEVICE, -1);
  rg_ring_on &= ~(uint32_t)RG_RING_TRACED;
  records = false;
  pthread_mutex_lock(&lock);
  status = recording->end(out);
  if (status == RG_OK) {
    kept = recording;
    n_kept = out->n;
  }
  recording = NULL;
  pthread_mutex_unlock(&lock);
  return status;
}

rg_status rg_activity_at(int64_t i, rg_activity *out)
{
  rg_status status = RG_OK;

  if (out == NULL) {
    return rg_fail(RG_EARG, "activity: out is NULL");
  }
  pthread_mutex_lock(&lock);
  if (kept == NULL || i < 0 || i >= n_kept) {
    status = rg_fail(RG_EARG, "activity: there is no number %lld of %lld", (long long)i,
                     (long long)n_kept);
  } else {
    kept->at(i, out);
  }
  pthread_mutex_unlock(&lock);
  return status;
}

void rg_activity_release(void)
{
  pthread_mutex_lock(&lock);
  if (kept != NULL) {
    kept->release();
  }
  kept = NULL;
  n_kept = 0;
  pthread_mutex_unlock(&lock);
}
