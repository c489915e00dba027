/* SPDX-License-Identifier: MIT */
/*
** What the two halves of elementwise fusion share: which nodes gather (fuse.c), and the node that
** is made of them (fuse_links.c).
*/
#ifndef RIDGE_GRAPH_PASS_FUSE_H
#define RIDGE_GRAPH_PASS_FUSE_H

#include "graph/pass/layout.h"
#include "graph/pass/pass.h"
#include "op/fused.h"
#include "op/list.h"

/* Nodes that are to be links. */
typedef struct rg_chain {
  int32_t node[RG_FUSED_LINKS];
  int32_t n;
  int32_t gap;  /* nodes that are no views have passed since the last link */
  int64_t kept; /* bytes of inputs that live longer across a gap, at most */
} rg_chain;

typedef struct rg_fusing {
  rg_graph *g;
  rg_layouts layout;
  rg_chain c;
  int32_t number;   /* of the chain, from 1 */
  int32_t *reads;   /* by storage: the last chain that reads it */
  int32_t *writes;  /* by storage: the last chain that makes or writes it */
  int32_t *through; /* by storage: the first version of the view that the chain sees it through */
  int32_t *first;   /* by value: the first version of its view */
  int32_t *link;    /* by value: the chain that makes it, times RG_FUSED_LINKS, and which link */
  bool *gone;       /* by node */
} rg_fusing;

static inline const rg_ir_value *rg_chain_value(const rg_fusing *f, int32_t value)
{
  return rg_ir_value_at(f->g, value);
}

static inline int32_t rg_chain_result(const rg_fusing *f, int32_t node)
{
  return rg_ir_outputs(f->g, rg_ir_node_at(f->g, node))[0];
}

/* Which of the first n links makes a value; -1: none. */
static inline int32_t rg_chain_link(const rg_fusing *f, int32_t value, int32_t n)
{
  int32_t at = f->link[value] - f->number * RG_FUSED_LINKS;

  return at >= 0 && at < n ? at : RG_IR_NONE;
}

/* Inputs without those that are left out behind them: the second one of x + 1. */
static inline int32_t rg_chain_inputs(const rg_graph *g, const rg_ir_node *node)
{
  int32_t n = node->n_in;

  while (n > 0 && rg_ir_inputs(g, node)[n - 1] == RG_IR_NONE) {
    n--;
  }
  return n;
}

static inline bool rg_chain_is_cast(int32_t id)
{
  return id == RG_OP_CAST || id == RG_OP_COPY;
}

/*
** Put a fused node in the place of the first links of the chain, as many as it has room for.
**
** n  out: how many; 1: none was made, and the first one stays as it is
** RG_ENOMEM
*/
rg_status rg_chain_put(rg_fusing *f, int32_t *n) RG_CHECK;

#endif
