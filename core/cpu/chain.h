/* SPDX-License-Identifier: MIT */
/*
** One product, or two one after the other through a narrow middle: y = epilogue((x B0) B1).  Every
** linear layer of ridge is one of them.
*/
#ifndef RIDGE_CPU_CHAIN_H
#define RIDGE_CPU_CHAIN_H

#include "cpu/product.h"

typedef struct rg_chain {
  int32_t n; /* products, 1 or 2 */
  rg_weight b[2];
  rg_epilogue epilogue; /* of the last one */
  /* A sketched layer's factors once more, as B0 = [free0|fixed0] and B1 = [fixed1;free1], where
  ** the fixed halves are, or may turn out to be, +-sign everywhere; free[0].n = 0: not one */
  rg_weight free[2];
  rg_weight fixed[2];
} rg_chain;

/*
** Run a chain over the rows of input 0 into out[0]; the middle z goes into out[1] where the call
** has that hidden result, else into scratch.
*/
rg_status rg_chain_run(const rg_chain *chain, const rg_call *call, rg_tensor *const *out,
                       rg_frame *frame) RG_CHECK;

/* Was this step of a plan run before? */
static inline bool rg_chain_ready(const rg_frame *frame)
{
  return frame->memo != NULL && *frame->memo != NULL;
}

/* Run it again with what is in its memo. */
rg_status rg_chain_again(const rg_call *call, rg_frame *frame) RG_CHECK;

#endif
