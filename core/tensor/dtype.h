/* SPDX-License-Identifier: MIT */
/*
** What is known of an element type, as one table made from the rows of RG_DTYPE_LIST: whoever asks
** for a property of a type asks here, so that a new type is a row and not a case in every switch.
**
** Kernels of a GPU read the rows themselves (gpu/types.cuh).
*/
#ifndef RIDGE_TENSOR_DTYPE_H
#define RIDGE_TENSOR_DTYPE_H

#include "ridge/tensor.h"
#include "tensor/f8.h"
#include "tensor/half.h"

/* Sets of kinds. */
enum {
  RG_KINDS_FLOAT = RG_KIND_FLOAT | RG_KIND_HALF,
  RG_KINDS_NARROW = RG_KIND_HALF | RG_KIND_STORED, /* narrower than the lane they are widened to */
  RG_KINDS_WHOLE = RG_KIND_WHOLE | RG_KIND_LOGIC,
  RG_KINDS_COMPUTED = RG_KINDS_FLOAT | RG_KINDS_WHOLE,
  RG_KINDS_ALL = RG_KINDS_COMPUTED | RG_KIND_STORED
};

typedef struct rg_dtype {
  const char *name;
  const char *stored;
  int64_t bytes;
  int32_t kind;
  int32_t rank;
  int64_t least; /* of whole numbers */
  int64_t most;
  /* n elements as doubles: exact, but for i64 beyond 2^53 */
  void (*get)(const void *from, double *to, int64_t n);
  /* n doubles as elements: rounded once; truncated and saturated, nan to 0, in whole numbers */
  void (*set)(void *to, const double *from, int64_t n);
  /* an element of a type of floats as f32, and n of them from it; NULL for other types */
  float (*get_f32)(const void *from);
  void (*set_f32)(void *to, const float *from, int64_t n);
  /* n elements of RG_KINDS_WHOLE, every step-th one; NULL for other types */
  void (*whole)(const void *from, int64_t step, int64_t *to, int64_t n);
} rg_dtype;

extern const rg_dtype rg_dtypes[RG_DTYPE_COUNT];

/* The kind of an element type, which it must be. */
static inline int32_t rg_kind_of(int32_t dtype)
{
#define RG_DTYPE_KIND(code, name, stored, kind, ...) [code] = RG_KIND_##kind,
  static const int8_t table[RG_DTYPE_COUNT] = { RG_DTYPE_LIST(RG_DTYPE_KIND) };
#undef RG_DTYPE_KIND

  return table[dtype];
}

/* Is dtype an element type of one of these kinds? */
static inline bool rg_dtype_of_kind(int32_t dtype, int32_t kinds)
{
  return (uint32_t)dtype < RG_DTYPE_COUNT && (rg_kind_of(dtype) & kinds) != 0;
}

#endif
