/* SPDX-License-Identifier: MIT */
/*
** Steps of compositions: operations whose results are released together at the end.
*/
#include "op/compose.h"

rg_status rg_f_end(rg_compose *f)
{
  while (f->n > 0) {
    rg_tensor_release(f->made[--f->n]);
  }
  return f->status;
}

rg_tensor *rg_f_hold(rg_value x)
{
  return rg_tensor_retain((rg_tensor *)(uintptr_t)x);
}

void rg_f_drop(rg_compose *f, rg_value x)
{
  for (int32_t i = f->n - 1; i >= 0; i--) {
    if (x != NULL && f->made[i] == x) {
      f->made[i] = f->made[--f->n];
      rg_tensor_release((rg_tensor *)(uintptr_t)x);
      return;
    }
  }
}

void rg_f_note(rg_compose *f, rg_status status)
{
  if (f->status == RG_OK) {
    f->status = status;
  }
}

rg_status rg_f_give(rg_compose *f, rg_value x, rg_tensor **out)
{
  if (f->status == RG_OK) {
    *out = rg_f_hold(x);
  }
  return rg_f_end(f);
}

/* -- Steps ---------------------------------------------------------------------------- */

rg_value rg_f_took(rg_compose *f, rg_status status, rg_tensor *out)
{
  if (f->status != RG_OK) {
    return NULL;
  }
  if (status == RG_OK && f->n == RG_COMPOSE_STEPS) {
    rg_tensor_release(out);
    status = rg_fail(RG_EBUG, "%s: its composition has too many steps", f->what);
  }
  if (status != RG_OK) {
    f->status = status;
    return NULL;
  }
  f->made[f->n++] = out;
  return out;
}

rg_value rg_f_unary(rg_compose *f, rg_unary_entry *entry, rg_value x)
{
  RG_F_STEP(entry(x, &out));
}

rg_value rg_f_binary(rg_compose *f, rg_binary_entry *entry, rg_value x, rg_value y)
{
  RG_F_STEP(entry(x, y, &out));
}

rg_value rg_f_number(rg_compose *f, rg_number_entry *entry, rg_value x, double value)
{
  RG_F_STEP(entry(x, value, 0, &out));
}

rg_value rg_f_add(rg_compose *f, rg_value x, rg_value y)
{
  return rg_f_binary(f, rg_add, x, y);
}

rg_value rg_f_sub(rg_compose *f, rg_value x, rg_value y)
{
  return rg_f_binary(f, rg_sub, x, y);
}

rg_value rg_f_mul(rg_compose *f, rg_value x, rg_value y)
{
  return rg_f_binary(f, rg_mul, x, y);
}

rg_value rg_f_div(rg_compose *f, rg_value x, rg_value y)
{
  return rg_f_binary(f, rg_div, x, y);
}

rg_value rg_f_plus(rg_compose *f, rg_value x, double value)
{
  return rg_f_number(f, rg_add_scalar, x, value);
}

rg_value rg_f_times(rg_compose *f, rg_value x, double value)
{
  return rg_f_number(f, rg_mul_scalar, x, value);
}

rg_value rg_f_from(rg_compose *f, double value, rg_value x)
{
  RG_F_STEP(rg_sub_scalar(x, value, 1, &out));
}

rg_value rg_f_cast(rg_compose *f, rg_value x, int32_t dtype)
{
  rg_tensor *out = NULL;
  rg_status status = f->status;

  if (status == RG_OK && x->_dtype == dtype) {
    return x;
  }
  status = status == RG_OK ? rg_cast(x, dtype, &out) : status;
  return rg_f_took(f, status, out);
}

/* Does gradient flow through what is made of x now? */
static bool flows(rg_value x)
{
  bool on = rg_grad_mode(0) != 0;

  rg_grad_mode(on);
  return on && rg_tensor_tracked(x);
}

rg_value rg_f_weight_cast(rg_compose *f, rg_value x, int32_t dtype)
{
  if (f->status != RG_OK || !rg_weight_casts(x, dtype) || flows(x)) {
    return rg_f_cast(f, x, dtype);
  }
  RG_F_STEP(rg_weight_cast_view(x, dtype, &out));
}

rg_value rg_f_sum(rg_compose *f, rg_value x, const int32_t *axes, int32_t n, bool keep)
{
  RG_F_STEP(rg_sum(x, axes, n, keep, &out));
}

rg_value rg_f_matmul(rg_compose *f, rg_value x, rg_value y)
{
  return rg_f_binary(f, rg_matmul, x, y);
}

rg_value rg_f_transposed(rg_compose *f, rg_value x)
{
  RG_F_STEP(rg_transpose(x, -1, -2, &out));
}

rg_value rg_f_shaped(rg_compose *f, rg_value x, const int64_t *shape, int32_t ndim)
{
  RG_F_STEP(rg_reshape(x, shape, ndim, &out));
}

rg_value rg_f_expanded(rg_compose *f, rg_value x, const int64_t *shape, int32_t ndim)
{
  RG_F_STEP(rg_expand(x, shape, ndim, &out));
}

rg_value rg_f_rows(rg_compose *f, rg_value x)
{
  int64_t shape[2];

  if (f->status != RG_OK || x->_ndim == 2) {
    return x;
  }
  shape[1] = x->_shape[x->_ndim - 1];
  shape[0] = 1;
  for (int32_t i = 0; i + 1 < x->_ndim; i++) {
    shape[0] *= x->_shape[i];
  }
  return rg_f_shaped(f, x, shape, 2);
}

rg_value rg_f_narrow(rg_compose *f, rg_value x, int32_t axis, int64_t start, int64_t length)
{
  RG_F_STEP(rg_narrow(x, axis, start, length, 1, &out));
}

rg_tensor *rg_f_empty(rg_compose *f, int32_t dtype, int32_t device, const int64_t *shape,
                      int32_t ndim)
{
  rg_tensor *out = NULL;
  rg_status status = f->status == RG_OK ? rg_empty(dtype, device, shape, ndim, &out) : f->status;

  return rg_f_took(f, status, out) != NULL ? out : NULL;
}

rg_value rg_f_select(rg_compose *f, rg_value x, int32_t axis, int64_t at)
{
  RG_F_STEP(rg_select(x, axis, at, &out));
}

rg_value rg_f_swapped(rg_compose *f, rg_value x, int32_t a, int32_t b)
{
  RG_F_STEP(rg_transpose(x, a, b, &out));
}

rg_value rg_f_along(rg_compose *f, rg_value x, int32_t axis, int32_t ndim)
{
  int64_t shape[RG_MAX_DIMS];

  for (int32_t i = 0; i < ndim; i++) {
    shape[i] = i == axis && f->status == RG_OK ? x->_count : 1;
  }
  return rg_f_shaped(f, x, shape, ndim);
}
