/* SPDX-License-Identifier: MIT */
/*
** Sketching a weight: fixed signs and trainable sketches (docs/why/definitions.md 1.1), in the
** three forms of the signs.
*/
#include <math.h>

#include "base/base.h"
#include "op/draw.h"
#include "ridge/factor.h"
#include "ridge/grad.h"
#include "tensor/tensor.h"

/* Sizes of a sketch and what the operations take of it. */
typedef struct sizes {
  int64_t n_in, n_out;
  int64_t terms, rank;
  int64_t width; /* terms times rank */
  int32_t form;
  rg_tensor **part;
} sizes;

static int32_t n_parts(int32_t form)
{
  return form == RG_SIGNS_BITS ? 4 : form == RG_SIGNS_SEED ? 3 : 2;
}

/* -- Signs ------------------------------------------------------------------------------------- */

/* The same in every form: U1 as bits, [TR x ceil(n_out / 8)], and U2, [n_in x ceil(TR / 8)]. */
static rg_status bits_of(const sizes *z, const rg_tensor *seed, rg_tensor **u1, rg_tensor **u2)
{
  rg_status status;

  RG_TRY(rg_sign_bits(seed, RG_DRAW_U1, z->width, z->n_out, u1));
  status = rg_sign_bits(seed, RG_DRAW_U2, z->n_in, z->width, u2);
  if (status != RG_OK) {
    rg_tensor_release(*u1);
    *u1 = NULL;
  }
  return status;
}

/* Signs of a matrix with so many columns as numbers. */
static rg_status numbers_of(const sizes *z, const rg_tensor *bits, int64_t cols, int32_t dtype,
                            rg_tensor **out)
{
  return rg_expand_signs(bits, cols, 1.0 / sqrt((double)z->rank), dtype, out);
}

/* [s1|u2] and [u1;s2] by bits of the signs. */
static rg_status factors(const sizes *z, const rg_tensor *u1_bits, const rg_tensor *u2_bits,
                         rg_tensor **left, rg_tensor **right)
{
  const rg_tensor *s1 = z->part[0];
  const rg_tensor *s2 = z->part[n_parts(z->form) - 1];
  rg_tensor *u1 = NULL, *u2 = NULL;
  rg_status status = numbers_of(z, u1_bits, z->n_out, s1->_dtype, &u1);

  *left = NULL;
  *right = NULL;
  if (status == RG_OK) {
    status = numbers_of(z, u2_bits, s1->_shape[1], s1->_dtype, &u2);
  }
  if (status == RG_OK) {
    status = rg_concat((const rg_tensor *const[]){ s1, u2 }, 2, 1, left);
  }
  if (status == RG_OK) {
    status = rg_concat((const rg_tensor *const[]){ u1, s2 }, 2, 0, right);
  }
  rg_tensor_release(u1);
  rg_tensor_release(u2);
  if (status != RG_OK) {
    rg_tensor_release(*left);
    *left = NULL;
  }
  return status;
}

static rg_status both_factors(const sizes *z, rg_tensor **left, rg_tensor **right)
{
  rg_tensor *u1 = NULL, *u2 = NULL;
  rg_status status;

  switch (z->form) {
  case RG_SIGNS_BITS:
    return factors(z, z->part[1], z->part[2], left, right);
  case RG_SIGNS_SEED:
    RG_TRY(bits_of(z, z->part[1], &u1, &u2));
    status = factors(z, u1, u2, left, right);
    rg_tensor_release(u1);
    rg_tensor_release(u2);
    return status;
  default:
    *left = rg_tensor_retain(z->part[0]);
    *right = rg_tensor_retain(z->part[1]);
    return RG_OK;
  }
}

/* -- Sketching a weight ------------------------------------------------------------------------ */

/* What a sketch is made of, in f32; S1 and S2 of stored signs are views of left and right. */
typedef struct sketch {
  rg_tensor *w;                 /* [n_in x n_out] */
  rg_tensor *seed;              /* i64 [1] */
  rg_tensor *u1_bits, *u2_bits; /* as of bits_of */
  rg_tensor *u1;                /* [TR x n_out] */
  rg_tensor *u2;                /* [n_in x TR] */
  rg_tensor *s1;                /* [n_in x TR] */
  rg_tensor *s2;                /* [TR x n_out] */
} sketch;

static void sketch_release(sketch *k)
{
  rg_tensor_release(k->w);
  rg_tensor_release(k->seed);
  rg_tensor_release(k->u1_bits);
  rg_tensor_release(k->u2_bits);
  rg_tensor_release(k->u1);
  rg_tensor_release(k->u2);
  rg_tensor_release(k->s1);
  rg_tensor_release(k->s2);
}

static rg_status draw_signs(const sizes *z, sketch *k, uint64_t seed)
{
  RG_TRY(rg_empty(RG_I64, RG_CPU, (const int64_t[]){ 1 }, 1, &k->seed));
  *(int64_t *)k->seed->_data = (int64_t)seed;
  RG_TRY(bits_of(z, k->seed, &k->u1_bits, &k->u2_bits));
  RG_TRY(numbers_of(z, k->u1_bits, z->n_out, RG_F32, &k->u1));
  return numbers_of(z, k->u2_bits, z->width, RG_F32, &k->u2);
}

static rg_status empty(int64_t rows, int64_t cols, rg_tensor **out)
{
  return rg_empty(RG_F32, RG_CPU, (const int64_t[]){ rows, cols }, 2, out);
}

static rg_status take_room(const sizes *z, sketch *k)
{
  if (z->form != RG_SIGNS_STORED) {
    RG_TRY(empty(z->n_in, z->width, &k->s1));
    return empty(z->width, z->n_out, &k->s2);
  }
  RG_TRY(empty(z->n_in, 2 * z->width, &z->part[0]));
  RG_TRY(empty(2 * z->width, z->n_out, &z->part[1]));
  RG_TRY(rg_narrow(z->part[0], 1, 0, z->width, 1, &k->s1));
  return rg_narrow(z->part[1], 0, z->width, z->width, 1, &k->s2);
}

/* The signs as numbers go beside S1 and above S2. */
static rg_status store(const sizes *z, const sketch *k)
{
  rg_tensor *beside = NULL, *above = NULL;
  rg_status status = rg_narrow(z->part[0], 1, z->width, z->width, 1, &beside);

  if (status == RG_OK) {
    status = rg_narrow(z->part[1], 0, 0, z->width, 1, &above);
  }
  if (status == RG_OK) {
    status = rg_copy_(beside, k->u2);
  }
  if (status == RG_OK) {
    status = rg_copy_(above, k->u1);
  }
  rg_tensor_release(beside);
  rg_tensor_release(above);
  return status;
}

/* z = x y', or x' y */
static rg_status product_into(const rg_tensor *x, const rg_tensor *y, bool left_transposed,
                              rg_tensor *z)
{
  rg_tensor *transposed = NULL, *made = NULL;
  rg_status status = rg_transpose(left_transposed ? x : y, 0, 1, &transposed);

  if (status == RG_OK) {
    status = left_transposed ? rg_matmul(transposed, y, &made) : rg_matmul(x, transposed, &made);
  }
  if (status == RG_OK) {
    status = rg_copy_(z, made);
  }
  rg_tensor_release(transposed);
  rg_tensor_release(made);
  return status;
}

/* S1 = W U1', S2 = U2' W; what the operation takes. */
static rg_status fill(const sizes *z, sketch *k)
{
  rg_tensor **part = z->part;

  RG_TRY(product_into(k->w, k->u1, false, k->s1));
  RG_TRY(product_into(k->u2, k->w, true, k->s2));
  if (z->form == RG_SIGNS_STORED) {
    return store(z, k);
  }
  *part++ = rg_tensor_retain(k->s1);
  if (z->form == RG_SIGNS_BITS) {
    *part++ = rg_tensor_retain(k->u1_bits);
    *part++ = rg_tensor_retain(k->u2_bits);
  } else {
    *part++ = rg_tensor_retain(k->seed);
  }
  *part = rg_tensor_retain(k->s2);
  return RG_OK;
}

/* weight is [n_out x n_in]. */
static rg_status sketch_weight(const sizes *z, const rg_tensor *weight, uint64_t seed)
{
  sketch k = { 0 };
  rg_tensor *wide = NULL;
  rg_status status = rg_cast(weight, RG_F32, &wide);

  if (status == RG_OK) {
    status = rg_transpose(wide, 0, 1, &k.w);
  }
  if (status == RG_OK) {
    status = draw_signs(z, &k, seed);
  }
  if (status == RG_OK) {
    status = take_room(z, &k);
  }
  if (status == RG_OK) {
    status = fill(z, &k);
  }
  sketch_release(&k);
  rg_tensor_release(wide);
  return status;
}

/* -- Making ------------------------------------------------------------------------------------ */

static rg_status check_sizes(const sizes *z)
{
  if (z->n_in < 1 || z->n_out < 1) {
    return rg_fail(RG_EARG, "sketch: %lld inputs and %lld outputs; both must be at least 1",
                   (long long)z->n_in, (long long)z->n_out);
  }
  if (z->terms < 1 || z->rank < 1 || z->terms > INT32_MAX / 2 ||
      z->rank > INT64_MAX / 4 / z->terms) {
    return rg_fail(RG_EARG, "sketch: %lld terms of rank %lld; both must be at least 1",
                   (long long)z->terms, (long long)z->rank);
  }
  if (z->form < 0 || z->form >= RG_SIGNS_COUNT) {
    return rg_fail(RG_EARG, "sketch: there is no form %d of signs", z->form);
  }
  return RG_OK;
}

rg_status rg_sketch(const rg_tensor *weight, int64_t num_terms, int64_t low_rank, int32_t form,
                    uint64_t seed, rg_tensor *parts[RG_SKETCH_PARTS])
{
  rg_tensor *made[RG_SKETCH_PARTS] = { NULL };
  rg_status status;
  int32_t mode;

  RG_TRY(rg_tensor_check(weight, "sketch"));
  if (weight->_ndim != 2 || parts == NULL) {
    return rg_fail(RG_EARG, "sketch: a matrix and places for its parts are wanted");
  }
  sizes z = { .n_in = weight->_shape[1],
              .n_out = weight->_shape[0],
              .terms = num_terms,
              .rank = low_rank,
              .form = form == RG_SIGNS_AUTO ? RG_SIGNS_STORED : form,
              .part = made };

  RG_TRY(check_sizes(&z));
  z.width = num_terms * low_rank;
  mode = rg_grad_mode(0); /* parameters come from nothing */
  status = sketch_weight(&z, weight, seed);
  rg_grad_mode(mode);
  if (status != RG_OK) {
    for (int32_t i = 0; i < RG_SKETCH_PARTS; i++) {
      rg_tensor_release(made[i]);
    }
    return status;
  }
  for (int32_t i = 0; i < RG_SKETCH_PARTS; i++) {
    parts[i] = made[i];
  }
  return RG_OK;
}

/* (x y)' out of x [a x b] and y [b x c], times scale. */
static rg_status transposed_product(const rg_tensor *x, const rg_tensor *y, double scale,
                                    rg_tensor **out)
{
  rg_tensor *xt = NULL, *yt = NULL, *made = NULL;
  rg_status status = rg_transpose(x, 0, 1, &xt);

  if (status == RG_OK) {
    status = rg_transpose(y, 0, 1, &yt);
  }
  if (status == RG_OK) {
    status = rg_matmul(yt, xt, &made);
  }
  if (status == RG_OK) {
    status = rg_mul_scalar_(made, scale);
  }
  rg_tensor_release(xt);
  rg_tensor_release(yt);
  if (status != RG_OK) {
    rg_tensor_release(made);
    return status;
  }
  *out = made;
  return RG_OK;
}

rg_status rg_sketch_weight(rg_tensor *const parts[RG_SKETCH_PARTS], int64_t num_terms,
                           int64_t low_rank, int32_t form, rg_tensor **out)
{
  rg_tensor *part[RG_SKETCH_PARTS] = { NULL }, *left, *right;
  rg_status status;

  if (parts == NULL || out == NULL || form <= RG_SIGNS_AUTO || form >= RG_SIGNS_COUNT) {
    return rg_fail(RG_EARG, "sketch: parts and the form of their signs are wanted");
  }
  int32_t n = n_parts(form);

  for (int32_t i = 0; i < n; i++) {
    RG_TRY(rg_tensor_check(parts[i], "sketch"));
    part[i] = parts[i];
  }
  if (part[0]->_ndim != 2 || part[n - 1]->_ndim != 2) {
    return rg_fail(RG_ESHAPE, "sketch: its first and last part are matrices");
  }
  sizes z = { .n_in = part[0]->_shape[0],
              .n_out = part[n - 1]->_shape[1],
              .terms = num_terms,
              .rank = low_rank,
              .form = form,
              .part = part };

  RG_TRY(check_sizes(&z));
  z.width = num_terms * low_rank;
  RG_TRY(both_factors(&z, &left, &right));
  status = transposed_product(left, right, 1.0 / (2.0 * (double)num_terms), out);
  rg_tensor_release(left);
  rg_tensor_release(right);
  return status;
}

/* -- Arithmetic -------------------------------------------------------------------------------- */

double rg_sklinear_break_even(int64_t n_in, int64_t n_out)
{
  double both = (double)n_in + (double)n_out;

  return both > 0 ? (double)n_in * (double)n_out / both : 0;
}

/* The next multiple, unless that makes it more than 1.2 times as large. */
static int64_t rounded_if_near(int64_t n, int64_t multiple)
{
  int64_t up = rg_round_up(n, multiple);

  return (double)up > 1.2 * (double)n ? n : up;
}

rg_status rg_round_for_tensor_cores(int64_t n_in, int64_t n_out, int64_t low_rank, int64_t multiple,
                                    int64_t out[3])
{
  if (n_in < 1 || n_out < 1 || low_rank < 1 || multiple < 1 || out == NULL) {
    return rg_fail(RG_EARG,
                   "rounding: sizes %lld and %lld and a rank of %lld to a multiple of %lld",
                   (long long)n_in, (long long)n_out, (long long)low_rank, (long long)multiple);
  }
  out[0] = rounded_if_near(n_in, multiple);
  out[1] = rounded_if_near(n_out, multiple);
  out[2] = rg_round_up(low_rank, multiple);
  return RG_OK;
}
