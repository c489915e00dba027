/* SPDX-License-Identifier: MIT */
/*
** Arguments of reductions, and how their work is cut.
*/
#ifndef RIDGE_OP_REDUCE_H
#define RIDGE_OP_REDUCE_H

#include "op/op.h"

/* clang-format off */
#define RG_REDUCE_ARGS(A, S, AT) \
  A(S, AT, u32, axes, AXES, 0, "those that are reduced") \
  A(S, AT, i32, keep, FLAG, 0, "reduced axes stay with size 1")
/* clang-format on */
/* clang-format off */
#define RG_NORM_ARGS(A, S, AT) \
  A(S, AT, f64, p, NUMBER, 2, "above 0; infinity: the largest magnitude") \
  RG_REDUCE_ARGS(A, S, AT)
/* clang-format on */
RG_ARGS_STRUCT(rg_reduce_args, RG_NORM_ARGS);

/*
** Elements of one output are reduced in chunks that do not depend on the number of threads, so that
** neither do the results; the chunks' results wait in scratch memory.
*/
enum {
  RG_REDUCE_CHUNK = 65536,    /* along memory */
  RG_REDUCE_CHUNK_ROWS = 4096 /* across rows, a whole row of outputs at a time */
};

/* A device, which does many parts at once, makes smaller ones: elements of an output in a part, at
** least, and results of all parts together, at most. */
enum { RG_REDUCE_PART = 64, RG_REDUCE_RESULTS = 262144 };

rg_status rg_sum_grad(rg_grad *g);
rg_status rg_mean_grad(rg_grad *g);
rg_status rg_prod_grad(rg_grad *g);
rg_status rg_extreme_grad(rg_grad *g);
rg_status rg_norm_grad(rg_grad *g);

#endif
