/* SPDX-License-Identifier: MIT */
/*
** Attention.  What is said in ridge/op.h of all operations holds here.
*/
#ifndef RIDGE_ATTENTION_H
#define RIDGE_ATTENTION_H

#include "ridge/op.h"

/* Zeros everywhere are the defaults. */
typedef struct rg_attention_options {
  double scale;   /* of the scores; 0: 1 / sqrt(d) */
  int32_t causal; /* 1: query i sees keys 0 .. i */
  int32_t block;  /* side of a block of the mask; 0: 64 */
} rg_attention_options;

/*
** Scaled dot-product attention (Vaswani et al., 2017), y = softmax(scale q k') v, a tile at a time:
** memory grows with the length, not with its square (Dao et al., FlashAttention, 2022; Milakov and
** Gimelshein, Online normalizer calculation for softmax, 2018).
**
** q        [... x n x d], float
** k        [... x m x d], the leading axes those of q
** v        [... x m x e]
** mask     which blocks of scores there are, the same for all leading axes: bool,
**          [n / block x m / block] rounded up; NULL: all.  Blocks that are not there cost nothing
**          (Child et al., Sparse Transformers, 2019); a query that sees no key gets zeros.
**          A nan or infinity in a value may also reach queries that do not see it, since 0 times
**          it is nan; on a device one in a key may, too.
** options  NULL: the defaults
** out      [... x n x e], of the type the inputs meet at (bf16 or f16 under autocast); sums are
**          kept in f32, or f64 for f64
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_attention(const rg_tensor *q, const rg_tensor *k, const rg_tensor *v,
                              const rg_tensor *mask, const rg_attention_options *options,
                              rg_tensor **out) RG_CHECK;

/*
** The same with dropout of the weights: y = dropout(softmax(scale q k')) v.  Which are dropped is
** what rg_dropout says of the matrix of all weights, [... x n x m], whatever the device and the
** type: that matrix is never there.
**
** q, k, v, mask, options, out
**          as above
** p        probability of 0, 0 <= p < 1; the other weights are scaled by 1 / (1 - p)
** generator
**          NULL: the default stream
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_attention_dropout(const rg_tensor *q, const rg_tensor *k, const rg_tensor *v,
                                      const rg_tensor *mask, const rg_attention_options *options,
                                      double p, rg_generator *generator, rg_tensor **out) RG_CHECK;

/*
** The gradients of rg_attention for q, k and v, the scores computed again tile by tile.
**
** q, k, v, mask, options
**          as there
** dy, y    as its result
** lse      [... x n], f64 for f64 and f32 for all others: log(sum(exp(scale q k'))) of each query;
**          inf for one that sees no key
** dq, dk, dv
**          out: new tensors, as q, k and v
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_attention_back(const rg_tensor *dy, const rg_tensor *q, const rg_tensor *k,
                                   const rg_tensor *v, const rg_tensor *y, const rg_tensor *lse,
                                   const rg_tensor *mask, const rg_attention_options *options,
                                   rg_tensor **dq, rg_tensor **dk, rg_tensor **dv) RG_CHECK;

/*
** The gradients of rg_attention_dropout.
**
** q, k, v, mask, options, p
**          as there
** dy, y, lse, dq, dk, dv
**          as in rg_attention_back; lse is that of the weights before dropout
** draw     i64 [2]: seed and offset of the numbers that the forward pass took
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_attention_dropout_back(const rg_tensor *dy, const rg_tensor *q,
                                           const rg_tensor *k, const rg_tensor *v,
                                           const rg_tensor *y, const rg_tensor *lse,
                                           const rg_tensor *draw, const rg_tensor *mask,
                                           const rg_attention_options *options, double p,
                                           rg_tensor **dq, rg_tensor **dk, rg_tensor **dv) RG_CHECK;

#endif
