/* SPDX-License-Identifier: MIT */
/*
** Tensors from one device to another.
*/
#include "op/op.h"

static rg_status moved(const rg_tensor *x, int32_t device, rg_tensor **out)
{
  rg_tensor *y;
  rg_status status;

  RG_TRY(rg_empty(x->_dtype, device, x->_shape, x->_ndim, &y));
  status = rg_device_copy(device, y->_data, x->_device, x->_data, rg_tensor_bytes(x));
  if (status != RG_OK) {
    rg_tensor_release(y);
    return status;
  }
  *out = y;
  return RG_OK;
}

static bool recording(void)
{
  int32_t before = rg_grad_mode(0);

  (void)rg_grad_mode(before);
  return before != 0;
}

rg_status rg_to_device(const rg_tensor *x, int32_t device, rg_tensor **out)
{
  rg_tensor *whole;
  rg_status status;

  if (out == NULL) {
    return rg_fail(RG_EARG, "to: out is NULL");
  }
  RG_TRY(rg_tensor_check(x, "to"));
  if (x->_device == device) {
    *out = rg_tensor_retain((rg_tensor *)x);
    return RG_OK;
  }
  RG_TRY(rg_device_open(device));
  if (rg_host_access_refused) {
    return rg_fail(RG_ECAPTURE, "to: a plan stays on one device; move tensors before");
  }
  if (recording() && rg_tensor_tracked(x)) {
    return rg_fail(RG_ENOSUP, "to: gradients do not flow from device to device; detach it, or make "
                              "it there");
  }
  RG_TRY(rg_contiguous(x, &whole));
  status = moved(whole, device, out);
  rg_tensor_release(whole);
  return status;
}
