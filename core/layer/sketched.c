/* SPDX-License-Identifier: MIT */
/*
** Sketched layers: how a weight becomes fixed signs and trainable sketches (definitions.md 1.1), in
** the three forms of the signs.
*/
#include <math.h>

#include "layer/layer.h"
#include "op/draw.h"

/* -- Signs ------------------------------------------------------------------------------------- */

/* The same in every form: U1 as bits, [TR x ceil(n_out / 8)], and U2, [n_in x ceil(TR / 8)]. */
static rg_status bits_of(const rg_layer *layer, const rg_tensor *seed, rg_tensor **u1,
                         rg_tensor **u2)
{
  int64_t width = layer->n_terms * layer->rank;
  rg_status status;

  RG_TRY(rg_sign_bits(seed, RG_DRAW_U1, width, layer->n_out, u1));
  status = rg_sign_bits(seed, RG_DRAW_U2, layer->n_in, width, u2);
  if (status != RG_OK) {
    rg_tensor_release(*u1);
    *u1 = NULL;
  }
  return status;
}

/* Signs of a matrix with so many columns as numbers. */
static rg_status numbers_of(const rg_layer *layer, const rg_tensor *bits, int64_t cols,
                            int32_t dtype, rg_tensor **out)
{
  return rg_expand_signs(bits, cols, 1.0 / sqrt((double)layer->rank), dtype, out);
}

/* [s1|u2] and [u1;s2] by bits of the signs. */
static rg_status factors(const rg_layer *layer, const rg_tensor *u1_bits, const rg_tensor *u2_bits,
                         rg_tensor **left, rg_tensor **right)
{
  const rg_tensor *s1 = layer->part[0];
  const rg_tensor *s2 = layer->part[rg_layer_parts(layer) - 1];
  rg_tensor *u1 = NULL, *u2 = NULL;
  rg_status status = numbers_of(layer, u1_bits, layer->n_out, s1->_dtype, &u1);

  *left = NULL;
  *right = NULL;
  if (status == RG_OK) {
    status = numbers_of(layer, u2_bits, s1->_shape[1], s1->_dtype, &u2);
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

rg_status rg_sketch_factors(const rg_layer *layer, rg_tensor **left, rg_tensor **right)
{
  rg_tensor *u1 = NULL, *u2 = NULL;
  rg_status status;

  switch (layer->form) {
  case RG_SIGNS_BITS:
    return factors(layer, layer->part[1], layer->part[2], left, right);
  case RG_SIGNS_SEED:
    RG_TRY(bits_of(layer, layer->part[1], &u1, &u2));
    status = factors(layer, u1, u2, left, right);
    rg_tensor_release(u1);
    rg_tensor_release(u2);
    return status;
  default:
    *left = rg_tensor_retain(layer->part[0]);
    *right = rg_tensor_retain(layer->part[1]);
    return RG_OK;
  }
}

/* -- Parameters -------------------------------------------------------------------------------- */

/* Half of the left factor as [T x n_in x R]: columns from first on. */
static rg_status left_view(const rg_layer *layer, const rg_tensor *left, int64_t first,
                           rg_tensor **out)
{
  int64_t width = layer->n_terms * layer->rank;
  rg_tensor *half = NULL, *split = NULL;
  rg_status status = rg_narrow(left, 1, first, width, 1, &half);

  if (status == RG_OK) {
    status =
        rg_view(half, (const int64_t[]){ layer->n_in, layer->n_terms, layer->rank }, 3, &split);
  }
  if (status == RG_OK) {
    status = rg_transpose(split, 0, 1, out);
  }
  rg_tensor_release(half);
  rg_tensor_release(split);
  return status;
}

/* Half of the right factor as [T x R x n_out]: rows from first on. */
static rg_status right_view(const rg_layer *layer, const rg_tensor *right, int64_t first,
                            rg_tensor **out)
{
  int64_t width = layer->n_terms * layer->rank;
  rg_tensor *half = NULL;
  rg_status status = rg_narrow(right, 0, first, width, 1, &half);

  if (status == RG_OK) {
    status = rg_view(half, (const int64_t[]){ layer->n_terms, layer->rank, layer->n_out }, 3, out);
  }
  rg_tensor_release(half);
  return status;
}

/* Fixed signs beside what is trained: no gradient flows into them. */
static void add_fixed(rg_layer *layer, const char *name, rg_tensor *view)
{
  view->_flags |= RG_TENSOR_DETACHED;
  rg_layer_add_param(layer, name, view, false);
}

rg_status rg_sketch_name_params(rg_layer *layer)
{
  int64_t width = layer->n_terms * layer->rank;
  rg_tensor *const *part = layer->part;
  rg_tensor *view;

  RG_TRY(left_view(layer, part[0], 0, &view));
  rg_tensor_set_part(view, 1);
  rg_layer_add_param(layer, "S1s", view, true);
  if (layer->form == RG_SIGNS_BITS) {
    rg_layer_add_param(layer, "U1s_bits", rg_tensor_retain(part[1]), false);
    rg_layer_add_param(layer, "U2s_bits", rg_tensor_retain(part[2]), false);
    RG_TRY(right_view(layer, part[3], 0, &view));
  } else if (layer->form == RG_SIGNS_SEED) {
    rg_layer_add_param(layer, "U_seed", rg_tensor_retain(part[1]), false);
    RG_TRY(right_view(layer, part[2], 0, &view));
  } else {
    RG_TRY(right_view(layer, part[1], 0, &view));
    add_fixed(layer, "U1s", view);
    RG_TRY(left_view(layer, part[0], width, &view));
    add_fixed(layer, "U2s", view);
    RG_TRY(right_view(layer, part[1], width, &view));
  }
  rg_tensor_set_part(view, 1);
  rg_layer_add_param(layer, "S2s", view, true);
  return RG_OK;
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

static rg_status draw_signs(const rg_layer *layer, sketch *k, uint64_t seed)
{
  RG_TRY(rg_empty(RG_I64, RG_CPU, (const int64_t[]){ 1 }, 1, &k->seed));
  *(int64_t *)k->seed->_data = (int64_t)seed;
  RG_TRY(bits_of(layer, k->seed, &k->u1_bits, &k->u2_bits));
  RG_TRY(numbers_of(layer, k->u1_bits, layer->n_out, RG_F32, &k->u1));
  return numbers_of(layer, k->u2_bits, layer->n_terms * layer->rank, RG_F32, &k->u2);
}

static rg_status empty(int64_t rows, int64_t cols, rg_tensor **out)
{
  return rg_empty(RG_F32, RG_CPU, (const int64_t[]){ rows, cols }, 2, out);
}

static rg_status take_room(rg_layer *layer, sketch *k)
{
  int64_t width = layer->n_terms * layer->rank;

  if (layer->form != RG_SIGNS_STORED) {
    RG_TRY(empty(layer->n_in, width, &k->s1));
    return empty(width, layer->n_out, &k->s2);
  }
  RG_TRY(empty(layer->n_in, 2 * width, &layer->part[0]));
  RG_TRY(empty(2 * width, layer->n_out, &layer->part[1]));
  RG_TRY(rg_narrow(layer->part[0], 1, 0, width, 1, &k->s1));
  return rg_narrow(layer->part[1], 0, width, width, 1, &k->s2);
}

/* The signs as numbers go beside S1 and above S2. */
static rg_status store(const rg_layer *layer, const sketch *k)
{
  int64_t width = layer->n_terms * layer->rank;
  rg_tensor *beside = NULL, *above = NULL;
  rg_status status = rg_narrow(layer->part[0], 1, width, width, 1, &beside);

  if (status == RG_OK) {
    status = rg_narrow(layer->part[1], 0, 0, width, 1, &above);
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
static rg_status product_into(const rg_tensor *x, const rg_tensor *y, bool left_turned,
                              rg_tensor *z)
{
  rg_tensor *turned = NULL, *made = NULL;
  rg_status status = rg_transpose(left_turned ? x : y, 0, 1, &turned);

  if (status == RG_OK) {
    status = left_turned ? rg_matmul(turned, y, &made) : rg_matmul(x, turned, &made);
  }
  if (status == RG_OK) {
    status = rg_copy_(z, made);
  }
  rg_tensor_release(turned);
  rg_tensor_release(made);
  return status;
}

/* S1 = W U1', S2 = U2' W; what the operation takes. */
static rg_status fill(rg_layer *layer, sketch *k)
{
  rg_tensor **part = layer->part;

  RG_TRY(product_into(k->w, k->u1, false, k->s1));
  RG_TRY(product_into(k->u2, k->w, true, k->s2));
  if (layer->form == RG_SIGNS_STORED) {
    return store(layer, k);
  }
  *part++ = rg_tensor_retain(k->s1);
  if (layer->form == RG_SIGNS_BITS) {
    *part++ = rg_tensor_retain(k->u1_bits);
    *part++ = rg_tensor_retain(k->u2_bits);
  } else {
    *part++ = rg_tensor_retain(k->seed);
  }
  *part = rg_tensor_retain(k->s2);
  return RG_OK;
}

/* weight is [n_out x n_in]. */
static rg_status sketch_weight(rg_layer *layer, const rg_tensor *weight, uint64_t seed)
{
  sketch k = { 0 };
  rg_tensor *wide = NULL;
  rg_status status = rg_cast(weight, RG_F32, &wide);

  if (status == RG_OK) {
    status = rg_transpose(wide, 0, 1, &k.w);
  }
  if (status == RG_OK) {
    status = draw_signs(layer, &k, seed);
  }
  if (status == RG_OK) {
    status = take_room(layer, &k);
  }
  if (status == RG_OK) {
    status = fill(layer, &k);
  }
  sketch_release(&k);
  rg_tensor_release(wide);
  return status;
}

/* -- Making ------------------------------------------------------------------------------------ */

static rg_status check_options(int64_t num_terms, int64_t low_rank,
                               const rg_sklinear_options *options)
{
  if (num_terms < 1 || low_rank < 1 || num_terms > INT32_MAX / 2 ||
      low_rank > INT64_MAX / 4 / num_terms) {
    return rg_fail(RG_EARG, "sketched layer: %lld terms of rank %lld; both must be at least 1",
                   (long long)num_terms, (long long)low_rank);
  }
  if (!(options->p >= 0 && options->p < 1)) {
    return rg_fail(RG_EARG, "sketched layer: the dropout probability %g is not in [0, 1)",
                   options->p);
  }
  if (options->act < 0 || options->act >= RG_ACT_COUNT) {
    return rg_fail(RG_EARG, "sketched layer: there is no activation %d", options->act);
  }
  if (options->form < 0 || options->form >= RG_SIGNS_COUNT) {
    return rg_fail(RG_EARG, "sketched layer: there is no form %d of signs", options->form);
  }
  return RG_OK;
}

rg_status rg_sklinear_from(const rg_layer *dense, int64_t num_terms, int64_t low_rank,
                           const rg_sklinear_options *options, rg_layer **out)
{
  static const rg_sklinear_options none;
  const rg_sklinear_options *o = options != NULL ? options : &none;
  rg_layer *layer;
  rg_layer *converted = NULL;
  rg_status status;
  int32_t mode;

  if (dense == NULL || out == NULL || dense->kind != RG_LAYER_LINEAR) {
    return rg_fail(RG_EARG, "sketched layer: a dense layer is wanted to make it from");
  }
  RG_TRY(check_options(num_terms, low_rank, o));
  RG_TRY(rg_layer_new(RG_LAYER_SKLINEAR, dense->n_in, dense->n_out, &layer));
  layer->n_terms = num_terms;
  layer->rank = low_rank;
  layer->act = o->act;
  layer->p = o->p;
  layer->form = o->form == RG_SIGNS_AUTO ? RG_SIGNS_STORED : o->form;
  mode = rg_grad_mode(0); /* its parameters come from nothing */
  status = sketch_weight(layer, dense->part[0], o->seed);
  if (status == RG_OK && dense->bias != NULL) {
    status = rg_cast(dense->bias, RG_F32, &layer->bias);
  }
  rg_grad_mode(mode);
  if (status == RG_OK) {
    status = rg_layer_name_params(layer);
  }
  if (status == RG_OK && dense->part[0]->_dtype != RG_F32) {
    status = rg_layer_to(layer, dense->part[0]->_dtype, &converted);
    rg_layer_release(layer);
    layer = converted;
  }
  if (status != RG_OK) {
    rg_layer_release(layer);
    return status;
  }
  *out = layer;
  return RG_OK;
}

rg_status rg_sklinear(int64_t n_in, int64_t n_out, int64_t num_terms, int64_t low_rank,
                      const rg_sklinear_options *options, rg_layer **out)
{
  static const rg_sklinear_options none;
  const rg_sklinear_options *o = options != NULL ? options : &none;
  rg_layer *dense;
  rg_status status;

  RG_TRY(rg_layer_check_sizes("sketched layer", n_in, n_out));
  RG_TRY(check_options(num_terms, low_rank, o));
  RG_TRY(rg_linear_layer(n_in, n_out, o->bias, o->seed, &dense));
  status = rg_sklinear_from(dense, num_terms, low_rank, o, out);
  rg_layer_release(dense);
  return status;
}

/* -- Arithmetic -------------------------------------------------------------------------------- */

double rg_sklinear_break_even(int64_t n_in, int64_t n_out)
{
  double both = (double)n_in + (double)n_out;

  return both > 0 ? (double)n_in * (double)n_out / both : 0;
}

static int64_t rounded_up(int64_t n, int64_t multiple)
{
  return (n + multiple - 1) / multiple * multiple;
}

/* Unless that makes it more than 1.2 times as large. */
static int64_t rounded_if_near(int64_t n, int64_t multiple)
{
  int64_t up = rounded_up(n, multiple);

  return (double)up > 1.2 * (double)n ? n : up;
}

rg_status rg_round_for_tensor_cores(int64_t n_in, int64_t n_out, int64_t low_rank, int64_t multiple,
                                    int64_t out[3])
{
  RG_TRY(rg_layer_check_sizes("rounding", n_in, n_out));
  if (low_rank < 1 || multiple < 1 || out == NULL) {
    return rg_fail(RG_EARG, "rounding: a rank of %lld to a multiple of %lld", (long long)low_rank,
                   (long long)multiple);
  }
  out[0] = rounded_if_near(n_in, multiple);
  out[1] = rounded_if_near(n_out, multiple);
  out[2] = rounded_up(low_rank, multiple);
  return RG_OK;
}
