/* SPDX-License-Identifier: MIT */
/*
** Compounds out of their pieces: what recover.c, recover_relu6.c, recover_attention.c and
** recover_batch_norm.c have in common.
*/
#ifndef RIDGE_GRAPH_PASS_RECOVER_H
#define RIDGE_GRAPH_PASS_RECOVER_H

#include "graph/pass/pass.h"

typedef struct rg_recover {
  rg_graph *g;
  const rg_merge *m;
  const rg_ir_node *end; /* the node whose result is recovered */
} rg_recover;

/* The node that makes a value, where it runs as the end does; NULL: none does. */
const rg_ir_node *rg_recover_maker(const rg_recover *f, int32_t value);

/* Input i of a node; none where it has no such. */
int32_t rg_recover_in(const rg_recover *f, const rg_ir_node *node, int32_t i);

/* Is a node op(x, number)?  Then x; else none. */
int32_t rg_recover_number(const rg_recover *f, const rg_ir_node *node, int32_t op, double *number);

/* Is a node op of two tensors? */
bool rg_recover_two(const rg_recover *f, const rg_ir_node *node, int32_t op);

/* A node over n values in the place of the end, whose node, of this number, goes. */
rg_status rg_recover_put(const rg_recover *f, int32_t number, int32_t op, const int32_t *in,
                         int32_t n, const void *args) RG_CHECK;

/* Take away what made n values, a node's that is gone, and what that alone read, where nobody reads
** it any more: passes behind this one leave alone what several read. */
rg_status rg_recover_sweep(const rg_recover *f, const rg_ir_node *gone, const int32_t *values,
                           int32_t n) RG_CHECK;

/* Is the end relu6?  Then of what; else none. */
int32_t rg_recover_relu6(const rg_recover *f);

/* Attention in the place of a node, where it is one.  found: out. */
rg_status rg_recover_attention(const rg_recover *f, int32_t number, bool *found) RG_CHECK;

/* Batch normalisation in evaluation, likewise; a weight or a bias behind one becomes part of it. */
rg_status rg_recover_batch_norm(const rg_recover *f, int32_t number, bool *found) RG_CHECK;

#endif
