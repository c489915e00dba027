/* SPDX-License-Identifier: MIT */
/*
** Losses.  What is said in ridge/op.h of all operations holds here.
*/
#ifndef RIDGE_LOSS_H
#define RIDGE_LOSS_H

#include "ridge/op.h"

/* What becomes of the losses of single rows. */
enum { RG_LOSS_MEAN, RG_LOSS_SUM, RG_LOSS_NONE, RG_LOSS_COUNT };

/* What a cross entropy can be told; all zero but { .ignore = -100 } is PyTorch's default. */
/* clang-format off */
#define RG_CROSS_ENTROPY_OPTIONS(A, S, AT) \
  A(S, AT, i64, ignore, WHOLE, -100, "rows with this label do not count") \
  A(S, AT, f64, smoothing, PART, 0, "of the target, spread over all classes") \
  A(S, AT, i32, reduction, REDUCTION, RG_LOSS_MEAN, "what becomes of the losses of single rows")
/* clang-format on */
RG_ARGS_STRUCT(rg_cross_entropy_options, RG_CROSS_ENTROPY_OPTIONS);

/*
** Cross entropy of scores with class labels, log-softmax included.  With p = softmax(x) of a row,
** its label t, C classes, weights w (1 without) and smoothing s, the loss of the row is
**
**   -(1 - s) w[t] log p[t] - s/C sum_c w[c] log p[c]
**
** x        [... x C], float: scores, not probabilities
** labels   [...], an integer type: 0 .. C-1
** weight   [C], float, or NULL
** options  NULL: the mean over all rows, no smoothing, ignore -100
** out      new tensor, f64 for f64 scores and f32 for all others: [] (the sum, or the sum divided
**          by the sum of w[t] over the rows that count: nan where none does) or [...]
** RG_ESHAPE, RG_EDTYPE, RG_EARG (options, a label that is no class; a GPU says the latter when it
** is waited for).
*/
RG_API rg_status rg_cross_entropy(const rg_tensor *x, const rg_tensor *labels,
                                  const rg_tensor *weight, const rg_cross_entropy_options *options,
                                  rg_tensor **out) RG_CHECK;

/*
** The gradient of rg_cross_entropy for x.
**
** dy       the incoming gradient of the loss, of its shape; float
** x, labels, weight, options
**          as there
** lse      [...]: log(sum(exp(x))) of each row
** total    [1], the type of lse: what a mean divides by
** out      new tensor, as x
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_cross_entropy_back(const rg_tensor *dy, const rg_tensor *x,
                                       const rg_tensor *labels, const rg_tensor *lse,
                                       const rg_tensor *total, const rg_tensor *weight,
                                       const rg_cross_entropy_options *options,
                                       rg_tensor **out) RG_CHECK;

#endif
