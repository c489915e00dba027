/* SPDX-License-Identifier: MIT */
/*
** Shapes and types by the records' own inference, which asks of tensors no more than their shapes:
** so it is given tensors without memory.
*/
#include "graph/infer.h"
#include "op/step.h"

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

  if (args->n < 1 || args->n > rest || args->states < 0 || args->states > lists ||
      rest != args->n * (2 + args->states)) {
    return rg_fail(RG_EARG, "%s: %lld inputs in lists of %lld, with %lld states", call->op->name,
                   (long long)rest, (long long)args->n, (long long)args->states);
  }
  return RG_OK;
}

static rg_status ask(rg_call *call, int32_t autocast)
{
  int32_t before = rg_autocast_set(autocast);
  rg_status status = check_lists(call);

  status = status == RG_OK ? rg_check_schema(call) : status;
  if (status == RG_OK) {
    status = call->op->infer(call);
  }
  (void)rg_autocast_set(before);
  return status;
}

rg_status rg_ir_infer(const rg_graph *g, const rg_op *op, const int32_t *in, int32_t n_in,
                      const void *args, int32_t autocast, rg_call *call)
{
  int32_t n = (int32_t)rg_max_i64(n_in, op->n_inputs); /* a record reads all its inputs */
  rg_tensor *x = rg_host_zeroed(((size_t)n + 1) * sizeof(*x));
  const rg_tensor **xs = rg_host_zeroed(((size_t)n + 1) * sizeof(*xs));
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
  call->in = NULL;
  rg_host_free(x);
  rg_host_free(xs);
  return status;
}
