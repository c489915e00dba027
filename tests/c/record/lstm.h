/* SPDX-License-Identifier: MIT */
/*
** An LSTM cell over a sequence (Hochreiter and Schmidhuber 1997, with forget gate): optional
** inputs, three results of which a loss may use any, two hidden ones, and a gradient of seven.
*/
#ifndef RIDGE_TESTS_RECORD_LSTM_H
#define RIDGE_TESTS_RECORD_LSTM_H

#include "basic.h"

/*
** Inputs x [N x T x D], h0 and c0 [N x H] or NULL, w [4H x D], u [4H x H], two biases [4H].
** Results y [N x T x H], h_n and c_n [N x H]; hidden: gates [N x T x 4H], cells [N x T x H].
** The gates stand in the order input, forget, candidate, output.
*/
enum { T_LSTM_X, T_LSTM_H0, T_LSTM_C0, T_LSTM_W, T_LSTM_U, T_LSTM_BI, T_LSTM_BH, T_LSTM_IN };

typedef struct t_lstm_sizes {
  int64_t n;
  int64_t t;
  int64_t d;
  int64_t h;
} t_lstm_sizes;

static inline t_lstm_sizes t_lstm_of(const rg_call *call)
{
  const rg_tensor *x = call->in[T_LSTM_X];

  return (t_lstm_sizes){ x->_shape[0], x->_shape[1], x->_shape[2], call->in[T_LSTM_U]->_shape[1] };
}

static inline rg_status t_lstm_infer(rg_call *call)
{
  t_lstm_sizes s = t_lstm_of(call);
  rg_meta state = t_meta(RG_F32, 2, (int64_t[]){ s.n, s.h });
  rg_meta sequence = t_meta(RG_F32, 3, (int64_t[]){ s.n, s.t, s.h });

  RG_TRY(t_dense(call));
  call->out[0] = sequence;
  call->out[1] = state;
  call->out[2] = state;
  call->out[3] = t_meta(RG_F32, 3, (int64_t[]){ s.n, s.t, 4 * s.h });
  call->out[4] = sequence;
  call->n_out = 5;
  call->scratch_bytes = (4 + 1 + 1) * s.h * 4;
  return RG_OK;
}

static inline float t_sigmoid(float x)
{
  return 1 / (1 + expf(-x));
}

/* One step: h and c become the next ones, gates is filled. */
static inline void t_lstm_step(const rg_call *call, const float *x, float *h, float *c,
                               float *gates)
{
  t_lstm_sizes s = t_lstm_of(call);
  const float *w = call->in[T_LSTM_W]->_data;
  const float *u = call->in[T_LSTM_U]->_data;

  for (int64_t j = 0; j < 4 * s.h; j++) {
    float a = ((const float *)call->in[T_LSTM_BI]->_data)[j] +
              ((const float *)call->in[T_LSTM_BH]->_data)[j];

    for (int64_t i = 0; i < s.d; i++) {
      a += w[j * s.d + i] * x[i];
    }
    for (int64_t i = 0; i < s.h; i++) {
      a += u[j * s.h + i] * h[i];
    }
    gates[j] = j / s.h == 2 ? tanhf(a) : t_sigmoid(a);
  }
  for (int64_t i = 0; i < s.h; i++) {
    c[i] = gates[s.h + i] * c[i] + gates[i] * gates[2 * s.h + i];
    h[i] = gates[3 * s.h + i] * tanhf(c[i]);
  }
}

static inline rg_status t_lstm_kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  t_lstm_sizes s = t_lstm_of(call);
  size_t size = (size_t)s.h * sizeof(float);
  float *gates = frame->scratch;
  float *h = gates + 4 * s.h;
  float *c = h + s.h;

  for (int64_t n = 0; n < s.n; n++) {
    memset(h, 0, 2 * size);
    if (call->in[T_LSTM_H0] != NULL) {
      memcpy(h, (const float *)call->in[T_LSTM_H0]->_data + n * s.h, size);
    }
    if (call->in[T_LSTM_C0] != NULL) {
      memcpy(c, (const float *)call->in[T_LSTM_C0]->_data + n * s.h, size);
    }
    for (int64_t t = 0; t < s.t; t++) {
      int64_t row = n * s.t + t;

      t_lstm_step(call, (const float *)call->in[T_LSTM_X]->_data + row * s.d, h, c, gates);
      memcpy((float *)out[0]->_data + row * s.h, h, size);
      if (call->n_out > 3) {
        memcpy((float *)out[3]->_data + row * 4 * s.h, gates, 4 * size);
        memcpy((float *)out[4]->_data + row * s.h, c, size);
      }
    }
    memcpy((float *)out[1]->_data + n * s.h, h, size);
    memcpy((float *)out[2]->_data + n * s.h, c, size);
  }
  return RG_OK;
}

/* -- Gradient -------------------------------------------------------------------- */

/* Behind the forward inputs: y, gates, cells, then dy, dh_n, dc_n, each of which may be NULL. */
enum { T_LSTM_Y = T_LSTM_IN, T_LSTM_GATES, T_LSTM_CELLS, T_LSTM_DY, T_LSTM_DH, T_LSTM_DC };

static inline rg_status t_lstm_back_infer(rg_call *call)
{
  t_lstm_sizes s = t_lstm_of(call);
  rg_meta bias = t_meta(RG_F32, 1, (int64_t[]){ 4 * s.h });
  rg_meta state = t_meta(RG_F32, 2, (int64_t[]){ s.n, s.h });

  t_result(call, call->in[T_LSTM_X]);
  call->out[call->n_out++] = state;
  call->out[call->n_out++] = state;
  t_result(call, call->in[T_LSTM_W]);
  t_result(call, call->in[T_LSTM_U]);
  call->out[call->n_out++] = bias;
  call->out[call->n_out++] = bias;
  call->scratch_bytes = 4 * s.h * 4;
  return t_dense(call);
}

/* Row of a tensor that may be missing. */
static inline const float *t_row(const rg_tensor *x, int64_t row, int64_t width)
{
  return x != NULL ? (const float *)x->_data + row * width : NULL;
}

static inline float t_read(const float *row, int64_t i)
{
  return row != NULL ? row[i] : 0;
}

/* The gradient of a step's sums into da; dc becomes that of the cell before. */
static inline void t_lstm_sums(const float *g, const float *c, const float *before, const float *dh,
                               float *dc, float *da, int64_t h)
{
  for (int64_t i = 0; i < h; i++) {
    float squashed = tanhf(c[i]);
    float in = g[i];
    float forget = g[h + i];
    float candidate = g[2 * h + i];
    float out = g[3 * h + i];

    dc[i] += dh[i] * out * (1 - squashed * squashed);
    da[i] = dc[i] * candidate * in * (1 - in);
    da[h + i] = dc[i] * t_read(before, i) * forget * (1 - forget);
    da[2 * h + i] = dc[i] * in * (1 - candidate * candidate);
    da[3 * h + i] = dh[i] * squashed * out * (1 - out);
    dc[i] *= forget;
  }
}

/* What one step's da gives to everything that went into the sums; dh becomes the step before's. */
static inline void t_lstm_spread(const rg_call *call, rg_tensor *const *out, int64_t row,
                                 const float *h_before, const float *da, float *dh)
{
  t_lstm_sizes s = t_lstm_of(call);
  const float *w = call->in[T_LSTM_W]->_data;
  const float *u = call->in[T_LSTM_U]->_data;
  const float *x = t_row(call->in[T_LSTM_X], row, s.d);
  float *dx = (float *)out[0]->_data + row * s.d;
  float *dw = out[3]->_data;
  float *du = out[4]->_data;

  memset(dh, 0, (size_t)s.h * sizeof(*dh));
  for (int64_t j = 0; j < 4 * s.h; j++) {
    for (int64_t i = 0; i < s.d; i++) {
      dx[i] += da[j] * w[j * s.d + i];
      dw[j * s.d + i] += da[j] * x[i];
    }
    for (int64_t i = 0; i < s.h; i++) {
      dh[i] += da[j] * u[j * s.h + i];
      du[j * s.h + i] += da[j] * t_read(h_before, i);
    }
    ((float *)out[5]->_data)[j] += da[j];
    ((float *)out[6]->_data)[j] += da[j];
  }
}

static inline rg_status t_lstm_back_kernel(const rg_call *call, rg_tensor *const *out,
                                           rg_frame *frame)
{
  t_lstm_sizes s = t_lstm_of(call);
  float *da = frame->scratch;

  for (int32_t i = 0; i < call->n_out; i++) {
    memset(out[i]->_data, 0, (size_t)rg_tensor_bytes(out[i]));
  }
  for (int64_t n = 0; n < s.n; n++) {
    float *dh = (float *)out[1]->_data + n * s.h;
    float *dc = (float *)out[2]->_data + n * s.h;

    for (int64_t i = 0; i < s.h; i++) {
      dh[i] = t_read(t_row(call->in[T_LSTM_DH], n, s.h), i);
      dc[i] = t_read(t_row(call->in[T_LSTM_DC], n, s.h), i);
    }
    for (int64_t t = s.t - 1; t >= 0; t--) {
      int64_t row = n * s.t + t;
      const float *cells = t_row(call->in[T_LSTM_CELLS], row, s.h);
      const float *c_before = t > 0 ? cells - s.h : t_row(call->in[T_LSTM_C0], n, s.h);
      const float *h_before =
          t > 0 ? t_row(call->in[T_LSTM_Y], row - 1, s.h) : t_row(call->in[T_LSTM_H0], n, s.h);

      for (int64_t i = 0; i < s.h; i++) {
        dh[i] += t_read(t_row(call->in[T_LSTM_DY], row, s.h), i);
      }
      t_lstm_sums(t_row(call->in[T_LSTM_GATES], row, 4 * s.h), cells, c_before, dh, dc, da, s.h);
      t_lstm_spread(call, out, row, h_before, da, dh);
    }
  }
  return RG_OK;
}

static const rg_op t_op_lstm_back = {
  .name = "t_lstm_back", .id = -1, .infer = t_lstm_back_infer, .kernel = t_lstm_back_kernel
};

static inline rg_status t_lstm_grad(rg_grad *g)
{
  const rg_tensor *in[T_LSTM_DC + 1];
  rg_call back = { .op = &t_op_lstm_back, .in = in, .n_in = T_LSTM_DC + 1 };

  for (int32_t i = 0; i < T_LSTM_IN; i++) {
    in[i] = g->call->in[i];
  }
  in[T_LSTM_Y] = g->out[0];
  in[T_LSTM_GATES] = g->out[3];
  in[T_LSTM_CELLS] = g->out[4];
  for (int32_t i = 0; i < 3; i++) {
    in[T_LSTM_DY + i] = g->dout[i];
  }
  return rg_run(&back, g->dx);
}

static const rg_op t_op_lstm = { .name = "t_lstm",
                                 .id = -1,
                                 .save_in = 31,
                                 .save_out = 1,
                                 .n_hidden = 2,
                                 .infer = t_lstm_infer,
                                 .grad = t_lstm_grad,
                                 .kernel = t_lstm_kernel };

#endif
