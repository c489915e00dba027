/* SPDX-License-Identifier: MIT */
/*
** Chains of one or two products: rows in, rows out, and the middle between them.
*/
#include "cpu/chain.h"
#include "cpu/path.h"
#include "cpu/rows.h"

/* Everything a run needs; in a plan it is the step's memo. */
typedef struct state {
  rg_memo memo;
  int32_t n;
  rg_rows x;
  rg_rows y;
  rg_block middle;
  rg_ready part[2];
} state;

/* -- Making ready ----------------------------------------------------------------------------- */

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

static rg_status prepare(state *s, const rg_chain *chain, const rg_call *call,
                         rg_tensor *const *out, bool stays)
{
  int32_t dtype = out[0]->_dtype;
  void *z;

  RG_TRY(prepare_rows(s, chain, call, out, &z));
  s->n = chain->n;
  for (int32_t i = 0; i < chain->n; i++) {
    rg_ready *r = &s->part[i];
    bool first = i == 0;
    bool last = i == chain->n - 1;

    r->stays = stays;
    r->p = (rg_product){ .m = s->x.count,
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
                         .end = last ? chain->end : (rg_end){ .scale = 1 } };
    RG_TRY(rg_product_prepare(r));
  }
  return RG_OK;
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

/* -- Running -------------------------------------------------------------------------------------- */

static rg_status run(state *s, const rg_call *call)
{
  rg_ready *last = &s->part[s->n - 1];

  last->p.end.draw = call->draw;
  if (s->x.copied) {
    rg_rows_read(&s->x);
  }
  if (s->n == 2) {
    RG_TRY(rg_product_go(&s->part[0]));
  }
  RG_TRY(rg_product_go(last));
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
  *frame->memo = &s->memo;
  RG_TRY(prepare(s, chain, call, out, true));
  frame->path = s->part[s->n - 1].path;
  status = run(s, call);
  done(s);
  return status;
}

rg_status rg_chain_again(const rg_call *call, rg_frame *frame)
{
  return run((state *)*frame->memo, call);
}
