/* SPDX-License-Identifier: MIT */
/*
** Products with weights most of which are 0, y = act(x W' + b): shape rule and cost.  The kernel is
** core/cpu/sparse_linear.c.
**
** W is kept as what is not 0, in compressed rows: entries offset[r] .. offset[r + 1] - 1 are those
** of row r, or of outputs 16 r .. 16 r + 15 together, and each has a column and one value or
** sixteen.
*/
#include "op/sparse_linear.h"
#include "op/list.h"
#include "op/product.h"

extern const rg_op rg_op_sparse_linear;

static rg_status check_list(const rg_call *call, int32_t i, int32_t dtype)
{
  const rg_tensor *x = call->in[i];
  char text[128];

  if (x->_dtype != dtype || x->_ndim != 1) {
    return rg_fail(x->_dtype != dtype ? RG_EDTYPE : RG_ESHAPE,
                   "%s: %s is %s, wanted %s of one axis", call->op->name, call->op->input[i].name,
                   rg_tensor_text(x, text, sizeof(text)), rg_dtype_name(dtype));
  }
  return RG_OK;
}

static rg_status check_weight(const rg_call *call)
{
  const rg_tensor *values = call->in[3];
  char text[128];

  RG_TRY(check_list(call, 1, RG_I32));
  RG_TRY(check_list(call, 2, RG_I32));
  if (call->in[1]->_shape[0] < 1) {
    return rg_fail(RG_ESHAPE, "%s: offset is empty, wanted one number more than rows",
                   call->op->name);
  }
  if (values->_dtype != RG_F32) {
    return rg_fail(RG_EDTYPE, "%s: values is %s, wanted f32", call->op->name,
                   rg_dtype_name(values->_dtype));
  }
  if (values->_ndim < 1 || values->_ndim > 2 || values->_shape[0] != call->in[2]->_shape[0] ||
      (values->_ndim == 2 && values->_shape[1] != RG_SPARSE_BLOCK)) {
    return rg_fail(RG_ESHAPE, "%s: values is %s, wanted [%lld] or [%lld,16] beside its columns",
                   call->op->name, rg_tensor_text(values, text, sizeof(text)),
                   (long long)call->in[2]->_shape[0], (long long)call->in[2]->_shape[0]);
  }
  return RG_OK;
}

static rg_status infer(rg_call *call)
{
  const rg_sparse_linear_args *args = call->args;
  const rg_tensor *x = call->in[0];
  const char *name = rg_dtype_name(args->dtype);
  char text[128];

  if (x->_dtype != RG_F32 && x->_dtype != RG_BF16 && x->_dtype != RG_F16) {
    return rg_fail(RG_EDTYPE, "%s: x is %s, wanted f32, bf16 or f16", call->op->name,
                   rg_dtype_name(x->_dtype));
  }
  if (args->dtype != RG_F32 && args->dtype != RG_BF16 && args->dtype != RG_F16) {
    return rg_fail(RG_EDTYPE, "%s: the result is to be %s, wanted f32, bf16 or f16", call->op->name,
                   name != NULL ? name : "of no type");
  }
  if (x->_ndim < 1) {
    return rg_fail(RG_ESHAPE, "%s: x is %s, wanted a last axis", call->op->name,
                   rg_tensor_text(x, text, sizeof(text)));
  }
  RG_TRY(check_weight(call));
  RG_TRY(rg_product_act(call, args->act));
  int64_t n = (call->in[1]->_shape[0] - 1) * (call->in[3]->_ndim == 2 ? RG_SPARSE_BLOCK : 1);

  RG_TRY(rg_product_bias(call, 4, n));
  RG_TRY(rg_product_rows(call, x->_shape[x->_ndim - 1], n, args->dtype, &call->out[0]));
  call->n_out = 1;
  return RG_OK;
}

/* What is there is multiplied, by each row of x. */
static rg_cost cost(const rg_call *call)
{
  const rg_tensor *x = call->in[0];
  int64_t k = x->_shape[x->_ndim - 1];

  return rg_cost_of(call, 2.0 * (double)call->in[3]->_count * (double)(k > 0 ? x->_count / k : 0));
}

static const rg_arg args_table[] = { RG_SPARSE_LINEAR_ARGS(RG_ARG_ROW, rg_sparse_linear_args, ) };

const rg_op rg_op_sparse_linear = {
  .name = "sparse_linear",
  .doc = "x times the transpose of a weight in compressed rows, or blocks of 16 of them, plus b",
  .id = RG_OP_SPARSE_LINEAR,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", NATIVE, FLOAT), RG_IN("offset", INDEX, ANY), RG_IN("column", INDEX, ANY),
            RG_IN("values", NATIVE, ANY), RG_OPTIONAL("b", NATIVE, FLOAT)),
  .result = { "y" },
  RG_ARGS(rg_sparse_linear_args, args_table),
  .infer = infer,
  .cost = cost,
};
