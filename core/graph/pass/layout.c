/* SPDX-License-Identifier: MIT */
/*
** Layouts of values, by the rules of the views themselves.
*/
#include "graph/pass/layout.h"

#include <string.h>

static void fill(const rg_meta *meta, int64_t *stride)
{
  int64_t next = 1;

  for (int32_t i = meta->ndim - 1; i >= 0; i--) {
    stride[i] = next;
    next *= rg_max_i64(meta->shape[i], 1);
  }
}

static bool are_contiguous(const rg_meta *meta, const int64_t *stride)
{
  int64_t next = 1;

  for (int32_t i = meta->ndim - 1; i >= 0; i--) {
    if (meta->shape[i] != 1 && stride[i] != next) {
      return false;
    }
    next *= rg_max_i64(meta->shape[i], 1);
  }
  return true;
}

static void take(rg_layouts *l, int32_t value, const int64_t *stride)
{
  const rg_meta *meta = &rg_ir_value_at(l->g, value)->meta;

  memmove(l->stride[value], stride, (size_t)meta->ndim * sizeof(*stride));
  l->contiguous[value] = are_contiguous(meta, stride);
}

bool rg_layout_is_contiguous(const rg_layouts *l, int32_t value)
{
  return value >= l->n || l->contiguous[value];
}

void rg_layout_stand_in(const rg_layouts *l, int32_t value, rg_tensor *x)
{
  const rg_ir_value *v = rg_ir_value_at(l->g, value);

  *x = (rg_tensor){ ._dtype = v->meta.dtype,
                    ._device = v->device,
                    ._ndim = v->meta.ndim,
                    ._flags = rg_layout_is_contiguous(l, value) ? RG_TENSOR_CONTIGUOUS : 0 };
  memcpy(x->_shape, v->meta.shape, (size_t)v->meta.ndim * sizeof(int64_t));
  if (value < l->n) {
    memcpy(x->_stride, l->stride[value], (size_t)v->meta.ndim * sizeof(int64_t));
  } else {
    fill(&v->meta, x->_stride);
  }
  x->_count = rg_meta_count(&v->meta);
}

/* A view by its rule; one that is none of a tensor that lies so is taken for what has gaps. */
static void view(rg_layouts *l, const rg_ir_node *node)
{
  const int32_t from = rg_ir_inputs(l->g, node)[0];
  const int32_t to = rg_ir_outputs(l->g, node)[0];
  _Alignas(8) char args[RG_IR_MOST_ARGS];
  rg_tensor x;
  rg_layout at = { .stride = at.strides };

  l->contiguous[to] = false;
  if (from == RG_IR_NONE) {
    return;
  }
  rg_layout_stand_in(l, from, &x);
  at.ndim = x._ndim;
  at.shape = x._shape;
  if (node->op->args_size > 0) {
    memcpy(args, rg_ir_args(l->g, node), node->op->args_size);
  }
  if (node->op->view(node->op, &x, args, &at) == RG_OK &&
      at.ndim == rg_ir_value_at(l->g, to)->meta.ndim) {
    take(l, to, at.stride);
  }
}

static void visit(rg_layouts *l, const rg_ir_node *node)
{
  const int32_t *out = rg_ir_outputs(l->g, node);

  for (int32_t i = 0; i < node->n_out && !node->compound; i++) {
    int32_t was = out[i] != RG_IR_NONE ? rg_ir_value_at(l->g, out[i])->was : RG_IR_NONE;

    if (was != RG_IR_NONE) {
      take(l, out[i], l->stride[was]);
    }
  }
  if (node->op->view != NULL && !node->compound && node->n_in == 1 && node->n_results == 1 &&
      out[0] != RG_IR_NONE) {
    view(l, node);
  }
}

rg_status rg_layouts_new(rg_layouts *l, rg_graph *g)
{
  const int32_t *order;
  int32_t n;

  *l = (rg_layouts){ .g = g, .n = rg_ir_n_values(g) };
  RG_TRY(rg_ir_order(g, &order, NULL, &n));
  l->stride = rg_host_zeroed((size_t)l->n * sizeof(*l->stride));
  l->contiguous = rg_host_zeroed((size_t)l->n);
  if (l->stride == NULL || l->contiguous == NULL) {
    return rg_fail(RG_ENOMEM, "graph: no memory for the layouts of its values");
  }
  for (int32_t i = 0; i < l->n; i++) {
    const rg_ir_value *v = rg_ir_value_at(g, i);
    const rg_tensor *x = v->producer == RG_IR_NONE ? rg_ir_bound(g, i) : NULL;

    fill(&v->meta, l->stride[i]);
    take(l, i, x != NULL ? x->_stride : l->stride[i]);
  }
  for (int32_t i = 0; i < n; i++) {
    visit(l, rg_ir_node_at(g, order[i]));
  }
  return RG_OK;
}

void rg_layouts_end(rg_layouts *l)
{
  rg_host_free(l->stride);
  rg_host_free(l->contiguous);
}
