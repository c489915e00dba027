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
  bool copied;    /* data is a contiguous copy, because the strides do not describe one matrix */
  rg_block block; /* holds it */
} rg_rows;

/* The rows of an input. */
rg_status rg_rows_begin(const rg_tensor *x, rg_rows *out) RG_CHECK;

/* The rows of a result, columns adjacent. */
rg_status rg_rows_begin_out(const rg_tensor *x, rg_rows *out) RG_CHECK;

/* Fill the copy from the tensor, or the tensor from the copy. */
void rg_rows_read(const rg_rows *rows);
void rg_rows_write(const rg_rows *rows);

/* Give the copy back; its address stays good inside a plan's arena. */
void rg_rows_end(rg_rows *rows);

#endif
