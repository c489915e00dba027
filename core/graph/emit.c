/* SPDX-License-Identifier: MIT */
/*
** How a graph runs: its nodes go through the dispatcher, in their order, while a plan is captured
** dry.  Each runs under the modes it was recorded with; what it makes is released after its last
** use, so that the plan's arena is laid out by liveness.  No kernel runs and nothing is drawn:
** choice of kernels, library objects and refusals come with the first replay.  What was there
** before is read where it lies.  Compounds are looked into: their bodies are emitted, node by node.
*/
#include <stdio.h>
#include <string.h>

#include "base/layout.h"
#include "graph/emit.h"
#include "graph/infer.h"
#include "graph/plan.h"
#include "graph/seen.h"
#include "graph/text.h"
#include "op/call.h"
#include "op/list.h"

typedef struct emitting {
  rg_graph *g;
  const int32_t *order;
  int32_t n;
  rg_tensor **at;   /* by value: what holds it, held */
  rg_tensor **into; /* by storage: in whose memory it is made; NULL: the plan's */
  int32_t *last;    /* by value: position of the last node that needs it, 0 where none does; n: the
                    ** graph's end */
  const rg_tensor **in;
  char *args;
  rg_tensor **out;   /* the outputs, held */
  const step **drew; /* by draw: its step */
  bool *derived;     /* by node: what it makes stays (emit_derived.c) */
  rg_modes modes;    /* of the node that is emitted */
} emitting;

/* -- Tensors of values -------------------------------------------------------------------- */

/* The tensor of a value; NULL for one that is left out. */
static rg_status tensor_of(emitting *e, int32_t value, rg_tensor **out)
{
  char text[RG_TENSOR_TEXT];

  *out = NULL;
  if (value == RG_IR_NONE) {
    return RG_OK;
  }
  const rg_ir_value *v = rg_ir_value_at(e->g, value);
  const char *name = rg_ir_text_of(e->g, v->name);
  rg_tensor *x = rg_ir_bound(e->g, value);

  if (e->at[value] == NULL && v->producer == RG_IR_NONE && x != NULL) {
    RG_TRY(rg_tensor_check(x, *name != '\0' ? name : "graph"));
    e->at[value] = rg_tensor_retain(x);
  }
  if (e->at[value] == NULL) {
    return rg_fail(RG_EARG, "graph: %s %s%s%%%d (%s%s) has no tensor; give it one",
                   rg_ir_value_kinds[v->kind], name, *name != '\0' ? ", " : "", value,
                   rg_dtype_name(v->meta.dtype),
                   rg_shape_text(v->meta.shape, v->meta.ndim, text, sizeof(text)));
  }
  *out = e->at[value];
  return RG_OK;
}

static void hold(emitting *e, int32_t value, rg_tensor *x)
{
  if (value != RG_IR_NONE) {
    e->at[value] = rg_tensor_retain(x);
  }
}

static void drop(emitting *e, int32_t value)
{
  rg_tensor_release(e->at[value]);
  e->at[value] = NULL;
}

/* -- Liveness ------------------------------------------------------------------------------ */

static void find_last_uses(emitting *e)
{
  for (int32_t id = 0; id < rg_ir_n_values(e->g); id++) {
    const rg_ir_value *v = rg_ir_value_at(e->g, id);
    const rg_ir_use *uses = rg_ir_uses(e->g, v);

    for (int32_t i = 0; i < v->n_uses && !v->removed; i++) {
      const rg_ir_node *node =
          uses[i].node != RG_IR_NONE ? rg_ir_node_at(e->g, uses[i].node) : NULL;

      if (node == NULL) {
        e->last[id] = e->n;
      } else if (!node->compound) {
        e->last[id] = (int32_t)rg_max_i64(e->last[id], node->position);
      }
    }
  }
}

/* Nobody behind a position needs a value. */
static void end_use(emitting *e, int32_t value, int32_t position)
{
  if (value != RG_IR_NONE && e->last[value] <= position) {
    drop(e, value);
  }
}

static void release_dead(emitting *e, const rg_ir_node *node)
{
  const int32_t *in = rg_ir_inputs(e->g, node);
  const int32_t *out = rg_ir_outputs(e->g, node);

  for (int32_t i = 0; i < node->n_in; i++) {
    end_use(e, in[i], node->position);
  }
  for (int32_t i = 0; i < node->n_out; i++) {
    if (out[i] != RG_IR_NONE) {
      end_use(e, rg_ir_value_at(e->g, out[i])->was, node->position);
      end_use(e, out[i], node->position);
    }
  }
}

/* -- Outputs in tensors that are there ------------------------------------------------------- */

/* The storage of an output whose tensor is there is made in that one's. */
static void find_targets(emitting *e)
{
  for (int32_t i = 0; i < rg_ir_n_outputs(e->g); i++) {
    const rg_ir_output *output = rg_ir_output_at(e->g, i);
    const rg_ir_value *v = rg_ir_value_at(e->g, output->value);

    if (rg_emit_is_there(output->into) && output->into->_device == v->device &&
        e->into[v->storage] == NULL) {
      e->into[v->storage] = output->into;
    }
  }
}

/* All of the memory that holds x, as a value of this type and shape; NULL where it is of another
** size. */
static rg_status in_memory_of(const rg_tensor *x, const rg_meta *meta, rg_tensor **out)
{
  int64_t stride[RG_MAX_DIMS];
  int64_t length = 1;

  if (rg_meta_bytes(meta) != x->_storage->bytes) {
    return RG_OK;
  }
  for (int32_t i = meta->ndim - 1; i >= 0; i--) {
    stride[i] = length;
    length *= rg_max_i64(meta->shape[i], 1);
  }
  return rg_tensor_view_of(x->_storage, meta->dtype, meta->shape, stride, meta->ndim, 0, out);
}

/* -- Nodes --------------------------------------------------------------------------------- */

/* Results that are not the dispatcher's to allocate: what is written over, what has its place, and
** those of a call whose device no input says. */
static rg_status place_results(emitting *e, const rg_ir_node *node, bool reads, rg_tensor **out)
{
  const int32_t *outs = rg_ir_outputs(e->g, node);

  for (int32_t i = 0; i < node->n_results; i++) {
    const rg_ir_value *v = outs[i] != RG_IR_NONE ? rg_ir_value_at(e->g, outs[i]) : NULL;

    if (v != NULL && v->was != RG_IR_NONE) {
      RG_TRY(tensor_of(e, v->was, &out[i]));
      (void)rg_tensor_retain(out[i]);
    } else if (v != NULL && e->into[v->storage] != NULL) {
      RG_TRY(in_memory_of(e->into[v->storage], &v->meta, &out[i]));
    } else if (v != NULL) {
      out[i] = rg_emit_over(e->g, node, e->at, e->last);
    }
    if (v != NULL && out[i] == NULL && !reads) {
      RG_TRY(rg_empty(v->meta.dtype, v->device, v->meta.shape, v->meta.ndim, &out[i]));
    }
  }
  return RG_OK;
}

/* Results of a record that are not hidden; a node may have been recorded without the others. */
static int32_t n_visible(const rg_op *op)
{
  int32_t n = 0;

  while (n + op->n_hidden < RG_MAX_OUT && op->result[n + op->n_hidden] != NULL) {
    n++;
  }
  return n;
}

/* Does somebody read a hidden result? */
static bool reads_hidden(const emitting *e, const rg_ir_node *node)
{
  const int32_t *outs = rg_ir_outputs(e->g, node);

  for (int32_t i = n_visible(node->op); i < node->n_results; i++) {
    if (outs[i] != RG_IR_NONE && e->last[outs[i]] > 0) {
      return true;
    }
  }
  return false;
}

/* The step of a node that draws; what is computed again has the numbers of its first run. */
static void link_draw(emitting *e, const rg_ir_node *node, step *s)
{
  e->drew[node->draw] = s;
  s->repeats =
      node->repeats != RG_IR_NONE ? e->drew[rg_ir_node_at(e->g, node->repeats)->draw] : NULL;
}

static rg_status dispatch(const emitting *e, const rg_ir_node *node, rg_call *call, rg_tensor **out)
{
  return call->op->id == RG_OP_FUSED ? rg_emit_fused(call, out)
         : reads_hidden(e, node)     ? rg_run_whole(call, out)
                                     : rg_run(call, out);
}

/* A derived node: its step is the last one, if there is a new one; what it makes, in memory that
** stays, is worth packed copies, as a weight is. */
static rg_status derive(const emitting *e, const rg_ir_node *node, rg_call *call, rg_tensor **out)
{
  const step *before = rg_capture_last();
  rg_arena *arena;
  rg_status status;

  RG_TRY(rg_capture_keeps(&arena));
  status = dispatch(e, node, call, out);
  (void)rg_arena_swap(arena);
  RG_TRY(status);
  for (int32_t i = 0; i < node->n_results; i++) {
    if (out[i] != NULL) {
      out[i]->_flags |= RG_TENSOR_PARAM;
    }
  }
  return rg_capture_last() != before ? rg_step_derives(rg_capture_last()) : RG_OK;
}

static rg_status run_node(emitting *e, const rg_ir_node *node, rg_tensor **out)
{
  const int32_t *in = rg_ir_inputs(e->g, node);
  const rg_op *op = node->op;
  int32_t n_in = node->n_in;
  bool reads = false;

  for (int32_t i = 0; i < n_in; i++) {
    rg_tensor *x;

    RG_TRY(tensor_of(e, in[i], &x));
    e->in[i] = x;
    reads = reads || x != NULL;
  }
  while (n_in < op->n_inputs && !op->input[op->n_inputs - 1].list) {
    e->in[n_in++] = NULL; /* a record reads all its inputs */
  }
  if (op->args_size != 0) {
    memcpy(e->args, rg_ir_args(e->g, node), op->args_size); /* views resolve what is negative */
  }
  rg_call call = { .op = op,
                   .in = e->in,
                   .n_in = n_in,
                   .args = e->args,
                   .generator = rg_ir_generator_of(e->g, node->generator) };

  if (op->view != NULL) {
    return rg_run_view(op, e->in[0], e->args, out);
  }
  if (op->expand != NULL) {
    return rg_run_compound(&call, out);
  }
  RG_TRY(place_results(e, node, reads, out));
  if (node->unwritten) {
    return RG_OK;
  }
  RG_TRY(e->derived[e->order[node->position]] ? derive(e, node, &call, out)
                                              : dispatch(e, node, &call, out));
  if (node->draw >= 0) {
    link_draw(e, node, rg_capture_drew());
  }
  return RG_OK;
}

/* What a node made, by value. */
static void keep_results(emitting *e, const rg_ir_node *node, rg_tensor *const *out)
{
  const int32_t *outs = rg_ir_outputs(e->g, node);

  for (int32_t i = 0; i < node->n_out; i++) {
    int32_t value = outs[i];

    if (value == RG_IR_NONE) {
      continue;
    }
    if (i >= node->n_results) { /* a later version of a view */
      hold(e, value, e->at[rg_ir_value_at(e->g, value)->was]);
    } else if (out[i] != NULL) {
      hold(e, value, out[i]);
    }
  }
}

/* What is written over by the node itself and read by nobody before has to be at hand. */
static rg_status find_written(emitting *e, const rg_ir_node *node)
{
  for (int32_t i = node->n_results; i < node->n_out; i++) {
    int32_t value = rg_ir_outputs(e->g, node)[i];
    rg_tensor *x;

    if (value != RG_IR_NONE) {
      RG_TRY(tensor_of(e, rg_ir_value_at(e->g, value)->was, &x));
    }
  }
  return RG_OK;
}

/* An error says which node it was. */
static rg_status blame(const emitting *e, const rg_ir_node *node, rg_status status)
{
  const char *module = rg_ir_text_of(e->g, node->module);
  const char *line = rg_ir_text_of(e->g, node->line);
  char text[256];

  if (status == RG_OK || status == RG_EINTR || status == RG_ENOMEM) {
    return status;
  }
  const char *said = rg_error_message();

  (void)snprintf(text, sizeof(text), "%s", strncmp(said, "graph: ", 7) == 0 ? said + 7 : said);
  return rg_fail(status, "graph: node %d (%s%s%s%s%s): %s", e->order[node->position],
                 node->op->name, *module != '\0' ? ", " : "", module, *line != '\0' ? ", " : "",
                 line, text);
}

/* What is emitted from here on runs under these. */
static void enter_modes(emitting *e, const rg_graph_modes *modes)
{
  e->modes = rg_ir_run_modes(modes);
  (void)rg_modes_enter(&e->modes);
  (void)rg_autocast_set(modes->autocast);
}

static rg_status emit_node(emitting *e, int32_t number)
{
  const rg_ir_node *node = rg_ir_node_at(e->g, number);
  const char *module = rg_ir_text_of(e->g, node->module);
  rg_tensor *out[RG_MAX_OUT] = { NULL };
  rg_status status;

  if (node->compound) { /* its body is emitted in its place */
    return RG_OK;
  }
  rg_place_now.module = *module != '\0' ? rg_text_keep(module) : NULL;
  enter_modes(e, rg_ir_modes_of(e->g, node->modes));
  status = find_written(e, node);
  status = status == RG_OK ? run_node(e, node, out) : status;
  if (status == RG_OK) {
    keep_results(e, node, out);
    release_dead(e, node);
  }
  for (int32_t i = 0; i < RG_MAX_OUT; i++) {
    rg_tensor_release(out[i]);
  }
  return blame(e, node, status);
}

/* -- Outputs ------------------------------------------------------------------------------- */

enum { SHARES_WITH_NONE = -1 };

/* Is an output that has no tensor of its own to be copied?  It is where it lies in storage that
** was there before, or in that of another output, and did not when it was recorded. */
static bool is_copied(const rg_seen_storages *met, const rg_ir_output *output, const rg_tensor *x)
{
  const rg_storage *storage = rg_storage_root(x->_storage);
  const stored *s = rg_seen_find(met, storage);

  if (storage->block.arena != rg_arena_current() && storage->bytes > 0 && !output->outside) {
    return true;
  }
  return s != NULL && s->output != output->shares;
}

/* Output i is x.  Its storage remembers which outputs it was recorded for. */
static rg_status put_output(emitting *e, rg_seen_storages *met, int32_t i, rg_tensor *x)
{
  const rg_ir_output *output = rg_ir_output_at(e->g, i);
  rg_storage *storage = rg_storage_root(x->_storage);
  stored *s = rg_seen_find(met, storage);
  const int32_t shares = output->shares != 0 ? output->shares : SHARES_WITH_NONE;

  if (s == NULL) {
    RG_TRY(rg_seen_add(met, storage, &s));
    s->output = shares;
  }
  s->output = s->output == shares ? shares : SHARES_WITH_NONE;
  e->out[i] = rg_tensor_retain(x);
  return RG_OK;
}

/* Those with a tensor first: what else shows the same storage is copied. */
static rg_status emit_met_outputs(emitting *e, rg_seen_storages *met)
{
  const int32_t n = rg_ir_n_outputs(e->g);
  rg_tensor *x;

  for (int32_t i = 0; i < n; i++) {
    const rg_ir_output *output = rg_ir_output_at(e->g, i);

    if (!rg_emit_is_there(output->into)) {
      continue;
    }
    RG_TRY(tensor_of(e, output->value, &x));
    if (!rg_tensor_same_view(x, output->into)) {
      RG_TRY(rg_copy_(output->into, x));
    }
    RG_TRY(put_output(e, met, i, output->into));
  }
  for (int32_t i = 0; i < n; i++) {
    const rg_ir_output *output = rg_ir_output_at(e->g, i);

    if (e->out[i] == NULL) {
      RG_TRY(tensor_of(e, output->value, &x));
      if (is_copied(met, output, x)) {
        RG_TRY(rg_clone(x, &e->out[i]));
      } else {
        RG_TRY(put_output(e, met, i, x));
      }
    }
  }
  return RG_OK;
}

static rg_status emit_outputs(emitting *e)
{
  rg_seen_storages met = { 0 };
  rg_status status = emit_met_outputs(e, &met);

  rg_seen_end(&met);
  return status;
}

/* -- The whole graph ------------------------------------------------------------------------- */

static rg_status emitting_new(emitting *e)
{
  const size_t n_values = (size_t)rg_ir_n_values(e->g);
  size_t n_in = 0;
  size_t n_args = 0;

  RG_TRY(rg_ir_order(e->g, &e->order, NULL, &e->n));
  for (int32_t i = 0; i < e->n; i++) {
    const rg_ir_node *node = rg_ir_node_at(e->g, e->order[i]);

    n_in = (size_t)rg_max_i64((int64_t)n_in, node->n_in);
    n_in = (size_t)rg_max_i64((int64_t)n_in, node->op->n_inputs);
    n_args = (size_t)rg_max_i64((int64_t)n_args, (int64_t)node->op->args_size);
  }
  e->at = rg_host_zeroed(n_values * sizeof(rg_tensor *));
  e->last = rg_host_zeroed(n_values * sizeof(int32_t));
  e->into = rg_host_zeroed((size_t)rg_ir_n_storages(e->g) * sizeof(rg_tensor *));
  e->in = rg_host_zeroed(n_in * sizeof(rg_tensor *));
  e->args = rg_host_zeroed((size_t)rg_round_up((int64_t)n_args, RG_CALL_ALIGN));
  e->out = rg_host_zeroed((size_t)rg_ir_n_outputs(e->g) * sizeof(rg_tensor *));
  e->derived = rg_host_zeroed((size_t)rg_ir_n_nodes(e->g));
  e->drew = rg_host_zeroed((size_t)rg_ir_n_draws(e->g) * sizeof(step *));
  if (e->at == NULL || e->last == NULL || e->into == NULL || e->in == NULL || e->args == NULL ||
      e->out == NULL || e->drew == NULL || e->derived == NULL) {
    return rg_fail(RG_ENOMEM, "graph: no memory to make a plan of it");
  }
  find_last_uses(e);
  find_targets(e);
  return rg_emit_find_derived(e->g, e->derived);
}

static void release_all(rg_tensor **list, int32_t n)
{
  for (int32_t i = 0; list != NULL && i < n; i++) {
    rg_tensor_release(list[i]);
  }
  rg_host_free(list);
}

static void emitting_end(emitting *e)
{
  release_all(e->at, rg_ir_n_values(e->g));
  release_all(e->out, rg_ir_n_outputs(e->g));
  rg_host_free(e->last);
  rg_host_free(e->into);
  rg_host_free(e->in);
  rg_host_free(e->args);
  rg_host_free((void *)e->drew);
  rg_host_free(e->derived);
}

/* What emission changes of a thread, and what it was. */
typedef struct settings {
  const rg_modes *modes;
  rg_place place;
  uint32_t ring;
  int32_t autocast;
  int32_t grad;
} settings;

static void settings_enter(settings *s)
{
  s->place = rg_place_now;
  s->ring = rg_ring_on;
  s->autocast = rg_autocast();
  s->modes = rg_modes_enter(NULL);
  s->grad = rg_grad_mode(0);
  rg_ring_on &= 1u << RG_EVENT_ALLOC | 1u << RG_EVENT_FREE; /* nothing else happens */
  rg_capture_dry = true;
}

static void settings_leave(const settings *s)
{
  rg_capture_dry = false;
  rg_ring_on = s->ring;
  rg_place_now = s->place;
  (void)rg_autocast_set(s->autocast);
  (void)rg_modes_enter(s->modes);
  (void)rg_grad_mode(s->grad);
}

static rg_status emit(emitting *e)
{
  settings before;
  rg_status status = RG_OK;

  settings_enter(&before);
  for (int32_t i = 0; i < e->n && status == RG_OK; i++) {
    status = emit_node(e, e->order[i]);
  }
  status = status == RG_OK ? emit_outputs(e) : status;
  settings_leave(&before);
  return status;
}

/* A capture that is thrown away says what memory is asked for, and how long. */
static rg_status note_memory(rg_graph *graph, rg_slots *slots)
{
  emitting e = { .g = graph };
  rg_status status;

  RG_TRY(rg_capture_begin());
  rg_arena_note(rg_arena_current(), slots);
  status = emitting_new(&e);
  status = status == RG_OK ? emit(&e) : status;
  rg_arena_note(rg_arena_current(), NULL); /* outputs, in use now, are in use for good */
  emitting_end(&e);
  rg_capture_forget();
  return status;
}

rg_status rg_graph_plan(rg_graph *graph, rg_tensor **outputs, rg_plan **out)
{
  emitting e = { .g = graph };
  rg_slots slots = { 0 };
  rg_plan *plan = NULL;
  rg_status status;

  if (graph == NULL || out == NULL || (outputs == NULL && rg_ir_n_outputs(graph) > 0)) {
    return rg_fail(RG_EARG, "graph: a pointer is NULL");
  }
  RG_TRY(rg_graph_check(graph));
  RG_TRY(rg_emit_check_aliases(graph));
  status = note_memory(graph, &slots);
  status = status == RG_OK ? rg_capture_begin() : status;
  if (status != RG_OK) {
    rg_slots_end(&slots);
    return status;
  }
  status = rg_slots_lay_out(&slots);
  status = status == RG_OK ? rg_arena_obey(rg_arena_current(), &slots) : status;
  rg_slots_end(&slots);
  status = status == RG_OK ? emitting_new(&e) : status;
  status = status == RG_OK ? emit(&e) : status;
  if (status == RG_OK) {
    status = rg_capture_end(&plan);
  } else {
    rg_capture_cancel();
  }
  if (status == RG_OK) {
    status = rg_plan_remember(plan, graph, e.out);
  }
  if (status == RG_OK) {
    *out = plan;
  } else {
    rg_plan_release(plan);
  }
  for (int32_t i = 0; i < rg_ir_n_outputs(graph) && status == RG_OK; i++) {
    outputs[i] = e.out[i];
    e.out[i] = NULL;
  }
  emitting_end(&e);
  return status;
}
