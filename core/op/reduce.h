/* SPDX-License-Identifier: MIT */
/*
** Arguments of reductions, and how their work is cut.
*/
#ifndef RIDGE_OP_REDUCE_H
#define RIDGE_OP_REDUCE_H

#include "op/op.h"

typedef struct rg_reduce_args {
  uint32_t axes; /* bit i: axis i is reduced */
  int32_t keep;  /* 1: it stays with size 1 */
  double p;      /* norm: the exponent */
} rg_reduce_args;

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
