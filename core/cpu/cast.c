/* SPDX-License-Identifier: MIT */
/*
** Conversion to another element type on the CPU; the loops are in core/cpu/simd/cast.c.
*/
#include "cpu/cpu.h"

rg_status rg_cpu_cast(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  return rg_cpu_convert(out[0], call->in[0]);
}
