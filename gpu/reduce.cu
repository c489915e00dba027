/* SPDX-License-Identifier: MIT */
/*
** Reductions over any axes of tensors with any strides.
**
** The threads of a block stand in a grid: so many outputs, and so many lanes that share the work of
** each one; which of the two runs along memory depends on the strides.  Lanes are joined in a tree.
** Where outputs are few and long, their elements are cut into parts as well, which wait in scratch
** memory for a second pass.  All of this depends on shape and strides alone, so equal inputs give
** equal bits.
*/
#include <math.h>
#include <type_traits>

#include "gpu/kernels.cuh"

extern "C" {
#include "op/reduce.h"
}

enum {
  RUN = 64,     /* elements that a lane adds up before they meet its total */
  ENOUGH = 1024 /* blocks that keep a device busy: more parts are not made */
};

/* What is folded; the norms' kinds do something to an element first. */
enum { SUM, PROD, MAX, MIN, MAX_ABS, SUM_ABS, SUM_SQUARES, SUM_POWERS };
enum { FINISH_NOTHING, FINISH_MEAN, FINISH_SQRT, FINISH_ROOT };

struct folding {
  rg_strided keep; /* axes that stay, those without gaps between them as one */
  rg_strided fold; /* axes that are folded, likewise; data is the tensor's */
  rg_strided y;
  int64_t n_keep;
  int64_t n_fold;
  int64_t chunk;  /* folded elements in a part */
  int64_t count;  /* what a mean divides by */
  int32_t width;  /* outputs in a block */
  int32_t lanes;  /* threads of each: width * lanes = RG_BLOCK */
  int32_t across; /* neighbours in a warp: 1 are outputs, 0 are lanes of one */
  int32_t dtype;  /* of y */
  int32_t finish;
  double p;
  char *parts; /* [n_parts x n_keep]; NULL: there is one part, and results go to y */
};

/* -- Elements ---------------------------------------------------------------------------------- */

/* What T is folded in: extremes in its lane, sums of whole numbers in 64 bits. */
template <class T, int OP> struct folded {
  typedef typename rg_lane<T>::type lane;
  static constexpr bool whole = std::is_integral<lane>::value && (OP == SUM || OP == PROD);
  typedef std::conditional_t<whole, int64_t, lane> type;
};

template <int OP, class A> __device__ inline A before(A v, A p)
{
  if constexpr (OP <= MIN) {
    return v;
  } else {
    return OP == SUM_SQUARES ? v * v : OP == SUM_POWERS ? pow(fabs(v), p) : fabs(v);
  }
}

template <int OP, class A> __device__ inline A join(A x, A y)
{
  if constexpr (OP == MAX || OP == MAX_ABS) {
    return x != x || x > y ? x : y; /* nan wins: a comparison with it is false */
  } else if constexpr (OP == MIN) {
    return x != x || x < y ? x : y;
  } else if constexpr (std::is_integral<A>::value) {
    return OP == PROD ? (A)((uint64_t)x * (uint64_t)y) : (A)((uint64_t)x + (uint64_t)y);
  } else {
    return OP == PROD ? x * y : x + y;
  }
}

/* Where element i is; divisions are by 32 bits where they can be, and none on one axis. */
__device__ inline int64_t place(const rg_strided &v, int64_t i)
{
  int64_t at = 0;

  for (int32_t d = v.ndim - 1; d > 0; d--) {
    int64_t size = v.shape[d];
    bool narrow = (uint64_t)(i | size) >> 32 == 0;
    int64_t outer = narrow ? (uint32_t)i / (uint32_t)size : i / size;

    at += (i - outer * size) * v.stride[d];
    i = outer;
  }
  return at + i * v.stride[0];
}

/* A lane's share of output o: elements begin + lane, begin + lane + lanes, ... before end. */
template <class T, int OP, class A>
__device__ inline A share(const folding &f, int64_t o, int64_t begin, int64_t end, int32_t lane,
                          A scale)
{
  const T *x = (const T *)f.fold.data + place(f.keep, o);
  const A p = (A)f.p;
  const bool extreme = OP == MAX || OP == MIN || OP == MAX_ABS;
  A total = OP == PROD ? 1 : 0;

  if (extreme && begin < end) {
    total = before<OP>((A)rg_get(x[place(f.fold, begin)]), p);
  }
  for (int64_t at = begin + lane; at < end; at += (int64_t)RUN * f.lanes) {
    A part = extreme ? total : (A)(OP == PROD ? 1 : 0);
    int64_t stop = at + (int64_t)RUN * f.lanes < end ? at + (int64_t)RUN * f.lanes : end;

#pragma unroll 4
    for (int64_t i = at; i < stop; i += f.lanes) {
      A v = (A)rg_get(x[place(f.fold, i)]);

      part = join<OP>(part, before<OP>((A)(OP == SUM_POWERS ? v * scale : v), p));
    }
    total = join<OP>(total, part);
  }
  return total;
}

/* Where this thread stands: its output in the block, its lane. */
__device__ inline int32_t column_of(const folding &f)
{
  return (int32_t)threadIdx.x / (f.across ? 1 : f.lanes) % f.width;
}
__device__ inline int32_t lane_of(const folding &f)
{
  return (int32_t)threadIdx.x / (f.across ? f.width : 1) % f.lanes;
}

/* The lanes of each output, joined; all of them get it.  Every thread of the block comes here. */
template <int OP, class A>
__device__ inline A together(const folding &f, A v, A *room, int32_t lane)
{
  int32_t t = (int32_t)threadIdx.x;
  int32_t apart = f.across ? f.width : 1;
  A all;

  room[t] = v;
  __syncthreads();
  for (int32_t step = f.lanes / 2; step > 0; step /= 2) {
    if (lane < step) {
      room[t] = join<OP>(room[t], room[t + step * apart]);
    }
    __syncthreads();
  }
  all = room[t - lane * apart];
  __syncthreads();
  return all;
}

/* -- Results ----------------------------------------------------------------------------------- */

template <class A> __device__ inline void store(const folding &f, int64_t o, A v)
{
  int64_t at = rg_at(f.y, o);

  switch (f.dtype) {
#define CASE(code, T)                                                      \
  case code:                                                               \
    ((T *)f.y.data)[at] = rg_element<T>::of((typename rg_lane<T>::type)v); \
    break;
    RG_TYPES(CASE)
#undef CASE
  }
}

template <class A> __device__ inline void finish(const folding &f, int64_t o, A v)
{
  if constexpr (std::is_floating_point<A>::value) {
    store(f, o,
          f.finish == FINISH_MEAN   ? v / (A)f.count
          : f.finish == FINISH_SQRT ? (A)sqrt(v)
          : f.finish == FINISH_ROOT ? (A)pow(v, (A)(1 / f.p))
                                    : v);
  } else if (f.finish == FINISH_MEAN) {
    store(f, o, (float)((double)v / (double)f.count));
  } else {
    store(f, o, v);
  }
}

template <class T, int OP> __global__ void k_fold(folding f)
{
  typedef typename folded<T, OP>::type A;
  RG_SHARED(A, room, RG_BLOCK);
  int32_t lane = lane_of(f);
  int64_t begin = (int64_t)blockIdx.y * f.chunk;
  int64_t end = begin + f.chunk < f.n_fold ? begin + f.chunk : f.n_fold;

  for (int64_t first = (int64_t)blockIdx.x * f.width; first < f.n_keep;
       first += (int64_t)gridDim.x * f.width) {
    int64_t o = first + column_of(f);
    A v = o < f.n_keep ? share<T, OP, A>(f, o, begin, end, lane, (A)1) : (A)0;

    v = together<OP>(f, v, room, lane);
    if (lane == 0 && o < f.n_keep && f.parts != NULL) {
      ((A *)f.parts)[(int64_t)blockIdx.y * f.n_keep + o] = v;
    } else if (lane == 0 && o < f.n_keep) {
      finish(f, o, v);
    }
  }
}

/* -- Norms that left the range of their type --------------------------------------------------- */

/* A power of two near 1 / most, both it and its inverse normal numbers. */
template <class A> __device__ inline A scale_for(A most)
{
  const int limit = sizeof(A) == 8 ? 1022 : 126;
  int e;

  (void)frexp((double)most, &e);
  return (A)ldexp(1.0, -(e > limit ? limit : e < -limit ? -limit : e));
}

/* Outputs whose sum overflowed, or lost what it was made of, once more: the largest |x| first, then
** the sum of (|x| s)^p.  They show in y; what else is there stays. */
template <class T> __global__ void k_norm_again(folding f)
{
  typedef typename rg_lane<T>::type A;
  RG_SHARED(A, room, RG_BLOCK);
  const A least = (A)pow(sizeof(A) == 8 ? 0x1p-900 : 0x1p-90, 1 / f.p);
  int32_t lane = lane_of(f);

  for (int64_t first = (int64_t)blockIdx.x * f.width; first < f.n_keep;
       first += (int64_t)gridDim.x * f.width) {
    int64_t o = first + column_of(f);
    A now = o < f.n_keep ? (A)rg_number_of(f.y.data, f.dtype, rg_at(f.y, o)).d : (A)1;
    bool wrong = now == (A)INFINITY || now < least;

    if (!__syncthreads_or(wrong)) {
      continue;
    }
    A most = wrong ? share<T, MAX_ABS, A>(f, o, 0, f.n_fold, lane, (A)1) : (A)0;

    most = together<MAX>(f, most, room, lane);
    bool ordinary = most > 0 && most < (A)INFINITY;
    A s = ordinary ? scale_for(most) : (A)1;
    A sum = wrong ? share<T, SUM_POWERS, A>(f, o, 0, f.n_fold, lane, s) : (A)0;

    sum = together<SUM>(f, sum, room, lane);
    if (wrong && lane == 0) {
      store(f, o, ordinary ? (A)(pow(sum, (A)(1 / f.p)) / s) : most);
    }
  }
}

/* -- Launches ---------------------------------------------------------------------------------- */

/* The axes of x named by bits, in their order; neighbours without a gap between them as one. */
static rg_strided axes_of(const rg_tensor *x, uint32_t axes, int64_t *count)
{
  rg_strided v = {};

  v.data = (char *)x->_data;
  *count = 1;
  for (int32_t i = 0; i < x->_ndim; i++) {
    int64_t size = x->_shape[i];

    if ((axes >> i & 1) == 0 || size == 1) {
      continue;
    }
    *count *= size;
    if (v.ndim > 0 && v.stride[v.ndim - 1] == size * x->_stride[i]) {
      v.shape[v.ndim - 1] *= size;
      v.stride[v.ndim - 1] = x->_stride[i];
    } else {
      v.shape[v.ndim] = size;
      v.stride[v.ndim] = x->_stride[i];
      v.ndim++;
    }
  }
  return v;
}

/* How the threads of a block stand. */
static void line_up(folding *f)
{
  f->across = f->n_keep > 1 && (f->n_fold <= 1 || f->keep.stride[f->keep.ndim - 1] <
                                                      f->fold.stride[f->fold.ndim - 1]);
  if (f->across) {
    f->width = f->n_fold >= 32 ? 32 : f->n_fold >= 16 ? 64 : f->n_fold >= 8 ? 128 : RG_BLOCK;
    while (f->width / 2 >= f->n_keep) {
      f->width /= 2;
    }
    f->lanes = RG_BLOCK / f->width;
  } else {
    f->lanes = RG_BLOCK;
    while (f->lanes > 1 && (int64_t)f->lanes * 4 > f->n_fold) {
      f->lanes /= 2;
    }
    f->width = RG_BLOCK / f->lanes;
  }
}

static rg_launch_cfg config(const folding *f, int64_t parts, cudaStream_t stream)
{
  int64_t groups = (f->n_keep + f->width - 1) / f->width;

  return rg_launch_cfg{ dim3((unsigned)(groups < 1 << 20 ? groups : 1 << 20), (unsigned)parts),
                        dim3(RG_BLOCK), 0, stream };
}

/* Cut into parts where scratch is there for it. */
static int64_t cut(folding *f, void *scratch)
{
  int64_t most = (f->n_fold + RG_REDUCE_CHUNK_ROWS - 1) / RG_REDUCE_CHUNK_ROWS;
  int64_t wanted = (int64_t)ENOUGH * f->width / f->n_keep;
  int64_t parts = most < wanted ? most : wanted;

  f->chunk = f->n_fold;
  if (scratch == NULL || parts < 2) {
    return 1;
  }
  f->chunk = (f->n_fold + parts - 1) / parts;
  f->parts = (char *)scratch;
  return (f->n_fold + f->chunk - 1) / f->chunk;
}

template <class T, int OP> static cudaError_t run(folding f, void *scratch, cudaStream_t stream)
{
  typedef typename folded<T, OP>::type A;
  constexpr int again = OP == MAX_ABS ? MAX : OP > MIN ? SUM : OP;
  int64_t parts = cut(&f, scratch);
  cudaError_t error = rg_launch(k_fold<T, OP>, config(&f, parts, stream), f);

  if (error == cudaSuccess && f.parts != NULL) {
    folding g = f; /* the parts are a matrix, and its rows are folded */

    g.keep.ndim = g.fold.ndim = 1;
    g.keep.stride[0] = 1;
    g.fold.stride[0] = f.n_keep;
    g.fold.data = f.parts;
    g.n_fold = g.chunk = parts;
    g.parts = NULL;
    line_up(&g);
    error = rg_launch(k_fold<A, again>, config(&g, 1, stream), g);
  }
  if constexpr (OP == SUM_SQUARES || OP == SUM_POWERS) {
    if (error == cudaSuccess) {
      error = rg_launch(k_norm_again<T>, config(&f, 1, stream), f);
    }
  }
  return error;
}

template <int OP>
static rg_status reduce(const rg_call *call, rg_tensor *y, rg_frame *frame, int32_t finish)
{
  const rg_reduce_args *args = (const rg_reduce_args *)call->args;
  const rg_tensor *x = call->in[0];
  cudaStream_t stream = rg_gpu_stream(call->device);
  folding f = {};

  f.fold = axes_of(x, args->axes, &f.n_fold);
  f.keep = axes_of(x, ~args->axes, &f.n_keep);
  f.y = rg_view_of(y);
  f.dtype = y->_dtype;
  f.count = f.n_fold;
  f.finish = finish;
  f.p = args->p;
  if (f.n_keep == 0) {
    return RG_OK;
  }
  line_up(&f);
  switch (x->_dtype) {
#define CASE(code, T) \
  case code:          \
    return rg_gpu_status(call->op->name, run<T, OP>(f, frame->scratch, stream));
    RG_FLOATS(CASE)
  }
  if constexpr (OP <= MIN) { /* norms are of floats alone */
    switch (x->_dtype) {
      RG_INTEGERS(CASE)
      CASE(RG_BOOL, rg_bool)
    }
  }
#undef CASE
  return rg_gpu->fail(RG_EDTYPE, "%s: no kernel for type %d", call->op->name, x->_dtype);
}

#define KERNEL(name, OP, finish)                                                       \
  rg_status rg_gpu_##name(const rg_call *call, rg_tensor *const *out, rg_frame *frame) \
  {                                                                                    \
    return reduce<OP>(call, out[0], frame, finish);                                    \
  }
KERNEL(sum, SUM, FINISH_NOTHING)
KERNEL(mean, SUM, FINISH_MEAN)
KERNEL(prod, PROD, FINISH_NOTHING)
KERNEL(max, MAX, FINISH_NOTHING)
KERNEL(min, MIN, FINISH_NOTHING)
#undef KERNEL

rg_status rg_gpu_norm(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  double p = ((const rg_reduce_args *)call->args)->p;

  return isinf(p) ? reduce<MAX_ABS>(call, out[0], frame, FINISH_NOTHING)
         : p == 1 ? reduce<SUM_ABS>(call, out[0], frame, FINISH_NOTHING)
         : p == 2 ? reduce<SUM_SQUARES>(call, out[0], frame, FINISH_SQRT)
                  : reduce<SUM_POWERS>(call, out[0], frame, FINISH_ROOT);
}
