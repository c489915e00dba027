/* SPDX-License-Identifier: MIT */
/*
** What lines of a printed graph consist of, and what stands there without quotes.
*/
#include <ctype.h>
#include <string.h>

#include "graph/read_text.h"

/* -- What stands without quotes ------------------------------------------------------------ */

/* Visible characters, no quotes: what ends them is a space. */
bool rg_text_is_name(const char *text)
{
  for (const char *at = text; *at != '\0'; at++) {
    if ((unsigned char)*at <= ' ' || *at == '"' || *at == ';' || *at == 127) {
      return false;
    }
  }
  return *text != '\0';
}

/* "net.lua:12", with single spaces inside. */
bool rg_text_is_line(const char *text)
{
  const char *colon = strrchr(text, ':');

  if (colon == NULL || colon[1] == '\0' || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
      *text == '"' || *text == '%' || *text == ' ' || strstr(text, "  ") != NULL) {
    return false;
  }
  for (const char *at = text; *at != '\0'; at++) { /* "(command line):1" */
    if ((unsigned char)*at < ' ' || (*at == ' ' && *text != '(' && *text != '[')) {
      return false;
    }
  }
  return true;
}

/* Words of a comment that are no module. */
static const char *const words[] = { "recomputed", "derived", "unwritten", "writes", "stream",
                                     "of",         "here",    "at",        "no",     NULL };

bool rg_text_is_module(const char *text)
{
  for (int i = 0; words[i] != NULL; i++) {
    if (strcmp(words[i], text) == 0) {
      return false;
    }
  }
  for (const rg_ir_mode *m = rg_ir_mode_fields; m->name != NULL; m++) {
    if (strcmp(m->name, text) == 0) {
      return false;
    }
  }
  return rg_text_is_name(text) && *text != '%' && text[strlen(text) - 1] != ',' &&
         !rg_text_is_line(text);
}

void rg_text_writers(const rg_meta *const *metas, int32_t n_out, const rg_meta *const *was,
                     int32_t n_was, int32_t *to)
{
  int32_t at = 0;

  for (int32_t i = 0; i < n_was; i++) {
    while (at < n_out && (metas[at] == NULL || !rg_meta_same(metas[at], was[i]))) {
      at++;
    }
    to[i] = at < n_out ? at++ : RG_IR_NONE;
  }
}

bool rg_text_is_graph(const char *text, int64_t n)
{
  static const char begin[] = "graph of ";
  const int64_t length = (int64_t)sizeof(begin) - 1;

  return n >= length && memcmp(text, begin, (size_t)length) == 0;
}

/* -- Words --------------------------------------------------------------------------------- */

bool rg_text_passed(rg_text *r, rg_status status)
{
  if (status != RG_OK && r->j.status == RG_OK) {
    r->j.status = status;
  }
  return status == RG_OK;
}

/* Element i of an array of numbers, which grows up to it. */
bool rg_text_at(rg_text *r, rg_ir_array *array, int32_t i, int32_t fill, int32_t **out)
{
  while (array->n <= i) {
    if (!rg_text_passed(r, rg_ir_reserve(array, 1, sizeof(int32_t)))) {
      return false;
    }
    RG_IR_PUSH(*array, int32_t, fill);
  }
  *out = RG_IR_AT(*array, int32_t, i);
  return true;
}

bool rg_text_push(rg_text *r, rg_ir_array *array, int32_t number)
{
  int32_t *at;

  return rg_text_at(r, array, array->n, number, &at);
}

/* Goes on at a character that has to be a certain one; spaces before it are passed. */
bool rg_text_next(rg_text *r, char c)
{
  if (rg_json_peek(&r->j) != c) {
    return false;
  }
  r->j.at++;
  return true;
}

/* "%12": the number in the text. */
bool rg_text_id(rg_text *r, int32_t *id)
{
  int64_t value;

  if (!rg_json_take(&r->j, '%') || !rg_json_whole(&r->j, 0, r->most_ids, &value)) {
    return false;
  }
  *id = (int32_t)value;
  return true;
}

int32_t rg_text_known(const rg_text *r, int32_t id)
{
  return id >= 0 && id < r->value.n ? *RG_IR_AT(r->value, int32_t, id) - 1 : RG_IR_NONE;
}

/* A value that is there, as the graph has it. */
bool rg_text_value(rg_text *r, int32_t *out)
{
  int32_t id;

  if (!rg_text_id(r, &id)) {
    return false;
  }
  *out = rg_text_known(r, id);
  return *out != RG_IR_NONE || rg_json_wrong(&r->j, "%%%d is read before a node makes it", id);
}

/* A value of the text is this one of the graph. */
bool rg_text_define(rg_text *r, int32_t id, int32_t value)
{
  int32_t *at;

  if (!rg_text_at(r, &r->value, id, 0, &at)) {
    return false;
  }
  if (*at != 0) {
    return rg_json_wrong(&r->j, "%%%d is made a second time", id);
  }
  *at = value + 1;
  return true;
}

static bool read_device(rg_text *r, int32_t *device)
{
  char name[16];

  *device = RG_CPU;
  if (r->j.at >= r->j.end || *r->j.at != '@') {
    return true;
  }
  r->j.at++;
  size_t n = 0;

  while (r->j.at < r->j.end && n + 1 < sizeof(name) && *r->j.at != ' ' && *r->j.at != ',' &&
         *r->j.at != '\n') {
    name[n++] = *r->j.at++;
  }
  name[n] = '\0';
  for (*device = 0; *device < RG_DEVICE_COUNT; ++*device) {
    if (strcmp(rg_device_name(*device), name) == 0) {
      return true;
    }
  }
  return rg_json_wrong(&r->j, "there is no device '%s'", name);
}

/* ": f32[2,6]@cuda:0" */
bool rg_text_type(rg_text *r, rg_meta *meta, int32_t *device)
{
  return rg_json_take(&r->j, ':') && rg_json_plain_meta(&r->j, meta) && read_device(r, device);
}

/* What stands up to two spaces or the end, or in quotes, into j.text. */
bool rg_text_part(rg_text *r)
{
  rg_json *j = &r->j;
  const char *from;

  if (rg_json_peek(j) == '"') {
    return rg_json_string(j);
  }
  from = j->at;
  while (j->at < j->end && !(j->at[0] == ' ' && (j->at + 1 == j->end || j->at[1] == ' '))) {
    j->at++;
  }
  return rg_json_keep(j, from, (size_t)(j->at - from));
}

bool rg_text_keep_part(rg_text *r, rg_ir_text *out)
{
  return rg_text_passed(r, rg_ir_text_add(r->g, r->j.text, out));
}

/* Nothing but spaces is left of the line. */
bool rg_text_end_line(rg_text *r)
{
  (void)rg_json_peek(&r->j);
  return r->j.at == r->j.end ? r->j.status == RG_OK
                             : rg_json_wrong(&r->j, "the line is over, and there is more");
}

/* A word that has to come. */
bool rg_text_take_word(rg_text *r, const char *word)
{
  char name[16];

  return rg_json_name(&r->j, name, sizeof(name)) &&
         (strcmp(name, word) == 0 ||
          rg_json_wrong(&r->j, "'%s' is expected, and there is '%s'", word, name));
}

/* Begins the rest of the line with a word that ends there?  Then it is passed. */
bool rg_text_word(rg_text *r, const char *word)
{
  const size_t n = strlen(word);

  if ((size_t)(r->j.end - r->j.at) < n || memcmp(r->j.at, word, n) != 0 ||
      ((size_t)(r->j.end - r->j.at) > n && r->j.at[n] != ' ' && r->j.at[n] != ',')) {
    return false;
  }
  r->j.at += n;
  return true;
}
