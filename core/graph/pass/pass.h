/* SPDX-License-Identifier: MIT */
/*
** Passes: functions that change a graph and not what it computes.
**
** Each runs on a graph that nobody else looks at (rg_graph_optimize and graph:optimize copy first),
** so that it may stop halfway.  What no pass may do: move a read across a write of its storage,
** remove or merge draws, move a node to another device, merge what runs under other modes, merge
** what is recomputed with its first run, or make one memory of two where somebody may still write.
*/
#ifndef RIDGE_GRAPH_PASS_PASS_H
#define RIDGE_GRAPH_PASS_PASS_H

#include "graph/ir.h"

rg_status rg_pass_arithmetic(rg_graph *g) RG_CHECK;
rg_status rg_pass_constant(rg_graph *g) RG_CHECK;
rg_status rg_pass_batch_norm(rg_graph *g) RG_CHECK;
rg_status rg_pass_recover(rg_graph *g) RG_CHECK;
rg_status rg_pass_views(rg_graph *g) RG_CHECK;
rg_status rg_pass_concat(rg_graph *g) RG_CHECK;
rg_status rg_pass_pad(rg_graph *g) RG_CHECK;
rg_status rg_pass_reduction(rg_graph *g) RG_CHECK;
rg_status rg_pass_argmax(rg_graph *g) RG_CHECK;
rg_status rg_pass_affine(rg_graph *g) RG_CHECK;
rg_status rg_pass_epilogue(rg_graph *g) RG_CHECK;
rg_status rg_pass_residual(rg_graph *g) RG_CHECK;
rg_status rg_pass_channels_last(rg_graph *g) RG_CHECK;
rg_status rg_pass_common(rg_graph *g) RG_CHECK;
rg_status rg_pass_dead(rg_graph *g) RG_CHECK;
rg_status rg_pass_fuse(rg_graph *g) RG_CHECK;

/* -- Making one value of two (merge.c) ------------------------------------------------------- */

/* What a pass that merges values knows of storages, and which nodes are to go at its end. */
typedef struct rg_merge {
  rg_graph *g;
  int32_t *into;      /* by storage: the one that its values lie in now; -1: itself */
  int32_t *more;      /* by storage: what is added to versions then */
  int32_t *last;      /* by storage: its last version */
  int32_t *n_outputs; /* by storage: outputs of the graph that lie in it */
  bool *outside;      /* by storage: it was there before */
  bool *gone;         /* by node: it goes when the pass ends */
} rg_merge;

/* RG_ENOMEM; rg_merge_end is called in any case. */
rg_status rg_merge_begin(rg_merge *m, rg_graph *g) RG_CHECK;

/* Are two values of one device, type and shape? */
bool rg_merge_alike(const rg_ir_value *a, const rg_ir_value *b);

/* Is nothing written to the storage of a value behind it, through any view? */
bool rg_merge_is_last(const rg_merge *m, int32_t value);

/*
** May all who read `old`, which is made later, read `by` instead?  They are alike; no write comes
** between; and memory that was two is not handed out, or written to, as one.
*/
bool rg_merge_allowed(const rg_merge *m, int32_t old, int32_t by);

/* Do it: rg_merge_allowed. */
rg_status rg_merge_values(rg_merge *m, int32_t old, int32_t by) RG_CHECK;

/* Views follow their storages, nodes that are gone go.  status: what came of the pass so far, which
** is returned where it is an error. */
rg_status rg_merge_end(rg_merge *m, rg_status status) RG_CHECK;

/* What rg_merge_begin made, where nothing was merged. */
void rg_merge_release(rg_merge *m);

#endif
