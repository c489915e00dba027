/* SPDX-License-Identifier: MIT */
/*
** Rows of floats as bytes, for kernels that multiply them.
*/
#ifndef RIDGE_CPU_QUANTIZE_H
#define RIDGE_CPU_QUANTIZE_H

#include "op/op.h"

/* The rows of x as i8 without gaps, and the scale of each, as the operation quantize_rows makes
** them. */
rg_status rg_rows_to_bytes(const rg_tensor *x, int8_t *q, float *scale) RG_CHECK;

#endif
