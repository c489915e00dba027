/* SPDX-License-Identifier: MIT */
/*
** Binary elementwise functions on the CPU: tensor with tensor, tensor with number.
*/
#include "cpu/cpu.h"
#include "op/binary.h"

/* Powers with an exponent that is a number and has a cheap exact form. */
static rg_loop *const *power_loops(double value, int32_t lane)
{
  return value == 2.0 ? &rg_simd()->unary->loop[RG_OP_SQUARE - RG_OP_NEG][lane] : NULL;
}

static rg_status binary(const rg_call *call, rg_tensor *y)
{
  const rg_binary_args *args = call->args;
  int32_t id = call->op->id;
  const rg_tensor *a = call->in[0];
  int32_t lane = rg_lane_of(a->_dtype);
  rg_lane_value one;
  rg_map map = { .y = y, .a = a, .weight = 2.0 + rg_binary_flops(id) };

  if (a->_dtype == RG_BOOL && id == RG_OP_ADD) {
    id = RG_OP_MAXIMUM; /* true + true is true */
  }
  map.loops = rg_simd()->binary->loop[id - RG_OP_ADD][lane];
  if (!args->scalar) {
    map.b = call->in[1];
    return rg_map_run(&map);
  }
  if (id == RG_OP_POW && !args->reversed && power_loops(args->value, lane) != NULL) {
    map.loops = power_loops(args->value, lane);
    map.weight = 2.0;
    return rg_map_run(&map);
  }
  one = rg_lane_value_of(a->_dtype, args->value);
  map.one = &one;
  map.one_form = args->reversed ? RG_FORM_ONE_RUN : RG_FORM_RUN_ONE;
  return rg_map_run(&map);
}

#define KERNEL(NAME, name, help, class)                                                \
  rg_status rg_cpu_##name(const rg_call *call, rg_tensor *const *out, rg_frame *frame) \
  {                                                                                    \
    (void)frame;                                                                       \
    return binary(call, out[0]);                                                       \
  }
RG_BINARY_LIST(KERNEL)
