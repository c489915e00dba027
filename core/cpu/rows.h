/* SPDX-License-Identifier: MIT */
/*
** A tensor [... x n] as the rows of one matrix, which is how products see their inputs and results.
*/
#ifndef RIDGE_CPU_ROWS_H
#define RIDGE_CPU_ROWS_H

#include "op/op.h"

typedef struct rg_rows {
  const rg_tensor *tensor;
  void *data;
  int64_t count; /* rows */
  int64_t row;   /* distance between rows, in elements */
  int64_t col;
  rg_block block; /* holds a contiguous copy where the strides do not describe one matrix */
} rg_rows;

/* The rows of an input.  Release them with rg_rows_end(rows, false). */
rg_status rg_rows_begin(const rg_tensor *x, rg_rows *out) RG_CHECK;

/* The rows of a result, columns adjacent; rg_rows_end(rows, true) copies them to where they go. */
rg_status rg_rows_begin_out(const rg_tensor *x, rg_rows *out) RG_CHECK;

void rg_rows_end(rg_rows *rows, bool write);

#endif
