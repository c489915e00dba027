/* SPDX-License-Identifier: MIT */
/*
** A small tape, to prove that the record carries what a tape needs.
**
** It differentiates the program as memory sees it: every storage has a gradient of the same
** layout, a tensor's gradient is the same window into that, and walking back over a write takes
** the gradient of the place, clears it and hands it to the inputs.  Views and writes through
** views then need no rule of their own (Griewank and Walther, Evaluating Derivatives, 2nd ed.,
** 4.2: the adjoint of an overwrite).
*/
#ifndef RIDGE_TESTS_RECORD_TAPE_H
#define RIDGE_TESTS_RECORD_TAPE_H

#include <stdlib.h>

#include "basic.h"

/* Where a tensor of a call lies, and the tensor itself where its contents are needed. */
typedef struct place {
  rg_storage *storage; /* the struct is held, not the memory; NULL: no tensor */
  rg_tensor at;        /* type, shape and strides */
  int64_t offset;      /* bytes */
  rg_tensor *saved;
  uint64_t version; /* of the storage when it was saved */
  bool wanted;      /* gradient flows here */
  bool over;        /* something differentiable was there before */
} place;

typedef struct tape_call {
  struct tape_call *before;
  rg_call call;
  void *args;
  const rg_tensor **saved_in;
  rg_meta *in_meta;
  place *in;
  place out[RG_MAX_OUT];
  bool spoiled; /* a saved input was overwritten by the call itself */
} tape_call;

typedef struct tape_storage {
  rg_storage *storage;
  rg_tensor *grad; /* [elements of the storage], NULL: still nothing */
} tape_storage;

typedef struct tape {
  rg_recorder recorder;
  tape_call *last;
  tape_storage *known;
  int n_known;
  int64_t saved_bytes;
} tape;

/* -- Storages the tape knows ----------------------------------------------------- */

static inline tape_storage *tape_find(const tape *t, const rg_storage *storage)
{
  for (int i = 0; i < t->n_known; i++) {
    if (t->known[i].storage == storage) {
      return &t->known[i];
    }
  }
  return NULL;
}

static inline void tape_know(tape *t, rg_storage *storage)
{
  if (tape_find(t, storage) == NULL) {
    t->known = realloc(t->known, (size_t)(t->n_known + 1) * sizeof(*t->known));
    t->known[t->n_known++] = (tape_storage){ .storage = storage };
    rg_storage_hold(storage);
  }
}

static inline void tape_watch(tape *t, const rg_tensor *x)
{
  tape_know(t, x->_storage);
}

/* -- Recording ------------------------------------------------------------------- */

static inline void place_set(tape *t, place *p, const rg_tensor *x, bool save)
{
  if (x == NULL) {
    return;
  }
  p->storage = x->_storage;
  rg_storage_hold(p->storage);
  p->at = *x;
  p->offset = (char *)x->_data - (char *)x->_storage->block.data;
  p->version = rg_tensor_version(x);
  if (save) {
    p->saved = rg_tensor_retain((rg_tensor *)(uintptr_t)x);
    t->saved_bytes += rg_tensor_bytes(x);
  }
}

static inline bool bit_of(int32_t mask, int32_t i)
{
  return mask == RG_SAVE_ALL || (i < 31 && (mask >> i & 1) != 0);
}

static inline rg_status tape_ran(rg_recorder *self, const rg_call *call, rg_tensor *const *out,
                                 const rg_frame *frame, int64_t begin_ns)
{
  tape *t = (tape *)self;
  const rg_op *op = call->op;
  size_t n_in = (size_t)call->n_in;
  int32_t n_visible = call->n_out - op->n_hidden;
  bool matters = false;
  tape_call *c;

  (void)frame;
  (void)begin_ns;
  for (size_t i = 0; i < n_in; i++) {
    matters = matters || (call->in[i] != NULL && tape_find(t, call->in[i]->_storage) != NULL);
  }
  for (int32_t i = 0; i < call->n_out; i++) {
    matters = matters || tape_find(t, out[i]->_storage) != NULL;
  }
  if (!matters) {
    return RG_OK;
  }
  c = calloc(1, sizeof(*c));
  c->call = *call;
  c->in = calloc(n_in, sizeof(*c->in));
  c->in_meta = calloc(n_in, sizeof(*c->in_meta));
  c->saved_in = calloc(n_in, sizeof(*c->saved_in));
  c->args = malloc(op->args_size + 1);
  if (call->args != NULL) {
    memcpy(c->args, call->args, op->args_size);
  }
  c->call.args = c->args;
  c->call.in = c->saved_in;
  for (size_t i = 0; i < n_in; i++) {
    const rg_tensor *x = call->in[i];
    bool save = x != NULL && bit_of(op->save_in, (int32_t)i);

    place_set(t, &c->in[i], x, save);
    if (x != NULL) {
      bool state = op->writes != NULL && op->writes(call, (int32_t)i);

      c->in[i].wanted = x->_dtype == RG_F32 && !state && tape_find(t, x->_storage) != NULL;
      c->saved_in[i] = c->in[i].saved;
      c->in_meta[i] = rg_meta_of(x);
    }
    for (int32_t k = 0; k < n_visible && save; k++) {
      c->spoiled = c->spoiled || rg_tensor_overlap(out[k], x);
    }
  }
  for (int32_t i = 0; i < call->n_out; i++) {
    place_set(t, &c->out[i], out[i], i >= n_visible || bit_of(op->save_out, i));
    c->out[i].over = tape_find(t, out[i]->_storage) != NULL;
  }
  for (int32_t i = 0; i < n_visible; i++) {
    if (out[i]->_dtype == RG_F32) {
      tape_know(t, out[i]->_storage);
    }
  }
  c->before = t->last;
  t->last = c;
  return RG_OK;
}

static inline void tape_start(tape *t)
{
  *t = (tape){ .recorder = { .ran = tape_ran, .wants_hidden = true } };
  rg_recorder_push(&t->recorder);
}

/* -- Walking back ---------------------------------------------------------------- */

/* The window at p into the gradient of its storage, which is made where there is none yet. */
static inline rg_status tape_window(tape *t, const place *p, rg_tensor **out)
{
  tape_storage *s = tape_find(t, p->storage);

  if (s->grad == NULL) {
    int64_t n = p->storage->bytes / 4;

    RG_TRY(rg_empty(RG_F32, RG_CPU, &n, 1, &s->grad));
    RG_TRY(t_fill(s->grad, 0));
  }
  return rg_tensor_view_of(s->grad->_storage, RG_F32, p->at._shape, p->at._stride, p->at._ndim,
                           p->offset, out);
}

/* Take the gradient of a result; NULL where there is none. */
static inline rg_status tape_take(tape *t, const place *p, rg_tensor **out)
{
  tape_storage *s = tape_find(t, p->storage);
  rg_tensor *window;
  rg_status status;

  *out = NULL;
  if (s == NULL || s->grad == NULL || p->at._dtype != RG_F32) {
    return RG_OK;
  }
  RG_TRY(tape_window(t, p, &window));
  if (!p->over) {
    *out = window;
    return RG_OK;
  }
  status = t_copy(window, out);
  if (status == RG_OK) {
    status = t_fill(window, 0); /* what was there before was overwritten */
  }
  rg_tensor_release(window);
  return status;
}

static inline rg_status place_check(const place *p, const char *op)
{
  if (p->saved != NULL && rg_tensor_version(p->saved) != p->version) {
    return rg_fail(RG_EARG, "%s: a tensor its gradient needs was written to since", op);
  }
  return RG_OK;
}

static inline rg_status tape_check(const tape_call *c)
{
  if (c->call.op->grad == NULL) {
    return rg_fail(RG_ENOSUP, "%s: has no gradient", c->call.op->name);
  }
  if (c->spoiled) {
    return rg_fail(RG_EARG, "%s: overwrote an input its gradient needs", c->call.op->name);
  }
  for (int32_t i = 0; i < c->call.n_in; i++) {
    RG_TRY(place_check(&c->in[i], c->call.op->name));
  }
  for (int32_t i = 0; i < c->call.n_out; i++) {
    RG_TRY(place_check(&c->out[i], c->call.op->name));
  }
  return RG_OK;
}

/* Run a call's gradient and add what it gives to the inputs' windows. */
static inline rg_status tape_give(tape *t, tape_call *c, rg_tensor *const *dout)
{
  size_t n = (size_t)c->call.n_in;
  rg_tensor *out[RG_MAX_OUT] = { 0 };
  rg_tensor **dx = calloc(n, sizeof(rg_tensor *));
  bool *needs = calloc(n, sizeof(bool));
  rg_grad g = {
    .call = &c->call, .in = c->in_meta, .out = out, .dout = dout, .needs = needs, .dx = dx
  };
  rg_status status = tape_check(c);

  for (int32_t i = 0; i < c->call.n_out; i++) {
    out[i] = c->out[i].saved;
  }
  for (size_t i = 0; i < n; i++) {
    needs[i] = c->in[i].wanted;
  }
  if (status == RG_OK) {
    status = c->call.op->grad(&g);
  }
  for (size_t i = 0; i < n && status == RG_OK; i++) {
    rg_tensor *window;

    if (dx[i] != NULL && c->in[i].wanted) {
      status = tape_window(t, &c->in[i], &window);
      if (status == RG_OK) {
        status = t_add_(window, dx[i]);
        rg_tensor_release(window);
      }
    }
  }
  for (size_t i = 0; i < n; i++) {
    rg_tensor_release(dx[i]);
  }
  free(dx);
  free(needs);
  return status;
}

/* The gradient of loss (one element) with respect to everything that was watched. */
static inline rg_status tape_backward(tape *t, const rg_tensor *loss)
{
  place end = { .storage = loss->_storage, .at = *loss };
  rg_tensor *seed;

  rg_recorder_pop(&t->recorder); /* the gradient itself is not recorded */
  RG_TRY(tape_window(t, &end, &seed));
  RG_TRY(t_fill(seed, 1));
  rg_tensor_release(seed);
  for (tape_call *c = t->last; c != NULL; c = c->before) {
    int32_t n_visible = c->call.n_out - c->call.op->n_hidden;
    rg_tensor *dout[RG_MAX_OUT] = { 0 };
    rg_status status = RG_OK;
    bool any = false;

    for (int32_t i = 0; i < n_visible && status == RG_OK; i++) {
      status = tape_take(t, &c->out[i], &dout[i]);
      any = any || dout[i] != NULL;
    }
    if (status == RG_OK && any) {
      status = tape_give(t, c, dout);
    }
    for (int32_t i = 0; i < n_visible; i++) {
      rg_tensor_release(dout[i]);
    }
    RG_TRY(status);
  }
  return RG_OK;
}

/* A view of x's gradient; NULL where none arrived. */
static inline rg_status tape_grad(tape *t, const rg_tensor *x, rg_tensor **out)
{
  place p = { .storage = x->_storage, .at = *x };

  p.offset = (char *)x->_data - (char *)x->_storage->block.data;
  *out = NULL;
  return tape_find(t, x->_storage)->grad == NULL ? RG_OK : tape_window(t, &p, out);
}

/* -- Letting go ------------------------------------------------------------------ */

static inline void place_drop(place *p)
{
  rg_tensor_release(p->saved);
  rg_storage_unhold(p->storage);
}

static inline void tape_stop(tape *t)
{
  rg_recorder_pop(&t->recorder);
  while (t->last != NULL) {
    tape_call *c = t->last;

    for (int32_t i = 0; i < c->call.n_in; i++) {
      place_drop(&c->in[i]);
    }
    for (int32_t i = 0; i < c->call.n_out; i++) {
      place_drop(&c->out[i]);
    }
    t->last = c->before;
    free(c->in);
    free(c->in_meta);
    free(c->saved_in);
    free(c->args);
    free(c);
  }
  for (int i = 0; i < t->n_known; i++) {
    rg_tensor_release(t->known[i].grad);
    rg_storage_unhold(t->known[i].storage);
  }
  free(t->known);
  *t = (tape){ 0 };
}

#endif
