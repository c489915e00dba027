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
**
** rg_graph_parse reads it back (load_text.c).  What no text holds: tensors, those of constants too,
** and where a plan puts outputs.  What follows from the lines before, and from what records say, is
** left out; where a graph is otherwise, a comment says it: "writes %2 as %5", "compute f32", "of %5
** alone" (and not in the storage of what it views).  A name that a reader could take for something
** else stands in quotes.
*/
#include <stdlib.h>
#include <string.h>

#include "graph/infer.h"
#include "graph/load_text.h"
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

/* A graph that is printed. */
typedef struct printing {
  rg_ir_out o;
  const rg_graph *g;
  const int32_t *order;
  const int32_t *body;
  int32_t n;
  int32_t *met; /* by storage: the first value of it that stands in the text, one larger; 0: none */
} printing;

static void put_name(rg_ir_out *o, const char *text)
{
  if (rg_text_is_name(text)) {
    rg_ir_put_text(o, text);
  } else {
    rg_ir_put_quoted(o, text);
  }
}

/* A value that no node makes. */
static void put_begin(printing *p, int32_t value)
{
  rg_ir_out *o = &p->o;
  const rg_graph *g = p->g;
  const rg_ir_value *v = rg_ir_value_at(g, value);
  size_t line = o->n;

  rg_ir_put_text(o, "  ");
  put_typed(o, g, value);
  rg_ir_put_to(o, line, COMMENT_AT);
  rg_ir_put_text(o, rg_ir_value_kinds[v->kind]);
  if (v->name != 0) {
    rg_ir_put_text(o, " ");
    put_name(o, rg_ir_text_of(g, v->name));
  }
  if (p->met[v->storage] != 0) { /* another view of the same */
    rg_ir_put(o, "  ; in %%%d", p->met[v->storage] - 1);
  } else {
    p->met[v->storage] = value + 1;
  }
  rg_ir_put_text(o, "\n");
}

static void put_begins(printing *p)
{
  for (int32_t i = 0; i < rg_ir_n_values(p->g); i++) {
    const rg_ir_value *v = rg_ir_value_at(p->g, i);

    if (!v->removed && v->producer == RG_IR_NONE) {
      put_begin(p, i);
    }
  }
}

/* -- Arguments ----------------------------------------------------------------------------- */

/* A chain as one reads it; where that is read back as another one, as in files. */
static void put_chain(printing *p, const rg_ir_node *node, const rg_arg *arg)
{
  rg_ir_out *o = &p->o;
  const char *args = rg_ir_args(p->g, node);
  const rg_links *links = (const rg_links *)(const void *)(args + arg->offset);
  const size_t from = o->n;
  int32_t *dtypes = rg_host_zeroed((size_t)(node->n_in + 1) * sizeof(*dtypes));
  rg_links *back = rg_host_zeroed(sizeof(*back));
  rg_json j;
  bool read = false;

  if (dtypes == NULL || back == NULL) {
    o->failed = true;
  }
  for (int32_t i = 0; i < node->n_in && !o->failed; i++) {
    const int32_t in = rg_ir_inputs(p->g, node)[i];

    dtypes[i] = in != RG_IR_NONE ? rg_ir_value_at(p->g, in)->meta.dtype : -1;
  }
  if (!o->failed) {
    rg_ir_put_links(o, links, dtypes, node->n_in);
  }
  if (!o->failed) {
    rg_json_open(&j, o->data + from, (int64_t)(o->n - from));
    /* to the bit: both began as zeros, padding and all */
    read = rg_text_links(&j, dtypes, node->n_in, back) &&
           memcmp((const void *)back, (const void *)links, sizeof(*back)) == 0;
    o->failed = j.status == RG_ENOMEM;
    rg_json_close(&j);
  }
  if (!o->failed && !read) {
    o->n = from;
    rg_ir_put_arg(o, arg, args);
  }
  rg_host_free(dtypes);
  rg_host_free(back);
}

/* Is it what the first result says already? */
static bool is_first_meta(const printing *p, const rg_ir_node *node, const rg_arg *arg)
{
  const rg_meta *meta =
      (const rg_meta *)(const void *)((const char *)rg_ir_args(p->g, node) + arg->offset);
  const int32_t first = node->n_out > 0 ? rg_ir_outputs(p->g, node)[0] : RG_IR_NONE;

  return first != RG_IR_NONE && rg_meta_same(meta, &rg_ir_value_at(p->g, first)->meta);
}

/* Arguments other than what a call without them has, but for what the result says already. */
static void put_args(printing *p, const rg_ir_node *node)
{
  rg_ir_out *o = &p->o;
  const char *before = " {";

  for (int32_t i = 0; i < node->op->n_args; i++) {
    const rg_arg *arg = &node->op->arg[i];

    if (arg->type == RG_ARG_meta ? is_first_meta(p, node, arg)
                                 : rg_ir_arg_is_default(arg, rg_ir_args(p->g, node))) {
      continue;
    }
    rg_ir_put(o, "%s%s=", before, arg->name);
    if (arg->type == RG_ARG_links) {
      put_chain(p, node, arg);
    } else {
      rg_ir_put_typed_arg(o, arg, rg_ir_args(p->g, node));
    }
    before = ", ";
  }
  rg_ir_put_text(o, *before == ',' ? "}" : "");
}

/* -- Comments ------------------------------------------------------------------------------ */

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

/* Types that a call computes in, where its record says another one. */
static void put_type(rg_ir_out *o, const char *name, int32_t value, int32_t expected, size_t line,
                     bool *begun)
{
  if (value != expected) {
    put_part(o, line, begun);
    rg_ir_put(o, value < 0 ? "no %s" : "%s %s", name, value < 0 ? "" : rg_dtype_name(value));
  }
}

/* Modes other than those a process begins with. */
static void put_modes(rg_ir_out *o, const rg_graph_modes *modes, size_t line, bool *begun)
{
  for (const rg_ir_mode *m = rg_ir_mode_fields; m->name != NULL; m++) {
    int32_t value = rg_ir_mode_of(modes, m);

    if (value == m->fallback || (m->fallback < 0 && m->word != NULL)) {
      continue; /* types are told apart from these */
    }
    put_part(o, line, begun);
    if (m->word != NULL) {
      rg_ir_put(o, "%s %s", m->name, m->word(value));
    } else if (m->fallback < 0) {
      rg_ir_put(o, "%s %d", m->name, value);
    } else {
      rg_ir_put(o, value == 1 ? "%s" : value == 0 ? "no %s" : "%s %d", m->name, value);
    }
  }
}

/* Does a reader find by itself which results write over what? */
static bool writes_are_clear(printing *p, const rg_ir_node *node)
{
  const int32_t *out = rg_ir_outputs(p->g, node);
  const size_t n = (size_t)(node->n_out + 1);
  const rg_meta **metas = rg_host_zeroed(2 * n * sizeof(*metas));
  int32_t *to = rg_host_zeroed(2 * n * sizeof(*to));
  int32_t n_was = 0;
  bool clear = metas != NULL && to != NULL;

  p->o.failed = p->o.failed || !clear;
  for (int32_t i = 0; i < node->n_out && clear; i++) {
    if (out[i] != RG_IR_NONE) {
      const rg_ir_value *v = rg_ir_value_at(p->g, out[i]);

      metas[i] = &v->meta;
      if (v->was != RG_IR_NONE) {
        metas[n + (size_t)n_was] = &rg_ir_value_at(p->g, v->was)->meta;
        to[n + (size_t)n_was++] = i;
      }
    }
  }
  if (clear) {
    rg_text_writers(metas, node->n_out, metas + n, n_was, to);
    clear = memcmp(to, to + n, (size_t)n_was * sizeof(*to)) == 0;
  }
  rg_host_free((void *)metas);
  rg_host_free(to);
  return clear;
}

static void put_writes(printing *p, const rg_ir_node *node, size_t line, bool *begun)
{
  const int32_t *out = rg_ir_outputs(p->g, node);
  bool writes = false;
  bool clear = true;

  for (int32_t i = 0; i < node->n_out && !node->compound; i++) {
    int32_t was = out[i] != RG_IR_NONE ? rg_ir_value_at(p->g, out[i])->was : RG_IR_NONE;

    if (was != RG_IR_NONE) {
      clear = writes ? clear : writes_are_clear(p, node);
      put_part(&p->o, line, begun);
      rg_ir_put(&p->o, writes ? "%%%d" : "writes %%%d", was);
      if (!clear) {
        rg_ir_put(&p->o, " as %%%d", out[i]);
      }
      writes = true;
    }
  }
}

/* Results in storages that are not the usual ones, and names of results. */
static void put_places(printing *p, const rg_ir_node *node, size_t line, bool *begun)
{
  const int32_t *out = rg_ir_outputs(p->g, node);
  const int32_t base = node->n_in > 0 ? rg_ir_inputs(p->g, node)[0] : RG_IR_NONE;
  const int32_t viewed = node->op->view != NULL && base != RG_IR_NONE
                             ? rg_ir_value_at(p->g, base)->storage
                             : RG_IR_NONE;

  for (int32_t i = 0; i < node->n_out && !node->compound; i++) {
    const rg_ir_value *v = out[i] != RG_IR_NONE ? rg_ir_value_at(p->g, out[i]) : NULL;

    if (v == NULL) {
      continue;
    }
    int32_t *met = &p->met[v->storage];

    if (v->was == RG_IR_NONE && v->storage != viewed && (*met != 0 || viewed != RG_IR_NONE)) {
      put_part(&p->o, line, begun);
      rg_ir_put(&p->o, *met != 0 ? "of %%%d in %%%d" : "of %%%d alone", out[i], *met - 1);
    }
    if (v->name != 0) {
      put_part(&p->o, line, begun);
      rg_ir_put(&p->o, "here %%%d is ", out[i]);
      put_name(&p->o, rg_ir_text_of(p->g, v->name));
    }
    *met = *met == 0 ? out[i] + 1 : *met;
  }
}

/* Where it comes from. */
static void put_origin(rg_ir_out *o, const rg_graph *g, const rg_ir_node *node, size_t line,
                       bool *begun)
{
  const char *module = rg_ir_text_of(g, node->module);
  const char *at = rg_ir_text_of(g, node->line);

  if (node->module != 0) {
    put_part(o, line, begun);
    (rg_text_is_module(module) ? rg_ir_put_text : rg_ir_put_quoted)(o, module);
  }
  if (node->line != 0) {
    put_part(o, line, begun);
    if (rg_text_is_line(at)) {
      rg_ir_put_text(o, at);
    } else {
      rg_ir_put_text(o, "at ");
      rg_ir_put_quoted(o, at);
    }
  }
}

static void put_comment(printing *p, const rg_ir_node *node, const rg_ir_expected *expected,
                        size_t line)
{
  const rg_graph_modes *modes = rg_ir_modes_of(p->g, node->modes);
  rg_ir_out *o = &p->o;
  bool begun = false;

  put_writes(p, node, line, &begun);
  if (modes->autocast >= 0) {
    put_part(o, line, &begun);
    rg_ir_put(o, "autocast %s", rg_dtype_name(modes->autocast));
  }
  put_type(o, "compute", modes->compute, expected->compute, line, &begun);
  put_type(o, "weight_cast", modes->weight_cast, expected->weight_cast, line, &begun);
  put_modes(o, modes, line, &begun);
  if (node->generator > 0) {
    put_part(o, line, &begun);
    rg_ir_put(o, "stream %d", node->generator);
  }
  if (node->recomputed) {
    put_part(o, line, &begun);
    rg_ir_put_text(o, "recomputed");
    put_repeats(o, p->g, node);
  }
  if (node->derived) {
    put_part(o, line, &begun);
    rg_ir_put_text(o, "derived");
  }
  if (node->unwritten) {
    put_part(o, line, &begun);
    rg_ir_put_text(o, "unwritten");
  }
  put_places(p, node, line, &begun);
  put_origin(o, p->g, node, line, &begun);
}

/* -- Nodes ----------------------------------------------------------------------------------- */

static void put_node(printing *p, const rg_ir_node *node, bool body)
{
  rg_ir_out *o = &p->o;
  const int32_t *in = rg_ir_inputs(p->g, node);
  const int32_t *out = rg_ir_outputs(p->g, node);
  size_t line = o->n;
  int32_t n_results = node->n_out;
  rg_ir_expected expected;

  if (rg_ir_expect(p->g, node->op, in, node->n_in, rg_ir_args(p->g, node),
                   rg_ir_modes_of(p->g, node->modes)->autocast, node->n_results,
                   &expected) != RG_OK) {
    o->failed = true;
    return;
  }
  if (!node->compound && expected.n_out >= 0 && expected.n_out < node->n_out) {
    n_results = expected.n_out;
  }
  indent(o, p->g, node->parent);
  for (int32_t i = 0; i < node->n_out; i++) {
    const bool bar = i == node->n_results && node->n_results != n_results;

    rg_ir_put_text(o, bar ? (i > 0 ? " | " : "| ") : i > 0 ? ", " : "");
    put_typed(o, p->g, out[i]);
  }
  rg_ir_put(o, "%s%s(", node->n_out > 0 ? " = " : "", node->op->name);
  for (int32_t i = 0; i < node->n_in; i++) {
    rg_ir_put_text(o, i > 0 ? ", " : "");
    put_value(o, in[i]);
  }
  rg_ir_put_text(o, ")");
  put_args(p, node);
  rg_ir_put_text(o, body ? " of" : node->compound ? " of nothing" : "");
  put_comment(p, node, &expected, line);
  rg_ir_put_text(o, "\n");
}

/* -- Ends ------------------------------------------------------------------------------------ */

/* "states %1 %0", where a list is not the one that a reader makes of what was there before. */
static void put_list(rg_ir_out *o, const rg_graph *g, const char *name, int32_t n,
                     int32_t (*at)(const rg_graph *g, int32_t i), const int32_t *usual,
                     int32_t n_usual)
{
  bool is_usual = n == n_usual;

  for (int32_t i = 0; i < n && is_usual; i++) {
    is_usual = at(g, i) == usual[i];
  }
  if (is_usual) {
    return;
  }
  rg_ir_put(o, "  %s", name);
  for (int32_t i = 0; i < n; i++) {
    rg_ir_put(o, " %%%d", at(g, i));
  }
  rg_ir_put_text(o, "\n");
}

/* The storages that were there before and are written, by their first values. */
static int32_t written_states(const printing *p, int32_t *list)
{
  int32_t n = 0;

  for (int32_t i = 0; i < rg_ir_n_storages(p->g); i++) {
    p->met[i] = 0;
  }
  for (int32_t i = 0; i < rg_ir_n_values(p->g); i++) {
    const rg_ir_value *v = rg_ir_value_at(p->g, i);

    if (!v->removed && v->producer == RG_IR_NONE && p->met[v->storage] == 0) {
      p->met[v->storage] = i + 1;
    }
  }
  for (int32_t i = 0; i < p->n; i++) {
    const rg_ir_node *node = rg_ir_node_at(p->g, p->order[i]);

    for (int32_t k = 0; k < node->n_out && !node->compound; k++) {
      const int32_t out = rg_ir_outputs(p->g, node)[k];

      if (out != RG_IR_NONE && rg_ir_value_at(p->g, out)->was != RG_IR_NONE &&
          p->met[rg_ir_value_at(p->g, out)->storage] != 0) {
        list[n++] = p->met[rg_ir_value_at(p->g, out)->storage] - 1;
        p->met[rg_ir_value_at(p->g, out)->storage] = 0;
      }
    }
  }
  return n;
}

static void put_lists(printing *p)
{
  const size_t room = (size_t)rg_ir_n_values(p->g) + 1;
  int32_t *list = rg_host_alloc(room * sizeof(*list));
  int32_t n = 0;

  if (list == NULL) {
    p->o.failed = true;
    return;
  }
  for (int32_t i = 0; i < rg_ir_n_values(p->g); i++) {
    if (!rg_ir_value_at(p->g, i)->removed && rg_ir_value_at(p->g, i)->kind == RG_VALUE_INPUT) {
      list[n++] = i;
    }
  }
  put_list(&p->o, p->g, "inputs", rg_ir_n_inputs(p->g), rg_ir_input_at, list, n);
  n = written_states(p, list);
  put_list(&p->o, p->g, "states", rg_ir_n_states(p->g), rg_ir_state_at, list, n);
  rg_host_free(list);
}

static void put_ends(rg_ir_out *o, const rg_graph *g)
{
  static const char *const words[] = { "return", "gradient", "keep" };

  for (int32_t i = 0; i < rg_ir_n_outputs(g); i++) {
    const rg_ir_output *output = rg_ir_output_at(g, i);

    rg_ir_put(o, "  %s %%%d", words[output->kind], output->value);
    if (output->name != 0) {
      rg_ir_put_text(o, " ");
      put_name(o, rg_ir_text_of(g, output->name));
    }
    if (output->line != 0) {
      const char *line = rg_ir_text_of(g, output->line);

      rg_ir_put_text(o, "  ; ");
      (rg_text_is_line(line) ? rg_ir_put_text : rg_ir_put_quoted)(o, line);
    }
    rg_ir_put_text(o, "\n");
  }
}

rg_status rg_graph_print(rg_graph *graph, const char **out)
{
  printing p = { .g = graph };

  RG_TRY(rg_ir_order(graph, &p.order, &p.body, &p.n));
  p.met = rg_host_zeroed((size_t)rg_ir_n_storages(graph) * sizeof(*p.met));
  p.o.failed = p.met == NULL;
  rg_ir_put(&p.o, "graph of %d node%s", p.n, p.n == 1 ? "" : "s");
  if (rg_ir_n_outputs(graph) != 1) {
    rg_ir_put(&p.o, ", %d outputs", rg_ir_n_outputs(graph));
  }
  rg_ir_put_text(&p.o, "\n");
  if (!p.o.failed) {
    put_begins(&p);
  }
  for (int32_t i = 0; i < p.n && !p.o.failed; i++) {
    put_node(&p, rg_ir_node_at(graph, p.order[i]), p.body[i] > 0);
  }
  if (!p.o.failed) {
    put_lists(&p);
  }
  put_ends(&p.o, graph); /* last, and counted: a text that was cut off says so */
  rg_host_free(p.met);
  return rg_ir_show(graph, &p.o, out);
}
