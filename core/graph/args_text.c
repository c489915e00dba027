/* SPDX-License-Identifier: MIT */
/*
** Arguments out of printed text, where they stand as one types them in Lua: axes and positions
** count from 1, flags are true and false, chains read as calls.
*/
#include <stdlib.h>
#include <string.h>

#include "graph/load_text.h"
#include "graph/text.h"
#include "op/fused.h"
#include "op/list.h"

/* -- Chains ------------------------------------------------------------------------------ */

int32_t rg_text_link_type(const rg_links *links, int64_t at, const int32_t *dtypes, int32_t n_in)
{
  const int32_t load = links->at[at].load;

  if (load >= 0 && load < n_in && dtypes[load] >= 0) {
    return dtypes[load];
  }
  return at > 0 ? links->at[at - 1].dtype : n_in > 0 ? dtypes[0] : RG_F32;
}

/* An operand: the value, an input or a result from 1 on, a number. */
static bool read_operand(rg_json *j, int8_t *at, double *number)
{
  char c = rg_json_peek(j);
  int64_t value;

  if (c == 'v') {
    j->at++;
    *at = RG_FUSED_VALUE;
    return true;
  }
  if (c != '#') {
    *at = RG_FUSED_NUMBER;
    return rg_json_double(j, number);
  }
  j->at++;
  if (!rg_json_whole(j, 1, RG_FUSED_INPUTS, &value)) {
    return false;
  }
  *at = (int8_t)(value - 1);
  return true;
}

static bool read_name(rg_json *j, rg_link *l)
{
  char name[32];

  if (!rg_json_name(j, name, sizeof(name))) {
    return false;
  }
  l->id = RG_FUSED_CAST;
  for (int32_t id = 0; id < RG_OP_COUNT && strcmp(name, "cast") != 0; id++) {
    if (rg_fused_kind(id) != RG_LINK_NONE && strcmp(name, rg_ops[id]->name) == 0) {
      l->id = (int16_t)id;
      return true;
    }
  }
  return strcmp(name, "cast") == 0 || rg_json_wrong(j, "'%s' is no link of a fused chain", name);
}

/* The operands of a link as it has them: of two, one is the value or becomes it. */
static bool put_operands(rg_json *j, rg_link *l, int8_t a, int8_t b, bool two)
{
  if (!two) {
    l->load = a == RG_FUSED_VALUE ? RG_FUSED_NONE : a;
    return a != RG_FUSED_NUMBER || rg_json_wrong(j, "a function of one number is no link");
  }
  if (a == b && a != RG_FUSED_NUMBER) { /* "mul(#1, #1)" */
    l->load = a == RG_FUSED_VALUE ? RG_FUSED_NONE : a;
    l->with = RG_FUSED_VALUE;
    return true;
  }
  if (a == RG_FUSED_NUMBER && b == RG_FUSED_NUMBER) {
    return rg_json_wrong(j, "a function of two numbers is no link");
  }
  /* reversed: what the value is done with stands first */
  l->reversed = a == RG_FUSED_NUMBER || (b == RG_FUSED_VALUE && a >= 0);
  l->with = l->reversed != 0 ? a : b;
  l->load = l->reversed != 0 ? b : a;
  l->load = l->load == RG_FUSED_VALUE ? RG_FUSED_NONE : l->load;
  return true;
}

/* "add(v, #2): f32 > 1" */
static bool read_call(rg_json *j, rg_links *links, const int32_t *dtypes, int32_t n_in)
{
  rg_link *l = &links->at[links->n];
  int8_t at[2] = { RG_FUSED_NONE, RG_FUSED_NONE };
  int64_t store;
  int32_t dtype;
  bool two = false;

  *l = (rg_link){ .load = RG_FUSED_NONE, .with = RG_FUSED_NONE, .store = RG_FUSED_NONE };
  if (!read_name(j, l) || !rg_json_take(j, '(') || !read_operand(j, &at[0], &l->number)) {
    return false;
  }
  while (rg_json_peek(j) == ',') {
    j->at++;
    if (rg_json_peek(j) == '"' && two) {
      if (!rg_json_word(j, rg_ir_words_of(RG_ARG_ACT), RG_ACT_COUNT, "activation", &dtype)) {
        return false;
      }
      l->act = (int8_t)dtype;
    } else if (two) {
      return rg_json_wrong(j, "a link of more than two operands");
    } else if (!read_operand(j, &at[1], &l->number)) {
      return false;
    } else {
      two = true;
    }
  }
  if (!rg_json_take(j, ')') || !put_operands(j, l, at[0], two ? at[1] : RG_FUSED_NONE, two)) {
    return false;
  }
  l->dtype = (int8_t)rg_text_link_type(links, links->n, dtypes, n_in);
  if (rg_json_peek(j) == ':') {
    char name[16];

    j->at++;
    if (!rg_json_name(j, name, sizeof(name)) || !rg_json_dtype(j, name, strlen(name), &dtype)) {
      return false;
    }
    l->dtype = (int8_t)dtype;
  } else if (l->id == RG_FUSED_CAST) {
    return rg_json_wrong(j, "a cast says its type");
  }
  if (rg_json_peek(j) == '>') {
    j->at++;
    if (!rg_json_whole(j, 1, RG_MAX_OUT, &store)) {
      return false;
    }
    l->store = (int8_t)(store - 1);
  }
  links->n++;
  return true;
}

bool rg_text_links(rg_json *j, const int32_t *dtypes, int32_t n_in, rg_links *links)
{
  if (!rg_json_take(j, '[')) {
    return false;
  }
  while (rg_json_peek(j) != ']') {
    if (links->n == RG_FUSED_LINKS) {
      return rg_json_wrong(j, "more than %d links", RG_FUSED_LINKS);
    }
    if ((links->n > 0 && !rg_json_take(j, ';')) || !read_call(j, links, dtypes, n_in)) {
      return false;
    }
  }
  return rg_json_take(j, ']');
}

/* Links that no call says stand there as in files: [{"op": ...}]. */
static bool read_links(rg_json *j, const rg_arg *arg, const int32_t *dtypes, int32_t n_in,
                       char *args)
{
  rg_json ahead = *j;

  if (rg_json_peek(&ahead) == '[') {
    ahead.at++;
  }
  return rg_json_peek(&ahead) == '{'
             ? rg_json_arg(j, arg, args)
             : rg_text_links(j, dtypes, n_in, (rg_links *)(void *)(args + arg->offset));
}

/* -- Others ------------------------------------------------------------------------------ */

static bool put_whole(rg_json *j, const rg_arg *arg, int64_t value, char *args)
{
  const uint32_t half = (uint32_t)value;

  switch (arg->type) {
  case RG_ARG_i32:
  case RG_ARG_u32:
    memcpy(args + arg->offset, &half, sizeof(half));
    return true;
  case RG_ARG_i64:
    memcpy(args + arg->offset, &value, sizeof(value));
    return true;
  default:
    return rg_json_wrong(j, "%s is no whole number", arg->name);
  }
}

/* "[1, 3]", from 1, as bits. */
static bool read_axes(rg_json *j, const rg_arg *arg, char *args)
{
  uint32_t bits = 0;
  bool begun = false;
  int64_t axis;

  if (!rg_json_take(j, '[')) {
    return false;
  }
  while (rg_json_more(j, ']', &begun)) {
    if (!rg_json_whole(j, 1, RG_MAX_DIMS, &axis)) {
      return false;
    }
    bits |= 1u << (axis - 1);
  }
  return j->status == RG_OK && put_whole(j, arg, bits, args);
}

static bool read_flag(rg_json *j, const rg_arg *arg, char *args)
{
  char word[8];

  if (!rg_json_name(j, word, sizeof(word))) {
    return false;
  }
  const bool is = strcmp(word, "true") == 0;

  return is || strcmp(word, "false") == 0
             ? put_whole(j, arg, is, args)
             : rg_json_wrong(j, "%s is true or false, and there is '%s'", arg->name, word);
}

/* An axis or a position: from 1, and negative ones as they are. */
static bool read_place(rg_json *j, const rg_arg *arg, char *args)
{
  int64_t value;

  if (!rg_json_whole(j, INT32_MIN, INT64_MAX, &value)) {
    return false;
  }
  if (value == 0 || (arg->type != RG_ARG_i64 && value > INT32_MAX)) {
    return rg_json_wrong(j, "%s is %lld, and counts from 1", arg->name, (long long)value);
  }
  return put_whole(j, arg, value > 0 ? value - 1 : value, args);
}

static bool read_order(rg_json *j, const rg_arg *arg, char *args)
{
  rg_sizes *order = (rg_sizes *)(void *)(args + arg->offset);

  if (!rg_json_arg(j, arg, args)) {
    return false;
  }
  for (int64_t i = 0; i < order->n; i++) {
    order->at[i]--;
  }
  return true;
}

static bool read_arg(rg_json *j, const rg_arg *arg, const int32_t *dtypes, int32_t n_in, char *args)
{
  const bool whole = arg->type == RG_ARG_i32 || arg->type == RG_ARG_u32 || arg->type == RG_ARG_i64;

  return whole && arg->kind == RG_ARG_AXES   ? read_axes(j, arg, args)
         : whole && arg->kind == RG_ARG_FLAG ? read_flag(j, arg, args)
         : whole && (arg->kind == RG_ARG_AXIS || arg->kind == RG_ARG_POSITION)
             ? read_place(j, arg, args)
         : arg->type == RG_ARG_sizes && arg->kind == RG_ARG_ORDER ? read_order(j, arg, args)
         : arg->type == RG_ARG_links ? read_links(j, arg, dtypes, n_in, args)
                                     : rg_json_arg(j, arg, args);
}

/* What a call has that does not name an argument. */
static bool put_default(rg_json *j, const rg_op *op, const rg_arg *arg, const rg_meta *result,
                        char *args)
{
  const double value = arg->fallback;
  char *at = args + arg->offset;

  if (arg->type == RG_ARG_meta && result != NULL) {
    memcpy(at, result, sizeof(*result));
    return true;
  }
  if (value != value || arg->type == RG_ARG_meta || arg->type == RG_ARG_sizes ||
      arg->type == RG_ARG_links) {
    return rg_json_wrong(j, "%s is not given its %s", op->name, arg->name);
  }
  if (arg->type == RG_ARG_f64) {
    memcpy(at, &value, sizeof(value));
    return true;
  }
  if (arg->type == RG_ARG_i64x2) {
    const int64_t pair[2] = { (int64_t)value, (int64_t)value };

    memcpy(at, pair, sizeof(pair));
    return true;
  }
  return put_whole(j, arg, (int64_t)value, args);
}

bool rg_text_args(rg_json *j, const rg_op *op, const int32_t *dtypes, int32_t n_in,
                  const rg_meta *result, char *args)
{
  uint64_t seen = 0;
  bool begun = false;
  char name[48];

  memset(args, 0, op->args_size);
  if (rg_json_peek(j) == '{') {
    j->at++;
    while (rg_json_more(j, '}', &begun)) {
      int32_t i = 0;

      if (!rg_json_name(j, name, sizeof(name))) {
        return false;
      }
      while (i < op->n_args && strcmp(name, op->arg[i].name) != 0) {
        i++;
      }
      if (i == op->n_args) {
        return rg_json_wrong(j, "%s has no argument '%s'", op->name, name);
      }
      if ((seen & (uint64_t)1 << i) != 0) {
        return rg_json_wrong(j, "%s is given its %s twice", op->name, name);
      }
      if (!rg_json_take(j, '=') || !read_arg(j, &op->arg[i], dtypes, n_in, args)) {
        return false;
      }
      seen |= (uint64_t)1 << i;
    }
  }
  for (int32_t i = 0; i < op->n_args && j->status == RG_OK; i++) {
    if ((seen & (uint64_t)1 << i) == 0 && !put_default(j, op, &op->arg[i], result, args)) {
      return false;
    }
  }
  return j->status == RG_OK;
}
