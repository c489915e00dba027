/* SPDX-License-Identifier: MIT */
/*
** Recording.  A value is a storage at a version, seen through a view: storages are told apart by
** their structs, which are held (not their memory) while a graph is recorded, so that no address is
** taken for another one.  What the capture's arena did not give was there before, and is an input.
**
** Versions are counted here, a write each.  Where the storage's own count has moved on by more, it
** was written to past the dispatcher, and the recording says so at its end.
*/
#include <stdio.h>

#include "graph/record.h"
#include "op/fill.h"
#include "op/list.h"
#include "op/view.h"

typedef rg_recording recording;

static _Thread_local recording *now;
static _Atomic int64_t n_recordings;

extern const rg_op rg_op_fill, rg_op_as_strided;

rg_recording *rg_recording_now(void)
{
  return now;
}

/* -- Storages ---------------------------------------------------------------------------------- */

static stored *find(const recording *r, const rg_storage *storage)
{
  return rg_seen_find(&r->storages, storage);
}

bool rg_recording_owns(const rg_recording *r, const rg_storage *storage)
{
  return storage->bytes == 0 || storage->block.arena == r->arena;
}

static rg_status add_storage(recording *r, rg_storage *storage, stored **out)
{
  RG_TRY(rg_seen_add(&r->storages, storage, out));
  (*out)->outside = !rg_recording_owns(r, storage);
  return rg_ir_storage_new(r->g, &(*out)->number);
}

/* There will be no graph.  The call is done: were it to fail, who retries would do it twice. */
static void break_off(recording *r, rg_status status)
{
  if (status != RG_OK && r->status == RG_OK) {
    r->status = status;
    (void)snprintf(r->why, sizeof(r->why), "%s", rg_error_message());
  }
}

/* -- Values ---------------------------------------------------------------------------------- */

/* The same view at the version the storage has now: the node that wrote that makes it, too. */
static rg_status renew(recording *r, stored *s, seen *v)
{
  rg_meta meta = rg_meta_of(&v->at);

  if (rg_ir_value_at(r->g, v->value)->version == s->version) {
    return RG_OK;
  }
  return rg_ir_output_add(r->g, s->wrote, &meta, v->at._device, s->number, s->version, v->value,
                          &v->value);
}

/* Memory of the recording's own that nobody wrote yet: numbers that do not matter. */
static rg_status unwritten(recording *r, stored *s, const rg_tensor *x)
{
  rg_fill_args args = { .meta = rg_meta_of(x) };
  int32_t node;
  int32_t value;

  RG_TRY(rg_ir_node_add(r->g, &rg_op_fill, NULL, 0, &args, &node));
  rg_ir_node_at(r->g, node)->unwritten = true;
  RG_TRY(rg_ir_output_add(r->g, node, &args.meta, x->_device, s->number, s->version, RG_IR_NONE,
                          &value));
  rg_ir_results_end(r->g, node);
  return rg_seen_set(s, x, value);
}

/* A window that no call made, into a view that is known. */
static rg_status strided(recording *r, stored *s, const rg_tensor *x)
{
  seen *base = s->views;
  rg_as_strided_args args = { .offset =
                                  (rg_seen_offset(x) - base->offset) / rg_dtype_bytes(x->_dtype) };
  rg_meta meta = rg_meta_of(x);
  int32_t node;
  int32_t value;

  RG_TRY(renew(r, s, base));
  rg_take_sizes(&args.shape, x->_shape, x->_ndim);
  rg_take_sizes(&args.stride, x->_stride, x->_ndim);
  RG_TRY(rg_ir_node_add(r->g, &rg_op_as_strided, &base->value, 1, &args, &node));
  RG_TRY(
      rg_ir_output_add(r->g, node, &meta, x->_device, s->number, s->version, RG_IR_NONE, &value));
  rg_ir_results_end(r->g, node);
  return rg_seen_set(s, x, value);
}

/* A tensor that was there before. */
static rg_status outside(recording *r, stored *s, const rg_tensor *x)
{
  int32_t kind = (x->_flags & RG_TENSOR_PARAM) != 0 ? RG_VALUE_PARAMETER : RG_VALUE_INPUT;
  rg_meta meta = rg_meta_of(x);
  int32_t value;

  RG_TRY(
      rg_ir_value_add(r->g, kind, &meta, x->_device, s->number, (rg_tensor *)(uintptr_t)x, &value));
  s->first = s->first == RG_IR_NONE ? value : s->first;
  return rg_seen_set(s, x, value);
}

rg_status rg_recording_value(rg_recording *r, const rg_tensor *x, int32_t *out)
{
  rg_storage *storage = rg_storage_root(x->_storage);
  stored *s = find(r, storage);

  if (s == NULL) {
    RG_TRY(add_storage(r, storage, &s));
  }
  if (s->counted != rg_storage_version(storage)) {
    return rg_fail(RG_ECAPTURE, "graph: %s was written to by what is no operation",
                   rg_tensor_text(x, (char[RG_TENSOR_TEXT]){ "" }, RG_TENSOR_TEXT));
  }
  if (rg_seen_view(s, x) == NULL) {
    RG_TRY(s->outside         ? outside(r, s, x)
           : s->views == NULL ? unwritten(r, s, x)
                              : strided(r, s, x));
  }
  seen *v = rg_seen_view(s, x);

  RG_TRY(renew(r, s, v));
  *out = v->value;
  return RG_OK;
}

/* -- Nodes ----------------------------------------------------------------------------------- */

static rg_status add_modes(recording *r, const rg_call *call, int32_t *out)
{
  const rg_modes *under = rg_modes_now();
  const rg_graph_modes modes = { .compute = call->compute,
                                 .weight_cast = call->weight_cast,
                                 .autocast = rg_autocast(),
                                 .layout = -1,
                                 .vendor = under->device.vendor,
                                 .autotune = under->device.autotune,
                                 .deterministic = under->device.deterministic,
                                 .tf32 = under->device.tf32,
                                 .gemm = under->gemm };

  return rg_ir_modes_add(r->g, &modes, out);
}

/* A node that reads these values, and what is recorded of its call. */
static rg_status note(recording *r, const rg_call *call, const int32_t *in, int32_t *out)
{
  const rg_cost cost = call->op->cost != NULL ? call->op->cost(call) : (rg_cost){ 0 };
  int32_t modes;
  int32_t generator = -1;
  rg_ir_text module;
  rg_ir_text line;

  RG_TRY(add_modes(r, call, &modes));
  if (call->op->draws) {
    RG_TRY(rg_ir_generator_add(r->g, call->generator, &generator));
  }
  RG_TRY(rg_ir_text_add(r->g, rg_place_now.module, &module));
  RG_TRY(rg_ir_text_add(r->g, rg_place_now.line, &line));
  RG_TRY(rg_ir_node_add(r->g, call->op, in, call->n_in, call->args, out));
  rg_ir_node *node = rg_ir_node_at(r->g, *out);

  node->modes = modes;
  node->recomputed = rg_recording_repeats();
  node->module = module;
  node->line = line;
  node->generator = generator;
  node->flops = cost.flops;
  node->bytes = cost.bytes;
  return call->op->draws && call->n_draws > 0 ? rg_recording_drew(r, call, *out) : RG_OK;
}

/* The node of a call, without its results. */
static rg_status add_node(recording *r, const rg_call *call, int32_t *out)
{
  int32_t *in = rg_host_alloc((size_t)call->n_in * sizeof(*in));
  rg_status status = in != NULL ? RG_OK : rg_fail(RG_ENOMEM, "graph: no memory for a node");

  for (int32_t i = 0; i < call->n_in && status == RG_OK; i++) {
    in[i] = RG_IR_NONE;
    if (call->in[i] != NULL) {
      status = rg_recording_value(r, call->in[i], &in[i]);
    }
  }
  status = status == RG_OK ? note(r, call, in, out) : status;
  rg_host_free(in);
  return status;
}

/* A node writes to x, whose value was `was`. */
static rg_status write(recording *r, int32_t node, const rg_tensor *x, int32_t was)
{
  stored *s = find(r, rg_storage_root(x->_storage));
  rg_meta meta = rg_meta_of(x);
  int32_t value;

  if (s->outside && !s->state) {
    s->state = true;
    RG_TRY(rg_ir_graph_state(r->g, s->first));
  }
  if (s->wrote != node) { /* all that one call writes in a storage is one version of it */
    s->version++;
    s->wrote = node;
  }
  RG_TRY(rg_ir_output_add(r->g, node, &meta, x->_device, s->number, s->version, was, &value));
  return rg_seen_set(s, x, value);
}

static rg_status add_result(recording *r, int32_t node, const rg_tensor *x, int32_t was)
{
  stored *s = find(r, rg_storage_root(x->_storage));
  rg_meta meta = rg_meta_of(x);
  int32_t value;

  if (was != RG_IR_NONE) {
    return write(r, node, x, was);
  }
  if (s == NULL) {
    RG_TRY(add_storage(r, rg_storage_root(x->_storage), &s));
  }
  RG_TRY(
      rg_ir_output_add(r->g, node, &meta, x->_device, s->number, s->version, RG_IR_NONE, &value));
  return rg_seen_set(s, x, value);
}

/* Does a call read what a result lies in? */
static bool is_read(const rg_call *call, const rg_storage *storage)
{
  for (int32_t i = 0; i < call->n_in; i++) {
    if (call->in[i] != NULL && rg_storage_root(call->in[i]->_storage) == storage) {
      return true;
    }
  }
  return false;
}

/* What a result was before the call wrote it; none where all of its memory is new. */
static rg_status before_of(recording *r, const rg_call *call, const rg_tensor *x, int32_t *was)
{
  const rg_storage *storage = rg_storage_root(x->_storage);
  const stored *s = find(r, storage);
  bool whole = rg_is_contiguous(x) && rg_tensor_bytes(x) == x->_storage->bytes;

  *was = RG_IR_NONE;
  if (call->op->view != NULL ||
      (s == NULL && whole && rg_recording_owns(r, x->_storage) && !is_read(call, storage))) {
    return RG_OK;
  }
  return rg_recording_value(r, x, was);
}

/* -- What the dispatcher says ---------------------------------------------------------------- */

static rg_status ran(recording *r, const rg_call *call, rg_tensor *const *out)
{
  int32_t was[RG_MAX_OUT];
  int32_t node;

  for (int32_t i = 0; i < call->n_out; i++) {
    RG_TRY(before_of(r, call, out[i], &was[i]));
  }
  RG_TRY(add_node(r, call, &node));
  for (int32_t i = 0; i < call->n_out; i++) {
    RG_TRY(add_result(r, node, out[i], was[i]));
  }
  rg_ir_results_end(r->g, node);
  for (int32_t i = 0; i < call->n_in; i++) {
    if (call->in[i] != NULL && rg_call_writes(call, i)) {
      const int32_t in = rg_ir_inputs(r->g, rg_ir_node_at(r->g, node))[i];

      RG_TRY(write(r, node, call->in[i], in));
    }
  }
  return RG_OK;
}

/* A call about to write: what it writes counts one version more behind it. */
static void expect(recording *r, const rg_tensor *x)
{
  stored *s = find(r, rg_storage_root(x->_storage));

  if (s != NULL) {
    s->counted++;
  }
}

/* Not while its capture is set aside, nor where it has broken off. */
static bool is_on(void)
{
  return rg_arena_current() == now->arena && now->status == RG_OK;
}

static bool graph_knows(const rg_storage *storage)
{
  return !is_on() || find(now, storage) != NULL;
}

static rg_status graph_ran(const rg_call *call, rg_tensor *const *out)
{
  if (!is_on()) {
    return RG_OK;
  }
  for (int32_t i = 0; i < call->n_out && call->op->view == NULL; i++) {
    expect(now, out[i]);
  }
  for (int32_t i = 0; i < call->n_in; i++) {
    if (call->in[i] != NULL && rg_call_writes(call, i)) {
      expect(now, call->in[i]);
    }
  }
  break_off(now, ran(now, call, out));
  return RG_OK;
}

static rg_status graph_begin(const rg_call *call, int32_t *node)
{
  *node = RG_IR_NONE;
  if (!is_on()) {
    return RG_OK;
  }
  break_off(now, add_node(now, call, node));
  if (now->status == RG_OK) {
    break_off(now, rg_ir_begin(now->g, *node));
  }
  return RG_OK;
}

static rg_status graph_end(const rg_call *call, int32_t node, rg_tensor *const *out)
{
  rg_status status = RG_OK;

  if (node == RG_IR_NONE || now == NULL || now->status != RG_OK) {
    return RG_OK;
  }
  for (int32_t i = 0; out != NULL && i < call->n_out && status == RG_OK; i++) {
    int32_t value;

    status = rg_recording_value(now, out[i], &value);
    status = status == RG_OK ? rg_ir_output_share(now->g, node, value) : status;
  }
  if (out == NULL) {
    rg_recording_undrew(now, node);
  }
  rg_ir_results_end(now->g, node);
  rg_ir_end(now->g);
  break_off(now, status);
  return RG_OK;
}

static const rg_graph_hooks hooks = {
  .knows = graph_knows, .ran = graph_ran, .begin = graph_begin, .end = graph_end
};

/* -- Beginning and end ----------------------------------------------------------------------- */

rg_status rg_record_begin(int32_t in_place)
{
  if (rg_capture_active == NULL || now != NULL) {
    return rg_fail(RG_ECAPTURE, "graph: %s",
                   now != NULL ? "another recording is under way" : "there is no capture");
  }
  recording *r = rg_host_zeroed(sizeof(*r));

  if (r == NULL) {
    return rg_fail(RG_ENOMEM, "graph: no memory to record");
  }
  rg_status status = rg_ir_new(&r->g);

  if (status != RG_OK) {
    rg_host_free(r);
    return status;
  }
  r->number = atomic_fetch_add(&n_recordings, 1) + 1;
  r->arena = rg_arena_current();
  r->in_place = in_place != 0;
  (void)rg_record_swap(r);
  return RG_OK;
}

rg_status rg_recording_check(const rg_tensor *x)
{
  RG_TRY(rg_tensor_check(x, "graph"));
  return now == NULL            ? rg_fail(RG_ECAPTURE, "graph: nothing is recorded")
         : now->status == RG_OK ? RG_OK
                                : rg_fail(now->status, "%s", now->why);
}

/* -- Names ----------------------------------------------------------------------------------- */

/* Is a value one of the first n inputs of the graph? */
static bool is_input(const rg_graph *g, int32_t value, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    if (rg_graph_input(g, i) == value) {
      return true;
    }
  }
  return false;
}

rg_status rg_record_input(const rg_tensor *x, const char *name)
{
  rg_storage *storage;
  stored *s;
  rg_ir_text text;
  int32_t value;

  RG_TRY(rg_recording_check(x));
  storage = rg_storage_root(x->_storage);
  s = find(now, storage);
  if (s == NULL) {
    RG_TRY(add_storage(now, storage, &s));
    s->outside = true; /* without bytes, too, whose storage is of no arena */
  }
  RG_TRY(rg_recording_value(now, x, &value));
  if (is_input(now->g, value, rg_ir_n_inputs(now->g))) {
    return RG_OK; /* it was given before, and has its first name */
  }
  RG_TRY(rg_ir_text_add(now->g, name, &text));
  rg_ir_name(now->g, value, text);
  return rg_ir_value_at(now->g, value)->kind == RG_VALUE_INPUT ? rg_ir_graph_input(now->g, value)
                                                               : RG_OK;
}

rg_status rg_record_name(const rg_tensor *x, const char *name)
{
  rg_ir_text text;

  RG_TRY(rg_recording_check(x));
  const stored *s = find(now, rg_storage_root(x->_storage));

  if (s == NULL || s->first == RG_IR_NONE) {
    return RG_OK;
  }
  RG_TRY(rg_ir_text_add(now->g, name, &text));
  rg_ir_name(now->g, s->first, text);
  rg_ir_value *v = rg_ir_value_at(now->g, s->first);

  if (v->kind == RG_VALUE_INPUT && !is_input(now->g, s->first, rg_ir_n_inputs(now->g))) {
    v->kind = RG_VALUE_PARAMETER; /* running means */
  }
  return RG_OK;
}

rg_recording *rg_record_swap(rg_recording *other)
{
  rg_recording *before = now;

  now = other;
  rg_graph_recorder = now != NULL ? &hooks : NULL;
  if (now != NULL) {
    rg_ring_on |= RG_RING_GRAPH;
  } else {
    rg_ring_on &= ~(uint32_t)RG_RING_GRAPH;
  }
  return before;
}

static void forget(recording *r)
{
  rg_seen_end(&r->storages);
  rg_host_free(r->draws);
  rg_host_free(r);
}

void rg_record_release(rg_recording *r)
{
  if (r != NULL) {
    rg_graph_release(r->g);
    forget(r);
  }
}

/* What is read anew at every run is an input, also where no argument said so. */
static rg_status list_inputs(rg_graph *g)
{
  const int32_t given = rg_ir_n_inputs(g);

  for (int32_t id = 0; id < rg_ir_n_values(g); id++) {
    if (rg_ir_value_at(g, id)->kind == RG_VALUE_INPUT && !is_input(g, id, given)) {
      RG_TRY(rg_ir_graph_input(g, id));
    }
  }
  return RG_OK;
}

rg_status rg_record_end(rg_graph **out)
{
  recording *r = now;

  if (r == NULL || out == NULL) {
    return rg_fail(RG_ECAPTURE, "graph: nothing is recorded");
  }
  rg_status status = r->status == RG_OK ? list_inputs(r->g) : rg_fail(r->status, "%s", r->why);

  if (status != RG_OK) {
    rg_record_cancel();
    return status;
  }
  *out = r->g;
  (void)rg_record_swap(NULL);
  forget(r);
  return RG_OK;
}

void rg_record_cancel(void)
{
  rg_record_release(rg_record_swap(NULL));
}
