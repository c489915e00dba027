/* SPDX-License-Identifier: MIT */
/*
** Gradients of the tape against central differences.  The loss is a weighted sum of the results
** with weights that have nothing to do with each other, so no element can hide behind another.
*/
#ifndef RIDGE_TESTS_RECORD_GRADIENT_H
#define RIDGE_TESTS_RECORD_GRADIENT_H

#include "tape.h"

enum { G_MAX_IN = 8 };

/* A function of some tensors: writes its results (new references) into out, at most four. */
typedef rg_status g_function(rg_tensor *const *in, rg_tensor **out);

typedef struct g_case {
  const char *name;
  g_function *f;
  rg_tensor *in[G_MAX_IN]; /* NULL from the first that is not there */
  int n_fixed;             /* this many at the end are not differentiated */
  int n_out;
  uint32_t unused; /* bit k: the loss does not look at result k */
} g_case;

/* Numbers in -1 .. 1 that are the same on every machine. */
static inline float g_number(uint64_t seed, int64_t i)
{
  uint32_t block[4];

  rg_philox(seed, (uint64_t)i, block);
  return (float)(int32_t)block[0] * 0x1p-31f;
}

static inline rg_tensor *g_tensor(uint64_t seed, int32_t ndim, const int64_t *shape)
{
  rg_tensor *x = NULL;

  if (rg_empty(RG_F32, RG_CPU, shape, ndim, &x) != RG_OK) {
    tap_bail(rg_error_message());
  }
  for (int64_t i = 0; i < x->_count; i++) {
    ((float *)x->_data)[i] = g_number(seed, i);
  }
  return x;
}

#define G_TENSOR(seed, ...)                                                         \
  g_tensor((seed), (int32_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), \
           (int64_t[]){ __VA_ARGS__ })

/* The loss in double, without a tape. */
static inline double g_loss(const g_case *c)
{
  rg_tensor *out[4] = { 0 };
  double sum = 0;

  if (c->f(c->in, out) != RG_OK) {
    return NAN;
  }
  for (int k = 0; k < c->n_out; k++) {
    for (int64_t i = 0; i < out[k]->_count && (c->unused >> k & 1) == 0; i++) {
      sum += (double)((const float *)out[k]->_data)[i] * (double)g_number(900 + (uint64_t)k, i);
    }
    rg_tensor_release(out[k]);
  }
  return sum;
}

/* The same on the tape, and back. */
static inline rg_status g_backward(const g_case *c, tape *t)
{
  rg_tensor *out[4] = { 0 };
  rg_tensor *loss = NULL;
  rg_status status = c->f(c->in, out);

  for (int k = 0; k < c->n_out && status == RG_OK; k++) {
    rg_tensor *w;
    rg_tensor *part = NULL;

    if ((c->unused >> k & 1) != 0) {
      continue;
    }
    w = g_tensor(900 + (uint64_t)k, out[k]->_ndim, out[k]->_shape);
    status = rg_run1(&t_op_dot, (const rg_tensor *const[]){ out[k], w }, 2, NULL, &part);
    rg_tensor_release(w);
    if (status == RG_OK && loss != NULL) {
      status = t_add_(loss, part);
      rg_tensor_release(part);
    } else if (status == RG_OK) {
      loss = part;
    }
  }
  if (status == RG_OK) {
    status = tape_backward(t, loss);
  }
  rg_tensor_release(loss);
  for (int k = 0; k < c->n_out; k++) {
    rg_tensor_release(out[k]);
  }
  return status;
}

/* The largest difference between gradient and central differences of one input. */
static inline double g_difference(const g_case *c, rg_tensor *x, const rg_tensor *grad)
{
  const float step = 1.0f / 128;
  float *data = x->_data;
  double worst = 0;

  for (int64_t i = 0; i < x->_count; i++) {
    float before = data[i];
    double up;
    double down;
    double got = grad == NULL ? 0 : (double)((const float *)grad->_data)[i];

    data[i] = before + step;
    up = g_loss(c);
    data[i] = before - step;
    down = g_loss(c);
    data[i] = before;
    worst = fmax(worst, fabs((up - down) / (2 * (double)step) - got));
  }
  return worst;
}

/*
** Central differences with a step of 2^-7 err by about step^2/6 times the third derivative, here
** below 2e-3; f32 results of size one add 2^-24 * 2^7 = 8e-6.  A wrong gradient is off by more than
** 1e-2 with weights and inputs of size one.
*/
static inline void g_check(const g_case *c)
{
  tape t;
  int n = 0;
  rg_status status;

  tape_start(&t);
  while (n < G_MAX_IN && c->in[n] != NULL) {
    n++;
  }
  for (int i = 0; i < n - c->n_fixed; i++) {
    tape_watch(&t, c->in[i]);
  }
  status = g_backward(c, &t);
  if (!is_status(status, RG_OK, c->name)) {
    tape_stop(&t);
    return;
  }
  for (int i = 0; i < n - c->n_fixed && !tap_refusing(); i++) {
    char what[96];
    rg_tensor *grad = NULL;
    double off = tape_grad(&t, c->in[i], &grad) == RG_OK ? g_difference(c, c->in[i], grad) : NAN;

    snprintf(what, sizeof(what), "%s: gradient of input %d (off by %.1e)", c->name, i + 1, off);
    ok(off < 4e-3, what);
    rg_tensor_release(grad);
  }
  tape_stop(&t);
}

static inline void g_done(g_case *c)
{
  for (int i = 0; i < G_MAX_IN && c->in[i] != NULL; i++) {
    rg_tensor_release(c->in[i]);
  }
}

#endif
