/* SPDX-License-Identifier: MIT */
/*
** Adam (Kingma and Ba 2015) over any number of parameters in one call: inputs without a maximum, no
** result, and writes into most of what it reads.  Learning rate and step are tensors, so that a
** plan can be replayed with others.
*/
#ifndef RIDGE_TESTS_RECORD_ADAM_H
#define RIDGE_TESTS_RECORD_ADAM_H

#include "basic.h"

typedef struct t_adam_args {
  float beta1;
  float beta2;
  float eps;
} t_adam_args;

/* Inputs: learning rate, step, then n parameters, n gradients, n first and n second moments. */
enum { T_ADAM_LR, T_ADAM_STEP, T_ADAM_FIRST };

static inline int32_t t_adam_n(const rg_call *call)
{
  return (call->n_in - T_ADAM_FIRST) / 4;
}

static inline rg_status t_adam_infer(rg_call *call)
{
  int32_t n = t_adam_n(call);

  if (n < 1 || call->n_in != T_ADAM_FIRST + 4 * n) {
    return rg_fail(RG_EARG, "t_adam: %d inputs", call->n_in);
  }
  RG_TRY(t_dense(call));
  for (int32_t i = 0; i < 4 * n; i++) {
    if (call->in[T_ADAM_FIRST + i]->_count != call->in[T_ADAM_FIRST + i % n]->_count) {
      return rg_fail(RG_ESHAPE, "t_adam: input %d has another size than its parameter", i + 1);
    }
  }
  return RG_OK;
}

static inline rg_status t_adam_kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const t_adam_args *args = call->args;
  int32_t n = t_adam_n(call);
  const rg_tensor *const *in = call->in + T_ADAM_FIRST;
  float lr = *(const float *)call->in[T_ADAM_LR]->_data;
  float step = *(float *)call->in[T_ADAM_STEP]->_data += 1;
  float scale1 = 1 / (1 - powf(args->beta1, step));
  float scale2 = 1 / (1 - powf(args->beta2, step));

  (void)out;
  (void)frame;
  for (int32_t t = 0; t < n; t++) {
    float *p = in[t]->_data;
    const float *g = in[n + t]->_data;
    float *m = in[2 * n + t]->_data;
    float *v = in[3 * n + t]->_data;

    for (int64_t i = 0; i < in[t]->_count; i++) {
      m[i] += (1 - args->beta1) * (g[i] - m[i]);
      v[i] += (1 - args->beta2) * (g[i] * g[i] - v[i]);
      p[i] -= lr * scale1 * m[i] / (sqrtf(scale2 * v[i]) + args->eps);
    }
  }
  return RG_OK;
}

static inline bool t_adam_writes(const rg_call *call, int32_t i)
{
  int32_t group = i < T_ADAM_FIRST ? -1 : (i - T_ADAM_FIRST) / t_adam_n(call);

  return i == T_ADAM_STEP || group == 0 || group == 2 || group == 3;
}

static const rg_op t_op_adam = { .name = "t_adam",
                                 .id = -1,
                                 .args_size = sizeof(t_adam_args),
                                 .infer = t_adam_infer,
                                 .writes = t_adam_writes,
                                 .kernel = t_adam_kernel };

#endif
