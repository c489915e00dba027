/* SPDX-License-Identifier: MIT */
/*
** The references that Lua's handles hold.
**
** A finalizer for every handle costs LuaJIT 157 ns: an entry in its table of finalizers, a
** protected call, and a second cycle before the handle itself is free.  A slot in a weak table
** costs ten, so the dead handles of a cycle are found there together and released in one call.
*/
#include "tensor/tensor.h"

rg_status rg_handles_grow(rg_handles *handles, int32_t n)
{
  rg_tensor **tensors;
  int32_t *slots;

  if (n <= handles->_n) {
    return rg_fail(RG_EARG, "tensor: %d handles are not more than %d", n, handles->_n);
  }
  tensors = rg_host_zeroed(((size_t)n + 1) * sizeof(rg_tensor *));
  slots = rg_host_alloc((size_t)n * sizeof(int32_t));
  if (tensors == NULL || slots == NULL) {
    rg_host_free(tensors);
    rg_host_free(slots);
    return rg_fail(RG_ENOMEM, "tensor: no memory for %d handles", n);
  }
  for (int32_t i = 1; i <= handles->_n; i++) {
    tensors[i] = handles->_tensors[i];
  }
  for (int32_t i = 0; i < handles->_n_free; i++) {
    slots[i] = handles->_free[i];
  }
  for (int32_t slot = n; slot > handles->_n; slot--) { /* the lowest is taken first */
    slots[handles->_n_free++] = slot;
  }
  rg_host_free(handles->_tensors);
  rg_host_free(handles->_free);
  handles->_tensors = tensors;
  handles->_free = slots;
  handles->_n = n;
  return RG_OK;
}

/* A handle's reference goes; the last one's is not counted down, because the tensor goes too. */
static void release(rg_tensor *x)
{
  if (x != NULL) {
    if (__atomic_load_n(&x->_refs, __ATOMIC_RELAXED) > 1) {
      __atomic_fetch_sub(&x->_handles, 1, __ATOMIC_RELAXED);
    }
    rg_tensor_release(x);
  }
}

/* Fetch what releasing the tensor in a slot begins with, which was last touched long ago. */
static void prefetch(const rg_handles *handles, int32_t i, bool storage)
{
  const rg_tensor *x = i < handles->_n_free ? handles->_tensors[handles->_free[i]] : NULL;

  if (x != NULL && storage) {
    __builtin_prefetch(x->_storage, 1);
  } else if (x != NULL) {
    __builtin_prefetch(&x->_storage, 1);
  }
}

void rg_handles_reap(rg_handles *handles, int32_t n)
{
  rg_memory_collects = true;
  for (int32_t i = handles->_n_free - n; i < handles->_n_free; i++) {
    int32_t slot = handles->_free[i];
    rg_tensor *x = handles->_tensors[slot];

    prefetch(handles, i + 8, false);
    prefetch(handles, i + 4, true);
    handles->_tensors[slot] = NULL;
    release(x);
  }
  rg_memory_collects = false;
}

void rg_handles_drop(rg_handles *handles, rg_ref *ref)
{
  if (ref != NULL && ref->_t != NULL) {
    rg_tensor *x = ref->_t;

    ref->_t = NULL;
    handles->_tensors[ref->_slot] = NULL;
    release(x);
  }
}

void rg_handles_close(rg_handles *handles)
{
  for (int32_t slot = 1; slot <= handles->_n; slot++) {
    release(handles->_tensors[slot]);
  }
  rg_host_free(handles->_tensors);
  rg_host_free(handles->_free);
  *handles = (rg_handles){ 0 };
}
