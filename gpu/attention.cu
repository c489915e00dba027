/* SPDX-License-Identifier: MIT */
/*
** Attention and its gradients, for any types, strides and sizes of heads, without tensor cores: a
** block makes 64 rows of a result (32 in double) and meets what they see 64 rows at a time, so that
** of the scores there is never more than a tile.  The gradients of queries and of keys are two
** kernels that both compute the scores again: no block adds to what another makes, and so the bits
** are always the same.  With dropout the weights that are dropped are left out where values are
** added up, and the result grows at the end.  Dao: FlashAttention-2 (2023).
**
** What tensor cores take goes to attention_mma.cu and attention_mma_back.cu.
*/
#include <math.h>

#include "gpu/attention_tiles.cuh"
#include "gpu/dnn/dnn.h"

/* -- Forward ----------------------------------------------------------------------------------- */

/* Blocks of a multiprocessor at least: 255 or 168 registers a thread at most. */
template <class L, int N_PARTS> constexpr int BLOCKS = sizeof(L) == 4 && N_PARTS == 1 ? 3 : 2;

/* For each own row of queries: the largest score so far, and sums of exp(score - largest), alone
** (of this thread's columns) and times the values, which shrink when a larger one comes. */
template <class T, int N_PARTS, bool DROPPED>
__global__ void __launch_bounds__(THREADS, (BLOCKS<typename rg_lane<T>::type, N_PARTS>))
    k_attention(tiled t)
{
  typedef typename rg_lane<T>::type L;
  const attention &w = t.w;
  constexpr int OWN = tile<L>::OWN, ROWS = tile<L>::ROWS;
  const L none = -INFINITY;
  RG_DYN_SHARED(L, room);
  L *weights = room + 2 * tile<L>::PIECE;
  uint32_t *seen = (uint32_t *)(weights + tile<L>::WEIGHTS);
  const int n = (int)w.s.n, m = (int)w.s.m, tiles = (n + ROWS - 1) / ROWS;
  const int head = (int)(blockIdx.x / (unsigned)tiles);
  const int row0 =
      (tiles - 1 - (int)(blockIdx.x % (unsigned)tiles)) * ROWS; /* the longest rows first */
  const int col0 = (int)blockIdx.y * N_PARTS * COLS;
  const int end = w.causal != 0 && row0 < m - ROWS ? row0 + ROWS : m;
  const T **heads = (const T **)(seen + 2 * ROWS);
  const placed<T> k = place(heads, t.k, head), v = place(heads + 1, t.v, head);
  const owned<T, L> q = { place(heads + 2, t.q, head), row0, t.stays,
                          weights + tile<L>::WEIGHTS + 2 * ROWS + HEADS };
  rooms<L> pieces = { room, 0 };
  L most[OWN], total[OWN];
  L sum[N_PARTS][OWN][ACROSS] = {};
  uint32_t looked = 0;
  int next = next_tile<L, false>(w, row0, 0, end, &looked);

#pragma unroll
  for (int r = 0; r < OWN; r++) {
    most[r] = none;
    total[r] = 0;
  }
  __syncthreads(); /* addresses are there */
  if (next < end) {
    q.begin();
    bring_factor(pieces, q, k, next, 0);
  }
  rg_copy_commit();
  for (int k0 = next; k0 < end; k0 = next) {
    L x[OWN][ACROSS];

    multiply(
        pieces, q, k, k0, [&] { bring_values(pieces, v, k0, col0); }, x);
    sight s = see<L, false>(w, row0, k0, looked, seen);

#pragma unroll
    for (int r = 0; r < OWN; r++) {
      L top = most[r];

#pragma unroll
      for (int j = 0; j < ACROSS; j++) {
        x[r][j] = (s.own >> (r * ACROSS + j) & 1) != 0 ? x[r][j] * (L)w.scale : none;
        /* nan is not the largest, for the lanes must agree; it comes into the sum by its weight */
        top = x[r][j] > top ? x[r][j] : top;
      }
      top = row_max(top);
      L base = top > none ? top : (L)0;
      L shrink = exp(most[r] - base);

      most[r] = top;
      total[r] *= shrink;
#pragma unroll
      for (int j = 0; j < ACROSS; j++) {
        x[r][j] = exp(x[r][j] - base);
        total[r] += x[r][j];
      }
#pragma unroll
      for (int i = 0; i < N_PARTS * ACROSS; i++) {
        sum[i / ACROSS][r][i % ACROSS] *= shrink;
      }
    }
    put(weights, x);
    if (DROPPED) {
      s = dropped<L>(s, keeps_of<L, false>(w, rg_draw_now(w.draw), head, row0, k0), seen);
    }
    next = next_tile<L, false>(w, row0, k0 + COLS, end, &looked);
    add<N_PARTS>(
        pieces, weights, s, v, k0, col0,
        [&] {
          if (next < end) {
            bring_factor(pieces, q, k, next, 0);
          }
        },
        sum);
  }
  rg_copy_wait<0>();
#pragma unroll
  for (int r = 0; r < OWN; r++) {
    int i = row0 + WARP + FIRST + r * 4;

    total[r] = row_sum(total[r]);
    bool blind = total[r] == 0; /* it sees no key */

#pragma unroll
    for (int c = 0; c < N_PARTS * ACROSS; c++) {
      L &to = sum[c / ACROSS][r][c % ACROSS];

      to = blind ? (L)0 : to / total[r];
      if (DROPPED) {
        to *= (L)(1.0 / (1.0 - w.p));
      }
    }
    if (w.lse.data != NULL && blockIdx.y == 0 && COLUMN == 0 && i < n) {
      L lse = blind ? -none : (most[r] > none ? most[r] : (L)0) + log(total[r]);

      ((L *)w.lse.data)[rg_at(w.lse, (int64_t)head * n + i)] = lse;
    }
  }
  store<N_PARTS>(head_of<T>(t.y, head), row0, col0, sum);
}

/* -- Back -------------------------------------------------------------------------------------- */

/* sum(dy y), a warp for each query. */
template <class T> __global__ void k_delta(tiled t)
{
  typedef typename rg_lane<T>::type L;
  const attention &w = t.w;

  for (int64_t at = RG_FIRST / 32; at < w.s.heads * w.s.n; at += RG_NEXT / 32) {
    matrix<const T> y = head_of<const T>(t.y, at / w.s.n), dy = head_of<const T>(t.dy, at / w.s.n);
    int64_t i = at % w.s.n;
    L sum = 0;

    for (int64_t l = LANE; l < w.s.e; l += 32) {
      sum += (L)rg_get(dy.data[i * dy.x.row + l * dy.x.col]) *
             (L)rg_get(y.data[i * y.x.row + l * y.x.col]);
    }
    sum = rg_warp_sum(sum);
    if (LANE == 0) {
      ((L *)w.delta.data)[at] = sum;
    }
  }
}

/* One number of query i: of its lse, of its delta. */
template <class L>
__device__ inline L number(const rg_strided &x, const attention &w, int64_t head, int i)
{
  return i < w.s.n ? ((const L *)x.data)[rg_at(x, head * w.s.n + i)] : (L)0;
}

/* What dropout keeps, after the sums. */
template <class L, int N_PARTS>
__device__ inline void grow(const attention &w, L (&sum)[N_PARTS][tile<L>::OWN][ACROSS])
{
  const L grown = (L)(1.0 / (1.0 - w.p));

#pragma unroll
  for (int i = 0; i < N_PARTS * tile<L>::OWN * ACROSS; i++) {
    sum[i / (tile<L>::OWN * ACROSS)][i / ACROSS % tile<L>::OWN][i % ACROSS] *= grown;
  }
}

/* With weight = exp(scale q k' - lse) and z = scale weight (dy v' - delta): dq = z k, rows are
** queries; or BY_KEYS dk = z' q and dv = weight' dy, rows are keys. */
template <class T, int N_PARTS, bool BY_KEYS, bool DROPPED>
__global__ void __launch_bounds__(THREADS, 2) k_attention_back(tiled t)
{
  typedef typename rg_lane<T>::type L;
  const attention &w = t.w;
  constexpr int OWN = tile<L>::OWN, ROWS = tile<L>::ROWS;
  RG_DYN_SHARED(L, room);
  L *weights = room + 2 * tile<L>::PIECE;
  L *numbers = weights + tile<L>::WEIGHTS; /* of a tile: lse, then delta of its queries */
  uint32_t *seen = (uint32_t *)(numbers + 2 * COLS);
  const T **heads = (const T **)(seen + 2 * ROWS);
  L *kept = numbers + 2 * COLS + 2 * ROWS + HEADS;
  const int n = (int)w.s.n, m = (int)w.s.m;
  const int own = BY_KEYS ? m : n, others = BY_KEYS ? n : m, tiles = (own + ROWS - 1) / ROWS;
  const int nth = (int)(blockIdx.x % (unsigned)tiles);
  const int head = (int)(blockIdx.x / (unsigned)tiles);
  const int row0 = (BY_KEYS ? nth : tiles - 1 - nth) * ROWS; /* the longest rows first */
  const int col0 = (int)blockIdx.y * N_PARTS * COLS;
  const int begin = BY_KEYS && w.causal != 0 ? row0 : 0;
  const int end = !BY_KEYS && w.causal != 0 && row0 < m - ROWS ? row0 + ROWS : others;
  const placed<T> a = place(heads, BY_KEYS ? t.q : t.k, head);      /* met by a1 */
  const placed<T> b = place(heads + 1, BY_KEYS ? t.dy : t.v, head); /* met by b1 */
  const owned<T, L> a1 = { place(heads + 2, BY_KEYS ? t.k : t.q, head), row0, t.stays, kept };
  const owned<T, L> b1 = { place(heads + 3, BY_KEYS ? t.v : t.dy, head), row0, t.stays,
                           kept + (t.stays ? pieces_of(w.s.d) * tile<L>::OWN_PIECE : 0) };
  const L scale = (L)w.scale;
  rooms<L> pieces = { room, 0 };
  L sum[N_PARTS][OWN][ACROSS] = {};
  L sum2[BY_KEYS ? N_PARTS : 1][OWN][ACROSS] = {};
  uint32_t looked = 0;
  int next = next_tile<L, BY_KEYS>(w, row0, begin, end, &looked);

  auto bring_numbers = [&](int first) {
    int i = first + (int)threadIdx.x % COLS;

    numbers[threadIdx.x] = number<L>(threadIdx.x < COLS ? w.lse : w.delta, w, head, i);
    if (DROPPED &&
        threadIdx.x >= COLS) { /* sums grow at the end: in the loop is no register left */
      numbers[threadIdx.x] *= (L)(1.0 - w.p);
    }
  };
  auto query = [](int r, int j) { return BY_KEYS ? COLUMN + j * ACROSS : WARP + FIRST + r * 4; };

  if (!BY_KEYS) {
    bring_numbers(row0);
  }
  __syncthreads(); /* addresses and numbers are there */
  if (next < end) {
    a1.begin();
    b1.begin();
    bring_factor(pieces, a1, a, next, 0);
  }
  rg_copy_commit();
  for (int at = next; at < end; at = next) {
    L x[OWN][ACROSS], z[OWN][ACROSS];

    if (BY_KEYS) {
      bring_numbers(at);
    }
    if (BY_KEYS) {
      multiply(
          pieces, a1, a, at, [&] { bring_values(pieces, b, at, col0); }, x);
    } else {
      multiply(
          pieces, a1, a, at, [&] { bring_factor(pieces, b1, b, at, 0); }, x);
    }
    sight s = see<L, BY_KEYS>(w, row0, at, looked, seen);
    uint32_t keeps = ~0u;

#pragma unroll
    for (int j = 0; j < ACROSS; j++) {
#pragma unroll
      for (int r = 0; r < OWN; r++) {
        x[r][j] = exp(x[r][j] * scale - numbers[query(r, j)]);
      }
    }
    put(weights, x);
    next = next_tile<L, BY_KEYS>(w, row0, at + COLS, end, &looked);
    if (DROPPED) {
      keeps = keeps_of<L, BY_KEYS>(w, rg_draw_now(w.draw), head, row0, at);
    }
    if (BY_KEYS) {
      add<N_PARTS>(
          pieces, weights, DROPPED ? dropped<L>(s, keeps, seen) : s, b, at, col0,
          [&] { bring_factor(pieces, b1, b, at, 0); }, sum2);
      if (DROPPED && !s.whole) {
        tell<L>(s.own, seen);
      }
    }
    multiply(
        pieces, b1, b, at, [&] { bring_values(pieces, a, at, col0); }, z);
#pragma unroll
    for (int j = 0; j < ACROSS; j++) {
#pragma unroll
      for (int r = 0; r < OWN; r++) {
        const L weight = weights[weight_at<L>(r, j)];

        if (DROPPED) {
          z[r][j] = (keeps >> (r * ACROSS + j) & 1) != 0 ? z[r][j] : (L)0;
        }
        z[r][j] = scale * weight * (z[r][j] - numbers[COLS + query(r, j)]);
      }
    }
    put(weights, z);
    add<N_PARTS>(
        pieces, weights, s, a, at, col0,
        [&] {
          if (next < end) {
            bring_factor(pieces, a1, a, next, 0);
          }
        },
        sum);
  }
  rg_copy_wait<0>();
  if (DROPPED) {
    grow(w, sum);
  }
  store<N_PARTS>(head_of<T>(BY_KEYS ? t.dk : t.dq, head), row0, col0, sum);
  if (BY_KEYS) {
    if (DROPPED) {
      grow(w, sum2);
    }
    store<N_PARTS>(head_of<T>(t.dv, head), row0, col0, sum2);
  }
}

/* -- Launching --------------------------------------------------------------------------------- */

/* Blocks for so many rows of each head and so many columns; without columns lse is made still.  Own
** rows of `width` columns stay in shared memory where `blocks` of a multiprocessor leave room. */
template <class L, int N_PARTS>
static rg_status over(const rg_call *call, void (*kernel)(tiled), tiled t, int64_t rows,
                      int64_t cols, int64_t width[2], int blocks)
{
  const attention &w = t.w;
  const int64_t tiles = rg_round_up(rows, tile<L>::ROWS) / tile<L>::ROWS * w.s.heads;
  const int64_t parts = cols > 0 ? rg_round_up(cols, N_PARTS * COLS) / (N_PARTS * COLS) : 1;
  const int64_t longest = w.s.n > w.s.m ? w.s.n : w.s.m;
  const int64_t widest = w.s.d > w.s.e ? w.s.d : w.s.e;
  int most = 0;

  if (tiles == 0) {
    return RG_OK;
  }
  if (tiles > INT32_MAX || parts > 65535 || (longest | widest) > INT32_MAX - 2 * COLS) {
    return rg_gpu->fail(RG_ENOSUP, "%s: %lld heads of %lld rows are more than this kernel takes",
                        call->op->name, (long long)w.s.heads, (long long)longest);
  }
  cudaStream_t stream = rg_gpu_stream(call->device);

  RG_CUDA(call->op->name, rg_gpu_most_shared(call->device, (const void *)kernel));
  RG_CUDA(call->op->name,
          cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, call->device - 1));

  int64_t bytes = (2 * tile<L>::PIECE + tile<L>::WEIGHTS + 2 * COLS + 2 * tile<L>::ROWS + HEADS) *
                  (int64_t)sizeof(L);
  int64_t own = (pieces_of(width[0]) + pieces_of(width[1])) * tile<L>::OWN_PIECE;
  t.stays = bytes + own * (int64_t)sizeof(L) <= most / blocks - 1024;

  own = t.stays ? own : 2 * tile<L>::OWN_PIECE;
  rg_launch_cfg cfg = { dim3((unsigned)tiles, (unsigned)parts), dim3(THREADS),
                        (size_t)(bytes + own * (int64_t)sizeof(L)), stream };

  return rg_gpu_status(call->op->name, rg_launch(kernel, cfg, t));
}

template <class T> static side side_of(const rg_strided &x)
{
  const int64_t VEC = 16 / (int64_t)sizeof(T);
  const int32_t n = x.ndim;

  if (x.data == NULL) {
    return side{};
  }
  side y = { x, x.stride[n - 2], x.stride[n - 1], (int)x.shape[n - 2], (int)x.shape[n - 1], false };

  y.wide = y.col == 1 && y.cols % VEC == 0 && (uintptr_t)x.data % 16 == 0;
  for (int32_t d = 0; d < n - 1; d++) {
    y.wide = y.wide && x.stride[d] % VEC == 0;
  }
  return y;
}

template <class T> static tiled tiled_of(const attention &w)
{
  return tiled{ w,
                side_of<T>(w.q),
                side_of<T>(w.k),
                side_of<T>(w.v),
                side_of<T>(w.y),
                side_of<T>(w.dy),
                side_of<T>(w.dq),
                side_of<T>(w.dk),
                side_of<T>(w.dv),
                false };
}

/* Heads of at most COLS columns leave registers for one block more. */
template <class T, int N_PARTS> static rg_status forward(const rg_call *call, const attention &w)
{
  typedef typename rg_lane<T>::type L;
  int64_t width[2] = { w.s.d, -1 };

  return over<L, N_PARTS>(call,
                          w.p > 0 ? k_attention<T, N_PARTS, true> : k_attention<T, N_PARTS, false>,
                          tiled_of<T>(w), w.s.n, w.s.e, width, BLOCKS<L, N_PARTS>);
}

template <class T, int N_PARTS> static rg_status back(const rg_call *call, attention w)
{
  typedef typename rg_lane<T>::type L;
  int64_t queries = w.s.heads * w.s.n;
  int64_t width[2] = { w.s.d, w.s.e };
  rg_launch_cfg cfg = rg_over(queries * 32, rg_gpu_stream(call->device));

  if (queries > 0) {
    w.delta.flat = 1;
    w.delta.data = (char *)rg_gpu_workspace(call->device, queries * 8); /* or 4 */
    if (w.delta.data == NULL) {
      return rg_gpu_no_room(call->device, call->op->name, queries * 8);
    }
    RG_TRY(rg_gpu_status(call->op->name, rg_launch(k_delta<T>, cfg, tiled_of<T>(w))));
  }
  auto queries_of = k_attention_back<T, N_PARTS, false, false>;
  auto keys_of = k_attention_back<T, N_PARTS, true, false>;

  if (w.p > 0) {
    queries_of = k_attention_back<T, N_PARTS, false, true>;
    keys_of = k_attention_back<T, N_PARTS, true, true>;
  }
  RG_TRY((over<L, N_PARTS>(call, queries_of, tiled_of<T>(w), w.s.n, w.s.d, width, 2)));
  return over<L, N_PARTS>(call, keys_of, tiled_of<T>(w), w.s.m, w.s.d > w.s.e ? w.s.d : w.s.e,
                          width, 2);
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
  w.p = args->p;
  w.draw = rg_drawn_by(call);
  return w;
}

static rg_status by_type(const rg_call *call, int32_t dtype, const attention &w, bool is_back)
{
  return rg_dispatch<RG_KINDS_FLOAT>(call, dtype, [&](auto t) {
    using T = rg_t<decltype(t)>;

    /* two gradients of doubles leave registers for one part */
    constexpr int MOST = std::is_same<T, double>::value ? 1 : PARTS;

    if constexpr (std::is_same<T, float>::value) {
      if (w.s.e <= COLS && (!is_back || w.s.d <= COLS)) {
        return is_back ? back<T, 1>(call, w) : forward<T, 1>(call, w);
      }
    }
    return is_back ? back<T, MOST>(call, w) : forward<T, PARTS>(call, w);
  });
}

/* ridge's own kernels. */
static rg_status own_forward(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
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

rg_status rg_gpu_attention(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return rg_dnn_attention(call, out, frame) == RG_DNN_DONE ? RG_OK : own_forward(call, out, frame);
}

/* No graph of cuDNN's: its numbers would be others than the CPU's. */
rg_status rg_gpu_attention_dropout(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  if (call->n_out > 2) {
    RG_TRY(rg_gpu_keep_draw(call, out[2]));
  }
  return own_forward(call, out, frame);
}

static rg_status own_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  attention w = attention_of(call);

  frame->path = "tiles";
  w.y = rg_view_of(call->in[RG_ATT_Y]);
  w.lse = rg_view_of(call->in[RG_ATT_LSE]);
  w.dy = rg_view_of(call->in[RG_ATT_DY]);
  w.dq = rg_view_of(out[0]);
  w.dk = rg_view_of(out[1]);
  w.dv = rg_view_of(out[2]);
  if (w.p > 0) {
    w.draw = rg_drawn{ {}, (const rg_draw *)call->in[RG_ATT_DRAW]->_data };
  }
  if (rg_gpu_attention_fits(w, out[0]->_dtype, true)) {
    frame->path = "tensor cores";
    return rg_gpu_attention_mma_back(call, out[0]->_dtype, w);
  }
  return by_type(call, out[0]->_dtype, w, true);
}

rg_status rg_gpu_attention_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return rg_dnn_attention_back(call, out, frame) == RG_DNN_DONE ? RG_OK
                                                                : own_back(call, out, frame);
}

rg_status rg_gpu_attention_dropout_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return own_back(call, out, frame);
}
