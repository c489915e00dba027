/* SPDX-License-Identifier: MIT */
/*
** What stands in the fields of a file of a graph: words, types with shapes, devices, arguments.
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/json.h"
#include "graph/text.h"
#include "op/fused.h"
#include "op/list.h"
#include "tensor/tensor.h"

static const int64_t MOST_ELEMENTS = (int64_t)1 << 40;

/* Which of some words a string is. */
bool rg_json_word(rg_json *j, const char *const *words, int32_t n, const char *what, int32_t *out)
{
  if (!rg_json_string(j)) {
    return false;
  }
  for (*out = 0; *out < n && words[*out] != NULL; ++*out) {
    if (strcmp(words[*out], j->text) == 0) {
      return true;
    }
  }
  return rg_json_wrong(j, "there is no %s '%.40s'", what, j->text);
}

/* -- Types ------------------------------------------------------------------------------- */

bool rg_json_dtype(rg_json *j, const char *name, size_t n, int32_t *out)
{
  for (*out = 0; *out < RG_DTYPE_COUNT; ++*out) {
    if (strlen(rg_dtype_name(*out)) == n && strncmp(rg_dtype_name(*out), name, n) == 0) {
      return true;
    }
  }
  return rg_json_wrong(j, "there is no type '%.*s'", (int)rg_min_i64((int64_t)n, 20), name);
}

/* "f32[2,6]" */
static bool read_meta(rg_json *j, const char *at, rg_meta *meta)
{
  int64_t count = 1;
  const char *open = strchr(at, '[');

  *meta = (rg_meta){ 0 };
  if (open == NULL) {
    return rg_json_wrong(j, "'%.40s' is no type with a shape", at);
  }
  if (!rg_json_dtype(j, at, (size_t)(open - at), &meta->dtype)) {
    return false;
  }
  at = open + 1;
  while (*at != ']') {
    char *end;
    int64_t size = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : -1;

    if (size < 0 || size > MOST_ELEMENTS || meta->ndim == RG_MAX_DIMS ||
        !rg_count_grows(&count, size) || count > MOST_ELEMENTS || (*end != ',' && *end != ']')) {
      return rg_json_wrong(j, "'%.40s' is no shape", open);
    }
    meta->shape[meta->ndim++] = size;
    at = *end == ',' ? end + 1 : end;
    if (*end == ',' && *at == ']') {
      return rg_json_wrong(j, "'%.40s' is no shape", open);
    }
  }
  return at[1] == '\0' ? true : rg_json_wrong(j, "'%.40s' is no shape", open);
}

bool rg_json_meta(rg_json *j, rg_meta *meta)
{
  return rg_json_string(j) && read_meta(j, j->text, meta);
}

bool rg_json_plain_meta(rg_json *j, rg_meta *meta)
{
  char text[256];
  size_t n = 0;
  bool open = false;

  (void)rg_json_peek(j);
  for (const char *at = j->at; at < j->end && n < sizeof(text) - 1; at++) {
    if (*at == ' ' || *at == '\n' || *at == '@' || (*at == ',' && !open)) {
      break;
    }
    open = *at == '[' || (open && *at != ']');
    text[n++] = *at;
  }
  text[n] = '\0';
  if (!read_meta(j, text, meta)) {
    return false;
  }
  j->at += n;
  return true;
}

bool rg_json_device(rg_json *j, int32_t *device)
{
  if (!rg_json_string(j)) {
    return false;
  }
  for (*device = 0; *device < RG_DEVICE_COUNT; ++*device) {
    if (strcmp(rg_device_name(*device), j->text) == 0) {
      return true;
    }
  }
  return rg_json_wrong(j, "there is no device '%.40s'", j->text);
}

/* -- Arguments --------------------------------------------------------------------------- */

/* "inf", "-inf", "nan:7ff8..." */
static bool read_special(rg_json *j, double *out)
{
  char *end = NULL;
  uint64_t bits;

  if (!rg_json_string(j)) {
    return false;
  }
  if (strcmp(j->text, "inf") == 0 || strcmp(j->text, "-inf") == 0) {
    *out = j->text[0] == '-' ? -INFINITY : INFINITY;
    return true;
  }
  if (strncmp(j->text, "nan:", 4) == 0 && strlen(j->text) == 20) {
    bits = strtoull(j->text + 4, &end, 16);
    memcpy(out, &bits, sizeof(bits));
    if (*end == '\0' && isnan(*out)) {
      return true;
    }
  }
  return rg_json_wrong(j, "'%.40s' is no number", j->text);
}

bool rg_json_double(rg_json *j, double *out)
{
  return rg_json_peek(j) == '"' ? read_special(j, out) : rg_json_number(j, out);
}

static bool read_whole_arg(rg_json *j, const rg_arg *arg, int64_t least, int64_t most, int64_t *out)
{
  const char *const *words = rg_ir_words_of(arg->kind);
  int32_t word;

  if (rg_json_peek(j) != '"') {
    return rg_json_whole(j, least, most, out);
  }
  if (arg->kind == RG_ARG_DTYPE) {
    if (!rg_json_string(j) || !rg_json_dtype(j, j->text, strlen(j->text), &word)) {
      return false;
    }
  } else if (words == NULL) {
    return rg_json_wrong(j, "%s is a number", arg->name);
  } else if (!rg_json_word(j, words, INT32_MAX, arg->name, &word)) {
    return false;
  }
  *out = word;
  return true;
}

static bool read_pair(rg_json *j, int64_t *out)
{
  return rg_json_take(j, '[') && rg_json_whole(j, INT64_MIN, INT64_MAX, &out[0]) &&
         rg_json_take(j, ',') && rg_json_whole(j, INT64_MIN, INT64_MAX, &out[1]) &&
         rg_json_take(j, ']');
}

/* A number for each axis. */
static bool read_sizes(rg_json *j, rg_sizes *sizes)
{
  bool begun = false;

  if (!rg_json_take(j, '[')) {
    return false;
  }
  while (rg_json_more(j, ']', &begun)) {
    if (sizes->n == RG_MAX_DIMS) {
      return rg_json_wrong(j, "more than %d axes", RG_MAX_DIMS);
    }
    if (!rg_json_whole(j, -MOST_ELEMENTS, MOST_ELEMENTS, &sizes->at[sizes->n])) {
      return false;
    }
    sizes->n++;
  }
  return j->status == RG_OK;
}

/* The name of an operation that a link can be. */
static bool read_link_op(rg_json *j, rg_link *l)
{
  if (!rg_json_string(j)) {
    return false;
  }
  l->id = RG_FUSED_CAST;
  if (rg_json_is(j, "cast")) {
    return true;
  }
  for (int32_t id = 0; id < RG_OP_COUNT; id++) {
    if (rg_fused_kind(id) != RG_LINK_NONE && rg_json_is(j, rg_ops[id]->name)) {
      l->id = (int16_t)id;
      return true;
    }
  }
  return rg_json_wrong(j, "'%.40s' is no link of a fused chain", j->text);
}

static bool read_small(rg_json *j, int64_t most, int8_t *out)
{
  int64_t value;

  if (!rg_json_whole(j, 0, most, &value)) {
    return false;
  }
  *out = (int8_t)value;
  return true;
}

static bool read_with(rg_json *j, rg_link *l)
{
  if (rg_json_peek(j) != '"') {
    return read_small(j, RG_FUSED_INPUTS - 1, &l->with);
  }
  l->with = RG_FUSED_VALUE;
  return rg_json_string(j) &&
         (rg_json_is(j, "value") || rg_json_wrong(j, "'%.40s' is no operand", j->text));
}

/* Fields of a link, as bits. */
enum { LINK_OP = 1, LINK_TYPE = 2, LINK_WITH = 4 };

static bool read_link_field(rg_json *j, rg_link *l, int32_t *seen)
{
  int32_t word;

  if (rg_json_is(j, "op")) {
    *seen |= LINK_OP;
    return read_link_op(j, l);
  }
  if (rg_json_is(j, "type")) {
    *seen |= LINK_TYPE;
    if (!rg_json_string(j) || !rg_json_dtype(j, j->text, strlen(j->text), &word)) {
      return false;
    }
    l->dtype = (int8_t)word;
    return true;
  }
  if (rg_json_is(j, "act")) {
    if (!rg_json_word(j, rg_ir_words_of(RG_ARG_ACT), RG_ACT_COUNT, "activation", &word)) {
      return false;
    }
    l->act = (int8_t)word;
    return true;
  }
  if (rg_json_is(j, "with") || rg_json_is(j, "number")) {
    bool number = rg_json_is(j, "number");

    if ((*seen & LINK_WITH) != 0) {
      return rg_json_wrong(j, "a link has one second operand");
    }
    *seen |= LINK_WITH;
    l->with = number ? RG_FUSED_NUMBER : RG_FUSED_NONE;
    return number ? rg_json_double(j, &l->number) : read_with(j, l);
  }
  return rg_json_is(j, "load")       ? read_small(j, RG_FUSED_INPUTS - 1, &l->load)
         : rg_json_is(j, "store")    ? read_small(j, RG_MAX_OUT - 1, &l->store)
         : rg_json_is(j, "reversed") ? read_small(j, 1, &l->reversed)
                                     : rg_json_wrong(j, "a link has no '%.40s'", j->text);
}

/* Whether it fits what it is given, its record says. */
static bool read_link(rg_json *j, rg_link *l)
{
  bool begun = false;
  int32_t seen = 0;

  *l = (rg_link){ .load = RG_FUSED_NONE, .with = RG_FUSED_NONE, .store = RG_FUSED_NONE };
  if (!rg_json_take(j, '{')) {
    return false;
  }
  while (rg_json_more(j, '}', &begun)) {
    if (!rg_json_key(j) || !read_link_field(j, l, &seen)) {
      return false;
    }
  }
  return j->status == RG_OK && (seen & (LINK_OP | LINK_TYPE)) != (LINK_OP | LINK_TYPE)
             ? rg_json_wrong(j, "a link has an op and a type")
             : j->status == RG_OK;
}

static bool read_links(rg_json *j, rg_links *links)
{
  bool begun = false;

  if (!rg_json_take(j, '[')) {
    return false;
  }
  while (rg_json_more(j, ']', &begun)) {
    if (links->n == RG_FUSED_LINKS) {
      return rg_json_wrong(j, "more than %d links", RG_FUSED_LINKS);
    }
    if (!read_link(j, &links->at[links->n])) {
      return false;
    }
    links->n++;
  }
  return j->status == RG_OK;
}

bool rg_json_arg(rg_json *j, const rg_arg *arg, char *args)
{
  char *at = args + arg->offset;
  int64_t pair[2] = { 0 };
  double number;
  rg_meta meta;

  switch (arg->type) {
  case RG_ARG_f64:
    if (!rg_json_double(j, &number)) {
      return false;
    }
    memcpy(at, &number, sizeof(number));
    return true;
  case RG_ARG_meta:
    if (!rg_json_meta(j, &meta)) {
      return false;
    }
    memcpy(at, &meta, sizeof(meta));
    return true;
  case RG_ARG_sizes:
    return read_sizes(j, (rg_sizes *)(void *)at);
  case RG_ARG_links:
    return read_links(j, (rg_links *)(void *)at);
  case RG_ARG_i64x2:
    if (!read_pair(j, pair)) {
      return false;
    }
    memcpy(at, pair, sizeof(pair));
    return true;
  case RG_ARG_i64:
    if (!read_whole_arg(j, arg, INT64_MIN, INT64_MAX, pair)) {
      return false;
    }
    memcpy(at, pair, sizeof(pair[0]));
    return true;
  case RG_ARG_i32:
  case RG_ARG_u32: {
    bool is_signed = arg->type == RG_ARG_i32;

    if (!read_whole_arg(j, arg, is_signed ? INT32_MIN : 0, is_signed ? INT32_MAX : UINT32_MAX,
                        pair)) {
      return false;
    }
    uint32_t half = (uint32_t)pair[0];

    memcpy(at, &half, sizeof(half));
    return true;
  }
  default:
    return rg_json_wrong(j, "%s is of no type that is read", arg->name);
  }
}

bool rg_json_args(rg_json *j, const rg_op *op, char *args)
{
  uint64_t seen = 0;
  bool begun = false;

  memset(args, 0, op->args_size);
  if (!rg_json_take(j, '{')) {
    return false;
  }
  while (rg_json_more(j, '}', &begun)) {
    int32_t i = 0;

    if (!rg_json_key(j)) {
      return false;
    }
    while (i < op->n_args && !rg_json_is(j, op->arg[i].name)) {
      i++;
    }
    if (i == op->n_args) {
      return rg_json_wrong(j, "%s has no argument '%.40s'", op->name, j->text);
    }
    if ((seen & ((uint64_t)1 << i)) != 0) {
      return rg_json_wrong(j, "%s is given its %s twice", op->name, op->arg[i].name);
    }
    if (!rg_json_arg(j, &op->arg[i], args)) {
      return false;
    }
    seen |= (uint64_t)1 << i;
  }
  for (int32_t i = 0; j->status == RG_OK && i < op->n_args; i++) {
    if ((seen & ((uint64_t)1 << i)) == 0) { /* as in files of before the argument was there */
      return rg_json_wrong(j, "%s is without its %s, which this version of ridge gives it",
                           op->name, op->arg[i].name);
    }
  }
  return j->status == RG_OK;
}
