/* SPDX-License-Identifier: MIT */
/*
** Singular value decomposition: its signature, shape rule and cost.  The kernel is core/cpu/svd.c.
*/
#include "op/list.h"
#include "op/op.h"
#include "op/product.h"

static rg_status svd_infer(rg_call *call)
{
  RG_TRY(rg_product_arity(call, 1, 1));
  const rg_tensor *x = call->in[0];
  RG_TRY(rg_product_matrix(call, 0, -1, -1, "x"));
  if (x->_dtype != RG_F32 && x->_dtype != RG_F64) {
    return rg_fail(RG_EDTYPE, "svd: x is %s, wanted f32 or f64", rg_dtype_name(x->_dtype));
  }
  int64_t m = x->_shape[0];
  int64_t n = x->_shape[1];
  int64_t k = m < n ? m : n;
  call->out[0] = (rg_meta){ .dtype = x->_dtype, .ndim = 2, .shape = { m, k } };
  call->out[1] = (rg_meta){ .dtype = x->_dtype, .ndim = 1, .shape = { k } };
  call->out[2] = (rg_meta){ .dtype = x->_dtype, .ndim = 2, .shape = { k, n } };
  call->n_out = 3;
  call->compute = -1;
  return RG_OK;
}

static rg_cost svd_cost(const rg_call *call)
{
  double m = (double)call->out[0].shape[0];
  double n = (double)call->out[2].shape[1];
  double k = (double)call->out[1].shape[0];

  /* with the larger side L: 6 L k^2 + 20 k^3, gesdd with both bases (Golub, Van Loan: Matrix
  ** Computations, figure 8.6.1, R-SVD) */
  return rg_cost_of(call, 6.0 * (m > n ? m : n) * k * k + 20.0 * k * k * k);
}

const rg_op rg_op_svd = {
  .name = "svd",
  .sig = "svd(x) -> u, s, vt",
  .doc = "singular value decomposition of a matrix, x = u diag(s) vt",
  .id = RG_OP_SVD,
  .amp = RG_AMP_NONE,
  .save_out = 7,
  .infer = svd_infer,
  .cost = svd_cost,
};

rg_status rg_svd(const rg_tensor *x, rg_tensor **u, rg_tensor **s, rg_tensor **vt)
{
  rg_tensor *out[3] = { NULL, NULL, NULL };
  rg_call call = { .op = &rg_op_svd, .in = (const rg_tensor *const[]){ x }, .n_in = 1 };

  if (u == NULL || s == NULL || vt == NULL) {
    return rg_fail(RG_EARG, "svd: a place for a result is NULL");
  }
  RG_TRY(rg_run(&call, out));
  *u = out[0];
  *s = out[1];
  *vt = out[2];
  return RG_OK;
}
