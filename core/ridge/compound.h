/* SPDX-License-Identifier: MIT */
/*
** Layers made of several operations, as functions of their weights: group and batch normalisation,
** sketched convolution, the heads of an attention, attention by random features, a recurrent layer
** over a sequence.  Each operation goes through the dispatcher, so that gradients, autocast and
** plans are theirs; what is said in ridge/op.h of all operations holds here.
*/
#ifndef RIDGE_COMPOUND_H
#define RIDGE_COMPOUND_H

#include "ridge/attention.h"
#include "ridge/image.h"
#include "ridge/op.h"

/* -- Normalisation ------------------------------------------------------------------- */

/*
** Group normalisation (Wu and He, 2018): the channels fall into groups, each of which gets mean 0
** and variance 1 in each row by itself.
**
** x        [n x c x ...], float
** weight, bias
**          [c] or NULL
** groups   at least 1; c is a multiple of it
** eps      added to the variance
** out      new tensor, as x
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_group_norm(const rg_tensor *x, const rg_tensor *weight, const rg_tensor *bias,
                               int64_t groups, double eps, rg_tensor **out) RG_CHECK;

/* What a batch normalisation can be told. */
/* clang-format off */
#define RG_BATCH_NORM_OPTIONS(A, S, AT) \
  A(S, AT, f64, eps, FROM0, 1e-5, "added to the variance") \
  A(S, AT, f64, momentum, NUMBER, 0.1, \
    "how much of a batch goes into the running mean and variance") \
  A(S, AT, i32, axis, AXIS, 1, "of the channels") \
  A(S, AT, i32, batch, FLAG, 0, \
    "normalise by the batch's mean and variance, not by the running ones") \
  A(S, AT, i32, keep, FLAG, 0, "and let the batch go into the running ones")
/* clang-format on */
RG_ARGS_STRUCT(rg_batch_norm_options, RG_BATCH_NORM_OPTIONS);

/*
** Batch normalisation (Ioffe and Szegedy, 2015): each channel with mean 0 and variance 1.
**
** x        float, at least two axes, c channels on one of them
** weight, bias
**          [c] or NULL
** mean, var
**          [c], running; the variance that goes into var is the unbiased one
** options  must be given
** out      new tensor, as x
** RG_ESHAPE, RG_EDTYPE; RG_EARG where the variance of one value is asked for.
*/
RG_API rg_status rg_batch_norm(const rg_tensor *x, const rg_tensor *weight, const rg_tensor *bias,
                               rg_tensor *mean, rg_tensor *var,
                               const rg_batch_norm_options *options, rg_tensor **out) RG_CHECK;

/* -- Convolution --------------------------------------------------------------------- */

/*
** A sketched convolution (Panther's SKConv2d, github.com/FahdSeddik/panther;
** docs/why/definitions.md 1.3): y = 1/(2T) U' conv2d(x, S) + b.
**
** x        [n x c x h x w], float
** s        [2TR x c x kh x kw], trained
** u        [2TR x o], signs of +-1/sqrt(R)
** b        [o] or NULL
** terms    T, at least 1
** options  of the convolution with s, without groups; NULL: all zero
** out      new tensor [n x o x oh x ow]
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_sketched_conv2d(const rg_tensor *x, const rg_tensor *s, const rg_tensor *u,
                                    const rg_tensor *b, int64_t terms,
                                    const rg_conv2d_options *options, rg_tensor **out) RG_CHECK;

/* -- Attention ----------------------------------------------------------------------- */

/* How a head attends: a tile of weights at a time (rg_attention), by the whole matrix of them, or
** by random features (rg_feature_attention). */
enum { RG_HEADS_TILES, RG_HEADS_MATRIX, RG_HEADS_FEATURES, RG_HEADS_COUNT };

/* Of which kernel random features are: exp(q k'), or relu(omega q)' relu(omega k). */
enum { RG_FEATURES_SOFTMAX, RG_FEATURES_RELU, RG_FEATURES_COUNT };

/* What the heads can be told. */
/* clang-format off */
#define RG_HEADS_OPTIONS(A, S, AT) \
  A(S, AT, f64, p, SHARE, 0, "dropout of the weights; not with features") \
  A(S, AT, i64, heads, WHOLE, RG_REQUIRED, "that attend side by side") \
  A(S, AT, i32, kind, WHOLE, RG_HEADS_TILES, "RG_HEADS_...") \
  A(S, AT, i32, causal, FLAG, 0, "no place sees those behind it") \
  A(S, AT, i32, block, WHOLE, 0, "side of a block of the mask; 0: 64") \
  A(S, AT, i32, kernel, WHOLE, RG_FEATURES_SOFTMAX, "RG_FEATURES_...")
/* clang-format on */
RG_ARGS_STRUCT(rg_heads_options, RG_HEADS_OPTIONS);

/*
** What stands between the two linear layers of a multi-head attention (Vaswani et al., 2017): in
** each head softmax(q k' / sqrt(n / heads)) v.
**
** qkv      [batch x length x 3n]: q, k and v of every head side by side, in this order
** mask     of rg_attention, or NULL; with RG_HEADS_TILES only
** omega    [features x n / heads] for RG_HEADS_FEATURES, else NULL
** options  must be given
** out      new tensor [batch x length x n]
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_heads(const rg_tensor *qkv, const rg_tensor *mask, const rg_tensor *omega,
                          const rg_heads_options *options, rg_tensor **out) RG_CHECK;

/*
** Directions of random features: blocks of orthogonal rows as long as normal rows are (Choromanski
** et al., Rethinking Attention with Performers, 2021).
**
** features   how many, at least 1
** size       numbers in a row, at least 1
** generator  NULL: the default stream
** out        new tensor [features x size], f32
** RG_EARG.
*/
RG_API rg_status rg_random_features(int64_t features, int64_t size, rg_generator *generator,
                                    rg_tensor **out) RG_CHECK;

/*
** Attention by random features (as there): the estimate phi(q) (phi(k)' v) / (phi(q) sum(phi(k))),
** in time and memory that grow with the length.
**
** q        [... x n x d], float
** k        [... x m x d]; n as m if causal
** v        [... x m x e]
** omega    [features x d]
** kernel   RG_FEATURES_...
** causal   1: no place sees those behind it
** out      new tensor [... x n x e]
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_feature_attention(const rg_tensor *q, const rg_tensor *k, const rg_tensor *v,
                                      const rg_tensor *omega, int32_t kernel, int32_t causal,
                                      rg_tensor **out) RG_CHECK;

/* -- Recurrence ---------------------------------------------------------------------- */

/* Cells, with PyTorch's order of gates: i, f, g, o (Hochreiter and Schmidhuber, 1997; Gers et al.,
** 2000) and r, z, n (Cho et al., 2014). */
enum { RG_CELL_LSTM, RG_CELL_GRU, RG_CELL_COUNT };

/*
** One recurrent layer over a sequence, in one direction.
**
** x        [batch x length x m], length at least 1
** h, c     [1 x batch x n]: the state before; c NULL for a GRU; both NULL: zeros
** wx, bx   [gates n x m], and [gates n] or NULL, of what comes in; 4 gates or 3; wx NULL: x is
**          multiplied by it already, [batch x length x gates n]
** w, b     [gates n x n], and [gates n] or NULL, of what goes from place to place
** cell     RG_CELL_...
** backwards
**          1: from the last place to the first
** y        out: new tensor [batch x length x n], the h of each place
** h_last, c_last
**          out: the state after, [1 x batch x n]; c_last NULL for a GRU
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_recurrent(const rg_tensor *x, const rg_tensor *h, const rg_tensor *c,
                              const rg_tensor *wx, const rg_tensor *bx, const rg_tensor *w,
                              const rg_tensor *b, int32_t cell, int32_t backwards, rg_tensor **y,
                              rg_tensor **h_last, rg_tensor **c_last) RG_CHECK;

#endif
