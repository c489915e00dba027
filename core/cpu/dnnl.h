/* SPDX-License-Identifier: MIT */
/*
** oneDNN's products and convolutions, seen without its headers.
*/
#ifndef RIDGE_CPU_DNNL_H
#define RIDGE_CPU_DNNL_H

#include "cpu/product.h"

/* A primitive of one shape, with the memory descriptions it works on. */
typedef struct rg_dnnl rg_dnnl;

/* What a primitive does.  A convolution's gradients have the arrays of the convolution. */
enum { RG_DNNL_MATMUL, RG_DNNL_CONV, RG_DNNL_CONV_DATA, RG_DNNL_CONV_WEIGHT };

/* What it works on; all but the bias have to be there. */
enum { RG_DNNL_SRC, RG_DNNL_WEIGHT, RG_DNNL_BIAS, RG_DNNL_DST, RG_DNNL_ARRAYS };

/* How the primitive sees an array. */
enum {
  RG_DNNL_AS_IS,     /* in place, in its own layout */
  RG_DNNL_CONVERTED, /* the way oneDNN likes it best: brought there and back in scratch */
  RG_DNNL_PACKED     /* likewise, and the caller brings it there once (rg_dnnl_pack) */
};

typedef struct rg_dnnl_array {
  int64_t size[5];
  int64_t stride[5]; /* in elements */
  int32_t ndim;      /* 0: there is none */
  int32_t form;      /* RG_DNNL_AS_IS ... */
  int32_t dtype;     /* RG_F32 or RG_BF16, of the array */
  int32_t inner;     /* the same as the primitive sees it */
} rg_dnnl_array;

/* The library plans with 32-bit sizes here and there, and divides by what is left of them. */
static inline rg_status rg_dnnl_counts(const rg_dnnl_array *x)
{
  for (int32_t i = 0; i < x->ndim; i++) {
    if (x->size[i] > INT32_MAX) {
      return rg_fail(RG_ENOSUP, "oneDNN takes sizes up to 2147483647, not %lld",
                     (long long)x->size[i]);
    }
  }
  return RG_OK;
}

/*
** What a primitive is made for; begin with memset, because specs are compared byte by byte.
**
**   MATMUL   src [m x k], weight [k x n], bias [1 x n], dst [m x n]
**   CONV     src [n x c x h x w], weight [o x c x kh x kw] or [g x o/g x c/g x kh x kw] in groups,
**            bias [o], dst [n x o x oh x ow]
*/
typedef struct rg_dnnl_spec {
  rg_dnnl_array array[RG_DNNL_ARRAYS];
  int64_t stride[2];
  int64_t dilation[2]; /* 1: none */
  int64_t pad_low[2];
  int64_t pad_high[2];
  int32_t kind;
  int32_t act; /* not for gradients */
  int32_t sum; /* 1: of convolutions, added to what lies in dst, before the activation */
  int32_t n_threads;
  int32_t worker; /* calls that run at the same time have primitives of their own; else 0 */
  int32_t _pad;   /* specs are compared byte by byte */
} rg_dnnl_spec;

/* The library's version, "2.6.0". */
const char *rg_dnnl_version(void);

/* May it use these instructions here? */
enum { RG_DNNL_AVX512, RG_DNNL_VNNI, RG_DNNL_AVX512_BF16, RG_DNNL_AMX };
bool rg_dnnl_uses(int32_t set);

/* Does it add up products of bytes in 32 bits? */
static inline bool rg_dnnl_adds_bytes(void)
{
  return rg_dnnl_uses(RG_DNNL_VNNI);
}

/* Does it compute with bf16 in every layout? */
static inline bool rg_dnnl_reads_bf16(void)
{
  return rg_dnnl_uses(RG_DNNL_AVX512);
}

/*
** A primitive of one's own: it may be used by one thread at a time.  A plan's step keeps one.
*/
rg_status rg_dnnl_new(const rg_dnnl_spec *spec, rg_dnnl **out) RG_CHECK;
void rg_dnnl_release(rg_dnnl *self);

/* The primitive for a spec out of this thread's cache, made if it is not there.  Borrowed; the
** last few that were asked for are there. */
rg_status rg_dnnl_cached(const rg_dnnl_spec *spec, rg_dnnl **out) RG_CHECK;

/* Bytes it needs while it runs, and bytes of the packed weight. */
int64_t rg_dnnl_scratch_bytes(const rg_dnnl *self);
int64_t rg_dnnl_packed_bytes(const rg_dnnl *self);

/* The element type of the packed weight. */
int32_t rg_dnnl_packed_dtype(const rg_dnnl *self);

/* A number that is the same for primitives whose packed weights are interchangeable. */
uint64_t rg_dnnl_packing(const rg_dnnl *self);

/* Is the activation left to the caller, who applies it to what comes out (f32, side by side)? */
bool rg_dnnl_leaves_act(const rg_dnnl *self);

/* Is it written for no processor?  Such kernels are for comparison, and a hundred times as slow. */
bool rg_dnnl_is_plain_code(const rg_dnnl *self);

/* Does a convolution gather its windows, zeros of the padding too, and multiply matrices? */
bool rg_dnnl_multiplies_padding(const rg_dnnl *self);

/* Bring a weight that lies as plain says into the packed form. */
rg_status rg_dnnl_pack(const rg_dnnl *self, const rg_dnnl_array *plain, const void *from,
                       void *packed) RG_CHECK;

/* data[i]: where array i lies.  scratch: 64-byte aligned. */
rg_status rg_dnnl_run(rg_dnnl *self, void *const data[RG_DNNL_ARRAYS], void *scratch) RG_CHECK;

#endif
