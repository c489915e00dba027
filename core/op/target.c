/* SPDX-License-Identifier: MIT */
/*
** Targets: where results of calls to come are to be made, for who does not make them himself.  A
** backward pass says so of gradients, and the rules make the calls.
*/
#include "op/op.h"

enum { MAX_TARGETS = 4 };

/* Where results of calls to come are to be made. */
static _Thread_local struct {
  const rg_op *op;
  rg_tensor *at;
  int32_t result;
} targets[MAX_TARGETS];
static _Thread_local int32_t n_targets;

void rg_target(const rg_op *op, int32_t i, rg_tensor *x)
{
  if (x != NULL && n_targets < MAX_TARGETS) {
    targets[n_targets].op = op;
    targets[n_targets].at = x;
    targets[n_targets++].result = i;
  }
}

void rg_target_drop(const rg_tensor *x)
{
  int32_t n = 0;

  for (int32_t k = 0; k < n_targets; k++) {
    if (targets[k].at != x) {
      targets[n++] = targets[k];
    }
  }
  n_targets = n;
}

void rg_targets_clear(void)
{
  n_targets = 0;
}

/* May a result be made in x? */
static bool goes_into(const rg_call *call, const rg_meta *result, const rg_tensor *x)
{
  bool fits = result->dtype == x->_dtype && rg_meta_count(result) == x->_count &&
              call->device == x->_device;

  for (int32_t i = 0; i < call->n_in && fits; i++) {
    fits = call->in[i] == NULL || !rg_tensor_same_storage(call->in[i], x);
  }
  return fits;
}

rg_status rg_make_result(const rg_call *call, int32_t i, rg_tensor **out)
{
  const rg_meta *meta = &call->out[i];
  int64_t stride[RG_MAX_DIMS];
  int64_t count = 1;

  for (int32_t k = 0; k < n_targets; k++) {
    rg_tensor *at = targets[k].at;

    if (targets[k].op == call->op && targets[k].result == i && goes_into(call, meta, at)) {
      for (int32_t axis = meta->ndim - 1; axis >= 0; axis--) {
        stride[axis] = count;
        count *= meta->shape[axis];
      }
      rg_target_drop(at);
      return rg_tensor_view_of(at->_storage, meta->dtype, meta->shape, stride, meta->ndim, 0, out);
    }
  }
  return rg_empty(meta->dtype, call->device, meta->shape, meta->ndim, out);
}
