/* SPDX-License-Identifier: MIT */
/*
** What is true of every graph.  Recorder and passes leave it so; a sentence names the node where it
** is not.
*/
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "graph/infer.h"

typedef struct checking {
  rg_graph *g;
  bool *defined;    /* by value */
  bool *state;      /* by storage: it is one of the graph */
  bool *outside;    /* by storage: it was there before */
  bool *begun;      /* by storage: some value of it was made */
  int32_t *version; /* by storage: as of now */
  int32_t *writer;  /* by storage: the node that wrote that version; -1: none */
  int32_t *n_uses;  /* by value: those that were met */
  int32_t open;     /* the compound whose body we are in */
  int32_t node;     /* that is looked at */
  int32_t n_draws;
} checking;

/* A sentence about the node that is looked at. */
static rg_status RG_PRINTF(2, 3) fault(const checking *c, const char *format, ...)
{
  const rg_ir_node *node = rg_ir_node_at(c->g, c->node);
  const char *module = rg_ir_text_of(c->g, node->module);
  const char *line = rg_ir_text_of(c->g, node->line);
  char text[256];
  va_list list;

  va_start(list, format);
  (void)vsnprintf(text, sizeof(text), format, list);
  va_end(list);
  return rg_fail(RG_EBUG, "graph: node %d (%s%s%s%s%s) %s", c->node, node->op->name,
                 *module != '\0' ? ", " : "", module, *line != '\0' ? ", " : "", line, text);
}

static const char *name_of(const checking *c, int32_t node)
{
  const rg_op *op = node != RG_IR_NONE ? rg_ir_node_at(c->g, node)->op : NULL;

  return op != NULL ? op->name : "nothing";
}

static bool exists(const checking *c, int32_t value)
{
  return value >= 0 && value < rg_ir_n_values(c->g) && !rg_ir_value_at(c->g, value)->removed;
}

static const char *meta_text(const rg_meta *meta, char *text, size_t size)
{
  char shape[RG_TENSOR_TEXT];

  (void)snprintf(text, size, "%s%s", rg_dtype_name(meta->dtype),
                 rg_shape_text(meta->shape, meta->ndim, shape, sizeof(shape)));
  return text;
}

/* -- Values that no node makes ----------------------------------------------------------- */

static rg_status check_value(checking *c, int32_t value)
{
  const rg_ir_value *v = rg_ir_value_at(c->g, value);

  if (v->storage < 0 || v->storage >= rg_ir_n_storages(c->g) || v->version < 0) {
    return rg_fail(RG_EBUG, "graph: %%%d is in storage %d, version %d, which is none", value,
                   v->storage, v->version);
  }
  if (v->meta.ndim < 0 || v->meta.ndim > RG_MAX_DIMS || rg_dtype_bytes(v->meta.dtype) == 0) {
    return rg_fail(RG_EBUG, "graph: %%%d has %d axes of type %d", value, v->meta.ndim,
                   v->meta.dtype);
  }
  if ((v->kind == RG_VALUE_INTERMEDIATE) != (v->producer != RG_IR_NONE) || v->kind < 0 ||
      v->kind >= RG_VALUE_KIND_COUNT) {
    return rg_fail(RG_EBUG, "graph: %%%d is of kind %d and made by node %d", value, v->kind,
                   v->producer);
  }
  if (v->producer != RG_IR_NONE) {
    return RG_OK;
  }
  if (v->version != 0 || v->was != RG_IR_NONE) {
    return rg_fail(RG_EBUG, "graph: %%%d is version %d of its storage, and no node made it", value,
                   v->version);
  }
  c->defined[value] = true;
  c->begun[v->storage] = true;
  c->outside[v->storage] = true;
  return RG_OK;
}

static rg_status check_values(checking *c)
{
  for (int32_t i = 0; i < rg_ir_n_values(c->g); i++) {
    if (!rg_ir_value_at(c->g, i)->removed) {
      RG_TRY(check_value(c, i));
    }
  }
  return RG_OK;
}

static rg_status check_begins(checking *c)
{
  for (int32_t i = 0; i < rg_ir_n_states(c->g); i++) {
    int32_t value = rg_ir_state_at(c->g, i);

    if (!exists(c, value) || rg_ir_value_at(c->g, value)->producer != RG_IR_NONE) {
      return rg_fail(RG_EBUG, "graph: state %d is %%%d, which was not there before", i + 1, value);
    }
    c->state[rg_ir_value_at(c->g, value)->storage] = true;
  }
  for (int32_t i = 0; i < rg_ir_n_inputs(c->g); i++) {
    int32_t value = rg_ir_input_at(c->g, i);

    if (!exists(c, value) || rg_ir_value_at(c->g, value)->producer != RG_IR_NONE) {
      return rg_fail(RG_EBUG, "graph: input %d is %%%d, which was not there before", i + 1, value);
    }
  }
  return RG_OK;
}

/* -- What a node reads ------------------------------------------------------------------- */

static rg_status check_read(checking *c, int32_t value)
{
  if (!exists(c, value)) {
    return fault(c, "reads %%%d, which is not there", value);
  }
  const rg_ir_value *v = rg_ir_value_at(c->g, value);

  if (!c->defined[value]) {
    return fault(c, "reads %%%d before node %d (%s) makes it", value, v->producer,
                 name_of(c, v->producer));
  }
  if (v->version != c->version[v->storage]) {
    return fault(c,
                 "reads %%%d, version %d of its storage, behind node %d (%s), which wrote "
                 "version %d",
                 value, v->version, c->writer[v->storage], name_of(c, c->writer[v->storage]),
                 c->version[v->storage]);
  }
  c->n_uses[value]++;
  return RG_OK;
}

static rg_status check_inputs(checking *c, const rg_ir_node *node, int32_t *device)
{
  const int32_t *in = rg_ir_inputs(c->g, node);

  for (int32_t i = 0; i < node->n_in; i++) {
    if (in[i] == RG_IR_NONE) {
      continue;
    }
    RG_TRY(check_read(c, in[i]));
    const rg_ir_value *v = rg_ir_value_at(c->g, in[i]);

    if (*device < 0) {
      *device = v->device;
    } else if (*device != v->device) {
      return fault(c, "reads %%%d on %s beside a value on %s", in[i], rg_device_name(v->device),
                   rg_device_name(*device));
    }
  }
  return RG_OK;
}

/* -- What it makes ----------------------------------------------------------------------- */

/* A later version of a storage. */
static rg_status check_write(checking *c, int32_t value, const rg_ir_value *v, bool result)
{
  char a[RG_TENSOR_TEXT];
  char b[RG_TENSOR_TEXT];

  if (!exists(c, v->was) || !c->defined[v->was]) {
    return fault(c, "writes over %%%d, which is not there", v->was);
  }
  const rg_ir_value *was = rg_ir_value_at(c->g, v->was);

  c->n_uses[v->was]++;
  if (was->storage != v->storage || !rg_meta_same(&was->meta, &v->meta)) {
    return fault(c, "makes %%%d, %s, over %%%d, %s, which is in storage %d and not in %d", value,
                 meta_text(&v->meta, a, sizeof(a)), v->was, meta_text(&was->meta, b, sizeof(b)),
                 was->storage, v->storage);
  }
  /* what is read again behind a write was perhaps not read at every version before */
  if ((result && was->version != c->version[v->storage]) ||
      v->version != c->version[v->storage] + 1) {
    return fault(c,
                 "makes %%%d, version %d of a storage, over %%%d, version %d, while it is at "
                 "version %d",
                 value, v->version, v->was, was->version, c->version[v->storage]);
  }
  return RG_OK;
}

/* Is a value in the storage of something that the node reads? */
static bool is_view(const checking *c, const rg_ir_node *node, int32_t storage)
{
  const int32_t *in = rg_ir_inputs(c->g, node);

  for (int32_t i = 0; i < node->n_in; i++) {
    if (in[i] != RG_IR_NONE && rg_ir_value_at(c->g, in[i])->storage == storage) {
      return true;
    }
  }
  return false;
}

static rg_status check_output(checking *c, const rg_ir_node *node, int32_t i, int32_t device)
{
  int32_t value = rg_ir_outputs(c->g, node)[i];

  if (!exists(c, value)) {
    return fault(c, "makes %%%d, which is not there", value);
  }
  const rg_ir_value *v = rg_ir_value_at(c->g, value);

  if (v->producer != c->node || v->result != i) {
    return fault(c, "makes %%%d, which says that node %d does", value, v->producer);
  }
  if (c->defined[value]) {
    return fault(c, "makes %%%d a second time", value);
  }
  if (device >= 0 && v->device != device) {
    return fault(c, "makes %%%d on %s out of values on %s", value, rg_device_name(v->device),
                 rg_device_name(device));
  }
  if (v->was != RG_IR_NONE) {
    return check_write(c, value, v, i < node->n_results);
  }
  if (i >= node->n_results) {
    return fault(c, "makes %%%d, which is neither a result nor written over another value", value);
  }
  if (c->begun[v->storage] && (node->op->infer != NULL || !is_view(c, node, v->storage))) {
    return fault(c, "makes %%%d in storage %d, which was there, and does not write it", value,
                 v->storage);
  }
  if (v->version != c->version[v->storage]) {
    return fault(c, "makes %%%d, version %d of a storage at version %d, and does not write it",
                 value, v->version, c->version[v->storage]);
  }
  return RG_OK;
}

/* From here on what it made is there. */
static rg_status settle_outputs(checking *c, const rg_ir_node *node)
{
  const int32_t *out = rg_ir_outputs(c->g, node);

  for (int32_t i = 0; i < node->n_out; i++) {
    if (out[i] == RG_IR_NONE) {
      continue;
    }
    const rg_ir_value *v = rg_ir_value_at(c->g, out[i]);

    c->defined[out[i]] = true;
    c->begun[v->storage] = true;
    if (v->was != RG_IR_NONE) {
      if (c->outside[v->storage] && !c->state[v->storage]) {
        return fault(c, "writes over %%%d, which was there before and is no state of the graph",
                     v->was);
      }
      c->version[v->storage] = v->version;
      c->writer[v->storage] = c->node;
    }
  }
  return RG_OK;
}

/* What the record writes to has a later version. */
static rg_status check_written(checking *c, const rg_ir_node *node)
{
  const int32_t *in = rg_ir_inputs(c->g, node);
  rg_call call = { .op = node->op, .n_in = node->n_in, .args = rg_ir_args(c->g, node) };

  for (int32_t i = 0; i < node->n_in; i++) {
    if (in[i] == RG_IR_NONE || !rg_call_writes(&call, i)) {
      continue;
    }
    if (c->writer[rg_ir_value_at(c->g, in[i])->storage] != c->node) {
      return fault(c, "writes to %%%d, and makes no version of it", in[i]);
    }
  }
  return RG_OK;
}

/* -- What its record says ---------------------------------------------------------------- */

/* Is the type that a node computes in that of an input?  Then its record, which sees the input
** converted, need not ask for it again. */
static bool is_converted(const checking *c, const rg_ir_node *node, int32_t dtype)
{
  const int32_t *in = rg_ir_inputs(c->g, node);

  for (int32_t i = 0; i < node->n_in; i++) {
    if (in[i] != RG_IR_NONE && rg_ir_value_at(c->g, in[i])->meta.dtype == dtype) {
      return true;
    }
  }
  return false;
}

static rg_status check_record(checking *c, const rg_ir_node *node)
{
  const rg_graph_modes *modes = rg_ir_modes_of(c->g, node->modes);
  const int32_t *out = rg_ir_outputs(c->g, node);
  rg_call call;
  char a[RG_TENSOR_TEXT];
  char b[RG_TENSOR_TEXT];
  rg_status status = node->op->infer == NULL
                         ? rg_ir_infer_view(c->g, node, &call)
                         : rg_ir_infer(c->g, node->op, rg_ir_inputs(c->g, node), node->n_in,
                                       rg_ir_args(c->g, node), modes->autocast, &call);

  if (status == RG_ENOMEM || (status == RG_ENOSUP && node->op->infer == NULL)) {
    return status == RG_ENOMEM ? status : RG_OK;
  }
  if (status != RG_OK) {
    (void)snprintf(a, sizeof(a), "%s", rg_error_message());
    return fault(c, "is refused by its record: %s", a);
  }
  if (node->n_results < call.n_out - node->op->n_hidden || node->n_results > call.n_out) {
    return fault(c, "has %d results, and its record makes %d", node->n_results, call.n_out);
  }
  for (int32_t i = 0; i < node->n_results; i++) {
    if (out[i] == RG_IR_NONE && i >= call.n_out - node->op->n_hidden) {
      continue;
    }
    if (out[i] == RG_IR_NONE) {
      return fault(c, "leaves its result %d out, which is no hidden one", i + 1);
    }
    const rg_meta *meta = &rg_ir_value_at(c->g, out[i])->meta;

    if (!rg_meta_same(meta, &call.out[i])) {
      return fault(c, "makes %%%d, %s, and its record says %s", out[i],
                   meta_text(meta, a, sizeof(a)), meta_text(&call.out[i], b, sizeof(b)));
    }
  }
  if (node->recomputed && call.n_draws > 0 && node->repeats == RG_IR_NONE) {
    return fault(c, "is computed again and does not say whose draw it repeats");
  }
  if (modes->compute != call.compute &&
      (call.compute >= 0 || !is_converted(c, node, modes->compute))) {
    return fault(c, "computes in type %d, and its record says %d", modes->compute, call.compute);
  }
  return RG_OK;
}

/* Do two calls of one record take as many numbers, and make the same of them? */
static bool draw_alike(const checking *c, const rg_ir_node *a, const rg_ir_node *b)
{
  const int32_t x = a->n_out > 0 ? rg_ir_outputs(c->g, a)[0] : RG_IR_NONE;
  const int32_t y = b->n_out > 0 ? rg_ir_outputs(c->g, b)[0] : RG_IR_NONE;

  return a->op == b->op && a->generator == b->generator && exists(c, x) && exists(c, y) &&
         rg_meta_count(&rg_ir_value_at(c->g, x)->meta) ==
             rg_meta_count(&rg_ir_value_at(c->g, y)->meta) &&
         (a->op->args_size == 0 ||
          memcmp(rg_ir_args(c->g, a), rg_ir_args(c->g, b), a->op->args_size) == 0);
}

/* What is computed again draws what its first run did, in the same replay. */
static rg_status check_repeats(checking *c, const rg_ir_node *node)
{
  const int32_t first = node->repeats;
  const bool there = first >= 0 && first < rg_ir_n_nodes(c->g);
  const rg_ir_node *of = there ? rg_ir_node_at(c->g, first) : NULL;

  if (first == RG_IR_NONE) {
    return RG_OK;
  }
  if (!node->recomputed) {
    return fault(c, "repeats the draw of node %d and is not computed again", first);
  }
  if (of == NULL || of->op == NULL || of->draw < 0 || of->draw >= c->n_draws) {
    return fault(c, "repeats node %d, which does not draw before it", first);
  }
  if (of->repeats != RG_IR_NONE) {
    return fault(c, "repeats the draw of node %d, which repeats that of node %d", first,
                 of->repeats);
  }
  if (!draw_alike(c, node, of)) {
    return fault(c, "repeats the draw of node %d (%s), which draws otherwise", first,
                 name_of(c, first));
  }
  return RG_OK;
}

/* Draws are effects: all of them stay, in the order they were made. */
static rg_status check_draw(checking *c, const rg_ir_node *node)
{
  if (!node->op->draws) {
    return node->draw < 0 && node->repeats == RG_IR_NONE
               ? RG_OK
               : fault(c, "is said to draw, and its record does not");
  }
  if (node->draw != c->n_draws) {
    return fault(c, "is draw %d, and draw %d is due", node->draw + 1, c->n_draws + 1);
  }
  RG_TRY(check_repeats(c, node));
  c->n_draws++;
  return RG_OK;
}

/* -- Nodes ------------------------------------------------------------------------------- */

/* What a compound hands out, now that its body is over. */
static rg_status close_compound(checking *c)
{
  const rg_ir_node *node = rg_ir_node_at(c->g, c->open);
  int32_t before = c->node;

  c->node = c->open;
  for (int32_t i = 0; i < node->n_out; i++) {
    int32_t value = rg_ir_outputs(c->g, node)[i];

    if (value != RG_IR_NONE && (!exists(c, value) || !c->defined[value])) {
      return fault(c, "hands out %%%d, which its body does not make", value);
    }
    if (value != RG_IR_NONE) {
      c->n_uses[value]++;
    }
  }
  c->node = before;
  c->open = node->parent;
  return RG_OK;
}

static rg_status check_node(checking *c)
{
  const rg_ir_node *node = rg_ir_node_at(c->g, c->node);
  int32_t device = -1;

  RG_TRY(check_inputs(c, node, &device));
  if (node->compound) {
    c->open = c->node;
    return RG_OK;
  }
  for (int32_t i = 0; i < node->n_out; i++) {
    if (rg_ir_outputs(c->g, node)[i] != RG_IR_NONE) {
      RG_TRY(check_output(c, node, i, device));
    }
  }
  RG_TRY(settle_outputs(c, node));
  RG_TRY(check_written(c, node));
  RG_TRY(check_draw(c, node));
  return check_record(c, node);
}

static rg_status check_nodes(checking *c)
{
  const int32_t *order;
  const int32_t *body;
  int32_t n;

  RG_TRY(rg_ir_order(c->g, &order, &body, &n));
  for (int32_t i = 0; i < n; i++) {
    int32_t parent = rg_ir_node_at(c->g, order[i])->parent;

    c->node = order[i];
    while (c->open != RG_IR_NONE && c->open != parent) {
      RG_TRY(close_compound(c));
    }
    if (c->open != parent) {
      return fault(c, "stands outside of node %d (%s), whose body it is in", parent,
                   name_of(c, parent));
    }
    RG_TRY(check_node(c));
  }
  while (c->open != RG_IR_NONE) {
    RG_TRY(close_compound(c));
  }
  if (c->n_draws != rg_ir_n_draws(c->g)) {
    return rg_fail(RG_EBUG, "graph: %d nodes draw, and %d were recorded", c->n_draws,
                   rg_ir_n_draws(c->g));
  }
  return RG_OK;
}

/* -- The end ----------------------------------------------------------------------------- */

/* Does the place that a use names need the value? */
static bool is_needed_at(const rg_graph *g, int32_t value, rg_ir_use use)
{
  if (use.node == RG_IR_NONE) {
    return use.slot >= 0 && use.slot < rg_ir_n_outputs(g) &&
           rg_ir_output_at(g, use.slot)->value == value;
  }
  if (use.node < 0 || use.node >= rg_ir_n_nodes(g) || use.slot < 0) {
    return false;
  }
  const rg_ir_node *node = rg_ir_node_at(g, use.node);

  if (node->op == NULL || use.slot >= node->n_in + node->n_out) {
    return false;
  }
  if (use.slot < node->n_in) {
    return rg_ir_inputs(g, node)[use.slot] == value;
  }
  int32_t out = rg_ir_outputs(g, node)[use.slot - node->n_in];

  return out == value || (out != RG_IR_NONE && rg_ir_value_at(g, out)->was == value);
}

static rg_status check_uses(const rg_graph *g, int32_t value)
{
  const rg_ir_value *v = rg_ir_value_at(g, value);

  for (int32_t i = 0; i < v->n_uses; i++) {
    const rg_ir_use use = rg_ir_uses(g, v)[i];

    if (!is_needed_at(g, value, use)) {
      return rg_fail(RG_EBUG, "graph: %%%d says that node %d needs it at %d, which does not", value,
                     use.node, use.slot);
    }
  }
  return RG_OK;
}

static rg_status check_ends(checking *c)
{
  for (int32_t i = 0; i < rg_ir_n_outputs(c->g); i++) {
    int32_t value = rg_ir_output_at(c->g, i)->value;

    if (!exists(c, value) || !c->defined[value]) {
      return rg_fail(RG_EBUG, "graph: output %d is %%%d, which no node makes", i + 1, value);
    }
    const rg_ir_value *v = rg_ir_value_at(c->g, value);

    c->n_uses[value]++;
    if (v->version != c->version[v->storage]) {
      return rg_fail(RG_EBUG,
                     "graph: output %d is %%%d, version %d of its storage, which node %d (%s) "
                     "wrote later",
                     i + 1, value, v->version, c->writer[v->storage],
                     name_of(c, c->writer[v->storage]));
    }
  }
  for (int32_t i = 0; i < rg_ir_n_values(c->g); i++) {
    const rg_ir_value *v = rg_ir_value_at(c->g, i);

    if (!v->removed && !c->defined[i]) {
      return rg_fail(RG_EBUG, "graph: %%%d is to be made by node %d, which does not", i,
                     v->producer);
    }
    if (!v->removed && v->n_uses != c->n_uses[i]) {
      return rg_fail(RG_EBUG, "graph: %%%d is needed %d times and says %d", i, c->n_uses[i],
                     v->n_uses);
    }
    RG_TRY(v->removed ? RG_OK : check_uses(c->g, i));
  }
  return RG_OK;
}

rg_status rg_graph_check(rg_graph *graph)
{
  size_t n_values = (size_t)rg_ir_n_values(graph);
  size_t n_storages = (size_t)rg_ir_n_storages(graph);
  checking c = { .g = graph, .open = RG_IR_NONE };
  rg_status status = RG_OK;

  c.defined = rg_host_zeroed(n_values);
  c.n_uses = rg_host_zeroed(n_values * sizeof(int32_t));
  c.state = rg_host_zeroed(n_storages);
  c.outside = rg_host_zeroed(n_storages);
  c.begun = rg_host_zeroed(n_storages);
  c.version = rg_host_zeroed(n_storages * sizeof(int32_t));
  c.writer = rg_host_alloc(n_storages * sizeof(int32_t));
  if (c.defined == NULL || c.n_uses == NULL || c.state == NULL || c.outside == NULL ||
      c.begun == NULL || c.version == NULL || c.writer == NULL) {
    status = rg_fail(RG_ENOMEM, "graph: no memory to check it");
  } else {
    memset(c.writer, 0xff, n_storages * sizeof(int32_t));
  }
  status = status == RG_OK ? check_values(&c) : status;
  status = status == RG_OK ? check_begins(&c) : status;
  status = status == RG_OK ? check_nodes(&c) : status;
  status = status == RG_OK ? check_ends(&c) : status;
  rg_host_free(c.defined);
  rg_host_free(c.n_uses);
  rg_host_free(c.state);
  rg_host_free(c.outside);
  rg_host_free(c.begun);
  rg_host_free(c.version);
  rg_host_free(c.writer);
  return status;
}
