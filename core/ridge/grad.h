/* SPDX-License-Identifier: MIT */
/*
** Gradients: which tensors require one, and the backward pass from a loss.
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
** x        float; other tensors of its storage are meant too, unless it is a part by itself
**          (rg_tensor_set_part)
** on       0 or 1
** RG_EDTYPE; RG_EARG: x was computed from others that require a gradient.
*/
RG_API rg_status rg_require_grad(rg_tensor *x, int32_t on) RG_CHECK;

/* 1 if gradient flows into x or through it. */
RG_API int32_t rg_requires_grad(const rg_tensor *x);

/* 1 if x was computed from tensors that require a gradient, so that gradient flows through it. */
RG_API int32_t rg_grad_flows_through(const rg_tensor *x);

/*
** Add the gradient of y with respect to every tensor that requires one to that tensor's gradient.
**
** y        float, one element unless dy is given
** dy       the incoming gradient of y, of its shape and type; NULL: 1
** retain   1: keep what the gradients read, so that the same pass can be run again
** RG_ESHAPE, RG_EARG (no gradient flows through y; it was passed before; a tensor that a gradient
** reads was written to since), RG_ENOSUP (an operation without a gradient).
*/
RG_API rg_status rg_backward(const rg_tensor *y, const rg_tensor *dy, int32_t retain) RG_CHECK;

/* -- The backward pass, step by step ----------------------------------------------------------- */

/*
** What rg_backward does, for whoever records functions of his own (rg_grad_record), or wants
** gradients handed to him:
**
**   rg_backward_begin(y, dy, flags, &pass);
**   while ((status = rg_backward_go(pass)) == RG_ENEEDLUA) {
**     id = rg_backward_asks(pass, dout);     compute dx from dout
**     rg_backward_give(pass, dx, n);
**   }
**   rg_backward_take(pass, x, &dx);          with RG_BACKWARD_HAND_OUT
**   rg_backward_end(pass);
*/
typedef struct rg_backward_pass rg_backward_pass;

enum {
  RG_BACKWARD_RETAIN = 1,   /* keep what the gradients read */
  RG_BACKWARD_CREATE = 2,   /* gradients are recorded themselves, and what they read is kept */
  RG_BACKWARD_HAND_OUT = 4, /* nothing is added to any tensor's gradient */
  RG_BACKWARD_TELL = 8      /* stop where the gradient of a watched leaf is complete */
};

/* y, dy: as in rg_backward; flags: RG_BACKWARD_... or 0; out: to be ended by rg_backward_end. */
RG_API rg_status rg_backward_begin(const rg_tensor *y, const rg_tensor *dy, int32_t flags,
                                   rg_backward_pass **out) RG_CHECK;

/* Go on along pass: RG_OK at the end, RG_ENEEDLUA where a function's gradient is asked for or a
** leaf is told (rg_backward_leaf). */
RG_API rg_status rg_backward_go(rg_backward_pass *pass) RG_CHECK;

/* The number of the function that pass asks for, 0 if none.  dout: filled, 8 places: new references
** to the incoming gradients of its results, NULL where none is. */
RG_API int64_t rg_backward_asks(rg_backward_pass *pass, rg_tensor **dout);

/* Give pass its gradients.  dx: count of them, one for each input, NULL for none.  RG_ESHAPE,
** RG_EARG. */
RG_API rg_status rg_backward_give(rg_backward_pass *pass, rg_tensor *const *dx,
                                  int32_t count) RG_CHECK;

/* At the end of pass: the gradient of x, which requires one; out: NULL where there is none. */
RG_API rg_status rg_backward_take(rg_backward_pass *pass, const rg_tensor *x,
                                  rg_tensor **out) RG_CHECK;

/*
** The number (rg_grad_watch) of the leaf whose gradient pass has just completed, 0 if it stands
** elsewhere: nothing that is left of the pass adds to it, rg_grad_of has it, and rg_backward_go
** goes on.  Leaves are told in the order they are complete in, each once, and only where gradient
** flowed.
*/
RG_API int64_t rg_backward_leaf(const rg_backward_pass *pass);

/* pass is part of outer, which waits for the function that began it (RG_FUNCTION_GOES_BACK): the
** leaves that pass adds to are told by outer, when no such function is left there. */
RG_API void rg_backward_within(rg_backward_pass *pass, rg_backward_pass *outer);

/* After RG_ENAN on pass: the line (rg_line_set) of the call whose gradient it is; NULL: unknown. */
RG_API const char *rg_backward_line(const rg_backward_pass *pass);

/* Set pass aside (aside = 1) while whoever it asks waits and this thread computes other things; go
** on with it (0). */
RG_API void rg_backward_set_aside(rg_backward_pass *pass, int32_t aside);

/* Release pass, wherever it stands. */
RG_API void rg_backward_end(rg_backward_pass *pass);

enum {
  RG_FUNCTION_SAVE = 1,     /* inputs are kept; a backward pass refuses ones written to since */
  RG_FUNCTION_GOES_BACK = 2 /* its gradient runs passes within the one that asks */
};

/*
** Record a function whose gradient the caller computes: from now on out came from in.
**
** in       n tensors
** out      n_out tensors, computed from them while nothing was recorded
** id       above 0, the caller's number for it; rg_grad_dead says when it is needed no more
** flags    RG_FUNCTION_... or 0
** recorded out: 0 if no input requires a gradient: the number is free at once
** RG_EARG.
*/
RG_API rg_status rg_grad_record(const rg_tensor *const *in, int32_t n, rg_tensor *const *out,
                                int32_t n_out, int64_t id, int32_t flags,
                                int32_t *recorded) RG_CHECK;

/* Numbers of functions nobody can ask for any more, and of watched leaves that are gone.  ids:
** filled, up to n.  Returns how many. */
RG_API int64_t rg_grad_dead(int64_t *ids, int64_t n);

/*
** Watch x: passes with RG_BACKWARD_TELL stop behind the last call that adds to its gradient, so
** that an all-reduce, or a step of an optimizer, can begin while the rest of the pass is still to
** run.
**
** x        a leaf (rg_require_grad); other tensors of its storage are meant too
** id       above 0, a number like that of rg_grad_record; 0: watch it no longer
** RG_EARG: x requires no gradient, or was computed.
*/
RG_API rg_status rg_grad_watch(rg_tensor *x, int64_t id) RG_CHECK;

/* The number that x is watched under, 0 if it is not. */
RG_API int64_t rg_grad_watched(const rg_tensor *x);

/* -- Accumulated gradients --------------------------------------------------------------------- */

/*
** The accumulated gradient of x.
**
** x        any
** out      a view of it, or NULL where there is none
*/
RG_API rg_status rg_grad_of(const rg_tensor *x, rg_tensor **out) RG_CHECK;

/* Forget x's gradient (set = 0) or fill it with zeros (set = 1: its memory stays). */
RG_API rg_status rg_zero_grad(rg_tensor *x, int32_t set) RG_CHECK;

/*
** Let another tensor be x's accumulated gradient: one that was it before, so that a plan which
** writes there goes on being seen.
**
** x        a leaf
** grad     is held; NULL: none from here on
** before   the one that was it, which is the caller's; NULL: there was none
**
** RG_EARG where x is no leaf, or its gradient is of another type, size or device.
*/
RG_API rg_status rg_grad_exchange(rg_tensor *x, rg_tensor *grad, rg_tensor **before) RG_CHECK;

/*
** Let a tensor that was x's accumulated gradient be it again.
**
** x        no leaf any more: nothing is done
** grad     is held
** contents with what the gradient is now: what it holds, zeros where there is none
**
** RG_EARG where the gradient is of another type, size or device.
*/
RG_API rg_status rg_grad_attach(rg_tensor *x, rg_tensor *grad, int32_t contents) RG_CHECK;

/* x's accumulated gradient itself in out, which the caller releases; NULL where there is none. */
RG_API rg_status rg_grad_held(const rg_tensor *x, rg_tensor **out) RG_CHECK;

/* -- Buffers of gradients ---------------------------------------------------------------------- */

/*
** Let backward passes make x's gradient in memory of the caller's: the range of an arena that is
** sent to other processes, for example.  Where x has no gradient yet, the first one is written into
** the buffer by the call that computes it, and only what cannot be is copied (rg_grad_copied);
** what comes later is added in place, as ever.  So x's gradient is the same tensor behind each
** rg_zero_grad.  Gradients that are handed out or recorded, and a plan's, are made elsewhere.
**
** x        a leaf on the CPU, as long as it is one
** memory   contiguous, of the gradient's type and size; held.  NULL: no buffer from here on
** RG_EARG, RG_EDEVICE, RG_ENOMEM.
*/
RG_API rg_status rg_grad_set_buffer(rg_tensor *x, rg_tensor *memory) RG_CHECK;

/*
** Behind this the buffer holds x's gradient, which is that memory from here on: one that is
** elsewhere is copied, and where there is none the buffer is filled with zeros, and there is none.
**
** had      out: 1 if there is a gradient
** RG_EARG: x has no buffer.
*/
RG_API rg_status rg_grad_into_buffer(rg_tensor *x, int32_t *had) RG_CHECK;

/* What lies in the buffer is x's gradient from here on, whatever that was. RG_EARG likewise. */
RG_API rg_status rg_grad_from_buffer(rg_tensor *x) RG_CHECK;

/* Bytes of x's gradients that were made elsewhere and copied into its buffer so far. */
RG_API int64_t rg_grad_copied(const rg_tensor *x);

/* How often the gradient of a leaf has become another tensor, or none, in this process. */
RG_API int64_t rg_grad_changes(void);

/* Something a recorded call keeps because its gradient reads it. */
typedef struct rg_saved {
  const char *op;
  const char *line;   /* of the call (rg_line_set); NULL: not known */
  int64_t bytes;      /* of the memory it lies in */
  int64_t memory;     /* the same number for the same memory */
  int32_t index;      /* input 1, 2, ...; result -1, -2, ... */
  int32_t param;      /* 1: a layer's parameter, which is there anyway */
  const char *module; /* whose call it was in, as a path; NULL: none, or nobody asked */
  int32_t dtype;      /* of what is kept */
} rg_saved;

/*
** What is kept for the backward pass from y.
**
** list     filled, up to room entries; the last calls first
** count    out: how many there are
*/
RG_API rg_status rg_grad_saved(const rg_tensor *y, rg_saved *list, int64_t room,
                               int64_t *count) RG_CHECK;

/* Bytes that recorded calls keep alive for their gradients, and how many calls there are. */
RG_API int64_t rg_grad_saved_bytes(void);
RG_API int64_t rg_grad_calls(void);

#endif
