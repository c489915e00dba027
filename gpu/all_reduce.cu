/* SPDX-License-Identifier: MIT */
/*
** All-reduce over tensors of one device: each element is read in every tensor, added up, and
** written to every tensor by one thread.
*/
#include "gpu/kernels.cuh"
#include "gpu/pack.cuh"

extern "C" {
#include "ridge/collective.h"
}

enum { FOUR = 4 }; /* elements of a thread at a time */

struct all_reduce_table {
  rg_strided x[RG_MAX_REPLICAS];
  int64_t count;
  int32_t n;
  int32_t dtype;
  int32_t over; /* what the sum is divided by */
};

static_assert(sizeof(all_reduce_table) <= 4080, "what a launch can be told");

template <class L, int N>
__device__ static inline void reduce_at(const all_reduce_table &t, int64_t i)
{
  L sum[N] = {};

  rg_load_pack<N>(t.x[0].data, t.dtype, rg_at(t.x[0], i), sum);
  for (int32_t k = 1; k < t.n; k++) {
    L v[N] = {};

    rg_load_pack<N>(t.x[k].data, t.dtype, rg_at(t.x[k], i), v);
#pragma unroll
    for (int j = 0; j < N; j++) {
      sum[j] += v[j];
    }
  }
#pragma unroll
  for (int j = 0; j < N; j++) {
    sum[j] = t.over > 1 ? sum[j] / (L)t.over : sum[j];
  }
  for (int32_t k = 0; k < t.n; k++) {
    rg_store_pack<N>(t.x[k].data, t.dtype, rg_at(t.x[k], i), sum);
  }
}

template <class L, int N> __global__ void k_all_reduce(const __grid_constant__ all_reduce_table t)
{
  for (int64_t i = N * RG_FIRST; i + N <= t.count; i += N * RG_NEXT) {
    reduce_at<L, N>(t, i);
  }
}

template <int N> static cudaError_t launch(const all_reduce_table &t, const rg_call *call)
{
  const rg_launch_cfg cfg = rg_filling(t.count, N, call);

  return t.dtype == RG_F64 ? rg_launch(k_all_reduce<double, N>, cfg, t)
                           : rg_launch(k_all_reduce<float, N>, cfg, t);
}

rg_status rg_gpu_all_reduce(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_all_reduce_options *options = (const rg_all_reduce_options *)call->args;
  all_reduce_table t = {};
  bool wide = call->in[0]->_count % FOUR == 0;

  (void)out;
  t.count = call->in[0]->_count;
  t.n = call->n_in;
  t.dtype = call->in[0]->_dtype;
  t.over = options->mean != 0 ? call->n_in : 1;
  for (int32_t i = 0; i < call->n_in; i++) {
    t.x[i] = rg_view_of(call->in[i]);
    wide = wide && rg_packs(t.x[i], t.dtype, FOUR);
  }
  frame->path = rg_path_of(wide);
  if (t.count == 0) {
    return RG_OK;
  }
  return rg_gpu_status(call->op->name, wide ? launch<FOUR>(t, call) : launch<1>(t, call));
}
