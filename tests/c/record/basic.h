/* SPDX-License-Identifier: MIT */
/*
** What every step of the test needs: filling, copying, adding (also into a view), a weighted sum,
** relu, linear and the mean squared error.  Plain loops over f32; their records are written the way
** those of the product are.
*/
#ifndef RIDGE_TESTS_RECORD_BASIC_H
#define RIDGE_TESTS_RECORD_BASIC_H

#include "op/op.h"
#include "../tap.h"

/* -- Access ---------------------------------------------------------------------- */

/* Element i, row-major in a shape that x broadcasts to. */
static inline float *t_at(const rg_tensor *x, const rg_meta *shape, int64_t i)
{
  float *data = x->_data;

  for (int32_t a = shape->ndim - 1; a >= 0; a--) {
    int32_t own = a - (shape->ndim - x->_ndim);
    int64_t at = i % shape->shape[a];

    i /= shape->shape[a];
    if (own >= 0 && x->_shape[own] > 1) {
      data += at * x->_stride[own];
    }
  }
  return data;
}

/* Every input that is there is f32 without gaps. */
static inline rg_status t_dense(const rg_call *call)
{
  char text[96];

  for (int32_t i = 0; i < call->n_in; i++) {
    const rg_tensor *x = call->in[i];

    if (x != NULL && (x->_dtype != RG_F32 || !rg_is_contiguous(x))) {
      return rg_fail(RG_EDTYPE, "%s: input %d is %s or has gaps", call->op->name, i + 1,
                     rg_tensor_text(x, text, sizeof(text)));
    }
  }
  return RG_OK;
}

static inline void t_result(rg_call *call, const rg_tensor *like)
{
  call->out[call->n_out++] = rg_meta_of(like);
}

static inline rg_meta t_meta(int32_t dtype, int32_t ndim, const int64_t *shape)
{
  rg_meta meta = { .dtype = dtype, .ndim = ndim };

  memcpy(meta.shape, shape, (size_t)ndim * sizeof(*shape));
  return meta;
}

/* -- Filling and copying --------------------------------------------------------- */

typedef struct t_fill_args {
  rg_meta meta;
  float value;
} t_fill_args;

static inline rg_status t_fill_infer(rg_call *call)
{
  call->out[call->n_out++] = ((const t_fill_args *)call->args)->meta;
  return RG_OK;
}

static inline rg_status t_fill_kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  for (int64_t i = 0; i < out[0]->_count; i++) {
    *t_at(out[0], &call->out[0], i) = ((const t_fill_args *)call->args)->value;
  }
  return RG_OK;
}

static const rg_op t_op_fill = { .name = "t_fill",
                                 .id = -1,
                                 .args_size = sizeof(t_fill_args),
                                 .infer = t_fill_infer,
                                 .kernel = t_fill_kernel };

static inline rg_status t_fill(rg_tensor *x, float value)
{
  t_fill_args args = { .meta = rg_meta_of(x), .value = value };

  return rg_run_into(&t_op_fill, NULL, 0, &args, x);
}

static inline rg_status t_copy_infer(rg_call *call)
{
  t_result(call, call->in[0]);
  return RG_OK;
}

static inline rg_status t_copy_kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  for (int64_t i = 0; i < out[0]->_count; i++) {
    *t_at(out[0], &call->out[0], i) = *t_at(call->in[0], &call->out[0], i);
  }
  return RG_OK;
}

static const rg_op t_op_copy = {
  .name = "t_copy", .id = -1, .infer = t_copy_infer, .kernel = t_copy_kernel
};

static inline rg_status t_copy(const rg_tensor *x, rg_tensor **out)
{
  return rg_run1(&t_op_copy, &x, 1, NULL, out);
}

/* -- Adding, and the sum that undoes a broadcast --------------------------------- */

static inline rg_status t_sum_to_infer(rg_call *call)
{
  call->out[call->n_out++] = *(const rg_meta *)call->args;
  return RG_OK;
}

static inline rg_status t_sum_to_kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  rg_meta from = rg_meta_of(call->in[0]);

  (void)frame;
  memset(out[0]->_data, 0, (size_t)rg_tensor_bytes(out[0]));
  for (int64_t i = 0; i < call->in[0]->_count; i++) {
    *t_at(out[0], &from, i) += *t_at(call->in[0], &from, i);
  }
  return RG_OK;
}

static const rg_op t_op_sum_to = { .name = "t_sum_to",
                                   .id = -1,
                                   .args_size = sizeof(rg_meta),
                                   .infer = t_sum_to_infer,
                                   .kernel = t_sum_to_kernel };

static inline rg_status t_add_infer(rg_call *call)
{
  RG_TRY(rg_check_arity(call, 2));
  RG_TRY(rg_broadcast(call->op, call->in[0], call->in[1], &call->out[0]));
  call->out[0].dtype = RG_F32;
  call->n_out = 1;
  return RG_OK;
}

static inline rg_status t_add_kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  for (int64_t i = 0; i < out[0]->_count; i++) {
    *t_at(out[0], &call->out[0], i) =
        *t_at(call->in[0], &call->out[0], i) + *t_at(call->in[1], &call->out[0], i);
  }
  return RG_OK;
}

/* Saves nothing: the shapes are enough. */
static inline rg_status t_add_grad(rg_grad *g)
{
  for (int32_t i = 0; i < 2; i++) {
    const rg_tensor *dy = g->dout[0];

    if (g->needs[i]) {
      RG_TRY(rg_run1(&t_op_sum_to, &dy, 1, &g->in[i], &g->dx[i]));
    }
  }
  return RG_OK;
}

static const rg_op t_op_add = {
  .name = "t_add", .id = -1, .infer = t_add_infer, .grad = t_add_grad, .kernel = t_add_kernel
};

static inline rg_status t_add_(rg_tensor *x, const rg_tensor *y)
{
  return rg_run_into(&t_op_add, (const rg_tensor *const[]){ x, y }, 2, NULL, x);
}

/* -- Weighted sum: a loss for tests that has every element matter ---------------- */

static inline rg_status t_dot_infer(rg_call *call)
{
  call->out[0] = (rg_meta){ .dtype = RG_F32 };
  call->n_out = 1;
  return t_dense(call);
}

static inline rg_status t_dot_kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const float *x = call->in[0]->_data;
  const float *w = call->in[1]->_data;
  double sum = 0;

  (void)frame;
  for (int64_t i = 0; i < call->in[0]->_count; i++) {
    sum += (double)x[i] * (double)w[i];
  }
  *(float *)out[0]->_data = (float)sum;
  return RG_OK;
}

static inline rg_status t_scale_infer(rg_call *call)
{
  t_result(call, call->in[0]);
  return RG_OK;
}

/* The second input has one element. */
static inline rg_status t_scale_kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  for (int64_t i = 0; i < out[0]->_count; i++) {
    *t_at(out[0], &call->out[0], i) =
        *t_at(call->in[0], &call->out[0], i) * *(const float *)call->in[1]->_data;
  }
  return RG_OK;
}

static const rg_op t_op_scale = {
  .name = "t_scale", .id = -1, .infer = t_scale_infer, .kernel = t_scale_kernel
};

static inline rg_status t_dot_grad(rg_grad *g)
{
  for (int32_t i = 0; i < 2; i++) {
    if (g->needs[i]) {
      RG_TRY(rg_run1(&t_op_scale, (const rg_tensor *const[]){ g->call->in[1 - i], g->dout[0] }, 2,
                     NULL, &g->dx[i]));
    }
  }
  return RG_OK;
}

static const rg_op t_op_dot = { .name = "t_dot",
                                .id = -1,
                                .save_in = 3,
                                .infer = t_dot_infer,
                                .grad = t_dot_grad,
                                .kernel = t_dot_kernel };

/* -- Relu ------------------------------------------------------------------------ */

static inline rg_status t_relu_kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  for (int64_t i = 0; i < out[0]->_count; i++) {
    float x = *t_at(call->in[0], &call->out[0], i);

    *t_at(out[0], &call->out[0], i) = x > 0 ? x : 0;
  }
  return RG_OK;
}

/* Inputs y, dy. */
static inline rg_status t_relu_back_kernel(const rg_call *call, rg_tensor *const *out,
                                           rg_frame *frame)
{
  (void)frame;
  for (int64_t i = 0; i < out[0]->_count; i++) {
    float y = *t_at(call->in[0], &call->out[0], i);

    *t_at(out[0], &call->out[0], i) = y > 0 ? *t_at(call->in[1], &call->out[0], i) : 0;
  }
  return RG_OK;
}

static const rg_op t_op_relu_back = {
  .name = "t_relu_back", .id = -1, .infer = t_copy_infer, .kernel = t_relu_back_kernel
};

static inline rg_status t_relu_grad(rg_grad *g)
{
  return rg_run1(&t_op_relu_back, (const rg_tensor *const[]){ g->out[0], g->dout[0] }, 2, NULL,
                 &g->dx[0]);
}

/* Saves its result, so that it may run in place. */
static const rg_op t_op_relu = { .name = "t_relu",
                                 .id = -1,
                                 .save_out = 1,
                                 .infer = t_copy_infer,
                                 .grad = t_relu_grad,
                                 .kernel = t_relu_kernel };

/* -- Mean squared error ---------------------------------------------------------- */

static inline rg_status t_mse_kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const float *x = call->in[0]->_data;
  const float *y = call->in[1]->_data;
  double sum = 0;

  (void)frame;
  for (int64_t i = 0; i < call->in[0]->_count; i++) {
    sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
  }
  *(float *)out[0]->_data = (float)(sum / (double)call->in[0]->_count);
  return RG_OK;
}

/* Inputs x, y, dloss. */
static inline rg_status t_mse_back_kernel(const rg_call *call, rg_tensor *const *out,
                                          rg_frame *frame)
{
  const float *x = call->in[0]->_data;
  const float *y = call->in[1]->_data;
  float scale = 2 * *(const float *)call->in[2]->_data / (float)call->in[0]->_count;

  (void)frame;
  for (int64_t i = 0; i < out[0]->_count; i++) {
    ((float *)out[0]->_data)[i] = scale * (x[i] - y[i]);
  }
  return RG_OK;
}

static const rg_op t_op_mse_back = {
  .name = "t_mse_back", .id = -1, .infer = t_copy_infer, .kernel = t_mse_back_kernel
};

static inline rg_status t_mse_grad(rg_grad *g)
{
  return rg_run1(&t_op_mse_back,
                 (const rg_tensor *const[]){ g->call->in[0], g->call->in[1], g->dout[0] }, 3, NULL,
                 &g->dx[0]);
}

static const rg_op t_op_mse = { .name = "t_mse",
                                .id = -1,
                                .save_in = 3,
                                .infer = t_dot_infer,
                                .grad = t_mse_grad,
                                .kernel = t_mse_kernel };

#endif
