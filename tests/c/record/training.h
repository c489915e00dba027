/* SPDX-License-Identifier: MIT */
/*
** A small network that has everything in it, and one step of its training: linear, an addition
** into a view, an LSTM, attention, max-pool, batch norm, relu in place, dropout, two losses, the
** way back and Adam over all parameters.
*/
#ifndef RIDGE_TESTS_RECORD_TRAINING_H
#define RIDGE_TESTS_RECORD_TRAINING_H

#include "adam.h"
#include "attention.h"
#include "dropout.h"
#include "gradient.h"
#include "linear.h"
#include "lstm.h"
#include "norm.h"
#include "pool.h"

enum { M_N = 4, M_T = 6, M_D = 3, M_H = 4, M_OUT = 2 };

enum {
  P_IN_W,
  P_IN_B,
  P_PLACE,
  P_LSTM_W,
  P_LSTM_U,
  P_LSTM_BI,
  P_LSTM_BH,
  P_Q,
  P_K,
  P_V,
  P_GAMMA,
  P_BETA,
  P_OUT_W,
  P_OUT_B,
  P_CELL_W,
  P_COUNT
};

/* What is trained, what is kept between steps, and what comes from outside. */
typedef struct model {
  rg_tensor *p[P_COUNT];
  rg_tensor *m[P_COUNT];
  rg_tensor *v[P_COUNT];
  rg_tensor *run_mean;
  rg_tensor *run_var;
  rg_tensor *step;
  rg_tensor *lr;
  rg_tensor *x;      /* [N x T x D] */
  rg_tensor *target; /* [N T/2 x OUT] */
  rg_tensor *cell_target;
  rg_generator *generator;
} model;

static inline rg_tensor *m_filled(float value, const rg_tensor *like)
{
  rg_tensor *x = g_tensor(1, like->_ndim, like->_shape);

  for (int64_t i = 0; i < x->_count; i++) {
    ((float *)x->_data)[i] = value;
  }
  return x;
}

static inline void model_make(model *m)
{
  *m = (model){ .p = { [P_IN_W] = G_TENSOR(1, M_H, M_D),
                       [P_IN_B] = G_TENSOR(2, M_H),
                       [P_PLACE] = G_TENSOR(3, 2, M_H),
                       [P_LSTM_W] = G_TENSOR(4, 4 * M_H, M_H),
                       [P_LSTM_U] = G_TENSOR(5, 4 * M_H, M_H),
                       [P_LSTM_BI] = G_TENSOR(6, 4 * M_H),
                       [P_LSTM_BH] = G_TENSOR(7, 4 * M_H),
                       [P_Q] = G_TENSOR(8, M_H, M_H),
                       [P_K] = G_TENSOR(9, M_H, M_H),
                       [P_V] = G_TENSOR(10, M_H, M_H),
                       [P_GAMMA] = G_TENSOR(11, M_H),
                       [P_BETA] = G_TENSOR(12, M_H),
                       [P_OUT_W] = G_TENSOR(13, M_OUT, M_H),
                       [P_OUT_B] = G_TENSOR(14, M_OUT),
                       [P_CELL_W] = G_TENSOR(15, M_OUT, M_H) },
                .step = G_TENSOR(1, 1),
                .lr = G_TENSOR(1, 1),
                .x = G_TENSOR(1, M_N, M_T, M_D),
                .target = G_TENSOR(1, M_N * M_T / 2, M_OUT),
                .cell_target = G_TENSOR(16, M_N, M_OUT) };
  for (int i = 0; i < P_COUNT; i++) {
    m->m[i] = m_filled(0, m->p[i]);
    m->v[i] = m_filled(0, m->p[i]);
  }
  m->run_mean = m_filled(0, m->p[P_GAMMA]);
  m->run_var = m_filled(1, m->p[P_GAMMA]);
  *(float *)m->step->_data = 0;
  if (rg_generator_new(77, &m->generator) != RG_OK) {
    tap_bail(rg_error_message());
  }
}

static inline void model_drop(model *m)
{
  rg_tensor *rest[] = { m->run_mean, m->run_var, m->step, m->lr, m->x, m->target, m->cell_target };

  for (int i = 0; i < P_COUNT; i++) {
    rg_tensor_release(m->p[i]);
    rg_tensor_release(m->m[i]);
    rg_tensor_release(m->v[i]);
  }
  for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++) {
    rg_tensor_release(rest[i]);
  }
  rg_generator_release(m->generator);
}

/* What the outside gives step number i: a batch, and a learning rate that falls. */
static inline rg_status model_feed(model *m, int64_t i)
{
  float x[M_N * M_T * M_D];
  float target[M_N * M_T / 2 * M_OUT];
  float lr = 0.02f / (1 + (float)i / 100);

  for (int k = 0; k < M_N * M_T * M_D; k++) {
    x[k] = g_number(1000 + (uint64_t)i % 8, k);
  }
  for (int k = 0; k < M_N * M_T / 2 * M_OUT; k++) {
    target[k] = 0.5f * g_number(2000 + (uint64_t)i % 8, k);
  }
  RG_TRY(rg_tensor_write(m->x, x, sizeof(x)));
  RG_TRY(rg_tensor_write(m->target, target, sizeof(target)));
  return rg_tensor_write(m->lr, &lr, sizeof(lr));
}

/* -- One step -------------------------------------------------------------------- */

enum {
  M_LINEAR,
  M_PLACED,
  M_LSTM_Y,
  M_LSTM_H,
  M_LSTM_C,
  M_Q,
  M_K,
  M_V,
  M_MIXED,
  M_POOLED,
  M_ROWS,
  M_NORM,
  M_DROPPED,
  M_RESULT,
  M_CELL,
  M_LOSS,
  M_CELL_LOSS,
  M_TOTAL,
  M_COUNT
};

static inline rg_status m_attend(model *m, rg_tensor **r)
{
  t_attention_args args = { .scale = 0.5f, .causal = true };

  RG_TRY(t_linear(r[M_LSTM_Y], m->p[P_Q], NULL, &r[M_Q]));
  RG_TRY(t_linear(r[M_LSTM_Y], m->p[P_K], NULL, &r[M_K]));
  RG_TRY(t_linear(r[M_LSTM_Y], m->p[P_V], NULL, &r[M_V]));
  return rg_run1(&t_op_attention, (const rg_tensor *const[]){ r[M_Q], r[M_K], r[M_V] }, 3, &args,
                 &r[M_MIXED]);
}

static inline rg_status m_regularize(model *m, rg_tensor **r)
{
  t_norm_args norm = { .eps = 1e-5f, .momentum = 0.1f, .training = true };
  rg_call dropout = { .op = &t_op_dropout,
                      .n_in = 1,
                      .args = &(t_dropout_args){ .p = 0.25f },
                      .generator = m->generator };

  RG_TRY(rg_run1(
      &t_op_norm,
      (const rg_tensor *const[]){ r[M_ROWS], m->p[P_GAMMA], m->p[P_BETA], m->run_mean, m->run_var },
      5, &norm, &r[M_NORM]));
  RG_TRY(rg_run_into(&t_op_relu, (const rg_tensor *const[]){ r[M_NORM] }, 1, NULL, r[M_NORM]));
  dropout.in = (const rg_tensor *const[]){ r[M_NORM] };
  return rg_run(&dropout, &r[M_DROPPED]);
}

static inline rg_status m_forward(model *m, rg_tensor **r)
{
  RG_TRY(t_linear(m->x, m->p[P_IN_W], m->p[P_IN_B], &r[M_LINEAR]));
  RG_TRY(rg_narrow(r[M_LINEAR], 1, 1, 2, 3, &r[M_PLACED]));
  RG_TRY(t_add_(r[M_PLACED], m->p[P_PLACE]));
  rg_call lstm = { .op = &t_op_lstm,
                   .in = (const rg_tensor *const[]){ r[M_LINEAR], NULL, NULL, m->p[P_LSTM_W],
                                                     m->p[P_LSTM_U], m->p[P_LSTM_BI],
                                                     m->p[P_LSTM_BH] },
                   .n_in = 7 };
  RG_TRY(rg_run(&lstm, &r[M_LSTM_Y]));
  RG_TRY(m_attend(m, r));
  RG_TRY(rg_run1(&t_op_pool, (const rg_tensor *const[]){ r[M_MIXED] }, 1,
                 &(t_pool_args){ .window = 2 }, &r[M_POOLED]));
  RG_TRY(rg_view(r[M_POOLED], (int64_t[]){ -1, M_H }, 2, &r[M_ROWS]));
  RG_TRY(m_regularize(m, r));
  RG_TRY(t_linear(r[M_DROPPED], m->p[P_OUT_W], m->p[P_OUT_B], &r[M_RESULT]));
  RG_TRY(t_linear(r[M_LSTM_C], m->p[P_CELL_W], NULL, &r[M_CELL]));
  RG_TRY(rg_run1(&t_op_mse, (const rg_tensor *const[]){ r[M_RESULT], m->target }, 2, NULL,
                 &r[M_LOSS]));
  RG_TRY(rg_run1(&t_op_mse, (const rg_tensor *const[]){ r[M_CELL], m->cell_target }, 2, NULL,
                 &r[M_CELL_LOSS]));
  return rg_run1(&t_op_add, (const rg_tensor *const[]){ r[M_LOSS], r[M_CELL_LOSS] }, 2, NULL,
                 &r[M_TOTAL]);
}

static inline rg_status m_update(model *m, tape *t)
{
  t_adam_args args = { .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f };
  const rg_tensor *in[T_ADAM_FIRST + 4 * P_COUNT] = { m->lr, m->step };
  rg_tensor *grad[P_COUNT] = { 0 };
  rg_call call = { .op = &t_op_adam, .in = in, .n_in = T_ADAM_FIRST + 4 * P_COUNT, .args = &args };
  rg_status status = RG_OK;

  for (int i = 0; i < P_COUNT && status == RG_OK; i++) {
    status = tape_grad(t, m->p[i], &grad[i]);
    in[T_ADAM_FIRST + i] = m->p[i];
    in[T_ADAM_FIRST + P_COUNT + i] = grad[i];
    in[T_ADAM_FIRST + 2 * P_COUNT + i] = m->m[i];
    in[T_ADAM_FIRST + 3 * P_COUNT + i] = m->v[i];
  }
  if (status == RG_OK) {
    status = rg_run(&call, NULL);
  }
  for (int i = 0; i < P_COUNT; i++) {
    rg_tensor_release(grad[i]);
  }
  return status;
}

/* Forward, back, Adam; loss: new reference. */
static inline rg_status model_step(model *m, rg_tensor **loss)
{
  rg_tensor *r[M_COUNT] = { 0 };
  tape t;
  rg_status status;

  tape_start(&t);
  for (int i = 0; i < P_COUNT; i++) {
    tape_watch(&t, m->p[i]);
  }
  status = m_forward(m, r);
  if (status == RG_OK) {
    status = tape_backward(&t, r[M_TOTAL]);
  }
  if (status == RG_OK) {
    status = m_update(m, &t);
  }
  tape_stop(&t);
  for (int i = 0; i < M_COUNT; i++) {
    if (i == M_TOTAL && status == RG_OK) {
      *loss = r[i];
    } else {
      rg_tensor_release(r[i]);
    }
  }
  return status;
}

#endif
