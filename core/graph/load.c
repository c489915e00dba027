/* SPDX-License-Identifier: MIT */
/*
** Graphs out of files.  A file names operations, and nothing in it is run; what does not fit is a
** sentence with its line, and what comes out has passed every check of a graph.
*/
#include <stdio.h>
#include <string.h>

#include "graph/json.h"
#include "graph/load_text.h"
#include "graph/store.h"
#include "graph/text.h"
#include "op/list.h"

extern const rg_op rg_op_fill;

/* A value of the file. */
typedef struct entry {
  rg_ir_value value; /* storage and was as the file has them */
  int32_t made;      /* its number in the graph; -1: not yet */
} entry;

/* A compound whose body is being read. */
typedef struct body {
  int32_t node;
  int32_t left; /* nodes of it that are to come */
  int32_t out;  /* of `pending`: what it hands out */
  int32_t n_out;
  int32_t n_results;
} body;

typedef struct loading {
  rg_json j;
  rg_graph *g;
  rg_ir_array entry;   /* entry */
  rg_ir_array storage; /* int32_t: number in the graph, one larger; 0: none yet */
  rg_ir_array in;      /* int32_t: of the node that is read */
  rg_ir_array out;     /* int32_t: of that, and of open compounds before it */
  rg_ir_array open;    /* body */
  _Alignas(8) char args[RG_IR_MOST_ARGS];
} loading;

/* What is no mistake of the file's is told as it is. */
static bool passed(loading *l, rg_status status)
{
  if (status != RG_OK && l->j.status == RG_OK) {
    l->j.status = status;
  }
  return status == RG_OK;
}

static bool push_number(loading *l, rg_ir_array *array, int32_t number)
{
  if (!passed(l, rg_ir_reserve(array, 1, sizeof(number)))) {
    return false;
  }
  RG_IR_PUSH(*array, int32_t, number);
  return true;
}

static bool read_int(loading *l, int32_t least, int32_t most, int32_t *out)
{
  int64_t value;

  if (!rg_json_whole(&l->j, least, most, &value)) {
    return false;
  }
  *out = (int32_t)value;
  return true;
}

static bool read_text(loading *l, rg_ir_text *out)
{
  return rg_json_string(&l->j) && passed(l, rg_ir_text_add(l->g, l->j.text, out));
}

/* -- Values ------------------------------------------------------------------------------ */

static bool storage_of(loading *l, int32_t from, int32_t *to)
{
  int32_t *at;

  while (l->storage.n <= from) {
    if (!push_number(l, &l->storage, 0)) {
      return false;
    }
  }
  at = RG_IR_AT(l->storage, int32_t, from);
  if (*at == 0) {
    if (!passed(l, rg_ir_storage_new(l->g, to))) {
      return false;
    }
    *at = *to + 1;
  }
  *to = *at - 1;
  return true;
}

static bool value_field(loading *l, rg_ir_value *v, int32_t *seen)
{
  int32_t n = l->entry.n;
  int32_t id;

  if (rg_json_is(&l->j, "id")) {
    *seen |= 1;
    return read_int(l, n, n, &id);
  }
  if (rg_json_is(&l->j, "kind")) {
    *seen |= 2;
    return rg_json_word(&l->j, rg_ir_value_kinds, RG_VALUE_KIND_COUNT, "kind of value", &v->kind);
  }
  if (rg_json_is(&l->j, "type")) {
    *seen |= 4;
    return rg_json_meta(&l->j, &v->meta);
  }
  if (rg_json_is(&l->j, "storage")) { /* numbered in the order they are met */
    *seen |= 8;
    return read_int(l, 0, n, &v->storage);
  }
  return rg_json_is(&l->j, "device")    ? rg_json_device(&l->j, &v->device)
         : rg_json_is(&l->j, "version") ? read_int(l, 0, INT32_MAX / 2, &v->version)
         : rg_json_is(&l->j, "was")     ? read_int(l, 0, n - 1, &v->was)
         : rg_json_is(&l->j, "name")    ? read_text(l, &v->name)
                                        : rg_json_wrong(&l->j, "a value has no '%.40s'", l->j.text);
}

static bool read_value(loading *l)
{
  entry e = { .value = { .was = RG_IR_NONE }, .made = RG_IR_NONE };
  rg_ir_value *v = &e.value;
  bool begun = false;
  int32_t seen = 0;
  int32_t storage;

  if (!rg_json_take(&l->j, '{')) {
    return false;
  }
  while (rg_json_more(&l->j, '}', &begun)) {
    if (!rg_json_key(&l->j) || !value_field(l, v, &seen)) {
      return false;
    }
  }
  if (l->j.status == RG_OK && seen != 15) {
    return rg_json_wrong(&l->j, "a value has an id, a kind, a type and a storage");
  }
  if (l->j.status == RG_OK && v->kind != RG_VALUE_INTERMEDIATE) {
    if (!storage_of(l, v->storage, &storage) ||
        !passed(l, rg_ir_value_add(l->g, v->kind, &v->meta, v->device, storage, NULL, &e.made))) {
      return false;
    }
    rg_ir_name(l->g, e.made, v->name);
  }
  if (l->j.status != RG_OK || !passed(l, rg_ir_reserve(&l->entry, 1, sizeof(e)))) {
    return false;
  }
  RG_IR_PUSH(l->entry, entry, e);
  return true;
}

/* The number of a value that is there. */
static bool made_of(loading *l, int32_t from, int32_t *to)
{
  *to = from == RG_IR_NONE ? RG_IR_NONE : RG_IR_AT(l->entry, entry, from)->made;
  return from == RG_IR_NONE || *to != RG_IR_NONE
             ? true
             : rg_json_wrong(&l->j, "%%%d is needed before a node makes it", from);
}

/* -- Nodes ------------------------------------------------------------------------------- */

/* A node of the file. */
typedef struct call {
  const rg_op *op;
  rg_graph_modes modes;
  rg_ir_node node; /* module, line, generator, recomputed, repeats, flops, bytes */
  int32_t body;    /* -1: it is no compound */
  int32_t n_results;
  int32_t out; /* where its outputs begin */
  bool args;
} call;

static bool read_op(loading *l, call *c)
{
  if (!rg_json_string(&l->j)) {
    return false;
  }
  for (int32_t i = 0; i < rg_record_count(); i++) {
    if (strcmp(rg_ops[i]->name, l->j.text) == 0) {
      c->op = rg_ops[i];
      return true;
    }
  }
  return rg_json_wrong(&l->j, "there is no operation '%.40s'", l->j.text);
}

/* A list of values, null where one is left out. */
static bool read_ids(loading *l, rg_ir_array *array)
{
  bool begun = false;

  if (!rg_json_take(&l->j, '[')) {
    return false;
  }
  while (rg_json_more(&l->j, ']', &begun)) {
    int32_t value = RG_IR_NONE;

    if (!rg_json_null(&l->j) && !read_int(l, 0, l->entry.n - 1, &value)) {
      return false;
    }
    if (!push_number(l, array, value)) {
      return false;
    }
  }
  return l->j.status == RG_OK;
}

/* Is this the mode that a field is of?  Files of older versions call a weight_cast lower. */
static bool is_mode(const loading *l, const rg_ir_mode *m)
{
  return rg_json_is(&l->j, m->name) ||
         (m->offset == offsetof(rg_graph_modes, weight_cast) && rg_json_is(&l->j, "lower"));
}

/* The value that a mode's word stands for. */
static bool read_word(loading *l, const rg_ir_mode *m, int32_t *out)
{
  if (!rg_json_string(&l->j)) {
    return false;
  }
  for (int32_t value = m->least; value <= m->most; value++) {
    if (rg_json_is(&l->j, m->word(value))) {
      *out = value;
      return true;
    }
  }
  return rg_json_wrong(&l->j, "'%.40s' is no %s", l->j.text, m->name);
}

static bool read_mode(loading *l, call *c)
{
  for (const rg_ir_mode *m = rg_ir_mode_fields; m->name != NULL; m++) {
    int32_t *at = (int32_t *)(void *)((char *)&c->modes + m->offset);

    if (is_mode(l, m)) {
      return m->word != NULL ? read_word(l, m, at) : read_int(l, m->least, m->most, at);
    }
  }
  return rg_json_wrong(&l->j, "a node has no '%.40s'", l->j.text);
}

static bool node_field(loading *l, call *c)
{
  if (rg_json_is(&l->j, "op")) {
    return read_op(l, c);
  }
  if (c->op == NULL) {
    return rg_json_wrong(&l->j, "a node begins with its op");
  }
  if (rg_json_is(&l->j, "in")) {
    l->in.n = 0;
    return read_ids(l, &l->in);
  }
  if (rg_json_is(&l->j, "out")) {
    l->out.n = c->out;
    return read_ids(l, &l->out);
  }
  if (rg_json_is(&l->j, "args")) {
    c->args = true;
    return rg_json_args(&l->j, c->op, l->args);
  }
  if (rg_json_is(&l->j, "recomputed")) {
    c->node.recomputed = true;
    return read_int(l, 1, 1, &c->node.parent);
  }
  if (rg_json_is(&l->j, "derived")) {
    c->node.derived = true;
    return read_int(l, 1, 1, &c->node.parent);
  }
  if (rg_json_is(&l->j, "unwritten") && c->op == &rg_op_fill) {
    c->node.unwritten = true;
    return read_int(l, 1, 1, &c->node.parent);
  }
  return rg_json_is(&l->j, "results")     ? read_int(l, 0, INT32_MAX, &c->n_results)
         : rg_json_is(&l->j, "body")      ? read_int(l, 0, INT32_MAX, &c->body)
         : rg_json_is(&l->j, "module")    ? read_text(l, &c->node.module)
         : rg_json_is(&l->j, "line")      ? read_text(l, &c->node.line)
         : rg_json_is(&l->j, "generator") ? read_int(l, 1, RG_JSON_MOST_STREAMS, &c->node.generator)
         : rg_json_is(&l->j, "repeats")   ? read_int(l, 0, INT32_MAX, &c->node.repeats)
         : rg_json_is(&l->j, "flops")     ? rg_json_double(&l->j, &c->node.flops)
         : rg_json_is(&l->j, "bytes")     ? rg_json_double(&l->j, &c->node.bytes)
                                          : read_mode(l, c);
}

rg_status rg_json_streams(rg_graph *g, int32_t n)
{
  while (g->streams.n < n) {
    rg_generator *generator;
    int32_t number;

    RG_TRY(rg_generator_new((uint64_t)g->streams.n + 1, &generator));
    rg_status status = rg_ir_generator_add(g, generator, &number);

    rg_generator_release(generator);
    RG_TRY(status);
  }
  return RG_OK;
}

/* One output of a node, of a compound one that is there. */
static bool add_output(loading *l, int32_t node, int32_t value)
{
  bool compound = rg_ir_node_at(l->g, node)->compound;
  int32_t made;
  int32_t was;
  int32_t storage;

  if (value == RG_IR_NONE) {
    return passed(l, rg_ir_output_skip(l->g, node));
  }
  if (compound) {
    return made_of(l, value, &made) && passed(l, rg_ir_output_share(l->g, node, made));
  }
  entry *e = RG_IR_AT(l->entry, entry, value);

  if (e->made != RG_IR_NONE) {
    return rg_json_wrong(&l->j, "%%%d is made a second time", value);
  }
  if (!made_of(l, e->value.was, &was) || !storage_of(l, e->value.storage, &storage) ||
      !passed(l, rg_ir_output_add(l->g, node, &e->value.meta, e->value.device, storage,
                                  e->value.version, was, &e->made))) {
    return false;
  }
  rg_ir_name(l->g, e->made, e->value.name);
  return true;
}

static bool add_outputs(loading *l, int32_t node, int32_t first, int32_t n, int32_t n_results)
{
  for (int32_t i = 0; i < n; i++) {
    if (i == n_results) {
      rg_ir_results_end(l->g, node);
    }
    if (!add_output(l, node, *RG_IR_AT(l->out, int32_t, first + i))) {
      return false;
    }
  }
  rg_ir_results_end(l->g, node);
  l->out.n = first;
  return true;
}

/* The compounds whose last node this was. */
static bool end_bodies(loading *l)
{
  while (l->open.n > 0 && RG_IR_AT(l->open, body, l->open.n - 1)->left == 0) {
    body b = *RG_IR_AT(l->open, body, --l->open.n);

    rg_ir_end(l->g);
    if (!add_outputs(l, b.node, b.out, b.n_out, b.n_results)) {
      return false;
    }
  }
  return true;
}

static bool add_node(loading *l, call *c)
{
  int32_t n_out = l->out.n - c->out;
  int32_t number;

  if (c->op == NULL || (c->op->n_args > 0 && !c->args)) {
    return rg_json_wrong(&l->j, "a node without an op, or one without its args");
  }
  for (int32_t i = 0; i < l->in.n; i++) {
    int32_t *at = RG_IR_AT(l->in, int32_t, i);

    if (!made_of(l, *at, at)) {
      return false;
    }
  }
  if (!passed(l, rg_json_streams(l->g, c->node.generator)) ||
      !passed(l, rg_ir_node_add(l->g, c->op, l->in.data, l->in.n, l->args, &number))) {
    return false;
  }
  rg_ir_node *node = rg_ir_node_at(l->g, number);

  node->module = c->node.module;
  node->line = c->node.line;
  node->recomputed = c->node.recomputed;
  node->repeats = c->node.repeats;
  node->derived = c->node.derived;
  node->unwritten = c->node.unwritten;
  node->flops = c->node.flops;
  node->bytes = c->node.bytes;
  node->generator = c->op->draws ? c->node.generator : -1;
  if (!passed(l, rg_ir_modes_add(l->g, &c->modes, &node->modes))) {
    return false;
  }
  if (l->open.n > 0) {
    RG_IR_AT(l->open, body, l->open.n - 1)->left--;
  }
  if (c->body >= 0) {
    if (!passed(l, rg_ir_reserve(&l->open, 1, sizeof(body))) ||
        !passed(l, rg_ir_begin(l->g, number))) {
      return false;
    }
    if (l->open.n > 0) {
      body *around = RG_IR_AT(l->open, body, l->open.n - 1);

      if (c->body > around->left) {
        return rg_json_wrong(&l->j, "a body is larger than the one it is in");
      }
      around->left -= c->body;
    }
    RG_IR_PUSH(l->open, body, (body){ number, c->body, c->out, n_out, c->n_results });
  } else if (!add_outputs(l, number, c->out, n_out, c->n_results)) {
    return false;
  }
  return end_bodies(l);
}

static bool read_node(loading *l)
{
  call c = {
    .node = { .repeats = RG_IR_NONE }, .body = -1, .n_results = INT32_MAX, .out = l->out.n
  };
  bool begun = false;

  for (const rg_ir_mode *m = rg_ir_mode_fields; m->name != NULL; m++) {
    *(int32_t *)(void *)((char *)&c.modes + m->offset) = m->fallback;
  }
  l->in.n = 0;
  if (!rg_json_take(&l->j, '{')) {
    return false;
  }
  while (rg_json_more(&l->j, '}', &begun)) {
    if (!rg_json_key(&l->j) || !node_field(l, &c)) {
      return false;
    }
  }
  return l->j.status == RG_OK && add_node(l, &c);
}

/* -- Files ------------------------------------------------------------------------------- */

static bool read_output(loading *l)
{
  rg_ir_output output = { .value = RG_IR_NONE };
  bool begun = false;

  if (!rg_json_take(&l->j, '{')) {
    return false;
  }
  while (rg_json_more(&l->j, '}', &begun)) {
    if (!rg_json_key(&l->j) ||
        !(rg_json_is(&l->j, "value") ? read_int(l, 0, l->entry.n - 1, &output.value)
          : rg_json_is(&l->j, "kind")
              ? rg_json_word(&l->j, rg_ir_output_kinds, RG_OUTPUT_KIND_COUNT, "kind of output",
                             &output.kind)
          : rg_json_is(&l->j, "name") ? read_text(l, &output.name)
          : rg_json_is(&l->j, "line")
              ? read_text(l, &output.line)
              : rg_json_wrong(&l->j, "an output has no '%.40s'", l->j.text))) {
      return false;
    }
  }
  if (l->j.status == RG_OK && output.value == RG_IR_NONE) {
    return rg_json_wrong(&l->j, "an output without a value");
  }
  return l->j.status == RG_OK && made_of(l, output.value, &output.value) &&
         passed(l, rg_ir_graph_output(l->g, &output));
}

static bool read_input(loading *l)
{
  int32_t value;

  return read_int(l, 0, l->entry.n - 1, &value) && made_of(l, value, &value) &&
         passed(l, rg_ir_graph_input(l->g, value));
}

static bool read_state(loading *l)
{
  int32_t value;

  return read_int(l, 0, l->entry.n - 1, &value) && made_of(l, value, &value) &&
         passed(l, rg_ir_graph_state(l->g, value));
}

/* A named list, the next of the file. */
static bool read_list(loading *l, const char *name, bool (*read)(loading *l))
{
  bool begun = false;

  if (!rg_json_key(&l->j)) {
    return false;
  }
  if (!rg_json_is(&l->j, name)) {
    return rg_json_wrong(&l->j, "'%s' is expected, and there is '%.40s'", name, l->j.text);
  }
  if (!rg_json_take(&l->j, '[')) {
    return false;
  }
  while (rg_json_more(&l->j, ']', &begun)) {
    if (!read(l)) {
      return false;
    }
  }
  return l->j.status == RG_OK;
}

static bool read_graph(loading *l)
{
  int32_t version;

  if (!rg_json_take(&l->j, '{') || !rg_json_key(&l->j)) {
    return false;
  }
  if (!rg_json_is(&l->j, "ridge_graph")) {
    return rg_json_wrong(&l->j, "this is no graph of ridge's");
  }
  if (!read_int(l, 1, 1, &version) || !rg_json_take(&l->j, ',') ||
      !read_list(l, "values", read_value) || !rg_json_take(&l->j, ',') ||
      !read_list(l, "nodes", read_node)) {
    return false;
  }
  if (l->open.n > 0) {
    return rg_json_wrong(&l->j, "the last body is not complete");
  }
  return rg_json_take(&l->j, ',') && read_list(l, "inputs", read_input) &&
         rg_json_take(&l->j, ',') && read_list(l, "states", read_state) &&
         rg_json_take(&l->j, ',') && read_list(l, "outputs", read_output) &&
         rg_json_take(&l->j, '}') && rg_json_end(&l->j);
}

/* What a graph is not allowed to be is the file's mistake here. */
static rg_status check_loaded(rg_graph *g)
{
  rg_status status = rg_graph_check(g);
  char text[512];

  if (status != RG_EBUG) {
    return status;
  }
  (void)snprintf(text, sizeof(text), "%s", rg_error_message());
  return rg_fail(RG_EFORMAT, "%s", text);
}

rg_status rg_graph_parse(const char *text, int64_t n, rg_graph **out)
{
  loading l = { .g = NULL };
  rg_status status;

  if (text == NULL || n < 0 || out == NULL) {
    return rg_fail(RG_EARG, "graph: there is no text to read");
  }
  RG_TRY(rg_ir_new(&l.g));
  rg_json_open(&l.j, text, n);
  if (rg_text_is_graph(text, n)) {
    l.j.status = rg_text_load(text, n, l.g);
  } else {
    (void)read_graph(&l);
  }
  status = l.j.status == RG_OK ? check_loaded(l.g) : l.j.status;
  rg_json_close(&l.j);
  rg_host_free(l.entry.data);
  rg_host_free(l.storage.data);
  rg_host_free(l.in.data);
  rg_host_free(l.out.data);
  rg_host_free(l.open.data);
  if (status != RG_OK) {
    rg_graph_release(l.g);
    return status;
  }
  *out = l.g;
  return RG_OK;
}
