/* SPDX-License-Identifier: MIT */
/*
** Folding: the elements of outputs, and the lanes that share them, as the kernels of reduce.cu see
** them.
*/
#ifndef RIDGE_GPU_FOLD_CUH
#define RIDGE_GPU_FOLD_CUH

#include <type_traits>

#include "gpu/pack.cuh"
#include "gpu/team.cuh"

enum { RUN = 64 }; /* elements that a lane adds up before they meet its total */

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
  int32_t each;   /* neighbouring outputs of a thread */
  int32_t width;  /* threads with outputs of their own in a block */
  int32_t lanes;  /* threads of the same ones: width * lanes = RG_BLOCK */
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

/* What nothing becomes. */
template <int OP, class A> __device__ constexpr A nothing()
{
  return OP == PROD ? 1 : 0;
}

/* Does a total begin with an element? */
template <int OP> constexpr bool extreme = OP == MAX || OP == MIN || OP == MAX_ABS;

/* Where element i is; divisions are by 32 bits where they can be, and none on one axis. */
__device__ inline int64_t place(const rg_strided &v, int64_t i)
{
  int64_t at = 0;

#pragma unroll 1 /* see rg_at */
  for (int32_t d = v.ndim - 1; d > 0; d--) {
    int64_t size = v.shape[d];
    bool narrow = (uint64_t)(i | size) >> 32 == 0;
    int64_t outer = narrow ? (uint32_t)i / (uint32_t)size : i / size;

    at += (i - outer * size) * v.stride[d];
    i = outer;
  }
  return at + i * v.stride[0];
}

/* The places of elements on one axis, and on several.  Loads of an unrolled loop fly together only
** where no loop finds their places, so only there is it unrolled. */
struct line_of_places {
  static constexpr int unroll = 4;
  int64_t step;

  __device__ inline int64_t operator()(int64_t i) const
  {
    return i * step;
  }
};
struct grid_of_places {
  static constexpr int unroll = 1;
  const rg_strided &v;

  __device__ inline int64_t operator()(int64_t i) const
  {
    return place(v, i);
  }
};

/* f(where), where(i) the place of element i. */
template <class F> __device__ inline void with_places(const rg_strided &v, F f)
{
  if (v.ndim <= 1) {
    f(line_of_places{ v.stride[0] });
  } else {
    f(grid_of_places{ v });
  }
}

/* A lane's share of output o: elements begin + lane, begin + lane + lanes, ... before end. */
template <class T, int OP, class A>
__device__ inline A share(const folding &f, int64_t o, int64_t begin, int64_t end, int32_t lane,
                          A scale)
{
  const T *x = (const T *)f.fold.data + place(f.keep, o);
  const A p = (A)f.p;
  A total = nothing<OP, A>();

  if (extreme<OP> && begin < end) {
    total = before<OP>((A)rg_get(x[place(f.fold, begin)]), p);
  }
  with_places(f.fold, [&](auto where) {
    for (int64_t at = begin + lane; at < end; at += (int64_t)RUN * f.lanes) {
      A part = extreme<OP> ? total : nothing<OP, A>();
      int64_t stop = at + (int64_t)RUN * f.lanes < end ? at + (int64_t)RUN * f.lanes : end;

#pragma unroll decltype(where)::unroll
      for (int64_t i = at; i < stop; i += f.lanes) {
        A v = (A)rg_get(x[where(i)]);

        part = join<OP>(part, before<OP>((A)(OP == SUM_POWERS ? v * scale : v), p));
      }
      total = join<OP>(total, part);
    }
  });
  return total;
}

/* Elements of a pack: those of one byte are folded in wider lanes, sixteen of which would fill the
** registers. */
template <class T> constexpr int pack_of = rg_pack_size<T> < 8 ? rg_pack_size<T> : 8;

/* v[0] to v[N - 1] joined in a tree. */
template <int OP, int N, class A> __device__ inline A of_pack(const A *v, A p)
{
  if constexpr (N == 1) {
    return before<OP>(v[0], p);
  } else {
    return join<OP>(of_pack<OP, N / 2>(v, p), of_pack<OP, N / 2>(v + N / 2, p));
  }
}

/* The same of contiguous elements: on one axis from anywhere, on several in packs. */
template <class T, int OP, class A>
__device__ inline A share_in_packs(const folding &f, int64_t o, int64_t begin, int64_t end,
                                   int32_t lane)
{
  constexpr int N = pack_of<T>;
  const T *x = (const T *)f.fold.data + place(f.keep, o);
  const rg_stretch<T> run(x + place(f.fold, begin), end - begin, true);
  const int64_t apart = (int64_t)N * f.lanes;
  const A p = (A)f.p;
  A total = extreme<OP> ? before<OP>((A)rg_get(x[place(f.fold, begin)]), p) : nothing<OP, A>();

  with_places(f.fold, [&](auto where) {
    for (int64_t at = run.first + lane * N; at < run.last; at += RUN / N * apart) {
      A part = extreme<OP> ? total : nothing<OP, A>();
      int64_t stop = at + RUN / N * apart < run.last ? at + RUN / N * apart : run.last;

#pragma unroll decltype(where)::unroll
      for (int64_t i = at; i < stop; i += apart) {
        A v[N];

        rg_unpack<T, N>(x, where(begin + i), v);
        part = join<OP>(part, of_pack<OP, N>(v, p));
      }
      total = join<OP>(total, part);
    }
  });
  for (int64_t k = lane; k < run.loose(); k += f.lanes) {
    A v = (A)rg_get(x[place(f.fold, begin + run.loose_at(k))]);

    total = join<OP>(total, before<OP>(v, p));
  }
  return total;
}

/* Does it matter how many numbers meet a total?  Not where none is rounded. */
template <int OP, class A> constexpr bool rounds = !extreme<OP> && std::is_floating_point<A>::value;

/* A lane's shares of the outputs of a pack, o and those beside it. */
template <class T, int OP, int N, class A>
__device__ inline void shares(const folding &f, int64_t o, int64_t begin, int64_t end, int32_t lane,
                              A (&total)[N])
{
  const T *x = (const T *)f.fold.data + place(f.keep, o);
  const A p = (A)f.p;

  if (extreme<OP> && begin < end) {
    rg_unpack<T, N>(x, place(f.fold, begin), total);
#pragma unroll
    for (int k = 0; k < N; k++) {
      total[k] = before<OP>(total[k], p);
    }
  }
  with_places(f.fold, [&](auto where) {
    for (int64_t at = begin + lane; at < end; at += (int64_t)RUN * f.lanes) {
      const int64_t stop = at + (int64_t)RUN * f.lanes < end ? at + (int64_t)RUN * f.lanes : end;
      A part[N];

#pragma unroll
      for (int k = 0; k < N; k++) {
        part[k] = rounds<OP, A> ? nothing<OP, A>() : total[k];
      }
#pragma unroll decltype(where)::unroll
      for (int64_t i = at; i < stop; i += f.lanes) {
        A v[N];

        rg_unpack<T, N>(x, where(i), v);
#pragma unroll
        for (int k = 0; k < N; k++) {
          part[k] = join<OP>(part[k], before<OP>(v[k], p));
        }
      }
#pragma unroll
      for (int k = 0; k < N; k++) {
        total[k] = rounds<OP, A> ? join<OP>(total[k], part[k]) : part[k];
      }
    }
  });
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

/* The lanes of each output, joined: lane 0 gets it.  Every thread of the block comes here. */
template <int OP, class A> __device__ inline A joined(const folding &f, A v, A *room, int32_t lane)
{
  const int32_t t = (int32_t)threadIdx.x;
  const int32_t apart = f.across ? f.width : 1;
  const int32_t last = f.across ? 1 : (int32_t)RG_WARP; /* nearer lanes are in one warp */
  int32_t step = f.lanes / 2;

  if (step >= last) {
    room[t] = v;
    __syncthreads();
    for (; step >= last; step /= 2) {
      if (lane < step) {
        room[t] = join<OP>(room[t], room[t + step * apart]);
      }
      __syncthreads();
    }
    v = room[t];
  }
  for (; step > 0; step /= 2) {
    v = join<OP>(v, (A)__shfl_xor_sync(0xffffffffu, v, step));
  }
  return v;
}

/* The same; all of them get it. */
template <int OP, class A>
__device__ inline A together(const folding &f, A v, A *room, int32_t lane)
{
  const int32_t t = (int32_t)threadIdx.x;

  v = joined<OP>(f, v, room, lane);
  if (lane == 0) {
    room[t] = v;
  }
  __syncthreads();
  v = room[t - lane * (f.across ? f.width : 1)];
  __syncthreads();
  return v;
}

#endif
