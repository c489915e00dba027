/* SPDX-License-Identifier: MIT */
/*
** Packing weights into panels of 32 columns, and keeping the packed form with the weight's storage
** until it is written to.
**
** f32: row l of a panel is 32 numbers.  bf16: 32 steps of the inner axis are two tiles of 16 rows,
** for 16 columns each; a row holds pairs of neighbouring steps, as TDPBF16PS reads them.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/gemm.h"

enum { CHUNK = 64 }; /* steps converted together: 64 x 32 numbers stay in the first cache */

int64_t rg_pack_depth(int32_t format, int64_t k)
{
  return format == RG_PACK_BF16 ? (k + RG_AMX_STEP - 1) / RG_AMX_STEP * RG_AMX_STEP : k;
}

int64_t rg_pack_panel_bytes(int32_t format, int64_t k)
{
  return rg_pack_depth(format, k) * RG_PANEL * (format == RG_PACK_BF16 ? 2 : 4);
}

/* -- One panel ------------------------------------------------------------------------------ */

/* Steps k0 .. k0+kn of columns j .. j+cols of a matrix that is adjacent along k: convert runs, then
** turn them. */
static void pack_turned(const rg_piece *piece, int64_t k0, int64_t kn, int64_t j, int64_t cols,
                        float *out)
{
  const rg_gemm_kernels *kernels = rg_gemm_kernels_now();
  float rows[RG_PANEL * CHUNK];

  if (piece->dtype == RG_F32) {
    kernels->turn(out, (const float *)piece->data + j * piece->col + k0, piece->col, kn, cols);
    return;
  }
  for (int64_t l = 0; l < kn; l += CHUNK) {
    int64_t n = rg_min_i64(CHUNK, kn - l);

    for (int64_t c = 0; c < cols; c++) {
      rg_run_f32(piece->data, piece->dtype, (j + c) * piece->col + k0 + l, 1, n,
                 rows + c * CHUNK);
    }
    kernels->turn(out + l * RG_PANEL, rows, CHUNK, n, cols);
  }
}

static void pack_f32(const rg_weight *w, int64_t panel, int64_t k0, int64_t kn, float *out)
{
  int64_t j = panel * RG_PANEL;
  int64_t cols = rg_min_i64(RG_PANEL, w->n - j);

  if (rg_weight_whole(w) && w->piece[0].row == 1 && w->piece[0].col != 1) {
    pack_turned(&w->piece[0], k0, kn, j, cols, out);
    return;
  }
  rg_weight_fetch(w, k0, kn, j, cols, out, RG_PANEL);
  if (cols < RG_PANEL) {
    for (int64_t l = 0; l < kn; l++) {
      memset(out + l * RG_PANEL + cols, 0, (size_t)(RG_PANEL - cols) * sizeof(float));
    }
  }
}

static void pack_bf16(const rg_weight *w, int64_t panel, int64_t k0, int64_t kn, uint16_t *out)
{
  float rows[CHUNK * RG_PANEL];

  for (int64_t l = 0; l < kn; l += CHUNK) {
    int64_t n = rg_min_i64(CHUNK, kn - l);
    int64_t padded = rg_pack_depth(RG_PACK_BF16, n);

    pack_f32(w, panel, k0 + l, n, rows);
    memset(rows + n * RG_PANEL, 0, (size_t)(padded - n) * RG_PANEL * sizeof(float));
    for (int64_t s = 0; s < padded; s += RG_AMX_STEP, out += 2 * RG_AMX_STEP * 16) {
      for (int64_t r = 0; r < RG_AMX_STEP; r += 2) {
        rg_amx_pack_rows(rows + (s + r) * RG_PANEL, rows + (s + r + 1) * RG_PANEL, out + r * 16,
                         out + RG_AMX_STEP * 16 + r * 16);
      }
    }
  }
}

void rg_pack_panel(const rg_weight *w, int32_t format, int64_t panel, int64_t k0, int64_t kn,
                   void *out)
{
  if (format == RG_PACK_BF16) {
    pack_bf16(w, panel, k0, kn, out);
  } else {
    pack_f32(w, panel, k0, kn, out);
  }
}

/* -- Kept with the storage --------------------------------------------------------------------- */

typedef struct packed {
  rg_derived derived;
  rg_block block;
} packed;

static void packed_release(rg_derived *derived)
{
  packed *self = (packed *)derived;

  rg_block_free(&self->block);
  rg_host_free(self);
}

typedef struct packing {
  const rg_weight *w;
  char *out;
  int64_t panel_bytes;
  int32_t format;
} packing;

static bool pack_some(void *work, int64_t begin, int64_t end)
{
  const packing *job = work;

  for (int64_t i = begin; i < end; i++) {
    rg_pack_panel(job->w, job->format, i, 0, job->w->k, job->out + i * job->panel_bytes);
  }
  return true;
}

rg_status rg_pack_get(const rg_weight *w, int32_t format, int32_t n_threads, const void **data)
{
  const rg_piece *piece = &w->piece[0];
  int64_t offset = (const char *)piece->data - (const char *)piece->storage->block.data;
  const uint64_t key[4] = { (uint64_t)format << 8 | (uint64_t)piece->dtype | 0x7061636b0000u,
                            (uint64_t)offset, (uint64_t)w->k << 32 | (uint64_t)w->n,
                            (uint64_t)piece->row << 32 ^ (uint64_t)piece->col };
  packed *self = (packed *)rg_derived_find(piece->storage, key);

  if (self == NULL) {
    int64_t panels = (w->n + RG_PANEL - 1) / RG_PANEL;
    packing job = { .w = w, .panel_bytes = rg_pack_panel_bytes(format, w->k), .format = format };
    rg_status status;

    self = rg_host_zeroed(sizeof(*self));
    if (self == NULL) {
      return rg_fail(RG_ENOMEM, "no memory to describe a packed weight");
    }
    memcpy(self->derived.key, key, sizeof(key));
    self->derived.version = rg_storage_version(piece->storage);
    self->derived.release = packed_release;
    status = rg_block_alloc_shared(RG_CPU, rg_max_i64(panels * job.panel_bytes, 1), &self->block);
    if (status != RG_OK) {
      rg_host_free(self);
      return status;
    }
    self->derived.bytes = self->block.bytes;
    job.out = self->block.data;
    status = rg_parallel(n_threads, panels, pack_some, &job);
    if (status != RG_OK) {
      packed_release(&self->derived);
      return status;
    }
    rg_derived_keep(piece->storage, &self->derived);
  }
  *data = self->block.data;
  return RG_OK;
}
