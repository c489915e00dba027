/* SPDX-License-Identifier: MIT */
/*
** Chains of functions in one pass over memory (op/fused.h): a thread takes eight neighbours through
** all links, in registers.  Which function a link is, is asked once for the eight, where all
** threads answer alike; a chain needs no compiler at run time for that, and runs on the simulator
** as it is.
*/
#include <string.h>

#include "gpu/fused/kernel_cache.h"
#include "gpu/functions.cuh"
#include "gpu/kernels.cuh"

extern "C" {
#include "op/fused.h"
}

enum { EIGHT = 8, RESULTS = RG_MAX_OUT };

/* Element i of the chain is at i / div % mod. */
struct operand {
  char *data;
  int64_t div, mod;
  int32_t dtype;
  int32_t wide; /* eight neighbours of the chain are neighbours here and begin at 16 bytes; 2: they
                ** are one element */
};

struct fused {
  operand in[RG_FUSED_INPUTS];
  operand out[RESULTS];
  rg_link link[RG_FUSED_LINKS];
  int64_t count;
  int32_t n;
  int32_t narrow; /* counts fit 32 bits */
};

/* -- Eight elements ---------------------------------------------------------------------------- */

struct alignas(16) quad {
  uint32_t word[4];
};

__device__ inline float from_half(int32_t dtype, uint16_t bits)
{
  if (dtype == RG_BF16) {
    return __uint_as_float((uint32_t)bits << 16);
  }
  return __half2float(__ushort_as_half(bits));
}

__device__ inline uint16_t to_half(int32_t dtype, float x)
{
  return dtype == RG_BF16 ? __bfloat16_as_ushort(__float2bfloat16_rn(x))
                          : __half_as_ushort(__float2half_rn(x));
}

__device__ inline float element(const operand &o, int64_t at)
{
  return o.dtype == RG_F32 ? ((const float *)o.data)[at]
                           : from_half(o.dtype, ((const uint16_t *)o.data)[at]);
}

__device__ inline int64_t place(const operand &o, int64_t i, bool narrow)
{
  if (narrow) {
    return (uint32_t)i / (uint32_t)o.div % (uint32_t)o.mod;
  }
  return i / o.div % o.mod;
}

__device__ inline void fetch(float v[EIGHT], const operand &o, int64_t i, int32_t many, bool narrow)
{
  int64_t at = o.div == 1 && i < o.mod ? i : place(o, i, narrow);

  if (o.wide == 2) {
    float x = element(o, at);

#pragma unroll
    for (int j = 0; j < EIGHT; j++) {
      v[j] = x;
    }
  } else if (many < EIGHT || o.wide == 0) {
#pragma unroll
    for (int j = 0; j < EIGHT; j++) {
      v[j] = j < many ? element(o, place(o, i + j, narrow)) : 0;
    }
  } else if (o.dtype == RG_F32) {
    quad low = ((const quad *)o.data)[at / 4];
    quad high = ((const quad *)o.data)[at / 4 + 1];

#pragma unroll
    for (int j = 0; j < 4; j++) {
      v[j] = __uint_as_float(low.word[j]);
      v[4 + j] = __uint_as_float(high.word[j]);
    }
  } else {
    quad all = ((const quad *)o.data)[at / EIGHT];

#pragma unroll
    for (int j = 0; j < EIGHT; j++) {
      v[j] = from_half(o.dtype, (uint16_t)(all.word[j / 2] >> 16 * (j % 2)));
    }
  }
}

__device__ inline void put(const operand &o, int64_t i, int32_t many, const float v[EIGHT])
{
  if (many < EIGHT || o.wide == 0) {
#pragma unroll
    for (int j = 0; j < EIGHT; j++) {
      if (j < many && o.dtype == RG_F32) {
        ((float *)o.data)[i + j] = v[j];
      } else if (j < many) {
        ((uint16_t *)o.data)[i + j] = to_half(o.dtype, v[j]);
      }
    }
  } else if (o.dtype == RG_F32) {
    quad low, high;

#pragma unroll
    for (int j = 0; j < 4; j++) {
      low.word[j] = __float_as_uint(v[j]);
      high.word[j] = __float_as_uint(v[4 + j]);
    }
    ((quad *)o.data)[i / 4] = low;
    ((quad *)o.data)[i / 4 + 1] = high;
  } else {
    quad all;

#pragma unroll
    for (int j = 0; j < 4; j++) {
      all.word[j] = to_half(o.dtype, v[2 * j]) | (uint32_t)to_half(o.dtype, v[2 * j + 1]) << 16;
    }
    ((quad *)o.data)[i / EIGHT] = all;
  }
}

/* -- A link ------------------------------------------------------------------------------------ */

__device__ inline void apply(const rg_link &l, float (&v)[EIGHT], float (&w)[EIGHT])
{
  if (l.reversed) {
#pragma unroll
    for (int j = 0; j < EIGHT; j++) {
      float x = v[j];

      v[j] = w[j];
      w[j] = x;
    }
  }
  if (l.id == RG_OP_ACT_BACK) {
#pragma unroll
    for (int j = 0; j < EIGHT; j++) {
      v[j] *= rg_slope(l.act, w[j]);
    }
  } else if (l.id >= 0 && l.with == RG_FUSED_NONE) {
    rg_ones(l.id, v);
  } else if (l.id >= 0) {
    rg_twos(l.id, v, w);
  }
}

__device__ inline void round_to(int32_t dtype, float v[EIGHT])
{
  if (dtype != RG_F32) {
#pragma unroll
    for (int j = 0; j < EIGHT; j++) {
      v[j] = from_half(dtype, to_half(dtype, v[j]));
    }
  }
}

__global__ void __launch_bounds__(RG_BLOCK) k_fused(const __grid_constant__ fused c)
{
  for (int64_t i = RG_FIRST * EIGHT; i < c.count; i += RG_NEXT * EIGHT) {
    int32_t many = c.count - i < EIGHT ? (int32_t)(c.count - i) : EIGHT;
    float v[EIGHT] = {};
    float w[EIGHT] = {};

    for (int32_t s = 0; s < c.n; s++) {
      const rg_link &l = c.link[s];

      if (l.load >= 0) {
        fetch(v, c.in[l.load], i, many, c.narrow != 0);
      }
      if (l.with >= 0) {
        fetch(w, c.in[l.with], i, many, c.narrow != 0);
      } else if (l.with != RG_FUSED_NONE) {
#pragma unroll
        for (int j = 0; j < EIGHT; j++) {
          w[j] = l.with == RG_FUSED_VALUE ? v[j] : (float)l.number;
        }
      }
      apply(l, v, w);
      round_to(l.dtype, v);
      if (l.store >= 0) {
        put(c.out[l.store], i, many, v);
      }
    }
  }
}

/* -- The call ---------------------------------------------------------------------------------- */

static operand operand_of(const rg_tensor *x, const rg_tensor *shape)
{
  operand o = { (char *)x->_data, 1, 1, x->_dtype, 0 };
  bool aligned = (uintptr_t)x->_data % 16 == 0;

  (void)rg_fused_place(x, shape->_shape, shape->_ndim, &o.div, &o.mod);
  o.wide = o.mod == 1 || o.div % EIGHT == 0                                          ? 2
           : aligned && o.div == 1 && (o.mod % EIGHT == 0 || o.mod == shape->_count) ? 1
                                                                                     : 0;
  return o;
}

#if RG_HAS_COMPILER
static_assert((int)RG_FUSED_THREADS == (int)RG_BLOCK, "kernels are compiled for these blocks");

/* From so many elements a multiprocessor on, a thread takes two packs: there are blocks enough. */
enum { TWO_PACKS = 2 * 8 * RG_BLOCK * EIGHT };

static uint8_t type_of(const operand &o)
{
  return o.dtype == RG_F32 ? RG_PART_F32 : o.dtype == RG_F16 ? RG_PART_F16 : RG_PART_BF16;
}

static uint8_t lies(const operand &o, int64_t count)
{
  return o.wide == 2      ? RG_LIES_ONE
         : o.wide == 0    ? RG_LIES_LOOSE
         : o.mod == count ? RG_LIES_WHOLE
                          : RG_LIES_AGAIN;
}

/* Run the chain's own kernel; *taken: there was one. */
static rg_status run_compiled(const rg_call *call, const fused &c, bool *taken)
{
  rg_fused_form form;
  rg_fused_data data = {};
  cudaKernel_t kernel;

  memset(&form, 0, sizeof(form)); /* compared byte by byte */
  memcpy(form.link, c.link, (size_t)c.n * sizeof(c.link[0]));
  form.n = c.n;
  form.narrow = c.narrow;
  form.packs = c.count >= TWO_PACKS * (int64_t)rg_gpu_units(call->device) ? 2 : 1;
  data.count = c.count;
  for (int32_t i = 0; i < call->n_in + call->n_out && i < RG_FUSED_INPUTS; i++) {
    form.in_type[i] = type_of(c.in[i]);
    form.in_lies[i] = lies(c.in[i], c.count);
    data.in[i] = rg_fused_part{ c.in[i].data, c.in[i].div, c.in[i].mod };
  }
  for (int32_t i = 0; i < call->n_out; i++) {
    form.out_type[i] = type_of(c.out[i]);
    form.out_lies[i] = lies(c.out[i], c.count);
    data.out[i] = rg_fused_part{ c.out[i].data, c.out[i].div, c.out[i].mod };
  }
  kernel = rg_fused_kernel(call->device, &form);
  *taken = kernel != NULL;
  if (kernel == NULL) {
    return RG_OK;
  }
  const int64_t each = EIGHT * form.packs;
  return rg_gpu_status(
      call->op->name,
      rg_launch_loaded<rg_fused_data>(
          kernel, rg_over((c.count + each - 1) / each, rg_gpu_stream(call->device)), data));
}
#endif

/* out: what is stored.  What is loaded again is read as inputs are, behind those. */
rg_status rg_gpu_fused(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_links *links = &((const rg_fused_args *)call->args)->links;
  const rg_tensor *shape = out[0];
  fused c = {};

  if (shape->_count == 0) {
    return RG_OK;
  }
  c.count = shape->_count;
  c.n = (int32_t)links->n;
  c.narrow = c.count <= INT32_MAX;
  for (int32_t i = 0; i < call->n_in; i++) {
    c.in[i] = operand_of(call->in[i], shape);
  }
  for (int32_t i = 0; i < call->n_out; i++) {
    if (out[i]->_dtype == RG_F64 || !rg_is_contiguous(out[i])) {
      return rg_gpu->fail(RG_ENOSUP, "fused: a result has gaps, or is f64");
    }
    c.out[i] = operand_of(out[i], shape);
    if (call->n_in + i < RG_FUSED_INPUTS) {
      c.in[call->n_in + i] = c.out[i];
    }
  }
  for (int32_t i = 0; i < c.n; i++) {
    c.link[i] = links->at[i];
  }
#if RG_HAS_COMPILER
  if (rg_gpu->modes()->vendor != 0) {
    bool taken;

    frame->path = "compiled";
    RG_TRY(run_compiled(call, c, &taken));
    if (taken) {
      return RG_OK;
    }
  }
#endif
  frame->path = "fused";
  return rg_gpu_status(
      call->op->name,
      rg_launch(k_fused, rg_over((c.count + EIGHT - 1) / EIGHT, rg_gpu_stream(call->device)), c));
}
