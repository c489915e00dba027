/* SPDX-License-Identifier: MIT */
/*
** What a layer is made of, for the files that make layers.
*/
#ifndef RIDGE_LAYER_LAYER_H
#define RIDGE_LAYER_LAYER_H

#include <stdatomic.h>

#include "base/base.h"
#include "ridge/layer.h"
#include "tensor/tensor.h"

enum { RG_LAYER_PARTS = 4, RG_LAYER_PARAMS = 5 };

struct rg_layer {
  _Atomic int64_t refs;
  int32_t kind;
  int32_t form; /* of the signs; RG_SIGNS_AUTO: there are none */
  int32_t act;
  int32_t training;
  int64_t n_in;
  int64_t n_out;
  int64_t n_terms;
  int64_t rank;
  double p;
  rg_conv2d_options conv; /* of a convolution */
  double eps;             /* of a normalisation */
  int32_t rms;
  /* what the operation takes: weight | a, b | left, right | s1, u1_bits, u2_bits, s2 |
  ** s1, seed, s2 */
  rg_tensor *part[RG_LAYER_PARTS];
  rg_tensor *bias; /* or NULL */
  int32_t n_params;
  rg_param param[RG_LAYER_PARAMS]; /* views of the parts, or the parts */
};

/* A layer without parameters. */
rg_status rg_layer_new(int32_t kind, int64_t n_in, int64_t n_out, rg_layer **out) RG_CHECK;

/* Name the parameters of a layer whose parts are set, and mark them as weights. */
rg_status rg_layer_name_params(rg_layer *layer) RG_CHECK;

/* One more parameter; the layer takes the reference over. */
void rg_layer_add_param(rg_layer *layer, const char *name, rg_tensor *x, bool trainable);

/* Parts a layer of this kind and form has. */
int32_t rg_layer_parts(const rg_layer *layer);

/* Both sizes are at least 1. */
rg_status rg_layer_check_sizes(const char *what, int64_t n_in, int64_t n_out) RG_CHECK;

/* A new tensor [rows x cols] in f32, uniform in +-bound. */
rg_status rg_layer_uniform(int64_t rows, int64_t cols, double bound, rg_generator *generator,
                           rg_tensor **out) RG_CHECK;

/* The same, a vector, or NULL if not wanted. */
rg_status rg_layer_bias(int64_t n, bool wanted, double bound, rg_generator *generator,
                        rg_tensor **out) RG_CHECK;

/* Name the parameters and hand the layer out; where status is none, let go of it. */
rg_status rg_layer_finish(rg_layer *layer, rg_status status, rg_layer **out) RG_CHECK;

/* Both factors of a sketched layer, [n_in x 2TR] and [2TR x n_out], whatever its form. */
rg_status rg_sketch_factors(const rg_layer *layer, rg_tensor **left, rg_tensor **right) RG_CHECK;

/* The views S1s, U1s, U2s, S2s of a layer with stored signs, S1s and S2s of another. */
rg_status rg_sketch_name_params(rg_layer *layer) RG_CHECK;

#endif
