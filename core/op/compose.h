/* SPDX-License-Identifier: MIT */
/*
** Operations one after the other, written as expressions: gradients, and layers of several
** operations.
**
**   rg_compose f = { .what = "gate" };
**   rg_value z = rg_f_add(&f, x, rg_f_mul(&f, y, y));
**
**   return rg_f_give(&f, rg_f_unary(&f, rg_sigmoid, z), out);
**
** Every step is an operation.  Its result lives until the end; after a failure the further steps do
** nothing, their results are NULL, and the end says what it was.
*/
#ifndef RIDGE_OP_COMPOSE_H
#define RIDGE_OP_COMPOSE_H

#include "op/op.h"

enum { RG_COMPOSE_STEPS = 48 };

typedef const rg_tensor *rg_value;

typedef struct rg_compose {
  const char *what; /* whose, for errors */
  rg_status status;
  int32_t n;
  rg_tensor *made[RG_COMPOSE_STEPS];
} rg_compose;

/* Release the steps; what went wrong first. */
rg_status rg_f_end(rg_compose *f) RG_CHECK;

/* The same, and hand x out where nothing went wrong. */
rg_status rg_f_give(rg_compose *f, rg_value x, rg_tensor **out) RG_CHECK;

/* A reference of one's own to a step's result. */
rg_tensor *rg_f_hold(rg_value x);

/* Release a step's result now, which nobody reads any more: for what is large. */
void rg_f_drop(rg_compose *f, rg_value x);

/* Remember a failure, unless there was one: for what makes nothing. */
void rg_f_note(rg_compose *f, rg_status status);

/* -- Steps -------------------------------------------------------------------------- */

/* Take over a result, or remember the failure: value = rg_f_took(f, rg_exp(x, &out), out). */
rg_value rg_f_took(rg_compose *f, rg_status status, rg_tensor *out);

/* The body of a step of one's own, a function of f: the call writes to `out`. */
#define RG_F_STEP(call)                                       \
  rg_tensor *out = NULL;                                      \
  rg_status status = f->status == RG_OK ? (call) : f->status; \
                                                              \
  return rg_f_took(f, status, out)

typedef rg_status rg_unary_entry(const rg_tensor *x, rg_tensor **out);
typedef rg_status rg_binary_entry(const rg_tensor *x, const rg_tensor *y, rg_tensor **out);
typedef rg_status rg_number_entry(const rg_tensor *x, double value, int32_t reversed,
                                  rg_tensor **out);

rg_value rg_f_unary(rg_compose *f, rg_unary_entry *entry, rg_value x);
rg_value rg_f_binary(rg_compose *f, rg_binary_entry *entry, rg_value x, rg_value y);
rg_value rg_f_number(rg_compose *f, rg_number_entry *entry, rg_value x, double value);

rg_value rg_f_add(rg_compose *f, rg_value x, rg_value y);
rg_value rg_f_sub(rg_compose *f, rg_value x, rg_value y);
rg_value rg_f_mul(rg_compose *f, rg_value x, rg_value y);
rg_value rg_f_div(rg_compose *f, rg_value x, rg_value y);
rg_value rg_f_plus(rg_compose *f, rg_value x, double value);  /* x + value */
rg_value rg_f_times(rg_compose *f, rg_value x, double value); /* x value */
rg_value rg_f_from(rg_compose *f, double value, rg_value x);  /* value - x */

/* x in another type; itself where it has that. */
rg_value rg_f_cast(rg_compose *f, rg_value x, int32_t dtype);

/* The same of what may be a weight: a copy that is kept, where no gradient has to go through it. */
rg_value rg_f_weight_cast(rg_compose *f, rg_value x, int32_t dtype);
rg_value rg_f_sum(rg_compose *f, rg_value x, const int32_t *axes, int32_t n, bool keep);
rg_value rg_f_matmul(rg_compose *f, rg_value x, rg_value y);
rg_value rg_f_transposed(rg_compose *f, rg_value x); /* the last two axes */
rg_value rg_f_shaped(rg_compose *f, rg_value x, const int64_t *shape, int32_t ndim);
rg_value rg_f_expanded(rg_compose *f, rg_value x, const int64_t *shape, int32_t ndim);
/* x as a matrix: all axes but the last joined. */
rg_value rg_f_rows(rg_compose *f, rg_value x);
rg_value rg_f_narrow(rg_compose *f, rg_value x, int32_t axis, int64_t start, int64_t length);

/* A new tensor with undefined elements, to be written to. */
rg_tensor *rg_f_empty(rg_compose *f, int32_t dtype, int32_t device, const int64_t *shape,
                      int32_t ndim);
rg_value rg_f_select(rg_compose *f, rg_value x, int32_t axis, int64_t at);
rg_value rg_f_swapped(rg_compose *f, rg_value x, int32_t a, int32_t b); /* two axes */

/* A vector such that it goes with axis `axis` of tensors of ndim axes. */
rg_value rg_f_along(rg_compose *f, rg_value x, int32_t axis, int32_t ndim);

#endif
