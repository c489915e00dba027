/* SPDX-License-Identifier: MIT */
/*
** Convolutions as layers: how their weights begin.
*/
#include <math.h>

#include "layer/layer.h"

static rg_status check_sizes(int64_t c_in, int64_t c_out, int64_t rows, int64_t columns,
                             int64_t groups)
{
  RG_TRY(rg_layer_check_sizes("conv2d layer", c_in, c_out));
  if (rows < 1 || columns < 1) {
    return rg_fail(RG_EARG, "conv2d layer: a kernel of %lld x %lld; both must be at least 1",
                   (long long)rows, (long long)columns);
  }
  if (groups < 1 || c_in % groups != 0 || c_out % groups != 0) {
    return rg_fail(RG_EARG,
                   "conv2d layer: %lld channels in and %lld out do not fall into %lld groups",
                   (long long)c_in, (long long)c_out, (long long)groups);
  }
  return RG_OK;
}

rg_status rg_conv2d_layer(int64_t c_in, int64_t c_out, int64_t rows, int64_t columns,
                          const rg_conv2d_options *options, int32_t bias, uint64_t seed,
                          rg_layer **out)
{
  rg_conv2d_options o = { .groups = 0 };
  rg_generator *generator;
  rg_layer *layer;
  rg_status status;

  if (out == NULL) {
    return rg_fail(RG_EARG, "conv2d layer: out is NULL");
  }
  if (options != NULL) {
    o = *options;
  }
  o.groups = o.groups == 0 ? 1 : o.groups;
  RG_TRY(check_sizes(c_in, c_out, rows, columns, o.groups));
  int64_t shape[] = { c_out, c_in / o.groups, rows, columns };
  double fan_in = (double)shape[1] * (double)rows * (double)columns;

  RG_TRY(rg_generator_new(seed, &generator));
  status = rg_layer_new(RG_LAYER_CONV2D, c_in, c_out, &layer);
  if (status == RG_OK) {
    layer->conv = o;
    layer->act = o.act;
    status = rg_empty(RG_F32, RG_CPU, shape, 4, &layer->part[0]);
    if (status == RG_OK) {
      status = rg_uniform_(layer->part[0], -1 / sqrt(fan_in), 1 / sqrt(fan_in), generator);
    }
    if (status == RG_OK) {
      status = rg_layer_bias(c_out, bias != 0, 1 / sqrt(fan_in), generator, &layer->bias);
    }
    status = rg_layer_finish(layer, status, out);
  }
  rg_generator_release(generator);
  return status;
}
