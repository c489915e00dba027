/* SPDX-License-Identifier: MIT */
/*
** Products of matrices of any types and strides, and what follows them in the same pass: scale,
** bias, activation, dropout, conversion.  A block makes a square tile; both factors come through
** shared memory in the type they are computed in.
**
** This is the plain kernel, for what cublasLt does not take (blas/fit.cu).
*/
#include "gpu/gemm_mma.cuh"
#include "gpu/kernels.cuh"
#include "gpu/pack.cuh"
#include "gpu/product.cuh"
#include "gpu/sketch.cuh"

extern "C" {
#include "op/product.h"
#include "op/signs.h"
}

enum { TILE = 16 };

typedef rg_matrix matrix;
typedef rg_signs signs;
typedef rg_product product;

/* -- Elements ---------------------------------------------------------------------------------- */

/* Element [k, j] of the right factor, where signs may be a part of it. */
template <class L> __device__ inline L right(const product &p, int64_t b0, int64_t k, int64_t j)
{
  int64_t at_k = k;
  int64_t at_j = j;
  bool is_sign = p.s.where == RG_SIGN_COLUMNS ? j >= p.s.split
                 : p.s.where == RG_SIGN_ROWS  ? k < p.s.split
                                              : false;

  if (is_sign) {
    at_j = p.s.where == RG_SIGN_COLUMNS ? j - p.s.split : j;
    uint8_t byte = p.s.data[k * p.s.row + (at_j >> 3) * p.s.col];

    return rg_rounded((L)((byte >> (at_j & 7) & 1) != 0 ? p.s.sign : -p.s.sign), p.compute);
  }
  if (p.s.where == RG_SIGN_ROWS) {
    at_k = k - p.s.split;
  }
  return rg_factor<L>(p.b, b0 + at_k * p.b.row + at_j * p.b.col, p.compute);
}

/* -- Kernels ----------------------------------------------------------------------------------- */

template <class L> __global__ void k_product(product p, int64_t first)
{
  RG_SHARED(L, a, TILE * TILE);
  RG_SHARED(L, b, TILE * (TILE + 1));
  int64_t index = first + blockIdx.z;
  int64_t a0 = rg_start(p, p.a, index);
  int64_t b0 = rg_start(p, p.b, index);
  int x = (int)threadIdx.x % TILE;
  int y = (int)threadIdx.x / TILE;
  int64_t i = (int64_t)blockIdx.y * TILE + y;
  int64_t j = (int64_t)blockIdx.x * TILE + x;
  L sum = 0;

  for (int64_t k0 = 0; k0 < p.k; k0 += TILE) {
    bool a_there = i < p.m && k0 + x < p.k;
    bool b_there = k0 + y < p.k && j < p.n;

    a[y * TILE + x] =
        a_there ? rg_factor<L>(p.a, a0 + i * p.a.row + (k0 + x) * p.a.col, p.compute) : (L)0;
    b[y * (TILE + 1) + x] = b_there ? right<L>(p, b0, k0 + y, j) : (L)0;
    __syncthreads();
    for (int l = 0; l < TILE; l++) {
      sum += a[y * TILE + l] * b[l * (TILE + 1) + x];
    }
    __syncthreads();
  }
  if (i < p.m && j < p.n) {
    int64_t at = rg_start(p, p.c, index) + i * p.c.row + j * p.c.col;

    rg_store(p.c, at, rg_epilogue_of(p, sum, index * p.m + i, j));
  }
}

/* Whole numbers: sums wrap around, as the type's own addition does. */
template <class T> __global__ void k_whole(product p, int64_t first)
{
  int64_t index = first + blockIdx.z;
  int64_t i = (int64_t)blockIdx.y * TILE + threadIdx.x / TILE;
  int64_t j = (int64_t)blockIdx.x * TILE + threadIdx.x % TILE;
  uint64_t sum = 0;

  if (i >= p.m || j >= p.n) {
    return;
  }
  int64_t a0 = rg_start(p, p.a, index) + i * p.a.row;
  int64_t b0 = rg_start(p, p.b, index) + j * p.b.col;

  for (int64_t l = 0; l < p.k; l++) {
    sum += (uint64_t)rg_number_of(p.a.data, p.a.dtype, a0 + l * p.a.col).k *
           (uint64_t)rg_number_of(p.b.data, p.b.dtype, b0 + l * p.b.row).k;
  }
  ((T *)p.c.data)[rg_start(p, p.c, index) + i * p.c.row + j * p.c.col] = (T)sum;
}

/* -- Launching --------------------------------------------------------------------------------- */

static cudaError_t launch(const product &p, rg_launch_cfg cfg, int64_t first)
{
  const int64_t size = rg_bytes_of(p.c.dtype);

  if (rg_dtype_of_kind(p.c.dtype, RG_KINDS_FLOAT)) {
    return size == 8 ? rg_launch(k_product<double>, cfg, p, first)
                     : rg_launch(k_product<float>, cfg, p, first);
  }
  return size == 8   ? rg_launch(k_whole<uint64_t>, cfg, p, first)
         : size == 4 ? rg_launch(k_whole<uint32_t>, cfg, p, first)
                     : rg_launch(k_whole<uint8_t>, cfg, p, first);
}

static rg_status run(const rg_call *call, const product &p, rg_frame *frame)
{
  const int64_t most = 65535; /* blocks along the second and third axis of a grid */
  int64_t count = 1;
  bool taken = false;
  rg_launch_cfg cfg = { dim3(1), dim3(TILE * TILE), 0, rg_gpu_stream(call->device) };

  for (int32_t d = 0; d < p.ndim; d++) {
    count *= p.shape[d];
  }
  if (p.m == 0 || p.n == 0 || count == 0) {
    return RG_OK;
  }
  RG_TRY(rg_gpu_fit(call, &p, &taken));
  if (taken) {
    frame->path = "cublasLt";
    return RG_OK;
  }
  RG_TRY(rg_gpu_gemm(call, rg_gemm_of(p), &taken));
  frame->path = taken ? "mma" : "tiles";
  if (taken) {
    return RG_OK;
  }
  if ((p.m + TILE - 1) / TILE > most) {
    return rg_gpu->fail(RG_ENOSUP, "%s: %lld rows are more than this kernel takes", call->op->name,
                        (long long)p.m);
  }
  for (int64_t first = 0; first < count; first += most) {
    cfg.grid = dim3((unsigned)((p.n + TILE - 1) / TILE), (unsigned)((p.m + TILE - 1) / TILE),
                    (unsigned)(count - first < most ? count - first : most));
    RG_TRY(rg_gpu_status(call->op->name, launch(p, cfg, first)));
  }
  return RG_OK;
}

/* -- Matrix product ---------------------------------------------------------------------------- */

static matrix matrix_of(const rg_tensor *x)
{
  matrix f = {};

  f.data = (char *)x->_data;
  f.dtype = x->_dtype;
  return f;
}

/* Rows and columns of the last two axes, a vector being one row or one column; then the batch's. */
static matrix operand(const rg_tensor *x, bool is_row, const product &p)
{
  matrix f = matrix_of(x);
  int32_t n_batch = x->_ndim > 2 ? x->_ndim - 2 : 0;

  if (x->_ndim == 1) {
    f.row = is_row ? 0 : x->_stride[0];
    f.col = is_row ? x->_stride[0] : 0;
  } else {
    f.row = x->_stride[x->_ndim - 2];
    f.col = x->_stride[x->_ndim - 1];
  }
  for (int32_t i = 0; i < n_batch; i++) {
    f.step[p.ndim - n_batch + i] = x->_shape[i] == 1 ? 0 : x->_stride[i];
  }
  return f;
}

/* Leading axes become rows where they lie so and the right factor is the same for all of them:
** fewer, taller products. */
static void join(product &p)
{
  while (p.ndim > 0) {
    int32_t d = p.ndim - 1;

    if (p.shape[d] != 1) {
      if (p.m == 1) {
        p.a.row = p.a.step[d];
        p.c.row = p.c.step[d];
      }
      if (p.b.step[d] != 0 || p.a.step[d] != p.a.row * p.m || p.c.step[d] != p.c.row * p.m) {
        return;
      }
    }
    p.m *= p.shape[d];
    p.ndim = d;
  }
}

static int32_t compute_of(int32_t dtype)
{
  if (dtype == RG_F64 || dtype == RG_BF16) {
    return dtype;
  }
  return RG_F32;
}

rg_status rg_gpu_matmul(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_matmul_args *args = (const rg_matmul_args *)call->args;
  const rg_tensor *x = call->in[0];
  const rg_tensor *y = call->in[1];
  rg_tensor *z = out[0];
  product p = {};
  int32_t tail = (x->_ndim > 1) + (y->_ndim > 1);

  p.ndim = z->_ndim - tail;
  p.m = x->_ndim > 1 ? x->_shape[x->_ndim - 2] : 1;
  p.k = x->_shape[x->_ndim - 1];
  p.n = y->_ndim > 1 ? y->_shape[y->_ndim - 1] : 1;
  p.scale = 1;
  p.compute = args->compute >= 0 ? args->compute : compute_of(z->_dtype);
  for (int32_t i = 0; i < p.ndim; i++) {
    p.shape[i] = z->_shape[i];
  }
  p.a = operand(x, true, p);
  p.b = operand(y, false, p);
  p.c = matrix_of(z);
  for (int32_t i = 0; i < p.ndim; i++) {
    p.c.step[i] = z->_stride[i];
  }
  p.c.row = x->_ndim > 1 ? z->_stride[p.ndim] : 0;
  p.c.col = y->_ndim > 1 ? z->_stride[z->_ndim - 1] : 0;
  join(p);
  return run(call, p, frame);
}

/* -- Linear layers ----------------------------------------------------------------------------- */

/* x [... x k] as the left factor, out [... x n] as the result: all axes but the last as batch. */
static void rows_of(product &p, const rg_tensor *x, const rg_tensor *y)
{
  int32_t last = x->_ndim - 1;

  p.m = last > 0 ? x->_shape[last - 1] : 1;
  p.k = x->_shape[last];
  p.ndim = last > 1 ? last - 1 : 0;
  p.a = matrix_of(x);
  p.c = matrix_of(y);
  p.a.col = x->_stride[last];
  p.c.col = y->_stride[last];
  p.a.row = last > 0 ? x->_stride[last - 1] : 0;
  p.c.row = last > 0 ? y->_stride[last - 1] : 0;
  for (int32_t i = 0; i < p.ndim; i++) {
    p.shape[i] = x->_shape[i];
    p.a.step[i] = x->_stride[i];
    p.c.step[i] = y->_stride[i];
  }
  p.n = y->_shape[last];
  p.scale = 1;
}

static void bias_of(product &p, const rg_tensor *bias)
{
  if (bias != NULL) {
    p.bias = bias->_data;
    p.bias_dtype = bias->_dtype;
    p.bias_step = bias->_stride[0];
  }
}

/* y = x w' */
static void transposed(product &p, const rg_tensor *w)
{
  p.b = matrix_of(w);
  p.b.row = w->_stride[1];
  p.b.col = w->_stride[0];
}

/* y = x w */
static void straight(product &p, const rg_tensor *w)
{
  p.b = matrix_of(w);
  p.b.row = w->_stride[0];
  p.b.col = w->_stride[1];
}

/* The seed and offset of the call's numbers, for its gradient. */
__global__ void k_keep(rg_draw *kept, rg_drawn draw)
{
  *kept = rg_draw_now(draw);
}

rg_status rg_gpu_keep_draw(const rg_call *call, rg_tensor *kept)
{
  rg_launch_cfg cfg = { dim3(1), dim3(1), 0, rg_gpu_stream(call->device) };

  return rg_gpu_status(call->op->name,
                       rg_launch(k_keep, cfg, (rg_draw *)kept->_data, rg_drawn_by(call)));
}

static rg_status linear(const rg_call *call, rg_tensor *y, double drop, rg_frame *frame)
{
  const rg_linear_args *args = (const rg_linear_args *)call->args;
  product p = {};

  rows_of(p, call->in[0], y);
  join(p);
  transposed(p, call->in[1]);
  bias_of(p, call->n_in > 2 ? call->in[2] : NULL);
  p.compute = compute_of(y->_dtype);
  p.act = args->act;
  p.p = drop;
  p.draw = rg_drawn_by(call);
  return run(call, p, frame);
}

rg_status rg_gpu_linear(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return linear(call, out[0], 0, frame);
}

rg_status rg_gpu_linear_dropout(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  if (call->n_out > 1) {
    RG_TRY(rg_gpu_keep_draw(call, out[1]));
  }
  return linear(call, out[0], ((const rg_linear_args *)call->args)->p, frame);
}

/* -- Two products ------------------------------------------------------------------------------ */

/* z = x b[0] goes into the hidden result where the call has one, else into room of the plugin's;
** then y = epilogue(z b[1]). */
static rg_status chain(const rg_call *call, rg_tensor *const *out, const product b[2],
                       const product &epilogue, rg_frame *frame)
{
  const rg_tensor *x = call->in[0];
  int32_t last = x->_ndim - 1;
  rg_tensor z = {};
  product p;

  if (call->n_out > 1) {
    z = *out[1];
  } else { /* like y, of another width */
    z._dtype = out[0]->_dtype;
    z._ndim = x->_ndim;
    z._count = 1;
    for (int32_t i = last; i >= 0; i--) {
      z._shape[i] = i == last ? b[0].n : x->_shape[i];
      z._stride[i] = z._count;
      z._count *= z._shape[i];
    }
    int64_t bytes = z._count * (z._dtype == RG_F64 ? 8 : 4);

    z._data = rg_gpu_workspace(call->device, bytes);
    if (z._data == NULL) {
      return rg_gpu_no_room(call->device, call->op->name, bytes);
    }
  }
  p = b[0];
  rows_of(p, x, &z);
  join(p);
  p.compute = compute_of(out[0]->_dtype);
  RG_TRY(run(call, p, frame));
  p = b[1];
  rows_of(p, &z, out[0]);
  join(p);
  p.compute = compute_of(out[0]->_dtype);
  p.scale = epilogue.scale;
  p.bias = epilogue.bias;
  p.bias_dtype = epilogue.bias_dtype;
  p.bias_step = epilogue.bias_step;
  p.act = epilogue.act;
  p.p = epilogue.p;
  p.draw = rg_drawn_by(call);
  return run(call, p, frame);
}

rg_status rg_gpu_lowrank_linear(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  product b[2] = {};
  product epilogue = {};

  straight(b[0], call->in[1]);
  straight(b[1], call->in[2]);
  b[0].n = call->in[1]->_shape[1];
  epilogue.scale = 1;
  epilogue.act = ((const rg_linear_args *)call->args)->act;
  bias_of(epilogue, call->n_in > 3 ? call->in[3] : NULL);
  return chain(call, out, b, epilogue, frame);
}

static product epilogue_of(const rg_call *call, const rg_tensor *bias)
{
  const rg_sketch_args *args = (const rg_sketch_args *)call->args;
  product epilogue = {};

  epilogue.scale = 1.0 / (2.0 * args->n_terms);
  epilogue.act = args->act;
  epilogue.p = args->p;
  bias_of(epilogue, bias);
  return epilogue;
}

rg_status rg_gpu_sketched_linear(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  product b[2] = {};

  if (call->n_out > 2) {
    RG_TRY(rg_gpu_keep_draw(call, out[2]));
  }
  straight(b[0], call->in[1]);
  straight(b[1], call->in[2]);
  b[0].n = call->in[1]->_shape[1];
  return chain(call, out, b, epilogue_of(call, call->n_in > 3 ? call->in[3] : NULL), frame);
}

static signs signs_of(const rg_tensor *bits, int32_t where, int64_t split, double sign)
{
  return signs{
    (const uint8_t *)bits->_data, bits->_stride[0], bits->_stride[1], split, sign, where
  };
}

/* Bits of signs from a seed in memory, for the plain kernel, which would make each of them again
** for every row of its tiles. */
static rg_status made_signs(const rg_call *call, const rg_sketched &w, product b[2])
{
  int64_t n_in = w.s1->_shape[0], half = w.s1->_shape[1], n_out = w.s2->_shape[1];
  int64_t bytes = rg_sign_bytes(half, n_out) + rg_sign_bytes(n_in, half);
  uint8_t *room = (uint8_t *)rg_gpu_workspace_part(call->device, RG_PART_SIGNS, bytes + 1);

  if (room == NULL) {
    return rg_gpu_no_room(call->device, call->op->name, bytes + 1);
  }
  uint8_t *u1 = room, *u2 = room + rg_sign_bytes(half, n_out);

  b[1].s.data = u1;
  b[1].s.row = (n_out + 7) / 8;
  b[0].s.data = u2;
  b[0].s.row = (half + 7) / 8;
  b[0].s.col = b[1].s.col = 1;
  RG_TRY(rg_gpu_make_sign_bits(call, w.seed, RG_DRAW_U1, half, n_out, u1));
  return rg_gpu_make_sign_bits(call, w.seed, RG_DRAW_U2, n_in, half, u2);
}

/* The same call with its signs as +-1 in memory; what they stand for scales the end of it, because
** one of them is in every product of three factors. */
static rg_status expanded(const rg_call *call, rg_tensor *const *out, const rg_sketched &w,
                          const product b[2], rg_frame *frame, bool *taken)
{
  int64_t half = w.s1->_shape[1];
  const uint8_t *bits[2] = { b[0].s.data, b[1].s.data };
  const int64_t row[2] = { b[0].s.row, b[1].s.row };
  void *to[2] = {};
  product wide[2] = {};
  product epilogue = epilogue_of(call, w.bias);

  RG_TRY(rg_gpu_sketch_expand(call, w, bits, row, to, taken));
  if (!*taken) {
    return RG_OK;
  }
  wide[0].n = 2 * half;
  for (int i = 0; i < 2; i++) {
    wide[i].b.data = (char *)to[i];
    wide[i].b.dtype = w.s1->_dtype;
    wide[i].b.row = i == 0 ? 2 * half : w.s2->_shape[1];
    wide[i].b.col = 1;
  }
  epilogue.scale *= b[0].s.sign;
  return chain(call, out, wide, epilogue, frame);
}

/* [S1|U2] and [U1;S2], U by one bit a sign. */
static rg_status sketched(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_sketch_args *args = (const rg_sketch_args *)call->args;
  const rg_sketched w = rg_gpu_sketched(call);
  int64_t half = w.s1->_shape[1];
  double sign = 1.0 / sqrt((double)half / args->n_terms);
  product b[2] = {};

  if (call->n_out > 2) {
    RG_TRY(rg_gpu_keep_draw(call, out[2]));
  }
  const bool expands = rg_gpu_sketch_expands(call, out);

  if (!expands && rg_gpu_sketch_fits(call, out)) {
    frame->path = "signs";
    return rg_gpu_sketch(call, out);
  }
  straight(b[0], w.s1);
  straight(b[1], w.s2);
  b[0].n = 2 * half;
  if (w.seed == NULL) {
    b[0].s = signs_of(w.u2, RG_SIGN_COLUMNS, half, sign);
    b[1].s = signs_of(w.u1, RG_SIGN_ROWS, half, sign);
  } else {
    b[0].s = signs{ NULL, 0, 0, half, sign, RG_SIGN_COLUMNS };
    b[1].s = signs{ NULL, 0, 0, half, sign, RG_SIGN_ROWS };
    RG_TRY(made_signs(call, w, b));
  }
  if (expands) {
    bool taken = false;

    RG_TRY(expanded(call, out, w, b, frame, &taken));
    if (taken) {
      return RG_OK;
    }
    frame->path = "signs";
    return rg_gpu_sketch(call, out);
  }
  return chain(call, out, b, epilogue_of(call, w.bias), frame);
}

rg_status rg_gpu_sketched_linear_bits(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return sketched(call, out, frame);
}

rg_status rg_gpu_sketched_linear_seed(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return sketched(call, out, frame);
}
