/* SPDX-License-Identifier: MIT */
/*
** Graphs for elementwise fusion, and the chains that come of them.
*/
#ifndef RIDGE_TESTS_FUSES_H
#define RIDGE_TESTS_FUSES_H

#include "op/fused.h"
#include "pass.h"

#define FUSION "elementwise_fusion"

/* The names of the nodes, links of a fused one in brackets; the graph goes. */
static inline void fuses(rg_graph *g, const char *want, const char *what)
{
  rg_graph *out = after(g, FUSION);
  const int32_t *order;
  char text[1024] = "";
  int32_t n;

  must(rg_ir_order(out, &order, NULL, &n));
  for (int32_t i = 0; i < n; i++) {
    const rg_ir_node *node = rg_ir_node_at(out, order[i]);
    const rg_fused_args *args = rg_ir_args(out, node);
    const bool is_fused = node->op->id == RG_OP_FUSED;
    size_t at = strlen(text);

    (void)snprintf(text + at, sizeof(text) - at, "%s%s%s%s", i > 0 ? " " : "", is_fused ? "[" : "",
                   is_fused ? rg_fused_names(&args->links) : node->op->name, is_fused ? "]" : "");
  }
  if (!ok(strcmp(text, want) == 0, what)) {
    printf("#   got %s\n#  want %s\n", text, want);
  }
  rg_graph_release(out);
}

static inline int32_t viewed(rg_graph *g, const rg_op *op, int32_t x, const void *args,
                             rg_meta meta)
{
  int32_t node;
  int32_t value;

  must(rg_ir_node_add(g, op, &x, 1, args, &node));
  must(rg_ir_output_add(g, node, &meta, RG_CPU, rg_ir_value_at(g, x)->storage,
                        rg_ir_value_at(g, x)->version, -1, &value));
  rg_ir_results_end(g, node);
  return value;
}

static inline int32_t over(rg_graph *g, const rg_op *op, int32_t x)
{
  return node_of(g, op, &x, 1, NULL, x);
}

#endif
