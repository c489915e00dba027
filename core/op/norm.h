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

typedef struct rg_layer_norm_args {
  double eps;
  int32_t rms;
  int32_t _pad;
} rg_layer_norm_args;

enum { RG_NORM_PARTS = 32 }; /* at most: sums over rows that stand side by side before they meet */

/* Parts of the sums over so many rows: which they are depends on the rows alone. */
int64_t rg_norm_parts(int64_t rows);

#endif
