/* SPDX-License-Identifier: MIT */
/*
** Matrix product, batched: its signature, shape rule and cost.  The kernel is core/cpu/matmul.c.
*/
#include "op/list.h"
#include "op/op.h"
#include "op/product.h"

/* -- Shape ------------------------------------------------------------------------ */

/* The matrix view of an input: rows and columns, a vector being one row (x) or one column (y). */
static void matrix_of(const rg_tensor *x, bool is_left, int64_t *rows, int64_t *cols)
{
  if (x->_ndim == 1) {
    *rows = is_left ? 1 : x->_shape[0];
    *cols = is_left ? x->_shape[0] : 1;
  } else {
    *rows = x->_shape[x->_ndim - 2];
    *cols = x->_shape[x->_ndim - 1];
  }
}

static rg_status matmul_infer(rg_call *call)
{
  const rg_matmul_args *args = call->args;
  rg_meta *out = &call->out[0];
  int64_t m, k, k2, n;
  int64_t batch[RG_MAX_DIMS];
  int32_t n_batch = 0;
  char a[128], b[128];

  const rg_tensor *x = call->in[0];
  const rg_tensor *y = call->in[1];
  if (x->_ndim == 0 || y->_ndim == 0) {
    return rg_fail(RG_ESHAPE, "matmul: %s times %s: a scalar has no rows",
                   rg_tensor_text(x, a, sizeof(a)), rg_tensor_text(y, b, sizeof(b)));
  }
  RG_TRY(rg_product_dtype(call, &out->dtype));
  if (args->compute >= 0) {
    out->dtype = args->dtype;
  }
  matrix_of(x, true, &m, &k);
  matrix_of(y, false, &k2, &n);
  if (k != k2) {
    return rg_fail(RG_ESHAPE, "matmul: %s times %s: the inner sizes %lld and %lld differ",
                   rg_tensor_text(x, a, sizeof(a)), rg_tensor_text(y, b, sizeof(b)), (long long)k,
                   (long long)k2);
  }
  int32_t bx = x->_ndim > 2 ? x->_ndim - 2 : 0;
  int32_t by = y->_ndim > 2 ? y->_ndim - 2 : 0;
  n_batch = bx > by ? bx : by;
  for (int32_t i = 0; i < n_batch; i++) {
    int32_t ix = i - (n_batch - bx);
    int32_t iy = i - (n_batch - by);
    int64_t sx = ix >= 0 ? x->_shape[ix] : 1;
    int64_t sy = iy >= 0 ? y->_shape[iy] : 1;

    if (sx != sy && sx != 1 && sy != 1) {
      return rg_fail(RG_ESHAPE, "matmul: %s times %s: the batch sizes %lld and %lld do not agree",
                     rg_tensor_text(x, a, sizeof(a)), rg_tensor_text(y, b, sizeof(b)),
                     (long long)sx, (long long)sy);
    }
    batch[i] = sx == 1 ? sy : sx;
  }
  out->ndim = 0;
  for (int32_t i = 0; i < n_batch; i++) {
    out->shape[out->ndim++] = batch[i];
  }
  if (x->_ndim > 1) {
    out->shape[out->ndim++] = m;
  }
  if (y->_ndim > 1) {
    out->shape[out->ndim++] = n;
  }
  call->n_out = 1;
  call->weight_cast = args->compute >= 0 ? args->compute : out->dtype;
  /* kernels read floats of any type, but an integer beside a float is converted first */
  call->compute = rg_dtype_is_float(x->_dtype) == rg_dtype_is_float(y->_dtype) ? -1 : out->dtype;
  return RG_OK;
}

/* -- Cost ---------------------------------------------------------------------------- */

static rg_cost matmul_cost(const rg_call *call)
{
  const rg_tensor *x = call->in[0];

  /* a multiplication and an addition for each element of the result and of the inner axis */
  return rg_cost_of(call,
                    2.0 * (double)rg_meta_count(&call->out[0]) * (double)x->_shape[x->_ndim - 1]);
}

/* -- Record and public entry ------------------------------------------------------------ */

static const rg_arg matmul_args[] = { RG_MATMUL_ARGS(RG_ARG_ROW, rg_matmul_args, ) };

const rg_op rg_op_matmul = {
  .name = "matmul",
  .doc = "matrix product over the last two axes; batch axes broadcast",
  .id = RG_OP_MATMUL,
  .amp = RG_AMP_LOWER,
  RG_INPUTS(RG_IN("x", WEIGHT, ANY), RG_IN("y", WEIGHT, ANY)),
  .result = { "z" },
  .method = true,
  .save_in = 3,
  RG_ARGS(rg_matmul_args, matmul_args),
  .infer = matmul_infer,
  .grad = rg_matmul_grad,
  .cost = matmul_cost,
};

rg_status rg_matmul(const rg_tensor *x, const rg_tensor *y, rg_tensor **out)
{
  return rg_run1(&rg_op_matmul, (const rg_tensor *const[]){ x, y }, 2,
                 &(rg_matmul_args){ .compute = -1 }, out);
}

rg_status rg_matmul_bf16(const rg_tensor *x, const rg_tensor *y, int32_t dtype, rg_tensor **out)
{
  return rg_run1(&rg_op_matmul, (const rg_tensor *const[]){ x, y }, 2,
                 &(rg_matmul_args){ .compute = RG_BF16, .dtype = dtype }, out);
}
