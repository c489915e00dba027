/* SPDX-License-Identifier: MIT */
/*
** Arguments of products with weights of which n of each m inputs are there, and how they lie.
**
** Sixteen outputs lie together, and inputs are taken sixteen at a time: a window, in which each of
** the outputs has as many entries as every other (16 n / m).  values[outputs / 16][window][entry]
** has the weights of the sixteen outputs, and an entry's index says for each which input of the
** window it belongs to: entries 2 i and 2 i + 1 of all windows in turn share the bytes i of
** index[outputs / 16], the first in the lower half.  Whatever an index is, it lies in its window;
** behind the last output and the last input there are zeros.
*/
#ifndef RIDGE_OP_N_OF_M_LINEAR_H
#define RIDGE_OP_N_OF_M_LINEAR_H

#include "op/op.h"

enum { RG_WINDOW = 16 }; /* inputs of a window, outputs that lie together */

/* How many sixteens n elements are in. */
static inline int64_t rg_windows(int64_t n)
{
  return n / RG_WINDOW + (n % RG_WINDOW != 0);
}

/* clang-format off */
#define RG_N_OF_M_LINEAR_ARGS(A, S, AT) \
  A(S, AT, i32, act, ACT, RG_ACT_NONE, "activation") \
  A(S, AT, i32, dtype, DTYPE, RG_F32, "of the result: f32, bf16 or f16") \
  A(S, AT, i64, rows, WHOLE, RG_REQUIRED, "outputs")
/* clang-format on */
RG_ARGS_STRUCT(rg_n_of_m_linear_args, RG_N_OF_M_LINEAR_ARGS);

#endif
