/* SPDX-License-Identifier: MIT */
/*
** Timed windows: k replays of a plan between two readings of the clock, with nothing else in
** between.  The counters that tell what disturbed a window are read outside it, and they are those
** of the whole process: a two-thread product waits for whichever thread was interrupted.
*/
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "measure/measure.h"

struct rg_flush {
  unsigned char *data;
  int64_t bytes;
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

static void flush_caches(rg_flush *flush)
{
  flush->value++;
  memset(flush->data, flush->value, (size_t)flush->bytes);
  __asm__ volatile("" : : "r"(flush->data) : "memory");
}

rg_status rg_flush_new(int64_t bytes, rg_flush **out)
{
  rg_flush *flush;

  if (bytes < 0 || bytes > (int64_t)1 << 40) {
    return rg_fail(RG_EARG, "flush: %lld bytes, want 0 to 2^40", (long long)bytes);
  }
  if (bytes == 0) {
    int64_t cache = rg_machine_facts()->l3_bytes;

    /* a cache nobody tells the size of is taken for 16 MiB */
    bytes = rg_min_i64(2 * (cache > 0 ? cache : (int64_t)16 << 20), (int64_t)256 << 20);
  }
  flush = rg_host_zeroed(sizeof(*flush));
  if (!flush) {
    return rg_fail(RG_ENOMEM, "flush: out of memory");
  }
  flush->data = rg_measure_map(bytes);
  flush->bytes = bytes;
  if (!flush->data) {
    rg_host_free(flush);
    return rg_fail(RG_ENOMEM, "flush: the system has no %lld bytes", (long long)bytes);
  }
  flush_caches(flush);
  *out = flush;
  return RG_OK;
}

int64_t rg_flush_bytes(const rg_flush *flush)
{
  return flush->bytes;
}

void rg_flush_release(rg_flush *flush)
{
  if (flush) {
    rg_measure_unmap(flush->data, flush->bytes);
    rg_host_free(flush);
  }
}

/* -- Windows ------------------------------------------------------------------ */

static rg_status one_window(rg_plan *plan, int64_t k, rg_window *out)
{
  around before;
  around after;
  int64_t begin;
  int64_t end;
  rg_status status;

  look_around(&before);
  begin = rg_clock_ns();
  status = rg_plan_replay(plan, k);
  end = rg_clock_ns();
  look_around(&after);
  RG_TRY(status);
  *out = (rg_window){
    .begin_ns = begin,
    .end_ns = end,
    .calls = k,
    .own_cpu_ns = after.cpu_ns - before.cpu_ns,
    .n_voluntary = after.n_voluntary - before.n_voluntary,
    .n_involuntary = after.n_involuntary - before.n_involuntary,
    .n_migrations = before.cpu < 0 || after.cpu < 0 ? -1 : before.cpu != after.cpu,
  };
  return RG_OK;
}

rg_status rg_measure_window(rg_plan *plan, int64_t k, rg_window *out)
{
  return rg_measure_windows(plan, k, 1, NULL, out);
}

rg_status rg_measure_windows(rg_plan *plan, int64_t k, int64_t n, rg_flush *flush, rg_window *out)
{
  rg_window *taken;
  rg_status status = RG_OK;
  int64_t i;

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
  taken = rg_host_zeroed((size_t)n * sizeof(*taken));
  if (!taken) {
    return rg_fail(RG_ENOMEM, "measure: out of memory for %lld windows", (long long)n);
  }
  for (i = 0; i < n && !status; i++) {
    if (rg_interrupt_pending()) {
      status = rg_fail(RG_EINTR, "measure: interrupted");
      break;
    }
    if (flush) {
      flush_caches(flush);
    }
    status = one_window(plan, k, &taken[i]);
  }
  if (!status) {
    memcpy(out, taken, (size_t)n * sizeof(*taken));
  }
  rg_host_free(taken);
  return status;
}
