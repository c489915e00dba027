/* SPDX-License-Identifier: MIT */
/*
** Plans: calls captured once and replayed from C, without Lua, allocation or first-call work.
**
** A plan reads what lies in its input tensors at replay time and writes into its own buffers; its
** outputs live until the next replay.  Whatever is to change between replays is a tensor (write
** into it) or a random stream (which moves on).
*/
#ifndef RIDGE_GRAPH_H
#define RIDGE_GRAPH_H

#include "ridge/choice.h"
#include "ridge/op.h"

typedef struct rg_plan rg_plan;

/* Begin to capture this thread's calls; they run as usual.  RG_ECAPTURE when one is under way. */
RG_API rg_status rg_capture_begin(void) RG_CHECK;

/* End the capture and make the plan.  out: new reference.  RG_ECAPTURE without a capture. */
RG_API rg_status rg_capture_end(rg_plan **out) RG_CHECK;

/* Throw the capture away, if there is one. */
RG_API void rg_capture_cancel(void);

/* 1 while this thread captures. */
RG_API int32_t rg_capturing(void);

/*
** Go on with a capture that was set aside, or, with NULL, set the one under way aside: calls run as
** if there were none.
**
** plan     what this function returned, once; it may be released instead
** returns the capture that was under way, NULL if none was
*/
RG_API rg_plan *rg_capture_swap(rg_plan *plan);

/*
** Run a plan n times.  Each step runs under the modes it was captured under (rg_device_modes,
** rg_set_gemm_path), whatever is set now; of "auto" the path is chosen when the step first runs.
**
** A GPU does all of it as one graph from the replay on that finds that every step has run before on
** the same stream: the first or the second one.  The graph goes on running on its stream whatever
** stream the caller is on.
**
** plan     plans that share weights may run side by side on several threads; one plan may not
** n        0 or more
** RG_EINTR when a request came between two runs or steps; RG_EARG, also while another thread runs
** the plan; RG_ECAPTURE while this thread captures, and where the modes that are set now are
** deterministic, and those of a step are not and its results may vary from run to run.
*/
RG_API rg_status rg_plan_replay(rg_plan *plan, int64_t n) RG_CHECK;

RG_API rg_plan *rg_plan_retain(rg_plan *plan);
RG_API void rg_plan_release(rg_plan *plan);

/* What a plan is made of. */
typedef struct rg_plan_facts {
  int64_t n_steps;
  int64_t buffer_bytes; /* reserved by the plan for what its steps write and its kernels work in; of
                        ** what the latter take in the first run most is known before */
  int64_t live_bytes;   /* of a graph's plan on the CPU: the most that lives at one time, scratch of
                        ** its kernels and outputs included, but not what derived steps make: no
                        ** layout is smaller.  0: it was not laid out */
  int64_t kept_bytes;   /* what its derived steps make, in the buffers as long as the plan lives */
  double flops;         /* of one replay, by the records' cost */
  double bytes;
  int32_t device;        /* of all steps; -1: of several, or there are none */
  int32_t device_graph;  /* 1: its device runs all of it as a CUDA graph; 0: step by step, or not
                  ** replayed often enough yet */
  int32_t stream;        /* that the CUDA graph runs on; -1: on the caller's */
  char why[160];         /* why it cannot be captured as a CUDA graph; empty where nobody tried */
  rg_device_modes modes; /* its first step runs under; those of the process where there is none */
  int32_t gemm;          /* the same: RG_GEMM_... */
  int32_t mixed;         /* 1: other steps run under others */
} rg_plan_facts;

/* out: filled. */
RG_API rg_status rg_plan_facts_of(const rg_plan *plan, rg_plan_facts *out) RG_CHECK;

/* Operation names of the first n steps, in one go.  names: filled, and with NULL behind the last
** step.  RG_EARG. */
RG_API rg_status rg_plan_step_names(const rg_plan *plan, const char **names, int64_t n) RG_CHECK;

/* How a step is computed. */
typedef struct rg_plan_way {
  int64_t step;       /* from 0 */
  const char *op;     /* the operation's name */
  const char *path;   /* what computed it, as it names itself; "": it has one way, or has not run */
  const char *module; /* whose call it was in; NULL: none */
  int32_t by;         /* what chose the path of a product; RG_BY_NONE: it has none */
  rg_choice choice;   /* the product, and what is known of it by now; where by is not RG_BY_NONE */
} rg_plan_way;

/* How the steps of a plan are computed: one entry a step, of several products one entry each.
** out: the first n of them.  Returns how many there are. */
RG_API int64_t rg_plan_ways(const rg_plan *plan, rg_plan_way *out, int64_t n);

/* 1: every step has run, and its path is chosen. */
RG_API int32_t rg_plan_prepared(const rg_plan *plan);

#endif
