/* SPDX-License-Identifier: MIT */
/*
** Fused chains: elementwise functions one after the other, in one pass over memory.  Nobody calls
** one: the pass elementwise_fusion (graph/pass/fuse.c) makes them.
**
** All links have the shape that the inputs broadcast to.  f32, f16 and bf16 are computed in f32 and
** rounded to a link's type behind it, as one function after the other rounds them; f64 in f64.
*/
#ifndef RIDGE_OP_FUSED_H
#define RIDGE_OP_FUSED_H

#include "op/op.h"

enum {
  RG_FUSED_LINKS = 24,
  RG_FUSED_INPUTS = 24, /* tensors: inputs and, behind them, results, which are loaded again */
  /* in place of an input */
  RG_FUSED_NONE = -1,
  RG_FUSED_NUMBER = -2,
  RG_FUSED_VALUE = -3,
  /* in place of an operation */
  RG_FUSED_CAST = -1
};

/* clang-format off */
#define RG_FUSED_ARGS(A, S, AT) \
  A(S, AT, links, links, FOUND, 0, "the functions, one after the other")
/* clang-format on */
RG_ARGS_STRUCT(rg_fused_args, RG_FUSED_ARGS);

/* What an operation is as a link. */
enum { RG_LINK_NONE, RG_LINK_UNARY, RG_LINK_BINARY };

/* Of an operation by its id: act_back is binary, comparisons are no links. */
int32_t rg_fused_kind(int32_t id);

/* The name of a link's operation. */
const char *rg_fused_name(const rg_link *link);

/* The operations of a chain as text, "mul,add,gelu", which is kept for ever. */
const char *rg_fused_names(const rg_links *links);

/*
** Where element i of a shape is in a tensor that broadcasts to it: at i / div % mod.
**
** Returns false where that is no rule for it: it has gaps, or what it repeats lies inside.  A
** tensor of the whole shape has div 1 and mod count.
*/
static inline bool rg_fused_place(const rg_tensor *x, const int64_t *shape, int32_t ndim,
                                  int64_t *div, int64_t *mod)
{
  enum { BEHIND, INSIDE, BEFORE } part = BEHIND; /* from the last axis on */

  *div = 1;
  *mod = 1;
  if ((x->_flags & RG_TENSOR_CONTIGUOUS) == 0 || x->_ndim > ndim) {
    return false;
  }
  for (int32_t i = ndim - 1, k = x->_ndim - 1; i >= 0; i--, k--) {
    int64_t size = k >= 0 ? x->_shape[k] : 1;

    if (shape[i] == 1 && size == 1) {
      continue;
    }
    if (size == 1) {
      *div *= part == BEHIND ? shape[i] : 1;
      part = part == BEHIND ? BEHIND : BEFORE;
    } else if (size == shape[i] && part != BEFORE) {
      *mod *= size;
      part = INSIDE;
    } else {
      return false;
    }
  }
  return true;
}

#endif
