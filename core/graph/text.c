/* SPDX-License-Identifier: MIT */
/*
** Text that grows; arguments, types and kinds as text.
*/
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/load_text.h"
#include "graph/store.h"
#include "graph/text.h"
#include "op/fused.h"
#include "ridge/image.h"
#include "ridge/loss.h"

const char *const rg_ir_value_kinds[] = { "input", "parameter", "constant", "state",
                                          "intermediate" };
const char *const rg_ir_output_kinds[] = { "returned", "gradient", "kept" };

/* -- Growing ----------------------------------------------------------------------------- */

enum { FIRST_ROOM = 4096 };

static bool has_room(rg_ir_out *o, size_t more)
{
  if (o->failed || o->n + more < o->room) {
    return !o->failed;
  }
  size_t room = o->room + o->n + more + FIRST_ROOM; /* twice as much and more */
  char *data = rg_host_alloc(room);

  if (data == NULL) {
    o->failed = true;
    return false;
  }
  if (o->data != NULL) {
    memcpy(data, o->data, o->n + 1);
  }
  rg_host_free(o->data);
  o->data = data;
  o->room = room;
  return true;
}

void rg_ir_put_text(rg_ir_out *o, const char *text)
{
  size_t n = strlen(text);

  if (has_room(o, n)) {
    memcpy(o->data + o->n, text, n + 1);
    o->n += n;
  }
}

void rg_ir_put(rg_ir_out *o, const char *format, ...)
{
  char text[512];
  va_list list;

  va_start(list, format);
  (void)vsnprintf(text, sizeof(text), format, list);
  va_end(list);
  rg_ir_put_text(o, text);
}

void rg_ir_put_to(rg_ir_out *o, size_t line, size_t column)
{
  do {
    rg_ir_put_text(o, " ");
  } while (!o->failed && o->n - line < column);
}

void rg_ir_put_quoted(rg_ir_out *o, const char *text)
{
  char one[2] = { 0 };

  rg_ir_put_text(o, "\"");
  for (; *text != '\0'; text++) {
    if (*text == '"' || *text == '\\') {
      rg_ir_put(o, "\\%c", *text);
    } else if ((unsigned char)*text < ' ') {
      rg_ir_put(o, "\\u%04x", (unsigned)*text);
    } else {
      one[0] = *text;
      rg_ir_put_text(o, one);
    }
  }
  rg_ir_put_text(o, "\"");
}

rg_status rg_ir_show(rg_graph *g, rg_ir_out *o, const char **out)
{
  if (o->failed || o->unknown != NULL) {
    rg_host_free(o->data);
    return o->failed ? rg_ir_no_memory()
                     : rg_fail(RG_EBUG, "graph: argument %s is of type %d, which has no text",
                               o->unknown->name, o->unknown->type);
  }
  rg_host_free(g->shown);
  g->shown = o->data;
  *out = o->data;
  return RG_OK;
}

/* -- Types ------------------------------------------------------------------------------- */

void rg_ir_put_meta(rg_ir_out *o, const rg_meta *meta)
{
  char shape[192];

  rg_ir_put(o, "%s%s", rg_dtype_name(meta->dtype),
            rg_shape_text(meta->shape, meta->ndim, shape, sizeof(shape)));
}

/* -- Arguments --------------------------------------------------------------------------- */

#define ACT_WORD(NAME, name) #name,
static const char *const acts[] = { "none", RG_ACT_LIST(ACT_WORD) NULL };
#undef ACT_WORD
static const char *const layouts[] = { "nchw", "nhwc", NULL };
static const char *const reductions[] = { "mean", "sum", "none", NULL };

_Static_assert(sizeof(reductions) / sizeof(reductions[0]) == RG_LOSS_COUNT + 1,
               "a word for each reduction");

const char *const *rg_ir_words_of(int32_t kind)
{
  return kind == RG_ARG_ACT         ? acts
         : kind == RG_ARG_LAYOUT    ? layouts
         : kind == RG_ARG_REDUCTION ? reductions
                                    : NULL;
}

void rg_ir_put_double(rg_ir_out *o, double x)
{
  char text[40];

  if (!isfinite(x)) {
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    if (isinf(x)) {
      rg_ir_put(o, "\"%sinf\"", x < 0 ? "-" : "");
    } else {
      rg_ir_put(o, "\"nan:%016llx\"", (unsigned long long)bits);
    }
    return;
  }
  for (int digits = 15; digits <= 17; digits += 2) {
    (void)snprintf(text, sizeof(text), "%.*g", digits, x);
    if (strtod(text, NULL) == x) {
      break;
    }
  }
  rg_ir_put_text(o, text);
}

static void put_whole(rg_ir_out *o, const rg_arg *arg, int64_t value)
{
  const char *const *words = rg_ir_words_of(arg->kind);

  if (arg->kind == RG_ARG_DTYPE && rg_dtype_bytes((int32_t)value) > 0) {
    rg_ir_put(o, "\"%s\"", rg_dtype_name((int32_t)value));
    return;
  }
  for (int64_t i = 0; words != NULL && words[i] != NULL; i++) {
    if (i == value) {
      rg_ir_put(o, "\"%s\"", words[i]);
      return;
    }
  }
  rg_ir_put(o, "%lld", (long long)value);
}

/* from: what the first of them is called. */
static void put_list(rg_ir_out *o, const rg_sizes *list, int64_t from)
{
  rg_ir_put_text(o, "[");
  for (int64_t i = 0; i < list->n && i < RG_MAX_DIMS; i++) {
    rg_ir_put(o, i > 0 ? ", %lld" : "%lld", (long long)(list->at[i] + from));
  }
  rg_ir_put_text(o, "]");
}

/* A link, with what it has of fields. */
static void put_link(rg_ir_out *o, const rg_link *l)
{
  rg_ir_put(o, "{\"op\": \"%s\", \"type\": \"%s\"", rg_fused_name(l), rg_dtype_name(l->dtype));
  if (l->load != RG_FUSED_NONE) {
    rg_ir_put(o, ", \"load\": %d", l->load);
  }
  if (l->with >= 0) {
    rg_ir_put(o, ", \"with\": %d", l->with);
  } else if (l->with == RG_FUSED_VALUE) {
    rg_ir_put_text(o, ", \"with\": \"value\"");
  } else if (l->with == RG_FUSED_NUMBER) {
    rg_ir_put_text(o, ", \"number\": ");
    rg_ir_put_double(o, l->number);
  }
  if (l->act > RG_ACT_NONE && l->act < RG_ACT_COUNT) {
    rg_ir_put(o, ", \"act\": \"%s\"", acts[l->act]);
  }
  if (l->reversed != 0) {
    rg_ir_put_text(o, ", \"reversed\": 1");
  }
  if (l->store != RG_FUSED_NONE) {
    rg_ir_put(o, ", \"store\": %d", l->store);
  }
  rg_ir_put_text(o, "}");
}

static void put_links(rg_ir_out *o, const rg_links *links)
{
  rg_ir_put_text(o, "[");
  for (int64_t i = 0; i < links->n && i < RG_FUSED_LINKS; i++) {
    rg_ir_put_text(o, i > 0 ? ", " : "");
    put_link(o, &links->at[i]);
  }
  rg_ir_put_text(o, "]");
}

void rg_ir_put_arg(rg_ir_out *o, const rg_arg *arg, const void *args)
{
  const void *at = (const char *)args + arg->offset;
  const int64_t *wide = at;

  switch (arg->type) {
  case RG_ARG_i32:
    put_whole(o, arg, *(const int32_t *)at);
    break;
  case RG_ARG_u32:
    put_whole(o, arg, *(const uint32_t *)at);
    break;
  case RG_ARG_f64:
    rg_ir_put_double(o, *(const double *)at);
    break;
  case RG_ARG_i64x2:
    rg_ir_put(o, "[%lld, %lld]", (long long)wide[0], (long long)wide[1]);
    break;
  case RG_ARG_i64:
    put_whole(o, arg, *wide);
    break;
  case RG_ARG_sizes:
    put_list(o, at, 0);
    break;
  case RG_ARG_links:
    put_links(o, at);
    break;
  case RG_ARG_meta:
    rg_ir_put_text(o, "\"");
    rg_ir_put_meta(o, at);
    rg_ir_put_text(o, "\"");
    break;
  default:
    o->unknown = arg;
  }
}

/* A link as one reads it: "mul(#1, 2)", "cast(v): bf16", "add(v, #2) > 1"; v is the value, #2 the
** second input or, behind those, result, and > 1 stores the first result. */
static void print_operand(rg_ir_out *o, int32_t at, double number)
{
  if (at == RG_FUSED_NUMBER) {
    rg_ir_put_double(o, number);
  } else if (at < 0) {
    rg_ir_put_text(o, "v");
  } else {
    rg_ir_put(o, "#%d", at + 1);
  }
}

/* typed: says the type also where the link is no cast. */
static void print_link(rg_ir_out *o, const rg_link *l, bool typed)
{
  int32_t a = l->load;
  int32_t b = l->with;
  bool two = b != RG_FUSED_NONE;

  /* beside what it loads, its second operand may be the same value */
  b = b == RG_FUSED_VALUE ? a : b;
  rg_ir_put(o, "%s(", rg_fused_name(l));
  print_operand(o, two && l->reversed != 0 ? b : a, l->number);
  if (two) {
    rg_ir_put_text(o, ", ");
    print_operand(o, l->reversed != 0 ? a : b, l->number);
  }
  if (l->act > RG_ACT_NONE && l->act < RG_ACT_COUNT) {
    rg_ir_put(o, ", \"%s\"", acts[l->act]);
  }
  rg_ir_put_text(o, ")");
  if (l->id == RG_FUSED_CAST || typed) {
    rg_ir_put(o, ": %s", rg_dtype_name(l->dtype));
  }
  if (l->store >= 0) {
    rg_ir_put(o, " > %d", l->store + 1);
  }
}

void rg_ir_put_links(rg_ir_out *o, const rg_links *links, const int32_t *dtypes, int32_t n_in)
{
  rg_ir_put_text(o, "[");
  for (int64_t i = 0; i < links->n && i < RG_FUSED_LINKS; i++) {
    const rg_link *l = &links->at[i];

    rg_ir_put_text(o, i > 0 ? "; " : "");
    print_link(o, l, dtypes != NULL && l->dtype != rg_text_link_type(links, i, dtypes, n_in));
  }
  rg_ir_put_text(o, "]");
}

/* A set of axes. */
static void put_axes(rg_ir_out *o, uint32_t axes)
{
  rg_sizes list = { 0 };

  for (int32_t i = 0; i < RG_MAX_DIMS; i++) {
    if ((axes >> i & 1) != 0) {
      list.at[list.n++] = i;
    }
  }
  put_list(o, &list, 1);
}

/* The whole number of an argument, where it is one. */
static bool whole_of(const rg_arg *arg, const void *args, int64_t *out)
{
  const void *at = (const char *)args + arg->offset;

  switch (arg->type) {
  case RG_ARG_i32:
    *out = *(const int32_t *)at;
    return true;
  case RG_ARG_u32:
    *out = *(const uint32_t *)at;
    return true;
  case RG_ARG_i64:
    *out = *(const int64_t *)at;
    return true;
  default:
    return false;
  }
}

void rg_ir_put_typed_arg(rg_ir_out *o, const rg_arg *arg, const void *args)
{
  int64_t value = 0;
  bool whole = whole_of(arg, args, &value);

  if (whole && arg->kind == RG_ARG_AXES) {
    put_axes(o, (uint32_t)value);
  } else if (whole && arg->kind == RG_ARG_FLAG) {
    rg_ir_put_text(o, value != 0 ? "true" : "false");
  } else if (whole && (arg->kind == RG_ARG_AXIS || arg->kind == RG_ARG_POSITION) && value >= 0) {
    rg_ir_put(o, "%lld", (long long)value + 1);
  } else if (arg->type == RG_ARG_sizes) {
    put_list(o, (const rg_sizes *)(const void *)((const char *)args + arg->offset),
             arg->kind == RG_ARG_ORDER ? 1 : 0);
  } else if (arg->type == RG_ARG_links) {
    rg_ir_put_links(o, (const rg_links *)(const void *)((const char *)args + arg->offset), NULL, 0);
  } else {
    rg_ir_put_arg(o, arg, args);
  }
}

bool rg_ir_arg_is_default(const rg_arg *arg, const void *args)
{
  const void *at = (const char *)args + arg->offset;
  const int64_t *wide = at;

  switch (arg->type) {
  case RG_ARG_i32:
    return *(const int32_t *)at == arg->fallback;
  case RG_ARG_u32:
    return *(const uint32_t *)at == arg->fallback;
  case RG_ARG_i64:
    return (double)*wide == arg->fallback;
  case RG_ARG_i64x2:
    return (double)wide[0] == arg->fallback && (double)wide[1] == arg->fallback;
  case RG_ARG_f64: /* -0 is not 0 */
    return *(const double *)at == arg->fallback &&
           !signbit(*(const double *)at) == !signbit(arg->fallback);
  default:
    return false;
  }
}
