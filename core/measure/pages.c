/* SPDX-License-Identifier: MIT */
/*
** Memory for measuring, straight from the system.  Huge pages are asked for because a ceiling is
** meant to show the memory and not the page walks (on the development guest both kinds were
** equal within noise, so a refusal changes little).
*/
#include <sys/mman.h>

#include "measure/measure.h"

void *rg_measure_map(int64_t bytes)
{
  void *data;

  if (rg_alloc_injected()) {
    return NULL;
  }
  data = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return NULL;
  }
  (void)madvise(data, (size_t)bytes, MADV_HUGEPAGE);
  return data;
}

void rg_measure_unmap(void *data, int64_t bytes)
{
  if (data) {
    (void)munmap(data, (size_t)bytes);
  }
}
