/* SPDX-License-Identifier: MIT */
/*
** The gradients of attention on tensor cores, in bf16 and f16, and in f32 where TF32 is allowed.
** With the weights p = exp(scale q k' - lse) and z = p (dy v' - delta), delta the sum of dy y of
** each query,
**
**   dq = scale z k,   dk = scale z' q,   dv = p' dy.
**
** With dropout, k = 0 or 1 / (1 - p of it) for each weight, delta is what it was and
**
**   z = p (k (dy v') - delta),   dv = (k p)' dy.
**
** p and z are rounded to the type on their way from one product to the next.  f16 has few places
** for small numbers, so scale, mostly below 1, comes at the end, and p is LIFT times as large in
** between; what is small in z is for a loss scale to lift.
**
** One kernel keeps 64 queries and meets the keys, the other keeps 64 keys and meets the queries;
** both compute p and z again, no block adds to what another makes, and so the bits are always the
** same.  What is met comes through two buffers in turn.  Dao: FlashAttention-2 (2023), algorithm 2.
*/
#include "gpu/attention_mma.cuh"

/* Rows of a tile that is met: wide heads leave registers for fewer, and in f32 shared memory. */
template <class T, int D> constexpr int MET = (D <= 64 ? 64 : 32) / (sizeof(T) == 4 ? 2 : 1);

/* A power of two; real weights are not above 1, and f16 ends at 65504. */
#define LIFT      256.0f
#define LIFT_LOG2 8.0f

/* Of each query: lse in powers of two, less that of LIFT, and delta. */
struct number {
  float lse, delta;
};

/* Numbers of a head in the workspace: a tile may read past the last query. */
static __host__ __device__ inline int64_t padded(int64_t n)
{
  return rg_round_up(n, RG_ATT_ROWS);
}

/* -- The numbers of each query ----------------------------------------------------------------- */

template <class T> union pack {
  uint4 bits;
  T x[rg_att_vec<T>];
};

/* `width` lanes for each query, a power of two; past the last one there are numbers that make
** weights of 0. */
template <class T>
__global__ void __launch_bounds__(RG_BLOCK)
    k_attention_numbers(attention w, number *numbers, int width)
{
  constexpr int VEC = rg_att_vec<T>;
  int64_t rows = padded(w.s.n), all = w.s.heads * rows;

  /* whole warps go round together */
  for (int64_t at = RG_FIRST; at / 32 * 32 < all * width; at += RG_NEXT) {
    int64_t query = at / width, head = query / rows, i = query % rows;
    int lane = (int)(at % width);
    bool there = query < all && i < w.s.n;
    float sum = 0;

    if (there && lane * VEC < w.s.e) {
      rg_att_head<const T> y = rg_att_head_of<const T>(w.y, head);
      rg_att_head<const T> dy = rg_att_head_of<const T>(w.dy, head);
      pack<T> a = { *(const uint4 *)(y.data + i * y.row + lane * VEC) };
      pack<T> b = { *(const uint4 *)(dy.data + i * dy.row + lane * VEC) };

#pragma unroll
      for (int l = 0; l < VEC; l++) {
        sum += rg_get(a.x[l]) * rg_get(b.x[l]);
      }
    }
    for (int step = width / 2; step > 0; step /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, step);
    }
    if (query < all && lane == 0) {
      float lse = there ? ((const float *)w.lse.data)[rg_at(w.lse, head * w.s.n + i)] : INFINITY;

      numbers[query] = number{ lse * RG_LOG2E - LIFT_LOG2, there ? sum : 0 };
    }
  }
}

/* -- The gradients ----------------------------------------------------------------------------- */

/* What a type can hold: of real weights none is above 1, but any lse is allowed. */
static __device__ inline float held(__nv_bfloat16, float x)
{
  return x;
}
static __device__ inline float held(float, float x)
{
  return x;
}
static __device__ inline float held(__half, float x)
{
  return x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x; /* nan stays nan */
}

/* Scores x and dy v' in z become LIFT times the weights in x, and z.  Rows are queries and columns
** are keys, or with BY_KEYS transposed; `own` are this lane's two rows' numbers, `met` those of its
** columns.  With DROPPED the weights in x are those kept, grown at the end. */
template <int COLS, bool BY_KEYS, bool MASKED, bool DROPPED, class T>
static __device__ inline void weigh(T kind, const attention &w, float x[COLS / 8][4],
                                    float z[COLS / 8][4], const number own[2], const number *met,
                                    int row, int col0, bool whole, rg_att_seen seen, uint32_t kept)
{
  float scale = (float)w.scale, grown = DROPPED ? rg_att_grown(w) : 1.0f;
  int q = RG_MMA_LANE % 4 * 2;

#pragma unroll
  for (int j = 0; j < COLS / 8; j++) {
    float4 pair = BY_KEYS ? *(const float4 *)(met + j * 8 + q) : float4{};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      int r = row + i / 2 * 8, c = col0 + j * 8 + q + i % 2;
      float lse = !BY_KEYS ? own[i / 2].lse : i % 2 == 0 ? pair.x : pair.z;
      float delta = !BY_KEYS ? own[i / 2].delta : i % 2 == 0 ? pair.y : pair.w;
      int query = BY_KEYS ? c : r, key = BY_KEYS ? r : c;
      bool sees =
          whole || (BY_KEYS ? w.causal == 0 || r <= c : c < w.s.m && (w.causal == 0 || c <= r));

      if (MASKED && seen != RG_ATT_ALL) {
        sees = sees && query < w.s.n && key < w.s.m && rg_att_sees(w, query, key);
      }
      float p = sees ? exp2f(x[j][i] * (scale * RG_LOG2E) - lse) : 0.0f;

      float t = z[j][i];

      x[j][i] = held(kind, p);
      if (DROPPED) {
        const bool keeps = (kept >> (j * 4 + i) & 1) != 0;

        x[j][i] = keeps ? x[j][i] : 0.0f;
        t = keeps ? t * grown : 0.0f;
      }
      z[j][i] = sees ? held(kind, p * (1 / LIFT) * (t - delta)) : 0.0f;
    }
  }
}

template <int D> static __device__ inline void times(float sum[D / 8][4], float by)
{
#pragma unroll
  for (int j = 0; j < D / 8; j++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      sum[j][i] *= by;
    }
  }
}

/* At most 255 registers a thread with BY_KEYS, which has two sums, else 168.
** Block: 64 rows that stay, queries with dy or (BY_KEYS) keys with values, and the other two of
** those that are met. */
template <class T, int D, bool BY_KEYS, bool MASKED, bool DROPPED>
__global__ void __launch_bounds__(RG_ATT_THREADS, BY_KEYS ? 2 : 3)
    k_attention_mma_back(attention w, const number *numbers)
{
  constexpr int COLS = MET<T, D>, PITCH = rg_att_pitch<T, D>, STAGE = 2 * COLS * PITCH;
  RG_DYN_SHARED(T, room);
  T *met_room = room + 2 * RG_ATT_ROWS * PITCH;
  number *met_numbers = (number *)(met_room + 2 * STAGE);
  int n = (int)w.s.n, m = (int)w.s.m;
  int own = BY_KEYS ? m : n, others = BY_KEYS ? n : m;
  int tiles = (own + RG_ATT_ROWS - 1) / RG_ATT_ROWS, tile = (int)(blockIdx.x % tiles);
  int64_t head = blockIdx.x / tiles;
  int row0 = (BY_KEYS ? tile : tiles - 1 - tile) * RG_ATT_ROWS; /* the longest rows first */
  int mine = (int)threadIdx.x / 32 * 16, row = row0 + mine + RG_MMA_LANE / 4;
  bool causal = w.causal != 0;
  int begin = BY_KEYS && causal ? row0 : 0;
  int end = !BY_KEYS && causal && row0 + RG_ATT_ROWS < m ? row0 + RG_ATT_ROWS : others;
  rg_att_head<const T> met = rg_att_head_of<const T>(BY_KEYS ? w.q : w.k, head);
  rg_att_head<const T> met2 = rg_att_head_of<const T>(BY_KEYS ? w.dy : w.v, head);
  const rg_draw draw = DROPPED ? rg_draw_now(w.draw) : rg_draw{};
  number of_row[2] = {};
  float sum[D / 8][4] = {};
  float sum2[BY_KEYS ? D / 8 : 1][4] = {};
  auto bring = [&](int stage, int col0) {
    rg_att_bring<D, COLS>(met_room + stage * STAGE, met, col0);
    rg_att_bring<D, COLS>(met_room + stage * STAGE + STAGE / 2, met2, col0);
    if (BY_KEYS && threadIdx.x < COLS / 2) {
      int at = (int)threadIdx.x * 2;

      rg_copy16(met_numbers + stage * COLS + at, numbers + head * padded(n) + col0 + at, true);
    }
  };

  rg_att_seen seen = RG_ATT_ALL, next_seen = RG_ATT_ALL; /* of the tile at hand, of the next */
  auto next = [&](int col0) {                            /* the first of these that is met */
                              const int row1 = row0 + RG_ATT_ROWS < own ? row0 + RG_ATT_ROWS : own;

                              while (MASKED && col0 < end) {
                                const int col1 = col0 + COLS < others ? col0 + COLS : others;

                                next_seen = BY_KEYS ? rg_att_look(w, col0, col1, row0, row1)
                                                    : rg_att_look(w, row0, row1, col0, col1);
                                if (next_seen != RG_ATT_NONE) {
                                  break;
                                }
                                col0 += COLS;
                              }
                              return col0;
  };

  numbers += BY_KEYS ? 0 : head * padded(n);
  if (!BY_KEYS) {
    of_row[0] = numbers[row];
    of_row[1] = numbers[row + 8];
  }
  rg_att_bring<D, RG_ATT_ROWS>(room, rg_att_head_of<const T>(BY_KEYS ? w.k : w.q, head), row0);
  rg_att_bring<D, RG_ATT_ROWS>(room + RG_ATT_ROWS * PITCH,
                               rg_att_head_of<const T>(BY_KEYS ? w.v : w.dy, head), row0);
  int col1 = next(begin); /* the next that are met */

  if (col1 < end) {
    bring(0, col1);
  }
  rg_copy_commit();
  for (int col0 = col1, stage = 0; col0 < end; col0 = col1, stage ^= 1) {
    const T *a = met_room + stage * STAGE, *b = a + STAGE / 2;
    float x[COLS / 8][4], z[COLS / 8][4];

    seen = next_seen;
    col1 = next(col0 + COLS);
    if (col1 < end) {
      bring(stage ^ 1, col1);
    }
    rg_copy_commit();
    rg_copy_wait<1>();
    __syncthreads();
    bool whole = BY_KEYS ? !causal || row0 + mine + 15 <= col0
                         : col0 + COLS <= m && (!causal || col0 + COLS - 1 <= row0 + mine);

    rg_att_multiply<D, COLS, 2>(room + mine * PITCH, a, x);
    rg_att_multiply<D, COLS, 2>(room + (RG_ATT_ROWS + mine) * PITCH, b, z);
    const uint32_t kept =
        DROPPED ? rg_att_kept<COLS, BY_KEYS>(w, draw, head, row0 + mine, col0) : 0u;

    weigh<COLS, BY_KEYS, MASKED, DROPPED>(T(), w, x, z, of_row, met_numbers + stage * COLS, row,
                                          col0, whole && (!MASKED || seen == RG_ATT_ALL), seen,
                                          kept);
    rg_att_add<D, COLS>(z, a, sum);
    if (BY_KEYS) {
      rg_att_add<D, COLS>(x, b, sum2);
    }
    __syncthreads(); /* all are done with this stage */
  }
  rg_copy_wait<0>();
  __syncthreads();
  times<D>(sum, (float)w.scale);
  rg_att_store<D>(room + mine * PITCH, sum, rg_att_head_of<T>(BY_KEYS ? w.dk : w.dq, head),
                  row0 + mine);
  if (BY_KEYS) {
    times<D>(sum2, DROPPED ? rg_att_grown(w) / LIFT : 1 / LIFT);
    rg_att_store<D>(room + (RG_ATT_ROWS + mine) * PITCH, sum2, rg_att_head_of<T>(w.dv, head),
                    row0 + mine);
  }
}

/* -- Launching --------------------------------------------------------------------------------- */

template <class T, int D, bool MASKED, bool DROPPED>
static rg_status both(const rg_call *call, const attention &w, size_t bytes, const number *numbers)
{
  RG_TRY(rg_att_over(call, k_attention_mma_back<T, D, false, MASKED, DROPPED>, w, w.s.n, bytes,
                     numbers));
  return rg_att_over(call, k_attention_mma_back<T, D, true, MASKED, DROPPED>, w, w.s.m, bytes,
                     numbers);
}

template <class T, int D> static rg_status back(const rg_call *call, const attention &w)
{
  const char *what = call->op->name;
  size_t bytes = (2 * RG_ATT_ROWS + 4 * MET<T, D>)*rg_att_pitch<T, D> * sizeof(T) +
                 2 * MET<T, D> * sizeof(number);
  int64_t n_numbers = w.s.heads * padded(w.s.n);
  int width = 1; /* at most 32, for 128 columns of f32 */
  number *made = (number *)rg_gpu_workspace(call->device, n_numbers * (int64_t)sizeof(number));

  const number *numbers = made;

  while (width * rg_att_vec<T> < w.s.e) {
    width *= 2;
  }
  if (made == NULL) {
    return rg_gpu_no_room(call->device, what, n_numbers * (int64_t)sizeof(number));
  }
  RG_CUDA(what, rg_launch(k_attention_numbers<T>,
                          rg_over(n_numbers * width, rg_gpu_stream(call->device)), w, made, width));
  return w.p > 0          ? both<T, D, true, true>(call, w, bytes, numbers)
         : w.mask != NULL ? both<T, D, true, false>(call, w, bytes, numbers)
                          : both<T, D, false, false>(call, w, bytes, numbers);
}

template <class T> static rg_status by_width(const rg_call *call, const attention &w)
{
  int64_t widest = w.s.d > w.s.e ? w.s.d : w.s.e;

  return widest <= 32   ? back<T, 32>(call, w)
         : widest <= 64 ? back<T, 64>(call, w)
         : widest <= 96 ? back<T, 96>(call, w)
                        : back<T, 128>(call, w);
}

rg_status rg_gpu_attention_mma_back(const rg_call *call, int32_t dtype, const attention &w)
{
  if (dtype == RG_F32) {
    return w.s.d <= 64 && w.s.e <= 64 ? back<float, 64>(call, w) : back<float, 128>(call, w);
  }
  return dtype == RG_BF16 ? by_width<__nv_bfloat16>(call, w) : by_width<__half>(call, w);
}
