/* SPDX-License-Identifier: MIT */
/*
** Attention by random features (Choromanski et al., Rethinking Attention with Performers, 2021):
** exp(q k') is the mean of products of features, so softmax(q k') v takes time and memory as the
** length, not as its square.  What comes out is an estimate.
*/
#include <math.h>

#include "layer/compose.h"
#include "ridge/compound.h"

enum { CHUNK = 128 }; /* places that see each other by a masked product; before them is one sum */

static const double eps = 1e-5; /* added to each feature, so that no sum is 0 */

/* -- Directions ---------------------------------------------------------------------- */

static rg_tensor *normal(rg_compose *k, int64_t rows, int64_t columns, rg_generator *generator)
{
  rg_tensor **out = rg_compose_next(k);

  if (k->status == RG_OK) {
    rg_compose_note(k, rg_empty(RG_F32, RG_CPU, (const int64_t[]){ rows, columns }, 2, out));
  }
  if (k->status == RG_OK) {
    rg_compose_note(k, rg_normal_(*out, 0, 1, generator));
  }
  return *out;
}

/* Rows that are orthogonal to each other, uniform among all such: the left singular vectors of a
** normal matrix. */
static rg_tensor *orthogonal(rg_compose *k, int64_t n, rg_generator *generator)
{
  rg_tensor *x = normal(k, n, n, generator);
  rg_tensor **u = rg_compose_next(k);
  rg_tensor **s = rg_compose_next(k);
  rg_tensor **vt = rg_compose_next(k);

  if (k->status == RG_OK) {
    rg_compose_note(k, rg_svd(x, u, s, vt));
  }
  return *u;
}

/* Length of each row of normal numbers. */
static rg_tensor *lengths(rg_compose *k, int64_t rows, int64_t size, rg_generator *generator)
{
  rg_tensor *x = normal(k, rows, size, generator);
  RG_COMPOSED(rg_norm(x, 2, (const int32_t[]){ 1 }, 1, 1, out));
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
    rg_compose k = { 0 };
    int64_t rows = rg_min_i64(size, features - first);
    rg_tensor *scale = lengths(&k, rows, size, generator);
    rg_tensor *block = rg_k_narrow(&k, orthogonal(&k, size, generator), 0, 0, rows);
    rg_tensor *place = rg_k_narrow(&k, omega, 0, first, rows);

    block = rg_k_mul(&k, block, scale);
    if (k.status == RG_OK) {
      rg_compose_note(&k, rg_copy_(place, block));
    }
    rg_compose_back(&k, 0);
    status = k.status;
  }
  if (status != RG_OK) {
    rg_tensor_release(omega);
    return status;
  }
  *out = omega;
  return RG_OK;
}

/* -- Features ------------------------------------------------------------------------ */

static rg_tensor *largest(rg_compose *k, const rg_tensor *x, const int32_t *axes, int32_t n)
{
  RG_COMPOSED(rg_max(x, axes, n, 1, out));
}

static rg_tensor *sum_of_rows(rg_compose *k, const rg_tensor *x)
{
  RG_COMPOSED(rg_sum(x, (const int32_t[]){ -1 }, 1, 1, out));
}

/* exp(omega x - |x|^2 / 2), which no common factor changes: the largest exponent is taken off, for
** a query (one axis) its own, for keys (two) that of the sequence. */
static rg_tensor *features(rg_compose *k, const rg_tensor *x, const rg_tensor *omega,
                           int32_t kernel, int32_t n_axes)
{
  static const int32_t axes[] = { -1, -2 };
  double d = (double)x->_shape[x->_ndim - 1];
  double scale = 1 / sqrt((double)omega->_shape[0]);
  rg_tensor *turned = rg_k_transpose(k, omega, 0, 1);

  if (kernel == RG_FEATURES_RELU) {
    rg_tensor *z = rg_k_times(k, rg_k_matmul(k, x, turned), scale);

    return rg_k_plus(k, rg_k_relu(k, z), eps);
  }
  rg_tensor *scaled = rg_k_times(k, x, pow(d, -0.25));
  rg_tensor *z = rg_k_matmul(k, scaled, turned);
  rg_tensor *most = largest(k, rg_k_detach(k, z), axes, n_axes);
  rg_tensor *squares = rg_k_times(k, sum_of_rows(k, rg_k_mul(k, scaled, scaled)), 0.5);
  rg_tensor *exponent = rg_k_sub(k, rg_k_sub(k, z, squares), most);

  return rg_k_times(k, rg_k_plus(k, rg_k_exp(k, exponent), eps), scale);
}

/* -- Sums ---------------------------------------------------------------------------- */

static rg_tensor *joined(rg_compose *k, const rg_tensor *const *xs, int32_t n, int32_t axis)
{
  RG_COMPOSED(rg_concat(xs, n, axis, out));
}

/* A chunk's places: sum over j <= i of (q_i k_j') v_j, within it by a masked product, before it by
** the matrix of sums, to which it then adds its own. */
static rg_status chunk(const rg_tensor *q, const rg_tensor *key, const rg_tensor *v,
                       const rg_tensor *mask, int64_t first, int64_t n, rg_tensor **before,
                       rg_tensor **out)
{
  rg_compose k = { 0 };
  int32_t axis = q->_ndim - 2;
  rg_tensor *qs = rg_k_narrow(&k, q, axis, first, n);
  rg_tensor *ks = rg_k_transpose(&k, rg_k_narrow(&k, key, axis, first, n), axis, axis + 1);
  rg_tensor *vs = rg_k_narrow(&k, v, axis, first, n);
  rg_tensor *corner = rg_k_narrow(&k, rg_k_narrow(&k, mask, 0, 0, n), 1, 0, n);
  rg_tensor *here = rg_k_matmul(&k, rg_k_mul(&k, rg_k_matmul(&k, qs, ks), corner), vs);
  rg_tensor *sum = rg_k_matmul(&k, ks, vs);

  if (*before != NULL) {
    here = rg_k_add(&k, here, rg_k_matmul(&k, qs, *before));
    sum = rg_k_add(&k, sum, *before);
  }
  if (k.status == RG_OK) {
    rg_tensor_release(*before);
    *before = rg_tensor_retain(sum);
  }
  return rg_compose_end(&k, here, out);
}

/* Time grows with the length: a chunk's masked product, and one matrix for all before it. */
static rg_tensor *causal_sums(rg_compose *k, const rg_tensor *q, const rg_tensor *key,
                              const rg_tensor *v)
{
  int32_t axis = q->_ndim - 2;
  int64_t length = q->_shape[axis];
  int64_t n_chunks = (length + CHUNK - 1) / CHUNK;
  rg_tensor *mask = rg_k_lower(k, rg_min_i64(CHUNK, length), q);
  rg_tensor **parts = rg_host_zeroed((size_t)rg_max_i64(n_chunks, 1) * sizeof(rg_tensor *));
  rg_tensor *before = NULL;
  rg_tensor *y = NULL;

  if (parts == NULL) {
    rg_compose_note(k, rg_fail(RG_ENOMEM, "feature_attention: no memory for a list of %lld parts",
                               (long long)n_chunks));
    return NULL;
  }
  for (int64_t i = 0; i < n_chunks && k->status == RG_OK; i++) {
    int64_t n = rg_min_i64(CHUNK, length - i * CHUNK);

    rg_compose_note(k, chunk(q, key, v, mask, i * CHUNK, n, &before, &parts[i]));
  }
  y = joined(k, (const rg_tensor *const *)parts, (int32_t)n_chunks, axis);
  for (int64_t i = 0; i < n_chunks; i++) {
    rg_tensor_release(parts[i]);
  }
  rg_tensor_release(before);
  rg_host_free(parts);
  return y;
}

static rg_tensor *all_sums(rg_compose *k, const rg_tensor *q, const rg_tensor *key,
                           const rg_tensor *v)
{
  int32_t last = key->_ndim - 1;

  return rg_k_matmul(k, q, rg_k_matmul(k, rg_k_transpose(k, key, last - 1, last), v));
}

/* -- Attention ----------------------------------------------------------------------- */

static rg_status check(const rg_tensor *q, const rg_tensor *k, const rg_tensor *v,
                       const rg_tensor *omega, int32_t kernel, int32_t causal)
{
  char text[4][96];
  const rg_tensor *const all[] = { q, k, v, omega };

  for (int32_t i = 0; i < 4; i++) {
    RG_TRY(rg_tensor_check(all[i], "feature_attention"));
    rg_tensor_text(all[i], text[i], sizeof(text[i]));
  }
  if (kernel < 0 || kernel >= RG_FEATURES_COUNT) {
    return rg_fail(RG_EARG, "feature_attention: there is no kernel %d", kernel);
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

rg_status rg_feature_attention(const rg_tensor *q, const rg_tensor *k, const rg_tensor *v,
                               const rg_tensor *omega, int32_t kernel, int32_t causal,
                               rg_tensor **out)
{
  rg_compose c = { 0 };

  if (out == NULL) {
    return rg_fail(RG_EARG, "feature_attention: out is NULL");
  }
  RG_TRY(check(q, k, v, omega, kernel, causal));
  int32_t last = q->_ndim - 1;
  int64_t e = v->_shape[last];
  rg_tensor *pq = features(&c, q, omega, kernel, 1);
  rg_tensor *pk = features(&c, k, omega, kernel, 2);
  /* a last column of ones makes the denominator beside the numerator */
  rg_tensor *column = rg_k_narrow(&c, rg_k_detach(&c, v), last, 0, 1);
  rg_tensor *ones = rg_k_plus(&c, rg_k_times(&c, column, 0), 1);
  rg_tensor *both = joined(&c, (const rg_tensor *const[]){ v, ones }, 2, last);
  rg_tensor *sums = NULL;

  if (c.status == RG_OK) {
    sums = causal ? causal_sums(&c, pq, pk, both) : all_sums(&c, pq, pk, both);
  }
  return rg_compose_end(
      &c, rg_k_div(&c, rg_k_narrow(&c, sums, last, 0, e), rg_k_narrow(&c, sums, last, e, 1)), out);
}
