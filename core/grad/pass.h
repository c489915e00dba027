/* SPDX-License-Identifier: MIT */
/*
** A backward pass: the calls that its root depends on.
*/
#ifndef RIDGE_GRAD_PASS_H
#define RIDGE_GRAD_PASS_H

#include "grad/node.h"

/* A leaf whose watcher is told when its gradient is complete (watch.c). */
typedef struct told {
  track *leaf;
  int64_t done; /* the last of the pass's calls that may add to its gradient; -1: none may */
  bool added;   /* a pass that is part of this one has added to its gradient */
} told;

/* The gradient under way of another pass, which waits meanwhile. */
typedef struct others {
  track *track;
  rg_tensor *flow;
  bool own;
} others;

/* What one backward pass has to do. */
struct rg_backward_pass {
  int64_t number;
  node **nodes; /* reachable ones */
  int64_t n;
  int64_t room;
  int64_t at; /* the next one to pass */
  bool moves; /* some of them are moves between devices */
  track **leaves;
  int64_t n_leaves;
  int64_t leaf_room;
  int32_t flags;
  rg_tensor *end; /* the root; borrowed while the pass lasts */
  /* while a function's gradient is asked for: the incoming gradients of its results */
  rg_tensor *dout[RG_MAX_OUT];
  bool asks;
  bool aside;       /* whoever is asked waits, and others compute meanwhile */
  const char *line; /* of the call whose gradient made the first number that is not finite */
  /* with RG_BACKWARD_HAND_OUT */
  others *others;
  int64_t n_others;
  int64_t others_room;
  /* with RG_BACKWARD_TELL */
  told *told; /* in the order they will be complete in */
  int64_t n_told;
  int64_t told_room;
  int64_t told_at;    /* the next one */
  int64_t telling;    /* the number of the leaf that is complete now; else 0 */
  int64_t last_inner; /* the last call that runs passes which are part of this one; -1: none */
  struct rg_backward_pass *outer; /* the pass that this one is part of, and that tells for it */
};

typedef struct rg_backward_pass backward_pass;

/* A number no pass had before. */
int64_t rg_pass_number(void);

/* Every call that what is asked for came from, and the leaves. */
rg_status rg_pass_collect(backward_pass *pass, track *end) RG_CHECK;

/* In the reverse of the order they ran in, but moves between devices as early as they can. */
rg_status rg_pass_sort(backward_pass *pass) RG_CHECK;

/* Where moves go in a pass that is in the reverse of the order it ran in (early.c). */
rg_status rg_pass_hasten(backward_pass *pass) RG_CHECK;

/* Gradients under way of passes that wait are put by, so that what this one hands out is its own;
** rg_pass_clear puts them back. */
rg_status rg_pass_put_by(backward_pass *pass) RG_CHECK;

/* Release them, and the gradients under way. */
void rg_pass_clear(backward_pass *pass);

/* One more place in a list. */
rg_status rg_pass_grow(void **list, int64_t n, int64_t *room, size_t size) RG_CHECK;

/* -- Leaves that are watched (watch.c) --------------------------------------------------------- */

/* When the gradient of each will be complete; behind rg_pass_sort. */
rg_status rg_watch_plan(backward_pass *pass) RG_CHECK;

/* The next leaf that nothing left in the pass adds to; NULL where there is none yet. */
told *rg_watch_next(backward_pass *pass);

/* A pass that is part of this one has added to a leaf's gradient. */
rg_status rg_watch_added(backward_pass *pass, track *leaf) RG_CHECK;

void rg_watch_clear(backward_pass *pass);

#endif
