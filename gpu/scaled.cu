/* SPDX-License-Identifier: MIT */
/*
** Products of 8-bit factors with scales: which kernel takes them, the plain one for any strides,
** and the pass over sums that cublasLt made.
**
** i8 goes to cublasLt's products of bytes with whole sums in the form that its documentation
** promises (both factors by rows, inner size and columns multiples of 4, here of 16 bytes along the
** rows), then through one pass of our own; else to the tiles of scaled_mma.cu, which do both; else
** to the plain kernel.
*/
#include "gpu/scaled.cuh"

#include "gpu/blas/blas.cuh"
#include "gpu/pack.cuh"

extern "C" {
#include "op/scaled.h"
}

enum { TILE = 16 };

/* -- Kernels ----------------------------------------------------------------------------------- */

/* L: what sums are kept in. */
template <class L, class A, class B> __global__ void k_scaled(rg_scaled s)
{
  RG_SHARED(L, a, TILE * TILE);
  RG_SHARED(L, b, TILE * (TILE + 1));
  int x = (int)threadIdx.x % TILE;
  int y = (int)threadIdx.x / TILE;
  int64_t j = (int64_t)blockIdx.x * TILE + x;
  int64_t j_here = (int64_t)blockIdx.x * TILE + y; /* whose elements this thread loads */
  int64_t b0 = j_here < s.n ? rg_at(s.b.rows, j_here) : 0;

  for (int64_t i0 = (int64_t)blockIdx.y * TILE; i0 < s.m; i0 += (int64_t)gridDim.y * TILE) {
    int64_t i = i0 + y;
    int64_t a0 = i < s.m ? rg_at(s.a.rows, i) : 0;
    L sum = 0;

    for (int64_t k0 = 0; k0 < s.k; k0 += TILE) {
      bool there = k0 + x < s.k;

      a[y * TILE + x] =
          there && i < s.m ? (L)rg_get(((const A *)s.a.rows.data)[a0 + (k0 + x) * s.a.col]) : (L)0;
      b[x * (TILE + 1) + y] = there && j_here < s.n
                                  ? (L)rg_get(((const B *)s.b.rows.data)[b0 + (k0 + x) * s.b.col])
                                  : (L)0;
      __syncthreads();
      for (int l = 0; l < TILE; l++) {
        sum += a[y * TILE + l] * b[l * (TILE + 1) + x];
      }
      __syncthreads();
    }
    if (i < s.m && j < s.n) {
      float v[8] = { (float)sum };

      rg_scaled_eight(s, i, j, 1, v);
    }
  }
}

/* Sums, n to a row, which may lie where the result goes: a thread reads its own first. */
template <class L> __global__ void k_scaled_end(rg_scaled s, const L *sums)
{
  int64_t step = (int64_t)gridDim.x * blockDim.x * 8;

  for (int64_t row = blockIdx.y; row < s.m; row += gridDim.y) {
    for (int64_t j = RG_FIRST * 8; j < s.n; j += step) {
      const L *from = sums + row * s.n + j;
      int n = s.n - j < 8 ? (int)(s.n - j) : 8;
      float v[8];

      if (n == 8 && (uintptr_t)from % 16 == 0) {
        rg_unpack<L, 8>(from, 0, v);
      } else {
#pragma unroll
        for (int c = 0; c < 8; c++) {
          v[c] = c < n ? (float)from[c] : 0;
        }
      }
      rg_scaled_eight(s, row, j, n, v);
    }
  }
}

/* -- By cublasLt ------------------------------------------------------------------------------- */

static rg_gemm_side side_of(const rg_scaled_side &x, int64_t rows, int64_t k, bool turned)
{
  return rg_gemm_side{ x.rows.data, rows == 1 ? k : x.row, 0, turned };
}

/* The pass over sums. */
template <class L>
static rg_status finish(const rg_call *call, const rg_scaled &s, const void *sums)
{
  int64_t threads = (s.n + 7) / 8;
  int block = threads <= 64 ? 64 : 128;
  int64_t blocks = (threads + block - 1) / block;
  rg_launch_cfg cfg = { dim3((unsigned)rg_clamped(blocks, 1, 65535),
                             (unsigned)rg_clamped(s.m, 1, 65535)),
                        dim3((unsigned)block), 0, rg_gpu_stream(call->device) };

  return rg_gpu_status(call->op->name, rg_launch(k_scaled_end<L>, cfg, s, (const L *)sums));
}

/* Where sums go: a result in f32 has their size. */
static rg_status sums_of(const rg_call *call, const rg_scaled &s, void **out)
{
  int64_t bytes = s.m * s.n * 4;

  *out =
      s.end.dtype == RG_F32 ? s.end.data : rg_gpu_workspace_part(call->device, RG_PART_SUM, bytes);
  return *out != NULL ? RG_OK : rg_gpu_no_room(call->device, call->op->name, bytes);
}

static rg_status by_library(const rg_call *call, const rg_scaled &s, bool *taken)
{
  rg_gemm g = {};

  *taken = false;
  if (!rg_gpu->modes->vendor || s.a.dtype != RG_I8 || s.k == 0 || s.n % 4 != 0 ||
      !rg_scaled_lies(s.a, s.m, s.k) || !rg_scaled_lies(s.b, s.n, s.k)) {
    return RG_OK;
  }
  g.m = s.m;
  g.n = s.n;
  g.k = s.k;
  g.count = 1;
  g.factor = RG_I8;
  g.result = RG_I32;
  g.scale = 1;
  g.a = side_of(s.a, s.m, s.k, false);
  g.b = side_of(s.b, s.n, s.k, true);
  RG_TRY(sums_of(call, s, &g.c.data));
  g.c.ld = s.n;
  RG_TRY(rg_blas_run(call->device, call->op->name, &g, taken));
  return *taken ? finish<int32_t>(call, s, g.c.data) : RG_OK;
}

/* -- The call ---------------------------------------------------------------------------------- */

/* Rows of all leading axes of x. */
static rg_scaled_side side_from(const rg_tensor *x)
{
  int32_t last = x->_ndim - 1;
  rg_tensor lead = *x;
  rg_scaled_side side = {};
  int64_t count = 1;

  lead._ndim = last;
  lead._flags = 0; /* rows are not neighbours */
  lead._count = x->_shape[last] > 0 ? x->_count / x->_shape[last] : 0;
  side.rows = rg_view_of(&lead);
  side.col = x->_stride[last];
  side.dtype = x->_dtype;
  side.row = x->_shape[last];
  for (int32_t d = last - 1; d >= 0 && side.row >= 0; d--) {
    if (x->_shape[d] == 1) {
      continue;
    }
    if (count == 1) {
      side.row = x->_stride[d];
    } else if (x->_stride[d] != side.row * count) {
      side.row = -1;
    }
    count *= x->_shape[d];
  }
  return side;
}

/* One number, or one for each row: with or without an axis of 1 behind those of the rows. */
static rg_strided scale_from(const rg_tensor *scale, int32_t n_lead)
{
  rg_tensor s = *scale;

  s._ndim = s._ndim > n_lead ? n_lead : s._ndim;
  return rg_view_of(&s);
}

template <class A> static cudaError_t launch_floats(const rg_scaled &s, const rg_launch_cfg &cfg)
{
  return s.b.dtype == RG_F8E4M3 ? rg_launch(k_scaled<float, A, rg_f8e4m3>, cfg, s)
                                : rg_launch(k_scaled<float, A, rg_f8e5m2>, cfg, s);
}

static rg_status plain(const rg_call *call, const rg_scaled &s)
{
  int64_t rows = (s.m + TILE - 1) / TILE;
  rg_launch_cfg cfg = { dim3((unsigned)((s.n + TILE - 1) / TILE),
                             (unsigned)rg_clamped(rows, 1, 65535)),
                        dim3(TILE * TILE), 0, rg_gpu_stream(call->device) };

  return rg_gpu_status(call->op->name, s.a.dtype == RG_I8
                                           ? rg_launch(k_scaled<int32_t, int8_t, int8_t>, cfg, s)
                                       : s.a.dtype == RG_F8E4M3 ? launch_floats<rg_f8e4m3>(s, cfg)
                                                                : launch_floats<rg_f8e5m2>(s, cfg));
}

rg_status rg_gpu_scaled_linear(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_scaled_args *args = (const rg_scaled_args *)call->args;
  const rg_tensor *x = call->in[0];
  const rg_tensor *w = call->in[1];
  const rg_tensor *b = call->n_in > 4 ? call->in[4] : NULL;
  rg_scaled s = {};
  bool taken = false;

  if (out[0]->_count == 0) {
    return RG_OK;
  }
  s.n = w->_shape[0];
  s.k = w->_shape[1];
  s.m = out[0]->_count / s.n;
  s.a = side_from(x);
  s.b = side_from(w);
  s.x_scale = scale_from(call->in[2], x->_ndim - 1);
  s.w_scale = scale_from(call->in[3], 1);
  s.end.data = out[0]->_data;
  s.end.row = s.end.cols = s.n;
  s.end.scale = 1;
  s.end.act = args->act;
  s.end.dtype = args->dtype;
  if (b != NULL) {
    s.end.bias = b->_data;
    s.end.bias_step = b->_stride[0];
    s.end.bias_dtype = b->_dtype;
  }
  RG_TRY(by_library(call, s, &taken));
  frame->path = "cublasLt";
  if (!taken) {
    RG_TRY(rg_gpu_scaled_mma(call, s, &taken));
    frame->path = taken ? "mma" : "tiles";
  }
  return taken ? RG_OK : plain(call, s);
}
