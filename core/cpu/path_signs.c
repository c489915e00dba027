/* SPDX-License-Identifier: MIT */
/*
** The way of products that have a part of fixed signs, c = end(a b + f fixed): f split into three
** matrices in bf16, then gemm_signs.c.
*/
#include "cpu/cpu.h"
#include "cpu/path.h"

static int64_t rounded(int64_t bytes)
{
  return (bytes + 63) / 64 * 64;
}

rg_status rg_product_is_signs(const rg_weight *w, bool *out)
{
  const void *data;
  float sign;

  RG_TRY(rg_pack_get_signs(w, rg_threads_for((double)w->k * (double)w->n), &data, &sign));
  *out = sign > 0;
  return RG_OK;
}

/* -- Splitting f ------------------------------------------------------------------------------ */

enum { RUN = 512 };

static bool split_rows(void *work, int64_t begin, int64_t end)
{
  const rg_ready *r = work;
  const rg_product *p = &r->p;
  int64_t depth = rg_pack_depth(RG_PACK_BF16, p->fixed.k);
  int64_t part = p->m * depth;
  float run[RUN];

  for (int64_t i = begin; i < end; i++) {
    uint16_t *to = (uint16_t *)r->a + i * depth;

    for (int64_t l = 0; l < p->fixed.k; l += RUN) {
      int64_t n = rg_min_i64(RUN, p->fixed.k - l);
      const float *from = run;

      if (p->f_dtype == RG_F32 && p->f_col == 1) {
        from = (const float *)p->f + i * p->f_row + l;
      } else {
        rg_run_f32(p->f, p->f_dtype, i * p->f_row + l * p->f_col, p->f_col, n, run);
      }
      rg_amx_split(from, to + l, part, n);
    }
    for (int64_t l = p->fixed.k; l < depth; l++) {
      to[l] = to[l + part] = to[l + 2 * part] = 0;
    }
  }
  return true;
}

/* -- Running ------------------------------------------------------------------------------------ */

static rg_status refresh_fixed(rg_ready *r)
{
  const rg_weight *w = &r->p.fixed;
  uint64_t version;
  float sign;

  if (!rg_weight_keeps(w)) {
    return RG_OK;
  }
  version = rg_storage_version(w->piece[0].storage);
  if (r->gemm.fixed == NULL || version != r->version_fixed) {
    RG_TRY(rg_pack_get_signs(w, r->p.n_threads, &r->gemm.fixed, &sign));
    if (!(sign > 0)) {
      return rg_fail(RG_ENOSUP, "a plan made for fixed signs of a sketched layer found other numbers "
                                "in their place; capture it again");
    }
    r->gemm.sign = sign;
    r->version_fixed = version;
  }
  return RG_OK;
}

static rg_status go_signs(rg_ready *r)
{
  const rg_gemm *g = &r->gemm;
  const rg_product *p = &r->p;
  int32_t n = p->n_threads;

  RG_TRY(refresh_fixed(r));
  if (p->k > 0) {
    RG_TRY(rg_product_refresh(r));
    r->gemm.a = p->a;
  }
  RG_TRY(rg_parallel(n, p->m, split_rows, r));
  if (n <= 1) {
    rg_gemm_signs(g, 0, 1);
    return RG_OK;
  }
#pragma omp parallel for num_threads(n) schedule(static, 1)
  for (int32_t t = 0; t < n; t++) {
    rg_gemm_signs(g, t, n);
  }
  return RG_OK;
}

rg_status rg_product_prepare_signs(rg_ready *r)
{
  const rg_product *p = &r->p;
  rg_gemm *g = &r->gemm;
  int64_t bytes = rounded(3 * p->m * rg_pack_depth(RG_PACK_BF16, p->fixed.k) * 2);

  r->format = RG_PACK_F32;
  r->path = "own:signs";
  r->go = go_signs;
  *g = (rg_gemm){ .p = p,
                  .kernels = rg_gemm_kernels_now(),
                  .format = RG_PACK_F32,
                  .lda = p->a_row,
                  .sign = p->fixed.piece[0].sign };
  g->split_rows = p->n <= 2 * p->m;
  if (!rg_weight_keeps(&p->fixed)) {
    g->room_bytes += rg_pack_panel_bytes(RG_PACK_BF16, p->fixed.k);
    g->split_rows = false;
  }
  if (p->k > 0 && !rg_weight_keeps(&p->b)) {
    g->room_bytes += rg_pack_panel_bytes(RG_PACK_F32, p->k);
    g->split_rows = false;
  }
  RG_TRY(rg_block_alloc(RG_CPU, bytes + rounded(g->room_bytes) * p->n_threads, &r->scratch));
  g->room_bytes = rounded(g->room_bytes);
  r->a = r->scratch.data;
  g->parts = r->a;
  g->room = (char *)r->scratch.data + bytes;
  return RG_OK;
}
