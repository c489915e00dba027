/* SPDX-License-Identifier: MIT */
/*
** Batch norm over the rows of a matrix (Ioffe and Szegedy 2015): state that the call writes (the
** running statistics) and hidden results (mean and 1/std of the batch).
*/
#ifndef RIDGE_TESTS_RECORD_NORM_H
#define RIDGE_TESTS_RECORD_NORM_H

#include "basic.h"

typedef struct t_norm_args {
  float eps;
  float momentum;
  bool training;
} t_norm_args;

/* Inputs x [N x C], gamma, beta, running mean, running variance [C]. */
static inline rg_status t_norm_infer(rg_call *call)
{
  RG_TRY(rg_check_arity(call, 5));
  RG_TRY(t_dense(call));
  t_result(call, call->in[0]);
  t_result(call, call->in[1]); /* mean */
  t_result(call, call->in[1]); /* 1/std */
  call->scratch_bytes = 2 * rg_tensor_bytes(call->in[1]);
  return RG_OK;
}

/* Mean and variance of column c. */
static inline void t_norm_column(const rg_tensor *x, int64_t c, double *mean, double *var)
{
  int64_t n = x->_shape[0];
  int64_t stride = x->_shape[1];
  const float *data = x->_data;

  *mean = 0;
  *var = 0;
  for (int64_t r = 0; r < n; r++) {
    *mean += (double)data[r * stride + c] / (double)n;
  }
  for (int64_t r = 0; r < n; r++) {
    double d = (double)data[r * stride + c] - *mean;

    *var += d * d / (double)n;
  }
}

static inline rg_status t_norm_kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const t_norm_args *args = call->args;
  const rg_tensor *x = call->in[0];
  int64_t n = x->_shape[0];
  int64_t channels = x->_shape[1];
  const float *gamma = call->in[1]->_data;
  const float *beta = call->in[2]->_data;
  float *run_mean = call->in[3]->_data;
  float *run_var = call->in[4]->_data;
  bool keeps = call->n_out > 1; /* somebody wants the hidden results */
  float *mean = keeps ? out[1]->_data : frame->scratch;
  float *inverse = keeps ? out[2]->_data : (float *)frame->scratch + channels;

  for (int64_t c = 0; c < channels; c++) {
    double m = (double)run_mean[c];
    double var = (double)run_var[c];

    if (args->training) {
      t_norm_column(x, c, &m, &var);
      run_mean[c] += args->momentum * ((float)m - run_mean[c]);
      run_var[c] += args->momentum * ((float)var - run_var[c]);
    }
    mean[c] = (float)m;
    inverse[c] = (float)(1 / sqrt(var + (double)args->eps));
  }
  for (int64_t i = 0; i < n * channels; i++) {
    int64_t c = i % channels;
    float unit = (((const float *)x->_data)[i] - mean[c]) * inverse[c];

    ((float *)out[0]->_data)[i] = gamma[c] * unit + beta[c];
  }
  return RG_OK;
}

static inline bool t_norm_writes(const rg_call *call, int32_t i)
{
  return i >= 3 && ((const t_norm_args *)call->args)->training;
}

/* -- Gradient: x, gamma, mean, 1/std, dy to dx, dgamma, dbeta -------------------- */

static inline rg_status t_norm_back_infer(rg_call *call)
{
  t_result(call, call->in[0]);
  t_result(call, call->in[1]);
  t_result(call, call->in[1]);
  return t_dense(call);
}

static inline rg_status t_norm_back_kernel(const rg_call *call, rg_tensor *const *out,
                                           rg_frame *frame)
{
  const t_norm_args *args = call->args;
  int64_t n = call->in[0]->_shape[0];
  int64_t channels = call->in[0]->_shape[1];
  const float *x = call->in[0]->_data;
  const float *gamma = call->in[1]->_data;
  const float *mean = call->in[2]->_data;
  const float *inverse = call->in[3]->_data;
  const float *dy = call->in[4]->_data;
  float *dx = out[0]->_data;
  float *dgamma = out[1]->_data;
  float *dbeta = out[2]->_data;

  (void)frame;
  for (int64_t c = 0; c < channels; c++) {
    double sum = 0;
    double along = 0;

    for (int64_t r = 0; r < n; r++) {
      float unit = (x[r * channels + c] - mean[c]) * inverse[c];

      sum += (double)dy[r * channels + c];
      along += (double)dy[r * channels + c] * (double)unit;
    }
    dgamma[c] = (float)along;
    dbeta[c] = (float)sum;
    for (int64_t r = 0; r < n; r++) {
      float unit = (x[r * channels + c] - mean[c]) * inverse[c];
      float d = dy[r * channels + c];

      if (args->training) {
        d -= ((float)sum + unit * (float)along) / (float)n;
      }
      dx[r * channels + c] = gamma[c] * inverse[c] * d;
    }
  }
  return RG_OK;
}

static const rg_op t_op_norm_back = { .name = "t_norm_back",
                                      .id = -1,
                                      .args_size = sizeof(t_norm_args),
                                      .infer = t_norm_back_infer,
                                      .kernel = t_norm_back_kernel };

static inline rg_status t_norm_grad(rg_grad *g)
{
  rg_call back = { .op = &t_op_norm_back,
                   .in = (const rg_tensor *const[]){ g->call->in[0], g->call->in[1], g->out[1],
                                                     g->out[2], g->dout[0] },
                   .n_in = 5,
                   .args = g->call->args };

  return rg_run(&back, g->dx);
}

static const rg_op t_op_norm = { .name = "t_norm",
                                 .id = -1,
                                 .amp = RG_AMP_F32,
                                 .save_in = 3,
                                 .as_is = 24,
                                 .n_hidden = 2,
                                 .args_size = sizeof(t_norm_args),
                                 .infer = t_norm_infer,
                                 .writes = t_norm_writes,
                                 .grad = t_norm_grad,
                                 .kernel = t_norm_kernel };

#endif
