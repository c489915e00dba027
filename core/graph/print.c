/* SPDX-License-Identifier: MIT */
/*
** A graph as text: what was there before, a line a node, what comes out.
**
**   graph of 2 nodes
**     %0: f32[2,3]                           input x
**     %1: f32[4,3]                           parameter fc.weight
**     %2: f32[2,4] = linear(%0, %1, -)       ; fc  net.lua:12
**     %3: f32[2,4] = relu(%2)                ; writes %2  net.lua:13
**     return %3
**
** Arguments stand there as they were typed in Lua, axes and positions counted from 1; files
** (json.c) keep them as the struct does, from 0.
*/
#include <string.h>

#include "graph/json.h"
#include "graph/text.h"

enum { COMMENT_AT = 52 };

static void indent(rg_ir_out *o, const rg_graph *g, int32_t parent)
{
  rg_ir_put_text(o, "  ");
  for (; parent != RG_IR_NONE; parent = rg_ir_node_at(g, parent)->parent) {
    rg_ir_put_text(o, "  ");
  }
}

static void put_value(rg_ir_out *o, int32_t value)
{
  if (value == RG_IR_NONE) {
    rg_ir_put_text(o, "-");
  } else {
    rg_ir_put(o, "%%%d", value);
  }
}

/* "%4: f32[2,6]", with the device where that is not the CPU. */
static void put_typed(rg_ir_out *o, const rg_graph *g, int32_t value)
{
  put_value(o, value);
  if (value != RG_IR_NONE) {
    const rg_ir_value *v = rg_ir_value_at(g, value);

    rg_ir_put_text(o, ": ");
    rg_ir_put_meta(o, &v->meta);
    if (v->device != RG_CPU) {
      rg_ir_put(o, "@%s", rg_device_name(v->device));
    }
  }
}

/* A value that no node makes. */
static void put_begin(rg_ir_out *o, const rg_graph *g, int32_t value)
{
  const rg_ir_value *v = rg_ir_value_at(g, value);
  size_t line = o->n;

  rg_ir_put_text(o, "  ");
  put_typed(o, g, value);
  rg_ir_put_to(o, line, COMMENT_AT);
  rg_ir_put_text(o, rg_ir_value_kinds[v->kind]);
  if (v->name != 0) {
    rg_ir_put_text(o, " ");
    rg_ir_put_text(o, rg_ir_text_of(g, v->name));
  }
  rg_ir_put_text(o, "\n");
}

static void put_begins(rg_ir_out *o, const rg_graph *g)
{
  for (int32_t i = 0; i < rg_ir_n_values(g); i++) {
    const rg_ir_value *v = rg_ir_value_at(g, i);

    if (!v->removed && v->producer == RG_IR_NONE) {
      put_begin(o, g, i);
    }
  }
}

/* Arguments other than what a call without them has, but for what the result says already. */
static void put_args(rg_ir_out *o, const rg_graph *g, const rg_ir_node *node)
{
  const char *before = " {";

  for (int32_t i = 0; i < node->op->n_args; i++) {
    const rg_arg *arg = &node->op->arg[i];

    if (arg->type == RG_ARG_meta || rg_ir_arg_is_default(arg, rg_ir_args(g, node))) {
      continue;
    }
    rg_ir_put(o, "%s%s=", before, arg->name);
    rg_ir_put_typed_arg(o, arg, rg_ir_args(g, node));
    before = ", ";
  }
  rg_ir_put_text(o, *before == ',' ? "}" : "");
}

/* The parts of a comment begin with "; ", and then "  ". */
static void put_part(rg_ir_out *o, size_t line, bool *begun)
{
  if (!*begun) {
    rg_ir_put_to(o, line, COMMENT_AT);
  }
  rg_ir_put_text(o, *begun ? "  " : "; ");
  *begun = true;
}

/* " as %7": with the draw of what made that. */
static void put_repeats(rg_ir_out *o, const rg_graph *g, const rg_ir_node *node)
{
  const rg_ir_node *first = node->repeats >= 0 ? rg_ir_node_at(g, node->repeats) : NULL;

  if (first != NULL && first->n_out > 0) {
    rg_ir_put_text(o, ", draws as ");
    put_value(o, rg_ir_outputs(g, first)[0]);
  }
}

/* Modes other than those a process begins with. */
static void put_modes(rg_ir_out *o, const rg_graph_modes *modes, size_t line, bool *begun)
{
  for (const rg_ir_mode *m = rg_ir_mode_fields; m->name != NULL; m++) {
    int32_t value = rg_ir_mode_of(modes, m);

    if (m->fallback < 0 || value == m->fallback) {
      continue; /* types, which print has no room for */
    }
    put_part(o, line, begun);
    if (m->word != NULL) {
      rg_ir_put(o, "%s %s", m->name, m->word(value));
    } else {
      rg_ir_put(o, value == 1 ? "%s" : value == 0 ? "no %s" : "%s %d", m->name, value);
    }
  }
}

static void put_comment(rg_ir_out *o, const rg_graph *g, const rg_ir_node *node, size_t line)
{
  const rg_graph_modes *modes = rg_ir_modes_of(g, node->modes);
  const int32_t *out = rg_ir_outputs(g, node);
  bool begun = false;
  bool writes = false;

  for (int32_t i = 0; i < node->n_out && !node->compound; i++) {
    int32_t was = out[i] != RG_IR_NONE ? rg_ir_value_at(g, out[i])->was : RG_IR_NONE;

    if (was != RG_IR_NONE) {
      put_part(o, line, &begun);
      rg_ir_put(o, writes ? "%%%d" : "writes %%%d", was);
      writes = true;
    }
  }
  if (modes->autocast >= 0) {
    put_part(o, line, &begun);
    rg_ir_put(o, "autocast %s", rg_dtype_name(modes->autocast));
  }
  put_modes(o, modes, line, &begun);
  if (node->recomputed) {
    put_part(o, line, &begun);
    rg_ir_put_text(o, "recomputed");
    put_repeats(o, g, node);
  }
  if (node->derived) {
    put_part(o, line, &begun);
    rg_ir_put_text(o, "derived");
  }
  if (node->unwritten) {
    put_part(o, line, &begun);
    rg_ir_put_text(o, "unwritten");
  }
  if (node->module != 0) {
    put_part(o, line, &begun);
    rg_ir_put_text(o, rg_ir_text_of(g, node->module));
  }
  if (node->line != 0) {
    put_part(o, line, &begun);
    rg_ir_put_text(o, rg_ir_text_of(g, node->line));
  }
}

static void put_node(rg_ir_out *o, const rg_graph *g, const rg_ir_node *node, bool body)
{
  const int32_t *in = rg_ir_inputs(g, node);
  const int32_t *out = rg_ir_outputs(g, node);
  size_t line = o->n;

  indent(o, g, node->parent);
  for (int32_t i = 0; i < node->n_out; i++) {
    rg_ir_put_text(o, i > 0 ? ", " : "");
    put_typed(o, g, out[i]);
  }
  rg_ir_put(o, "%s%s(", node->n_out > 0 ? " = " : "", node->op->name);
  for (int32_t i = 0; i < node->n_in; i++) {
    rg_ir_put_text(o, i > 0 ? ", " : "");
    put_value(o, in[i]);
  }
  rg_ir_put_text(o, ")");
  put_args(o, g, node);
  rg_ir_put_text(o, body ? " of" : "");
  put_comment(o, g, node, line);
  rg_ir_put_text(o, "\n");
}

static void put_ends(rg_ir_out *o, const rg_graph *g)
{
  static const char *const words[] = { "return", "gradient", "keep" };

  for (int32_t i = 0; i < rg_ir_n_outputs(g); i++) {
    const rg_ir_output *output = rg_ir_output_at(g, i);

    rg_ir_put(o, "  %s %%%d", words[output->kind], output->value);
    if (output->name != 0) {
      rg_ir_put_text(o, " ");
      rg_ir_put_text(o, rg_ir_text_of(g, output->name));
    }
    if (output->line != 0) {
      rg_ir_put_text(o, "  ; ");
      rg_ir_put_text(o, rg_ir_text_of(g, output->line));
    }
    rg_ir_put_text(o, "\n");
  }
}

rg_status rg_graph_print(rg_graph *graph, const char **out)
{
  const int32_t *order;
  const int32_t *body;
  rg_ir_out o = { 0 };
  int32_t n;

  RG_TRY(rg_ir_order(graph, &order, &body, &n));
  rg_ir_put(&o, "graph of %d node%s\n", n, n == 1 ? "" : "s");
  put_begins(&o, graph);
  for (int32_t i = 0; i < n && !o.failed; i++) {
    put_node(&o, graph, rg_ir_node_at(graph, order[i]), body[i] > 0);
  }
  put_ends(&o, graph);
  return rg_ir_show(graph, &o, out);
}
