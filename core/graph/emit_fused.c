/* SPDX-License-Identifier: MIT */
/*
** Fused chains through the dispatcher.  Their kernels want tensors without gaps; the pass that made
** the chain looked how values lay then, and a graph may have been given other tensors since: what
** has gaps now is copied.
*/
#include "graph/emit.h"
#include "op/fused.h"

/* Inputs without gaps; made: those that are copies. */
static rg_status close_inputs(const rg_call *call, const rg_tensor **in, rg_tensor **made)
{
  for (int32_t i = 0; i < call->n_in; i++) {
    in[i] = call->in[i];
    if (!rg_is_contiguous(in[i])) {
      RG_TRY(rg_clone(in[i], &made[i]));
      in[i] = made[i];
    }
  }
  return RG_OK;
}

/* Run it into tensors without gaps, and copy where one has some. */
static rg_status run(rg_call *call, rg_tensor **out)
{
  rg_tensor *to[RG_MAX_OUT] = { NULL };
  rg_status status;

  for (int32_t i = 0; i < RG_MAX_OUT; i++) {
    if (out[i] != NULL && !rg_is_contiguous(out[i])) {
      to[i] = out[i];
      out[i] = NULL;
    }
  }
  status = rg_run(call, out);
  for (int32_t i = 0; i < RG_MAX_OUT; i++) {
    if (to[i] == NULL) {
      continue;
    }
    if (status == RG_OK) {
      status = rg_copy_(to[i], out[i]);
    }
    rg_tensor_release(out[i]);
    out[i] = to[i];
  }
  return status;
}

/* Its record was asked by rg_graph_check, and allows no more inputs. */
rg_status rg_emit_fused(const rg_call *call, rg_tensor **out)
{
  const rg_tensor *in[RG_FUSED_INPUTS];
  rg_tensor *made[RG_FUSED_INPUTS] = { NULL };
  rg_call closed = *call;
  rg_status status;

  closed.in = in;
  status = close_inputs(call, in, made);
  status = status == RG_OK ? run(&closed, out) : status;
  for (int32_t i = 0; i < call->n_in; i++) {
    rg_tensor_release(made[i]);
  }
  return status;
}
