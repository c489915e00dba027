/* SPDX-License-Identifier: MIT */
/*
** Activations in place, and their derivatives times the incoming gradient, on the CPU.
*/
#include "cpu/cpu.h"
#include "op/act.h"

void rg_activate(int32_t act, int32_t lane, void *x, int64_t n)
{
  if (act != RG_ACT_NONE) {
    rg_simd()->unary->loop[rg_act_ops[act] - RG_OP_NEG][lane](x, x, NULL, n);
  }
}

rg_status rg_cpu_act_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  static const double weight[RG_ACT_COUNT] = {
    [RG_ACT_RELU] = 2,    [RG_ACT_RELU6] = 3, [RG_ACT_TANH] = 3,
    [RG_ACT_SIGMOID] = 3, [RG_ACT_SILU] = 16, [RG_ACT_GELU] = 32
  };
  const rg_act_args *args = call->args;
  bool wide = rg_lane_of(call->in[0]->_dtype) == RG_LANE_F64;
  rg_map map = { .y = out[0],
                 .a = call->in[0],
                 .b = call->in[1],
                 .loops = rg_simd()->act->back[args->act][wide],
                 .weight = weight[args->act] };

  (void)frame;
  return rg_map_run(&map);
}
