/* SPDX-License-Identifier: MIT */
/*
** Chains: elementwise functions one after the other, in one pass over memory.  Plans make them of
** their steps for devices whose backend has a kernel for them (graph/fuse.c).
**
** A chain works on one value, element by element, all in f32: a link may load it from an input,
** always puts a function of it (and of a second operand) in its place, rounds it to a type, and may
** store it.  What it stores it may load again.
*/
#ifndef RIDGE_OP_FUSED_H
#define RIDGE_OP_FUSED_H

#include "op/op.h"

enum {
  RG_FUSED_LINKS = 24,
  RG_FUSED_INPUTS = 24, /* tensors that are read */
  /* in place of an input */
  RG_FUSED_NONE = -1,
  RG_FUSED_NUMBER = -2,
  RG_FUSED_SELF = -3
};

typedef struct rg_link {
  int16_t id;      /* of the operation: of one element or two, act_back; -1: only rounded */
  int8_t load;     /* the input that becomes the value first, or RG_FUSED_NONE */
  int8_t with;     /* the second operand: an input, a number, the value itself, or none */
  int8_t store;    /* the result it goes to, or RG_FUSED_NONE */
  int8_t dtype;    /* of its result: RG_F32, RG_F16, RG_BF16 */
  int8_t reversed; /* 1: the value is the second operand */
  int8_t act;      /* of act_back */
  float number;
} rg_link;

typedef struct rg_fused_args {
  int32_t n;
  int32_t _pad;
  rg_link link[RG_FUSED_LINKS];
} rg_fused_args;

/* The record of chains; a backend brings the kernel. */
extern const rg_op rg_op_fused;

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
