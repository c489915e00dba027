/* SPDX-License-Identifier: MIT */
/*
** Operations one after the other, written as expressions: a composition keeps what is made on the
** way and the first failure, after which nothing more is done and every result is NULL.
**
**   rg_compose k = { 0 };
**   rg_tensor *z = rg_k_add(&k, x, rg_k_mul(&k, y, y));
**   return rg_compose_end(&k, z, out);
*/
#ifndef RIDGE_LAYER_COMPOSE_H
#define RIDGE_LAYER_COMPOSE_H

#include "base/base.h"
#include "ridge/op.h"
#include "tensor/tensor.h"

enum { RG_COMPOSE_MOST = 48 };

typedef struct rg_compose {
  rg_status status;
  int32_t n;
  rg_tensor *made[RG_COMPOSE_MOST];
} rg_compose;

/* Where the next result goes; also where another function puts what it makes. */
rg_tensor **rg_compose_next(rg_compose *k);

/* Note a failure, unless there was one. */
void rg_compose_note(rg_compose *k, rg_status status);

/* Let go of what was made since the composition had n results. */
void rg_compose_back(rg_compose *k, int32_t n);

/* Hand x out and let go of everything else; the failure, if there was one. */
rg_status rg_compose_end(rg_compose *k, rg_tensor *x, rg_tensor **out) RG_CHECK;

/* The body of a function that answers the result of one more operation, which writes to `out`. */
#define RG_COMPOSED(expression)              \
  do {                                       \
    rg_tensor **out = rg_compose_next(k);    \
    if (k->status == RG_OK) {                \
      k->status = (expression);              \
    }                                        \
    return k->status == RG_OK ? *out : NULL; \
  } while (0)

/* Each is the operation of its name, with axes from 0, and answers its result, which k holds. */
rg_tensor *rg_k_add(rg_compose *k, const rg_tensor *x, const rg_tensor *y);
rg_tensor *rg_k_sub(rg_compose *k, const rg_tensor *x, const rg_tensor *y);
rg_tensor *rg_k_mul(rg_compose *k, const rg_tensor *x, const rg_tensor *y);
rg_tensor *rg_k_div(rg_compose *k, const rg_tensor *x, const rg_tensor *y);
rg_tensor *rg_k_matmul(rg_compose *k, const rg_tensor *x, const rg_tensor *y);
rg_tensor *rg_k_exp(rg_compose *k, const rg_tensor *x);
rg_tensor *rg_k_relu(rg_compose *k, const rg_tensor *x);
rg_tensor *rg_k_rsqrt(rg_compose *k, const rg_tensor *x);
rg_tensor *rg_k_sigmoid(rg_compose *k, const rg_tensor *x);
rg_tensor *rg_k_square(rg_compose *k, const rg_tensor *x);
rg_tensor *rg_k_tanh(rg_compose *k, const rg_tensor *x);
rg_tensor *rg_k_detach(rg_compose *k, const rg_tensor *x);
rg_tensor *rg_k_plus(rg_compose *k, const rg_tensor *x, double value);
rg_tensor *rg_k_times(rg_compose *k, const rg_tensor *x, double value);
rg_tensor *rg_k_cast(rg_compose *k, const rg_tensor *x, int32_t dtype);
rg_tensor *rg_k_transpose(rg_compose *k, const rg_tensor *x, int32_t a, int32_t b);
rg_tensor *rg_k_narrow(rg_compose *k, const rg_tensor *x, int32_t axis, int64_t start,
                       int64_t length);
rg_tensor *rg_k_select(rg_compose *k, const rg_tensor *x, int32_t axis, int64_t at);

/* A view where the strides allow one, else of a copy. */
rg_tensor *rg_k_reshape(rg_compose *k, const rg_tensor *x, const int64_t *shape, int32_t ndim);

/* y [n], such that it goes with axis `axis` of tensors of ndim axes. */
rg_tensor *rg_k_along(rg_compose *k, const rg_tensor *y, int32_t axis, int32_t ndim);

/* 1 where column j of row i is allowed to be seen, j <= i, else 0: [n x n] of a float type. */
rg_tensor *rg_k_lower(rg_compose *k, int64_t n, const rg_tensor *like);

#endif
