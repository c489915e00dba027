/* SPDX-License-Identifier: MIT */
/*
** The recorder: values and nodes of a graph, from the calls of this thread while a plan is
** captured.
*/
#ifndef RIDGE_GRAPH_RECORD_H
#define RIDGE_GRAPH_RECORD_H

#include "graph/ir.h"

/* Record from now on.  RG_ECAPTURE outside a capture, and while something is recorded. */
rg_status rg_record_begin(void) RG_CHECK;

/* x is an output of the graph that is recorded.  kind: RG_OUTPUT_...; name: NULL for none. */
rg_status rg_record_output(const rg_tensor *x, int32_t kind, const char *name) RG_CHECK;

/* The end, before that of the capture.  out: new reference.  RG_ECAPTURE where nothing is recorded,
** or something happened that no node says. */
rg_status rg_record_end(rg_graph **out) RG_CHECK;

/* Throw it away, if there is one. */
void rg_record_cancel(void);

#endif
