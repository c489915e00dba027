/* SPDX-License-Identifier: MIT */
/*
** Gradients: which tensors want one, and the way back from a loss.
**
** Every call that a tensor with rg_require_grad has flowed into is kept, with what its gradient
** reads, until nobody can ask for it any more: when the last tensor it led to is gone, or when
** rg_backward has passed it.
*/
#ifndef RIDGE_GRAD_H
#define RIDGE_GRAD_H

#include "ridge/tensor.h"

/*
** Let gradient flow into x, or no longer.
**
** x        float; other tensors of its storage are meant too
** on       0 or 1
** RG_EDTYPE; RG_EARG: x was computed from others that want a gradient.
*/
RG_API rg_status rg_require_grad(rg_tensor *x, int32_t on) RG_CHECK;

/* 1 if gradient flows into x or through it. */
RG_API int32_t rg_requires_grad(const rg_tensor *x);

/* The same elements, through which no gradient flows.  x: any; out: view. */
RG_API rg_status rg_detach(const rg_tensor *x, rg_tensor **out) RG_CHECK;

/*
** Add the gradient of y with respect to every tensor that wants one to that tensor's gradient.
**
** y        float, one element unless dy is given
** dy       the gradient that arrives at y, of its shape and type; NULL: 1
** retain   1: keep what the gradients read, so that the same way can be gone again
** RG_ESHAPE, RG_EARG (no gradient flows through y; it was passed before; a tensor that a gradient
** reads was written to since), RG_ENOSUP (an operation without a gradient).
*/
RG_API rg_status rg_backward(const rg_tensor *y, const rg_tensor *dy, int32_t retain) RG_CHECK;

/*
** The gradient that has arrived at x so far.
**
** x        any
** out      a view of it, or NULL where none has arrived
*/
RG_API rg_status rg_grad_of(const rg_tensor *x, rg_tensor **out) RG_CHECK;

/* Forget x's gradient (set = 0) or fill it with zeros (set = 1: its memory stays). */
RG_API rg_status rg_zero_grad(rg_tensor *x, int32_t set) RG_CHECK;

/* Bytes that recorded calls keep alive for their gradients, and how many calls there are. */
RG_API int64_t rg_grad_saved_bytes(void);
RG_API int64_t rg_grad_calls(void);

#endif
