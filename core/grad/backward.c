/* SPDX-License-Identifier: MIT */
/*
** The backward pass: calls in the reverse of the order they ran in, each by its record's rule.
*/
#include <stdlib.h>

#include "grad/pass.h"

/* -- One call ----------------------------------------------------------------------------- */

static rg_status check_place(const place *p, const char *op)
{
  char text[96];

  if (p->saved && rg_storage_version(p->at._storage) != p->version) {
    return rg_fail(RG_EARG, "%s: %s, which its gradient reads, was written to since", op,
                   rg_tensor_text(&p->at, text, sizeof(text)));
  }
  return RG_OK;
}

static rg_status check_node(const node *n)
{
  const char *op = n->call.op->name;

  if (n->call.op->grad == NULL) {
    return rg_fail(RG_ENOSUP, "%s: has no gradient", op);
  }
  /* a move keeps nothing: parts of a replica that are computed again go back through it each */
  if (n->spent && !n->call.op->moves) {
    return rg_fail(RG_EARG,
                   "%s: backward has passed here and released what it had saved; give it retain "
                   "the first time",
                   op);
  }
  if (n->spoiled) {
    return rg_fail(RG_EARG, "%s: overwrote an input that its gradient reads", op);
  }
  for (int32_t i = 0; i < n->call.n_in; i++) {
    RG_TRY(check_place(&n->in[i], op));
  }
  for (int32_t i = 0; i < n->call.n_out; i++) {
    RG_TRY(check_place(&n->out[i], op));
  }
  return RG_OK;
}

enum { INLINE_INPUTS = 8 };

/*
** When only calls hold what they saved, the storage has released the call that wrote it, or
** they would hold each other.  A gradient that is to have a gradient reads it as what it is: the
** result of that call.  While the rule runs the storage knows it again.
*/
static void know_writers(node *n, bool *known)
{
  for (int32_t i = 0; i < n->call.n_in + n->call.n_out; i++) {
    bool is_in = i < n->call.n_in;
    place *p = is_in ? &n->in[i] : &n->out[i - n->call.n_in];
    node *writer = is_in ? p->writer : n;

    known[i] = p->saved && p->track != NULL && p->track->writer == NULL && writer != NULL;
    if (known[i]) {
      p->track->writer = writer;
      writer->refs++;
    }
  }
}

static void forget_writers(node *n, const bool *known)
{
  for (int32_t i = 0; i < n->call.n_in + n->call.n_out; i++) {
    place *p = i < n->call.n_in ? &n->in[i] : &n->out[i - n->call.n_in];

    if (known[i]) {
      node *writer = p->track->writer;

      p->track->writer = NULL;
      rg_node_release(writer);
    }
  }
}

/* What the rule gave goes to where the inputs came from. */
static rg_status arrive_all(node *n, rg_tensor *const *dx)
{
  for (int32_t i = 0; i < n->call.n_in; i++) {
    if (dx[i] != NULL && n->in[i].wanted) {
      RG_TRY(rg_flow_arrive(&n->in[i], dx[i]));
    }
  }
  return RG_OK;
}

/* What a rule gets, and whose it is. */
typedef struct asked {
  rg_grad g; /* first: a rule knows this part */
  node *n;
  rg_tensor *out[RG_MAX_OUT];
} asked;

static void let_go(rg_grad *g, int32_t i)
{
  asked *a = (asked *)g;

  if (a->out[i] != NULL) {
    a->out[i] = NULL;
    rg_node_unsave_result(a->n, i);
  }
}

static void keep_all(rg_grad *g, int32_t i)
{
  (void)g;
  (void)i;
}

/* Where the gradient of input i is to be made: nowhere of its own where another input's goes there,
** too. */
static rg_tensor *target(const rg_grad *g, int32_t i)
{
  const node *n = ((const asked *)g)->n;

  for (int32_t k = 0; k < n->call.n_in; k++) {
    if (k != i && n->in[k].wanted && n->in[k].track == n->in[i].track) {
      return NULL;
    }
  }
  return n->in[i].wanted ? rg_flow_target(&n->in[i]) : NULL;
}

/* Run the rule and hand on what it gives.  stays: what was saved is read again later. */
static rg_status run_rule(node *n, rg_tensor *const *dout, rg_tensor **dx, bool *needs, bool create,
                          bool stays)
{
  bool known_inline[INLINE_INPUTS + RG_MAX_OUT];
  size_t count = (size_t)(n->call.n_in + n->call.n_out);
  bool *known = known_inline;
  asked a = { .n = n };
  rg_status status;

  RG_TRY(check_node(n));
  a.g = (rg_grad){ .call = &n->call,
                   .in = n->in_meta,
                   .out = a.out,
                   .dout = dout,
                   .needs = needs,
                   .dx = dx,
                   .let_go = stays ? keep_all : let_go,
                   .target = target };
  for (int32_t i = 0; i < n->call.n_out; i++) {
    a.out[i] = n->out[i].saved ? &n->out[i].at : NULL;
  }
  for (int32_t i = 0; i < n->call.n_in; i++) {
    needs[i] = n->in[i].wanted;
  }
  if (create && n->call.n_in > INLINE_INPUTS) {
    known = rg_host_zeroed(count * sizeof(*known));
    if (known == NULL) {
      return rg_fail(RG_ENOMEM, "%s: no memory for a list of its tensors", n->call.op->name);
    }
  }
  if (create) {
    know_writers(n, known);
  }
  status = n->call.op->grad(&a.g);
  rg_targets_clear();
  if (status == RG_OK) {
    status = arrive_all(n, dx);
  }
  if (create) {
    forget_writers(n, known);
  }
  if (known != known_inline) {
    rg_host_free(known);
  }
  return status;
}

static rg_status hand_on(node *n, rg_tensor *const *dout, bool create, bool stays)
{
  rg_tensor *dx_inline[INLINE_INPUTS] = { 0 };
  bool needs_inline[INLINE_INPUTS] = { 0 };
  size_t count = (size_t)n->call.n_in;
  bool fits = count <= INLINE_INPUTS;
  rg_tensor **dx = fits ? dx_inline : rg_host_zeroed(count * sizeof(*dx));
  bool *needs = fits ? needs_inline : rg_host_zeroed(count * sizeof(*needs));
  rg_status status;

  if (dx == NULL || needs == NULL) {
    status =
        rg_fail(RG_ENOMEM, "%s: no memory for %lld gradients", n->call.op->name, (long long)count);
    count = 0;
  } else {
    status = run_rule(n, dout, dx, needs, create, stays);
  }
  for (size_t i = 0; i < count; i++) {
    rg_tensor_release(dx[i]);
  }
  if (!fits) {
    rg_host_free(dx);
    rg_host_free(needs);
  }
  return status;
}

/* Does what the gradients read stay? */
static bool keeps(const backward_pass *pass)
{
  return (pass->flags & (RG_BACKWARD_RETAIN | RG_BACKWARD_CREATE)) != 0;
}

static void drop_dout(backward_pass *pass)
{
  for (int32_t i = 0; i < RG_MAX_OUT; i++) {
    rg_tensor_release(pass->dout[i]);
    pass->dout[i] = NULL;
  }
}

/* Pass one call, or stop before it because its gradient is the caller's to compute. */
static rg_status pass_node(backward_pass *pass, node *n)
{
  bool create = (pass->flags & RG_BACKWARD_CREATE) != 0;
  rg_status status = RG_OK;
  bool any = false;
  bool wanted = false;

  for (int32_t i = 0; i < n->call.n_in; i++) {
    wanted = wanted || n->in[i].wanted;
  }
  for (int32_t i = 0; i < n->n_visible && status == RG_OK; i++) {
    status = rg_flow_take(&n->out[i], &pass->dout[i]);
    any = any || pass->dout[i] != NULL;
  }
  for (int32_t i = 0; i < n->n_visible; i++) {
    if (n->out[i].track != NULL && !n->out[i].over) {
      rg_flow_set(n->out[i].track, NULL, false); /* dout holds what is left of it */
    }
  }
  if (status == RG_OK && any && wanted) {
    if (n->function != 0) {
      status = check_node(n);
      pass->asks = status == RG_OK;
      return status;
    }
    rg_place before = rg_place_now;

    rg_place_now.module = n->module; /* its gradient is that module's too, and that line's */
    rg_place_now.line = n->line != NULL ? n->line : before.line;
    rg_place_now.origin = n->event;
    status = hand_on(n, pass->dout, create, keeps(pass));
    rg_place_now = before;
    if (status == RG_ENAN) {
      pass->line = n->line;
    }
  }
  drop_dout(pass);
  if (!keeps(pass) && status == RG_OK) {
    rg_node_unsave(n);
  }
  return status;
}

/* -- All of them ---------------------------------------------------------------------------- */

/* Nothing adds to the gradient of a leaf any more: keep it, and tell whoever watches, unless
** nothing flowed. */
static rg_status complete(backward_pass *pass, const told *next)
{
  track *t = next->leaf;
  bool added = next->added || t->flow != NULL;

  RG_TRY(rg_leaf_keep(t));
  rg_flow_set(t, NULL, false);
  pass->telling = added ? t->watch : 0;
  return RG_OK;
}

/* The same at the end of the pass, where nobody is told but the pass that it is part of. */
static rg_status keep_last(backward_pass *pass, track *t)
{
  if ((pass->flags & RG_BACKWARD_HAND_OUT) != 0 || t->flow == NULL) {
    return RG_OK;
  }
  RG_TRY(rg_leaf_keep(t));
  return pass->outer != NULL && t->watch != 0 ? rg_watch_added(pass->outer, t) : RG_OK;
}

static rg_status seed(const rg_tensor *y, const rg_tensor *dy)
{
  track *t = (track *)y->_storage->tracking;
  place end = { .track = t,
                .at = *y,
                .storage_bytes = y->_storage->bytes,
                .offset = (char *)y->_data - (char *)y->_storage->block.data };
  rg_tensor *at;
  rg_status status;

  if (dy != NULL && t->flow == NULL && !rg_tensor_tracked(dy)) {
    /* without a copy where it fits; a view, so that its memory never seems to be ours alone */
    RG_TRY(rg_view(dy, dy->_shape, dy->_ndim, &at));
    status = rg_flow_arrive(&end, at);
    rg_tensor_release(at);
    return status;
  }
  RG_TRY(rg_flow_room(&end));
  RG_TRY(rg_flow_window(&end, &at));
  status = dy != NULL ? rg_copy_(at, dy) : rg_fill_(at, 1);
  rg_tensor_release(at);
  return status;
}

static rg_status check_end(const rg_tensor *y, const rg_tensor *dy)
{
  char a[96];
  char b[96];

  RG_TRY(rg_tensor_check(y, "backward"));
  if (!rg_tensor_tracked(y) || !rg_dtype_is_float(y->_dtype)) {
    return rg_fail(RG_EARG, "backward: no gradient flows through %s",
                   rg_tensor_text(y, a, sizeof(a)));
  }
  if (dy == NULL && y->_count != 1) {
    return rg_fail(RG_ESHAPE,
                   "backward: %s has %lld elements; give the gradient that arrives there",
                   rg_tensor_text(y, a, sizeof(a)), (long long)y->_count);
  }
  if (dy != NULL) {
    RG_TRY(rg_tensor_check(dy, "backward"));
    if (!rg_tensor_shaped(dy, y->_shape, y->_ndim)) {
      return rg_fail(RG_ESHAPE, "backward: the gradient %s does not fit %s",
                     rg_tensor_text(dy, a, sizeof(a)), rg_tensor_text(y, b, sizeof(b)));
    }
  }
  return RG_OK;
}

/* -- The pass, step by step -------------------------------------------------------------------- */

/* Passes that wait for a function's gradient on this thread, and of those the ones that only hand
** gradients out. */
static _Thread_local int32_t waiting;
static _Thread_local int32_t waiting_to_hand_out;

static void count_waiting(const backward_pass *pass, int32_t by)
{
  waiting += by;
  waiting_to_hand_out += (pass->flags & RG_BACKWARD_HAND_OUT) != 0 ? by : 0;
}

rg_status rg_backward_begin(const rg_tensor *y, const rg_tensor *dy, int32_t flags,
                            rg_backward_pass **out)
{
  backward_pass *pass;
  rg_status status;
  int32_t mode;

  RG_TRY(check_end(y, dy));
  if (waiting_to_hand_out > 0 && (flags & RG_BACKWARD_HAND_OUT) == 0) {
    return rg_fail(RG_ENOSUP,
                   "backward: recomputed parts add to .grad, and gradients that are handed out "
                   "leave that alone; use backward");
  }
  pass = rg_host_zeroed(sizeof(*pass));
  if (pass == NULL) {
    return rg_fail(RG_ENOMEM, "backward: no memory to begin");
  }
  pass->number = rg_pass_number();
  pass->flags = flags;
  pass->end = rg_tensor_retain((rg_tensor *)(uintptr_t)y);
  status = rg_pass_collect(pass, (track *)y->_storage->tracking);
  if (status == RG_OK) {
    status = rg_pass_sort(pass);
  }
  if (status == RG_OK && (flags & RG_BACKWARD_HAND_OUT) != 0) {
    status = rg_pass_put_by(pass);
  }
  if (status == RG_OK) {
    status = (flags & RG_BACKWARD_TELL) != 0 && (flags & RG_BACKWARD_HAND_OUT) == 0
                 ? rg_watch_plan(pass)
                 : RG_OK;
  }
  if (status == RG_OK) {
    mode = rg_grad_mode((flags & RG_BACKWARD_CREATE) != 0);
    status = seed(y, dy);
    rg_grad_mode(mode);
  }
  if (status != RG_OK) {
    rg_backward_end(pass);
    return status;
  }
  *out = pass;
  return RG_OK;
}

/* Gradients that are handed out, or have gradients themselves, are new tensors. */
static bool fills_buffers(const backward_pass *pass)
{
  return (pass->flags & (RG_BACKWARD_HAND_OUT | RG_BACKWARD_CREATE)) == 0;
}

rg_status rg_backward_go(rg_backward_pass *pass)
{
  bool use = rg_buffers_use(fills_buffers(pass));
  int32_t mode = rg_grad_mode((pass->flags & RG_BACKWARD_CREATE) != 0);
  int32_t cast = rg_autocast_set(-1); /* the types were settled before */
  rg_status status = RG_OK;

  if (pass->asks) {
    status = rg_fail(RG_EARG, "backward: it waits for the gradient of a function");
  }
  pass->telling = 0;
  while (status == RG_OK) {
    told *next = rg_watch_next(pass);

    if (next != NULL) {
      status = complete(pass, next);
    } else if (pass->at < pass->n) {
      status = pass_node(pass, pass->nodes[pass->at]);
      pass->at += status == RG_OK && !pass->asks;
    } else {
      break;
    }
    if (pass->asks || pass->telling != 0) {
      count_waiting(pass, pass->asks);
      status = RG_ENEEDLUA;
    }
  }
  for (int64_t i = 0; i < pass->n_leaves && status == RG_OK; i++) {
    status = keep_last(pass, pass->leaves[i]);
  }
  rg_autocast_set(cast);
  rg_grad_mode(mode);
  rg_buffers_use(use);
  return status;
}

int64_t rg_backward_leaf(const rg_backward_pass *pass)
{
  return pass->telling;
}

void rg_backward_within(rg_backward_pass *pass, rg_backward_pass *outer)
{
  rg_backward_pass *root = outer->outer != NULL ? outer->outer : outer;

  rg_watch_clear(pass); /* it tells nothing itself */
  pass->outer = (root->flags & RG_BACKWARD_TELL) != 0 ? root : NULL;
}

void rg_backward_set_aside(rg_backward_pass *pass, int32_t aside)
{
  if (pass->asks && pass->aside != (aside != 0)) {
    pass->aside = aside != 0;
    count_waiting(pass, pass->aside ? -1 : 1);
  }
}

int64_t rg_backward_asks(rg_backward_pass *pass, rg_tensor **dout)
{
  if (!pass->asks) {
    return 0;
  }
  for (int32_t i = 0; i < RG_MAX_OUT; i++) {
    dout[i] = pass->dout[i] != NULL ? rg_tensor_retain(pass->dout[i]) : NULL;
  }
  return pass->nodes[pass->at]->function;
}

static rg_status check_given(const node *n, rg_tensor *const *dx, int32_t count)
{
  char a[96];

  if (count != n->call.n_in) {
    return rg_fail(RG_EARG, "backward: a function of %d inputs got %d gradients", n->call.n_in,
                   count);
  }
  for (int32_t i = 0; i < count; i++) {
    const rg_meta *meta = &n->in_meta[i];
    bool same = dx[i] == NULL || (dx[i]->_ndim == meta->ndim && dx[i]->_dtype == meta->dtype);

    for (int32_t k = 0; dx[i] != NULL && same && k < meta->ndim; k++) {
      same = dx[i]->_shape[k] == meta->shape[k];
    }
    if (!same) {
      return rg_fail(RG_ESHAPE, "backward: gradient %d of a function is %s, which its input is not",
                     i + 1, rg_tensor_text(dx[i], a, sizeof(a)));
    }
    if (dx[i] != NULL && n->in[i].wanted && dx[i]->_device != n->in[i].at._device) {
      return rg_fail(RG_EDEVICE, "backward: gradient %d of a function is on %s, its input on %s",
                     i + 1, rg_device_name(dx[i]->_device), rg_device_name(n->in[i].at._device));
    }
  }
  return RG_OK;
}

rg_status rg_backward_give(rg_backward_pass *pass, rg_tensor *const *dx, int32_t count)
{
  node *n;
  int32_t mode;
  rg_status status;

  if (!pass->asks) {
    return rg_fail(RG_EARG, "backward: it does not wait for a gradient");
  }
  n = pass->nodes[pass->at];
  RG_TRY(check_given(n, dx, count));
  mode = rg_grad_mode((pass->flags & RG_BACKWARD_CREATE) != 0);
  bool use = rg_buffers_use(fills_buffers(pass));
  status = arrive_all(n, dx);
  rg_buffers_use(use);
  rg_grad_mode(mode);
  if (status == RG_OK) {
    pass->asks = false;
    count_waiting(pass, -1);
    pass->at++;
    drop_dout(pass);
    if (!keeps(pass)) {
      rg_node_unsave(n);
    }
  }
  return status;
}

rg_status rg_backward_take(rg_backward_pass *pass, const rg_tensor *x, rg_tensor **out)
{
  track *t;

  RG_TRY(rg_tensor_check(x, "grad"));
  t = (track *)x->_storage->tracking;
  if (pass->asks || pass->at < pass->n || t == NULL) {
    *out = NULL;
    return RG_OK;
  }
  return rg_leaf_view(t, t->flow, x, out);
}

const char *rg_backward_line(const rg_backward_pass *pass)
{
  return pass->line;
}

void rg_backward_end(rg_backward_pass *pass)
{
  track *t;

  if (pass == NULL) {
    return;
  }
  if (pass->asks && !pass->aside) {
    count_waiting(pass, -1);
  }
  t = (track *)pass->end->_storage->tracking;
  if (t != NULL && pass->n == 0) {
    rg_flow_set(t, NULL, false);
  }
  drop_dout(pass);
  rg_watch_clear(pass);
  rg_pass_clear(pass);
  rg_tensor_release(pass->end);
  rg_host_free(pass);
}

rg_status rg_backward(const rg_tensor *y, const rg_tensor *dy, int32_t retain)
{
  backward_pass *pass;
  rg_status status;

  RG_TRY(rg_backward_begin(y, dy, retain != 0 ? RG_BACKWARD_RETAIN : 0, &pass));
  status = rg_backward_go(pass);
  if (status == RG_ENEEDLUA) {
    status = rg_fail(RG_ENEEDLUA, "backward: a gradient on the way is a function's, which whoever "
                                  "recorded it has to compute: rg_backward_begin");
  }
  rg_backward_end(pass);
  return status;
}
