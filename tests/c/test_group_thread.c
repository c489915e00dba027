/* SPDX-License-Identifier: MIT */
/*
** The thread that moves messages: how the scheduler treats it beside threads that compute.
*/
#include "tap.h"

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

  if (rg_group_new(look, &s, &g) != RG_OK) tap_bail("no group");
  rg_group_release(g);
  return s;
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
  return done();
}
