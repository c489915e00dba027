/* SPDX-License-Identifier: MIT */
/*
** Normalisations and embeddings as layers: how they begin.
*/
#include "layer/layer.h"

static rg_status filled(int64_t n, double value, rg_tensor **out)
{
  rg_tensor *x;
  rg_status status;

  RG_TRY(rg_empty(RG_F32, RG_CPU, &n, 1, &x));
  status = rg_fill_(x, value);
  if (status != RG_OK) {
    rg_tensor_release(x);
    return status;
  }
  *out = x;
  return RG_OK;
}

rg_status rg_norm_layer(int64_t n, const rg_norm_options *options, rg_layer **out)
{
  rg_layer *layer;
  rg_status status = RG_OK;

  if (out == NULL || options == NULL) {
    return rg_fail(RG_EARG, "norm layer: a pointer is NULL");
  }
  RG_TRY(rg_layer_check_sizes("norm layer", n, n));
  if (!(options->eps >= 0 && options->eps < 1e300)) {
    return rg_fail(RG_EARG, "norm layer: eps is %g; a number from 0 is wanted", options->eps);
  }
  RG_TRY(rg_layer_new(RG_LAYER_NORM, n, n, &layer));
  layer->eps = options->eps;
  layer->rms = options->rms != 0;
  if (options->weight != 0) {
    status = filled(n, 1, &layer->part[0]);
  }
  if (status == RG_OK && options->bias != 0) {
    status = filled(n, 0, &layer->bias);
  }
  return rg_layer_finish(layer, status, out);
}

rg_status rg_embedding_layer(int64_t rows, int64_t n, uint64_t seed, rg_layer **out)
{
  rg_generator *generator;
  rg_layer *layer;
  rg_status status;

  if (out == NULL) {
    return rg_fail(RG_EARG, "embedding layer: out is NULL");
  }
  RG_TRY(rg_layer_check_sizes("embedding layer", rows, n));
  RG_TRY(rg_generator_new(seed, &generator));
  status = rg_layer_new(RG_LAYER_EMBEDDING, rows, n, &layer);
  if (status == RG_OK) {
    status = rg_empty(RG_F32, RG_CPU, (const int64_t[]){ rows, n }, 2, &layer->part[0]);
    if (status == RG_OK) {
      status = rg_normal_(layer->part[0], 0, 1, generator);
    }
    status = rg_layer_finish(layer, status, out);
  }
  rg_generator_release(generator);
  return status;
}
