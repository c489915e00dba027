/* SPDX-License-Identifier: MIT */
/*
** Whole numbers of any type that say which: labels of classes, rows of a table.
*/
#ifndef RIDGE_GPU_NUMBERS_CUH
#define RIDGE_GPU_NUMBERS_CUH

#include "gpu/device.cuh"

/* Whole numbers of any type. */
struct rg_numbers {
  rg_strided at;
  int64_t n;
  int64_t limit;  /* they are 0 .. limit - 1 */
  int64_t ignore; /* and this one, where `ignores` */
  int32_t dtype;
  int32_t ignores;
};

inline rg_numbers rg_numbers_of(const rg_tensor *x, int64_t limit)
{
  rg_numbers k = {};

  k.at = rg_view_of(x);
  k.n = x->_count;
  k.limit = limit;
  k.dtype = x->_dtype;
  return k;
}

__device__ inline int64_t rg_number_at(const rg_numbers &k, int64_t i)
{
  return rg_number_of(k.at.data, k.dtype, rg_at(k.at, i)).k;
}

__device__ inline bool rg_in_range(const rg_numbers &k, int64_t number)
{
  return number >= 0 && number < k.limit;
}

/* The first one out of range and its place, -1: none is (take.cu).  Waits for the answer,
** so that a wrong number is an error of the call that was given it. */
rg_status rg_first_wrong(const rg_call *call, const rg_numbers &k, int64_t *place, int64_t *value);

#endif
