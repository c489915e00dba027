/* SPDX-License-Identifier: MIT */
/*
** What a recorder has seen: storages, told apart by their structs, which are held (not their
** memory), and the views of them that calls read or made.
*/
#ifndef RIDGE_GRAPH_SEEN_H
#define RIDGE_GRAPH_SEEN_H

#include "graph/ir.h"

enum { RG_SEEN_BUCKETS = 1024 };

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
  int32_t writer;  /* node that wrote it; RG_IR_NONE: none yet */
  int32_t wrote;   /* node that wrote over what was there; RG_IR_NONE: none yet */
  int32_t first;   /* value that no node makes; RG_IR_NONE: it is the recording's own */
  uint64_t counted;
  bool outside; /* it was there before */
  bool state;   /* and is written to */
} stored;

typedef struct rg_seen_storages {
  stored *bucket[RG_SEEN_BUCKETS];
} rg_seen_storages;

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
