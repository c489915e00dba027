/* SPDX-License-Identifier: MIT */
/*
** Batch normalisation in evaluation out of its pieces:
**
**   (x - mean) / sqrt(var + eps) w + b        batch_norm(x, w, b, mean, var)
**
** mean, var, w and b are one number for each position of one axis of x, the same axis; w and b may
** be missing, and w may be divided by the root first.  rsqrt, 1 / sqrt and the reciprocal of sqrt
** may stand for the division.  What comes out is the compound with the nodes of its body, which
** batch_norm_folding knows, as those are that nn.BatchNorm makes, and ONNX has a name for it.
**
** Statistics of the batch itself have no running ones beside them, and stay pieces.
*/
#include "graph/pass/recover.h"
#include "op/binary.h"
#include "op/list.h"
#include "op/view.h"
#include "ridge/compound.h"

extern const rg_op rg_op_view, rg_op_batch_norm;

enum { X, WEIGHT, SHIFT, MEAN, VAR, N_IN };

typedef struct norm {
  int32_t in[N_IN]; /* RG_IR_NONE: missing */
  int32_t axis;     /* of the channels, -1: not known yet */
  double eps;
} norm;

static const rg_meta *meta_of(const rg_recover *f, int32_t value)
{
  return &rg_ir_value_at(f->g, value)->meta;
}

/* -- Channels ------------------------------------------------------------------------------ */

/* Is a value that broadcasts to x one number for each channel?  The first one says of which
** axis. */
static bool is_channels(const rg_recover *f, norm *n, int32_t value)
{
  const rg_ir_value *v = rg_ir_value_at(f->g, value);
  const rg_ir_value *x = rg_ir_value_at(f->g, n->in[X]);
  int32_t axis = -1;

  if (v->device != x->device || v->meta.dtype != x->meta.dtype || v->meta.ndim > x->meta.ndim) {
    return false;
  }
  for (int32_t i = 0; i < v->meta.ndim; i++) {
    if (v->meta.shape[i] != 1) {
      if (axis >= 0) {
        return false;
      }
      axis = i + x->meta.ndim - v->meta.ndim;
    }
  }
  if (axis < 0 || (n->axis >= 0 && axis != n->axis) ||
      rg_meta_count(&v->meta) != x->meta.shape[axis]) {
    return false;
  }
  n->axis = axis;
  return true;
}

/* What a value is a view of with the same elements in the same order; itself where it is none. */
static int32_t unviewed(const rg_recover *f, int32_t value)
{
  const rg_ir_node *node = rg_recover_maker(f, value);

  while (node != NULL && (node->op->id == RG_OP_RESHAPE || node->op->id == RG_OP_VIEW ||
                          node->op->id == RG_OP_UNSQUEEZE || node->op->id == RG_OP_SQUEEZE)) {
    value = rg_recover_in(f, node, 0);
    node = rg_recover_maker(f, value);
  }
  return value;
}

/* Has a value as many elements as there are channels, of which none is written behind it? */
static bool is_vector(const rg_recover *f, const norm *n, int32_t value)
{
  return value >= 0 && rg_merge_is_last(f->m, value) &&
         meta_of(f, value)->dtype == meta_of(f, n->in[X])->dtype &&
         rg_meta_count(meta_of(f, value)) == meta_of(f, n->in[X])->shape[n->axis];
}

/* -- Pieces -------------------------------------------------------------------------------- */

/* The root of var + eps, or the reciprocal of it. */
static bool take_root(const rg_recover *f, norm *n, int32_t value, bool reciprocal)
{
  const rg_ir_node *node = rg_recover_maker(f, unviewed(f, value));
  double one = 0;

  if (node == NULL) {
    return false;
  }
  if (reciprocal && node->op->id != RG_OP_RSQRT) {
    const rg_binary_args *args = node->op->id == RG_OP_DIV ? rg_ir_args(f->g, node) : NULL;

    one = args != NULL && args->scalar && args->reversed ? args->value : 0;
    if (node->op->id != RG_OP_RECIPROCAL && one != 1) {
      return false;
    }
    return take_root(f, n, rg_recover_in(f, node, 0), false);
  }
  if (node->op->id != (reciprocal ? RG_OP_RSQRT : RG_OP_SQRT)) {
    return false;
  }
  node = rg_recover_maker(f, unviewed(f, rg_recover_in(f, node, 0)));
  n->in[VAR] = rg_recover_number(f, node, RG_OP_ADD, &n->eps);
  n->in[VAR] = n->in[VAR] >= 0 ? unviewed(f, n->in[VAR]) : RG_IR_NONE;
  return n->eps >= 0 && is_vector(f, n, n->in[VAR]);
}

/* What x - mean is multiplied by: 1 / root, or w / root. */
static bool take_scale(const rg_recover *f, norm *n, int32_t value)
{
  const rg_ir_node *node;

  if (take_root(f, n, value, true)) {
    return true;
  }
  node = rg_recover_maker(f, unviewed(f, value));
  if (rg_recover_two(f, node, RG_OP_DIV)) {
    n->in[WEIGHT] = unviewed(f, rg_recover_in(f, node, 0));
    return is_vector(f, n, n->in[WEIGHT]) && take_root(f, n, rg_recover_in(f, node, 1), false);
  }
  for (int32_t i = 0; i < 2 && rg_recover_two(f, node, RG_OP_MUL); i++) {
    n->in[WEIGHT] = unviewed(f, rg_recover_in(f, node, i));
    if (is_vector(f, n, n->in[WEIGHT]) && take_root(f, n, rg_recover_in(f, node, 1 - i), true)) {
      return true;
    }
  }
  return false;
}

/* x - mean, where it is as large as x. */
static bool take_centred(const rg_recover *f, norm *n, int32_t value)
{
  const rg_ir_node *node = rg_recover_maker(f, value);

  if (!rg_recover_two(f, node, RG_OP_SUB)) {
    return false;
  }
  n->axis = -1;
  n->in[X] = rg_recover_in(f, node, 0);
  if (meta_of(f, n->in[X])->ndim < 2 || !rg_merge_is_last(f->m, n->in[X]) ||
      !rg_meta_same(meta_of(f, n->in[X]), meta_of(f, value)) ||
      !is_channels(f, n, rg_recover_in(f, node, 1))) {
    return false;
  }
  n->in[MEAN] = unviewed(f, rg_recover_in(f, node, 1));
  return is_vector(f, n, n->in[MEAN]);
}

/* Is the end a norm, without a weight and a bias or with a weight in its scale? */
static bool find(const rg_recover *f, norm *n)
{
  const bool divides = rg_recover_two(f, f->end, RG_OP_DIV);

  for (int32_t i = 0; i < 2 && (divides || rg_recover_two(f, f->end, RG_OP_MUL)); i++) {
    const int32_t scale = rg_recover_in(f, f->end, 1 - i);

    *n = (norm){ { RG_IR_NONE, RG_IR_NONE, RG_IR_NONE, RG_IR_NONE, RG_IR_NONE }, -1, -1 };
    if (take_centred(f, n, rg_recover_in(f, f->end, i)) && is_channels(f, n, scale) &&
        (divides ? i == 0 && take_root(f, n, scale, false) : take_scale(f, n, scale))) {
      return true;
    }
  }
  return false;
}

/* The norm in evaluation, of this pass or recorded, that makes a value which is read once. */
static int32_t take_norm(const rg_recover *f, norm *n, int32_t value)
{
  const rg_ir_value *y = rg_ir_value_at(f->g, value);
  const int32_t number =
      y->producer != RG_IR_NONE ? rg_ir_node_at(f->g, y->producer)->parent : RG_IR_NONE;

  if (number == RG_IR_NONE) {
    return RG_IR_NONE;
  }
  const rg_ir_node *node = rg_ir_node_at(f->g, number);
  const rg_batch_norm_options *o = rg_ir_args(f->g, node);

  /* its reader, and the compound that hands it out */
  if (node->op->id != RG_OP_BATCH_NORM || o->batch || node->n_out != 1 || node->n_in != N_IN ||
      node->recomputed || rg_ir_outputs(f->g, node)[0] != value || y->n_uses != 2 ||
      y->was != RG_IR_NONE || node->parent != f->end->parent ||
      !rg_ir_runs_alike(f->g, node, f->end) || rg_ir_modes_of(f->g, node->modes)->autocast >= 0 ||
      !rg_merge_is_last(f->m, value)) {
    return RG_IR_NONE;
  }
  for (int32_t i = 0; i < N_IN; i++) {
    n->in[i] = rg_ir_inputs(f->g, node)[i];
    if (n->in[i] != RG_IR_NONE && !rg_merge_is_last(f->m, n->in[i])) {
      return RG_IR_NONE;
    }
  }
  n->axis = o->axis < 0 ? o->axis + meta_of(f, n->in[X])->ndim : o->axis;
  n->eps = o->eps;
  return number;
}

/* A norm and its weight or bias behind it; the norm's number, which goes. */
static int32_t find_behind(const rg_recover *f, norm *n)
{
  const bool adds = rg_recover_two(f, f->end, RG_OP_ADD);

  for (int32_t i = 0; i < 2 && (adds || rg_recover_two(f, f->end, RG_OP_MUL)); i++) {
    const int32_t other = rg_recover_in(f, f->end, 1 - i);
    const int32_t of = take_norm(f, n, rg_recover_in(f, f->end, i));

    if (of == RG_IR_NONE || n->in[SHIFT] != RG_IR_NONE || (!adds && n->in[WEIGHT] != RG_IR_NONE) ||
        !is_channels(f, n, other)) {
      continue;
    }
    n->in[adds ? SHIFT : WEIGHT] = unviewed(f, other);
    if (is_vector(f, n, unviewed(f, other))) {
      return of;
    }
  }
  return RG_IR_NONE;
}

/* -- In their place ------------------------------------------------------------------------ */

typedef struct body {
  const rg_recover *f;
  int32_t at;       /* the node that goes: everything stands before it */
  int32_t compound; /* RG_IR_NONE: in front of it */
  const norm *n;
} body;

/* A view of a vector with its numbers along an axis of so many. */
static rg_status put_view(const body *b, int32_t ndim, int32_t axis, int32_t *value)
{
  rg_meta meta = { .dtype = meta_of(b->f, *value)->dtype, .ndim = ndim };
  rg_shape_args args = { 0 };

  for (int32_t i = 0; i < ndim; i++) {
    meta.shape[i] = i == axis ? rg_meta_count(meta_of(b->f, *value)) : 1;
  }
  rg_take_sizes(&args.shape, meta.shape, meta.ndim);
  RG_TRY(rg_ir_insert_view(b->f->g, b->at, &rg_op_view, &args, &meta, value));
  if (b->compound != RG_IR_NONE) {
    rg_ir_node_at(b->f->g, rg_ir_value_at(b->f->g, *value)->producer)->parent = b->compound;
  }
  return RG_OK;
}

/* A node of the body over a, and over b or a number. */
static rg_status put(const body *b, int32_t op, int32_t x, int32_t y, const void *args,
                     int32_t *value)
{
  int32_t node;

  RG_TRY(rg_graph_insert(b->f->g, b->at, 0, op, (const int32_t[]){ x, y }, y != RG_IR_NONE ? 2 : 1,
                         args, &node));
  rg_ir_node_at(b->f->g, node)->parent = b->compound;
  *value = rg_ir_outputs(b->f->g, rg_ir_node_at(b->f->g, node))[0];
  return RG_OK;
}

/* y op vector, the vector along the axis of channels. */
static rg_status put_along(const body *b, int32_t op, int32_t vector, int32_t *y)
{
  const rg_binary_args none = { 0 };

  RG_TRY(put_view(b, meta_of(b->f, *y)->ndim, b->n->axis, &vector));
  return put(b, op, *y, vector, &none, y);
}

/* The nodes that the record makes of running means. */
static rg_status put_body(const body *b, int32_t *y)
{
  const rg_binary_args eps = { .scalar = 1, .value = b->n->eps };
  int32_t scale;

  *y = b->n->in[X];
  RG_TRY(put_along(b, RG_OP_SUB, b->n->in[MEAN], y));
  RG_TRY(put(b, RG_OP_ADD, b->n->in[VAR], RG_IR_NONE, &eps, &scale));
  RG_TRY(put(b, RG_OP_RSQRT, scale, RG_IR_NONE, NULL, &scale));
  RG_TRY(put_along(b, RG_OP_MUL, scale, y));
  if (b->n->in[WEIGHT] != RG_IR_NONE) {
    RG_TRY(put_along(b, RG_OP_MUL, b->n->in[WEIGHT], y));
  }
  return b->n->in[SHIFT] != RG_IR_NONE ? put_along(b, RG_OP_ADD, b->n->in[SHIFT], y) : RG_OK;
}

/* The compound in the place of the end, whose node goes; so does the norm `before` it, if any. */
static rg_status put_norm(const rg_recover *f, int32_t number, norm *n, int32_t before)
{
  const rg_batch_norm_options o = { .eps = n->eps, .axis = n->axis };
  const int32_t old = rg_ir_outputs(f->g, f->end)[0];
  body b = { f, number, RG_IR_NONE, n };
  int32_t y;

  for (int32_t i = 1; i < N_IN; i++) {
    if (n->in[i] != RG_IR_NONE && meta_of(f, n->in[i])->ndim != 1) {
      RG_TRY(put_view(&b, 1, 0, &n->in[i]));
    }
  }
  RG_TRY(rg_ir_insert(f->g, number, false, &rg_op_batch_norm, n->in, N_IN, &o, &b.compound));
  rg_ir_node_at(f->g, b.compound)->compound = true;
  RG_TRY(put_body(&b, &y));
  RG_TRY(rg_ir_output_share(f->g, b.compound, y));
  rg_ir_results_end(f->g, b.compound);
  rg_ir_value_at(f->g, y)->storage = rg_ir_value_at(f->g, old)->storage;
  RG_TRY(rg_ir_replace(f->g, old, y));
  RG_TRY(rg_ir_remove(f->g, number));
  return before != RG_IR_NONE ? rg_ir_remove(f->g, before) : RG_OK;
}

/* Is the end in the body of a batch norm?  Its pieces are those of one that is there already. */
static bool is_within_one(const rg_recover *f)
{
  const int32_t parent = f->end->parent;

  return parent != RG_IR_NONE && rg_ir_node_at(f->g, parent)->op->id == RG_OP_BATCH_NORM;
}

rg_status rg_recover_batch_norm(const rg_recover *f, int32_t number, bool *found)
{
  norm n;
  int32_t before = RG_IR_NONE;

  *found = false;
  if (is_within_one(f)) {
    return RG_OK;
  }
  *found = find(f, &n);
  if (!*found) {
    before = find_behind(f, &n);
    *found = before != RG_IR_NONE;
  }
  if (!*found) {
    return RG_OK;
  }
  const rg_ir_node old = *f->end;
  const int32_t in[2] = { rg_recover_in(f, &old, 0), rg_recover_in(f, &old, 1) };

  RG_TRY(put_norm(f, number, &n, before));
  return rg_recover_sweep(f, &old, in, 2);
}
