/* SPDX-License-Identifier: MIT */
/*
** What a recorder has seen: storages, told apart by their structs, which are held (not their
** memory), and the views of them that calls read or made.
*/
#ifndef RIDGE_GRAPH_SEEN_H
#define RIDGE_GRAPH_SEEN_H

#include "graph/ir.h"

/* A view of a storage, and its newest value. */
typedef struct seen {
  struct seen *next;
  rg_tensor at; /* type, shape, strides */
  int64_t offset;
  int32_t value;
} seen;

typedef struct stored {
  struct stored *next; /* in its bucket */
  rg_storage *storage;
  seen *views; /* the newest first */
  int32_t number;
  int32_t version; /* of the graph */
  int32_t wrote;   /* node that wrote over what was there last; RG_IR_NONE: none yet */
  int32_t first;   /* value that no node makes; RG_IR_NONE: it is the recording's own */
  int32_t output;  /* the first output in it, from 1; 0: none yet */
  uint64_t counted;
  bool outside; /* it was there before */
  bool state;   /* and is written to */
  bool placed;  /* a plan writes to it as it is, because of an output */
} stored;

/* All zero: none. */
typedef struct rg_seen_storages {
  stored **bucket; /* 2^bits of them; NULL: none yet */
  int32_t bits;
  int32_t n; /* storages */
} rg_seen_storages;

/* How many buckets there are to look into. */
static inline int32_t rg_seen_buckets(const rg_seen_storages *all)
{
  return all->bucket != NULL ? 1 << all->bits : 0;
}

/* NULL: it was not seen. */
stored *rg_seen_find(const rg_seen_storages *all, const rg_storage *storage);
rg_status rg_seen_add(rg_seen_storages *all, rg_storage *storage, stored **out) RG_CHECK;
void rg_seen_end(rg_seen_storages *all);

/* Where x begins in its storage, in bytes. */
int64_t rg_seen_offset(const rg_tensor *x);

/* NULL: this view was not seen. */
seen *rg_seen_view(const stored *s, const rg_tensor *x);

/* From now on x is this value. */
rg_status rg_seen_set(stored *s, const rg_tensor *x, int32_t value) RG_CHECK;

#endif
