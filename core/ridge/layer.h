/* SPDX-License-Identifier: MIT */
/*
** Layers: named parameters and the operation that uses them.  Dense, low-rank, sketched,
** convolution, normalisation, embedding.
**
** A layer is made in f32 on the CPU from an explicit seed; making one never touches the default
** random stream.  Its parameters are marked as weights (rg_tensor_set_param), so that packed copies
** are kept until they are written to.
*/
#ifndef RIDGE_LAYER_H
#define RIDGE_LAYER_H

#include "ridge/image.h"
#include "ridge/norm.h"
#include "ridge/op.h"

typedef struct rg_layer rg_layer;

/* Kinds of layers. */
enum {
  RG_LAYER_LINEAR,
  RG_LAYER_LOWRANK,
  RG_LAYER_SKLINEAR,
  RG_LAYER_CONV2D,
  RG_LAYER_NORM,
  RG_LAYER_EMBEDDING,
  RG_LAYER_KIND_COUNT
};

/* How a sketched layer keeps its fixed signs: as numbers (stored), one bit each (bits), expanded in
** tiles as they are used, or not at all (seed): made again from a seed where they are needed.  One
** seed gives the same signs in each form.  AUTO is STORED, the faster one where it was measured
** (results/). */
enum { RG_SIGNS_AUTO, RG_SIGNS_STORED, RG_SIGNS_BITS, RG_SIGNS_SEED, RG_SIGNS_COUNT };

/* What a sketched layer can be told; all zero is a layer without bias, activation and dropout. */
typedef struct rg_sklinear_options {
  uint64_t seed; /* of weight, bias and signs */
  double p;      /* dropout while training, 0 <= p < 1; draws from the default stream */
  int32_t bias;  /* 1: with one */
  int32_t act;   /* RG_ACT_... */
  int32_t form;  /* RG_SIGNS_... */
  int32_t _pad;
} rg_sklinear_options;

/* -- Making ------------------------------------------------------------------ */

/*
** A dense layer, y = act(x W' + b), initialised like PyTorch's: both uniform in +-1/sqrt(n_in).
**
** n_in, n_out  at least 1
** bias         1: with one
** seed         of the draws
** out          new reference; parameters: weight [n_out x n_in], bias [n_out]
** RG_EARG.
*/
RG_API rg_status rg_linear_layer(int64_t n_in, int64_t n_out, int32_t bias, uint64_t seed,
                                 rg_layer **out) RG_CHECK;

/*
** A dense layer of given weights.
**
** weight       [n_out x n_in], float; held, not copied
** bias         [n_out] or NULL; held, not copied
** out          new reference
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_linear_layer_of(rg_tensor *weight, rg_tensor *bias, rg_layer **out) RG_CHECK;

/*
** A layer of rank k, y = act((x A) B + b).
**
** A is uniform in +-1/sqrt(n_in), B in +-sqrt(3 / rank): x A has a third of the variance of x, and
** y then has that of a dense layer's.
**
** n_in, n_out  at least 1
** rank         at least 1; above min(n_in, n_out) it stores more than a dense layer and means less
** bias         1: with one
** seed         of the draws
** out          new reference; parameters: A [n_in x rank], B [rank x n_out], bias [n_out]
** RG_EARG.
*/
RG_API rg_status rg_lowrank_layer(int64_t n_in, int64_t n_out, int64_t rank, int32_t bias,
                                  uint64_t seed, rg_layer **out) RG_CHECK;

/*
** A sketched layer (Panther's SKLinear, github.com/FahdSeddik/panther), T = num_terms, R =
** low_rank:
**
**   y = dropout(act(1/(2T) sum_t [(x S1[t]) U1[t] + (x U2[t]) S2[t]] + b))
**
** U1 and U2 are fixed signs of +-1/sqrt(R); S1 = W U1' and S2 = U2' W of a weight W drawn as for
** rg_linear_layer with the same seed.
**
** n_in, n_out  at least 1
** num_terms    T, at least 1
** low_rank     R, at least 1
** options      NULL: all zero
** out          new reference; parameters: S1s [T x n_in x R], U1s [T x R x n_out],
**              U2s [T x n_in x R], S2s [T x R x n_out], bias [n_out].  Stored signs: these are
**              views of two matrices, left [n_in x 2TR] = [S1|U2] and right [2TR x n_out] =
**              [U1;S2]. Bits: U1s_bits u8 [TR x ceil(n_out/8)] and U2s_bits u8 [n_in x ceil(TR/8)]
**              instead.  Seed: U_seed i64 [1] instead (rg_sign_bits, matrices 1 and 2)
** RG_EARG.
*/
RG_API rg_status rg_sklinear(int64_t n_in, int64_t n_out, int64_t num_terms, int64_t low_rank,
                             const rg_sklinear_options *options, rg_layer **out) RG_CHECK;

/*
** The sketch of a dense layer, whose weight and bias take the place of the drawn ones.
**
** Its effective weight is an unbiased estimate of the dense one with the relative error (Frobenius)
** sqrt(((n_out-1)/R + (n_in-1)/R) / (4T)): above 1 wherever the sketch stores less than a square
** dense layer (definitions.md 1.1).
**
** dense        of kind RG_LAYER_LINEAR
** num_terms    T, at least 1
** low_rank     R, at least 1
** options      as for rg_sklinear; bias is ignored: the sketch has one if the dense layer does
** out          new reference, of the dense layer's element type
** RG_EARG.
*/
RG_API rg_status rg_sklinear_from(const rg_layer *dense, int64_t num_terms, int64_t low_rank,
                                  const rg_sklinear_options *options, rg_layer **out) RG_CHECK;

/*
** The best layer of rank k for a dense one: W = U diag(s) V' cut after k values is nearest in the
** Frobenius norm (Eckart, Young 1936).  A = U sqrt(s) and B = sqrt(s) V', so that both factors are
** of one size and train at one rate.
**
** dense        of kind RG_LAYER_LINEAR
** rank         1 .. min(n_in, n_out)
** out          new reference, of the dense layer's element type
** RG_EARG; what rg_svd answers.
*/
RG_API rg_status rg_lowrank_from(const rg_layer *dense, int64_t rank, rg_layer **out) RG_CHECK;

/*
** A convolution, y = act(conv2d(x, w) + b), initialised like PyTorch's: both uniform in
** +-1/sqrt(c_in / groups * rows * columns).
**
** c_in, c_out    channels, at least 1, multiples of the groups
** rows, columns  of the kernel, at least 1
** options        as for rg_conv2d; the activation is the layer's; NULL: all zero
** bias           1: with one
** seed           of the draws
** out            new reference; parameters: weight [c_out x c_in/groups x rows x columns],
**                bias [c_out]
** RG_EARG.
*/
RG_API rg_status rg_conv2d_layer(int64_t c_in, int64_t c_out, int64_t rows, int64_t columns,
                                 const rg_conv2d_options *options, int32_t bias, uint64_t seed,
                                 rg_layer **out) RG_CHECK;

/* What a normalisation can be told. */
typedef struct rg_norm_options {
  double eps;
  int32_t rms;    /* 1: by the root of the mean square, without taking the mean off */
  int32_t weight; /* 1: with one, which begins as ones */
  int32_t bias;   /* 1: with one, which begins as zeros */
  int32_t _pad;
} rg_norm_options;

/*
** A normalisation over the last axis: rg_layer_norm with a weight and a bias of its own.
**
** n        size of the axis, at least 1
** options  must be given
** out      new reference; parameters: weight [n], bias [n], as far as they are wanted
** RG_EARG.
*/
RG_API rg_status rg_norm_layer(int64_t n, const rg_norm_options *options, rg_layer **out) RG_CHECK;

/*
** A table of vectors that are looked up by number (rg_take), initialised like PyTorch's: normal.
**
** rows     how many there are, at least 1
** n        size of each, at least 1
** seed     of the draws
** out      new reference; parameters: weight [rows x n]
** RG_EARG.
*/
RG_API rg_status rg_embedding_layer(int64_t rows, int64_t n, uint64_t seed,
                                    rg_layer **out) RG_CHECK;

RG_API rg_layer *rg_layer_retain(rg_layer *layer);
RG_API void rg_layer_release(rg_layer *layer);

/* A layer with copies of the parameters.  out: new reference. */
RG_API rg_status rg_layer_clone(const rg_layer *layer, rg_layer **out) RG_CHECK;

/*
** A layer with the parameters converted; signs kept as bits stay bits, and a seed a seed.
**
** dtype    a float type
** out      new reference
** RG_EDTYPE.
*/
RG_API rg_status rg_layer_to(const rg_layer *layer, int32_t dtype, rg_layer **out) RG_CHECK;

/* A layer with copies of the parameters on a device.  out: new reference.  RG_EDEVICE. */
RG_API rg_status rg_layer_to_device(const rg_layer *layer, int32_t device, rg_layer **out) RG_CHECK;

/*
** The layer as it is now, on another device, for one pass: gradients of what it computes there go
** back to the layer's own parameters.
**
** out          new reference
** RG_EDEVICE, RG_EARG; RG_ECAPTURE: a plan stays on one device.
*/
RG_API rg_status rg_layer_replica(const rg_layer *layer, int32_t device, rg_layer **out) RG_CHECK;

/* -- Using --------------------------------------------------------------------- */

/*
** Apply a layer: to the last axis or, a convolution, to images or, an embedding, to numbers.
**
** x        [... x n_in], float; images as rg_conv2d takes them; [...] of an integer type
** out      new tensor [... x n_out], or images
** RG_ESHAPE, RG_EDTYPE.
*/
RG_API rg_status rg_layer_forward(const rg_layer *layer, const rg_tensor *x,
                                  rg_tensor **out) RG_CHECK;

/* 1: dropout is on.  Layers begin with 0. */
RG_API void rg_layer_set_training(rg_layer *layer, int32_t on);
RG_API int32_t rg_layer_training(const rg_layer *layer);

/* The activation that follows the layer.  act: RG_ACT_...; RG_EARG. */
RG_API rg_status rg_layer_set_act(rg_layer *layer, int32_t act) RG_CHECK;

/* Dropout behind the layer while training, in the same pass: dense and sketched layers.  p: 0 <= p
** < 1; RG_EARG, RG_ENOSUP for other layers. */
RG_API rg_status rg_layer_set_dropout(rg_layer *layer, double p) RG_CHECK;

/* -- Looking in ------------------------------------------------------------------ */

/* One parameter. */
typedef struct rg_param {
  const char *name;  /* "weight", "S1s"; borrowed for ever */
  rg_tensor *tensor; /* borrowed from the layer */
  int32_t trainable; /* 0: fixed signs */
  int32_t _pad;
} rg_param;

/* The number of parameters. */
RG_API int32_t rg_layer_params(const rg_layer *layer);

/* Parameter index (0-based).  out: filled.  RG_EARG. */
RG_API rg_status rg_layer_param(const rg_layer *layer, int32_t index, rg_param *out) RG_CHECK;

/* What a layer is and what it takes. */
typedef struct rg_layer_facts {
  int32_t kind;  /* RG_LAYER_... */
  int32_t dtype; /* of the trainable parameters */
  int32_t form;  /* RG_SIGNS_STORED, _BITS or _SEED; RG_SIGNS_AUTO where there are no signs */
  int32_t act;   /* RG_ACT_... */
  int64_t n_in;
  int64_t n_out;
  int64_t num_terms; /* 0 unless sketched */
  int64_t low_rank;  /* R, or the rank; 0 for dense */
  int64_t trainable_count;
  int64_t stored_count; /* values, signs included, however they are kept, a seed's as well */
  int64_t stored_bytes; /* of the parameters */
  int64_t packed_bytes; /* of the packed copies that exist now */
  double flops_per_row; /* of a convolution: for each place of the result, all channels */
  double p;
  int32_t exceeds_dense; /* 1: its weights take more bytes than a dense layer's of the same type */
  int32_t _pad;
} rg_layer_facts;

/* out: filled.  RG_EARG. */
RG_API rg_status rg_layer_facts_of(const rg_layer *layer, rg_layer_facts *out) RG_CHECK;

/*
** The matrix the layer multiplies by, such that rg_linear(x, w, bias) is its forward pass: the
** weight itself, (A B)', or (1/(2T) sum_t [S1 U1 + U2 S2])'.  Of a convolution its weight.
**
** out      new tensor [n_out x n_in]
*/
RG_API rg_status rg_layer_weight(const rg_layer *layer, rg_tensor **out) RG_CHECK;

/* -- Arithmetic of sketching -------------------------------------------------------- */

/* k = n_in n_out / (n_in + n_out): a sketched layer stores and computes less than the dense one
** where 2 T R < k. */
RG_API double rg_sklinear_break_even(int64_t n_in, int64_t n_out);

/*
** Round the sizes of a sketched layer up to a multiple, as tensor cores want it; a size that would
** grow to more than 1.2 times itself stays, the rank is always rounded (document 002,
** optimize_for_tensor_cores).
**
** multiple at least 1; 8 for 16-bit floats, 16 for int8 (and for Panther's own kernels)
** out      n_in, n_out, low_rank
** RG_EARG.
*/
RG_API rg_status rg_round_for_tensor_cores(int64_t n_in, int64_t n_out, int64_t low_rank,
                                           int64_t multiple, int64_t out[3]) RG_CHECK;

#endif
