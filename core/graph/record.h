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

struct step;

/* A call that drew numbers: what a part that is computed again draws in its second run. */
typedef struct rg_recorded_draw {
  int32_t node;            /* of its first run: a draw that repeats one stands for that */
  int32_t own;             /* node of the call */
  const struct step *step; /* the same of the plan that is captured */
  rg_draw draw;
  int64_t n;
} rg_recorded_draw;

struct rg_recording {
  rg_graph *g;
  rg_seen_storages storages;
  rg_recorded_draw *draws;
  int32_t n_draws;
  int32_t room;          /* for draws */
  int64_t number;        /* recordings are numbered from 1 */
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

/* Is what runs computed again? */
bool rg_recording_repeats(void);

/* A node of a call that drew numbers: whose it repeats, where it is computed again.  RG_ECAPTURE
** where its first run did not draw the same; RG_ENOMEM. */
rg_status rg_recording_drew(rg_recording *r, const rg_call *call, int32_t node) RG_CHECK;

/* The body of a compound, a node, failed: what is computed again repeats none of its draws.  Its
** nodes stay. */
void rg_recording_undrew(rg_recording *r, int32_t node);

/* The value that x is now.  RG_ECAPTURE where what wrote to it was no call. */
rg_status rg_recording_value(rg_recording *r, const rg_tensor *x, int32_t *out) RG_CHECK;

#endif
