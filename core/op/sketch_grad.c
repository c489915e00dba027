/* SPDX-License-Identifier: MIT */
/*
** Gradients of sketched layers (docs/why/definitions.md 1.1).  With z = x [S1|U2], which is a
** hidden result, and v the incoming gradient behind dropout and activation, scaled by 1/(2T):
**
**   dS1 = x' (v U1')    dS2 = (x U2)' v    dx = (v U1') S1' + (v S2') U2'    dbias = sum 2T v
**
** The signs are fixed: their halves of the stored factors get zeros, which cost no product.
*/
#include <math.h>

#include "op/draw.h"
#include "op/dropout.h"
#include "op/list.h"
#include "op/product.h"
#include "op/signs.h"

extern const rg_op rg_op_matmul, rg_op_sum;

/* The pieces of a call of any form, in the type that dy has, and z and v beside them. */
typedef struct sketch {
  rg_value x, s1, u1, u2, s2, bias;
  int32_t at_bias;
  int64_t half;
  rg_value z1, z2; /* x S1 and x U2 */
  rg_value v;      /* 1/(2T) of the incoming gradient before the bias is added */
} sketch;

static rg_value typed(rg_rule *r, rg_value x)
{
  return r->f.status == RG_OK ? rg_f_weight_cast(&r->f, x, r->dy->_dtype) : NULL;
}

static rg_value times_transposed(rg_rule *r, rg_value x, rg_value y)
{
  return rg_f_matmul(&r->f, x, rg_f_transposed(&r->f, y));
}

static rg_value inner(rg_rule *r, rg_value x, rg_value y)
{
  return rg_f_matmul(&r->f, rg_f_transposed(&r->f, x), y);
}

/* The sum of two products, which are let go. */
static rg_value summed(rg_rule *r, rg_value a, rg_value b)
{
  rg_value sum = rg_f_add(&r->f, a, b);

  rg_f_drop(&r->f, a);
  rg_f_drop(&r->f, b);
  return sum;
}

/* What went into the activation, once more: in the place of the first product. */
static rg_value before_act(rg_rule *r, const sketch *s, double scale)
{
  rg_value first = rg_f_matmul(&r->f, s->z1, s->u1);
  rg_value second = rg_f_matmul(&r->f, s->z2, s->s2);
  rg_tensor *sum = (rg_tensor *)(uintptr_t)first;
  rg_value z;

  rg_f_note(&r->f, r->f.status == RG_OK ? rg_add_(sum, second) : r->f.status);
  rg_f_drop(&r->f, second);
  rg_f_note(&r->f, r->f.status == RG_OK ? rg_mul_scalar_(sum, scale) : r->f.status);
  if (s->bias == NULL || r->f.status != RG_OK) {
    return first;
  }
  if (s->bias->_dtype == first->_dtype) {
    rg_f_note(&r->f, rg_add_(sum, s->bias));
    return first;
  }
  z = rg_f_add(&r->f, first, s->bias);
  rg_f_drop(&r->f, first);
  return z;
}

/* The incoming gradient back through dropout and activation; gives the bias its part. */
static void go_back(rg_rule *r, sketch *s)
{
  const rg_sketch_args *args = r->g->call->args;
  double scale = 1.0 / (2.0 * args->n_terms);
  rg_value v = rg_rule_dropped(r, r->dy, r->g->out[2], args->p);
  rg_value y = NULL;
  rg_value z = NULL;
  rg_value before = NULL;

  if (!rg_rule_act_reads_result(args->act)) {
    z = before_act(r, s, scale);
    before = v != NULL ? rg_f_shaped(&r->f, z, v->_shape, v->_ndim) : NULL;
  } else if (args->act != RG_ACT_NONE) {
    y = args->p > 0 ? rg_f_times(&r->f, r->y, 1 - args->p) : r->y; /* as it was before dropout */
  }
  v = rg_f_rows(&r->f, rg_rule_act(r, args->act, y, before, v));
  rg_f_drop(&r->f, before);
  rg_f_drop(&r->f, z);
  if (y != NULL) { /* nobody reads it any more */
    rg_f_drop(&r->f, y != r->y ? y : NULL);
    r->y = NULL;
    r->g->let_go(r->g, 0);
  }
  if (rg_rule_needs(r, s->at_bias)) {
    rg_rule_into(r, s->at_bias, &rg_op_sum, 0);
    rg_rule_give(r, s->at_bias, rg_f_sum(&r->f, v, (const int32_t[]){ 0 }, 1, false));
  }
  s->v = rg_f_times(&r->f, v, scale);
}

static void split_z(rg_rule *r, sketch *s)
{
  rg_value z = rg_f_rows(&r->f, r->g->out[1]);

  s->z1 = rg_f_narrow(&r->f, z, 1, 0, s->half);
  s->z2 = rg_f_narrow(&r->f, z, 1, s->half, s->half);
}

static void give_x(rg_rule *r, const sketch *s)
{
  if (rg_rule_needs(r, 0)) {
    rg_value dx = summed(r, times_transposed(r, times_transposed(r, s->v, s->u1), s->s1),
                         times_transposed(r, times_transposed(r, s->v, s->s2), s->u2));

    rg_rule_give(r, 0, rg_f_shaped(&r->f, dx, r->g->in[0].shape, r->g->in[0].ndim));
  }
}

/* -- Stored signs ------------------------------------------------------------------------- */

static rg_value zeros(rg_rule *r, int64_t rows, int64_t cols)
{
  rg_tensor *out = NULL;
  rg_status status = r->f.status;

  if (status == RG_OK) {
    status = rg_empty(r->dy->_dtype, r->dy->_device, (const int64_t[]){ rows, cols }, 2, &out);
  }
  if (status == RG_OK) {
    status = rg_fill_(out, 0);
  }
  return rg_f_took(&r->f, status, out);
}

static rg_value joined(rg_rule *r, rg_value a, rg_value b, int32_t axis)
{
  rg_tensor *out = NULL;
  rg_status status = r->f.status;

  if (status == RG_OK) {
    status = rg_concat((const rg_tensor *const[]){ a, b }, 2, axis, &out);
  }
  return rg_f_took(&r->f, status, out);
}

rg_status rg_sketched_grad(rg_grad *g)
{
  rg_rule r = rg_rule_of(g);
  sketch s = { .half = g->in[1].shape[1] / 2, .at_bias = 3, .bias = rg_rule_in(&r, 3) };
  rg_value left = typed(&r, rg_rule_in(&r, 1));
  rg_value right = typed(&r, rg_rule_in(&r, 2));
  int64_t n_in = g->in[1].shape[0];
  int64_t n_out = g->in[2].shape[1];

  s.x = rg_f_rows(&r.f, typed(&r, rg_rule_in(&r, 0)));
  s.s1 = rg_f_narrow(&r.f, left, 1, 0, s.half);
  s.u2 = rg_f_narrow(&r.f, left, 1, s.half, s.half);
  s.u1 = rg_f_narrow(&r.f, right, 0, 0, s.half);
  s.s2 = rg_f_narrow(&r.f, right, 0, s.half, s.half);
  split_z(&r, &s);
  go_back(&r, &s);
  if (rg_rule_needs(&r, 1)) {
    rg_value ds1 = inner(&r, s.x, times_transposed(&r, s.v, s.u1));

    rg_rule_give(&r, 1, joined(&r, ds1, zeros(&r, n_in, s.half), 1));
  }
  if (rg_rule_needs(&r, 2)) {
    rg_rule_give(&r, 2, joined(&r, zeros(&r, s.half, n_out), inner(&r, s.z2, s.v), 0));
  }
  give_x(&r, &s);
  return rg_rule_end(&r);
}

/* -- Signs of one bit each, kept or made from a seed ------------------------------------------- */

static rg_value expanded(rg_rule *r, rg_value bits, int64_t cols, double sign)
{
  rg_tensor *out = NULL;
  rg_status status = r->f.status;

  if (status == RG_OK) {
    status = rg_expand_signs(bits, cols, sign, r->dy->_dtype, &out);
  }
  return rg_f_took(&r->f, status, out);
}

static rg_value made(rg_rule *r, rg_value seed, int32_t matrix, int64_t rows, int64_t cols)
{
  rg_tensor *out = NULL;
  rg_status status = r->f.status;

  if (status == RG_OK) {
    status = rg_sign_bits(seed, matrix, rows, cols, &out);
  }
  return rg_f_took(&r->f, status, out);
}

/* The rule of both; s1 is input 1, s2 input at_s2 with the bias behind it. */
static rg_status bits_grad(rg_rule *r, int32_t at_s2, rg_value u1_bits, rg_value u2_bits)
{
  const rg_grad *g = r->g;
  const rg_sketch_args *args = g->call->args;
  sketch s = { .half = g->in[1].shape[1], .at_bias = at_s2 + 1, .bias = rg_rule_in(r, at_s2 + 1) };
  double sign = s.half > 0 ? 1.0 / sqrt((double)(s.half / args->n_terms)) : 1.0;

  s.x = rg_f_rows(&r->f, typed(r, rg_rule_in(r, 0)));
  s.s1 = typed(r, rg_rule_in(r, 1));
  s.s2 = typed(r, rg_rule_in(r, at_s2));
  s.u1 = expanded(r, u1_bits, g->in[at_s2].shape[1], sign);
  s.u2 = expanded(r, u2_bits, s.half, sign);
  split_z(r, &s);
  go_back(r, &s);
  if (rg_rule_needs(r, 1)) {
    rg_value vu = times_transposed(r, s.v, s.u1);

    rg_rule_into(r, 1, &rg_op_matmul, 0);
    rg_rule_give(r, 1, inner(r, s.x, vu));
  }
  if (rg_rule_needs(r, at_s2)) {
    rg_rule_into(r, at_s2, &rg_op_matmul, 0);
    rg_rule_give(r, at_s2, inner(r, s.z2, s.v));
  }
  give_x(r, &s);
  return rg_rule_end(r);
}

rg_status rg_sketched_bits_grad(rg_grad *g)
{
  rg_rule r = rg_rule_of(g);

  return bits_grad(&r, 4, rg_rule_in(&r, 2), rg_rule_in(&r, 3));
}

rg_status rg_sketched_seed_grad(rg_grad *g)
{
  rg_rule r = rg_rule_of(g);
  rg_value seed = rg_rule_in(&r, 2);
  int64_t half = g->in[1].shape[1];

  return bits_grad(&r, 3, made(&r, seed, RG_DRAW_U1, half, g->in[3].shape[1]),
                   made(&r, seed, RG_DRAW_U2, g->in[1].shape[0], half));
}

void rg_sketched_save(const rg_call *call, int32_t *in, int32_t *out)
{
  const rg_sketch_args *args = call->args;

  (void)in;
  *out = args->act != RG_ACT_NONE && rg_rule_act_reads_result(args->act) ? 1 : 0;
}
