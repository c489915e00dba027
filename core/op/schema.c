/* SPDX-License-Identifier: MIT */
/*
** What the door asks of a schema: which input is what, and whether a call has the inputs that its
** record names.
*/
#include "op/op.h"

const rg_input *rg_input_of(const rg_call *call, int32_t i)
{
  const rg_op *op = call->op;
  int32_t lists = 0;

  while (lists < op->n_inputs && op->input[op->n_inputs - 1 - lists].list) {
    lists++;
  }
  int32_t first = op->n_inputs - lists; /* the first that is a list */

  if (i < first || lists == 0) {
    return &op->input[i];
  }
  if (lists == 1) {
    return &op->input[first];
  }
  return &op->input[first + (int32_t)((i - first) / *(const int64_t *)call->args)];
}

/* Of a type that the record names for it? */
static rg_status check_types(const rg_call *call, const rg_input *input, const rg_tensor *x)
{
  char text[96];

  switch (input->types) {
  case RG_TYPES_STORED:
    return RG_OK;
  case RG_TYPES_FLOAT:
    if (!rg_dtype_is_float(x->_dtype)) {
      RG_TRY(rg_check_computes(call->op, x->_dtype));
      return rg_fail(RG_EDTYPE, "%s: %s is %s, wanted a float type", call->op->name, input->name,
                     rg_tensor_text(x, text, sizeof(text)));
    }
    return RG_OK;
  case RG_TYPES_WHOLE:
    if (rg_dtype_is_float(x->_dtype) || x->_dtype == RG_BOOL) {
      return rg_fail(RG_EDTYPE, "%s: %s is %s, wanted whole numbers (i64, i32, i8, u8)",
                     call->op->name, input->name, rg_tensor_text(x, text, sizeof(text)));
    }
    return rg_check_computes(call->op, x->_dtype);
  default:
    return rg_check_computes(call->op, x->_dtype);
  }
}

rg_status rg_check_schema(const rg_call *call)
{
  const rg_op *op = call->op;
  bool list = op->n_inputs > 0 && op->input[op->n_inputs - 1].list;

  if (call->n_in > op->n_inputs && !list) {
    return rg_fail(RG_EARG, "%s: %d tensors given, at most %d wanted", op->name, call->n_in,
                   op->n_inputs);
  }
  for (int32_t i = 0; i < call->n_in; i++) {
    const rg_input *input = list ? rg_input_of(call, i) : &op->input[i];

    if (call->in[i] != NULL) {
      RG_TRY(check_types(call, input, call->in[i]));
    } else if (!input->optional) {
      return rg_tensor_check(NULL, op->name);
    }
  }
  for (int32_t i = call->n_in; i < op->n_inputs; i++) {
    if (!op->input[i].optional) {
      return rg_fail(RG_EARG, "%s: %s is missing", op->name, op->input[i].name);
    }
  }
  return RG_OK;
}
