/* SPDX-License-Identifier: MIT */
/*
** Choosing between two tensors, element by element: bits of one size, whatever their type.
*/
#include "gpu/kernels.cuh"
#include "gpu/pack.cuh"

struct choice_work {
  rg_strided z, cond, x, y;
  int64_t n;
  int32_t wide;
};

template <class T> __global__ void k_where(const __grid_constant__ choice_work w)
{
  constexpr int N = rg_pack_size<T>;

  for (rg_some<N> at(w.n, w.wide != 0); at.more(); at.next()) {
    uint8_t cond[N];
    T p[N];
    T q[N];

    rg_read<uint8_t>(w.cond, at, cond);
    rg_read<T>(w.x, at, p);
    rg_read<T>(w.y, at, q);
#pragma unroll
    for (int k = 0; k < N; k++) {
      p[k] = cond[k] != 0 ? p[k] : q[k];
    }
    rg_write<T>(w.z, at, p);
  }
}

rg_status rg_gpu_where(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  rg_tensor *z = out[0];
  const int64_t size = rg_bytes_of(z->_dtype);
  const int64_t n = 16 / size;
  choice_work w = {};

  if (z->_count == 0) {
    return RG_OK;
  }
  w.z = rg_view_of(z);
  w.cond = rg_view_as(call->in[0], z->_shape, z->_ndim);
  w.x = rg_view_as(call->in[1], z->_shape, z->_ndim);
  w.y = rg_view_as(call->in[2], z->_shape, z->_ndim);
  w.n = z->_count;
  w.wide = rg_packs(w.z, z->_dtype, n) && rg_packs(w.cond, RG_U8, n) &&
           rg_packs(w.x, z->_dtype, n) && rg_packs(w.y, z->_dtype, n);
  rg_launch_cfg cfg = rg_filling(w.n, n, call);

  frame->path = rg_path_of(w.wide);
  return rg_gpu_status(call->op->name, size == 1   ? rg_launch(k_where<uint8_t>, cfg, w)
                                       : size == 2 ? rg_launch(k_where<uint16_t>, cfg, w)
                                       : size == 4 ? rg_launch(k_where<uint32_t>, cfg, w)
                                                   : rg_launch(k_where<uint64_t>, cfg, w));
}
