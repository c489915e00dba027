/* SPDX-License-Identifier: MIT */
/*
** What emission does apart from its main file.
*/
#ifndef RIDGE_GRAPH_EMIT_H
#define RIDGE_GRAPH_EMIT_H

#include "op/op.h"

/* Run a fused chain whose tensors may have gaps.  out: as rg_run's. */
rg_status rg_emit_fused(const rg_call *call, rg_tensor **out) RG_CHECK;

#endif
