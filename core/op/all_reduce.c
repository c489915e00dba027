/* SPDX-License-Identifier: MIT */
/*
** All-reduce over replicas in one process: signature, checks, cost, public entry.  The kernel is in
** core/cpu/all_reduce.c.
**
** The call is one device's, as every call: it writes to tensors that are all there.  Those of other
** devices come and go as copies, which are calls of their own.  So a node of a graph has one device
** here too, and copies are what connects devices.
*/
#include "op/list.h"
#include "op/op.h"
#include "ridge/collective.h"

extern const rg_op rg_op_all_reduce;

/* -- Checks --------------------------------------------------------------------------------- */

static rg_status check_number(const rg_op *op, int32_t n)
{
  if (n < 1 || n > RG_MAX_REPLICAS) {
    return rg_fail(RG_EARG, "%s: %d tensors; 1 to %d are possible", op->name, n, RG_MAX_REPLICAS);
  }
  return RG_OK;
}

static rg_status check_pair(const rg_op *op, const rg_tensor *x, const rg_tensor *y)
{
  char a[96];
  char b[96];

  if (!rg_tensor_shaped(y, x->_shape, x->_ndim)) {
    return rg_fail(RG_ESHAPE, "%s: %s and %s, wanted one shape", op->name,
                   rg_tensor_text(x, a, sizeof(a)), rg_tensor_text(y, b, sizeof(b)));
  }
  if (y->_dtype != x->_dtype) {
    return rg_fail(RG_EDTYPE, "%s: %s and %s, wanted one type", op->name,
                   rg_tensor_text(x, a, sizeof(a)), rg_tensor_text(y, b, sizeof(b)));
  }
  return RG_OK;
}

static rg_status check_apart(const rg_op *op, const rg_tensor *const *xs, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    RG_TRY(rg_tensor_writable(xs[i], op->name));
    for (int32_t k = 0; k < i && xs[i]->_storage != NULL; k++) { /* a graph's has no memory yet */
      if (rg_tensor_overlap(xs[i], xs[k])) {
        return rg_fail(RG_EARG, "%s: tensors %d and %d share memory", op->name, k + 1, i + 1);
      }
    }
  }
  return RG_OK;
}

static rg_status infer(rg_call *call)
{
  RG_TRY(check_number(call->op, call->n_in));
  for (int32_t i = 1; i < call->n_in; i++) {
    RG_TRY(check_pair(call->op, call->in[0], call->in[i]));
  }
  RG_TRY(check_apart(call->op, call->in, call->n_in));
  call->n_out = 0;
  return RG_OK;
}

/* Each is read and written once. */
static rg_cost cost(const rg_call *call)
{
  const rg_all_reduce_options *o = call->args;
  const double n = (double)call->n_in;

  return (rg_cost){ .flops = (n - 1 + (o->mean != 0)) * (double)call->in[0]->_count,
                    .bytes = 2 * n * (double)rg_tensor_bytes(call->in[0]) };
}

static const rg_arg args[] = { RG_ALL_REDUCE_OPTIONS(RG_ARG_ROW, rg_all_reduce_options, ) };

const rg_op rg_op_all_reduce = {
  .name = "all_reduce",
  .doc = "every tensor becomes the sum of all",
  .id = RG_OP_ALL_REDUCE,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_LIST("xs", STATE, FLOAT)),
  RG_ARGS(rg_all_reduce_options, args),
  .infer = infer,
  .writes = true,
  .cost = cost,
};

/* -- Entry ------------------------------------------------------------------------------------ */

/* here: all of them on one device; new references. */
static rg_status bring(rg_tensor *const *xs, int32_t n, rg_tensor **here)
{
  for (int32_t i = 0; i < n; i++) {
    RG_TRY(rg_to_device(xs[i], xs[0]->_device, &here[i]));
  }
  return RG_OK;
}

static rg_status take_back(rg_tensor *const *xs, int32_t n, rg_tensor *const *here)
{
  for (int32_t i = 0; i < n; i++) {
    if (here[i] != xs[i]) {
      RG_TRY(rg_copy_(xs[i], here[i]));
    }
  }
  return RG_OK;
}

static rg_status reduce(rg_tensor *const *xs, int32_t n, const rg_all_reduce_options *options)
{
  rg_tensor *here[RG_MAX_REPLICAS] = { NULL };
  rg_tensor *none = NULL;
  rg_status status = bring(xs, n, here);

  if (status == RG_OK) {
    rg_call call = {
      .op = &rg_op_all_reduce, .in = (const rg_tensor *const *)here, .n_in = n, .args = options
    };

    status = rg_run(&call, &none);
  }
  status = status == RG_OK ? take_back(xs, n, here) : status;
  for (int32_t i = 0; i < n; i++) {
    rg_tensor_release(here[i]);
  }
  return status;
}

rg_status rg_all_reduce_(rg_tensor *const *xs, int32_t n, const rg_all_reduce_options *options)
{
  static const rg_all_reduce_options sum = { 0 };
  const rg_op *op = &rg_op_all_reduce;
  int32_t mode;
  rg_status status;

  if (xs == NULL) {
    return rg_fail(RG_EARG, "%s: no tensors given", op->name);
  }
  RG_TRY(check_number(op, n));
  for (int32_t i = 0; i < n; i++) {
    RG_TRY(rg_tensor_check(xs[i], op->name));
    RG_TRY(rg_check_computes(op, xs[i]->_dtype));
    RG_TRY(check_pair(op, xs[0], xs[i]));
  }
  RG_TRY(check_apart(op, (const rg_tensor *const *)xs, n));
  mode = rg_grad_mode(0);
  status = reduce(xs, n, options != NULL ? options : &sum);
  rg_grad_mode(mode);
  return status;
}
