/* SPDX-License-Identifier: MIT */
/*
** The thread that moves messages: how the scheduler treats it beside threads that compute.
*/
#include "tap.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dist/group.h"

/* As the thread sees itself, when it opens the library for messages. */
typedef struct seen {
  int policy;
  uint64_t slice; /* ns; 0: the kernel has none of a thread's own */
  int slack;      /* ns */
} seen;

static uint64_t slice_now(void)
{
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attr = { .size = sizeof(attr) };

  return syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) == 0 ? attr.runtime : 0;
}

static rg_status look(void *argument, rg_transport *out)
{
  seen *s = argument;

  *s = (seen){ .policy = sched_getscheduler(0),
               .slice = slice_now(),
               .slack = prctl(PR_GET_TIMERSLACK) };
  *out = (rg_transport){ .name = "nobody", .size = 1, .local_size = 1 };
  return RG_OK;
}

static seen of_a_group(void)
{
  rg_group *g = NULL;
  seen s = { 0 };

  if (rg_group_new(look, &s, 0, &g) != RG_OK) tap_bail("no group");
  rg_group_release(g);
  return s;
}

/* A library that opens when it is let. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool may, opened, ended;
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void gate_end(void *self)
{
  (void)self;
  gate.ended = true;
}

static rg_status open_gate(void *argument, rg_transport *out)
{
  (void)argument;
  pthread_mutex_lock(&gate.lock);
  while (!gate.may)
    pthread_cond_wait(&gate.changed, &gate.lock);
  gate.opened = true;
  pthread_cond_broadcast(&gate.changed);
  pthread_mutex_unlock(&gate.lock);
  *out = (rg_transport){ .name = "gate", .size = 1, .local_size = 1, .end = gate_end };
  return RG_OK;
}

static void let(bool open)
{
  pthread_mutex_lock(&gate.lock);
  gate.may = open;
  gate.opened = false;
  pthread_cond_broadcast(&gate.changed);
  while (open && !gate.opened)
    pthread_cond_wait(&gate.changed, &gate.lock);
  pthread_mutex_unlock(&gate.lock);
}

/* Ranks that never come: who opens the library waits for so long, and no longer. */
static void test_patience(void)
{
  rg_group *g = NULL;
  int64_t began = rg_clock_ns();

  is_status(rg_group_new(open_gate, NULL, 30000000, &g), RG_ELATE, "who does not come is not");
  ok(rg_clock_ns() - began >= 30000000, "waited for longer than was said, nor shorter");
  ok(strstr(rg_error_message(), "have not all come within 0.03 s") != NULL, "and it is said");
  let(true); /* what opens too late is neither used nor ended */
  rg_interrupt_set();
  let(false);
  is_status(rg_group_new(open_gate, NULL, 0, &g), RG_EINTR, "a stop ends a wait without an end");
  rg_interrupt_clear();
  let(true);
  ok(g == NULL && !gate.ended, "nothing came of either");
  is_status(rg_group_new(open_gate, NULL, 0, &g), RG_OK, "and what comes in time");
  rg_group_release(g);
  ok(gate.ended, "is used and ended");
}

int main(void)
{
  const uint64_t usual = slice_now();
  const int slack = prctl(PR_GET_TIMERSLACK);
  const struct sched_param none = { 0 };
  seen s = of_a_group();

  ok(s.policy == SCHED_OTHER && s.slack == 1000, "it naps as briefly as it says");
  ok(usual == 0 || s.slice == 100000, "and has a tenth of a millisecond at a time");
  ok(slice_now() == usual && prctl(PR_GET_TIMERSLACK) == slack,
     "the thread that asked is as it was");
  ok(sched_setscheduler(0, SCHED_BATCH, &none) == 0, "another policy");
  s = of_a_group();
  ok(s.policy == SCHED_BATCH && (usual == 0 || s.slice == usual), "is kept");
  test_patience();
  return done();
}
