/* SPDX-License-Identifier: MIT */
/*
** Attention and its gradients, for any types, strides and sizes of heads, without tensor cores: a
** block makes 32 rows of a result and meets what they see 32 rows at a time, so that of the scores
** there is never more than a tile.  The gradients of queries and of keys are two kernels that both
** compute the scores again: no block adds to what another makes, and so the bits are always the
** same.  Dao: FlashAttention-2 (2023).
**
** What tensor cores take goes to attention_mma.cu and attention_mma_back.cu.
*/
#include <math.h>

#include "gpu/attention.cuh"
#include "gpu/dnn/dnn.h"

enum {
  TILE = 32,        /* a warp's lanes are a row of scores */
  PITCH = TILE + 1, /* a column is in as many banks as it has elements */
  ROOM = TILE * PITCH,
  OWN = TILE * TILE / RG_BLOCK, /* rows of a tile that a warp computes */
  PARTS = 4,                    /* of TILE columns each, that a block keeps sums of */
  COLUMNS = PARTS * TILE        /* wider heads are done by several blocks, each with its scores */
};

/* One head of a tensor. */
template <class T> struct matrix {
  T *data;
  int64_t rows, cols;
  int64_t row, col; /* steps */
};

template <class T> __device__ inline matrix<T> head_of(const rg_strided &x, int64_t head)
{
  int32_t n = x.ndim;
  int64_t at = 0;

  for (int32_t d = n - 3; d >= 0; d--) {
    at += head % x.shape[d] * x.stride[d];
    head /= x.shape[d];
  }
  return matrix<T>{ (T *)x.data + at, x.shape[n - 2], x.shape[n - 1], x.stride[n - 2],
                    x.stride[n - 1] };
}

/* -- Tiles ------------------------------------------------------------------------------------- */

/* A thread's lane, and the first of the OWN rows of a tile that its warp has. */
#define LANE ((int32_t)threadIdx.x % TILE)
#define ROW  ((int32_t)threadIdx.x / TILE * OWN)

/* Which scores of a tile there are: bit l of seen[r] for own row r and lane l.  Rows are queries
** and lanes are keys, or transposed.  False for the whole block where there are none. */
__device__ inline bool look(const attention &w, int64_t q0, int64_t k0, bool transposed,
                            uint32_t seen[OWN])
{
  bool any = false;

  for (int r = 0; r < OWN; r++) {
    int64_t i = q0 + (transposed ? LANE : ROW + r);
    int64_t j = k0 + (transposed ? ROW + r : LANE);
    bool sees =
        i < w.s.n && j < w.s.m && (w.causal == 0 || j <= i) &&
        (w.mask == NULL || w.mask[i / w.block * w.mask_row + j / w.block * w.mask_col] != 0);

    seen[r] = __ballot_sync(0xffffffffu, sees);
    any = any || seen[r] != 0;
  }
  return __syncthreads_or(any) != 0;
}

/* A tile of x into shared memory, zeros where x has ended. */
template <class T, class L>
__device__ inline void bring(const matrix<T> &x, int64_t row0, int64_t col0, L *room)
{
  int64_t col = col0 + LANE;

  for (int r = 0; r < OWN; r++) {
    int64_t row = row0 + ROW + r;
    bool there = row < x.rows && col < x.cols;

    room[(ROW + r) * PITCH + LANE] = there ? (L)rg_get(x.data[row * x.row + col * x.col]) : (L)0;
  }
}

/* product[r] += row a0 + own row r of a times row b0 + lane of b. */
template <class T, class L>
__device__ inline void multiply(const matrix<T> &a, int64_t a0, const matrix<T> &b, int64_t b0,
                                L *room, L product[OWN])
{
  L *room_b = room + ROOM;

  for (int64_t l0 = 0; l0 < a.cols; l0 += TILE) {
    int depth = a.cols - l0 < TILE ? (int)(a.cols - l0) : (int)TILE;

    bring(a, a0, l0, room);
    bring(b, b0, l0, room_b);
    __syncthreads();
    for (int l = 0; l < depth; l++) {
      L y = room_b[LANE * PITCH + l];

      for (int r = 0; r < OWN; r++) {
        product[r] += room[(ROW + r) * PITCH + l] * y;
      }
    }
    __syncthreads();
  }
}

/* sum[r][c] += weights of own row r times column col0 + c TILE + lane of the rows of x from x0 on.
** What a row does not see it does not meet, whatever lies there: 0 times inf is no 0.  All lanes of
** a warp have the same rows, so they branch together. */
template <class T, class L>
__device__ inline void add(const L *weights, const uint32_t seen[OWN], const matrix<T> &x,
                           int64_t x0, int64_t col0, L *room, L sum[OWN][PARTS])
{
#pragma unroll
  for (int c = 0; c < PARTS; c++) {
    if (col0 + c * TILE < x.cols) {
      L part[OWN]; /* of the tile: long sums in float lose digits, in double they go on in order */

      for (int r = 0; r < OWN; r++) {
        part[r] = sizeof(L) == 8 ? sum[r][c] : (L)0;
      }
      bring(x, x0, col0 + c * TILE, room);
      __syncthreads();
      for (int l = 0; l < TILE; l++) {
        L value = room[l * PITCH + LANE];

        for (int r = 0; r < OWN; r++) {
          if ((seen[r] >> l & 1) != 0) {
            part[r] += weights[(ROW + r) * PITCH + l] * value;
          }
        }
      }
      for (int r = 0; r < OWN; r++) {
        sum[r][c] = sizeof(L) == 8 ? part[r] : sum[r][c] + part[r];
      }
      __syncthreads();
    }
  }
}

template <class T, class L>
__device__ inline void store(const matrix<T> &y, int64_t row0, int64_t col0, L sum[OWN][PARTS])
{
  for (int r = 0; r < OWN; r++) {
    for (int c = 0; c < PARTS; c++) {
      int64_t row = row0 + ROW + r;
      int64_t col = col0 + c * TILE + LANE;

      if (row < y.rows && col < y.cols) {
        y.data[row * y.row + col * y.col] = rg_element<T>::of(sum[r][c]);
      }
    }
  }
}

/* A block's head, its first row of `rows`, and its first column. */
struct place {
  int64_t head, row0, col0;
};

__device__ inline place place_of(int64_t rows)
{
  int64_t tiles = (rows + TILE - 1) / TILE;

  return place{ blockIdx.x / tiles, blockIdx.x % tiles * TILE, (int64_t)blockIdx.y * COLUMNS };
}

/* -- Forward ----------------------------------------------------------------------------------- */

/* For each own row of queries: the largest score so far, and sums of exp(score - largest), alone
** and times the values, which shrink when a larger one comes. */
template <class T> __global__ void k_attention(attention w)
{
  typedef typename rg_lane<T>::type L;
  RG_SHARED(L, room, 2 * ROOM);
  RG_SHARED(L, weights, ROOM);
  const L none = -INFINITY;
  place at = place_of(w.s.n);
  matrix<const T> q = head_of<const T>(w.q, at.head), k = head_of<const T>(w.k, at.head);
  matrix<const T> v = head_of<const T>(w.v, at.head);
  int64_t end = w.causal != 0 && at.row0 + TILE < w.s.m ? at.row0 + TILE : w.s.m;
  L most[OWN] = { none, none, none, none };
  L total[OWN] = {};
  L sum[OWN][PARTS] = {};

  for (int64_t k0 = 0; k0 < end; k0 += TILE) {
    uint32_t seen[OWN];
    L x[OWN] = {};

    if (!look(w, at.row0, k0, false, seen)) {
      continue;
    }
    multiply(q, at.row0, k, k0, room, x);
    for (int r = 0; r < OWN; r++) {
      L score = (seen[r] >> LANE & 1) != 0 ? x[r] * (L)w.scale : none;
      /* nan is not the largest, for the lanes must agree; it comes into the sum by its weight */
      L top = rg_warp_max(score == score ? score : none);

      top = top > most[r] ? top : most[r];
      L base = top > none ? top : (L)0;
      L weight = exp(score - base);
      L shrink = exp(most[r] - base);

      most[r] = top;
      total[r] = total[r] * shrink + rg_warp_sum(weight);
      for (int c = 0; c < PARTS; c++) {
        sum[r][c] *= shrink;
      }
      weights[(ROW + r) * PITCH + LANE] = weight;
    }
    add(weights, seen, v, k0, at.col0, room, sum);
  }
  for (int r = 0; r < OWN; r++) {
    int64_t i = at.row0 + ROW + r;
    bool blind = total[r] == 0; /* it sees no key */

    for (int c = 0; c < PARTS; c++) {
      sum[r][c] = blind ? (L)0 : sum[r][c] / total[r];
    }
    if (w.lse.data != NULL && blockIdx.y == 0 && LANE == 0 && i < w.s.n) {
      L lse = blind ? -none : (most[r] > none ? most[r] : (L)0) + log(total[r]);

      ((L *)w.lse.data)[rg_at(w.lse, at.head * w.s.n + i)] = lse;
    }
  }
  store(head_of<T>(w.y, at.head), at.row0, at.col0, sum);
}

/* -- Back -------------------------------------------------------------------------------------- */

/* sum(dy y), a warp for each query. */
template <class T> __global__ void k_delta(attention w)
{
  typedef typename rg_lane<T>::type L;

  for (int64_t at = RG_FIRST / TILE; at < w.s.heads * w.s.n; at += RG_NEXT / TILE) {
    matrix<const T> y = head_of<const T>(w.y, at / w.s.n), dy = head_of<const T>(w.dy, at / w.s.n);
    int64_t i = at % w.s.n;
    L sum = 0;

    for (int64_t l = LANE; l < w.s.e; l += TILE) {
      sum += (L)rg_get(dy.data[i * dy.row + l * dy.col]) * (L)rg_get(y.data[i * y.row + l * y.col]);
    }
    sum = rg_warp_sum(sum);
    if (LANE == 0) {
      ((L *)w.delta.data)[at] = sum;
    }
  }
}

/* One number of query i: of its lse, of its delta. */
template <class L>
__device__ inline L number(const rg_strided &x, const attention &w, int64_t head, int64_t i)
{
  return i < w.s.n ? ((const L *)x.data)[rg_at(x, head * w.s.n + i)] : (L)0;
}

/* dq = z k, with z = scale weight (dy v' - delta). */
template <class T> __global__ void k_queries(attention w)
{
  typedef typename rg_lane<T>::type L;
  RG_SHARED(L, room, 2 * ROOM);
  RG_SHARED(L, weights, ROOM);
  place at = place_of(w.s.n);
  matrix<const T> q = head_of<const T>(w.q, at.head), k = head_of<const T>(w.k, at.head);
  matrix<const T> v = head_of<const T>(w.v, at.head), dy = head_of<const T>(w.dy, at.head);
  int64_t end = w.causal != 0 && at.row0 + TILE < w.s.m ? at.row0 + TILE : w.s.m;
  L scale = (L)w.scale;
  L lse[OWN];
  L delta[OWN];
  L sum[OWN][PARTS] = {};

#pragma unroll
  for (int r = 0; r < OWN; r++) {
    lse[r] = number<L>(w.lse, w, at.head, at.row0 + ROW + r);
    delta[r] = number<L>(w.delta, w, at.head, at.row0 + ROW + r);
  }
  for (int64_t k0 = 0; k0 < end; k0 += TILE) {
    uint32_t seen[OWN];
    L x[OWN] = {};
    L z[OWN] = {};

    if (look(w, at.row0, k0, false, seen)) {
      multiply(q, at.row0, k, k0, room, x);
      multiply(dy, at.row0, v, k0, room, z);
#pragma unroll
      for (int r = 0; r < OWN; r++) {
        weights[(ROW + r) * PITCH + LANE] = scale * exp(x[r] * scale - lse[r]) * (z[r] - delta[r]);
      }
      add(weights, seen, k, k0, at.col0, room, sum);
    }
  }
  store(head_of<T>(w.dq, at.head), at.row0, at.col0, sum);
}

/* dv = weight' dy and dk = z' q: rows are keys, and lanes are queries. */
template <class T> __global__ void k_keys(attention w)
{
  typedef typename rg_lane<T>::type L;
  RG_SHARED(L, room, 2 * ROOM);
  RG_SHARED(L, weights, ROOM);
  place at = place_of(w.s.m);
  matrix<const T> q = head_of<const T>(w.q, at.head), k = head_of<const T>(w.k, at.head);
  matrix<const T> v = head_of<const T>(w.v, at.head), dy = head_of<const T>(w.dy, at.head);
  L scale = (L)w.scale;
  L dk[OWN][PARTS] = {};
  L dv[OWN][PARTS] = {};

  for (int64_t q0 = w.causal != 0 ? at.row0 : 0; q0 < w.s.n; q0 += TILE) {
    uint32_t seen[OWN];
    L x[OWN] = {};
    L z[OWN] = {};

    if (look(w, q0, at.row0, true, seen)) {
      L lse = number<L>(w.lse, w, at.head, q0 + LANE);
      L delta = number<L>(w.delta, w, at.head, q0 + LANE);

      multiply(k, at.row0, q, q0, room, x);
      multiply(v, at.row0, dy, q0, room, z);
      for (int r = 0; r < OWN; r++) {
        x[r] = exp(x[r] * scale - lse);
        z[r] = scale * x[r] * (z[r] - delta);
        weights[(ROW + r) * PITCH + LANE] = x[r];
      }
      add(weights, seen, dy, q0, at.col0, room, dv);
      for (int r = 0; r < OWN; r++) {
        weights[(ROW + r) * PITCH + LANE] = z[r];
      }
      add(weights, seen, q, q0, at.col0, room, dk);
    }
  }
  store(head_of<T>(w.dk, at.head), at.row0, at.col0, dk);
  store(head_of<T>(w.dv, at.head), at.row0, at.col0, dv);
}

/* -- Launching --------------------------------------------------------------------------------- */

/* Blocks for so many rows of each head and so many columns; without columns lse is made still. */
static rg_status over(const rg_call *call, void (*kernel)(attention), const attention &w,
                      int64_t rows, int64_t cols)
{
  int64_t tiles = (rows + TILE - 1) / TILE * w.s.heads;
  int64_t parts = cols > 0 ? (cols + COLUMNS - 1) / COLUMNS : 1;

  if (tiles == 0) {
    return RG_OK;
  }
  if (tiles > INT32_MAX || parts > 65535) {
    return rg_gpu->fail(RG_ENOSUP, "%s: %lld heads of %lld rows are more than this kernel takes",
                        call->op->name, (long long)w.s.heads, (long long)rows);
  }
  rg_launch_cfg cfg = { dim3((unsigned)tiles, (unsigned)parts), dim3(RG_BLOCK), 0,
                        rg_gpu_stream(call->device) };

  return rg_gpu_status(call->op->name, rg_launch(kernel, cfg, w));
}

/* What forward and back share.  The inputs have come in one type, that of the result. */
static attention attention_of(const rg_call *call)
{
  const rg_attention_args *args = (const rg_attention_args *)call->args;
  const rg_tensor *mask = call->in[RG_ATT_MASK];
  attention w = {};

  w.q = rg_view_of(call->in[RG_ATT_Q]);
  w.k = rg_view_of(call->in[RG_ATT_K]);
  w.v = rg_view_of(call->in[RG_ATT_V]);
  int32_t last = w.q.ndim - 1;

  w.s = rg_attention_sizes{ 1, w.q.shape[last - 1], w.v.shape[last - 1], w.q.shape[last],
                            w.v.shape[last] };
  for (int32_t i = 0; i < last - 1; i++) {
    w.s.heads *= w.q.shape[i];
  }
  w.mask = mask != NULL ? (const uint8_t *)mask->_data : NULL;
  w.mask_row = mask != NULL ? mask->_stride[0] : 0;
  w.mask_col = mask != NULL ? mask->_stride[1] : 0;
  w.block = args->block;
  w.scale = args->scale;
  w.causal = args->causal;
  return w;
}

template <class T> static rg_status back(const rg_call *call, attention w)
{
  int64_t queries = w.s.heads * w.s.n;
  rg_launch_cfg cfg = rg_over(queries * TILE, rg_gpu_stream(call->device));

  if (queries > 0) {
    w.delta.flat = 1;
    w.delta.data = (char *)rg_gpu_workspace(call->device, queries * 8); /* or 4 */
    if (w.delta.data == NULL) {
      return rg_gpu_no_room(call->device, call->op->name, queries * 8);
    }
    RG_TRY(rg_gpu_status(call->op->name, rg_launch(k_delta<T>, cfg, w)));
  }
  RG_TRY(over(call, k_queries<T>, w, w.s.n, w.s.d));
  return over(call, k_keys<T>, w, w.s.m, w.s.d > w.s.e ? w.s.d : w.s.e);
}

static rg_status by_type(const rg_call *call, int32_t dtype, const attention &w, bool is_back)
{
  return rg_dispatch<RG_KINDS_FLOAT>(call, dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    return is_back ? back<T>(call, w) : over(call, k_attention<T>, w, w.s.n, w.s.e);
  });
}

rg_status rg_gpu_attention(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  if (rg_dnn_attention(call, out, frame) == RG_DNN_DONE) {
    return RG_OK;
  }
  attention w = attention_of(call);

  frame->path = "tiles";
  w.y = rg_view_of(out[0]);
  if (call->n_out > 1) {
    w.lse = rg_view_of(out[1]);
  }
  if (rg_gpu_attention_fits(w, out[0]->_dtype, false)) {
    frame->path = "tensor cores";
    return rg_gpu_attention_mma(call, out[0]->_dtype, w);
  }
  return by_type(call, out[0]->_dtype, w, false);
}

rg_status rg_gpu_attention_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  if (rg_dnn_attention_back(call, out, frame) == RG_DNN_DONE) {
    return RG_OK;
  }
  attention w = attention_of(call);

  frame->path = "tiles";
  w.y = rg_view_of(call->in[RG_ATT_Y]);
  w.lse = rg_view_of(call->in[RG_ATT_LSE]);
  w.dy = rg_view_of(call->in[RG_ATT_DY]);
  w.dq = rg_view_of(out[0]);
  w.dk = rg_view_of(out[1]);
  w.dv = rg_view_of(out[2]);
  if (rg_gpu_attention_fits(w, out[0]->_dtype, true)) {
    frame->path = "tensor cores";
    return rg_gpu_attention_mma_back(call, out[0]->_dtype, w);
  }
  return by_type(call, out[0]->_dtype, w, true);
}
