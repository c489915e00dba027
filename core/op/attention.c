/* SPDX-License-Identifier: MIT */
/*
** Attention and its gradients: signatures, shape rules, costs, public entries.  The kernels are in
** core/cpu/attention.c, attention_back.c and attention_direct.c.
**
** The hidden result is log(sum(exp(scores))) of each query: with it the gradient computes each tile
** of weights again, without a second pass over a row.
**
** With dropout of the weights, an operation of its own since it draws, the draw is a hidden result
** too: weight (i, j) of a head takes the number that rg_dropout gives it in the matrix of all
** weights, [heads x n x m].
*/
#include "op/attention.h"

#include <math.h>

#include "op/list.h"
#include "op/product.h"
#include "op/rule.h"

extern const rg_op rg_op_attention;
extern const rg_op rg_op_attention_back;
extern const rg_op rg_op_attention_dropout;
extern const rg_op rg_op_attention_dropout_back;

/* -- Sizes ------------------------------------------------------------------------------------ */

rg_attention_sizes rg_attention_sizes_of(const rg_call *call)
{
  const rg_tensor *q = call->in[RG_ATT_Q];
  const rg_tensor *v = call->in[RG_ATT_V];
  int32_t last = q->_ndim - 1;
  rg_attention_sizes s = { .heads = 1,
                           .n = q->_shape[last - 1],
                           .m = v->_shape[last - 1],
                           .d = q->_shape[last],
                           .e = v->_shape[last] };

  for (int32_t i = 0; i < last - 1; i++) {
    s.heads *= q->_shape[i];
  }
  return s;
}

int64_t rg_attention_items(const rg_attention_sizes *s)
{
  return s->heads * ((s->n + RG_ATT_GROUP - 1) / RG_ATT_GROUP);
}

/* Threads that find something to do: each needs a room. */
static int64_t workers(int64_t items)
{
  return rg_max_i64(1, rg_min_i64(rg_threads(), items));
}

static int64_t padded(int64_t n)
{
  return rg_round_up(n, 32);
}

int64_t rg_attention_room(const rg_attention_sizes *s)
{
  int64_t d = padded(s->d);
  int64_t e = padded(s->e);
  int64_t floats = RG_ATT_GROUP * (d + e + 4) + RG_ATT_KEYS * (d + e) +
                   2 * RG_ATT_QUERIES * (RG_ATT_KEYS + e) + 64;

  return floats * 4;
}

int64_t rg_attention_back_room(const rg_attention_sizes *s)
{
  int64_t d = padded(s->d);
  int64_t e = padded(s->e);
  int64_t n = rg_round_up(s->n, RG_ATT_BACK_QUERIES);
  /* of all queries: packed both ways with the incoming gradient, the gradient, two numbers */
  int64_t floats = n * (3 * d + 2 * e + 2) + RG_ATT_BACK_KEYS * (3 * d + 2 * e) +
                   4 * RG_ATT_BACK_KEYS * RG_ATT_BACK_QUERIES + 64;

  return floats * 4;
}

/* -- Checks ----------------------------------------------------------------------------------- */

static rg_status check_shapes(const rg_call *call)
{
  const rg_tensor *q = call->in[RG_ATT_Q];
  const rg_tensor *k = call->in[RG_ATT_K];
  const rg_tensor *v = call->in[RG_ATT_V];
  int32_t n = q->_ndim;
  bool fit = n >= 2 && k->_ndim == n && v->_ndim == n;
  char a[96];
  char b[96];
  char c[96];

  for (int32_t i = 0; fit && i < n - 2; i++) {
    fit = k->_shape[i] == q->_shape[i] && v->_shape[i] == q->_shape[i];
  }
  fit = fit && k->_shape[n - 1] == q->_shape[n - 1] && k->_shape[n - 2] == v->_shape[n - 2];
  if (!fit) {
    return rg_fail(RG_ESHAPE,
                   "%s: q is %s, k %s, v %s; wanted [..., n, d], [..., m, d], [..., m, e]",
                   call->op->name, rg_tensor_text(q, a, sizeof(a)), rg_tensor_text(k, b, sizeof(b)),
                   rg_tensor_text(v, c, sizeof(c)));
  }
  return RG_OK;
}

static rg_status check_mask(const rg_call *call)
{
  const rg_attention_args *args = call->args;
  const rg_tensor *mask = call->in[RG_ATT_MASK];
  rg_attention_sizes s = rg_attention_sizes_of(call);
  char text[96];

  if (mask == NULL) {
    return RG_OK;
  }
  if (mask->_dtype != RG_BOOL) {
    return rg_fail(RG_EDTYPE, "%s: the mask is %s, wanted bool", call->op->name,
                   rg_tensor_text(mask, text, sizeof(text)));
  }
  int64_t rows = (s.n + args->block - 1) / args->block;
  int64_t cols = (s.m + args->block - 1) / args->block;

  if (mask->_ndim != 2 || mask->_shape[0] != rows || mask->_shape[1] != cols) {
    return rg_fail(RG_ESHAPE,
                   "%s: the mask is %s, wanted [%lld,%lld] for %lld queries and %lld keys in "
                   "blocks of %d",
                   call->op->name, rg_tensor_text(mask, text, sizeof(text)), (long long)rows,
                   (long long)cols, (long long)s.n, (long long)s.m, args->block);
  }
  return RG_OK;
}

static rg_status check_args(const rg_call *call)
{
  const rg_attention_args *args = call->args;

  if (!isfinite(args->scale)) {
    return rg_fail(RG_EARG, "%s: scale is %g; a number is wanted", call->op->name, args->scale);
  }
  if (args->block < 1) {
    return rg_fail(RG_EARG, "%s: blocks of %d; 1 is the least", call->op->name, args->block);
  }
  return RG_OK;
}

/* Does it drop weights? */
static bool drops(const rg_call *call)
{
  return call->op == &rg_op_attention_dropout || call->op == &rg_op_attention_dropout_back;
}

/* q, k, v and the mask; the type they meet at. */
static rg_status check(rg_call *call, int32_t *dtype)
{
  RG_TRY(check_shapes(call));
  RG_TRY(check_args(call));
  if (drops(call)) {
    RG_TRY(rg_check_args(call));
  }
  RG_TRY(check_mask(call));
  *dtype = rg_promote(rg_promote(call->in[RG_ATT_Q]->_dtype, call->in[RG_ATT_K]->_dtype),
                      call->in[RG_ATT_V]->_dtype);
  return RG_OK;
}

static rg_meta rows_of(const rg_tensor *q, int32_t dtype)
{
  rg_meta rows = rg_meta_of(q);

  rows.dtype = dtype == RG_F64 ? RG_F64 : RG_F32;
  rows.ndim--;
  return rows;
}

/* -- Forward ---------------------------------------------------------------------------------- */

static rg_status infer(rg_call *call)
{
  int32_t dtype;

  RG_TRY(check(call, &dtype));
  const rg_tensor *q = call->in[RG_ATT_Q];
  rg_attention_sizes s = rg_attention_sizes_of(call);

  dtype = rg_autocast_for(call) >= 0 ? rg_autocast_for(call) : dtype;
  call->compute = dtype;
  call->out[0] = rg_meta_of(q);
  call->out[0].dtype = dtype;
  call->out[0].shape[q->_ndim - 1] = s.e;
  call->out[1] = rows_of(q, dtype);
  call->n_out = 2;
  if (call->device == RG_CPU && dtype != RG_F64) {
    call->scratch_bytes = workers(rg_attention_items(&s)) * rg_attention_room(&s);
  }
  return RG_OK;
}

/* The same with the draw behind it. */
static rg_status dropout_infer(rg_call *call)
{
  const rg_attention_args *args = call->args;

  RG_TRY(infer(call));
  rg_attention_sizes s = rg_attention_sizes_of(call);

  call->out[2] = rg_draw_meta();
  call->n_out = 3;
  call->n_draws = args->p > 0 ? s.heads * s.n * s.m : 0;
  return RG_OK;
}

static rg_status grad(rg_grad *g)
{
  const rg_attention_args *args = g->call->args;
  rg_rule r = rg_rule_of(g);
  rg_tensor *out[3] = { NULL, NULL, NULL };
  rg_status status = r.f.status;

  rg_attention_options options = { args->scale, args->causal, args->block };
  rg_value q = rg_rule_in(&r, RG_ATT_Q);
  rg_value k = rg_rule_in(&r, RG_ATT_K);
  rg_value v = rg_rule_in(&r, RG_ATT_V);
  rg_value mask = rg_rule_in(&r, RG_ATT_MASK);

  if (status == RG_OK && drops(g->call)) {
    status = rg_attention_dropout_back(r.dy, q, k, v, r.y, g->out[1], g->out[2], mask, &options,
                                       args->p, &out[0], &out[1], &out[2]);
  } else if (status == RG_OK) {
    status =
        rg_attention_back(r.dy, q, k, v, r.y, g->out[1], mask, &options, &out[0], &out[1], &out[2]);
  }
  for (int32_t i = 0; i < 3; i++) {
    rg_rule_give(&r, i, rg_f_took(&r.f, status, out[i]));
  }
  return rg_rule_end(&r);
}

/* The share of all scores that are computed. */
static double share(const rg_call *call)
{
  const rg_attention_args *args = call->args;
  rg_attention_sizes s = rg_attention_sizes_of(call);
  double seen = 0;

  if (args->causal == 0 || s.n == 0 || s.m == 0) {
    return 1;
  }
  seen = s.n <= s.m ? (double)s.n * (double)(s.n + 1) / 2
                    : (double)s.m * ((double)s.n - (double)(s.m - 1) / 2);
  return seen / ((double)s.n * (double)s.m);
}

/* Operations that make a number and keep a weight by it, or drop it; see op/random.c. */
#define DROP_FLOPS 26.0

/* Two products of n x m x d and n x m x e, 14 operations a weight (scaled, the largest, the
** difference to it, its exponential, their sum), and results by that sum; a mask is not counted. */
static rg_cost cost(const rg_call *call)
{
  rg_attention_sizes s = rg_attention_sizes_of(call);
  double scores = (double)s.heads * (double)s.n * (double)s.m * share(call);

  double weight = 14.0 + (drops(call) ? DROP_FLOPS : 0.0);

  return rg_cost_of(call, scores * (2.0 * (double)(s.d + s.e) + weight) +
                              (double)s.heads * (double)s.n * (double)s.e);
}

static const rg_arg attention_args[] = { RG_ATTENTION_ARGS(RG_ARG_ROW, rg_attention_args, ) };
static const rg_arg dropout_args[] = { RG_ATTENTION_DROPOUT_ARGS(RG_ARG_ROW, rg_attention_args, ) };

const rg_op rg_op_attention = {
  .name = "attention",
  .doc = "softmax(scale q k') v, a tile at a time",
  .id = RG_OP_ATTENTION,
  .amp = RG_AMP_LOWER,
  RG_INPUTS(RG_IN("q", INPUT, FLOAT), RG_IN("k", INPUT, FLOAT), RG_IN("v", INPUT, FLOAT),
            RG_OPTIONAL("mask", BITS, ANY)),
  .result = { "y", "lse" },
  .save_in = 15,
  .save_out = 1,
  .n_hidden = 1,
  RG_ARGS(rg_attention_args, attention_args),
  .infer = infer,
  .grad = grad,
  .cost = cost,
};

const rg_op rg_op_attention_dropout = {
  .name = "attention_dropout",
  .doc = "attention, its weights dropped",
  .id = RG_OP_ATTENTION_DROPOUT,
  .amp = RG_AMP_LOWER,
  RG_INPUTS(RG_IN("q", INPUT, FLOAT), RG_IN("k", INPUT, FLOAT), RG_IN("v", INPUT, FLOAT),
            RG_OPTIONAL("mask", BITS, ANY)),
  .result = { "y", "lse", "draw" },
  .save_in = 15,
  .save_out = 1,
  .n_hidden = 2,
  .draws = true,
  RG_ARGS(rg_attention_args, dropout_args),
  .infer = dropout_infer,
  .grad = grad,
  .cost = cost,
};

static rg_attention_args args_of(const rg_tensor *q, const rg_attention_options *options)
{
  rg_attention_args args = { .block = 64 };
  int64_t d = q->_ndim > 0 ? q->_shape[q->_ndim - 1] : 0;

  if (options != NULL) {
    args.scale = options->scale;
    args.causal = options->causal != 0;
    args.block = options->block != 0 ? options->block : 64;
  }
  if (args.scale == 0) {
    args.scale = d > 0 ? 1 / sqrt((double)d) : 1;
  }
  return args;
}

rg_status rg_attention(const rg_tensor *q, const rg_tensor *k, const rg_tensor *v,
                       const rg_tensor *mask, const rg_attention_options *options, rg_tensor **out)
{
  rg_attention_args args;

  RG_TRY(rg_tensor_check(q, "attention"));
  args = args_of(q, options);
  return rg_run1(&rg_op_attention, (const rg_tensor *const[]){ q, k, v, mask }, 4, &args, out);
}

rg_status rg_attention_dropout(const rg_tensor *q, const rg_tensor *k, const rg_tensor *v,
                               const rg_tensor *mask, const rg_attention_options *options, double p,
                               rg_generator *generator, rg_tensor **out)
{
  rg_attention_args args;

  RG_TRY(rg_tensor_check(q, "attention_dropout"));
  args = args_of(q, options);
  args.p = p;
  rg_call call = { .op = &rg_op_attention_dropout,
                   .in = (const rg_tensor *const[]){ q, k, v, mask },
                   .n_in = 4,
                   .args = &args,
                   .generator = generator };

  return rg_run_fresh(&call, out);
}

/* -- Back ------------------------------------------------------------------------------------- */

static bool is_meta(const rg_tensor *x, const rg_meta *meta, bool dtype)
{
  return (!dtype || x->_dtype == meta->dtype) && rg_tensor_shaped(x, meta->shape, meta->ndim);
}

static rg_status back_infer(rg_call *call)
{
  int32_t dtype;
  char a[96];
  char b[96];

  RG_TRY(check(call, &dtype));
  const rg_tensor *q = call->in[RG_ATT_Q];
  rg_attention_sizes s = rg_attention_sizes_of(call);
  rg_meta y = rg_meta_of(q);
  rg_meta rows = rows_of(q, dtype);

  y.shape[q->_ndim - 1] = s.e;
  if (!is_meta(call->in[RG_ATT_Y], &y, false) || !is_meta(call->in[RG_ATT_DY], &y, false)) {
    return rg_fail(RG_ESHAPE, "%s: the result is %s and the gradient %s, wanted [..., %lld, %lld]",
                   call->op->name, rg_tensor_text(call->in[RG_ATT_Y], a, sizeof(a)),
                   rg_tensor_text(call->in[RG_ATT_DY], b, sizeof(b)), (long long)s.n,
                   (long long)s.e);
  }
  if (!is_meta(call->in[RG_ATT_LSE], &rows, true)) {
    return rg_fail(RG_ESHAPE, "%s: lse is %s, wanted one %s for each query of %s", call->op->name,
                   rg_tensor_text(call->in[RG_ATT_LSE], a, sizeof(a)), rg_dtype_name(rows.dtype),
                   rg_tensor_text(q, b, sizeof(b)));
  }
  const rg_tensor *draw = drops(call) ? call->in[RG_ATT_DRAW] : NULL;

  if (draw != NULL) {
    RG_TRY(rg_draw_check(call, draw));
  }
  call->compute = dtype;
  for (int32_t i = 0; i < 3; i++) {
    call->out[i] = rg_meta_of(call->in[i]);
    call->out[i].dtype = dtype;
  }
  call->n_out = 3;
  if (call->device == RG_CPU && dtype != RG_F64) {
    call->scratch_bytes = workers(s.heads) * rg_attention_back_room(&s);
  }
  return RG_OK;
}

/* Five products, and 15 operations a weight: scaled, less the logarithm of the sum, its
** exponential; the slope less D, times the weight, scaled.  D is sum(dy y) of a query. */
static rg_cost back_cost(const rg_call *call)
{
  rg_attention_sizes s = rg_attention_sizes_of(call);
  double scores = (double)s.heads * (double)s.n * (double)s.m * share(call);

  double weight = 15.0 + (drops(call) ? DROP_FLOPS + 1.0 : 0.0); /* and of its gradient */

  return rg_cost_of(call, scores * (6.0 * (double)s.d + 4.0 * (double)s.e + weight) +
                              2.0 * (double)s.heads * (double)s.n * (double)s.e);
}

const rg_op rg_op_attention_back = {
  .name = "attention_back",
  .doc = "the gradients of attention",
  .id = RG_OP_ATTENTION_BACK,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("q", INPUT, FLOAT), RG_IN("k", INPUT, FLOAT), RG_IN("v", INPUT, FLOAT),
            RG_OPTIONAL("mask", BITS, ANY), RG_IN("y", INPUT, FLOAT), RG_IN("lse", NATIVE, ANY),
            RG_IN("dy", INPUT, FLOAT)),
  .result = { "dq", "dk", "dv" },
  RG_ARGS(rg_attention_args, attention_args),
  .infer = back_infer,
  .cost = back_cost,
};

const rg_op rg_op_attention_dropout_back = {
  .name = "attention_dropout_back",
  .doc = "the gradients of attention with the weights of an earlier draw dropped",
  .id = RG_OP_ATTENTION_DROPOUT_BACK,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("q", INPUT, FLOAT), RG_IN("k", INPUT, FLOAT), RG_IN("v", INPUT, FLOAT),
            RG_OPTIONAL("mask", BITS, ANY), RG_IN("y", INPUT, FLOAT), RG_IN("lse", NATIVE, ANY),
            RG_IN("dy", INPUT, FLOAT), RG_IN("draw", BITS, ANY)),
  .result = { "dq", "dk", "dv" },
  RG_ARGS(rg_attention_args, dropout_args),
  .infer = back_infer,
  .cost = back_cost,
};

static rg_status run_back(const rg_op *op, const rg_tensor *const *in, int32_t n_in,
                          const rg_attention_args *args, rg_tensor **const d[3])
{
  rg_tensor *out[3] = { NULL, NULL, NULL };
  rg_call call = { .op = op, .in = in, .n_in = n_in, .args = args };

  RG_TRY(rg_run(&call, out));
  for (int32_t i = 0; i < 3; i++) {
    *d[i] = out[i];
  }
  return RG_OK;
}

rg_status rg_attention_back(const rg_tensor *dy, const rg_tensor *q, const rg_tensor *k,
                            const rg_tensor *v, const rg_tensor *y, const rg_tensor *lse,
                            const rg_tensor *mask, const rg_attention_options *options,
                            rg_tensor **dq, rg_tensor **dk, rg_tensor **dv)
{
  rg_attention_args args;

  RG_TRY(rg_tensor_check(q, "attention_back"));
  args = args_of(q, options);
  return run_back(&rg_op_attention_back, (const rg_tensor *const[]){ q, k, v, mask, y, lse, dy }, 7,
                  &args, (rg_tensor * *const[]){ dq, dk, dv });
}

rg_status rg_attention_dropout_back(const rg_tensor *dy, const rg_tensor *q, const rg_tensor *k,
                                    const rg_tensor *v, const rg_tensor *y, const rg_tensor *lse,
                                    const rg_tensor *draw, const rg_tensor *mask,
                                    const rg_attention_options *options, double p, rg_tensor **dq,
                                    rg_tensor **dk, rg_tensor **dv)
{
  rg_attention_args args;

  RG_TRY(rg_tensor_check(q, "attention_dropout_back"));
  args = args_of(q, options);
  args.p = p;
  return run_back(&rg_op_attention_dropout_back,
                  (const rg_tensor *const[]){ q, k, v, mask, y, lse, dy, draw }, 8, &args,
                  (rg_tensor * *const[]){ dq, dk, dv });
}
