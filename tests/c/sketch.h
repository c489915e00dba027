/* SPDX-License-Identifier: MIT */
/*
** Numbers of tensors, and a sketched layer out of its parts, for tests.
*/
#ifndef RIDGE_TESTS_SKETCH_H
#define RIDGE_TESTS_SKETCH_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ridge.h"

/* -- Small tools ----------------------------------------------------------------------------- */

static inline double at(const rg_tensor *x, const int64_t *index)
{
  double value = NAN;

  if (rg_tensor_get(x, index, x->_ndim, &value) != RG_OK) {
    printf("# %s\n", rg_error_message());
  }
  return value;
}

static inline double at2(const rg_tensor *x, int64_t i, int64_t j)
{
  return at(x, (const int64_t[]){ i, j });
}

static inline double at3(const rg_tensor *x, int64_t t, int64_t i, int64_t j)
{
  return at(x, (const int64_t[]){ t, i, j });
}

static inline rg_tensor *random_matrix(int64_t rows, int64_t cols, uint64_t seed)
{
  rg_generator *generator = NULL;
  rg_tensor *x = NULL;

  if (rg_empty(RG_F32, RG_CPU, (const int64_t[]){ rows, cols }, 2, &x) != RG_OK ||
      rg_generator_new(seed, &generator) != RG_OK || rg_uniform_(x, -1, 1, generator) != RG_OK) {
    printf("# %s\n", rg_error_message());
    abort();
  }
  rg_generator_release(generator);
  return x;
}

/* -- A sketched layer ------------------------------------------------------------------------- */

/* What a sketched layer is made of. */
typedef struct sketch {
  int64_t n_in, n_out, terms, rank;
  int32_t form;
  int32_t act;
  double p;
  rg_tensor *part[RG_SKETCH_PARTS];
  rg_tensor *bias;
  rg_tensor *s1, *u1, *u2, *s2; /* of stored signs: [T x n_in x R], [T x R x n_out] */
} sketch;

static inline rg_tensor *left_half(const sketch *k, int64_t first)
{
  rg_tensor *half = NULL, *split = NULL, *out = NULL;

  if (rg_narrow(k->part[0], 1, first, k->terms * k->rank, 1, &half) != RG_OK ||
      rg_view(half, (const int64_t[]){ k->n_in, k->terms, k->rank }, 3, &split) != RG_OK ||
      rg_transpose(split, 0, 1, &out) != RG_OK) {
    printf("# %s\n", rg_error_message());
    abort();
  }
  rg_tensor_release(half);
  rg_tensor_release(split);
  return out;
}

static inline rg_tensor *right_half(const sketch *k, int64_t first)
{
  rg_tensor *half = NULL, *out = NULL;

  if (rg_narrow(k->part[1], 0, first, k->terms * k->rank, 1, &half) != RG_OK ||
      rg_view(half, (const int64_t[]){ k->terms, k->rank, k->n_out }, 3, &out) != RG_OK) {
    printf("# %s\n", rg_error_message());
    abort();
  }
  rg_tensor_release(half);
  return out;
}

/* The sketch of a weight, with parts that are marked as weights. */
static inline rg_status sketch_of(const rg_tensor *weight, sketch *k, uint64_t seed)
{
  rg_status status = rg_sketch(weight, k->terms, k->rank, k->form, seed, k->part);

  if (status != RG_OK) {
    return status;
  }
  k->n_in = weight->_shape[1];
  k->n_out = weight->_shape[0];
  for (int32_t i = 0; i < RG_SKETCH_PARTS; i++) {
    rg_tensor_set_param(k->part[i], 1);
  }
  if (k->form == RG_SIGNS_STORED) {
    int64_t width = k->terms * k->rank;

    k->s1 = left_half(k, 0);
    k->u2 = left_half(k, width);
    k->u1 = right_half(k, 0);
    k->s2 = right_half(k, width);
  }
  return RG_OK;
}

static inline void sketch_done(sketch *k)
{
  for (int32_t i = 0; i < RG_SKETCH_PARTS; i++) {
    rg_tensor_release(k->part[i]);
  }
  rg_tensor_release(k->bias);
  rg_tensor_release(k->s1);
  rg_tensor_release(k->u1);
  rg_tensor_release(k->u2);
  rg_tensor_release(k->s2);
}

static inline rg_status forward(const sketch *k, const rg_tensor *x, rg_tensor **out)
{
  rg_tensor *const *p = k->part;
  int32_t terms = (int32_t)k->terms;

  switch (k->form) {
  case RG_SIGNS_BITS:
    return rg_sketched_linear_bits(x, p[0], p[1], p[2], p[3], k->bias, terms, k->act, k->p, NULL,
                                   out);
  case RG_SIGNS_SEED:
    return rg_sketched_linear_seed(x, p[0], p[1], p[2], k->bias, terms, k->act, k->p, NULL, out);
  default:
    return rg_sketched_linear(x, p[0], p[1], k->bias, terms, k->act, k->p, NULL, out);
  }
}

static inline rg_status weight_of(const sketch *k, rg_tensor **out)
{
  return rg_sketch_weight(k->part, k->terms, k->rank, k->form, out);
}

/* A vector of n numbers. */
static inline rg_tensor *random_vector(int64_t n, uint64_t seed)
{
  rg_tensor *matrix = random_matrix(1, n, seed), *out = NULL;

  if (rg_squeeze(matrix, 0, &out) != RG_OK) {
    abort();
  }
  rg_tensor_release(matrix);
  return out;
}

#endif
