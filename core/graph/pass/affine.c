/* SPDX-License-Identifier: MIT */
/*
** Products and sums with constants, one number or one for each channel, around a linear function or
** a convolution, as other weights and another bias:
**
**   (x w' + b) s       x (w s)' + b s          s: a number, or one for each channel that comes out
**   (x w' + b) + t     x w' + (b + t)          where there is a bias (else epilogue_fusion has it)
**   (x s) w'           x (w s)'                s: a number, or one for each channel that goes in
**
** What is added before a product stays: at a convolution's border it is no constant.  The new
** weights are derived nodes, as those of batch_norm.c: computed when a plan first runs, and again
** where somebody wrote to what they read.  Rounding is another one.
*/
#include "graph/pass/pass.h"
#include "op/act.h"
#include "op/binary.h"
#include "op/conv.h"
#include "op/list.h"
#include "op/product.h"
#include "op/view.h"

extern const rg_op rg_op_view;

typedef union arguments {
  rg_linear_args linear;
  rg_conv2d_args conv2d;
} arguments;

typedef struct site {
  rg_graph *g;
  const rg_merge *m;
  int32_t n_storages; /* that were there when the pass began: nobody writes to others */
  int32_t at;         /* everything new stands before it */
  int32_t product;    /* linear or conv2d */
  int32_t factor;     /* node of the constant: mul, add, sub or div */
  int32_t constant;   /* value; RG_IR_NONE: a number */
  double number;
  int32_t in[3]; /* x, w, b of the product */
  int32_t x;     /* what is multiplied, of a factor before the product */
  arguments args;
} site;

/* -- What is constant ----------------------------------------------------------------------- */

static bool is_last(const site *s, int32_t value)
{
  return rg_ir_value_at(s->g, value)->storage >= s->n_storages || rg_merge_is_last(s->m, value);
}

/* Was a value there before, or made of what was, and does nobody write to it? */
static bool is_given(const site *s, int32_t value)
{
  while (is_last(s, value)) {
    const rg_ir_value *v = rg_ir_value_at(s->g, value);

    if (v->producer == RG_IR_NONE) {
      return true;
    }
    const rg_ir_node *node = rg_ir_node_at(s->g, v->producer);

    if (node->derived) {
      return true;
    }
    if (node->op->view == NULL || node->compound || v->was != RG_IR_NONE) {
      return false;
    }
    value = rg_ir_inputs(s->g, node)[0];
  }
  return false;
}

/* Is a value one number for each position of an axis of another one, and of its type? */
static bool is_for_axis(const site *s, int32_t value, int32_t of, int32_t axis)
{
  const rg_ir_value *v = rg_ir_value_at(s->g, value);
  const rg_ir_value *y = rg_ir_value_at(s->g, of);
  int64_t count = 1;

  if (v->device != y->device || v->meta.dtype != y->meta.dtype || v->meta.ndim > y->meta.ndim) {
    return false;
  }
  for (int32_t i = 0; i < v->meta.ndim; i++) {
    if (v->meta.shape[i] != 1 && i + y->meta.ndim - v->meta.ndim != axis) {
      return false;
    }
    count *= v->meta.shape[i];
  }
  return count == y->meta.shape[axis];
}

/* -- Where --------------------------------------------------------------------------------- */

/* Does a node make one result in memory of its own? */
static bool is_plain(const site *s, const rg_ir_node *node)
{
  return node->op != NULL && !node->compound && !node->recomputed && !node->derived &&
         !node->unwritten && node->n_out == 1 && rg_ir_outputs(s->g, node)[0] != RG_IR_NONE &&
         rg_ir_value_at(s->g, rg_ir_outputs(s->g, node)[0])->was == RG_IR_NONE &&
         rg_ir_modes_of(s->g, node->modes)->autocast < 0;
}

/* Take the product apart; its axis of channels, -1 where it is none. */
static int32_t take_product(site *s, int32_t number)
{
  const rg_ir_node *node = rg_ir_node_at(s->g, number);
  const rg_ir_value *y;

  if (!is_plain(s, node) || (node->op->id != RG_OP_LINEAR && node->op->id != RG_OP_CONV2D)) {
    return -1;
  }
  y = rg_ir_value_at(s->g, rg_ir_outputs(s->g, node)[0]);
  if (y->meta.dtype != RG_F32 && y->meta.dtype != RG_F64) {
    return -1; /* weights in few bits would be rounded once more */
  }
  s->product = number;
  for (int32_t i = 0; i < 3; i++) {
    s->in[i] = i < node->n_in ? rg_ir_inputs(s->g, node)[i] : RG_IR_NONE;
    if (s->in[i] != RG_IR_NONE && (rg_ir_value_at(s->g, s->in[i])->meta.dtype != y->meta.dtype ||
                                   (i == 0 ? !is_last(s, s->in[i]) : !is_given(s, s->in[i])))) {
      return -1;
    }
  }
  if (node->op->id == RG_OP_LINEAR) {
    s->args.linear = *(const rg_linear_args *)rg_ir_args(s->g, node);
    return y->meta.ndim - 1;
  }
  s->args.conv2d = *(const rg_conv2d_args *)rg_ir_args(s->g, node);
  return rg_channels_axis(s->args.conv2d.o.layout);
}

static bool is_bare(const site *s)
{
  return rg_ir_node_at(s->g, s->product)->op->id == RG_OP_LINEAR
             ? s->args.linear.act == RG_ACT_NONE
             : s->args.conv2d.o.act == RG_ACT_NONE;
}

/* Take a node apart that combines input `slot` with a constant for an axis of it, or a number. */
static bool take_constant(site *s, int32_t number, int32_t slot, int32_t axis)
{
  const rg_ir_node *node = rg_ir_node_at(s->g, number);
  const rg_binary_args *args = rg_ir_args(s->g, node);
  const int32_t *in = rg_ir_inputs(s->g, node);

  s->factor = number;
  s->constant = RG_IR_NONE;
  if (args->scalar) {
    s->number = args->value;
    return slot == 0 && (!args->reversed || node->op->id == RG_OP_MUL || node->op->id == RG_OP_ADD);
  }
  if (node->n_in != 2 || in[1 - slot] == RG_IR_NONE || in[slot] == RG_IR_NONE ||
      (slot == 1 && node->op->id != RG_OP_MUL && node->op->id != RG_OP_ADD)) {
    return false;
  }
  s->constant = in[1 - slot];
  return is_for_axis(s, s->constant, in[slot], axis) && is_given(s, s->constant);
}

/* Do two nodes, one of which reads value `between` of the other one alone, run alike? */
static bool are_one(const site *s, const rg_ir_node *a, const rg_ir_node *b, int32_t between)
{
  const rg_ir_value *v = rg_ir_value_at(s->g, between);

  return a->parent == b->parent && rg_ir_runs_alike(s->g, a, b) && v->n_uses == 1 &&
         v->was == RG_IR_NONE && is_last(s, between);
}

/* -- How ----------------------------------------------------------------------------------- */

/* A derived node; value: its result. */
static rg_status put(const site *s, int32_t op, int32_t a, int32_t b, double number, int32_t *value)
{
  const rg_binary_args args = { .scalar = b == RG_IR_NONE && op != RG_OP_NEG, .value = number };
  int32_t node;

  RG_TRY(rg_graph_insert(s->g, s->at, 0, op, (const int32_t[]){ a, b }, b != RG_IR_NONE ? 2 : 1,
                         op != RG_OP_NEG ? &args : NULL, &node));
  rg_ir_node_at(s->g, node)->derived = true;
  *value = rg_ir_outputs(s->g, rg_ir_node_at(s->g, node))[0];
  return RG_OK;
}

/* The constant with its numbers along one axis of so many. */
static rg_status put_view(const site *s, int32_t ndim, int32_t axis, int64_t count, int32_t *out)
{
  rg_meta meta = { .dtype = rg_ir_value_at(s->g, s->constant)->meta.dtype, .ndim = ndim };
  rg_shape_args args = { 0 };

  for (int32_t i = 0; i < ndim; i++) {
    meta.shape[i] = i == axis ? count : 1;
  }
  rg_take_sizes(&args.shape, meta.shape, meta.ndim);
  *out = s->constant;
  return rg_ir_insert_view(s->g, s->at, &rg_op_view, &args, &meta, out);
}

/* weights or bias, in and out, with the constant along one of their axes. */
static rg_status combine(const site *s, int32_t op, int32_t axis, int32_t *value)
{
  const rg_meta meta = rg_ir_value_at(s->g, *value)->meta;
  int32_t other = RG_IR_NONE;

  if (s->constant != RG_IR_NONE) {
    RG_TRY(put_view(s, meta.ndim, axis, meta.shape[axis], &other));
  }
  return put(s, op, *value, other, s->number, value);
}

/* The product with other weights, in the place and memory of value `old`. */
static rg_status put_product(const site *s, int32_t old)
{
  const rg_ir_node was = *rg_ir_node_at(s->g, s->product);
  int32_t node;

  RG_TRY(rg_graph_insert(s->g, s->at, 0, was.op->id, s->in, s->in[2] != RG_IR_NONE ? 3 : 2,
                         &s->args, &node));
  rg_ir_node *made = rg_ir_node_at(s->g, node);
  const int32_t result = rg_ir_outputs(s->g, made)[0];

  made->modes = was.modes;
  made->module = was.module;
  made->line = was.line;
  made->flops = was.flops;
  made->bytes = was.bytes;
  rg_ir_value_at(s->g, result)->storage = rg_ir_value_at(s->g, old)->storage;
  return rg_ir_replace(s->g, old, result);
}

/* -- Behind a product ------------------------------------------------------------------------ */

static bool may_fold_behind(site *s, int32_t number, int32_t slot)
{
  const rg_ir_node *node = rg_ir_node_at(s->g, number);
  const int32_t between = slot < node->n_in ? rg_ir_inputs(s->g, node)[slot] : RG_IR_NONE;
  int32_t axis;

  if (between == RG_IR_NONE || rg_ir_value_at(s->g, between)->producer == RG_IR_NONE ||
      !rg_merge_alike(rg_ir_value_at(s->g, between),
                      rg_ir_value_at(s->g, rg_ir_outputs(s->g, node)[0]))) {
    return false;
  }
  axis = take_product(s, rg_ir_value_at(s->g, between)->producer);
  return axis >= 0 && is_bare(s) && are_one(s, rg_ir_node_at(s->g, s->product), node, between) &&
         take_constant(s, number, slot, axis);
}

static rg_status fold_behind(site *s, bool *folded)
{
  const rg_ir_node *node = rg_ir_node_at(s->g, s->factor);
  const int32_t op = node->op->id;
  const int32_t z = rg_ir_outputs(s->g, node)[0];

  if ((op == RG_OP_ADD || op == RG_OP_SUB) && s->in[2] == RG_IR_NONE) {
    return RG_OK;
  }
  s->at = s->factor;
  if (op == RG_OP_MUL || op == RG_OP_DIV) {
    RG_TRY(combine(s, op, 0, &s->in[1]));
  }
  if (s->in[2] != RG_IR_NONE) {
    RG_TRY(combine(s, op, 0, &s->in[2]));
  }
  RG_TRY(put_product(s, z));
  RG_TRY(rg_ir_remove(s->g, s->factor));
  *folded = true;
  return rg_ir_remove(s->g, s->product);
}

/* -- Before one ------------------------------------------------------------------------------ */

static bool may_fold_before(site *s, int32_t number)
{
  const int32_t axis = take_product(s, number);

  if (axis < 0) {
    return false;
  }
  const rg_ir_node *product = rg_ir_node_at(s->g, number);
  const rg_ir_value *x = rg_ir_value_at(s->g, s->in[0]);

  if (x->producer == RG_IR_NONE ||
      (product->op->id == RG_OP_CONV2D && s->args.conv2d.o.groups > 1)) {
    return false;
  }
  const rg_ir_node *node = rg_ir_node_at(s->g, x->producer);

  if (!is_plain(s, node) || node->op->id != RG_OP_MUL || !are_one(s, node, product, s->in[0])) {
    return false;
  }
  for (int32_t slot = 0; slot < 2 && slot < node->n_in; slot++) {
    const int32_t from = rg_ir_inputs(s->g, node)[slot];
    const int32_t of_x = product->op->id == RG_OP_LINEAR ? x->meta.ndim - 1 : axis;

    if (from != RG_IR_NONE && is_last(s, from) && rg_merge_alike(rg_ir_value_at(s->g, from), x) &&
        take_constant(s, x->producer, slot, of_x)) {
      s->x = from;
      return true;
    }
  }
  return false;
}

static rg_status fold_before(site *s)
{
  const int32_t y = rg_ir_outputs(s->g, rg_ir_node_at(s->g, s->product))[0];

  s->at = s->product;
  RG_TRY(combine(s, RG_OP_MUL, 1, &s->in[1]));
  s->in[0] = s->x;
  RG_TRY(put_product(s, y));
  RG_TRY(rg_ir_remove(s->g, s->product));
  return rg_ir_remove(s->g, s->factor);
}

/* -- All of them ----------------------------------------------------------------------------- */

static rg_status visit(site *s, int32_t number)
{
  const rg_ir_node *node = rg_ir_node_at(s->g, number);
  bool folded = false;

  if (node->op == NULL || !is_plain(s, node)) {
    return RG_OK;
  }
  switch (node->op->id) {
  case RG_OP_LINEAR:
  case RG_OP_CONV2D:
    return may_fold_before(s, number) ? fold_before(s) : RG_OK;
  case RG_OP_MUL:
  case RG_OP_DIV:
  case RG_OP_ADD:
  case RG_OP_SUB:
    break;
  default:
    return RG_OK;
  }
  for (int32_t slot = 0; slot < 2 && !folded; slot++) {
    if (may_fold_behind(s, number, slot)) {
      RG_TRY(fold_behind(s, &folded));
      break;
    }
  }
  return RG_OK;
}

static rg_status visit_all(site *s)
{
  const int32_t *order;
  int32_t n;
  rg_status status = RG_OK;

  RG_TRY(rg_ir_order(s->g, &order, NULL, &n));
  int32_t *each = rg_host_alloc((size_t)n * sizeof(*each));

  if (each == NULL) {
    return rg_fail(RG_ENOMEM, "graph: no memory to fold constants into weights");
  }
  for (int32_t i = 0; i < n; i++) {
    each[i] = order[i];
  }
  for (int32_t i = 0; i < n && status == RG_OK; i++) {
    status = visit(s, each[i]);
  }
  rg_host_free(each);
  return status;
}

rg_status rg_pass_affine(rg_graph *g)
{
  rg_merge m;
  site s = { .g = g, .m = &m, .n_storages = rg_ir_n_storages(g) };
  rg_status status = rg_merge_begin(&m, g);

  status = status == RG_OK ? visit_all(&s) : status;
  rg_merge_release(&m);
  return status;
}
