/* SPDX-License-Identifier: MIT */
/*
** Signs kept as bits become numbers again: what a gradient of fixed signs multiplies by.  The
** kernel is core/cpu/expand.c.
*/
#include "op/signs.h"
#include "op/list.h"

extern const rg_op rg_op_expand_signs;

static rg_status expand_infer(rg_call *call)
{
  const rg_expand_args *args = call->args;
  char text[96];

  RG_TRY(rg_check_arity(call, 1));
  const rg_tensor *bits = call->in[0];

  if (bits->_dtype != RG_U8 || bits->_ndim != 2 || bits->_shape[1] != (args->cols + 7) / 8) {
    return rg_fail(RG_ESHAPE, "%s: %s are not the bits of %lld columns", call->op->name,
                   rg_tensor_text(bits, text, sizeof(text)), (long long)args->cols);
  }
  RG_TRY(rg_check_computes(call->op, args->dtype));
  if (!rg_dtype_is_float(args->dtype)) {
    return rg_fail(RG_EDTYPE, "%s: signs are of a float type, not %s", call->op->name,
                   rg_dtype_name(args->dtype));
  }
  call->out[0] =
      (rg_meta){ .dtype = args->dtype, .ndim = 2, .shape = { bits->_shape[0], args->cols } };
  call->n_out = 1;
  return RG_OK;
}

static rg_cost expand_cost(const rg_call *call)
{
  return rg_cost_of(call, (double)rg_meta_count(&call->out[0]));
}

const rg_op rg_op_expand_signs = {
  .name = "expand_signs",
  .sig = "expand_signs(bits, cols, sign, dtype) -> x",
  .doc = "+sign for each bit that is set, -sign for the others",
  .id = RG_OP_EXPAND_SIGNS,
  .amp = RG_AMP_NONE,
  .as_is = 1,
  .args_size = sizeof(rg_expand_args),
  .infer = expand_infer,
  .cost = expand_cost,
};

rg_status rg_expand_signs(const rg_tensor *bits, int64_t cols, double sign, int32_t dtype,
                          rg_tensor **out)
{
  return rg_run1(&rg_op_expand_signs, (const rg_tensor *const[]){ bits }, 1,
                 &(rg_expand_args){ .cols = cols, .sign = sign, .dtype = dtype }, out);
}
