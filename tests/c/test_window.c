/* SPDX-License-Identifier: MIT */
/*
** Timed windows of a plan: what they count, that they stop for an interrupt, and that they write
** nothing when they fail.  No test here says how fast anything is.
*/
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "ridge.h"
#include "tap.h"

enum { N = 4096 };

static rg_tensor *x;
static rg_tensor *y;

/* A plan of one sum; y is its output. */
static rg_plan *make_plan(void)
{
  const int64_t shape[1] = { N };
  rg_plan *plan = NULL;

  is_status(rg_empty(RG_F32, RG_CPU, shape, 1, &x), RG_OK, "an input");
  is_status(rg_fill_(x, 1.5), RG_OK, "of 1.5");
  is_status(rg_capture_begin(), RG_OK, "a capture begins");
  is_status(rg_add(x, x, &y), RG_OK, "of one sum");
  is_status(rg_capture_end(&plan), RG_OK, "and is a plan");
  return plan;
}

/* Processor time as the core is told it: of so many whole seconds more at each look. */
static int64_t later_s;
static int64_t added_s;

int clock_gettime(clockid_t clock, struct timespec *out)
{
  const int failed = (int)syscall(SYS_clock_gettime, clock, out);

  if (failed == 0 && clock == CLOCK_PROCESS_CPUTIME_ID) {
    added_s += later_s;
    out->tv_sec += (time_t)added_s;
  }
  return failed;
}

static int64_t cpu_ns(void)
{
  struct timespec used = { 0 };

  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

static void test_window(rg_plan *plan)
{
  rg_window window = { .calls = -1 };
  struct rusage first;
  struct rusage last;
  int64_t before;
  int64_t cpu_before;

  for (int i = 0; i < 5; i++) {
    (void)usleep(100); /* switches that the window must not count */
  }
  (void)getrusage(RUSAGE_SELF, &first);
  cpu_before = cpu_ns();
  before = rg_clock_ns();
  is_status(rg_measure_window(plan, 10, &window), RG_OK, "a window of ten calls");
  is_int(window.calls, 10, "it says how many");
  ok(before <= window.begin_ns && window.begin_ns < window.issued_ns &&
         window.issued_ns <= window.end_ns && window.end_ns <= rg_clock_ns(),
     "on the clock of the core, when all was asked for, too");
  (void)getrusage(RUSAGE_SELF, &last);
  ok(window.n_voluntary >= 0 && window.n_voluntary <= last.ru_nvcsw - first.ru_nvcsw &&
         window.n_involuntary >= 0 && window.n_involuntary <= last.ru_nivcsw - first.ru_nivcsw,
     "its switches are those of the window");
  ok(window.own_cpu_ns > 0 && window.own_cpu_ns <= cpu_ns() - cpu_before,
     "and so is its processor time");
  ok(window.n_migrations >= -1 && window.n_migrations <= 1, "moved, not moved or hidden");
}

/* A window that goes on from one second of processor time into another. */
static void test_seconds(rg_plan *plan)
{
  rg_window window;

  later_s = 2;
  is_status(rg_measure_window(plan, 1, &window), RG_OK, "a window of two seconds and a little");
  later_s = 0;
  ok(window.own_cpu_ns > 2000000000 && window.own_cpu_ns < 3000000000, "is as long as that");

  rg_host_counters before;
  rg_host_counters after;

  is_status(rg_host_counters_of(&before), RG_OK, "counters of the machine");
  later_s = 2;
  is_status(rg_host_counters_of(&after), RG_OK, "and two seconds later");
  later_s = 0;
  ok(after.own_ns - before.own_ns > 2e9 && after.own_ns - before.own_ns < 3e9,
     "tell as much of our own time");
}

/* The clock of all that is measured, in whole seconds as well. */
static void test_clock(void)
{
  struct timespec now = { 0 };
  int64_t before;
  int64_t after;

  (void)clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  before = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  after = rg_clock_ns();
  ok(after >= before && after < before + 60000000000, "the clock is the system's raw one");
}

static void test_windows(rg_plan *plan)
{
  rg_window windows[8];
  bool ordered = true;

  is_status(rg_measure_windows(plan, 3, 8, NULL, windows), RG_OK, "eight windows of three calls");
  for (int i = 0; i < 8; i++) {
    ordered = ordered && windows[i].calls == 3 && windows[i].begin_ns < windows[i].end_ns &&
              (i == 0 || windows[i - 1].end_ns <= windows[i].begin_ns);
  }
  ok(ordered, "one after the other");
}

static void test_cold(rg_plan *plan)
{
  rg_flush *flush = NULL;
  rg_window windows[2];

  is_status(rg_flush_new(RG_CPU, (int64_t)1 << 20, &flush), RG_OK, "a megabyte to write over");
  is_status(rg_measure_windows(plan, 1, 2, flush, windows), RG_OK, "two cold windows");
  is_status(rg_measure_windows(plan, 2, 2, flush, windows), RG_EARG,
            "the second call would not be cold");
  rg_flush_release(flush);
}

static void test_failures(rg_plan *plan)
{
  rg_window window = { .calls = -1 };

  is_status(rg_measure_window(NULL, 1, &window), RG_EARG, "no plan");
  is_status(rg_measure_window(plan, 0, &window), RG_EARG, "no calls");
  is_status(rg_measure_windows(plan, 1, 0, NULL, &window), RG_EARG, "no windows");
  rg_interrupt_set();
  is_status(rg_measure_window(plan, 1, &window), RG_EINTR, "an interrupt stops it");
  rg_interrupt_clear();
  rg_alloc_fail_at(1);
  is_status(rg_measure_window(plan, 1, &window), RG_ENOMEM, "no memory for its notes");
  rg_alloc_fail_at(0);
  is_int(window.calls, -1, "nothing is written on failure");
  is_status(rg_measure_window(plan, 1, &window), RG_OK, "and all works again");
}

static void on_alarm(int number)
{
  (void)number;
  rg_interrupt_set();
}

/* A window far too long to end by itself: the request comes while the plan runs. */
static void test_interrupt_inside(rg_plan *plan)
{
  const struct itimerval soon = { .it_value = { .tv_usec = 20000 } };
  rg_window window = { .calls = -1 };

  (void)signal(SIGALRM, on_alarm);
  (void)setitimer(ITIMER_REAL, &soon, NULL);
  is_status(rg_measure_window(plan, (int64_t)1 << 50, &window), RG_EINTR,
            "an interrupt stops a window under way");
  rg_interrupt_clear();
  (void)signal(SIGALRM, SIG_DFL);
  is_int(window.calls, -1, "which is not written");
}

int main(void)
{
  rg_plan *plan = make_plan();

  if (plan) {
    test_window(plan);
    test_seconds(plan);
    test_clock();
    test_windows(plan);
    test_cold(plan);
    test_failures(plan);
    test_interrupt_inside(plan);
  }
  rg_plan_release(plan);
  rg_tensor_release(y);
  rg_tensor_release(x);
  return done();
}
