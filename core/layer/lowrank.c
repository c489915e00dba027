/* SPDX-License-Identifier: MIT */
/*
** The best factors of a weight, by its singular value decomposition.
*/
#include "base/base.h"
#include "ridge/factor.h"
#include "ridge/grad.h"
#include "tensor/tensor.h"

/* The first rank columns of u (or rows of vt), each times the root of its singular value, as
** [n x rank] transposed or as [rank x n]. */
static rg_status factor(const rg_tensor *basis, int32_t axis, const rg_tensor *roots, int64_t rank,
                        bool rank_first, int32_t dtype, rg_tensor **out)
{
  rg_tensor *cut = NULL, *way = NULL, *some = NULL, *line = NULL, *scaled = NULL;
  bool turns = (axis == 0) != rank_first;
  rg_status status = rg_narrow(basis, axis, 0, rank, 1, &cut);

  if (status == RG_OK) {
    status = turns ? rg_transpose(cut, 0, 1, &way) : RG_OK;
  }
  if (status == RG_OK) {
    status = rg_narrow(roots, 0, 0, rank, 1, &some);
  }
  if (status == RG_OK) {
    status = rg_unsqueeze(some, rank_first ? 1 : 0, &line);
  }
  if (status == RG_OK) {
    status = rg_mul(turns ? way : cut, line, &scaled);
  }
  if (status == RG_OK) {
    status = rg_cast(scaled, dtype, out);
  }
  rg_tensor_release(cut);
  rg_tensor_release(way);
  rg_tensor_release(some);
  rg_tensor_release(line);
  rg_tensor_release(scaled);
  return status;
}

/* weight = U diag(s) V', [n_out x n_in]; so A = V sqrt(s) and B = sqrt(s) U'. */
static rg_status factorise(const rg_tensor *weight, int64_t rank, rg_tensor **a, rg_tensor **b)
{
  int32_t dtype = weight->_dtype;
  rg_tensor *wide = NULL, *u = NULL, *s = NULL, *vt = NULL, *roots = NULL;
  rg_status status = rg_cast(weight, dtype == RG_F64 ? RG_F64 : RG_F32, &wide);

  if (status == RG_OK) {
    status = rg_svd(wide, &u, &s, &vt);
  }
  if (status == RG_OK) {
    status = rg_sqrt(s, &roots);
  }
  if (status == RG_OK) {
    status = factor(vt, 0, roots, rank, false, dtype, a);
  }
  if (status == RG_OK) {
    status = factor(u, 1, roots, rank, true, dtype, b);
  }
  rg_tensor_release(wide);
  rg_tensor_release(u);
  rg_tensor_release(s);
  rg_tensor_release(vt);
  rg_tensor_release(roots);
  return status;
}

rg_status rg_lowrank_factors(const rg_tensor *weight, int64_t rank, rg_tensor **a, rg_tensor **b)
{
  rg_tensor *made[2] = { NULL, NULL };
  rg_status status;
  int32_t mode;

  RG_TRY(rg_tensor_check(weight, "low-rank factors"));
  if (weight->_ndim != 2 || a == NULL || b == NULL) {
    return rg_fail(RG_EARG, "low-rank factors: a matrix and two places for factors are wanted");
  }
  int64_t most = rg_min_i64(weight->_shape[0], weight->_shape[1]);

  if (rank < 1 || rank > most) {
    return rg_fail(RG_EARG, "low-rank factors: rank %lld of a weight that has %lld at most",
                   (long long)rank, (long long)most);
  }
  mode = rg_grad_mode(0); /* parameters come from nothing */
  status = factorise(weight, rank, &made[0], &made[1]);
  rg_grad_mode(mode);
  if (status != RG_OK) {
    rg_tensor_release(made[0]);
    rg_tensor_release(made[1]);
    return status;
  }
  *a = made[0];
  *b = made[1];
  return RG_OK;
}
