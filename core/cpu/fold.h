/* SPDX-License-Identifier: MIT */
/*
** Splitting a tensor's axes into those that stay and those that are folded.
*/
#ifndef RIDGE_CPU_FOLD_H
#define RIDGE_CPU_FOLD_H

#include "cpu/cpu.h"

typedef struct rg_fold_axes {
  rg_walk keep; /* over the axes that stay; data is the tensor's */
  rg_walk fold; /* over the others; set data[0] to where a kept position lies */
  int64_t n_keep;
  int64_t n_fold;
} rg_fold_axes;

/* axes: bit i for each axis to fold. */
void rg_fold_axes_init(rg_fold_axes *split, const rg_tensor *x, uint32_t axes);

/* Are kept positions contiguous while folded ones do not?  Then whole rows are folded at
** once. */
bool rg_fold_across(const rg_fold_axes *split, int64_t size);

#endif
