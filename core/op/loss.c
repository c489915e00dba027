/* SPDX-License-Identifier: MIT */
/*
** Cross entropy of scores with labels, softmax included: signature, shape rule, gradient, cost,
** public entries.  The kernels are in core/cpu/loss.c.
**
** The logarithm of the sum of exponentials is a hidden result: with it the gradient is one pass,
** softmax(x) - target, that needs no maximum.
*/
#include "op/loss.h"

#include <math.h>

#include "op/list.h"
#include "op/rule.h"

extern const rg_op rg_op_cross_entropy;
extern const rg_op rg_op_cross_entropy_back;

/* The type losses have: that of f64 scores, else f32. */
static int32_t loss_dtype(const rg_tensor *x)
{
  return x->_dtype == RG_F64 ? RG_F64 : RG_F32;
}

/* Scores, labels of their rows and, where there is one, the weight of each class. */
static rg_status check_inputs(const rg_call *call, int32_t x_at, int32_t weight_at)
{
  const rg_tensor *x = call->in[x_at];
  const rg_tensor *labels = call->in[x_at + 1];
  const rg_tensor *weight = call->n_in > weight_at ? call->in[weight_at] : NULL;
  const char *name = call->op->name;
  char a[96];
  char b[96];

  if (x->_ndim < 1 || x->_shape[x->_ndim - 1] < 1) {
    return rg_fail(RG_ESHAPE, "%s: the scores are %s, wanted a last axis of classes", name,
                   rg_tensor_text(x, a, sizeof(a)));
  }
  if (!rg_tensor_shaped(labels, x->_shape, x->_ndim - 1)) {
    return rg_fail(RG_ESHAPE, "%s: the labels are %s, wanted one for each row of %s", name,
                   rg_tensor_text(labels, a, sizeof(a)), rg_tensor_text(x, b, sizeof(b)));
  }
  if (weight != NULL) {
    if (weight->_ndim != 1 || weight->_shape[0] != x->_shape[x->_ndim - 1]) {
      return rg_fail(RG_ESHAPE, "%s: the weight is %s, wanted one number for each of %lld classes",
                     name, rg_tensor_text(weight, a, sizeof(a)),
                     (long long)x->_shape[x->_ndim - 1]);
    }
  }
  return rg_check_args(call);
}

static rg_meta rows_of(const rg_tensor *x)
{
  rg_meta rows = { .dtype = loss_dtype(x), .ndim = x->_ndim - 1 };

  for (int32_t i = 0; i < rows.ndim; i++) {
    rows.shape[i] = x->_shape[i];
  }
  return rows;
}

static rg_status infer(rg_call *call)
{
  const rg_cross_entropy_args *args = call->args;

  RG_TRY(check_inputs(call, 0, 2));
  const rg_tensor *x = call->in[0];

  call->out[0] = rows_of(x);
  call->out[1] = call->out[0];
  call->out[2] = (rg_meta){ .dtype = loss_dtype(x), .ndim = 1, .shape = { 1 } };
  if (args->o.reduction != RG_LOSS_NONE) {
    call->out[0].ndim = 0;
  }
  call->n_out = 3;
  /* the loss and the weight of each row, to be added up in their order */
  call->scratch_bytes = 2 * (int64_t)sizeof(double) * rg_meta_count(&call->out[1]);
  return RG_OK;
}

/* log(sum(exp(x))) of each row by operations: a gradient that is recorded itself depends on x
** through this as well. */
static rg_value recorded_lse(rg_rule *r, rg_value x)
{
  int32_t last = x->_ndim - 1;
  rg_tensor *most = NULL;
  int32_t mode = rg_grad_mode(0); /* the result does not depend on what is subtracted */
  rg_status status = r->f.status == RG_OK ? rg_max(x, &last, 1, true, &most) : r->f.status;
  rg_value m = rg_f_took(&r->f, status, most);
  rg_value sum;

  rg_grad_mode(mode);
  sum = rg_f_sum(&r->f, rg_f_unary(&r->f, rg_exp, rg_f_sub(&r->f, x, m)), &last, 1, true);
  sum = rg_f_add(&r->f, rg_f_unary(&r->f, rg_log, sum), m);
  return r->f.status == RG_OK ? rg_f_shaped(&r->f, sum, x->_shape, last) : NULL;
}

static bool recording(void)
{
  int32_t mode = rg_grad_mode(1);

  rg_grad_mode(mode);
  return mode != 0;
}

static rg_status grad(rg_grad *g)
{
  const rg_cross_entropy_args *args = g->call->args;
  rg_rule r = rg_rule_of(g);
  rg_tensor *out = NULL;
  rg_status status = r.f.status;
  rg_value lse = recording() ? recorded_lse(&r, rg_rule_in(&r, 0)) : g->out[1];

  if (g->call->n_in > 2 && g->needs[2]) {
    return rg_fail(RG_ENOSUP, "cross_entropy: has no gradient for the weight of the classes");
  }
  if (status == RG_OK) {
    status = rg_cross_entropy_back(r.dy, rg_rule_in(&r, 0), rg_rule_in(&r, 1), lse, g->out[2],
                                   g->call->n_in > 2 ? rg_rule_in(&r, 2) : NULL, &args->o, &out);
  }
  rg_rule_give(&r, 0, rg_f_took(&r.f, status, out));
  return rg_rule_end(&r);
}

/* The even share of all classes, weighed or not, where there is one. */
static double smoothing_flops(const rg_call *call, int32_t weight)
{
  const rg_cross_entropy_args *args = call->args;

  if (args->o.smoothing == 0) {
    return 0;
  }
  return call->n_in > weight && call->in[weight] != NULL ? 2 : 1;
}

static rg_cost cost(const rg_call *call)
{
  /* the largest, the difference to it, its exponential, their sum */
  return rg_cost_of(call, (13.0 + smoothing_flops(call, 2)) * (double)call->in[0]->_count);
}

static const rg_arg cross_entropy_args[] = { RG_CROSS_ENTROPY_OPTIONS(RG_ARG_ROW,
                                                                      rg_cross_entropy_args, o.) };

const rg_op rg_op_cross_entropy = {
  .name = "cross_entropy",
  .doc = "mean over rows of log(sum(exp(x))) - x[label]",
  .id = RG_OP_CROSS_ENTROPY,
  .amp = RG_AMP_F32,
  RG_INPUTS(RG_IN("x", NATIVE, FLOAT), RG_IN("labels", INDEX, WHOLE),
            RG_OPTIONAL("weight", NATIVE, FLOAT)),
  .result = { "loss", "lse", "total" },
  .save_in = 7,
  .n_hidden = 2,
  RG_ARGS(rg_cross_entropy_args, cross_entropy_args),
  .infer = infer,
  .grad = grad,
  .cost = cost,
};

rg_status rg_cross_entropy(const rg_tensor *x, const rg_tensor *labels, const rg_tensor *weight,
                           const rg_cross_entropy_options *options, rg_tensor **out)
{
  rg_cross_entropy_args args = { .o = { .ignore = -100 } };

  if (options != NULL) {
    args.o = *options;
  }
  return rg_run1(&rg_op_cross_entropy, (const rg_tensor *const[]){ x, labels, weight },
                 weight != NULL ? 3 : 2, &args, out);
}

/* -- Back -------------------------------------------------------------------------------- */

static rg_status back_infer(rg_call *call)
{
  const rg_cross_entropy_args *args = call->args;
  char a[96];

  RG_TRY(check_inputs(call, RG_CEB_X, RG_CEB_WEIGHT));
  const rg_tensor *x = call->in[RG_CEB_X];
  const rg_tensor *dy = call->in[RG_CEB_DY];
  const rg_tensor *lse = call->in[RG_CEB_LSE];
  const rg_tensor *total = call->in[RG_CEB_TOTAL];
  rg_meta rows = rows_of(x);
  bool fits = args->o.reduction == RG_LOSS_NONE ? dy->_ndim == rows.ndim : dy->_ndim == 0;
  bool like_rows = lse->_ndim == rows.ndim && lse->_dtype == rows.dtype;

  for (int32_t i = 0; i < rows.ndim; i++) {
    fits = fits && (dy->_ndim == 0 || dy->_shape[i] == rows.shape[i]);
    like_rows = like_rows && lse->_shape[i] == rows.shape[i];
  }
  if (!fits) {
    return rg_fail(RG_ESHAPE, "%s: the gradient %s is not of the loss's shape", call->op->name,
                   rg_tensor_text(dy, a, sizeof(a)));
  }
  if (!like_rows || total->_count != 1 || total->_dtype != rows.dtype) {
    return rg_fail(RG_ESHAPE, "%s: lse is %s, wanted %s for each row, and total one of them",
                   call->op->name, rg_tensor_text(lse, a, sizeof(a)), rg_dtype_name(rows.dtype));
  }
  call->out[0] = rg_meta_of(x);
  call->n_out = 1;
  return RG_OK;
}

static rg_status again(rg_grad *g, rg_value dy, rg_value lse, rg_tensor **out)
{
  const rg_cross_entropy_args *args = g->call->args;
  const rg_tensor *const *in = g->call->in;

  return rg_cross_entropy_back(dy, in[RG_CEB_X], in[RG_CEB_LABELS], lse, in[RG_CEB_TOTAL],
                               g->call->n_in > RG_CEB_WEIGHT ? in[RG_CEB_WEIGHT] : NULL, &args->o,
                               out);
}

/*
** With p = exp(x - lse), a row is dx = a p - t, where t, the target times the incoming gradient,
** sums to a: what comes out where p is 0.  So with dz, the gradient of dx:
**
**   d(x) = a p dz    d(lse) = -sum(a p dz)    d(dy) = sum(dz dx) at dy = 1
*/
static rg_status back_grad(rg_grad *g)
{
  const rg_cross_entropy_args *args = g->call->args;
  rg_rule r = rg_rule_of(g);
  rg_value x = rg_rule_in(&r, RG_CEB_X);
  rg_value lse = rg_rule_in(&r, RG_CEB_LSE);
  rg_value dy = rg_rule_in(&r, RG_CEB_DY);
  int32_t last = x->_ndim - 1;
  int64_t column[RG_MAX_DIMS];
  rg_tensor *out = NULL;
  rg_status status;

  for (int32_t i = 0; i < last; i++) {
    column[i] = x->_shape[i];
  }
  column[last] = 1;
  status = again(g, dy, rg_f_plus(&r.f, lse, INFINITY), &out);
  rg_value a = rg_f_times(&r.f, rg_f_sum(&r.f, rg_f_took(&r.f, status, out), &last, 1, true), -1);
  rg_value p =
      rg_f_unary(&r.f, rg_exp, rg_f_sub(&r.f, x, rg_f_shaped(&r.f, lse, column, x->_ndim)));
  rg_value dx = rg_f_mul(&r.f, rg_f_mul(&r.f, a, p), r.dy);

  rg_rule_give(&r, RG_CEB_X, dx);
  if (rg_rule_needs(&r, RG_CEB_LSE)) {
    rg_rule_give(&r, RG_CEB_LSE, rg_f_times(&r.f, rg_f_sum(&r.f, dx, &last, 1, false), -1));
  }
  if (rg_rule_needs(&r, RG_CEB_DY)) {
    rg_value one = rg_f_plus(&r.f, rg_f_times(&r.f, dy, 0), 1);

    out = NULL;
    status = r.f.status == RG_OK ? again(g, one, lse, &out) : r.f.status;
    rg_value at_one = rg_f_mul(&r.f, rg_f_took(&r.f, status, out), r.dy);
    bool rows = args->o.reduction == RG_LOSS_NONE;

    rg_rule_give(&r, RG_CEB_DY,
                 rows ? rg_f_sum(&r.f, at_one, &last, 1, false)
                      : rg_f_sum(&r.f, at_one, NULL, 0, false));
  }
  return rg_rule_end(&r);
}

/* Difference, exponential, product, the label's. */
static rg_cost back_cost(const rg_call *call)
{
  /* x - lse, its exponential, times the incoming gradient; the label's share is one a row */
  return rg_cost_of(call, (12.0 + smoothing_flops(call, RG_CEB_WEIGHT)) *
                              (double)call->in[RG_CEB_X]->_count);
}

const rg_op rg_op_cross_entropy_back = {
  .name = "cross_entropy_back",
  .doc = "the gradient of cross_entropy: softmax(x) less the target",
  .id = RG_OP_CROSS_ENTROPY_BACK,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("dy", NATIVE, FLOAT), RG_IN("x", NATIVE, FLOAT), RG_IN("labels", INDEX, WHOLE),
            RG_IN("lse", NATIVE, ANY), RG_IN("total", NATIVE, ANY),
            RG_OPTIONAL("weight", NATIVE, FLOAT)),
  .result = { "dx" },
  .save_in = 63,
  RG_ARGS(rg_cross_entropy_args, cross_entropy_args),
  .infer = back_infer,
  .grad = back_grad,
  .cost = back_cost,
};

rg_status rg_cross_entropy_back(const rg_tensor *dy, const rg_tensor *x, const rg_tensor *labels,
                                const rg_tensor *lse, const rg_tensor *total,
                                const rg_tensor *weight, const rg_cross_entropy_options *options,
                                rg_tensor **out)
{
  rg_cross_entropy_args args = { .o = { .ignore = -100 } };

  if (options != NULL) {
    args.o = *options;
  }
  return rg_run1(&rg_op_cross_entropy_back,
                 (const rg_tensor *const[]){ dy, x, labels, lse, total, weight },
                 weight != NULL ? 6 : 5, &args, out);
}
