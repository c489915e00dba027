/* SPDX-License-Identifier: MIT */
/*
** Sketched layers: how a weight becomes fixed signs and trainable sketches (definitions.md 1.1), in
** both forms of the signs.
*/
#include <math.h>
#include <string.h>

#include "layer/layer.h"
#include "op/signs.h"

/* Signs begin at this number of the seed's stream, so that they do not depend on whether a weight
** was drawn before them. */
static const uint64_t signs_from = (uint64_t)1 << 40;

/* -- Signs as bits ----------------------------------------------------------------------------- */

/* Contiguous f32 signs [rows x cols] to bits [rows x ceil(cols / 8)]. */
static rg_status to_bits(const rg_tensor *signs, rg_tensor **out)
{
  int64_t rows = signs->_shape[0];
  int64_t cols = signs->_shape[1];
  int64_t row_bytes = (cols + 7) / 8;
  const float *x = signs->_data;
  uint8_t *bits;

  RG_TRY(rg_empty(RG_U8, RG_CPU, (const int64_t[]){ rows, row_bytes }, 2, out));
  bits = (*out)->_data;
  memset(bits, 0, (size_t)(rows * row_bytes));
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < cols; j++) {
      if (x[i * cols + j] > 0) {
        bits[i * row_bytes + (j >> 3)] |= (uint8_t)(1 << (j & 7));
      }
    }
  }
  return RG_OK;
}

rg_status rg_sketch_factors(const rg_layer *layer, rg_tensor **left, rg_tensor **right)
{
  int64_t width = layer->n_terms * layer->rank;
  int32_t dtype = layer->part[0]->_dtype;
  double sign = 1.0 / sqrt((double)layer->rank);
  rg_tensor *u1 = NULL, *u2 = NULL;
  rg_status status;

  if (layer->form != RG_SIGNS_BITS) {
    *left = rg_tensor_retain(layer->part[0]);
    *right = rg_tensor_retain(layer->part[1]);
    return RG_OK;
  }
  *left = NULL;
  *right = NULL;
  status = rg_expand_signs(layer->part[1], layer->n_out, sign, dtype, &u1);
  if (status == RG_OK) {
    status = rg_expand_signs(layer->part[2], width, sign, dtype, &u2);
  }
  if (status == RG_OK) {
    status = rg_concat((const rg_tensor *const[]){ layer->part[0], u2 }, 2, 1, left);
  }
  if (status == RG_OK) {
    status = rg_concat((const rg_tensor *const[]){ u1, layer->part[3] }, 2, 0, right);
  }
  rg_tensor_release(u1);
  rg_tensor_release(u2);
  if (status != RG_OK) {
    rg_tensor_release(*left);
    *left = NULL;
  }
  return status;
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

rg_status rg_sketch_name_params(rg_layer *layer)
{
  int64_t width = layer->n_terms * layer->rank;
  bool bits = layer->form == RG_SIGNS_BITS;
  rg_tensor *const *part = layer->part;
  rg_tensor *view;

  RG_TRY(left_view(layer, part[0], 0, &view));
  rg_layer_add_param(layer, "S1s", view, true);
  if (bits) {
    rg_layer_add_param(layer, "U1s_bits", rg_tensor_retain(part[1]), false);
    rg_layer_add_param(layer, "U2s_bits", rg_tensor_retain(part[2]), false);
    RG_TRY(right_view(layer, part[3], 0, &view));
  } else {
    RG_TRY(right_view(layer, part[1], 0, &view));
    rg_layer_add_param(layer, "U1s", view, false);
    RG_TRY(left_view(layer, part[0], width, &view));
    rg_layer_add_param(layer, "U2s", view, false);
    RG_TRY(right_view(layer, part[1], width, &view));
  }
  rg_layer_add_param(layer, "S2s", view, true);
  return RG_OK;
}

/* -- Sketching a weight ------------------------------------------------------------------------ */

/* What a sketch is made of, in f32; views of left and right, or tensors of their own for bits. */
typedef struct sketch {
  rg_tensor *w;  /* [n_in x n_out] */
  rg_tensor *u1; /* [TR x n_out] */
  rg_tensor *u2; /* [n_in x TR] */
  rg_tensor *s1; /* [n_in x TR] */
  rg_tensor *s2; /* [TR x n_out] */
} sketch;

static void sketch_release(sketch *k)
{
  rg_tensor_release(k->w);
  rg_tensor_release(k->u1);
  rg_tensor_release(k->u2);
  rg_tensor_release(k->s1);
  rg_tensor_release(k->s2);
}

static rg_status empty(int64_t rows, int64_t cols, rg_tensor **out)
{
  return rg_empty(RG_F32, RG_CPU, (const int64_t[]){ rows, cols }, 2, out);
}

static rg_status take_room(rg_layer *layer, sketch *k)
{
  int64_t width = layer->n_terms * layer->rank;

  if (layer->form == RG_SIGNS_BITS) {
    RG_TRY(empty(layer->n_in, width, &k->s1));
    RG_TRY(empty(layer->n_in, width, &k->u2));
    RG_TRY(empty(width, layer->n_out, &k->u1));
    return empty(width, layer->n_out, &k->s2);
  }
  RG_TRY(empty(layer->n_in, 2 * width, &layer->part[0]));
  RG_TRY(empty(2 * width, layer->n_out, &layer->part[1]));
  RG_TRY(rg_narrow(layer->part[0], 1, 0, width, 1, &k->s1));
  RG_TRY(rg_narrow(layer->part[0], 1, width, width, 1, &k->u2));
  RG_TRY(rg_narrow(layer->part[1], 0, 0, width, 1, &k->u1));
  return rg_narrow(layer->part[1], 0, width, width, 1, &k->s2);
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

/* S1 = W U1', S2 = U2' W. */
static rg_status fill(rg_layer *layer, sketch *k, uint64_t seed)
{
  double sign = 1.0 / sqrt((double)layer->rank);
  rg_generator *generator;
  rg_status status;

  RG_TRY(rg_generator_new(seed, &generator));
  rg_generator_set(generator, seed, signs_from);
  status = rg_signs_(k->u1, sign, generator);
  if (status == RG_OK) {
    status = rg_signs_(k->u2, sign, generator);
  }
  rg_generator_release(generator);
  RG_TRY(status);
  RG_TRY(product_into(k->w, k->u1, false, k->s1));
  RG_TRY(product_into(k->u2, k->w, true, k->s2));
  if (layer->form == RG_SIGNS_BITS) {
    layer->part[0] = rg_tensor_retain(k->s1);
    RG_TRY(to_bits(k->u1, &layer->part[1]));
    RG_TRY(to_bits(k->u2, &layer->part[2]));
    layer->part[3] = rg_tensor_retain(k->s2);
  }
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
    status = take_room(layer, &k);
  }
  if (status == RG_OK) {
    status = fill(layer, &k, seed);
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
