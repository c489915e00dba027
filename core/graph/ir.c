/* SPDX-License-Identifier: MIT */
/*
** Values and nodes: how a graph is stored, made and read.  How it is changed is in edit.c.
*/
#include <stdio.h>
#include <string.h>

#include "graph/store.h"
#include "op/fused.h"
#include "op/list.h"

enum { MOST_OPEN = 64 }; /* compounds within compounds */

static rg_status push_int(rg_ir_array *array, int32_t number)
{
  RG_TRY(rg_ir_reserve(array, 1, sizeof(int32_t)));
  RG_IR_PUSH(*array, int32_t, number);
  return RG_OK;
}

/* -- A graph ----------------------------------------------------------------------------- */

rg_status rg_ir_new(rg_graph **out)
{
  rg_graph *g = rg_host_zeroed(sizeof(*g));

  if (g == NULL) {
    return rg_ir_no_memory();
  }
  atomic_init(&g->refs, 1);
  g->open = RG_IR_NONE;
  if (rg_ir_reserve(&g->text, 1, 1) != RG_OK) {
    rg_host_free(g);
    return RG_ENOMEM;
  }
  RG_IR_PUSH(g->text, char, '\0');
  *out = g;
  return RG_OK;
}

rg_graph *rg_graph_retain(rg_graph *graph)
{
  if (graph != NULL) {
    atomic_fetch_add(&graph->refs, 1);
  }
  return graph;
}

void rg_graph_release(rg_graph *graph)
{
  if (graph == NULL || atomic_fetch_sub(&graph->refs, 1) != 1) {
    return;
  }
  for (int32_t i = 0; i < graph->bound.n; i++) {
    rg_tensor_release(*RG_IR_AT(graph->bound, rg_tensor *, i));
  }
  for (int32_t i = 0; i < graph->output.n; i++) {
    rg_tensor_release(RG_IR_AT(graph->output, rg_ir_output, i)->into);
  }
  for (int32_t i = 0; i < graph->streams.n; i++) {
    rg_generator_release(*RG_IR_AT(graph->streams, rg_generator *, i));
  }
  rg_ir_array *const arrays[] = { &graph->value,  &graph->bound,  &graph->node,     &graph->operand,
                                  &graph->back,   &graph->use,    &graph->args,     &graph->text,
                                  &graph->bucket, &graph->modes,  &graph->streams,  &graph->storage,
                                  &graph->input,  &graph->output, &graph->out_back, &graph->state,
                                  &graph->order,  &graph->body,   &graph->pending };

  for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
    rg_host_free(arrays[i]->data);
  }
  rg_host_free(graph->shown);
  rg_host_free(graph);
}

/* -- Who reads a value ------------------------------------------------------------------- */

rg_ir_value *rg_ir_value_at(const rg_graph *g, int32_t value)
{
  return RG_IR_AT(g->value, rg_ir_value, value);
}

rg_ir_node *rg_ir_node_at(const rg_graph *g, int32_t node)
{
  return RG_IR_AT(g->node, rg_ir_node, node);
}

const rg_ir_use *rg_ir_uses(const rg_graph *g, const rg_ir_value *value)
{
  return g->use.n > 0 ? RG_IR_AT(g->use, const rg_ir_use, value->uses) : NULL;
}

rg_status rg_ir_use_room(rg_graph *g, int32_t value, int32_t n)
{
  rg_ir_value *v = rg_ir_value_at(g, value);

  if (n <= v->room - v->n_uses) {
    return RG_OK;
  }
  int32_t room = v->room + v->n_uses + n; /* more than twice as much */

  RG_TRY(rg_ir_reserve(&g->use, room, sizeof(rg_ir_use)));
  if (v->n_uses > 0) {
    memcpy(RG_IR_AT(g->use, rg_ir_use, g->use.n), RG_IR_AT(g->use, rg_ir_use, v->uses),
           (size_t)v->n_uses * sizeof(rg_ir_use));
  }
  v->uses = g->use.n;
  v->room = room;
  g->use.n += room;
  return RG_OK;
}

/* The place that says where a use stands. */
static int32_t *back_of(rg_graph *g, rg_ir_use use)
{
  if (use.node == RG_IR_NONE) {
    return RG_IR_AT(g->out_back, int32_t, use.slot);
  }
  const rg_ir_node *node = rg_ir_node_at(g, use.node);
  int32_t at = use.slot < node->n_in ? node->in + use.slot : node->out + use.slot - node->n_in;

  return RG_IR_AT(g->back, int32_t, at);
}

int32_t rg_ir_use_add(rg_graph *g, int32_t value, int32_t node, int32_t slot)
{
  rg_ir_value *v = rg_ir_value_at(g, value);

  *RG_IR_AT(g->use, rg_ir_use, v->uses + v->n_uses) = (rg_ir_use){ node, slot };
  return v->n_uses++;
}

void rg_ir_use_drop(rg_graph *g, int32_t value, int32_t at)
{
  rg_ir_value *v = rg_ir_value_at(g, value);
  rg_ir_use *uses = RG_IR_AT(g->use, rg_ir_use, v->uses);

  uses[at] = uses[--v->n_uses];
  if (at < v->n_uses) {
    *back_of(g, uses[at]) = at;
  }
}

rg_status rg_ir_storage_new(rg_graph *g, int32_t *out)
{
  RG_TRY(rg_ir_reserve(&g->storage, 1, sizeof(rg_ir_storage)));
  RG_IR_PUSH(g->storage, rg_ir_storage, (rg_ir_storage){ .writer = RG_IR_NONE });
  *out = g->storage.n - 1;
  return RG_OK;
}

/* -- Values ------------------------------------------------------------------------------ */

static rg_status value_make(rg_graph *g, const rg_ir_value *value, rg_tensor *x, int32_t *out)
{
  RG_TRY(rg_ir_reserve(&g->value, 1, sizeof(*value)));
  RG_TRY(rg_ir_reserve(&g->bound, 1, sizeof(x)));
  RG_IR_PUSH(g->value, rg_ir_value, *value);
  RG_IR_PUSH(g->bound, rg_tensor *, x != NULL ? rg_tensor_retain(x) : NULL);
  rg_ir_storage *storage = RG_IR_AT(g->storage, rg_ir_storage, value->storage);

  storage->outside = storage->outside || value->producer == RG_IR_NONE;
  if (value->version > storage->version) {
    storage->version = value->version;
    storage->writer = value->producer;
  }
  *out = g->value.n - 1;
  return RG_OK;
}

rg_status rg_ir_value_add(rg_graph *g, int32_t kind, const rg_meta *meta, int32_t device,
                          int32_t storage, rg_tensor *x, int32_t *out)
{
  rg_ir_value value = {
    .device = device, .kind = kind, .storage = storage, .was = RG_IR_NONE, .producer = RG_IR_NONE
  };

  value.meta = *meta;
  return value_make(g, &value, x, out);
}

rg_tensor *rg_ir_bound(const rg_graph *g, int32_t value)
{
  return *RG_IR_AT(g->bound, rg_tensor *, value);
}

rg_status rg_ir_bind(rg_graph *g, int32_t value, rg_tensor *x)
{
  const rg_ir_value *v = rg_ir_value_at(g, value);
  rg_tensor **at = RG_IR_AT(g->bound, rg_tensor *, value);
  char a[96];
  char b[96];

  RG_TRY(rg_tensor_check(x, "graph"));
  if (x->_dtype != v->meta.dtype) {
    return rg_fail(RG_EDTYPE, "graph: %%%d is %s and not %s", value, rg_dtype_name(v->meta.dtype),
                   rg_tensor_text(x, a, sizeof(a)));
  }
  if (!rg_tensor_shaped(x, v->meta.shape, v->meta.ndim)) {
    return rg_fail(RG_ESHAPE, "graph: %%%d has the shape %s and not that of %s", value,
                   rg_shape_text(v->meta.shape, v->meta.ndim, b, sizeof(b)),
                   rg_tensor_text(x, a, sizeof(a)));
  }
  if (x->_device != v->device) {
    return rg_fail(RG_EDEVICE, "graph: %%%d is on %s and not on %s", value,
                   rg_device_name(v->device), rg_device_name(x->_device));
  }
  (void)rg_tensor_retain(x);
  rg_tensor_release(*at);
  *at = x;
  return RG_OK;
}

void rg_ir_name(rg_graph *g, int32_t value, rg_ir_text name)
{
  rg_ir_value_at(g, value)->name = name;
}

/* -- Nodes ------------------------------------------------------------------------------- */

enum { I64X2_BYTES = 16 };

/* 0: of no type that is known. */
static size_t arg_bytes(const rg_arg *arg)
{
  switch (arg->type) {
  case RG_ARG_i32:
  case RG_ARG_u32:
    return 4;
  case RG_ARG_i64:
  case RG_ARG_f64:
    return 8;
  case RG_ARG_i64x2:
    return I64X2_BYTES;
  case RG_ARG_meta:
    return sizeof(rg_meta);
  case RG_ARG_sizes:
    return sizeof(rg_sizes);
  case RG_ARG_links:
    return sizeof(rg_links);
  default:
    return 0;
  }
}

static rg_status check_arg_types(const rg_op *op)
{
  for (int32_t i = 0; i < op->n_args; i++) {
    if (arg_bytes(&op->arg[i]) == 0) {
      return rg_fail(RG_EBUG, "graph: %s: argument %s is of type %d, which no graph keeps",
                     op->name, op->arg[i].name, op->arg[i].type);
    }
  }
  return RG_OK;
}

/* A struct of arguments without what lies between them, and without the sizes of axes and the links
** that are not there: equal arguments have equal bytes. */
static void copy_args(const rg_op *op, const char *from, char *to)
{
  memset(to, 0, op->args_size);
  for (int32_t i = 0; i < op->n_args; i++) {
    const rg_arg *arg = &op->arg[i];
    size_t bytes = arg_bytes(arg);

    if (arg->type == RG_ARG_meta) {
      const rg_meta *meta = (const rg_meta *)(const void *)(from + arg->offset);

      bytes = offsetof(rg_meta, shape) +
              (size_t)rg_min_i64(rg_max_i64(meta->ndim, 0), RG_MAX_DIMS) * sizeof(int64_t);
    }
    if (arg->type == RG_ARG_sizes) {
      const rg_sizes *sizes = (const rg_sizes *)(const void *)(from + arg->offset);

      bytes = offsetof(rg_sizes, at) +
              (size_t)rg_min_i64(rg_max_i64(sizes->n, 0), RG_MAX_DIMS) * sizeof(int64_t);
    }
    if (arg->type == RG_ARG_links) {
      const rg_links *links = (const rg_links *)(const void *)(from + arg->offset);

      bytes = offsetof(rg_links, at) +
              (size_t)rg_min_i64(rg_max_i64(links->n, 0), RG_FUSED_LINKS) * sizeof(rg_link);
    }
    memcpy(to + arg->offset, from + arg->offset, bytes);
  }
}

/* Results that a record has at most. */
static int32_t results_of(const rg_op *op)
{
  int32_t n = 0;

  while (n < RG_MAX_OUT && op->result[n] != NULL) {
    n++;
  }
  return n;
}

static rg_status node_room(rg_graph *g, const rg_op *op, const int32_t *in, int32_t n_in,
                           int32_t n_out)
{
  RG_TRY(rg_ir_reserve(&g->node, 1, sizeof(rg_ir_node)));
  RG_TRY(rg_ir_reserve(&g->operand, n_in + n_out, sizeof(int32_t)));
  RG_TRY(rg_ir_reserve(&g->back, n_in + n_out, sizeof(int32_t)));
  RG_TRY(rg_ir_reserve(&g->args, (int32_t)op->args_size + 8, 1));
  RG_TRY(rg_ir_reserve(&g->modes, 1, sizeof(rg_graph_modes)));
  RG_TRY(check_arg_types(op));
  for (int32_t i = 0; i < n_in; i++) {
    if (in[i] < RG_IR_NONE || in[i] >= g->value.n) {
      return rg_fail(RG_EARG, "graph: %s reads %%%d, and there is no such value", op->name, in[i]);
    }
  }
  return RG_OK;
}

static const rg_graph_modes NO_MODES = {
  .compute = -1, .weight_cast = -1, .autocast = -1, .layout = -1, .vendor = 1, .autotune = 1
};

rg_status rg_ir_node_make(rg_graph *g, const rg_op *op, const int32_t *in, int32_t n_in,
                          const void *args, int32_t *out)
{
  int32_t n_out = results_of(op);
  int32_t number = g->node.n;
  int32_t modes;

  RG_TRY(node_room(g, op, in, n_in, n_out));
  RG_TRY(rg_ir_modes_add(g, &NO_MODES, &modes));
  int32_t *operands = RG_IR_AT(g->operand, int32_t, g->operand.n);
  rg_ir_node *node = rg_ir_node_at(g, number);

  *node = (rg_ir_node){ .op = op,
                        .parent = RG_IR_NONE,
                        .modes = modes,
                        .generator = op->draws ? 0 : -1,
                        .draw = -1,
                        .repeats = RG_IR_NONE,
                        .n_in = n_in,
                        .in = g->operand.n,
                        .out = g->operand.n + n_in,
                        .out_room = n_out,
                        .args = (g->args.n + 7) & ~7 };
  for (int32_t i = 0; i < n_in; i++) {
    operands[i] = in[i];
    if (in[i] != RG_IR_NONE) {
      rg_status status = rg_ir_use_room(g, in[i], 1);

      if (status != RG_OK) { /* nobody has heard of it yet */
        for (int32_t k = 0; k < i; k++) {
          if (in[k] != RG_IR_NONE) {
            rg_ir_value_at(g, in[k])->n_uses--;
          }
        }
        return status;
      }
      *RG_IR_AT(g->back, int32_t, node->in + i) = rg_ir_use_add(g, in[i], number, i);
    }
  }
  if (op->args_size > 0) {
    copy_args(op, args, RG_IR_AT(g->args, char, node->args));
    g->args.n = node->args + (int32_t)op->args_size;
  }
  g->operand.n += n_in + n_out;
  g->back.n = g->operand.n;
  g->node.n++;
  *out = number;
  return RG_OK;
}

rg_status rg_ir_node_add(rg_graph *g, const rg_op *op, const int32_t *in, int32_t n_in,
                         const void *args, int32_t *out)
{
  RG_TRY(rg_ir_reserve(&g->order, 1, sizeof(int32_t)));
  RG_TRY(rg_ir_reserve(&g->body, 1, sizeof(int32_t)));
  RG_TRY(rg_ir_node_make(g, op, in, n_in, args, out));
  rg_ir_node *node = rg_ir_node_at(g, *out);

  node->parent = g->open;
  node->position = g->order.n;
  if (op->draws) {
    node->draw = g->n_draws++;
  }
  for (int32_t p = g->open; p != RG_IR_NONE; p = rg_ir_node_at(g, p)->parent) {
    ++*RG_IR_AT(g->body, int32_t, rg_ir_node_at(g, p)->position);
  }
  RG_IR_PUSH(g->order, int32_t, *out);
  RG_IR_PUSH(g->body, int32_t, 0);
  return RG_OK;
}

/* Room for one output more. */
static rg_status output_room(rg_graph *g, int32_t number)
{
  rg_ir_node *node = rg_ir_node_at(g, number);
  int32_t room = node->out_room + node->n_out + 1; /* more than twice as much */

  if (node->n_out < node->out_room) {
    return RG_OK;
  }
  RG_TRY(rg_ir_reserve(&g->operand, room, sizeof(int32_t)));
  RG_TRY(rg_ir_reserve(&g->back, room, sizeof(int32_t)));
  if (node->n_out > 0) {
    memcpy(RG_IR_AT(g->operand, int32_t, g->operand.n), RG_IR_AT(g->operand, int32_t, node->out),
           (size_t)node->n_out * sizeof(int32_t));
    memcpy(RG_IR_AT(g->back, int32_t, g->back.n), RG_IR_AT(g->back, int32_t, node->out),
           (size_t)node->n_out * sizeof(int32_t));
  }
  node->out = g->operand.n;
  node->out_room = room;
  g->operand.n += room;
  g->back.n = g->operand.n;
  return RG_OK;
}

/* needs: the value that it refers to, for which there is room; -1: none. */
static void output_push(rg_graph *g, int32_t number, int32_t value, int32_t needs)
{
  rg_ir_node *node = rg_ir_node_at(g, number);

  if (needs != RG_IR_NONE) {
    *RG_IR_AT(g->back, int32_t, node->out + node->n_out) =
        rg_ir_use_add(g, needs, number, node->n_in + node->n_out);
  }
  *RG_IR_AT(g->operand, int32_t, node->out + node->n_out++) = value;
  if (!node->complete) {
    node->n_results++;
  }
}

rg_status rg_ir_output_add(rg_graph *g, int32_t node, const rg_meta *meta, int32_t device,
                           int32_t storage, int32_t version, int32_t was, int32_t *out)
{
  rg_ir_value value = { .device = device,
                        .kind = RG_VALUE_INTERMEDIATE,
                        .storage = storage,
                        .version = version,
                        .was = was,
                        .producer = node,
                        .result = rg_ir_node_at(g, node)->n_out };

  value.meta = *meta;
  RG_TRY(output_room(g, node));
  RG_TRY(was != RG_IR_NONE ? rg_ir_use_room(g, was, 1) : RG_OK);
  RG_TRY(value_make(g, &value, NULL, out));
  output_push(g, node, *out, was);
  return RG_OK;
}

rg_status rg_ir_output_share(rg_graph *g, int32_t node, int32_t value)
{
  RG_TRY(output_room(g, node));
  RG_TRY(value != RG_IR_NONE ? rg_ir_use_room(g, value, 1) : RG_OK);
  output_push(g, node, value, value);
  return RG_OK;
}

rg_status rg_ir_output_skip(rg_graph *g, int32_t node)
{
  return rg_ir_output_share(g, node, RG_IR_NONE);
}

void rg_ir_results_end(rg_graph *g, int32_t node)
{
  rg_ir_node_at(g, node)->complete = true;
}

rg_status rg_ir_begin(rg_graph *g, int32_t node)
{
  if (g->depth == MOST_OPEN) {
    return rg_fail(RG_EARG, "graph: more than %d compounds within each other", MOST_OPEN);
  }
  rg_ir_node_at(g, node)->compound = true;
  g->open = node;
  g->depth++;
  return RG_OK;
}

void rg_ir_end(rg_graph *g)
{
  g->open = rg_ir_node_at(g, g->open)->parent;
  g->depth--;
}

/* -- Inputs, outputs, states ------------------------------------------------------------- */

rg_status rg_ir_graph_input(rg_graph *g, int32_t value)
{
  return push_int(&g->input, value);
}

rg_status rg_ir_graph_state(rg_graph *g, int32_t value)
{
  return push_int(&g->state, value);
}

rg_status rg_ir_graph_output(rg_graph *g, const rg_ir_output *output)
{
  RG_TRY(rg_ir_reserve(&g->output, 1, sizeof(*output)));
  RG_TRY(rg_ir_reserve(&g->out_back, 1, sizeof(int32_t)));
  RG_TRY(rg_ir_use_room(g, output->value, 1));
  RG_IR_PUSH(g->out_back, int32_t, rg_ir_use_add(g, output->value, RG_IR_NONE, g->output.n));
  RG_IR_PUSH(g->output, rg_ir_output, *output);
  if (output->into != NULL) {
    (void)rg_tensor_retain(output->into);
  }
  return RG_OK;
}

void rg_ir_output_own(rg_graph *g, int32_t i)
{
  rg_ir_output *output = RG_IR_AT(g->output, rg_ir_output, i);

  rg_tensor_release(output->into);
  output->into = NULL;
}

/* -- Reading ----------------------------------------------------------------------------- */

int32_t rg_ir_n_values(const rg_graph *g)
{
  return g->value.n;
}

int32_t rg_ir_n_nodes(const rg_graph *g)
{
  return g->node.n;
}

int32_t rg_ir_n_storages(const rg_graph *g)
{
  return g->storage.n;
}

int32_t rg_ir_n_draws(const rg_graph *g)
{
  return g->n_draws;
}

int32_t rg_ir_n_inputs(const rg_graph *g)
{
  return g->input.n;
}

int32_t rg_ir_n_outputs(const rg_graph *g)
{
  return g->output.n;
}

int32_t rg_ir_n_states(const rg_graph *g)
{
  return g->state.n;
}

int32_t rg_ir_input_at(const rg_graph *g, int32_t i)
{
  return *RG_IR_AT(g->input, int32_t, i);
}

const rg_ir_output *rg_ir_output_at(const rg_graph *g, int32_t i)
{
  return RG_IR_AT(g->output, rg_ir_output, i);
}

int32_t rg_ir_state_at(const rg_graph *g, int32_t i)
{
  return *RG_IR_AT(g->state, int32_t, i);
}

const int32_t *rg_ir_inputs(const rg_graph *g, const rg_ir_node *node)
{
  return RG_IR_AT(g->operand, int32_t, node->in);
}

const int32_t *rg_ir_outputs(const rg_graph *g, const rg_ir_node *node)
{
  return RG_IR_AT(g->operand, int32_t, node->out);
}

const void *rg_ir_args(const rg_graph *g, const rg_ir_node *node)
{
  return node->op->args_size > 0 ? RG_IR_AT(g->args, char, node->args) : NULL;
}
