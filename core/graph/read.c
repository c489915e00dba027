/* SPDX-License-Identifier: MIT */
/*
** What readers of a graph are told, and what they may ask to be changed: the public side of ir.h.
*/
#include "graph/infer.h"
#include "graph/ir.h"
#include "op/list.h"
#include "ridge/image.h"

void rg_graph_facts_of(const rg_graph *graph, rg_graph_facts *out)
{
  *out = (rg_graph_facts){ .n_node_ids = rg_ir_n_nodes(graph),
                           .n_value_ids = rg_ir_n_values(graph),
                           .n_inputs = rg_ir_n_inputs(graph),
                           .n_outputs = rg_ir_n_outputs(graph),
                           .n_states = rg_ir_n_states(graph),
                           .n_storages = rg_ir_n_storages(graph),
                           .n_draws = rg_ir_n_draws(graph) };
  for (int32_t i = 0; i < out->n_node_ids; i++) {
    const rg_ir_node *node = rg_ir_node_at(graph, i);

    out->n_nodes += node->op != NULL;
    if (node->op != NULL && !node->compound) {
      out->n_calls += node->op->view == NULL && !node->unwritten;
      out->flops += node->flops;
      out->bytes += node->bytes;
    }
  }
  for (int32_t i = 0; i < out->n_value_ids; i++) {
    out->n_values += !rg_ir_value_at(graph, i)->removed;
  }
}

const int32_t *rg_graph_order(rg_graph *graph, int32_t *n)
{
  const int32_t *order = NULL;

  return rg_ir_order(graph, &order, NULL, n) == RG_OK ? order : NULL;
}

rg_status rg_graph_node_of(rg_graph *graph, int32_t node, rg_graph_node *out)
{
  const int32_t *order;
  const int32_t *body = NULL;
  int32_t n = 0;

  if (node < 0 || node >= rg_ir_n_nodes(graph) || rg_ir_node_at(graph, node)->op == NULL) {
    return rg_fail(RG_EARG, "graph: there is no node %d", node);
  }
  const rg_ir_node *at = rg_ir_node_at(graph, node);

  if (at->compound) {
    RG_TRY(rg_ir_order(graph, &order, &body, &n));
    n = body[at->position];
  }
  *out = (rg_graph_node){ .name = at->op->name,
                          .module = rg_ir_text_of(graph, at->module),
                          .line = rg_ir_text_of(graph, at->line),
                          .inputs = rg_ir_inputs(graph, at),
                          .outputs = rg_ir_outputs(graph, at),
                          .args = rg_ir_args(graph, at),
                          .op = at->op->id,
                          .n_inputs = at->n_in,
                          .n_outputs = at->n_out,
                          .n_results = at->n_results,
                          .parent = at->parent,
                          .n_body = n,
                          .position = at->compound ? at->position : -1,
                          .recomputed = at->recomputed,
                          .generator = at->generator,
                          .repeats = at->repeats,
                          .flops = at->flops,
                          .bytes = at->bytes,
                          .modes = *rg_ir_modes_of(graph, at->modes) };
  return RG_OK;
}

rg_status rg_graph_value_of(const rg_graph *graph, int32_t value, rg_graph_value *out)
{
  if (value < 0 || value >= rg_ir_n_values(graph) || rg_ir_value_at(graph, value)->removed) {
    return rg_fail(RG_EARG, "graph: there is no value %%%d", value);
  }
  const rg_ir_value *at = rg_ir_value_at(graph, value);

  *out = (rg_graph_value){ .dtype = at->meta.dtype,
                           .ndim = at->meta.ndim,
                           .device = at->device,
                           .kind = at->kind,
                           .storage = at->storage,
                           .version = at->version,
                           .was = at->was,
                           .producer = at->producer,
                           .result = at->result,
                           .n_uses = at->n_uses,
                           .name = rg_ir_text_of(graph, at->name) };
  for (int32_t i = 0; i < at->meta.ndim; i++) {
    out->shape[i] = at->meta.shape[i];
  }
  return RG_OK;
}

int32_t rg_graph_use(const rg_graph *graph, int32_t value, int32_t i)
{
  if (value < 0 || value >= rg_ir_n_values(graph) || i < 0 ||
      i >= rg_ir_value_at(graph, value)->n_uses) {
    return RG_IR_NONE;
  }
  return rg_ir_uses(graph, rg_ir_value_at(graph, value))[i].node;
}

int32_t rg_graph_input(const rg_graph *graph, int32_t i)
{
  return i < 0 || i >= rg_ir_n_inputs(graph) ? RG_IR_NONE : rg_ir_input_at(graph, i);
}

int32_t rg_graph_state(const rg_graph *graph, int32_t i)
{
  return i < 0 || i >= rg_ir_n_states(graph) ? RG_IR_NONE : rg_ir_state_at(graph, i);
}

int32_t rg_graph_output(const rg_graph *graph, int32_t i, int32_t *kind, const char **name,
                        const char **line)
{
  if (i < 0 || i >= rg_ir_n_outputs(graph)) {
    return RG_IR_NONE;
  }
  const rg_ir_output *output = rg_ir_output_at(graph, i);

  if (kind != NULL) {
    *kind = output->kind;
  }
  if (name != NULL) {
    *name = rg_ir_text_of(graph, output->name);
  }
  if (line != NULL) {
    *line = rg_ir_text_of(graph, output->line);
  }
  return output->value;
}

rg_tensor *rg_graph_bound(const rg_graph *graph, int32_t value)
{
  return value < 0 || value >= rg_ir_n_values(graph) ? NULL : rg_ir_bound(graph, value);
}

rg_status rg_graph_bind(rg_graph *graph, int32_t value, rg_tensor *x)
{
  if (value < 0 || value >= rg_ir_n_values(graph) || rg_ir_value_at(graph, value)->removed ||
      rg_ir_value_at(graph, value)->producer != RG_IR_NONE) {
    return rg_fail(RG_EARG, "graph: %%%d is no value that was there before", value);
  }
  return rg_ir_bind(graph, value, x);
}

/* -- Changes ----------------------------------------------------------------------------- */

/* Views of what was exchanged lie in the memory of what came in its place: by the lifetimes of
** storages it is known how long that is needed. */
static rg_status move_views(rg_graph *g)
{
  const int32_t *order;
  int32_t n;

  RG_TRY(rg_ir_order(g, &order, NULL, &n));
  for (int32_t i = 0; i < n; i++) { /* a view of a view behind that one */
    const rg_ir_node *node = rg_ir_node_at(g, order[i]);
    const int32_t in = node->n_in == 1 ? rg_ir_inputs(g, node)[0] : RG_IR_NONE;
    const int32_t out = node->n_out == 1 ? rg_ir_outputs(g, node)[0] : RG_IR_NONE;

    if (node->op->view == NULL || node->compound || in == RG_IR_NONE || out == RG_IR_NONE) {
      continue;
    }
    const rg_ir_value *x = rg_ir_value_at(g, in);
    rg_ir_value *y = rg_ir_value_at(g, out);

    if (y->storage != x->storage && y->was == RG_IR_NONE) {
      y->storage = x->storage;
      y->version = x->version;
    }
  }
  return RG_OK;
}

/* Is a value what a kernel makes, in memory of its own, before anybody writes there? */
static bool is_made(const rg_graph *g, int32_t value)
{
  const bool there = value >= 0 && value < rg_ir_n_values(g) && !rg_ir_value_at(g, value)->removed;
  const rg_ir_value *v = there ? rg_ir_value_at(g, value) : NULL;

  return there && v->producer != RG_IR_NONE && v->was == RG_IR_NONE && v->version == 0 &&
         rg_ir_node_at(g, v->producer)->op->view == NULL;
}

/* Does nothing else lie in the memory of a value? */
static bool is_alone(const rg_graph *g, int32_t value)
{
  const int32_t storage = rg_ir_value_at(g, value)->storage;

  for (int32_t i = 0; i < rg_ir_n_values(g); i++) {
    const rg_ir_value *v = rg_ir_value_at(g, i);

    if (i != value && !v->removed && v->storage == storage) {
      return false;
    }
  }
  return true;
}

rg_status rg_graph_replace(rg_graph *graph, int32_t old, int32_t by)
{
  if (old != by && is_made(graph, old) && is_made(graph, by) && is_alone(graph, by)) {
    /* who views or writes over the old one finds the new one in its memory */
    rg_ir_value *a = rg_ir_value_at(graph, old);
    rg_ir_value *b = rg_ir_value_at(graph, by);
    const int32_t storage = a->storage;

    a->storage = b->storage;
    b->storage = storage;
  }
  RG_TRY(rg_ir_replace(graph, old, by));
  return move_views(graph);
}

rg_status rg_graph_set_input(rg_graph *graph, int32_t node, int32_t slot, int32_t value)
{
  RG_TRY(rg_ir_set_input(graph, node, slot, value));
  return move_views(graph);
}

rg_status rg_graph_set_layout(rg_graph *graph, int32_t node, int32_t layout)
{
  if (node < 0 || node >= rg_ir_n_nodes(graph) || rg_ir_node_at(graph, node)->op == NULL) {
    return rg_fail(RG_EARG, "graph: there is no node %d", node);
  }
  if (layout < -1 || layout > RG_NHWC) {
    return rg_fail(RG_EARG, "graph: there is no layout %d of images", layout);
  }
  rg_graph_modes modes = *rg_ir_modes_of(graph, rg_ir_node_at(graph, node)->modes);
  int32_t number;

  modes.layout = layout;
  RG_TRY(rg_ir_modes_add(graph, &modes, &number));
  rg_ir_node_at(graph, node)->modes = number;
  return RG_OK;
}

rg_status rg_graph_remove(rg_graph *graph, int32_t node)
{
  return rg_ir_remove(graph, node);
}

/* The results of a node that was just inserted, in memory of their own. */
static rg_status add_results(rg_graph *graph, int32_t node, const rg_call *call)
{
  for (int32_t i = 0; i < call->n_out - call->op->n_hidden; i++) {
    int32_t storage;
    int32_t value;

    RG_TRY(rg_ir_storage_new(graph, &storage));
    RG_TRY(
        rg_ir_output_add(graph, node, &call->out[i], call->device, storage, 0, RG_IR_NONE, &value));
  }
  rg_ir_results_end(graph, node);
  return RG_OK;
}

rg_status rg_graph_insert(rg_graph *graph, int32_t at, int32_t after, int32_t op,
                          const int32_t *inputs, int32_t n, const void *args, int32_t *node)
{
  rg_graph_modes modes;
  rg_call call;
  int32_t mode;
  int32_t made;

  if (op < 0 || op >= rg_record_count() || n < 0 || node == NULL) {
    return rg_fail(RG_EARG, "graph: there is no operation %d of %d values", op, n);
  }
  if (at < 0 || at >= rg_ir_n_nodes(graph) || rg_ir_node_at(graph, at)->op == NULL) {
    return rg_fail(RG_EARG, "graph: there is no node %d", at);
  }
  if (rg_ops[op]->writes) {
    return rg_fail(RG_ENOSUP, "graph: a %s writes into what it is given", rg_ops[op]->name);
  }
  for (int32_t i = 0; i < n; i++) {
    if (inputs[i] != RG_IR_NONE && (inputs[i] < 0 || inputs[i] >= rg_ir_n_values(graph) ||
                                    rg_ir_value_at(graph, inputs[i])->removed)) {
      return rg_fail(RG_EARG, "graph: there is no value %%%d", inputs[i]);
    }
  }
  modes = *rg_ir_modes_of(graph, rg_ir_node_at(graph, at)->modes);
  RG_TRY(rg_ir_infer(graph, rg_ops[op], inputs, n, args, modes.autocast, &call));
  modes.compute = call.compute;
  modes.weight_cast = call.weight_cast;
  RG_TRY(rg_ir_modes_add(graph, &modes, &mode));
  RG_TRY(rg_ir_insert(graph, at, after != 0, rg_ops[op], inputs, n, args, &made));
  rg_ir_node_at(graph, made)->modes = mode;
  rg_status status = add_results(graph, made, &call);

  if (status != RG_OK) {
    rg_status undone = rg_ir_remove(graph, made);

    return undone == RG_OK ? status : undone;
  }
  *node = made;
  return RG_OK;
}
