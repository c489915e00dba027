/* SPDX-License-Identifier: MIT */
/*
** A printed graph while it is read: load_text.c goes through its lines, node_text.c reads those of
** nodes, and words_text.c what lines consist of.
*/
#ifndef RIDGE_GRAPH_READ_TEXT_H
#define RIDGE_GRAPH_READ_TEXT_H

#include "graph/load_text.h"
#include "graph/store.h"

enum { RG_TEXT_NOT_SAID = -2 };

/* A value of the text. */
typedef struct rg_text_result {
  int32_t id; /* of the text */
  rg_meta meta;
  int32_t device;
  int32_t was;     /* of the graph; -1 */
  int32_t written; /* with which `was` of the text's; -1 */
  int32_t storage; /* of which value of the graph; RG_IR_NONE: a new one; RG_TEXT_NOT_SAID */
} rg_text_result;

/* A compound whose body is read. */
typedef struct rg_text_body {
  int32_t node;
  int32_t out; /* of `result`, where its own begin */
  int32_t n_out;
} rg_text_body;

typedef struct rg_text {
  rg_json j; /* of the line that is read */
  rg_graph *g;
  rg_ir_array value; /* int32_t: by number in the text that in the graph, one larger; 0: none yet */
  rg_ir_array last;  /* int32_t: by storage of the graph, its version as of now */
  rg_ir_array first; /* int32_t: by storage, the first value that was there before; -1: none was */
  rg_ir_array state; /* int32_t: those of them that were written, in their order */
  rg_ir_array in;    /* int32_t: of the node that is read, of the graph */
  rg_ir_array result; /* rg_text_result: of that, and of open compounds before it */
  rg_ir_array open;   /* rg_text_body */
  int32_t most_ids;
  int32_t n_nodes;
  bool inputs_said;
  bool states_said;
  _Alignas(8) char args[RG_IR_MOST_ARGS];
} rg_text;

/* A failure that is none of the text's stays as it is. */
bool rg_text_passed(rg_text *r, rg_status status);

/* Element i of an array of numbers, which grows up to it, filled; and one more at its end. */
bool rg_text_at(rg_text *r, rg_ir_array *array, int32_t i, int32_t fill, int32_t **out);
bool rg_text_push(rg_text *r, rg_ir_array *array, int32_t number);

/* Behind spaces: is this the next character, which is passed then? */
bool rg_text_next(rg_text *r, char c);

/* Begins the rest of the line with a word that ends there?  Then it is passed. */
bool rg_text_word(rg_text *r, const char *word);

/* A word that has to come. */
bool rg_text_take_word(rg_text *r, const char *word);

/* "%12": its number in the text; or, of a value that is there, in the graph. */
bool rg_text_id(rg_text *r, int32_t *id);
bool rg_text_value(rg_text *r, int32_t *out);

/* The value that is known by this number, or RG_IR_NONE. */
int32_t rg_text_known(const rg_text *r, int32_t id);

/* A value of the text is this one of the graph. */
bool rg_text_define(rg_text *r, int32_t id, int32_t value);

/* ": f32[2,6]@cuda:0" */
bool rg_text_type(rg_text *r, rg_meta *meta, int32_t *device);

/* What stands up to two spaces or the end, or in quotes, into j.text; and that as the graph's. */
bool rg_text_part(rg_text *r);
bool rg_text_keep_part(rg_text *r, rg_ir_text *out);

/* Nothing but spaces is left of the line. */
bool rg_text_end_line(rg_text *r);

/* The rest of a line that is a node. */
bool rg_text_node(rg_text *r);

/* The last compound that is open is over: its results are values of its body's, or its inputs. */
bool rg_text_end_body(rg_text *r);

#endif
