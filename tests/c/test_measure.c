/* SPDX-License-Identifier: MIT */
/*
** Measuring without a plan: the parsers on texts of several machines, the host on a made-up file
** system, clock, sentinel and ceilings.  No test here says how fast anything is.
*/
#include <errno.h>
#include <omp.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "measure/measure.h"
#include "tap.h"

/* -- Parsers ------------------------------------------------------------------- */

static void test_pressure(void)
{
  double ns = -1;

  ok(rg_parse_pressure("some avg10=0.00 avg60=0.00 avg300=0.06 total=3316169\n"
                       "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
                       &ns),
     "pressure is found");
  close_to(ns, 3316169e3, 0, "the line some, in nanoseconds");
  ok(rg_parse_pressure("full avg10=0.00 total=7\nsome avg10=0.00 total=9\n", &ns) && ns == 9e3,
     "the order of the lines does not matter");
  ns = -1;
  ok(!rg_parse_pressure("", &ns), "an empty file has none");
  ok(!rg_parse_pressure("full avg10=0.00 total=7\n", &ns), "full alone is not some");
  ok(!rg_parse_pressure("some avg10=0.00\nfull total=7\n", &ns),
     "the total of another line is not taken");
  ok(!rg_parse_pressure("some avg10=0.00 total=\n", &ns), "a total without a number is none");
  close_to(ns, -1, 0, "nothing is written without a number");
}

static const char STAT[] = "cpu  5884 0 4261 203528 706 0 104 14 0 0\n"
                           "cpu0 1227 10 717 105052 225 5 16 4 1000 0\n"
                           "cpu1 4656 0 3543 98475 481 0 88 10 0 0\n"
                           "cpu11 1000 0 0 0 0 0 0 1000 0 0\n"
                           "intr 123 0 0\n"
                           "ctxt 1\n";

static void test_stat(void)
{
  unsigned char allowed[16] = { 1, 1 };
  double busy = -1;
  double steal = -1;
  double cpus = -1;

  ok(rg_parse_stat(STAT, allowed, 16, 100, &busy, &steal, &cpus), "stat is found");
  close_to(busy, (1227 + 10 + 717 + 5 + 16 + 4656 + 3543 + 88) * 1e7, 1,
           "busy: no idle, no wait for disks, no guest time twice");
  close_to(steal, 14e7, 1, "steal of both");
  close_to(cpus, 2, 0, "two processors counted, not their sum line");
  allowed[0] = 0;
  ok(rg_parse_stat(STAT, allowed, 16, 100, &busy, &steal, &cpus), "one of them");
  close_to(steal, 10e7, 1, "cpu1 is not cpu11");
  ok(!rg_parse_stat(STAT, allowed, 1, 100, &busy, &steal, &cpus),
     "none behind the end of the list");
  allowed[1] = 0;
  busy = -1;
  ok(!rg_parse_stat(STAT, allowed, 16, 100, &busy, &steal, &cpus), "none of ours: not known");
  allowed[1] = 1;
  ok(!rg_parse_stat("cpu1 4656 0 3543 98475\n", allowed, 16, 100, &busy, &steal, &cpus),
     "a kernel without steal is not a machine without steal");
  ok(!rg_parse_stat("", allowed, 16, 100, &busy, &steal, &cpus), "an empty file");
  close_to(busy, -1, 0, "nothing is written without a number");
}

static void test_small_parsers(void)
{
  double value = -1;
  char text[64] = "untouched";
  int32_t version = 0;

  ok(rg_parse_key("nr_periods 5\nnr_throttled 3\nthrottled_time 17\n", "nr_throttled", &value) &&
         value == 3,
     "a key and its number");
  ok(rg_parse_key("Name:\tx\nTracerPid:\t42\n", "TracerPid", &value) && value == 42,
     "a key with a colon");
  value = -1;
  ok(!rg_parse_key("nr_throttled_more 3\n", "nr_throttled", &value), "a longer key is another");
  ok(!rg_parse_key("nr_throttled \nnr 3\n", "nr_throttled", &value),
     "a number of the next line is not taken");
  close_to(value, -1, 0, "nothing is written without a number");

  ok(rg_parse_cpu_max("max 100000\n", &value) && isinf(value), "no quota is infinite");
  ok(rg_parse_cpu_max("150000 100000\n", &value) && value == 1.5, "a quota of 1.5 processors");
  ok(!rg_parse_cpu_max("", &value) && !rg_parse_cpu_max("150000\n", &value), "half a quota");

  ok(rg_parse_cgroup("9:name=systemd:/\n4:memory:/api/x\n1:cpu:/\n0::/\n", text, sizeof(text),
                     &version) &&
         version == 1 && strcmp(text, "/cpu") == 0,
     "version 1, the top group");
  ok(rg_parse_cgroup("3:cpuset:/a\n2:cpu,cpuacct:/docker/77\n0::/\n", text, sizeof(text),
                     &version) &&
         version == 1 && strcmp(text, "/cpu,cpuacct/docker/77") == 0,
     "version 1, cpuset is not cpu");
  ok(rg_parse_cgroup("0::/user.slice/a b.scope\n", text, sizeof(text), &version) && version == 2 &&
         strcmp(text, "/user.slice/a b.scope") == 0,
     "version 2");
  ok(rg_parse_cgroup("0::/\n", text, sizeof(text), &version) && version == 2 && text[0] == 0,
     "version 2, the top group");
  ok(!rg_parse_cgroup("0::/a/very/long/name\n", text, 8, &version), "a name that does not fit");
  ok(!rg_parse_cgroup("", text, sizeof(text), &version), "no groups at all");

  ok(rg_parse_choice("always [madvise] never\n", text, sizeof(text)) &&
         strcmp(text, "madvise") == 0,
     "the choice in brackets");
  ok(!rg_parse_choice("always madvise\n", text, sizeof(text)), "no choice");
  ok(!rg_parse_choice("[madvise]\n", text, 7), "a choice that does not fit");
  ok(rg_parse_mhz("model\t: 1\ncpu MHz\t\t: 2000.5\ncpu MHz\t\t: 2001.5\n", &value) &&
         value == 2001,
     "the mean clock");
  ok(!rg_parse_mhz("processor : 0\nBogoMIPS : 50\n", &value), "an ARM says no clock");
}

static void test_cpuset(void)
{
  unsigned char allowed[16] = { 1, 1, 1, 0, 0, 1, 0, 1, 1 };
  char text[64];

  rg_format_cpuset(allowed, 16, text, sizeof(text));
  ok(strcmp(text, "0-2,5,7-8") == 0, "ranges of processors");
  rg_format_cpuset(allowed, 16, text, 8);
  ok(strcmp(text, "0-2...") == 0, "what does not fit is dots");
  rg_format_cpuset(allowed, 0, text, sizeof(text));
  ok(text[0] == 0, "no processors, no text");
}

/* -- A made-up host ------------------------------------------------------------- */

static char root[64];

/* Write a file of the made-up host, with the folders above it. */
static void put(const char *path, const char *text)
{
  char full[512];
  FILE *file;

  (void)snprintf(full, sizeof(full), "%s%s", root, path);
  for (char *p = full + 1; *p; p++) {
    if (*p == '/') {
      *p = 0;
      (void)mkdir(full, 0700);
      *p = '/';
    }
  }
  file = fopen(full, "w");
  if (file) {
    (void)fputs(text, file);
    (void)fclose(file);
  }
}

static void test_host_v2(void)
{
  rg_host_counters counters;
  rg_host_facts facts;

  put("/proc/self/cgroup", "0::/a/b\n");
  put("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
  put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  put("/sys/fs/cgroup/a/b/cpu.stat", "usage_usec 9\nnr_throttled 4\nthrottled_usec 250\n");
  put("/proc/pressure/cpu", "some avg10=0 avg60=0 avg300=0 total=11\n");
  put("/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
  put("/sys/devices/system/cpu/smt/active", "1\n");
  put("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
  put("/proc/self/status", "Name:\tx\nTracerPid:\t42\n");
  put("/sys/class/power_supply/AC/type", "Mains\n");
  put("/sys/class/power_supply/AC/online", "0\n");
  put("/sys/class/power_supply/BAT0/type", "Battery\n");
  is_status(rg_host_facts_from(root, &facts), RG_OK, "facts of a laptop");
  close_to(facts.quota_cpus, 0.5, 0, "the quota of the group above counts");
  is_int(facts.turbo, 0, "turbo is off");
  is_int(facts.smt, 1, "hardware threads share cores");
  is_int(facts.debugger, 1, "a debugger holds us");
  is_int(facts.on_battery, 1, "no mains online");
  ok(strcmp(facts.thp, "always") == 0, "huge pages");
  ok(facts.governor[0] == 0, "no governor file: empty");
  ok(isnan(facts.mhz), "no clock: not known");
  is_status(rg_host_counters_from(root, &counters), RG_OK, "counters of the laptop");
  close_to(counters.n_throttled, 4, 0, "throttled periods");
  close_to(counters.throttled_ns, 250e3, 0, "throttled time, from microseconds");
  close_to(counters.pressure_ns, 11e3, 0, "pressure");
  ok(isnan(counters.busy_ns) && isnan(counters.steal_ns), "no stat: not known, not zero");
}

/* Clocks of processors count where this process may use them. */
static void test_clocks(void)
{
  char path[2][96];
  rg_host_facts facts;
  cpu_set_t set;
  int mine = 0;
  int other = 0;

  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    tap_bail("no processors");
  }
  while (!CPU_ISSET((size_t)mine, &set)) {
    mine++;
  }
  while (CPU_ISSET((size_t)other, &set)) {
    other++;
  }
  for (int i = 0; i < 2; i++) {
    (void)snprintf(path[i], sizeof(path[i]),
                   "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", i == 0 ? other : mine);
    put(path[i], i == 0 ? "9000000\n" : "1800000\n");
    is_status(rg_host_facts_from(root, &facts), RG_OK, "facts with clocks");
    close_to(facts.mhz, i == 0 ? 2400.5 : 1800, 0,
             i == 0 ? "not the clock of a processor that is not ours" : "but of ours");
  }
  for (int i = 0; i < 2; i++) {
    char full[512];

    (void)snprintf(full, sizeof(full), "%s%s", root, path[i]);
    ok(unlink(full) == 0, "the clock is taken away");
  }
}

static void test_host_v1(void)
{
  rg_host_counters counters;
  rg_host_facts facts;

  put("/proc/self/cgroup", "2:cpu,cpuacct:/docker/77\n");
  put("/sys/fs/cgroup/cpu,cpuacct/docker/77/cpu.cfs_quota_us", "200000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/docker/77/cpu.cfs_period_us", "100000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu,cpuacct/docker/77/cpu.stat",
      "nr_periods 9\nnr_throttled 2\nthrottled_time 70\n");
  put("/proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2400.5\n");
  is_status(rg_host_facts_from(root, &facts), RG_OK, "facts under version 1");
  close_to(facts.mhz, 2400.5, 0, "no cpufreq: the clock that cpuinfo has");
  close_to(facts.quota_cpus, 2, 0, "quota over period");
  test_clocks();
  is_status(rg_host_counters_from(root, &counters), RG_OK, "counters under version 1");
  close_to(counters.throttled_ns, 70, 0, "throttled time is in nanoseconds there");
  put("/sys/fs/cgroup/cpu,cpuacct/docker/77/cpu.stat", "nr_periods 9\nnr_throttled 2\n");
  is_status(rg_host_counters_from(root, &counters), RG_OK, "counters without a time");
  close_to(counters.n_throttled, 2, 0, "periods that are counted without a time");
  close_to(counters.throttled_ns, 0, 0, "of which none is known");
}

/* Every fact that is yes or no, the other way round. */
static void test_host_otherwise(void)
{
  rg_host_facts facts;

  put("/sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
  put("/sys/devices/system/cpu/smt/active", "0\n");
  put("/proc/sys/kernel/randomize_va_space", "0\n");
  put("/proc/self/status", "Name:\tx\nTracerPid:\t0\n");
  put("/sys/class/power_supply/AC/online", "1\n");
  put("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  put("/sys/fs/cgroup/cpu,cpuacct/docker/77/cpu.cfs_quota_us", "-1\n");
  is_status(rg_host_facts_from(root, &facts), RG_OK, "facts of another laptop");
  is_int(facts.turbo, 1, "turbo is on");
  is_int(facts.smt, 0, "no core is shared");
  is_int(facts.aslr, 0, "addresses are the same each time");
  is_int(facts.debugger, 0, "nobody holds us");
  is_int(facts.on_battery, 0, "mains are online");
  ok(strcmp(facts.thp, "never") == 0, "no huge pages");
  ok(isinf(facts.quota_cpus), "-1 is no quota, on every level");
  put("/proc/sys/kernel/randomize_va_space", "2\n");
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "0\n");
  is_status(rg_host_facts_from(root, &facts), RG_OK, "and once more");
  ok((personality(0xffffffff) & ADDR_NO_RANDOMIZE) != 0 || facts.aslr == 2, "addresses differ");
  ok(isinf(facts.quota_cpus), "a period of 0 says nothing");
}

static void test_nothing(void)
{
  rg_host_counters counters;
  rg_host_facts facts;

  is_status(rg_host_facts_from("/nowhere/at/all", &facts), RG_OK, "facts of a machine that hides");
  ok(facts.turbo == -1 && facts.smt == -1 && facts.aslr == -1 && facts.debugger == -1 &&
         facts.on_battery == -1,
     "flags are -1");
  ok(isnan(facts.quota_cpus) && isnan(facts.mhz), "numbers are NaN");
  ok(facts.governor[0] == 0 && facts.thp[0] == 0, "texts are empty");
  ok(facts.n_cpus > 0 && facts.cpuset[0] != 0, "the affinity comes from a call, not a file");
  is_status(rg_host_counters_from("/nowhere/at/all", &counters), RG_OK, "counters of it");
  ok(isnan(counters.busy_ns) && isnan(counters.steal_ns) && isnan(counters.pressure_ns) &&
         isnan(counters.throttled_ns) && isnan(counters.n_throttled) && isnan(counters.n_cpus),
     "counters are NaN");
  ok(counters.own_ns > 0 && counters.at_ns > 0, "our own time is always known");
}

static double own_time(void)
{
  struct timespec t;

  return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0
             ? (double)t.tv_sec * 1e9 + (double)t.tv_nsec
             : NAN;
}

/* Our own time over whole seconds: a test that is through in less says nothing of them. */
static void test_own_time(void)
{
  rg_host_counters seen;
  double before = own_time();

  while (before < 1.05e9) {
    before = own_time();
  }
  is_status(rg_host_counters_of(&seen), RG_OK, "counters after a second of work");
  ok(seen.own_ns >= before && seen.own_ns <= own_time(), "all of it is our own time");
}

static void test_this_host(void)
{
  rg_host_counters a;
  rg_host_counters b;
  rg_host_facts facts;

  is_status(rg_host_counters_of(&a), RG_OK, "counters of this host");
  is_status(rg_host_counters_of(&b), RG_OK, "and again");
  ok(b.at_ns > a.at_ns && b.own_ns >= a.own_ns && !(b.busy_ns < a.busy_ns), "they only grow");
  is_status(rg_host_facts_of(&facts), RG_OK, "facts of this host");
  is_int(facts.n_cpus, rg_processors(), "as many processors as base says");
}

static void remove_tree(void)
{
  char command[128];

  (void)snprintf(command, sizeof(command), "rm -rf '%s'", root);
  if (system(command) != 0) {
    printf("# %s was not removed\n", root);
  }
}

/* -- Clock, sentinel, ceilings ------------------------------------------------------ */

static void test_clock(void)
{
  rg_clock_facts clock;

  is_status(rg_clock_facts_of(&clock), RG_OK, "facts of the clock");
  ok(strcmp(clock.name, "CLOCK_MONOTONIC_RAW") == 0, "it has a name");
  ok(clock.overhead_ns > 0 && clock.overhead_ns < 1e6, "reading it takes some time");
  ok(clock.resolution_ns >= 1, "its step is at least a nanosecond");
}

static void readings(const int64_t *at, int32_t n, double overhead, double resolution,
                     const char *what)
{
  int64_t copy[8];
  rg_clock_facts clock = { .overhead_ns = -1 };

  memcpy(copy, at, (size_t)n * sizeof(*at));
  rg_clock_facts_from(copy, n, &clock);
  close_to(clock.overhead_ns, overhead, 1e-9, what);
  close_to(clock.resolution_ns, resolution, 0, "and what it resolves");
}

static void test_readings(void)
{
  readings((const int64_t[]){ 100, 150, 160, 190, 210, 211 }, 6, 20, 1, "the median of five steps");
  readings((const int64_t[]){ 0, 40, 50, 80, 1000 }, 5, 40, 10, "the upper one of four");
  readings((const int64_t[]){ 7, 7, 7, 7, 37, 37 }, 6, 6, 30, "the mean, where most are 0");
  readings((const int64_t[]){ 7, 7, 7, 27, 57 }, 5, 20, 20, "where half of them are none");
  readings((const int64_t[]){ 7, 7, 7 }, 3, 0, 1e6, "a clock that stands still");
  readings((const int64_t[]){ 7, 9 }, 2, 2, 2, "one step");
}

static void test_sentinel(void)
{
  rg_sentinel *sentinel = NULL;
  rg_sentinel_times times = { .clock_ns = -1 };

  rg_alloc_fail_at(1);
  is_status(rg_sentinel_new(&sentinel), RG_ENOMEM, "no memory for the sentinel");
  rg_alloc_fail_at(3);
  is_status(rg_sentinel_new(&sentinel), RG_ENOMEM, "no memory for its 64 MB");
  rg_alloc_fail_at(0);
  ok(sentinel == NULL, "nothing is written on failure");
  is_status(rg_sentinel_new(&sentinel), RG_OK, "a sentinel");
  if (sentinel) {
    rg_interrupt_set();
    is_status(rg_sentinel_run(sentinel, &times), RG_EINTR, "an interrupt stops it");
    rg_interrupt_clear();
    close_to(times.clock_ns, -1, 0, "nothing is written then");
    is_status(rg_sentinel_run(sentinel, &times), RG_OK, "it runs");
    ok(times.clock_ns > 0 && times.compute_ns > 0 && times.memory_ns > 0, "three times");
    /* 2^21 additions that wait for each other: more than 8 GHz means they did not wait */
    ok(times.clock_hz > 1e7 && times.clock_hz < 8e9, "the chain is a chain");
  }
  rg_sentinel_release(sentinel);
  rg_sentinel_release(NULL);
}

/* Pages of this process. */
static int64_t n_pages(void)
{
  long long n = 0;
  FILE *file = fopen("/proc/self/statm", "r");

  if (file == NULL || fscanf(file, "%lld", &n) != 1) {
    tap_bail("no /proc/self/statm");
  }
  fclose(file);
  return n;
}

/* What was mapped is unmapped, all of it: a page left of each would be hundreds. */
static void test_given_back(void)
{
  enum { ROUNDS = 24 };
  int64_t before = 0;

  for (int i = -1; i < ROUNDS; i++) {
    rg_sentinel *sentinel = NULL;
    rg_ceiling *ceiling = NULL;
    rg_flush *flush = NULL;

    before = i == 0 ? n_pages() : before; /* the first round may map what stays */
    if (rg_sentinel_new(&sentinel) != RG_OK ||
        rg_ceiling_new(RG_CEILING_READ_L1, 1, &ceiling) != RG_OK ||
        rg_flush_new(RG_CPU, 5 << 12, &flush) != RG_OK) {
      tap_bail(rg_error_message());
    }
    rg_sentinel_release(sentinel);
    rg_ceiling_release(ceiling);
    rg_flush_release(flush);
  }
  ok(n_pages() - before < ROUNDS, "what is released is unmapped whole");
}

/* A flush of the CPU writes every byte: its pages are all there. */
static void test_flush_writes(void)
{
  enum { MEGABYTES = 96 };
  long long resident[2] = { 0 };
  rg_flush *flush = NULL;

  for (int i = 0; i < 2; i++) {
    FILE *file = fopen("/proc/self/statm", "r");

    if (file == NULL || fscanf(file, "%*d %lld", &resident[i]) != 1) {
      tap_bail("no /proc/self/statm");
    }
    fclose(file);
    if (i == 0) {
      is_status(rg_flush_new(RG_CPU, MEGABYTES << 20, &flush), RG_OK, "a flush of 96 MB");
    }
  }
  ok((resident[1] - resident[0]) * 4096 > (MEGABYTES - 8) << 20, "is written, all of it");
  rg_flush_release(flush);
}

static void test_ceilings(void)
{
  rg_ceiling *ceiling = NULL;
  double rate = -1;
  /* under ThreadSanitizer OpenMP may have one thread only */
  int32_t threads = omp_get_thread_limit() < 2 ? 1 : 2;

  is_status(rg_ceiling_new(-1, 1, &ceiling), RG_EARG, "no kind -1");
  is_status(rg_ceiling_new(RG_CEILING_COUNT, 1, &ceiling), RG_EARG, "no kind past the end");
  is_status(rg_ceiling_new(0, 0, &ceiling), RG_EARG, "no threads");
  ok(rg_ceiling_name(-1) == NULL && rg_ceiling_unit(RG_CEILING_COUNT) == NULL, "no names there");
  for (int32_t kind = 0; kind < RG_CEILING_COUNT; kind++) {
    rg_status status;

    /* the largest ones are gigabytes of writing: the smallest levels show the same code */
    if (kind == RG_CEILING_READ_DRAM || kind == RG_CEILING_TRIAD_DRAM) {
      continue;
    }
    status = rg_ceiling_new(kind, threads, &ceiling);
    ok(status == RG_OK || status == RG_ENOSUP, rg_ceiling_name(kind));
    if (status == RG_OK) {
      rg_interrupt_set();
      is_status(rg_ceiling_run(ceiling, 100000, &rate), RG_EINTR, "an interrupt stops it");
      rg_interrupt_clear();
      is_status(rg_ceiling_run(ceiling, 0, &rate), RG_EARG, "no time at all");
      close_to(rate, -1, 0, "nothing is written on failure");
      is_status(rg_ceiling_run(ceiling, 100000, &rate), RG_OK, "it runs");
      ok(rate > 1e3 && rate < 1e17, "a rate that a machine can have, though others use it");
      printf("# %s %.4g %s\n", rg_ceiling_name(kind), rate, rg_ceiling_unit(kind));
      rg_ceiling_release(ceiling);
      ceiling = NULL;
      rate = -1;
    }
  }
  rg_ceiling_release(NULL);
}

/* The best of three, in 1/s; 0 where this processor has no such loop. */
static double best_rate(int32_t kind)
{
  rg_ceiling *ceiling = NULL;
  double best = 0;
  double rate = 0;

  if (rg_ceiling_new(kind, 1, &ceiling) != RG_OK) {
    return 0;
  }
  for (int i = 0; i < 3 && rg_ceiling_run(ceiling, 1000000, &rate) == RG_OK; i++) {
    best = rate > best ? rate : best;
  }
  rg_ceiling_release(ceiling);
  return best;
}

/* A vector holds half as many f64 as f32: the rates are of one size, on a busy machine too. */
static void test_widths(void)
{
  static const int32_t kinds[][2] = {
    { RG_CEILING_FMA_F32_BASE, RG_CEILING_FMA_F64_BASE },
    { RG_CEILING_FMA_F32_AVX2, RG_CEILING_FMA_F64_AVX2 },
    { RG_CEILING_FMA_F32_AVX512, RG_CEILING_FMA_F64_AVX512 },
  };

  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    const double single = best_rate(kinds[i][0]);
    const double twice = best_rate(kinds[i][1]);

    ok(twice >= single / 30 && twice <= single * 8, rg_ceiling_name(kinds[i][1]));
  }
}

static void test_flush(void)
{
  rg_flush *flush = NULL;

  is_status(rg_flush_new(RG_CPU, -1, &flush), RG_EARG, "a negative flush");
  rg_alloc_fail_at(2);
  is_status(rg_flush_new(RG_CPU, 4096, &flush), RG_ENOMEM, "no memory for it");
  rg_alloc_fail_at(0);
  is_status(rg_flush_new(RG_CPU, 8192, &flush), RG_OK, "a small flush");
  if (flush) {
    is_int(rg_flush_bytes(flush), 8192, "as large as asked for");
  }
  rg_flush_release(flush);
  rg_flush_release(NULL);
}

int main(void)
{
  (void)snprintf(root, sizeof(root), "/tmp/ridge-host-XXXXXX");
  test_pressure();
  test_stat();
  test_small_parsers();
  test_cpuset();
  if (ok(mkdtemp(root) != NULL, "a folder for the made-up host")) {
    test_host_v2();
    test_host_v1();
    test_host_otherwise();
    remove_tree();
  }
  test_nothing();
  test_this_host();
  test_own_time();
  test_clock();
  test_readings();
  test_sentinel();
  test_given_back();
  test_flush_writes();
  test_ceilings();
  test_widths();
  test_flush();
  return done();
}
