/* SPDX-License-Identifier: MIT */
/*
** Pooling on the CPU, over the planes of a batch: with channels first a plane is one channel of one
** image, with channels last a whole image whose elements are runs of channels.  Half types are
** widened first.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/simd/simd.h"
#include "op/conv.h"
#include "op/pool.h"

typedef struct pool {
  const rg_pool2d_options *o;
  const rg_simd_pool *loops;
  int type;     /* 0: f32, 1: f64 */
  int64_t size; /* bytes of an element */
  int64_t planes;
  int64_t run;  /* elements side by side: 1, or channels */
  int64_t x[2]; /* rows and columns of the larger side */
  int64_t y[2]; /* of the smaller one */
  const void *in;
  void *out;
  int32_t *index; /* where each maximum was; NULL: nobody wants to know */
  double count;   /* of a whole window */
} pool;

enum {
  CHUNK = 1024,        /* windows of a row at a time: what they read stays in L1 */
  STOP_EVERY = 1 << 20 /* elements between two looks at a request to stop */
};

/* -- Boxes, for f32 and f64 ------------------------------------------------------------------ */

/* Each is given a box, and where its elements lie: in the image, and in what the windows give. */
typedef void pool_box(const pool *p, const rg_pool_box *b, void *x, void *y, int32_t *index);

static void max_box(const pool *p, const rg_pool_box *b, void *x, void *y, int32_t *index)
{
  p->loops->max[p->type](b, y, index, x);
}

static void avg_box(const pool *p, const rg_pool_box *b, void *x, void *y, int32_t *index)
{
  (void)index;
  p->loops->avg[p->type](b, y, x);
}

static void avg_back_box(const pool *p, const rg_pool_box *b, void *x, void *y, int32_t *index)
{
  (void)index;
  p->loops->avg_back[p->type](b, x, y);
}

/* -- Planes ------------------------------------------------------------------------------- */

typedef struct pool_work {
  pool pool;
  int64_t in_size; /* elements of a plane */
  int64_t out_size;
  int64_t index_size;
  pool_box *box; /* NULL: the gradient of max_pool2d */
  bool back;     /* out is the larger side */
} pool_work;

/* Windows j .. j+n of row i, all of whose boxes have the columns that the first one has. */
static void run_box(const pool_work *w, const int64_t rows[2], int64_t i, int64_t j, int64_t n,
                    char *x, char *y, int32_t *index)
{
  const pool *p = &w->pool;
  int64_t start = j * p->o->stride[1] - p->o->pad_low[1];
  int64_t left = rg_max_i64(start, 0);
  int64_t right = rg_min_i64(start + p->o->size[1], p->x[1]);
  int64_t here = rows[0] * p->x[1] + left;
  int64_t first = (i * p->y[1] + j) * p->run;
  bool channels = p->run > 1;
  rg_pool_box b = { .n = n * p->run,
                    .step = channels ? 1 : p->o->stride[1],
                    .rows = rows[1] - rows[0],
                    .columns = right - left,
                    .row_step = p->x[1] * p->run,
                    .column_step = p->run,
                    .width = p->x[1],
                    .here = (int32_t)here,
                    .apart = channels ? 0 : (int32_t)p->o->stride[1] };

  b.scale = 1.0 / (p->o->skip_pad != 0 ? (double)(b.rows * b.columns) : p->count);
  w->box(p, &b, x + here * p->run * p->size, y + first * p->size,
         index != NULL ? index + first : NULL);
}

/* All windows of a plane; false where Ctrl-C came, which is asked for after about a million
** elements. */
static bool plane(const pool_work *w, char *x, char *y, int32_t *index, int64_t *read)
{
  const pool *p = &w->pool;
  int64_t stride = p->o->stride[1];
  int64_t low = p->o->pad_low[1];
  int64_t room = p->x[1] + low - p->o->size[1];
  /* windows from .. to-1 have all their columns */
  int64_t from = rg_min_i64((low + stride - 1) / stride, p->y[1]);
  int64_t to = room < 0 ? from : rg_max_i64(from, rg_min_i64(room / stride + 1, p->y[1]));
  int64_t area = p->o->size[0] * p->o->size[1];
  int64_t most = rg_max_i64(1, rg_min_i64(CHUNK, STOP_EVERY / area));

  for (int64_t i = 0; i < p->y[0]; i++) {
    int64_t start = i * p->o->stride[0] - p->o->pad_low[0];
    int64_t rows[2] = { rg_max_i64(start, 0), rg_min_i64(start + p->o->size[0], p->x[0]) };
    int64_t n;

    for (int64_t j = 0; j < p->y[1]; j += n) {
      n = p->run == 1 && j >= from && j < to ? rg_min_i64(most, to - j) : 1;
      *read += n * p->run * area;
      if (*read >= STOP_EVERY) {
        *read = 0;
        if (rg_interrupt_pending()) {
          return false;
        }
      }
      run_box(w, rows, i, j, n, x, y, index);
    }
  }
  return true;
}

/* The index says where; nothing of the windows is needed. */
static bool max_back_plane(const pool_work *w, char *x, const char *y, const int32_t *index,
                           int64_t *read)
{
  const pool *p = &w->pool;

  for (int64_t j = 0; j < w->index_size; j += p->run) {
    *read += p->run;
    if (*read >= STOP_EVERY) {
      *read = 0;
      if (rg_interrupt_pending()) {
        return false;
      }
    }
    for (int64_t l = j; l < j + p->run; l++) {
      int64_t to = index[l] * p->run + l - j;

      if (p->type == 0) {
        ((float *)(void *)x)[to] += ((const float *)(const void *)y)[l];
      } else {
        ((double *)(void *)x)[to] += ((const double *)(const void *)y)[l];
      }
    }
  }
  return true;
}

static bool pool_job(void *work, int64_t begin, int64_t end)
{
  const pool_work *w = work;
  int64_t read = 0;

  for (int64_t i = begin; i < end; i++) {
    int32_t *index = w->pool.index != NULL ? w->pool.index + i * w->index_size : NULL;
    char *in = (char *)(uintptr_t)w->pool.in + i * w->in_size * w->pool.size;
    char *out = (char *)w->pool.out + i * w->out_size * w->pool.size;

    if (rg_interrupt_pending()) {
      return false;
    }
    if (w->back) {
      memset(out, 0, (size_t)(w->out_size * w->pool.size));
    }
    if (w->box == NULL ? !max_back_plane(w, out, in, index, &read)
                       : !plane(w, w->back ? out : in, w->back ? in : out, index, &read)) {
      return false;
    }
  }
  return true;
}

/* -- Kernels ------------------------------------------------------------------------------ */

/* x side by side in f32 or f64, in scratch where it is not so. */
static rg_tensor as_plain(const rg_tensor *x, void *room)
{
  rg_tensor plain = rg_tensor_struct(x);
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
  w->pool.type = in->_dtype == RG_F64 ? 1 : 0;
  w->pool.size = in->_dtype == RG_F64 ? 8 : 4;
  w->pool.loops = rg_simd()->pool;
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
  pool_work w = { .box = max_box };

  w.pool.index = call->n_out > 1 ? out[1]->_data : NULL;
  return run(&w, call, call->in[0], out[0], out[0], frame);
}

rg_status rg_cpu_max_pool2d_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_pool2d_args *args = call->args;
  const rg_tensor *index = call->in[1];
  int32_t *where = index->_data;
  int64_t plane = args->rows * args->columns;
  pool_work w = { .back = true };

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
  pool_work w = { .box = avg_box };

  return run(&w, call, call->in[0], out[0], out[0], frame);
}

rg_status rg_cpu_avg_pool2d_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  pool_work w = { .box = avg_back_box, .back = true };

  return run(&w, call, out[0], call->in[0], out[0], frame);
}
