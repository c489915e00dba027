/* SPDX-License-Identifier: MIT */
/*
** Layer normalisation, GELU, ReLU6 (recover_relu6.c), attention (recover_attention.c) and batch
** normalisation (recover_batch_norm.c) out of the pieces that files and other libraries write them
** in:
**
**   (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * w + b        layer_norm(x, w, b)
**   x * 0.5 * (1 + erf(x / sqrt(2)))                                 gelu(x)
**
** The mean is over the last axis; w and b, vectors as long as it, may be missing.  Products may
** stand in any order, and rsqrt for the root and division.  Pieces that somebody else reads stay
** for him.  Rounding is another one, and where x is
** infinite the pieces are nan, where GELU may be a limit.
*/
#include <math.h>

#include "graph/pass/recover.h"
#include "op/binary.h"
#include "op/list.h"
#include "op/norm.h"
#include "op/reduce.h"

/* -- Pieces --------------------------------------------------------------------------------- */

/* The node that makes a value, where it runs as the end does; NULL: none does. */
const rg_ir_node *rg_recover_maker(const rg_recover *f, int32_t value)
{
  const rg_ir_value *v = value != RG_IR_NONE ? rg_ir_value_at(f->g, value) : NULL;

  if (v == NULL || v->producer == RG_IR_NONE || v->was != RG_IR_NONE ||
      !rg_merge_is_last(f->m, value)) {
    return NULL;
  }
  const rg_ir_node *node = rg_ir_node_at(f->g, v->producer);

  return node->parent == f->end->parent && !node->compound && !node->recomputed && node->n_in > 0 &&
                 rg_ir_runs_alike(f->g, node, f->end) &&
                 rg_ir_modes_of(f->g, node->modes)->autocast < 0
             ? node
             : NULL;
}

int32_t rg_recover_in(const rg_recover *f, const rg_ir_node *node, int32_t i)
{
  return i < node->n_in ? rg_ir_inputs(f->g, node)[i] : RG_IR_NONE;
}

/* The number that a constant of one element is, which broadcasts to a value without a change. */
static bool is_number(const rg_recover *f, int32_t value, int32_t beside, double *number)
{
  const rg_ir_value *v = rg_ir_value_at(f->g, value);
  const rg_tensor *x = rg_ir_bound(f->g, value);

  if (v->kind != RG_VALUE_CONSTANT || x == NULL || x->_device != RG_CPU || x->_count != 1 ||
      v->meta.ndim > rg_ir_value_at(f->g, beside)->meta.ndim ||
      v->meta.dtype != rg_ir_value_at(f->g, beside)->meta.dtype) {
    return false;
  }
  switch (x->_dtype) {
  case RG_F32:
    *number = (double)*(const float *)x->_data;
    return true;
  case RG_F64:
    *number = *(const double *)x->_data;
    return true;
  default:
    return false;
  }
}

/* The same of two tensors, of which one is such a number: files have them so. */
static int32_t of_constant(const rg_recover *f, const rg_ir_node *node, int32_t op, double *number)
{
  const bool commutes = op == RG_OP_MUL || op == RG_OP_ADD;

  for (int32_t i = 1; i >= (commutes ? 0 : 1); i--) {
    const int32_t x = rg_recover_in(f, node, 1 - i);
    const int32_t c = rg_recover_in(f, node, i);

    if (x >= 0 && c >= 0 && is_number(f, c, x, number)) {
      return x;
    }
  }
  return RG_IR_NONE;
}

/* Is a node op(x, number)?  Then x; else none. */
int32_t rg_recover_number(const rg_recover *f, const rg_ir_node *node, int32_t op, double *number)
{
  if (node == NULL || node->op->id != op) {
    return RG_IR_NONE;
  }
  const rg_binary_args *args = rg_ir_args(f->g, node);

  if (!args->scalar) {
    return of_constant(f, node, op, number);
  }
  if ((args->reversed && op != RG_OP_MUL && op != RG_OP_ADD)) {
    return RG_IR_NONE;
  }
  *number = args->value;
  return rg_recover_in(f, node, 0);
}

/* Is a node op of two tensors? */
bool rg_recover_two(const rg_recover *f, const rg_ir_node *node, int32_t op)
{
  return node != NULL && node->op->id == op &&
         !((const rg_binary_args *)rg_ir_args(f->g, node))->scalar &&
         rg_recover_in(f, node, 0) >= 0 && rg_recover_in(f, node, 1) >= 0;
}

static bool is_near(double x, double y)
{
  return fabs(x - y) <= 1e-6 * fabs(y);
}

/* -- GELU ------------------------------------------------------------------------------------ */

/* The x of 1 + erf(x / sqrt(2)). */
static int32_t of_error(const rg_recover *f, int32_t value)
{
  double number = 0;
  const rg_ir_node *erf =
      rg_recover_maker(f, rg_recover_number(f, rg_recover_maker(f, value), RG_OP_ADD, &number));

  if (erf == NULL || erf->op->id != RG_OP_ERF || number != 1) {
    return RG_IR_NONE;
  }
  const rg_ir_node *scaled = rg_recover_maker(f, rg_recover_in(f, erf, 0));
  int32_t x = rg_recover_number(f, scaled, RG_OP_DIV, &number);

  if (x >= 0) {
    return is_near(number, sqrt(2.0)) ? x : RG_IR_NONE;
  }
  x = rg_recover_number(f, scaled, RG_OP_MUL, &number);
  return x >= 0 && is_near(number, sqrt(0.5)) ? x : RG_IR_NONE;
}

/* The value of which this one is a half. */
static int32_t of_half(const rg_recover *f, int32_t value)
{
  double number = 0;
  int32_t x = rg_recover_number(f, rg_recover_maker(f, value), RG_OP_MUL, &number);

  return number == 0.5 ? x : RG_IR_NONE;
}

/* Is a value, or half of it where halved is false yet, x (1 + erf(x / sqrt(2)))?  Then x. */
static int32_t of_product(const rg_recover *f, const rg_ir_node *node, bool halved)
{
  if (!rg_recover_two(f, node, RG_OP_MUL)) {
    return RG_IR_NONE;
  }
  for (int32_t i = 0; i < 2; i++) {
    const int32_t a = rg_recover_in(f, node, i);
    const int32_t b = rg_recover_in(f, node, 1 - i);

    if (halved) {
      if (of_error(f, b) == a) {
        return a;
      }
      continue;
    }
    const int32_t half_a = of_half(f, a);
    const int32_t half_b = of_half(f, b);

    if (half_a >= 0 && of_error(f, b) == half_a) { /* (x / 2) (1 + erf) */
      return half_a;
    }
    if (half_b >= 0 && of_error(f, half_b) == a) { /* x ((1 + erf) / 2) */
      return a;
    }
  }
  return RG_IR_NONE;
}

static int32_t find_gelu(const rg_recover *f)
{
  double number = 0;
  int32_t inner = rg_recover_number(f, f->end, RG_OP_MUL, &number);

  return inner >= 0 && number == 0.5 ? of_product(f, rg_recover_maker(f, inner), true)
                                     : of_product(f, f->end, false);
}

/* -- Layer normalisation ----------------------------------------------------------------------- */

/* The x of its mean over the last axis, which stays. */
static int32_t of_mean(const rg_recover *f, int32_t value)
{
  const rg_ir_node *node = rg_recover_maker(f, value);

  if (node == NULL || node->op->id != RG_OP_MEAN) {
    return RG_IR_NONE;
  }
  const rg_reduce_args *args = rg_ir_args(f->g, node);
  const int32_t x = rg_recover_in(f, node, 0);

  return args->keep && args->axes == 1u << (rg_ir_value_at(f->g, x)->meta.ndim - 1) ? x
                                                                                    : RG_IR_NONE;
}

/* The x of x squared. */
static int32_t of_square(const rg_recover *f, int32_t value)
{
  const rg_ir_node *node = rg_recover_maker(f, value);
  double number = 0;
  int32_t x;

  if (node == NULL) {
    return RG_IR_NONE;
  }
  if (node->op->id == RG_OP_SQUARE) {
    return rg_recover_in(f, node, 0);
  }
  if (rg_recover_two(f, node, RG_OP_MUL) &&
      rg_recover_in(f, node, 0) == rg_recover_in(f, node, 1)) {
    return rg_recover_in(f, node, 0);
  }
  x = rg_recover_number(f, node, RG_OP_POW, &number);
  return number == 2 ? x : RG_IR_NONE;
}

/* The d of d / sqrt(mean(d^2) + eps), or of d * rsqrt(...), in one of its two orders. */
static int32_t of_scaled(const rg_recover *f, const rg_ir_node *node, int32_t i, double *eps)
{
  const bool divides = rg_recover_two(f, node, RG_OP_DIV);
  const int32_t d = rg_recover_in(f, node, i);
  const rg_ir_node *root = rg_recover_maker(f, rg_recover_in(f, node, 1 - i));

  if (root == NULL || (divides && i == 1) || root->op->id != (divides ? RG_OP_SQRT : RG_OP_RSQRT)) {
    return RG_IR_NONE;
  }
  const int32_t var =
      rg_recover_number(f, rg_recover_maker(f, rg_recover_in(f, root, 0)), RG_OP_ADD, eps);

  return var >= 0 && of_square(f, of_mean(f, var)) == d && *eps >= 0 ? d : RG_IR_NONE;
}

static int32_t find_norm(const rg_recover *f, double *eps)
{
  if (!rg_recover_two(f, f->end, RG_OP_DIV) && !rg_recover_two(f, f->end, RG_OP_MUL)) {
    return RG_IR_NONE;
  }
  for (int32_t i = 0; i < 2; i++) {
    const int32_t d = of_scaled(f, f->end, i, eps);
    const rg_ir_node *apart = rg_recover_maker(f, d);

    if (rg_recover_two(f, apart, RG_OP_SUB) &&
        of_mean(f, rg_recover_in(f, apart, 1)) == rg_recover_in(f, apart, 0)) {
      return rg_recover_in(f, apart, 0);
    }
  }
  return RG_IR_NONE;
}

/* -- In their place ---------------------------------------------------------------------------- */

enum { PIECES = 8, MOST_IN = 4 }; /* one behind the other, at most; inputs of one */

static rg_status sweep(const rg_recover *f, int32_t value, int32_t depth)
{
  const rg_ir_node *node = rg_recover_maker(f, value);
  int32_t in[MOST_IN];
  int32_t n;

  if (node == NULL || depth == 0 || node->n_out != 1 || node->n_in > MOST_IN || node->draw >= 0 ||
      rg_ir_value_at(f->g, value)->n_uses > 0) {
    return RG_OK;
  }
  n = node->n_in;
  for (int32_t i = 0; i < n; i++) {
    in[i] = rg_recover_in(f, node, i);
  }
  RG_TRY(rg_ir_remove(f->g, rg_ir_value_at(f->g, value)->producer));
  for (int32_t i = 0; i < n; i++) {
    if (in[i] != RG_IR_NONE && !rg_ir_value_at(f->g, in[i])->removed) {
      RG_TRY(sweep(f, in[i], depth - 1));
    }
  }
  return RG_OK;
}

rg_status rg_recover_sweep(const rg_recover *f, const rg_ir_node *gone, const int32_t *values,
                           int32_t n)
{
  const rg_recover from = { f->g, f->m, gone }; /* the end itself may have moved */

  for (int32_t i = 0; i < n; i++) {
    if (values[i] != RG_IR_NONE && !rg_ir_value_at(f->g, values[i])->removed) {
      RG_TRY(sweep(&from, values[i], PIECES));
    }
  }
  return RG_OK;
}

/* A node over x in the place of the end, whose node goes, with the pieces that nobody reads. */
rg_status rg_recover_put(const rg_recover *f, int32_t number, int32_t op, const int32_t *in,
                         int32_t n, const void *args)
{
  const rg_ir_node old = *rg_ir_node_at(f->g, number);
  const int32_t y = rg_ir_outputs(f->g, &old)[0];
  const int32_t storage = rg_ir_value_at(f->g, y)->storage;
  const int32_t pieces[2] = { rg_recover_in(f, &old, 0), rg_recover_in(f, &old, 1) };
  int32_t node;

  RG_TRY(rg_graph_insert(f->g, number, 0, op, in, n, args, &node));
  rg_ir_node *made = rg_ir_node_at(f->g, node);
  const int32_t result = rg_ir_outputs(f->g, made)[0];

  made->module = old.module;
  made->line = old.line;
  rg_ir_value_at(f->g, result)->storage = storage;
  RG_TRY(rg_ir_replace(f->g, y, result));
  RG_TRY(rg_ir_remove(f->g, number));
  return rg_recover_sweep(f, &old, pieces, 2);
}

/* w or b behind a norm that was recovered: input `slot` of it. */
static rg_status take_in(const rg_recover *f, int32_t number, int32_t op, int32_t slot)
{
  for (int32_t i = 0; i < 2 && rg_recover_two(f, f->end, op); i++) {
    const int32_t y = rg_recover_in(f, f->end, i);
    const int32_t vector = rg_recover_in(f, f->end, 1 - i);
    const rg_ir_node *norm = rg_recover_maker(f, y);
    const rg_ir_value *v = rg_ir_value_at(f->g, vector);
    const rg_ir_value *of = rg_ir_value_at(f->g, y);

    if (norm == NULL || norm->op->id != RG_OP_LAYER_NORM || of->n_uses != 1 || of->result != 0 ||
        v->meta.ndim != 1 || v->meta.dtype != of->meta.dtype || v->device != of->device ||
        v->meta.shape[0] != of->meta.shape[of->meta.ndim - 1] ||
        rg_recover_in(f, norm, slot) >= 0 || (slot == 1 && rg_recover_in(f, norm, 2) >= 0) ||
        !rg_merge_is_last(f->m, rg_recover_in(f, norm, 0)) ||
        !rg_merge_alike(of, rg_ir_value_at(f->g, rg_ir_outputs(f->g, f->end)[0]))) {
      continue;
    }
    const rg_layer_norm_args args = *(const rg_layer_norm_args *)rg_ir_args(f->g, norm);
    int32_t in[3] = { rg_recover_in(f, norm, 0), rg_recover_in(f, norm, 1),
                      rg_recover_in(f, norm, 2) };

    in[slot] = vector;
    return rg_recover_put(f, number, RG_OP_LAYER_NORM, in, 3, &args);
  }
  return RG_OK;
}

static rg_status visit(rg_recover *f, int32_t number)
{
  f->end = rg_ir_node_at(f->g, number);
  if (f->end->op == NULL || f->end->n_out != 1 || rg_ir_outputs(f->g, f->end)[0] == RG_IR_NONE ||
      rg_recover_maker(f, rg_ir_outputs(f->g, f->end)[0]) != f->end) {
    return RG_OK;
  }
  const rg_meta *meta = &rg_ir_value_at(f->g, rg_ir_outputs(f->g, f->end)[0])->meta;
  rg_layer_norm_args args = { 0 };
  int32_t x = find_gelu(f);

  if (x >= 0 && rg_merge_is_last(f->m, x) && rg_meta_same(meta, &rg_ir_value_at(f->g, x)->meta)) {
    return rg_recover_put(f, number, RG_OP_GELU, &x, 1, NULL);
  }
  x = rg_recover_relu6(f);
  if (x >= 0 && rg_merge_is_last(f->m, x) && rg_meta_same(meta, &rg_ir_value_at(f->g, x)->meta)) {
    return rg_recover_put(f, number, RG_OP_RELU6, &x, 1, NULL);
  }
  x = find_norm(f, &args.eps);
  if (x >= 0 && rg_merge_is_last(f->m, x) && rg_meta_same(meta, &rg_ir_value_at(f->g, x)->meta)) {
    return rg_recover_put(f, number, RG_OP_LAYER_NORM,
                          (const int32_t[]){ x, RG_IR_NONE, RG_IR_NONE }, 3, &args);
  }
  bool found = false;

  RG_TRY(rg_recover_attention(f, number, &found));
  if (!found) {
    RG_TRY(rg_recover_batch_norm(f, number, &found));
  }
  if (found) {
    return RG_OK;
  }
  RG_TRY(take_in(f, number, RG_OP_MUL, 1));
  return rg_ir_node_at(f->g, number)->op != NULL ? take_in(f, number, RG_OP_ADD, 2) : RG_OK;
}

static rg_status visit_all(rg_recover *f)
{
  const int32_t *order;
  int32_t n;
  rg_status status = RG_OK;

  RG_TRY(rg_ir_order(f->g, &order, NULL, &n));
  int32_t *each = rg_host_alloc((size_t)n * sizeof(*each));

  if (each == NULL) {
    return rg_fail(RG_ENOMEM, "graph: no memory to look for pieces");
  }
  for (int32_t i = 0; i < n; i++) {
    each[i] = order[i];
  }
  for (int32_t i = 0; i < n && status == RG_OK; i++) {
    status = visit(f, each[i]);
  }
  rg_host_free(each);
  return status;
}

rg_status rg_pass_recover(rg_graph *g)
{
  rg_merge m;
  rg_recover f = { .g = g, .m = &m };
  rg_status status = rg_merge_begin(&m, g);

  status = status == RG_OK ? visit_all(&f) : status;
  rg_merge_release(&m);
  return status;
}
