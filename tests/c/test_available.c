/* SPDX-License-Identifier: MIT */
/*
** How much memory the system can still give: as files of a made-up system say it, of both versions
** of control groups; and that what does not fit is refused before it is taken.
*/
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/layout.h"
#include "tap.h"

enum { MB = 1 << 20 };

static char root[] = "/tmp/ridge-available-XXXXXX";

/* A file below the root with the folders that it lies in. */
static void put(const char *name, const char *text)
{
  char path[512];
  FILE *file;

  snprintf(path, sizeof(path), "%s%s", root, name);
  for (char *at = path + sizeof(root); (at = strchr(at, '/')) != NULL; at++) {
    *at = 0;
    (void)mkdir(path, 0700);
    *at = '/';
  }
  file = fopen(path, "w");
  if (file != NULL) {
    fputs(text, file);
    fclose(file);
  }
}

/* Another system, of which nothing is known. */
static void clear(void)
{
  char command[256];

  snprintf(command, sizeof(command), "rm -rf '%s'", root);
  ok(system(command) == 0 && mkdir(root, 0700) == 0, "an empty root");
}

static void put_machine(int mb)
{
  char text[128];

  snprintf(text, sizeof(text), "MemTotal: 9999999 kB\nMemFree: 1 kB\nMemAvailable:   %d kB\n",
           mb * 1024);
  put("/proc/meminfo", text);
}

static void test_machine(void)
{
  clear();
  ok(rg_memory_available(root) == INT64_MAX, "where nothing says, nothing is refused");
  ok(rg_memory_resident(root) == -1, "nor is it known what was touched");
  put_machine(300);
  is_int(rg_memory_available(root), (int64_t)300 * MB, "what the machine has available");
  put("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable: many\n");
  ok(rg_memory_available(root) == INT64_MAX, "no number is none");
  put("/proc/self/statm", "1000 70 20 1 0 3 0\n");
  is_int(rg_memory_resident(root), (int64_t)50 * sysconf(_SC_PAGESIZE), "pages of its own");
}

static void test_version_2(void)
{
  clear();
  put_machine(5000);
  put("/proc/self/cgroup", "0::/a/b\n");
  is_int(rg_memory_available(root), (int64_t)5000 * MB, "a group that is not there");
  put("/sys/fs/cgroup/a/b/memory.max", "max\n");
  put("/sys/fs/cgroup/a/b/memory.current", "104857600\n");
  is_int(rg_memory_available(root), (int64_t)5000 * MB, "one without a limit");
  put("/sys/fs/cgroup/a/memory.max", "1048576000\n");
  put("/sys/fs/cgroup/a/memory.current", "419430400\n");
  is_int(rg_memory_available(root), (int64_t)600 * MB, "one around it has a limit");
  put("/sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 52428800\nactive_file 10485760\n");
  is_int(rg_memory_available(root), (int64_t)660 * MB, "pages of files can go");
  put("/sys/fs/cgroup/a/b/memory.max", "209715200\n");
  is_int(rg_memory_available(root), (int64_t)100 * MB, "its own is less");
  put("/sys/fs/cgroup/a/b/memory.max", "1048576\n");
  is_int(rg_memory_available(root), (int64_t)-99 * MB, "it is beyond its limit");
  put("/proc/self/cgroup", "0::/\n");
  put("/sys/fs/cgroup/memory.max", "314572800\n");
  put("/sys/fs/cgroup/memory.current", "0\n");
  is_int(rg_memory_available(root), (int64_t)300 * MB, "a container's root is its group");
}

static void test_version_1(void)
{
  clear();
  put_machine(5000);
  put("/proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/host/x\n3:memory_other:/y\n0::/\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "104857600\n");
  is_int(rg_memory_available(root), (int64_t)5000 * MB, "version 1 without a limit");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "524288000\n");
  is_int(rg_memory_available(root), (int64_t)400 * MB, "the folder of its path is not there");
  put("/sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 10485760\n");
  is_int(rg_memory_available(root), (int64_t)410 * MB, "pages of files can go");
  put("/sys/fs/cgroup/memory/host/x/memory.limit_in_bytes", "157286400\n");
  put("/sys/fs/cgroup/memory/host/x/memory.usage_in_bytes", "52428800\n");
  is_int(rg_memory_available(root), (int64_t)100 * MB, "its own is less");
  put("/sys/fs/cgroup/memory/y/memory.limit_in_bytes", "1\n");
  put("/sys/fs/cgroup/memory/y/memory.usage_in_bytes", "1\n");
  is_int(rg_memory_available(root), (int64_t)100 * MB, "another controller is none");
}

static void test_long(void)
{
  char text[4300];

  clear();
  put_machine(70);
  memset(text, 'a', sizeof(text));
  memcpy(text, "0::/", 4);
  text[sizeof(text) - 1] = 0;
  put("/proc/self/cgroup", text);
  is_int(rg_memory_available(root), (int64_t)70 * MB, "a path longer than any");
}

/* Take blocks of so many bytes until one is refused; all go back. Returns how many were had. */
static int had(int64_t bytes, bool touched)
{
  rg_block blocks[64] = { 0 };
  int n = 0;

  while (n < 64 && rg_block_alloc(RG_CPU_DEVICE, bytes, &blocks[n]) == RG_OK) {
    if (touched) {
      memset(blocks[n].data, 1, (size_t)bytes);
    }
    n++;
  }
  for (int i = 0; i < n; i++) {
    rg_block_free(&blocks[i]);
  }
  (void)rg_memory_trim(RG_CPU_DEVICE);
  return n;
}

/* A real count of what was touched, below the made-up root. */
static void put_statm(void)
{
  char path[512];

  snprintf(path, sizeof(path), "%s/proc/self", root);
  (void)mkdir(path, 0700);
  snprintf(path, sizeof(path), "%s/proc/self/statm", root);
  ok(symlink("/proc/self/statm", path) == 0, "a link to the true statm");
}

static void test_refused(void)
{
  rg_block block = { 0 };
  rg_slots layout = { 0 };
  rg_arena *arena = NULL;
  int n;

  clear();
  put_machine(1000);
  put_statm();
  rg_system_root(root);
  (void)rg_memory_trim(RG_CPU_DEVICE);
  is_status(rg_block_alloc(RG_CPU_DEVICE, (int64_t)1100 * MB, &block), RG_ENOMEM,
            "more than there is");
  ok(strstr(rg_error_message(), "the system has no 1100 MB left") != NULL, "said in a sentence");
  is_status(rg_block_alloc(RG_CPU_DEVICE, (int64_t)2 * MB, &block), RG_OK,
            "little is had behind it");
  rg_block_free(&block);
  n = had((int64_t)48 * MB, false);
  ok(n >= 15 && n <= 20, "blocks too small to be asked for, together: those not touched count");
  is_int(had((int64_t)24 * MB, true), 64, "of those that were touched the system knows");
  put_machine(50);
  is_int(had((int64_t)32 * MB, true), 1, "and says when it has no more");
  put_machine(300);
  is_status(rg_block_alloc(RG_CPU_DEVICE, (int64_t)160 * MB, &block), RG_OK,
            "a block, not touched");
  rg_block_free(&block);
  is_int(rg_arena_new(&arena), RG_OK, "an arena");
  layout.total = (int64_t)128 * MB;
  is_status(rg_arena_obey(arena, &layout), RG_OK, "a plan gets it when what is cached goes back");
  rg_arena_close(arena);
  rg_system_root("");
}

int main(void)
{
  if (mkdtemp(root) == NULL) {
    return 1;
  }
  test_machine();
  test_version_2();
  test_version_1();
  test_long();
  test_refused();
  clear();
  rmdir(root);
  return done();
}
