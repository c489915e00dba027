/* SPDX-License-Identifier: MIT */
/*
** Copies of graphs, and whether two are the same.  Both number values and storages in the order in
** which they are met.
*/
#include <string.h>

#include "graph/ir.h"

/* -- Copies ------------------------------------------------------------------------------ */

typedef struct copying {
  rg_graph *from;
  rg_graph *to;
  int32_t *value;   /* numbers in the copy; 0 is none yet, so all are one larger */
  int32_t *storage; /* the same */
  int32_t *node;    /* the same */
} copying;

static rg_status copy_text(copying *c, rg_ir_text from, rg_ir_text *to)
{
  return rg_ir_text_add(c->to, rg_ir_text_of(c->from, from), to);
}

static rg_status copy_storage(copying *c, int32_t from, int32_t *to)
{
  if (c->storage[from] == 0) {
    RG_TRY(rg_ir_storage_new(c->to, to));
    c->storage[from] = *to + 1;
  }
  *to = c->storage[from] - 1;
  return RG_OK;
}

/* The number of a value in the copy; one that no node makes comes when it is first met. */
static rg_status copy_value(copying *c, int32_t from, int32_t *to)
{
  const rg_ir_value *v;
  rg_ir_text name;
  int32_t storage;

  if (from == RG_IR_NONE) {
    *to = RG_IR_NONE;
    return RG_OK;
  }
  v = rg_ir_value_at(c->from, from);
  if (c->value[from] == 0) {
    if (v->producer != RG_IR_NONE) {
      return rg_fail(RG_EBUG, "graph: %%%d is read before node %d makes it", from, v->producer);
    }
    RG_TRY(copy_storage(c, v->storage, &storage));
    RG_TRY(copy_text(c, v->name, &name));
    RG_TRY(rg_ir_value_add(c->to, v->kind, &v->meta, v->device, storage, rg_ir_bound(c->from, from),
                           to));
    rg_ir_name(c->to, *to, name);
    c->value[from] = *to + 1;
  }
  *to = c->value[from] - 1;
  return RG_OK;
}

static rg_status copy_inputs(copying *c, const rg_ir_node *node, int32_t number)
{
  const int32_t *in = rg_ir_inputs(c->from, node);
  int32_t *mapped = rg_host_alloc((size_t)node->n_in * sizeof(*mapped));
  rg_status status = mapped != NULL ? RG_OK : rg_fail(RG_ENOMEM, "graph: no memory for a copy");
  int32_t made = RG_IR_NONE;

  for (int32_t i = 0; i < node->n_in && status == RG_OK; i++) {
    status = copy_value(c, in[i], &mapped[i]);
  }
  if (status == RG_OK) {
    status = rg_ir_node_add(c->to, node->op, mapped, node->n_in, rg_ir_args(c->from, node), &made);
  }
  rg_host_free(mapped);
  c->node[number] = made + 1;
  return status;
}

/* What a node makes itself; what a compound makes comes when its body is there. */
static rg_status copy_outputs(copying *c, int32_t number)
{
  const rg_ir_node *node = rg_ir_node_at(c->from, number);
  const int32_t *out = rg_ir_outputs(c->from, node);
  int32_t to = c->node[number] - 1;

  for (int32_t i = 0; i < node->n_out; i++) {
    const rg_ir_value *v = out[i] != RG_IR_NONE ? rg_ir_value_at(c->from, out[i]) : NULL;
    rg_ir_text name;
    int32_t storage;
    int32_t was;
    int32_t made;

    if (i == node->n_results) {
      rg_ir_results_end(c->to, to);
    }
    if (v == NULL) {
      RG_TRY(rg_ir_output_skip(c->to, to));
    } else if (v->producer != number) {
      RG_TRY(copy_value(c, out[i], &made));
      RG_TRY(rg_ir_output_share(c->to, to, made));
    } else {
      RG_TRY(copy_value(c, v->was, &was));
      RG_TRY(copy_storage(c, v->storage, &storage));
      RG_TRY(copy_text(c, v->name, &name));
      RG_TRY(rg_ir_output_add(c->to, to, &v->meta, v->device, storage, v->version, was, &made));
      rg_ir_name(c->to, made, name);
      c->value[out[i]] = made + 1;
    }
  }
  rg_ir_results_end(c->to, to);
  return RG_OK;
}

static rg_status copy_node(copying *c, int32_t number)
{
  const rg_ir_node *node = rg_ir_node_at(c->from, number);
  int32_t modes;
  int32_t generator = -1;
  rg_ir_text module;
  rg_ir_text line;

  RG_TRY(rg_ir_modes_add(c->to, rg_ir_modes_of(c->from, node->modes), &modes));
  if (node->generator >= 0) {
    RG_TRY(rg_ir_generator_add(c->to, rg_ir_generator_of(c->from, node->generator), &generator));
  }
  RG_TRY(copy_text(c, node->module, &module));
  RG_TRY(copy_text(c, node->line, &line));
  RG_TRY(copy_inputs(c, node, number));
  rg_ir_node *made = rg_ir_node_at(c->to, c->node[number] - 1);

  made->modes = modes;
  made->generator = generator;
  made->module = module;
  made->line = line;
  made->recomputed = node->recomputed;
  made->repeats = node->repeats >= 0 ? c->node[node->repeats] - 1 : RG_IR_NONE;
  made->derived = node->derived;
  made->unwritten = node->unwritten;
  made->flops = node->flops;
  made->bytes = node->bytes;
  return node->compound ? rg_ir_begin(c->to, c->node[number] - 1) : copy_outputs(c, number);
}

/* End the compounds that a node is not in any more; with none, all. */
static rg_status close_to(copying *c, int32_t *open, int32_t parent)
{
  while (*open != parent) {
    int32_t closed = *open;

    rg_ir_end(c->to);
    *open = rg_ir_node_at(c->from, closed)->parent;
    RG_TRY(copy_outputs(c, closed));
  }
  return RG_OK;
}

static rg_status copy_nodes(copying *c)
{
  const int32_t *order;
  int32_t open = RG_IR_NONE;
  int32_t n;

  RG_TRY(rg_ir_order(c->from, &order, NULL, &n));
  for (int32_t i = 0; i < n; i++) {
    RG_TRY(close_to(c, &open, rg_ir_node_at(c->from, order[i])->parent));
    RG_TRY(copy_node(c, order[i]));
    if (rg_ir_node_at(c->from, order[i])->compound) {
      open = order[i];
    }
  }
  return close_to(c, &open, RG_IR_NONE);
}

static rg_status copy_ends(copying *c)
{
  for (int32_t i = 0; i < rg_ir_n_outputs(c->from); i++) {
    rg_ir_output output = *rg_ir_output_at(c->from, i);

    RG_TRY(copy_text(c, output.name, &output.name));
    RG_TRY(copy_text(c, output.line, &output.line));
    RG_TRY(copy_value(c, output.value, &output.value));
    RG_TRY(rg_ir_graph_output(c->to, &output));
  }
  return RG_OK;
}

static rg_status copy_begins(copying *c)
{
  int32_t value;

  for (int32_t i = 0; i < rg_ir_n_inputs(c->from); i++) {
    RG_TRY(copy_value(c, rg_ir_input_at(c->from, i), &value));
    RG_TRY(rg_ir_graph_input(c->to, value));
  }
  for (int32_t i = 0; i < rg_ir_n_states(c->from); i++) {
    RG_TRY(copy_value(c, rg_ir_state_at(c->from, i), &value));
    RG_TRY(rg_ir_graph_state(c->to, value));
  }
  return RG_OK;
}

rg_status rg_graph_copy(rg_graph *graph, rg_graph **out)
{
  copying c = { .from = graph };
  rg_status status = rg_ir_new(&c.to);

  if (status != RG_OK) {
    return status;
  }
  c.value = rg_host_zeroed((size_t)rg_ir_n_values(graph) * sizeof(int32_t));
  c.storage = rg_host_zeroed((size_t)rg_ir_n_storages(graph) * sizeof(int32_t));
  c.node = rg_host_zeroed((size_t)rg_ir_n_nodes(graph) * sizeof(int32_t));
  if (c.value == NULL || c.storage == NULL || c.node == NULL) {
    status = rg_fail(RG_ENOMEM, "graph: no memory for a copy");
  }
  status = status == RG_OK ? copy_begins(&c) : status;
  status = status == RG_OK ? copy_nodes(&c) : status;
  status = status == RG_OK ? copy_ends(&c) : status;
  rg_host_free(c.value);
  rg_host_free(c.storage);
  rg_host_free(c.node);
  if (status != RG_OK) {
    rg_graph_release(c.to);
    return status;
  }
  *out = c.to;
  return RG_OK;
}

/* -- Comparison -------------------------------------------------------------------------- */

#define DIFFERS(...) rg_fail(RG_EARG, "graph: " __VA_ARGS__)

typedef struct comparing {
  rg_graph *a;
  rg_graph *b;
  int32_t *value; /* of a: the value of b, one larger; 0 is none yet */
  int32_t *back;  /* of b: that of a */
  int32_t *storage;
  int32_t *storage_back;
} comparing;

/* Are a and b each other's?  They become so where neither is anybody's. */
static bool pair(int32_t *there, int32_t *back, int32_t a, int32_t b)
{
  if (there[a] == 0 && back[b] == 0) {
    there[a] = b + 1;
    back[b] = a + 1;
  }
  return there[a] == b + 1; /* and so back[b] is a + 1 */
}

static bool same_text(const comparing *c, rg_ir_text a, rg_ir_text b)
{
  return strcmp(rg_ir_text_of(c->a, a), rg_ir_text_of(c->b, b)) == 0;
}

static rg_status same_value(comparing *c, int32_t a, int32_t b)
{
  if (a == RG_IR_NONE || b == RG_IR_NONE) {
    return a == b ? RG_OK : DIFFERS("a value is left out in one of the two");
  }
  const rg_ir_value *x = rg_ir_value_at(c->a, a);
  const rg_ir_value *y = rg_ir_value_at(c->b, b);
  bool met = c->value[a] != 0;

  if (!pair(c->value, c->back, a, b)) {
    return DIFFERS("where one has %%%d, the other has %%%d, which stands for another one", a, b);
  }
  if (met) {
    return RG_OK;
  }
  if (!rg_meta_same(&x->meta, &y->meta) || x->device != y->device) {
    return DIFFERS("%%%d and %%%d have other types, shapes or devices", a, b);
  }
  if (x->kind != y->kind || !same_text(c, x->name, y->name)) {
    return DIFFERS("%%%d and %%%d are of other kinds or have other names", a, b);
  }
  if (x->version != y->version || x->result != y->result ||
      !pair(c->storage, c->storage_back, x->storage, y->storage)) {
    return DIFFERS("%%%d and %%%d are in other storages, or other versions of them", a, b);
  }
  return same_value(c, x->was, y->was);
}

static rg_status same_values(comparing *c, const int32_t *a, const int32_t *b, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    RG_TRY(same_value(c, a[i], b[i]));
  }
  return RG_OK;
}

static bool same_args(const comparing *c, const rg_ir_node *x, const rg_ir_node *y)
{
  return x->op->args_size == 0 ||
         memcmp(rg_ir_args(c->a, x), rg_ir_args(c->b, y), x->op->args_size) == 0;
}

/* The draw that a node repeats; -1: none. */
static int32_t repeated(const rg_graph *g, const rg_ir_node *node)
{
  return node->repeats >= 0 ? rg_ir_node_at(g, node->repeats)->draw : -1;
}

static rg_status same_node(comparing *c, int32_t a, int32_t b)
{
  const rg_ir_node *x = rg_ir_node_at(c->a, a);
  const rg_ir_node *y = rg_ir_node_at(c->b, b);

  if (x->op != y->op || x->n_in != y->n_in || x->n_out != y->n_out ||
      x->n_results != y->n_results) {
    return DIFFERS("node %d is a %s, node %d a %s, or of other numbers of values", a, x->op->name,
                   b, y->op->name);
  }
  if (!same_args(c, x, y)) {
    return DIFFERS("node %d and node %d (%s) have other arguments", a, b, x->op->name);
  }
  if (memcmp(rg_ir_modes_of(c->a, x->modes), rg_ir_modes_of(c->b, y->modes),
             sizeof(rg_graph_modes)) != 0 ||
      x->generator != y->generator || x->recomputed != y->recomputed || x->draw != y->draw ||
      repeated(c->a, x) != repeated(c->b, y) || x->unwritten != y->unwritten ||
      x->derived != y->derived) {
    return DIFFERS("node %d and node %d (%s) run under other modes", a, b, x->op->name);
  }
  if (!same_text(c, x->module, y->module)) { /* in whatever line of the source */
    return DIFFERS("node %d and node %d (%s) stand in other modules", a, b, x->op->name);
  }
  RG_TRY(same_values(c, rg_ir_inputs(c->a, x), rg_ir_inputs(c->b, y), x->n_in));
  return same_values(c, rg_ir_outputs(c->a, x), rg_ir_outputs(c->b, y), x->n_out);
}

static rg_status same_ends(comparing *c)
{
  if (rg_ir_n_inputs(c->a) != rg_ir_n_inputs(c->b) ||
      rg_ir_n_outputs(c->a) != rg_ir_n_outputs(c->b) ||
      rg_ir_n_states(c->a) != rg_ir_n_states(c->b)) {
    return DIFFERS("the two have other numbers of inputs, outputs or states");
  }
  for (int32_t i = 0; i < rg_ir_n_inputs(c->a); i++) {
    RG_TRY(same_value(c, rg_ir_input_at(c->a, i), rg_ir_input_at(c->b, i)));
  }
  for (int32_t i = 0; i < rg_ir_n_states(c->a); i++) {
    RG_TRY(same_value(c, rg_ir_state_at(c->a, i), rg_ir_state_at(c->b, i)));
  }
  return RG_OK;
}

static rg_status same_outputs(comparing *c)
{
  for (int32_t i = 0; i < rg_ir_n_outputs(c->a); i++) {
    const rg_ir_output *x = rg_ir_output_at(c->a, i);
    const rg_ir_output *y = rg_ir_output_at(c->b, i);

    if (x->kind != y->kind || !same_text(c, x->name, y->name)) {
      return DIFFERS("output %d is of another kind, or has another name", i + 1);
    }
    RG_TRY(same_value(c, x->value, y->value));
  }
  return RG_OK;
}

static rg_status same_nodes(comparing *c)
{
  const int32_t *order[2];
  const int32_t *body[2];
  int32_t n[2];

  RG_TRY(rg_ir_order(c->a, &order[0], &body[0], &n[0]));
  RG_TRY(rg_ir_order(c->b, &order[1], &body[1], &n[1]));
  if (n[0] != n[1]) {
    return DIFFERS("one has %d nodes, the other %d", n[0], n[1]);
  }
  for (int32_t i = 0; i < n[0]; i++) {
    if (body[0][i] != body[1][i]) {
      return DIFFERS("node %d and node %d have bodies of %d and of %d nodes", order[0][i],
                     order[1][i], body[0][i], body[1][i]);
    }
    RG_TRY(same_node(c, order[0][i], order[1][i]));
  }
  return RG_OK;
}

rg_status rg_graph_same(rg_graph *a, rg_graph *b)
{
  comparing c = { .a = a, .b = b };
  rg_status status = RG_OK;

  c.value = rg_host_zeroed((size_t)rg_ir_n_values(a) * sizeof(int32_t));
  c.back = rg_host_zeroed((size_t)rg_ir_n_values(b) * sizeof(int32_t));
  c.storage = rg_host_zeroed((size_t)rg_ir_n_storages(a) * sizeof(int32_t));
  c.storage_back = rg_host_zeroed((size_t)rg_ir_n_storages(b) * sizeof(int32_t));
  if (c.value == NULL || c.back == NULL || c.storage == NULL || c.storage_back == NULL) {
    status = rg_fail(RG_ENOMEM, "graph: no memory to compare it");
  }
  status = status == RG_OK ? same_ends(&c) : status;
  status = status == RG_OK ? same_nodes(&c) : status;
  status = status == RG_OK ? same_outputs(&c) : status;
  rg_host_free(c.value);
  rg_host_free(c.back);
  rg_host_free(c.storage);
  rg_host_free(c.storage_back);
  return status;
}
