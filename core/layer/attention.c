/* SPDX-License-Identifier: MIT */
/*
** The heads of an attention: between the layer that makes q, k and v and the one after it.
*/
#include <math.h>

#include "layer/compound.h"

/* -- Who sees whom ------------------------------------------------------------------- */

static rg_value places(rg_compose *f, int64_t n, int32_t device)
{
  rg_tensor *x = rg_f_empty(f, RG_F32, device, &n, 1);

  if (f->status == RG_OK) {
    rg_f_note(f, rg_arange_(x, 0, 1));
  }
  return x;
}

rg_value rg_tril(rg_compose *f, int64_t n, rg_value like)
{
  if (f->status != RG_OK) {
    return NULL;
  }
  rg_value at = places(f, n, like->_device);

  return rg_f_cast(f, rg_f_binary(f, rg_le, at, rg_f_along(f, at, 0, 2)), like->_dtype);
}

/* -- Kinds --------------------------------------------------------------------------- */

/* No place sees those behind it: what is added is never the largest and its weight is 0.  f16 has
** no 1e30, and 0 times infinity would be no number. */
static rg_value masked(rg_compose *f, rg_value scores, int64_t length)
{
  double far = scores != NULL && scores->_dtype == RG_F16 ? 6e4 : 1e30;
  rg_value hidden = rg_f_plus(f, rg_tril(f, length, scores), -1); /* 0 or -1 */

  return rg_f_add(f, scores, rg_f_times(f, hidden, far));
}

static rg_value softmaxed(rg_compose *f, rg_value x)
{
  RG_F_STEP(rg_softmax(x, -1, &out));
}

static rg_value dropped(rg_compose *f, rg_value x, double p)
{
  RG_F_STEP(rg_dropout(x, p, NULL, &out));
}

static rg_value by_matrix(rg_compose *f, rg_value q, rg_value key, rg_value v,
                          const rg_heads_options *o)
{
  rg_value scores = rg_f_matmul(f, q, rg_f_swapped(f, key, 2, 3));
  rg_value weights;

  if (f->status != RG_OK) {
    return NULL;
  }
  scores = rg_f_times(f, scores, 1 / sqrt((double)q->_shape[3]));
  if (o->causal) {
    scores = masked(f, scores, q->_shape[2]);
  }
  weights = softmaxed(f, scores);
  if (o->p > 0) {
    weights = dropped(f, weights, o->p);
  }
  return rg_f_matmul(f, weights, v);
}

static rg_value by_features(rg_compose *f, rg_value q, rg_value key, rg_value v, rg_value omega,
                            const rg_heads_options *o)
{
  RG_F_STEP(rg_feature_attention(q, key, v, omega, o->kernel, o->causal, &out));
}

static rg_value by_tiles(rg_compose *f, rg_value q, rg_value key, rg_value v, rg_value mask,
                         const rg_heads_options *o)
{
  rg_attention_options options = { .causal = o->causal, .block = o->block };

  if (o->p > 0) {
    RG_F_STEP(rg_attention_dropout(q, key, v, mask, &options, o->p, NULL, &out));
  }
  RG_F_STEP(rg_attention(q, key, v, mask, &options, &out));
}

/* -- Heads --------------------------------------------------------------------------- */

static rg_status infer(rg_call *call)
{
  const rg_heads_options *o = call->args;
  const rg_tensor *qkv = call->in[0];
  const rg_tensor *mask = call->in[1];
  const rg_tensor *omega = call->in[2];
  char text[128];

  if (o->kind < 0 || o->kind >= RG_HEADS_COUNT || !(o->p >= 0 && o->p < 1)) {
    return rg_fail(RG_EARG, "heads: there is no kind %d with dropout %g", o->kind, o->p);
  }
  if (qkv->_ndim != 3 || o->heads < 1 || qkv->_shape[2] % (3 * o->heads) != 0) {
    return rg_fail(RG_ESHAPE, "heads: qkv is %s, wanted [batch,length,3n], n a multiple of %lld",
                   rg_tensor_text(qkv, text, sizeof(text)), (long long)o->heads);
  }
  if (mask != NULL && o->kind != RG_HEADS_TILES) {
    return rg_fail(RG_EARG, "heads: a mask of blocks goes with tiles");
  }
  if ((omega != NULL) != (o->kind == RG_HEADS_FEATURES) ||
      (o->kind == RG_HEADS_FEATURES && o->p > 0)) {
    return rg_fail(RG_EARG, "heads: omega is for random features, which have no dropout");
  }
  return RG_OK;
}

/* Of all [batch x length x 3 x heads x size], part i as [batch x heads x length x size]. */
static rg_value part(rg_compose *f, rg_value all, int64_t i)
{
  return rg_f_swapped(f, rg_f_select(f, all, 2, i), 1, 2);
}

static rg_status expand(const rg_call *call, rg_tensor **out)
{
  const rg_heads_options *options = call->args;
  const rg_tensor *qkv = call->in[0];
  rg_compose f = { .what = "heads" };
  rg_value y;
  int64_t n = qkv->_shape[2] / 3;
  int64_t split[] = { qkv->_shape[0], qkv->_shape[1], 3, options->heads, n / options->heads };
  int64_t joined[] = { qkv->_shape[0], qkv->_shape[1], n };
  rg_value all = rg_f_shaped(&f, qkv, split, 5);
  rg_value q = part(&f, all, 0);
  rg_value key = part(&f, all, 1);
  rg_value v = part(&f, all, 2);

  if (options->kind == RG_HEADS_FEATURES) {
    y = by_features(&f, q, key, v, call->in[2], options);
  } else if (options->kind == RG_HEADS_MATRIX) {
    y = by_matrix(&f, q, key, v, options);
  } else {
    y = by_tiles(&f, q, key, v, call->in[1], options);
  }
  return rg_f_give(&f, rg_f_shaped(&f, rg_f_swapped(&f, y, 1, 2), joined, 3), out);
}

static const rg_arg heads_args[] = { RG_HEADS_OPTIONS(RG_ARG_ROW, rg_heads_options, ) };

const rg_op rg_op_heads = {
  .name = "heads",
  .doc = "attention in several heads side by side",
  .id = RG_OP_HEADS,
  RG_INPUTS(RG_IN("qkv", INPUT, ANY), RG_OPTIONAL("mask", BITS, ANY),
            RG_OPTIONAL("omega", INPUT, ANY)),
  .result = { "y" },
  RG_ARGS(rg_heads_options, heads_args),
  .infer = infer,
  .expand = expand,
};

rg_status rg_heads(const rg_tensor *qkv, const rg_tensor *mask, const rg_tensor *omega,
                   const rg_heads_options *options, rg_tensor **out)
{
  if (options == NULL) {
    return rg_fail(RG_EARG, "heads: a pointer is NULL");
  }
  return rg_run_body(&rg_op_heads, (const rg_tensor *const[]){ qkv, mask, omega }, 3, options, out);
}
