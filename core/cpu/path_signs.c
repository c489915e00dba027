/* SPDX-License-Identifier: MIT */
/*
** The way of products that have a part of fixed signs, c = epilogue(a b + f fixed): f brought into
** bf16, in f32 as three matrices that sum to it, then gemm_signs.c.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/path.h"

rg_status rg_product_is_signs(const rg_weight *w, bool *out)
{
  const uint32_t *words;
  float sign;

  RG_TRY(rg_pack_get_signs(w, rg_threads_for((double)w->k * (double)w->n), &words, &sign));
  *out = sign > 0;
  return RG_OK;
}

/* -- Converting f ----------------------------------------------------------------------------- */

enum { RUN = 512 };

static bool convert_rows(void *work, int64_t begin, int64_t end)
{
  const rg_ready *r = work;
  const rg_product *p = &r->p;
  const rg_gemm *g = &r->gemm;
  float run[RUN];

  for (int64_t i = begin; i < end && !rg_interrupt_pending(); i++) {
    uint16_t *to = (uint16_t *)r->a + i * g->ldf;

    for (int64_t l = 0; l < p->fixed.k; l += RUN) {
      int64_t n = rg_min_i64(RUN, p->fixed.k - l);
      const float *from = run;

      if (p->f_dtype == RG_F32 && p->f_col == 1) {
        from = (const float *)p->f + i * p->f_row + l;
      } else {
        rg_run_f32(p->f, p->f_dtype, i * p->f_row + l * p->f_col, p->f_col, n, run);
      }
      if (g->n_parts == 1) {
        rg_bf16_convert(from, to + l, n);
      } else {
        rg_amx_split(from, to + l, g->part, n);
      }
    }
    for (int32_t q = 0; q < g->n_parts; q++) {
      memset(to + q * g->part + p->fixed.k, 0, (size_t)(g->ldf - p->fixed.k) * 2);
    }
  }
  return true;
}

/* -- Running ----------------------------------------------------------------------------------- */

static rg_status refresh_fixed(rg_ready *r)
{
  const rg_weight *w = &r->p.fixed;
  uint64_t version;
  float sign;

  if (!rg_weight_keeps(w)) {
    return RG_OK;
  }
  version = rg_storage_version(w->piece[0].storage);
  if (r->gemm.words == NULL || version != r->version_fixed) {
    RG_TRY(rg_pack_get_signs(w, r->p.n_threads, &r->gemm.words, &sign));
    if (!(sign > 0)) {
      return rg_fail(RG_ENOSUP,
                     "a plan made for fixed signs of a sketched layer found other numbers "
                     "in their place; capture it again");
    }
    r->gemm.sign = sign;
    r->version_fixed = version;
  }
  return RG_OK;
}

static rg_status go_signs(rg_ready *r)
{
  rg_gemm *g = &r->gemm;
  const rg_product *p = &r->p;
  int32_t n = p->n_threads;

  RG_TRY(refresh_fixed(r));
  if (p->k > 0) {
    RG_TRY(rg_product_refresh(r));
    g->a = p->a;
  }
  if (r->a != NULL) {
    RG_TRY(rg_parallel(n, p->m, convert_rows, r));
    g->f = r->a;
  } else {
    g->f = p->f;
  }
  if (n <= 1) {
    rg_gemm_signs(g, 0, 1);
    return rg_product_if_whole();
  }
#pragma omp parallel for num_threads(n) schedule(static, 1)
  for (int32_t t = 0; t < n; t++) {
    rg_gemm_signs(g, t, n);
  }
  return rg_product_if_whole();
}

rg_status rg_product_prepare_signs(rg_ready *r)
{
  const rg_product *p = &r->p;
  rg_gemm *g = &r->gemm;
  bool pairs = p->compute == RG_BF16;
  int64_t depth = rg_pack_depth(RG_PACK_BF16, p->fixed.k);
  int64_t bytes = 0;

  r->format = pairs ? RG_PACK_BF16 : RG_PACK_F32;
  r->path = "own:signs";
  r->go = go_signs;
  *g = (rg_gemm){ .p = p,
                  .kernels = rg_gemm_kernels_now(),
                  .format = r->format,
                  .lda = p->a_row,
                  .n_parts = pairs ? 1 : 3,
                  .sign = (float)p->fixed.piece[0].sign };
  if (pairs && p->f_dtype == RG_BF16 && p->f_col == 1 && depth == p->fixed.k) {
    g->ldf = p->f_row;
  } else {
    g->ldf = depth;
    g->part = p->m * depth;
    bytes = rg_round_up(g->n_parts * g->part * 2, 64);
  }
  /* panels are expanded, and packed if they are not kept, by every thread that uses them */
  g->split_rows = p->n < p->n_threads * RG_PANEL;
  g->room_bytes = rg_round_up(rg_gemm_signs_room(g), 64);
  RG_TRY(rg_block_alloc(RG_CPU, bytes + g->room_bytes * p->n_threads, &r->scratch));
  r->a = bytes > 0 ? r->scratch.data : NULL;
  g->room = (char *)r->scratch.data + bytes;
  return RG_OK;
}
