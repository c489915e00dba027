/* SPDX-License-Identifier: MIT */
/*
** Products with weights of which n of each m inputs are there, y = act(x W' + b): shape rule and
** cost.  The kernel is core/cpu/n_of_m_linear.c; how such weights lie is said in n_of_m_linear.h.
*/
#include "op/n_of_m_linear.h"
#include "op/list.h"
#include "op/product.h"

extern const rg_op rg_op_n_of_m_linear;

static rg_status check_types(const rg_call *call, int32_t dtype)
{
  const char *name = rg_dtype_name(dtype);
  int32_t x = call->in[0]->_dtype;
  int32_t values = call->in[2]->_dtype;

  if (x != RG_F32 && x != RG_BF16 && x != RG_F16) {
    return rg_fail(RG_EDTYPE, "%s: x is %s, wanted f32, bf16 or f16", call->op->name,
                   rg_dtype_name(x));
  }
  if (call->in[1]->_dtype != RG_U8) {
    return rg_fail(RG_EDTYPE, "%s: index is %s, wanted u8", call->op->name,
                   rg_dtype_name(call->in[1]->_dtype));
  }
  if (values != RG_F32 && values != RG_BF16) {
    return rg_fail(RG_EDTYPE, "%s: values is %s, wanted f32 or bf16", call->op->name,
                   rg_dtype_name(values));
  }
  if (dtype != RG_F32 && dtype != RG_BF16 && dtype != RG_F16) {
    return rg_fail(RG_EDTYPE, "%s: the result is to be %s, wanted f32, bf16 or f16", call->op->name,
                   name != NULL ? name : "of no type");
  }
  return RG_OK;
}

static rg_status check_shapes(const rg_call *call, int64_t k, int64_t rows)
{
  const rg_tensor *index = call->in[1];
  const rg_tensor *values = call->in[2];
  int64_t windows = rg_windows(k);
  int64_t entries = values->_ndim == 3 ? values->_shape[1] : 0;
  char text[128];

  if (rows < 0) {
    return rg_fail(RG_EARG, "%s: rows is %lld", call->op->name, (long long)rows);
  }
  if (values->_ndim != 3 || values->_shape[0] != rg_windows(rows) ||
      values->_shape[2] != RG_WINDOW) {
    return rg_fail(RG_ESHAPE, "%s: values is %s, wanted [%lld,n,16] for %lld outputs",
                   call->op->name, rg_tensor_text(values, text, sizeof(text)),
                   (long long)rg_windows(rows), (long long)rows);
  }
  if (windows > 0 ? entries % windows != 0 : entries != 0) {
    return rg_fail(RG_ESHAPE, "%s: values has %lld entries, wanted as many in each of %lld windows",
                   call->op->name, (long long)entries, (long long)windows);
  }
  if (index->_ndim != 3 || index->_shape[0] != values->_shape[0] ||
      index->_shape[1] != (entries + 1) / 2 || index->_shape[2] != RG_WINDOW) {
    return rg_fail(RG_ESHAPE, "%s: index is %s, wanted [%lld,%lld,16] beside its values",
                   call->op->name, rg_tensor_text(index, text, sizeof(text)),
                   (long long)values->_shape[0], (long long)(entries + 1) / 2);
  }
  return RG_OK;
}

static rg_status infer(rg_call *call)
{
  const rg_n_of_m_linear_args *args = call->args;
  const rg_tensor *x = call->in[0];
  char text[128];

  RG_TRY(check_types(call, args->dtype));
  if (x->_ndim < 1) {
    return rg_fail(RG_ESHAPE, "%s: x is %s, wanted a last axis", call->op->name,
                   rg_tensor_text(x, text, sizeof(text)));
  }
  RG_TRY(check_shapes(call, x->_shape[x->_ndim - 1], args->rows));
  RG_TRY(rg_product_act(call, args->act));
  RG_TRY(rg_product_bias(call, 3, args->rows));
  RG_TRY(rg_product_rows(call, x->_shape[x->_ndim - 1], args->rows, args->dtype, &call->out[0]));
  call->n_out = 1;
  return RG_OK;
}

/* What is there is multiplied, by each row of x. */
static rg_cost cost(const rg_call *call)
{
  const rg_n_of_m_linear_args *args = call->args;
  const rg_tensor *x = call->in[0];
  int64_t k = x->_shape[x->_ndim - 1];
  double entries = (double)call->in[2]->_shape[1] * (double)args->rows;

  return rg_cost_of(call, 2.0 * entries * (double)(k > 0 ? x->_count / k : 0));
}

static const rg_arg args_table[] = { RG_N_OF_M_LINEAR_ARGS(RG_ARG_ROW, rg_n_of_m_linear_args, ) };

const rg_op rg_op_n_of_m_linear = {
  .name = "n_of_m_linear",
  .doc = "x times the transpose of a weight of which n of each m inputs are there, plus b",
  .id = RG_OP_N_OF_M_LINEAR,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", NATIVE, FLOAT), RG_IN("index", BITS, ANY), RG_IN("values", NATIVE, ANY),
            RG_OPTIONAL("b", NATIVE, FLOAT)),
  .result = { "y" },
  RG_ARGS(rg_n_of_m_linear_args, args_table),
  .infer = infer,
  .cost = cost,
};
