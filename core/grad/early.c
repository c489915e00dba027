/* SPDX-License-Identifier: MIT */
/*
** Moves between devices in a backward pass, as early as they can be.
**
** Parameters of a replica are moved to their device before anything is computed there, so that in
** the reverse order all their gradients would come back at the end of the pass.  Each may come back
** as soon as the last call of the replica that reads the parameter has passed: the reduction of one
** layer runs while the layers before it are still to pass, and the leaf is complete then.
**
** The bits are those of the reverse order, because what is added to one gradient is added in the
** same order: a move stays behind the calls before it that read or write what it came from.  It
** stays behind calls that run passes of their own, too (recomputation), which may add to anything.
*/
#include <stdlib.h>

#include "grad/pass.h"

/* A move, and the place of the call that it goes behind; -1: before all. */
typedef struct early {
  node *move;
  int64_t behind;
  int64_t at; /* in the reverse order */
} early;

static int64_t last_of(const backward_pass *pass, const place *p)
{
  return p->track != NULL && p->track->met == pass->number ? p->track->last : -1;
}

static void meet(const backward_pass *pass, const place *p, int64_t at)
{
  if (p->track != NULL) {
    p->track->last = rg_max_i64(at, last_of(pass, p));
    p->track->met = pass->number;
  }
}

/* Where each of the moves goes. */
static void place_moves(const backward_pass *pass, early *list)
{
  int64_t inner = -1;
  int64_t n = 0;

  for (int64_t i = 0; i < pass->n; i++) {
    node *c = pass->nodes[i];
    int64_t at = i;

    inner = c->goes_back ? i : inner;
    if (c->call.op->moves) {
      at = rg_max_i64(inner, rg_max_i64(last_of(pass, &c->in[0]), last_of(pass, &c->out[0])));
      list[n++] = (early){ .move = c, .behind = at, .at = i };
    }
    for (int32_t k = 0; k < c->call.n_in; k++) {
      meet(pass, &c->in[k], at);
    }
    for (int32_t k = 0; k < c->n_visible; k++) {
      meet(pass, &c->out[k], at);
    }
  }
}

static int earlier_first(const void *a, const void *b)
{
  const early *x = a;
  const early *y = b;

  if (x->behind != y->behind) {
    return x->behind < y->behind ? -1 : 1;
  }
  return x->at < y->at ? -1 : x->at > y->at ? 1 : 0;
}

rg_status rg_pass_hasten(backward_pass *pass)
{
  early *list;
  node **nodes;
  int64_t n = 0;
  int64_t next = 0;
  int64_t to = 0;

  for (int64_t i = 0; i < pass->n; i++) {
    n += pass->nodes[i]->call.op->moves;
  }
  list = rg_host_alloc((size_t)n * sizeof(*list));
  nodes = rg_host_alloc((size_t)pass->n * sizeof(*nodes));
  if (list == NULL || nodes == NULL) {
    rg_host_free(list);
    rg_host_free(nodes);
    return rg_fail(RG_ENOMEM, "backward: no memory for the order of %lld calls",
                   (long long)pass->n);
  }
  place_moves(pass, list);
  qsort(list, (size_t)n, sizeof(*list), earlier_first);
  for (int64_t i = -1; i < pass->n; i++) {
    if (i >= 0 && !pass->nodes[i]->call.op->moves) {
      nodes[to++] = pass->nodes[i];
    }
    while (next < n && list[next].behind == i) {
      nodes[to++] = list[next++].move;
    }
  }
  for (int64_t i = 0; i < pass->n; i++) {
    pass->nodes[i] = nodes[i];
  }
  rg_host_free(list);
  rg_host_free(nodes);
  return RG_OK;
}
