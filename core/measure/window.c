/* SPDX-License-Identifier: MIT */
/*
** Timed windows: k replays of a plan between two readings of the clock, with nothing else in
** between.  The counters that tell what disturbed a window are read outside it, and they are those
** of the whole process: a two-thread product waits for whichever thread was interrupted.
**
** A device is asked for its work and does it later.  Two marks in the plan's stream hold the time
** it worked; a filler (filler.c) and a replay that is not timed, which warms the caches again,
** stand before the first of them, so that the device is busy while the host asks.  No window ends
** before the device is through.
*/
#include <math.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "measure/measure.h"

struct rg_flush {
  unsigned char *data; /* of the device */
  int64_t bytes;
  int32_t device;
  unsigned char value;
};

/* -- Counters around a window ------------------------------------------------ */

typedef struct around {
  int64_t cpu_ns;
  int64_t n_voluntary;
  int64_t n_involuntary;
  int cpu;
} around;

static void look_around(around *out)
{
  struct rusage usage;
  struct timespec used;

  memset(&usage, 0, sizeof(usage));
  (void)getrusage(RUSAGE_SELF, &usage);
  used.tv_sec = 0;
  used.tv_nsec = 0;
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  out->cpu_ns = (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
  out->n_voluntary = usage.ru_nvcsw;
  out->n_involuntary = usage.ru_nivcsw;
  out->cpu = sched_getcpu();
}

/* -- Cold caches -------------------------------------------------------------- */

/* A device copies one half over the other: it reads or writes every byte, behind what it was asked
** for before. */
static rg_status flush_caches(rg_flush *flush)
{
  if (flush->device != RG_CPU) {
    int64_t half = flush->bytes / 2;

    return rg_device_copy(flush->device, flush->data, flush->device, flush->data + half, half,
                          true);
  }
  flush->value++;
  memset(flush->data, flush->value, (size_t)flush->bytes);
  __asm__ volatile("" : : "r"(flush->data) : "memory");
  return RG_OK;
}

/* Twice the last level; an unknown size is taken for 16 MiB, on a device 64. */
static rg_status fitting(int32_t device, int64_t *bytes)
{
  rg_device_facts facts;
  int64_t guess = (int64_t)(device == RG_CPU ? 16 : 64) << 20;

  RG_TRY(rg_device_facts_of(device, &facts));
  *bytes = 2 * (facts.cache_bytes > 0 ? facts.cache_bytes : guess);
  *bytes = rg_min_i64(*bytes, (int64_t)256 << 20);
  return RG_OK;
}

static rg_status flush_take(rg_flush *flush)
{
  void *data = NULL;

  if (flush->device != RG_CPU) {
    RG_TRY(rg_driver_of(flush->device)->take(flush->device, flush->bytes, &data));
  } else {
    data = rg_measure_map(flush->bytes);
  }
  if (!data) {
    return rg_fail(RG_ENOMEM, "flush: the system has no %lld bytes", (long long)flush->bytes);
  }
  flush->data = data;
  return RG_OK;
}

rg_status rg_flush_new(int32_t device, int64_t bytes, rg_flush **out)
{
  rg_flush *flush;
  rg_status status;

  if (bytes < 0 || bytes > (int64_t)1 << 40) {
    return rg_fail(RG_EARG, "flush: %lld bytes, want 0 to 2^40", (long long)bytes);
  }
  RG_TRY(rg_device_open(device));
  if (bytes == 0) {
    RG_TRY(fitting(device, &bytes));
  }
  flush = rg_host_zeroed(sizeof(*flush));
  if (!flush) {
    return rg_fail(RG_ENOMEM, "flush: out of memory");
  }
  flush->device = device;
  flush->bytes = bytes;
  status = flush_take(flush);
  if (!status) {
    status = flush_caches(flush);
  }
  if (status) {
    rg_flush_release(flush);
    return status;
  }
  *out = flush;
  return RG_OK;
}

int64_t rg_flush_bytes(const rg_flush *flush)
{
  return flush->bytes;
}

void rg_flush_release(rg_flush *flush)
{
  if (flush && flush->device != RG_CPU && flush->data) {
    rg_driver_of(flush->device)->give(flush->device, flush->data);
  } else if (flush) {
    rg_measure_unmap(flush->data, flush->bytes);
  }
  rg_host_free(flush);
}

/* -- The device's side ---------------------------------------------------------- */

/* What a window on a device needs; all zero for a plan of the CPU. */
typedef struct side {
  int32_t device; /* RG_CPU: none; -1: several, which have no clock in common */
  int32_t stream; /* the thread's own, to go back to */
  rg_event *from;
  rg_event *to;
  double busy_until_ns; /* the filler before this window keeps the device busy until then */
} side;

/* What the host last needed to ask for one call of a plan; of another plan nothing is known. */
static _Thread_local struct {
  const rg_plan *plan;
  double ns;
} asking;

/* The filler is asked for too, and the asking may take longer than before; its copies may take less
** than when they were timed. */
static const double RESERVE = 2.0;
static const double TRUST = 0.8;

/* The thread enters the stream on which the plan will run. */
static rg_status side_open(const rg_plan *plan, side *out)
{
  rg_plan_facts facts;
  rg_status status;

  *out = (side){ 0 };
  RG_TRY(rg_plan_facts_of(plan, &facts));
  out->device = facts.n_steps == 0 ? RG_CPU : facts.device;
  if (out->device <= RG_CPU) {
    return RG_OK;
  }
  out->stream = rg_stream_now(out->device);
  if (facts.stream >= 0) {
    RG_TRY(rg_stream_enter(out->device, facts.stream, NULL));
  }
  status = rg_event_new(out->device, &out->from);
  return status ? status : rg_event_new(out->device, &out->to);
}

static rg_status side_close(side *s)
{
  rg_event_release(s->from);
  rg_event_release(s->to);
  return s->device > RG_CPU ? rg_stream_enter(s->device, s->stream, NULL) : RG_OK;
}

/* Nothing that the window's devices were asked for is left to do. */
static rg_status side_wait(const side *s)
{
  return s->device == RG_CPU ? RG_OK
                             : rg_device_wait(s->device > RG_CPU ? s->device : RG_EVERY_DEVICE);
}

/* -- Windows ------------------------------------------------------------------ */

/* What comes before a window and is not timed: the device is through with all else, then busy. */
static rg_status before_window(rg_plan *plan, int64_t k, rg_flush *flush, side *s)
{
  int64_t now;
  double filled_ns = 0;

  RG_TRY(side_wait(s));
  s->busy_until_ns = 0;
  if (flush) {
    return flush_caches(flush);
  }
  if (s->device <= RG_CPU || k == 1) {
    return RG_OK; /* a window of one call begins with an idle device, as its user does */
  }
  if (asking.plan == plan) {
    now = rg_clock_ns();
    RG_TRY(rg_fill(s->device, RESERVE * asking.ns * (double)k, &filled_ns));
    s->busy_until_ns = (double)now + TRUST * filled_ns;
  }
  return rg_plan_replay(plan, 1);
}

static rg_status run_calls(rg_plan *plan, int64_t k, side *s, rg_window *out)
{
  rg_device_state state;
  rg_status status = s->from != NULL ? rg_event_set(s->from) : RG_OK;

  out->begin_ns = rg_clock_ns();
  if (!status) {
    status = rg_plan_replay(plan, k);
  }
  if (!status && s->to != NULL) {
    status = rg_event_set(s->to);
  }
  out->issued_ns = rg_clock_ns();
  out->filled = (double)out->issued_ns < s->busy_until_ns;
  asking.plan = plan;
  asking.ns = (double)(out->issued_ns - out->begin_ns) / (double)k;
  if (!status && s->device > RG_CPU) {
    /* while the device works: held back or not, an idle one reports nothing */
    status = rg_device_state_of(s->device, &state);
    out->clock_mhz = state.clock_mhz;
    out->held = state.held;
  }
  RG_TRY(status);
  RG_TRY(side_wait(s));
  out->end_ns = rg_clock_ns();
  return s->to != NULL ? rg_event_between(s->from, s->to, &out->device_ns) : RG_OK;
}

static rg_status one_window(rg_plan *plan, int64_t k, rg_flush *flush, side *s, rg_window *out)
{
  around before;
  around after;

  *out = (rg_window){ .calls = k, .device_ns = NAN, .clock_mhz = NAN, .held = -1 };
  RG_TRY(before_window(plan, k, flush, s));
  look_around(&before);
  RG_TRY(run_calls(plan, k, s, out));
  look_around(&after);
  if (s->device == RG_CPU) {
    out->issued_ns = out->end_ns;
  }
  out->own_cpu_ns = after.cpu_ns - before.cpu_ns;
  out->n_voluntary = after.n_voluntary - before.n_voluntary;
  out->n_involuntary = after.n_involuntary - before.n_involuntary;
  out->n_migrations = before.cpu < 0 || after.cpu < 0 ? -1 : before.cpu != after.cpu;
  return RG_OK;
}

rg_status rg_measure_window(rg_plan *plan, int64_t k, rg_window *out)
{
  return rg_measure_windows(plan, k, 1, NULL, out);
}

static rg_status check(const rg_plan *plan, int64_t k, int64_t n, const rg_flush *flush)
{
  if (!plan) {
    return rg_fail(RG_EARG, "measure: no plan");
  }
  if (k < 1 || n < 1 || n > 1000000) {
    return rg_fail(RG_EARG, "measure: %lld windows of %lld calls, want 1 to 10^6 of 1 or more",
                   (long long)n, (long long)k);
  }
  if (flush && k != 1) {
    return rg_fail(RG_EARG, "measure: %lld calls in a cold window, only the first would be cold",
                   (long long)k);
  }
  return RG_OK;
}

/* Another device's caches would be cold, and the plan's warm. */
static rg_status check_flush(const rg_flush *flush, const side *s)
{
  if (flush && flush->device != s->device) {
    return rg_fail(RG_EARG, "measure: the flush is of %s, the plan is not",
                   rg_device_name(flush->device));
  }
  return RG_OK;
}

static rg_status all_windows(rg_plan *plan, int64_t k, int64_t n, rg_flush *flush, side *s,
                             rg_window *out)
{
  rg_window *taken = rg_host_zeroed((size_t)n * sizeof(*taken));
  rg_status status = RG_OK;

  if (!taken) {
    return rg_fail(RG_ENOMEM, "measure: out of memory for %lld windows", (long long)n);
  }
  status = rg_aside_settle(); /* an abandoned call would compute beside the windows */
  for (int64_t i = 0; i < n && !status; i++) {
    if (rg_interrupt_pending()) {
      status = rg_fail(RG_EINTR, "measure: interrupted");
      break;
    }
    status = one_window(plan, k, flush, s, &taken[i]);
  }
  if (!status) {
    memcpy(out, taken, (size_t)n * sizeof(*taken));
  }
  rg_host_free(taken);
  return status;
}

rg_status rg_measure_windows(rg_plan *plan, int64_t k, int64_t n, rg_flush *flush, rg_window *out)
{
  rg_status status;
  rg_status closed;
  side s;

  RG_TRY(check(plan, k, n, flush));
  status = side_open(plan, &s);
  if (!status) {
    status = check_flush(flush, &s);
  }
  if (!status) {
    status = all_windows(plan, k, n, flush, &s, out);
  }
  closed = side_close(&s);
  return status ? status : closed;
}
