/* SPDX-License-Identifier: MIT */
/*
** How much memory the system can still give to this process: what the machine has available, and
** what each control group leaves that the process is in (Linux's documentation: proc(5),
** admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst).  A request beyond that is granted by the system
** all the same, and the process is killed when it writes to what it got.
**
** Pages of files count as available: mapped weights can be read again.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

enum { PATH_ROOM = 4352, LINE_ROOM = 4200 };

/* The files of one version of control groups. */
typedef struct group_files {
  const char *mount;
  const char *limit;
  const char *usage;
  const char *inactive; /* pages of files in memory.stat */
  const char *active;
} group_files;

static const group_files v1 = { "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                "memory.usage_in_bytes", "total_inactive_file",
                                "total_active_file" };
static const group_files v2 = { "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file",
                                "active_file" };

/* The number behind a name at the beginning of a line of a file; the whole file where name is "".
** INT64_MAX where there is none, as "max" says that nothing is limited. */
static int64_t number_in(const char *path, const char *name)
{
  FILE *file = fopen(path, "re");
  char line[128];
  size_t length = strlen(name);
  int64_t found = INT64_MAX;

  while (file != NULL && found == INT64_MAX && fgets(line, sizeof(line), file) != NULL) {
    if (strncmp(line, name, length) == 0) {
      char *from = line + length + strspn(line + length, ": \t");
      char *end = from;
      long long n = strtoll(from, &end, 10);

      found = end != from && n >= 0 ? (int64_t)n : INT64_MAX;
    }
  }
  if (file != NULL) {
    fclose(file);
  }
  return found;
}

/* What a control group leaves; INT64_MAX where it is not limited, or is none. */
static int64_t left_in(const group_files *files, const char *folder)
{
  char path[PATH_ROOM];
  int64_t limit;
  int64_t usage;
  int64_t cached = 0;

  snprintf(path, sizeof(path), "%.4200s/%s", folder, files->limit);
  limit = number_in(path, "");
  if (limit == INT64_MAX) {
    return INT64_MAX;
  }
  snprintf(path, sizeof(path), "%.4200s/%s", folder, files->usage);
  usage = number_in(path, "");
  if (usage == INT64_MAX) {
    return INT64_MAX;
  }
  snprintf(path, sizeof(path), "%.4200s/memory.stat", folder);
  for (int i = 0; i < 2; i++) {
    int64_t n = number_in(path, i == 0 ? files->inactive : files->active);

    cached += n == INT64_MAX ? 0 : n;
  }
  return limit - rg_max_i64(0, usage - cached);
}

/* The least that a group and those around it leave.  Where the process sees its own group as the
** root of all, the folders of its path are not there, and those above are looked at. */
static int64_t least_left(const group_files *files, const char *root, char *group)
{
  char folder[PATH_ROOM];
  int64_t least = INT64_MAX;

  for (;;) {
    char *slash = strrchr(group, '/');

    snprintf(folder, sizeof(folder), "%.100s%s%.4100s", root, files->mount, group);
    least = rg_min_i64(least, left_in(files, folder));
    if (slash == NULL) {
      return least;
    }
    *slash = 0;
  }
}

/* Does a list of names with commas have "memory"? */
static bool has_memory(const char *names)
{
  const char *at = strstr(names, "memory");

  return at != NULL && (at == names || at[-1] == ',') && (at[6] == 0 || at[6] == ',');
}

static int64_t left_in_groups(const char *root)
{
  char line[LINE_ROOM];
  int64_t least = INT64_MAX;
  FILE *file;

  snprintf(line, sizeof(line), "%.100s/proc/self/cgroup", root);
  file = fopen(line, "re");
  while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
    char *names = strchr(line, ':'); /* "4:memory:/group", or "0::/group" of version 2 */
    char *group = names != NULL ? strchr(names + 1, ':') : NULL;

    if (group != NULL) {
      *names++ = 0;
      *group++ = 0;
      group[strcspn(group, "\n")] = 0;
      if (names[0] == 0 || has_memory(names)) {
        least = rg_min_i64(least, least_left(names[0] == 0 ? &v2 : &v1, root, group));
      }
    }
  }
  if (file != NULL) {
    fclose(file);
  }
  return least;
}

int64_t rg_memory_available(const char *root)
{
  char path[PATH_ROOM];
  int64_t kb;
  int64_t machine;

  snprintf(path, sizeof(path), "%.100s/proc/meminfo", root);
  kb = number_in(path, "MemAvailable:");
  machine = kb > INT64_MAX / 1024 ? INT64_MAX : kb * 1024;
  return rg_min_i64(machine, left_in_groups(root));
}

int64_t rg_memory_resident(const char *root)
{
  char path[PATH_ROOM];
  long long pages = -1;
  long long shared = 0;
  FILE *file;

  snprintf(path, sizeof(path), "%.100s/proc/self/statm", root);
  file = fopen(path, "re");
  if (file != NULL) {
    if (fscanf(file, "%*d %lld %lld", &pages, &shared) < 2) {
      pages = -1;
    }
    fclose(file);
  }
  return pages < shared ? -1 : (int64_t)(pages - shared) * (int64_t)sysconf(_SC_PAGESIZE);
}
