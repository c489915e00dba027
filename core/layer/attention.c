/* SPDX-License-Identifier: MIT */
/*
** The heads of an attention: between the layer that makes q, k and v and the one that comes behind.
*/
#include <math.h>

#include "layer/compose.h"
#include "ridge/compound.h"

/* -- Kinds --------------------------------------------------------------------------- */

/* No place sees those behind it: -1e30, or what that is in the scores' type, is never the largest
** and its weight is 0. */
static rg_tensor *masked(rg_compose *k, rg_tensor *scores, int64_t length)
{
  rg_tensor *hidden = rg_k_plus(k, rg_k_lower(k, length, scores), -1); /* 0 or -1 */

  return rg_k_add(k, scores, rg_k_times(k, hidden, 1e30));
}

static rg_tensor *softmaxed(rg_compose *k, const rg_tensor *x)
{
  RG_COMPOSED(rg_softmax(x, -1, out));
}

static rg_tensor *dropped(rg_compose *k, const rg_tensor *x, double p)
{
  RG_COMPOSED(rg_dropout(x, p, NULL, out));
}

static rg_tensor *by_matrix(rg_compose *k, const rg_tensor *q, const rg_tensor *key,
                            const rg_tensor *v, const rg_heads_options *o)
{
  rg_tensor *scores = rg_k_matmul(k, q, rg_k_transpose(k, key, 2, 3));
  rg_tensor *weights;

  if (k->status != RG_OK) {
    return NULL;
  }
  scores = rg_k_times(k, scores, 1 / sqrt((double)q->_shape[3]));
  if (o->causal) {
    scores = masked(k, scores, q->_shape[2]);
  }
  weights = softmaxed(k, scores);
  if (o->p > 0) {
    weights = dropped(k, weights, o->p);
  }
  return rg_k_matmul(k, weights, v);
}

static rg_tensor *by_features(rg_compose *k, const rg_tensor *q, const rg_tensor *key,
                              const rg_tensor *v, const rg_tensor *omega, const rg_heads_options *o)
{
  RG_COMPOSED(rg_feature_attention(q, key, v, omega, o->kernel, o->causal, out));
}

static rg_tensor *by_tiles(rg_compose *k, const rg_tensor *q, const rg_tensor *key,
                           const rg_tensor *v, const rg_tensor *mask, const rg_heads_options *o)
{
  rg_attention_options options = { .causal = o->causal, .block = o->block };
  RG_COMPOSED(rg_attention(q, key, v, mask, &options, out));
}

/* -- Heads --------------------------------------------------------------------------- */

static rg_status check(const rg_tensor *qkv, const rg_tensor *mask, const rg_tensor *omega,
                       const rg_heads_options *o)
{
  char text[128];

  RG_TRY(rg_tensor_check(qkv, "heads"));
  if (o->kind < 0 || o->kind >= RG_HEADS_COUNT || !(o->p >= 0 && o->p < 1)) {
    return rg_fail(RG_EARG, "heads: there is no kind %d with dropout %g", o->kind, o->p);
  }
  if (qkv->_ndim != 3 || o->heads < 1 || qkv->_shape[2] % (3 * o->heads) != 0) {
    return rg_fail(RG_ESHAPE, "heads: qkv is %s, wanted [batch,length,3n], n a multiple of %lld",
                   rg_tensor_text(qkv, text, sizeof(text)), (long long)o->heads);
  }
  if (mask != NULL && (o->kind != RG_HEADS_TILES || o->p > 0)) {
    return rg_fail(RG_EARG, "heads: a mask of blocks goes with tiles, without dropout");
  }
  if ((omega != NULL) != (o->kind == RG_HEADS_FEATURES) ||
      (o->kind == RG_HEADS_FEATURES && o->p > 0)) {
    return rg_fail(RG_EARG, "heads: omega is for random features, which have no dropout");
  }
  return RG_OK;
}

/* Of all [batch x length x 3 x heads x size], part i as [batch x heads x length x size]. */
static rg_tensor *part(rg_compose *k, const rg_tensor *all, int64_t i)
{
  return rg_k_transpose(k, rg_k_select(k, all, 2, i), 1, 2);
}

rg_status rg_heads(const rg_tensor *qkv, const rg_tensor *mask, const rg_tensor *omega,
                   const rg_heads_options *options, rg_tensor **out)
{
  rg_compose k = { 0 };
  rg_tensor *y;

  if (options == NULL || out == NULL) {
    return rg_fail(RG_EARG, "heads: a pointer is NULL");
  }
  RG_TRY(check(qkv, mask, omega, options));
  int64_t n = qkv->_shape[2] / 3;
  int64_t split[] = { qkv->_shape[0], qkv->_shape[1], 3, options->heads, n / options->heads };
  int64_t joined[] = { qkv->_shape[0], qkv->_shape[1], n };
  rg_tensor *all = rg_k_reshape(&k, qkv, split, 5);
  rg_tensor *q = part(&k, all, 0);
  rg_tensor *key = part(&k, all, 1);
  rg_tensor *v = part(&k, all, 2);

  if (options->kind == RG_HEADS_FEATURES) {
    y = by_features(&k, q, key, v, omega, options);
  } else if (options->kind == RG_HEADS_MATRIX || options->p > 0) {
    y = by_matrix(&k, q, key, v, options);
  } else {
    y = by_tiles(&k, q, key, v, mask, options);
  }
  return rg_compose_end(&k, rg_k_reshape(&k, rg_k_transpose(&k, y, 1, 2), joined, 3), out);
}
