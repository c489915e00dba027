/* SPDX-License-Identifier: MIT */
/*
** Storage: reference-counted memory that tensors look into, a count of the writes to it, and the
** copies worked out from its contents (packed weights).
**
** Two counts: strong ones keep the memory, weak ones only the struct.  A plan's steps keep weak
** ones of its own buffers, which the plan's arena may hand to a later step as soon as nobody
** needs them.
*/
#include "tensor/tensor.h"

static void derived_release_all(rg_storage *storage)
{
  while (storage->derived != NULL) {
    rg_derived *next = storage->derived->next;

    storage->derived->release(storage->derived);
    storage->derived = next;
  }
}

/* A struct without memory. */
static rg_storage *storage_struct(int64_t bytes)
{
  rg_storage *storage = rg_struct_alloc(sizeof(*storage));

  if (storage == NULL) {
    (void)rg_fail(RG_ENOMEM, "tensor: no memory for its storage");
    return NULL;
  }
  atomic_init(&storage->strong, 1);
  atomic_init(&storage->weak, 1);
  atomic_init(&storage->version, 0);
  atomic_init(&storage->derived_lock, 0);
  atomic_init(&storage->saved, 0);
  storage->bytes = bytes;
  storage->derived = NULL;
  storage->tracking = NULL;
  storage->base = NULL;
  storage->source = NULL;
  return storage;
}

rg_status rg_storage_new(int32_t device, int64_t bytes, rg_storage **out)
{
  rg_storage *storage = storage_struct(bytes);
  rg_status status;

  if (storage == NULL) {
    return RG_ENOMEM;
  }
  status = rg_block_alloc(device, bytes, &storage->block);
  if (status != RG_OK) {
    rg_struct_free(storage, sizeof(*storage));
    return status;
  }
  *out = storage;
  return RG_OK;
}

rg_status rg_storage_from(rg_source *source, void *data, int64_t bytes, rg_storage **out)
{
  rg_storage *storage = storage_struct(bytes);

  if (storage == NULL) {
    source->release(source);
    return RG_ENOMEM;
  }
  storage->block = (rg_block){ .data = data, .bytes = bytes, .device = RG_CPU };
  storage->source = source;
  *out = storage;
  return RG_OK;
}

rg_status rg_storage_share(rg_storage *base, rg_storage **out)
{
  rg_storage *storage = storage_struct(base->bytes);

  if (storage == NULL) {
    return RG_ENOMEM;
  }
  base = rg_storage_root(base);
  rg_storage_retain(base);
  storage->base = base;
  storage->block = (rg_block){ .data = base->block.data,
                               .bytes = base->block.bytes,
                               .device = base->block.device,
                               .tag = base->block.tag };
  *out = storage;
  return RG_OK;
}

void rg_storage_retain(rg_storage *storage)
{
  atomic_fetch_add_explicit(&storage->strong, 1, memory_order_relaxed);
}

/* One less; whoever holds the last one is alone with the count. */
static int64_t drop_one(_Atomic int64_t *count)
{
  if (atomic_load_explicit(count, memory_order_acquire) == 1) {
    atomic_store_explicit(count, 0, memory_order_relaxed);
    return 0;
  }
  return atomic_fetch_sub(count, 1) - 1;
}

void rg_storage_release(rg_storage *storage)
{
  rg_tracking *tracking;
  int64_t left;

  if (storage == NULL) {
    return;
  }
  tracking = storage->tracking; /* read while the reference still holds the struct */
  left = drop_one(&storage->strong);
  if (left == 0) {
    derived_release_all(storage);
    if (storage->base != NULL) {
      rg_storage_release(storage->base);
    } else if (storage->source == NULL || !storage->source->owns) {
      rg_block_free(&storage->block);
    }
    if (storage->source != NULL) {
      storage->source->release(storage->source);
    }
    storage->tracking = NULL;
    if (tracking != NULL) {
      tracking->release(tracking);
    }
    rg_storage_unhold(storage);
  } else if (tracking != NULL &&
             left == atomic_load_explicit(&storage->saved, memory_order_relaxed)) {
    tracking->forget(tracking);
  }
}

void rg_storage_hold(rg_storage *storage)
{
  atomic_fetch_add_explicit(&storage->weak, 1, memory_order_relaxed);
}

void rg_storage_unhold(rg_storage *storage)
{
  if (storage != NULL && drop_one(&storage->weak) == 0) {
    derived_release_all(storage); /* made by a step after the last view had gone */
    rg_struct_free(storage, sizeof(*storage));
  }
}

/* -- Derived copies ------------------------------------------------------------- */

rg_derived *rg_derived_find(rg_storage *storage, const uint64_t key[4])
{
  uint64_t version = rg_storage_version(storage);
  rg_derived *stale = NULL;
  rg_derived *found = NULL;

  rg_spin_enter(&storage->derived_lock);
  for (rg_derived **link = &storage->derived; *link != NULL;) {
    rg_derived *d = *link;

    if (d->key[0] != key[0] || d->key[1] != key[1] || d->key[2] != key[2] || d->key[3] != key[3]) {
      link = &d->next;
    } else if (d->version == version) {
      found = d;
      break;
    } else {
      *link = d->next;
      d->next = stale;
      stale = d;
    }
  }
  rg_spin_leave(&storage->derived_lock);
  while (stale != NULL) {
    rg_derived *next = stale->next;

    stale->release(stale);
    stale = next;
  }
  return found;
}

void rg_derived_keep(rg_storage *storage, rg_derived *derived)
{
  rg_spin_enter(&storage->derived_lock);
  derived->next = storage->derived;
  storage->derived = derived;
  rg_spin_leave(&storage->derived_lock);
}

int64_t rg_derived_bytes(rg_storage *storage)
{
  uint64_t version = rg_storage_version(storage);
  int64_t bytes = 0;

  rg_spin_enter(&storage->derived_lock);
  for (const rg_derived *d = storage->derived; d != NULL; d = d->next) {
    bytes += d->version == version ? d->bytes : 0;
  }
  rg_spin_leave(&storage->derived_lock);
  return bytes;
}
