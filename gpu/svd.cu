/* SPDX-License-Identifier: MIT */
/*
** Singular value decomposition by one-sided Jacobi rotations (Hestenes, 1958; Demmel, Veselic:
** Jacobi's method is more accurate than QR, 1992).
**
** The shorter side's vectors are rotated against each other, two at a time, until all are
** orthogonal; then their norms are the singular values, they themselves one basis, and the
** rotations put together the other.  In a round each vector meets one other, so rounds run in
** parallel, and in k - 1 rounds (a sweep, as in a tournament) each has met each.  Nothing is added
** up in an order that depends on who ran first.
*/
#include <math.h>

#include "gpu/kernels.cuh"
#include "gpu/late.cuh"
#include "gpu/svd_pairs.cuh"
#include "gpu/team.cuh"

extern "C" {
#include "op/svd.h"
}

enum {
  ONE_BLOCK = 64,  /* vectors that one block turns without another launch */
  PAIRS = RG_WARPS /* of a block otherwise: one to a warp */
};

template <class L> struct svd_work {
  rg_strided x, u, s, vt;
  L *vectors; /* [k x length] */
  L *bases;   /* [k x k] */
  L *norms;
  L *parts;
  double *scale; /* a power of two: x was multiplied by it; nan: x is not finite */
  int32_t *order;
  int32_t *rotated;
  int64_t k, length;
  int32_t tall; /* the vectors are columns of x */
  rg_late_for late;
};

/* The least squared norm; what is less cannot be told from 0 beside the largest. */
template <class L> __device__ static inline L least()
{
  return sizeof(L) == 8 ? (L)1e-280 : (L)1e-30;
}

/* -- The matrix -------------------------------------------------------------------------------- */

/* By one block: which power of two brings the largest number near 1; the sweeps are all to come. */
template <class L> __global__ void k_largest(svd_work<L> w)
{
  RG_SHARED(double, room, RG_WARPS);
  double most = 0;
  double odd = 0; /* numbers that are not finite */
  int e = 0;

  for (int64_t i = threadIdx.x; i < w.k * w.length; i += RG_BLOCK) {
    double v = fabs((double)((const L *)w.x.data)[rg_at(w.x, i)]);

    odd += v - v == 0 ? 0 : 1;
    most = v > most ? v : most;
  }
  odd = rg_team_sum(odd, RG_BLOCK, room);
  most = rg_team_max(most, RG_BLOCK, room);
  if (threadIdx.x == 0) {
    (void)frexp(most, &e);
    *w.scale = odd > 0 ? (double)NAN : ldexp(1.0, e < -1000 ? 1000 : -e);
    if (odd > 0) {
      rg_late_tell(w.late, RG_LATE_FINITE, 0, 0);
    }
  }
  for (int32_t i = (int32_t)threadIdx.x; i < RG_SVD_SWEEPS; i += RG_BLOCK) {
    w.rotated[i] = 0;
  }
}

template <class L> __global__ void k_begin(svd_work<L> w)
{
  const double scale = *w.scale;
  const int64_t n = w.k * w.length;

  for (int64_t i = RG_FIRST; i < n + w.k * w.k; i += RG_NEXT) {
    if (i < n) {
      int64_t from = w.tall ? i % w.length * w.k + i / w.length : i;

      w.vectors[i] = (L)((double)((const L *)w.x.data)[rg_at(w.x, from)] * scale);
    } else {
      w.bases[i - n] = (i - n) / w.k == (i - n) % w.k ? (L)1 : (L)0;
    }
  }
}

/* -- Rotations --------------------------------------------------------------------------------- */

template <class L>
__device__ static inline void turn(L *p, L *q, int64_t n, int64_t lane, L cosine, L sine)
{
  for (int64_t i = lane; i < n; i += RG_WARP) {
    L a = p[i];
    L b = q[i];

    p[i] = cosine * a - sine * b;
    q[i] = sine * a + cosine * b;
  }
}

/* A warp makes two vectors orthogonal; false: they were (or one is nothing). */
template <class L> __device__ static inline bool meet(const svd_work<L> &w, int64_t i, int64_t j)
{
  const L unit = sizeof(L) == 8 ? (L)2.220446049250313e-16 : (L)1.1920929e-7;
  const int64_t lane = threadIdx.x % RG_WARP;
  L *p = w.vectors + i * w.length;
  L *q = w.vectors + j * w.length;
  L a = 0;
  L b = 0;
  L c = 0;

  for (int64_t l = lane; l < w.length; l += RG_WARP) {
    a += p[l] * p[l];
    b += q[l] * q[l];
    c += p[l] * q[l];
  }
  a = rg_warp_sum(a);
  b = rg_warp_sum(b);
  c = rg_warp_sum(c);
  if (a < least<L>() || b < least<L>() ||
      !(fabs(c) > unit * sqrt((L)w.length) * sqrt(a) * sqrt(b))) {
    return false;
  }
  L zeta = (b - a) / (2 * c);
  L t = fabs(zeta) > 1 / unit /* its square may be no number */
            ? 1 / (2 * zeta)
            : (zeta < 0 ? (L)-1 : (L)1) / (fabs(zeta) + sqrt(1 + zeta * zeta));
  L cosine = 1 / sqrt(1 + t * t);

  turn(p, q, w.length, lane, cosine, cosine * t);
  turn(w.bases + i * w.k, w.bases + j * w.k, w.k, lane, cosine, cosine * t);
  return true;
}

template <class L>
__device__ static inline bool meet_at(const svd_work<L> &w, int64_t round, int64_t place)
{
  int64_t i;
  int64_t j;

  return rg_svd_pair(w.k, round, place, &i, &j) && meet(w, i, j);
}

/* All sweeps, by one block. */
template <class L> __global__ void __launch_bounds__(1024, 1) k_sweeps(svd_work<L> w)
{
  const int64_t places = rg_svd_places(w.k);

  for (int32_t sweep = 0; sweep < RG_SVD_SWEEPS; sweep++) {
    bool rotated = false;

    for (int64_t round = 0; round < rg_svd_rounds(w.k); round++) {
      for (int64_t n = threadIdx.x / RG_WARP; n < places; n += blockDim.x / RG_WARP) {
        rotated = meet_at(w, round, n) || rotated;
      }
      __syncthreads();
    }
    if (!__syncthreads_or(rotated)) {
      return;
    }
    if (threadIdx.x == 0) {
      w.rotated[sweep] = 1;
    }
  }
}

/* One round of one sweep. */
template <class L> __global__ void k_round(svd_work<L> w, int32_t sweep, int64_t round)
{
  const int64_t n = RG_FIRST / RG_WARP;

  if ((sweep > 0 && w.rotated[sweep - 1] == 0) || n >= rg_svd_places(w.k)) {
    return;
  }
  if (meet_at(w, round, n) && threadIdx.x % RG_WARP == 0) {
    atomicExch(&w.rotated[sweep], 1);
  }
}

/* -- What came out ----------------------------------------------------------------------------- */

/* A warp a vector: its norm, and it made to length 1; what is nothing has norm 0. */
template <class L> __global__ void k_norms(svd_work<L> w)
{
  const int64_t lane = threadIdx.x % RG_WARP;

  if (RG_FIRST == 0 && w.rotated[RG_SVD_SWEEPS - 1] != 0) {
    rg_late_tell(w.late, RG_LATE_SWEEPS, 0, RG_SVD_SWEEPS);
  }
  for (int64_t i = RG_FIRST / RG_WARP; i < w.k; i += RG_NEXT / RG_WARP) {
    L *v = w.vectors + i * w.length;
    L sum = 0;

    for (int64_t l = lane; l < w.length; l += RG_WARP) {
      sum += v[l] * v[l];
    }
    sum = rg_warp_sum(sum);
    L norm = sum >= least<L>() ? sqrt(sum) : (L)0;

    for (int64_t l = lane; l < w.length; l += RG_WARP) {
      v[l] = norm > 0 ? v[l] / norm : (L)0;
    }
    if (lane == 0) {
      w.norms[i] = norm;
    }
  }
}

template <class L> __global__ void k_order(svd_work<L> w)
{
  for (int64_t i = RG_FIRST; i < w.k; i += RG_NEXT) {
    int64_t place = 0;

    for (int64_t j = 0; j < w.k; j++) {
      place += w.norms[j] > w.norms[i] || (w.norms[j] == w.norms[i] && j < i) ? 1 : 0;
    }
    w.order[place] = (int32_t)i;
  }
}

/* Where the vectors that are there, and those before i, have least of their weight. */
template <class L> __device__ static inline int64_t emptiest(const svd_work<L> &w, int64_t i)
{
  RG_SHARED(L, weight, RG_BLOCK);
  RG_SHARED(int64_t, place, RG_BLOCK);
  const int32_t t = (int32_t)threadIdx.x;
  int64_t best = -1;
  L least_weight = 0;

  for (int64_t l = t; l < w.length; l += RG_BLOCK) {
    L sum = 0;

    for (int64_t r = 0; r < w.k; r++) {
      L v = w.norms[r] > 0 || r < i ? w.vectors[r * w.length + l] : (L)0;

      sum += v * v;
    }
    if (best < 0 || sum < least_weight) {
      best = l;
      least_weight = sum;
    }
  }
  weight[t] = least_weight;
  place[t] = best;
  __syncthreads();
  for (int32_t k = 0; k < RG_BLOCK; k++) { /* the first of equals */
    if (place[k] >= 0 &&
        (weight[k] < least_weight || best < 0 || (weight[k] == least_weight && place[k] < best))) {
      best = place[k];
      least_weight = weight[k];
    }
  }
  __syncthreads();
  return best;
}

/* By one block: for each vector that is nothing one of length 1 that is orthogonal to all others,
** from an axis by Gram and Schmidt, twice (Kahan, Parlett: twice is enough). */
template <class L> __global__ void k_complete(svd_work<L> w)
{
  RG_SHARED(L, room, RG_WARPS);
  const int64_t lane = threadIdx.x % RG_WARP;

  for (int64_t i = 0; i < w.k; i++) {
    L *v = w.vectors + i * w.length;

    if (w.norms[i] > 0) {
      continue;
    }
    int64_t axis = emptiest(w, i);

    for (int64_t l = threadIdx.x; l < w.length; l += RG_BLOCK) {
      v[l] = l == axis ? (L)1 : (L)0;
    }
    for (int32_t pass = 0; pass < 2; pass++) {
      L sum = 0;

      __syncthreads();
      for (int64_t r = threadIdx.x / RG_WARP; r < w.k; r += RG_WARPS) {
        L part = 0;

        for (int64_t l = lane; (w.norms[r] > 0 || r < i) && l < w.length; l += RG_WARP) {
          part += w.vectors[r * w.length + l] * v[l];
        }
        part = rg_warp_sum(part);
        if (lane == 0) {
          w.parts[r] = part;
        }
      }
      __syncthreads();
      for (int64_t l = threadIdx.x; l < w.length; l += RG_BLOCK) {
        L rest = v[l];

        for (int64_t r = 0; r < w.k; r++) {
          rest -= w.norms[r] > 0 || r < i ? w.parts[r] * w.vectors[r * w.length + l] : (L)0;
        }
        v[l] = rest;
        sum += rest * rest;
      }
      sum = sqrt(rg_team_sum(sum, RG_BLOCK, room));
      for (int64_t l = threadIdx.x; l < w.length; l += RG_BLOCK) {
        v[l] /= sum;
      }
    }
    __syncthreads();
  }
}

/* Tall: x bases' = vectors' norms, so u are the vectors and vt the bases; wide: the other way. */
template <class L> __global__ void k_deliver(svd_work<L> w)
{
  const int64_t n_vectors = w.k * w.length;
  const int64_t n_bases = w.k * w.k;
  const double scale = *w.scale;
  const L odd = scale == scale ? (L)0 : (L)NAN;

  for (int64_t i = RG_FIRST; i < n_vectors + n_bases + w.k; i += RG_NEXT) {
    bool is_basis = i >= n_vectors;
    int64_t at = is_basis ? i - n_vectors : i;
    int64_t size = is_basis ? w.k : w.length;

    if (i >= n_vectors + n_bases) {
      at = i - n_vectors - n_bases;
      ((L *)w.s.data)[rg_at(w.s, at)] = (L)((double)w.norms[w.order[at]] / scale);
      continue;
    }
    const L *from = (is_basis ? w.bases : w.vectors) + w.order[at / size] * size;
    L v = from[at % size] + odd;

    if (is_basis == (w.tall != 0)) {
      ((L *)w.vt.data)[rg_at(w.vt, at)] = v;
    } else {
      ((L *)w.u.data)[rg_at(w.u, at % size * w.k + at / size)] = v;
    }
  }
}

/* -- The call ---------------------------------------------------------------------------------- */

template <class L> static rg_status rotate(const rg_call *call, const svd_work<L> &w)
{
  const int64_t places = rg_svd_places(w.k);
  cudaStream_t stream = rg_gpu_stream(call->device);
  rg_launch_cfg cfg = { dim3(1), dim3((unsigned)(places * RG_WARP)), 0, stream };

  if (w.k <= ONE_BLOCK) {
    return rg_gpu_status("svd", rg_launch(k_sweeps<L>, cfg, w));
  }
  cfg = rg_launch_cfg{ dim3((unsigned)((places + PAIRS - 1) / PAIRS)), dim3(RG_BLOCK), 0, stream };
  for (int32_t sweep = 0; sweep < RG_SVD_SWEEPS; sweep++) {
    for (int64_t round = 0; round < rg_svd_rounds(w.k); round++) {
      RG_CUDA("svd", rg_launch(k_round<L>, cfg, w, sweep, round));
    }
  }
  return RG_OK;
}

template <class L> static rg_status svd(const rg_call *call, rg_tensor *const *out, char *scratch)
{
  const rg_tensor *x = call->in[0];
  const int64_t m = x->_shape[0];
  const int64_t n = x->_shape[1];
  const rg_svd_room room = rg_svd_room_of(m, n, sizeof(L));
  cudaStream_t stream = rg_gpu_stream(call->device);
  const rg_launch_cfg one = { dim3(1), dim3(RG_BLOCK), 0, stream };
  svd_work<L> w = {};

  w.x = rg_view_of(x);
  w.u = rg_view_of(out[0]);
  w.s = rg_view_of(out[1]);
  w.vt = rg_view_of(out[2]);
  w.tall = m >= n;
  w.k = m < n ? m : n;
  w.length = m < n ? n : m;
  w.vectors = (L *)(scratch + room.vectors);
  w.bases = (L *)(scratch + room.bases);
  w.norms = (L *)(scratch + room.norms);
  w.parts = (L *)(scratch + room.parts);
  w.scale = (double *)(scratch + room.scale);
  w.order = (int32_t *)(scratch + room.order);
  w.rotated = (int32_t *)(scratch + room.rotated);
  RG_TRY(rg_late_begin(call, &w.late));
  RG_CUDA("svd", rg_launch(k_largest<L>, one, w));
  RG_CUDA("svd", rg_launch(k_begin<L>, rg_over(w.k * (w.length + w.k), stream), w));
  RG_TRY(rotate(call, w));
  RG_CUDA("svd", rg_launch(k_norms<L>, rg_over(w.k * RG_WARP, stream), w));
  RG_CUDA("svd", rg_launch(k_order<L>, rg_over(w.k, stream), w));
  RG_CUDA("svd", rg_launch(k_complete<L>, one, w));
  return rg_gpu_status("svd",
                       rg_launch(k_deliver<L>, rg_over(w.k * (w.length + w.k + 1), stream), w));
}

rg_status rg_gpu_svd(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  if (out[1]->_count == 0) {
    return RG_OK;
  }
  frame->path = "jacobi";
  return call->in[0]->_dtype == RG_F64 ? svd<double>(call, out, (char *)frame->scratch)
                                       : svd<float>(call, out, (char *)frame->scratch);
}
