/* SPDX-License-Identifier: MIT */
/*
** Pairs of calls that are one call, a pass each:
**
**   conv2d(pad(x))           a convolution with more padding, where zeros are added to rows and
**                            columns alone
**   unsqueeze(sum(x))        a reduction whose axes stay with size 1 (any reduction, any view that
**                            gives it this shape)
**   argmax(softmax(x))       argmax(x), along the same axis
**
** Of others that are monotone none is left out before argmax: exp is infinite for more than one of
** two numbers, and log and sqrt are nan where x is below 0.
*/
#include "graph/pass/pass.h"
#include "op/argmax.h"
#include "op/conv.h"
#include "op/list.h"
#include "op/pad.h"
#include "op/reduce.h"
#include "op/softmax.h"

/* Two nodes, of which the outer one reads what the inner one makes as its first input. */
typedef struct pair {
  rg_merge m;
  int32_t outer; /* numbers */
  int32_t inner;
  int32_t x; /* the first input of the inner one */
} pair;

static const rg_meta *meta_of(const pair *p, int32_t value)
{
  return &rg_ir_value_at(p->m.g, value)->meta;
}

/* A node that makes one new value, once. */
static bool is_simple(const pair *p, const rg_ir_node *node)
{
  return node->op != NULL && !node->recomputed && !node->compound && node->n_in > 0 &&
         node->n_out == 1 && rg_ir_outputs(p->m.g, node)[0] != RG_IR_NONE &&
         rg_ir_inputs(p->m.g, node)[0] != RG_IR_NONE &&
         rg_ir_value_at(p->m.g, rg_ir_outputs(p->m.g, node)[0])->was == RG_IR_NONE;
}

/* The pair that ends in a node; nothing is written to its values behind them. */
static bool find_pair(pair *p, int32_t outer)
{
  const rg_ir_node *node = rg_ir_node_at(p->m.g, outer);

  if (!is_simple(p, node)) {
    return false;
  }
  const int32_t between = rg_ir_inputs(p->m.g, node)[0];

  p->outer = outer;
  p->inner = rg_ir_value_at(p->m.g, between)->producer;
  if (p->inner == RG_IR_NONE || !rg_merge_is_last(&p->m, between)) {
    return false;
  }
  const rg_ir_node *inner = rg_ir_node_at(p->m.g, p->inner);

  if (!is_simple(p, inner) || inner->parent != node->parent ||
      !rg_ir_runs_alike(p->m.g, inner, node)) {
    return false;
  }
  p->x = rg_ir_inputs(p->m.g, inner)[0];
  return rg_merge_is_last(&p->m, p->x);
}

/* A node over n values in the place of the outer one, of another operation or of other arguments,
** where its record allows it. */
static rg_status put(pair *p, int32_t op, const int32_t *in, int32_t n, const void *args)
{
  rg_graph *g = p->m.g;
  const rg_ir_node old = *rg_ir_node_at(g, p->outer);
  const int32_t y = rg_ir_outputs(g, &old)[0];
  int32_t node;
  const rg_status status = rg_graph_insert(g, p->outer, 0, op, in, n, args, &node);

  if (status != RG_OK) {
    return status == RG_ENOMEM ? status : RG_OK;
  }
  rg_ir_node *made = rg_ir_node_at(g, node);
  const int32_t result = rg_ir_outputs(g, made)[0];

  made->module = old.module;
  made->line = old.line;
  rg_ir_value_at(g, result)->storage = rg_ir_value_at(g, y)->storage;
  RG_TRY(rg_ir_replace(g, y, result));
  return rg_ir_remove(g, p->outer);
}

/* -- Padding and convolution ------------------------------------------------------------------- */

/* Rows and columns alone get zeros. */
static bool pads_images(const rg_pad_args *pad, int32_t first)
{
  if (pad->mode != RG_PAD_CONSTANT || pad->value != 0) {
    return false;
  }
  for (int32_t i = 0; i < 4; i++) {
    const bool image = i == first || i == first + 1;

    if (pad->low.at[i] < 0 || pad->high.at[i] < 0 ||
        (!image && (pad->low.at[i] != 0 || pad->high.at[i] != 0))) {
      return false;
    }
  }
  return true;
}

static rg_status visit_pad(pair *p)
{
  const rg_ir_node *conv = rg_ir_node_at(p->m.g, p->outer);
  const rg_ir_node *pad = rg_ir_node_at(p->m.g, p->inner);
  int32_t in[3];

  if (conv->op->id != RG_OP_CONV2D || pad->op->id != RG_OP_PAD || conv->n_in > 3) {
    return RG_OK;
  }
  rg_conv2d_args args = *(const rg_conv2d_args *)rg_ir_args(p->m.g, conv);
  const rg_pad_args *more = rg_ir_args(p->m.g, pad);
  const int32_t first = rg_channels_axis(args.o.layout) == 1 ? 2 : 1;

  if (!pads_images(more, first)) {
    return RG_OK;
  }
  for (int32_t i = 0; i < 2; i++) {
    args.o.pad_low[i] += more->low.at[first + i];
    args.o.pad_high[i] += more->high.at[first + i];
  }
  for (int32_t i = 0; i < conv->n_in; i++) {
    in[i] = i == 0 ? p->x : rg_ir_inputs(p->m.g, conv)[i];
  }
  return put(p, RG_OP_CONV2D, in, conv->n_in, &args);
}

/* -- Reduction and unsqueeze ------------------------------------------------------------------- */

/* Has a value the shape of a reduction of x whose axes stay? */
static bool keeps(const pair *p, const rg_reduce_args *args, int32_t value)
{
  const rg_meta *x = meta_of(p, p->x);
  const rg_meta *y = meta_of(p, value);
  bool same = x->ndim == y->ndim;

  for (int32_t i = 0; same && i < x->ndim; i++) {
    same = y->shape[i] == ((args->axes >> i & 1) != 0 ? 1 : x->shape[i]);
  }
  return same;
}

static rg_status visit_reduction(pair *p)
{
  rg_graph *g = p->m.g;
  const rg_ir_node *view = rg_ir_node_at(g, p->outer);
  const rg_ir_node *node = rg_ir_node_at(g, p->inner);
  const int32_t between = rg_ir_outputs(g, node)[0];
  const int32_t op = node->op->id;

  if (view->op->view == NULL || view->n_in != 1 || rg_ir_value_at(g, between)->n_uses != 1 ||
      (op != RG_OP_SUM && op != RG_OP_MEAN && op != RG_OP_PROD && op != RG_OP_MAX &&
       op != RG_OP_MIN && op != RG_OP_NORM) ||
      (view->op->id != RG_OP_UNSQUEEZE && view->op->id != RG_OP_RESHAPE &&
       view->op->id != RG_OP_VIEW)) {
    return RG_OK;
  }
  rg_reduce_args args = *(const rg_reduce_args *)rg_ir_args(g, node);

  if (args.keep != 0 || !keeps(p, &args, rg_ir_outputs(g, view)[0])) {
    return RG_OK;
  }
  args.keep = 1;
  RG_TRY(put(p, op, &p->x, 1, &args));
  return rg_ir_node_at(g, p->outer)->op == NULL ? rg_ir_remove(g, p->inner) : RG_OK;
}

/* -- Softmax and argmax ------------------------------------------------------------------------ */

static rg_status visit_argmax(pair *p)
{
  const rg_ir_node *most = rg_ir_node_at(p->m.g, p->outer);
  const rg_ir_node *softmax = rg_ir_node_at(p->m.g, p->inner);

  if (most->op->id != RG_OP_ARGMAX || softmax->op->id != RG_OP_SOFTMAX) {
    return RG_OK;
  }
  const rg_argmax_args args = *(const rg_argmax_args *)rg_ir_args(p->m.g, most);
  const rg_softmax_args *along = rg_ir_args(p->m.g, softmax);
  const rg_meta *x = meta_of(p, p->x);

  return along->axis == args.axis && (x->dtype == RG_F32 || x->dtype == RG_F64) &&
                 meta_of(p, rg_ir_inputs(p->m.g, most)[0])->dtype == x->dtype
             ? put(p, RG_OP_ARGMAX, &p->x, 1, &args)
             : RG_OK;
}

/* -- Passes ------------------------------------------------------------------------------------ */

static rg_status visit_pairs(pair *p, rg_status (*visit)(pair *p))
{
  const int32_t *order;
  int32_t n;
  rg_status status = RG_OK;

  RG_TRY(rg_ir_order(p->m.g, &order, NULL, &n));
  int32_t *each = rg_host_alloc((size_t)n * sizeof(*each));

  if (each == NULL) {
    return rg_fail(RG_ENOMEM, "graph: no memory to look for pairs");
  }
  for (int32_t i = 0; i < n; i++) {
    each[i] = order[i];
  }
  for (int32_t i = 0; i < n && status == RG_OK; i++) {
    status = find_pair(p, each[i]) ? visit(p) : RG_OK;
  }
  rg_host_free(each);
  return status;
}

static rg_status run(rg_graph *g, rg_status (*visit)(pair *p))
{
  pair p;
  rg_status status = rg_merge_begin(&p.m, g);

  status = status == RG_OK ? visit_pairs(&p, visit) : status;
  rg_merge_release(&p.m);
  return status;
}

rg_status rg_pass_pad(rg_graph *g)
{
  return run(g, visit_pad);
}

rg_status rg_pass_reduction(rg_graph *g)
{
  return run(g, visit_reduction);
}

rg_status rg_pass_argmax(rg_graph *g)
{
  return run(g, visit_argmax);
}
