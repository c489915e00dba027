/* SPDX-License-Identifier: MIT */
/*
** Which operation makes the first number that is not finite: a recorder that looks at every
** result while the mode is on, and fails the call that made it.
*/
#include <math.h>
#include <stdatomic.h>

#include "op/list.h"
#include "op/op.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

enum { SOME = 256 };

/* Are n elements side by side finite? */
static bool are_finite(const char *x, int32_t dtype, int64_t n)
{
  int64_t size = rg_dtype_bytes(dtype);
  double some[SOME];
  bool finite = true;

  for (int64_t i = 0; i < n && finite; i += SOME) {
    int64_t most = rg_min_i64(SOME, n - i);

    rg_dtypes[dtype].get(x + i * size, some, most);
    for (int64_t k = 0; k < most; k++) {
      finite = finite && isfinite(some[k]);
    }
  }
  return finite;
}

/* Elements of x along its last axes, from byte offset on; the first that is not finite. */
static bool scan(const rg_tensor *x, int32_t axis, const char *at)
{
  int64_t size = rg_dtype_bytes(x->_dtype);

  if (axis == x->_ndim) {
    return are_finite(at, x->_dtype, 1);
  }
  for (int64_t i = 0; i < x->_shape[axis]; i++) {
    if (!scan(x, axis + 1, at + i * x->_stride[axis] * size)) {
      return false;
    }
  }
  return true;
}

/* The same, x's first element being at `at`. */
static bool finite_at(const rg_tensor *x, const char *at)
{
  return rg_is_contiguous(x) ? are_finite(at, x->_dtype, x->_count) : scan(x, 0, at);
}

/* Of a tensor elsewhere: all that its storage has is brought here.  What cannot be asked is finite:
** the operation itself will have said what is wrong with the device. */
static bool finite_there(const rg_tensor *x)
{
  const rg_block *block = &x->_storage->block;
  char *here = rg_host_alloc((size_t)block->bytes);
  bool finite = true;

  if (here != NULL && rg_tensor_stream_order(x, false) == RG_OK &&
      rg_device_copy(RG_CPU, here, x->_device, block->data, block->bytes, false) == RG_OK) {
    finite = finite_at(x, here + ((const char *)x->_data - (const char *)block->data));
  }
  rg_host_free(here);
  return finite;
}

int32_t rg_is_finite(const rg_tensor *x)
{
  if (rg_dtype_of_kind(x->_dtype, RG_KINDS_WHOLE)) {
    return 1;
  }
  return x->_device == RG_CPU ? finite_at(x, x->_data) : finite_there(x);
}

/* -- The mode ------------------------------------------------------------------------------- */

static rg_status check(rg_recorder *self, const rg_call *call, rg_tensor *const *out)
{
  char text[96];

  (void)self;
  if (call->op->id == RG_OP_FILL) {
    return RG_OK;
  }
  for (int32_t i = 0; i < call->n_out - call->op->n_hidden; i++) {
    if (out[i] == NULL || rg_is_finite(out[i])) {
      continue;
    }
    for (int32_t k = 0; k < call->n_in; k++) {
      if (call->in[k] != NULL && !rg_is_finite(call->in[k])) {
        return RG_OK; /* not the first one: it may be meant, as -inf in a mask */
      }
    }
    return rg_fail(RG_ENAN, "%s: made a nan or an infinity in %s from finite inputs",
                   call->op->name, rg_tensor_text(out[i], text, sizeof(text)));
  }
  return RG_OK;
}

static _Thread_local rg_recorder checker;
static _Thread_local bool on;

int32_t rg_grad_anomaly(int32_t value)
{
  int32_t before = on;

  if (before) {
    rg_recorder_pop(&checker);
  }
  on = value != 0;
  if (on) {
    checker.ran = check;
    rg_recorder_push(&checker);
  }
  return before;
}
