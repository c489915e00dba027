/* SPDX-License-Identifier: MIT */
/*
** Max-pool over the middle axis of [N x T x C], without overlap: a hidden result of another type
** (the positions), and a gradient that reads no input, only its shape.
*/
#ifndef RIDGE_TESTS_RECORD_POOL_H
#define RIDGE_TESTS_RECORD_POOL_H

#include "basic.h"

typedef struct t_pool_args {
  int64_t window;
} t_pool_args;

static inline rg_status t_pool_infer(rg_call *call)
{
  const t_pool_args *args = call->args;

  RG_TRY(t_dense(call));
  for (int i = 0; i < 2; i++) {
    t_result(call, call->in[0]);
    call->out[i].shape[1] /= args->window;
  }
  call->out[1].dtype = RG_I32;
  return RG_OK;
}

static inline rg_status t_pool_kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const int64_t *shape = call->out[0].shape;
  int64_t window = ((const t_pool_args *)call->args)->window;
  int64_t long_t = call->in[0]->_shape[1];
  const float *x = call->in[0]->_data;

  (void)frame;
  for (int64_t i = 0; i < out[0]->_count; i++) {
    int64_t c = i % shape[2];
    int64_t t = i / shape[2] % shape[1];
    int64_t n = i / shape[2] / shape[1];
    int64_t best = (n * long_t + t * window) * shape[2] + c;

    for (int64_t k = 1; k < window; k++) {
      int64_t at = (n * long_t + t * window + k) * shape[2] + c;

      best = x[at] > x[best] ? at : best;
    }
    ((float *)out[0]->_data)[i] = x[best];
    if (call->n_out > 1) {
      ((int32_t *)out[1]->_data)[i] = (int32_t)best;
    }
  }
  return RG_OK;
}

/* Inputs dy and positions; the args are the shape of x. */
static inline rg_status t_pool_back_kernel(const rg_call *call, rg_tensor *const *out,
                                           rg_frame *frame)
{
  const float *dy = call->in[0]->_data;
  const int32_t *position = call->in[1]->_data;
  float *dx = out[0]->_data;

  (void)frame;
  memset(dx, 0, (size_t)rg_tensor_bytes(out[0]));
  for (int64_t i = 0; i < call->in[0]->_count; i++) {
    dx[position[i]] += dy[i];
  }
  return RG_OK;
}

static const rg_op t_op_pool_back = { .name = "t_pool_back",
                                      .id = -1,
                                      .as_is = 2,
                                      .args_size = sizeof(rg_meta),
                                      .infer = t_sum_to_infer,
                                      .kernel = t_pool_back_kernel };

static inline rg_status t_pool_grad(rg_grad *g)
{
  return rg_run1(&t_op_pool_back, (const rg_tensor *const[]){ g->dout[0], g->out[1] }, 2, &g->in[0],
                 &g->dx[0]);
}

static const rg_op t_op_pool = { .name = "t_pool",
                                 .id = -1,
                                 .n_hidden = 1,
                                 .args_size = sizeof(t_pool_args),
                                 .infer = t_pool_infer,
                                 .grad = t_pool_grad,
                                 .kernel = t_pool_kernel };

#endif
