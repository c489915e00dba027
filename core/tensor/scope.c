/* SPDX-License-Identifier: MIT */
/*
** Scopes: the deterministic cure for memory that a garbage collector cannot see (lua.md 1.1).  Each
** thread lists the tensors it creates inside a scope; when the scope ends, those that only Lua
** handles still know lose their storage.
*/
#include <stdlib.h>

#include "tensor/scope.h"

typedef struct entry {
  rg_tensor *tensor;
  int32_t depth;
} entry;

static _Thread_local entry *entries;
static _Thread_local int64_t n_entries;
static _Thread_local int64_t room;
static _Thread_local int32_t depth_now;

int32_t rg_scope_depth(void)
{
  return depth_now;
}

rg_status rg_scope_add(rg_tensor *x)
{
  if (n_entries == room) {
    int64_t more = room == 0 ? 64 : 2 * room;
    entry *grown = rg_alloc_injected() ? NULL : realloc(entries, (size_t)more * sizeof(*grown));

    if (grown == NULL) {
      return rg_fail(RG_ENOMEM, "scope: no memory for its list of %lld tensors", (long long)more);
    }
    entries = grown;
    room = more;
  }
  entries[n_entries++] = (entry){ rg_tensor_retain(x), depth_now };
  return RG_OK;
}

int32_t rg_scope_enter(void)
{
  return ++depth_now;
}

/* The scope's own reference goes; the storage too where only Lua handles are left. */
static void let_go(rg_tensor *x)
{
  int64_t others = __atomic_load_n(&x->_refs, __ATOMIC_ACQUIRE) - 1 -
                   __atomic_load_n(&x->_handles, __ATOMIC_ACQUIRE);

  if (others <= 0) {
    rg_tensor_drop(x);
  }
  rg_tensor_release(x);
}

void rg_scope_leave(int32_t depth)
{
  int64_t kept;
  int64_t i = n_entries;

  if (depth < 1 || depth > depth_now) {
    return;
  }
  while (i > 0 && entries[i - 1].depth >= depth) {
    i--;
  }
  /* entries moved outward by keep stand between those that end here */
  kept = i;
  for (; i < n_entries; i++) {
    if (entries[i].depth >= depth) {
      let_go(entries[i].tensor);
    } else {
      entries[kept++] = entries[i];
    }
  }
  n_entries = kept;
  depth_now = depth - 1;
  if (depth_now == 0) {
    /* outside every scope nothing is listed: what was kept belongs to its handles */
    for (i = 0; i < n_entries; i++) {
      rg_tensor_release(entries[i].tensor);
    }
    free(entries);
    entries = NULL;
    n_entries = 0;
    room = 0;
  }
}

void rg_scope_keep(rg_tensor *x)
{
  for (int64_t i = n_entries; i > 0; i--) {
    if (entries[i - 1].tensor == x) {
      entries[i - 1].depth = depth_now - 1;
      return;
    }
  }
}
