/* SPDX-License-Identifier: MIT */
/*
** Filling, copying and converting.
*/
#include "gpu/kernels.cuh"

extern "C" {
#include "op/fill.h"
#include "op/signs.h"
}

/* -- Numbers ---------------------------------------------------------------------------------- */

/* start + i step, in double; a fill is a progression that stands still. */
template <class T> __global__ void k_arange(rg_strided y, double start, double step, int64_t n)
{
  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    ((T *)y.data)[rg_at(y, i)] =
        rg_converted<T>::of(rg_number{ start + (double)i * step, 0, false });
  }
}

static rg_status arange(const rg_call *call, rg_tensor *y, double start, double step)
{
  rg_launch_cfg cfg = rg_over(y->_count, rg_gpu_stream(call->device));

  if (y->_count == 0) {
    return RG_OK;
  }
  switch (y->_dtype) {
#define CASE(code, T)                    \
  case code:                             \
    return rg_gpu_status(call->op->name, \
                         rg_launch(k_arange<T>, cfg, rg_view_of(y), start, step, y->_count));
    RG_TYPES(CASE)
#undef CASE
  default:
    return rg_gpu->fail(RG_EDTYPE, "%s: no kernel for type %d", call->op->name, y->_dtype);
  }
}

rg_status rg_gpu_fill(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  return arange(call, out[0], ((const rg_fill_args *)call->args)->value, 0);
}

rg_status rg_gpu_arange(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_arange_args *args = (const rg_arange_args *)call->args;

  (void)frame;
  return arange(call, out[0], args->start, args->step);
}

/* -- Copies ----------------------------------------------------------------------------------- */

template <class T> __global__ void k_convert(rg_strided y, rg_strided x, int32_t from, int64_t n)
{
  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    ((T *)y.data)[rg_at(y, i)] = rg_converted<T>::of(rg_number_of(x.data, from, rg_at(x, i)));
  }
}

/* Of one type, by its size: bits stay as they are. */
template <class T> __global__ void k_copy(rg_strided y, rg_strided x, int64_t n)
{
  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    ((T *)y.data)[rg_at(y, i)] = ((const T *)x.data)[rg_at(x, i)];
  }
}

static int64_t size_of(int32_t dtype)
{
  switch (dtype) {
#define CASE(code, T) \
  case code:          \
    return (int64_t)sizeof(T);
    RG_TYPES(CASE)
#undef CASE
  default:
    return 0;
  }
}

static cudaError_t copy_bits(rg_launch_cfg cfg, rg_strided y, rg_strided x, int64_t n, int64_t size)
{
  switch (size) {
  case 1:
    return rg_launch(k_copy<uint8_t>, cfg, y, x, n);
  case 2:
    return rg_launch(k_copy<uint16_t>, cfg, y, x, n);
  case 4:
    return rg_launch(k_copy<uint32_t>, cfg, y, x, n);
  default:
    return rg_launch(k_copy<uint64_t>, cfg, y, x, n);
  }
}

rg_status rg_gpu_copy(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *x = call->in[0];
  rg_tensor *y = out[0];
  rg_launch_cfg cfg = rg_over(y->_count, rg_gpu_stream(call->device));

  (void)frame;
  if (y->_count == 0) {
    return RG_OK;
  }
  rg_strided to = rg_view_of(y);
  rg_strided from = rg_view_as(x, y->_shape, y->_ndim);

  if (x->_dtype == y->_dtype) {
    return rg_gpu_status(call->op->name, copy_bits(cfg, to, from, y->_count, size_of(y->_dtype)));
  }
  switch (y->_dtype) {
#define CASE(code, T)                    \
  case code:                             \
    return rg_gpu_status(call->op->name, \
                         rg_launch(k_convert<T>, cfg, to, from, x->_dtype, y->_count));
    RG_TYPES(CASE)
#undef CASE
  default:
    return rg_gpu->fail(RG_EDTYPE, "%s: no kernel for type %d", call->op->name, y->_dtype);
  }
}

rg_status rg_gpu_cast(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return rg_gpu_copy(call, out, frame);
}

/* -- Signs ------------------------------------------------------------------------------------- */

/* The bits of a row begin at a byte. */
template <class T>
__global__ void k_expand(rg_strided y, const uint8_t *bits, int64_t row, int64_t col, int64_t cols,
                         double sign, int64_t n)
{
  for (int64_t i = RG_FIRST; i < n; i += RG_NEXT) {
    int64_t j = i % cols;
    bool up = (bits[i / cols * row + (j >> 3) * col] >> (j & 7) & 1) != 0;

    ((T *)y.data)[rg_at(y, i)] = rg_converted<T>::of(rg_number{ up ? sign : -sign, 0, false });
  }
}

rg_status rg_gpu_expand_signs(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_expand_args *args = (const rg_expand_args *)call->args;
  const rg_tensor *bits = call->in[0];
  rg_tensor *y = out[0];
  rg_launch_cfg cfg = rg_over(y->_count, rg_gpu_stream(call->device));

  (void)frame;
  if (y->_count == 0) {
    return RG_OK;
  }
  switch (y->_dtype) {
#define CASE(code, T)                                                                             \
  case code:                                                                                      \
    return rg_gpu_status(call->op->name,                                                          \
                         rg_launch(k_expand<T>, cfg, rg_view_of(y), (const uint8_t *)bits->_data, \
                                   bits->_stride[0], bits->_stride[1], args->cols, args->sign,    \
                                   y->_count));
    RG_FLOATS(CASE)
#undef CASE
  default:
    return rg_gpu->fail(RG_EDTYPE, "%s: no kernel for type %d", call->op->name, y->_dtype);
  }
}
