/* SPDX-License-Identifier: MIT */
/*
** Concatenations of concatenations along the same axis as one: each element is copied once where it
** was copied twice.  What lies between is read by nobody else, and nothing has written to the parts
** when the outer one runs.
*/
#include "graph/pass/pass.h"
#include "op/concat.h"
#include "op/list.h"

enum { MOST = 256 }; /* parts */

typedef struct parts {
  const rg_merge *m;
  int32_t in[MOST];
  int32_t n;
} parts;

/* The concatenation that made a part, where it may go up in node `outer`. */
static int32_t inner_of(const rg_merge *m, int32_t value, const rg_ir_node *outer)
{
  const rg_ir_value *v = value != RG_IR_NONE ? rg_ir_value_at(m->g, value) : NULL;

  if (v == NULL || v->producer == RG_IR_NONE || v->was != RG_IR_NONE || v->n_uses != 1 ||
      !rg_merge_is_last(m, value)) {
    return RG_IR_NONE;
  }
  const rg_ir_node *node = rg_ir_node_at(m->g, v->producer);
  const rg_concat_args *a = rg_ir_args(m->g, node);
  const rg_concat_args *b = rg_ir_args(m->g, outer);

  if (node->op->id != RG_OP_CONCAT || node->parent != outer->parent || node->recomputed ||
      a->axis != b->axis || !rg_ir_runs_alike(m->g, node, outer) ||
      rg_ir_modes_of(m->g, node->modes)->compute != rg_ir_modes_of(m->g, outer->modes)->compute) {
    return RG_IR_NONE;
  }
  for (int32_t i = 0; i < node->n_in; i++) {
    int32_t part = rg_ir_inputs(m->g, node)[i];

    if (part == RG_IR_NONE || !rg_merge_is_last(m, part) ||
        rg_ir_value_at(m->g, part)->meta.dtype != v->meta.dtype) {
      return RG_IR_NONE;
    }
  }
  return v->producer;
}

/* The parts of a node, those of inner ones in their place; false where there are too many. */
static bool gather(parts *p, const rg_ir_node *outer, int32_t *gone, int32_t *n_gone)
{
  const int32_t *in = rg_ir_inputs(p->m->g, outer);

  for (int32_t i = 0; i < outer->n_in; i++) {
    int32_t inner = inner_of(p->m, in[i], outer);
    const rg_ir_node *node = inner != RG_IR_NONE ? rg_ir_node_at(p->m->g, inner) : NULL;
    const int32_t *from = node != NULL ? rg_ir_inputs(p->m->g, node) : &in[i];
    int32_t n = node != NULL ? node->n_in : 1;

    if (p->n + n > MOST) {
      return false;
    }
    for (int32_t k = 0; k < n; k++) {
      p->in[p->n++] = from[k];
    }
    if (node != NULL) {
      gone[(*n_gone)++] = inner;
    }
  }
  return true;
}

static rg_status visit(const rg_merge *m, int32_t number)
{
  const rg_ir_node *outer = rg_ir_node_at(m->g, number);
  parts p = { .m = m };
  int32_t gone[MOST];
  int32_t n_gone = 0;
  int32_t node;

  if (outer->op == NULL || outer->op->id != RG_OP_CONCAT || outer->recomputed ||
      outer->n_out != 1 || outer->n_in > MOST ||
      rg_ir_value_at(m->g, rg_ir_outputs(m->g, outer)[0])->was != RG_IR_NONE ||
      !gather(&p, outer, gone, &n_gone) || n_gone == 0) {
    return RG_OK;
  }
  const rg_ir_node old = *outer;
  const rg_concat_args args = *(const rg_concat_args *)rg_ir_args(m->g, outer);
  const int32_t y = rg_ir_outputs(m->g, outer)[0];

  RG_TRY(rg_graph_insert(m->g, number, 0, RG_OP_CONCAT, p.in, p.n, &args, &node));
  rg_ir_node *made = rg_ir_node_at(m->g, node);
  const int32_t result = rg_ir_outputs(m->g, made)[0];

  made->module = old.module;
  made->line = old.line;
  rg_ir_value_at(m->g, result)->storage = rg_ir_value_at(m->g, y)->storage;
  RG_TRY(rg_ir_replace(m->g, y, result));
  RG_TRY(rg_ir_remove(m->g, number));
  for (int32_t i = 0; i < n_gone; i++) {
    RG_TRY(rg_ir_remove(m->g, gone[i]));
  }
  return RG_OK;
}

static rg_status visit_all(const rg_merge *m)
{
  const int32_t *order;
  int32_t n;
  rg_status status = RG_OK;

  RG_TRY(rg_ir_order(m->g, &order, NULL, &n));
  int32_t *each = rg_host_alloc((size_t)n * sizeof(*each));

  if (each == NULL) {
    return rg_fail(RG_ENOMEM, "graph: no memory to look for concatenations");
  }
  for (int32_t i = 0; i < n; i++) {
    each[i] = order[i];
  }
  for (int32_t i = 0; i < n && status == RG_OK; i++) {
    status = visit(m, each[i]);
  }
  rg_host_free(each);
  return status;
}

rg_status rg_pass_concat(rg_graph *g)
{
  rg_merge m;
  rg_status status = rg_merge_begin(&m, g);

  status = status == RG_OK ? visit_all(&m) : status;
  rg_merge_release(&m);
  return status;
}
