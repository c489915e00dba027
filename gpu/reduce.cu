/* SPDX-License-Identifier: MIT */
/*
** Reductions over any axes of tensors with any strides.
**
** The threads of a block stand in a grid: so many outputs, and so many lanes that share the work of
** each one; which of the two runs along memory depends on the strides.  What is contiguous is
** read in packs of 16 bytes: of one output's elements, or of neighbouring outputs, which one
** thread then has.  Lanes are joined in a tree.  Where outputs are few and long, their elements are
** cut into parts as well, which wait in scratch memory for a second pass.  All of this depends on
** shape, strides and where memory begins, so equal inputs give equal bits.
*/
#include <math.h>

#include "gpu/fold.cuh"
#include "gpu/kernels.cuh"

extern "C" {
#include "op/reduce.h"
}

enum { ENOUGH = 512 }; /* blocks that keep a device busy: more parts are not made */

/* -- Results ----------------------------------------------------------------------------------- */

/* A float may become one of another type; a whole number is stored as the type it was folded in,
** which for a bool is its byte. */
template <class A> __device__ inline void store(const folding &f, int64_t o, A v)
{
  if constexpr (std::is_floating_point<A>::value) {
    rg_store<A>(f.y.data, f.dtype, rg_at(f.y, o), v);
  } else {
    ((A *)f.y.data)[rg_at(f.y, o)] = v;
  }
}

/* A norm's parts are joined by SUM, which so has to know what finishes norms. */
template <int OP, class A> __device__ inline void finish(const folding &f, int64_t o, A v)
{
  if constexpr (OP != SUM && OP != SUM_SQUARES && OP != SUM_POWERS) {
    store(f, o, v);
  } else if constexpr (std::is_floating_point<A>::value) {
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

/* One output's elements of this block, by lanes that stand side by side, or across. */
template <class T, int OP, bool PACKS> __device__ inline void fold(const folding &f)
{
  typedef typename folded<T, OP>::type A;
  RG_SHARED(A, room, RG_BLOCK);
  int32_t lane = lane_of(f);
  int64_t begin = (int64_t)blockIdx.y * f.chunk;
  int64_t end = begin + f.chunk < f.n_fold ? begin + f.chunk : f.n_fold;

  for (int64_t first = (int64_t)blockIdx.x * f.width; first < f.n_keep;
       first += (int64_t)gridDim.x * f.width) {
    int64_t o = first + column_of(f);
    A v = nothing<OP, A>();

    if (o < f.n_keep) {
      v = PACKS ? share_in_packs<T, OP, A>(f, o, begin, end, lane)
                : share<T, OP, A>(f, o, begin, end, lane, (A)1);
    }
    v = joined<OP>(f, v, room, lane);
    if (lane == 0 && o < f.n_keep && f.parts != NULL) {
      ((A *)f.parts)[(int64_t)blockIdx.y * f.n_keep + o] = v;
    } else if (lane == 0 && o < f.n_keep) {
      finish<OP>(f, o, v);
    }
  }
}

template <class T, int OP> __global__ void k_fold(const __grid_constant__ folding f)
{
  fold<T, OP, false>(f);
}

template <class T, int OP>
__global__ void __launch_bounds__(RG_BLOCK, 4) k_fold_rows(const __grid_constant__ folding f)
{
  fold<T, OP, true>(f);
}

/* Neighbouring outputs in packs: a thread has those of one pack, and every `lanes`th element. */
template <class T, int OP>
__global__ void __launch_bounds__(RG_BLOCK, 4) k_fold_columns(const __grid_constant__ folding f)
{
  typedef typename folded<T, OP>::type A;
  constexpr int N = pack_of<T>;
  RG_SHARED(A, room, N * RG_BLOCK);
  const int32_t t = (int32_t)threadIdx.x;
  const int32_t lane = lane_of(f);
  const int64_t outputs = (int64_t)f.width * N; /* of a block */
  const int64_t begin = (int64_t)blockIdx.y * f.chunk;
  const int64_t end = begin + f.chunk < f.n_fold ? begin + f.chunk : f.n_fold;

  for (int64_t first = blockIdx.x * outputs; first < f.n_keep; first += gridDim.x * outputs) {
    const int64_t o = first + column_of(f) * N;
    A v[N];

#pragma unroll
    for (int k = 0; k < N; k++) {
      v[k] = nothing<OP, A>();
    }
    if (o < f.n_keep) {
      shares<T, OP>(f, o, begin, end, lane, v);
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
      room[k * RG_BLOCK + t] = v[k];
    }
    __syncthreads();
    for (int32_t step = f.lanes / 2; step > 0; step /= 2) {
      if (lane < step) {
#pragma unroll
        for (int k = 0; k < N; k++) {
          A *mine = room + k * RG_BLOCK + t;

          *mine = join<OP>(*mine, mine[step * f.width]);
        }
      }
      __syncthreads();
    }
    for (int32_t j = t; j < outputs && first + j < f.n_keep; j += RG_BLOCK) {
      const A all = room[j % N * RG_BLOCK + j / N];

      if (f.parts != NULL) {
        ((A *)f.parts)[(int64_t)blockIdx.y * f.n_keep + first + j] = all;
      } else {
        finish<OP>(f, first + j, all);
      }
    }
    __syncthreads();
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
template <class T> __global__ void k_norm_again(const __grid_constant__ folding f)
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

/* Threads side by side in memory, so many items for each of them. */
static void line_up_lanes(folding *f, int64_t items)
{
  f->lanes = RG_BLOCK;
  while (f->lanes > 1 && (int64_t)f->lanes * 4 > items) {
    f->lanes /= 2;
  }
  f->width = RG_BLOCK / f->lanes;
}

static void line_up_outputs(folding *f, int64_t items)
{
  f->width = f->n_fold >= 32 ? 32 : f->n_fold >= 16 ? 64 : f->n_fold >= 8 ? 128 : RG_BLOCK;
  while (f->width / 2 >= items) {
    f->width /= 2;
  }
  f->lanes = RG_BLOCK / f->width;
}

/* How the threads of a block stand. */
static void line_up(folding *f)
{
  f->each = 1;
  f->across = f->n_keep > 1 && (f->n_fold <= 1 || f->keep.stride[f->keep.ndim - 1] <
                                                      f->fold.stride[f->fold.ndim - 1]);
  if (f->across) {
    line_up_outputs(f, f->n_keep);
  } else {
    line_up_lanes(f, f->n_fold);
  }
}

/* Are the strides of all axes, or all but the last, multiples of n? */
static bool strides_pack(const rg_strided &v, int32_t axes, int64_t n)
{
  bool fit = true;

  for (int32_t i = 0; i < axes; i++) {
    fit = fit && v.stride[i] % n == 0;
  }
  return fit;
}

/* The same in packs of n elements, where what runs along memory is contiguous. */
static bool line_up_packs(folding *f, int32_t dtype, int64_t n)
{
  const rg_strided &beside = f->across ? f->keep : f->fold;
  const rg_strided &other = f->across ? f->fold : f->keep;
  const int32_t last = beside.ndim - 1;
  const bool side_by_side = last >= 0 && beside.stride[last] == 1;
  const bool aligned = side_by_side && rg_aligned(f->fold.data, rg_bytes_of(dtype), n) &&
                       beside.shape[last] % n == 0 && strides_pack(beside, last, n) &&
                       strides_pack(other, other.ndim, n);

  if (f->across ? !aligned || f->n_fold == 0
                : f->n_fold < 2 * n || !(aligned || (side_by_side && last == 0))) {
    return false;
  }
  if (f->across) {
    f->each = (int32_t)n;
    line_up_outputs(f, f->n_keep / n);
  } else {
    line_up_lanes(f, f->n_fold / n);
  }
  return true;
}

static rg_launch_cfg config(const folding *f, int64_t parts, cudaStream_t stream)
{
  const int64_t outputs = (int64_t)f->width * f->each;
  const int64_t groups = (f->n_keep + outputs - 1) / outputs;

  return rg_launch_cfg{ dim3((unsigned)(groups < 1 << 20 ? groups : 1 << 20), (unsigned)parts),
                        dim3(RG_BLOCK), 0, stream };
}

/* Cut into parts, each with some work for every lane, where scratch is there for them. */
static int64_t cut(folding *f, const rg_call *call, void *scratch)
{
  const int64_t least = (int64_t)f->lanes * (f->across ? 8 : 16);
  const int64_t room = call->scratch_bytes / ((int64_t)sizeof(double) * f->n_keep);
  const int64_t wanted = (int64_t)ENOUGH * f->width * f->each / f->n_keep;
  int64_t parts = f->n_fold / least;

  parts = parts < wanted ? parts : wanted;
  parts = parts < room ? parts : room;
  f->chunk = f->n_fold;
  if (scratch == NULL || parts < 2) {
    return 1;
  }
  f->chunk = (f->n_fold + parts - 1) / parts;
  f->chunk = rg_round_up(f->chunk, 16); /* whole packs */
  f->parts = (char *)scratch;
  return (f->n_fold + f->chunk - 1) / f->chunk;
}

/* The first pass, in parts or not; how many of them into *parts. */
template <class T, int OP>
static cudaError_t first_pass(folding *f, const rg_call *call, rg_frame *frame, int64_t *parts)
{
  cudaStream_t stream = rg_gpu_stream(call->device);

  if constexpr (OP != SUM_POWERS) { /* powers take longer than reading */
    if (line_up_packs(f, rg_code_of<T>, pack_of<T>)) {
      *parts = cut(f, call, frame->scratch);
      frame->path = f->across ? "columns, packs" : "rows, packs";
      return rg_launch(f->across ? k_fold_columns<T, OP> : k_fold_rows<T, OP>,
                       config(f, *parts, stream), *f);
    }
  }
  *parts = cut(f, call, frame->scratch);
  frame->path = f->across ? "columns" : "rows";
  return rg_launch(k_fold<T, OP>, config(f, *parts, stream), *f);
}

template <class T, int OP>
static cudaError_t run(const folding &f, const rg_call *call, rg_frame *frame)
{
  typedef typename folded<T, OP>::type A;
  constexpr int again = OP == MAX_ABS ? MAX : OP > MIN ? SUM : OP;
  cudaStream_t stream = rg_gpu_stream(call->device);
  folding g = f;
  int64_t parts;
  cudaError_t error = first_pass<T, OP>(&g, call, frame, &parts);

  if (error == cudaSuccess && g.parts != NULL) {
    g.keep.ndim = g.fold.ndim = 1; /* the parts are a matrix, and its rows are folded */
    g.keep.stride[0] = 1;
    g.fold.stride[0] = f.n_keep;
    g.fold.data = g.parts;
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
  constexpr int32_t kinds = OP <= MIN ? RG_KINDS_COMPUTED : RG_KINDS_FLOAT; /* norms: of floats */

  return rg_dispatch<kinds>(call, x->_dtype,
                            [&](auto t) { return run<rg_t<decltype(t)>, OP>(f, call, frame); });
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
