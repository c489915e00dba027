/* SPDX-License-Identifier: MIT */
/*
** Channels dealt out among groups, as ShuffleNet does between convolutions in groups.
*/
#include <string.h>

#include "graph/pass/deal.h"
#include "graph/pass/pass.h"
#include "op/copy.h"
#include "op/list.h"
#include "op/view.h"

extern const rg_op rg_op_permute, rg_op_view;

/* Is a value read by this node alone, or by what is within it? */
static bool is_read_by(const rg_graph *g, int32_t value, int32_t node)
{
  const rg_ir_value *v = rg_ir_value_at(g, value);
  const rg_ir_use *uses = rg_ir_uses(g, v);

  for (int32_t i = 0; i < v->n_uses; i++) {
    if (uses[i].node == RG_IR_NONE || !rg_ir_is_within(g, uses[i].node, node)) {
      return false;
    }
  }
  return true;
}

/* The node that makes input 0 of another one, where it is of this kind and made for that alone. */
static int32_t maker_of(const rg_graph *g, int32_t reader, int32_t for_node, int32_t op)
{
  const rg_ir_node *node = rg_ir_node_at(g, reader);
  const int32_t in = node->n_in > 0 ? rg_ir_inputs(g, node)[0] : RG_IR_NONE;
  const int32_t maker = in != RG_IR_NONE ? rg_ir_value_at(g, in)->producer : RG_IR_NONE;
  const rg_ir_node *made = maker != RG_IR_NONE ? rg_ir_node_at(g, maker) : NULL;

  if (made == NULL || made->op->id != op || made->recomputed || made->derived || made->n_in < 1 ||
      rg_ir_value_at(g, in)->was != RG_IR_NONE || !is_read_by(g, in, for_node)) {
    return RG_IR_NONE;
  }
  return maker;
}

bool rg_deal_take(const rg_graph *g, int32_t number, rg_deal *d)
{
  static const int64_t swapped[5] = { 0, 2, 1, 3, 4 };
  const rg_ir_node *view = rg_ir_node_at(g, number);
  const int32_t of = view->parent;

  if (view->op->id != RG_OP_VIEW || of == RG_IR_NONE || view->recomputed ||
      rg_ir_node_at(g, of)->op->id != RG_OP_RESHAPE || rg_ir_node_at(g, of)->parent != RG_IR_NONE) {
    return false;
  }
  d->node[4] = number;
  d->node[3] = maker_of(g, number, of, RG_OP_COPY);
  d->node[2] = of;
  d->node[1] = d->node[3] != RG_IR_NONE ? maker_of(g, d->node[3], of, RG_OP_PERMUTE) : RG_IR_NONE;
  d->node[0] =
      d->node[1] != RG_IR_NONE ? maker_of(g, d->node[1], d->node[1], RG_OP_RESHAPE) : RG_IR_NONE;
  if (d->node[0] == RG_IR_NONE || rg_ir_node_at(g, d->node[0])->compound) {
    return false;
  }
  const rg_permute_args *permute = rg_ir_args(g, rg_ir_node_at(g, d->node[1]));
  const int32_t x = rg_ir_inputs(g, rg_ir_node_at(g, d->node[0]))[0];
  const rg_ir_value *y = rg_ir_value_at(g, rg_ir_outputs(g, view)[0]);
  const rg_ir_value *image = rg_ir_value_at(g, x);
  const rg_meta *cut = &rg_ir_value_at(g, rg_ir_outputs(g, rg_ir_node_at(g, d->node[0]))[0])->meta;

  d->image = x;
  d->groups = cut->shape[1];
  return cut->ndim == 5 && permute->order.n == 5 &&
         memcmp(permute->order.at, swapped, sizeof(swapped)) == 0 && image->meta.ndim == 4 &&
         y->meta.ndim == 4 && y->was == RG_IR_NONE && cut->shape[0] == image->meta.shape[0] &&
         cut->shape[1] * cut->shape[2] == image->meta.shape[1] &&
         cut->shape[3] == image->meta.shape[2] && cut->shape[4] == image->meta.shape[3] &&
         memcmp(y->meta.shape, image->meta.shape, 4 * sizeof(int64_t)) == 0;
}

rg_status rg_deal_put(rg_graph *g, int32_t at, const rg_deal *d, int32_t last, int32_t *out)
{
  static const int64_t swapped[5] = { 0, 1, 2, 4, 3 };
  const rg_meta whole = rg_ir_value_at(g, last)->meta;
  rg_meta meta = whole;
  rg_shape_args shape = { 0 };
  rg_permute_args permute = { 0 };
  rg_copy_args copy;
  int32_t value = last;
  int32_t node;

  meta.ndim = 5;
  meta.shape[3] = d->groups;
  meta.shape[4] = whole.shape[3] / d->groups;
  rg_take_sizes(&shape.shape, meta.shape, 5);
  RG_TRY(rg_ir_insert_view(g, at, &rg_op_view, &shape, &meta, &value));
  meta.shape[3] = whole.shape[3] / d->groups;
  meta.shape[4] = d->groups;
  rg_take_sizes(&permute.order, swapped, 5);
  RG_TRY(rg_ir_insert_view(g, at, &rg_op_permute, &permute, &meta, &value));
  memset(&copy, 0, sizeof(copy));
  copy.meta = meta;
  RG_TRY(rg_graph_insert(g, at, 0, RG_OP_COPY, &value, 1, &copy, &node));
  value = rg_ir_outputs(g, rg_ir_node_at(g, node))[0];
  memset(&shape, 0, sizeof(shape));
  rg_take_sizes(&shape.shape, whole.shape, 4);
  RG_TRY(rg_ir_insert_view(g, at, &rg_op_view, &shape, &whole, &value));
  *out = value;
  return RG_OK;
}
