/* SPDX-License-Identifier: MIT */
/*
** Attention, forward: 512 queries pass over the keys together; a tile of 64 x 128 scores becomes
** weights while it is in L1 and is multiplied with the values at once.
**
** Dao: FlashAttention-2 (2023), algorithm 1.  What is computed together depends on the sizes alone,
** so results are the same for any number of threads.
*/
#include "cpu/attention.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "cpu/block.h"
#include "op/draw.h"
#include "op/list.h"

/* -- Which scores there are ------------------------------------------------------------------- */

rg_att rg_att_of(const rg_call *call)
{
  rg_att w = { .call = call,
               .s = rg_attention_sizes_of(call),
               .args = *(const rg_attention_args *)call->args,
               .mask = call->in[RG_ATT_MASK],
               .draw = call->draw };

  if (call->op->id == RG_OP_ATTENTION_DROPOUT_BACK) {
    const uint64_t *kept = call->in[RG_ATT_DRAW]->_data;

    w.draw = (rg_draw){ .seed = kept[0], .offset = kept[1] };
  }
  return w;
}

static bool block_at(const rg_att *w, int64_t row, int64_t col)
{
  return ((const uint8_t *)w->mask->_data)[row * w->mask->_stride[0] + col * w->mask->_stride[1]] !=
         0;
}

bool rg_att_sees(const rg_att *w, int64_t i, int64_t j)
{
  return (w->args.causal == 0 || j <= i) &&
         (w->mask == NULL || block_at(w, i / w->args.block, j / w->args.block));
}

int32_t rg_att_cover(const rg_att *w, const rg_att_tile *t)
{
  int64_t side = w->args.block;
  int64_t blocks = 0;
  int64_t there = 0;
  bool all = w->args.causal == 0 || t->k0 + t->nk - 1 <= t->q0;

  if (w->args.causal != 0 && t->k0 > t->q0 + t->nq - 1) {
    return RG_ATT_NONE;
  }
  for (int64_t row = t->q0 / side; w->mask != NULL && row * side < t->q0 + t->nq; row++) {
    for (int64_t col = t->k0 / side; col * side < t->k0 + t->nk; col++) {
      blocks++;
      there += block_at(w, row, col);
    }
  }
  return blocks > 0 && there == 0 ? RG_ATT_NONE : all && there == blocks ? RG_ATT_ALL : RG_ATT_SOME;
}

static void fill(float *x, int64_t from, int64_t to, float value)
{
  for (int64_t i = from; i < to; i++) {
    x[i] = value;
  }
}

/* A line of a tile: query i over its keys, or key j over its queries. */
static void hide_line(const rg_att *w, int64_t line, int64_t first, int64_t n, float *x,
                      bool transposed, float value)
{
  int64_t side = w->args.block;

  if (w->args.causal != 0 && transposed) {
    fill(x, 0, rg_min_i64(n, line - first), value);
  } else if (w->args.causal != 0) {
    fill(x, rg_max_i64(0, line + 1 - first), n, value);
  }
  for (int64_t b = first / side; w->mask != NULL && b * side < first + n; b++) {
    if (!(transposed ? block_at(w, b, line / side) : block_at(w, line / side, b))) {
      fill(x, rg_max_i64(0, b * side - first), rg_min_i64(n, (b + 1) * side - first), value);
    }
  }
}

void rg_att_hide(const rg_att *w, const rg_att_tile *t, float *x, int64_t ldx, bool transposed,
                 float value)
{
  for (int64_t r = 0; r < (transposed ? t->nk : t->nq); r++) {
    hide_line(w, (transposed ? t->k0 : t->q0) + r, transposed ? t->q0 : t->k0,
              transposed ? t->nq : t->nk, x + r * ldx, transposed, value);
  }
}

int64_t rg_att_keys(const rg_att *w, int64_t most)
{
  return w->mask != NULL ? rg_min_i64(most, RG_ATT_KEYS_MASKED) : most;
}

/* -- Dropout ---------------------------------------------------------------------------------- */

double rg_att_grown(const rg_att *w)
{
  return 1.0 / (1.0 - w->args.p);
}

void rg_att_numbers(const rg_att *w, int64_t head, int64_t i, int64_t j, uint32_t *to, int64_t n)
{
  const uint64_t at = (uint64_t)((head * w->s.n + i) * w->s.m + j);

  rg_simd()->random->numbers(w->draw.seed, w->draw.offset + at, to, n);
}

/* Zeros among the weights of a tile; what is kept grows at the end. */
static void drop(const rg_att *w, int64_t head, const rg_att_tile *t, float *x, int64_t ldx)
{
  uint32_t number[RG_ATT_KEYS];
  const double p = w->args.p;

  for (int64_t i = 0; i < t->nq; i++, x += ldx) {
    rg_att_numbers(w, head, t->q0 + i, t->k0, number, t->nk);
    for (int64_t j = 0; j < t->nk; j++) {
      x[j] = rg_draw_keeps(number[j], p) ? x[j] : 0;
    }
  }
}

/* -- Forward ---------------------------------------------------------------------------------- */

typedef struct forward {
  rg_att att;
  rg_block_form form;
  rg_tensor *y;
  float *lse; /* of each query; NULL: nobody wants it */
  char *scratch;
  int64_t room_bytes;
  atomic_int next_room;
} forward;

/* Where one thread works. */
typedef struct room {
  char *q;     /* [queries of a group x d] */
  char *k;     /* packed, [d x keys of a tile] */
  char *v;     /* packed, [keys x e] */
  char *p;     /* weights as a left factor */
  float *x;    /* scores, then weights, [queries of a tile x keys] */
  float *sums; /* [queries of a group x e padded] */
  float *most;
  float *sum;
  float *shrink;
} room;

static room room_of(forward *w)
{
  int64_t d = rg_round_up(w->att.s.d, RG_PANEL);
  int64_t e = rg_round_up(w->att.s.e, RG_PANEL);
  float *at = (float *)(void *)(w->scratch + atomic_fetch_add(&w->next_room, 1) * w->room_bytes);
  room r = { .q = (char *)at };

  at += RG_ATT_GROUP * d;
  r.k = (char *)at;
  at += RG_ATT_KEYS * d;
  r.v = (char *)at;
  at += RG_ATT_KEYS * e;
  r.p = (char *)at;
  at += RG_ATT_QUERIES * RG_ATT_KEYS;
  r.x = at;
  at += RG_ATT_QUERIES * RG_ATT_KEYS;
  r.sums = at;
  at += RG_ATT_GROUP * e;
  r.most = at;
  r.sum = at + RG_ATT_GROUP;
  r.shrink = at + 2 * RG_ATT_GROUP;
  return r;
}

/* x[i] op one number. */
static rg_loop *loop_of(int32_t op)
{
  return rg_simd()->binary->loop[op - RG_OP_ADD][RG_LANE_F32][RG_FORM_RUN_ONE];
}

/* One tile of scores of queries q .. of the group; keys and values are packed. */
static void add_tile(const forward *w, const room *r, int64_t head, int64_t q, const rg_att_tile *t,
                     int32_t cover)
{
  const rg_simd_attention *loops = rg_simd()->attention;
  rg_loop *times = loop_of(RG_OP_MUL);
  const rg_attention_sizes *s = &w->att.s;
  int64_t depth = rg_block_depth(w->form, s->d);
  int64_t keys = rg_round_up(t->nk, RG_PANEL);
  int64_t e = rg_round_up(s->e, RG_PANEL);
  float scale = (float)w->att.args.scale;
  float hidden = scale < 0 ? INFINITY : -INFINITY; /* times scale: exp(that) is 0 */

  rg_block_mul(w->form, t->nq, t->nk, s->d, r->q + q * depth * w->form.size, depth, r->k, r->x,
               keys, false);
  for (int64_t i = 0; i < t->nq; i++) {
    fill(r->x + i * keys, t->nk, keys, hidden);
  }
  if (cover == RG_ATT_SOME) {
    rg_att_hide(&w->att, t, r->x, keys, false, hidden);
  }
  loops->soften(r->x, keys, t->nq, keys, scale, w->form.format == RG_PACK_BF16, r->most + q,
                r->sum + q, r->shrink + q);
  if (w->att.args.p > 0) {
    drop(&w->att, head, t, r->x, keys);
  }
  for (int64_t i = 0; i < t->nq; i++) {
    float shrink = r->shrink[q + i];
    float *sums = r->sums + (q + i) * e;

    if (shrink != 1) {
      times(sums, sums, &shrink, e);
    }
  }
  rg_block_mul(w->form, t->nq, s->e, t->nk, rg_block_left(w->form, r->x, t->nq, keys, r->p), keys,
               r->v, r->sums + q * e, e, true);
}

/* Queries g0 .. g0+gn of a head over the keys of a tile. */
static void pass(const forward *w, const room *r, int64_t head, int64_t g0, int64_t gn, int64_t k0)
{
  const rg_call *call = w->att.call;
  int64_t nk = rg_min_i64(rg_att_keys(&w->att, RG_ATT_KEYS), w->att.s.m - k0);
  bool packed = false;

  for (int64_t q = 0; q < gn; q += RG_ATT_QUERIES) {
    rg_att_tile t = { g0 + q, rg_min_i64(RG_ATT_QUERIES, gn - q), k0, nk };
    int32_t cover = rg_att_cover(&w->att, &t);

    if (cover == RG_ATT_NONE) {
      continue;
    }
    if (!packed) {
      rg_matrix k = rg_matrix_from(rg_matrix_of(call->in[RG_ATT_K], head), k0);

      rg_block_pack(w->form, rg_matrix_transposed(k), w->att.s.d, nk, r->k);
      rg_block_pack(w->form, rg_matrix_from(rg_matrix_of(call->in[RG_ATT_V], head), k0), nk,
                    w->att.s.e, r->v);
      packed = true;
    }
    add_tile(w, r, head, q, &t, cover);
  }
}

/* Divide by the sums and store. */
static void finish(const forward *w, const room *r, int64_t head, int64_t g0, int64_t gn)
{
  rg_loop *times = loop_of(RG_OP_MUL);
  rg_matrix y = rg_matrix_of(w->y, head);
  int64_t e = rg_round_up(w->att.s.e, RG_PANEL);

  for (int64_t i = 0; i < gn; i++) {
    float *sums = r->sums + i * e;
    bool blind = r->sum[i] == 0; /* it sees no key */
    float scale = blind ? 0 : 1 / r->sum[i];

    if (w->att.args.p > 0) {
      scale *= (float)rg_att_grown(&w->att);
    }
    times(sums, sums, &scale, e);
    rg_matrix_store(y, g0 + i, sums, w->att.s.e);
    if (w->lse != NULL) {
      w->lse[head * w->att.s.n + g0 + i] = blind ? INFINITY : r->most[i] + logf(r->sum[i]);
    }
  }
}

static bool forward_job(void *work, int64_t begin, int64_t end)
{
  forward *w = work;
  const rg_attention_sizes *s = &w->att.s;
  room r = room_of(w);
  int64_t groups = (s->n + RG_ATT_GROUP - 1) / RG_ATT_GROUP;
  int64_t e = rg_round_up(s->e, RG_PANEL);
  bool done = true;

  rg_block_begin(w->form);
  for (int64_t item = begin; done && item < end; item++) {
    int64_t head = item / groups;
    int64_t g0 = item % groups * RG_ATT_GROUP;
    int64_t gn = rg_min_i64(RG_ATT_GROUP, s->n - g0);

    rg_block_rows(w->form, rg_matrix_from(rg_matrix_of(w->att.call->in[RG_ATT_Q], head), g0), gn,
                  s->d, r.q);
    memset(r.sums, 0, (size_t)(RG_ATT_GROUP * e) * sizeof(float));
    memset(r.sum, 0, RG_ATT_GROUP * sizeof(float));
    fill(r.most, 0, RG_ATT_GROUP, -INFINITY);
    for (int64_t k0 = 0; done && k0 < s->m; k0 += rg_att_keys(&w->att, RG_ATT_KEYS)) {
      pass(w, &r, head, g0, gn, k0);
      done = !rg_interrupt_pending();
    }
    finish(w, &r, head, g0, gn);
  }
  rg_block_end(w->form);
  return done;
}

rg_status rg_cpu_attention(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  forward w = { .att = rg_att_of(call), .y = out[0], .scratch = frame->scratch };
  const rg_attention_sizes *s = &w.att.s;

  if (call->out[0].dtype == RG_F64) {
    return rg_attention_direct(&w.att, out);
  }
  w.form = rg_block_form_of(call->out[0].dtype);
  w.lse = call->n_out > 1 ? out[1]->_data : NULL;
  w.room_bytes = rg_attention_room(s);
  if (out[0]->_count == 0 && w.lse == NULL) {
    return RG_OK;
  }
  frame->path = w.form.amx ? "tiles, amx" : w.form.format == RG_PACK_BF16 ? "tiles, bf16" : "tiles";
  int32_t threads =
      rg_threads_for(2.0 * (double)s->heads * (double)s->n * (double)s->m * (double)(s->d + s->e));
  threads = (int32_t)rg_min_i64(threads, call->scratch_bytes / w.room_bytes);
  return rg_parallel(threads, rg_attention_items(s), forward_job, &w);
}

rg_status rg_cpu_attention_dropout(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  rg_cpu_keep_draw(call, 2, out);
  return rg_cpu_attention(call, out, frame);
}
