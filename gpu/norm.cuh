/* SPDX-License-Identifier: MIT */
/*
** Layer normalisation as all of its kernels see it.
*/
#ifndef RIDGE_GPU_NORM_CUH
#define RIDGE_GPU_NORM_CUH

#include "gpu/kernels.cuh"
#include "gpu/rows.cuh"

extern "C" {
#include "op/norm.h"
}

/* A number for each element of a row; without data all are the same. */
struct norm_vector {
  const void *data;
  int64_t step;
  int32_t dtype;
};

inline norm_vector norm_vector_of(const rg_tensor *x)
{
  return x != NULL ? norm_vector{ x->_data, x->_stride[0], x->_dtype } : norm_vector{};
}

struct norm_work {
  rg_strided x;
  rg_strided y; /* or dx */
  rg_strided dy;
  rg_strided mean; /* of rows; forward: written, contiguous, without data if nobody wants them */
  rg_strided scale;
  int64_t x_apart; /* how far rows are apart, for kernels that hold them */
  int64_t y_apart;
  int64_t dy_apart;
  int64_t mean_apart;
  int64_t scale_apart;
  norm_vector weight;
  norm_vector bias;
  int64_t rows;
  int64_t n;
  double eps;
  int32_t rms;
  int32_t y_type;
  int32_t dy_type;
  int32_t width;
};

inline norm_work norm_work_of(const rg_call *call, const rg_tensor *x, rg_tensor *y)
{
  const rg_layer_norm_args *args = (const rg_layer_norm_args *)call->args;
  norm_work w = {};

  w.x = rg_view_of(x);
  w.y = rg_view_of(y);
  w.y_type = y->_dtype;
  w.n = x->_shape[x->_ndim - 1];
  w.rows = x->_count / w.n;
  w.eps = args->eps;
  w.rms = args->rms;
  w.x_apart = rg_rows_apart(w.x, 1);
  w.y_apart = rg_rows_apart(w.y, 1);
  w.width = rg_team_width(&w.x, w.n, w.rows);
  return w;
}

/* An element of a vector of any type. */
template <class L> __device__ inline L norm_at(const norm_vector &v, int64_t i, L otherwise)
{
  return v.data != NULL ? rg_load<L>(v.data, v.dtype, i * v.step) : otherwise;
}

/* A pack of a vector whose elements are contiguous. */
template <class W, int N, class L>
__device__ inline void norm_pack(const norm_vector &v, int32_t i, L otherwise, L (&to)[N])
{
  if (v.data != NULL) {
    rg_unpack<W, N>(v.data, i, to);
    return;
  }
#pragma unroll
  for (int k = 0; k < N; k++) {
    to[k] = otherwise;
  }
}

/* -- Types ------------------------------------------------------------------------------------- */

/* A fast kernel knows its types at compile time: beside that of x that of weight and bias, and
** that of y (or dy).  There are kernels for those that nets have: all of one type; a half type with
** parameters in f32, and that with y in f32 too, as under autocast. */

/* The type of weight and bias where both can be moved in packs of n, `otherwise` where there are
** none; -1: their elements are taken one by one. */
inline int32_t norm_type_of(const norm_work &w, int64_t n, int32_t otherwise)
{
  const norm_vector *all[2] = { &w.weight, &w.bias };
  int32_t dtype = -1;

  for (const norm_vector *v : all) {
    if (v->data == NULL) {
      continue;
    }
    if (v->step != 1 || !rg_aligned(v->data, rg_bytes_of(v->dtype), n) ||
        (dtype >= 0 && v->dtype != dtype)) {
      return -1;
    }
    dtype = v->dtype;
  }
  return dtype >= 0 ? dtype : otherwise;
}

/* Is there a kernel for rows of T with vectors and y of these types? */
template <class T> inline bool norm_has_types(int32_t vectors, int32_t y)
{
  const int32_t lane = rg_code_of<typename rg_lane<T>::type>;

  return (vectors == rg_code_of<T> && y == rg_code_of<T>) ||
         (vectors == lane && (y == lane || y == rg_code_of<T>));
}

/* f with the types of vectors and y, which norm_has_types has. */
template <class T, class F> inline cudaError_t norm_with_types(int32_t vectors, int32_t y, F f)
{
  typedef typename rg_lane<T>::type L;

  if constexpr (!std::is_same<T, L>::value) {
    if (vectors == rg_code_of<L>) {
      return y == rg_code_of<L> ? f(rg_type<L>(), rg_type<L>()) : f(rg_type<L>(), rg_type<T>());
    }
  }
  return f(rg_type<T>(), rg_type<T>());
}

#endif
