/* SPDX-License-Identifier: MIT */
/*
** Scaled dot-product attention of one head over [N x T x D], causal or not: scratch for a row of
** weights, and the row's log-sum-exp as hidden result, from which the gradient makes the weights
** again (Dao 2023, FlashAttention-2, algorithm 2, without tiles).
*/
#ifndef RIDGE_TESTS_RECORD_ATTENTION_H
#define RIDGE_TESTS_RECORD_ATTENTION_H

#include "basic.h"

typedef struct t_attention_args {
  float scale;
  bool causal;
} t_attention_args;

static inline rg_status t_attention_infer(rg_call *call)
{
  RG_TRY(rg_check_arity(call, 3));
  RG_TRY(t_dense(call));
  t_result(call, call->in[0]);
  call->out[call->n_out++] = t_meta(RG_F32, 2, call->in[0]->_shape);
  call->scratch_bytes = call->in[1]->_shape[1] * 4;
  return RG_OK;
}

static inline float t_dot_product(const float *x, const float *y, int64_t n)
{
  float sum = 0;

  for (int64_t i = 0; i < n; i++) {
    sum += x[i] * y[i];
  }
  return sum;
}

static inline rg_status t_attention_kernel(const rg_call *call, rg_tensor *const *out,
                                           rg_frame *frame)
{
  const t_attention_args *args = call->args;
  int64_t length = call->in[0]->_shape[1];
  int64_t d = call->in[0]->_shape[2];
  const float *q = call->in[0]->_data;
  const float *k = call->in[1]->_data;
  const float *v = call->in[2]->_data;
  float *o = out[0]->_data;
  float *weight = frame->scratch;

  memset(o, 0, (size_t)rg_tensor_bytes(out[0]));
  for (int64_t row = 0; row < call->in[0]->_shape[0] * length; row++) {
    int64_t first = row / length * length;
    int64_t n = args->causal ? row - first + 1 : length;
    float most = -INFINITY;
    float sum = 0;

    for (int64_t j = 0; j < n; j++) {
      weight[j] = args->scale * t_dot_product(q + row * d, k + (first + j) * d, d);
      most = fmaxf(most, weight[j]);
    }
    for (int64_t j = 0; j < n; j++) {
      weight[j] = expf(weight[j] - most);
      sum += weight[j];
    }
    for (int64_t j = 0; j < n; j++) {
      for (int64_t i = 0; i < d; i++) {
        o[row * d + i] += weight[j] / sum * v[(first + j) * d + i];
      }
    }
    if (call->n_out > 1) {
      ((float *)out[1]->_data)[row] = most + logf(sum);
    }
  }
  return RG_OK;
}

/* -- Gradient: q, k, v, o, log-sum-exp, do to dq, dk, dv ------------------------- */

static inline rg_status t_attention_back_infer(rg_call *call)
{
  for (int i = 0; i < 3; i++) {
    t_result(call, call->in[i]);
  }
  return t_dense(call);
}

static inline rg_status t_attention_back_kernel(const rg_call *call, rg_tensor *const *out,
                                                rg_frame *frame)
{
  const t_attention_args *args = call->args;
  int64_t length = call->in[0]->_shape[1];
  int64_t d = call->in[0]->_shape[2];
  const float *q = call->in[0]->_data;
  const float *k = call->in[1]->_data;
  const float *v = call->in[2]->_data;
  const float *o = call->in[3]->_data;
  const float *lse = call->in[4]->_data;
  const float *dout = call->in[5]->_data;
  float *dq = out[0]->_data;
  float *dk = out[1]->_data;
  float *dv = out[2]->_data;

  (void)frame;
  for (int i = 0; i < 3; i++) {
    memset(out[i]->_data, 0, (size_t)rg_tensor_bytes(out[i]));
  }
  for (int64_t row = 0; row < call->in[0]->_shape[0] * length; row++) {
    int64_t first = row / length * length;
    int64_t n = args->causal ? row - first + 1 : length;
    float delta = t_dot_product(dout + row * d, o + row * d, d);

    for (int64_t j = first; j < first + n; j++) {
      float p = expf(args->scale * t_dot_product(q + row * d, k + j * d, d) - lse[row]);
      float dp = t_dot_product(dout + row * d, v + j * d, d);
      float ds = args->scale * p * (dp - delta);

      for (int64_t i = 0; i < d; i++) {
        dv[j * d + i] += p * dout[row * d + i];
        dq[row * d + i] += ds * k[j * d + i];
        dk[j * d + i] += ds * q[row * d + i];
      }
    }
  }
  return RG_OK;
}

static const rg_op t_op_attention_back = { .name = "t_attention_back",
                                           .id = -1,
                                           .args_size = sizeof(t_attention_args),
                                           .infer = t_attention_back_infer,
                                           .kernel = t_attention_back_kernel };

static inline rg_status t_attention_grad(rg_grad *g)
{
  rg_call back = { .op = &t_op_attention_back,
                   .in = (const rg_tensor *const[]){ g->call->in[0], g->call->in[1], g->call->in[2],
                                                     g->out[0], g->out[1], g->dout[0] },
                   .n_in = 6,
                   .args = g->call->args };

  return rg_run(&back, g->dx);
}

static const rg_op t_op_attention = { .name = "t_attention",
                                      .id = -1,
                                      .save_in = 7,
                                      .save_out = 1,
                                      .n_hidden = 1,
                                      .args_size = sizeof(t_attention_args),
                                      .infer = t_attention_infer,
                                      .grad = t_attention_grad,
                                      .kernel = t_attention_kernel };

#endif
