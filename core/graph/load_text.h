/* SPDX-License-Identifier: MIT */
/*
** Graphs out of printed text (print.c): what its writer and its reader have to agree on, and what
** the reader consists of.
**
** A text leaves out what the nodes before say: a result has a storage of its own, that of a view is
** its base's, a write makes the next version, and what a call computes in, how many results it has
** and what it costs its record says.  Where a graph is otherwise the text says so.
*/
#ifndef RIDGE_GRAPH_LOAD_TEXT_H
#define RIDGE_GRAPH_LOAD_TEXT_H

#include "graph/json.h"

/* Is a text a name that stands in a printed graph without quotes? */
bool rg_text_is_name(const char *text);

/* The same of a module, and of a line ("net.lua:12"), of which no text is both. */
bool rg_text_is_module(const char *text);
bool rg_text_is_line(const char *text);

/* Type that a link of a chain makes where the text does not say it: at is its number.  dtypes: of
** the n_in inputs. */
int32_t rg_text_link_type(const rg_links *links, int64_t at, const int32_t *dtypes, int32_t n_in);

/* The outputs that write over what n_was values was: filled into `to`, one for each, where the text
** does not say it.  metas: of n_out outputs; was: of n_was values. */
void rg_text_writers(const rg_meta *const *metas, int32_t n_out, const rg_meta *const *was,
                     int32_t n_was, int32_t *to);

/* "[mul(#1, 2); exp(v) > 1]" into links that are all zero.  dtypes: of the n_in inputs. */
bool rg_text_links(rg_json *j, const int32_t *dtypes, int32_t n_in, rg_links *links);

/* "{axis=1, keep=true}", as printed, into a struct that is all zero.  dtypes: of the n_in inputs;
** result: what the first output is, NULL where there is none. */
bool rg_text_args(rg_json *j, const rg_op *op, const int32_t *dtypes, int32_t n_in,
                  const rg_meta *result, char *args);

/* Begins a text as a printed graph does? */
bool rg_text_is_graph(const char *text, int64_t n);

/* text: n bytes, from anywhere; g: without nodes.  Returns what is wrong, RG_EFORMAT, with its line
** and column. */
rg_status rg_text_load(const char *text, int64_t n, rg_graph *g) RG_CHECK;

#endif
