/* SPDX-License-Identifier: MIT */
/*
** What the dispatcher asks of a schema: which input is what, and whether a call has the inputs that
** its record names.
*/
#include <string.h>

#include "op/list.h"
#include "op/op.h"
#include "ridge/image.h"
#include "ridge/loss.h"

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
      /* the usual case here: every call of every operation comes by */
      if (input->types != RG_TYPES_ANY || call->in[i]->_dtype >= RG_F8E4M3) {
        RG_TRY(check_types(call, input, call->in[i]));
      }
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

/* -- Arguments --------------------------------------------------------------------------- */

/* One of n that are numbered from 0. */
static rg_status check_word(const rg_op *op, const char *name, int32_t value, int32_t n)
{
  if (value < 0 || value >= n) {
    return rg_fail(RG_EARG, "%s: there is no %s %d", op->name, name, value);
  }
  return RG_OK;
}

static rg_status check_arg(const rg_op *op, const rg_arg *arg, const void *at)
{
  switch (arg->kind) {
  case RG_ARG_SHARE:
  case RG_ARG_PART: {
    double v = *(const double *)at;

    if (!(v >= 0 && v <= 1) || (v == 1 && arg->kind == RG_ARG_SHARE)) {
      return rg_fail(RG_EARG, "%s: %s is %g and not in [0, 1%c", op->name, arg->name, v,
                     arg->kind == RG_ARG_SHARE ? ')' : ']');
    }
    return RG_OK;
  }
  case RG_ARG_FROM0: {
    double v = *(const double *)at;

    if (!(v >= 0 && v <= 1e300)) {
      return rg_fail(RG_EARG, "%s: %s is %g; a number from 0 is wanted", op->name, arg->name, v);
    }
    return RG_OK;
  }
  case RG_ARG_LAYOUT:
    return check_word(op, arg->name, *(const int32_t *)at, RG_NHWC + 1);
  case RG_ARG_REDUCTION:
    return check_word(op, arg->name, *(const int32_t *)at, RG_LOSS_COUNT);
  default:
    return RG_OK;
  }
}

rg_status rg_check_args(const rg_call *call)
{
  for (int32_t i = 0; i < call->op->n_args; i++) {
    const rg_arg *arg = &call->op->arg[i];

    RG_TRY(check_arg(call->op, arg, (const char *)call->args + arg->offset));
  }
  return RG_OK;
}

/* -- Calls by schema ------------------------------------------------------------------------ */

enum {
  MOST_BYTES = 256, /* of a struct of arguments whose operation is called this way */
  MOST_INPUTS = 16  /* of a record without a list */
};

/* Axes as kernels see them, 0 .. ndim - 1. */
static rg_status resolve_axes(const rg_op *op, const rg_tensor *x, char *args)
{
  for (int32_t i = 0; i < op->n_args; i++) {
    int32_t *at = (int32_t *)(void *)(args + op->arg[i].offset);

    if (op->arg[i].kind == RG_ARG_FOUND) {
      return rg_fail(RG_ENOSUP, "%s: %s is worked out by its own function", op->name,
                     op->arg[i].name);
    }
    if (op->arg[i].kind == RG_ARG_AXIS) {
      RG_TRY(rg_tensor_check(x, op->name));
      RG_TRY(rg_axis_resolve(op, x, *at, at));
    }
  }
  return RG_OK;
}

rg_status rg_op_call(int32_t index, const rg_tensor *const *in, int32_t n_in, const void *args,
                     rg_generator *generator, rg_tensor **out)
{
  _Alignas(8) char copy[MOST_BYTES];
  const rg_tensor *all[MOST_INPUTS] = { NULL };

  if (index < 0 || index >= RG_RECORD_COUNT || n_in < 0 || (n_in > 0 && in == NULL)) {
    return rg_fail(RG_EARG, "op: there is no operation %d of %d tensors", index, n_in);
  }
  const rg_op *op = rg_ops[index];

  if (op->args_size > MOST_BYTES || (op->args_size > 0 && args == NULL)) {
    return rg_fail(RG_EARG, "%s: there are no arguments", op->name);
  }
  if (op->args_size > 0) {
    memcpy(copy, args, op->args_size);
  }
  if (op->view != NULL) {
    if (n_in > 1) {
      return rg_fail(RG_EARG, "%s: %d tensors given, at most 1 wanted", op->name, n_in);
    }
    return rg_run_view(op, n_in > 0 ? in[0] : NULL, copy, out);
  }
  RG_TRY(resolve_axes(op, n_in > 0 ? in[0] : NULL, copy));
  /* a record reads all its inputs: the optional ones that a call leaves out at the end are NULL */
  if (n_in < op->n_inputs && op->n_inputs <= MOST_INPUTS && !op->input[op->n_inputs - 1].list) {
    for (int32_t i = 0; i < n_in; i++) {
      all[i] = in[i];
    }
    in = all;
    n_in = op->n_inputs;
  }
  rg_call call = { .op = op, .in = in, .n_in = n_in, .args = copy, .generator = generator };

  return op->expand != NULL ? rg_run_compound(&call, out) : rg_run_fresh(&call, out);
}
