/* SPDX-License-Identifier: MIT */
/*
** What emission does apart from its main file.
*/
#ifndef RIDGE_GRAPH_EMIT_H
#define RIDGE_GRAPH_EMIT_H

#include "graph/ir.h"

/* Is there a tensor, and with memory? */
static inline bool rg_emit_is_there(const rg_tensor *x)
{
  return x != NULL && (x->_flags & RG_TENSOR_RELEASED) == 0;
}

/* RG_EARG where tensors of two values that no node makes lie in one storage that is written to. */
rg_status rg_emit_check_aliases(const rg_graph *g) RG_CHECK;

/* By node: is it run again only where something wrote to what it reads?  RG_ENOMEM. */
rg_status rg_emit_find_derived(const rg_graph *g, bool *derived) RG_CHECK;

/* Run a fused chain whose tensors may have gaps.  out: as rg_run's. */
rg_status rg_emit_fused(const rg_call *call, rg_tensor **out) RG_CHECK;

/* The tensor, held, of an input in whose memory a node's record can make its result, where nobody
** reads it behind the node (last, by value) and nobody else sees that memory; NULL: there is none.
** at: tensors by value. */
rg_tensor *rg_emit_over(const rg_graph *g, const rg_ir_node *node, rg_tensor *const *at,
                        const int32_t *last);

#endif
