/* SPDX-License-Identifier: MIT */
/*
** How the values of a graph will lie in memory: strides, as the tensors will have that a plan makes
** of them.  What is bound lies as its tensor does now; a plan of other tensors may differ, and who
** relies on a layout has to do without (graph/emit_fused.c).
*/
#ifndef RIDGE_GRAPH_PASS_LAYOUT_H
#define RIDGE_GRAPH_PASS_LAYOUT_H

#include "graph/ir.h"

typedef struct rg_layouts {
  const rg_graph *g;
  int64_t (*stride)[RG_MAX_DIMS]; /* by value, of those that were there when it was made */
  bool *contiguous;
  int32_t n;
} rg_layouts;

/* RG_ENOMEM; rg_layouts_end is called in any case. */
rg_status rg_layouts_new(rg_layouts *l, rg_graph *g) RG_CHECK;
void rg_layouts_end(rg_layouts *l);

/* Are its elements side by side in their order?  What was made since is. */
bool rg_layout_is_contiguous(const rg_layouts *l, int32_t value);

/* A tensor like a value, without elements. */
void rg_layout_stand_in(const rg_layouts *l, int32_t value, rg_tensor *x);

#endif
