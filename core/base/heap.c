/* SPDX-License-Identifier: MIT */
/*
** Memory for structures of the host, and allocations that fail on request.
*/
#include <stdlib.h>

#include "base/base.h"

/* -- Failure injection --------------------------------------------------------- */

static _Atomic int64_t fail_in;

void rg_alloc_fail_at(int64_t n)
{
  atomic_store(&fail_in, n);
}

bool rg_alloc_injected(void)
{
  if (atomic_load_explicit(&fail_in, memory_order_relaxed) == 0) {
    return false;
  }
  return atomic_fetch_sub(&fail_in, 1) == 1;
}

__attribute__((constructor)) static void read_environment(void)
{
  const char *n = getenv("RIDGE_ALLOC_FAIL");

  if (n != NULL) {
    rg_alloc_fail_at(atoll(n));
  }
}

/* -- Host structures ------------------------------------------------------------ */

/*
** glibc hands the top of its heap back to the system as soon as 128 KB of it are free.  A training
** step frees its records at once: where they happen to lie at the top, every step gives the pages
** back and faults them in again, a fifth of a small step.  Freeing one large block, never touched,
** raises that bound to twice its size (mallopt(3), "dynamic mmap threshold"); mallopt itself would
** end the adjusting.  Who sets MALLOC_TRIM_THRESHOLD_ has ended it already and keeps what was set.
*/
__attribute__((constructor)) static void keep_the_top(void)
{
  void *volatile block = malloc(16 << 20);

  free(block);
}

void *rg_host_alloc(size_t bytes)
{
  return rg_alloc_injected() ? NULL : malloc(bytes > 0 ? bytes : 1);
}

void *rg_host_zeroed(size_t bytes)
{
  return rg_alloc_injected() ? NULL : calloc(1, bytes > 0 ? bytes : 1);
}

void rg_host_free(void *block)
{
  free(block);
}
