/* SPDX-License-Identifier: MIT */
/*
** A graph as JSON: a value a line, a node a line, in their order.  What is written is the graph
** without gaps in its numbers, so that equal graphs have equal files.
**
**   { "ridge_graph": 1,
**     "values": [
**       {"id": 0, "kind": "input", "type": "f32[2,3]", "storage": 0, "name": "x"},
**       ... ],
**     "nodes": [
**       {"op": "linear", "in": [0, 1, null], "out": [2], "args": {"act": "none"}, "module": "fc"},
**       ... ],
**     "inputs": [0], "states": [],
**     "outputs": [{"value": 2, "kind": "returned", "name": "logits"}] }
**
** Arguments stand there as in the structs of the operations: axes and positions count from 0, a set
** of axes is one bit each.  Print (print.c) and `node.args` in Lua count from 1.
**
** Tensors are not in it: who runs a graph that was loaded brings them.  A compound has "body": the
** number of nodes behind it that are its own.
*/
#include <stdio.h>

#include "graph/json.h"
#include "graph/text.h"
#include "ridge/choice.h"
#include "ridge/image.h"

#define MODE(name) #name, offsetof(rg_graph_modes, name)

const rg_ir_mode rg_ir_mode_fields[] = {
  { MODE(compute), -1, 0, RG_DTYPE_COUNT - 1, rg_dtype_name },
  { MODE(weight_cast), -1, 0, RG_DTYPE_COUNT - 1, rg_dtype_name },
  { MODE(autocast), -1, 0, RG_DTYPE_COUNT - 1, rg_dtype_name },
  { MODE(layout), -1, RG_NCHW, RG_NHWC, NULL },
  { MODE(vendor), 1, 0, 1, NULL },
  { MODE(autotune), 1, 0, 2, NULL },
  { MODE(deterministic), 0, 0, 1, NULL },
  { MODE(tf32), 0, 0, 1, NULL },
  { MODE(gemm), RG_GEMM_AUTO, RG_GEMM_AUTO, RG_GEMM_COUNT - 1, rg_gemm_name },
  { NULL, 0, 0, 0, 0, NULL },
};

#undef MODE

/* A field with a text, where there is one. */
static void put_field(rg_ir_out *o, const rg_graph *g, const char *name, rg_ir_text text)
{
  if (text != 0) {
    rg_ir_put(o, ", \"%s\": ", name);
    rg_ir_put_quoted(o, rg_ir_text_of(g, text));
  }
}

static void put_value(rg_ir_out *o, const rg_graph *g, int32_t value)
{
  const rg_ir_value *v = rg_ir_value_at(g, value);

  rg_ir_put(o, "    {\"id\": %d, \"kind\": \"%s\", \"type\": \"", value,
            rg_ir_value_kinds[v->kind]);
  rg_ir_put_meta(o, &v->meta);
  rg_ir_put(o, "\", \"storage\": %d", v->storage);
  if (v->device != RG_CPU) {
    rg_ir_put(o, ", \"device\": \"%s\"", rg_device_name(v->device));
  }
  if (v->version != 0) {
    rg_ir_put(o, ", \"version\": %d", v->version);
  }
  if (v->was != RG_IR_NONE) {
    rg_ir_put(o, ", \"was\": %d", v->was);
  }
  put_field(o, g, "name", v->name);
  rg_ir_put_text(o, "}");
}

static void put_numbers(rg_ir_out *o, const char *name, const int32_t *values, int32_t n)
{
  rg_ir_put(o, "\"%s\": [", name);
  for (int32_t i = 0; i < n; i++) {
    rg_ir_put_text(o, i > 0 ? ", " : "");
    if (values[i] == RG_IR_NONE) {
      rg_ir_put_text(o, "null");
    } else {
      rg_ir_put(o, "%d", values[i]);
    }
  }
  rg_ir_put_text(o, "]");
}

static void put_args(rg_ir_out *o, const rg_graph *g, const rg_ir_node *node)
{
  for (int32_t i = 0; i < node->op->n_args; i++) {
    rg_ir_put(o, "%s\"%s\": ", i > 0 ? ", " : ", \"args\": {", node->op->arg[i].name);
    rg_ir_put_arg(o, &node->op->arg[i], rg_ir_args(g, node));
  }
  rg_ir_put_text(o, node->op->n_args > 0 ? "}" : "");
}

static void put_modes(rg_ir_out *o, const rg_graph_modes *modes)
{
  for (const rg_ir_mode *m = rg_ir_mode_fields; m->name != NULL; m++) {
    int32_t value = rg_ir_mode_of(modes, m);

    if (value == m->fallback) {
      continue;
    }
    rg_ir_put(o, ", \"%s\": ", m->name);
    if (m->word != NULL) {
      rg_ir_put(o, "\"%s\"", m->word(value));
    } else {
      rg_ir_put(o, "%d", value);
    }
  }
}

static void put_node(rg_ir_out *o, const rg_graph *g, int32_t number, int32_t body)
{
  const rg_ir_node *node = rg_ir_node_at(g, number);

  rg_ir_put_text(o, "    ");
  for (int32_t p = node->parent; p != RG_IR_NONE; p = rg_ir_node_at(g, p)->parent) {
    rg_ir_put_text(o, "  ");
  }
  rg_ir_put(o, "{\"op\": \"%s\", ", node->op->name);
  put_numbers(o, "in", rg_ir_inputs(g, node), node->n_in);
  rg_ir_put_text(o, ", ");
  put_numbers(o, "out", rg_ir_outputs(g, node), node->n_out);
  if (node->n_results != node->n_out) {
    rg_ir_put(o, ", \"results\": %d", node->n_results);
  }
  if (node->compound) {
    rg_ir_put(o, ", \"body\": %d", body);
  }
  put_args(o, g, node);
  put_modes(o, rg_ir_modes_of(g, node->modes));
  if (node->generator > 0) {
    rg_ir_put(o, ", \"generator\": %d", node->generator);
  }
  if (node->recomputed) {
    rg_ir_put_text(o, ", \"recomputed\": 1");
  }
  if (node->repeats >= 0) { /* the n-th of the list, from 0 */
    rg_ir_put(o, ", \"repeats\": %d", node->repeats);
  }
  if (node->derived) {
    rg_ir_put_text(o, ", \"derived\": 1");
  }
  if (node->unwritten) {
    rg_ir_put_text(o, ", \"unwritten\": 1");
  }
  if (node->flops != 0 || node->bytes != 0) {
    rg_ir_put_text(o, ", \"flops\": ");
    rg_ir_put_double(o, node->flops);
    rg_ir_put_text(o, ", \"bytes\": ");
    rg_ir_put_double(o, node->bytes);
  }
  put_field(o, g, "module", node->module);
  put_field(o, g, "line", node->line);
  rg_ir_put_text(o, "}");
}

static void put_output(rg_ir_out *o, const rg_graph *g, const rg_ir_output *output)
{
  rg_ir_put(o, "    {\"value\": %d, \"kind\": \"%s\"", output->value,
            rg_ir_output_kinds[output->kind]);
  put_field(o, g, "name", output->name);
  put_field(o, g, "line", output->line);
  rg_ir_put_text(o, "}");
}

static void put_list(rg_ir_out *o, const char *name, int32_t n,
                     int32_t (*at)(const rg_graph *g, int32_t i), const rg_graph *g)
{
  rg_ir_put(o, "  \"%s\": [", name);
  for (int32_t i = 0; i < n; i++) {
    rg_ir_put(o, i > 0 ? ", %d" : "%d", at(g, i));
  }
  rg_ir_put_text(o, "],\n");
}

static void put_graph(rg_ir_out *o, const rg_graph *g, const int32_t *order, const int32_t *body,
                      int32_t n)
{
  rg_ir_put_text(o, "{ \"ridge_graph\": 1,\n  \"values\": [\n");
  for (int32_t i = 0; i < rg_ir_n_values(g) && !o->failed; i++) {
    put_value(o, g, i);
    rg_ir_put_text(o, i + 1 < rg_ir_n_values(g) ? ",\n" : "\n");
  }
  rg_ir_put_text(o, "  ],\n  \"nodes\": [\n");
  for (int32_t i = 0; i < n && !o->failed; i++) {
    put_node(o, g, order[i], body[i]);
    rg_ir_put_text(o, i + 1 < n ? ",\n" : "\n");
  }
  rg_ir_put_text(o, "  ],\n");
  put_list(o, "inputs", rg_ir_n_inputs(g), rg_ir_input_at, g);
  put_list(o, "states", rg_ir_n_states(g), rg_ir_state_at, g);
  rg_ir_put_text(o, "  \"outputs\": [\n");
  for (int32_t i = 0; i < rg_ir_n_outputs(g); i++) {
    put_output(o, g, rg_ir_output_at(g, i));
    rg_ir_put_text(o, i + 1 < rg_ir_n_outputs(g) ? ",\n" : "\n");
  }
  rg_ir_put_text(o, "  ] }\n");
}

rg_status rg_graph_json(rg_graph *graph, const char **out)
{
  const int32_t *order;
  const int32_t *body;
  rg_ir_out o = { 0 };
  rg_graph *copy;
  rg_status status;
  int32_t n;

  RG_TRY(rg_graph_copy(graph, &copy));
  status = rg_ir_order(copy, &order, &body, &n);
  if (status == RG_OK) {
    put_graph(&o, copy, order, body, n);
    status = rg_ir_show(graph, &o, out);
  }
  rg_graph_release(copy);
  return status;
}
