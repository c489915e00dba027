/* SPDX-License-Identifier: MIT */
/*
** Which derived nodes a plan keeps the results of: weights with a normalisation folded in, and what
** else passes make of parameters.  Their memory serves nothing else, and their steps are left out
** of a replay while nothing has written to what they read (replay.c).
**
** What a graph says is not believed: it may come out of a file.  A node that draws or writes, or
** whose results others write to or are handed out, is run each time as any other.
*/
#include "graph/emit.h"

/* By storage: is it written to behind its first version, or handed out? */
static void find_touched(const rg_graph *g, bool *touched)
{
  for (int32_t i = 0; i < rg_ir_n_values(g); i++) {
    const rg_ir_value *v = rg_ir_value_at(g, i);

    if (!v->removed && (v->version > 0 || v->was != RG_IR_NONE)) {
      touched[v->storage] = true;
    }
  }
  for (int32_t i = 0; i < rg_ir_n_outputs(g); i++) {
    touched[rg_ir_value_at(g, rg_ir_output_at(g, i)->value)->storage] = true;
  }
}

/* The results of what reads nothing are allocated before it runs (emit.c). */
static bool reads_any(const rg_graph *g, const rg_ir_node *node)
{
  for (int32_t i = 0; i < node->n_in; i++) {
    if (rg_ir_inputs(g, node)[i] != RG_IR_NONE) {
      return true;
    }
  }
  return false;
}

static bool is_kept(const rg_graph *g, const rg_ir_node *node, int32_t number, const bool *touched)
{
  const rg_op *op = node->op;

  if (op == NULL || !node->derived || node->compound || node->unwritten || op->view != NULL ||
      op->expand != NULL || op->writes || op->draws || node->n_out != node->n_results ||
      !reads_any(g, node)) {
    return false;
  }
  for (int32_t i = 0; i < node->n_out; i++) {
    const int32_t value = rg_ir_outputs(g, node)[i];
    const rg_ir_value *v = value != RG_IR_NONE ? rg_ir_value_at(g, value) : NULL;

    if (v != NULL && (v->producer != number || v->device != RG_CPU || touched[v->storage])) {
      return false;
    }
  }
  return true;
}

rg_status rg_graph_kept(const rg_graph *graph, uint8_t *kept)
{
  if (graph == NULL || kept == NULL) {
    return rg_fail(RG_EARG, "graph: a pointer is NULL");
  }
  return rg_emit_find_derived(graph, (bool *)kept);
}

rg_status rg_emit_find_derived(const rg_graph *g, bool *derived)
{
  bool *touched = rg_host_zeroed((size_t)rg_ir_n_storages(g));

  if (touched == NULL) {
    return rg_fail(RG_ENOMEM, "graph: no memory to make a plan of it");
  }
  find_touched(g, touched);
  for (int32_t i = 0; i < rg_ir_n_nodes(g); i++) {
    derived[i] = is_kept(g, rg_ir_node_at(g, i), i, touched);
  }
  rg_host_free(touched);
  return RG_OK;
}
