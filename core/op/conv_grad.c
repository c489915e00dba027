/* SPDX-License-Identifier: MIT */
/*
** Gradients of convolutions.  All three are convolutions of each other: with C the convolution of
** x by w, D(dy, w) its gradient for x and E(x, dy) its gradient for w, each is linear in each of
** its inputs, and <C(x, w), dy> = <x, D(dy, w)> = <w, E(x, dy)>.
*/
#include "op/conv.h"
#include "op/list.h"
#include "op/rule.h"

extern const rg_op rg_op_conv2d_back_weight;

static rg_value in_type(rg_rule *r, rg_value x)
{
  return r->f.status == RG_OK ? rg_f_weight_cast(&r->f, x, r->dy->_dtype) : NULL;
}

/* The options without the activation, which is not part of a product. */
static rg_conv2d_options linear_part(const rg_grad *g)
{
  rg_conv2d_options o = ((const rg_conv2d_args *)g->call->args)->o;

  o.act = RG_ACT_NONE;
  return o;
}

static rg_value conv(rg_rule *r, rg_value x, rg_value w, rg_value b, const rg_conv2d_options *o)
{
  rg_tensor *out = NULL;
  rg_status status = r->f.status == RG_OK ? rg_conv2d(x, w, b, o, &out) : r->f.status;

  return rg_f_took(&r->f, status, out);
}

static rg_value back_data(rg_rule *r, rg_value dy, rg_value w, const int64_t size[2],
                          const rg_conv2d_options *o)
{
  rg_tensor *out = NULL;
  rg_status status = r->f.status;

  if (status == RG_OK) {
    status = rg_conv2d_back_data(dy, w, size[0], size[1], o, &out);
  }
  return rg_f_took(&r->f, status, out);
}

/* dw and, where db is not NULL, the sum over everything but the channels. */
static rg_value back_weight(rg_rule *r, rg_value x, rg_value dy, const int64_t size[2],
                            const rg_conv2d_options *o, rg_value *db)
{
  rg_tensor *out[2] = { NULL, NULL };
  rg_status status = r->f.status;
  rg_value sum;

  if (status == RG_OK) {
    status = rg_conv2d_back_weight(x, dy, size[0], size[1], o, &out[0], &out[1]);
  }
  sum = rg_f_took(&r->f, status, out[1]);
  if (db != NULL) {
    *db = sum;
  }
  return rg_f_took(&r->f, status, out[0]);
}

/* -- Forward --------------------------------------------------------------------------------- */

rg_status rg_conv2d_grad(rg_grad *g)
{
  const rg_conv2d_args *args = g->call->args;
  const rg_meta *x_meta = &g->in[0];
  const rg_meta *w_meta = &g->in[1];
  rg_conv2d_options o = linear_part(g);
  rg_rule r = rg_rule_of(g);
  rg_value x = rg_rule_in(&r, 0) != NULL ? in_type(&r, rg_rule_in(&r, 0)) : NULL;
  rg_value w = rg_rule_in(&r, 1) != NULL ? in_type(&r, rg_rule_in(&r, 1)) : NULL;
  rg_value dz = r.dy;

  if (args->o.act != RG_ACT_NONE) {
    bool result = rg_rule_act_reads_result(args->o.act);
    rg_value z = result ? NULL : conv(&r, x, w, rg_rule_in(&r, 2), &o);

    dz = rg_rule_act(&r, args->o.act, result ? r.y : NULL, z, dz);
  }
  if (rg_rule_needs(&r, 0)) {
    rg_rule_give(&r, 0, back_data(&r, dz, w, &x_meta->shape[rg_rows_axis(o.layout)], &o));
  }
  if (rg_rule_needs(&r, 1) || rg_rule_needs(&r, 2)) {
    rg_value db;
    rg_rule_into(&r, 1, &rg_op_conv2d_back_weight, 0);
    rg_rule_into(&r, 2, &rg_op_conv2d_back_weight, 1);
    rg_value dw = back_weight(&r, x, dz, &w_meta->shape[2], &o, &db);

    if (rg_rule_needs(&r, 1)) {
      rg_rule_give(&r, 1, dw);
    }
    if (rg_rule_needs(&r, 2)) {
      rg_rule_give(&r, 2, db);
    }
  }
  return rg_rule_end(&r);
}

void rg_conv2d_save(const rg_call *call, int32_t *in, int32_t *out)
{
  const rg_conv2d_args *args = call->args;

  *out = args->o.act != RG_ACT_NONE && rg_rule_act_reads_result(args->o.act) ? 1 : 0;
  if (args->o.act == RG_ACT_NONE || *out != 0) {
    *in &= 3; /* the bias only makes what went into the activation again */
  }
}

/* -- Backward -------------------------------------------------------------------------------- */

rg_status rg_conv2d_back_data_grad(rg_grad *g)
{
  rg_conv2d_options o = linear_part(g);
  rg_rule r = rg_rule_of(g);
  rg_value g_x = r.dy; /* the gradient of dx */

  if (rg_rule_needs(&r, 0)) {
    rg_rule_give(&r, 0, conv(&r, g_x, in_type(&r, rg_rule_in(&r, 1)), NULL, &o));
  }
  if (rg_rule_needs(&r, 1)) {
    rg_value dy = in_type(&r, rg_rule_in(&r, 0));

    rg_rule_give(&r, 1, back_weight(&r, g_x, dy, &g->in[1].shape[2], &o, NULL));
  }
  return rg_rule_end(&r);
}

/* dw is linear in x and dy; db is the sum of dy, and its gradient is spread over the images. */
rg_status rg_conv2d_back_weight_grad(rg_grad *g)
{
  rg_conv2d_options o = linear_part(g);
  const int64_t *x_size = &g->in[0].shape[rg_rows_axis(o.layout)];
  rg_rule r = rg_rule_of(g);
  rg_value g_w = g->dout[0];
  rg_value g_b = g->dout[1];

  if (rg_rule_needs(&r, 0)) {
    rg_value dy = rg_rule_in(&r, 1);

    if (g_w != NULL) {
      rg_rule_give(&r, 0, back_data(&r, rg_f_cast(&r.f, dy, g_w->_dtype), g_w, x_size, &o));
    }
  }
  if (rg_rule_needs(&r, 1)) {
    rg_value x = rg_rule_in(&r, 0);
    rg_value sum = NULL;

    if (g_w != NULL) {
      sum = conv(&r, rg_f_cast(&r.f, x, g_w->_dtype), g_w, g_b, &o);
    } else if (g_b != NULL) {
      int64_t one[4] = { 1, 1, 1, 1 };

      one[rg_channels_axis(o.layout)] = g_b->_count;
      sum = rg_f_shaped(&r.f, g_b, one, 4);
      sum = rg_f_expanded(&r.f, sum, g->in[1].shape, 4);
    }
    if (sum != NULL) {
      rg_rule_give(&r, 1, sum);
    }
  }
  return rg_rule_end(&r);
}
