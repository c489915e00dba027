/* SPDX-License-Identifier: MIT */
/*
** reshape(permute(reshape(x))) of an image with channels first that gives channel i of group j of x
** the place i * groups + j.
*/
#ifndef RIDGE_GRAPH_PASS_DEAL_H
#define RIDGE_GRAPH_PASS_DEAL_H

#include "graph/ir.h"

typedef struct rg_deal {
  int32_t node[5]; /* reshape, permute, reshape, and within that one its copy and its view */
  int32_t image;   /* x */
  int64_t groups;
} rg_deal;

/* Is a node the last of these, the view within the second reshape, and are the others there for it
** alone? */
bool rg_deal_take(const rg_graph *g, int32_t number, rg_deal *d);

/* The same of x with channels last, in front of a node; last: that x. */
rg_status rg_deal_put(rg_graph *g, int32_t at, const rg_deal *d, int32_t last,
                      int32_t *out) RG_CHECK;

#endif
