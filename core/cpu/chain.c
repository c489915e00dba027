/* SPDX-License-Identifier: MIT */
/*
** Chains of one or two products: rows in, rows out, and the middle between them.
*/
#include "cpu/chain.h"
#include "cpu/path.h"
#include "cpu/rows.h"

enum {
  /* Columns of a fixed half, and rows of x, from which its own way pays in f32: 1.4 times faster at
  ** 2048 columns, 1.1 at 64, nothing at 32.  In bf16 it only saves memory. */
  HALF_LEAST = 64,
  ROWS_LEAST = 8
};

/* Everything a run needs; in a plan it is the step's memo. */
typedef struct state {
  rg_memo memo;
  int32_t n;
  rg_rows x;
  rg_rows y;
  rg_block middle;
  rg_ready part[3];
} state;

/* -- Preparing ----------------------------------------------------------------------------- */

static rg_status prepare_rows(state *s, const rg_chain *chain, const rg_call *call,
                              rg_tensor *const *out, void **z)
{
  int32_t dtype = out[0]->_dtype;

  RG_TRY(rg_rows_begin(call->in[0], &s->x));
  RG_TRY(rg_rows_begin_out(out[0], &s->y));
  *z = call->n_out > 1 ? out[1]->_data : NULL;
  if (chain->n == 2 && *z == NULL && s->x.count * chain->b[0].n > 0) {
    RG_TRY(rg_block_alloc(RG_CPU, s->x.count * chain->b[0].n * rg_dtype_bytes(dtype), &s->middle));
    *z = s->middle.data;
  }
  return RG_OK;
}

/* Products one after the other: all of the middle, then all of the result. */
static rg_status prepare_plain(state *s, const rg_chain *chain, int32_t dtype, void *z)
{
  s->n = chain->n;
  for (int32_t i = 0; i < chain->n; i++) {
    bool first = i == 0;
    bool last = i == chain->n - 1;

    s->part[i].p = (rg_product){ .m = s->x.count,
                                 .n = chain->b[i].n,
                                 .k = chain->b[i].k,
                                 .compute = rg_product_compute(dtype),
                                 .a = first ? s->x.data : z,
                                 .a_dtype = first ? s->x.tensor->_dtype : dtype,
                                 .a_row = first ? s->x.row : chain->b[i].k,
                                 .a_col = first ? s->x.col : 1,
                                 .b = chain->b[i],
                                 .c = last ? s->y.data : z,
                                 .c_dtype = dtype,
                                 .c_row = last ? s->y.row : chain->b[i].n,
                                 .epilogue = last ? chain->epilogue : (rg_epilogue){ .scale = 1 } };
    RG_TRY(rg_product_prepare(&s->part[i]));
  }
  return RG_OK;
}

/*
** The halves apart, because those of fixed signs have a faster way in f32:
**
**   z1 = x S1,  z2 = x U2,  y = epilogue(z1 U1 + z2 S2),   z = [z1|z2].
*/
static rg_status prepare_halves(state *s, const rg_chain *chain, int32_t dtype, char *z)
{
  int64_t half = chain->free[0].n;
  char *z2 = z + half * rg_dtype_bytes(dtype);
  const rg_product x = { .m = s->x.count,
                         .n = half,
                         .compute = rg_product_compute(dtype),
                         .c_dtype = dtype,
                         .c_row = 2 * half,
                         .epilogue = { .scale = 1 } };
  rg_product *p1 = &s->part[0].p, *p2 = &s->part[1].p, *p3 = &s->part[2].p;

  s->n = 3;
  *p1 = x;
  p1->k = chain->free[0].k;
  p1->a = s->x.data;
  p1->a_dtype = s->x.tensor->_dtype;
  p1->a_row = s->x.row;
  p1->a_col = s->x.col;
  p1->b = chain->free[0];
  p1->c = z;
  *p2 = x;
  p2->fixed = chain->fixed[0];
  p2->f = s->x.data;
  p2->f_dtype = s->x.tensor->_dtype;
  p2->f_row = s->x.row;
  p2->f_col = s->x.col;
  p2->c = z2;
  *p3 = x;
  p3->n = chain->free[1].n;
  p3->k = half;
  p3->a = z2;
  p3->a_dtype = dtype;
  p3->a_row = 2 * half;
  p3->a_col = 1;
  p3->b = chain->free[1];
  p3->fixed = chain->fixed[1];
  p3->f = z;
  p3->f_dtype = dtype;
  p3->f_row = 2 * half;
  p3->f_col = 1;
  p3->c = s->y.data;
  p3->c_row = s->y.row;
  p3->epilogue = chain->epilogue;
  for (int32_t i = 0; i < 3; i++) {
    RG_TRY(rg_product_prepare(&s->part[i]));
  }
  return RG_OK;
}

/* Is the faster way open, and worth it? */
static rg_status may_halve(const rg_chain *chain, const state *s, int32_t dtype, bool *out)
{
  int64_t half = chain->free[0].n;
  bool bits = chain->fixed[0].piece[0].sign > 0;
  bool both = true;

  *out = false;
  if (half == 0 || !rg_product_takes_signs(dtype) ||
      (dtype == RG_BF16 && half % RG_BF16_STEP != 0)) {
    return RG_OK;
  }
  if (!bits && (dtype == RG_BF16 || half < HALF_LEAST || s->x.count < ROWS_LEAST ||
                !rg_weight_keeps(&chain->fixed[0]) || !rg_weight_keeps(&chain->fixed[1]))) {
    return RG_OK;
  }
  for (int i = 0; i < 2 && both && !bits; i++) {
    RG_TRY(rg_product_is_signs(&chain->fixed[i], &both));
  }
  *out = both;
  return RG_OK;
}

static rg_status prepare(state *s, const rg_chain *chain, const rg_call *call,
                         rg_tensor *const *out, bool stays)
{
  int32_t dtype = out[0]->_dtype;
  bool halves;
  void *z;

  RG_TRY(prepare_rows(s, chain, call, out, &z));
  for (int32_t i = 0; i < 3; i++) {
    s->part[i].stays = stays;
  }
  RG_TRY(may_halve(chain, s, dtype, &halves));
  return halves ? prepare_halves(s, chain, dtype, z) : prepare_plain(s, chain, dtype, z);
}

/* Give back what eager calls hold only while they run; in a plan addresses stay good. */
static void done(state *s)
{
  for (int32_t i = s->n - 1; i >= 0; i--) {
    rg_product_done(&s->part[i]);
  }
  if (s->middle.data != NULL) {
    rg_block_free(&s->middle);
    s->middle.data = NULL;
  }
  rg_rows_end(&s->y);
  rg_rows_end(&s->x);
}

static void end(state *s)
{
  done(s);
  for (int32_t i = 0; i < s->n; i++) {
    rg_product_end(&s->part[i]);
  }
}

static void release(rg_memo *memo)
{
  end((state *)memo);
  rg_host_free(memo);
}

static int32_t chosen(const rg_memo *memo, int32_t i, rg_choice *out)
{
  const state *s = (const state *)memo;

  return i < s->n ? rg_product_chosen(&s->part[i], out) : RG_BY_NONE;
}

/* -- Running ----------------------------------------------------------------------------------- */

static rg_status run(state *s, const rg_call *call)
{
  rg_ready *last = &s->part[s->n - 1];

  last->p.epilogue.draw = call->draw;
  if (s->x.copied) {
    rg_rows_read(&s->x);
  }
  for (int32_t i = 0; i < s->n; i++) {
    RG_TRY(rg_product_go(&s->part[i]));
  }
  if (s->y.copied) {
    rg_rows_write(&s->y);
  }
  return RG_OK;
}

static rg_status run_once(const rg_chain *chain, const rg_call *call, rg_tensor *const *out,
                          rg_frame *frame)
{
  state s = { .n = 0 };
  rg_status status = prepare(&s, chain, call, out, false);

  if (status == RG_OK) {
    status = run(&s, call);
    frame->path = s.part[s.n - 1].path;
  }
  end(&s);
  return status;
}

rg_status rg_chain_run(const rg_chain *chain, const rg_call *call, rg_tensor *const *out,
                       rg_frame *frame)
{
  state *s;
  rg_status status;

  if (frame->memo == NULL) {
    return run_once(chain, call, out, frame);
  }
  s = rg_host_zeroed(sizeof(*s));
  if (s == NULL) {
    return rg_fail(RG_ENOMEM, "%s: no memory for a step of a plan", call->op->name);
  }
  s->memo.release = release;
  s->memo.chosen = chosen;
  *frame->memo = &s->memo;
  RG_TRY(prepare(s, chain, call, out, true));
  status = run(s, call);
  frame->path = s->part[s->n - 1].path; /* which the first run may choose */
  done(s);
  return status;
}

rg_status rg_chain_again(const rg_call *call, rg_frame *frame)
{
  return run((state *)*frame->memo, call);
}
