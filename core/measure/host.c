/* SPDX-License-Identifier: MIT */
/*
** What the host says: who else runs, whether we are held back, how the processors are set.  Files
** that are missing (another kernel, a container, a guest) leave NaN, -1 or "" behind.
*/
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <time.h>
#include <unistd.h>

#include "measure/measure.h"

enum {
  MAX_CPUS = 1024, /* of the plain cpu_set_t */
  MAX_PATH = 1024,
  SMALL_TEXT = 4096,
  STAT_TEXT = 1 << 17, /* 1024 processors of up to 120 bytes; the lines after them are not needed */
  MAX_LEVELS = 32      /* of nested groups */
};

/* -- Files ---------------------------------------------------------------------- */

/* The beginning of a file as a text; false when there is none. */
static bool read_text(const char *root, const char *path, char *out, size_t out_bytes)
{
  char full[MAX_PATH];
  size_t used = 0;
  int written = snprintf(full, sizeof(full), "%s%s", root, path);
  int file;

  if (written < 0 || (size_t)written >= sizeof(full)) {
    return false;
  }
  file = open(full, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return false;
  }
  while (used + 1 < out_bytes) {
    ssize_t got = read(file, out + used, out_bytes - 1 - used);

    if (got <= 0) {
      break;
    }
    used += (size_t)got;
  }
  (void)close(file);
  out[used] = 0;
  return used > 0;
}

static bool read_number(const char *root, const char *path, double *value)
{
  char text[64];
  char *end;
  double found;

  if (!read_text(root, path, text, sizeof(text))) {
    return false;
  }
  found = strtod(text, &end);
  if (end == text) {
    return false;
  }
  *value = found;
  return true;
}

static int32_t read_small(const char *root, const char *path)
{
  double value;

  return read_number(root, path, &value) && value >= 0 && value < 1e6 ? (int32_t)value : -1;
}

/* One byte a processor; returns how many this process may run on. */
static int32_t allowed_cpus(unsigned char *allowed)
{
  cpu_set_t set;
  int32_t count = 0;

  memset(allowed, 0, MAX_CPUS);
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return 0;
  }
  for (size_t i = 0; i < MAX_CPUS; i++) {
    if (CPU_ISSET(i, &set)) {
      allowed[i] = 1;
      count++;
    }
  }
  return count;
}

/* -- Control groups ---------------------------------------------------------------- */

typedef struct group {
  char folder[MAX_PATH / 2];
  size_t top; /* length of the part that is the mount and stays */
  int32_t version;
} group;

static bool find_group(const char *root, group *out)
{
  char text[SMALL_TEXT];
  char below[MAX_PATH / 4];
  int32_t version;
  int written;

  if (!read_text(root, "/proc/self/cgroup", text, sizeof(text)) ||
      !rg_parse_cgroup(text, below, sizeof(below), &version)) {
    return false;
  }
  written = snprintf(out->folder, sizeof(out->folder), "/sys/fs/cgroup%s", below);
  if (written < 0 || (size_t)written >= sizeof(out->folder)) {
    return false;
  }
  out->version = version;
  /* version 1 mounts "/cpu" or "/cpu,cpuacct" below; the path of the group follows */
  out->top = strlen("/sys/fs/cgroup");
  if (version == 1) {
    const char *path = strchr(below + 1, '/');

    out->top += path ? (size_t)(path - below) : strlen(below);
  }
  return true;
}

/* Cut the last folder off; false at the top. */
static bool go_up(group *at)
{
  char *slash = strrchr(at->folder, '/');

  if (strlen(at->folder) <= at->top || !slash) {
    return false;
  }
  *slash = 0;
  return true;
}

static bool group_quota(const char *root, const group *at, double *cpus)
{
  char path[MAX_PATH];
  char text[64];
  double quota;
  double period;

  if (at->version == 2) {
    (void)snprintf(path, sizeof(path), "%s/cpu.max", at->folder);
    return read_text(root, path, text, sizeof(text)) && rg_parse_cpu_max(text, cpus);
  }
  (void)snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", at->folder);
  if (!read_number(root, path, &quota)) {
    return false;
  }
  if (quota < 0) {
    *cpus = (double)INFINITY;
    return true;
  }
  (void)snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", at->folder);
  if (!read_number(root, path, &period) || period <= 0) {
    return false;
  }
  *cpus = quota / period;
  return true;
}

/* The tightest quota from the group up to the top; NaN when no level tells. */
static double quota_of(const char *root)
{
  group at;
  double tightest = (double)NAN;

  if (!find_group(root, &at)) {
    return tightest;
  }
  for (int level = 0; level < MAX_LEVELS; level++) {
    double cpus;

    if (group_quota(root, &at, &cpus)) {
      tightest = isnan(tightest) ? cpus : fmin(tightest, cpus);
    }
    if (!go_up(&at)) {
      break;
    }
  }
  /* the top group of version 2 has no cpu.max because nothing limits it */
  if (isnan(tightest) && at.version == 2) {
    char text[SMALL_TEXT];

    if (read_text(root, "/sys/fs/cgroup/cgroup.controllers", text, sizeof(text))) {
      tightest = (double)INFINITY;
    }
  }
  return tightest;
}

static void read_throttling(const char *root, rg_host_counters *out)
{
  group at;

  if (!find_group(root, &at)) {
    return;
  }
  for (int level = 0; level < MAX_LEVELS; level++) {
    char path[MAX_PATH];
    char text[SMALL_TEXT];
    double value;

    (void)snprintf(path, sizeof(path), "%s/cpu.stat", at.folder);
    if (read_text(root, path, text, sizeof(text)) && rg_parse_key(text, "nr_throttled", &value)) {
      out->n_throttled = (isnan(out->n_throttled) ? 0 : out->n_throttled) + value;
      if (rg_parse_key(text, "throttled_usec", &value)) {
        value *= 1e3;
      } else if (!rg_parse_key(text, "throttled_time", &value)) {
        value = 0;
      }
      out->throttled_ns = (isnan(out->throttled_ns) ? 0 : out->throttled_ns) + value;
    }
    if (!go_up(&at)) {
      return;
    }
  }
}

/* -- Counters ---------------------------------------------------------------------- */

rg_status rg_host_counters_from(const char *root, rg_host_counters *out)
{
  rg_host_counters now = {
    .busy_ns = (double)NAN,
    .own_ns = (double)NAN,
    .steal_ns = (double)NAN,
    .pressure_ns = (double)NAN,
    .throttled_ns = (double)NAN,
    .n_throttled = (double)NAN,
    .n_cpus = (double)NAN,
  };
  unsigned char allowed[MAX_CPUS];
  char small[SMALL_TEXT];
  struct timespec used;
  char *text = rg_host_alloc(STAT_TEXT);

  if (!text) {
    return rg_fail(RG_ENOMEM, "host: out of memory");
  }
  (void)allowed_cpus(allowed);
  now.at_ns = (double)rg_clock_ns();
  if (read_text(root, "/proc/stat", text, STAT_TEXT)) {
    (void)rg_parse_stat(text, allowed, MAX_CPUS, (double)sysconf(_SC_CLK_TCK), &now.busy_ns,
                        &now.steal_ns, &now.n_cpus);
  }
  if (read_text(root, "/proc/pressure/cpu", small, sizeof(small))) {
    (void)rg_parse_pressure(small, &now.pressure_ns);
  }
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0) {
    now.own_ns = (double)used.tv_sec * 1e9 + (double)used.tv_nsec;
  }
  read_throttling(root, &now);
  rg_host_free(text);
  *out = now;
  return RG_OK;
}

rg_status rg_host_counters_of(rg_host_counters *out)
{
  return rg_host_counters_from("", out);
}

/* -- Facts -------------------------------------------------------------------------- */

static void read_word(const char *root, const char *path, char *out, size_t out_bytes)
{
  if (!read_text(root, path, out, out_bytes)) {
    out[0] = 0;
    return;
  }
  out[strcspn(out, " \n")] = 0;
}

static int32_t turbo_of(const char *root)
{
  int32_t off = read_small(root, "/sys/devices/system/cpu/intel_pstate/no_turbo");

  return off >= 0 ? !off : read_small(root, "/sys/devices/system/cpu/cpufreq/boost");
}

/* 1 when there are mains supplies and none is online. */
static int32_t battery_of(const char *root)
{
  char path[MAX_PATH];
  DIR *folder;
  const struct dirent *entry;
  int n_mains = 0;
  int n_online = 0;

  (void)snprintf(path, sizeof(path), "%s/sys/class/power_supply", root);
  folder = opendir(path);
  if (!folder) {
    return -1;
  }
  while ((entry = readdir(folder)) != NULL) {
    char type[32];

    if (entry->d_name[0] == '.' || strlen(entry->d_name) > 200) {
      continue;
    }
    (void)snprintf(path, sizeof(path), "/sys/class/power_supply/%s/type", entry->d_name);
    read_word(root, path, type, sizeof(type));
    if (strcmp(type, "Mains") == 0 || strcmp(type, "USB") == 0) {
      (void)snprintf(path, sizeof(path), "/sys/class/power_supply/%s/online", entry->d_name);
      n_mains++;
      n_online += read_small(root, path) > 0;
    }
  }
  (void)closedir(folder);
  return n_mains == 0 ? -1 : n_online == 0;
}

/* Of the processors this process may use; a guest without cpufreq has only what cpuinfo says. */
static double mhz_of(const char *root, const unsigned char *allowed)
{
  double sum = 0;
  double mhz = (double)NAN;
  int found = 0;
  char *text;

  for (int i = 0; i < MAX_CPUS; i++) {
    char path[MAX_PATH];
    double khz;

    if (!allowed[i]) {
      continue;
    }
    (void)snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", i);
    if (read_number(root, path, &khz)) {
      sum += khz / 1e3;
      found++;
    }
  }
  if (found > 0) {
    return sum / found;
  }
  text = rg_host_alloc(STAT_TEXT);
  if (text && read_text(root, "/proc/cpuinfo", text, STAT_TEXT)) {
    (void)rg_parse_mhz(text, &mhz);
  }
  rg_host_free(text);
  return mhz;
}

rg_status rg_host_facts_from(const char *root, rg_host_facts *out)
{
  rg_host_facts facts = { .debugger = -1 };
  unsigned char allowed[MAX_CPUS];
  char text[SMALL_TEXT];
  char path[MAX_PATH];
  double tracer;
  int first = 0;

  facts.n_cpus = allowed_cpus(allowed);
  rg_format_cpuset(allowed, MAX_CPUS, facts.cpuset, sizeof(facts.cpuset));
  while (first < MAX_CPUS - 1 && !allowed[first]) {
    first++;
  }
  (void)snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor",
                 first);
  read_word(root, path, facts.governor, sizeof(facts.governor));
  if (read_text(root, "/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof(text))) {
    (void)rg_parse_choice(text, facts.thp, sizeof(facts.thp));
  }
  facts.turbo = turbo_of(root);
  facts.smt = read_small(root, "/sys/devices/system/cpu/smt/active");
  facts.aslr = read_small(root, "/proc/sys/kernel/randomize_va_space");
  if (facts.aslr > 0 && (personality(0xffffffff) & ADDR_NO_RANDOMIZE)) {
    facts.aslr = 0;
  }
  if (read_text(root, "/proc/self/status", text, sizeof(text)) &&
      rg_parse_key(text, "TracerPid", &tracer)) {
    facts.debugger = tracer > 0;
  }
  facts.on_battery = battery_of(root);
  facts.quota_cpus = quota_of(root);
  facts.mhz = mhz_of(root, allowed);
  *out = facts;
  return RG_OK;
}

rg_status rg_host_facts_of(rg_host_facts *out)
{
  return rg_host_facts_from("", out);
}
