/* SPDX-License-Identifier: MIT */
/*
** Steps of optimizers.  What the step's numbers are is worked out on the device, where the rate,
** the count and the scale live: nothing waits for the host, and a captured step counts on at
** replay.
*/
#include "gpu/kernels.cuh"

extern "C" {
#include "op/step.h"
}

/* In double, as the CPU works them out; the loops take them in their lane. */
struct numbers {
  double scale, rate, decay, shrink, beta1, beta2, ahead, eps, root;
  int32_t nesterov;
  int32_t taken; /* 0: the scale says that there is no step */
};

enum { SGD, ADAM, LION };

/* -- Numbers ----------------------------------------------------------------------------------- */

__device__ static inline double number_of(const void *x, int32_t dtype)
{
  return rg_number_of(x, dtype, 0).d;
}

__device__ static inline bool is_finite(double x)
{
  return x - x == 0;
}

/* One thread counts the step and works out its numbers. */
__global__ void k_begin(numbers *to, int32_t kind, rg_step_args args, double *count,
                        const void *rate, int32_t rate_dtype, const void *scale,
                        int32_t scale_dtype)
{
  numbers c = {};

  c.scale = scale != NULL ? number_of(scale, scale_dtype) : 1;
  c.rate = number_of(rate, rate_dtype);
  c.shrink = 1;
  c.taken = is_finite(c.scale);
  if (c.taken) {
    *count += 1;
    if (kind == SGD) {
      bool first = *count == 1;

      c.decay = args.o.sgd.weight_decay;
      c.beta1 = first ? 0 : args.o.sgd.momentum;
      c.beta2 = first ? 1 : 1 - args.o.sgd.dampening;
      c.ahead = args.o.sgd.momentum;
      c.nesterov = args.o.sgd.nesterov != 0;
    } else if (kind == ADAM) {
      if (args.o.adam.decoupled != 0) {
        c.shrink = 1 - c.rate * args.o.adam.weight_decay;
      } else {
        c.decay = args.o.adam.weight_decay;
      }
      c.beta1 = args.o.adam.beta1;
      c.beta2 = args.o.adam.beta2;
      c.eps = args.o.adam.eps;
      c.rate /= 1 - pow(args.o.adam.beta1, *count);
      c.root = 1 / sqrt(1 - pow(args.o.adam.beta2, *count));
    } else {
      c.shrink = 1 - c.rate * args.o.lion.weight_decay;
      c.beta1 = args.o.lion.beta1;
      c.beta2 = args.o.lion.beta2;
    }
  }
  *to = c;
}

/* -- Elements ---------------------------------------------------------------------------------- */

/* The new value of a parameter; the states are written. */
template <class L>
__device__ static inline L stepped(int32_t kind, const numbers &c, L p, L g, L *s0, L *s1, L *s2)
{
  g = (L)c.scale * g;
  if (kind == LION) {
    L m = *s0;
    L way = m + (L)(1 - c.beta1) * (g - m);
    L sign = (L)((way > 0) - (way < 0));

    *s0 = m + (L)(1 - c.beta2) * (g - m);
    return (L)c.shrink * p - (L)c.rate * (way == way ? sign : way); /* nan has to show */
  }
  g = g + (L)c.decay * p;
  if (kind == SGD) {
    L m = g;

    if (s0 == NULL) {
      return p - (L)c.rate * g;
    }
    m = (L)c.beta1 * *s0 + (L)c.beta2 * g;
    *s0 = m;
    return p - (L)c.rate * (c.nesterov ? g + (L)c.ahead * m : m);
  }
  L a = *s0 + (L)(1 - c.beta1) * (g - *s0);
  L b = (L)c.beta2 * *s1 + (L)(1 - c.beta2) * g * g;
  L top = b;

  *s0 = a;
  *s1 = b;
  if (s2 != NULL) {
    top = *s2 > b ? *s2 : b;
    *s2 = top;
  }
  return (L)c.shrink * p - (L)c.rate * (a / (sqrt(top) * (L)c.root + (L)c.eps));
}

template <class T, class L>
__global__ void k_step(int32_t kind, const numbers *c, rg_strided p, rg_strided g,
                       int32_t grad_dtype, rg_strided s0, rg_strided s1, rg_strided s2, int64_t n)
{
  if (!c->taken) {
    return;
  }
  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    T *at = (T *)p.data + rg_at(p, i);
    L *m = s0.data != NULL ? (L *)s0.data + rg_at(s0, i) : NULL;
    L *v = s1.data != NULL ? (L *)s1.data + rg_at(s1, i) : NULL;
    L *most = s2.data != NULL ? (L *)s2.data + rg_at(s2, i) : NULL;
    L grad = (L)rg_number_of(g.data, grad_dtype, rg_at(g, i)).d;

    *at = rg_element<T>::of(
        (typename rg_lane<T>::type)stepped<L>(kind, *c, (L)rg_get(*at), grad, m, v, most));
  }
}

/* -- Calls ------------------------------------------------------------------------------------- */

static rg_status one(const rg_call *call, int32_t kind, const numbers *c, int64_t i)
{
  const rg_step_args *args = (const rg_step_args *)call->args;
  const rg_tensor *p = call->in[rg_step_param(i)];
  const rg_tensor *g = call->in[rg_step_grad(args, i)];
  rg_strided state[3] = {};
  rg_launch_cfg cfg = rg_over(p->_count, rg_gpu_stream(call->device));

  if (p->_count == 0) {
    return RG_OK;
  }
  for (int64_t k = 0; k < args->states && k < 3; k++) {
    state[k] = rg_view_of(call->in[rg_step_state(args, k, i)]);
  }
#define RUN(T, L)                                                                                  \
  rg_gpu_status(call->op->name, rg_launch(k_step<T, L>, cfg, kind, c, rg_view_of(p),               \
                                          rg_view_as(g, p->_shape, p->_ndim), g->_dtype, state[0], \
                                          state[1], state[2], p->_count))
  switch (p->_dtype) {
  case RG_F64:
    return RUN(double, double);
  case RG_F16:
    return RUN(__half, float);
  case RG_BF16:
    return RUN(__nv_bfloat16, float);
  default:
    return RUN(float, float);
  }
#undef RUN
}

static rg_status step(const rg_call *call, int32_t kind)
{
  const rg_step_args *args = (const rg_step_args *)call->args;
  const rg_tensor *rate = call->in[RG_STEP_RATE];
  const rg_tensor *scale = call->in[RG_STEP_SCALE];
  numbers *c = (numbers *)rg_gpu_room(call->device);
  rg_launch_cfg cfg = { dim3(1), dim3(1), 0, rg_gpu_stream(call->device) };

  if (c == NULL) {
    return rg_gpu->fail(RG_ENOMEM, "%s: the GPU has no memory left", call->op->name);
  }
  RG_CUDA(call->op->name,
          rg_launch(k_begin, cfg, c, kind, *args, (double *)call->in[RG_STEP_COUNT]->_data,
                    rate->_data, rate->_dtype, scale != NULL ? scale->_data : NULL,
                    scale != NULL ? scale->_dtype : 0));
  for (int64_t i = 0; i < args->n; i++) {
    RG_TRY(one(call, kind, c, i));
  }
  return RG_OK;
}

rg_status rg_gpu_sgd_step(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)out;
  (void)frame;
  return step(call, SGD);
}

rg_status rg_gpu_adam_step(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)out;
  (void)frame;
  return step(call, ADAM);
}

rg_status rg_gpu_lion_step(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)out;
  (void)frame;
  return step(call, LION);
}
