/* SPDX-License-Identifier: MIT */
/*
** The recorder: values and nodes of a graph, from the calls of this thread while a plan is
** captured.
*/
#ifndef RIDGE_GRAPH_RECORD_H
#define RIDGE_GRAPH_RECORD_H

#include "graph/ir.h"
#include "graph/seen.h"

/* rg_record_begin and what belongs to it: ridge/ir.h */

struct rg_recording {
  rg_graph *g;
  rg_seen_storages storages;
  const rg_arena *arena; /* of the capture: what it gives is the recording's own */
  bool in_place;         /* plans write what is returned into the tensors that were */
  rg_status status;      /* not RG_OK: there can be no graph, and nothing more is recorded */
  char why[160];
};

/* This thread's; NULL: nothing is recorded. */
rg_recording *rg_recording_now(void);

/* Is something recorded, and x a tensor?  The error says why not. */
rg_status rg_recording_check(const rg_tensor *x) RG_CHECK;

/* Is it memory that came with the recording? */
bool rg_recording_owns(const rg_recording *r, const rg_storage *storage);

/* The value that x is now.  RG_ECAPTURE where what wrote to it was no call. */
rg_status rg_recording_value(rg_recording *r, const rg_tensor *x, int32_t *out) RG_CHECK;

#endif
