/* SPDX-License-Identifier: MIT */
/*
** Whole numbers of any type that say which: labels of classes, rows of a table.
*/
#ifndef RIDGE_GPU_NUMBERS_CUH
#define RIDGE_GPU_NUMBERS_CUH

#include "gpu/late.cuh"

/* Whole numbers of any type. */
struct rg_numbers {
  rg_strided at;
  int64_t n;
  int64_t limit;  /* they are 0 .. limit - 1 */
  int64_t ignore; /* and this one, where `ignores` */
  int32_t dtype;
  int32_t ignores;
  rg_late_for late;
};

/* Into *k; RG_ENOMEM. */
inline rg_status rg_numbers_of(const rg_call *call, const rg_tensor *x, int64_t limit,
                               rg_numbers *k)
{
  *k = rg_numbers{};
  k->at = rg_view_of(x);
  k->n = x->_count;
  k->limit = limit;
  k->dtype = x->_dtype;
  return rg_late_begin(call, &k->late);
}

__device__ inline int64_t rg_number_at(const rg_numbers &k, int64_t i)
{
  return rg_number_of(k.at.data, k.dtype, rg_at(k.at, i)).k;
}

__device__ inline bool rg_in_range(const rg_numbers &k, int64_t number)
{
  return number >= 0 && number < k.limit;
}

/* Is a number in range?  One that is not, nor ignored, is reported (late.cuh). */
__device__ inline bool rg_checked(const rg_numbers &k, int64_t number)
{
  bool fits = rg_in_range(k, number);

  if (!fits && !(k.ignores != 0 && number == k.ignore)) {
    rg_late_tell(k.late, RG_LATE_RANGE, number, k.limit);
  }
  return fits;
}

#endif
