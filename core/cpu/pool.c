/* SPDX-License-Identifier: MIT */
/*
** Pooling on the CPU, over the planes of a batch: with channels first a plane is one channel of one
** image, with channels last a whole image whose elements are runs of channels.  Half types are
** widened first.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "op/conv.h"
#include "op/pool.h"

typedef struct pool {
  const rg_pool2d_options *o;
  int64_t planes;
  int64_t run;  /* elements side by side: 1, or channels */
  int64_t x[2]; /* rows and columns of the larger side */
  int64_t y[2]; /* of the smaller one */
  const void *in;
  void *out;
  int32_t *index; /* where each maximum was; NULL: nobody wants to know */
  double count;   /* of a whole window */
} pool;

/* A window cut off at the image's border. */
typedef struct window {
  int64_t from[2];
  int64_t to[2]; /* one behind */
} window;

static window window_at(const pool *p, int64_t i, int64_t j)
{
  const int64_t at[2] = { i, j };
  window w;

  for (int k = 0; k < 2; k++) {
    int64_t start = at[k] * p->o->stride[k] - p->o->pad_low[k];

    w.from[k] = rg_max_i64(start, 0);
    w.to[k] = rg_min_i64(start + p->o->size[k], p->x[k]);
  }
  return w;
}

/* What an average divides by. */
static double window_count(const pool *p, const window *w)
{
  return p->o->skip_pad != 0 ? (double)((w->to[0] - w->from[0]) * (w->to[1] - w->from[1]))
                             : p->count;
}

/* Has Ctrl-C come?  Asked for after about a million elements; read: by the loop since then. */
static bool stops(int64_t *read, const window *w, int64_t run)
{
  *read += (w->to[0] - w->from[0]) * (w->to[1] - w->from[1]) * run;
  if (*read < 1 << 20) {
    return false;
  }
  *read = 0;
  return rg_interrupt_pending() != 0;
}

/* -- Loops, for f32 and f64: false when they stopped early ---------------------------------- */

/* One plane: y[i,j] = the largest of its window, the first of equal ones; nan wins. */
#define MAX_PLANE(T, name)                                                              \
  static bool name(const pool *p, const T *x, T *y, int32_t *index)                     \
  {                                                                                     \
    int64_t read = 0;                                                                   \
                                                                                        \
    for (int64_t i = 0; i < p->y[0]; i++) {                                             \
      for (int64_t j = 0; j < p->y[1]; j++) {                                           \
        window w = window_at(p, i, j);                                                  \
        int64_t at = (i * p->y[1] + j) * p->run;                                        \
        int32_t first = (int32_t)(w.from[0] * p->x[1] + w.from[1]);                     \
                                                                                        \
        if (stops(&read, &w, p->run)) {                                                 \
          return false;                                                                 \
        }                                                                               \
        for (int64_t l = 0; l < p->run; l++) {                                          \
          y[at + l] = x[first * p->run + l];                                            \
          if (index != NULL) {                                                          \
            index[at + l] = first;                                                      \
          }                                                                             \
        }                                                                               \
        for (int64_t r = w.from[0]; r < w.to[0]; r++) {                                 \
          for (int64_t c = w.from[1]; c < w.to[1]; c++) {                               \
            int32_t here = (int32_t)(r * p->x[1] + c);                                  \
            const T *v = x + here * p->run;                                             \
                                                                                        \
            for (int64_t l = 0; l < p->run; l++) {                                      \
              bool more = v[l] > y[at + l] || (v[l] != v[l] && y[at + l] == y[at + l]); \
                                                                                        \
              y[at + l] = more ? v[l] : y[at + l];                                      \
              if (index != NULL) {                                                      \
                index[at + l] = more ? here : index[at + l];                            \
              }                                                                         \
            }                                                                           \
          }                                                                             \
        }                                                                               \
      }                                                                                 \
    }                                                                                   \
    return true;                                                                        \
  }

#define MAX_BACK_PLANE(T, name)                                           \
  static bool name(const pool *p, const T *dy, T *dx, int32_t *index)     \
  {                                                                       \
    memset(dx, 0, (size_t)(p->x[0] * p->x[1] * p->run) * sizeof(T));      \
    for (int64_t at = 0; at < p->y[0] * p->y[1] * p->run; at += p->run) { \
      for (int64_t l = 0; l < p->run; l++) {                              \
        dx[index[at + l] * p->run + l] += dy[at + l];                     \
      }                                                                   \
    }                                                                     \
    return true;                                                          \
  }

#define AVG_PLANE(T, name)                                          \
  static bool name(const pool *p, const T *x, T *y, int32_t *index) \
  {                                                                 \
    (void)index;                                                    \
    int64_t read = 0;                                               \
                                                                    \
    for (int64_t i = 0; i < p->y[0]; i++) {                         \
      for (int64_t j = 0; j < p->y[1]; j++) {                       \
        window w = window_at(p, i, j);                              \
        T *to = y + (i * p->y[1] + j) * p->run;                     \
        T scale = (T)(1.0 / window_count(p, &w));                   \
                                                                    \
        if (stops(&read, &w, p->run)) {                             \
          return false;                                             \
        }                                                           \
        memset(to, 0, (size_t)p->run * sizeof(T));                  \
        for (int64_t r = w.from[0]; r < w.to[0]; r++) {             \
          for (int64_t c = w.from[1]; c < w.to[1]; c++) {           \
            for (int64_t l = 0; l < p->run; l++) {                  \
              to[l] += x[(r * p->x[1] + c) * p->run + l];           \
            }                                                       \
          }                                                         \
        }                                                           \
        for (int64_t l = 0; l < p->run; l++) {                      \
          to[l] *= scale;                                           \
        }                                                           \
      }                                                             \
    }                                                               \
    return true;                                                    \
  }

#define AVG_BACK_PLANE(T, name)                                       \
  static bool name(const pool *p, const T *dy, T *dx, int32_t *index) \
  {                                                                   \
    (void)index;                                                      \
    memset(dx, 0, (size_t)(p->x[0] * p->x[1] * p->run) * sizeof(T));  \
    int64_t read = 0;                                                 \
                                                                      \
    for (int64_t i = 0; i < p->y[0]; i++) {                           \
      for (int64_t j = 0; j < p->y[1]; j++) {                         \
        window w = window_at(p, i, j);                                \
        const T *from = dy + (i * p->y[1] + j) * p->run;              \
        T scale = (T)(1.0 / window_count(p, &w));                     \
                                                                      \
        if (stops(&read, &w, p->run)) {                               \
          return false;                                               \
        }                                                             \
        for (int64_t r = w.from[0]; r < w.to[0]; r++) {               \
          for (int64_t c = w.from[1]; c < w.to[1]; c++) {             \
            for (int64_t l = 0; l < p->run; l++) {                    \
              dx[(r * p->x[1] + c) * p->run + l] += from[l] * scale;  \
            }                                                         \
          }                                                           \
        }                                                             \
      }                                                               \
    }                                                                 \
    return true;                                                      \
  }

MAX_PLANE(float, max_f32)
MAX_PLANE(double, max_f64)
MAX_BACK_PLANE(float, max_back_f32)
MAX_BACK_PLANE(double, max_back_f64)
AVG_PLANE(float, avg_f32)
AVG_PLANE(double, avg_f64)
AVG_BACK_PLANE(float, avg_back_f32)
AVG_BACK_PLANE(double, avg_back_f64)

/* -- Planes ------------------------------------------------------------------------------- */

typedef bool plane_f32(const pool *p, const float *in, float *out, int32_t *index);
typedef bool plane_f64(const pool *p, const double *in, double *out, int32_t *index);

typedef struct pool_work {
  pool pool;
  int64_t in_size; /* elements of a plane */
  int64_t out_size;
  int64_t index_size;
  plane_f32 *f32;
  plane_f64 *f64;
  bool is_f64;
} pool_work;

static bool pool_job(void *work, int64_t begin, int64_t end)
{
  const pool_work *w = work;

  for (int64_t i = begin; i < end; i++) {
    int32_t *index = w->pool.index != NULL ? w->pool.index + i * w->index_size : NULL;

    if (rg_interrupt_pending()) {
      return false;
    }
    if (w->is_f64 ? !w->f64(&w->pool, (const double *)w->pool.in + i * w->in_size,
                            (double *)w->pool.out + i * w->out_size, index)
                  : !w->f32(&w->pool, (const float *)w->pool.in + i * w->in_size,
                            (float *)w->pool.out + i * w->out_size, index)) {
      return false;
    }
  }
  return true;
}

/* -- Kernels ------------------------------------------------------------------------------ */

/* x side by side in f32 or f64, in scratch where it is not so. */
static rg_tensor as_plain(const rg_tensor *x, void *room)
{
  rg_tensor plain = *x;
  int64_t stride = 1;

  plain._dtype = x->_dtype == RG_F64 ? RG_F64 : RG_F32;
  plain._flags = RG_TENSOR_CONTIGUOUS;
  plain._data = room;
  for (int32_t i = x->_ndim - 1; i >= 0; i--) {
    plain._stride[i] = stride;
    stride *= x->_shape[i];
  }
  return plain;
}

/*
** Bring in and out to where the loops can work, and run them.
**
** big      the tensor with the images' own rows and columns
** small    the one with a row and column for each window
*/
static rg_status run(pool_work *w, const rg_call *call, const rg_tensor *big,
                     const rg_tensor *small, rg_tensor *out, rg_frame *frame)
{
  const rg_pool2d_args *args = call->args;
  const rg_tensor *in = call->in[0];
  int32_t rows = rg_rows_axis(args->o.layout);
  bool last = args->o.layout == RG_NHWC;
  char *scratch = frame->scratch;
  rg_tensor plain_out = *out;

  if (in->_count == 0) {
    return RG_OK;
  }
  w->is_f64 = in->_dtype == RG_F64;
  w->pool.o = &args->o;
  w->pool.planes = last ? big->_shape[0] : big->_shape[0] * big->_shape[1];
  w->pool.run = last ? big->_shape[3] : 1;
  w->pool.count = (double)args->o.size[0] * (double)args->o.size[1];
  for (int i = 0; i < 2; i++) {
    w->pool.x[i] = big->_shape[rows + i];
    w->pool.y[i] = small->_shape[rows + i];
  }
  w->in_size = in->_count / w->pool.planes;
  w->out_size = out->_count / w->pool.planes;
  w->index_size = small->_count / w->pool.planes;
  if (rg_is_half(out->_dtype)) {
    plain_out = as_plain(out, scratch);
    scratch += rg_round_up(out->_count * 4, 64);
  }
  w->pool.in = in->_data;
  if (rg_is_half(in->_dtype) || !rg_is_contiguous(in)) {
    rg_tensor plain = as_plain(in, scratch);

    RG_TRY(rg_cpu_convert(&plain, in));
    w->pool.in = scratch;
  }
  w->pool.out = plain_out._data;
  RG_TRY(rg_parallel(rg_threads_for(4 * call->op->cost(call).flops), w->pool.planes, pool_job, w));
  return plain_out._data != out->_data ? rg_cpu_convert(out, &plain_out) : RG_OK;
}

rg_status rg_cpu_max_pool2d(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  pool_work w = { .f32 = max_f32, .f64 = max_f64 };

  w.pool.index = call->n_out > 1 ? out[1]->_data : NULL;
  return run(&w, call, call->in[0], out[0], out[0], frame);
}

rg_status rg_cpu_max_pool2d_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_pool2d_args *args = call->args;
  const rg_tensor *index = call->in[1];
  int32_t *where = index->_data;
  int64_t plane = args->rows * args->columns;
  pool_work w = { .f32 = max_back_f32, .f64 = max_back_f64 };

  for (int64_t i = 0; i < index->_count; i++) { /* it may be anybody's numbers */
    if (where[i] < 0 || where[i] >= plane) {
      return rg_fail(RG_EARG, "%s: index %d does not lie in images of %lld by %lld", call->op->name,
                     where[i], (long long)args->rows, (long long)args->columns);
    }
  }
  w.pool.index = where;
  return run(&w, call, out[0], call->in[0], out[0], frame);
}

rg_status rg_cpu_avg_pool2d(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  pool_work w = { .f32 = avg_f32, .f64 = avg_f64 };

  return run(&w, call, call->in[0], out[0], out[0], frame);
}

rg_status rg_cpu_avg_pool2d_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  pool_work w = { .f32 = avg_back_f32, .f64 = avg_back_f64 };

  return run(&w, call, out[0], call->in[0], out[0], frame);
}
