/* SPDX-License-Identifier: MIT */
/*
** Products of 8-bit factors with scales: which kernels take them, and the plain one for any
** strides.
**
** cublasLt takes what its documentation promises (scaled_blas.cu), the tiles of scaled_mma.cu what
** lies in rows of whole 16 bytes, the plain kernel the rest.
**
** Where cublasLt does not multiply 8-bit floats as they are, they are widened into bf16, which
** holds each of them, in rows of whole eights: so tensor cores take them in any shape and strides,
** and add up in f32, which those that multiply 8-bit floats themselves may not.
*/
#include "gpu/scaled.cuh"

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

/* Rows of 8-bit floats in bf16, `padded` elements apart; what is behind the k-th is 0. */
template <class T>
__global__ void k_scaled_widen(rg_scaled_side x, int64_t rows, int64_t k, int64_t padded,
                               __nv_bfloat16 *to)
{
  int64_t step = (int64_t)gridDim.x * blockDim.x * 8;

  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const T *from = (const T *)x.rows.data + rg_at(x.rows, row);

    for (int64_t l = RG_FIRST * 8; l < padded; l += step) {
      float v[8];

      if (x.col == 1 && l + 8 <= k && (uintptr_t)(from + l) % 8 == 0) {
        rg_unpack<T, 8>(from, l, v);
      } else {
#pragma unroll
        for (int c = 0; c < 8; c++) {
          v[c] = l + c < k ? rg_get(from[(l + c) * x.col]) : 0;
        }
      }
      rg_pack_into<__nv_bfloat16, 8>(to, row * padded + l, v);
    }
  }
}

/* -- Widening ---------------------------------------------------------------------------------- */

static rg_status widen_side(const rg_call *call, int32_t part, int64_t rows, int64_t k,
                            int64_t padded, rg_scaled_side *x)
{
  int64_t bytes = rows * padded * 2;
  void *to = rg_gpu_workspace_part(call->device, part, bytes);
  rg_scaled_side wide = {};
  rg_launch_cfg cfg = rg_over_rows(call, rows, padded);

  if (to == NULL) {
    return rg_gpu_no_room(call->device, call->op->name, bytes);
  }
  RG_CUDA(call->op->name, x->dtype == RG_F8E4M3 ? rg_launch(k_scaled_widen<rg_f8e4m3>, cfg, *x,
                                                            rows, k, padded, (__nv_bfloat16 *)to)
                                                : rg_launch(k_scaled_widen<rg_f8e5m2>, cfg, *x,
                                                            rows, k, padded, (__nv_bfloat16 *)to));
  wide.rows.data = (char *)to;
  wide.row = padded;
  wide.col = 1;
  wide.dtype = RG_BF16;
  *x = wide;
  return RG_OK;
}

/* The same call with both factors in bf16.  Zeros behind the rows add nothing. */
static rg_status widen(const rg_call *call, rg_scaled *s)
{
  int64_t padded = rg_round_up(s->k, 8);

  RG_TRY(widen_side(call, RG_PART_LEFT, s->m, s->k, padded, &s->a));
  RG_TRY(widen_side(call, RG_PART_RIGHT, s->n, s->k, padded, &s->b));
  s->k = padded;
  return RG_OK;
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

static rg_status run(const rg_call *call, const rg_scaled &s, rg_frame *frame)
{
  const int64_t least = 16; /* steps: for fewer the widened copies are mostly zeros */
  rg_scaled wide = s;
  bool widened = false;
  bool taken = false;

  RG_TRY(rg_gpu_scaled_blas(call, s, &taken));
  if (!taken && s.a.dtype != RG_I8 && s.k >= least) {
    RG_TRY(widen(call, &wide));
    widened = true;
    RG_TRY(rg_gpu_scaled_blas(call, wide, &taken));
  }
  frame->path = widened ? "cublasLt:bf16" : "cublasLt";
  if (!taken) {
    RG_TRY(rg_gpu_scaled_mma(call, wide, &taken));
    frame->path = !taken ? "tiles" : widened ? "mma:bf16" : "mma";
  }
  return taken ? RG_OK : plain(call, s);
}

/* The result is new, so it lies without gaps. */
rg_status rg_gpu_scaled_linear(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_scaled_args *args = (const rg_scaled_args *)call->args;
  const rg_tensor *x = call->in[0];
  const rg_tensor *w = call->in[1];
  const rg_tensor *b = call->n_in > 4 ? call->in[4] : NULL;
  rg_scaled s = {};

  if (x->_dtype == RG_U8 || args->x_zero != 0 || rg_is_bytes(args->dtype) || call->in[2] == NULL ||
      (b != NULL && b->_dtype == RG_I32)) {
    return rg_gpu->fail(RG_ENOSUP,
                        "%s: u8, zero points, x of floats, a bias of i32 and results of bytes have "
                        "no kernel on devices yet; move the tensors to the CPU",
                        call->op->name);
  }
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
  s.epilogue.data = out[0]->_data;
  s.epilogue.row = s.epilogue.cols = s.n;
  s.epilogue.scale = 1;
  s.epilogue.act = args->act;
  s.epilogue.dtype = args->dtype;
  if (b != NULL) {
    s.epilogue.bias = b->_data;
    s.epilogue.bias_step = b->_stride[0];
    s.epilogue.bias_dtype = b->_dtype;
  }
  return run(call, s, frame);
}
