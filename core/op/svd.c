/* SPDX-License-Identifier: MIT */
/*
** Singular value decomposition: its signature, shape rule and cost.  The CPU's kernel is
** core/cpu/svd.c.
*/
#include "op/list.h"
#include "op/op.h"
#include "op/product.h"
#include "op/rule.h"
#include "op/svd.h"
#include "op/view.h"

static rg_status svd_infer(rg_call *call)
{
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
  if (x->_device != RG_CPU) {
    call->scratch_bytes = rg_svd_room_of(m, n, rg_dtype_bytes(x->_dtype)).bytes;
  }
  return RG_OK;
}

/* -- Gradient --------------------------------------------------------------------------------- */

/* Ones on the diagonal of [k x k], and zeros. */
static rg_value unit(rg_rule *r, rg_value like, int64_t k)
{
  int64_t shape[2] = { k, k };
  int64_t stride = k + 1;
  rg_tensor *all = NULL;
  rg_tensor *diagonal = NULL;
  rg_status status;

  if (r->f.status == RG_OK) {
    status = rg_empty(like->_dtype, like->_device, shape, 2, &all);
    rg_f_took(&r->f, status, all);
  }
  if (r->f.status == RG_OK) {
    rg_f_note(&r->f, rg_fill_(all, 0));
  }
  if (r->f.status == RG_OK) {
    status = rg_as_strided(all, &k, &stride, 1, 0, &diagonal);
    rg_f_took(&r->f, status, diagonal);
  }
  if (r->f.status == RG_OK) {
    rg_f_note(&r->f, rg_fill_(diagonal, 1));
  }
  return all;
}

static rg_value inner(rg_rule *r, rg_value x, rg_value y)
{
  return rg_f_matmul(&r->f, rg_f_transposed(&r->f, x), y);
}

/* F x + (F x)', elementwise. */
static rg_value both_ways(rg_rule *r, rg_value f, rg_value x)
{
  rg_value j = rg_f_mul(&r->f, f, x);

  return rg_f_add(&r->f, j, rg_f_transposed(&r->f, j));
}

/* What of x lies outside the columns of q. */
static rg_value outside(rg_rule *r, rg_value q, rg_value x)
{
  return rg_f_sub(&r->f, x, rg_f_matmul(&r->f, q, inner(r, q, x)));
}

/*
** Townsend: Differentiating the Singular Value Decomposition (2016).  With F[i,j] = 1 / (s_j^2 -
** s_i^2) off the diagonal and 0 on it, and v = vt':
**
**   dx = u [(F u'du + (F u'du)') s + s (F v'dv + (F v'dv)') + diag(ds)] vt
**        + (1 - u u') du / s vt + u / s dv' (1 - v v')
**
** Not finite where singular values are equal, or 0 beside gradients of u and vt: there is none.
*/
static rg_status svd_grad(rg_grad *g)
{
  rg_rule r = rg_rule_of(g);
  rg_value u = g->out[0];
  rg_value s = g->out[1];
  rg_value v = rg_f_transposed(&r.f, g->out[2]);
  rg_value du = g->dout[0];
  rg_value dv = g->dout[2] != NULL ? rg_f_transposed(&r.f, g->dout[2]) : NULL;
  int64_t k = s->_shape[0];
  rg_value one = unit(&r, s, k);
  rg_value row = rg_f_shaped(&r.f, s, (const int64_t[]){ k, 1 }, 2);
  rg_value squares = rg_f_unary(&r.f, rg_square, s);
  rg_value apart = rg_f_sub(&r.f, squares, rg_f_unary(&r.f, rg_square, row));
  rg_value f = rg_f_mul(&r.f, rg_f_unary(&r.f, rg_reciprocal, rg_f_add(&r.f, apart, one)),
                        rg_f_from(&r.f, 1, one));
  rg_value middle = g->dout[1] != NULL ? rg_f_mul(&r.f, one, g->dout[1]) : rg_f_times(&r.f, one, 0);

  if (du != NULL) {
    middle = rg_f_add(&r.f, middle, rg_f_mul(&r.f, both_ways(&r, f, inner(&r, u, du)), s));
  }
  if (dv != NULL) {
    middle = rg_f_add(&r.f, middle, rg_f_mul(&r.f, row, both_ways(&r, f, inner(&r, v, dv))));
  }
  rg_value dx = rg_f_matmul(&r.f, rg_f_matmul(&r.f, u, middle), rg_f_transposed(&r.f, v));
  if (du != NULL && u->_shape[0] > k) {
    rg_value rest = rg_f_div(&r.f, outside(&r, u, du), s);

    dx = rg_f_add(&r.f, dx, rg_f_matmul(&r.f, rest, rg_f_transposed(&r.f, v)));
  }
  if (dv != NULL && g->out[2]->_shape[1] > k) {
    rg_value rest = rg_f_div(&r.f, outside(&r, v, dv), s);

    dx = rg_f_add(&r.f, dx, rg_f_matmul(&r.f, u, rg_f_transposed(&r.f, rest)));
  }
  rg_rule_give(&r, 0, dx);
  return rg_rule_end(&r);
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
  .doc = "singular value decomposition of a matrix, x = u diag(s) vt",
  .id = RG_OP_SVD,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", INPUT, ANY)),
  .result = { "u", "s", "vt" },
  .method = true,
  .save_out = 7,
  .infer = svd_infer,
  .grad = svd_grad,
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
