/* SPDX-License-Identifier: MIT */
/*
** What infer functions are made of: promotion, broadcasting, axes, checks, cost.
*/
#include "op/op.h"
#include "tensor/dtype.h"

/* -- Element types --------------------------------------------------------------- */

bool rg_dtype_is_float(int32_t dtype)
{
  return rg_dtype_of_kind(dtype, RG_KINDS_FLOAT);
}

rg_status rg_check_computes(const rg_op *op, int32_t dtype)
{
  if (rg_dtype_of_kind(dtype, RG_KIND_STORED)) {
    return rg_fail(RG_EDTYPE, "%s: %s is a type for storing; convert to f16, bf16 or f32 first",
                   op->name, rg_dtype_name(dtype));
  }
  return RG_OK;
}

/* Types that are only stored meet none: the dispatcher keeps them away. */
int32_t rg_promote(int32_t a, int32_t b)
{
  int32_t rank_a = rg_dtypes[a].rank;
  int32_t rank_b = rg_dtypes[b].rank;

  if (a == b) {
    return a;
  }
  if (rank_a == rank_b) {
    return rg_dtypes[a].kind == RG_KIND_HALF ? RG_F32 : RG_I32;
  }
  return rank_a > rank_b ? a : b;
}

/* -- Shapes ---------------------------------------------------------------------- */

rg_meta rg_meta_of(const rg_tensor *x)
{
  rg_meta meta;

  meta.dtype = x->_dtype;
  meta.ndim = x->_ndim;
  for (int32_t i = 0; i < x->_ndim; i++) {
    meta.shape[i] = x->_shape[i];
  }
  return meta;
}

bool rg_meta_same(const rg_meta *a, const rg_meta *b)
{
  bool same = a->dtype == b->dtype && a->ndim == b->ndim;

  for (int32_t i = 0; same && i < a->ndim; i++) {
    same = a->shape[i] == b->shape[i];
  }
  return same;
}

int64_t rg_meta_count(const rg_meta *meta)
{
  int64_t count = 1;

  for (int32_t i = 0; i < meta->ndim; i++) {
    count *= meta->shape[i];
  }
  return count;
}

int64_t rg_meta_bytes(const rg_meta *meta)
{
  return rg_meta_count(meta) * rg_dtype_bytes(meta->dtype);
}

rg_status rg_broadcast(const rg_op *op, const rg_tensor *x, const rg_tensor *y, rg_meta *out)
{
  char a[96];
  char b[96];
  int32_t ndim = x->_ndim > y->_ndim ? x->_ndim : y->_ndim;

  out->ndim = ndim;
  for (int32_t i = 0; i < ndim; i++) {
    int32_t ix = i - (ndim - x->_ndim);
    int32_t iy = i - (ndim - y->_ndim);
    int64_t nx = ix < 0 ? 1 : x->_shape[ix];
    int64_t ny = iy < 0 ? 1 : y->_shape[iy];

    if (nx != ny && nx != 1 && ny != 1) {
      return rg_fail(RG_ESHAPE, "%s: shapes %s and %s do not broadcast (%lld vs %lld)", op->name,
                     rg_tensor_text(x, a, sizeof(a)), rg_tensor_text(y, b, sizeof(b)),
                     (long long)nx, (long long)ny);
    }
    out->shape[i] = nx == 1 ? ny : nx;
  }
  return RG_OK;
}

rg_status rg_axis_resolve(const rg_op *op, const rg_tensor *x, int32_t axis, int32_t *out)
{
  char text[96];
  int32_t resolved = axis < 0 ? axis + x->_ndim : axis;

  if (resolved < 0 || resolved >= x->_ndim) {
    return rg_fail(RG_EAXIS, "%s: there is no axis %lld in %s", op->name, rg_from_one(axis),
                   rg_tensor_text(x, text, sizeof(text)));
  }
  *out = resolved;
  return RG_OK;
}

/* -- Cost ------------------------------------------------------------------------ */

/* As rg_dtype_bytes, in line and the sum in whole numbers: every event of an operation asks. */
static inline int64_t bytes_of(int32_t dtype)
{
  return (uint32_t)dtype < RG_DTYPE_COUNT ? rg_dtypes[dtype].bytes : 0;
}

rg_cost rg_cost_of(const rg_call *call, double flops)
{
  int64_t bytes = 0;

  for (int32_t i = 0; i < call->n_in; i++) {
    const rg_tensor *x = call->in[i];

    bytes += x != NULL ? x->_count * bytes_of(x->_dtype) : 0;
  }
  for (int32_t i = 0; i < call->n_out; i++) {
    bytes += rg_meta_count(&call->out[i]) * bytes_of(call->out[i].dtype);
  }
  return (rg_cost){ .flops = flops, .bytes = (double)bytes };
}
