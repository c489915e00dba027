/* SPDX-License-Identifier: MIT */
/*
** Graphs in files: what writer and reader share.
*/
#ifndef RIDGE_GRAPH_JSON_H
#define RIDGE_GRAPH_JSON_H

#include "graph/ir.h"

/* A field of a node's modes, which stands in a file where it is not what it mostly is. */
typedef struct rg_ir_mode {
  const char *name;
  size_t offset; /* in rg_graph_modes, an int32_t */
  int32_t fallback;
  int32_t least;
  int32_t most;
  const char *(*word)(int32_t value); /* it is written as; NULL: as a number */
} rg_ir_mode;

static inline int32_t rg_ir_mode_of(const rg_graph_modes *modes, const rg_ir_mode *m)
{
  return *(const int32_t *)(const void *)((const char *)modes + m->offset);
}

extern const rg_ir_mode rg_ir_mode_fields[]; /* name is NULL at the end */

/* -- Reading JSON (parse.c) ---------------------------------------------------------------- */

/* A text that is read from its beginning to its end, once; the first mistake stays. */
typedef struct rg_json {
  const char *at;
  const char *end;
  int32_t line;
  const char *begin; /* of the line, for messages that say the column; NULL: they do not */
  rg_status status;  /* RG_EFORMAT where it is not what was asked for; RG_ENOMEM */
  char *text;        /* of the string that was read last; it grows, so the next may lie elsewhere */
  size_t room;
} rg_json;

void rg_json_open(rg_json *j, const char *text, int64_t n);
void rg_json_close(rg_json *j);

/* What was found is wrong: the first such sentence, with its line.  Returns false. */
bool rg_json_wrong(rg_json *j, const char *format, ...) RG_PRINTF(2, 3);

/* The next character behind spaces; 0 at the end. */
char rg_json_peek(rg_json *j);

/* One character that has to be there. */
bool rg_json_take(rg_json *j, char c);

/* Go through a list or an object, whose first bracket was taken: true where one more comes. */
bool rg_json_more(rg_json *j, char close, bool *begun);

/* A string into j->text. */
bool rg_json_string(rg_json *j);

/* n bytes into j->text; one of them may be no 0. */
bool rg_json_keep(rg_json *j, const char *from, size_t n);

/* A word of letters, digits and _ into name, which has room for n bytes. */
bool rg_json_name(rg_json *j, char *name, size_t n);

/* The name of a field, and its colon. */
bool rg_json_key(rg_json *j);

/* A whole number of a range. */
bool rg_json_whole(rg_json *j, int64_t least, int64_t most, int64_t *out);

bool rg_json_number(rg_json *j, double *out);

/* The same, and what JSON has no number for: "inf", "-inf", "nan:" with its bits. */
bool rg_json_double(rg_json *j, double *out);

/* null, where it stands there. */
bool rg_json_null(rg_json *j);

/* Is the string that was read last this one? */
bool rg_json_is(const rg_json *j, const char *text);

/* Which of n words, or of those before NULL, a string is; what: they are. */
bool rg_json_word(rg_json *j, const char *const *words, int32_t n, const char *what, int32_t *out);

/* The type with a name of n bytes. */
bool rg_json_dtype(rg_json *j, const char *name, size_t n, int32_t *out);

/* "f32[2,6]": of no more elements than any memory holds. */
bool rg_json_meta(rg_json *j, rg_meta *meta);

bool rg_json_device(rg_json *j, int32_t *device);

/* A type with its shape that is not in quotes, up to a space or comma. */
bool rg_json_plain_meta(rg_json *j, rg_meta *meta);

/* One argument of an operation into the struct of all, as files have it. */
bool rg_json_arg(rg_json *j, const rg_arg *arg, char *args);

/* Streams of random numbers up to a number, for nodes that draw from them; what they draw is the
** business of who runs the graph. */
rg_status rg_json_streams(rg_graph *g, int32_t n) RG_CHECK;
enum { RG_JSON_MOST_STREAMS = 1000 };

/* Every argument of an operation, by its schema, into the struct of these. */
bool rg_json_args(rg_json *j, const rg_op *op, char *args);

/* Nothing is left. */
bool rg_json_end(rg_json *j);

#endif
