/* SPDX-License-Identifier: MIT */
/*
** Cross entropy and its gradient: a row of scores at a time, then the sum over rows.
*/
#include <math.h>

#include "gpu/kernels.cuh"
#include "gpu/numbers.cuh"
#include "gpu/rows.cuh"

extern "C" {
#include "op/loss.h"
}

struct loss_work {
  rg_strided x;
  rg_strided y;  /* of rows, or dx */
  rg_strided dy; /* of rows */
  rg_strided lse;
  rg_numbers labels;
  const void *weight; /* of classes; NULL: all are 1 */
  const void *total;
  int64_t weight_step;
  int64_t rows;
  int64_t classes;
  double smoothing;
  int32_t weight_type;
  int32_t dy_type;
  int32_t y_by_row; /* the losses of rows are the result */
  int32_t mean;
  int32_t width;
  double *loss; /* of each row */
  double *part; /* its share of what a mean divides by */
};

__device__ inline double weight_of(const loss_work &w, int64_t c)
{
  return w.weight != NULL ? rg_number_of(w.weight, w.weight_type, c * w.weight_step).d : 1;
}

/* One more score: the largest so far, and the sum of exp(score - largest), in one reading (Milakov,
** Gimelshein: Online normalizer calculation for softmax, 2018).  -inf adds nothing; +inf and nan
** make the sum nan. */
template <class L> __device__ inline void add_score(L v, L *most, L *sum)
{
  if (v > *most) {
    *sum = (*sum > 0 ? *sum * exp(*most - v) : *sum) + ((L)1 + (v - v));
    *most = v;
  } else if (v != -(L)INFINITY) {
    *sum += exp(v - *most);
  }
}

/* The same of a pack, whose largest comes first: one more exponential, not one for each. */
template <bool HALF, int N, class L>
__device__ inline void add_scores(const L (&v)[N], L *most, L *sum)
{
  L top = *most;

#pragma unroll
  for (int k = 0; k < N; k++) {
    top = v[k] > top ? v[k] : top;
  }
  const L from = top == -(L)INFINITY ? (L)0 : top; /* no score yet: each adds nothing */

  *sum *= *most == top ? (L)1 : rg_exp<HALF>(*most - from);
  *most = top;
#pragma unroll
  for (int k = 0; k < N; k++) {
    *sum += rg_exp<HALF>(v[k] - from);
  }
}

enum { TWO = 2 }; /* packs under way at once */

/* Packs c and c + apart of a row, those before last; f(c, pack) of each. */
template <class T, class F>
__device__ inline void two_packs(const T *x, int64_t c, int64_t apart, int64_t last, F f)
{
  rg_raw<T, rg_pack_size<T>> packs[TWO];

#pragma unroll
  for (int j = 0; j < TWO; j++) {
    if (c + j * apart < last) {
      packs[j].load(x, c + j * apart);
    }
  }
#pragma unroll
  for (int j = 0; j < TWO; j++) {
    if (c + j * apart < last) {
      f(c + j * apart, packs[j]);
    }
  }
}

/* SMOOTH: the sums that label smoothing wants, too. */
template <class T, bool SMOOTH> __global__ void k_loss(const __grid_constant__ loss_work w)
{
  typedef typename rg_lane<T>::type L;
  constexpr int N = rg_pack_size<T>;
  RG_SHARED(L, room, RG_WARPS);
  RG_SHARED(double, sums, RG_WARPS);
  const int32_t lane = (int32_t)threadIdx.x % w.width;
  const double s = w.smoothing;

  for (int64_t row = RG_TEAM(w.width); row < w.rows; row += RG_TEAMS(w.width)) {
    const T *x = (const T *)w.x.data + rg_at(w.x, row * w.classes);
    int64_t label = rg_number_at(w.labels, row);
    bool counts = label != w.labels.ignore &&
                  (lane == 0 ? rg_checked(w.labels, label) : rg_in_range(w.labels, label));
    L most = -(L)INFINITY;
    L sum = 0;
    double weights = 0; /* sum_c w[c], sum_c w[c] x[c] */
    double drawn = 0;

    const rg_stretch<T> run(x, w.classes, rg_step(w.x) == 1 && w.width > 1);

    for (int64_t c = run.first + lane * N; c < run.last; c += TWO * N * w.width) {
      two_packs(x, c, (int64_t)N * w.width, run.last, [&](int64_t at, const rg_raw<T, N> &pack) {
        L v[N];

        pack.get(v);
        add_scores<sizeof(T) == 2>(v, &most, &sum);
        for (int k = 0; SMOOTH && k < N; k++) {
          weights += weight_of(w, at + k);
          drawn += weight_of(w, at + k) * (double)v[k];
        }
      });
    }
    for (int64_t k = lane; k < run.loose(); k += w.width) {
      const int64_t c = run.loose_at(k);
      const L v = rg_get(x[c * rg_step(w.x)]);

      add_score(v, &most, &sum);
      if (SMOOTH) {
        weights += weight_of(w, c);
        drawn += weight_of(w, c) * (double)v;
      }
    }
    L own = most;

    most = rg_team_max(most, w.width, room);
    sum = rg_team_sum(sum > 0 || sum != sum ? sum * exp(own - most) : (L)0, w.width, room);
    sum = most == -(L)INFINITY ? (L)NAN : sum; /* no score at all */
    if (SMOOTH) {
      weights = rg_team_sum(weights, w.width, sums);
      drawn = rg_team_sum(drawn, w.width, sums);
    }
    if (lane == 0) {
      double lse = (double)most + log((double)sum);
      double weight = counts ? weight_of(w, label) : 0;
      double loss = counts ? (1 - s) * weight * (lse - (double)rg_get(x[label * rg_step(w.x)])) : 0;

      loss += counts && SMOOTH ? s / (double)w.classes * (weights * lse - drawn) : 0;
      if (w.lse.data != NULL) {
        ((L *)w.lse.data)[row] = (L)lse;
      }
      if (w.y_by_row != 0) {
        ((L *)w.y.data)[rg_at(w.y, row)] = (L)loss;
      }
      w.loss[row] = loss;
      w.part[row] = weight;
    }
  }
}

/* The sum over all rows, by one block. */
template <class L> __global__ void k_loss_sum(loss_work w, L *total)
{
  RG_SHARED(double, room, RG_WARPS);
  double loss = 0;
  double all = 0;

#pragma unroll 4
  for (int64_t row = threadIdx.x; row < w.rows; row += RG_BLOCK) {
    loss += w.loss[row];
    all += w.part[row];
  }
  loss = rg_team_sum(loss, RG_BLOCK, room);
  all = rg_team_sum(all, RG_BLOCK, room);
  all = w.mean != 0 ? all : 1;
  if (threadIdx.x == 0) {
    if (w.y_by_row == 0) {
      *(L *)w.y.data = (L)(loss / all);
    }
    if (total != NULL) {
      *total = (L)all;
    }
  }
}

/* What the gradient of one row is made of. */
template <class L, bool SMOOTH> struct loss_row {
  double own, even, scale;
  int64_t label;
  L lse, factor;
  bool counts;

  /* scale ((w (1 - s) + s/C sum_c w[c]) p[c] - s/C w[c]), less scale w (1 - s) for the label */
  template <bool HALF> __device__ inline L at(const loss_work &w, int64_t c, L x) const
  {
    L v = counts ? rg_exp<HALF>(x - lse) * factor : 0;

    if (SMOOTH && counts) {
      v = (L)((double)v - even * weight_of(w, c));
    }
    return v;
  }
  __device__ inline L at_label(L v) const
  {
    return counts ? (L)((double)v - scale * own) : v;
  }
};

template <class T, bool SMOOTH> __global__ void k_loss_back(const __grid_constant__ loss_work w)
{
  typedef typename rg_lane<T>::type L;
  constexpr int N = rg_pack_size<T>;
  RG_SHARED(double, sums, RG_WARPS);
  const int64_t step = rg_step(w.x);
  const int64_t dx_step = rg_step(w.y);
  const int32_t lane = (int32_t)threadIdx.x % w.width;
  const int64_t apart = (int64_t)N * w.width;
  const double s = w.smoothing;

  for (int64_t row = RG_TEAM(w.width); row < w.rows; row += RG_TEAMS(w.width)) {
    const T *x = (const T *)w.x.data + rg_at(w.x, row * w.classes);
    T *dx = (T *)w.y.data + rg_at(w.y, row * w.classes);
    const double total = w.mean != 0 ? (double)*(const L *)w.total : 1;
    loss_row<L, SMOOTH> r;
    double weights = 0;

    r.label = rg_number_at(w.labels, row);
    r.counts = r.label != w.labels.ignore &&
               (lane == 0 ? rg_checked(w.labels, r.label) : rg_in_range(w.labels, r.label));
    r.scale = rg_number_of(w.dy.data, w.dy_type, rg_at(w.dy, row)).d / total;
    r.own = r.counts ? weight_of(w, r.label) * (1 - s) : 0;
    r.even = r.scale * s / (double)w.classes;
    r.lse = ((const L *)w.lse.data)[rg_at(w.lse, row)];
    for (int64_t c = lane; SMOOTH && c < w.classes; c += w.width) {
      weights += weight_of(w, c);
    }
    weights = SMOOTH ? rg_team_sum(weights, w.width, sums) : 0;
    r.factor = (L)(r.scale * (r.own + weights * s / (double)w.classes));

    /* packs of both rows begin at the same classes, or there are none */
    const rg_stretch<T> run(x, w.classes,
                            step == 1 && dx_step == 1 && w.width > 1 &&
                                ((uintptr_t)x - (uintptr_t)dx) % 16 == 0);

    for (int64_t c = run.first + lane * N; c < run.last; c += TWO * apart) {
      two_packs(x, c, apart, run.last, [&](int64_t at, const rg_raw<T, N> &pack) {
        const int64_t label = r.label - at; /* its place in this pack, or in none */
        L v[N];

        pack.get(v);
#pragma unroll
        for (int k = 0; k < N; k++) {
          v[k] = r.template at<sizeof(T) == 2>(w, at + k, v[k]);
        }
        if (label >= 0 && label < N) {
#pragma unroll
          for (int k = 0; k < N; k++) {
            v[k] = k == label ? r.at_label(v[k]) : v[k];
          }
        }
        rg_pack_into<T, N>(dx, at, v);
      });
    }
    for (int64_t k = lane; k < run.loose(); k += w.width) {
      const int64_t c = run.loose_at(k);
      const L v = r.template at<false>(w, c, rg_get(x[c * step]));

      dx[c * dx_step] = rg_element<T>::of(c == r.label ? r.at_label(v) : v);
    }
  }
}

static rg_status work_of(const rg_call *call, int32_t x_at, int32_t weight_at, rg_tensor *y,
                         loss_work *out)
{
  const rg_cross_entropy_options *o = &((const rg_cross_entropy_args *)call->args)->o;
  const rg_tensor *x = call->in[x_at];
  const rg_tensor *weight = call->n_in > weight_at ? call->in[weight_at] : NULL;
  loss_work w = {};

  w.x = rg_view_of(x);
  w.y = rg_view_of(y);
  w.classes = x->_shape[x->_ndim - 1];
  w.rows = x->_count / w.classes;
  RG_TRY(rg_numbers_of(call, call->in[x_at + 1], w.classes, &w.labels));
  w.labels.ignore = o->ignore;
  w.labels.ignores = 1;
  w.smoothing = o->smoothing;
  w.mean = o->reduction == RG_LOSS_MEAN;
  w.width = rg_team_width(&w.x, w.classes, w.rows);
  if (weight != NULL) {
    w.weight = weight->_data;
    w.weight_type = weight->_dtype;
    w.weight_step = weight->_stride[0];
  }
  *out = w;
  return RG_OK;
}

template <class T>
static rg_status loss(const rg_call *call, const loss_work &w, rg_tensor *const *out)
{
  typedef typename rg_lane<T>::type L;
  cudaStream_t stream = rg_gpu_stream(call->device);
  const rg_launch_cfg one = { dim3(1), dim3(RG_BLOCK), 0, stream };

  if (w.rows > 0) {
    RG_CUDA(call->op->name, rg_launch(w.smoothing > 0 ? k_loss<T, true> : k_loss<T, false>,
                                      rg_over(w.rows * w.width, stream), w));
  }
  if (w.y_by_row != 0 && call->n_out < 3) {
    return RG_OK;
  }
  return rg_gpu_status(call->op->name, rg_launch(k_loss_sum<L>, one, w,
                                                 (L *)(call->n_out > 2 ? out[2]->_data : NULL)));
}

rg_status rg_gpu_cross_entropy(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  loss_work w;

  RG_TRY(work_of(call, 0, 2, out[0], &w));
  w.y_by_row = ((const rg_cross_entropy_args *)call->args)->o.reduction == RG_LOSS_NONE;
  w.loss = (double *)frame->scratch;
  w.part = w.loss + w.rows;
  if (call->n_out > 1) {
    w.lse = rg_view_of(out[1]);
  }
  return rg_dispatch<RG_KINDS_FLOAT>(call, call->in[0]->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return loss<T>(call, w, out);
  });
}

rg_status rg_gpu_cross_entropy_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *dy = call->in[RG_CEB_DY];
  const rg_tensor *labels = call->in[RG_CEB_LABELS];
  loss_work w;

  (void)frame;
  RG_TRY(work_of(call, RG_CEB_X, RG_CEB_WEIGHT, out[0], &w));
  rg_launch_cfg cfg = rg_over(w.rows * w.width, rg_gpu_stream(call->device));

  if (w.rows == 0) {
    return RG_OK;
  }
  w.dy = rg_view_as(dy, labels->_shape, labels->_ndim);
  w.dy_type = dy->_dtype;
  w.lse = rg_view_of(call->in[RG_CEB_LSE]);
  w.total = call->in[RG_CEB_TOTAL]->_data;
  return rg_dispatch<RG_KINDS_FLOAT>(call, out[0]->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return rg_launch(w.smoothing > 0 ? k_loss_back<T, true> : k_loss_back<T, false>, cfg, w);
  });
}
