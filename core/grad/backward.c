/* SPDX-License-Identifier: MIT */
/*
** The way back: calls in the reverse of the order they ran in, each by its record's rule.
*/
#include <stdlib.h>

#include "grad/node.h"

static int64_t last_way;

/* What one way back has to do. */
typedef struct way {
  int64_t number;
  node **nodes; /* reachable ones */
  int64_t n;
  int64_t room;
  track **leaves;
  int64_t n_leaves;
  int64_t leaf_room;
} way;

/* -- What is on the way --------------------------------------------------------------- */

static rg_status grow(void **list, int64_t n, int64_t *room, size_t size)
{
  int64_t more = *room == 0 ? 64 : 2 * *room;
  void *grown;

  if (n < *room) {
    return RG_OK;
  }
  grown = rg_alloc_injected() ? NULL : realloc(*list, (size_t)more * size);
  if (grown == NULL) {
    return rg_fail(RG_ENOMEM, "backward: no memory for a list of %lld calls", (long long)more);
  }
  *list = grown;
  *room = more;
  return RG_OK;
}

static rg_status add_node(way *w, node *n)
{
  if (n == NULL || n->seen == w->number) {
    return RG_OK;
  }
  RG_TRY(grow((void **)&w->nodes, w->n, &w->room, sizeof(node *)));
  n->seen = w->number;
  n->refs++;
  w->nodes[w->n++] = n;
  return RG_OK;
}

static rg_status add_leaf(way *w, track *t)
{
  if (t == NULL || !t->leaf || t->seen == w->number) {
    return RG_OK;
  }
  RG_TRY(grow((void **)&w->leaves, w->n_leaves, &w->leaf_room, sizeof(track *)));
  t->seen = w->number;
  t->refs++;
  w->leaves[w->n_leaves++] = t;
  return RG_OK;
}

/* Every call that what is asked for came from; the list grows while it is read. */
static rg_status collect(way *w, track *end)
{
  RG_TRY(add_leaf(w, end));
  RG_TRY(add_node(w, end->writer));
  for (int64_t i = 0; i < w->n; i++) {
    node *n = w->nodes[i];

    for (int32_t k = 0; k < n->call.n_in; k++) {
      if (n->in[k].wanted) {
        RG_TRY(add_leaf(w, n->in[k].track));
        RG_TRY(add_node(w, n->in[k].writer));
      }
    }
    for (int32_t k = 0; k < n->n_visible; k++) {
      if (n->out[k].over) {
        RG_TRY(add_leaf(w, n->out[k].track));
        RG_TRY(add_node(w, n->out[k].writer));
      }
    }
  }
  return RG_OK;
}

static int later_first(const void *a, const void *b)
{
  int64_t x = (*(node *const *)a)->order;
  int64_t y = (*(node *const *)b)->order;

  return x < y ? 1 : x > y ? -1 : 0;
}

/* -- What flows ------------------------------------------------------------------------- */

/* The window at p into what has arrived at its storage. */
static rg_status window(const place *p, rg_tensor **out)
{
  return rg_tensor_view_of(p->track->flow->_storage, p->at._dtype, p->at._shape, p->at._stride,
                           p->at._ndim, p->offset, out);
}

static bool fills_storage(const place *p)
{
  return p->offset == 0 && (p->at._flags & RG_TENSOR_CONTIGUOUS) != 0 &&
         p->at._count * rg_dtype_bytes(p->at._dtype) == p->storage_bytes;
}

static void set_flow(track *t, rg_tensor *flow, bool own)
{
  rg_tensor_release(t->flow);
  t->flow = flow;
  t->flow_own = own;
}

/* Make sure that flow is there and may be written to. */
static rg_status own_flow(const place *p)
{
  track *t = p->track;
  rg_tensor *flow = NULL;

  if (t->flow == NULL) {
    int64_t n = p->storage_bytes / rg_dtype_bytes(p->at._dtype);

    RG_TRY(rg_empty(p->at._dtype, p->at._device, &n, 1, &flow));
    set_flow(t, flow, true);
    return rg_fill_(flow, 0);
  }
  if (!t->flow_own) {
    RG_TRY(rg_clone(t->flow, &flow));
    set_flow(t, flow, true);
  }
  return RG_OK;
}

/* Could dx serve as the gradient of the whole storage at p? */
static bool may_take(const place *p, const rg_tensor *dx)
{
  return fills_storage(p) && rg_is_contiguous(dx) && dx->_dtype == p->at._dtype &&
         dx->_storage->bytes == p->storage_bytes && dx->_data == dx->_storage->block.data;
}

/* Add dx to what has arrived at p. */
static rg_status arrive(const place *p, rg_tensor *dx)
{
  track *t = p->track;
  rg_tensor *at;
  rg_tensor *sum;
  rg_status status;

  if (t->flow == NULL && may_take(p, dx)) {
    set_flow(t, rg_tensor_retain(dx), false);
    return RG_OK;
  }
  if (t->flow != NULL && !t->flow_own && fills_storage(p)) {
    RG_TRY(window(p, &at));
    status = rg_add(at, dx, &sum);
    rg_tensor_release(at);
    if (status == RG_OK) {
      set_flow(t, sum, true);
    }
    return status;
  }
  bool first = t->flow == NULL;

  RG_TRY(own_flow(p));
  RG_TRY(window(p, &at));
  status = first ? rg_copy_(at, dx) : rg_add_(at, dx); /* zeros lie around, or what came before */
  rg_tensor_release(at);
  return status;
}

/* Take what has arrived at a result; NULL where nothing has. */
static rg_status take(const place *p, rg_tensor **out)
{
  track *t = p->track;
  rg_tensor *at;
  rg_status status;

  *out = NULL;
  if (t == NULL || t->flow == NULL) {
    return RG_OK;
  }
  if (!p->over) {
    return window(p, out);
  }
  RG_TRY(own_flow(p)); /* what was there before was overwritten: nothing goes on from here */
  RG_TRY(window(p, &at));
  status = rg_clone(at, out);
  if (status == RG_OK) {
    status = rg_fill_(at, 0);
  }
  rg_tensor_release(at);
  return status;
}

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
  if (n->spent) {
    return rg_fail(RG_EARG,
                   "%s: backward has passed here and let go of what it had saved; give it retain "
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

/* Run the rule and hand on what it gives. */
static rg_status run_rule(node *n, rg_tensor *const *dout, rg_tensor **dx, bool *needs)
{
  rg_tensor *out[RG_MAX_OUT] = { 0 };
  rg_grad g = {
    .call = &n->call, .in = n->in_meta, .out = out, .dout = dout, .needs = needs, .dx = dx
  };

  RG_TRY(check_node(n));
  for (int32_t i = 0; i < n->call.n_out; i++) {
    out[i] = n->out[i].saved ? &n->out[i].at : NULL;
  }
  for (int32_t i = 0; i < n->call.n_in; i++) {
    needs[i] = n->in[i].wanted;
  }
  RG_TRY(n->call.op->grad(&g));
  for (int32_t i = 0; i < n->call.n_in; i++) {
    if (dx[i] != NULL && n->in[i].wanted) {
      RG_TRY(arrive(&n->in[i], dx[i]));
    }
  }
  return RG_OK;
}

static rg_status hand_on(node *n, rg_tensor *const *dout)
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
    status = run_rule(n, dout, dx, needs);
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

static rg_status pass(node *n, bool retain)
{
  rg_tensor *dout[RG_MAX_OUT] = { 0 };
  rg_status status = RG_OK;
  bool any = false;
  bool wanted = false;

  for (int32_t i = 0; i < n->call.n_in; i++) {
    wanted = wanted || n->in[i].wanted;
  }
  for (int32_t i = 0; i < n->n_visible && status == RG_OK; i++) {
    status = take(&n->out[i], &dout[i]);
    any = any || dout[i] != NULL;
  }
  for (int32_t i = 0; i < n->n_visible; i++) {
    if (n->out[i].track != NULL && !n->out[i].over) {
      set_flow(n->out[i].track, NULL, false); /* dout holds what is left of it */
    }
  }
  if (status == RG_OK && any && wanted) {
    status = hand_on(n, dout);
  }
  for (int32_t i = 0; i < n->n_visible; i++) {
    rg_tensor_release(dout[i]);
  }
  if (!retain && status == RG_OK) {
    rg_node_unsave(n);
  }
  return status;
}

/* -- All of them ---------------------------------------------------------------------------- */

/* What has arrived at a leaf becomes, or is added to, its gradient. */
static rg_status keep(track *t)
{
  rg_status status = RG_OK;

  if (t->flow == NULL) {
    return RG_OK;
  }
  if (t->grad == NULL) {
    rg_tensor *grad = NULL;

    /* a gradient is written to by whoever clips or zeroes it: it must be the leaf's alone */
    if (t->flow_own || (t->flow->_refs == 1 && atomic_load(&t->flow->_storage->strong) == 1)) {
      grad = rg_tensor_retain(t->flow);
    } else {
      status = rg_clone(t->flow, &grad);
    }
    t->grad = grad;
  } else {
    int64_t shape[] = { t->grad->_count };
    rg_tensor *a = NULL;
    rg_tensor *b = NULL;

    status = rg_view(t->grad, shape, 1, &a);
    if (status == RG_OK) {
      status = rg_view(t->flow, shape, 1, &b);
    }
    if (status == RG_OK) {
      status = rg_add_(a, b);
    }
    rg_tensor_release(a);
    rg_tensor_release(b);
  }
  return status;
}

static void clear(way *w)
{
  for (int64_t i = 0; i < w->n; i++) {
    node *n = w->nodes[i];

    for (int32_t k = 0; k < n->call.n_in; k++) {
      if (n->in[k].track != NULL) {
        set_flow(n->in[k].track, NULL, false);
      }
    }
    for (int32_t k = 0; k < n->n_visible; k++) {
      if (n->out[k].track != NULL) {
        set_flow(n->out[k].track, NULL, false);
      }
    }
  }
  for (int64_t i = 0; i < w->n_leaves; i++) {
    set_flow(w->leaves[i], NULL, false);
    rg_track_release(w->leaves[i]);
  }
  for (int64_t i = 0; i < w->n; i++) {
    rg_node_release(w->nodes[i]);
  }
  free(w->nodes);
  free(w->leaves);
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

  RG_TRY(own_flow(&end));
  RG_TRY(window(&end, &at));
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
    bool same = dy->_ndim == y->_ndim;

    RG_TRY(rg_tensor_check(dy, "backward"));
    for (int32_t i = 0; same && i < y->_ndim; i++) {
      same = y->_shape[i] == dy->_shape[i];
    }
    if (!same) {
      return rg_fail(RG_ESHAPE, "backward: the gradient %s does not fit %s",
                     rg_tensor_text(dy, a, sizeof(a)), rg_tensor_text(y, b, sizeof(b)));
    }
  }
  return RG_OK;
}

rg_status rg_backward(const rg_tensor *y, const rg_tensor *dy, int32_t retain)
{
  way w = { 0 };
  int32_t mode;
  int32_t cast;
  rg_status status;

  RG_TRY(check_end(y, dy));
  w.number = __atomic_add_fetch(&last_way, 1, __ATOMIC_RELAXED);
  mode = rg_grad_mode(0);
  cast = rg_autocast_set(-1); /* the types were settled on the way here */
  status = collect(&w, (track *)y->_storage->tracking);
  if (status == RG_OK) {
    if (w.n > 0) {
      qsort(w.nodes, (size_t)w.n, sizeof(node *), later_first);
    }
    status = seed(y, dy);
  }
  for (int64_t i = 0; i < w.n && status == RG_OK; i++) {
    status = pass(w.nodes[i], retain != 0);
  }
  for (int64_t i = 0; i < w.n_leaves && status == RG_OK; i++) {
    status = keep(w.leaves[i]);
  }
  clear(&w);
  if (w.n == 0) {
    set_flow((track *)y->_storage->tracking, NULL, false);
  }
  rg_autocast_set(cast);
  rg_grad_mode(mode);
  return status;
}
