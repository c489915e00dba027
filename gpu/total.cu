/* SPDX-License-Identifier: MIT */
/*
** The norm of many tensors together: squares are added up in f64 by a block for each piece of each
** tensor, then the pieces by one block.  Which pieces there are depends on the sizes alone, and so
** do the bits; nothing waits for the host.
*/
#include "gpu/kernels.cuh"
#include "gpu/pack.cuh"
#include "gpu/team.cuh"

extern "C" {
#include "op/total.h"
}

enum {
  FOUR = 4,   /* elements of a thread at a time */
  TABLE = 160 /* tensors in one launch: what a launch can be told is 4 KiB */
};

/* Tensors side by side in memory. */
struct total_table {
  const char *x[TABLE];
  int64_t count[TABLE];
  int32_t first[TABLE + 1]; /* piece of each tensor */
  int8_t dtype[TABLE];
  int8_t wide[TABLE]; /* four at a time */
  int32_t n;
};

static_assert(sizeof(total_table) <= 4080, "what a launch can be told");

/* The sum over a block; every thread of it comes here and gets it. */
__device__ static inline double block_sum(double v)
{
  RG_SHARED(double, room, RG_WARPS);

  return rg_team_sum(v, RG_BLOCK, room);
}

template <int N> __device__ static inline double squares_at(const char *x, int32_t dtype, int64_t i)
{
  double v[N] = {};
  double sum = 0;

  rg_load_pack<N>(x, dtype, i, v);
#pragma unroll
  for (int k = 0; k < N; k++) {
    sum += v[k] * v[k];
  }
  return sum;
}

__global__ void k_squares(const __grid_constant__ total_table t, double *sums)
{
  const int32_t piece = (int32_t)blockIdx.x;
  int32_t x = 0;
  double sum = 0;

  for (int32_t half = 128; half > 0; half /= 2) { /* the last that begins here or before */
    x += x + half < t.n && t.first[x + half] <= piece ? half : 0;
  }
  int64_t begin = (int64_t)(piece - t.first[x]) * RG_TOTAL_PIECE;
  int64_t end = begin + RG_TOTAL_PIECE < t.count[x] ? begin + RG_TOTAL_PIECE : t.count[x];

  for (int64_t i = begin + FOUR * threadIdx.x; i < end; i += FOUR * RG_BLOCK) {
    if (t.wide[x] != 0 && i + FOUR <= end) {
      sum += squares_at<FOUR>(t.x[x], t.dtype[x], i);
    } else {
      for (int64_t j = i; j < i + FOUR && j < end; j++) {
        sum += squares_at<1>(t.x[x], t.dtype[x], j);
      }
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    sums[piece] = sum;
  }
}

/* One tensor of any strides. */
__global__ void k_squares_of(const __grid_constant__ rg_strided x, int32_t dtype, int64_t n,
                             double *sums)
{
  const int64_t begin = (int64_t)blockIdx.x * RG_TOTAL_PIECE;
  const int64_t end = begin + RG_TOTAL_PIECE < n ? begin + RG_TOTAL_PIECE : n;
  double sum = 0;

  for (int64_t i = begin + threadIdx.x; i < end; i += RG_BLOCK) {
    sum += squares_at<1>(x.data, dtype, rg_at(x, i));
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = sum;
  }
}

__global__ void k_total(double *y, const double *sums, int64_t n)
{
  double sum = 0;

  for (int64_t i = threadIdx.x; i < n; i += RG_BLOCK) {
    sum += sums[i];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    *y = sqrt(sum);
  }
}

static void add(total_table *t, const rg_tensor *x, int64_t pieces)
{
  t->x[t->n] = (const char *)x->_data;
  t->count[t->n] = x->_count;
  t->dtype[t->n] = (int8_t)x->_dtype;
  t->wide[t->n] = rg_aligned(x->_data, rg_bytes_of(x->_dtype), FOUR);
  t->first[t->n + 1] = t->first[t->n] + (int32_t)pieces;
  t->n++;
}

rg_status rg_gpu_total_norm(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const char *name = call->op->name;
  rg_launch_cfg cfg = { dim3(1), dim3(RG_BLOCK), 0, rg_gpu_stream(call->device) };
  double *sums = (double *)frame->scratch;
  total_table t = {};
  int64_t all = 0; /* pieces that were asked for */

  for (int32_t i = 0; i <= call->n_in; i++) {
    const rg_tensor *x = i < call->n_in ? call->in[i] : NULL;
    const int64_t pieces = x != NULL ? (x->_count + RG_TOTAL_PIECE - 1) / RG_TOTAL_PIECE : 0;

    if (t.n > 0 && (x == NULL || t.n == TABLE)) {
      cfg.grid.x = (unsigned)t.first[t.n];
      RG_CUDA(name, rg_launch(k_squares, cfg, t, sums + all));
      all += t.first[t.n];
      t.n = 0;
    }
    if (pieces > 0 && rg_is_contiguous(x)) {
      add(&t, x, pieces);
    }
  }
  for (int32_t i = 0; i < call->n_in; i++) {
    const rg_tensor *x = call->in[i];

    if (x->_count > 0 && !rg_is_contiguous(x)) {
      cfg.grid.x = (unsigned)((x->_count + RG_TOTAL_PIECE - 1) / RG_TOTAL_PIECE);
      RG_CUDA(name, rg_launch(k_squares_of, cfg, rg_view_of(x), x->_dtype, x->_count, sums + all));
      all += cfg.grid.x;
    }
  }
  cfg.grid.x = 1;
  return rg_gpu_status(name, rg_launch(k_total, cfg, (double *)out[0]->_data, sums, all));
}
