/* SPDX-License-Identifier: MIT */
/*
** Arguments of normalisation, and how its work is cut.
*/
#ifndef RIDGE_OP_NORM_H
#define RIDGE_OP_NORM_H

#include "op/op.h"
#include "ridge/norm.h"

/* Inputs of layer_norm_back; the weight may be NULL, as both are in layer_norm. */
enum { RG_LNB_DY, RG_LNB_X, RG_LNB_MEAN, RG_LNB_SCALE, RG_LNB_WEIGHT };

/* clang-format off */
#define RG_LAYER_NORM_ARGS(A, S, AT) \
  A(S, AT, f64, eps, NUMBER, 1e-5, "added to the variance, from 0") \
  A(S, AT, i32, rms, FLAG, 0, "root mean square norm: no mean is taken away")
/* clang-format on */
RG_ARGS_STRUCT(rg_layer_norm_args, RG_LAYER_NORM_ARGS);

/* At most: sums over rows that stand side by side before they meet.  On a GPU each is one block's,
** as large as a multiprocessor holds, and an H100 or H200 has so many multiprocessors; on any other
** they are as many, so that the bits are the same. */
enum { RG_NORM_PARTS = 32, RG_NORM_PARTS_GPU = 132 };

/* Parts of the sums over so many rows: which they are depends on the rows, and on whether it is the
** CPU, alone. */
int64_t rg_norm_parts(int64_t rows, int32_t device);

#endif
