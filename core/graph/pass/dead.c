/* SPDX-License-Identifier: MIT */
/*
** Dead code elimination: nodes that nothing seen outside depends on.
**
** What is seen outside: outputs of the graph (gradients and what is held outside are among them),
** writes to what was there before, and draws, which move their stream.  A node needs the values it
** reads, those it writes over, and the compound it is in; a compound needs what it hands out.
*/
#include "graph/pass/pass.h"

typedef struct liveness {
  rg_graph *g;
  bool *outside; /* by storage */
  bool *live;    /* by node; in the end those that go */
  int32_t *stack;
  int32_t n;
} liveness;

static void need_node(liveness *l, int32_t node)
{
  if (node != RG_IR_NONE && !l->live[node]) {
    l->live[node] = true;
    l->stack[l->n++] = node;
  }
}

static void need_value(liveness *l, int32_t value)
{
  if (value != RG_IR_NONE) {
    need_node(l, rg_ir_value_at(l->g, value)->producer);
  }
}

/* Is it seen outside that a node ran, whoever reads its results? */
static bool has_effect(const liveness *l, const rg_ir_node *node)
{
  if (node->draw >= 0) {
    return true;
  }
  for (int32_t i = 0; i < node->n_out && !node->compound; i++) {
    int32_t value = rg_ir_outputs(l->g, node)[i];

    if (value != RG_IR_NONE && rg_ir_value_at(l->g, value)->was != RG_IR_NONE &&
        l->outside[rg_ir_value_at(l->g, value)->storage]) {
      return true;
    }
  }
  return false;
}

static void begin(liveness *l)
{
  for (int32_t i = 0; i < rg_ir_n_values(l->g); i++) {
    const rg_ir_value *v = rg_ir_value_at(l->g, i);

    if (!v->removed && v->producer == RG_IR_NONE) {
      l->outside[v->storage] = true;
    }
  }
  for (int32_t i = 0; i < rg_ir_n_outputs(l->g); i++) {
    need_value(l, rg_ir_output_at(l->g, i)->value);
  }
  for (int32_t i = 0; i < rg_ir_n_nodes(l->g); i++) {
    const rg_ir_node *node = rg_ir_node_at(l->g, i);

    if (node->op != NULL && has_effect(l, node)) {
      need_node(l, i);
    }
  }
}

static void spread(liveness *l)
{
  while (l->n > 0) {
    const rg_ir_node *node = rg_ir_node_at(l->g, l->stack[--l->n]);
    const int32_t *in = rg_ir_inputs(l->g, node);
    const int32_t *out = rg_ir_outputs(l->g, node);

    need_node(l, node->parent);
    for (int32_t i = 0; i < node->n_in; i++) {
      need_value(l, in[i]);
    }
    for (int32_t i = 0; i < node->n_out; i++) {
      if (out[i] != RG_IR_NONE) {
        need_value(l, node->compound ? out[i] : rg_ir_value_at(l->g, out[i])->was);
      }
    }
  }
}

rg_status rg_pass_dead(rg_graph *g)
{
  size_t n = (size_t)rg_ir_n_nodes(g);
  liveness l = { .g = g };
  rg_status status;

  l.outside = rg_host_zeroed((size_t)rg_ir_n_storages(g));
  l.live = rg_host_zeroed(n);
  l.stack = rg_host_alloc(n * sizeof(*l.stack));
  if (l.outside == NULL || l.live == NULL || l.stack == NULL) {
    status = rg_fail(RG_ENOMEM, "graph: no memory to look for dead code");
  } else {
    begin(&l);
    spread(&l);
    for (size_t i = 0; i < n; i++) {
      l.live[i] = !l.live[i];
    }
    status = rg_ir_remove_all(g, l.live);
  }
  rg_host_free(l.outside);
  rg_host_free(l.live);
  rg_host_free(l.stack);
  return status;
}
