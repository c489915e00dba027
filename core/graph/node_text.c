/* SPDX-License-Identifier: MIT */
/*
** Nodes out of printed text.
*/
#include <ctype.h>
#include <string.h>

#include "graph/infer.h"
#include "graph/read_text.h"
#include "graph/text.h"
#include "op/list.h"

extern const rg_op rg_op_fill;

enum { MOST_OF_A_LINE = 4096 }; /* inputs and outputs of a node: an optimizer's step has many */

/* -- Nodes --------------------------------------------------------------------------------- */

/* A node of the text, beside r->in and r->result. */
typedef struct call {
  const rg_op *op;
  rg_graph_modes modes;
  rg_ir_node node; /* module, line, generator, recomputed, repeats, derived, unwritten */
  int32_t out;     /* of r->result, where its own begin */
  int32_t n_out;
  int32_t n_results; /* -1: as its record says */
  int32_t n_was;
  bool compute_said; /* ... */
  bool cast_said;
  bool body;
  bool empty; /* a compound without a node in it */
} call;

static rg_text_result *result_at(rg_text *r, const call *c, int32_t i)
{
  return RG_IR_AT(r->result, rg_text_result, c->out + i);
}

/* "%4: f32[2,6], - =": some stand behind a bar. */
static bool read_results(rg_text *r, call *c)
{
  bool more = true;

  if (rg_text_next(r, '|')) {
    c->n_results = 0;
  }
  while (more) {
    rg_text_result one = {
      .id = RG_IR_NONE, .was = RG_IR_NONE, .written = RG_IR_NONE, .storage = RG_TEXT_NOT_SAID
    };

    if (!rg_text_next(r, '-') &&
        (!rg_text_id(r, &one.id) || !rg_text_type(r, &one.meta, &one.device))) {
      return false;
    }
    if (c->n_out == MOST_OF_A_LINE) {
      return rg_json_wrong(&r->j, "a node of more than %d results", MOST_OF_A_LINE);
    }
    if (!rg_text_passed(r, rg_ir_reserve(&r->result, 1, sizeof(one)))) {
      return false;
    }
    RG_IR_PUSH(r->result, rg_text_result, one);
    c->n_out++;
    more = rg_text_next(r, ',');
    if (!more && c->n_results < 0 && rg_text_next(r, '|')) {
      c->n_results = c->n_out;
      more = true;
    }
  }
  return rg_json_take(&r->j, '=');
}

static bool read_op(rg_text *r, call *c)
{
  char name[64];

  if (!rg_json_name(&r->j, name, sizeof(name))) {
    return false;
  }
  for (int32_t i = 0; i < rg_record_count(); i++) {
    if (strcmp(rg_ops[i]->name, name) == 0) {
      c->op = rg_ops[i];
      return true;
    }
  }
  return rg_json_wrong(&r->j, "there is no operation '%s'", name);
}

static bool read_inputs(rg_text *r)
{
  bool begun = false;

  r->in.n = 0;
  if (!rg_json_take(&r->j, '(')) {
    return false;
  }
  while (rg_json_more(&r->j, ')', &begun)) {
    int32_t value = RG_IR_NONE;

    if (r->in.n == MOST_OF_A_LINE) {
      return rg_json_wrong(&r->j, "a node of more than %d inputs", MOST_OF_A_LINE);
    }
    if (!rg_text_next(r, '-') && !rg_text_value(r, &value)) {
      return false;
    }
    if (!rg_text_push(r, &r->in, value)) {
      return false;
    }
  }
  return r->j.status == RG_OK;
}

static bool read_args(rg_text *r, const call *c)
{
  int32_t dtypes[MOST_OF_A_LINE];
  const rg_meta *first =
      c->n_out > 0 && result_at(r, c, 0)->id != RG_IR_NONE ? &result_at(r, c, 0)->meta : NULL;

  for (int32_t i = 0; i < r->in.n; i++) {
    const int32_t value = *RG_IR_AT(r->in, int32_t, i);

    dtypes[i] = value != RG_IR_NONE ? rg_ir_value_at(r->g, value)->meta.dtype : -1;
  }
  return rg_text_args(&r->j, c->op, dtypes, r->in.n, first, r->args);
}

/* Which of its results has a number of the text. */
static bool read_own(rg_text *r, const call *c, int32_t *out)
{
  int32_t id;

  if (!rg_text_id(r, &id)) {
    return false;
  }
  for (*out = 0; *out < c->n_out; ++*out) {
    if (result_at(r, c, *out)->id == id) {
      return true;
    }
  }
  return rg_json_wrong(&r->j, "%%%d is no result of this node", id);
}

/* "writes %2 as %5  %3": what was there, and which result it is now. */
static bool read_writes(rg_text *r, call *c, int32_t *was)
{
  do {
    int32_t own = RG_IR_NONE;

    if (c->n_was == MOST_OF_A_LINE) {
      return rg_json_wrong(&r->j, "a node that writes to more than %d values", MOST_OF_A_LINE);
    }
    if (!rg_text_value(r, &was[c->n_was])) {
      return false;
    }
    if (rg_json_peek(&r->j) == 'a' && rg_text_word(r, "as") && !read_own(r, c, &own)) {
      return false;
    }
    if (own != RG_IR_NONE) {
      result_at(r, c, own)->was = was[c->n_was];
      result_at(r, c, own)->written = c->n_was;
    }
    c->n_was++;
  } while (rg_json_peek(&r->j) == '%');
  return r->j.status == RG_OK;
}

/* "of %5 in %3", "of %5 alone" */
static bool read_storage(rg_text *r, const call *c)
{
  int32_t own;
  int32_t beside;

  if (!read_own(r, c, &own)) {
    return false;
  }
  (void)rg_json_peek(&r->j);
  if (rg_text_word(r, "alone")) {
    result_at(r, c, own)->storage = RG_IR_NONE;
    return true;
  }
  if (!rg_text_take_word(r, "in") || !rg_text_value(r, &beside)) {
    return false;
  }
  result_at(r, c, own)->storage = rg_ir_value_at(r->g, beside)->storage;
  return true;
}

/* "%5 named logits" */
static bool read_value_name(rg_text *r, const call *c, rg_ir_text *names)
{
  int32_t own;

  return read_own(r, c, &own) && rg_text_take_word(r, "is") && rg_text_part(r) &&
         rg_text_keep_part(r, &names[own]);
}

/* The value of a mode behind its name. */
static bool read_mode_value(rg_text *r, const rg_ir_mode *m, int32_t *out)
{
  char word[16];
  int64_t value;

  if (m->word == NULL) {
    *out = 1;
    if (r->j.at < r->j.end && r->j.at[0] == ' ' && r->j.at + 1 < r->j.end &&
        isdigit((unsigned char)r->j.at[1])) {
      if (!rg_json_whole(&r->j, m->least, m->most, &value)) {
        return false;
      }
      *out = (int32_t)value;
    }
    return true;
  }
  if (!rg_json_name(&r->j, word, sizeof(word))) {
    return false;
  }
  for (*out = m->least; *out <= m->most; ++*out) {
    if (strcmp(m->word(*out), word) == 0) {
      return true;
    }
  }
  return rg_json_wrong(&r->j, "'%s' is no %s", word, m->name);
}

/* Is it a mode?  found: out. */
static bool read_mode(rg_text *r, call *c, bool *found)
{
  const bool no = rg_text_word(r, "no");

  if (no) {
    (void)rg_json_peek(&r->j);
  }
  for (const rg_ir_mode *m = rg_ir_mode_fields; m->name != NULL; m++) {
    int32_t *at = (int32_t *)(void *)((char *)&c->modes + m->offset);

    if (!rg_text_word(r, m->name)) {
      continue;
    }
    *found = true;
    c->compute_said = c->compute_said || m->offset == offsetof(rg_graph_modes, compute);
    c->cast_said = c->cast_said || m->offset == offsetof(rg_graph_modes, weight_cast);
    if (no) {
      *at = m->fallback < 0 ? -1 : 0;
      return true;
    }
    return read_mode_value(r, m, at);
  }
  return !no || rg_json_wrong(&r->j, "there is no such mode");
}

/* "as %7": the draw of what made that. */
static bool read_repeats(rg_text *r, call *c)
{
  int32_t value;

  c->node.recomputed = true;
  if (!rg_text_next(r, ',')) {
    return r->j.status == RG_OK;
  }
  if (!rg_text_take_word(r, "draws") || !rg_text_take_word(r, "as") || !rg_text_value(r, &value)) {
    return false;
  }
  c->node.repeats = rg_ir_value_at(r->g, value)->producer;
  return c->node.repeats != RG_IR_NONE || rg_json_wrong(&r->j, "no node makes that");
}

/* A part of a comment. */
static bool read_comment_part(rg_text *r, call *c, int32_t *was, rg_ir_text *names)
{
  rg_json *j = &r->j;
  bool found = false;
  int64_t stream;

  if (rg_json_peek(j) == '"') {
    return rg_json_string(j) && rg_text_keep_part(r, &c->node.module);
  }
  if (rg_text_word(r, "writes")) {
    return read_writes(r, c, was);
  }
  if (rg_text_word(r, "recomputed")) {
    return read_repeats(r, c);
  }
  if (rg_text_word(r, "derived")) {
    c->node.derived = true;
    return true;
  }
  if (rg_text_word(r, "unwritten")) {
    c->node.unwritten = c->op == &rg_op_fill;
    return c->node.unwritten ||
           rg_json_wrong(j, "%s is not memory that nobody writes", c->op->name);
  }
  if (rg_text_word(r, "stream")) {
    if (!rg_json_whole(j, 1, RG_JSON_MOST_STREAMS, &stream)) {
      return false;
    }
    c->node.generator = (int32_t)stream;
    return true;
  }
  if (rg_text_word(r, "of")) {
    return read_storage(r, c);
  }
  if (rg_text_word(r, "here")) {
    return read_value_name(r, c, names);
  }
  if (rg_text_word(r, "at")) {
    return rg_json_string(j) && rg_text_keep_part(r, &c->node.line);
  }
  if (!read_mode(r, c, &found) || found) {
    return found && j->status == RG_OK;
  }
  if (!rg_text_part(r)) {
    return false;
  }
  return rg_text_is_line(j->text) ? rg_text_keep_part(r, &c->node.line)
         : rg_text_is_module(j->text)
             ? rg_text_keep_part(r, &c->node.module)
             : rg_json_wrong(j, "'%.40s' is no part of a comment", j->text);
}

/* Results that write over something and do not say which. */
static bool settle_writes(rg_text *r, const call *c, const int32_t *was)
{
  const rg_meta *metas[MOST_OF_A_LINE];
  const rg_meta *before[MOST_OF_A_LINE];
  int32_t to[MOST_OF_A_LINE];
  int32_t left = 0;

  for (int32_t i = 0; i < c->n_out; i++) {
    left += result_at(r, c, i)->was != RG_IR_NONE;
    metas[i] = result_at(r, c, i)->id != RG_IR_NONE ? &result_at(r, c, i)->meta : NULL;
  }
  if (left == c->n_was) {
    return true;
  }
  if (left != 0) {
    return rg_json_wrong(&r->j, "all that is written says which result it is, or nothing does");
  }
  for (int32_t i = 0; i < c->n_was; i++) {
    before[i] = &rg_ir_value_at(r->g, was[i])->meta;
  }
  rg_text_writers(metas, c->n_out, before, c->n_was, to);
  for (int32_t i = 0; i < c->n_was; i++) {
    if (to[i] == RG_IR_NONE) {
      return rg_json_wrong(&r->j, "no result is like what is written");
    }
    result_at(r, c, to[i])->was = was[i];
  }
  return true;
}

/* The storage and version of a result. */
static bool place_result(rg_text *r, const call *c, const rg_text_result *one, bool *written,
                         int32_t *storage, int32_t *version)
{
  int32_t *last;

  if (one->was != RG_IR_NONE) {
    *storage = rg_ir_value_at(r->g, one->was)->storage;
  } else if (one->storage != RG_TEXT_NOT_SAID && one->storage != RG_IR_NONE) {
    *storage = one->storage;
  } else if (one->storage == RG_TEXT_NOT_SAID && c->op->view != NULL && r->in.n > 0 &&
             *RG_IR_AT(r->in, int32_t, 0) != RG_IR_NONE) {
    *storage = rg_ir_value_at(r->g, *RG_IR_AT(r->in, int32_t, 0))->storage;
  } else if (!rg_text_passed(r, rg_ir_storage_new(r->g, storage))) {
    return false;
  }
  if (!rg_text_at(r, &r->last, *storage, 0, &last)) {
    return false;
  }
  *written = one->was != RG_IR_NONE;
  *version = *last + (*written ? 1 : 0);
  return true;
}

/* A storage is at another version from here on; one that was there before is a state. */
static bool wrote(rg_text *r, int32_t storage, int32_t version)
{
  int32_t *last;
  int32_t *first;

  if (!rg_text_at(r, &r->last, storage, 0, &last) ||
      !rg_text_at(r, &r->first, storage, RG_IR_NONE, &first)) {
    return false;
  }
  if (*last == 0 && *first != RG_IR_NONE && !rg_text_push(r, &r->state, *first)) {
    return false;
  }
  last = RG_IR_AT(r->last, int32_t, storage);
  *last = version;
  return true;
}

static bool add_result(rg_text *r, const call *c, int32_t node, int32_t i, rg_ir_text name)
{
  const rg_text_result one = *result_at(r, c, i);
  bool written = false;
  int32_t storage;
  int32_t version;
  int32_t made;

  if (one.id == RG_IR_NONE) {
    return rg_text_passed(r, rg_ir_output_skip(r->g, node));
  }
  if (!place_result(r, c, &one, &written, &storage, &version) ||
      !rg_text_passed(r, rg_ir_output_add(r->g, node, &one.meta, one.device, storage, version,
                                          one.was, &made))) {
    return false;
  }
  rg_ir_name(r->g, made, name);
  return rg_text_define(r, one.id, made);
}

/* What a node makes that is no compound. */
static bool add_results(rg_text *r, const call *c, int32_t node, const rg_ir_text *names)
{
  for (int32_t i = 0; i < c->n_out; i++) {
    if (i == c->n_results) {
      rg_ir_results_end(r->g, node);
    }
    if (!add_result(r, c, node, i, names[i])) {
      return false;
    }
  }
  rg_ir_results_end(r->g, node);
  for (int32_t i = 0; i < c->n_out; i++) { /* what one call writes in a storage is one version */
    const rg_text_result *one = result_at(r, c, i);

    if (one->was != RG_IR_NONE) {
      const rg_ir_value *v = rg_ir_value_at(r->g, *RG_IR_AT(r->value, int32_t, one->id) - 1);

      if (!wrote(r, v->storage, v->version)) {
        return false;
      }
    }
  }
  r->result.n = c->out;
  return true;
}

/* The last compound that is open is over: its results are values of its body's, or its inputs. */
bool rg_text_end_body(rg_text *r)
{
  const rg_text_body b = *RG_IR_AT(r->open, rg_text_body, --r->open.n);

  rg_ir_end(r->g);
  for (int32_t i = 0; i < b.n_out; i++) {
    const int32_t id = RG_IR_AT(r->result, rg_text_result, b.out + i)->id;
    const int32_t value = rg_text_known(r, id);

    if (id == RG_IR_NONE) {
      if (!rg_text_passed(r, rg_ir_output_skip(r->g, b.node))) {
        return false;
      }
    } else if (value == RG_IR_NONE) {
      return rg_json_wrong(&r->j,
                           "%%%d is what a compound hands out, and its body does not make it", id);
    } else if (!rg_text_passed(r, rg_ir_output_share(r->g, b.node, value))) {
      return false;
    }
  }
  rg_ir_results_end(r->g, b.node);
  r->result.n = b.out;
  return true;
}

/* The node itself, and what its record says of it. */
static bool add_node(rg_text *r, call *c, int32_t *out)
{
  rg_ir_expected expected;

  if (c->op->args_size > RG_IR_MOST_ARGS) {
    return rg_json_wrong(&r->j, "%s has more arguments than are read", c->op->name);
  }
  if (!rg_text_passed(r, rg_ir_expect(r->g, c->op, r->in.data, r->in.n, r->args, c->modes.autocast,
                                      c->n_results < 0 ? c->n_out : c->n_results, &expected))) {
    return false;
  }
  c->modes.compute = c->compute_said ? c->modes.compute : expected.compute;
  c->modes.weight_cast = c->cast_said ? c->modes.weight_cast : expected.weight_cast;
  if (c->n_results < 0 && expected.n_out >= 0 && expected.n_out < c->n_out && !c->body) {
    c->n_results = expected.n_out;
  }
  if (!rg_text_passed(r, rg_json_streams(r->g, c->node.generator)) ||
      !rg_text_passed(r, rg_ir_node_add(r->g, c->op, r->in.data, r->in.n, r->args, out))) {
    return false;
  }
  rg_ir_node *node = rg_ir_node_at(r->g, *out);

  node->module = c->node.module;
  node->line = c->node.line;
  node->recomputed = c->node.recomputed;
  node->repeats = c->node.repeats;
  node->derived = c->node.derived;
  node->unwritten = c->node.unwritten;
  node->flops = c->node.unwritten ? 0 : expected.flops;
  node->bytes = c->node.unwritten ? 0 : expected.bytes;
  node->generator = c->op->draws ? c->node.generator : -1;
  return rg_text_passed(r, rg_ir_modes_add(r->g, &c->modes, &node->modes));
}

/* "%3: f32[2,4] = relu(%2)   ; net.lua:13", from its results on. */
bool rg_text_node(rg_text *r)
{
  call c = { .node = { .repeats = RG_IR_NONE }, .n_results = -1, .out = r->result.n };
  rg_ir_text names[MOST_OF_A_LINE] = { 0 };
  int32_t was[MOST_OF_A_LINE];
  const char first = rg_json_peek(&r->j);
  int32_t node;

  for (const rg_ir_mode *m = rg_ir_mode_fields; m->name != NULL; m++) {
    *(int32_t *)(void *)((char *)&c.modes + m->offset) = m->fallback;
  }
  if (((first == '%' || first == '-' || first == '|') && !read_results(r, &c)) || !read_op(r, &c) ||
      !read_inputs(r) || !read_args(r, &c)) {
    return false;
  }
  (void)rg_json_peek(&r->j);
  c.body = rg_text_word(r, "of");
  if (c.body) {
    (void)rg_json_peek(&r->j);
    c.empty = rg_text_word(r, "nothing");
  }
  if (rg_text_next(r, ';')) {
    while (rg_json_peek(&r->j) != '\0') {
      if (!read_comment_part(r, &c, was, names)) {
        return false;
      }
    }
  }
  if (!rg_text_end_line(r) || !settle_writes(r, &c, was) || !add_node(r, &c, &node)) {
    return false;
  }
  r->n_nodes++;
  if (!c.body) {
    return add_results(r, &c, node, names);
  }
  if (!rg_text_passed(r, rg_ir_reserve(&r->open, 1, sizeof(rg_text_body))) ||
      !rg_text_passed(r, rg_ir_begin(r->g, node))) {
    return false;
  }
  RG_IR_PUSH(r->open, rg_text_body, (rg_text_body){ node, c.out, c.n_out });
  return !c.empty || rg_text_end_body(r);
}
