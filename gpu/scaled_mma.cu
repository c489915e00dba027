/* SPDX-License-Identifier: MIT */
/*
** Products of 8-bit factors with scales on tensor cores, with all that follows in the same pass:
** the tiles of tile.cuh.
**
** For i8 two bytes that are neighbours along the inner axis stand where a half type has one
** element: rows, stages and registers are the same bytes, a step is twice as long, and sums are
** whole.
*/
#include "gpu/scaled.cuh"
#include "gpu/tile.cuh"

/* S: of sums.  w counts the inner axis in elements T. */
template <class T, class S>
__global__ void __launch_bounds__(RG_TILE_THREADS, 3) k_scaled_mma(rg_scaled s, rg_tiled w)
{
  RG_DYN_SHARED(T, room);
  int col0 = (int)blockIdx.y * RG_TILE_COLS;
  int64_t row0 = (int64_t)blockIdx.x * RG_TILE_ROWS;
  int warp = (int)threadIdx.x / 32;
  int warp_row = warp / 2 * 32, warp_col = warp % 2 * (RG_TILE_COLS / 2);
  int steps = (w.k + RG_TILE_STEP - 1) / RG_TILE_STEP;
  S sum[2][RG_TILE_COLS / 16][4] = {};
  auto bring = [&](int step) {
    T *stage = room + step % RG_TILE_STAGES * RG_TILE_STAGE;

    if (step < steps) {
      rg_tile_bring_a<false>(stage, w, row0, 0, step * RG_TILE_STEP, w.k);
      rg_tile_bring_b<true>(stage + RG_TILE_A, w, col0, step * RG_TILE_STEP);
    }
    rg_copy_commit();
  };

  bring(0);
  bring(1);
  for (int step = 0; step < steps; step++) {
    const T *a = room + step % RG_TILE_STAGES * RG_TILE_STAGE;

    rg_copy_wait<1>();
    __syncthreads(); /* the stage is there, and all are done with the one before */
    bring(step + 2);
    rg_tile_multiply<false, true>(a, a + RG_TILE_A, warp_row, warp_col, sum);
  }
  rg_copy_wait<0>();
  rg_tile_epilogue(
      (float *)room, w, sum, warp_row, warp_col, row0, col0,
      [&](int64_t row, int64_t col, int n, float v[8]) { rg_scaled_eight(s, row, col, n, v); });
}

/* Does it lie in rows of whole 16 bytes? */
static bool fits(const rg_scaled &s)
{
  return s.a.dtype == RG_BF16 ||
         (s.a.dtype == RG_I8 && rg_scaled_lies(s.a, s.m, s.k) && rg_scaled_lies(s.b, s.n, s.k));
}

rg_status rg_gpu_scaled_mma(const rg_call *call, const rg_scaled &s, bool *taken)
{
  const int64_t most = 65535; /* blocks along the second axis of a grid */
  int64_t tiles = (s.n + RG_TILE_COLS - 1) / RG_TILE_COLS;
  int64_t each = s.a.dtype == RG_I8 ? 2 : 1; /* elements that stand in one */
  rg_launch_cfg cfg = { dim3((unsigned)((s.m + RG_TILE_ROWS - 1) / RG_TILE_ROWS), (unsigned)tiles),
                        dim3(RG_TILE_THREADS), RG_TILE_BYTES, rg_gpu_stream(call->device) };
  rg_tiled w = {};

  *taken = s.k > 0 && s.k <= 1 << 30 && s.m <= 1 << 30 && tiles <= most && fits(s);
  if (!*taken) {
    return RG_OK;
  }
  w.a = s.a.rows.data;
  w.b = s.b.rows.data;
  w.a_row = (s.m == 1 ? s.k : s.a.row) / each;
  w.b_row = (s.n == 1 ? s.k : s.b.row) / each;
  w.m = s.m;
  w.n = (int)s.n;
  w.k = (int)(s.k / each);
  return rg_gpu_status(call->op->name,
                       s.a.dtype == RG_I8
                           ? rg_launch(k_scaled_mma<rg_bytes, int32_t>, cfg, s, w)
                           : rg_launch(k_scaled_mma<__nv_bfloat16, float>, cfg, s, w));
}
