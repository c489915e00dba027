/* SPDX-License-Identifier: MIT */
/*
** Graphs for passes, and what comes of them.
*/
#ifndef RIDGE_TESTS_PASS_H
#define RIDGE_TESTS_PASS_H

#include "graph/pass/pass.h"
#include "ir.h"
#include "op/binary.h"
#include "op/fill.h"
#include "op/view.h"

extern const rg_op rg_op_transpose;

static inline rg_graph *graph(int32_t *x)
{
  rg_graph *g;

  must(rg_ir_new(&g));
  *x = outside(g, RG_VALUE_INPUT, "x", 3, 3);
  return g;
}

static inline int32_t with_number(rg_graph *g, int32_t op, int32_t x, double value,
                                  int32_t reversed, int32_t over)
{
  const rg_binary_args args = { .scalar = 1, .reversed = reversed, .value = value };

  return node_of(g, rg_ops[op], &x, 1, &args, over);
}

static inline int32_t with_tensor(rg_graph *g, int32_t op, int32_t x, int32_t y)
{
  static const rg_binary_args none;

  return node_of(g, rg_ops[op], (const int32_t[]){ x, y }, 2, &none, -1);
}

static inline int32_t filled(rg_graph *g, double value, int64_t rows)
{
  const rg_fill_args args = { .meta = { RG_F32, 2, { rows, 3 } }, .value = value };

  return node_of(g, rg_ops[RG_OP_FILL], NULL, 0, &args, -1);
}

/* The other two axes of a square: a view. */
static inline int32_t transposed(rg_graph *g, int32_t x)
{
  const rg_transpose_args args = { .a = 0, .b = 1 };
  const rg_meta meta = rg_ir_value_at(g, x)->meta;
  int32_t node;
  int32_t value;

  must(rg_ir_node_add(g, &rg_op_transpose, &x, 1, &args, &node));
  must(rg_ir_output_add(g, node, &meta, RG_CPU, rg_ir_value_at(g, x)->storage,
                        rg_ir_value_at(g, x)->version, -1, &value));
  rg_ir_results_end(g, node);
  return value;
}

/* A write over a view, which makes another view of the same memory later too. */
static inline int32_t written(rg_graph *g, int32_t view, int32_t base, int32_t *base_later)
{
  int32_t later = node_of(g, &rg_op_relu, &view, 1, NULL, view);
  const rg_ir_value v = *rg_ir_value_at(g, later);

  must(rg_ir_output_add(g, v.producer, &v.meta, RG_CPU, v.storage, v.version, base, base_later));
  return later;
}

/* Views lie where what they view lies. */
static inline void follows(const rg_graph *g)
{
  int32_t apart = 0;

  for (int32_t i = 0; i < rg_ir_n_nodes(g); i++) {
    const rg_ir_node *node = rg_ir_node_at(g, i);

    if (node->op->view != NULL && !node->compound && node->n_in == 1 && node->n_out == 1) {
      const rg_ir_value *x = rg_ir_value_at(g, rg_ir_inputs(g, node)[0]);
      const rg_ir_value *y = rg_ir_value_at(g, rg_ir_outputs(g, node)[0]);

      apart += x->storage != y->storage || x->version != y->version;
    }
  }
  is_int(apart, 0, "views are of the memory that is viewed");
}

/* Run a pass by name; the graph that comes out is whole, and the one that goes in as it was. */
static inline rg_graph *after(rg_graph *g, const char *pass)
{
  rg_graph *before;
  rg_graph *out = NULL;

  if (!is_int(rg_graph_check(g), RG_OK, "a graph")) {
    printf("# %s\n", rg_error_message());
  }
  must(rg_graph_copy(g, &before));
  must(rg_graph_optimize(g, &pass, 1, &out));
  is_status(rg_graph_check(out), RG_OK, "whole behind the pass");
  follows(out);
  is_status(rg_graph_same(g, before), RG_OK, "and the one before it as it was");
  rg_graph_release(before);
  rg_graph_release(g);
  return out;
}

/* The names of the nodes, bodies behind their compounds; the graph goes. */
static inline void comes(rg_graph *g, const char *pass, const char *want, const char *what)
{
  rg_graph *out = after(g, pass);
  const int32_t *order;
  char text[512] = "";
  int32_t n;

  must(rg_ir_order(out, &order, NULL, &n));
  for (int32_t i = 0; i < n; i++) {
    size_t at = strlen(text);

    (void)snprintf(text + at, sizeof(text) - at, "%s%s", i > 0 ? " " : "",
                   rg_ir_node_at(out, order[i])->op->name);
  }
  if (!ok(strcmp(text, want) == 0, what)) {
    printf("#   got %s\n#  want %s\n", text, want);
  }
  rg_graph_release(out);
}

#endif
