/* SPDX-License-Identifier: MIT */
/*
** Scopes: the deterministic cure for memory that a garbage collector cannot see
** (docs/why/architecture.md).  Each thread lists the tensors it creates inside a scope; when the
** scope ends, those that only Lua handles still know lose their storage.
**
** The list is ordered by depth, so what ends is always its tail.  Tensors released before their
** scope ends leave a gap, and gaps are closed when the list is full.
*/
#include <stdlib.h>

#include "tensor/scope.h"

typedef struct entry {
  rg_tensor *tensor; /* NULL: a gap */
  int32_t depth;
} entry;

static _Thread_local entry *entries;
static _Thread_local int32_t n_entries;
static _Thread_local int32_t n_gaps;
static _Thread_local int32_t room;
static _Thread_local int32_t depth_now;

int32_t rg_scope_depth(void)
{
  return depth_now;
}

int32_t rg_scope_enter(void)
{
  return ++depth_now;
}

/* -- The list -------------------------------------------------------------------- */

static void set_place(rg_tensor *x, int32_t place)
{
  __atomic_store_n(&x->_place, place, __ATOMIC_RELAXED);
}

/* Is x what stands at this place of this thread's list? */
static bool is_at(const rg_tensor *x, int32_t place)
{
  return place > 0 && place <= n_entries && entries[place - 1].tensor == x;
}

static void put(int32_t at, rg_tensor *x, int32_t depth)
{
  entries[at] = (entry){ x, depth };
  if (x != NULL) {
    set_place(x, at + 1);
  }
}

static void close_gaps(void)
{
  int32_t n = 0;

  for (int32_t i = 0; i < n_entries; i++) {
    if (entries[i].tensor != NULL) {
      put(n++, entries[i].tensor, entries[i].depth);
    }
  }
  n_entries = n;
  n_gaps = 0;
}

static rg_status grow(int32_t wanted)
{
  int32_t least = wanted > 64 ? wanted : 64;
  int32_t more = room > least / 2 ? 2 * room : least;
  entry *grown = NULL;

  if (room < INT32_MAX / 2 && !rg_alloc_injected()) {
    grown = realloc(entries, (size_t)more * sizeof(*grown));
  }
  if (grown == NULL) {
    return rg_fail(RG_ENOMEM, "scope: no memory for its list of %d tensors", more);
  }
  entries = grown;
  room = more;
  return RG_OK;
}

rg_status rg_scope_add(rg_tensor *x)
{
  if (n_entries == room) {
    if (n_gaps > room / 2) {
      close_gaps();
    } else {
      RG_TRY(grow(0));
    }
  }
  put(n_entries++, rg_tensor_retain(x), depth_now);
  return RG_OK;
}

bool rg_scope_forget(rg_tensor *x, int32_t place)
{
  if (!is_at(x, place)) {
    return false;
  }
  set_place(x, 0);
  entries[place - 1].tensor = NULL;
  n_gaps++;
  while (n_entries > 0 && entries[n_entries - 1].tensor == NULL) {
    n_entries--;
    n_gaps--;
  }
  return true;
}

/* -- The end of a scope ---------------------------------------------------------- */

/* The list's own reference goes; the storage too where only Lua handles are left. */
static void let_go(rg_tensor *x)
{
  int64_t others = __atomic_load_n(&x->_refs, __ATOMIC_ACQUIRE) - 1 -
                   __atomic_load_n(&x->_handles, __ATOMIC_ACQUIRE);

  set_place(x, 0);
  if (others <= 0) {
    rg_tensor_drop(x);
  }
  rg_tensor_release(x);
}

void rg_scope_leave(int32_t depth)
{
  if (depth < 1 || depth > depth_now) {
    return;
  }
  while (n_entries > 0 && entries[n_entries - 1].depth >= depth) {
    rg_tensor *x = entries[--n_entries].tensor;

    if (x != NULL) {
      let_go(x);
    } else {
      n_gaps--;
    }
  }
  depth_now = depth - 1;
  if (n_entries == 0) {
    free(entries);
    entries = NULL;
    room = 0;
  }
}

/* -- Set aside for a while -------------------------------------------------------- */

struct rg_parked {
  int32_t n;
  rg_tensor *tensor[]; /* references of the list, in its order */
};

rg_status rg_scope_park(rg_parked **out)
{
  rg_parked *parked;
  int32_t first = n_entries;
  int32_t n = 0;

  *out = NULL;
  if (depth_now == 0) {
    return RG_OK;
  }
  while (first > 0 && entries[first - 1].depth >= depth_now) {
    first--;
    n += entries[first].tensor != NULL;
  }
  parked = rg_host_alloc(sizeof(*parked) + (size_t)n * sizeof(rg_tensor *));
  if (parked == NULL) {
    return rg_fail(RG_ENOMEM, "scope: no memory to set %d tensors aside", n);
  }
  parked->n = 0;
  for (int32_t i = first; i < n_entries; i++) {
    rg_tensor *x = entries[i].tensor;

    if (x != NULL) {
      set_place(x, 0);
      parked->tensor[parked->n++] = x;
    } else {
      n_gaps--;
    }
  }
  n_entries = first;
  depth_now--;
  *out = parked;
  return RG_OK;
}

rg_status rg_scope_go_on(rg_parked *parked, int32_t *depth)
{
  if (room - n_entries < parked->n) {
    RG_TRY(grow(n_entries + parked->n));
  }
  depth_now++;
  for (int32_t i = 0; i < parked->n; i++) {
    put(n_entries++, parked->tensor[i], depth_now);
  }
  rg_host_free(parked);
  *depth = depth_now;
  return RG_OK;
}

void rg_scope_forget_parked(rg_parked *parked)
{
  for (int32_t i = 0; parked != NULL && i < parked->n; i++) {
    rg_tensor_release(parked->tensor[i]);
  }
  rg_host_free(parked);
}

/* -- Keeping --------------------------------------------------------------------- */

void rg_scope_keep(rg_tensor *x)
{
  int32_t at;
  int32_t first;

  if (x == NULL || !is_at(x, rg_scope_place(x))) {
    return;
  }
  at = rg_scope_place(x) - 1;
  if (entries[at].depth == 1) { /* outside every scope it belongs to its handles alone */
    (void)rg_scope_forget(x, at + 1);
    rg_tensor_release(x);
    return;
  }
  /* the first of its own depth may become the last of the depth below */
  first = at;
  while (first > 0 && entries[first - 1].depth == entries[at].depth) {
    first--;
  }
  put(at, entries[first].tensor, entries[first].depth);
  put(first, x, entries[first].depth - 1);
}
