/* SPDX-License-Identifier: MIT */
/*
** Elements to and from the host: one, some or all of them, as numbers or as bytes.
**
** A NaN has 52 bits to say why it is none.  LuaJIT keeps its own types in them: a double of Lua
** whose NaN bits come from a file or from a sum is read as a nil or a pointer.  So every NaN that
** leaves for Lua becomes the one NaN that Lua knows.
*/
#include <math.h>

#include "tensor/dtype.h"
#include "tensor/tensor.h"

_Thread_local bool rg_host_access_refused;

/* v with the NaN of Lua for any NaN. */
static double settled(double v)
{
  return isnan(v) ? (double)NAN : v;
}

rg_status rg_tensor_from_doubles(const double *values, int64_t count, int32_t dtype,
                                 const int64_t *shape, int32_t ndim, rg_tensor **out)
{
  char text[128];
  rg_tensor *x;

  if (out == NULL || (values == NULL && count > 0)) {
    return rg_fail(RG_EARG, "tensor: %s", out == NULL ? "out is NULL" : "no values");
  }
  if (rg_host_access_refused) {
    return rg_fail(RG_ECAPTURE, "tensor: values given while a plan is captured would be baked into "
                                "it; make the tensor before");
  }
  RG_TRY(rg_empty(dtype, RG_CPU, shape, ndim, &x));
  if (x->_count != count) {
    rg_status status = rg_fail(RG_ESHAPE, "tensor: %lld values do not fill %s", (long long)count,
                               rg_tensor_text(x, text, sizeof(text)));
    rg_tensor_release(x);
    return status;
  }
  rg_dtypes[dtype].set(x->_data, values, count);
  *out = x;
  return RG_OK;
}

rg_status rg_doubles_from(const void *data, int64_t count, int32_t dtype, double *out)
{
  if (rg_dtype_bytes(dtype) == 0 || count < 0 || (count > 0 && (data == NULL || out == NULL))) {
    return rg_fail(RG_EARG, "doubles: %lld elements of type %d", (long long)count, dtype);
  }
  rg_dtypes[dtype].get(data, out, count);
  for (int64_t i = 0; i < count; i++) {
    out[i] = settled(out[i]);
  }
  return RG_OK;
}

static rg_status check_transfer(const rg_tensor *x, const void *data, int64_t bytes,
                                const char *what)
{
  char text[96];

  RG_TRY(rg_tensor_check(x, what));
  if (rg_host_access_refused) {
    return rg_fail(RG_ECAPTURE,
                   "%s: a plan is being captured, and what the host reads or writes now would not "
                   "happen at replay",
                   what);
  }
  if (data == NULL && bytes > 0) {
    return rg_fail(RG_EARG, "%s: no host memory given", what);
  }
  if (!(x->_flags & RG_TENSOR_CONTIGUOUS) || bytes != rg_tensor_bytes(x)) {
    return rg_fail(RG_ESHAPE, "%s: %lld bytes for %s%s", what, (long long)bytes,
                   rg_tensor_text(x, text, sizeof(text)),
                   x->_flags & RG_TENSOR_CONTIGUOUS ? "" : " with gaps");
  }
  return RG_OK;
}

rg_status rg_tensor_read(const rg_tensor *x, void *data, int64_t bytes)
{
  RG_TRY(check_transfer(x, data, bytes, "read"));
  RG_TRY(rg_tensor_stream_order(x, false));
  return rg_device_copy(RG_CPU, data, x->_device, x->_data, bytes, false);
}

rg_status rg_tensor_to_doubles(const rg_tensor *x, double *values, int64_t count)
{
  int64_t bytes = count * rg_dtype_bytes(x == NULL ? 0 : x->_dtype);
  rg_status status;
  void *here;

  RG_TRY(check_transfer(x, values, bytes, "read"));
  if (x->_device == RG_CPU) {
    return rg_doubles_from(x->_data, count, x->_dtype, values);
  }
  here = rg_host_alloc((size_t)bytes);
  if (here == NULL) {
    return rg_fail(RG_ENOMEM, "read: no memory for %lld bytes", (long long)bytes);
  }
  status = rg_tensor_stream_order(x, false);
  if (status == RG_OK) {
    status = rg_device_copy(RG_CPU, here, x->_device, x->_data, bytes, false);
  }
  if (status == RG_OK) {
    status = rg_doubles_from(here, count, x->_dtype, values);
  }
  rg_host_free(here);
  return status;
}

rg_status rg_tensor_write(rg_tensor *x, const void *data, int64_t bytes)
{
  RG_TRY(check_transfer(x, data, bytes, "write"));
  RG_TRY(rg_tensor_stream_order(x, true));
  RG_TRY(rg_device_copy(x->_device, x->_data, RG_CPU, data, bytes, false));
  rg_storage_wrote(x->_storage);
  return RG_OK;
}

/* The address of one element. */
static rg_status element_at(const rg_tensor *x, const int64_t *index, int32_t n, const char *what,
                            char **out)
{
  char text[96];
  int64_t offset = 0;

  RG_TRY(rg_tensor_check(x, what));
  if (rg_host_access_refused) {
    return rg_fail(RG_ECAPTURE,
                   "%s: an element read or set while a plan is captured would be frozen in it",
                   what);
  }
  if (n != x->_ndim || (index == NULL && n > 0)) {
    return rg_fail(RG_EAXIS, "%s: %d indices for %s", what, n,
                   rg_tensor_text(x, text, sizeof(text)));
  }
  for (int32_t i = 0; i < n; i++) {
    if (index[i] < 0 || index[i] >= x->_shape[i]) {
      return rg_fail(RG_EAXIS, "%s: position %lld of axis %d is outside %s", what,
                     rg_from_one(index[i]), i + 1, rg_tensor_text(x, text, sizeof(text)));
    }
    offset += index[i] * x->_stride[i];
  }
  *out = (char *)x->_data + offset * rg_dtype_bytes(x->_dtype);
  return RG_OK;
}

rg_status rg_tensor_get(const rg_tensor *x, const int64_t *index, int32_t n, double *out)
{
  char *at;
  uint64_t room = 0; /* an element of any type */

  if (out == NULL) {
    return rg_fail(RG_EARG, "get: out is NULL");
  }
  RG_TRY(element_at(x, index, n, "get", &at));
  if (x->_device != RG_CPU) {
    RG_TRY(rg_tensor_stream_order(x, false));
    RG_TRY(rg_device_copy(RG_CPU, &room, x->_device, at, rg_dtype_bytes(x->_dtype), false));
    at = (char *)&room;
  }
  rg_dtypes[x->_dtype].get(at, out, 1);
  *out = settled(*out);
  return RG_OK;
}

rg_status rg_tensor_set(rg_tensor *x, const int64_t *index, int32_t n, double value)
{
  char *at;
  uint64_t room = 0;

  RG_TRY(element_at(x, index, n, "set", &at));
  if (x->_device == RG_CPU) {
    rg_dtypes[x->_dtype].set(at, &value, 1);
  } else {
    rg_dtypes[x->_dtype].set(&room, &value, 1);
    RG_TRY(rg_tensor_stream_order(x, true));
    RG_TRY(rg_device_copy(x->_device, at, RG_CPU, &room, rg_dtype_bytes(x->_dtype), false));
  }
  rg_storage_wrote(x->_storage);
  return RG_OK;
}
