/* SPDX-License-Identifier: MIT */
/*
** Packing weights into panels of 32 columns, and keeping the packed form with the weight's storage
** until it is written to.
**
** f32: row l of a panel is 32 numbers.  bf16: 32 steps of the inner axis are two tiles of 16 rows,
** for 16 columns each; a row holds pairs of neighbouring steps, as TDPBF16PS reads them.
*/
#include <math.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/gemm.h"

enum { CHUNK = 64 }; /* steps converted together: 64 x 32 numbers stay in L1 */

int64_t rg_pack_depth(int32_t format, int64_t k)
{
  return format == RG_PACK_BF16 ? rg_round_up(k, RG_BF16_STEP) : k;
}

int64_t rg_pack_panel_bytes(int32_t format, int64_t k)
{
  return rg_pack_depth(format, k) * RG_PANEL * (format == RG_PACK_BF16 ? 2 : 4);
}

/* -- One panel ------------------------------------------------------------------------------ */

/* Steps k0 .. k0+kn of columns j .. j+cols of a matrix that is adjacent along k: convert runs, then
** transpose them. */
static void pack_transposed(const rg_piece *piece, int64_t k0, int64_t kn, int64_t j, int64_t cols,
                            float *out)
{
  const rg_gemm_kernels *kernels = rg_gemm_kernels_now();
  float rows[RG_PANEL * CHUNK];

  if (piece->dtype == RG_F32) {
    kernels->transpose(out, (const float *)piece->data + j * piece->col + k0, piece->col, kn, cols);
    return;
  }
  for (int64_t l = 0; l < kn; l += CHUNK) {
    int64_t n = rg_min_i64(CHUNK, kn - l);

    for (int64_t c = 0; c < cols; c++) {
      rg_run_f32(piece->data, piece->dtype, (j + c) * piece->col + k0 + l, 1, n, rows + c * CHUNK);
    }
    kernels->transpose(out + l * RG_PANEL, rows, CHUNK, n, cols);
  }
}

/* The usual case: rows of a whole panel, read in place. */
static void pack_rows(const rg_piece *piece, int64_t k0, int64_t kn, int64_t j, float *out)
{
  const float *from = (const float *)piece->data + k0 * piece->row + j;

  for (int64_t l = 0; l < kn; l++, from += piece->row, out += RG_PANEL) {
    __builtin_prefetch(from + 8 * piece->row, 0, 3);
    __builtin_prefetch(from + 8 * piece->row + 16, 0, 3);
    memcpy(out, from, RG_PANEL * sizeof(float));
  }
}

static void pack_f32(const rg_weight *w, int64_t panel, int64_t k0, int64_t kn, float *out)
{
  int64_t j = panel * RG_PANEL;
  int64_t cols = rg_min_i64(RG_PANEL, w->n - j);

  if (rg_weight_whole(w) && w->piece[0].dtype == RG_F32 && w->piece[0].col == 1 &&
      cols == RG_PANEL) {
    pack_rows(&w->piece[0], k0, kn, j, out);
    return;
  }
  if (rg_weight_whole(w) && w->piece[0].row == 1 && w->piece[0].col != 1) {
    pack_transposed(&w->piece[0], k0, kn, j, cols, out);
    return;
  }
  rg_weight_fetch(w, k0, kn, j, cols, out, RG_PANEL);
  if (cols < RG_PANEL) {
    for (int64_t l = 0; l < kn; l++) {
      memset(out + l * RG_PANEL + cols, 0, (size_t)(RG_PANEL - cols) * sizeof(float));
    }
  }
}

enum { TILE_STEP = 2 * RG_BF16_STEP * 16 }; /* numbers in the two tiles of one step */

/* bf16 that is adjacent along the columns: two rows at a time become pairs. */
static void pack_pairs(const rg_piece *piece, int64_t k0, int64_t kn, int64_t j, uint16_t *out)
{
  static const uint16_t zeros[RG_PANEL];
  const uint16_t *row = (const uint16_t *)piece->data + k0 * piece->row + j;
  int64_t padded = rg_pack_depth(RG_PACK_BF16, kn);

  for (int64_t l = 0; l < padded; l += 2, row += 2 * piece->row) {
    uint16_t *to = out + l / RG_BF16_STEP * TILE_STEP + l % RG_BF16_STEP * 16;

    rg_bf16_pack_pairs(l < kn ? row : zeros, l + 1 < kn ? row + piece->row : zeros, to,
                       to + TILE_STEP / 2);
  }
}

/* bf16 that is adjacent along k: neighbours are pairs already, which are transposed as whole words
** where they lie as such. */
static void pack_words(const rg_piece *piece, int64_t k0, int64_t kn, int64_t j, uint16_t *out)
{
  const rg_gemm_kernels *kernels = rg_gemm_kernels_now();
  const uint16_t *from = (const uint16_t *)piece->data + j * piece->col + k0;
  float transposed[RG_BF16_STEP / 2 * RG_PANEL];

  for (int64_t l = 0; l < kn; l += RG_BF16_STEP, out += TILE_STEP) {
    int64_t words = rg_min_i64(RG_BF16_STEP, kn - l) / 2;

    kernels->transpose(transposed, (const float *)(const void *)(from + l), piece->col / 2, words,
                       RG_PANEL);
    if (words < RG_BF16_STEP / 2) {
      memset(out, 0, TILE_STEP * sizeof(*out));
    }
    for (int64_t r = 0; r < words; r++) {
      memcpy(out + r * 32, transposed + r * RG_PANEL, 64);
      memcpy(out + TILE_STEP / 2 + r * 32, transposed + r * RG_PANEL + 16, 64);
    }
  }
}

/* Whole panels of bf16 need no detour through f32. */
static bool pack_direct(const rg_weight *w, int64_t panel, int64_t k0, int64_t kn, uint16_t *out)
{
  const rg_piece *piece = &w->piece[0];
  int64_t j = panel * RG_PANEL;

  if (!rg_weight_whole(w) || piece->dtype != RG_BF16 || j + RG_PANEL > w->n) {
    return false;
  }
  if (piece->col == 1) {
    pack_pairs(piece, k0, kn, j, out);
    return true;
  }
  if (piece->row == 1 && piece->col % 2 == 0 && kn % 2 == 0 &&
      ((uintptr_t)piece->data / 2 + (uintptr_t)k0) % 2 == 0) {
    pack_words(piece, k0, kn, j, out);
    return true;
  }
  return false;
}

static void pack_bf16(const rg_weight *w, int64_t panel, int64_t k0, int64_t kn, uint16_t *out)
{
  float rows[CHUNK * RG_PANEL];

  if (pack_direct(w, panel, k0, kn, out)) {
    return;
  }
  for (int64_t l = 0; l < kn; l += CHUNK) {
    int64_t n = rg_min_i64(CHUNK, kn - l);
    int64_t padded = rg_pack_depth(RG_PACK_BF16, n);

    pack_f32(w, panel, k0 + l, n, rows);
    memset(rows + n * RG_PANEL, 0, (size_t)(padded - n) * RG_PANEL * sizeof(float));
    for (int64_t s = 0; s < padded; s += RG_BF16_STEP, out += 2 * RG_BF16_STEP * 16) {
      for (int64_t r = 0; r < RG_BF16_STEP; r += 2) {
        rg_bf16_pack_rows(rows + (s + r) * RG_PANEL, rows + (s + r + 1) * RG_PANEL, out + r * 16,
                          out + RG_BF16_STEP * 16 + r * 16);
      }
    }
  }
}

void rg_pack_panel(const rg_weight *w, int32_t format, int64_t panel, int64_t k0, int64_t kn,
                   void *out)
{
  enum { STEPS = 1 << 16 }; /* between two looks at a request to stop */

  for (int64_t at = 0; at < kn && (at == 0 || !rg_interrupt_pending()); at += STEPS) {
    const int64_t n = rg_min_i64(STEPS, kn - at);
    char *to = (char *)out + rg_pack_panel_bytes(format, at);

    if (format == RG_PACK_BF16) {
      pack_bf16(w, panel, k0 + at, n, (uint16_t *)(void *)to);
    } else {
      pack_f32(w, panel, k0 + at, n, (float *)(void *)to);
    }
  }
}

/* -- Kept with the storage --------------------------------------------------------------------- */

typedef struct packed {
  rg_derived derived;
  rg_block block;
  float sign; /* of a matrix of signs */
} packed;

static void packed_release(rg_derived *derived)
{
  packed *self = (packed *)derived;

  if (self->block.data != NULL) {
    rg_block_free(&self->block);
  }
  rg_host_free(self);
}

static void key_of(const rg_weight *w, uint64_t what, uint64_t key[4])
{
  const rg_piece *piece = &w->piece[0];

  key[0] = what << 8 | (uint64_t)piece->dtype | 0x7061636b0000u;
  key[1] = (uint64_t)((const char *)piece->data - (const char *)piece->storage->block.data);
  key[2] = (uint64_t)w->k << 32 | (uint64_t)w->n;
  key[3] = (uint64_t)piece->row << 32 ^ (uint64_t)piece->col;
}

/* Begin a packed form of so many bytes. */
static rg_status begin(const rg_weight *w, const uint64_t key[4], int64_t bytes, packed **out)
{
  packed *self = rg_host_zeroed(sizeof(*self));
  rg_status status;

  if (self == NULL) {
    return rg_fail(RG_ENOMEM, "no memory to describe a packed weight");
  }
  memcpy(self->derived.key, key, sizeof(self->derived.key));
  self->derived.version = rg_storage_version(w->piece[0].storage);
  self->derived.release = packed_release;
  if (bytes > 0) {
    status = rg_block_alloc_shared(RG_CPU, bytes, &self->block);
    if (status != RG_OK) {
      rg_host_free(self);
      return status;
    }
    self->derived.bytes = self->block.bytes;
  }
  *out = self;
  return RG_OK;
}

typedef struct packing {
  const rg_weight *w;
  char *out;
  int64_t panel_bytes;
  int32_t format; /* below 0: signs */
} packing;

static bool pack_some(void *work, int64_t first, int64_t end)
{
  const packing *job = work;

  for (int64_t i = first; i < end; i++) {
    if (rg_interrupt_pending()) {
      return false;
    }
    if (job->format < 0) {
      rg_pack_signs(job->w, i, (uint32_t *)(void *)(job->out + i * job->panel_bytes));
    } else {
      rg_pack_panel(job->w, job->format, i, 0, job->w->k, job->out + i * job->panel_bytes);
    }
  }
  return true;
}

/* Pack all panels and keep them. */
static rg_status fill(const rg_weight *w, int32_t format, int64_t panel_bytes, int32_t n_threads,
                      packed *self)
{
  packing job = { .w = w, .out = self->block.data, .panel_bytes = panel_bytes, .format = format };
  rg_status status = rg_parallel(n_threads, (w->n + RG_PANEL - 1) / RG_PANEL, pack_some, &job);

  if (status != RG_OK) {
    packed_release(&self->derived);
    return status;
  }
  rg_derived_keep(w->piece[0].storage, &self->derived);
  return RG_OK;
}

rg_status rg_pack_get(const rg_weight *w, int32_t format, int32_t n_threads, const void **data)
{
  int64_t panels = (w->n + RG_PANEL - 1) / RG_PANEL;
  int64_t panel_bytes = rg_pack_panel_bytes(format, w->k);
  uint64_t key[4];
  packed *self;

  key_of(w, (uint64_t)format, key);
  self = (packed *)rg_derived_find(w->piece[0].storage, key);
  if (self == NULL) {
    RG_TRY(begin(w, key, rg_max_i64(panels * panel_bytes, 1), &self));
    RG_TRY(fill(w, format, panel_bytes, n_threads, self));
  }
  *data = self->block.data;
  return RG_OK;
}

/* -- Matrices of signs ------------------------------------------------------------------------- */

/* The one absolute value all elements have, else 0; 0 also at a request to stop. */
static float sign_of(const rg_weight *w)
{
  float run[256];
  float sign = 0;

  for (int64_t l = 0; l < w->k; l++) {
    if ((l & 63) == 63 && rg_interrupt_pending()) {
      return 0;
    }
    for (int64_t j = 0; j < w->n; j += 256) {
      int64_t n = rg_min_i64(256, w->n - j);
      bool all = true;

      rg_weight_fetch(w, l, 1, j, n, run, n);
      sign = sign > 0 ? sign : fabsf(run[0]);
      for (int64_t i = 0; i < n; i++) {
        all = all & (fabsf(run[i]) == sign);
      }
      if (!all || !(sign > 0) || isinf(sign)) {
        return 0;
      }
    }
  }
  return sign;
}

void rg_pack_signs(const rg_weight *w, int64_t panel, uint32_t *words)
{
  const rg_piece *piece = &w->piece[0];
  int64_t j = panel * RG_PANEL;
  int64_t cols = rg_min_i64(RG_PANEL, w->n - j);
  float run[RG_PANEL];

  for (int64_t l = 0; l < w->k; l++) {
    if (piece->sign > 0 && piece->col == 1) { /* bits already, in the same order */
      const uint8_t *byte = (const uint8_t *)piece->data + l * piece->row + j / 8;
      uint32_t word = 0;

      for (int64_t i = 0; i < (cols + 7) / 8; i++) {
        word |= (uint32_t)byte[i] << (8 * i);
      }
      words[l] = word;
      continue;
    }
    rg_weight_fetch(w, l, 1, j, cols, run, RG_PANEL);
    words[l] = 0;
    for (int64_t c = 0; c < cols; c++) {
      words[l] |= (uint32_t)(run[c] > 0) << c;
    }
  }
}

rg_status rg_pack_get_signs(const rg_weight *w, int32_t n_threads, const uint32_t **words,
                            float *sign)
{
  int64_t panels = (w->n + RG_PANEL - 1) / RG_PANEL;
  int64_t panel_bytes = w->k * (int64_t)sizeof(uint32_t);
  uint64_t key[4];
  packed *self;

  key_of(w, 0x7369676e, key); /* "sign" */
  self = (packed *)rg_derived_find(w->piece[0].storage, key);
  if (self == NULL) {
    float found = sign_of(w);

    if (rg_interrupt_pending()) {
      return rg_fail(RG_EINTR, "interrupted");
    }
    RG_TRY(begin(w, key, found > 0 ? panels * panel_bytes : 0, &self));
    self->sign = found;
    if (found > 0) {
      RG_TRY(fill(w, -1, panel_bytes, n_threads, self));
    } else {
      rg_derived_keep(w->piece[0].storage, &self->derived);
    }
  }
  *words = self->block.data;
  *sign = self->sign;
  return RG_OK;
}
