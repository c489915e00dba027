/* SPDX-License-Identifier: MIT */
/*
** A backward pass: the calls that its root depends on.
*/
#ifndef RIDGE_GRAD_PASS_H
#define RIDGE_GRAD_PASS_H

#include "grad/node.h"

/* What one backward pass has to do. */
struct rg_backward_pass {
  int64_t number;
  node **nodes; /* reachable ones */
  int64_t n;
  int64_t room;
  int64_t at; /* the next one to pass */
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
};

typedef struct rg_backward_pass backward_pass;

/* A number no pass had before. */
int64_t rg_pass_number(void);

/* Every call that what is asked for came from, and the leaves. */
rg_status rg_pass_collect(backward_pass *pass, track *end) RG_CHECK;

/* In the reverse of the order they ran in. */
void rg_pass_sort(backward_pass *pass);

/* Release them, and the gradients under way. */
void rg_pass_clear(backward_pass *pass);

#endif
