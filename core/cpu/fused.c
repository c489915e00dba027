/* SPDX-License-Identifier: MIT */
/*
** Fused chains on the CPU: all links over one block of elements, which stays in L1, before the next
** block is begun.
**
** Each link runs the very loop that its operation runs over a whole tensor (elementwise.c), with
** its second operand in the same form: side by side, or one element for a run.  Which of two nans
** comes out of a sum is the choice of that loop, so the bits are those of one operation after the
** other.  Loops are given whole blocks, of a multiple of the longest vector, but for the tensor's
** last one, so that an element is in a loop's rest where it is in the rest of the whole tensor's.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "op/act.h"
#include "op/binary.h"
#include "op/fused.h"
#include "op/unary.h"

enum {
  BLOCK_BYTES = 8192, /* of f32 or f64: the value, an operand and what is read and written */
  PIECE = 16384,      /* elements between two looks at the interrupt flag: whole blocks */
  SHORTEST_RUN = 32,  /* as in elementwise.c: below it the element is repeated for each */
  LONG_ROW = 256      /* elements: shorter ones are copied, so that a loop runs over many */
};

/* A tensor of the chain: element i is at i / div % mod. */
typedef struct operand {
  char *data;
  int64_t div;
  int64_t mod;
  int64_t run; /* elements in a row that are contiguous, or one */
  int32_t dtype;
  int32_t size;
  bool still; /* they are one */
} operand;

/* What a link needs beyond itself. */
typedef struct prepared {
  rg_loop *const *loop; /* by form; NULL: a cast */
  rg_lane_value number;
  int32_t second; /* FORM_...: how the second operand comes */
  bool rounds;    /* to its narrow type, because the value goes on */
} prepared;

enum { FORM_NONE, FORM_NUMBER, FORM_VALUE, FORM_RUN, FORM_ROWS, FORM_STILL };

typedef struct chain {
  const rg_links *links;
  operand at[RG_FUSED_INPUTS]; /* inputs, and behind them results */
  prepared link[RG_FUSED_LINKS];
  int32_t n_in;
  int64_t count;
  int64_t block;     /* elements */
  int64_t lane_size; /* bytes of f32 or f64 */
  double weight;
  int32_t isa; /* whose loops they are; -1: it is not set up */
} chain;

/* Room for one thread's block. */
typedef struct room {
  _Alignas(64) char value[BLOCK_BYTES];
  _Alignas(64) char first[BLOCK_BYTES];
  _Alignas(64) char second[BLOCK_BYTES];
  _Alignas(64) char narrow[BLOCK_BYTES / 2];
} room;

/* -- Operands ---------------------------------------------------------------------------- */

static int64_t place(const operand *o, int64_t i)
{
  return o->div == 1 && i < o->mod ? i : i / o->div % o->mod;
}

/* n elements of a row that comes again and again, from element i on. */
static void repeat_row(const operand *o, int64_t i, int64_t n, char *to)
{
  int64_t begin = i % o->mod;
  int64_t done = rg_min_i64(n, o->mod - begin);

  memcpy(to, o->data + begin * o->size, (size_t)(done * o->size));
  if (done < n) {
    int64_t more = rg_min_i64(n - done, begin);

    memcpy(to + done * o->size, o->data, (size_t)(more * o->size));
    done += more;
  }
  while (done < n) { /* what is there is whole rows */
    int64_t more = rg_min_i64(n - done, done);

    memcpy(to + done * o->size, to, (size_t)(more * o->size));
    done += more;
  }
}

#define REPEAT(T)                                         \
  for (int64_t k = 0; k < n; k++) {                       \
    memcpy(to + k * (int64_t)sizeof(T), from, sizeof(T)); \
  }                                                       \
  break

static void repeat_one(const char *from, int64_t n, int32_t size, char *to)
{
  switch (size) {
  case 2:
    REPEAT(uint16_t);
  case 4:
    REPEAT(uint32_t);
  default:
    REPEAT(uint64_t);
  }
}

/* The elements i .. i + n - 1 as they are in memory. */
static const char *raw_block(const operand *o, int64_t i, int64_t n, char *to)
{
  if (!o->still) {
    int64_t at = place(o, i);

    if (at + n <= o->mod) {
      return o->data + at * o->size;
    }
    repeat_row(o, i, n, to);
    return to;
  }
  for (int64_t done = 0; done < n;) {
    int64_t some = rg_min_i64(n - done, o->div - (i + done) % o->div);

    repeat_one(o->data + place(o, i + done) * o->size, some, o->size, to + done * o->size);
    done += some;
  }
  return to;
}

/* The same as f32 or f64. */
static const char *block_of(const operand *o, int64_t i, int64_t n, char *to, char *narrow)
{
  if (!rg_is_narrow(o->dtype)) {
    return raw_block(o, i, n, to);
  }
  rg_simd()->cast->widen[o->dtype](to, raw_block(o, i, n, narrow), NULL, n);
  return to;
}

/* -- Links --------------------------------------------------------------------------------- */

static void call_loop(const prepared *p, bool reversed, char *y, const char *v, const void *w,
                      bool one, int64_t n)
{
  int32_t form = !one ? RG_FORM_RUN_RUN : reversed ? RG_FORM_ONE_RUN : RG_FORM_RUN_ONE;

  if (reversed) {
    p->loop[form](y, w, v, n);
  } else {
    p->loop[form](y, v, w, n);
  }
}

/* The second operand is one element for each run. */
static void call_still(const chain *c, const rg_link *l, const prepared *p, int64_t i, int64_t n,
                       char *y, const char *v)
{
  const operand *o = &c->at[l->with];

  for (int64_t done = 0; done < n;) {
    int64_t some = rg_min_i64(n - done, o->div - (i + done) % o->div);
    int64_t at = done * c->lane_size;

    call_loop(p, l->reversed != 0, y + at, v + at, o->data + place(o, i + done) * o->size, true,
              some);
    done += some;
  }
}

/* It is a row that comes again and again. */
static void call_rows(const chain *c, const rg_link *l, const prepared *p, int64_t i, int64_t n,
                      char *y, const char *v)
{
  const operand *o = &c->at[l->with];

  for (int64_t done = 0; done < n;) {
    int64_t column = (i + done) % o->mod;
    int64_t some = rg_min_i64(n - done, o->mod - column);
    int64_t at = done * c->lane_size;

    call_loop(p, l->reversed != 0, y + at, v + at, o->data + column * o->size, false, some);
    done += some;
  }
}

/* y = the function of v, which is contiguous. */
static void compute(const chain *c, int32_t k, int64_t i, int64_t n, char *y, const char *v,
                    room *r)
{
  const rg_link *l = &c->links->at[k];
  const prepared *p = &c->link[k];
  bool reversed = l->reversed != 0;

  switch (p->second) {
  case FORM_NUMBER:
    call_loop(p, reversed, y, v, &p->number, true, n);
    break;
  case FORM_STILL:
    call_still(c, l, p, i, n, y, v);
    break;
  case FORM_ROWS:
    call_rows(c, l, p, i, n, y, v);
    break;
  case FORM_RUN:
    call_loop(p, reversed, y, v, block_of(&c->at[l->with], i, n, r->second, r->narrow), false, n);
    break;
  case FORM_VALUE:
    call_loop(p, reversed, y, v, v, false, n);
    break;
  default:
    p->loop[0](y, v, NULL, n);
  }
}

/* What a link made goes to its result, or is rounded where it is; returns where the value is. */
static const char *finish(const chain *c, int32_t k, int64_t i, int64_t n, const char *y, room *r)
{
  const rg_link *l = &c->links->at[k];
  const operand *out = l->store >= 0 ? &c->at[c->n_in + l->store] : NULL;

  if (rg_is_narrow(l->dtype)) {
    char *to = out != NULL ? out->data + i * out->size : r->narrow;

    if (out != NULL || c->link[k].rounds) {
      rg_simd()->cast->narrow[l->dtype](to, y, NULL, n);
    }
    if (c->link[k].rounds) {
      rg_simd()->cast->widen[l->dtype](r->value, to, NULL, n);
      return r->value;
    }
  } else if (out != NULL && y != out->data + i * out->size) {
    memmove(out->data + i * out->size, y, (size_t)(n * out->size));
  }
  return y;
}

static void run_block(const chain *c, int64_t i, int64_t n, room *r)
{
  const char *v = NULL;

  for (int32_t k = 0; k < c->links->n; k++) {
    const rg_link *l = &c->links->at[k];
    const operand *out = l->store >= 0 ? &c->at[c->n_in + l->store] : NULL;
    char *y = out != NULL && !rg_is_narrow(l->dtype) ? out->data + i * out->size : r->value;

    if (l->load >= 0) {
      v = block_of(&c->at[l->load], i, n, r->first, r->narrow);
    }
    if (c->link[k].loop == NULL) {
      v = finish(c, k, i, n, v, r);
    } else {
      compute(c, k, i, n, y, v, r);
      v = finish(c, k, i, n, y, r);
    }
  }
}

static bool job(void *work, int64_t begin, int64_t end)
{
  const chain *c = work;
  room r;

  for (int64_t i = begin; i < end; i++) {
    int64_t last = rg_min_i64((i + 1) * PIECE, c->count);

    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t at = i * PIECE; at < last; at += c->block) {
      run_block(c, at, rg_min_i64(c->block, last - at), &r);
    }
  }
  return true;
}

/* -- Preparing ------------------------------------------------------------------------------ */

static operand operand_of(const rg_tensor *x, const rg_tensor *y)
{
  operand o = { .data = x->_data, .dtype = x->_dtype, .size = (int32_t)rg_dtype_bytes(x->_dtype) };

  (void)rg_fused_place(x, y->_shape, y->_ndim, &o.div, &o.mod);
  o.still = x->_count != y->_count && (o.div > 1 || o.mod == 1);
  o.run = o.still ? o.div : o.mod;
  return o;
}

/* How elementwise.c would take the second operand beside the first one. */
static int32_t second_form(const chain *c, const operand *first, const operand *second)
{
  int64_t row = rg_min_i64(first->run, second->run);

  if (!second->still && second->run < c->count && second->run >= LONG_ROW &&
      !rg_is_narrow(second->dtype)) {
    return FORM_ROWS;
  }
  if (!second->still || rg_is_narrow(second->dtype)) {
    return FORM_RUN;
  }
  if (first->run == c->count && !first->still && second->run == c->count) {
    return FORM_STILL;
  }
  return row >= SHORTEST_RUN && !first->still ? FORM_STILL : FORM_RUN;
}

/* A power that binary.c computes as a square. */
static bool is_square(const rg_link *l)
{
  return l->id == RG_OP_POW && l->with == RG_FUSED_NUMBER && l->number == 2 && l->reversed == 0;
}

static rg_loop *const *loop_of(const rg_link *l)
{
  const rg_simd_tables *simd = rg_simd();
  int32_t lane = rg_lane_of(l->dtype);

  if (l->id == RG_FUSED_CAST) {
    return NULL;
  }
  if (l->id == RG_OP_ACT_BACK) {
    return simd->act->back[l->act][lane == RG_LANE_F64];
  }
  if (rg_fused_kind(l->id) == RG_LINK_UNARY) {
    return &simd->unary->loop[l->id - RG_OP_NEG][lane];
  }
  if (is_square(l)) {
    return &simd->unary->loop[RG_OP_SQUARE - RG_OP_NEG][lane];
  }
  return simd->binary->loop[l->id - RG_OP_ADD][lane];
}

static double weight_of(const rg_link *l)
{
  return l->id == RG_FUSED_CAST                  ? 2.0
         : l->id == RG_OP_ACT_BACK               ? 2.0 + rg_act_back_flops(l->act)
         : rg_fused_kind(l->id) == RG_LINK_UNARY ? 1.0 + rg_unary_flops(l->id)
                                                 : 2.0 + rg_binary_flops(l->id);
}

static void prepare(chain *c, int32_t k, const operand *first)
{
  const rg_link *l = &c->links->at[k];
  prepared *p = &c->link[k];
  bool goes_on = k + 1 < c->links->n && c->links->at[k + 1].load == RG_FUSED_NONE;

  p->loop = loop_of(l);
  p->second = l->with == RG_FUSED_NONE || is_square(l) ? FORM_NONE
              : l->with == RG_FUSED_NUMBER             ? FORM_NUMBER
              : l->with == RG_FUSED_VALUE              ? FORM_VALUE
                                                       : second_form(c, first, &c->at[l->with]);
  if (l->with == RG_FUSED_NUMBER) {
    p->number = rg_lane_value_of(l->dtype, l->number);
  }
  p->rounds = goes_on && rg_is_narrow(l->dtype);
  c->weight += weight_of(l);
}

static rg_status set_up(chain *c, const rg_call *call, rg_tensor *const *out)
{
  const rg_tensor *y = out[0];
  const operand whole = { .run = y->_count };

  c->links = &((const rg_fused_args *)call->args)->links;
  c->n_in = call->n_in;
  c->count = y->_count;
  c->lane_size = rg_lane_bytes(rg_lane_of(y->_dtype));
  c->block = BLOCK_BYTES / c->lane_size;
  c->weight = 0;
  c->isa = rg_isa();
  for (int32_t i = 0; i < call->n_in; i++) {
    c->at[i] = operand_of(call->in[i], y);
  }
  for (int32_t i = 0; i < call->n_out; i++) {
    if (!rg_is_contiguous(out[i])) {
      return rg_fail(RG_ENOSUP, "fused: a result has gaps");
    }
    c->at[c->n_in + i] = operand_of(out[i], y);
  }
  for (int32_t k = 0; k < c->links->n; k++) {
    const rg_link *l = &c->links->at[k];

    prepare(c, k, l->load >= 0 ? &c->at[l->load] : &whole);
  }
  return RG_OK;
}

/* -- The call ------------------------------------------------------------------------------- */

/* A step's chain: its tensors stay where they are. */
typedef struct kept {
  rg_memo memo;
  chain chain;
} kept;

static void release(rg_memo *memo)
{
  rg_host_free(memo);
}

/* The chain that the step keeps; NULL where there is no memory for one. */
static rg_status kept_chain(const rg_call *call, rg_tensor *const *out, rg_memo **memo,
                            const chain **c)
{
  kept *k = (kept *)*memo;

  if (k == NULL) {
    k = rg_host_alloc(sizeof(*k));
    if (k == NULL) {
      *c = NULL;
      return RG_OK;
    }
    k->memo = (rg_memo){ .release = release };
    k->chain.isa = -1;
    *memo = &k->memo;
  }
  if (k->chain.isa != rg_isa()) {
    k->chain.isa = -1;
    RG_TRY(set_up(&k->chain, call, out));
  }
  *c = &k->chain;
  return RG_OK;
}

static rg_status run(const chain *c)
{
  if (c->count <= c->block) {
    room r;

    run_block(c, 0, c->count, &r);
    return RG_OK;
  }
  return rg_parallel(rg_threads_for(c->weight * (double)c->count), (c->count + PIECE - 1) / PIECE,
                     job, (void *)(uintptr_t)c);
}

rg_status rg_cpu_fused(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const chain *c = NULL;
  chain own;

  if (rg_ring_on != 0) {
    frame->path = rg_fused_names(&((const rg_fused_args *)call->args)->links);
  }
  if (out[0]->_count == 0) {
    return RG_OK;
  }
  if (frame->memo != NULL) {
    RG_TRY(kept_chain(call, out, frame->memo, &c));
  }
  if (c == NULL) {
    RG_TRY(set_up(&own, call, out));
    c = &own;
  }
  return run(c);
}
