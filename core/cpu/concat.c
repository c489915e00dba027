/* SPDX-License-Identifier: MIT */
/*
** Concatenation along an axis: each input is copied into its part of the result.
*/
#include "cpu/cpu.h"
#include "op/concat.h"

rg_status rg_cpu_concat(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_concat_args *args = call->args;
  int32_t axis = args->axis;
  rg_tensor part = *out[0]; /* a window that slides along the axis */
  int64_t size = rg_dtype_bytes(part._dtype);
  char *data = part._data;

  (void)frame;
  for (int32_t i = 0; i < call->n_in; i++) {
    const rg_tensor *x = call->in[i];
    int64_t outer = 1;

    for (int32_t d = 0; d < axis; d++) {
      outer *= part._shape[d];
    }
    part._shape[axis] = x->_shape[axis];
    part._count = x->_count;
    part._data = data;
    /* gaps between the parts, unless nothing lies outside the axis */
    part._flags = outer == 1 ? out[0]->_flags : out[0]->_flags & ~(uint32_t)RG_TENSOR_CONTIGUOUS;
    RG_TRY(rg_cpu_convert(&part, x));
    if (data != NULL) {
      data += x->_shape[axis] * part._stride[axis] * size;
    }
  }
  return RG_OK;
}
