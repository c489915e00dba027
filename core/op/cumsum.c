/* SPDX-License-Identifier: MIT */
/*
** Cumulative sums and products along one axis: type rule, gradients and cost.  The kernels are in
** core/cpu/cumsum.c.
*/
#include "op/cumsum.h"
#include "op/list.h"
#include "op/rule.h"

extern const rg_op rg_op_cumsum;
extern const rg_op rg_op_cumprod;

/* As a sum or a product: integers become i64, half types f32 where autocast says so. */
static rg_status infer(rg_call *call)
{
  int32_t dtype = call->in[0]->_dtype;

  call->out[0] = rg_meta_of(call->in[0]);
  call->n_out = 1;
  if (!rg_dtype_is_float(dtype)) {
    call->out[0].dtype = RG_I64;
  } else if (rg_autocast_for(call) >= 0) {
    call->out[0].dtype = rg_autocast_for(call); /* the kernel reads half types as they are */
  }
  return RG_OK;
}

/* An element is in every sum from its own on: the gradient runs the other way. */
static rg_status grad(rg_grad *g)
{
  rg_cumsum_args args = *(const rg_cumsum_args *)g->call->args;
  rg_rule r = rg_rule_of(g);
  rg_tensor *out = NULL;
  rg_status status = r.f.status;

  args.reverse = !args.reverse;
  if (status == RG_OK) {
    status = rg_run1(&rg_op_cumsum, (const rg_tensor *const[]){ r.dy }, 1, &args, &out);
  }
  rg_rule_give(&r, 0, rg_f_took(&r.f, status, out));
  return rg_rule_end(&r);
}

static rg_cost cost(const rg_call *call)
{
  return rg_cost_of(call, (double)call->in[0]->_count);
}

static const rg_arg cumsum_args[] = { RG_CUMSUM_ARGS(RG_ARG_ROW, rg_cumsum_args, ) };

const rg_op rg_op_cumsum = {
  .name = "cumsum",
  .doc = "the sum of an element and all before it along an axis",
  .id = RG_OP_CUMSUM,
  .amp = RG_AMP_F32,
  RG_INPUTS(RG_IN("x", INPUT, ANY)),
  .result = { "y" },
  .method = true,
  RG_ARGS(rg_cumsum_args, cumsum_args),
  .infer = infer,
  .grad = grad,
  .cost = cost,
};

/* -- Products ------------------------------------------------------------------------- */

static rg_value scanned(rg_compose *f, const rg_op *op, rg_value x, rg_cumsum_args args)
{
  RG_F_STEP(rg_run1(op, (const rg_tensor *const[]){ x }, 1, &args, &out));
}

/*
** y[j] = x[0] .. x[j], so that dx[i] is the sum over j >= i of dy[j] times all factors but x[i]: of
** dy y / x, where x is not 0.  Behind the first 0 every y is 0, and nothing flows there; its own
** gradient is that sum with 1 in its place.
*/
static rg_status product_grad(rg_grad *g)
{
  rg_cumsum_args args = *(const rg_cumsum_args *)g->call->args;
  rg_cumsum_args other = args;
  rg_rule r = rg_rule_of(g);
  rg_compose *f = &r.f;
  rg_value x = rg_rule_in(&r, 0);

  other.reverse = !args.reverse;
  if (f->status != RG_OK) {
    return rg_rule_end(&r);
  }
  rg_value y = r.y;

  x = rg_f_cast(f, x, y->_dtype);
  rg_value zero = rg_f_cast(f, rg_f_number(f, rg_eq_scalar, x, 0), y->_dtype);
  rg_value zeros = scanned(f, &rg_op_cumsum, zero, args);
  rg_value before = rg_f_number(f, rg_eq_scalar, zeros, 0); /* the first 0 */
  rg_value at = rg_f_mul(f, zero, rg_f_number(f, rg_eq_scalar, zeros, 1));
  rg_value filled = rg_f_add(f, x, at);
  rg_value rest = rg_f_mul(f, r.dy, scanned(f, &rg_op_cumprod, filled, args));
  rg_value sums = scanned(f, &rg_op_cumsum, rg_f_mul(f, r.dy, y), other);
  rg_value own = scanned(f, &rg_op_cumsum, rest, other);
  rg_value usual = rg_f_div(f, sums, rg_f_add(f, x, zero));

  rg_rule_give(&r, 0, rg_f_add(f, rg_f_mul(f, usual, before), rg_f_mul(f, own, at)));
  return rg_rule_end(&r);
}

const rg_op rg_op_cumprod = {
  .name = "cumprod",
  .doc = "the product of an element and all before it along an axis",
  .id = RG_OP_CUMPROD,
  .amp = RG_AMP_F32,
  RG_INPUTS(RG_IN("x", INPUT, ANY)),
  .result = { "y" },
  .method = true,
  .save_in = 1,
  .save_out = 1,
  RG_ARGS(rg_cumsum_args, cumsum_args),
  .infer = infer,
  .grad = product_grad,
  .cost = cost,
};
