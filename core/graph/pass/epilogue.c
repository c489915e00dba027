/* SPDX-License-Identifier: MIT */
/*
** A product or convolution, the bias that is added to it, its activation and dropout as one call:
** they become arguments of the product's record, whose kernels apply them in their epilogue, before
** a result leaves the registers.
**
**   linear(x, w) + b              linear(x, w, b)
**   matmul(x, w) + b              linear(x, transpose(w), b)
**   gelu(conv2d(x, w, b))         conv2d(x, w, b, act = gelu)
**   dropout(linear(x, w, b), p)   linear_dropout(x, w, b, p)
**   relu(conv2d(x, w, b) + r)     conv2d_add(x, w, r, b, act = relu)
**
** Dropout keeps its draw: the same elements are dropped, and its backward pass makes the same mask.
**
** The last is a pass by itself, behind those that bring images into another order: r is of the
** result's shape, and in a plan the result often lies in its memory.
**
** It is done where nobody else reads what lies between: a backward pass does for gelu and silu, and
** not for relu, tanh and sigmoid, which it goes back through by their results.  The call moves to
** the place of what follows it, so nothing may have written to its inputs meanwhile.
**
** It is not exact: f16 and bf16 are rounded once where the pair rounds twice, and activations of a
** vendor library, and sums that begin at the bias, round in other places.
*/
#include <string.h>

#include "graph/infer.h"
#include "graph/pass/pass.h"
#include "op/act.h"
#include "op/conv.h"
#include "op/dropout.h"
#include "op/list.h"
#include "op/product.h"
#include "op/scaled.h"
#include "op/view.h"
#include "tensor/dtype.h"

extern const rg_op rg_op_view, rg_op_transpose;

enum { MOST_IN = 5 }; /* inputs of a product */

/* A record with an epilogue: its optional bias is the input behind all others. */
typedef union arguments {
  rg_linear_args linear;
  rg_conv2d_args conv2d;
  rg_scaled_args scaled;
} arguments;

typedef struct fusion {
  rg_graph *g;
  int32_t *position; /* by node: where it runs */
  int32_t *written;  /* by storage: position of its last write so far, -1: none */
  bool residual;     /* the pass for sums with a tensor */
  bool *repeated;    /* by node: another one draws its numbers again */
  int32_t *gone;     /* nodes that are replaced */
  int32_t n_gone;
} fusion;

/* A product, and the node behind it. */
typedef struct site {
  int32_t product;
  int32_t follower;
  int32_t y;  /* what lies between */
  int32_t z;  /* what comes out */
  int32_t op; /* of the record that does both */
  int32_t in[MOST_IN];
  int32_t n_in;
  int32_t axis; /* of y: the channels that a bias is for */
  arguments args;
  int32_t *act; /* in args */
} site;

/* -- Products ----------------------------------------------------------------------------- */

static int32_t ndim_of(const rg_graph *g, int32_t value)
{
  return rg_ir_value_at(g, value)->meta.ndim;
}

/* Take the product apart: its inputs, the bias last, and its arguments.  false where its record has
** no epilogue, or a matmul is no linear function of x. */
static bool take_product(const rg_graph *g, site *s)
{
  const rg_ir_node *node = rg_ir_node_at(g, s->product);
  const int32_t *in = rg_ir_inputs(g, node);
  const rg_matmul_args *matmul = rg_ir_args(g, node);

  s->op = node->op->id;
  s->axis = ndim_of(g, s->y) - 1;
  s->act = &s->args.linear.act;
  switch (node->op->id) {
  case RG_OP_MATMUL:
    if (matmul->compute >= 0 || node->n_in != 2 || ndim_of(g, in[0]) < 1 ||
        ndim_of(g, in[1]) != 2 || !rg_dtype_is_float(rg_ir_value_at(g, s->y)->meta.dtype)) {
      return false;
    }
    s->op = RG_OP_LINEAR;
    s->n_in = 3;
    break;
  case RG_OP_LINEAR:
    s->n_in = 3;
    break;
  case RG_OP_LOWRANK_LINEAR:
    s->n_in = 4;
    break;
  case RG_OP_SCALED_LINEAR:
    if (!rg_dtype_is_float(rg_ir_value_at(g, s->y)->meta.dtype)) {
      return false; /* bytes are made of what the activation gives */
    }
    s->n_in = 5;
    s->act = &s->args.scaled.act;
    break;
  case RG_OP_CONV2D:
    s->n_in = 3;
    s->act = &s->args.conv2d.o.act;
    break;
  case RG_OP_CONV2D_ADD:
    s->n_in = 4;
    s->act = &s->args.conv2d.o.act;
    break;
  default:
    return false;
  }
  memset(&s->args, 0, sizeof(s->args));
  if (node->op->id != RG_OP_MATMUL) {
    memcpy(&s->args, rg_ir_args(g, node), node->op->args_size);
  }
  if (node->op->id == RG_OP_CONV2D || node->op->id == RG_OP_CONV2D_ADD) {
    s->axis = rg_channels_axis(s->args.conv2d.o.layout);
  }
  for (int32_t i = 0; i < s->n_in; i++) {
    s->in[i] = i < node->n_in ? in[i] : RG_IR_NONE;
  }
  return true;
}

/* -- Where -------------------------------------------------------------------------------- */

/* The activation that a node is; RG_ACT_NONE: none. */
static int32_t activation_of(const rg_ir_node *node)
{
  int32_t act = RG_ACT_COUNT - 1;

  while (act > RG_ACT_NONE && rg_act_ops[act] != node->op->id) {
    act--;
  }
  return act;
}

/* Is the result of a node new memory of its own? */
static bool makes_one(const rg_graph *g, const rg_ir_node *node)
{
  int32_t value = node->n_out > 0 ? rg_ir_outputs(g, node)[0] : RG_IR_NONE;

  if (value == RG_IR_NONE || node->compound || node->recomputed) {
    return false;
  }
  for (int32_t i = 1; i < node->n_out; i++) {
    int32_t other = rg_ir_outputs(g, node)[i];

    if (other != RG_IR_NONE && rg_ir_value_at(g, other)->n_uses > 0) {
      return false; /* a hidden result that a backward pass reads */
    }
  }
  return rg_ir_value_at(g, value)->was == RG_IR_NONE;
}

/* Has nothing written to what the product reads before the node behind it runs? */
static bool is_unwritten(const fusion *f, const site *s)
{
  for (int32_t i = 0; i < s->n_in; i++) {
    if (s->in[i] != RG_IR_NONE &&
        f->written[rg_ir_value_at(f->g, s->in[i])->storage] > f->position[s->product]) {
      return false;
    }
  }
  return true;
}

/* May the product of value y, which its follower reads, run in the follower's place? */
static bool may_move(const fusion *f, site *s)
{
  const rg_graph *g = f->g;
  const rg_ir_node *follower = rg_ir_node_at(g, s->follower);
  const rg_ir_value *y = rg_ir_value_at(g, s->y);

  s->product = y->producer;
  if (s->product == RG_IR_NONE || y->n_uses != 1 || y->result != 0) {
    return false;
  }
  const rg_ir_node *product = rg_ir_node_at(g, s->product);

  return makes_one(g, product) && rg_ir_outputs(g, product)[0] == s->y &&
         product->parent == follower->parent && rg_merge_alike(y, rg_ir_value_at(g, s->z)) &&
         rg_ir_modes_of(g, product->modes)->autocast ==
             rg_ir_modes_of(g, follower->modes)->autocast &&
         rg_ir_runs_alike(g, product, follower) && take_product(g, s) && is_unwritten(f, s);
}

/* Is b one number for each channel of y, and of its type? */
static bool is_bias(const rg_graph *g, const site *s, int32_t b)
{
  const rg_ir_value *v = rg_ir_value_at(g, b);
  const rg_ir_value *y = rg_ir_value_at(g, s->y);
  int64_t count = 1;

  if (v->device != y->device || v->meta.dtype != y->meta.dtype || v->meta.ndim > y->meta.ndim) {
    return false;
  }
  for (int32_t i = 0; i < v->meta.ndim; i++) {
    if (v->meta.shape[i] != 1 && i + y->meta.ndim - v->meta.ndim != s->axis) {
      return false;
    }
    count *= v->meta.shape[i];
  }
  return count == y->meta.shape[s->axis];
}

/* -- How ---------------------------------------------------------------------------------- */

/* The bias as a vector. */
static rg_status put_bias(const fusion *f, site *s, int32_t b)
{
  const rg_ir_value *y = rg_ir_value_at(f->g, s->y);
  rg_meta meta = { .dtype = y->meta.dtype, .ndim = 1, .shape = { y->meta.shape[s->axis] } };
  rg_shape_args args = { 0 };

  if (ndim_of(f->g, b) != 1) {
    rg_take_sizes(&args.shape, meta.shape, 1);
    RG_TRY(rg_ir_insert_view(f->g, s->follower, &rg_op_view, &args, &meta, &b));
  }
  s->in[s->n_in - 1] = b;
  return RG_OK;
}

/* The right factor of a matmul as the weight of a linear function. */
static rg_status put_weight(const fusion *f, site *s)
{
  const rg_transpose_args args = { .a = 0, .b = 1 };
  rg_meta meta = rg_ir_value_at(f->g, s->in[1])->meta;
  int64_t rows = meta.shape[0];

  meta.shape[0] = meta.shape[1];
  meta.shape[1] = rows;
  return rg_ir_insert_view(f->g, s->follower, &rg_op_transpose, &args, &meta, &s->in[1]);
}

/* One node for the two.  b: the bias, or -1. */
static rg_status fuse(fusion *f, site *s, int32_t b)
{
  const rg_ir_node product = *rg_ir_node_at(f->g, s->product);
  const int32_t storage = rg_ir_value_at(f->g, s->z)->storage;
  double bytes = product.bytes;
  int32_t node;

  if (s->op != product.op->id && s->op == RG_OP_CONV2D_ADD) {
    bytes += (double)rg_meta_bytes(&rg_ir_value_at(f->g, s->z)->meta);
  }

  if (product.op->id == RG_OP_MATMUL) {
    RG_TRY(put_weight(f, s));
  }
  if (b != RG_IR_NONE) {
    RG_TRY(put_bias(f, s, b));
    bytes += (double)rg_meta_bytes(&rg_ir_value_at(f->g, b)->meta);
  }
  RG_TRY(rg_graph_insert(f->g, s->follower, 0, s->op, s->in, s->n_in, &s->args, &node));
  rg_ir_node *made = rg_ir_node_at(f->g, node);
  int32_t result = rg_ir_outputs(f->g, made)[0];

  made->module = product.module;
  made->line = product.line;
  made->flops = product.flops; /* as the record counts: the product's */
  made->bytes = bytes;
  f->position[node] = f->position[s->follower];
  f->gone[f->n_gone++] = s->follower;
  f->gone[f->n_gone++] = s->product;
  /* in the memory of z: who views or overwrites that goes on doing so */
  rg_ir_value_at(f->g, result)->storage = storage;
  return rg_ir_replace(f->g, s->z, result);
}

/* x + b, from either side. */
static rg_status visit_sum(fusion *f, site *s, const rg_ir_node *node)
{
  if (node->n_in != 2 || rg_ir_inputs(f->g, node)[1] == RG_IR_NONE) {
    return RG_OK; /* of a tensor and a number */
  }
  const int32_t in[2] = { rg_ir_inputs(f->g, node)[0], rg_ir_inputs(f->g, node)[1] };

  for (int32_t i = 0; i < 2; i++) {
    s->y = in[i];
    if (may_move(f, s) && *s->act == RG_ACT_NONE && s->in[s->n_in - 1] == RG_IR_NONE &&
        is_bias(f->g, s, in[1 - i])) {
      return fuse(f, s, in[1 - i]);
    }
  }
  return RG_OK;
}

/* A convolution takes a tensor that is added to it.  y: its result. */
static rg_status add_tensor(fusion *f, site *s, int32_t r)
{
  s->in[3] = s->in[2]; /* the bias */
  s->in[2] = r;
  s->n_in = 4;
  s->op = RG_OP_CONV2D_ADD;
  return fuse(f, s, RG_IR_NONE);
}

/* conv2d + r: the later one where both are convolutions, which moves the less. */
static rg_status visit_residual(fusion *f, site *s, const rg_ir_node *node)
{
  const int32_t *in = rg_ir_inputs(f->g, node);
  const rg_ir_value *z = rg_ir_value_at(f->g, s->z);
  site best = { .product = RG_IR_NONE };
  int32_t r = RG_IR_NONE;

  if (node->n_in != 2 || in[1] == RG_IR_NONE || z->device != RG_CPU ||
      (z->meta.dtype != RG_F32 && z->meta.dtype != RG_BF16)) {
    return RG_OK;
  }
  for (int32_t i = 0; i < 2; i++) {
    site at = *s;

    at.y = in[i];
    if (rg_merge_alike(rg_ir_value_at(f->g, in[1 - i]), z) && may_move(f, &at) &&
        at.op == RG_OP_CONV2D && *at.act == RG_ACT_NONE &&
        (best.product == RG_IR_NONE || f->position[at.product] > f->position[best.product])) {
      best = at;
      best.act = &best.args.conv2d.o.act;
      r = in[1 - i];
    }
  }
  return best.product != RG_IR_NONE ? add_tensor(f, &best, r) : RG_OK;
}

/* Dropout of a linear function's result becomes that function with dropout: the node stays, and
** with it its draw. */
static rg_status drop(fusion *f, site *s, const rg_dropout_args *dropout)
{
  const rg_op *op = rg_ops[RG_OP_LINEAR_DROPOUT];
  const rg_ir_node product = *rg_ir_node_at(f->g, s->product);
  rg_graph_modes modes = *rg_ir_modes_of(f->g, rg_ir_node_at(f->g, s->follower)->modes);
  rg_call call;
  int32_t mode;

  s->args.linear.p = dropout->p;
  if (product.op->id == RG_OP_MATMUL) {
    RG_TRY(put_weight(f, s));
  }
  RG_TRY(rg_ir_infer(f->g, op, s->in, s->n_in, &s->args, modes.autocast, &call));
  modes.compute = call.compute;
  modes.weight_cast = call.weight_cast;
  RG_TRY(rg_ir_modes_add(f->g, &modes, &mode));
  RG_TRY(rg_ir_become(f->g, s->follower, op, s->in, s->n_in, &s->args));
  rg_ir_node *node = rg_ir_node_at(f->g, s->follower);

  node->modes = mode;
  node->module = product.module;
  node->line = product.line;
  node->flops = product.flops;
  node->bytes = product.bytes;
  f->gone[f->n_gone++] = s->product;
  return RG_OK;
}

/* Not where what is computed again draws the same numbers: it has to be the same call. */
static rg_status visit_dropout(fusion *f, site *s, const rg_ir_node *node)
{
  s->y = rg_ir_inputs(f->g, node)[0];
  s->z = rg_ir_outputs(f->g, node)[0];
  if (node->compound || node->recomputed || f->repeated[s->follower] || s->z == RG_IR_NONE ||
      rg_ir_value_at(f->g, s->z)->was != RG_IR_NONE || !may_move(f, s)) {
    return RG_OK;
  }
  return s->op == RG_OP_LINEAR ? drop(f, s, rg_ir_args(f->g, node)) : RG_OK;
}

static rg_status visit(fusion *f, int32_t number)
{
  const rg_ir_node *node = rg_ir_node_at(f->g, number);
  site s = { .follower = number };
  int32_t act;

  if (node->op->id == RG_OP_DROPOUT && !f->residual) {
    return visit_dropout(f, &s, node);
  }
  if (!makes_one(f->g, node)) {
    return RG_OK;
  }
  s.z = rg_ir_outputs(f->g, node)[0];
  if (node->op->id == RG_OP_ADD) {
    return f->residual ? visit_residual(f, &s, node) : visit_sum(f, &s, node);
  }
  act = activation_of(node);
  s.y = act != RG_ACT_NONE ? rg_ir_inputs(f->g, node)[0] : RG_IR_NONE;
  if (s.y == RG_IR_NONE || !may_move(f, &s) || *s.act != RG_ACT_NONE ||
      (f->residual && s.op != RG_OP_CONV2D_ADD)) {
    return RG_OK;
  }
  *s.act = act;
  return fuse(f, &s, RG_IR_NONE);
}

/* -- All of them -------------------------------------------------------------------------- */

static void note_writes(fusion *f, int32_t number, int32_t position)
{
  const rg_ir_node *node = rg_ir_node_at(f->g, number);

  for (int32_t i = 0; i < node->n_out; i++) {
    int32_t value = rg_ir_outputs(f->g, node)[i];
    const rg_ir_value *v = value != RG_IR_NONE ? rg_ir_value_at(f->g, value) : NULL;

    if (v != NULL && v->was != RG_IR_NONE) {
      f->written[v->storage] = position;
    }
  }
}

static void find_repeated(fusion *f, const int32_t *order, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    const int32_t first = rg_ir_node_at(f->g, order[i])->repeats;

    if (first != RG_IR_NONE) {
      f->repeated[first] = true;
    }
  }
}

static rg_status visit_all(fusion *f, const int32_t *order, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    f->position[order[i]] = i;
    RG_TRY(visit(f, order[i]));
    note_writes(f, order[i], i);
  }
  for (int32_t i = 0; i < f->n_gone; i++) { /* a follower before its product */
    RG_TRY(rg_ir_remove(f->g, f->gone[i]));
  }
  return RG_OK;
}

static rg_status fuse_all(rg_graph *g, bool residual)
{
  const int32_t *order;
  int32_t n;

  RG_TRY(rg_ir_order(g, &order, NULL, &n));
  /* each node is fused once at most, and three take its place */
  const size_t n_nodes = (size_t)rg_ir_n_nodes(g);
  const size_t most = n_nodes + 3 * (size_t)n;
  const size_t n_storages = (size_t)rg_ir_n_storages(g) + 3 * (size_t)n;
  fusion f = { .g = g, .residual = residual };
  rg_status status;

  f.position = rg_host_zeroed(most * sizeof(int32_t));
  f.written = rg_host_alloc(n_storages * sizeof(int32_t));
  f.repeated = rg_host_zeroed(n_nodes);
  f.gone = rg_host_alloc(2 * (size_t)n * sizeof(int32_t));
  if (f.position == NULL || f.written == NULL || f.repeated == NULL || f.gone == NULL) {
    status = rg_fail(RG_ENOMEM, "graph: no memory to fuse epilogues");
  } else {
    memset(f.written, 0xff, n_storages * sizeof(int32_t));
    find_repeated(&f, order, n);
    status = visit_all(&f, order, n);
  }
  rg_host_free(f.position);
  rg_host_free(f.written);
  rg_host_free(f.repeated);
  rg_host_free(f.gone);
  return status;
}

rg_status rg_pass_epilogue(rg_graph *g)
{
  return fuse_all(g, false);
}

rg_status rg_pass_residual(rg_graph *g)
{
  return fuse_all(g, true);
}
