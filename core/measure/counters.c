/* SPDX-License-Identifier: MIT */
/*
** Counters of the processor and of the kernel, by perf_event_open(2).
**
** A counter belongs to a thread: one is opened for each thread that there is, and those that it
** starts count for it.  Where there are fewer counters than were asked for they take turns, and the
** kernel tells for how long each counted.  Each is refused or not by itself: guests mostly have
** those of the kernel alone.
*/
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "measure/measure.h"

enum { MOST_THREADS = 256, HARDWARE = PERF_TYPE_HARDWARE, SOFTWARE = PERF_TYPE_SOFTWARE };

typedef struct kind {
  const char *name;
  uint32_t type;
  uint64_t config;
} kind;

#define KIND(name, text, type, config) [RG_COUNTER_##name] = { text, type, config },
static const kind kinds[RG_COUNTER_COUNT] = { RG_COUNTER_LIST(KIND) };

typedef struct counter {
  int32_t n; /* of files */
  int32_t file[MOST_THREADS];
  int32_t reason; /* an errno; 0: it counts */
} counter;

enum { MOST_OPERATIONS = 512 };

typedef struct operation {
  const char *name;
  int64_t n_calls;
  int64_t counts[RG_COUNTER_COUNT];
} operation;

struct rg_counters {
  counter of[RG_COUNTER_COUNT];
  rg_probe probe;  /* of this thread's ring, while it counts by operation */
  rg_probe *outer; /* who was asked before */
  bool by_operation;
  bool has_begun;
  int64_t begun[RG_COUNTER_COUNT]; /* where the last call began */
  int32_t n_operations;
  operation operations[MOST_OPERATIONS];
};

const char *rg_counter_name(int32_t which)
{
  return which >= 0 && which < RG_COUNTER_COUNT ? kinds[which].name : NULL;
}

/* -- Opening -------------------------------------------------------------------------------- */

/* What runs in the kernel is the system's, but for what happens nowhere else. */
static int32_t open_one(const kind *k, pid_t thread)
{
  struct perf_event_attr attr = { .type = k->type,
                                  .size = sizeof(attr),
                                  .config = k->config,
                                  .disabled = 1,
                                  .inherit = 1,
                                  .exclude_kernel = k->type == HARDWARE,
                                  .exclude_hv = 1,
                                  .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED |
                                                 PERF_FORMAT_TOTAL_TIME_RUNNING };

  return (int32_t)syscall(SYS_perf_event_open, &attr, thread, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void close_all(counter *c)
{
  for (int32_t i = 0; i < c->n; i++) {
    (void)close(c->file[i]);
  }
  c->n = 0;
}

/* All threads or none: of some it would be a number that means nothing. */
static void open_for(counter *c, const kind *k, const pid_t *threads, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    int32_t file = open_one(k, threads[i]);

    if (file >= 0) {
      c->file[c->n++] = file;
    } else if (errno != ESRCH) { /* that one has ended */
      c->reason = errno;
      close_all(c);
      return;
    }
  }
  c->reason = c->n == 0 ? ESRCH : 0;
}

/* The threads of this process; how many. */
static int32_t threads_of(pid_t *out)
{
  DIR *folder = opendir("/proc/self/task");
  int32_t n = 0;

  if (folder == NULL) { /* then this one alone */
    out[0] = (pid_t)syscall(SYS_gettid);
    return 1;
  }
  for (struct dirent *d = readdir(folder); d != NULL && n < MOST_THREADS; d = readdir(folder)) {
    if (d->d_name[0] != '.') {
      out[n++] = (pid_t)strtol(d->d_name, NULL, 10);
    }
  }
  (void)closedir(folder);
  return n;
}

rg_status rg_counters_new(rg_counters **out)
{
  pid_t threads[MOST_THREADS];
  rg_counters *c;
  int32_t n;

  if (out == NULL) {
    return rg_fail(RG_EARG, "counters: out is NULL");
  }
  c = rg_host_zeroed(sizeof(*c));
  if (c == NULL) {
    return rg_fail(RG_ENOMEM, "counters: no memory for them");
  }
  n = threads_of(threads);
  for (int32_t i = 0; i < RG_COUNTER_COUNT; i++) {
    open_for(&c->of[i], &kinds[i], threads, n);
  }
  *out = c;
  return RG_OK;
}

void rg_counters_release(rg_counters *counters)
{
  if (counters != NULL && rg_ring_probe == &counters->probe) {
    rg_ring_probe = counters->outer;
  }
  for (int32_t i = 0; counters != NULL && i < RG_COUNTER_COUNT; i++) {
    close_all(&counters->of[i]);
  }
  rg_host_free(counters);
}

/* -- Counting ------------------------------------------------------------------------------- */

void rg_counters_count(rg_counters *counters, int32_t on)
{
  unsigned long what = on != 0 ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE;

  for (int32_t i = 0; counters != NULL && i < RG_COUNTER_COUNT; i++) {
    for (int32_t t = 0; t < counters->of[i].n; t++) {
      (void)ioctl(counters->of[i].file[t], what, 0);
    }
  }
  if (counters == NULL || !counters->by_operation) {
    return;
  }
  if (on != 0 && rg_ring_probe != &counters->probe) {
    counters->outer = rg_ring_probe;
    rg_ring_probe = &counters->probe;
  } else if (on == 0 && rg_ring_probe == &counters->probe) {
    rg_ring_probe = counters->outer;
  }
  counters->has_begun = false;
}

/* -- By operation --------------------------------------------------------------------------- */

static int64_t count_of(const counter *c)
{
  int64_t sum = 0;

  for (int32_t t = 0; t < c->n; t++) {
    uint64_t now[3];

    if (read(c->file[t], now, sizeof(now)) == (ssize_t)sizeof(now)) {
      sum += (int64_t)now[0];
    }
  }
  return sum;
}

/* NULL: there are too many. */
static operation *operation_of(rg_counters *counters, const char *name)
{
  for (int32_t i = 0; i < counters->n_operations; i++) {
    if (counters->operations[i].name == name) {
      return &counters->operations[i];
    }
  }
  if (counters->n_operations == MOST_OPERATIONS) {
    return NULL;
  }
  operation *o = &counters->operations[counters->n_operations++];

  o->name = name;
  return o;
}

/* A call that another one began in, or that failed, is in nobody's counts. */
static void probe_at(rg_probe *self, const char *name)
{
  rg_counters *counters = (void *)((char *)self - offsetof(rg_counters, probe));
  operation *o = name != NULL && counters->has_begun ? operation_of(counters, name) : NULL;

  for (int32_t i = 0; i < RG_COUNTER_COUNT; i++) {
    int64_t now = counters->of[i].n > 0 ? count_of(&counters->of[i]) : 0;

    if (o != NULL) {
      o->counts[i] += now - counters->begun[i];
    }
    counters->begun[i] = now;
  }
  if (o != NULL) {
    o->n_calls++;
  }
  counters->has_begun = name == NULL;
}

void rg_counters_by_operation(rg_counters *counters, int32_t on)
{
  if (counters != NULL) {
    counters->probe.at = probe_at;
    counters->by_operation = on != 0;
  }
}

rg_status rg_counters_operation(const rg_counters *counters, int32_t which,
                                rg_operation_counts *out)
{
  if (counters == NULL || out == NULL || which < 0) {
    return rg_fail(RG_EARG, "counters: there is no operation %d", which);
  }
  *out = (rg_operation_counts){ .name = NULL };
  if (which >= counters->n_operations) {
    return RG_OK;
  }
  const operation *o = &counters->operations[which];

  out->name = o->name;
  out->n_calls = o->n_calls;
  for (int32_t i = 0; i < RG_COUNTER_COUNT; i++) {
    rg_counter all = { .value = NAN };

    RG_TRY(rg_counters_read(counters, i, &all));
    out->values[i] = isnan(all.value) ? NAN : (double)o->counts[i] / all.share;
  }
  return RG_OK;
}

/* What may be meant by an error of perf_event_open. */
static void explain(int32_t reason, char *out, size_t bytes)
{
  char level[16] = "";
  FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");

  if (file != NULL) {
    if (fgets(level, sizeof(level), file) != NULL) {
      level[strcspn(level, "\n")] = '\0';
    }
    (void)fclose(file);
  }
  if (reason == ENOENT || reason == ENODEV || reason == EOPNOTSUPP) {
    (void)snprintf(out, bytes, "the processor shows none here, as in most virtual machines");
  } else if (reason == EACCES || reason == EPERM) {
    (void)snprintf(out, bytes, "it is not permitted (%s; perf_event_paranoid is %s)",
                   strerror(reason), level[0] != '\0' ? level : "not known");
  } else if (reason == ENOSYS) {
    (void)snprintf(out, bytes, "the system has no perf_event_open");
  } else if (reason == EMFILE || reason == ENFILE) {
    (void)snprintf(out, bytes, "each thread takes an open file, and there are too many (%s)",
                   strerror(reason));
  } else {
    (void)snprintf(out, bytes, "%s", strerror(reason));
  }
}

rg_status rg_counters_read(const rg_counters *counters, int32_t which, rg_counter *out)
{
  uint64_t sum[3] = { 0 };

  if (counters == NULL || out == NULL || which < 0 || which >= RG_COUNTER_COUNT) {
    return rg_fail(RG_EARG, "counters: there is no counter %d", which);
  }
  const counter *c = &counters->of[which];

  *out = (rg_counter){ .value = NAN, .share = NAN };
  if (c->reason != 0) {
    explain(c->reason, out->reason, sizeof(out->reason));
    return RG_OK;
  }
  for (int32_t t = 0; t < c->n; t++) {
    uint64_t now[3]; /* the count, for how long it was on, and for how long it counted */

    if (read(c->file[t], now, sizeof(now)) != (ssize_t)sizeof(now)) {
      explain(errno, out->reason, sizeof(out->reason));
      return RG_OK;
    }
    for (int32_t i = 0; i < 3; i++) {
      sum[i] += now[i];
    }
  }
  if (sum[1] > 0 && sum[2] == 0) {
    (void)snprintf(out->reason, sizeof(out->reason), "others held it all the time");
    return RG_OK;
  }
  out->share = sum[1] > 0 ? (double)sum[2] / (double)sum[1] : 1;
  out->value = (double)sum[0] / out->share;
  return RG_OK;
}
