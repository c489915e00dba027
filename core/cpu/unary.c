/* SPDX-License-Identifier: MIT */
/*
** Unary elementwise functions on the CPU; the functions are in core/cpu/vec_unary.h.
*/
#include "cpu/cpu.h"
#include "op/unary.h"

static rg_status unary(const rg_call *call, rg_tensor *y)
{
  bool turns = call->op->id == RG_OP_BITWISE_NOT && y->_dtype == RG_BOOL;
  int32_t id = turns ? RG_OP_LOGICAL_NOT : call->op->id; /* bool has one bit */
  rg_loop *const *loop = &rg_simd()->unary->loop[id - RG_OP_NEG][rg_lane_of(call->in[0]->_dtype)];

  return rg_map_run(
      &(rg_map){ .loops = loop, .y = y, .a = call->in[0], .weight = 1.0 + rg_unary_flops(id) });
}

#define KERNEL(NAME, name, help, class)                                                \
  rg_status rg_cpu_##name(const rg_call *call, rg_tensor *const *out, rg_frame *frame) \
  {                                                                                    \
    (void)frame;                                                                       \
    return unary(call, out[0]);                                                        \
  }
RG_UNARY_LIST(KERNEL)
