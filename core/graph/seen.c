/* SPDX-License-Identifier: MIT */
/*
** A hash table of storages, each with a list of its views.
*/
#include "graph/seen.h"

enum { FIRST_BITS = 6, MOST_BITS = 24 };

static stored **bucket_of(const rg_seen_storages *all, const rg_storage *storage)
{
  uint64_t hash = (uint64_t)(uintptr_t)storage * 0x9e3779b97f4a7c15u;

  return &all->bucket[hash >> (64 - all->bits)];
}

stored *rg_seen_find(const rg_seen_storages *all, const rg_storage *storage)
{
  stored *s = all->bucket != NULL ? *bucket_of(all, storage) : NULL;

  while (s != NULL && s->storage != storage) {
    s = s->next;
  }
  return s;
}

/* Four times as many buckets, where there is memory for them. */
static void grow(rg_seen_storages *all)
{
  rg_seen_storages larger = { .bits = (int32_t)rg_max_i64(all->bits + 2, FIRST_BITS), .n = all->n };

  larger.bucket = rg_host_zeroed(((size_t)1 << larger.bits) * sizeof(stored *));
  if (larger.bucket == NULL) {
    return;
  }
  for (int32_t i = 0; i < rg_seen_buckets(all); i++) {
    for (stored *s = all->bucket[i]; s != NULL;) {
      stored *next = s->next;
      stored **bucket = bucket_of(&larger, s->storage);

      s->next = *bucket;
      *bucket = s;
      s = next;
    }
  }
  rg_host_free(all->bucket);
  *all = larger;
}

rg_status rg_seen_add(rg_seen_storages *all, rg_storage *storage, stored **out)
{
  if (all->n >= rg_seen_buckets(all) && all->bits < MOST_BITS) {
    grow(all);
  }
  stored *s = all->bucket != NULL ? rg_host_zeroed(sizeof(*s)) : NULL;

  if (s == NULL) {
    return rg_fail(RG_ENOMEM, "graph: no memory for a storage");
  }
  stored **bucket = bucket_of(all, storage);

  all->n++;
  rg_storage_hold(storage);
  s->storage = storage;
  s->wrote = RG_IR_NONE;
  s->first = RG_IR_NONE;
  s->counted = rg_storage_version(storage);
  s->next = *bucket;
  *bucket = s;
  *out = s;
  return RG_OK;
}

void rg_seen_end(rg_seen_storages *all)
{
  for (int32_t i = 0; i < rg_seen_buckets(all); i++) {
    for (stored *s = all->bucket[i]; s != NULL;) {
      stored *next = s->next;

      while (s->views != NULL) {
        seen *v = s->views;

        s->views = v->next;
        rg_host_free(v);
      }
      rg_storage_unhold(s->storage);
      rg_host_free(s);
      s = next;
    }
  }
  rg_host_free(all->bucket);
  *all = (rg_seen_storages){ 0 };
}

/* -- Views ------------------------------------------------------------------------------------- */

int64_t rg_seen_offset(const rg_tensor *x)
{
  return (char *)x->_data - (char *)x->_storage->block.data;
}

static bool is_view(const seen *v, const rg_tensor *x)
{
  bool same = v->offset == rg_seen_offset(x) && v->at._dtype == x->_dtype &&
              rg_tensor_shaped(&v->at, x->_shape, x->_ndim);

  for (int32_t i = 0; same && i < x->_ndim; i++) {
    same = x->_shape[i] <= 1 || v->at._stride[i] == x->_stride[i];
  }
  return same;
}

seen *rg_seen_view(const stored *s, const rg_tensor *x)
{
  seen *v = s->views;

  while (v != NULL && !is_view(v, x)) {
    v = v->next;
  }
  return v;
}

rg_status rg_seen_set(stored *s, const rg_tensor *x, int32_t value)
{
  seen *v = rg_seen_view(s, x);

  if (v == NULL) {
    v = rg_host_zeroed(sizeof(*v));
    if (v == NULL) {
      return rg_fail(RG_ENOMEM, "graph: no memory for a view");
    }
    v->at = rg_tensor_struct(x);
    v->offset = rg_seen_offset(x);
    v->next = s->views;
    s->views = v;
  }
  v->value = value;
  return RG_OK;
}
