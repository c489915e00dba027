/* SPDX-License-Identifier: MIT */
/*
** Constant folding: what is computed from numbers alone is computed now, and a plan finds the
** result in a tensor instead of computing it at each run.
**
** A node is folded where all it reads is constant (fill and arange read nothing), its kernel is the
** one that a plan would run, under the same modes, so that the bits are the same.  What stays: what
** draws, writes or is written to, since a constant is shared by all runs; what the graph hands out;
** bodies of compounds, which read nothing but what their compounds are given; and what would take
** more memory than it is worth.
*/
#include <string.h>

#include "graph/pass/pass.h"
#include "op/list.h"

enum { MOST_BYTES = 16 << 20, MOST_IN = 16 }; /* of one constant; of one node */

typedef struct folding {
  rg_merge m;
  const rg_tensor *in[MOST_IN];
  int64_t args[RG_IR_MOST_ARGS / sizeof(int64_t)];
} folding;

/* -- Where ------------------------------------------------------------------------------- */

/* Is a value a result that nobody writes to, and no output of a compound? */
static bool is_steady(const rg_merge *m, int32_t value)
{
  const rg_ir_value *v = rg_ir_value_at(m->g, value);
  const rg_ir_use *uses = rg_ir_uses(m->g, v);

  if (v->was != RG_IR_NONE || m->last[v->storage] != 0 || m->n_outputs[v->storage] > 0 ||
      rg_meta_bytes(&v->meta) > MOST_BYTES) {
    return false;
  }
  for (int32_t i = 0; i < v->n_uses; i++) {
    if (uses[i].node == RG_IR_NONE || uses[i].slot >= rg_ir_node_at(m->g, uses[i].node)->n_in) {
      return false;
    }
  }
  return true;
}

static bool may_fold(const folding *f, const rg_ir_node *node)
{
  const int32_t *in = rg_ir_inputs(f->m.g, node);
  const int32_t *out = rg_ir_outputs(f->m.g, node);

  if (node->op->id < 0 || node->op->draws || node->op->writes || node->compound ||
      node->parent != RG_IR_NONE || node->recomputed || node->unwritten || node->derived ||
      node->n_in > MOST_IN || node->op->n_inputs > MOST_IN || node->n_out != 1 ||
      node->n_results != 1 || out[0] == RG_IR_NONE ||
      (node->op->view == NULL && node->op->expand != NULL)) {
    return false;
  }
  for (int32_t i = 0; i < node->n_in; i++) {
    if (in[i] != RG_IR_NONE && (rg_ir_value_at(f->m.g, in[i])->kind != RG_VALUE_CONSTANT ||
                                rg_ir_bound(f->m.g, in[i]) == NULL)) {
      return false;
    }
  }
  return is_steady(&f->m, out[0]);
}

/* -- How --------------------------------------------------------------------------------- */

static rg_status call_node(folding *f, const rg_ir_node *node, rg_tensor **y)
{
  const int32_t *in = rg_ir_inputs(f->m.g, node);
  const rg_ir_value *v = rg_ir_value_at(f->m.g, rg_ir_outputs(f->m.g, node)[0]);
  const rg_op *op = node->op;
  int32_t n_in = node->n_in;
  bool reads = false;

  for (int32_t i = 0; i < n_in; i++) {
    f->in[i] = in[i] != RG_IR_NONE ? rg_ir_bound(f->m.g, in[i]) : NULL;
    reads = reads || f->in[i] != NULL;
  }
  while (n_in < op->n_inputs && !op->input[op->n_inputs - 1].list) {
    f->in[n_in++] = NULL;
  }
  if (op->args_size != 0) {
    memcpy(f->args, rg_ir_args(f->m.g, node), op->args_size);
  }
  if (op->view != NULL) {
    return rg_run_view(op, f->in[0], f->args, y);
  }
  if (!reads) {
    RG_TRY(rg_empty(v->meta.dtype, v->device, v->meta.shape, v->meta.ndim, y));
  }
  return rg_run(&(rg_call){ .op = op, .in = f->in, .n_in = n_in, .args = f->args }, y);
}

/* The same under the modes that the node runs under in a plan, unseen by tape and ring. */
static rg_status compute(folding *f, const rg_ir_node *node, rg_tensor **y)
{
  const rg_graph_modes *of_node = rg_ir_modes_of(f->m.g, node->modes);
  const rg_modes modes = rg_ir_run_modes(of_node);
  const rg_modes *before = rg_modes_enter(&modes);
  const int32_t autocast = rg_autocast();
  const int32_t grad = rg_grad_mode(0);
  const uint32_t ring = rg_ring_on;
  rg_status status;

  (void)rg_autocast_set(of_node->autocast);
  rg_ring_on &= 1u << RG_EVENT_ALLOC | 1u << RG_EVENT_FREE;
  status = call_node(f, node, y);
  rg_ring_on = ring;
  (void)rg_grad_mode(grad);
  (void)rg_autocast_set(autocast);
  (void)rg_modes_enter(before);
  return status;
}

static rg_status fold(folding *f, int32_t number)
{
  rg_graph *g = f->m.g;
  const rg_ir_node *node = rg_ir_node_at(g, number);
  const int32_t old = rg_ir_outputs(g, node)[0];
  const rg_meta meta = rg_ir_value_at(g, old)->meta;
  const int32_t device = rg_ir_value_at(g, old)->device;
  const int32_t storage = rg_ir_value_at(g, old)->storage; /* views of it stay views of it */
  rg_tensor *y = NULL;
  int32_t value;
  rg_status status = compute(f, node, &y);

  if (status == RG_OK && (y->_device != device || rg_tensor_bytes(y) != rg_meta_bytes(&meta))) {
    rg_tensor_release(y);
    return RG_OK;
  }
  status = status == RG_OK
               ? rg_ir_value_add(g, RG_VALUE_CONSTANT, &meta, device, storage, y, &value)
               : status;
  rg_tensor_release(y);
  RG_TRY(status);
  RG_TRY(rg_ir_replace(g, old, value));
  f->m.gone[number] = true;
  return RG_OK;
}

static rg_status visit_all(folding *f)
{
  const int32_t *order;
  int32_t n;

  RG_TRY(rg_ir_order(f->m.g, &order, NULL, &n));
  for (int32_t i = 0; i < n; i++) {
    if (may_fold(f, rg_ir_node_at(f->m.g, order[i]))) {
      RG_TRY(fold(f, order[i]));
    }
  }
  return rg_ir_remove_all(f->m.g, f->m.gone);
}

rg_status rg_pass_constant(rg_graph *g)
{
  folding f;
  rg_status status;

  if (rg_capturing()) { /* its calls would be steps */
    return RG_OK;
  }
  status = rg_merge_begin(&f.m, g);
  status = status == RG_OK ? visit_all(&f) : status;
  rg_merge_release(&f.m);
  return status;
}
