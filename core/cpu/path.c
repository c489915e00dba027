/* SPDX-License-Identifier: MIT */
/*
** Which way a product takes, and making it ready.
**
** "auto" is what was measured for such a product in this process (choice.c), else what a rule
** expects of it (path_cost.c).  What the wanted way cannot do (f64 anywhere but in OpenBLAS) goes
** through OpenBLAS; the name of the way taken is in the trace either way.
*/
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/path.h"
#include "tensor/half.h"

/* -- The user's choice ---------------------------------------------------------------------- */

static const char *const path_names[RG_GEMM_COUNT] = { "auto", "onednn", "openblas", "own" };

rg_status rg_set_gemm_path(const char *path)
{
  for (int i = 0; path != NULL && i < RG_GEMM_COUNT; i++) {
    if (strcmp(path, path_names[i]) == 0) {
      rg_modes_of_process()->gemm = i;
      return RG_OK;
    }
  }
  return rg_fail(RG_EARG, "no way for products called \"%s\" (auto, onednn, openblas, own)",
                 path == NULL ? "(null)" : path);
}

const char *rg_gemm_name(int32_t path)
{
  return path >= 0 && path < RG_GEMM_COUNT ? path_names[path] : "?";
}

const char *rg_gemm_path(void)
{
  return rg_gemm_name(rg_modes_of_process()->gemm);
}

const char *rg_gemm_path_version(int32_t path)
{
  return path == RG_GEMM_ONEDNN     ? rg_dnnl_version()
         : path == RG_GEMM_OPENBLAS ? rg_blas_version()
         : path == RG_GEMM_OWN      ? rg_version()
                                    : "";
}

__attribute__((constructor)) static void read_environment(void)
{
  const char *path = getenv("RIDGE_GEMM");

  for (int i = 0; path != NULL && i < RG_GEMM_COUNT; i++) {
    if (strcmp(path, path_names[i]) == 0) {
      rg_modes_of_process()->gemm = i;
    }
  }
}

/* -- Preparing a ------------------------------------------------------------------------------- */

enum { TURN = 64 }; /* rows transposed together: 32 lines of 64 numbers stay in L1 */

/* The same for an a that is adjacent across its rows: 32 columns of it at a time, transposed. */
static void convert_transposed(const rg_ready *r, int64_t begin, int64_t end)
{
  const rg_product *p = &r->p;
  const rg_gemm_kernels *kernels = rg_gemm_kernels_now();
  bool pairs = r->format == RG_PACK_BF16;
  int64_t depth = r->gemm.lda;
  float lines[RG_PANEL * TURN];
  float transposed[TURN * RG_PANEL];

  for (int64_t i = begin; i < end && !rg_interrupt_pending(); i += TURN) {
    int64_t rows = rg_min_i64(TURN, end - i);

    for (int64_t l = 0; l < p->k; l += RG_PANEL) {
      int64_t n = rg_min_i64(RG_PANEL, p->k - l);

      if ((l & 65535) == 0 && rg_interrupt_pending()) {
        return;
      }
      if (p->a_dtype == RG_F32) {
        kernels->transpose(transposed, (const float *)p->a + i + l * p->a_col, p->a_col, rows, n);
      } else {
        for (int64_t k = 0; k < n; k++) {
          rg_run_f32(p->a, p->a_dtype, i + (l + k) * p->a_col, 1, rows, lines + k * TURN);
        }
        kernels->transpose(transposed, lines, TURN, rows, n);
      }
      for (int64_t k = 0; k < rows; k++) {
        int64_t at = (i + k) * depth + l;

        if (pairs) {
          rg_bf16_convert(transposed + k * RG_PANEL, (uint16_t *)r->a + at, n);
        } else {
          memcpy((float *)r->a + at, transposed + k * RG_PANEL, (size_t)n * sizeof(float));
        }
      }
    }
    for (int64_t k = 0; pairs && k < rows; k++) {
      memset((uint16_t *)r->a + (i + k) * depth + p->k, 0, (size_t)(depth - p->k) * 2);
    }
  }
}

/* Rows begin .. end of p.a, converted into r->a, rows gemm.lda apart and padded with zeros. */
static bool convert_rows(void *work, int64_t begin, int64_t end)
{
  const rg_ready *r = work;
  const rg_product *p = &r->p;
  bool pairs = r->format == RG_PACK_BF16;
  int64_t depth = r->gemm.lda;
  float some[512];

  if (p->a_row == 1 && p->a_col != 1) {
    convert_transposed(r, begin, end);
    return true;
  }
  for (int64_t i = begin; i < end && !rg_interrupt_pending(); i++) {
    if (!pairs) {
      rg_run_f32(p->a, p->a_dtype, i * p->a_row, p->a_col, p->k, (float *)r->a + i * depth);
      continue;
    }
    uint16_t *to = (uint16_t *)r->a + i * depth;
    for (int64_t l = 0; l < p->k; l += 512) {
      int64_t n = rg_min_i64(512, p->k - l);

      if (p->a_dtype == RG_BF16 && p->a_col == 1) {
        memcpy(to + l, (const uint16_t *)p->a + i * p->a_row + l, (size_t)n * 2);
      } else if (p->a_dtype == RG_F32 && p->a_col == 1) {
        rg_bf16_convert((const float *)p->a + i * p->a_row + l, to + l, n);
      } else {
        rg_run_f32(p->a, p->a_dtype, i * p->a_row + l * p->a_col, p->a_col, n, some);
        rg_bf16_convert(some, to + l, n);
      }
    }
    memset(to + p->k, 0, (size_t)(depth - p->k) * 2);
  }
  return true;
}

static rg_status convert_a(rg_ready *r)
{
  int32_t threads = rg_threads_for((double)r->p.m * (double)r->p.k);

  r->gemm.a = r->a;
  return rg_parallel(rg_min_i64(threads, r->p.n_threads) > 1 ? r->p.n_threads : 1, r->p.m,
                     convert_rows, r);
}

/* -- Own kernels ------------------------------------------------------------------------------- */

/* The weight may have been written to since it was packed. */
rg_status rg_product_refresh(rg_ready *r)
{
  const rg_piece *piece = &r->p.b.piece[0];
  uint64_t version;

  if (!rg_weight_keeps(&r->p.b)) {
    return RG_OK;
  }
  version = rg_storage_version(piece->storage);
  if (r->gemm.b == NULL || version != r->version) {
    RG_TRY(rg_pack_get(&r->p.b, r->format, r->p.n_threads, &r->gemm.b));
    r->version = version;
  }
  return RG_OK;
}

/* Panels begin .. end of a b that is not kept, for all threads. */
static bool pack_some(void *work, int64_t begin, int64_t end)
{
  const rg_ready *r = work;
  const rg_product *p = &r->p;

  for (int64_t panel = begin; panel < end && !rg_interrupt_pending(); panel++) {
    rg_pack_panel(&p->b, r->format, panel, 0, p->k,
                  (char *)r->b + panel * rg_pack_panel_bytes(r->format, p->k));
  }
  return true;
}

rg_status rg_product_if_whole(void)
{
  return rg_interrupt_pending() ? rg_fail(RG_EINTR, "interrupted") : RG_OK;
}

static rg_status go_own(rg_ready *r)
{
  const rg_gemm *g = &r->gemm;
  void (*run)(const rg_gemm *, int32_t, int32_t) = r->format != RG_PACK_BF16 ? rg_gemm_f32
                                                   : rg_amx_usable()         ? rg_gemm_amx
                                                                             : rg_gemm_bf16;

  RG_TRY(rg_product_refresh(r));
  if (r->a != NULL) {
    RG_TRY(convert_a(r));
  } else {
    r->gemm.a = r->p.a;
  }
  if (r->b != NULL) {
    RG_TRY(rg_parallel(r->p.n_threads, (r->p.n + RG_PANEL - 1) / RG_PANEL, pack_some, r));
    r->gemm.b = r->b;
  }
  if (r->p.n_threads <= 1) {
    run(g, 0, 1);
    return rg_product_if_whole();
  }
  int32_t n = r->p.n_threads;
#pragma omp parallel for num_threads(n) schedule(static, 1)
  for (int32_t t = 0; t < n; t++) {
    run(g, t, n);
  }
  return rg_product_if_whole();
}

enum {
  /* Steps up to which an a that is adjacent across its rows is read in place: beyond, its lines
  ** are gone before the next rows want them, and it is copied a block of rows at a time. */
  ACROSS_MOST = 256,
  ACROSS_SET = 4096 /* bytes: lines so far apart fall into one set of L1 */
};

static rg_status prepare_own(rg_ready *r)
{
  const rg_product *p = &r->p;
  rg_gemm *g = &r->gemm;
  bool pairs = p->compute == RG_BF16 && rg_bf16_usable();
  int32_t want = pairs ? RG_BF16 : RG_F32;
  int64_t bytes_a = 0;
  int64_t bytes_b = 0;

  r->format = pairs ? RG_PACK_BF16 : RG_PACK_F32;
  /* 16-bit floats that no kernel multiplies are computed in f32, and the trace says so */
  r->path = pairs                  ? rg_amx_usable() ? "own:amx" : "own:bf16"
            : p->c_dtype == RG_F32 ? "own"
                                   : "own:f32";
  r->go = go_own;
  *g = (rg_gemm){ .p = p, .kernels = rg_gemm_kernels_now(), .format = r->format };
  int64_t depth = rg_pack_depth(r->format, p->k);
  g->across = !pairs && p->a_dtype == RG_F32 && p->a_row == 1 && p->a_col != 1 && p->m > 1;
  g->blocks = g->across && (p->k > ACROSS_MOST || p->a_col % (ACROSS_SET / 4) == 0);
  if (g->across) {
    g->lda = p->a_col;
  } else if (p->a_dtype != want || (p->a_col != 1 && p->k > 1) || depth != p->k) {
    bytes_a = p->m * depth * (pairs ? 2 : 4);
    bytes_a = rg_round_up(bytes_a, 64);
    g->lda = depth;
  } else {
    g->lda = p->a_row;
  }
  /* Sharing the panels makes every thread read all of a, sharing the rows all of b; and a panel
  ** that is not kept is packed by whoever uses it, which is worth it where a is the larger one. */
  g->split_rows = p->n <= 2 * p->m &&
                  (rg_weight_keeps(&p->b) || p->n <= p->m || p->n < p->n_threads * RG_PANEL);
  if (g->blocks) {
    g->room_bytes = rg_gemm_block_bytes(p);
    bytes_b = rg_weight_keeps(&p->b)
                  ? 0
                  : (p->n + RG_PANEL - 1) / RG_PANEL * rg_pack_panel_bytes(r->format, p->k);
  } else if (!rg_weight_keeps(&p->b)) {
    g->room_bytes = rg_pack_panel_bytes(r->format, pairs ? p->k : rg_gemm_depth(p));
    g->room_bytes = rg_round_up(g->room_bytes, 64);
  }
  int64_t bytes = bytes_a + g->room_bytes * p->n_threads;
  if (bytes + bytes_b > 0) {
    RG_TRY(rg_block_alloc(RG_CPU, bytes + bytes_b, &r->scratch));
    r->a = bytes_a > 0 ? r->scratch.data : NULL;
    g->room = (char *)r->scratch.data + bytes_a;
    r->b = bytes_b > 0 ? (char *)r->scratch.data + bytes : NULL;
  }
  return RG_OK;
}

/* -- OpenBLAS ---------------------------------------------------------------------------------- */

static rg_status go_blas(rg_ready *r)
{
  return rg_product_blas(&r->p);
}

/* -- Fixed signs ------------------------------------------------------------------------------- */

bool rg_product_takes_signs(int32_t dtype)
{
  int32_t path = rg_modes_now()->gemm;

  return (dtype == RG_F32 || dtype == RG_BF16) && (path == RG_GEMM_AUTO || path == RG_GEMM_OWN) &&
         rg_amx_usable();
}

bool rg_product_adds(void)
{
  int32_t path = rg_modes_now()->gemm;

  return path == RG_GEMM_AUTO || path == RG_GEMM_OWN;
}

/* -- Choosing ---------------------------------------------------------------------------------- */

static rg_status go_nothing(rg_ready *r)
{
  (void)r;
  return RG_OK;
}

rg_status rg_product_prepare_path(rg_ready *r, int32_t path)
{
  rg_product *p = &r->p;

  r->taken = path;
  r->isa = rg_isa();
  if (path == RG_GEMM_OWN) {
    return rg_product_takes_row(p) ? rg_product_prepare_row(r) : prepare_own(r);
  }
  if (path == RG_GEMM_ONEDNN) {
    return rg_product_prepare_dnnl(r);
  }
  r->go = go_blas;
  r->path = p->c_dtype == RG_F32 || p->c_dtype == RG_F64 ? "openblas" : "openblas:f32";
  return RG_OK;
}

rg_status rg_product_prepare(rg_ready *r)
{
  rg_product *p = &r->p;
  int32_t path = rg_modes_now()->gemm;

  if (p->n_threads == 0) {
    p->n_threads = rg_threads_for(2.0 * (double)p->m * (double)p->n * (double)(p->k + p->fixed.k));
  }
  if (p->m == 0 || p->n == 0) {
    r->go = go_nothing;
    r->path = "";
    return RG_OK;
  }
  if (p->m == 1) {
    /* one row has no distance to a next one, but libraries check that rows do not overlap */
    p->a_row = rg_max_i64(p->a_row, p->k * rg_max_i64(p->a_col, 1));
    p->c_row = rg_max_i64(p->c_row, p->n);
  }
  r->by = RG_BY_ONLY;
  if (p->fixed.n > 0) {
    r->taken = RG_GEMM_OWN;
    r->isa = rg_isa();
    return rg_product_prepare_signs(r);
  }
  if (p->epilogue.adds) {
    r->taken = RG_GEMM_OWN;
    r->isa = rg_isa();
    return prepare_own(r);
  }
  if (p->compute == RG_F64 || p->k == 0) {
    return rg_product_prepare_path(r, RG_GEMM_OPENBLAS);
  }
  if (path == RG_GEMM_AUTO && atomic_load_explicit(&rg_choices_matter, memory_order_relaxed) != 0) {
    return rg_product_prepare_chosen(r);
  }
  r->by = path != RG_GEMM_AUTO                        ? RG_BY_FORCED
          : rg_modes_now()->device.deterministic != 0 ? RG_BY_PINNED
                                                      : RG_BY_EXPECTED;
  return rg_product_prepare_path(r, path == RG_GEMM_AUTO ? rg_product_default(p) : path);
}

void rg_product_done(rg_ready *r)
{
  if (r->scratch.data != NULL) {
    rg_block_free(&r->scratch);
    r->scratch.data = NULL;
  }
}

void rg_product_end(rg_ready *r)
{
  rg_product_done(r);
  if (r->stays) {
    rg_dnnl_release(r->dnnl);
  }
  r->dnnl = NULL;
}
