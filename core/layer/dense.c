/* SPDX-License-Identifier: MIT */
/*
** Dense and low-rank layers: how their weights begin, and the best low-rank copy of a dense layer.
*/
#include <math.h>

#include "layer/layer.h"

/* -- Draws ------------------------------------------------------------------------------------ */

static rg_status uniform(const int64_t *shape, int32_t ndim, double bound, rg_generator *generator,
                         rg_tensor **out)
{
  rg_tensor *x;
  rg_status status;

  RG_TRY(rg_empty(RG_F32, RG_CPU, shape, ndim, &x));
  status = rg_uniform_(x, -bound, bound, generator);
  if (status != RG_OK) {
    rg_tensor_release(x);
    return status;
  }
  *out = x;
  return RG_OK;
}

rg_status rg_layer_uniform(int64_t rows, int64_t cols, double bound, rg_generator *generator,
                           rg_tensor **out)
{
  return uniform((const int64_t[]){ rows, cols }, 2, bound, generator, out);
}

rg_status rg_layer_bias(int64_t n, bool wanted, double bound, rg_generator *generator,
                        rg_tensor **out)
{
  *out = NULL;
  return wanted ? uniform(&n, 1, bound, generator, out) : RG_OK;
}

/* -- Dense ------------------------------------------------------------------------------------- */

rg_status rg_linear_layer(int64_t n_in, int64_t n_out, int32_t bias, uint64_t seed, rg_layer **out)
{
  double bound = n_in > 0 ? 1.0 / sqrt((double)n_in) : 0;
  rg_generator *generator;
  rg_layer *layer;
  rg_status status;

  if (out == NULL) {
    return rg_fail(RG_EARG, "linear layer: out is NULL");
  }
  RG_TRY(rg_layer_check_sizes("linear layer", n_in, n_out));
  RG_TRY(rg_generator_new(seed, &generator));
  status = rg_layer_new(RG_LAYER_LINEAR, n_in, n_out, &layer);
  if (status == RG_OK) {
    status = rg_layer_uniform(n_out, n_in, bound, generator, &layer->part[0]);
    if (status == RG_OK) {
      status = rg_layer_bias(n_out, bias != 0, bound, generator, &layer->bias);
    }
    status = rg_layer_finish(layer, status, out);
  }
  rg_generator_release(generator);
  return status;
}

rg_status rg_linear_layer_of(rg_tensor *weight, rg_tensor *bias, rg_layer **out)
{
  rg_layer *layer;
  char text[128];

  if (out == NULL) {
    return rg_fail(RG_EARG, "linear layer: out is NULL");
  }
  RG_TRY(rg_tensor_check(weight, "linear layer"));
  if (weight->_ndim != 2) {
    return rg_fail(RG_ESHAPE, "linear layer: the weight is %s, wanted two axes",
                   rg_tensor_text(weight, text, sizeof(text)));
  }
  if (weight->_dtype != RG_F32 && weight->_dtype != RG_F64 && weight->_dtype != RG_BF16 &&
      weight->_dtype != RG_F16) {
    return rg_fail(RG_EDTYPE, "linear layer: the weight is %s, wanted a float type",
                   rg_dtype_name(weight->_dtype));
  }
  RG_TRY(rg_layer_check_sizes("linear layer", weight->_shape[1], weight->_shape[0]));
  if (bias != NULL) {
    RG_TRY(rg_tensor_check(bias, "linear layer"));
    if (bias->_ndim != 1 || bias->_shape[0] != weight->_shape[0]) {
      return rg_fail(RG_ESHAPE, "linear layer: the bias is %s, wanted [%lld]",
                     rg_tensor_text(bias, text, sizeof(text)), (long long)weight->_shape[0]);
    }
  }
  RG_TRY(rg_layer_new(RG_LAYER_LINEAR, weight->_shape[1], weight->_shape[0], &layer));
  layer->part[0] = rg_tensor_retain(weight);
  layer->bias = bias != NULL ? rg_tensor_retain(bias) : NULL;
  return rg_layer_finish(layer, RG_OK, out);
}

/* -- Low rank ---------------------------------------------------------------------------------- */

static rg_status check_rank(int64_t rank)
{
  return rank >= 1 ? RG_OK : rg_fail(RG_EARG, "low-rank layer: a rank of %lld", (long long)rank);
}

rg_status rg_lowrank_layer(int64_t n_in, int64_t n_out, int64_t rank, int32_t bias, uint64_t seed,
                           rg_layer **out)
{
  double bound = n_in > 0 ? 1.0 / sqrt((double)n_in) : 0;
  rg_generator *generator;
  rg_layer *layer;
  rg_status status;

  if (out == NULL) {
    return rg_fail(RG_EARG, "low-rank layer: out is NULL");
  }
  RG_TRY(rg_layer_check_sizes("low-rank layer", n_in, n_out));
  RG_TRY(check_rank(rank));
  RG_TRY(rg_generator_new(seed, &generator));
  status = rg_layer_new(RG_LAYER_LOWRANK, n_in, n_out, &layer);
  if (status == RG_OK) {
    layer->rank = rank;
    status = rg_layer_uniform(n_in, rank, bound, generator, &layer->part[0]);
    if (status == RG_OK) {
      status = rg_layer_uniform(rank, n_out, sqrt(3.0 / (double)rank), generator, &layer->part[1]);
    }
    if (status == RG_OK) {
      status = rg_layer_bias(n_out, bias != 0, bound, generator, &layer->bias);
    }
    status = rg_layer_finish(layer, status, out);
  }
  rg_generator_release(generator);
  return status;
}

/* The first rank columns of u (or rows of vt), each times the root of its singular value, as
** [n x rank] turned or as [rank x n]. */
static rg_status factor(const rg_tensor *basis, int32_t axis, const rg_tensor *roots, int64_t rank,
                        bool rank_first, int32_t dtype, rg_tensor **out)
{
  rg_tensor *cut = NULL, *way = NULL, *some = NULL, *line = NULL, *scaled = NULL;
  bool turns = (axis == 0) != rank_first;
  rg_status status = rg_narrow(basis, axis, 0, rank, 1, &cut);

  if (status == RG_OK) {
    status = turns ? rg_transpose(cut, 0, 1, &way) : RG_OK;
  }
  if (status == RG_OK) {
    status = rg_narrow(roots, 0, 0, rank, 1, &some);
  }
  if (status == RG_OK) {
    status = rg_unsqueeze(some, rank_first ? 1 : 0, &line);
  }
  if (status == RG_OK) {
    status = rg_mul(turns ? way : cut, line, &scaled);
  }
  if (status == RG_OK) {
    status = rg_cast(scaled, dtype, out);
  }
  rg_tensor_release(cut);
  rg_tensor_release(way);
  rg_tensor_release(some);
  rg_tensor_release(line);
  rg_tensor_release(scaled);
  return status;
}

/* weight = U diag(s) V', [n_out x n_in]; so A = V sqrt(s) and B = sqrt(s) U'. */
static rg_status factorise(const rg_tensor *weight, rg_layer *layer)
{
  int32_t dtype = weight->_dtype;
  rg_tensor *wide = NULL, *u = NULL, *s = NULL, *vt = NULL, *roots = NULL;
  rg_status status = rg_cast(weight, dtype == RG_F64 ? RG_F64 : RG_F32, &wide);

  if (status == RG_OK) {
    status = rg_svd(wide, &u, &s, &vt);
  }
  if (status == RG_OK) {
    status = rg_sqrt(s, &roots);
  }
  if (status == RG_OK) {
    status = factor(vt, 0, roots, layer->rank, false, dtype, &layer->part[0]);
  }
  if (status == RG_OK) {
    status = factor(u, 1, roots, layer->rank, true, dtype, &layer->part[1]);
  }
  rg_tensor_release(wide);
  rg_tensor_release(u);
  rg_tensor_release(s);
  rg_tensor_release(vt);
  rg_tensor_release(roots);
  return status;
}

rg_status rg_lowrank_from(const rg_layer *dense, int64_t rank, rg_layer **out)
{
  rg_layer *layer;
  rg_status status;
  int32_t mode;

  if (dense == NULL || out == NULL || dense->kind != RG_LAYER_LINEAR) {
    return rg_fail(RG_EARG, "low-rank layer: a dense layer is wanted to make it from");
  }
  RG_TRY(check_rank(rank));
  if (rank > rg_min_i64(dense->n_in, dense->n_out)) {
    return rg_fail(RG_EARG, "low-rank layer: rank %lld of a weight that has %lld at most",
                   (long long)rank, (long long)rg_min_i64(dense->n_in, dense->n_out));
  }
  RG_TRY(rg_layer_new(RG_LAYER_LOWRANK, dense->n_in, dense->n_out, &layer));
  layer->rank = rank;
  layer->act = dense->act;
  mode = rg_grad_mode(0); /* its parameters come from nothing */
  status = factorise(dense->part[0], layer);
  if (status == RG_OK && dense->bias != NULL) {
    status = rg_clone(dense->bias, &layer->bias);
  }
  rg_grad_mode(mode);
  return rg_layer_finish(layer, status, out);
}
