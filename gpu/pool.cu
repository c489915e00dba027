/* SPDX-License-Identifier: MIT */
/*
** Pooling, as the formulas say it: each result element gathers what belongs to it, in a fixed
** order, so that no result depends on which thread ran first.  Any layout and any strides; adjacent
** channels are taken in packs.
*/
#include "gpu/kernels.cuh"
#include "gpu/pool.cuh"

extern "C" {
#include "op/pool.h"
}

/* -- Forward ----------------------------------------------------------------------------------- */

/* V channels of a window.  The first of equal elements is the largest; nan wins. */
template <class T, int V, class I, bool MAX>
__global__ void k_pool2d(const __grid_constant__ pool_work<I> v, int64_t n)
{
  typedef typename rg_lane<T>::type L;

  for (int64_t k = RG_FIRST; k < n; k += RG_NEXT) {
    const rg_image_spot<I> s = rg_image_spot_of(v.small, (I)(k * V));
    const pool_span<I> rows = window_at(v, 0, s.row);
    const pool_span<I> columns = window_at(v, 1, s.column);
    const I first = s.n * v.big.step[0] + s.c * v.big.step[1];
    L result[V] = {}; /* the largest, or the sum */
    int32_t at[V];

#pragma unroll
    for (int e = 0; e < V; e++) {
      at[e] = -1;
    }
    for (I r = rows.from; r < rows.to; r++) {
      for (I c = columns.from; c < columns.to; c++) {
        L here[V];

        rg_unpack<T, V>(v.big.data, first + r * v.big.step[2] + c * v.big.step[3], here);
#pragma unroll
        for (int e = 0; e < V; e++) {
          if (!MAX) {
            result[e] += here[e];
          } else if (at[e] < 0 || here[e] > result[e] ||
                     (here[e] != here[e] && result[e] == result[e])) {
            result[e] = here[e];
            at[e] = (int32_t)(r * v.big.size[3] + c);
          }
        }
      }
    }
    if (!MAX) {
      const L scale = window_scale<L>(v, rows, columns);

#pragma unroll
      for (int e = 0; e < V; e++) {
        result[e] *= scale;
      }
    }
    rg_pack_into<T, V>(v.small.data, rg_image_at(v.small, s), result);
    if (v.index.data != NULL) {
      rg_pack_into<int32_t, V>(v.index.data, rg_image_at(v.index, s), at);
    }
  }
}

/* -- Back -------------------------------------------------------------------------------------- */

/* V channels of the gradient of an image: what the windows give that hold their place. */
template <class T, int V, class I, bool MAX>
__global__ void k_pool2d_back(const __grid_constant__ pool_work<I> v, int64_t n)
{
  typedef typename rg_lane<T>::type L;

  for (int64_t k = RG_FIRST; k < n; k += RG_NEXT) {
    const rg_image_spot<I> s = rg_image_spot_of(v.big, (I)(k * V));
    const pool_span<I> down = windows_with(v, 0, s.row);
    const pool_span<I> across = windows_with(v, 1, s.column);
    const int32_t place = (int32_t)(s.row * v.big.size[3] + s.column);
    L sum[V] = {};

    for (I i = down.from; i < down.to; i++) {
      for (I j = across.from; j < across.to; j++) {
        const rg_image_spot<I> window = { s.n, s.c, i, j };
        const pool_span<I> rows = window_at(v, 0, i);
        const pool_span<I> columns = window_at(v, 1, j);
        L dy[V];

        rg_unpack<T, V>(v.small.data, rg_image_at(v.small, window), dy);
        if (!MAX) {
          const L scale = window_scale<L>(v, rows, columns);

#pragma unroll
          for (int e = 0; e < V; e++) {
            sum[e] += dy[e] * scale;
          }
          continue;
        }
        int32_t at[V];

        rg_unpack<int32_t, V>(v.index.data, rg_image_at(v.index, window), at);
#pragma unroll
        for (int e = 0; e < V; e++) {
          sum[e] += at[e] == place ? dy[e] : (L)0;
          if (rows.from == s.row && columns.from == s.column) {
            check_index(v, rows, columns, at[e]);
          }
        }
      }
    }
    rg_pack_into<T, V>(v.big.data, rg_image_at(v.big, s), sum);
  }
}

/* -- The calls --------------------------------------------------------------------------------- */

/* The images, the windows, the indices or NULL. */
struct pool_sides {
  const rg_tensor *big, *small, *index;
  bool is_max, back;
};

template <class I> static pool_work<I> work_of(const rg_call *call, const pool_sides &s)
{
  const rg_pool2d_options *o = &((const rg_pool2d_args *)call->args)->o;
  pool_work<I> v = {};

  v.big = rg_image_of<I>(s.big, o->layout);
  v.small = rg_image_of<I>(s.small, o->layout);
  v.index = s.index != NULL ? rg_image_of<I>(s.index, o->layout) : rg_image<I>{};
  for (int i = 0; i < 2; i++) {
    v.size[i] = (I)o->size[i];
    v.stride[i] = (I)o->stride[i];
    v.pad[i] = (I)o->pad_low[i];
    v.by_stride[i] = rg_divisor<I>::of(o->stride[i]);
  }
  v.scale = 1.0 / ((double)o->size[0] * (double)o->size[1]);
  v.skip_pad = o->skip_pad;
  v.is_max = s.is_max;
  return v;
}

/* Can n channels of an image be moved together? */
template <class I> static bool packs(const rg_image<I> &x, int64_t n)
{
  return x.data == NULL ||
         (x.step[1] == 1 && x.size[1] % n == 0 && x.step[0] % n == 0 && x.step[2] % n == 0 &&
          x.step[3] % n == 0 && rg_aligned(x.data, rg_bytes_of(x.dtype), n));
}

template <class T, class I, bool MAX>
static cudaError_t launch(const pool_work<I> &v, const rg_launch_cfg &cfg, int64_t n, bool wide,
                          bool back)
{
  constexpr int V = rg_pack_size<T>;

  return rg_launch(back ? (wide ? k_pool2d_back<T, V, I, MAX> : k_pool2d_back<T, 1, I, MAX>)
                        : (wide ? k_pool2d<T, V, I, MAX> : k_pool2d<T, 1, I, MAX>),
                   cfg, v, n);
}

template <class I>
static rg_status run(const rg_call *call, const pool_sides &s, int64_t count, rg_frame *frame)
{
  pool_work<I> v = work_of<I>(call, s);

  if (s.back && s.is_max) {
    RG_TRY(rg_late_begin(call, &v.late));
  }
  if constexpr (std::is_same<I, int32_t>::value) {
    bool taken;

    RG_TRY(rg_gpu_pool_lines(call, v, s.back, &taken));
    if (taken) {
      frame->path = "lines";
      return RG_OK;
    }
  }
  return rg_dispatch<RG_KINDS_FLOAT>(call, s.big->_dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;
    constexpr int V = rg_pack_size<T>;
    const bool wide =
        v.big.layout == RG_NHWC && packs(v.big, V) && packs(v.small, V) && packs(v.index, V);
    const int64_t n = count / (wide ? V : 1);
    const rg_launch_cfg cfg = rg_filling(n, 1, call);

    frame->path = wide ? "packs" : "direct";
    return s.is_max ? launch<T, I, true>(v, cfg, n, wide, s.back)
                    : launch<T, I, false>(v, cfg, n, wide, s.back);
  });
}

/* Do 32 bits hold where windows begin and end, beyond the padding too? */
static bool is_narrow(const pool_sides &s, const rg_pool2d_options *o)
{
  const int32_t rows = rg_rows_axis(o->layout);
  bool fits = o->size[0] * o->size[1] <= INT32_MAX;

  for (int i = 0; i < 2; i++) {
    const int64_t all = s.big->_shape[rows + i] + o->pad_low[i] + o->pad_high[i];

    fits = fits && all + o->size[i] <= INT32_MAX && o->stride[i] <= INT32_MAX;
  }
  return fits;
}

static rg_status pool(const rg_call *call, const pool_sides &s, rg_frame *frame)
{
  const rg_pool2d_options *o = &((const rg_pool2d_args *)call->args)->o;
  const int64_t count = (s.back ? s.big : s.small)->_count;

  if (count == 0) {
    return RG_OK;
  }
  const bool narrow = rg_image_is_narrow(s.big) && rg_image_is_narrow(s.small) &&
                      (s.index == NULL || rg_image_is_narrow(s.index)) && is_narrow(s, o);

  return narrow ? run<int32_t>(call, s, count, frame) : run<int64_t>(call, s, count, frame);
}

rg_status rg_gpu_max_pool2d(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *index = call->n_out > 1 ? out[1] : NULL;

  return pool(call, { call->in[0], out[0], index, true, false }, frame);
}

rg_status rg_gpu_max_pool2d_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return pool(call, { out[0], call->in[0], call->in[1], true, true }, frame);
}

rg_status rg_gpu_avg_pool2d(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return pool(call, { call->in[0], out[0], NULL, false, false }, frame);
}

rg_status rg_gpu_avg_pool2d_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return pool(call, { out[0], call->in[0], NULL, false, true }, frame);
}
