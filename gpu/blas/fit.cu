/* SPDX-License-Identifier: MIT */
/*
** A product brought into the form that cublasLt takes: batch axes joined, factors copied where
** their types or strides do not fit, and what it cannot do after the sum done by one more pass.
**
** Types.  Factors that differ from the type of the product are rounded to it: with a result in f16
** both are f16, with one in f32 both may be of one half type.  The bias is rounded to the type of
** the result where it goes into cublasLt.  An activation other than relu, and dropout, are computed
** here from sums in f32 (f64 for f64), so that a result in a half type is rounded once, at the end.
** cublasLt's gelu is the approximation by tanh, ours is the exact one: it is not used.  Integers
** wrap around in their own type, which it does not do.
*/
#include "gpu/blas/blas.cuh"
#include "gpu/pack.cuh"
#include "gpu/product.cuh"
#include "gpu/tile_epilogue.cuh"

enum { EIGHT = 8 }; /* neighbours that a thread makes */

/* -- Kernels ----------------------------------------------------------------------------------- */

/* A factor without gaps, row-major or (transposed) column-major. */
struct packing {
  rg_product p; /* the batch */
  rg_matrix from;
  int64_t outer, inner; /* lines of a matrix, elements of a line */
  int64_t next, line;   /* elements in `from` from one element, one line to the next */
  int64_t lines;        /* of all matrices */
};

template <class T, class S> __global__ void k_pack(packing w, T *to)
{
  int64_t step = (int64_t)gridDim.x * blockDim.x;

  for (int64_t l = blockIdx.y; l < w.lines; l += gridDim.y) {
    const S *from =
        (const S *)w.from.data + rg_start(w.p, w.from, l / w.outer) + l % w.outer * w.line;

    for (int64_t i = RG_FIRST; i < w.inner; i += step) {
      to[l * w.inner + i] = rg_element<T>::of((typename rg_lane<T>::type)rg_get(from[i * w.next]));
    }
  }
}

/* What follows sums in f32; they may lie where the result goes.  A thread makes eight neighbours of
** a row; `of_one` is for a batch of one matrix. */
__global__ void k_epilogue(const __grid_constant__ rg_product p,
                           const __grid_constant__ rg_epilogue of_one, const float *sums,
                           int64_t rows, int64_t ld)
{
  const int64_t step = (int64_t)gridDim.x * blockDim.x * EIGHT;

  for (int64_t l = blockIdx.y; l < rows; l += gridDim.y) {
    rg_epilogue e = of_one;
    int64_t row = l;

    if (p.ndim > 0) { /* of a matrix in a batch */
      const int64_t matrix = l / p.m;

      row = l - matrix * p.m;
      e.data = (char *)e.data + rg_start(p, p.c, matrix) * (e.dtype == RG_F32 ? 4 : 2);
      e.ahead = (uint64_t)(matrix * p.m * p.n);
    }
    const float *from = ld > 0 ? sums + l * ld : (const float *)e.data + row * e.row;
    const bool packs = (uintptr_t)from % 16 == 0;

    for (int64_t j = RG_FIRST * EIGHT; j < p.n; j += step) {
      const int n = p.n - j < EIGHT ? (int)(p.n - j) : EIGHT;
      float v[EIGHT];

      if (packs && n == EIGHT) {
        rg_unpack<float, EIGHT>(from, j, v);
      } else {
#pragma unroll
        for (int k = 0; k < EIGHT; k++) {
          v[k] = k < n ? from[j + k] : 0.0f;
        }
      }
      rg_epilogue_eight(e, row, j, n, v);
    }
  }
}

/* The same in f64, where the sums always lie where the result goes: element by element. */
__global__ void k_epilogue_f64(const __grid_constant__ rg_product p, int64_t rows)
{
  const int64_t step = (int64_t)gridDim.x * blockDim.x;

  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    double *y = (double *)p.c.data + rg_start(p, p.c, row / p.m) + row % p.m * p.c.row;

    for (int64_t j = RG_FIRST; j < p.n; j += step) {
      y[j] = rg_epilogue_of(p, y[j], row, j);
    }
  }
}

/* Blocks over lines of n elements, each thread making `run` of them at a time. */
static rg_launch_cfg over_lines(int64_t lines, int64_t n, int64_t run, cudaStream_t stream)
{
  int64_t threads = (n + run - 1) / run;
  int32_t block = threads <= 64 ? 64 : threads <= 128 ? 128 : 256;
  int64_t blocks = (threads + block - 1) / block;

  return rg_launch_cfg{ dim3((unsigned)(blocks < 65535 ? blocks : 65535),
                             (unsigned)(lines < 65535 ? lines : 65535)),
                        dim3((unsigned)block), 0, stream };
}

/* -- Factors ----------------------------------------------------------------------------------- */

/* How a matrix lies; false where neither its rows nor its columns are without gaps. */
static bool lies(const rg_matrix &x, int64_t rows, int64_t cols, rg_gemm_side *out)
{
  out->data = x.data;
  if ((x.col == 1 || cols == 1) && (x.row >= cols || rows == 1)) {
    out->transposed = false;
    out->ld = rows == 1 ? cols : x.row;
    return true;
  }
  if ((x.row == 1 || rows == 1) && (x.col >= rows || cols == 1)) {
    out->transposed = true;
    out->ld = cols == 1 ? rows : x.col;
    return true;
  }
  return false;
}

/* Is the whole batch one stride? */
static bool one_step(const rg_product &p, const rg_matrix &x, int64_t *step)
{
  int64_t next = 0; /* the step that the next axis must have */
  bool first = true;

  *step = 0;
  for (int32_t d = p.ndim - 1; d >= 0; d--) {
    if (p.shape[d] == 1) {
      continue;
    }
    if (first) {
      *step = x.step[d];
      first = false;
    } else if (x.step[d] != next) {
      return false;
    }
    next = x.step[d] * p.shape[d];
  }
  return *step >= 0;
}

static int64_t count_of(const rg_product &p)
{
  int64_t n = 1;

  for (int32_t d = 0; d < p.ndim; d++) {
    n *= p.shape[d];
  }
  return n;
}

template <class T> static cudaError_t pack_as(const packing &w, void *to, cudaStream_t stream)
{
  rg_launch_cfg cfg = over_lines(w.lines, w.inner, 1, stream);

  if (!rg_dtype_of_kind(w.from.dtype, RG_KINDS_FLOAT)) {
    return cudaErrorInvalidValue;
  }
  return rg_with_type<RG_KINDS_FLOAT>(w.from.dtype, [&](auto t) {
    return rg_launch(k_pack<T, rg_t<decltype(t)>>, cfg, w, (T *)to);
  });
}

/* A copy of a factor, in a part of the workspace. */
static rg_status pack(const rg_call *call, const rg_product &p, const rg_matrix &x, int64_t rows,
                      int64_t cols, int32_t dtype, int32_t part, rg_gemm_side *out)
{
  cudaStream_t stream = rg_gpu_stream(call->device);
  int64_t size = dtype == RG_F64 ? 8 : dtype == RG_F32 ? 4 : 2;
  bool transposed = (x.row < x.col && rows > 1) || cols == 1; /* read in the order of the memory */
  bool is_still = true;                                       /* one matrix for the whole batch */
  packing w = {};
  int64_t bytes;

  for (int32_t d = 0; d < p.ndim; d++) {
    is_still = is_still && (p.shape[d] == 1 || x.step[d] == 0);
    w.p.shape[d] = p.shape[d];
  }
  w.p.ndim = is_still ? 0 : p.ndim;
  w.from = x;
  w.outer = transposed ? cols : rows;
  w.inner = transposed ? rows : cols;
  w.next = transposed ? x.row : x.col;
  w.line = transposed ? x.col : x.row;
  w.lines = w.outer * count_of(w.p);
  bytes = w.lines * w.inner * size;
  *out = rg_gemm_side{ rg_gpu_workspace_part(call->device, part, bytes), w.inner,
                       is_still ? 0 : rows * cols, transposed };
  if (out->data == NULL) {
    return rg_gpu_no_room(call->device, call->op->name, bytes);
  }
  return rg_gpu_status(call->op->name, dtype == RG_F64   ? pack_as<double>(w, out->data, stream)
                                       : dtype == RG_F32 ? pack_as<float>(w, out->data, stream)
                                       : dtype == RG_BF16
                                           ? pack_as<__nv_bfloat16>(w, out->data, stream)
                                           : pack_as<__half>(w, out->data, stream));
}

/* A factor as cublasLt can read it: as it is, or copied. */
static rg_status side_of(const rg_call *call, const rg_product &p, const rg_matrix &x, int64_t rows,
                         int64_t cols, int32_t dtype, int32_t part, rg_gemm_side *out)
{
  if (x.dtype == dtype && lies(x, rows, cols, out) && one_step(p, x, &out->step)) {
    return RG_OK;
  }
  return pack(call, p, x, rows, cols, dtype, part, out);
}

/* The bias in the result's type, without gaps, at an aligned address. */
static rg_status bias_of(const rg_call *call, const rg_product &p, rg_gemm *g)
{
  const rg_product none = {};
  rg_gemm_side side;
  rg_matrix bias = {};

  g->bias = p.bias;
  if (p.bias_dtype == g->result && (p.bias_step == 1 || p.n == 1) &&
      ((uintptr_t)p.bias & 15) == 0) {
    return RG_OK;
  }
  bias.data = (char *)p.bias;
  bias.dtype = p.bias_dtype;
  bias.col = p.bias_step;
  RG_TRY(pack(call, none, bias, 1, p.n, g->result, RG_PART_BIAS, &side));
  g->bias = side.data;
  return RG_OK;
}

/* -- Fitting ----------------------------------------------------------------------------------- */

/* The type of both factors, or -1 where cublasLt has no such product. */
static int32_t factor_of(const rg_product &p)
{
  int32_t result = p.c.dtype;
  bool is_half = p.a.dtype == RG_F16 || p.a.dtype == RG_BF16;

  if (p.compute == RG_BF16) {
    return result == RG_BF16 || result == RG_F32 ? RG_BF16 : -1;
  }
  if (result == RG_F32 && is_half && p.a.dtype == p.b.dtype) {
    return p.a.dtype;
  }
  return result == RG_F64 || result == RG_F32 || result == RG_F16 ? result : -1;
}

/* Does cublasLt do all that follows the sum? */
static bool is_whole(const rg_product &p, const rg_gemm &g)
{
  bool is_plain = p.bias == NULL && p.act == RG_ACT_NONE;

  return p.p == 0 && (p.act == RG_ACT_NONE || p.act == RG_ACT_RELU) &&
         (is_plain || g.factor != RG_F64) && (p.bias == NULL || g.count == 1);
}

/* The rest of a product whose sums are there. */
static rg_status end(const rg_call *call, const rg_product &p, const rg_gemm &g)
{
  const int64_t rows = g.count * g.m;
  cudaStream_t stream = rg_gpu_stream(call->device);

  if (g.result == RG_F64) {
    return rg_gpu_status(call->op->name,
                         rg_launch(k_epilogue_f64, over_lines(rows, g.n, 1, stream), p, rows));
  }
  rg_epilogue e = rg_epilogue_after(p);

  e.data = p.c.data;
  e.row = p.c.row;
  return rg_gpu_status(call->op->name, rg_launch(k_epilogue, over_lines(rows, g.n, EIGHT, stream),
                                                 p, e, (const float *)g.c.data, rows,
                                                 g.c.data == p.c.data ? (int64_t)0 : g.n));
}

/* Where the sums go. */
static rg_status sums_of(const rg_call *call, rg_gemm *g)
{
  int64_t bytes = g->count * g->m * g->n * 4;

  g->c = rg_gemm_side{ rg_gpu_workspace_part(call->device, RG_PART_SUM, bytes), g->n, g->m * g->n,
                       false };
  return g->c.data != NULL ? RG_OK : rg_gpu_no_room(call->device, call->op->name, bytes);
}

rg_status rg_gpu_fit(const rg_call *call, const rg_product *p, bool *taken)
{
  rg_gemm g = {};
  bool whole;

  *taken = false;
  g.factor = factor_of(*p);
  g.result = p->c.dtype;
  if (!rg_gpu->modes()->vendor || p->s.where != RG_SIGN_NONE || p->k == 0 || g.factor < 0 ||
      !lies(p->c, p->m, p->n, &g.c) || g.c.transposed || !one_step(*p, p->c, &g.c.step)) {
    return RG_OK;
  }
  g.m = p->m;
  g.n = p->n;
  g.k = p->k;
  g.count = count_of(*p);
  whole = is_whole(*p, g);
  g.scale = whole ? p->scale : 1;
  g.relu = whole && p->act == RG_ACT_RELU;
  if (!whole && g.result != RG_F32 && g.result != RG_F64) {
    g.result = RG_F32;
    RG_TRY(sums_of(call, &g));
  }
  if (whole && p->bias != NULL) {
    RG_TRY(bias_of(call, *p, &g));
  }
  RG_TRY(side_of(call, *p, p->a, p->m, p->k, g.factor, RG_PART_LEFT, &g.a));
  RG_TRY(side_of(call, *p, p->b, p->k, p->n, g.factor, RG_PART_RIGHT, &g.b));
  RG_TRY(rg_blas_run(call->device, call->op->name, &g, taken));
  return *taken && !whole ? end(call, *p, g) : RG_OK;
}
