/* SPDX-License-Identifier: MIT */
/*
** The recorder: values and nodes of a graph, from the calls of this thread while a plan is
** captured.
*/
#ifndef RIDGE_GRAPH_RECORD_H
#define RIDGE_GRAPH_RECORD_H

#include "graph/ir.h"

/* rg_record_begin and what belongs to it: ridge/ir.h */

#endif
