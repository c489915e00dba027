/* SPDX-License-Identifier: MIT */
/*
** A way back: the calls that what it begins at came from.
*/
#ifndef RIDGE_GRAD_WAY_H
#define RIDGE_GRAD_WAY_H

#include "grad/node.h"

/* What one way back has to do. */
struct rg_way {
  int64_t number;
  node **nodes; /* reachable ones */
  int64_t n;
  int64_t room;
  int64_t at; /* the next one to pass */
  track **leaves;
  int64_t n_leaves;
  int64_t leaf_room;
  int32_t flags;
  rg_tensor *end; /* what it began at; borrowed while the way lasts */
  /* while a function's gradient is asked for: what arrived at its results */
  rg_tensor *dout[RG_MAX_OUT];
  bool asks;
  bool aside;    /* whoever is asked waits, and others compute meanwhile */
  int64_t where; /* of the call whose gradient made the first number that is not finite */
};

typedef struct rg_way way;

/* A number no way had before. */
int64_t rg_way_number(void);

/* Every call that what is asked for came from, and the leaves. */
rg_status rg_way_collect(way *w, track *end) RG_CHECK;

/* In the reverse of the order they ran in. */
void rg_way_sort(way *w);

/* Let go of them, and of what was flowing. */
void rg_way_clear(way *w);

#endif
