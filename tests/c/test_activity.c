/* SPDX-License-Identifier: MIT */
/*
** Who records what GPUs do, and for which event a device is asked: over a tracer that writes down
** what it is told.
*/
#include <pthread.h>
#include <string.h>

#include "driver.h"
#include "tap.h"
#include "tensor/tensor.h"

enum { DEVICE = 2, ROOM = 7, KEPT = 2 };

static char told[512]; /* "begin 7;enter 3;leave;" */
static bool fails;

static void tell(const char *what, int64_t n)
{
  size_t used = strlen(told);

  if (n >= 0) {
    snprintf(told + used, sizeof(told) - used, "%s %lld;", what, (long long)n);
  } else {
    snprintf(told + used, sizeof(told) - used, "%s;", what);
  }
}

static rg_status begin(int64_t capacity)
{
  tell("begin", capacity);
  return fails ? rg_fail(RG_EDEVICE, "activity: on purpose") : RG_OK;
}

static rg_status end(rg_activity_facts *out)
{
  tell("end", -1);
  *out = (rg_activity_facts){ .n = KEPT, .n_dropped = 5 };
  return fails ? rg_fail(RG_EDEVICE, "activity: on purpose") : RG_OK;
}

static void at(int64_t i, rg_activity *out)
{
  *out = (rg_activity){ .name = "kernel", .serial = i };
}

static void release(void)
{
  tell("release", -1);
}

static void enter(int64_t serial)
{
  tell("enter", serial);
}

static void leave(void)
{
  tell("leave", -1);
}

static const rg_tracer tracer = { begin, end, at, release, enter, leave };
static const rg_driver driver = { .take = host_take,
                                  .give = host_give,
                                  .lost = host_done,
                                  .pin = host_pin,
                                  .unpin = free,
                                  .copy = host_copy,
                                  .wait = host_done,
                                  .enter = host_enter,
                                  .join = host_join,
                                  .mark_new = host_mark_new,
                                  .mark_free = host_mark_free,
                                  .mark_set = host_mark,
                                  .mark_follow = host_mark,
                                  .mark_wait = host_mark,
                                  .tracer = &tracer };

/* What the tracer was told since the last time is `want`. */
static void is_told(const char *want, const char *what)
{
  ok(strcmp(told, want) == 0, what);
  if (strcmp(told, want) != 0) {
    printf("# told: %s\n# want: %s\n", told, want);
  }
  told[0] = '\0';
}

static void test_none(void)
{
  rg_activity_facts facts;
  rg_activity one;

  is_status(rg_activity_begin(ROOM), RG_EDEVICE, "without a device there is nothing to record");
  ok(strstr(rg_error_message(), "no GPU is open") != NULL, "which is said");
  is_status(rg_activity_end(&facts), RG_EARG, "what did not begin does not end");
  is_status(rg_activity_at(0, &one), RG_EARG, "and has nothing");
  is_int(rg_ring_on & RG_RING_TRACED, 0, "nobody asks");
}

static void *in_a_thread(void *x)
{
  rg_activity_facts facts;

  (void)x;
  is_status(rg_activity_begin(ROOM), RG_EDEVICE, "another thread does not record beside");
  ok(strstr(rg_error_message(), "recorded already") != NULL, "which is said");
  is_status(rg_activity_end(&facts), RG_EARG, "nor end what it did not begin");
  is_int(rg_ring_on & RG_RING_TRACED, 0, "and its calls are not told");
  return NULL;
}

static void test_one(void)
{
  rg_activity_facts facts = { 0 };
  rg_activity one;
  pthread_t thread;

  is_status(rg_activity_begin(0), RG_EARG, "no room is none");
  is_status(rg_activity_begin((1 << 24) + 1), RG_EARG, "nor more than there may be");
  is_told("", "the tracer is not asked");
  is_status(rg_activity_begin(ROOM), RG_OK, "it begins");
  ok((rg_ring_on & RG_RING_TRACED) != 0, "calls of this thread are told");
  is_told("begin 7;", "with its room");
  is_status(rg_activity_begin(ROOM), RG_EDEVICE, "once");
  if (pthread_create(&thread, NULL, in_a_thread, NULL) == 0) {
    (void)pthread_join(thread, NULL);
  }
  is_told("", "the tracer is asked once");
  rg_activity_asked(DEVICE, 3);
  rg_activity_asked(RG_CPU_DEVICE, -1);
  is_told("enter 3;leave;", "an event");
  rg_activity_asked(DEVICE, 4);
  rg_activity_asked(DEVICE, 5);
  is_told("enter 4;leave;enter 5;", "one that failed ends with the next");
  rg_activity_asked(RG_CPU_DEVICE, 6);
  is_told("leave;", "the CPU is asked for nothing that is recorded");
  rg_activity_asked(DEVICE, -1);
  is_told("", "nor is what nobody hears");
  rg_activity_asked(DEVICE, 8);
  is_status(rg_activity_end(NULL), RG_EARG, "an end needs a place for its facts");
  is_status(rg_activity_end(&facts), RG_OK, "it ends");
  is_told("enter 8;leave;end;", "and with it what had not");
  is_int(facts.n_dropped, 5, "with its facts");
  is_int(rg_ring_on & RG_RING_TRACED, 0, "nobody asks any more");
  is_status(rg_activity_at(1, &one), RG_OK, "what is kept");
  is_int(one.serial, 1, "by its number");
  is_status(rg_activity_at(KEPT, &one), RG_EARG, "as far as there is");
  is_status(rg_activity_at(-1, &one), RG_EARG, "from 0");
  is_status(rg_activity_at(0, NULL), RG_EARG, "into something");
  rg_activity_release();
  is_status(rg_activity_at(0, &one), RG_EARG, "and is forgotten");
  rg_activity_release();
  is_told("release;", "once");
}

static void test_failing(void)
{
  rg_activity_facts facts = { 0 };
  rg_activity one;

  fails = true;
  is_status(rg_activity_begin(ROOM), RG_EDEVICE, "it does not begin");
  is_int(rg_ring_on & RG_RING_TRACED, 0, "so nobody asks");
  fails = false;
  is_status(rg_activity_begin(ROOM), RG_OK, "the next one does");
  fails = true;
  is_status(rg_activity_end(&facts), RG_EDEVICE, "what was recorded cannot be had");
  is_status(rg_activity_at(0, &one), RG_EARG, "so there is none");
  fails = false;
  is_status(rg_activity_begin(ROOM), RG_OK, "and the next one begins");
  is_status(rg_activity_end(&facts), RG_OK, "and ends");
  told[0] = '\0';
}

static void test_copies(void)
{
  rg_tensor *here = NULL;
  rg_tensor *there = NULL;
  rg_activity_facts facts = { 0 };
  int32_t reader = -1;
  char want[64];

  is_status(rg_empty(RG_F32, RG_CPU_DEVICE, (int64_t[]){ 8 }, 1, &here), RG_OK, "a tensor here");
  is_status(rg_empty(RG_F32, DEVICE, (int64_t[]){ 8 }, 1, &there), RG_OK, "and there");
  told[0] = '\0';
  is_status(rg_tensor_transfer(there, here), RG_OK, "a copy");
  is_told("", "of which nobody wants to know");
  is_status(rg_reader_open(1 << RG_EVENT_COPY, 0, 16, &reader), RG_OK, "a reader");
  is_status(rg_activity_begin(ROOM), RG_OK, "it begins");
  told[0] = '\0';
  snprintf(want, sizeof(want), "enter %lld;leave;", (long long)rg_ring_serial());
  is_status(rg_tensor_transfer(there, here), RG_OK, "a copy");
  is_told(want, "is its event's");
  rg_reader_hear(reader, 0);
  is_status(rg_tensor_transfer(there, here), RG_OK, "a copy that is not heard");
  is_told("", "is of none");
  is_status(rg_activity_end(&facts), RG_OK, "it ends");
  rg_reader_close(reader);
  rg_tensor_release(here);
  rg_tensor_release(there);
}

int main(void)
{
  test_none();
  rg_driver_register(DEVICE, &driver);
  is_status(rg_device_open(DEVICE), RG_OK, "a device");
  test_one();
  test_failing();
  test_copies();
  return done();
}
