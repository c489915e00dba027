/* SPDX-License-Identifier: MIT */
/*
** What a record says of values: the shapes and types that come out, without a tensor.
*/
#ifndef RIDGE_GRAPH_INFER_H
#define RIDGE_GRAPH_INFER_H

#include "graph/ir.h"

/*
** Ask a record what comes out of values.
**
** in       n_in values, -1 where one is left out
** autocast a thread's setting; -1: off
** call     filled as the dispatcher fills it, but for `in`, which is NULL
** What the record refuses; RG_ENOSUP for one that does not say.
*/
rg_status rg_ir_infer(const rg_graph *g, const rg_op *op, const int32_t *in, int32_t n_in,
                      const void *args, int32_t autocast, rg_call *call) RG_CHECK;

/* What a record says of a node beside shapes; texts of graphs leave it out. */
typedef struct rg_ir_expected {
  int32_t n_out;       /* results, hidden ones too; -1: it does not say */
  int32_t compute;     /* as in rg_graph_modes */
  int32_t weight_cast; /* ... */
  double flops;
  double bytes;
} rg_ir_expected;

/* in, args, autocast: as of rg_ir_infer; n_made: results that are made.  What the record refuses
** has no costs.  out: filled.  RG_ENOMEM. */
rg_status rg_ir_expect(const rg_graph *g, const rg_op *op, const int32_t *in, int32_t n_in,
                       const void *args, int32_t autocast, int32_t n_made,
                       rg_ir_expected *out) RG_CHECK;

/* The same of a view of what is contiguous: other strides have the same shapes.  RG_ENOSUP where a
** copy has to be made, or the record is none of a view. */
rg_status rg_ir_infer_view(const rg_graph *g, const rg_ir_node *node, rg_call *call) RG_CHECK;

#endif
