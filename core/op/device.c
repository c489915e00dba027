/* SPDX-License-Identifier: MIT */
/*
** Tensors from one device to another, and the way back of their gradients.
**
** A move is no call of the door, which keeps a call on one device; the tape alone is told of it.
*/
#include "op/rule.h"

typedef struct move_args {
  int32_t from;
} move_args;

/* What arrives goes back to where the tensor came from: a move again, which may be recorded. */
static rg_status move_grad(rg_grad *g)
{
  const move_args *args = g->call->args;

  return g->needs[0] ? rg_to_device(g->dout[0], args->from, &g->dx[0]) : RG_OK;
}

static const rg_op op_move = { .name = "to",
                               .sig = "to(x, device) -> y",
                               .doc = "the elements on another device",
                               .id = -1,
                               .amp = RG_AMP_NONE,
                               .args_size = sizeof(move_args),
                               .grad = move_grad };

/* Tell the tape, where gradient flows, that y was moved from x. */
static rg_status record(const rg_tensor *x, rg_tensor *y)
{
  rg_call call = { .op = &op_move,
                   .in = (const rg_tensor *const[]){ x },
                   .n_in = 1,
                   .device = x->_device,
                   .args = &(move_args){ .from = x->_device },
                   .tracked = true,
                   .n_out = 1 };

  call.out[0] = rg_meta_of(y);
  return rg_tape->ran(&call, (rg_tensor *const[]){ y });
}

static bool recording(void)
{
  int32_t before = rg_grad_mode(0);

  (void)rg_grad_mode(before);
  return before != 0 && rg_tape != NULL;
}

static rg_status moved(const rg_tensor *x, int32_t device, rg_tensor **out)
{
  rg_tensor *y;
  rg_status status;

  RG_TRY(rg_empty(x->_dtype, device, x->_shape, x->_ndim, &y));
  status = rg_tensor_transfer(y, x);
  if (status == RG_OK && recording() && rg_tensor_tracked(x) && rg_dtype_is_float(x->_dtype)) {
    status = record(x, y);
  }
  if (status != RG_OK) {
    rg_tensor_release(y);
    return status;
  }
  *out = y;
  return RG_OK;
}

rg_status rg_to_device(const rg_tensor *x, int32_t device, rg_tensor **out)
{
  rg_tensor *whole;
  rg_status status;

  if (out == NULL) {
    return rg_fail(RG_EARG, "to: out is NULL");
  }
  RG_TRY(rg_tensor_check(x, "to"));
  if (x->_device == device || (device == RG_PINNED && (x->_flags & RG_TENSOR_PINNED) != 0)) {
    *out = rg_tensor_retain((rg_tensor *)x);
    return RG_OK;
  }
  if (device != RG_PINNED) {
    RG_TRY(rg_device_open(device));
  }
  if (rg_host_access_refused) {
    return rg_fail(RG_ECAPTURE, "to: a plan stays on one device; move tensors before");
  }
  RG_TRY(rg_contiguous(x, &whole));
  status = moved(whole, device, out);
  rg_tensor_release(whole);
  return status;
}

/* Can the bytes of y be those of x as they are, with nobody to tell of it? */
static bool goes_straight(const rg_tensor *x, const rg_tensor *y)
{
  return x->_dtype == y->_dtype && rg_is_contiguous(x) && rg_is_contiguous(y) &&
         rg_tensor_shaped(x, y->_shape, y->_ndim) &&
         !(recording() && (rg_tensor_tracked(x) || rg_tensor_tracked(y)));
}

rg_status rg_copy_across(rg_tensor *x, const rg_tensor *y)
{
  rg_tensor *there;
  rg_status status;

  if (rg_host_access_refused) {
    return rg_fail(RG_ECAPTURE, "copy: a plan stays on one device; copy before");
  }
  if (goes_straight(x, y)) {
    RG_TRY(rg_tensor_transfer(x, y));
    rg_storage_wrote(x->_storage);
    return RG_OK;
  }
  RG_TRY(rg_to_device(y, x->_device, &there));
  status = rg_copy_(x, there);
  rg_tensor_release(there);
  return status;
}
