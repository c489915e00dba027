/* SPDX-License-Identifier: MIT */
/*
** Which path a product takes where nobody has measured it: ridge's own kernels, unless another path
** is expected to take much less.
**
** Time is expected as a sum of terms: a call, m n k multiplications, m n results, m k and k n
** factors, m rows, n columns, and for libraries m k multiplications of whole vectors of columns.
** Own kernels work in panels of 32 columns, in bf16 in steps of 32 of k, and on AMX in tiles of 16
** rows, so a narrow or shallow product costs as much as one of the next multiple, packing (k) and
** storing (m) a panel that is not full cost more, and a few rows times a matrix that is not kept
** packed pay for packing it.  There libraries are up to 18 times as fast.
**
** The numbers are nanoseconds on one AMD EPYC (Zen 4), those of AMX on a Xeon (Emerald Rapids), by
** scripts/peers/paths.lua --fit, which also tells how far the choice is from the fastest path; on
** another machine only their ratios are meant to hold, and ridge.autotune measures.
** An OpenBLAS that is older than the processor is left out: 0.3.21 runs its kernels of SSE3 on a
** Xeon of 2023, three to five times slower than the others.
** Where the paths were not measured own kernels stay: bf16 without AVX-512, factors that are not
** contiguous along k (a) or n (a plain b).
**
** Numbers of this machine (ridge.backend.probe) come before these: core/cpu/path_fitted.c.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/path.h"

enum { F32 = 0, BF16 = 1, PLAIN = 0, KEPT = 1 };
enum { AMX_ROWS = 16 }; /* of a tile register */

/* By type and whether b is kept packed. */
typedef double costs[2][2][RG_GEMM_COUNT][RG_PATH_TERMS];

static const costs avx2 = {
  [F32][KEPT][RG_GEMM_ONEDNN] = { 487, 0.0198, 0.0381, 0.0643, 0.0213, 1.46, 0.522, 0, 0 },
  [F32][KEPT][RG_GEMM_OPENBLAS] = { 69.9, 0.0151, 0.0757, 0.123, 0.226, 1.13, 0, 0.00345, 0 },
  [F32][KEPT][RG_GEMM_OWN] = { 8.76, 0.0182, 0.119, 0, 0.017, 0, 0.326, 0, 0.434 },
  [F32][PLAIN][RG_GEMM_ONEDNN] = { 488, 0.0194, 0.0405, 0.0629, 0.0194, 1.78, 0.518, 0, 0 },
  [F32][PLAIN][RG_GEMM_OPENBLAS] = { 73.1, 0.0157, 0.0778, 0.142, 0.14, 1.13, 0, 0.00228, 0 },
  [F32][PLAIN][RG_GEMM_OWN] = { 11.7, 0.0186, 0.121, 0, 0.095, 0, 0.443, 3.77, 0.289 },
};

static const costs avx512 = {
  [F32][KEPT][RG_GEMM_ONEDNN] = { 330, 0, 0.0375, 0.00309, 0.0246, 0.516, 0.394, 0.0171, 0 },
  [F32][KEPT][RG_GEMM_OPENBLAS] = { 51, 0.0237, 0.0378, 0, 0.0205, 1.06, 0, 0.000775, 0 },
  [F32][KEPT][RG_GEMM_OWN] = { 8.78, 0.0172, 0.097, 0, 0.0144, 0, 0.314, 0, 0.82 },
  [F32][PLAIN][RG_GEMM_ONEDNN] = { 324, 0, 0.0381, 0.00338, 0.028, 0.482, 0.347, 0.017, 0 },
  [F32][PLAIN][RG_GEMM_OPENBLAS] = { 49.2, 0.0201, 0.0279, 0, 0.0233, 0.69, 0, 0.00149, 0 },
  [F32][PLAIN][RG_GEMM_OWN] = { 13, 0.0177, 0.0993, 0, 0.0931, 0, 0.402, 3.75, 0.577 },
  /* with instructions for pairs of bf16 */
  [BF16][KEPT][RG_GEMM_ONEDNN] = { 361, 0, 0.0266, 0.01, 0.00849, 0.367, 0.438, 0.00823, 0 },
  [BF16][KEPT][RG_GEMM_OWN] = { 16.1, 0.00901, 0.212, 0.0289, 0.00328, 0, 0.415, 0.0653, 6.8 },
  [BF16][PLAIN][RG_GEMM_ONEDNN] = { 408, 0, 0.0289, 0.0165, 0.0595, 0.36, 0.409, 0.0085, 0 },
  [BF16][PLAIN][RG_GEMM_OWN] = { 0, 0.00998, 0.192, 0.0465, 0.0481, 0, 0, 5.96, 4.66 },
};

/* Products in bf16 on tile registers; those in f32 are of AVX-512.  A Xeon (Emerald Rapids). */
static const costs amx = {
  [BF16][KEPT][RG_GEMM_ONEDNN] = { 853, 0, 0.152, 0.122, 0.0453, 0.976, 0.742, 0.0014, 0 },
  [BF16][KEPT][RG_GEMM_OWN] = { 139, 0.00158, 0.195, 0.0669, 0.0002, 0, 7.49, 0, 15.5 },
  [BF16][PLAIN][RG_GEMM_ONEDNN] = { 1000, 0, 0.123, 0.115, 0.15, 1.38, 0.208, 0.00171, 0 },
  [BF16][PLAIN][RG_GEMM_OWN] = { 235, 0.00182, 0.2, 0.04, 0.114, 0, 3.37, 15.5, 14.8 },
};

/* Own kernels keep their sums for any number of threads, which is worth something. */
static const double LESS = 1.3;

void rg_path_terms(int64_t m, int64_t n, int64_t k, int32_t compute, int32_t path,
                   double out[RG_PATH_TERMS])
{
  double rows = (double)m, columns = (double)n, depth = (double)k;
  double more[2] = { rows * depth * (double)rg_round_up(n, 16), 0 };
  double passes = rows; /* of the inner loop over columns */

  if (path == RG_GEMM_OWN) {
    bool part = n % RG_PANEL != 0;

    columns = (double)rg_round_up(n, RG_PANEL);
    depth = compute == RG_BF16 ? (double)rg_pack_depth(RG_PACK_BF16, k) : depth;
    more[0] = part ? depth : 0;
    more[1] = part ? rows : 0;
    if (compute == RG_BF16 && rg_amx_usable()) {
      passes = (double)rg_round_up(m, AMX_ROWS);
    }
  }
  const double term[RG_PATH_TERMS] = { 1,
                                       passes * columns * depth,
                                       rows * columns,
                                       rows * depth,
                                       depth * columns,
                                       rows,
                                       columns,
                                       more[0],
                                       more[1] };

  memcpy(out, term, sizeof(term));
}

double rg_path_expected(const double ns[RG_PATH_TERMS], const rg_product *p, int32_t path)
{
  double term[RG_PATH_TERMS], sum = 0;

  rg_path_terms(p->m, p->n, p->k, p->compute, path, term);
  for (int32_t i = 0; i < RG_PATH_TERMS; i++) {
    sum += ns[i] * term[i];
  }
  return sum;
}

bool rg_path_is_plain(const rg_product *p)
{
  const rg_piece *piece = &p->b.piece[0];

  return p->m <= INT32_MAX && p->n <= INT32_MAX && p->k <= INT32_MAX && rg_weight_whole(&p->b) &&
         p->a_dtype == p->compute && piece->dtype == p->compute && p->c_dtype == p->compute &&
         (p->a_col == 1 || p->k == 1) && (rg_weight_keeps(&p->b) || piece->col == 1 || p->n == 1);
}

/* Were such products measured for these numbers? */
static bool is_known(const rg_product *p, int32_t isa)
{
  return rg_path_is_plain(p) && isa >= (p->compute == RG_BF16 ? RG_ISA_AVX512_BF16 : RG_ISA_AVX2);
}

/* Whole panels, deep enough, and no packing that shows: the common case, which is not worth 30 ns
** of a call that takes 150. */
static bool suits(const rg_product *p)
{
  bool deep = p->compute == RG_BF16 ? p->k > 0 && p->k % RG_BF16_STEP == 0 : p->k >= 16;

  return p->n % RG_PANEL == 0 && deep && (p->m >= 32 || rg_weight_keeps(&p->b));
}

int32_t rg_product_default(const rg_product *p)
{
  int32_t isa = rg_isa();

  if (isa < RG_ISA_AVX2) {
    bool small = p->m <= INT32_MAX && p->n <= INT32_MAX && p->k <= INT32_MAX;

    return small ? RG_GEMM_ONEDNN : RG_GEMM_OWN;
  }
  if (suits(p) || !is_known(p, isa) || rg_product_takes_row(p)) {
    return RG_GEMM_OWN;
  }
  const costs *all = isa == RG_ISA_AVX2 ? &avx2 : &avx512;

  if (p->compute == RG_BF16 && isa == RG_ISA_AMX) {
    all = &amx;
  }
  const double(*cost)[RG_PATH_TERMS] =
      (*all)[p->compute == RG_BF16 ? BF16 : F32][rg_weight_keeps(&p->b) ? KEPT : PLAIN];
  double least = rg_path_expected(cost[RG_GEMM_OWN], p, RG_GEMM_OWN) / LESS;
  int32_t best = RG_GEMM_OWN;

  for (int32_t path = RG_GEMM_ONEDNN; path <= RG_GEMM_OPENBLAS; path++) {
    if (path == RG_GEMM_OPENBLAS && (p->compute != RG_F32 || rg_blas_is_recent() == 0)) {
      continue;
    }
    double ns = rg_path_expected(cost[path], p, path);

    if (ns < least) {
      least = ns;
      best = path;
    }
  }
  return best;
}
