/* SPDX-License-Identifier: MIT */
/*
** Gradients of the reductions: the incoming gradient goes to every element a result came from.
*/
#include <math.h>

#include "op/list.h"
#include "op/reduce.h"
#include "op/rule.h"

/* v, which has the result's shape, with the reduced axes back in place and of size 1. */
static rg_value kept(rg_rule *r, rg_value v)
{
  const rg_reduce_args *args = r->g->call->args;
  const rg_meta *meta = &r->g->in[0];
  int64_t shape[RG_MAX_DIMS];

  for (int32_t i = 0; i < meta->ndim; i++) {
    shape[i] = (args->axes >> i & 1) != 0 ? 1 : meta->shape[i];
  }
  return rg_f_shaped(&r->f, v, shape, meta->ndim);
}

static rg_value spread(rg_rule *r, rg_value v)
{
  const rg_meta *meta = &r->g->in[0];

  return rg_f_expanded(&r->f, kept(r, v), meta->shape, meta->ndim);
}

typedef rg_status reduction(const rg_tensor *x, const int32_t *axes, int32_t n, int32_t keep,
                            rg_tensor **out);

/* v reduced over the same axes, which stay. */
static rg_value over(rg_rule *r, reduction *f, rg_value v)
{
  const rg_reduce_args *args = r->g->call->args;
  int32_t axes[RG_MAX_DIMS];
  int32_t n = 0;
  rg_tensor *out = NULL;
  rg_status status = r->f.status;

  for (int32_t i = 0; i < r->g->in[0].ndim; i++) {
    if ((args->axes >> i & 1) != 0) {
      axes[n++] = i;
    }
  }
  if (n == 0) { /* a scalar: none would mean all */
    return v;
  }
  status = status == RG_OK ? f(v, axes, n, 1, &out) : status;
  return rg_f_took(&r->f, status, out);
}

static rg_value total(rg_rule *r, rg_value v)
{
  return over(r, rg_sum, v);
}

rg_status rg_sum_grad(rg_grad *g)
{
  rg_rule r = rg_rule_of(g);

  rg_rule_give(&r, 0, rg_f_unary(&r.f, rg_clone, spread(&r, r.dy)));
  return rg_rule_end(&r);
}

rg_status rg_mean_grad(rg_grad *g)
{
  rg_rule r = rg_rule_of(g);
  double n = (double)rg_meta_count(&g->in[0]) / (double)rg_meta_count(&g->call->out[0]);

  rg_rule_give(&r, 0, rg_f_unary(&r.f, rg_clone, spread(&r, rg_f_times(&r.f, r.dy, 1 / n))));
  return rg_rule_end(&r);
}

/*
** The product of the others: y / x, but where zeros are about it is taken without them.  One zero:
** the others' product goes to it alone.  Two: nothing goes anywhere.
*/
rg_status rg_prod_grad(rg_grad *g)
{
  rg_rule r = rg_rule_of(g);
  rg_value x = rg_rule_in(&r, 0);
  int32_t dtype = g->in[0].dtype;
  rg_value zero = rg_f_cast(&r.f, rg_f_number(&r.f, rg_eq_scalar, x, 0), dtype);
  rg_value zeros = total(&r, zero);
  rg_value none = rg_f_cast(&r.f, rg_f_number(&r.f, rg_eq_scalar, zeros, 0), dtype);
  rg_value one = rg_f_cast(&r.f, rg_f_number(&r.f, rg_eq_scalar, zeros, 1), dtype);
  rg_value filled = rg_f_add(&r.f, x, zero);
  rg_value product = over(&r, rg_prod, filled);

  product = rg_f_div(&r.f, rg_f_mul(&r.f, kept(&r, r.dy), product), filled);
  one = rg_f_mul(&r.f, zero, one);
  none = rg_f_mul(&r.f, rg_f_from(&r.f, 1, zero), none);
  rg_rule_give(&r, 0, rg_f_mul(&r.f, product, rg_f_add(&r.f, one, none)));
  return rg_rule_end(&r);
}

/* The largest share the incoming gradient, in equal parts. */
static rg_value shares(rg_rule *r, rg_value x, rg_value y)
{
  rg_value mask = rg_f_cast(&r->f, rg_f_binary(&r->f, rg_eq, x, kept(r, y)), r->g->in[0].dtype);

  return rg_f_div(&r->f, mask, total(r, mask));
}

rg_status rg_extreme_grad(rg_grad *g)
{
  rg_rule r = rg_rule_of(g);

  rg_rule_give(&r, 0, rg_f_mul(&r.f, kept(&r, r.dy), shares(&r, rg_rule_in(&r, 0), r.y)));
  return rg_rule_end(&r);
}

/* sign(x) |x|^(p-1) / y^(p-1); 0 where all is 0 */
rg_status rg_norm_grad(rg_grad *g)
{
  const rg_reduce_args *args = g->call->args;
  rg_rule r = rg_rule_of(g);
  rg_value x = rg_rule_in(&r, 0);
  rg_value sign = rg_f_unary(&r.f, rg_sign, x);
  rg_value y = r.y;
  rg_value slope;

  if (isinf(args->p)) {
    slope = rg_f_mul(&r.f, sign, shares(&r, rg_f_unary(&r.f, rg_abs, x), y));
  } else {
    y = rg_f_add(&r.f, y, rg_f_number(&r.f, rg_eq_scalar, y, 0));
    slope = rg_f_div(&r.f, rg_f_unary(&r.f, rg_abs, x), kept(&r, y));
    if (args->p != 2) {
      slope = rg_f_number(&r.f, rg_pow_scalar, slope, args->p - 1);
    }
    slope = rg_f_mul(&r.f, sign, slope);
  }
  rg_rule_give(&r, 0, rg_f_mul(&r.f, kept(&r, r.dy), slope));
  return rg_rule_end(&r);
}
