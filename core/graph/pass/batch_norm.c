/* SPDX-License-Identifier: MIT */
/*
** Convolution and batch normalisation in evaluation as one convolution.  With s = weight /
** sqrt(var + eps), a number for each channel:
**
**   ((conv(x, w) + b) - mean) s + bias  =  conv(x, w s) + ((b - mean) s + bias)
**
** w s and the new b are derived nodes of the graph: a plan on the CPU computes them when it first
** runs, and again where one of the parameters was written to since, so that loading others is seen.
** On a device they are computed at each run: one pass over the weights, where the normalisation
** costs four over the activations.
**
** Rounding is another one: f32 differs by some 1e-6 of the largest among results and mean s, which
** is as far as the normalisation itself is off where means are large.
*/
#include "graph/pass/pass.h"
#include "op/binary.h"
#include "op/conv.h"
#include "op/list.h"
#include "op/view.h"
#include "ridge/compound.h"

extern const rg_op rg_op_view;

enum { X, WEIGHT, SHIFT, MEAN, VAR, N_IN }; /* inputs of a batch norm */
enum { FEWEST = 5, MOST = 16 };             /* nodes of its body */

/* A place where it can be done. */
typedef struct site {
  rg_graph *g;
  const int32_t *order;
  const int32_t *body;
  const rg_merge *m;
  int32_t norm;
  int32_t conv;
  int32_t in[N_IN]; /* of the norm */
  int32_t from[3];  /* of the convolution: x, w, b */
} site;

/* -- Where ------------------------------------------------------------------------------- */

/* Is a value read in a compound alone, or by it? */
static bool is_read_within(const rg_graph *g, int32_t value, int32_t of)
{
  const rg_ir_value *v = rg_ir_value_at(g, value);
  const rg_ir_use *uses = rg_ir_uses(g, v);

  for (int32_t i = 0; i < v->n_uses; i++) {
    if (uses[i].node == RG_IR_NONE || !rg_ir_is_within(g, uses[i].node, of)) {
      return false;
    }
  }
  return true;
}

/* Is the body what its record makes of running means, and nothing in it seen outside but y? */
static bool is_plain_body(const site *s, int32_t y)
{
  int32_t first = rg_ir_node_at(s->g, s->norm)->position;
  int32_t n = s->body[first];

  for (int32_t i = first + 1; i <= first + n; i++) {
    const rg_ir_node *node = rg_ir_node_at(s->g, s->order[i]);
    int32_t out = node->n_out == 1 ? rg_ir_outputs(s->g, node)[0] : RG_IR_NONE;

    switch (node->op->id) {
    case RG_OP_RESHAPE:
    case RG_OP_VIEW:
    case RG_OP_SUB:
    case RG_OP_ADD:
    case RG_OP_RSQRT:
    case RG_OP_MUL:
      break;
    default:
      return false;
    }
    if (out == RG_IR_NONE || rg_ir_value_at(s->g, out)->was != RG_IR_NONE ||
        (out != y && !is_read_within(s->g, out, s->norm))) {
      return false;
    }
  }
  return n >= FEWEST && n <= MOST;
}

/* Is a value, where it is given, of the type of y, and never written behind what it is now? */
static bool is_steady(const site *s, int32_t value, int32_t y)
{
  return value == RG_IR_NONE ||
         (rg_merge_is_last(s->m, value) &&
          rg_ir_value_at(s->g, value)->meta.dtype == rg_ir_value_at(s->g, y)->meta.dtype);
}

static bool is_convolved(site *s, int32_t axis)
{
  s->conv = rg_ir_value_at(s->g, s->in[X])->producer;
  if (s->conv == RG_IR_NONE || rg_ir_node_at(s->g, s->conv)->op->id != RG_OP_CONV2D) {
    return false;
  }
  const rg_ir_node *conv = rg_ir_node_at(s->g, s->conv);
  const rg_conv2d_args *args = rg_ir_args(s->g, conv);

  for (int32_t i = 0; i < 3; i++) {
    s->from[i] = i < conv->n_in ? rg_ir_inputs(s->g, conv)[i] : RG_IR_NONE;
  }
  return conv->parent == rg_ir_node_at(s->g, s->norm)->parent && !conv->recomputed &&
         rg_ir_runs_alike(s->g, conv, rg_ir_node_at(s->g, s->norm)) && conv->n_out == 1 &&
         rg_ir_value_at(s->g, s->in[X])->was == RG_IR_NONE &&
         rg_ir_modes_of(s->g, conv->modes)->autocast < 0 && args->o.act == RG_ACT_NONE &&
         axis == rg_channels_axis(args->o.layout) && is_read_within(s->g, s->in[X], s->norm);
}

static bool may_fold(site *s)
{
  const rg_ir_node *norm = rg_ir_node_at(s->g, s->norm);

  if (norm->op->id != RG_OP_BATCH_NORM || norm->recomputed || norm->n_out != 1 ||
      rg_ir_modes_of(s->g, norm->modes)->autocast >= 0) {
    return false;
  }
  const rg_batch_norm_options *o = rg_ir_args(s->g, norm);
  int32_t y = rg_ir_outputs(s->g, norm)[0];
  const int32_t axis = (o->axis + 4) % 4; /* of a convolution's, which are four */
  bool steady = true;

  for (int32_t i = 0; i < N_IN; i++) {
    s->in[i] = rg_ir_inputs(s->g, norm)[i];
  }
  if (o->batch || y == RG_IR_NONE || !is_convolved(s, axis)) {
    return false;
  }
  for (int32_t i = 0; i < N_IN; i++) {
    steady = steady && is_steady(s, s->in[i], y);
  }
  for (int32_t i = 0; i < 3; i++) {
    steady = steady && is_steady(s, s->from[i], y);
  }
  const rg_ir_value *v = rg_ir_value_at(s->g, y);

  return steady && v->was == RG_IR_NONE && rg_ir_is_within(s->g, v->producer, s->norm) &&
         rg_ir_node_at(s->g, v->producer)->op->view == NULL && is_plain_body(s, y);
}

/* -- How --------------------------------------------------------------------------------- */

/* A node in front of the norm; value: its result, in and out. */
static rg_status put(const site *s, int32_t op, int32_t a, int32_t b, const void *args,
                     int32_t *value)
{
  int32_t node;

  RG_TRY(rg_graph_insert(s->g, s->norm, 0, op, (const int32_t[]){ a, b }, b != RG_IR_NONE ? 2 : 1,
                         args, &node));
  rg_ir_node_at(s->g, node)->derived = true;
  *value = rg_ir_outputs(s->g, rg_ir_node_at(s->g, node))[0];
  return RG_OK;
}

/* A number for each channel beside weights: [o 1 1 1]. */
static rg_status put_view(const site *s, int32_t x, int32_t *out)
{
  const rg_meta *flat = &rg_ir_value_at(s->g, x)->meta;
  rg_meta meta = { .dtype = flat->dtype, .ndim = 4, .shape = { flat->shape[0], 1, 1, 1 } };
  rg_shape_args args = { 0 };

  rg_take_sizes(&args.shape, meta.shape, meta.ndim);
  *out = x;
  return rg_ir_insert_view(s->g, s->norm, &rg_op_view, &args, &meta, out);
}

/* s, w s and the new bias. */
static rg_status put_factors(const site *s, int32_t *w, int32_t *b)
{
  const rg_batch_norm_options *o = rg_ir_args(s->g, rg_ir_node_at(s->g, s->norm));
  const rg_binary_args eps = { .scalar = 1, .value = o->eps };
  const rg_binary_args none = { 0 };
  int32_t scale;
  int32_t view;

  RG_TRY(put(s, RG_OP_ADD, s->in[VAR], RG_IR_NONE, &eps, &scale));
  RG_TRY(put(s, RG_OP_RSQRT, scale, RG_IR_NONE, NULL, &scale));
  if (s->in[WEIGHT] != RG_IR_NONE) {
    RG_TRY(put(s, RG_OP_MUL, scale, s->in[WEIGHT], &none, &scale));
  }
  RG_TRY(put_view(s, scale, &view));
  RG_TRY(put(s, RG_OP_MUL, s->from[1], view, &none, w));
  if (s->from[2] != RG_IR_NONE) {
    RG_TRY(put(s, RG_OP_SUB, s->from[2], s->in[MEAN], &none, b));
  } else {
    RG_TRY(put(s, RG_OP_NEG, s->in[MEAN], RG_IR_NONE, NULL, b));
  }
  RG_TRY(put(s, RG_OP_MUL, *b, scale, &none, b));
  return s->in[SHIFT] != RG_IR_NONE ? put(s, RG_OP_ADD, *b, s->in[SHIFT], &none, b) : RG_OK;
}

static rg_status fold(const site *s)
{
  const rg_ir_node old = *rg_ir_node_at(s->g, s->conv);
  const rg_conv2d_args args = *(const rg_conv2d_args *)rg_ir_args(s->g, &old);
  int32_t y = rg_ir_outputs(s->g, rg_ir_node_at(s->g, s->norm))[0];
  int32_t in[3] = { s->from[0] };
  int32_t node;

  RG_TRY(put_factors(s, &in[1], &in[2]));
  RG_TRY(rg_graph_insert(s->g, s->norm, 0, RG_OP_CONV2D, in, 3, &args, &node));
  rg_ir_node *made = rg_ir_node_at(s->g, node);
  int32_t result = rg_ir_outputs(s->g, made)[0];

  made->modes = old.modes;
  made->module = old.module;
  made->line = old.line;
  made->flops = old.flops;
  made->bytes = old.bytes;
  /* in the memory of y: who views or overwrites that goes on doing so */
  rg_ir_value_at(s->g, result)->storage = rg_ir_value_at(s->g, y)->storage;
  return rg_ir_replace(s->g, y, result);
}

/* The nodes that stood there: a norm, its convolution, a norm ... */
static rg_status remove_all(rg_graph *g, const int32_t *gone, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    RG_TRY(rg_ir_remove(g, gone[i]));
  }
  return RG_OK;
}

static rg_status visit_all(site *s)
{
  int32_t n_gone = 0;
  int32_t n;

  RG_TRY(rg_ir_order(s->g, &s->order, &s->body, &n));
  int32_t *gone = rg_host_alloc(2 * (size_t)n * sizeof(*gone));
  rg_status status = gone != NULL ? RG_OK : rg_fail(RG_ENOMEM, "graph: no memory to fold norms");

  for (int32_t i = 0; i < n && status == RG_OK; i++) {
    s->norm = s->order[i];
    if (may_fold(s)) {
      status = fold(s);
      gone[n_gone++] = s->norm;
      gone[n_gone++] = s->conv;
    }
  }
  status = status == RG_OK ? remove_all(s->g, gone, n_gone) : status;
  rg_host_free(gone);
  return status;
}

rg_status rg_pass_batch_norm(rg_graph *g)
{
  rg_merge m;
  site s = { .g = g, .m = &m };
  rg_status status = rg_merge_begin(&m, g);

  status = status == RG_OK ? visit_all(&s) : status;
  rg_merge_release(&m);
  return status;
}
