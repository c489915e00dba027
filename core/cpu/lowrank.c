/* SPDX-License-Identifier: MIT */
/*
** Low-rank linear on the CPU: two products, the bias and the activation in the epilogue of the
** second.
*/
#include "cpu/chain.h"
#include "op/product.h"

rg_kernel rg_cpu_lowrank_linear;

rg_status rg_cpu_lowrank_linear(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_linear_args *args = call->args;
  rg_chain chain = { .n = 2 };

  if (rg_chain_ready(frame)) {
    return rg_chain_again(call, frame);
  }
  chain.b[0] = rg_weight_of(call->in[1], false);
  chain.b[1] = rg_weight_of(call->in[2], false);
  chain.epilogue =
      (rg_epilogue){ .bias = call->n_in > 3 ? call->in[3] : NULL, .scale = 1, .act = args->act };
  return rg_chain_run(&chain, call, out, frame);
}
