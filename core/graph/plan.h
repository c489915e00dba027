/* SPDX-License-Identifier: MIT */
/*
** What a plan is made of.  capture.c fills it, replay.c runs it.
*/
#ifndef RIDGE_GRAPH_PLAN_H
#define RIDGE_GRAPH_PLAN_H

#include <stdatomic.h>

#include "op/op.h"
#include "ridge/graph.h"

/*
** One captured call.  Its tensors are frozen copies: shapes, strides and addresses never change
** again, so nothing is worked out at replay.
*/
typedef struct step {
  struct step *next;
  rg_kernel *kernel;
  rg_call call; /* in and args point into this block */
  rg_frame frame;
  rg_memo *memo;
  rg_generator *generator; /* held, for calls that draw */
  rg_tensor **out;
  rg_tensor *tensors; /* the inputs that are there, then the results */
  int32_t n_tensors;
} step;

struct rg_plan {
  _Atomic int64_t refs;
  step *first;
  step **last;
  int64_t n_steps;
  rg_arena *arena; /* what the steps write into */
  double flops;
  double bytes;
};

/* A plan without steps. */
rg_status rg_plan_new(rg_plan **out) RG_CHECK;

/* Copy a call into a new step at the plan's end; the tensors' storage is held. */
rg_status rg_plan_add(rg_plan *plan, const rg_call *call, rg_kernel *kernel, rg_tensor *const *out,
                      step **added) RG_CHECK;

/* Take the step that was added last away again. */
void rg_plan_drop_last(rg_plan *plan);

#endif
