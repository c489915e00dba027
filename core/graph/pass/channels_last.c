/* SPDX-License-Identifier: MIT */
/*
** Convolutions with channels last, and what stands between them: pooling, elementwise functions,
** concatenation, means over rows and columns, channels dealt out among groups (ShuffleNet).
** oneDNN's kernels read and write that order as it is, where channels first are converted in front
** of each convolution and behind it.
**
** Nodes that hang together by the images they hand on are one region.  Where it begins, an image is
** copied to channels last; where somebody else reads one, it is copied back.  A region is changed
** where these copies are of fewer bytes than what its convolutions convert, so that one alone stays
** as it is.
**
** Not changed are convolutions that are faster as they are: of few channels, by tiles of our own,
** and in groups of less than a vector each that are not one channel each.
**
** A mark of a node (rg_graph_set_layout) is obeyed, for its region too where it wants them last.
**
** Kernels for the two orders add up in other orders: f32 differs by some 1e-6 of the largest
** result.
*/
#include <string.h>

#include "cpu/conv.h"
#include "graph/pass/deal.h"
#include "graph/pass/pass.h"
#include "op/concat.h"
#include "op/copy.h"
#include "op/fused.h"
#include "op/list.h"
#include "op/pool.h"
#include "op/reduce.h"
#include "op/view.h"

extern const rg_op rg_op_permute;

enum { VECTOR = 16 };   /* channels of a group */
enum { PLANE = 4 | 8 }; /* rows and columns, as bits of axes, with channels first */

static const int64_t to_last[4] = { 0, 2, 3, 1 }, to_first[4] = { 0, 3, 1, 2 };
static const int32_t axis_last[4] = { 0, 3, 1, 2 }; /* where an axis is with channels last */

typedef struct region {
  int32_t of;     /* the one that it became part of; itself where none */
  int64_t spared; /* bytes that its convolutions convert as they are */
  int64_t copied; /* bytes of images that come in and go out */
  bool wanted;    /* whatever that costs */
} region;

typedef struct changing {
  rg_graph *g;
  const int32_t *order;
  int32_t *old; /* the same, as it was */
  int32_t n;
  int32_t n_values; /* that were there before */
  region *region;   /* by node */
  bool *fits;       /* by node: it can have channels last */
  int32_t *last;    /* by value: the same with channels last; -1: none yet */
  int32_t *first;   /* by value: what is read in its place; -1: itself, or nothing reads it */
  int32_t *in;      /* room for the inputs of a node */
  int32_t *deals;   /* by node: it puts channels of this image in another order; -1: it does not */
  int32_t *part_of; /* by node: it is read by such a node alone, this one; -1 */
} changing;

/* -- Which nodes --------------------------------------------------------------------------- */

static bool is_image(const rg_ir_value *v)
{
  return v->meta.ndim == 4 && v->device == RG_CPU && rg_meta_count(&v->meta) > 0 &&
         (v->meta.dtype == RG_F32 || v->meta.dtype == RG_BF16);
}

/* A tensor like a value, without elements. */
static rg_tensor stand_in(const rg_graph *g, int32_t value)
{
  const rg_ir_value *v = rg_ir_value_at(g, value);
  rg_tensor x = { ._dtype = v->meta.dtype,
                  ._device = v->device,
                  ._ndim = v->meta.ndim,
                  ._flags = RG_TENSOR_CONTIGUOUS,
                  ._count = rg_meta_count(&v->meta) };
  int64_t stride = 1;

  for (int32_t i = x._ndim - 1; i >= 0; i--) {
    x._shape[i] = v->meta.shape[i];
    x._stride[i] = stride;
    stride *= x._shape[i];
  }
  return x;
}

/* Do tiles of our own do it? */
static bool is_few(const rg_graph *g, const rg_ir_node *node)
{
  rg_tensor x[2];
  const rg_tensor *in[2];
  rg_tensor y = stand_in(g, rg_ir_outputs(g, node)[0]);
  rg_tensor *out[1] = { &y };

  for (int i = 0; i < 2; i++) {
    x[i] = stand_in(g, rg_ir_inputs(g, node)[i]);
    in[i] = &x[i];
  }
  const rg_call call = { .op = node->op,
                         .in = in,
                         .n_in = 2,
                         .args = rg_ir_args(g, node),
                         .out = { rg_ir_value_at(g, rg_ir_outputs(g, node)[0])->meta } };

  return rg_conv_is_few(&call, out);
}

/* RG_NCHW, RG_NHWC where somebody said so; -1. */
static int32_t wish_of(const rg_graph *g, const rg_ir_node *node)
{
  return rg_ir_modes_of(g, node->modes)->layout;
}

/* A convolution that is no slower so. */
static bool fits_conv(const rg_graph *g, const rg_ir_node *node)
{
  const rg_conv2d_options *o = &((const rg_conv2d_args *)rg_ir_args(g, node))->o;
  const int64_t in = rg_ir_value_at(g, rg_ir_inputs(g, node)[0])->meta.shape[1];
  const int64_t out = rg_ir_value_at(g, rg_ir_outputs(g, node)[0])->meta.shape[1];
  const bool wide = in / o->groups >= VECTOR && out / o->groups >= VECTOR;

  return o->layout == RG_NCHW &&
         (wish_of(g, node) == RG_NHWC ||
          ((o->groups == 1 || wide || (o->groups == in && in == out)) && !is_few(g, node)));
}

/* Inputs of a node that are images of its region; 0 where it has no place in one. */
static int32_t n_images(const rg_graph *g, const rg_ir_node *node)
{
  const int32_t *in = rg_ir_inputs(g, node);
  const rg_reduce_args *reduce;

  switch (node->op->id) {
  case RG_OP_CONV2D:
    return fits_conv(g, node) ? 1 : 0;
  case RG_OP_MAX_POOL2D:
  case RG_OP_AVG_POOL2D:
    return ((const rg_pool2d_args *)rg_ir_args(g, node))->o.layout == RG_NCHW ? 1 : 0;
  case RG_OP_MEAN:
  case RG_OP_SUM:
  case RG_OP_MAX:
  case RG_OP_MIN:
    reduce = rg_ir_args(g, node);
    return reduce->axes == PLANE ? 1 : 0;
  case RG_OP_CONCAT:
    return node->n_in;
  default:
    break;
  }
  const rg_meta *y = &rg_ir_value_at(g, rg_ir_outputs(g, node)[0])->meta;
  const int32_t kind = rg_fused_kind(node->op->id);

  if (kind == RG_LINK_NONE && node->op->id != RG_OP_CAST) {
    return 0;
  }
  for (int32_t i = 0; i < node->n_in; i++) {
    const rg_meta *x = in[i] != RG_IR_NONE ? &rg_ir_value_at(g, in[i])->meta : NULL;

    if (x == NULL || x->ndim != 4 || memcmp(x->shape, y->shape, 4 * sizeof(int64_t)) != 0) {
      return 0;
    }
  }
  return node->n_in;
}

/* Does a node make memory of its own, and nothing else that is read?  Who writes over it later, or
** over what comes in, makes another value: what was copied before is what a node reads here. */
static bool makes_image(const changing *c, const rg_ir_node *node)
{
  const int32_t *out = rg_ir_outputs(c->g, node);

  if (node->op->view != NULL || node->compound || node->recomputed || node->unwritten ||
      node->derived || node->parent != RG_IR_NONE || node->n_in < 1 || node->n_out < 1 ||
      node->n_out != node->n_results || out[0] == RG_IR_NONE) {
    return false;
  }
  for (int32_t i = 1; i < node->n_out; i++) {
    if (out[i] != RG_IR_NONE && rg_ir_value_at(c->g, out[i])->n_uses > 0) {
      return false;
    }
  }
  const rg_ir_value *y = rg_ir_value_at(c->g, out[0]);

  return y->was == RG_IR_NONE && y->device == RG_CPU;
}

/* The images that a node of a region reads. */
static int32_t images_of(const changing *c, int32_t number, const int32_t **in)
{
  const rg_ir_node *node = rg_ir_node_at(c->g, number);

  if (c->deals[number] != RG_IR_NONE) {
    *in = &c->deals[number];
    return 1;
  }
  *in = rg_ir_inputs(c->g, node);
  return c->part_of[number] != RG_IR_NONE ? 0 : n_images(c->g, node);
}

static bool fits(const changing *c, const rg_ir_node *node)
{
  if (!makes_image(c, node) || wish_of(c->g, node) == RG_NCHW) {
    return false;
  }
  const int32_t *in = rg_ir_inputs(c->g, node);

  /* an image that is no image: what a mean makes; its region ends there */
  if (in[0] == RG_IR_NONE || !is_image(rg_ir_value_at(c->g, in[0]))) {
    return false;
  }
  const int32_t n = n_images(c->g, node);

  for (int32_t i = 0; i < n; i++) {
    if (in[i] == RG_IR_NONE || !is_image(rg_ir_value_at(c->g, in[i]))) {
      return false;
    }
  }
  const rg_ir_value *y = rg_ir_value_at(c->g, rg_ir_outputs(c->g, node)[0]);

  return n > 0 && (y->meta.ndim != 4 || is_image(y));
}

/* -- Regions ------------------------------------------------------------------------------- */

static int32_t root(const changing *c, int32_t node)
{
  while (c->region[node].of != node) {
    node = c->region[node].of;
  }
  return node;
}

static void join(changing *c, int32_t a, int32_t b)
{
  a = root(c, a);
  b = root(c, b);
  if (a != b) {
    c->region[b].of = a;
    c->region[a].spared += c->region[b].spared;
    c->region[a].copied += c->region[b].copied;
    c->region[a].wanted = c->region[a].wanted || c->region[b].wanted;
  }
}

/* Does a node that fits make a value? */
static bool comes_fitting(const changing *c, int32_t value)
{
  const int32_t producer = rg_ir_value_at(c->g, value)->producer;

  return producer != RG_IR_NONE && c->fits[producer];
}

/* What is no convolution is part of a region only behind others of it, in all its inputs. */
static bool follows(const changing *c, int32_t number)
{
  const int32_t *in;
  const int32_t n = images_of(c, number, &in);

  for (int32_t i = 0; i < n && rg_ir_node_at(c->g, number)->op->id != RG_OP_CONV2D; i++) {
    if (!comes_fitting(c, in[i])) {
      return false;
    }
  }
  return true;
}

/* Nodes that deal channels out belong together: all of them have a place, or none. */
static bool fits_deal(changing *c, int32_t number)
{
  rg_deal d;

  if (!rg_deal_take(c->g, number, &d) || !is_image(rg_ir_value_at(c->g, d.image)) ||
      !comes_fitting(c, d.image)) {
    return false;
  }
  c->deals[number] = d.image;
  for (int k = 0; k < 4; k++) {
    c->part_of[d.node[k]] = number;
    c->fits[d.node[k]] = true;
  }
  return true;
}

static int64_t bytes_of(const rg_graph *g, int32_t value)
{
  return rg_meta_bytes(&rg_ir_value_at(g, value)->meta);
}

/* Does somebody read a value with channels first?  One of a region does, too, where it is no image
** there: the weight of a convolution may be what another one made. */
static bool is_read_first(const changing *c, int32_t value)
{
  const rg_ir_value *v = rg_ir_value_at(c->g, value);
  const rg_ir_use *uses = rg_ir_uses(c->g, v);

  for (int32_t i = 0; i < v->n_uses; i++) {
    const int32_t reader = uses[i].node;

    if (reader == RG_IR_NONE || !c->fits[reader] ||
        (rg_ir_node_at(c->g, reader)->op->id == RG_OP_CONV2D && uses[i].slot > 0)) {
      return true;
    }
  }
  return false;
}

/* What a node has to do with the copies of its region. */
static void count(changing *c, int32_t number)
{
  const rg_ir_node *node = rg_ir_node_at(c->g, number);
  const int32_t *in;
  const int32_t n = images_of(c, number, &in);
  const int32_t y = rg_ir_outputs(c->g, node)[0];
  const rg_ir_value *v = rg_ir_value_at(c->g, y);
  region *r = &c->region[number];

  if (n == 0) {
    return; /* part of another one */
  }
  r->wanted = wish_of(c->g, node) == RG_NHWC;
  if (node->op->id == RG_OP_CONV2D) {
    r->spared = bytes_of(c->g, in[0]) + bytes_of(c->g, y);
  }
  if (!comes_fitting(c, in[0])) {
    r->copied += bytes_of(c->g, in[0]);
  }
  if (v->meta.ndim == 4 && is_read_first(c, y)) {
    r->copied += bytes_of(c->g, y);
  }
}

/* A node has no place, nor have its parts. */
static void leave_out(changing *c, int32_t number)
{
  for (int32_t i = 0; i < c->n && c->deals[number] != RG_IR_NONE; i++) {
    if (c->part_of[c->order[i]] == number) {
      c->part_of[c->order[i]] = RG_IR_NONE;
      c->fits[c->order[i]] = false;
    }
  }
  c->deals[number] = RG_IR_NONE;
  c->fits[number] = false;
}

/* Concatenations that somebody reads with channels first have no place: to copy what each joins,
** once, is less than to copy all of it behind each (DenseNet).  Neither has what followed them. */
static void leave_out_read_first(changing *c)
{
  bool changed = true;

  while (changed) {
    changed = false;
    for (int32_t i = 0; i < c->n; i++) {
      const int32_t number = c->order[i];
      const rg_ir_node *node = rg_ir_node_at(c->g, number);

      if (c->fits[number] &&
          (!follows(c, number) ||
           (node->op->id == RG_OP_CONCAT && is_read_first(c, rg_ir_outputs(c->g, node)[0])))) {
        leave_out(c, number);
        changed = true;
      }
    }
  }
}

static void find_regions(changing *c)
{
  for (int32_t i = 0; i < c->n; i++) {
    const int32_t number = c->order[i];

    c->fits[number] =
        fits_deal(c, number) || (fits(c, rg_ir_node_at(c->g, number)) && follows(c, number));
  }
  leave_out_read_first(c);
  for (int32_t i = 0; i < c->n; i++) {
    c->region[c->order[i]].of = c->order[i];
    if (c->fits[c->order[i]]) {
      count(c, c->order[i]);
    }
  }
  for (int32_t i = 0; i < c->n; i++) {
    const int32_t number = c->order[i];
    const int32_t *in;
    const int32_t n = c->fits[number] ? images_of(c, number, &in) : 0;

    for (int32_t k = 0; k < n; k++) {
      if (comes_fitting(c, in[k])) {
        join(c, rg_ir_value_at(c->g, in[k])->producer, number);
      }
    }
    if (c->part_of[number] != RG_IR_NONE) {
      join(c, c->part_of[number], number);
    }
  }
  for (int32_t i = 0; i < c->n; i++) {
    const region *r = &c->region[root(c, c->order[i])];

    c->fits[c->order[i]] = c->fits[c->order[i]] && (r->wanted || r->copied < r->spared);
  }
}

/* -- Changing them ------------------------------------------------------------------------- */

/* An image in the other order, in memory of its own, in front of a node. */
static rg_status put_copy(const changing *c, int32_t at, int32_t value, const int64_t axes[4],
                          int32_t *out)
{
  const rg_meta from = rg_ir_value_at(c->g, value)->meta;
  rg_permute_args permute = { 0 };
  rg_copy_args copy = { .meta = from };
  int32_t node;

  rg_take_sizes(&permute.order, axes, 4);
  for (int32_t i = 0; i < 4; i++) {
    copy.meta.shape[i] = from.shape[axes[i]];
  }
  RG_TRY(rg_ir_insert_view(c->g, at, &rg_op_permute, &permute, &copy.meta, &value));
  RG_TRY(rg_graph_insert(c->g, at, 0, RG_OP_COPY, &value, 1, &copy, &node));
  *out = rg_ir_outputs(c->g, rg_ir_node_at(c->g, node))[0];
  return RG_OK;
}

static rg_status get_last(changing *c, int32_t at, int32_t value, int32_t *out)
{
  if (c->last[value] == RG_IR_NONE) {
    RG_TRY(put_copy(c, at, value, to_last, &c->last[value]));
  }
  *out = c->last[value];
  return RG_OK;
}

typedef union arguments {
  rg_conv2d_args conv2d;
  rg_pool2d_args pool2d;
  rg_reduce_args reduce;
  rg_concat_args concat;
  char other[RG_IR_MOST_ARGS];
} arguments;

static void take_args(const rg_graph *g, const rg_ir_node *node, arguments *args)
{
  if (node->op->args_size > 0) {
    memcpy(args, rg_ir_args(g, node), node->op->args_size);
  }
  switch (node->op->id) {
  case RG_OP_CONV2D:
    args->conv2d.o.layout = RG_NHWC;
    break;
  case RG_OP_MAX_POOL2D:
  case RG_OP_AVG_POOL2D:
    args->pool2d.o.layout = RG_NHWC;
    break;
  case RG_OP_MEAN:
  case RG_OP_SUM:
  case RG_OP_MAX:
  case RG_OP_MIN:
    args->reduce.axes = PLANE >> 1;
    break;
  case RG_OP_CONCAT:
    args->concat.axis = axis_last[args->concat.axis];
    break;
  default:
    break;
  }
}

/* What a value is with channels last; in front of a node. */
static rg_status put_last(changing *c, int32_t number, int32_t at, int32_t *out)
{
  const rg_ir_node old = *rg_ir_node_at(c->g, number);
  const int32_t *images;
  const int32_t n = images_of(c, number, &images);
  int32_t node;
  arguments args;
  rg_deal d;

  if (c->deals[number] != RG_IR_NONE && rg_deal_take(c->g, number, &d)) {
    return rg_deal_put(c->g, at, &d, c->last[d.image], out);
  }
  take_args(c->g, &old, &args);
  for (int32_t i = 0; i < old.n_in; i++) {
    c->in[i] = rg_ir_inputs(c->g, &old)[i];
    RG_TRY(i < n ? get_last(c, number, c->in[i], &c->in[i]) : RG_OK);
  }
  RG_TRY(rg_graph_insert(c->g, at, 0, old.op->id, c->in, old.n_in, &args, &node));
  rg_ir_node *made = rg_ir_node_at(c->g, node);

  made->modes = old.modes;
  made->flops = old.flops;
  made->bytes = old.bytes;
  *out = rg_ir_outputs(c->g, made)[0];
  return RG_OK;
}

/* A node's result with channels last, in front of it; who reads the other order reads a copy. */
static rg_status change(changing *c, int32_t number)
{
  const rg_ir_node *old = rg_ir_node_at(c->g, number);
  const int32_t y = rg_ir_outputs(c->g, old)[0];
  const int32_t storage = rg_ir_value_at(c->g, y)->storage;
  const int32_t at = c->deals[number] != RG_IR_NONE ? old->parent : number;
  const bool is_read = is_read_first(c, y);
  int32_t result;

  if (c->part_of[number] != RG_IR_NONE) {
    return RG_OK;
  }
  RG_TRY(put_last(c, number, at, &result));
  c->last[y] = result;
  c->first[y] = result; /* of a mean, which has no order */
  if (rg_ir_value_at(c->g, y)->meta.ndim == 4) {
    if (!is_read) {
      c->first[y] = RG_IR_NONE;
      return RG_OK;
    }
    RG_TRY(put_copy(c, at, result, to_first, &c->first[y]));
  }
  /* in the memory of y: who views or overwrites that goes on doing so */
  rg_ir_value_at(c->g, c->first[y])->storage = storage;
  return RG_OK;
}

/* All of them; then those who read the old nodes' results read the new ones', and the old nodes go,
** the last first. */
static rg_status change_all(changing *c)
{
  for (int32_t i = 0; i < c->n; i++) {
    RG_TRY(c->fits[c->old[i]] ? change(c, c->old[i]) : RG_OK);
  }
  for (int32_t y = 0; y < c->n_values; y++) {
    RG_TRY(c->first[y] != RG_IR_NONE ? rg_ir_replace(c->g, y, c->first[y]) : RG_OK);
  }
  for (int32_t i = c->n - 1; i >= 0; i--) {
    /* those within another one go with it */
    RG_TRY(c->fits[c->old[i]] && rg_ir_node_at(c->g, c->old[i])->parent == RG_IR_NONE
               ? rg_ir_remove(c->g, c->old[i])
               : RG_OK);
  }
  return RG_OK;
}

static rg_status new_arrays(changing *c)
{
  const size_t n_nodes = (size_t)rg_ir_n_nodes(c->g);
  const size_t n_values = (size_t)c->n_values;
  int32_t most_in = 1;

  for (int32_t i = 0; i < c->n; i++) {
    const int32_t n_in = rg_ir_node_at(c->g, c->order[i])->n_in;

    most_in = n_in > most_in ? n_in : most_in;
  }
  c->region = rg_host_zeroed(n_nodes * sizeof(*c->region));
  c->fits = rg_host_zeroed(n_nodes);
  c->old = rg_host_alloc(n_nodes * sizeof(*c->old));
  c->last = rg_host_alloc(n_values * sizeof(*c->last));
  c->first = rg_host_alloc(n_values * sizeof(*c->first));
  c->in = rg_host_alloc((size_t)most_in * sizeof(*c->in));
  c->deals = rg_host_alloc(n_nodes * sizeof(*c->deals));
  c->part_of = rg_host_alloc(n_nodes * sizeof(*c->part_of));
  if (c->region == NULL || c->fits == NULL || c->old == NULL || c->last == NULL ||
      c->first == NULL || c->in == NULL || c->deals == NULL || c->part_of == NULL) {
    return rg_fail(RG_ENOMEM, "graph: no memory for channels last");
  }
  for (int32_t i = 0; i < c->n; i++) { /* of a graph without nodes there is no order */
    c->old[i] = c->order[i];
  }
  memset(c->last, 0xff, n_values * sizeof(*c->last));
  memset(c->first, 0xff, n_values * sizeof(*c->first));
  memset(c->deals, 0xff, n_nodes * sizeof(*c->deals));
  memset(c->part_of, 0xff, n_nodes * sizeof(*c->part_of));
  return RG_OK;
}

rg_status rg_pass_channels_last(rg_graph *g)
{
  changing c = { .g = g, .n_values = rg_ir_n_values(g) };
  rg_status status;

  RG_TRY(rg_ir_order(g, &c.order, NULL, &c.n));
  status = new_arrays(&c);
  if (status == RG_OK) {
    find_regions(&c);
    status = change_all(&c);
  }
  rg_host_free(c.region);
  rg_host_free(c.fits);
  rg_host_free(c.old);
  rg_host_free(c.last);
  rg_host_free(c.first);
  rg_host_free(c.in);
  rg_host_free(c.deals);
  rg_host_free(c.part_of);
  return status;
}
