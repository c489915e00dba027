/* SPDX-License-Identifier: MIT */
/*
** Products of matrices in bf16 and f16 on tensor cores, with what follows them in the same pass:
** the tiles of tile.cuh for each matrix of a batch, either factor transposed or not, so that
** neither a layer nor its gradients need a copy.
*/
#include "gpu/gemm_mma.cuh"
#include "gpu/tile.cuh"

/* Where matrix `index` of the batch begins. */
static __device__ inline int64_t start(const rg_gemm &g, const rg_gemm_matrix &x, int64_t index)
{
  int64_t at = 0;

  for (int32_t d = g.ndim - 1; d >= 0; d--) {
    at += index % g.shape[d] * x.step[d];
    index /= g.shape[d];
  }
  return at;
}

template <class T, bool A_TRANSPOSED, bool B_TRANSPOSED>
__global__ void __launch_bounds__(RG_TILE_THREADS, 3) k_gemm(rg_gemm g, int64_t first)
{
  RG_DYN_SHARED(T, room);
  int64_t index = first + blockIdx.z;
  int64_t bytes = g.epilogue.dtype == RG_F32 ? 4 : 2;
  rg_tiled w = {};

  w.a = (const T *)g.a.data + start(g, g.a, index);
  w.b = (const T *)g.b.data + start(g, g.b, index);
  /* the only line of a matrix lies as far from a next one as it likes */
  w.a_row = (A_TRANSPOSED ? g.k : g.m) == 1 ? 0 : A_TRANSPOSED ? g.a.col : g.a.row;
  w.b_row = (B_TRANSPOSED ? g.n : g.k) == 1 ? 0 : B_TRANSPOSED ? g.b.col : g.b.row;
  w.m = g.m;
  w.n = (int)g.n;
  w.k = (int)g.k;
  w.epilogue = g.epilogue;
  w.epilogue.data = (char *)g.c.data + start(g, g.c, index) * bytes;
  w.epilogue.row = g.c.row;
  w.epilogue.ahead = (uint64_t)(index * g.m * g.n);
  rg_tile_product<A_TRANSPOSED, B_TRANSPOSED, false>(room, w);
}

/* -- Which ------------------------------------------------------------------------------------- */

/* Can `x` be brought in eights, along its columns or (transposed) its rows? */
static bool fits(const rg_gemm &g, const rg_gemm_matrix &x, int64_t rows, int64_t cols,
                 bool *transposed)
{
  bool straight = x.col == 1 && cols % 8 == 0 && (x.row % 8 == 0 || rows == 1);
  bool aligned = (uintptr_t)x.data % 16 == 0;

  *transposed = !straight;
  for (int32_t i = 0; i < g.ndim; i++) {
    aligned = aligned && x.step[i] % 8 == 0;
  }
  return aligned && (straight || (x.row == 1 && rows % 8 == 0 && (x.col % 8 == 0 || cols == 1)));
}

template <class T>
static cudaError_t launch(const rg_gemm &g, const rg_launch_cfg &cfg, int64_t first,
                          bool a_transposed, bool b_transposed)
{
  return a_transposed ? (b_transposed ? rg_launch(k_gemm<T, true, true>, cfg, g, first)
                                      : rg_launch(k_gemm<T, true, false>, cfg, g, first))
                      : (b_transposed ? rg_launch(k_gemm<T, false, true>, cfg, g, first)
                                      : rg_launch(k_gemm<T, false, false>, cfg, g, first));
}

rg_status rg_gpu_gemm(const rg_call *call, const rg_gemm &g, bool *taken)
{
  const int64_t most = 65535; /* blocks along the second and third axis of a grid */
  int64_t tiles = (g.n + RG_TILE_COLS - 1) / RG_TILE_COLS, count = 1;
  bool a_transposed, b_transposed;
  rg_launch_cfg cfg = { dim3((unsigned)((g.m + RG_TILE_ROWS - 1) / RG_TILE_ROWS), (unsigned)tiles),
                        dim3(RG_TILE_THREADS), RG_TILE_BYTES, rg_gpu_stream(call->device) };

  *taken =
      (g.dtype == RG_BF16 || g.dtype == RG_F16) &&
      (g.epilogue.dtype == RG_BF16 || g.epilogue.dtype == RG_F16 || g.epilogue.dtype == RG_F32) &&
      g.m > 0 && g.m <= 1 << 30 && g.n > 0 && tiles <= most && g.k > 0 && g.k <= 1 << 30 &&
      (g.c.col == 1 || g.n == 1) && fits(g, g.a, g.m, g.k, &a_transposed) &&
      fits(g, g.b, g.k, g.n, &b_transposed);
  if (!*taken) {
    return RG_OK;
  }
  for (int32_t i = 0; i < g.ndim; i++) {
    count *= g.shape[i];
  }
  for (int64_t first = 0; first < count; first += most) {
    cfg.grid.z = (unsigned)(count - first < most ? count - first : most);
    RG_CUDA(call->op->name, g.dtype == RG_BF16
                                ? launch<__nv_bfloat16>(g, cfg, first, a_transposed, b_transposed)
                                : launch<__half>(g, cfg, first, a_transposed, b_transposed));
  }
  return RG_OK;
}
