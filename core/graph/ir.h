/* SPDX-License-Identifier: MIT */
/*
** Values and nodes, from inside: how a graph is made and changed.  ir.c is the only place that
** knows how they are stored: in arrays, by number; whoever else reads or changes a graph does it
** through the functions here.
**
** How a call becomes a node:
**   * rg_ir_value_add for each tensor that was there before (an input, a parameter), once;
**   * rg_ir_node_add with the numbers of its inputs;
**   * rg_ir_output_add for each result: a new storage, or, for a view, that of its base, at the
**     version it has; where the call wrote into a tensor, the storage at the next version, and
**     `was` the value that this tensor was before.
** A write makes every other view of the storage a later version too.  Who reads one of them next
** adds it then, by rg_ir_output_add again, to the node that wrote.
**
** A compound is a node between rg_ir_begin and rg_ir_end: what is added meanwhile is its body, and
** its outputs are values that its body makes (rg_ir_output_share).
*/
#ifndef RIDGE_GRAPH_IR_H
#define RIDGE_GRAPH_IR_H

#include "op/op.h"
#include "ridge/ir.h"

/* A text of a graph; 0 is "". */
typedef int32_t rg_ir_text;

enum { RG_IR_NONE = -1 }; /* no value, no node */

/* Bytes of a struct of arguments, and how many are in one, at most: no record has more, which
** tests/c/test_ir_args.c asks of each. */
enum { RG_IR_MOST_ARGS = 512, RG_IR_MOST_ARGS_OF = 62 };

typedef struct rg_ir_value {
  rg_meta meta;
  int32_t device;
  int32_t kind;    /* RG_VALUE_... */
  int32_t storage; /* number of a storage: rg_ir_storage_new */
  int32_t version;
  int32_t was;
  int32_t producer;
  int32_t result;
  rg_ir_text name;
  bool removed;
  /* read-only outside ir.c */
  int32_t n_uses;
  int32_t uses; /* where they begin */
  int32_t room;
} rg_ir_value;

typedef struct rg_ir_node {
  const rg_op *op; /* NULL: it was removed */
  int32_t parent;
  rg_ir_text module;
  rg_ir_text line;
  int32_t modes;     /* rg_ir_modes_add */
  int32_t generator; /* rg_ir_generator_add, 0 for the default stream; -1: it draws nothing */
  int32_t draw;      /* draws are numbered in the order they were made; -1: it draws nothing */
  int32_t repeats;   /* node of its first run, whose numbers it takes; -1: it draws its own */
  bool recomputed;
  bool derived;   /* it reads parameters, or what derived nodes make of them: it is run again only
                  ** where something wrote to what it reads */
  bool unwritten; /* memory, and numbers that do not matter: nothing is run for it */
  bool compound;
  double flops;
  double bytes;
  /* read-only outside ir.c */
  int32_t n_in;
  int32_t n_out;
  int32_t n_results; /* of the outputs, those by the record */
  int32_t in;        /* where they begin */
  int32_t out;
  int32_t out_room;
  int32_t args;
  int32_t position; /* in the order */
  bool complete;    /* rg_ir_results_end */
} rg_ir_node;

typedef struct rg_ir_output {
  int32_t value;
  int32_t kind; /* RG_OUTPUT_... */
  rg_ir_text name;
  rg_ir_text line;
  int32_t shares;  /* number, from 1, of the first output in whose storage it was recorded */
  bool outside;    /* it was recorded in storage that was there before */
  rg_tensor *into; /* tensor that a plan writes it into, held; NULL: one of the plan's own */
} rg_ir_output;

/* Who needs a value: input `slot` of a node; from n_in on, its output slot - n_in, which is this
** value (of a compound) or was made by writing over it; with node -1 output `slot` of the graph. */
typedef struct rg_ir_use {
  int32_t node;
  int32_t slot;
} rg_ir_use;

/* -- Making ------------------------------------------------------------------------------ */

/* A graph without nodes. */
rg_status rg_ir_new(rg_graph **out) RG_CHECK;

/* A text, kept once.  NULL is "". */
rg_status rg_ir_text_add(rg_graph *g, const char *text, rg_ir_text *out) RG_CHECK;
const char *rg_ir_text_of(const rg_graph *g, rg_ir_text text);

/* Equal modes have one number. */
rg_status rg_ir_modes_add(rg_graph *g, const rg_graph_modes *modes, int32_t *out) RG_CHECK;
const rg_graph_modes *rg_ir_modes_of(const rg_graph *g, int32_t modes);

/* Those of them that kernels are chosen by; and are two nodes' the same? */
rg_modes rg_ir_run_modes(const rg_graph_modes *modes);
bool rg_ir_runs_alike(const rg_graph *g, const rg_ir_node *a, const rg_ir_node *b);

/* A stream of random numbers, held; NULL, or the default one, is 0. */
rg_status rg_ir_generator_add(rg_graph *g, rg_generator *generator, int32_t *out) RG_CHECK;
rg_generator *rg_ir_generator_of(const rg_graph *g, int32_t generator);

/* The number of a new storage; its first version is 0. */
rg_status rg_ir_storage_new(rg_graph *g, int32_t *out) RG_CHECK;

/*
** A value that no node makes.
**
** kind     RG_VALUE_INPUT, PARAMETER, CONSTANT or STATE
** storage  rg_ir_storage_new, or that of another view of the same
** x        the tensor that holds it, which the graph then holds; NULL where there is none (a file)
*/
rg_status rg_ir_value_add(rg_graph *g, int32_t kind, const rg_meta *meta, int32_t device,
                          int32_t storage, rg_tensor *x, int32_t *out) RG_CHECK;

/* A node at the end, in the compound that is open.  in: n_in values, -1 where one is left out;
** args: copied by the schema. */
rg_status rg_ir_node_add(rg_graph *g, const rg_op *op, const int32_t *in, int32_t n_in,
                         const void *args, int32_t *out) RG_CHECK;

/*
** The next output of a node, a new value.
**
** n_results of the node counts outputs until rg_ir_results_end; behind that come versions.
** storage  a new one, or for a view or a write that of what is viewed or written
** version  0 of a new one; for a write the one that is there, plus 1
** was      for a write: the value it replaces; else -1
*/
rg_status rg_ir_output_add(rg_graph *g, int32_t node, const rg_meta *meta, int32_t device,
                           int32_t storage, int32_t version, int32_t was, int32_t *out) RG_CHECK;

/* A result that was not made: a hidden one that nobody wanted. */
rg_status rg_ir_output_skip(rg_graph *g, int32_t node) RG_CHECK;

/* The next result of a compound: a value that its body made, or that it was given. */
rg_status rg_ir_output_share(rg_graph *g, int32_t node, int32_t value) RG_CHECK;

/* Its results are complete. */
void rg_ir_results_end(rg_graph *g, int32_t node);

/* What is added from now on is the body of a node; begin and end nest. */
rg_status rg_ir_begin(rg_graph *g, int32_t node) RG_CHECK;
void rg_ir_end(rg_graph *g);

/* Give a value a name, and the graph its inputs, outputs and states.  A value may be several
** outputs; a state is the first value of its storage. */
void rg_ir_name(rg_graph *g, int32_t value, rg_ir_text name);
rg_status rg_ir_graph_input(rg_graph *g, int32_t value) RG_CHECK;
rg_status rg_ir_graph_output(rg_graph *g, const rg_ir_output *output) RG_CHECK;
void rg_ir_output_own(rg_graph *g, int32_t i); /* a plan makes it in memory of its own */
rg_status rg_ir_graph_state(rg_graph *g, int32_t value) RG_CHECK;

/* -- Reading ----------------------------------------------------------------------------- */

int32_t rg_ir_n_values(const rg_graph *g); /* with those that were removed */
int32_t rg_ir_n_nodes(const rg_graph *g);
int32_t rg_ir_n_storages(const rg_graph *g);
int32_t rg_ir_n_draws(const rg_graph *g); /* made when it was recorded */

/* What changes the graph may move them: pointers hold until then. */
rg_ir_value *rg_ir_value_at(const rg_graph *g, int32_t value);
rg_ir_node *rg_ir_node_at(const rg_graph *g, int32_t node);
const int32_t *rg_ir_inputs(const rg_graph *g, const rg_ir_node *node);
const int32_t *rg_ir_outputs(const rg_graph *g, const rg_ir_node *node);
const void *rg_ir_args(const rg_graph *g, const rg_ir_node *node);
const rg_ir_use *rg_ir_uses(const rg_graph *g, const rg_ir_value *value);

/* The tensor that holds a value which no node makes; borrowed; NULL: none is bound. */
rg_tensor *rg_ir_bound(const rg_graph *g, int32_t value);

/* Let another tensor hold it; it is held.  RG_ESHAPE, RG_EDTYPE, RG_EDEVICE where it is not like
** the value. */
rg_status rg_ir_bind(rg_graph *g, int32_t value, rg_tensor *x) RG_CHECK;

int32_t rg_ir_n_inputs(const rg_graph *g);
int32_t rg_ir_n_outputs(const rg_graph *g);
int32_t rg_ir_n_states(const rg_graph *g);
int32_t rg_ir_input_at(const rg_graph *g, int32_t i);
const rg_ir_output *rg_ir_output_at(const rg_graph *g, int32_t i);
int32_t rg_ir_state_at(const rg_graph *g, int32_t i);

/* The nodes in their order, and how many nodes behind each are its body (by position).  Put in
** order first where the graph was edited: RG_ENOMEM. */
rg_status rg_ir_order(rg_graph *g, const int32_t **order, const int32_t **body,
                      int32_t *n) RG_CHECK;

/* Is a node in the body of another one, or that one itself? */
bool rg_ir_is_within(const rg_graph *g, int32_t node, int32_t of);

/* -- Editing ----------------------------------------------------------------------------- */

/* Let everybody who reads a value read another one: nodes, bodies, outputs of the graph. */
rg_status rg_ir_replace(rg_graph *g, int32_t old, int32_t by) RG_CHECK;

/* Let one input of a node be another value. */
rg_status rg_ir_set_input(rg_graph *g, int32_t node, int32_t slot, int32_t value) RG_CHECK;

/* As rg_ir_node_add, directly before (or, after: true, behind) another node and in its body. */
rg_status rg_ir_insert(rg_graph *g, int32_t at, bool after, const rg_op *op, const int32_t *in,
                       int32_t n_in, const void *args, int32_t *out) RG_CHECK;

/* A view of a value directly before a node.  value: in and out; meta: of the view. */
rg_status rg_ir_insert_view(rg_graph *g, int32_t at, const rg_op *op, const void *args,
                            const rg_meta *meta, int32_t *value) RG_CHECK;

/* A node becomes the call of another record, of other values: what it makes stays what it is, and
** so do its place and its draw.  RG_EARG where it views or writes, or one of the two records
** draws. */
rg_status rg_ir_become(rg_graph *g, int32_t number, const rg_op *op, const int32_t *in,
                       int32_t n_in, const void *args) RG_CHECK;

/* Take a node, with its body, away, and the values it makes.  RG_EARG where one of them is read by
** others or it draws; nothing has changed then. */
rg_status rg_ir_remove(rg_graph *g, int32_t node) RG_CHECK;

/* Take all nodes away that are marked, by number.  The caller knows that no node that stays needs
** what they make: nothing is asked.  RG_ENOMEM; nothing has changed then. */
rg_status rg_ir_remove_all(rg_graph *g, const bool *marked) RG_CHECK;

/* Number the versions of all storages anew, without gaps, where nodes that wrote went and others
** write what they did.  RG_ENOMEM; nothing has changed then. */
rg_status rg_ir_number_versions(rg_graph *g) RG_CHECK;

#endif
