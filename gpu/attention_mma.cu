/* SPDX-License-Identifier: MIT */
/*
** Attention on tensor cores, forward, in bf16 and f16, and in f32 where TF32 is allowed: a block
** has 64 queries and meets the keys 64 at a time.  Scores become weights in the registers in which
** the product leaves them, and go from there into the product with the values; the copy of the next
** keys runs beside that.
**
** A mask is asked once for a tile: one that nobody sees is neither brought nor multiplied.  With
** dropout weights become 0 behind their sum (attention_drop.cuh), and the result grows at the end.
**
** Weights are rounded to the type of the values.  What a row does not see has the weight 0 and is
** multiplied all the same where other rows of its tile see it, so a value that is no number spoils
** rows before it as well, within 64.  Dao: FlashAttention-2 (2023), algorithm 1.
*/
#include "gpu/attention_mma.cuh"

/* Keys of a tile: wide heads leave registers for fewer, and in f32 shared memory. */
template <class T, int D> constexpr int KEYS = D <= (sizeof(T) == 4 ? 64 : 128) ? 64 : 32;

/* Steps of a score's sum that are written out. */
template <class T, int D> constexpr int STEPS = sizeof(T) == 4 ? 4 : D / 16;

/* Blocks of a multiprocessor at least: 128, 168 or 255 registers a thread at most. */
#define BLOCKS(D, MASKED) ((D) <= ((MASKED) ? 32 : 64) ? 4 : (D) <= 128 ? 3 : 2)

/* Scores of 16 rows become weights; `most` and `total` are of rows lane / 4 and 8 further, the
** total of this lane's columns only.  Sums shrink where a larger score has come. */
template <int COLS, int D>
static __device__ inline void weigh(float x[COLS / 8][4], float most[2], float total[2],
                                    float sum[D / 8][4])
{
  float shrink[2];

#pragma unroll
  for (int r = 0; r < 2; r++) {
    float top = most[r];

#pragma unroll
    for (int j = 0; j < COLS / 8; j++) {
      top = fmaxf(top, fmaxf(x[j][2 * r], x[j][2 * r + 1])); /* nan comes in by its weight */
    }
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
    float base = top > -INFINITY ? top : 0.0f;

    shrink[r] = exp2f(most[r] - base);
    most[r] = top;
    total[r] *= shrink[r];
#pragma unroll
    for (int j = 0; j < COLS / 8; j++) {
      x[j][2 * r] = exp2f(x[j][2 * r] - base);
      x[j][2 * r + 1] = exp2f(x[j][2 * r + 1] - base);
      total[r] += x[j][2 * r] + x[j][2 * r + 1];
    }
  }
#pragma unroll
  for (int j = 0; j < D / 8; j++) {
    sum[j][0] *= shrink[0];
    sum[j][1] *= shrink[0];
    sum[j][2] *= shrink[1];
    sum[j][3] *= shrink[1];
  }
}

/* DROPPED: there is dropout, and perhaps a mask. */
template <class T, int D, bool MASKED, bool DROPPED>
__global__ void __launch_bounds__(RG_ATT_THREADS, BLOCKS(D, MASKED)) k_attention_mma(attention w)
{
  constexpr int COLS = KEYS<T, D>, PITCH = rg_att_pitch<T, D>;
  RG_DYN_SHARED(T, room);
  T *k_room = room + RG_ATT_ROWS * PITCH;
  T *v_room = k_room + COLS * PITCH;
  int n = (int)w.s.n, m = (int)w.s.m;
  int tiles = (n + RG_ATT_ROWS - 1) / RG_ATT_ROWS;
  int64_t head = blockIdx.x / tiles;
  int row0 = (tiles - 1 - (int)(blockIdx.x % tiles)) * RG_ATT_ROWS; /* the longest rows first */
  int lane = RG_MMA_LANE, mine = (int)threadIdx.x / 32 * 16;
  int first = row0 + mine + lane / 4; /* the first of this lane's two rows, 8 apart */
  int end = w.causal != 0 && row0 + RG_ATT_ROWS < m ? row0 + RG_ATT_ROWS : m;
  float scale = (float)(w.scale * (double)RG_LOG2E);
  const rg_draw draw = DROPPED ? rg_draw_now(w.draw) : rg_draw{};
  rg_att_head<const T> k = rg_att_head_of<const T>(w.k, head);
  rg_att_head<const T> v = rg_att_head_of<const T>(w.v, head);
  float most[2] = { -INFINITY, -INFINITY };
  float total[2] = {};
  float sum[D / 8][4] = {};
  rg_att_seen seen = RG_ATT_ALL, next_seen = RG_ATT_ALL; /* of the tile at hand, of the next */
  auto next = [&](int k0) {                              /* the first of these keys that is met */
                            while (MASKED && k0 < end) {
                              next_seen = rg_att_look(
                                  w, row0, row0 + RG_ATT_ROWS < n ? row0 + RG_ATT_ROWS : n, k0,
                                  k0 + COLS < m ? k0 + COLS : m);
                              if (next_seen != RG_ATT_NONE) {
                                break;
                              }
                              k0 += COLS;
                            }
                            return k0;
  };
  int k1 = next(0); /* the next keys */

  rg_att_bring<D, RG_ATT_ROWS>(room, rg_att_head_of<const T>(w.q, head), row0);
  if (!MASKED || k1 < end) {
    rg_att_bring<D, COLS>(k_room, k, k1);
  }
  rg_copy_commit();
  for (int k0 = k1; k0 < end; k0 = k1) {
    float x[COLS / 8][4];

    seen = next_seen;
    k1 = next(k0 + COLS);
    rg_copy_wait<0>();
    __syncthreads(); /* the keys are there, and all are done with the last values */
    rg_att_bring<D, COLS>(v_room, v, k0);
    rg_copy_commit();
    rg_att_multiply<D, COLS, STEPS<T, D>>(room + mine * PITCH, k_room, x);
    rg_copy_wait<0>();
    __syncthreads(); /* the values are there, and all are done with the keys */
    if (k1 < end) {
      rg_att_bring<D, COLS>(k_room, k, k1);
    }
    rg_copy_commit();
    bool whole = k0 + COLS <= m && (w.causal == 0 || k0 + COLS - 1 <= row0 + mine) &&
                 (!MASKED || seen == RG_ATT_ALL);

#pragma unroll
    for (int j = 0; j < COLS / 8; j++) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        int col = k0 + j * 8 + lane % 4 * 2 + i % 2;
        int row = first + i / 2 * 8;
        bool sees =
            whole || (col < m && (w.causal == 0 || col <= row) &&
                      (!MASKED || seen == RG_ATT_ALL || (row < n && rg_att_sees(w, row, col))));

        x[j][i] = sees ? x[j][i] * scale : -INFINITY;
      }
    }
    weigh<COLS, D>(x, most, total, sum);
    if (DROPPED) {
      const uint32_t kept = rg_att_kept<COLS, false>(w, draw, head, row0 + mine, k0);

#pragma unroll
      for (int i = 0; i < COLS / 2; i++) {
        x[i / 4][i % 4] = (kept >> i & 1) != 0 ? x[i / 4][i % 4] : 0.0f;
      }
    }
    rg_att_add<D, COLS>(x, v_room, sum);
  }
  rg_copy_wait<0>();
#pragma unroll
  for (int r = 0; r < 2; r++) {
    int row = first + r * 8;

    total[r] += __shfl_xor_sync(0xffffffffu, total[r], 1);
    total[r] += __shfl_xor_sync(0xffffffffu, total[r], 2);
    bool blind = total[r] == 0; /* all scores are -inf */
    float share = blind ? 0.0f : (DROPPED ? rg_att_grown(w) : 1.0f) / total[r];

#pragma unroll
    for (int j = 0; j < D / 8; j++) {
      sum[j][2 * r] *= share;
      sum[j][2 * r + 1] *= share;
    }
    if (w.lse.data != NULL && lane % 4 == 0 && row < n) {
      ((float *)w.lse.data)[rg_at(w.lse, head * n + row)] =
          blind ? INFINITY : most[r] / RG_LOG2E + logf(total[r]);
    }
  }
  rg_att_store<D>(room + mine * PITCH, sum, rg_att_head_of<T>(w.y, head), row0 + mine);
}

/* -- Which ----------------------------------------------------------------------------------- */

/* Do all rows begin and end at multiples of 16 bytes, `vec` elements? */
static bool is_aligned(const rg_strided &x, int vec)
{
  int32_t last = x.ndim - 1;
  bool fits = (uintptr_t)x.data % 16 == 0 && x.shape[last] % vec == 0 && x.stride[last] == 1;

  for (int32_t d = 0; d < last; d++) {
    fits = fits && x.stride[d] % vec == 0;
  }
  return fits;
}

bool rg_gpu_attention_fits(const attention &w, int32_t dtype, bool is_back)
{
  const int64_t most = 1 << 30; /* rows are counted by int */
  const bool single = dtype == RG_F32 && rg_gpu->modes()->tf32 != 0;
  const int vec = single ? 4 : 8;
  int64_t widest = w.s.d > w.s.e ? w.s.d : w.s.e;
  bool fits = (single || dtype == RG_BF16 || dtype == RG_F16) &&
              (w.mask == NULL || (w.block >= RG_ATT_LEAST_BLOCK && w.block < most)) &&
              w.s.heads > 0 && w.s.n > 0 && w.s.m > 0 && w.s.n < most && w.s.m < most &&
              w.s.d > 0 && w.s.e > 0 && widest <= (is_back || single ? 128 : 256) &&
              is_aligned(w.q, vec) && is_aligned(w.k, vec) && is_aligned(w.v, vec) &&
              is_aligned(w.y, vec);

  return fits && (!is_back || (is_aligned(w.dy, vec) && is_aligned(w.dq, vec) &&
                               is_aligned(w.dk, vec) && is_aligned(w.dv, vec)));
}

template <class T, int D> static rg_status forward(const rg_call *call, const attention &w)
{
  size_t rows = RG_ATT_ROWS + 2 * KEYS<T, D>;

  return rg_att_over(call,
                     w.p > 0          ? k_attention_mma<T, D, true, true>
                     : w.mask != NULL ? k_attention_mma<T, D, true, false>
                                      : k_attention_mma<T, D, false, false>,
                     w, w.s.n, rows * rg_att_pitch<T, D> * sizeof(T));
}

template <class T> static rg_status by_width(const rg_call *call, const attention &w)
{
  int64_t widest = w.s.d > w.s.e ? w.s.d : w.s.e;

  return widest <= 32    ? forward<T, 32>(call, w)
         : widest <= 64  ? forward<T, 64>(call, w)
         : widest <= 96  ? forward<T, 96>(call, w)
         : widest <= 128 ? forward<T, 128>(call, w)
                         : forward<T, 256>(call, w);
}

rg_status rg_gpu_attention_mma(const rg_call *call, int32_t dtype, const attention &w)
{
  if (dtype == RG_F32) {
    return w.s.d <= 64 && w.s.e <= 64 ? forward<float, 64>(call, w) : forward<float, 128>(call, w);
  }
  return dtype == RG_BF16 ? by_width<__nv_bfloat16>(call, w) : by_width<__half>(call, w);
}
