/* SPDX-License-Identifier: MIT */
/*
** Graphs: what a function computes, as values and nodes.
**
** A value is what one version of a storage holds, seen through one view; a node is a call of an
** operation.  Both are numbered from 0 and keep their numbers while the graph is edited; a copy
** numbers them anew, without gaps, in the order of the nodes.
*/
#ifndef RIDGE_IR_H
#define RIDGE_IR_H

#include "ridge/graph.h"
#include "ridge/schema.h"

typedef struct rg_graph rg_graph;
typedef struct rg_recording rg_recording;

/* Where a value comes from. */
enum {
  RG_VALUE_INPUT,        /* there before the recording, and read anew at every run */
  RG_VALUE_PARAMETER,    /* the same, of a module */
  RG_VALUE_CONSTANT,     /* numbers of the graph's own */
  RG_VALUE_STATE,        /* as an input, and written to by the graph */
  RG_VALUE_INTERMEDIATE, /* made by a node */
  RG_VALUE_KIND_COUNT
};

/* Why a value is an output. */
enum {
  RG_OUTPUT_RETURNED, /* by the function */
  RG_OUTPUT_GRADIENT, /* held by its parameter */
  RG_OUTPUT_KEPT,     /* held outside by somebody else */
  RG_OUTPUT_KIND_COUNT
};

/* What a node was recorded under.  A plan of the graph (rg_graph_plan) runs it under the same,
** whatever is set then and at a replay; compute and weight_cast come of autocast. */
typedef struct rg_graph_modes {
  int32_t compute;       /* type that the call computed in (rg_call.compute); -1: as inputs come */
  int32_t weight_cast;   /* type that weights were read in; -1: their own */
  int32_t autocast;      /* the thread's setting; -1: off */
  int32_t layout;        /* of images, that the pass channels_last is to give it: RG_NCHW, RG_NHWC;
                         ** -1: that which it finds best */
  int32_t vendor;        /* as in rg_device_modes */
  int32_t autotune;      /* ... */
  int32_t deterministic; /* ... */
  int32_t tf32;          /* ... */
  int32_t gemm;          /* path of products on the CPU, RG_GEMM_... (rg_set_gemm_path) */
} rg_graph_modes;

/* A value, for readers. */
typedef struct rg_graph_value {
  int64_t shape[8];
  int32_t dtype;
  int32_t ndim;
  int32_t device;
  int32_t kind;     /* RG_VALUE_... */
  int32_t storage;  /* storages of a graph are numbered from 0 */
  int32_t version;  /* of that storage: each write makes the next one */
  int32_t was;      /* the value that was there before, where a write made this; else -1 */
  int32_t producer; /* node; -1: none */
  int32_t result;   /* which output of it */
  int32_t n_uses;   /* inputs of nodes, and outputs of the graph */
  const char *name; /* "conv1.weight"; "" for none.  Borrowed */
} rg_graph_value;

/* A node, for readers; what is pointed to is borrowed until the graph changes. */
typedef struct rg_graph_node {
  const char *name;       /* of the operation */
  const char *module;     /* "encoder.3.mlp"; "" for none */
  const char *line;       /* "user.lua:12"; "" for none */
  const int32_t *inputs;  /* values; -1 where one is left out */
  const int32_t *outputs; /* values; -1 where a result was not made */
  const void *args;       /* the struct of the operation, as its schema describes it */
  int32_t op;             /* index of the operation (rg_op_facts_of); -1: of none in the list */
  int32_t n_inputs;
  int32_t n_outputs;
  int32_t n_results;  /* of the outputs, those by the record; behind them later versions of what it
                      ** wrote to */
  int32_t parent;     /* the compound whose body it is in; -1: none */
  int32_t n_body;     /* nodes behind it that are its body, nested ones too */
  int32_t position;   /* of a compound: where it stands in the order; else -1 */
  int32_t recomputed; /* 1: it runs again what ran before, to save memory */
  int32_t generator;  /* of what it draws from: 0 the default stream, else numbered; -1: no draws */
  int32_t repeats;    /* the node of its first run, whose random numbers it takes; -1: none */
  double flops;       /* by the record's cost */
  double bytes;
  rg_graph_modes modes;
} rg_graph_node;

/* How large a graph is.  Numbers of nodes and values lie below n_node_ids and n_value_ids. */
typedef struct rg_graph_facts {
  int32_t n_nodes;
  int32_t n_values;
  int32_t n_node_ids;
  int32_t n_value_ids;
  int32_t n_inputs;
  int32_t n_outputs;
  int32_t n_states;
  int32_t n_storages;
  int32_t n_calls; /* nodes that are no views and no compounds: calls of kernels, but not of
                   ** memory that nobody wrote */
  int32_t n_draws; /* nodes that draw */
  double flops;    /* of all nodes that are no compounds */
  double bytes;
} rg_graph_facts;

RG_API rg_graph *rg_graph_retain(rg_graph *graph);
RG_API void rg_graph_release(rg_graph *graph);

/* A copy of its own, numbered without gaps.  graph: means the same as before; out: new reference.
** RG_ENOMEM. */
RG_API rg_status rg_graph_copy(rg_graph *graph, rg_graph **out) RG_CHECK;

/* out: filled. */
RG_API void rg_graph_facts_of(const rg_graph *graph, rg_graph_facts *out);

/* The nodes in their order.  n: how many; borrowed until the graph changes.  NULL: no memory. */
RG_API const int32_t *rg_graph_order(rg_graph *graph, int32_t *n);

/* Whose results a plan of the graph keeps: nodes that passes derived from parameters, which run
** again only where something wrote to what they read.  kept: out, 1 or 0 by node, n_node_ids of
** them.  RG_ENOMEM. */
RG_API rg_status rg_graph_kept(const rg_graph *graph, uint8_t *kept) RG_CHECK;

/* A node.  node: its number; out: filled.  RG_EARG where there is none of this number. */
RG_API rg_status rg_graph_node_of(rg_graph *graph, int32_t node, rg_graph_node *out) RG_CHECK;

/* A value.  value: its number; out: filled.  RG_EARG where there is none of this number. */
RG_API rg_status rg_graph_value_of(const rg_graph *graph, int32_t value,
                                   rg_graph_value *out) RG_CHECK;

/* Node that reads a value.  value: its number; i: which of them, from 0; -1 is an output of the
** graph, and what comes after the last one. */
RG_API int32_t rg_graph_use(const rg_graph *graph, int32_t value, int32_t i);

/* The i-th input of the graph, output, state (its first version), from 0: a value; -1 behind the
** last one. */
RG_API int32_t rg_graph_input(const rg_graph *graph, int32_t i);
RG_API int32_t rg_graph_state(const rg_graph *graph, int32_t i);

/* The same of an output.  i: from 0; kind: RG_OUTPUT_..., name, line: out, where not NULL. */
RG_API int32_t rg_graph_output(const rg_graph *graph, int32_t i, int32_t *kind, const char **name,
                               const char **line);

/* -- Recording: while a plan is captured (ridge/graph.h) -------------------------------- */

/* Record from now on.  in_place: 1: plans of the graph write what is returned into the very tensors
** that were; 0: into tensors of their own.  RG_ECAPTURE outside a capture, and while something is
** recorded. */
RG_API rg_status rg_record_begin(int32_t in_place) RG_CHECK;

/* x is an output of the graph that is recorded; a gradient only where the recording made it or
** wrote to it.  kind: RG_OUTPUT_...; name: NULL for none. */
RG_API rg_status rg_record_output(const rg_tensor *x, int32_t kind, const char *name) RG_CHECK;

/* What was made since the recording began and is held by somebody now, by a reference of C, of Lua
** or of the tape, is an output of kind RG_OUTPUT_KEPT, where it is none yet: plans write it into
** the very memory that is held.  To be called when what is not needed was released.  RG_ECAPTURE
** outside a recording, RG_ENOMEM. */
RG_API rg_status rg_record_kept(void) RG_CHECK;

/* How many tensors that would become such outputs now: 0 says that there is nothing to collect
** before rg_record_kept.  0 where nothing is recorded, too. */
RG_API int32_t rg_record_held(void);

/* How many writes to what was there before were recorded so far: who calls a function once more
** that failed in a recording would write again.  0 where nothing is recorded. */
RG_API int32_t rg_record_wrote(void);

/* x, which is there before what is recorded, is an input of the graph from now on, also where
** nothing reads it.  name: NULL for none. */
RG_API rg_status rg_record_input(const rg_tensor *x, const char *name) RG_CHECK;

/* x, a tensor that was there before the recording and belongs to a module, has this name, and is a
** parameter unless rg_record_input named it.  Nothing happens where no call read or wrote it. */
RG_API rg_status rg_record_name(const rg_tensor *x, const char *name) RG_CHECK;

/* The end, before that of the capture.  out: new reference.  RG_ECAPTURE where nothing is recorded,
** or something happened that no node says. */
RG_API rg_status rg_record_end(rg_graph **out) RG_CHECK;

/* Throw it away, if there is one. */
RG_API void rg_record_cancel(void);

/* A part that is computed again, to save memory.  All zero: none is. */
typedef struct rg_recomputed {
  int32_t on;   /* 1 */
  int32_t next; /* of the draws of its first run, as rg_record_draws counted before it: the one that
                ** is repeated next */
  int32_t end;  /* and as it counted behind it */
} rg_recomputed;

/* How many calls drew random numbers since the recording began.  recording: out: its number, from
** 1; 0 where nothing is recorded. */
RG_API int32_t rg_record_draws(int64_t *recording);

/* What runs from now on on this thread is computed again: its nodes are marked, so that no pass
** merges them with their first run, and each that draws repeats a draw of that run, in their order:
** a replay gives both the same numbers.  Where the two do not draw alike there will be no graph.
** part: in and out: is exchanged for what was on before. */
RG_API void rg_record_recomputed(rg_recomputed *part);

/* Set aside what is recorded, and go on with the recording `other`, or with none: NULL.  Returns
** the one before, which is the caller's to release. */
RG_API rg_recording *rg_record_swap(rg_recording *other);
RG_API void rg_record_release(rg_recording *r);

/* -- Gradients of leaves ------------------------------------------------------------------ */

/* A leaf, and the accumulated gradient that a recording made for it or read. */
typedef struct rg_leaf_gradient {
  rg_tensor *x;
  rg_tensor *grad; /* itself, not a view of it */
  int32_t read;    /* the recording found it there: what a plan computes depends on its contents */
} rg_leaf_gradient;

/*
** Those of a graph that was just recorded, while its leaves still have these gradients.
**
** g        recorded
** out      a list of them, for rg_leaf_gradients_free; NULL on failure
** n_out    how many there are
*/
RG_API rg_status rg_graph_leaf_gradients(const rg_graph *g, rg_leaf_gradient **out,
                                         int32_t *n_out) RG_CHECK;

/* Release a list of n; NULL is allowed. */
RG_API void rg_leaf_gradients_free(rg_leaf_gradient *list, int32_t n);

/*
** Let each of them be its leaf's gradient (rg_grad_attach), so that a plan of the graph leaves its
** gradients there.
**
** list     n of them
** seen     rg_grad_changes when that was last so: where it still is, nothing is to be done
*/
RG_API rg_status rg_leaf_gradients_attach(const rg_leaf_gradient *list, int32_t n,
                                          int64_t *seen) RG_CHECK;

/* -- Running ------------------------------------------------------------------------------ */

/* Tensor that holds a value which no node makes: an input, a parameter, a state.  Borrowed; NULL
** where there is none (a graph out of a file). */
RG_API rg_tensor *rg_graph_bound(const rg_graph *graph, int32_t value);

/* Let another tensor, x, hold it from now on; plans that were made stay as they are.  RG_EARG,
** RG_EDTYPE, RG_ESHAPE, RG_EDEVICE where it is not like the value. */
RG_API rg_status rg_graph_bind(rg_graph *graph, int32_t value, rg_tensor *x) RG_CHECK;

/*
** A plan of a graph, each node under the autocast it was recorded with; of its other modes none is
** set.  No kernel runs, nothing is drawn and nothing written until the plan is replayed.
**
** graph    every value that no node makes has its tensor
** outputs  out: new references to what the plan writes the graph's outputs into, as many as it has;
**          gradients: the very tensors that their parameters held when it was recorded
** out      new reference
** RG_EARG where a tensor is missing, RG_EBUG for what is no graph, RG_ECAPTURE while this thread
** captures, RG_ENOMEM, and what a record answers; the message names the node.
*/
RG_API rg_status rg_graph_plan(rg_graph *graph, rg_tensor **outputs, rg_plan **out) RG_CHECK;

/*
** A plan like another one, of rg_graph_plan, over the same parameters.  Its own are the inputs (in
** the beginning with what they hold in the other plan), the outputs, gradients too, buffers, the
** CUDA graph, and, where it draws, a stream whose seed is drawn from the other one's.  The two may
** run at the same time on two threads.
**
** plan     does not run now
** out      new reference; it does not need the other plan
** RG_ENOSUP for a captured plan, and for one that writes to what is outside, which is named;
** RG_ERELEASED where an input is gone; RG_ECAPTURE while this thread captures; RG_ENOMEM.
*/
RG_API rg_status rg_plan_clone(rg_plan *plan, rg_plan **out) RG_CHECK;

/* Tensors of a plan of rg_graph_plan: what its i-th input, from 0, is read from, and what its i-th
** output is written to.  Borrowed; NULL behind the last one, and for a captured plan. */
RG_API rg_tensor *rg_plan_input(const rg_plan *plan, int32_t i);
RG_API rg_tensor *rg_plan_output(const rg_plan *plan, int32_t i);

/* -- Changes ----------------------------------------------------------------------------- */

/* Let all who read value `old` read value `by`: nodes, and outputs of the graph.  RG_EARG. */
RG_API rg_status rg_graph_replace(rg_graph *graph, int32_t old, int32_t by) RG_CHECK;

/* Let one input of a node, slot (from 0), be another value; -1 leaves it out.  RG_EARG. */
RG_API rg_status rg_graph_set_input(rg_graph *graph, int32_t node, int32_t slot,
                                    int32_t value) RG_CHECK;

/* Say how images lie where a node is computed, which the pass channels_last obeys.  node: its
** number; layout: RG_NCHW, RG_NHWC, or -1: as the pass finds best.  RG_EARG. */
RG_API rg_status rg_graph_set_layout(rg_graph *graph, int32_t node, int32_t layout) RG_CHECK;

/*
** A new node, whose results have memory of their own.
**
** at       node beside which it stands, in the same body and under the same modes
** after    0: directly before that; 1: directly behind it
** op       index of the operation; it neither draws nor writes
** inputs   n values, -1 where one is left out
** args     the struct its rows describe, axes resolved
** node     out: its number
** RG_EARG, RG_ENOSUP, and what the record answers to such inputs.
*/
RG_API rg_status rg_graph_insert(rg_graph *graph, int32_t at, int32_t after, int32_t op,
                                 const int32_t *inputs, int32_t n, const void *args,
                                 int32_t *node) RG_CHECK;

/* Take a node away, with its body.  RG_EARG where what it makes is needed, it draws, or it writes
** what was there before or is written again. */
RG_API rg_status rg_graph_remove(rg_graph *graph, int32_t node) RG_CHECK;

/* -- Passes ------------------------------------------------------------------------------ */

/* What a pass does to results. */
enum {
  RG_PASS_EXACT,        /* the same bits for every input, -0, nan and inf included */
  RG_PASS_REASSOCIATES, /* the same numbers, rounded in other places: its line says how far off */
  RG_PASS_CHANGES_TRAINING /* what is learned may be something else */
};

/* A pass; what is pointed to is borrowed for ever. */
typedef struct rg_pass_facts {
  const char *name; /* "dead_code_elimination" */
  const char *doc;  /* one line */
  int32_t exactness;
} rg_pass_facts;

/* Passes of the core are numbered from 0, in the order in which they are best run. */
RG_API int32_t rg_pass_count(void);

/* index: of a pass; out: filled.  RG_EARG. */
RG_API rg_status rg_pass_facts_of(int32_t index, rg_pass_facts *out) RG_CHECK;

/* Run pass index over a graph, which is changed; where it fails the graph may be changed in part,
** so it is run over a copy.  With RIDGE_CHECK=1 every invariant is checked behind it.  RG_EARG,
** RG_ENOMEM, RG_EBUG. */
RG_API rg_status rg_graph_pass(rg_graph *graph, int32_t index) RG_CHECK;

/*
** A copy of a graph on which passes have run; graph stays as it is, also where one fails.
**
** names    n passes, in the order in which they run
** out      new reference
** RG_EARG, RG_ENOMEM, RG_EBUG.
*/
RG_API rg_status rg_graph_optimize(rg_graph *graph, const char *const *names, int32_t n,
                                   rg_graph **out) RG_CHECK;

/* -- Whole graphs -------------------------------------------------------------------------- */

/* Is every invariant of a graph true?  RG_EBUG with a sentence that names the node. */
RG_API rg_status rg_graph_check(rg_graph *graph) RG_CHECK;

/* RG_OK where two graphs, a and b, are the same but for their numbers and lines; else RG_EARG, and
** what is another one. */
RG_API rg_status rg_graph_same(rg_graph *a, rg_graph *b) RG_CHECK;

/* A graph as text, a line a node.  out: borrowed until the graph is printed again, or saved. */
RG_API rg_status rg_graph_print(rg_graph *graph, const char **out) RG_CHECK;

/* The same as JSON, for files.  out: borrowed as rg_graph_print's. */
RG_API rg_status rg_graph_json(rg_graph *graph, const char **out) RG_CHECK;

/*
** A graph out of such a text.  Nothing in it is run, and its inputs have no tensors.
**
** text     n bytes, from anywhere
** out      new reference
** RG_EFORMAT with the line of what is wrong; RG_ENOMEM.
*/
RG_API rg_status rg_graph_parse(const char *text, int64_t n, rg_graph **out) RG_CHECK;

#endif
