/* SPDX-License-Identifier: MIT */
/*
** The record of chains.  Nobody calls one: a plan's steps become it, with shapes long known.
*/
#include "op/fused.h"

static rg_status infer(rg_call *call)
{
  return rg_fail(RG_ENOSUP, "%s: made by plans only", call->op->name);
}

const rg_op rg_op_fused = {
  .name = "fused",
  .doc = "elementwise functions, one after the other in one pass",
  .id = -1,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_LIST("xs", INPUT, ANY)),
  .result = { "ys" },
  .args_size = sizeof(rg_fused_args),
  .infer = infer,
};
