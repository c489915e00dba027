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
  rg_generator *generator;    /* held, for calls that draw */
  const struct step *repeats; /* an earlier one, whose numbers it draws again; NULL: its own */
  uint64_t *derived_of;  /* of a derived step, by input: the version it ran on; NULL: no such */
  bool derived_is_there; /* and it did run */
  int32_t at; /* when it was captured, by the layout of the plan's arena; below 0: there is none */
  const char *module; /* whose call it was in (ridge/ring.h); NULL: none */
  rg_observed observed;
  rg_modes modes; /* that it was captured under, and runs under */
  rg_tensor **out;
  rg_tensor *tensors; /* the inputs that are there, then the results */
  int32_t n_tensors;
} step;

/* What a device keeps of a plan to run all of it as a CUDA graph (device_graph.c). */
typedef struct rg_device_graph {
  void *handle;   /* the driver's; NULL: not yet, or it cannot be had */
  int32_t stream; /* that it was captured on and runs on */
  bool refused;   /* it cannot be had as steps ran last: they run one by one */
  rg_block draws; /* on the device: each one's numbers at the next replay */
  rg_draw *next;  /* here: the same; NULL: no step draws */
  char why[160];  /* it was refused */
} rg_device_graph;

struct rg_plan {
  _Atomic int64_t refs;
  int32_t number; /* plans are numbered from 1, for who looks on */
  step *first;
  step **last;
  step *drew; /* the last one that draws; NULL: none */
  int64_t n_steps;
  rg_arena *arena;     /* what the steps write into */
  rg_arena *workspace; /* of steps that first ran in a replay, and what derived ones make; NULL:
                       ** there was none */
  atomic_bool running; /* a thread replays it */
  bool prepared;       /* every step has run: what kernels keep for one is there */
  int32_t device;      /* of all steps; -1: of several, or none yet */
  bool several;        /* devices */
  bool pinned;         /* some tensor is, and copies into it may be under way */
  bool mixed;          /* not all steps were captured under the same modes */
  bool derives;        /* some step is derived; known once the plan is prepared */
  int32_t warm;        /* the stream that all steps ran on last: what kernels keep for it (a library
                       ** that was started, workspaces, algorithms that were timed) is there; -1:
                       ** they did not all run, or not all alike */
  const step *varies;  /* the first that may give other bits from run to run; NULL: none does */
  rg_device_graph device_graph;
  double flops;
  double bytes;
  struct rg_graph *graph; /* it was made of, held, as it was then; NULL: it was captured */
  rg_tensor **outputs;    /* of the graph, held, and NULL behind them */
};

/* A plan without steps. */
rg_status rg_plan_new(rg_plan **out) RG_CHECK;

/* The next plan may have its number, where no other one was made since. */
void rg_plan_unnumber(const rg_plan *plan);

/* Throw a capture away that nobody heard of. */
void rg_capture_forget(void);

/* Keep what a clone is made of (clone.c): the graph, copied, and its outputs.  RG_ENOMEM: the plan
** is to be released. */
rg_status rg_plan_remember(rg_plan *plan, struct rg_graph *graph,
                           rg_tensor *const *outputs) RG_CHECK;
void rg_plan_forget(rg_plan *plan);

/* Copy a call into a new step at the plan's end; the tensors' storage is held. */
rg_status rg_plan_add(rg_plan *plan, const rg_call *call, rg_kernel *kernel, rg_tensor *const *out,
                      step **added) RG_CHECK;

/* A step is derived: a replay leaves it out while nothing has written to what it reads.  It writes
** into memory of rg_capture_keeps.  RG_ENOMEM. */
rg_status rg_step_derives(step *s) RG_CHECK;

/* Until rg_arena_swap to what was current before, memory of this thread is that of the captured
** plan's workspace: what a step of it reads or writes serves nothing else while the plan lives.
** before: out.  RG_ENOMEM. */
rg_status rg_capture_keeps(rg_arena **before) RG_CHECK;

/* Of the plan that is captured on this thread the last step; NULL: none. */
step *rg_capture_last(void);

/* Of the plan that is captured on this thread the step that drew last; NULL: none. */
step *rg_capture_drew(void);

/* What a kernel cannot know of a run: the next random numbers, or those of the step it repeats. */
void rg_step_draw(step *s);

/* And that something was written. */
void rg_step_wrote(const step *s);

/* Can the plan run as a CUDA graph?  Captured first where it was not and its steps ran as they
** would run now. */
bool rg_device_graph_ready(rg_plan *plan);

/* All steps ran one by one, just now and here. */
void rg_plan_warmed(rg_plan *plan);

/* One step more did, in a capture. */
void rg_plan_warms(rg_plan *plan);

/* Some step has not run as it is now: the next replay is its first run. */
void rg_plan_cools(rg_plan *plan);

/* Run it so, once. */
rg_status rg_device_graph_run(rg_plan *plan) RG_CHECK;

void rg_device_graph_release(rg_plan *plan);

/* Release what a step's kernel keeps: its next run is its first. */
void rg_step_forget(step *s);

/* Release a step that is in no list any more. */
void rg_plan_drop(rg_plan *plan, step *s);

/* Take the step that was added last away again. */
void rg_plan_drop_last(rg_plan *plan);

#endif
