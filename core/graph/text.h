/* SPDX-License-Identifier: MIT */
/*
** Text that grows, and what of a graph is the same in print and in a file.
*/
#ifndef RIDGE_GRAPH_TEXT_H
#define RIDGE_GRAPH_TEXT_H

#include "graph/ir.h"

typedef struct rg_ir_out {
  char *data; /* ends with a 0 */
  size_t n;
  size_t room;
  bool failed;           /* there was no memory; all that follows does nothing */
  const rg_arg *unknown; /* an argument of a type that has no text; NULL: there was none */
} rg_ir_out;

void rg_ir_put(rg_ir_out *o, const char *format, ...) RG_PRINTF(2, 3);
void rg_ir_put_text(rg_ir_out *o, const char *text);

/* Spaces up to a column, at least one. */
void rg_ir_put_to(rg_ir_out *o, size_t line, size_t column);

/* "f32[2,6]" */
void rg_ir_put_meta(rg_ir_out *o, const rg_meta *meta);

/* An argument as JSON: a number, a word in quotes, a list.  Axes and positions count from 0, as in
** the struct.  Reading it gives the same bits. */
void rg_ir_put_arg(rg_ir_out *o, const rg_arg *arg, const void *args);

/* The same as one types it in Lua: axes and positions count from 1, flags are true or false. */
void rg_ir_put_typed_arg(rg_ir_out *o, const rg_arg *arg, const void *args);

/* A chain as one reads it: "[mul(#1, 2); cast(v): bf16 > 1]".  dtypes: of its n_in inputs, so that
** types stand there that do not follow from them; NULL: only those of casts do. */
void rg_ir_put_links(rg_ir_out *o, const rg_links *links, const int32_t *dtypes, int32_t n_in);

/* A text in quotes, as JSON has it. */
void rg_ir_put_quoted(rg_ir_out *o, const char *text);

/* A number so that reading it gives the same bits; in quotes where JSON has no such number. */
void rg_ir_put_double(rg_ir_out *o, double x);

/* Has an argument the value that a call without it has? */
bool rg_ir_arg_is_default(const rg_arg *arg, const void *args);

/* Words for the numbers of a kind of argument, NULL at the end; NULL: it has none. */
const char *const *rg_ir_words_of(int32_t kind);

/* What was written becomes the graph's, until the next time.  RG_ENOMEM; RG_EBUG where something
** has no text. */
rg_status rg_ir_show(rg_graph *g, rg_ir_out *o, const char **out) RG_CHECK;

extern const char *const rg_ir_value_kinds[RG_VALUE_KIND_COUNT];
extern const char *const rg_ir_output_kinds[RG_OUTPUT_KIND_COUNT];

#endif
