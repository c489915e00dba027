/* SPDX-License-Identifier: MIT */
/*
** Dropout that saves no mask: the gradient makes it again from the call's draw.  In a plan the draw
** is another one at each replay, so it goes to the gradient as a hidden result of two numbers.
*/
#ifndef RIDGE_TESTS_RECORD_DROPOUT_H
#define RIDGE_TESTS_RECORD_DROPOUT_H

#include "basic.h"

typedef struct t_dropout_args {
  float p;
} t_dropout_args;

static inline rg_status t_dropout_infer(rg_call *call)
{
  static const int64_t two = 2;

  RG_TRY(t_dense(call));
  t_result(call, call->in[0]);
  call->out[call->n_out++] = t_meta(RG_I64, 1, &two);
  call->n_draws = call->in[0]->_count;
  return RG_OK;
}

/* y = x where number offset + i of the seed says so, scaled; else 0. */
static inline void t_dropout_apply(const float *x, float *y, int64_t n, rg_draw draw, float p)
{
  for (int64_t i = 0; i < n; i++) {
    uint64_t number = draw.offset + (uint64_t)i;
    uint32_t block[4];

    rg_philox(draw.seed, number / 4, block);
    y[i] = (float)(block[number % 4] >> 8) * 0x1p-24f < p ? 0 : x[i] / (1 - p);
  }
}

static inline rg_status t_dropout_kernel(const rg_call *call, rg_tensor *const *out,
                                         rg_frame *frame)
{
  const t_dropout_args *args = call->args;

  (void)frame;
  t_dropout_apply(call->in[0]->_data, out[0]->_data, out[0]->_count, call->draw, args->p);
  if (call->n_out > 1) {
    memcpy(out[1]->_data, &(int64_t[]){ (int64_t)call->draw.seed, (int64_t)call->draw.offset },
           2 * sizeof(int64_t));
  }
  return RG_OK;
}

/* Inputs dy and the draw. */
static inline rg_status t_dropout_back_kernel(const rg_call *call, rg_tensor *const *out,
                                              rg_frame *frame)
{
  const t_dropout_args *args = call->args;
  const int64_t *numbers = call->in[1]->_data;
  rg_draw draw = { .seed = (uint64_t)numbers[0], .offset = (uint64_t)numbers[1] };

  (void)frame;
  t_dropout_apply(call->in[0]->_data, out[0]->_data, out[0]->_count, draw, args->p);
  return RG_OK;
}

static const rg_op t_op_dropout_back = { .name = "t_dropout_back",
                                         .id = -1,
                                         .as_is = 2,
                                         .args_size = sizeof(t_dropout_args),
                                         .infer = t_copy_infer,
                                         .kernel = t_dropout_back_kernel };

static inline rg_status t_dropout_grad(rg_grad *g)
{
  return rg_run1(&t_op_dropout_back, (const rg_tensor *const[]){ g->dout[0], g->out[1] }, 2,
                 g->call->args, &g->dx[0]);
}

static const rg_op t_op_dropout = { .name = "t_dropout",
                                    .id = -1,
                                    .n_hidden = 1,
                                    .draws = true,
                                    .args_size = sizeof(t_dropout_args),
                                    .infer = t_dropout_infer,
                                    .grad = t_dropout_grad,
                                    .kernel = t_dropout_kernel };

#endif
