/* SPDX-License-Identifier: MIT */
/*
** What follows a product in the same pass, for kernels that hand out eight neighbouring columns at
** a time: scale, bias, activation, dropout with the CPU's own numbers, conversion, one store of 16
** bytes (two in f32).
*/
#ifndef RIDGE_GPU_TILE_EPILOGUE_CUH
#define RIDGE_GPU_TILE_EPILOGUE_CUH

#include "gpu/kernels.cuh"
#include "gpu/pack.cuh"

extern "C" {
#include "op/draw.h"
}

/* The end of a product whose result has rows `row` elements apart. */
struct rg_epilogue {
  void *data;
  int64_t row;
  int64_t cols; /* of the whole result: dropout's numbers are counted over it */
  double p;     /* dropout */
  rg_drawn draw;
  uint64_t ahead;   /* numbers of the matrices before this one */
  const void *bias; /* or NULL */
  int64_t bias_step;
  float scale;
  int32_t bias_dtype, dtype, act;
};

/* Of a product as product.cu describes it, but where its result goes. */
template <class P> inline rg_epilogue rg_epilogue_after(const P &p)
{
  rg_epilogue e = {};

  e.cols = p.n;
  e.p = p.p;
  e.draw = p.draw;
  e.bias = p.bias;
  e.bias_step = p.bias_step;
  e.bias_dtype = p.bias_dtype;
  e.scale = (float)p.scale;
  e.dtype = p.c.dtype;
  e.act = p.act;
  return e;
}

/* Zeros where dropout says so, for elements at .. at + 7 of the stream. */
static __device__ inline void rg_epilogue_drop(const rg_epilogue &e, uint64_t seed, uint64_t at,
                                               float v[8])
{
  uint32_t x[12];
  float grown = (float)(1.0 / (1.0 - e.p));
  int skip = (int)(at % 4);

#pragma unroll
  for (int b = 0; b < 3; b++) {
    uint64_t block = at / 4 + b;

    if (b < 2 || skip > 0) {
      rg_draw_block(seed, (uint32_t)block, (uint32_t)(block >> 32), 0, x + 4 * b);
    } else {
      x[4 * b] = x[4 * b + 1] = x[4 * b + 2] = x[4 * b + 3] = 0;
    }
  }
#pragma unroll
  for (int c = 0; c < 8; c++) { /* no index that is known only here: x stays in registers */
    uint32_t number = skip == 0 ? x[c] : skip == 1 ? x[c + 1] : skip == 2 ? x[c + 2] : x[c + 3];

    v[c] = rg_draw_keeps(number, e.p) ? v[c] * grown : 0.0f;
  }
}

template <class T>
static __device__ inline void rg_epilogue_store(const rg_epilogue &e, int64_t row, int64_t col,
                                                int n, const float v[8])
{
  union {
    uint4 bits[sizeof(T) / 2];
    T x[8];
  } all;
  T *to = (T *)e.data + row * e.row + col;

#pragma unroll
  for (int c = 0; c < 8; c++) {
    all.x[c] = rg_element<T>::of(v[c]);
  }
  if (n == 8 && (uintptr_t)to % 16 == 0) {
#pragma unroll
    for (int i = 0; i < (int)sizeof(T) / 2; i++) {
      ((uint4 *)to)[i] = all.bits[i];
    }
    return;
  }
#pragma unroll
  for (int c = 0; c < 8; c++) {
    if (c < n) {
      to[c] = all.x[c];
    }
  }
}

/* The bias of columns col .. col + n - 1: in packs where it can be. */
static __device__ inline void rg_epilogue_bias(const rg_epilogue &e, int64_t col, int n,
                                               float (&v)[8])
{
  const int64_t size = e.bias_dtype == RG_F32 ? 4 : 2;
  const bool is_float = e.bias_dtype == RG_F32 || e.bias_dtype == RG_BF16 || e.bias_dtype == RG_F16;

  if (is_float && n == 8 && e.bias_step == 1 &&
      ((uintptr_t)e.bias + (uintptr_t)(col * size)) % 16 == 0) {
    if (e.bias_dtype == RG_F32) {
      rg_unpack<float, 8>(e.bias, col, v);
    } else if (e.bias_dtype == RG_BF16) {
      rg_unpack<__nv_bfloat16, 8>(e.bias, col, v);
    } else {
      rg_unpack<__half, 8>(e.bias, col, v);
    }
    return;
  }
#pragma unroll
  for (int c = 0; c < 8; c++) {
    v[c] = 0;
    if (c < n) {
      rg_number x = rg_number_of(e.bias, e.bias_dtype, (col + c) * e.bias_step);

      v[c] = x.whole ? (float)x.k : (float)x.d;
    }
  }
}

/* n <= 8 sums of one row become the result's columns from col on. */
static __device__ inline void rg_epilogue_eight(const rg_epilogue &e, int64_t row, int64_t col,
                                                int n, float v[8])
{
#pragma unroll
  for (int c = 0; c < 8; c++) {
    v[c] *= e.scale;
  }
  if (e.bias != NULL) {
    float bias[8];

    rg_epilogue_bias(e, col, n, bias);
#pragma unroll
    for (int c = 0; c < 8; c++) {
      v[c] += bias[c];
    }
  }
  rg_activate(e.act, *(float(*)[8])v);
  if (e.p > 0) {
    rg_draw draw = rg_draw_now(e.draw);

    rg_epilogue_drop(e, draw.seed, draw.offset + e.ahead + (uint64_t)(row * e.cols + col), v);
  }
  if (e.dtype == RG_BF16) {
    rg_epilogue_store<__nv_bfloat16>(e, row, col, n, v);
  } else if (e.dtype == RG_F16) {
    rg_epilogue_store<__half>(e, row, col, n, v);
  } else {
    rg_epilogue_store<float>(e, row, col, n, v);
  }
}

#endif
