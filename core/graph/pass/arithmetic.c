/* SPDX-License-Identifier: MIT */
/*
** Arithmetic identities: x * 1, x - 0 and x / 1 are x, for numbers and for tensors filled with one;
** so is x padded by nothing.
**
** x + 0 and x - -0 are not: they turn -0 into 0.  Neither is what has another type or shape than x
** (i32 / 1 is f32), or what would be stored in another way: the result of a product lies densely,
** and kernels may add up a strided x in another order; a parameter is packed where the product is
** not.  The payload of a nan is kept, where a multiplication may clear it.
*/
#include <math.h>

#include "graph/pass/pass.h"
#include "op/binary.h"
#include "op/fill.h"
#include "op/list.h"
#include "op/pad.h"

/* Does x op value leave x as it is? */
static bool is_neutral(int32_t op, double value)
{
  switch (op) {
  case RG_OP_MUL:
  case RG_OP_DIV:
    return value == 1;
  case RG_OP_SUB:
    return value == 0 && !signbit(value);
  default:
    return false;
  }
}

/* Is a value one number in each element, which nobody changes, and neutral? */
static bool is_neutral_fill(const rg_merge *m, int32_t op, int32_t value)
{
  const rg_ir_value *v = rg_ir_value_at(m->g, value);

  if (v->producer == RG_IR_NONE || v->was != RG_IR_NONE || !rg_merge_is_last(m, value)) {
    return false;
  }
  const rg_ir_node *node = rg_ir_node_at(m->g, v->producer);

  return node->op->id == RG_OP_FILL &&
         is_neutral(op, ((const rg_fill_args *)rg_ir_args(m->g, node))->value);
}

/* Are all amounts 0? */
static bool pads_nothing(const rg_pad_args *args)
{
  for (int64_t i = 0; i < args->low.n; i++) {
    if (args->low.at[i] != 0 || args->high.at[i] != 0) {
      return false;
    }
  }
  return true;
}

/* The input that a node hands on as it is; -1: none. */
static int32_t handed_on(const rg_merge *m, const rg_ir_node *node)
{
  const rg_binary_args *args = rg_ir_args(m->g, node);
  const int32_t *in = rg_ir_inputs(m->g, node);
  int32_t op = node->op->id;

  if (op == RG_OP_PAD) {
    return pads_nothing(rg_ir_args(m->g, node)) ? in[0] : RG_IR_NONE;
  }
  if (op != RG_OP_MUL && op != RG_OP_SUB && op != RG_OP_DIV) {
    return RG_IR_NONE;
  }
  if (args->scalar) {
    return is_neutral(op, args->value) && (!args->reversed || op == RG_OP_MUL) ? in[0] : RG_IR_NONE;
  }
  if (node->n_in < 2 || in[1] == RG_IR_NONE) {
    return RG_IR_NONE;
  }
  if (is_neutral_fill(m, op, in[1])) {
    return in[0];
  }
  return op == RG_OP_MUL && is_neutral_fill(m, op, in[0]) ? in[1] : RG_IR_NONE;
}

/* Does a value lie in memory row-major and without gaps, as what a kernel makes does? */
static bool is_dense(const rg_graph *g, int32_t value)
{
  const rg_ir_value *v = rg_ir_value_at(g, value);
  const rg_tensor *bound = rg_ir_bound(g, value);

  if (v->producer == RG_IR_NONE) {
    return v->kind != RG_VALUE_PARAMETER && bound != NULL && rg_is_contiguous(bound);
  }
  const rg_ir_node *node = rg_ir_node_at(g, v->producer);

  return v->was == RG_IR_NONE && !node->compound && node->op->infer != NULL &&
         node->op->view == NULL;
}

static rg_status visit(rg_merge *m, int32_t number)
{
  const rg_ir_node *node = rg_ir_node_at(m->g, number);

  if (node->n_out != 1 || node->recomputed) {
    return RG_OK;
  }
  int32_t y = rg_ir_outputs(m->g, node)[0];
  int32_t x = handed_on(m, node);

  if (x == RG_IR_NONE || y == RG_IR_NONE || rg_ir_value_at(m->g, y)->was != RG_IR_NONE ||
      (node->op->id != RG_OP_PAD &&
       rg_ir_modes_of(m->g, node->modes)->compute != rg_ir_value_at(m->g, x)->meta.dtype) ||
      !is_dense(m->g, x) || !rg_merge_allowed(m, y, x)) {
    return RG_OK;
  }
  m->gone[number] = true;
  return rg_merge_values(m, y, x);
}

static rg_status visit_all(rg_merge *m)
{
  const int32_t *order;
  int32_t n;

  RG_TRY(rg_ir_order(m->g, &order, NULL, &n));
  for (int32_t i = 0; i < n; i++) {
    RG_TRY(visit(m, order[i]));
  }
  return RG_OK;
}

rg_status rg_pass_arithmetic(rg_graph *g)
{
  rg_merge m;
  rg_status status = rg_merge_begin(&m, g);

  return rg_merge_end(&m, status == RG_OK ? visit_all(&m) : status);
}
