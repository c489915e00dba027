/* SPDX-License-Identifier: MIT */
/*
** Shapes and types by the records' own inference, which asks of tensors no more than their shapes:
** so it is given tensors without memory.
*/
#include <string.h>

#include "graph/infer.h"
#include "op/step.h"

enum { MOST_ARGS = 512 };

/* A tensor like a value, contiguous, without elements. */
static void stand_in(const rg_ir_value *v, rg_tensor *x)
{
  int64_t stride = 1;

  *x = (rg_tensor){ ._dtype = v->meta.dtype,
                    ._device = v->device,
                    ._ndim = v->meta.ndim,
                    ._flags = RG_TENSOR_CONTIGUOUS };
  if (v->kind == RG_VALUE_PARAMETER) {
    x->_flags |= RG_TENSOR_PARAM;
  }
  for (int32_t i = v->meta.ndim - 1; i >= 0; i--) {
    x->_shape[i] = v->meta.shape[i];
    x->_stride[i] = stride;
    stride *= rg_max_i64(v->meta.shape[i], 1);
  }
  x->_count = rg_meta_count(&v->meta);
}

/* Where inputs are lists of one length each, an argument says it, and the record believes that. */
static rg_status check_lists(const rg_call *call)
{
  int32_t lists = 0;

  while (lists < call->op->n_inputs && call->op->input[call->op->n_inputs - 1 - lists].list) {
    lists++;
  }
  if (lists < 2) {
    return RG_OK;
  }
  const rg_step_args *args = call->args;
  int64_t rest = call->n_in - (call->op->n_inputs - lists);

  /* of the lists two are no states: parameters and their gradients */
  if (args->n < 1 || args->n > rest || args->states < 0 || args->states > lists - 2 ||
      rest != args->n * (2 + args->states)) {
    return rg_fail(RG_EARG, "%s: %lld inputs in lists of %lld, with %lld states", call->op->name,
                   (long long)rest, (long long)args->n, (long long)args->states);
  }
  return RG_OK;
}

/* Axes are resolved by who makes a call, and records believe them: a graph out of a file may say
** any.  The first input is what has them; views resolve theirs themselves. */
static rg_status check_axes(const rg_call *call)
{
  const rg_op *op = call->op;
  const rg_tensor *x = call->n_in > 0 ? call->in[0] : NULL;
  char text[96];

  for (int32_t i = 0; i < op->n_args; i++) {
    if (op->arg[i].kind != RG_ARG_AXIS || op->arg[i].type != RG_ARG_i32) {
      continue;
    }
    const char *at = (const char *)call->args + op->arg[i].offset;
    int32_t axis;

    memcpy(&axis, at, sizeof(axis));
    if (x == NULL || axis < 0 || axis >= x->_ndim) {
      return rg_fail(RG_EAXIS, "%s: there is no axis %lld in %s", op->name, (long long)axis + 1,
                     x != NULL ? rg_tensor_text(x, text, sizeof(text)) : "what is left out");
    }
  }
  return RG_OK;
}

static rg_status ask(rg_call *call, int32_t autocast)
{
  int32_t before = rg_autocast_set(autocast);
  rg_status status = check_lists(call);

  status = status == RG_OK ? check_axes(call) : status;
  status = status == RG_OK ? rg_check_schema(call) : status;
  if (status == RG_OK) {
    status = call->op->infer(call);
  }
  (void)rg_autocast_set(before);
  return status;
}

/* cost: filled where it is not NULL, of a call that hands out n_made results. */
static rg_status infer(const rg_graph *g, const rg_op *op, const int32_t *in, int32_t n_in,
                       const void *args, int32_t autocast, rg_call *call, int32_t n_made,
                       rg_cost *cost)
{
  int32_t n = (int32_t)rg_max_i64(n_in, op->n_inputs); /* a record reads all its inputs */
  rg_tensor *x = rg_host_zeroed((size_t)n * sizeof(*x));
  const rg_tensor **xs = rg_host_zeroed((size_t)n * sizeof(*xs));
  rg_status status = x != NULL && xs != NULL ? RG_OK : rg_fail(RG_ENOMEM, "graph: no memory");

  *call =
      (rg_call){ .op = op, .in = xs, .n_in = n_in, .args = args, .compute = -1, .weight_cast = -1 };
  if (n > n_in && !op->input[op->n_inputs - 1].list) {
    call->n_in = n;
  }
  for (int32_t i = n_in - 1; i >= 0 && status == RG_OK; i--) {
    if (in[i] != RG_IR_NONE) {
      stand_in(rg_ir_value_at(g, in[i]), &x[i]);
      xs[i] = &x[i];
      call->device = x[i]._device;
    }
  }
  if (status == RG_OK) {
    status = op->infer != NULL
                 ? ask(call, autocast)
                 : rg_fail(RG_ENOSUP, "graph: %s does not say what comes out of it", op->name);
  }
  if (status == RG_OK && cost != NULL && op->cost != NULL) {
    const int32_t n_out = call->n_out;

    call->n_out = (int32_t)rg_min_i64(n_out, n_made);
    *cost = op->cost(call);
    call->n_out = n_out;
  }
  call->in = NULL;
  rg_host_free(x);
  rg_host_free(xs);
  return status;
}

rg_status rg_ir_infer(const rg_graph *g, const rg_op *op, const int32_t *in, int32_t n_in,
                      const void *args, int32_t autocast, rg_call *call)
{
  return infer(g, op, in, n_in, args, autocast, call, 0, NULL);
}

rg_status rg_ir_expect(const rg_graph *g, const rg_op *op, const int32_t *in, int32_t n_in,
                       const void *args, int32_t autocast, int32_t n_made, rg_ir_expected *out)
{
  rg_status status = RG_ENOSUP;
  rg_cost cost = { 0 };
  rg_call call;

  *out = (rg_ir_expected){ .n_out = -1, .compute = -1, .weight_cast = -1 };
  if (op->infer != NULL) {
    status = infer(g, op, in, n_in, args, autocast, &call, n_made, &cost);
  }
  if (status == RG_OK) {
    *out = (rg_ir_expected){ call.n_out, call.compute, call.weight_cast, cost.flops, cost.bytes };
  }
  return status == RG_ENOMEM ? status : RG_OK;
}

/* The rule of a view resolves what is negative, so it gets arguments of its own. */
rg_status rg_ir_infer_view(const rg_graph *g, const rg_ir_node *node, rg_call *call)
{
  const rg_op *op = node->op;
  const int32_t in = node->n_in == 1 ? rg_ir_inputs(g, node)[0] : RG_IR_NONE;
  _Alignas(8) char args[MOST_ARGS];
  rg_layout at;
  rg_tensor x;

  *call = (rg_call){ .op = op, .n_in = 1, .compute = -1, .weight_cast = -1, .n_out = 1 };
  if (op->view == NULL || op->args_size > MOST_ARGS) {
    return rg_fail(RG_ENOSUP, "graph: %s does not say what comes out of it", op->name);
  }
  if (in == RG_IR_NONE) {
    return rg_fail(RG_EARG, "%s: it is a view of one tensor", op->name);
  }
  stand_in(rg_ir_value_at(g, in), &x);
  if (op->args_size != 0) {
    memcpy(args, rg_ir_args(g, node), op->args_size);
  }
  at = (rg_layout){ .ndim = x._ndim, .shape = x._shape, .stride = at.strides };
  RG_TRY(op->view(op, &x, args, &at));
  if (at.ndim == RG_NO_VIEW) {
    return rg_fail(RG_ENOSUP, "%s: it is no view there", op->name);
  }
  call->out[0] = (rg_meta){ .dtype = x._dtype, .ndim = at.ndim };
  memcpy(call->out[0].shape, at.shape, (size_t)at.ndim * sizeof(at.shape[0]));
  return RG_OK;
}
