/* SPDX-License-Identifier: MIT */
/*
** Linear on the CPU: one product with the bias, the activation and dropout in its epilogue.
*/
#include "cpu/chain.h"
#include "cpu/cpu.h"
#include "op/product.h"

rg_status rg_cpu_linear(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_linear_args *args = call->args;
  rg_chain chain = { .n = 1 };

  if (rg_chain_ready(frame)) {
    return rg_chain_again(call, frame);
  }
  chain.b[0] = rg_weight_of(call->in[1], true);
  chain.epilogue =
      (rg_epilogue){ .bias = call->n_in > 2 ? call->in[2] : NULL, .scale = 1, .act = args->act };
  return rg_chain_run(&chain, call, out, frame);
}

rg_status rg_cpu_linear_dropout(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_linear_args *args = call->args;
  rg_chain chain = { .n = 1 };

  rg_cpu_keep_draw(call, 1, out);
  if (rg_chain_ready(frame)) {
    return rg_chain_again(call, frame);
  }
  chain.b[0] = rg_weight_of(call->in[1], true);
  chain.epilogue = (rg_epilogue){ .bias = call->n_in > 2 ? call->in[2] : NULL,
                                  .scale = 1,
                                  .act = args->act,
                                  .p = args->p,
                                  .draw = call->draw };
  return rg_chain_run(&chain, call, out, frame);
}
