/* SPDX-License-Identifier: MIT */
/*
** Products of 8-bit factors with scales by cublasLt, in the forms that its documentation promises,
** and the pass over sums that it leaves to us.
**
** i8        both factors by rows (TN), columns and inner size multiples of 4: whole sums
** 8-bit     from compute capability 8.9 on, TN, columns and inner size multiples of 16, not both
** floats    f8e5m2.  Scales are read by cublasLt out of the device's memory, one for a factor or
**           (from 9.0 on, where this cublasLt has it) one for each row; where that is all that
**           follows, so is the result its own, else its sums are f32
** bf16      what was widened: sums in f32
*/
#include "gpu/scaled.cuh"

#include "gpu/blas/blas.cuh"
#include "gpu/pack.cuh"

/* Sums, n to a row, which may lie where the result goes: a thread reads its own first. */
template <class L> __global__ void k_scaled_epilogue(rg_scaled s, const L *sums)
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

/* Two vectors of scales beside each other, from wherever they lie. */
__global__ void k_scaled_scales(rg_strided x, int64_t m, rg_strided w, int64_t n, int64_t apart,
                                float *to)
{
  for (int64_t i = RG_FIRST; i < m + n; i += RG_NEXT) {
    to[i < m ? i : i - m + apart] =
        i < m ? ((const float *)x.data)[rg_at(x, i)] : ((const float *)w.data)[rg_at(w, i - m)];
  }
}

/* -- Which ------------------------------------------------------------------------------------- */

static bool fits(const rg_call *call, const rg_scaled &s)
{
  bool lies = rg_scaled_lies(s.a, s.m, s.k) && rg_scaled_lies(s.b, s.n, s.k);

  switch (s.a.dtype) {
  case RG_BF16:
    return true;
  case RG_I8:
    return lies && s.n % 4 == 0;
  default:
    return lies && s.n % 16 == 0 && !(s.a.dtype == RG_F8E5M2 && s.b.dtype == RG_F8E5M2) &&
           rg_gpu_capability(call->device) >= 89;
  }
}

/* May cublasLt do all that follows? */
static bool may_be_whole(const rg_scaled &s)
{
  return (s.a.dtype == RG_F8E4M3 || s.a.dtype == RG_F8E5M2) && s.epilogue.bias == NULL &&
         s.epilogue.act == RG_ACT_NONE;
}

/* -- Running ----------------------------------------------------------------------------------- */

/* The pass over sums. */
template <class L>
static rg_status finish(const rg_call *call, const rg_scaled &s, const void *sums)
{
  return rg_gpu_status(call->op->name, rg_launch(k_scaled_epilogue<L>, rg_over_rows(call, s.m, s.n),
                                                 s, (const L *)sums));
}

static rg_gemm_side side_of(const rg_scaled_side &x, int64_t rows, int64_t k, bool transposed)
{
  return rg_gemm_side{ x.rows.data, rows == 1 ? k : x.row, 0, transposed };
}

/* Is this a vector that cublasLt may read where it is? */
static bool is_vector(const rg_strided &scale)
{
  return scale.flat == 1 && (uintptr_t)scale.data % 16 == 0;
}

/* A product with a scale for each row of a factor, all of it by cublasLt. */
static rg_status run_by_row(const rg_call *call, const rg_scaled &s, rg_gemm g, bool *taken)
{
  if (is_vector(s.x_scale) && is_vector(s.w_scale)) {
    g.a_scale = s.x_scale.data;
    g.b_scale = s.w_scale.data;
  } else {
    const int64_t apart = rg_round_up(s.m, 4);
    const int64_t bytes = (apart + s.n) * 4;
    float *to = (float *)rg_gpu_workspace_part(call->device, RG_PART_BIAS, bytes);

    if (to == NULL) { /* sums are scaled by our own pass instead */
      *taken = false;
      return rg_gpu_lost(call->device, call->op->name);
    }
    RG_CUDA(call->op->name,
            rg_launch(k_scaled_scales, rg_over(s.m + s.n, rg_gpu_stream(call->device)), s.x_scale,
                      s.m, s.w_scale, s.n, apart, to));
    g.a_scale = to;
    g.b_scale = to + apart;
  }
  g.by_row = true;
  g.result = s.epilogue.dtype;
  g.c.data = s.epilogue.data;
  return rg_blas_run(call->device, call->op->name, &g, taken);
}

rg_status rg_gpu_scaled_blas(const rg_call *call, const rg_scaled &s, bool *taken)
{
  bool single = s.x_scale.flat == 2 && s.w_scale.flat == 2;
  bool whole = may_be_whole(s) && single;
  bool in_place = whole || s.epilogue.dtype == RG_F32; /* sums have the size of a result in f32 */
  int64_t bytes = s.m * s.n * 4;
  rg_gemm g = {};

  *taken = false;
  if (!rg_gpu->modes()->vendor || s.k == 0 || !fits(call, s)) {
    return RG_OK;
  }
  g.m = s.m;
  g.n = s.n;
  g.k = s.k;
  g.count = 1;
  g.factor = s.a.dtype;
  g.other = s.b.dtype;
  g.result = s.a.dtype == RG_I8 ? RG_I32 : whole ? s.epilogue.dtype : RG_F32;
  g.scale = 1;
  g.a_scale = whole ? s.x_scale.data : NULL;
  g.b_scale = whole ? s.w_scale.data : NULL;
  g.a = side_of(s.a, s.m, s.k, false);
  g.b = side_of(s.b, s.n, s.k, true);
  g.c.ld = s.n;
  if (may_be_whole(s) && !single && rg_gpu_capability(call->device) >= 90) {
    RG_TRY(run_by_row(call, s, g, taken));
    if (*taken) {
      return RG_OK;
    }
  }
  g.c.data = in_place ? s.epilogue.data : rg_gpu_workspace_part(call->device, RG_PART_SUM, bytes);
  if (g.c.data == NULL) {
    return rg_gpu_no_room(call->device, call->op->name, bytes);
  }
  RG_TRY(rg_blas_run(call->device, call->op->name, &g, taken));
  if (!*taken || whole) {
    return RG_OK;
  }
  return g.result == RG_I32 ? finish<int32_t>(call, s, g.c.data) : finish<float>(call, s, g.c.data);
}
