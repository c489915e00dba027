/* SPDX-License-Identifier: MIT */
/*
** Another size of an axis by interpolation, on the CPU, and the gradient of that.
**
** A table says which elements each result is made of.  Where the axis is not the innermost whole
** rows behind it are added up, in blocks that stay in L1; else a row is resampled element by
** element.  Sums are in the type of the elements, f32 for narrower ones.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "op/resample.h"

enum {
  BLOCK = 1024,
  GROUP = 8192,
};

typedef struct resample_work {
  const char *from;
  char *to;
  bool wide;     /* f64 */
  int64_t read;  /* elements of the axis that is read */
  int64_t made;  /* of the one that is made */
  int64_t inner; /* elements behind one of the axis */
  int64_t items; /* parts before the axis, in blocks of what is behind it */
  int64_t blocks;
  int64_t group;
  const rg_taps *taps;
  const int64_t *index;
  const void *weight; /* of the type that sums are in */
  int64_t stride;     /* of index and weight */
} resample_work;

/* -- Rows ------------------------------------------------------------------------------------- */

/*
** forward: the results of one part, n elements behind each of the axis (a block of inner).
** back:    the same with what is read and what is made exchanged; it is added up.
*/
#define ROWS(T)                                                                                \
  /* one result */                                                                             \
  static inline T one_##T(const resample_work *w, const T *x, int64_t at)                      \
  {                                                                                            \
    const int64_t *index = w->index + at * w->stride;                                          \
    const T *weight = (const T *)w->weight + at * w->stride;                                   \
    int64_t taps = w->taps[at].n;                                                              \
    T sum = taps == 0 ? (T)w->taps[at].more : weight[0] * x[index[0] * w->inner];              \
                                                                                               \
    for (int64_t k = 1; k < taps; k++) {                                                       \
      sum += weight[k] * x[index[k] * w->inner];                                               \
    }                                                                                          \
    return sum;                                                                                \
  }                                                                                            \
                                                                                               \
  /* the axis is the innermost: most results are of one element, or of two */                  \
  static void row_##T(const resample_work *w, const T *x, T *y)                                \
  {                                                                                            \
    const T *weight = w->weight;                                                               \
    const int64_t *index = w->index;                                                           \
                                                                                               \
    for (int64_t at = 0; at < w->made && !rg_stops(at); at++) {                                \
      if (w->stride == 1 && w->taps[at].n == 1) {                                              \
        y[at] = x[index[at]];                                                                  \
      } else if (w->stride == 2 && w->taps[at].n == 2) {                                       \
        y[at] = weight[2 * at] * x[index[2 * at]] + weight[2 * at + 1] * x[index[2 * at + 1]]; \
      } else {                                                                                 \
        y[at] = one_##T(w, x, at);                                                             \
      }                                                                                        \
    }                                                                                          \
  }                                                                                            \
                                                                                               \
  static void forward_##T(const resample_work *w, const T *x, T *y, int64_t n)                 \
  {                                                                                            \
    if (w->inner == 1) {                                                                       \
      row_##T(w, x, y);                                                                        \
      return;                                                                                  \
    }                                                                                          \
    for (int64_t at = 0; at < w->made && !rg_stops(at); at++, y += w->inner) {                 \
      const int64_t *index = w->index + at * w->stride;                                        \
      const T *weight = (const T *)w->weight + at * w->stride;                                 \
                                                                                               \
      for (int64_t i = 0; i < n && w->taps[at].n == 0; i++) {                                  \
        y[i] = (T)w->taps[at].more;                                                            \
      }                                                                                        \
      for (int64_t k = 0; k < w->taps[at].n; k++) {                                            \
        const T *row = x + index[k] * w->inner;                                                \
        T v = weight[k];                                                                       \
                                                                                               \
        if (k == 0) {                                                                          \
          for (int64_t i = 0; i < n; i++) {                                                    \
            y[i] = v * row[i];                                                                 \
          }                                                                                    \
        } else {                                                                               \
          for (int64_t i = 0; i < n; i++) {                                                    \
            y[i] += v * row[i];                                                                \
          }                                                                                    \
        }                                                                                      \
      }                                                                                        \
    }                                                                                          \
  }                                                                                            \
                                                                                               \
  static void back_##T(const resample_work *w, const T *dy, T *dx, int64_t n)                  \
  {                                                                                            \
    for (int64_t at = 0; at < w->made && !rg_stops(at); at++) {                                \
      memset(dx + at * w->inner, 0, (size_t)n * sizeof(T));                                    \
    }                                                                                          \
    for (int64_t at = 0; at < w->read && !rg_stops(at); at++, dy += w->inner) {                \
      for (int64_t k = 0; k < w->taps[at].n; k++) {                                            \
        T *row = dx + w->index[at * w->stride + k] * w->inner;                                 \
        T v = ((const T *)w->weight)[at * w->stride + k];                                      \
                                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                      \
          row[i] += v * dy[i];                                                                 \
        }                                                                                      \
      }                                                                                        \
    }                                                                                          \
  }
ROWS(float)
ROWS(double)

typedef void one_part(const resample_work *w, int64_t from, int64_t to, int64_t n);

static void forward(const resample_work *w, int64_t from, int64_t to, int64_t n)
{
  if (w->wide) {
    forward_double(w, (const double *)(const void *)w->from + from, (double *)(void *)w->to + to,
                   n);
  } else {
    forward_float(w, (const float *)(const void *)w->from + from, (float *)(void *)w->to + to, n);
  }
}

static void back(const resample_work *w, int64_t from, int64_t to, int64_t n)
{
  if (w->wide) {
    back_double(w, (const double *)(const void *)w->from + from, (double *)(void *)w->to + to, n);
  } else {
    back_float(w, (const float *)(const void *)w->from + from, (float *)(void *)w->to + to, n);
  }
}

static bool parts(const resample_work *w, int64_t begin, int64_t end, one_part *part)
{
  for (int64_t i = begin * w->group; i < rg_min_i64(end * w->group, w->items); i++) {
    int64_t first = i % w->blocks * BLOCK;
    int64_t outer = i / w->blocks;

    if (rg_interrupt_pending()) {
      return false;
    }
    part(w, outer * w->read * w->inner + first, outer * w->made * w->inner + first,
         rg_min_i64(BLOCK, w->inner - first));
  }
  return !rg_interrupt_pending(); /* the last part may have ended early */
}

static bool forward_job(void *work, int64_t begin, int64_t end)
{
  return parts(work, begin, end, forward);
}

static bool back_job(void *work, int64_t begin, int64_t end)
{
  return parts(work, begin, end, back);
}

/* -- The calls -------------------------------------------------------------------------------- */

/* x as lanes without gaps, in its own memory or in scratch. */
static const char *lanes_of(const rg_tensor *x, char **scratch)
{
  int64_t size = x->_dtype == RG_F64 ? 8 : 4;
  char *to = *scratch;
  rg_walk walk;
  rg_tile room;

  if (rg_is_contiguous(x) && !rg_is_half(x->_dtype)) {
    return x->_data;
  }
  rg_walk_init(&walk, &x, 1, x->_shape, x->_ndim);
  for (int64_t at = 0; at < x->_count && !rg_interrupt_pending(); at += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, x->_count - at);

    memcpy(to + at * size, rg_tile_load(&walk, 0, at, n, x->_dtype, &room), (size_t)(n * size));
  }
  *scratch += rg_round_up(x->_count * size, 64);
  return to;
}

static rg_status resample(const rg_call *call, rg_tensor *y, rg_frame *frame, bool backwards)
{
  const rg_resample_args *args = call->args;
  const rg_tensor *x = call->in[0];
  bool half = rg_is_half(x->_dtype);
  int64_t from = backwards ? y->_shape[args->axis] : x->_shape[args->axis];
  int64_t to = backwards ? x->_shape[args->axis] : y->_shape[args->axis];
  char *scratch = frame->scratch;
  rg_taps *taps = (rg_taps *)(void *)scratch;
  resample_work w = { .wide = x->_dtype == RG_F64,
                      .read = x->_shape[args->axis],
                      .made = y->_shape[args->axis],
                      .inner = 1,
                      .taps = taps };

  if (y->_count == 0) {
    return RG_OK;
  }
  if (x->_count == 0) {
    memset(y->_data, 0, (size_t)rg_tensor_bytes(y));
    return RG_OK;
  }
  w.stride = rg_resample_taps(args, from, to);
  scratch += rg_round_up(to * (int64_t)sizeof(rg_taps), 64);
  int64_t *index = (int64_t *)(void *)scratch;

  scratch += rg_round_up(to * w.stride * 8, 64);
  double *weight = (double *)(void *)scratch;

  scratch += rg_round_up(to * w.stride * 8, 64);
  for (int64_t at = 0; at < to && !rg_stops(at); at++) {
    memset(weight + at * w.stride, 0, (size_t)w.stride * sizeof(double));
    taps[at] = rg_resample_at(args, from, to, at, index + at * w.stride, weight + at * w.stride);
  }
  for (int64_t i = 0; i < to * w.stride && !w.wide && !rg_stops(i); i++) { /* in their own place */
    float narrow = (float)weight[i];

    memcpy((float *)(void *)weight + i, &narrow, sizeof(narrow));
  }
  w.index = index;
  w.weight = weight;
  w.from = lanes_of(x, &scratch);
  w.to = half ? scratch : y->_data;
  for (int32_t i = args->axis + 1; i < x->_ndim; i++) {
    w.inner *= x->_shape[i];
  }
  w.blocks = (w.inner + BLOCK - 1) / BLOCK;
  w.items = y->_count / (w.made * w.inner) * w.blocks;
  int64_t each = rg_max_i64(w.made, w.read) * rg_min_i64(w.inner, BLOCK);

  w.group = rg_max_i64(1, GROUP / each);
  RG_TRY(rg_parallel(rg_threads_for(2.0 * (double)(rg_max_i64(x->_count, y->_count) * w.stride)),
                     (w.items + w.group - 1) / w.group, backwards ? back_job : forward_job, &w));
  if (half) {
    rg_lanes_narrow(y->_dtype, y->_data, w.to, y->_count);
  }
  return RG_OK;
}

rg_status rg_cpu_resample(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return resample(call, out[0], frame, false);
}

rg_status rg_cpu_resample_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return resample(call, out[0], frame, true);
}
