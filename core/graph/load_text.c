/* SPDX-License-Identifier: MIT */
/*
** Graphs out of printed text, line by line.  Nothing in a text is run; what does not fit is a
** sentence with its line and column.
*/
#include <ctype.h>
#include <string.h>

#include "graph/read_text.h"
#include "graph/text.h"

/* -- What was there before ----------------------------------------------------------------- */

/* "%0: f32[2,3]   input x  ; in %1"; the number was read. */
static bool read_begin(rg_text *r, int32_t id)
{
  rg_ir_text name = 0;
  rg_meta meta;
  char word[16];
  int32_t device;
  int32_t storage = RG_IR_NONE;
  int32_t beside;
  int32_t kind = 0;
  int32_t *first;
  int32_t value;

  if (!rg_text_type(r, &meta, &device) || !rg_json_name(&r->j, word, sizeof(word))) {
    return false;
  }
  while (kind < RG_VALUE_INTERMEDIATE && strcmp(word, rg_ir_value_kinds[kind]) != 0) {
    kind++;
  }
  if (kind == RG_VALUE_INTERMEDIATE) {
    return rg_json_wrong(&r->j, "there is no kind of value '%s' that no node makes", word);
  }
  if (rg_json_peek(&r->j) != '\0' && *r->j.at != ';' &&
      (!rg_text_part(r) || !rg_text_keep_part(r, &name))) {
    return false;
  }
  if (rg_text_next(r, ';')) {
    if (!rg_json_name(&r->j, word, sizeof(word)) || !rg_text_value(r, &beside)) {
      return false;
    }
    if (strcmp(word, "in") != 0) {
      return rg_json_wrong(&r->j, "'in' is expected, and there is '%s'", word);
    }
    storage = rg_ir_value_at(r->g, beside)->storage;
  }
  if (!rg_text_end_line(r) ||
      (storage == RG_IR_NONE && !rg_text_passed(r, rg_ir_storage_new(r->g, &storage))) ||
      !rg_text_passed(r, rg_ir_value_add(r->g, kind, &meta, device, storage, NULL, &value)) ||
      !rg_text_at(r, &r->first, storage, RG_IR_NONE, &first)) {
    return false;
  }
  *first = *first == RG_IR_NONE ? value : *first;
  rg_ir_name(r->g, value, name);
  return rg_text_define(r, id, value);
}

/* -- Lines --------------------------------------------------------------------------------- */

/* "return %3 name  ; net.lua:12"; the word was read. */
static bool read_output(rg_text *r, int32_t kind)
{
  rg_ir_output output = { .kind = kind };

  if (!rg_text_value(r, &output.value)) {
    return false;
  }
  if (rg_json_peek(&r->j) != '\0' && *r->j.at != ';' &&
      (!rg_text_part(r) || !rg_text_keep_part(r, &output.name))) {
    return false;
  }
  if (rg_text_next(r, ';') && (!rg_text_part(r) || !rg_text_keep_part(r, &output.line))) {
    return false;
  }
  return rg_text_end_line(r) && rg_text_passed(r, rg_ir_graph_output(r->g, &output));
}

/* "inputs %1 %0", "states": an order that is not the usual one. */
static bool read_list(rg_text *r, rg_status (*add)(rg_graph *g, int32_t value))
{
  int32_t value;

  while (rg_json_peek(&r->j) != '\0') {
    if (!rg_text_value(r, &value) || !rg_text_passed(r, add(r->g, value))) {
      return false;
    }
  }
  return rg_text_end_line(r);
}

static bool read_end(rg_text *r)
{
  static const char *const kinds[] = { "return", "gradient", "keep" };

  for (int32_t i = 0; i < RG_OUTPUT_KIND_COUNT; i++) {
    if (rg_text_word(r, kinds[i])) {
      return read_output(r, i);
    }
  }
  if (rg_text_word(r, "inputs")) {
    r->inputs_said = true;
    return read_list(r, rg_ir_graph_input);
  }
  r->states_said = true;
  return rg_text_word(r, "states") && read_list(r, rg_ir_graph_state);
}

static bool is_end(rg_text *r)
{
  static const char *const begins[] = { "return %", "gradient %", "keep %", "inputs", "states" };
  const size_t left = (size_t)(r->j.end - r->j.at);

  for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
    const size_t n = strlen(begins[i]);

    if (left >= n && memcmp(r->j.at, begins[i], n) == 0) {
      return true;
    }
  }
  return false;
}

/* Is it a value that no node makes: a type and then a word without "="? */
static bool is_begin(const rg_text *r)
{
  const char *at = r->j.at;

  if (at >= r->j.end || *at != '%') {
    return false;
  }
  at++;
  while (at < r->j.end && isdigit((unsigned char)*at)) {
    at++;
  }
  while (at < r->j.end && *at != ' ' && *at != ']') { /* ": f32[2,3" */
    at++;
    at += at < r->j.end && at[-1] == ':' && *at == ' ';
  }
  while (at < r->j.end && *at != ' ' && *at != ',') {
    at++;
  }
  while (at < r->j.end && *at == ' ') {
    at++;
  }
  return at < r->j.end && isalpha((unsigned char)*at);
}

static bool end_bodies(rg_text *r, int32_t depth)
{
  while (r->open.n > depth) {
    if (!rg_text_end_body(r)) {
      return false;
    }
  }
  return true;
}

static bool read_line(rg_text *r)
{
  size_t spaces = 0;
  int32_t id;

  while (r->j.at < r->j.end && *r->j.at == ' ') {
    r->j.at++;
    spaces++;
  }
  if (r->j.at == r->j.end) {
    return true;
  }
  if (spaces < 2 || spaces % 2 != 0) {
    return rg_json_wrong(&r->j, "a line begins with two spaces, and two more for each body");
  }
  const size_t depth = spaces / 2 - 1;

  if (depth > (size_t)r->open.n) {
    return rg_json_wrong(&r->j, "a line of a body whose compound does not end with 'of'");
  }
  if (depth == 0 && is_end(r)) {
    return end_bodies(r, 0) && read_end(r);
  }
  if (depth == 0 && r->n_nodes == 0 && is_begin(r)) {
    return rg_text_id(r, &id) && read_begin(r, id);
  }
  return end_bodies(r, (int32_t)depth) && rg_text_node(r);
}

/* What no line says: inputs and states in the usual order. */
static bool add_lists(rg_text *r)
{
  for (int32_t id = 0; !r->inputs_said && id < rg_ir_n_values(r->g); id++) {
    if (rg_ir_value_at(r->g, id)->kind == RG_VALUE_INPUT &&
        !rg_text_passed(r, rg_ir_graph_input(r->g, id))) {
      return false;
    }
  }
  for (int32_t i = 0; !r->states_said && i < r->state.n; i++) {
    if (!rg_text_passed(r, rg_ir_graph_state(r->g, *RG_IR_AT(r->state, int32_t, i)))) {
      return false;
    }
  }
  return true;
}

/* "graph of 3 nodes, 2 outputs": one output where none are counted. */
static bool read_head(rg_text *r, int64_t *n_nodes, int64_t *n_outputs)
{
  *n_outputs = 1;
  if (!rg_text_take_word(r, "graph") || !rg_text_take_word(r, "of") ||
      !rg_json_whole(&r->j, 0, INT32_MAX, n_nodes) ||
      !rg_text_take_word(r, *n_nodes == 1 ? "node" : "nodes")) {
    return false;
  }
  if (rg_text_next(r, ',') && (!rg_json_whole(&r->j, 0, INT32_MAX, n_outputs) ||
                               !rg_text_take_word(r, *n_outputs == 1 ? "output" : "outputs"))) {
    return false;
  }
  return rg_text_end_line(r);
}

/* Is all there that the head counts, and the last line whole? */
static bool check_whole(rg_text *r, int64_t n_nodes, int64_t n_outputs, bool ended)
{
  if (r->n_nodes != n_nodes) {
    return rg_json_wrong(&r->j, "the text has %d nodes, and says that it has %lld", r->n_nodes,
                         (long long)n_nodes);
  }
  if (rg_ir_n_outputs(r->g) != n_outputs) {
    return rg_json_wrong(&r->j, "the text has %d outputs, and says that it has %lld",
                         rg_ir_n_outputs(r->g), (long long)n_outputs);
  }
  return ended || rg_json_wrong(&r->j, "the text ends inside of a line, and may be cut off there");
}

static void read_graph(rg_text *r, const char *text, const char *end)
{
  const bool ended = text < end && end[-1] == '\n';
  int64_t n_nodes = 0;
  int64_t n_outputs = 1;
  bool first = true;

  while (text < end && r->j.status == RG_OK) {
    const char *stop = memchr(text, '\n', (size_t)(end - text));

    stop = stop != NULL ? stop : end;
    r->j.at = text;
    r->j.begin = text;
    r->j.end = stop;
    r->j.line++;
    if (first) {
      (void)read_head(r, &n_nodes, &n_outputs);
      first = false;
    } else {
      (void)read_line(r);
    }
    text = stop < end ? stop + 1 : end;
  }
  (void)(r->j.status == RG_OK && end_bodies(r, 0) && check_whole(r, n_nodes, n_outputs, ended) &&
         add_lists(r));
}

rg_status rg_text_load(const char *text, int64_t n, rg_graph *g)
{
  rg_text r = { .g = g };

  rg_json_open(&r.j, text, n);
  r.j.line = 0;
  /* numbers have gaps where a graph was edited; memory is bounded by the text in any case */
  r.most_ids = (int32_t)rg_min_i64(16 * n + (1 << 16), INT32_MAX / 2);
  read_graph(&r, text, text + n);
  rg_json_close(&r.j);
  rg_host_free(r.value.data);
  rg_host_free(r.last.data);
  rg_host_free(r.first.data);
  rg_host_free(r.state.data);
  rg_host_free(r.in.data);
  rg_host_free(r.result.data);
  rg_host_free(r.open.data);
  return r.j.status;
}
