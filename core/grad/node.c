/* SPDX-License-Identifier: MIT */
/*
** Recording: the dispatcher calls in for every call that gradient flows through.
*/
#include <stdatomic.h>
#include <string.h>

#include "grad/node.h"
#include "op/call.h"

static _Atomic int64_t n_calls;
static _Atomic int64_t saved_bytes;
static _Thread_local int64_t last_order;

int64_t rg_grad_calls(void)
{
  return atomic_load(&n_calls);
}

int64_t rg_grad_saved_bytes(void)
{
  return atomic_load(&saved_bytes);
}

/* -- Tracks ----------------------------------------------------------------------- */

static void track_forget(rg_tracking *self)
{
  track *t = (track *)self;
  node *writer = t->writer;

  t->writer = NULL;
  rg_node_release(writer);
}

static void track_gone(rg_tracking *self)
{
  track_forget(self);
  rg_track_release((track *)self);
}

rg_status rg_track_of(rg_storage *storage, track **out)
{
  track *t = (track *)storage->tracking;

  if (t == NULL) {
    t = rg_struct_alloc(sizeof(*t));
    if (t == NULL) {
      return rg_fail(RG_ENOMEM, "gradient: no memory for what is known of a tensor");
    }
    *t = (track){ .hooks = { .forget = track_forget, .release = track_gone }, .refs = 1 };
    storage->tracking = &t->hooks;
  }
  *out = t;
  return RG_OK;
}

void rg_track_release(track *t)
{
  if (t != NULL && --t->refs == 0) {
    rg_number_gone(t->watch);
    rg_tensor_release(t->grad);
    rg_tensor_release(t->flow);
    rg_tensor_release(t->buffer);
    rg_struct_free(t, sizeof(*t));
  }
}

/* -- Places ------------------------------------------------------------------------- */

/* follow: gradient flows here, so the place knows its track. */
static void place_set(place *p, const rg_tensor *x, bool save, bool follow)
{
  p->at = rg_tensor_struct(x);
  p->storage_bytes = x->_storage->bytes;
  p->offset = (char *)x->_data - (char *)x->_storage->block.data;
  p->version = rg_tensor_version(x);
  if (follow) {
    p->track = (track *)x->_storage->tracking;
    p->track->refs++;
  }
  if (save) {
    p->saved = true;
    rg_storage_retain(x->_storage);
    atomic_fetch_add(&x->_storage->saved, 1);
    atomic_fetch_add(&saved_bytes, rg_tensor_bytes(x));
  }
}

static void place_unsave(place *p)
{
  if (p->saved) {
    rg_storage *storage = p->at._storage;

    p->saved = false;
    p->at._storage = NULL;
    p->at._data = NULL;
    atomic_fetch_sub(&saved_bytes, rg_tensor_bytes(&p->at));
    atomic_fetch_sub(&storage->saved, 1);
    rg_storage_release(storage);
  }
}

static void place_drop(place *p)
{
  node *writer = p->writer;
  track *t = p->track;

  place_unsave(p);
  p->writer = NULL;
  p->track = NULL;
  rg_node_release(writer);
  rg_track_release(t);
}

/* -- Nodes ---------------------------------------------------------------------------- */

/* One block: the node, places of inputs and results, inputs' types, saved tensors, arguments. */
static node *node_new(const rg_call *call)
{
  int64_t n = call->n_in;
  int64_t n_places = n + call->n_out;
  int64_t places = rg_round_up(sizeof(node), RG_CALL_ALIGN);
  int64_t metas = places + rg_round_up(n_places * (int64_t)sizeof(place), RG_CALL_ALIGN);
  int64_t copy = metas + rg_round_up(n * (int64_t)sizeof(rg_meta), RG_CALL_ALIGN);
  int64_t bytes = copy + rg_call_room(call);
  char *block = rg_struct_alloc((size_t)bytes);
  node *self = (node *)block;

  if (self == NULL) {
    return NULL;
  }
  memset(block, 0, (size_t)bytes);
  self->bytes = bytes;
  self->refs = 1;
  self->order = ++last_order;
  self->in = (place *)(block + places);
  self->out = self->in + n;
  self->in_meta = (rg_meta *)(block + metas);
  self->saved_in = rg_call_copy(&self->call, call, block + copy);
  self->n_visible = call->n_out - call->op->n_hidden;
  self->call.generator = NULL;
  atomic_fetch_add(&n_calls, 1);
  return self;
}

void rg_node_unsave_result(node *self, int32_t i)
{
  place_unsave(&self->out[i]);
  self->spent = true;
}

void rg_node_unsave(node *self)
{
  for (int32_t i = 0; i < self->call.n_in; i++) {
    place_unsave(&self->in[i]);
    self->saved_in[i] = NULL;
  }
  for (int32_t i = 0; i < self->call.n_out; i++) {
    place_unsave(&self->out[i]);
  }
  self->spent = true;
}

/*
** A chain of calls can be millions long, and each holds the one before it: those that lose their
** last reference wait in a list instead of on the stack.
*/
void rg_node_release(node *self)
{
  static _Thread_local node *waiting;
  static _Thread_local bool busy;

  if (self == NULL || --self->refs > 0) {
    return;
  }
  self->call.generator = (void *)waiting; /* the list runs through a field that is free now */
  waiting = self;
  if (busy) {
    return;
  }
  busy = true;
  while (waiting != NULL) {
    node *n = waiting;

    waiting = (node *)(void *)n->call.generator;
    for (int32_t i = 0; i < n->call.n_in; i++) {
      place_drop(&n->in[i]);
    }
    for (int32_t i = 0; i < n->call.n_out; i++) {
      place_drop(&n->out[i]);
    }
    rg_number_gone(n->function);
    rg_struct_free(n, (size_t)n->bytes);
    atomic_fetch_sub(&n_calls, 1);
  }
  busy = false;
}

/* -- Recording ---------------------------------------------------------------------------- */

static rg_status tape_check(const rg_call *call, rg_tensor *const *out)
{
  char text[96];

  for (int32_t i = 0; i < call->n_out - call->op->n_hidden; i++) {
    if (out[i] != NULL && rg_tensor_tracked(out[i]) &&
        ((track *)out[i]->_storage->tracking)->leaf) {
      return rg_fail(RG_EARG,
                     "%s: %s requires a gradient and would be overwritten; do it inside no_grad",
                     call->op->name, rg_tensor_text(out[i], text, sizeof(text)));
    }
  }
  return RG_OK;
}

static bool bit_of(int32_t mask, int32_t i)
{
  return mask == RG_SAVE_ALL || (i < 31 && (mask >> i & 1) != 0);
}

/* The inputs' places; returns whether gradient flows into any. */
static bool set_inputs(node *self, const rg_call *call, rg_tensor *const *out, int32_t mask)
{
  bool any = false;

  for (int32_t i = 0; i < call->n_in; i++) {
    const rg_tensor *x = call->in[i];
    place *p = &self->in[i];

    if (x == NULL) {
      continue;
    }
    self->in_meta[i] = rg_meta_of(x);
    p->wanted = rg_tensor_tracked(x) && rg_dtype_is_float(x->_dtype) && !rg_call_writes(call, i);
    any = any || p->wanted;
    for (int32_t k = 0; k < self->n_visible && bit_of(mask, i); k++) {
      self->spoiled = self->spoiled || rg_tensor_overlap(out[k], x);
    }
  }
  for (int32_t i = 0; i < call->n_in && any; i++) {
    const rg_tensor *x = call->in[i];
    place *p = &self->in[i];

    if (x != NULL) {
      place_set(p, x, bit_of(mask, i) && !self->spoiled, p->wanted);
      self->saved_in[i] = p->saved ? &p->at : NULL;
      if (p->wanted && p->track->writer != NULL) {
        p->writer = p->track->writer;
        p->writer->refs++;
      }
    }
  }
  return any;
}

static rg_status set_outputs(node *self, const rg_call *call, rg_tensor *const *out, int32_t mask,
                             bool any)
{
  for (int32_t i = 0; i < call->n_out; i++) {
    place *p = &self->out[i];
    bool visible = i < self->n_visible;
    bool follow =
        visible && rg_dtype_is_float(out[i]->_dtype) && !(out[i]->_flags & RG_TENSOR_DETACHED);

    if (follow) {
      track *t;

      p->over = out[i]->_storage->tracking != NULL;
      RG_TRY(rg_track_of(out[i]->_storage, &t));
    }
    place_set(p, out[i], any && (!visible || bit_of(mask, i)), follow);
  }
  return RG_OK;
}

/* From now on this call is the one that wrote its results. */
static void sign(node *self)
{
  for (int32_t i = 0; i < self->n_visible; i++) {
    place *p = &self->out[i];

    if (p->track != NULL && p->writer == NULL && p->track->writer != self) {
      p->writer = p->track->writer;
      p->track->writer = self;
      self->refs++;
    }
  }
}

static rg_status tape_ran(const rg_call *call, rg_tensor *const *out)
{
  return rg_node_record(call, out, call->op->save_in, 0, false);
}

rg_status rg_node_record(const rg_call *call, rg_tensor *const *out, int32_t save_in,
                         int64_t function, bool goes_back)
{
  int32_t save_out = call->op->save_out;
  node *self;
  rg_status status;
  bool any;

  self = node_new(call);
  if (self == NULL) {
    return rg_fail(RG_ENOMEM, "%s: no memory to remember the call for its gradient",
                   call->op->name);
  }
  if (call->op->save != NULL) {
    call->op->save(call, &save_in, &save_out);
  }
  self->function = function;
  self->goes_back = goes_back;
  self->module = rg_place_now.module;
  self->line = rg_place_now.line;
  self->event = (rg_ring_on & (1u << RG_EVENT_OP)) != 0 ? rg_ring_last : -1;
  any = set_inputs(self, call, out, save_in);
  status = set_outputs(self, call, out, save_out, any);
  if (status == RG_OK) {
    sign(self);
  }
  rg_node_release(self);
  return status;
}

static const rg_tape_hooks hooks = { .check = tape_check, .ran = tape_ran };

__attribute__((constructor)) static void start(void)
{
  rg_tape = &hooks;
}
