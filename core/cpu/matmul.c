/* SPDX-License-Identifier: MIT */
/*
** Matrix product on the CPU: the batch is walked, or made one tall product where the right factor
** does not change; integers go through a plain loop.
*/
#include <string.h>

#include "cpu/path.h"
#include "op/product.h"
#include "tensor/dtype.h"

rg_kernel rg_cpu_matmul;

/* One matrix of an operand, and how to get from one to the next along each batch axis. */
typedef struct side {
  const rg_tensor *tensor;
  int64_t row, col;
  int64_t step[RG_MAX_DIMS];
} side;

typedef struct batch {
  int64_t m, n, k;
  int64_t count;
  int32_t ndim;
  int64_t shape[RG_MAX_DIMS];
  side x, y, z;
  int32_t compute; /* the type factors are read in; -1: that of the result */
} batch;

/* Rows and columns of the last two axes; a vector is one row (is_row) or one column. */
static side side_of(const rg_tensor *x, bool is_row, const batch *b)
{
  side s = { .tensor = x };
  int32_t n_batch = x->_ndim > 2 ? x->_ndim - 2 : 0;

  if (x->_ndim == 1) {
    s.row = is_row ? 0 : x->_stride[0];
    s.col = is_row ? x->_stride[0] : 0;
  } else if (x->_ndim >= 2) {
    s.row = x->_stride[x->_ndim - 2];
    s.col = x->_stride[x->_ndim - 1];
  }
  for (int32_t i = 0; i < n_batch; i++) {
    int32_t at = b->ndim - n_batch + i;
    s.step[at] = x->_shape[i] == 1 ? 0 : x->_stride[i];
  }
  return s;
}

static batch batch_of(const rg_call *call, const rg_tensor *z)
{
  const rg_tensor *x = call->in[0];
  const rg_tensor *y = call->in[1];
  int32_t tail = (x->_ndim > 1) + (y->_ndim > 1);
  batch b = { .count = 1,
              .ndim = z->_ndim - tail,
              .compute = ((const rg_matmul_args *)call->args)->compute };

  for (int32_t i = 0; i < b.ndim; i++) {
    b.shape[i] = z->_shape[i];
    b.count *= z->_shape[i];
  }
  b.m = x->_ndim > 1 ? x->_shape[x->_ndim - 2] : 1;
  b.k = x->_shape[x->_ndim - 1];
  b.n = y->_ndim > 1 ? y->_shape[y->_ndim - 1] : 1;
  b.x = side_of(x, true, &b);
  b.y = side_of(y, false, &b);
  b.z.tensor = z;
  for (int32_t i = 0; i < b.ndim; i++) {
    b.z.step[i] = z->_stride[i];
  }
  if (x->_ndim > 1 && y->_ndim > 1) {
    b.z.row = z->_stride[b.ndim];
    b.z.col = z->_stride[b.ndim + 1];
  } else if (tail == 1) {
    b.z.row = x->_ndim > 1 ? z->_stride[b.ndim] : 0;
    b.z.col = y->_ndim > 1 ? z->_stride[b.ndim] : 0;
  }
  return b;
}

static int64_t offset_of(const batch *b, const side *s, int64_t index)
{
  int64_t offset = 0;

  for (int32_t i = b->ndim - 1; i >= 0; i--) {
    offset += index % b->shape[i] * s->step[i];
    index /= b->shape[i];
  }
  return offset;
}

/*
** Where the right factor is the same for the whole of the last batch axis, that axis and the rows
** are one longer axis of rows, if the left factor and the result allow it.
*/
static void fold(batch *b)
{
  while (b->ndim > 0) {
    int32_t i = b->ndim - 1;
    int64_t size = b->shape[i];
    bool joins = size == 1 || b->m == 1 ||
                 (b->x.step[i] == b->x.row * b->m && b->z.step[i] == b->z.row * b->m);

    if ((size != 1 && b->y.step[i] != 0) || !joins) {
      return;
    }
    if (size != 1 && b->m == 1) {
      b->x.row = b->x.step[i];
      b->z.row = b->z.step[i];
    }
    b->m *= size;
    b->count = size > 0 ? b->count / size : 0;
    b->ndim = i;
  }
}

/* -- Integers ----------------------------------------------------------------------------- */

enum { RUN = 128 }; /* elements that are widened together */

/* n <= RUN elements of x from `at` on. */
static void load_integers(const rg_tensor *x, int64_t at, int64_t step, int64_t *to, int64_t n)
{
  const rg_dtype *type = &rg_dtypes[x->_dtype];

  type->whole((const char *)x->_data + at * type->bytes, step, to, n);
}

/* Sums wrap around like the type's own addition. */
static void store_integer(const rg_tensor *x, int64_t at, uint64_t value)
{
  int64_t size = rg_dtype_bytes(x->_dtype);

  memcpy((char *)x->_data + at * size, &value, (size_t)size); /* little end first */
}

static rg_status integer_product(const batch *b, int64_t x0, int64_t y0, int64_t z0)
{
  int64_t x[RUN];
  int64_t y[RUN];

  for (int64_t i = 0; i < b->m; i++) {
    if (b->k <= RUN) { /* the row stays where it is */
      load_integers(b->x.tensor, x0 + i * b->x.row, b->x.col, x, b->k);
    }
    for (int64_t j = 0; j < b->n; j++) {
      uint64_t sum = 0;

      if ((j & 1023) == 0 && rg_interrupt_pending()) {
        return rg_fail(RG_EINTR, "interrupted");
      }
      for (int64_t l = 0; l < b->k; l += RUN) {
        int64_t n = rg_min_i64(RUN, b->k - l);

        if ((l & 65535) == 65535 / RUN * RUN && rg_interrupt_pending()) {
          return rg_fail(RG_EINTR, "interrupted");
        }
        if (b->k > RUN) {
          load_integers(b->x.tensor, x0 + i * b->x.row + l * b->x.col, b->x.col, x, n);
        }
        load_integers(b->y.tensor, y0 + l * b->y.row + j * b->y.col, b->y.row, y, n);
        for (int64_t k = 0; k < n; k++) {
          sum += (uint64_t)x[k] * (uint64_t)y[k];
        }
      }
      store_integer(b->z.tensor, z0 + i * b->z.row + j * b->z.col, sum);
    }
  }
  return RG_OK;
}

/* -- Floats ---------------------------------------------------------------------------------- */

/* One thread's product, pointed at one matrix of the batch after the other; a step's memo. */
typedef struct worker {
  rg_ready ready;
  rg_block block; /* a result whose columns are not adjacent is made here */
  void *result;   /* there, or NULL */
} worker;

typedef struct state {
  rg_memo memo;
  batch b;
  int32_t n;
  worker workers[];
} state;

enum { MOST_WORKERS = 64 };

static void end(state *s)
{
  for (int32_t i = 0; i < s->n; i++) {
    rg_product_end(&s->workers[i].ready);
    if (s->workers[i].block.data != NULL) {
      rg_block_free(&s->workers[i].block);
    }
  }
}

static void release(rg_memo *memo)
{
  end((state *)memo);
  rg_host_free(memo);
}

/* All of a batch go one way. */
static int32_t chosen(const rg_memo *memo, int32_t i, rg_choice *out)
{
  const state *s = (const state *)memo;

  return i == 0 && s->n > 0 ? rg_product_chosen(&s->workers[0].ready, out) : RG_BY_NONE;
}

static rg_status prepare_worker(state *s, int32_t number, int32_t n_threads, bool stays)
{
  worker *w = &s->workers[number];
  const batch *b = &s->b;
  const rg_tensor *y = b->y.tensor;
  int32_t dtype = b->z.tensor->_dtype;
  bool adjacent = b->z.col == 1 || b->n == 1;

  w->ready.stays = stays;
  w->ready.worker = number;
  w->ready.p = (rg_product){ .m = b->m,
                             .n = b->n,
                             .k = b->k,
                             .n_threads = n_threads,
                             .compute = b->compute >= 0 ? b->compute : rg_product_compute(dtype),
                             .a = b->x.tensor->_data,
                             .a_dtype = b->x.tensor->_dtype,
                             .a_row = b->x.row,
                             .a_col = b->x.col,
                             .c = b->z.tensor->_data,
                             .c_dtype = dtype,
                             .c_row = b->z.row,
                             .epilogue = { .scale = 1 } };
  w->ready.p.b = (rg_weight){ .k = b->k, .n = b->n, .split_k = b->k, .split_n = b->n };
  w->ready.p.b.piece[0] = (rg_piece){ .data = y->_data,
                                      .storage = y->_storage,
                                      .dtype = y->_dtype,
                                      .keeps = b->count == 1 && (y->_flags & RG_TENSOR_PARAM) != 0,
                                      .row = b->y.row,
                                      .col = b->y.col };
  if (!adjacent) {
    RG_TRY(rg_block_alloc(RG_CPU, b->m * b->n * rg_dtype_bytes(dtype), &w->block));
    w->result = w->block.data;
    w->ready.p.c = w->result;
    w->ready.p.c_row = b->n;
  }
  return rg_product_prepare(&w->ready);
}

/* Product index of the batch. */
static rg_status run_one(const state *s, worker *w, int64_t index)
{
  const batch *b = &s->b;
  rg_product *p = &w->ready.p;
  int64_t size = rg_dtype_bytes(p->c_dtype);
  char *z = (char *)b->z.tensor->_data + offset_of(b, &b->z, index) * size;

  p->a = (const char *)b->x.tensor->_data + offset_of(b, &b->x, index) * rg_dtype_bytes(p->a_dtype);
  p->b.piece[0].data = (const char *)b->y.tensor->_data +
                       offset_of(b, &b->y, index) * rg_dtype_bytes(p->b.piece[0].dtype);
  p->c = w->result != NULL ? w->result : z;
  if (rg_interrupt_pending()) {
    return rg_fail(RG_EINTR, "interrupted");
  }
  RG_TRY(rg_product_go(&w->ready));
  if (w->result != NULL) {
    for (int64_t i = 0; i < b->m * b->n; i++) {
      if ((i & 65535) == 65535 && rg_interrupt_pending()) {
        return rg_fail(RG_EINTR, "interrupted");
      }
      memcpy(z + (i / b->n * b->z.row + i % b->n * b->z.col) * size, (char *)w->result + i * size,
             (size_t)size);
    }
  }
  return RG_OK;
}

static rg_status run(state *s)
{
  int64_t count = s->b.count;
  int32_t n = s->n;
  rg_status first = RG_OK;

  if (n == 1) {
    for (int64_t i = 0; i < count; i++) {
      RG_TRY(run_one(s, &s->workers[0], i));
    }
    return RG_OK;
  }
#pragma omp parallel for num_threads(n) schedule(static, 1)
  for (int32_t t = 0; t < n; t++) {
    rg_status status = RG_OK;

    for (int64_t i = count * t / n; i < count * (t + 1) / n && status == RG_OK; i++) {
      status = run_one(s, &s->workers[t], i);
    }
    if (status != RG_OK) {
#pragma omp atomic write
      first = status;
    }
  }
  return first == RG_OK ? RG_OK : rg_fail(first, "matmul: a product of the batch failed");
}

/* One product for each thread where the batch is large enough to share, else threads share one. */
static int32_t workers_for(const batch *b)
{
  double work = 2.0 * (double)b->m * (double)b->n * (double)b->k;
  int32_t threads = rg_threads_for(work * (double)b->count);

  if (b->count < 2 * threads) {
    return 1;
  }
  return threads < MOST_WORKERS ? threads : MOST_WORKERS;
}

static rg_status float_products(const batch *b, rg_frame *frame)
{
  int32_t n = workers_for(b);
  state *s = rg_host_zeroed(sizeof(*s) + (size_t)n * sizeof(worker));
  bool stays = frame->memo != NULL;
  rg_status status = RG_OK;

  if (s == NULL) {
    return rg_fail(RG_ENOMEM, "matmul: no memory for %d products", n);
  }
  s->b = *b;
  s->memo.release = release;
  s->memo.chosen = chosen;
  s->n = n;
  for (int32_t i = 0; i < n && status == RG_OK; i++) {
    status = prepare_worker(s, i, n > 1 ? 1 : 0, stays);
  }
  if (status == RG_OK) {
    status = run(s);
    frame->path = s->workers[0].ready.path; /* which the first run may choose */
  }
  if (stays) {
    *frame->memo = &s->memo;
    for (int32_t i = n - 1; i >= 0; i--) {
      rg_product_done(&s->workers[i].ready);
      if (s->workers[i].block.data != NULL) {
        rg_block_free(&s->workers[i].block);
        s->workers[i].block.data = NULL;
      }
    }
  } else {
    release(&s->memo);
  }
  return status;
}

rg_status rg_cpu_matmul(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  batch b;

  if (frame->memo != NULL && *frame->memo != NULL) {
    return run((state *)*frame->memo);
  }
  if (out[0]->_count == 0) {
    return RG_OK;
  }
  b = batch_of(call, out[0]);
  fold(&b);
  if (rg_dtype_is_float(out[0]->_dtype)) {
    return float_products(&b, frame);
  }
  frame->path = "loop";
  for (int64_t i = 0; i < b.count; i++) {
    RG_TRY(integer_product(&b, offset_of(&b, &b.x, i), offset_of(&b, &b.y, i),
                           offset_of(&b, &b.z, i)));
  }
  return RG_OK;
}
