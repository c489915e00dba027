/* SPDX-License-Identifier: MIT */
/*
** Normalisation.  What is said in ridge/op.h of all operations holds here.
*/
#ifndef RIDGE_NORM_H
#define RIDGE_NORM_H

#include "ridge/op.h"

/*
** Layer normalisation over the last axis (Ba et al., 2016), with m and v the mean and the variance
** (divided by the number of elements) of a row:
**
**   y = (x - m) / sqrt(v + eps) * weight + bias
**
** or, with rms, that by the root of the mean square alone (Zhang and Sennrich, 2019):
**
**   y = x / sqrt(mean(x^2) + eps) * weight + bias
**
** x        [... x n], float, n at least 1
** weight   [n], float, or NULL: 1
** bias     [n], float, or NULL: 0
** eps      at least 0
** rms      1: no mean is subtracted
** out      new tensor, as x; f32 under autocast
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_layer_norm(const rg_tensor *x, const rg_tensor *weight, const rg_tensor *bias,
                               double eps, int32_t rms, rg_tensor **out) RG_CHECK;

/*
** The gradients of rg_layer_norm for x, weight and bias.
**
** dy       as its result
** x, weight, rms
**          as there
** mean     [...], f64 for f64 rows and f32 for all others: m of each row, 0 with rms
** scale    the same: 1 / sqrt(...) of each row
** dx, dw, db
**          out: new tensors, dx as x, dw and db [n] of the type of mean
** RG_ESHAPE, RG_EDTYPE.
*/
RG_API rg_status rg_layer_norm_back(const rg_tensor *dy, const rg_tensor *x,
                                    const rg_tensor *weight, const rg_tensor *mean,
                                    const rg_tensor *scale, int32_t rms, rg_tensor **dx,
                                    rg_tensor **dw, rg_tensor **db) RG_CHECK;

#endif
