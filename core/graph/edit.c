/* SPDX-License-Identifier: MIT */
/*
** Changing a graph: who reads what, nodes that come and go, and the order they stand in.
**
** A node that is inserted waits with the place it was given until somebody asks for the order:
** then all that wait are put in their places in one pass, however many they are.
*/
#include <string.h>

#include "graph/store.h"

/* -- The order --------------------------------------------------------------------------- */

/* What stands before a node or behind it and waits: lists by node, in one array each. */
typedef struct waiting {
  int32_t *from; /* where the list of a node begins; n + 1 of them */
  int32_t *node;
} waiting;

typedef struct ordering {
  rg_graph *g;
  waiting before;
  waiting after;
  int32_t *stack; /* nodes that are to be placed, each once: first what stands before them */
  bool *ready;    /* of the stack: that has been */
  int32_t n_stack;
  int32_t *open; /* compounds whose body is being placed, and where it ends in the old order */
  int32_t *end;
  int32_t n_open;
  int32_t *order;
  int32_t n;
} ordering;

static rg_status numbers(int32_t **out, int32_t n)
{
  *out = rg_host_zeroed((size_t)n * sizeof(**out));
  return *out != NULL ? RG_OK : rg_ir_no_memory();
}

/* Sort what waits by the node it waits at; the same node's in the order they came. */
static rg_status wait_lists(const rg_graph *g, bool after, waiting *w)
{
  int32_t n = g->node.n;

  RG_TRY(numbers(&w->from, n + 2));
  RG_TRY(numbers(&w->node, g->pending.n));
  for (int32_t i = 0; i < g->pending.n; i++) {
    const rg_ir_pending *p = RG_IR_AT(g->pending, rg_ir_pending, i);

    w->from[p->at + 2] += p->after == after;
  }
  for (int32_t i = 2; i <= n; i++) {
    w->from[i] += w->from[i - 1];
  }
  for (int32_t i = 0; i < g->pending.n; i++) {
    const rg_ir_pending *p = RG_IR_AT(g->pending, rg_ir_pending, i);

    if (p->after == after) {
      w->node[w->from[p->at + 1]++] = p->node;
    }
  }
  return RG_OK;
}

static void push(ordering *o, int32_t node, bool ready)
{
  o->stack[o->n_stack] = node;
  o->ready[o->n_stack++] = ready;
}

/* What stands behind a node: the one that came last directly so. */
static void push_after(ordering *o, int32_t node)
{
  for (int32_t i = o->after.from[node]; i < o->after.from[node + 1]; i++) {
    push(o, o->after.node[i], false);
  }
}

/* Place what is on the stack.  end: where the body of the one at its bottom ends, if it has one. */
static void place(ordering *o, int32_t bottom, int32_t end)
{
  while (o->n_stack > 0) {
    int32_t node = o->stack[--o->n_stack];

    if (!o->ready[o->n_stack]) {
      push(o, node, true);
      for (int32_t i = o->before.from[node + 1] - 1; i >= o->before.from[node]; i--) {
        push(o, o->before.node[i], false);
      }
      continue;
    }
    if (rg_ir_node_at(o->g, node)->op != NULL) {
      o->order[o->n++] = node;
    }
    if (node == bottom && end > 0) {
      o->open[o->n_open] = node;
      o->end[o->n_open++] = end;
    } else {
      push_after(o, node);
    }
  }
}

/* Bodies that end before a position of the old order: what waits behind their compounds. */
static void close_bodies(ordering *o, int32_t position)
{
  while (o->n_open > 0 && o->end[o->n_open - 1] <= position) {
    push_after(o, o->open[--o->n_open]);
    place(o, RG_IR_NONE, 0);
  }
}

static rg_status ordering_new(ordering *o)
{
  int32_t n = o->g->node.n;

  RG_TRY(wait_lists(o->g, false, &o->before));
  RG_TRY(wait_lists(o->g, true, &o->after));
  RG_TRY(numbers(&o->stack, n));
  RG_TRY(numbers(&o->open, n));
  RG_TRY(numbers(&o->end, n));
  RG_TRY(numbers(&o->order, n));
  o->ready = rg_host_zeroed((size_t)n);
  RG_TRY(o->ready != NULL ? RG_OK : rg_ir_no_memory());
  return rg_ir_reserve(&o->g->body, n, sizeof(int32_t)); /* as many as nodes, and more */
}

/* Positions, and how many nodes each body has. */
static void count_bodies(rg_graph *g)
{
  for (int32_t i = 0; i < g->order.n; i++) {
    rg_ir_node *node = rg_ir_node_at(g, *RG_IR_AT(g->order, int32_t, i));

    node->position = i;
    *RG_IR_AT(g->body, int32_t, i) = 0;
    for (int32_t p = node->parent; p != RG_IR_NONE; p = rg_ir_node_at(g, p)->parent) {
      ++*RG_IR_AT(g->body, int32_t, rg_ir_node_at(g, p)->position);
    }
  }
}

/* Put everything in its place. */
static rg_status settle(rg_graph *g)
{
  ordering o = { .g = g };
  rg_status status = ordering_new(&o);

  if (status == RG_OK) {
    for (int32_t i = 0; i < g->order.n; i++) {
      int32_t node = *RG_IR_AT(g->order, int32_t, i);
      int32_t n_body = *RG_IR_AT(g->body, int32_t, i);

      close_bodies(&o, i);
      push(&o, node, false);
      place(&o, node, n_body > 0 ? i + 1 + n_body : 0);
    }
    close_bodies(&o, g->order.n);
    rg_host_free(g->order.data);
    g->order = (rg_ir_array){ o.order, o.n, g->node.n };
    g->body.n = o.n;
    g->pending.n = 0;
    g->edited = false;
    count_bodies(g);
    o.order = NULL;
  }
  rg_host_free(o.before.from);
  rg_host_free(o.before.node);
  rg_host_free(o.after.from);
  rg_host_free(o.after.node);
  rg_host_free(o.stack);
  rg_host_free(o.ready);
  rg_host_free(o.open);
  rg_host_free(o.end);
  rg_host_free(o.order);
  return status;
}

rg_status rg_ir_order(rg_graph *g, const int32_t **order, const int32_t **body, int32_t *n)
{
  if (g->edited) {
    RG_TRY(settle(g));
  }
  *order = g->order.data;
  *n = g->order.n;
  if (body != NULL) {
    *body = g->body.data;
  }
  return RG_OK;
}

/* -- Who reads what ---------------------------------------------------------------------- */

static rg_status check_value(const rg_graph *g, int32_t value)
{
  if (value < 0 || value >= g->value.n || rg_ir_value_at(g, value)->removed) {
    return rg_fail(RG_EARG, "graph: there is no value %%%d", value);
  }
  return RG_OK;
}

static rg_status check_node(const rg_graph *g, int32_t node)
{
  if (node < 0 || node >= g->node.n || rg_ir_node_at(g, node)->op == NULL) {
    return rg_fail(RG_EARG, "graph: there is no node %d", node);
  }
  return RG_OK;
}

/* What is written over one value is now written over another one: later versions of its storage are
** those of the other's. */
static void move_versions(rg_graph *g, int32_t old, int32_t by)
{
  const rg_ir_value from = *rg_ir_value_at(g, old);
  const rg_ir_value to = *rg_ir_value_at(g, by);

  if (from.storage == to.storage) {
    return;
  }
  for (int32_t i = 0; i < g->value.n; i++) {
    rg_ir_value *v = rg_ir_value_at(g, i);

    if (v->storage == from.storage && v->version > from.version) {
      v->storage = to.storage;
      v->version += to.version - from.version;
    }
  }
  rg_ir_storage *a = RG_IR_AT(g->storage, rg_ir_storage, from.storage);
  rg_ir_storage *b = RG_IR_AT(g->storage, rg_ir_storage, to.storage);

  if (a->version <= from.version) {
    return; /* nothing was written behind it: what was moved has its writer already */
  }
  b->version = (int32_t)rg_max_i64(b->version, a->version + to.version - from.version);
  b->writer = a->writer;
  *a = (rg_ir_storage){ from.version, RG_IR_NONE, a->outside };
}

/* Let one that needed `old` need `by`, where it stands among the uses at `at`. */
static void redirect(rg_graph *g, rg_ir_use use, int32_t old, int32_t by, int32_t at)
{
  if (use.node == RG_IR_NONE) {
    RG_IR_AT(g->output, rg_ir_output, use.slot)->value = by;
    *RG_IR_AT(g->out_back, int32_t, use.slot) = at;
    return;
  }
  const rg_ir_node *node = rg_ir_node_at(g, use.node);
  bool is_input = use.slot < node->n_in;
  int32_t place = is_input ? node->in + use.slot : node->out + use.slot - node->n_in;
  int32_t *operand = RG_IR_AT(g->operand, int32_t, place);

  *RG_IR_AT(g->back, int32_t, place) = at;
  if (is_input || *operand == old) {
    *operand = by;
  } else {
    move_versions(g, old, by);
    rg_ir_value_at(g, *operand)->was = by;
  }
}

rg_status rg_ir_replace(rg_graph *g, int32_t old, int32_t by)
{
  RG_TRY(check_value(g, old));
  RG_TRY(check_value(g, by));
  if (old == by) {
    return RG_OK;
  }
  int32_t n = rg_ir_value_at(g, old)->n_uses;

  RG_TRY(rg_ir_use_room(g, by, n));
  for (int32_t i = 0; i < n; i++) {
    rg_ir_use use = *RG_IR_AT(g->use, rg_ir_use, rg_ir_value_at(g, old)->uses + i);

    redirect(g, use, old, by, rg_ir_use_add(g, by, use.node, use.slot));
  }
  rg_ir_value_at(g, old)->n_uses = 0;
  return RG_OK;
}

rg_status rg_ir_set_input(rg_graph *g, int32_t node, int32_t slot, int32_t value)
{
  RG_TRY(check_node(g, node));
  if (value != RG_IR_NONE) {
    RG_TRY(check_value(g, value));
    RG_TRY(rg_ir_use_room(g, value, 1));
  }
  const rg_ir_node *n = rg_ir_node_at(g, node);

  if (slot < 0 || slot >= n->n_in) {
    return rg_fail(RG_EARG, "graph: node %d (%s) has %d inputs, and none behind %d", node,
                   n->op->name, n->n_in, slot);
  }
  int32_t *at = RG_IR_AT(g->operand, int32_t, n->in + slot);

  if (*at != RG_IR_NONE) {
    rg_ir_use_drop(g, *at, *RG_IR_AT(g->back, int32_t, n->in + slot));
  }
  *at = value;
  if (value != RG_IR_NONE) {
    *RG_IR_AT(g->back, int32_t, n->in + slot) = rg_ir_use_add(g, value, node, slot);
  }
  return RG_OK;
}

/* -- Nodes that come and go -------------------------------------------------------------- */

rg_status rg_ir_insert(rg_graph *g, int32_t at, bool after, const rg_op *op, const int32_t *in,
                       int32_t n_in, const void *args, int32_t *out)
{
  RG_TRY(check_node(g, at));
  if (op->draws) {
    return rg_fail(RG_ENOSUP, "graph: a %s would draw numbers that others were to get", op->name);
  }
  for (int32_t i = 0; i < n_in; i++) {
    RG_TRY(in[i] != RG_IR_NONE ? check_value(g, in[i]) : RG_OK);
  }
  RG_TRY(rg_ir_reserve(&g->pending, 1, sizeof(rg_ir_pending)));
  RG_TRY(rg_ir_node_make(g, op, in, n_in, args, out));
  rg_ir_node *node = rg_ir_node_at(g, *out);
  const rg_ir_node *beside = rg_ir_node_at(g, at);

  node->parent = beside->parent;
  node->modes = beside->modes;
  node->module = beside->module;
  node->line = beside->line;
  node->recomputed = beside->recomputed;
  RG_IR_PUSH(g->pending, rg_ir_pending, (rg_ir_pending){ *out, at, after });
  g->edited = true;
  return RG_OK;
}

rg_status rg_ir_insert_view(rg_graph *g, int32_t at, const rg_op *op, const void *args,
                            const rg_meta *meta, int32_t *value)
{
  const rg_ir_value v = *rg_ir_value_at(g, *value);
  int32_t node;

  RG_TRY(rg_ir_insert(g, at, false, op, value, 1, args, &node));
  RG_TRY(rg_ir_output_add(g, node, meta, v.device, v.storage, v.version, RG_IR_NONE, value));
  rg_ir_results_end(g, node);
  return RG_OK;
}

/* Are all outputs of a node memory that it makes? */
static bool makes_all(const rg_graph *g, const rg_ir_node *node, int32_t number)
{
  bool all = !node->compound && node->n_out == node->n_results;

  for (int32_t i = 0; i < node->n_out && all; i++) {
    const int32_t value = rg_ir_outputs(g, node)[i];

    all = value == RG_IR_NONE || (rg_ir_value_at(g, value)->producer == number &&
                                  rg_ir_value_at(g, value)->was == RG_IR_NONE);
  }
  return all;
}

rg_status rg_ir_become(rg_graph *g, int32_t number, const rg_op *op, const int32_t *in,
                       int32_t n_in, const void *args)
{
  int32_t other;

  RG_TRY(check_node(g, number));
  if (!makes_all(g, rg_ir_node_at(g, number), number) ||
      rg_ir_node_at(g, number)->op->draws != op->draws) {
    return rg_fail(RG_EARG, "graph: node %d (%s) cannot become a %s", number,
                   rg_ir_node_at(g, number)->op->name, op->name);
  }
  RG_TRY(rg_ir_node_make(g, op, in, n_in, args, &other));
  rg_ir_node *node = rg_ir_node_at(g, number);
  rg_ir_node *made = rg_ir_node_at(g, other);

  for (int32_t i = 0; i < node->n_in; i++) {
    const int32_t value = rg_ir_inputs(g, node)[i];

    if (value != RG_IR_NONE) {
      rg_ir_use_drop(g, value, *RG_IR_AT(g->back, int32_t, node->in + i));
    }
  }
  for (int32_t i = 0; i < n_in; i++) { /* who reads them is the node */
    if (in[i] != RG_IR_NONE) {
      const int32_t at = *RG_IR_AT(g->back, int32_t, made->in + i);

      RG_IR_AT(g->use, rg_ir_use, rg_ir_value_at(g, in[i])->uses + at)->node = number;
    }
  }
  node->op = op;
  node->in = made->in;
  node->n_in = n_in;
  node->args = made->args;
  *made = (rg_ir_node){ .parent = RG_IR_NONE, .draw = -1, .repeats = RG_IR_NONE };
  g->n_removed++;
  return RG_OK;
}

bool rg_ir_is_within(const rg_graph *g, int32_t node, int32_t of)
{
  while (node != RG_IR_NONE && node != of) {
    node = rg_ir_node_at(g, node)->parent;
  }
  return node == of;
}

/* May what a node of `of` wrote go? */
static rg_status check_unwritten(const rg_graph *g, const rg_ir_node *node, int32_t number,
                                 int32_t value, int32_t of)
{
  const rg_ir_value *v = rg_ir_value_at(g, value);
  const rg_ir_storage *storage = RG_IR_AT(g->storage, rg_ir_storage, v->storage);

  if (v->was == RG_IR_NONE || v->producer != number) {
    return RG_OK;
  }
  if (storage->outside) {
    return rg_fail(RG_EARG, "graph: node %d (%s) writes %%%d, which was there before the graph",
                   number, node->op->name, v->was);
  }
  if (v->version < storage->version && !rg_ir_is_within(g, storage->writer, of)) {
    return rg_fail(RG_EARG, "graph: node %d (%s) writes %%%d, which is written again later", number,
                   node->op->name, v->was);
  }
  return RG_OK;
}

/* Does nobody outside of `of` need a value that is made in it? */
static rg_status check_unused(const rg_graph *g, const rg_ir_node *node, int32_t number,
                              int32_t value, int32_t of)
{
  const rg_ir_value *v = rg_ir_value_at(g, value);
  const rg_ir_use *uses = rg_ir_uses(g, v);

  if (v->producer == RG_IR_NONE || !rg_ir_is_within(g, v->producer, of)) {
    return RG_OK;
  }
  for (int32_t k = 0; k < v->n_uses; k++) {
    if (uses[k].node == RG_IR_NONE) {
      return rg_fail(RG_EARG, "graph: node %d (%s) makes %%%d, an output of the graph", number,
                     node->op->name, value);
    }
    if (!rg_ir_is_within(g, uses[k].node, of)) {
      return rg_fail(RG_EARG, "graph: node %d (%s) makes %%%d, which node %d (%s) needs", number,
                     node->op->name, value, uses[k].node, rg_ir_node_at(g, uses[k].node)->op->name);
    }
  }
  return RG_OK;
}

/* May a node of `of` go with it? */
static rg_status check_goes(const rg_graph *g, int32_t number, int32_t of)
{
  const rg_ir_node *node = rg_ir_node_at(g, number);

  if (node->draw >= 0) {
    return rg_fail(RG_EARG, "graph: node %d (%s) draws: it can only stay", number, node->op->name);
  }
  for (int32_t i = 0; i < node->n_out; i++) {
    int32_t value = rg_ir_outputs(g, node)[i];

    if (value != RG_IR_NONE) {
      RG_TRY(check_unwritten(g, node, number, value, of));
      RG_TRY(check_unused(g, node, number, value, of));
    }
  }
  return RG_OK;
}

static void take_away(rg_graph *g, int32_t number)
{
  rg_ir_node *node = rg_ir_node_at(g, number);

  for (int32_t i = 0; i < node->n_in; i++) {
    int32_t value = rg_ir_inputs(g, node)[i];

    if (value != RG_IR_NONE) {
      rg_ir_use_drop(g, value, *RG_IR_AT(g->back, int32_t, node->in + i));
    }
  }
  for (int32_t i = 0; i < node->n_out; i++) {
    int32_t value = rg_ir_outputs(g, node)[i];

    if (value == RG_IR_NONE) {
      continue;
    }
    rg_ir_value *v = rg_ir_value_at(g, value);
    int32_t needs = v->producer == number ? v->was : value;

    if (needs != RG_IR_NONE) {
      rg_ir_use_drop(g, needs, *RG_IR_AT(g->back, int32_t, node->out + i));
    }
    if (v->producer == number) {
      if (v->was != RG_IR_NONE) {
        *RG_IR_AT(g->storage, rg_ir_storage, v->storage) =
            (rg_ir_storage){ v->version - 1, RG_IR_NONE, false };
      }
      v->removed = true;
      g->n_gone++;
    }
  }
  node->op = NULL;
  g->n_removed++;
  g->edited = true;
}

rg_status rg_ir_remove(rg_graph *g, int32_t node)
{
  const int32_t *order;
  const int32_t *body = NULL;
  int32_t first;
  int32_t n;

  RG_TRY(check_node(g, node));
  if (!rg_ir_node_at(g, node)->compound) {
    RG_TRY(check_goes(g, node, node));
    take_away(g, node);
    return RG_OK;
  }
  RG_TRY(rg_ir_order(g, &order, &body, &n));
  first = rg_ir_node_at(g, node)->position;
  n = 1 + body[first];
  for (int32_t i = first; i < first + n; i++) {
    RG_TRY(check_goes(g, order[i], node));
  }
  for (int32_t i = first + n - 1; i >= first; i--) {
    take_away(g, order[i]);
  }
  return RG_OK;
}

rg_status rg_ir_remove_all(rg_graph *g, const bool *marked)
{
  const int32_t *order;
  int32_t n;

  RG_TRY(rg_ir_order(g, &order, NULL, &n));
  for (int32_t i = n - 1; i >= 0; i--) { /* the last write of a storage first */
    if (marked[order[i]]) {
      take_away(g, order[i]);
    }
  }
  return RG_OK;
}

rg_status rg_ir_number_versions(rg_graph *g)
{
  const int32_t *order;
  int32_t n;

  RG_TRY(rg_ir_order(g, &order, NULL, &n));
  int32_t *old = rg_host_zeroed((size_t)g->storage.n * sizeof(*old)); /* version as of now */

  if (old == NULL) {
    return rg_ir_no_memory();
  }
  for (int32_t i = 0; i < g->storage.n; i++) {
    *RG_IR_AT(g->storage, rg_ir_storage, i) = (rg_ir_storage){ 0, RG_IR_NONE, false };
  }
  for (int32_t i = 0; i < g->value.n; i++) {
    const rg_ir_value *v = rg_ir_value_at(g, i);

    if (!v->removed && v->producer == RG_IR_NONE) {
      RG_IR_AT(g->storage, rg_ir_storage, v->storage)->outside = true;
    }
  }
  for (int32_t i = 0; i < n; i++) {
    const rg_ir_node *node = rg_ir_node_at(g, order[i]);

    for (int32_t k = 0; k < node->n_out && !node->compound; k++) {
      int32_t value = rg_ir_outputs(g, node)[k];

      if (value == RG_IR_NONE) {
        continue;
      }
      rg_ir_value *v = rg_ir_value_at(g, value);
      rg_ir_storage *s = RG_IR_AT(g->storage, rg_ir_storage, v->storage);

      if (v->was != RG_IR_NONE && v->version > old[v->storage]) {
        old[v->storage] = v->version;
        s->version++;
        s->writer = order[i];
      }
      v->version = s->version;
    }
  }
  rg_host_free(old);
  return RG_OK;
}
