/* SPDX-License-Identifier: MIT */
/*
** Parsers of what the kernel says about itself.  They take texts, not paths, so that tests feed
** them the texts of other machines; and each says whether it found its number, because a file that
** lacks it must lead to "not known" and not to a clean-looking zero.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/measure.h"

static const char *next_line(const char *line)
{
  const char *end = strchr(line, '\n');

  return end ? end + 1 : line + strlen(line);
}

static bool starts(const char *line, const char *key)
{
  return strncmp(line, key, strlen(key)) == 0;
}

bool rg_parse_pressure(const char *text, double *some_ns)
{
  for (const char *line = text; *line; line = next_line(line)) {
    const char *total;
    char *end;
    double microseconds;

    if (!starts(line, "some ")) {
      continue;
    }
    total = strstr(line, "total=");
    if (!total || total >= next_line(line)) {
      return false;
    }
    microseconds = strtod(total + 6, &end);
    if (end == total + 6) {
      return false;
    }
    *some_ns = microseconds * 1e3;
    return true;
  }
  return false;
}

bool rg_parse_stat(const char *text, const unsigned char *allowed, int32_t n_allowed, double hz,
                   double *busy_ns, double *steal_ns, double *n_cpus)
{
  double busy = 0;
  double steal = 0;
  int found = 0;

  for (const char *line = text; *line; line = next_line(line)) {
    long cpu = -1;
    /* user nice system idle iowait irq softirq steal: proc(5); guest time is inside user */
    double t[8] = { 0 };
    int n = sscanf(line, "cpu%ld %lf %lf %lf %lf %lf %lf %lf %lf", &cpu, &t[0], &t[1], &t[2], &t[3],
                   &t[4], &t[5], &t[6], &t[7]);

    if (n == 9 && cpu >= 0 && cpu < n_allowed && allowed[cpu] && line[3] != ' ') {
      busy += t[0] + t[1] + t[2] + t[5] + t[6];
      steal += t[7];
      found++;
    }
  }
  if (found == 0 || hz <= 0) {
    return false;
  }
  *busy_ns = busy / hz * 1e9;
  *steal_ns = steal / hz * 1e9;
  *n_cpus = found;
  return true;
}

bool rg_parse_key(const char *text, const char *key, double *value)
{
  const size_t length = strlen(key);

  for (const char *line = text; *line; line = next_line(line)) {
    const char *number = line + length;
    char *end;
    double found;

    if (!starts(line, key) || (*number != ' ' && *number != '\t' && *number != ':')) {
      continue;
    }
    number += *number == ':';
    found = strtod(number, &end);
    if (end == number || end > next_line(line)) {
      return false;
    }
    *value = found;
    return true;
  }
  return false;
}

bool rg_parse_cpu_max(const char *text, double *cpus)
{
  double quota;
  double period;

  if (starts(text, "max")) {
    *cpus = (double)INFINITY;
    return true;
  }
  if (sscanf(text, "%lf %lf", &quota, &period) != 2 || quota <= 0 || period <= 0) {
    return false;
  }
  *cpus = quota / period;
  return true;
}

/* True when the list "cpu,cpuacct" between begin and end holds the word "cpu". */
static bool has_cpu(const char *begin, const char *end)
{
  while (begin < end) {
    const char *comma = memchr(begin, ',', (size_t)(end - begin));
    const char *stop = comma ? comma : end;

    if (stop - begin == 3 && memcmp(begin, "cpu", 3) == 0) {
      return true;
    }
    begin = stop + 1;
  }
  return false;
}

bool rg_parse_cgroup(const char *text, char *out, size_t out_bytes, int32_t *version)
{
  const char *unified = NULL;

  for (const char *line = text; *line; line = next_line(line)) {
    const char *first = strchr(line, ':');
    const char *second = first ? strchr(first + 1, ':') : NULL;
    size_t length;
    int written;

    if (!second || second > next_line(line)) {
      continue;
    }
    length = strcspn(second + 1, "\n");
    length -= length > 0 && second[length] == '/';
    if (second == first + 1) {
      unified = second + 1;
      continue;
    }
    if (!has_cpu(first + 1, second)) {
      continue;
    }
    /* version 1: a folder for each set of controllers */
    written = snprintf(out, out_bytes, "/%.*s%.*s", (int)(second - first - 1), first + 1,
                       (int)length, second + 1);
    if (written < 0 || (size_t)written >= out_bytes) {
      return false;
    }
    *version = 1;
    return true;
  }
  if (unified) {
    size_t length = strcspn(unified, "\n");

    length -= length > 0 && unified[length - 1] == '/';
    if (length >= out_bytes) {
      return false;
    }
    memcpy(out, unified, length);
    out[length] = 0;
    *version = 2;
    return true;
  }
  return false;
}

bool rg_parse_choice(const char *text, char *out, size_t out_bytes)
{
  const char *begin = strchr(text, '[');
  const char *end = begin ? strchr(begin, ']') : NULL;

  if (!end || (size_t)(end - begin) > out_bytes) {
    return false;
  }
  memcpy(out, begin + 1, (size_t)(end - begin - 1));
  out[end - begin - 1] = 0;
  return true;
}

bool rg_parse_mhz(const char *text, double *mhz)
{
  double sum = 0;
  int found = 0;

  for (const char *line = text; *line; line = next_line(line)) {
    double value;

    if (sscanf(line, "cpu MHz : %lf", &value) == 1) {
      sum += value;
      found++;
    }
  }
  if (found == 0) {
    return false;
  }
  *mhz = sum / found;
  return true;
}

void rg_format_cpuset(const unsigned char *allowed, int32_t n_allowed, char *out, size_t out_bytes)
{
  size_t used = 0;

  out[0] = 0;
  for (int32_t i = 0; i < n_allowed; i++) {
    char range[32];
    int32_t last = i;
    int length;

    if (!allowed[i]) {
      continue;
    }
    while (last + 1 < n_allowed && allowed[last + 1]) {
      last++;
    }
    length = last > i
                 ? snprintf(range, sizeof(range), "%s%d-%d", used ? "," : "", (int)i, (int)last)
                 : snprintf(range, sizeof(range), "%s%d", used ? "," : "", (int)i);
    /* room for this one, the dots and the end */
    if (used + (size_t)length + 4 > out_bytes) {
      memcpy(out + used, "...", 4);
      return;
    }
    memcpy(out + used, range, (size_t)length + 1);
    used += (size_t)length;
    i = last;
  }
}
