/* SPDX-License-Identifier: MIT */
/*
** The way of one row times a matrix that is not kept packed and whose columns are adjacent in
** memory (x W' with W as it lies): dot products, because packing would read and write the matrix
** once more only to read it once.
*/
#include "cpu/cpu.h"
#include "cpu/path.h"

bool rg_product_takes_row(const rg_product *p)
{
  const rg_piece *piece = &p->b.piece[0];

  return p->m == 1 && p->fixed.n == 0 && rg_weight_whole(&p->b) && !rg_weight_keeps(&p->b) &&
         piece->row == 1 && (piece->dtype == RG_F32 || piece->dtype == RG_BF16);
}

static bool run_columns(void *work, int64_t begin, int64_t end)
{
  const rg_ready *r = work;
  const rg_product *p = &r->p;
  const rg_piece *piece = &p->b.piece[0];
  const rg_gemm_kernels *kernels = r->gemm.kernels;
  float sum[RG_PANEL];

  for (int64_t j = begin; j < end; j += RG_PANEL) {
    int64_t n = rg_min_i64(RG_PANEL, end - j);

    if (piece->dtype == RG_BF16) {
      kernels->dots_bf16(sum, r->gemm.a, (const uint16_t *)piece->data + j * piece->col, piece->col,
                         p->k, n);
    } else {
      kernels->dots(sum, r->gemm.a, (const float *)piece->data + j * piece->col, piece->col, p->k,
                    n);
    }
    rg_end_row(p, sum, 0, j, n);
  }
  return true;
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
