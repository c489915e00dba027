/* SPDX-License-Identifier: MIT */
/*
** The gradients of attention: a head at a time, tile by tile of 128 keys and 64 queries.
**
** Scores are transposed here, a key a row, so that of the five products of a tile four read their
** left factor in place (Dao: FlashAttention-2, 2023, algorithm 2; with D = sum(dy y) of a query):
**
**   S' = K Q'    P' = exp(scale S' - lse)    dV += P' dY
**   T' = V dY'   Z' = scale P' (T' - D)      dK += Z' Q     dQ' += K' Z'
**
** dQ' collects over all keys, for all queries of the head, and is transposed at the end.  What is
** added up is added by tiles in their order: the number of threads does not show.
*/
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "cpu/attention.h"
#include "cpu/block.h"
#include "op/draw.h"

typedef struct back {
  rg_att att;
  rg_block_form form;
  rg_tensor *const *out;
  char *scratch;
  int64_t room_bytes;
  atomic_int next_room;
} back;

/* Where one thread works.  Packed tiles of queries are of 64, all of the same size. */
typedef struct room {
  char *q_transposed; /* of each tile of queries: Q' packed, [d x queries] */
  char *dy_transposed;
  char *q; /* Q packed, [queries x d] */
  char *dy;
  float *dq;  /* [d x all queries] */
  float *lse; /* of all queries; inf behind the last */
  float *sum; /* sum(dy y) */
  char *k;    /* of a tile of keys: rows */
  char *v;
  char *k_transposed; /* [d x keys]; bf16 only */
  float *dk;
  float *dv;
  float *p; /* [keys x queries] */
  float *z;
  char *left;   /* one of them as a left factor */
  char *packed; /* one of them as a right factor */
} room;

static int64_t all_queries(const rg_attention_sizes *s)
{
  return rg_round_up(s->n, RG_ATT_BACK_QUERIES);
}

/* So many floats of the scratch. */
static float *take(float **at, int64_t n)
{
  float *from = *at;

  *at += n;
  return from;
}

static room room_of(back *w)
{
  int64_t d = rg_round_up(w->att.s.d, RG_PANEL);
  int64_t e = rg_round_up(w->att.s.e, RG_PANEL);
  int64_t n = all_queries(&w->att.s);
  /* f32 needs no K', bf16 half the bytes everywhere: what is packed both ways fits in the room of
  ** one in f32 */
  int64_t ways = w->form.format == RG_PACK_BF16 ? 1 : 2;
  float *at = (float *)(void *)(w->scratch + atomic_fetch_add(&w->next_room, 1) * w->room_bytes);
  room r;

  r.dq = take(&at, n * d);
  r.lse = take(&at, n);
  r.sum = take(&at, n);
  r.q = (char *)take(&at, n * d * ways / 2);
  r.q_transposed = (char *)take(&at, n * d * ways / 2);
  r.dy = (char *)take(&at, n * e * ways / 2);
  r.dy_transposed = (char *)take(&at, n * e * ways / 2);
  r.k = (char *)take(&at, RG_ATT_BACK_KEYS * d);
  r.k_transposed = (char *)take(&at, RG_ATT_BACK_KEYS * d);
  r.v = (char *)take(&at, RG_ATT_BACK_KEYS * e);
  r.dk = take(&at, RG_ATT_BACK_KEYS * d);
  r.dv = take(&at, RG_ATT_BACK_KEYS * e);
  r.p = take(&at, RG_ATT_BACK_KEYS * RG_ATT_BACK_QUERIES);
  r.z = take(&at, RG_ATT_BACK_KEYS * RG_ATT_BACK_QUERIES);
  r.left = (char *)take(&at, RG_ATT_BACK_KEYS * RG_ATT_BACK_QUERIES);
  r.packed = (char *)take(&at, RG_ATT_BACK_KEYS * RG_ATT_BACK_QUERIES);
  return r;
}

/* -- A head's queries ------------------------------------------------------------------------- */

/* Bytes of what is packed of a tile of queries with so many numbers each. */
static int64_t tile_bytes(const back *w, int64_t numbers)
{
  return RG_ATT_BACK_QUERIES * rg_round_up(numbers, RG_PANEL) * w->form.size;
}

static void pack_both(const back *w, rg_matrix x, int64_t tile, int64_t rows, int64_t numbers,
                      char *transposed, char *straight)
{
  int64_t at = tile * tile_bytes(w, numbers);

  x = rg_matrix_from(x, tile * RG_ATT_BACK_QUERIES);
  rg_block_pack(w->form, rg_matrix_transposed(x), numbers, rows, transposed + at);
  rg_block_pack(w->form, x, rows, numbers, straight + at);
}

/* sum(dy y) of a query. */
static float sum_of(rg_matrix dy, rg_matrix y, int64_t i, int64_t e)
{
  enum { RUN = 256 };
  float a[RUN];
  float b[RUN];
  double sum = 0;

  for (int64_t at = 0; at < e; at += RUN) {
    int64_t run = rg_min_i64(RUN, e - at);

    rg_run_f32(dy.data, dy.dtype, i * dy.row + at * dy.col, dy.col, run, a);
    rg_run_f32(y.data, y.dtype, i * y.row + at * y.col, y.col, run, b);
    sum += rg_simd()->norm->dot[0](a, b, run);
  }
  return (float)sum;
}

static void begin_head(const back *w, const room *r, int64_t head)
{
  const rg_call *call = w->att.call;
  const rg_attention_sizes *s = &w->att.s;
  rg_matrix q = rg_matrix_of(call->in[RG_ATT_Q], head);
  rg_matrix y = rg_matrix_of(call->in[RG_ATT_Y], head);
  rg_matrix dy = rg_matrix_of(call->in[RG_ATT_DY], head);
  const rg_tensor *lse = call->in[RG_ATT_LSE];
  rg_walk walk;
  rg_tile one;

  rg_walk_init(&walk, &lse, 1, lse->_shape, lse->_ndim);
  for (int64_t i = 0; i < all_queries(s); i++) {
    bool there = i < s->n;

    r->lse[i] =
        there ? *(const float *)rg_tile_load(&walk, 0, head * s->n + i, 1, RG_F32, &one) : INFINITY;
    r->sum[i] = there ? sum_of(dy, y, i, s->e) : 0;
  }
  for (int64_t tile = 0; tile * RG_ATT_BACK_QUERIES < s->n; tile++) {
    int64_t rows = rg_min_i64(RG_ATT_BACK_QUERIES, s->n - tile * RG_ATT_BACK_QUERIES);

    pack_both(w, q, tile, rows, s->d, r->q_transposed, r->q);
    pack_both(w, dy, tile, rows, s->e, r->dy_transposed, r->dy);
  }
  memset(r->dq, 0, (size_t)(all_queries(s) * rg_round_up(s->d, RG_PANEL)) * sizeof(float));
}

/* -- Tiles ------------------------------------------------------------------------------------ */

/* Which weights of a tile dropout keeps: a bit for each query, of each key. */
static void kept_of(const back *w, int64_t head, const rg_att_tile *t, uint64_t *kept)
{
  uint32_t number[RG_ATT_BACK_KEYS];
  const double p = w->att.args.p;

  memset(kept, 0, RG_ATT_BACK_KEYS * sizeof(*kept));
  for (int64_t i = 0; i < t->nq; i++) {
    rg_att_numbers(&w->att, head, t->q0 + i, t->k0, number, t->nk);
    for (int64_t j = 0; j < t->nk; j++) {
      kept[j] |= (uint64_t)rg_draw_keeps(number[j], p) << i;
    }
  }
}

/* y = x with zeros where a weight is dropped, and grown elsewhere. */
static void drop(const back *w, const uint64_t *kept, int64_t keys, const float *x, float *y)
{
  float grown = (float)rg_att_grown(&w->att);

  for (int64_t j = 0; j < keys; j++) {
    for (int64_t i = 0; i < RG_ATT_BACK_QUERIES; i++) {
      int64_t at = j * RG_ATT_BACK_QUERIES + i;

      y[at] = (kept[j] >> i & 1) != 0 ? x[at] * grown : 0;
    }
  }
}

/* With dropout M' of the weights: dV += (M' P') dY, and T' becomes M' T'. */
static void tile(const back *w, const room *r, int64_t head, const rg_att_tile *t, int32_t cover)
{
  const rg_simd_attention *loops = rg_simd()->attention;
  const rg_attention_sizes *s = &w->att.s;
  rg_block_form f = w->form;
  float scale = (float)w->att.args.scale;
  int64_t number = t->q0 / RG_ATT_BACK_QUERIES;
  int64_t cols = RG_ATT_BACK_QUERIES;
  int64_t d = rg_block_depth(f, s->d);
  int64_t e = rg_block_depth(f, s->e);
  int64_t keys = f.format == RG_PACK_BF16 ? rg_round_up(t->nk, RG_PANEL) : t->nk;
  rg_matrix z = { .data = r->z, .row = cols, .col = 1, .dtype = RG_F32 };
  uint64_t kept[RG_ATT_BACK_KEYS];
  const bool drops = w->att.args.p > 0;
  const float *p = r->p;

  if (t->nq <= RG_PANEL) { /* the panel behind was not packed: its weights are to be 0 */
    memset(r->p, 0, (size_t)(RG_ATT_BACK_KEYS * cols) * sizeof(float));
    memset(r->z, 0, (size_t)(RG_ATT_BACK_KEYS * cols) * sizeof(float));
  }
  rg_block_mul(f, keys, t->nq, s->d, r->k, d, r->q_transposed + number * tile_bytes(w, s->d), r->p,
               cols, false);
  loops->weights(r->p, keys, cols, scale, r->lse + t->q0);
  memset(r->p + t->nk * cols, 0, (size_t)((keys - t->nk) * cols) * sizeof(float));
  if (cover == RG_ATT_SOME) {
    rg_att_hide(&w->att, t, r->p, cols, true, 0);
  }
  if (drops) {
    kept_of(w, head, t, kept);
    drop(w, kept, keys, r->p, r->z); /* where Z' will be */
    p = r->z;
  }
  rg_block_mul(f, keys, s->e, t->nq, rg_block_left(f, p, keys, cols, r->left), cols,
               r->dy + number * tile_bytes(w, s->e), r->dv, rg_round_up(s->e, RG_PANEL), true);
  rg_block_mul(f, keys, t->nq, s->e, r->v, e, r->dy_transposed + number * tile_bytes(w, s->e), r->z,
               cols, false);
  if (drops) {
    drop(w, kept, keys, r->z, r->z);
  }
  loops->slopes(r->z, r->p, keys, cols, scale, r->sum + t->q0);
  rg_block_mul(f, keys, s->d, t->nq, rg_block_left(f, r->z, keys, cols, r->left), cols,
               r->q + number * tile_bytes(w, s->d), r->dk, rg_round_up(s->d, RG_PANEL), true);
  rg_block_pack(f, z, t->nk, cols, r->packed);
  if (f.format == RG_PACK_BF16) {
    rg_block_mul(f, rg_round_up(s->d, RG_PANEL), cols, t->nk, r->k_transposed,
                 rg_round_up(t->nk, RG_PANEL), r->packed, r->dq + t->q0, all_queries(s), true);
  } else {
    rg_block_mul_across(s->d, cols, t->nk, (const float *)(const void *)r->k, d,
                        (const float *)(const void *)r->packed, r->dq + t->q0, all_queries(s));
  }
}

static void keys(const back *w, const room *r, int64_t head, int64_t k0)
{
  const rg_attention_sizes *s = &w->att.s;
  int64_t nk = rg_min_i64(rg_att_keys(&w->att, RG_ATT_BACK_KEYS), s->m - k0);
  rg_matrix k = rg_matrix_from(rg_matrix_of(w->att.call->in[RG_ATT_K], head), k0);
  rg_matrix v = rg_matrix_from(rg_matrix_of(w->att.call->in[RG_ATT_V], head), k0);
  rg_matrix dk = rg_matrix_of(w->out[1], head);
  rg_matrix dv = rg_matrix_of(w->out[2], head);

  rg_block_rows(w->form, k, nk, s->d, r->k);
  rg_block_rows(w->form, v, nk, s->e, r->v);
  if (w->form.format == RG_PACK_BF16) {
    rg_block_rows(w->form, rg_matrix_transposed(k), s->d, nk, r->k_transposed);
  }
  memset(r->dk, 0, (size_t)(RG_ATT_BACK_KEYS * rg_round_up(s->d, RG_PANEL)) * sizeof(float));
  memset(r->dv, 0, (size_t)(RG_ATT_BACK_KEYS * rg_round_up(s->e, RG_PANEL)) * sizeof(float));
  for (int64_t q0 = 0; q0 < s->n; q0 += RG_ATT_BACK_QUERIES) {
    rg_att_tile t = { q0, rg_min_i64(RG_ATT_BACK_QUERIES, s->n - q0), k0, nk };
    int32_t cover = rg_att_cover(&w->att, &t);

    if (cover != RG_ATT_NONE) {
      tile(w, r, head, &t, cover);
    }
  }
  for (int64_t j = 0; j < nk; j++) {
    rg_matrix_store(dk, k0 + j, r->dk + j * rg_round_up(s->d, RG_PANEL), s->d);
    rg_matrix_store(dv, k0 + j, r->dv + j * rg_round_up(s->e, RG_PANEL), s->e);
  }
}

/* dQ' into dQ. */
static void end_head(const back *w, const room *r, int64_t head)
{
  const rg_attention_sizes *s = &w->att.s;
  rg_matrix dq = rg_matrix_of(w->out[0], head);
  int64_t d = rg_round_up(s->d, RG_PANEL);
  float *panel = r->p; /* free again */

  for (int64_t i = 0; i < s->n; i += RG_PANEL) {
    int64_t rows = rg_min_i64(RG_PANEL, s->n - i);

    for (int64_t j = 0; j < d; j += RG_PANEL) { /* [32 of d x 32 queries], transposed */
      rg_gemm_kernels_now()->transpose(panel, r->dq + j * all_queries(s) + i, all_queries(s), rows,
                                       RG_PANEL);
      for (int64_t row = 0; row < rows; row++) {
        rg_matrix part = dq;

        part.data = (char *)part.data + j * part.col * rg_dtype_bytes(part.dtype);
        rg_matrix_store(part, i + row, panel + row * RG_PANEL, rg_min_i64(RG_PANEL, s->d - j));
      }
    }
  }
}

static bool back_job(void *work, int64_t begin, int64_t end)
{
  back *w = work;
  room r = room_of(w);
  bool done = true;

  rg_block_begin(w->form);
  for (int64_t head = begin; done && head < end; head++) {
    begin_head(w, &r, head);
    for (int64_t k0 = 0; done && k0 < w->att.s.m; k0 += rg_att_keys(&w->att, RG_ATT_BACK_KEYS)) {
      keys(w, &r, head, k0);
      done = !rg_interrupt_pending();
    }
    end_head(w, &r, head);
  }
  rg_block_end(w->form);
  return done;
}

rg_status rg_cpu_attention_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  back w = { .att = rg_att_of(call), .out = out, .scratch = frame->scratch };
  const rg_attention_sizes *s = &w.att.s;

  if (call->out[0].dtype == RG_F64) {
    return rg_attention_back_direct(&w.att, out);
  }
  w.form = rg_block_form_of(call->out[0].dtype);
  w.room_bytes = rg_attention_back_room(s);
  frame->path = w.form.amx ? "tiles, amx" : w.form.format == RG_PACK_BF16 ? "tiles, bf16" : "tiles";
  int32_t threads = rg_threads_for(2.0 * (double)s->heads * (double)s->n * (double)s->m *
                                   (3.0 * (double)s->d + 2.0 * (double)s->e));
  threads = (int32_t)rg_min_i64(threads, call->scratch_bytes / w.room_bytes);
  return rg_parallel(threads, s->heads, back_job, &w);
}

rg_status rg_cpu_attention_dropout_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return rg_cpu_attention_back(call, out, frame);
}
