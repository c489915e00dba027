/* SPDX-License-Identifier: MIT */
/*
** Views that change nothing, and views of views.
**
**   transpose(transpose(x, 1, 2), 1, 2)    x
**   permute(transpose(x))                  permute(x), in the order that comes of both
**   unsqueeze(reshape(x)), view(view(x))   view(x), in the last shape
**   reshape, expand, narrow to x's shape   x
**
** The same bytes lie at the same places, so every bit is kept.  A view in between that somebody
** else reads stays for him.  What copies is no view: a reshape of strides that do not allow it is a
** compound.
*/
#include "graph/pass/pass.h"
#include "op/list.h"
#include "op/view.h"

extern const rg_op rg_op_view, rg_op_permute;

/* -- What a node is ------------------------------------------------------------------------ */

static bool is_view(const rg_ir_node *node)
{
  return node->op->view != NULL && !node->compound && !node->recomputed && node->n_in == 1 &&
         node->n_out == 1 && node->n_results == 1;
}

static bool changes_shape_alone(int32_t op)
{
  return op == RG_OP_VIEW || op == RG_OP_RESHAPE || op == RG_OP_SQUEEZE || op == RG_OP_UNSQUEEZE;
}

/* Axes of the result by those of the input; false where a node does not permute. */
static bool take_order(const rg_graph *g, const rg_ir_node *node, int32_t ndim, int64_t *order)
{
  for (int32_t i = 0; i < ndim; i++) {
    order[i] = i;
  }
  if (node->op->id == RG_OP_TRANSPOSE) {
    const rg_transpose_args *args = rg_ir_args(g, node);

    if (args->a < 0 || args->a >= ndim || args->b < 0 || args->b >= ndim) {
      return false;
    }
    order[args->a] = args->b;
    order[args->b] = args->a;
    return true;
  }
  if (node->op->id == RG_OP_PERMUTE) {
    const rg_permute_args *args = rg_ir_args(g, node);

    for (int32_t i = 0; i < ndim; i++) {
      order[i] = args->order.at[i];
    }
    return args->order.n == ndim;
  }
  return false;
}

/* -- Views of views ------------------------------------------------------------------------- */

/* One view of x in the place of node `number`, which is a view of a view of it. */
static rg_status join(rg_graph *g, int32_t number, const rg_op *op, const void *args, int32_t x)
{
  const int32_t y = rg_ir_outputs(g, rg_ir_node_at(g, number))[0];
  const rg_meta meta = rg_ir_value_at(g, y)->meta;

  RG_TRY(rg_ir_insert_view(g, number, op, args, &meta, &x));
  RG_TRY(rg_ir_replace(g, y, x));
  return rg_ir_remove(g, number);
}

/* The node whose result another one views, where that is a view too, of the same version. */
static const rg_ir_node *viewed(const rg_graph *g, const rg_ir_node *node)
{
  const rg_ir_value *between = rg_ir_value_at(g, rg_ir_inputs(g, node)[0]);
  const rg_ir_value *y = rg_ir_value_at(g, rg_ir_outputs(g, node)[0]);

  if (between->producer == RG_IR_NONE || between->was != RG_IR_NONE || y->was != RG_IR_NONE) {
    return NULL;
  }
  const rg_ir_node *inner = rg_ir_node_at(g, between->producer);

  if (!is_view(inner) || inner->parent != node->parent || between->result != 0 ||
      rg_ir_inputs(g, inner)[0] == RG_IR_NONE) {
    return NULL;
  }
  const rg_ir_value *x = rg_ir_value_at(g, rg_ir_inputs(g, inner)[0]);

  return x->storage == y->storage && x->version == y->version ? inner : NULL;
}

static rg_status join_orders(rg_graph *g, int32_t number, const rg_ir_node *inner)
{
  const rg_ir_node *node = rg_ir_node_at(g, number);
  const int32_t x = rg_ir_inputs(g, inner)[0];
  const int32_t ndim = rg_ir_value_at(g, x)->meta.ndim;
  int64_t first[RG_MAX_DIMS];
  int64_t second[RG_MAX_DIMS];
  int64_t both[RG_MAX_DIMS];
  rg_permute_args args = { 0 };

  if (!take_order(g, inner, ndim, first) || !take_order(g, node, ndim, second)) {
    return RG_OK;
  }
  for (int32_t i = 0; i < ndim; i++) {
    both[i] = first[second[i]];
  }
  rg_take_sizes(&args.order, both, ndim);
  return join(g, number, &rg_op_permute, &args, x);
}

static rg_status visit_chain(rg_graph *g, int32_t number)
{
  const rg_ir_node *node = rg_ir_node_at(g, number);

  if (node->op == NULL || !is_view(node) || rg_ir_inputs(g, node)[0] == RG_IR_NONE ||
      rg_ir_outputs(g, node)[0] == RG_IR_NONE) {
    return RG_OK;
  }
  const rg_ir_node *inner = viewed(g, node);

  if (inner == NULL) {
    return RG_OK;
  }
  if (changes_shape_alone(node->op->id) && changes_shape_alone(inner->op->id)) {
    const rg_meta *meta = &rg_ir_value_at(g, rg_ir_outputs(g, node)[0])->meta;
    rg_shape_args args = { 0 };

    rg_take_sizes(&args.shape, meta->shape, meta->ndim);
    return join(g, number, &rg_op_view, &args, rg_ir_inputs(g, inner)[0]);
  }
  return join_orders(g, number, inner);
}

/* -- Views that change nothing ---------------------------------------------------------------- */

static bool changes_nothing(const rg_graph *g, const rg_ir_node *node)
{
  const rg_ir_value *x = rg_ir_value_at(g, rg_ir_inputs(g, node)[0]);
  const rg_ir_value *y = rg_ir_value_at(g, rg_ir_outputs(g, node)[0]);
  int64_t order[RG_MAX_DIMS];

  if (!rg_merge_alike(x, y)) {
    return false;
  }
  if (node->op->id == RG_OP_TRANSPOSE || node->op->id == RG_OP_PERMUTE) {
    bool same = take_order(g, node, x->meta.ndim, order);

    for (int32_t i = 0; same && i < x->meta.ndim; i++) {
      same = order[i] == i;
    }
    return same;
  }
  return changes_shape_alone(node->op->id) || node->op->id == RG_OP_EXPAND ||
         node->op->id == RG_OP_NARROW; /* a range as long as its axis is the axis */
}

static rg_status visit_nothing(rg_merge *m, int32_t number)
{
  const rg_ir_node *node = rg_ir_node_at(m->g, number);

  if (!is_view(node) || rg_ir_inputs(m->g, node)[0] == RG_IR_NONE ||
      rg_ir_outputs(m->g, node)[0] == RG_IR_NONE || !changes_nothing(m->g, node)) {
    return RG_OK;
  }
  const int32_t x = rg_ir_inputs(m->g, node)[0];
  const int32_t y = rg_ir_outputs(m->g, node)[0];

  if (!rg_merge_allowed(m, y, x)) {
    return RG_OK;
  }
  m->gone[number] = true;
  return rg_merge_values(m, y, x);
}

/* -- All of them ---------------------------------------------------------------------------- */

static rg_status visit_chains(rg_graph *g)
{
  const int32_t *order;
  int32_t n;
  rg_status status = RG_OK;

  RG_TRY(rg_ir_order(g, &order, NULL, &n));
  int32_t *each = rg_host_alloc((size_t)n * sizeof(*each));

  if (each == NULL) {
    return rg_fail(RG_ENOMEM, "graph: no memory to look for views");
  }
  for (int32_t i = 0; i < n; i++) {
    each[i] = order[i];
  }
  for (int32_t i = 0; i < n && status == RG_OK; i++) {
    status = visit_chain(g, each[i]);
  }
  rg_host_free(each);
  return status;
}

static rg_status visit_nothings(rg_merge *m)
{
  const int32_t *order;
  int32_t n;

  RG_TRY(rg_ir_order(m->g, &order, NULL, &n));
  for (int32_t i = 0; i < n; i++) {
    RG_TRY(visit_nothing(m, order[i]));
  }
  return RG_OK;
}

rg_status rg_pass_views(rg_graph *g)
{
  rg_merge m;
  rg_status status;

  RG_TRY(visit_chains(g));
  status = rg_merge_begin(&m, g);
  return rg_merge_end(&m, status == RG_OK ? visit_nothings(&m) : status);
}
