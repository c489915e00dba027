/* SPDX-License-Identifier: MIT */
/*
** Memory from the system: pages of the host, a device's memory by its driver.
*/
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/base.h"

enum {
  MAP_FROM = 1 << 20, /* blocks from here on are mapped, not malloc'd */
  HUGE_PAGE = 2 << 20,
  ASK_SYSTEM_FROM = 64 << 20 /* fresh blocks from here on are compared with what is available */
};

static int64_t mapped_bytes(int64_t bytes)
{
  return (bytes + HUGE_PAGE - 1) & ~(int64_t)(HUGE_PAGE - 1);
}

/* Bytes the system says it can still give; INT64_MAX where it does not say. */
static int64_t available_bytes(void)
{
  FILE *file = fopen("/proc/meminfo", "re");
  char line[128];
  long long kb = -1;

  while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
    if (sscanf(line, "MemAvailable: %lld kB", &kb) == 1) {
      break;
    }
  }
  if (file != NULL) {
    fclose(file);
  }
  return kb < 0 ? INT64_MAX : (int64_t)kb * 1024;
}

/*
** The system hands out more than it has and kills later: a fresh large block is refused here when
** it does not fit into what is available.
*/
static void *host_take(int64_t bytes)
{
  char *base;
  int64_t size = mapped_bytes(bytes);
  int64_t skip;

  if (bytes < MAP_FROM) {
    return aligned_alloc(64, (size_t)bytes);
  }
  if (bytes >= ASK_SYSTEM_FROM && bytes > available_bytes()) {
    return NULL;
  }
  base = mmap(NULL, (size_t)(size + HUGE_PAGE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
              -1, 0);
  if (base == MAP_FAILED) {
    return NULL;
  }
  /* keep the aligned part, so that the kernel can back all of it with huge pages */
  skip = (int64_t)(-(intptr_t)base & (HUGE_PAGE - 1));
  if (skip > 0) {
    munmap(base, (size_t)skip);
  }
  if (skip < HUGE_PAGE) {
    munmap(base + skip + size, (size_t)(HUGE_PAGE - skip));
  }
  madvise(base + skip, (size_t)size, MADV_HUGEPAGE);
  return base + skip;
}

void *rg_system_take(int32_t device, int64_t bytes)
{
  void *data = NULL;
  rg_status status;

  if (device == RG_CPU_DEVICE) {
    return host_take(bytes);
  }
  status = device == RG_PINNED ? rg_driver_that_pins()->pin(bytes, &data)
                               : rg_driver_of(device)->take(device, bytes, &data);
  return status == RG_OK ? data : NULL;
}

void rg_system_give(int32_t device, void *data, int64_t bytes)
{
  if (device == RG_PINNED) {
    rg_driver_that_pins()->unpin(data);
  } else if (device != RG_CPU_DEVICE) {
    rg_driver_of(device)->give(device, data);
  } else if (bytes < MAP_FROM) {
    free(data);
  } else {
    munmap(data, (size_t)mapped_bytes(bytes));
  }
}
