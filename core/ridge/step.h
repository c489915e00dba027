/* SPDX-License-Identifier: MIT */
/*
** Steps of optimizers, each over any number of parameters in one call, and what bounds a gradient.
** What is said in ridge/op.h of all operations holds here.
**
** What changes from step to step comes as tensors, so that a replayed plan sees it.  No gradient
** flows through a step, and parameters that require one may be stepped.
*/
#ifndef RIDGE_STEP_H
#define RIDGE_STEP_H

#include "ridge/op.h"

/* What every step takes. */
typedef struct rg_step_inputs {
  int32_t n; /* parameters, at least 1 */
  int32_t _pad;
  rg_tensor *const *param;      /* n, float, any strides; written to */
  const rg_tensor *const *grad; /* n, each of its parameter's shape; float */
  rg_tensor *const *state[3];   /* n each, of their parameter's shape, f64 for f64 parameters and
                                 ** f32 for all others; written to; NULL where a step has fewer */
  const rg_tensor *rate;        /* one element, float: the learning rate */
  const rg_tensor *scale;       /* one element, float: gradients are multiplied by it; where it is
                                 ** not finite the whole step is left out; NULL: 1 */
  rg_tensor *count;             /* [1], f64: steps taken so far; the step adds 1 */
} rg_step_inputs;

/* What gradient descent can be told. */
/* clang-format off */
#define RG_SGD_OPTIONS(A, S, AT) \
  A(S, AT, f64, momentum, SHARE, 0, "of earlier steps; 0: there is no state") \
  A(S, AT, f64, dampening, PART, 0, "of what momentum takes in") \
  A(S, AT, f64, weight_decay, FROM0, 0, "pull towards 0: g + weight_decay p") \
  A(S, AT, i32, nesterov, FLAG, 0, "the momentum of Nesterov")
/* clang-format on */
RG_ARGS_STRUCT(rg_sgd_options, RG_SGD_OPTIONS);

/*
** Gradient descent, with momentum as Sutskever et al. (2013) and PyTorch have it:
** b = momentum b + (1 - dampening) g (b = g in the first step), p -= rate b, or with Nesterov
** p -= rate (g + momentum b).
**
** inputs   state[0]: b, where momentum is not 0
** options  NULL: all zero
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_sgd_step(const rg_step_inputs *inputs, const rg_sgd_options *options) RG_CHECK;

/* What Adam can be told; rg_adam_step takes them as they are, 0 included. */
/* clang-format off */
#define RG_ADAM_OPTIONS(A, S, AT) \
  A(S, AT, f64, beta1, SHARE, 0.9, "decay of the first moment") \
  A(S, AT, f64, beta2, SHARE, 0.999, "decay of the second moment") \
  A(S, AT, f64, eps, FROM0, 1e-8, "added to the root") \
  A(S, AT, f64, weight_decay, FROM0, 0, "times the parameter") \
  A(S, AT, i32, decoupled, FLAG, 0, "p -= rate weight_decay p (AdamW), not with the gradient") \
  A(S, AT, i32, amsgrad, FLAG, 0, "divide by the largest second moment so far (Reddi et al., 2018)")
/* clang-format on */
RG_ARGS_STRUCT(rg_adam_options, RG_ADAM_OPTIONS);

/*
** Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019), step t:
** m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g g,
** p -= rate m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps).
**
** inputs   state: m, v and, with amsgrad, the largest v
** options  must be given
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_adam_step(const rg_step_inputs *inputs,
                              const rg_adam_options *options) RG_CHECK;

/* What Lion can be told. */
/* clang-format off */
#define RG_LION_OPTIONS(A, S, AT) \
  A(S, AT, f64, beta1, SHARE, 0.9, "of the momentum in the step") \
  A(S, AT, f64, beta2, SHARE, 0.99, "of the momentum that is kept") \
  A(S, AT, f64, weight_decay, FROM0, 0, "pull towards 0, beside the step")
/* clang-format on */
RG_ARGS_STRUCT(rg_lion_options, RG_LION_OPTIONS);

/*
** Lion (Chen et al., 2023): p -= rate (sign(beta1 m + (1 - beta1) g) + weight_decay p), then
** m = beta2 m + (1 - beta2) g.
**
** inputs   state[0]: m
** options  must be given
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_lion_step(const rg_step_inputs *inputs,
                              const rg_lion_options *options) RG_CHECK;

/*
** The Euclidean norm of all elements of all tensors, added up in f64: nan or inf where one of them
** is.
**
** xs       n, float, any shapes and types
** n        at least 1
** out      new tensor [], f64
** RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_total_norm(const rg_tensor *const *xs, int32_t n, rg_tensor **out) RG_CHECK;

#endif
