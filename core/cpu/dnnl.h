/* SPDX-License-Identifier: MIT */
/*
** oneDNN's matrix product, seen without its headers.
*/
#ifndef RIDGE_CPU_DNNL_H
#define RIDGE_CPU_DNNL_H

#include "cpu/product.h"

/* A primitive of one shape, with the memory descriptions it works on. */
typedef struct rg_dnnl rg_dnnl;

/* What a primitive is made for. */
typedef struct rg_dnnl_shape {
  int64_t m, n, k;
  int64_t a_row, a_col; /* strides in elements */
  int64_t b_row, b_col; /* 0, 0: packed the way oneDNN likes it */
  int64_t c_row;
  int32_t dtype; /* of a and b: RG_F32 or RG_BF16 */
  int32_t c_dtype;
  int32_t has_bias; /* f32 */
  int32_t act;
  int32_t n_threads;
  int32_t zero; /* no padding: shapes are compared byte by byte */
} rg_dnnl_shape;

/*
** A primitive of one's own: it may be used by one thread at a time.  A plan's step keeps one.
*/
rg_status rg_dnnl_new(const rg_dnnl_shape *shape, rg_dnnl **out) RG_CHECK;
void rg_dnnl_release(rg_dnnl *self);

/* The primitive for a shape out of this thread's cache, made if it is not there.  Borrowed; the
** last
** few that were asked for are there. */
rg_status rg_dnnl_cached(const rg_dnnl_shape *shape, rg_dnnl **out) RG_CHECK;

/* Bytes it needs while it runs, and bytes of the packed weight. */
int64_t rg_dnnl_scratch_bytes(const rg_dnnl *self);
int64_t rg_dnnl_packed_bytes(const rg_dnnl *self);

/* A number that is the same for primitives whose packed weights are interchangeable. */
uint64_t rg_dnnl_packing(const rg_dnnl *self);

/* Bring a weight of the shape's type and the given strides into the packed form. */
rg_status rg_dnnl_pack(const rg_dnnl *self, const void *b, int64_t b_row, int64_t b_col,
                       void *packed) RG_CHECK;

rg_status rg_dnnl_run(rg_dnnl *self, const void *a, const void *b, const void *bias, void *c,
                      void *scratch) RG_CHECK;

#endif
