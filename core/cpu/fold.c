/* SPDX-License-Identifier: MIT */
/*
** Splitting a tensor's axes into those that stay and those that are folded.
*/
#include "cpu/fold.h"

/* The axes named by bits, as a window of x. */
static rg_tensor part_of(const rg_tensor *x, uint32_t bits)
{
  rg_tensor part = rg_tensor_struct(x);

  part._ndim = 0;
  part._count = 1;
  for (int32_t i = 0; i < x->_ndim; i++) {
    if ((bits >> i & 1) != 0) {
      part._shape[part._ndim] = x->_shape[i];
      part._stride[part._ndim] = x->_stride[i];
      part._ndim++;
      part._count *= x->_shape[i];
    }
  }
  return part;
}

void rg_fold_axes_init(rg_fold_axes *split, const rg_tensor *x, uint32_t axes)
{
  rg_tensor keep = part_of(x, ~axes);
  rg_tensor fold = part_of(x, axes);
  const rg_tensor *xs[] = { &keep };

  rg_walk_init(&split->keep, xs, 1, keep._shape, keep._ndim);
  xs[0] = &fold;
  rg_walk_init(&split->fold, xs, 1, fold._shape, fold._ndim);
  split->n_keep = keep._count;
  split->n_fold = fold._count;
}

bool rg_fold_across(const rg_fold_axes *split, int64_t size)
{
  const int64_t fewest = 4; /* kept elements side by side, below which a row is not worth a loop */
  int32_t keep = split->keep.ndim - 1;
  int32_t fold = split->fold.ndim - 1;

  return split->n_fold > 1 && split->keep.stride[0][keep] == size &&
         split->keep.shape[keep] >= fewest && split->fold.stride[0][fold] != size;
}
