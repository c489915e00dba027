/* SPDX-License-Identifier: MIT */
/*
** Convolutions in f64: loops as the formulas say them.  Gradients are checked against these; nobody
** trains in f64.  Each result element is one sum by one thread, so that results do not depend on
** the number of threads.
*/
#include "cpu/conv.h"
#include "cpu/cpu.h"
#include "cpu/gemm.h"

/* A tensor's numbers by batch, channel, row, column, or by those of a kernel. */
typedef struct grid {
  const rg_tensor *tensor;
  int64_t step[4];
} grid;

typedef struct direct {
  rg_conv2d_sizes s;
  const rg_conv2d_options *o;
  grid x, w, y;
  const rg_tensor *b; /* bias, or its gradient */
} direct;

/* Has Ctrl-C come?  Asked for after about a million products; made: by the loop since then. */
static bool stops(int64_t *made, int64_t products)
{
  *made += products;
  if (*made < 1 << 20) {
    return false;
  }
  *made = 0;
  return rg_interrupt_pending() != 0;
}

static grid images(const rg_tensor *x, int32_t layout)
{
  int32_t rows = rg_rows_axis(layout);

  return (grid){ x,
                 { x->_stride[0], x->_stride[rg_channels_axis(layout)], x->_stride[rows],
                   x->_stride[rows + 1] } };
}

static grid kernels(const rg_tensor *w)
{
  return (grid){ w, { w->_stride[0], w->_stride[1], w->_stride[2], w->_stride[3] } };
}

static double get(const grid *g, int64_t a, int64_t b, int64_t c, int64_t d)
{
  return rg_element_f64(g->tensor->_data, g->tensor->_dtype,
                        a * g->step[0] + b * g->step[1] + c * g->step[2] + d * g->step[3]);
}

static void put(const grid *g, int64_t a, int64_t b, int64_t c, int64_t d, double value)
{
  ((double *)g->tensor->_data)[a * g->step[0] + b * g->step[1] + c * g->step[2] + d * g->step[3]] =
      value;
}

/* -- Forward ------------------------------------------------------------------------------ */

/* Row p of the kernel at row i of the result: which row of x, or -1 outside. */
static int64_t row_of(const direct *d, int axis, int64_t i, int64_t p)
{
  int64_t at = i * d->o->stride[axis] + p * d->o->dilation[axis] - d->o->pad_low[axis];

  return at >= 0 && at < d->s.x[axis] ? at : -1;
}

static double forward_sum(const direct *d, int64_t n, int64_t o, int64_t i, int64_t j)
{
  int64_t in_group = d->s.c / d->s.groups;
  int64_t first = o / (d->s.o / d->s.groups) * in_group;
  double sum = 0;

  for (int64_t p = 0; p < d->s.w[0]; p++) {
    int64_t row = row_of(d, 0, i, p);

    for (int64_t q = 0; row >= 0 && q < d->s.w[1]; q++) {
      int64_t column = row_of(d, 1, j, q);

      for (int64_t c = 0; column >= 0 && c < in_group; c++) {
        sum += get(&d->x, n, first + c, row, column) * get(&d->w, o, c, p, q);
      }
    }
  }
  return sum;
}

enum { RUN = 64 }; /* results whose activation is computed together */

/* Row i of result channel o. */
static bool forward_row(const direct *d, int64_t n, int64_t o, int64_t i, double bias,
                        int64_t *made)
{
  const int64_t products = d->s.w[0] * d->s.w[1] * (d->s.c / d->s.groups);
  double run[RUN];

  for (int64_t j = 0; j < d->s.y[1]; j += RUN) {
    int64_t some = rg_min_i64(RUN, d->s.y[1] - j);

    for (int64_t l = 0; l < some; l++) {
      if (stops(made, products)) {
        return false;
      }
      run[l] = forward_sum(d, n, o, i, j + l) + bias;
    }
    rg_activate(d->o->act, RG_LANE_F64, run, some);
    for (int64_t l = 0; l < some; l++) {
      put(&d->y, n, o, i, j + l, run[l]);
    }
  }
  return true;
}

static bool forward_job(void *work, int64_t begin, int64_t end)
{
  const direct *d = work;
  int64_t made = 0;

  for (int64_t at = begin; at < end; at++) {
    int64_t n = at / d->s.o;
    int64_t o = at % d->s.o;
    double bias =
        d->b != NULL ? rg_element_f64(d->b->_data, d->b->_dtype, o * d->b->_stride[0]) : 0;

    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t i = 0; i < d->s.y[0]; i++) {
      if (!forward_row(d, n, o, i, bias, &made)) {
        return false;
      }
    }
  }
  return true;
}

/* -- For x -------------------------------------------------------------------------------- */

/* Which row of dy row p of the kernel brings to this row of x; -1: none. */
static int64_t row_from(const direct *d, int axis, int64_t row, int64_t p)
{
  int64_t at = row + d->o->pad_low[axis] - p * d->o->dilation[axis];

  if (at < 0 || at % d->o->stride[axis] != 0 || at / d->o->stride[axis] >= d->s.y[axis]) {
    return -1;
  }
  return at / d->o->stride[axis];
}

static double data_sum(const direct *d, int64_t n, int64_t c, int64_t row, int64_t column)
{
  int64_t in_group = d->s.c / d->s.groups;
  int64_t out_group = d->s.o / d->s.groups;
  int64_t first = c / in_group * out_group;
  double sum = 0;

  for (int64_t p = 0; p < d->s.w[0]; p++) {
    int64_t i = row_from(d, 0, row, p);

    for (int64_t q = 0; i >= 0 && q < d->s.w[1]; q++) {
      int64_t j = row_from(d, 1, column, q);

      for (int64_t o = first; j >= 0 && o < first + out_group; o++) {
        sum += get(&d->y, n, o, i, j) * get(&d->w, o, c % in_group, p, q);
      }
    }
  }
  return sum;
}

static bool data_job(void *work, int64_t begin, int64_t end)
{
  const direct *d = work;
  const int64_t products = d->s.w[0] * d->s.w[1] * (d->s.o / d->s.groups);
  int64_t made = 0;

  for (int64_t at = begin; at < end; at++) {
    int64_t n = at / d->s.c;
    int64_t c = at % d->s.c;

    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t i = 0; i < d->s.x[0]; i++) {
      for (int64_t j = 0; j < d->s.x[1]; j++) {
        if (stops(&made, products)) {
          return false;
        }
        put(&d->x, n, c, i, j, data_sum(d, n, c, i, j));
      }
    }
  }
  return true;
}

/* -- For w and b -------------------------------------------------------------------------- */

static double weight_sum(const direct *d, int64_t o, int64_t c, int64_t p, int64_t q)
{
  int64_t first = o / (d->s.o / d->s.groups) * (d->s.c / d->s.groups);
  double sum = 0;

  for (int64_t i = 0; i < d->s.y[0] && !rg_interrupt_pending(); i++) {
    int64_t row = row_of(d, 0, i, p);

    for (int64_t j = 0; row >= 0 && j < d->s.y[1]; j++) {
      int64_t column = row_of(d, 1, j, q);

      for (int64_t n = 0; column >= 0 && n < d->s.n; n++) {
        sum += get(&d->x, n, first + c, row, column) * get(&d->y, n, o, i, j);
      }
    }
  }
  return sum;
}

static double bias_sum(const direct *d, int64_t o)
{
  double sum = 0;

  for (int64_t n = 0; n < d->s.n; n++) {
    for (int64_t i = 0; i < d->s.y[0] && !rg_interrupt_pending(); i++) {
      for (int64_t j = 0; j < d->s.y[1]; j++) {
        sum += get(&d->y, n, o, i, j);
      }
    }
  }
  return sum;
}

static bool weight_job(void *work, int64_t begin, int64_t end)
{
  const direct *d = work;
  const int64_t products = d->s.n * d->s.y[0] * d->s.y[1];
  int64_t made = 0;

  for (int64_t o = begin; o < end; o++) {
    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t c = 0; c < d->s.c / d->s.groups; c++) {
      for (int64_t p = 0; p < d->s.w[0]; p++) {
        for (int64_t q = 0; q < d->s.w[1]; q++) {
          if (stops(&made, products)) {
            return false;
          }
          put(&d->w, o, c, p, q, weight_sum(d, o, c, p, q));
        }
      }
    }
    ((double *)d->b->_data)[o * d->b->_stride[0]] = bias_sum(d, o);
  }
  return !rg_interrupt_pending();
}

/* -- All three ---------------------------------------------------------------------------- */

rg_status rg_conv2d_direct(const rg_call *call, rg_tensor *const *out)
{
  const rg_conv2d_args *args = call->args;
  int32_t threads = rg_threads_for(call->op->cost(call).flops * 4);
  direct d = { .s = rg_conv2d_sizes_of(call), .o = &args->o };

  switch (call->op->id) {
  case RG_OP_CONV2D:
    d.x = images(call->in[0], d.o->layout);
    d.w = kernels(call->in[1]);
    d.y = images(out[0], d.o->layout);
    d.b = call->n_in > 2 ? call->in[2] : NULL;
    return rg_parallel(threads, d.s.n * d.s.o, forward_job, &d);
  case RG_OP_CONV2D_BACK_DATA:
    d.y = images(call->in[0], d.o->layout);
    d.w = kernels(call->in[1]);
    d.x = images(out[0], d.o->layout);
    return rg_parallel(threads, d.s.n * d.s.c, data_job, &d);
  default:
    d.x = images(call->in[0], d.o->layout);
    d.y = images(call->in[1], d.o->layout);
    d.w = kernels(out[0]);
    d.b = out[1];
    return rg_parallel(threads, d.s.o, weight_job, &d);
  }
}
