/* SPDX-License-Identifier: MIT */
/*
** Compositions of operations: what is made on the way, and who lets go of it.
*/
#include "layer/compose.h"
#include "ridge/grad.h"

/* -- Life ---------------------------------------------------------------------------- */

rg_tensor **rg_compose_next(rg_compose *k)
{
  static _Thread_local rg_tensor *nowhere;

  if (k->n == RG_COMPOSE_MOST) {
    rg_compose_note(
        k, rg_fail(RG_EARG, "layer: a composition of more than %d operations", RG_COMPOSE_MOST));
    nowhere = NULL;
    return &nowhere;
  }
  k->made[k->n] = NULL;
  return &k->made[k->n++];
}

void rg_compose_note(rg_compose *k, rg_status status)
{
  if (k->status == RG_OK) {
    k->status = status;
  }
}

void rg_compose_back(rg_compose *k, int32_t n)
{
  while (k->n > n) {
    rg_tensor_release(k->made[--k->n]);
  }
}

rg_status rg_compose_end(rg_compose *k, rg_tensor *x, rg_tensor **out)
{
  if (k->status == RG_OK) {
    *out = rg_tensor_retain(x);
  }
  rg_compose_back(k, 0);
  return k->status;
}

/* -- Operations ---------------------------------------------------------------------- */

#define BINARY(name)                                                            \
  rg_tensor *rg_k_##name(rg_compose *k, const rg_tensor *x, const rg_tensor *y) \
  {                                                                             \
    RG_COMPOSED(rg_##name(x, y, out));                                          \
  }
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(matmul)
#undef BINARY

#define UNARY(name)                                         \
  rg_tensor *rg_k_##name(rg_compose *k, const rg_tensor *x) \
  {                                                         \
    RG_COMPOSED(rg_##name(x, out));                         \
  }
UNARY(exp)
UNARY(relu)
UNARY(rsqrt)
UNARY(sigmoid)
UNARY(square)
UNARY(tanh)
UNARY(detach)
#undef UNARY

rg_tensor *rg_k_plus(rg_compose *k, const rg_tensor *x, double value)
{
  RG_COMPOSED(rg_add_scalar(x, value, 0, out));
}

rg_tensor *rg_k_times(rg_compose *k, const rg_tensor *x, double value)
{
  RG_COMPOSED(rg_mul_scalar(x, value, 0, out));
}

rg_tensor *rg_k_cast(rg_compose *k, const rg_tensor *x, int32_t dtype)
{
  RG_COMPOSED(rg_cast(x, dtype, out));
}

/* -- Views --------------------------------------------------------------------------- */

rg_tensor *rg_k_transpose(rg_compose *k, const rg_tensor *x, int32_t a, int32_t b)
{
  RG_COMPOSED(rg_transpose(x, a, b, out));
}

rg_tensor *rg_k_narrow(rg_compose *k, const rg_tensor *x, int32_t axis, int64_t start,
                       int64_t length)
{
  RG_COMPOSED(rg_narrow(x, axis, start, length, 1, out));
}

rg_tensor *rg_k_select(rg_compose *k, const rg_tensor *x, int32_t axis, int64_t at)
{
  RG_COMPOSED(rg_select(x, axis, at, out));
}

static rg_tensor *contiguous(rg_compose *k, const rg_tensor *x)
{
  RG_COMPOSED(rg_contiguous(x, out));
}

static rg_tensor *view(rg_compose *k, const rg_tensor *x, const int64_t *shape, int32_t ndim)
{
  RG_COMPOSED(rg_view(x, shape, ndim, out));
}

rg_tensor *rg_k_reshape(rg_compose *k, const rg_tensor *x, const int64_t *shape, int32_t ndim)
{
  rg_tensor **out = rg_compose_next(k);
  rg_status status;

  if (k->status != RG_OK) {
    return NULL;
  }
  status = rg_view(x, shape, ndim, out);
  if (status == RG_OK || status == RG_ENOMEM) {
    rg_compose_note(k, status);
    return *out;
  }
  return view(k, contiguous(k, x), shape, ndim);
}

rg_tensor *rg_k_along(rg_compose *k, const rg_tensor *y, int32_t axis, int32_t ndim)
{
  int64_t shape[RG_MAX_DIMS];

  for (int32_t i = 0; i < ndim; i++) {
    shape[i] = i == axis && y != NULL ? y->_count : 1;
  }
  return rg_k_reshape(k, y, shape, ndim);
}

/* -- Masks --------------------------------------------------------------------------- */

static rg_tensor *places(rg_compose *k, int64_t n, int32_t device)
{
  rg_tensor **out = rg_compose_next(k);

  if (k->status == RG_OK) {
    rg_compose_note(k, rg_empty(RG_F32, device, &n, 1, out));
  }
  if (k->status == RG_OK) {
    rg_compose_note(k, rg_arange_(*out, 0, 1));
  }
  return *out;
}

static rg_tensor *at_most(rg_compose *k, const rg_tensor *x, const rg_tensor *y)
{
  RG_COMPOSED(rg_le(x, y, out));
}

rg_tensor *rg_k_lower(rg_compose *k, int64_t n, const rg_tensor *like)
{
  rg_tensor *at;

  if (k->status != RG_OK) {
    return NULL;
  }
  at = places(k, n, like->_device);
  return rg_k_cast(k, at_most(k, at, rg_k_along(k, at, 0, 2)), like->_dtype);
}
