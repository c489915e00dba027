/* SPDX-License-Identifier: MIT */
/*
** One row times a matrix that is not kept packed and whose columns are adjacent in
** memory (x W' with W in place): dot products, because packing would read and write the matrix
** once more only to read it once.  8-bit floats are widened a run at a time on the way.
*/
#include "cpu/cpu.h"
#include "cpu/path.h"

enum { RUN = 1024 };

static bool is_eight(int32_t dtype)
{
  return dtype == RG_F8E4M3 || dtype == RG_F8E5M2;
}

bool rg_product_takes_row(const rg_product *p)
{
  const rg_piece *piece = &p->b.piece[0];

  return p->m == 1 && p->fixed.n == 0 && rg_weight_whole(&p->b) && !rg_weight_keeps(&p->b) &&
         piece->row == 1 &&
         (piece->dtype == RG_F32 || piece->dtype == RG_BF16 || is_eight(piece->dtype));
}

/* Columns j .. j+n of 8-bit floats, four at a time, widened in runs that stay in
** L1. */
static void dots_eight(const rg_ready *r, int64_t j, int64_t n, float *sum)
{
  const rg_product *p = &r->p;
  const rg_piece *piece = &p->b.piece[0];
  const rg_gemm_kernels *kernels = r->gemm.kernels;
  float some[4 * RUN];
  float part[4];

  for (int64_t c = 0; c < n; c += 4) {
    int64_t cols = rg_min_i64(4, n - c);

    for (int64_t l = 0; l < p->k; l += RUN) {
      int64_t run = rg_min_i64(RUN, p->k - l);

      for (int64_t i = 0; i < cols; i++) {
        rg_run_f32(piece->data, piece->dtype, (j + c + i) * piece->col + l, 1, run, some + i * RUN);
      }
      kernels->dots(part, (const float *)r->gemm.a + l, some, RUN, run, cols);
      for (int64_t i = 0; i < cols; i++) {
        sum[c + i] = (l > 0 ? sum[c + i] : 0) + part[i];
      }
    }
  }
}

static bool run_columns(void *work, int64_t begin, int64_t end)
{
  const rg_ready *r = work;
  const rg_product *p = &r->p;
  const rg_piece *piece = &p->b.piece[0];
  const rg_gemm_kernels *kernels = r->gemm.kernels;
  float sum[RG_PANEL];

  for (int64_t j = begin; j < end && !rg_interrupt_pending(); j += RG_PANEL) {
    int64_t n = rg_min_i64(RG_PANEL, end - j);

    if (is_eight(piece->dtype)) {
      dots_eight(r, j, n, sum);
    } else if (piece->dtype == RG_BF16) {
      kernels->dots_bf16(sum, r->gemm.a, (const uint16_t *)piece->data + j * piece->col, piece->col,
                         p->k, n);
    } else {
      kernels->dots(sum, r->gemm.a, (const float *)piece->data + j * piece->col, piece->col, p->k,
                    n);
    }
    rg_epilogue_row(p, sum, 0, j, n);
  }
  return !rg_interrupt_pending();
}

static rg_status go_row(rg_ready *r)
{
  const rg_product *p = &r->p;

  r->gemm.a = p->a;
  if (r->a != NULL) {
    rg_run_f32(p->a, p->a_dtype, 0, p->a_col, p->k, r->a);
    r->gemm.a = r->a;
  }
  return rg_parallel(p->n_threads, p->n, run_columns, r);
}

rg_status rg_product_prepare_row(rg_ready *r)
{
  const rg_product *p = &r->p;

  r->path = "own:row";
  r->go = go_row;
  r->gemm = (rg_gemm){ .p = p, .kernels = rg_gemm_kernels_now() };
  if (p->a_dtype != RG_F32 || p->a_col != 1) {
    RG_TRY(rg_block_alloc(RG_CPU, p->k * (int64_t)sizeof(float), &r->scratch));
    r->a = r->scratch.data;
  }
  return RG_OK;
}
