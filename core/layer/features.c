/* SPDX-License-Identifier: MIT */
/*
** Attention by random features (Choromanski et al., Rethinking Attention with Performers, 2021):
** exp(q k') is the mean of products of features, so softmax(q k') v takes time and memory as the
** length, not as its square.  What comes out is an estimate.
*/
#include <math.h>

#include "layer/compound.h"

enum { CHUNK = 128 }; /* places that see each other by a masked product; before them is one sum */

static const double eps = 1e-5; /* added to each feature, so that no sum is 0 */

/* -- Directions ---------------------------------------------------------------------- */

static rg_value normal(rg_compose *f, int64_t rows, int64_t columns, rg_generator *generator)
{
  rg_tensor *x = rg_f_empty(f, RG_F32, RG_CPU, (const int64_t[]){ rows, columns }, 2);

  if (f->status == RG_OK) {
    rg_f_note(f, rg_normal_(x, 0, 1, generator));
  }
  return x;
}

/* Rows that are orthogonal to each other, uniform among all such: the left singular vectors of a
** normal matrix. */
static rg_value orthogonal(rg_compose *f, int64_t n, rg_generator *generator)
{
  rg_value x = normal(f, n, n, generator);
  rg_tensor *u = NULL, *s = NULL, *vt = NULL;

  if (f->status == RG_OK) {
    rg_f_note(f, rg_svd(x, &u, &s, &vt));
  }
  (void)rg_f_took(f, f->status, s);
  (void)rg_f_took(f, f->status, vt);
  return rg_f_took(f, f->status, u);
}

/* Length of each row of normal numbers. */
static rg_value lengths(rg_compose *f, int64_t rows, int64_t size, rg_generator *generator)
{
  rg_value x = normal(f, rows, size, generator);

  RG_F_STEP(rg_norm(x, 2, (const int32_t[]){ 1 }, 1, 1, &out));
}

rg_status rg_random_features(int64_t features, int64_t size, rg_generator *generator,
                             rg_tensor **out)
{
  const int64_t shape[] = { features, size };
  rg_tensor *omega;
  rg_status status = RG_OK;

  if (out == NULL || features < 1 || size < 1) {
    return rg_fail(RG_EARG, "random_features: %lld features of %lld numbers; both are at least 1",
                   (long long)features, (long long)size);
  }
  RG_TRY(rg_empty(RG_F32, RG_CPU, shape, 2, &omega));
  for (int64_t first = 0; first < features && status == RG_OK; first += size) {
    rg_compose f = { .what = "random_features" };
    int64_t rows = rg_min_i64(size, features - first);
    rg_value scale = lengths(&f, rows, size, generator);
    rg_value block = rg_f_narrow(&f, orthogonal(&f, size, generator), 0, 0, rows);
    rg_tensor *place = NULL;

    block = rg_f_mul(&f, block, scale);
    rg_f_note(&f, rg_narrow(omega, 0, first, rows, 1, &place));
    if (f.status == RG_OK) {
      rg_f_note(&f, rg_copy_(place, block));
    }
    rg_tensor_release(place);
    status = rg_f_end(&f);
  }
  if (status != RG_OK) {
    rg_tensor_release(omega);
    return status;
  }
  *out = omega;
  return RG_OK;
}

/* -- Features ------------------------------------------------------------------------ */

static rg_value largest(rg_compose *f, rg_value x, const int32_t *axes, int32_t n)
{
  RG_F_STEP(rg_max(x, axes, n, 1, &out));
}

static rg_value sum_of_rows(rg_compose *f, rg_value x)
{
  RG_F_STEP(rg_sum(x, (const int32_t[]){ -1 }, 1, 1, &out));
}

/* exp(omega x - |x|^2 / 2), which no common factor changes: the largest exponent is subtracted, for
** one axis that of each row, for two that of the sequence.  level: it, [..., n, 1], for those who
** weight the features by it later; NULL: nobody asks. */
static rg_value features(rg_compose *f, rg_value x, rg_value omega, int32_t kernel, int32_t n_axes,
                         rg_value *level)
{
  static const int32_t axes[] = { -1, -2 };
  double d = (double)x->_shape[x->_ndim - 1];
  double scale = 1 / sqrt((double)omega->_shape[0]);
  rg_value transposed = rg_f_swapped(f, omega, 0, 1);

  if (kernel == RG_FEATURES_RELU) {
    rg_value z = rg_f_times(f, rg_f_matmul(f, x, transposed), scale);

    return rg_f_plus(f, rg_f_unary(f, rg_relu, z), eps);
  }
  rg_value scaled = rg_f_times(f, x, pow(d, -0.25));
  rg_value squares = rg_f_times(f, sum_of_rows(f, rg_f_mul(f, scaled, scaled)), 0.5);
  rg_value exponent = rg_f_sub(f, rg_f_matmul(f, scaled, transposed), squares);
  rg_value most = largest(f, rg_f_unary(f, rg_detach, exponent), axes, n_axes);

  if (level != NULL) {
    *level = most;
  }
  return rg_f_times(f, rg_f_plus(f, rg_f_unary(f, rg_exp, rg_f_sub(f, exponent, most)), eps),
                    scale);
}

/* -- Sums ---------------------------------------------------------------------------- */

static rg_value joined(rg_compose *f, const rg_tensor *const *xs, int32_t n, int32_t axis)
{
  RG_F_STEP(rg_concat(xs, n, axis, &out));
}

static rg_value larger(rg_compose *f, rg_value x, rg_value y)
{
  return rg_f_binary(f, rg_maximum, x, y);
}

/* exp(x - y) of levels, at most 1. */
static rg_value weight(rg_compose *f, rg_value x, rg_value y)
{
  return rg_f_unary(f, rg_exp, rg_f_sub(f, x, y));
}

/* What the chunks before come to. */
typedef struct past {
  rg_tensor *sum;   /* of k_j' v_j exp(level_j - level), [..., features, e]; NULL: no chunk yet */
  rg_tensor *level; /* the largest of all j, [..., 1, 1]; NULL where features have no levels */
} past;

static void pass(rg_compose *f, past *before, rg_value sum, rg_value level)
{
  if (f->status == RG_OK) {
    rg_tensor_release(before->sum);
    rg_tensor_release(before->level);
    before->sum = rg_f_hold(sum);
    before->level = level != NULL ? rg_f_hold(level) : NULL;
  }
}

/*
** A chunk's places: sum over j <= i of (q_i k_j') v_j, within it by a masked product, before it by
** the matrix of sums, to which it then adds its own.
**
** level, [..., n, 1], is what was subtracted from the exponents of each key; NULL: nothing.  Place
** i takes the largest of j <= i off all of them: one from behind it would say what is there.
*/
static rg_status chunk(const rg_tensor *q, const rg_tensor *key, const rg_tensor *v,
                       const rg_tensor *level, const rg_tensor *mask, int64_t first, int64_t n,
                       past *before, rg_tensor **out)
{
  rg_compose f = { .what = "feature_attention" };
  int32_t axis = q->_ndim - 2;
  double hidden = q->_dtype == RG_F16 ? 6e4 : 1e30;
  rg_value qs = rg_f_narrow(&f, q, axis, first, n);
  rg_value ks = rg_f_swapped(&f, rg_f_narrow(&f, key, axis, first, n), axis, axis + 1);
  rg_value vs = rg_f_narrow(&f, v, axis, first, n);
  rg_value seen = rg_f_narrow(&f, rg_f_narrow(&f, mask, 0, 0, n), 1, 0, n);
  /* the largest level before the chunk, at each place, at its end; what keys count at its end */
  rg_value then = NULL, now = NULL, end = NULL, at_end = NULL;

  if (level != NULL) {
    rg_value own = rg_f_swapped(&f, rg_f_narrow(&f, level, axis, first, n), axis, axis + 1);
    rg_value of_seen = rg_f_add(&f, own, rg_f_times(&f, rg_f_plus(&f, seen, -1), hidden));

    then = before->level;
    now = largest(&f, of_seen, (const int32_t[]){ -1 }, 1);
    now = then != NULL ? larger(&f, now, then) : now;
    end = rg_f_narrow(&f, now, axis, n - 1, 1);
    seen = weight(&f, of_seen, now);
    at_end = weight(&f, own, end);
  }
  rg_value here = rg_f_matmul(&f, rg_f_mul(&f, rg_f_matmul(&f, qs, ks), seen), vs);
  rg_value sum = rg_f_matmul(&f, at_end != NULL ? rg_f_mul(&f, ks, at_end) : ks, vs);

  if (before->sum != NULL) {
    rg_value old = rg_f_matmul(&f, qs, before->sum);

    here = rg_f_add(&f, here, then != NULL ? rg_f_mul(&f, old, weight(&f, then, now)) : old);
    sum = rg_f_add(&f, sum,
                   then != NULL ? rg_f_mul(&f, before->sum, weight(&f, then, end)) : before->sum);
  }
  pass(&f, before, sum, end);
  return rg_f_give(&f, here, out);
}

/* Time grows with the length: a chunk's masked product, and one matrix for all before it. */
static rg_value causal_sums(rg_compose *f, rg_value q, rg_value key, rg_value v, rg_value level)
{
  int32_t axis = q->_ndim - 2;
  int64_t length = q->_shape[axis];
  int64_t n_chunks = (length + CHUNK - 1) / CHUNK;
  rg_value mask = rg_tril(f, rg_min_i64(CHUNK, length), q);
  rg_tensor **parts = rg_host_zeroed((size_t)rg_max_i64(n_chunks, 1) * sizeof(rg_tensor *));
  past before = { 0 };
  rg_value y;

  if (parts == NULL) {
    rg_f_note(f, rg_fail(RG_ENOMEM, "feature_attention: no memory for a list of %lld parts",
                         (long long)n_chunks));
    return NULL;
  }
  for (int64_t i = 0; i < n_chunks && f->status == RG_OK; i++) {
    int64_t n = rg_min_i64(CHUNK, length - i * CHUNK);

    rg_f_note(f, chunk(q, key, v, level, mask, i * CHUNK, n, &before, &parts[i]));
  }
  y = joined(f, (const rg_tensor *const *)parts, (int32_t)n_chunks, axis);
  for (int64_t i = 0; i < n_chunks; i++) {
    rg_tensor_release(parts[i]);
  }
  rg_tensor_release(before.sum);
  rg_tensor_release(before.level);
  rg_host_free(parts);
  return y;
}

static rg_value all_sums(rg_compose *f, rg_value q, rg_value key, rg_value v)
{
  int32_t last = key->_ndim - 1;

  return rg_f_matmul(f, q, rg_f_matmul(f, rg_f_swapped(f, key, last - 1, last), v));
}

/* -- Attention ----------------------------------------------------------------------- */

/* clang-format off */
#define RG_FEATURES_ARGS(A, S, AT) \
  A(S, AT, i32, kernel, WHOLE, RG_FEATURES_SOFTMAX, "RG_FEATURES_...") \
  A(S, AT, i32, causal, FLAG, 0, "no place sees those behind it")
/* clang-format on */
RG_ARGS_STRUCT(rg_features_args, RG_FEATURES_ARGS);

static rg_status infer(rg_call *call)
{
  const rg_features_args *args = call->args;
  const rg_tensor *q = call->in[0];
  const rg_tensor *k = call->in[1];
  const rg_tensor *v = call->in[2];
  const rg_tensor *omega = call->in[3];
  int32_t causal = args->causal;
  char text[4][96];

  for (int32_t i = 0; i < 4; i++) {
    rg_tensor_text(call->in[i], text[i], sizeof(text[i]));
  }
  if (args->kernel < 0 || args->kernel >= RG_FEATURES_COUNT) {
    return rg_fail(RG_EARG, "feature_attention: there is no kernel %d", args->kernel);
  }
  int32_t last = q->_ndim - 1;

  if (last < 1 || k->_ndim != last + 1 || v->_ndim != last + 1 ||
      k->_shape[last] != q->_shape[last] || v->_shape[last - 1] != k->_shape[last - 1] ||
      omega->_ndim != 2 || omega->_shape[1] != q->_shape[last] ||
      (causal && q->_shape[last - 1] != k->_shape[last - 1])) {
    return rg_fail(RG_ESHAPE,
                   "feature_attention: q is %s, k %s, v %s, omega %s; wanted [...,n,d], [...,m,d], "
                   "[...,m,e], [features,d]%s",
                   text[0], text[1], text[2], text[3], causal ? " with n = m" : "");
  }
  return RG_OK;
}

static rg_status expand(const rg_call *call, rg_tensor **out)
{
  const rg_features_args *args = call->args;
  const rg_tensor *q = call->in[0];
  const rg_tensor *k = call->in[1];
  const rg_tensor *v = call->in[2];
  const rg_tensor *omega = call->in[3];
  int32_t kernel = args->kernel;
  int32_t causal = args->causal;
  rg_compose f = { .what = "feature_attention" };
  int32_t last = q->_ndim - 1;
  int64_t e = v->_shape[last];
  rg_value level = NULL;
  rg_value pq = features(&f, q, omega, kernel, 1, NULL);
  rg_value pk = features(&f, k, omega, kernel, causal ? 1 : 2, &level);
  /* a last column of ones makes the denominator beside the numerator */
  rg_value column = rg_f_narrow(&f, rg_f_unary(&f, rg_detach, v), last, 0, 1);
  rg_value ones = rg_f_plus(&f, rg_f_times(&f, column, 0), 1);
  rg_value both = joined(&f, (const rg_tensor *const[]){ v, ones }, 2, last);
  rg_value sums = NULL;

  if (f.status == RG_OK) {
    sums = causal ? causal_sums(&f, pq, pk, both, level) : all_sums(&f, pq, pk, both);
  }
  return rg_f_give(
      &f, rg_f_div(&f, rg_f_narrow(&f, sums, last, 0, e), rg_f_narrow(&f, sums, last, e, 1)), out);
}

static const rg_arg features_args[] = { RG_FEATURES_ARGS(RG_ARG_ROW, rg_features_args, ) };

const rg_op rg_op_feature_attention = {
  .name = "feature_attention",
  .doc = "attention estimated by random features, in time that grows with the length",
  .id = RG_OP_FEATURE_ATTENTION,
  RG_INPUTS(RG_IN("q", INPUT, ANY), RG_IN("k", INPUT, ANY), RG_IN("v", INPUT, ANY),
            RG_IN("omega", INPUT, ANY)),
  .result = { "y" },
  RG_ARGS(rg_features_args, features_args),
  .infer = infer,
  .expand = expand,
};

rg_status rg_feature_attention(const rg_tensor *q, const rg_tensor *k, const rg_tensor *v,
                               const rg_tensor *omega, int32_t kernel, int32_t causal,
                               rg_tensor **out)
{
  return rg_run_body(&rg_op_feature_attention, (const rg_tensor *const[]){ q, k, v, omega }, 4,
                     &(rg_features_args){ .kernel = kernel, .causal = causal }, out);
}
