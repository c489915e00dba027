/* SPDX-License-Identifier: MIT */
/*
** Gradients of the products.  A product in a lower-precision type (autocast) goes back in that
** type: weights, which come as they are, are converted first.
*/
#include <string.h>

#include "op/dropout.h"
#include "op/list.h"
#include "op/product.h"
#include "op/rule.h"

extern const rg_op rg_op_matmul, rg_op_sum;

static rg_value in_type(rg_rule *r, rg_value x)
{
  return r->f.status == RG_OK ? rg_f_weight_cast(&r->f, x, r->dy->_dtype) : NULL;
}

/* x' y of two matrices. */
static rg_value inner(rg_rule *r, rg_value x, rg_value y)
{
  return rg_f_matmul(&r->f, rg_f_transposed(&r->f, x), y);
}

/* x y in the type that comes back, with the result as `dtype`. In bf16 the factors are read in
** place, which spares converted copies, and a gradient of f32 is never rounded to bf16. */
static rg_value product(rg_rule *r, rg_value x, rg_value y, int32_t dtype)
{
  rg_tensor *out = NULL;
  rg_status status = r->f.status;

  if (status == RG_OK && r->dy->_dtype != RG_BF16) {
    return rg_f_matmul(&r->f, in_type(r, x), in_type(r, y));
  }
  if (status == RG_OK) {
    status = rg_matmul_bf16(x, y, dtype == RG_F32 ? RG_F32 : RG_BF16, &out);
  }
  return rg_f_took(&r->f, status, out);
}

/* -- Matrix product ----------------------------------------------------------------------- */

/* An input as the matrix it stood for: a vector is one row (left) or one column (right). */
static rg_value as_matrix(rg_rule *r, int32_t i)
{
  rg_value x = in_type(r, rg_rule_in(r, i));
  int64_t shape[2] = { 1, 1 };

  if (r->f.status != RG_OK || x->_ndim > 1) {
    return x;
  }
  shape[i == 0 ? 1 : 0] = x->_shape[0];
  return rg_f_shaped(&r->f, x, shape, 2);
}

rg_status rg_matmul_grad(rg_grad *g)
{
  rg_rule r = rg_rule_of(g);
  rg_value x = as_matrix(&r, 0);
  rg_value y = as_matrix(&r, 1);
  rg_value dz = r.dy;
  int64_t shape[RG_MAX_DIMS];
  int32_t n = dz->_ndim;

  if (r.f.status != RG_OK) {
    return rg_rule_end(&r);
  }
  memcpy(shape, dz->_shape, sizeof(shape));
  if (g->in[0].ndim == 1 || g->in[1].ndim == 1) { /* put the axes of vectors back */
    n -= g->in[1].ndim > 1 ? 1 : 0;
    n -= g->in[0].ndim > 1 ? 1 : 0;
    shape[n] = x->_shape[x->_ndim - 2];
    shape[n + 1] = y->_shape[y->_ndim - 1];
    n += 2;
    dz = rg_f_shaped(&r.f, dz, shape, n);
  }
  if (rg_rule_needs(&r, 0)) {
    rg_rule_into(&r, 0, &rg_op_matmul, 0);
    rg_rule_give(&r, 0, rg_f_matmul(&r.f, dz, rg_f_transposed(&r.f, y)));
  }
  if (rg_rule_needs(&r, 1)) {
    if (y->_ndim == 2) { /* one sum over batch and rows */
      x = rg_f_rows(&r.f, x);
      dz = rg_f_rows(&r.f, dz);
    }
    rg_rule_into(&r, 1, &rg_op_matmul, 0);
    x = inner(&r, x, dz);
    if (g->in[1].ndim == 1) { /* a column again */
      x = rg_f_shaped(&r.f, x, g->in[1].shape, 1);
    }
    rg_rule_give(&r, 1, x);
  }
  return rg_rule_end(&r);
}

/* -- Linear ---------------------------------------------------------------------------------- */

/* x w + b as a matrix, for activations whose result does not say their slope. */
static rg_value before_act(rg_rule *r, rg_value x, rg_value w, rg_value bias)
{
  rg_value z, sum;

  if (r->f.status == RG_OK && bias != NULL && r->dy->_dtype != RG_BF16) { /* in one pass */
    rg_value transposed = rg_f_transposed(&r->f, in_type(r, w));
    rg_value b = in_type(r, bias);
    rg_tensor *out = NULL;
    rg_status status;

    x = in_type(r, x);
    status = r->f.status == RG_OK ? rg_linear(x, transposed, b, RG_ACT_NONE, &out) : r->f.status;
    return rg_f_took(&r->f, status, out);
  }
  z = product(r, x, w, RG_BF16);
  if (bias == NULL || r->f.status != RG_OK) {
    return z;
  }
  sum = rg_f_add(&r->f, z, bias);

  rg_f_drop(&r->f, z);
  return sum;
}

/* The incoming gradient of an activation, as a matrix.  y: what came out of it, or z: what went in,
** as a matrix, whichever the activation reads; both are released. */
static rg_value behind_act(rg_rule *r, int32_t act, rg_value y, rg_value z, rg_value dy)
{
  rg_value shaped = z;
  rg_value dz;

  if (z != NULL && r->f.status == RG_OK && !rg_tensor_shaped(z, dy->_shape, dy->_ndim)) {
    shaped = rg_f_shaped(&r->f, z, dy->_shape, dy->_ndim);
  }
  dz = rg_rule_act(r, act, y, shaped, dy);
  if (shaped != z) {
    rg_f_drop(&r->f, shaped);
  }
  rg_f_drop(&r->f, z);
  if (y != NULL) {
    if (y != r->y) {
      rg_f_drop(&r->f, y);
    }
    r->y = NULL;
    r->g->let_go(r->g, 0);
  }
  return rg_f_rows(&r->f, dz);
}

/* The gradient of the bias, input i. */
static void give_bias(rg_rule *r, int32_t i, rg_value dz)
{
  rg_rule_into(r, i, &rg_op_sum, 0);
  rg_rule_give(r, i, rg_f_sum(&r->f, dz, (const int32_t[]){ 0 }, 1, false));
}

rg_status rg_linear_grad(rg_grad *g)
{
  const rg_linear_args *args = g->call->args;
  rg_rule r = rg_rule_of(g);
  rg_value w = rg_rule_in(&r, 1);
  rg_value x = rg_rule_in(&r, 0);
  rg_value dy = args->p > 0 ? rg_rule_dropped(&r, r.dy, g->out[1], args->p) : r.dy;
  rg_value dz;
  rg_value y = NULL;
  rg_value z = NULL;

  x = x != NULL ? rg_f_rows(&r.f, x) : NULL;
  if (args->act != RG_ACT_NONE) {
    if (rg_rule_act_reads_result(args->act)) {
      y = args->p > 0 ? rg_f_times(&r.f, r.y, 1 - args->p) : r.y; /* as it was before dropout */
    } else {
      z = before_act(&r, x, rg_f_transposed(&r.f, w), rg_rule_in(&r, 2));
    }
  }
  dz = behind_act(&r, args->act, y, z, dy);
  if (rg_rule_needs(&r, 0)) {
    rg_value dx = product(&r, dz, w, g->in[0].dtype);

    rg_rule_give(&r, 0, rg_f_shaped(&r.f, dx, g->in[0].shape, g->in[0].ndim));
  }
  if (rg_rule_needs(&r, 1)) {
    rg_rule_into(&r, 1, &rg_op_matmul, 0);
    rg_rule_give(&r, 1, product(&r, rg_f_transposed(&r.f, dz), x, g->in[1].dtype));
  }
  if (rg_rule_needs(&r, 2)) {
    give_bias(&r, 2, dz);
  }
  return rg_rule_end(&r);
}

void rg_linear_save(const rg_call *call, int32_t *in, int32_t *out)
{
  const rg_linear_args *args = call->args;

  *out = args->act != RG_ACT_NONE && rg_rule_act_reads_result(args->act) ? 1 : 0;
  if (args->act == RG_ACT_NONE || *out != 0) {
    *in &= 3; /* the bias only makes what went into the activation again */
  }
}

/* -- Low-rank ---------------------------------------------------------------------------------- */

rg_status rg_lowrank_grad(rg_grad *g)
{
  const rg_linear_args *args = g->call->args;
  rg_rule r = rg_rule_of(g);
  rg_value x = rg_f_rows(&r.f, in_type(&r, rg_rule_in(&r, 0)));
  rg_value a = in_type(&r, rg_rule_in(&r, 1));
  rg_value b = in_type(&r, rg_rule_in(&r, 2));
  rg_value middle = rg_f_rows(&r.f, g->out[1]);
  bool result = rg_rule_act_reads_result(args->act);
  rg_value z = result ? NULL : before_act(&r, middle, b, rg_rule_in(&r, 3));
  rg_value dz = behind_act(&r, args->act, r.y, z, r.dy);

  if (rg_rule_needs(&r, 2)) {
    rg_rule_into(&r, 2, &rg_op_matmul, 0);
    rg_rule_give(&r, 2, inner(&r, middle, dz));
  }
  if (rg_rule_needs(&r, 3)) {
    give_bias(&r, 3, dz);
  }
  if (rg_rule_needs(&r, 0) || rg_rule_needs(&r, 1)) {
    rg_value dmiddle = rg_f_matmul(&r.f, dz, rg_f_transposed(&r.f, b));

    if (rg_rule_needs(&r, 1)) {
      rg_rule_into(&r, 1, &rg_op_matmul, 0);
      rg_rule_give(&r, 1, inner(&r, x, dmiddle));
    }
    if (rg_rule_needs(&r, 0)) {
      rg_value dx = rg_f_matmul(&r.f, dmiddle, rg_f_transposed(&r.f, a));

      rg_rule_give(&r, 0, rg_f_shaped(&r.f, dx, g->in[0].shape, g->in[0].ndim));
    }
  }
  return rg_rule_end(&r);
}

void rg_lowrank_save(const rg_call *call, int32_t *in, int32_t *out)
{
  const rg_linear_args *args = call->args;

  *out = args->act != RG_ACT_NONE && rg_rule_act_reads_result(args->act) ? 1 : 0;
  if (args->act == RG_ACT_NONE || *out != 0) {
    *in &= 7;
  }
}
