/* SPDX-License-Identifier: MIT */
/*
** Structs that come and go with every call (a tensor, its storage, a node of the tape), kept for
** the next call.
**
** A collector frees them by thousands, long after they were made; malloc's own caches hold seven of
** a size, and beyond them it searches and joins free memory.  A list of our own costs a few
** nanoseconds: x + y on 64 floats takes a seventh less time with it.  Blocks of more than 1,032
** bytes (a node of the tape has 1 to 4 KB) malloc keeps in no cache: it joins each with its
** neighbours and cuts it out again.
*/
#include <stdlib.h>

#include "base/base.h"

enum {
  UNIT = 64,
  N_SMALL = 8,  /* structs up to 512 bytes */
  MOST = 16384, /* kept of one size: what one cycle of the collector may free at once */
  LARGE_UNIT = 512,
  N_LARGE = 15,         /* blocks up to 8 KB */
  MOST_BYTES = 1 << 20, /* kept of one size of those */
/* an address sanitizer sees nothing of structs that are used again without being freed */
#ifdef __SANITIZE_ADDRESS__
  ON = 0
#else
  ON = 1
#endif
};

typedef struct kept {
  struct kept *next;
} kept;

typedef struct list {
  kept *first;
  int32_t n;
} list;

/* Threads that come and go would leave their lists behind: only the one that loads the library,
** which is the one that runs Lua, keeps any. */
static _Thread_local list lists[N_SMALL + N_LARGE];
static _Thread_local bool runs_lua;

__attribute__((constructor)) static void begin(void)
{
  runs_lua = true;
}

/* The list for a size and that size rounded up; NULL for what is larger than any. */
static list *list_of(size_t bytes, size_t *rounded)
{
  size_t unit = bytes <= UNIT * N_SMALL ? UNIT : LARGE_UNIT;
  size_t units = (bytes + unit - 1) / unit;

  *rounded = units * unit;
  if (unit == UNIT) {
    return &lists[units - 1];
  }
  return units <= N_LARGE + 1 ? &lists[N_SMALL + units - 2] : NULL;
}

void *rg_struct_alloc(size_t bytes)
{
  size_t rounded;
  list *l = list_of(bytes, &rounded);
  kept *block = l != NULL ? l->first : NULL;

  if (block == NULL) {
    return rg_host_alloc(rounded);
  }
  if (rg_alloc_injected()) {
    return NULL;
  }
  l->first = block->next;
  l->n--;
  rg_prefetch_block(l->first, (int64_t)bytes);
  return block;
}

void rg_struct_free(void *block, size_t bytes)
{
  size_t rounded;
  list *l = list_of(bytes, &rounded);

  if (!ON || !runs_lua || block == NULL || l == NULL ||
      l->n >= (rounded <= UNIT * N_SMALL ? MOST : MOST_BYTES / (int32_t)rounded)) {
    rg_host_free(block);
    return;
  }
  ((kept *)block)->next = l->first;
  l->first = block;
  l->n++;
}

/* -- Counting them ------------------------------------------------------------------ */

void rg_tally_add(rg_tally *tally, int64_t n)
{
  if (runs_lua) {
    int64_t now = atomic_load_explicit(&tally->own, memory_order_relaxed);

    atomic_store_explicit(&tally->own, now + n, memory_order_relaxed);
  } else {
    atomic_fetch_add_explicit(&tally->others, n, memory_order_relaxed);
  }
}

int64_t rg_tally_read(const rg_tally *tally)
{
  return atomic_load(&tally->own) + atomic_load(&tally->others);
}
