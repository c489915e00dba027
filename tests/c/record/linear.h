/* SPDX-License-Identifier: MIT */
/*
** Linear, y = x W' + b over rows of the last axis, with an optional b: the gradient is one
** operation with three results.
*/
#ifndef RIDGE_TESTS_RECORD_LINEAR_H
#define RIDGE_TESTS_RECORD_LINEAR_H

#include "basic.h"

static inline rg_status t_linear_infer(rg_call *call)
{
  const rg_tensor *x = call->in[0];
  const rg_tensor *w = call->in[1];

  RG_TRY(t_dense(call));
  if (x->_shape[x->_ndim - 1] != w->_shape[1]) {
    return rg_fail(RG_ESHAPE, "t_linear: x and w do not fit");
  }
  t_result(call, x);
  call->out[0].shape[x->_ndim - 1] = w->_shape[0];
  return RG_OK;
}

static inline rg_status t_linear_kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  int64_t k = call->in[1]->_shape[1];
  int64_t n = call->in[1]->_shape[0];
  int64_t rows = call->in[0]->_count / k;
  const float *x = call->in[0]->_data;
  const float *w = call->in[1]->_data;
  const float *b = call->in[2] != NULL ? call->in[2]->_data : NULL;
  float *y = out[0]->_data;

  (void)frame;
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t j = 0; j < n; j++) {
      float sum = b != NULL ? b[j] : 0;

      for (int64_t i = 0; i < k; i++) {
        sum += x[r * k + i] * w[j * k + i];
      }
      y[r * n + j] = sum;
    }
  }
  return RG_OK;
}

/* -- Gradient: x, w, dy to dx, dw, db -------------------------------------------- */

static inline rg_status t_linear_back_infer(rg_call *call)
{
  t_result(call, call->in[0]);
  t_result(call, call->in[1]);
  call->out[call->n_out++] = t_meta(RG_F32, 1, &call->in[1]->_shape[0]);
  return t_dense(call);
}

static inline rg_status t_linear_back_kernel(const rg_call *call, rg_tensor *const *out,
                                             rg_frame *frame)
{
  int64_t k = call->in[1]->_shape[1];
  int64_t n = call->in[1]->_shape[0];
  int64_t rows = call->in[0]->_count / k;
  const float *x = call->in[0]->_data;
  const float *w = call->in[1]->_data;
  const float *dy = call->in[2]->_data;
  float *dx = out[0]->_data;
  float *dw = out[1]->_data;
  float *db = out[2]->_data;

  (void)frame;
  memset(dx, 0, (size_t)rg_tensor_bytes(out[0]));
  memset(dw, 0, (size_t)rg_tensor_bytes(out[1]));
  memset(db, 0, (size_t)rg_tensor_bytes(out[2]));
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t j = 0; j < n; j++) {
      float d = dy[r * n + j];

      db[j] += d;
      for (int64_t i = 0; i < k; i++) {
        dx[r * k + i] += d * w[j * k + i];
        dw[j * k + i] += d * x[r * k + i];
      }
    }
  }
  return RG_OK;
}

static const rg_op t_op_linear_back = {
  .name = "t_linear_back", .id = -1, .infer = t_linear_back_infer, .kernel = t_linear_back_kernel
};

static inline rg_status t_linear_grad(rg_grad *g)
{
  rg_call back = { .op = &t_op_linear_back,
                   .in = (const rg_tensor *const[]){ g->call->in[0], g->call->in[1], g->dout[0] },
                   .n_in = 3 };

  return rg_run(&back, g->dx);
}

static const rg_op t_op_linear = { .name = "t_linear",
                                   .id = -1,
                                   .save_in = 3,
                                   .infer = t_linear_infer,
                                   .grad = t_linear_grad,
                                   .kernel = t_linear_kernel };

static inline rg_status t_linear(const rg_tensor *x, const rg_tensor *w, const rg_tensor *b,
                                 rg_tensor **out)
{
  return rg_run1(&t_op_linear, (const rg_tensor *const[]){ x, w, b }, 3, NULL, out);
}

#endif
