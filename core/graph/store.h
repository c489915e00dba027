/* SPDX-License-Identifier: MIT */
/*
** How a graph is stored: only ir.c and edit.c see this.
**
** Everything lies in arrays that double, and refers to each other by number.  What a node reads and
** makes, and who reads a value, are slices of three pools; a slice that has no room left moves to
** its pool's end with twice the room, so that an append costs O(1) on average and what was moved
** leaves at most as much behind as there is.
*/
#ifndef RIDGE_GRAPH_STORE_H
#define RIDGE_GRAPH_STORE_H

#include "graph/ir.h"

/* An array of n; its elements are of one type. */
typedef struct rg_ir_array {
  void *data;
  int32_t n;
  int32_t room;
} rg_ir_array;

/* A node that was inserted and has no position yet. */
typedef struct rg_ir_pending {
  int32_t node;
  int32_t at;
  bool after;
} rg_ir_pending;

/* What is known of a storage. */
typedef struct rg_ir_storage {
  int32_t version; /* the last one */
  int32_t writer;  /* the node that made it; -1: not known */
  bool outside;    /* it is there before the graph runs, and after it */
} rg_ir_storage;

struct rg_graph {
  _Atomic int64_t refs;
  rg_ir_array value;   /* rg_ir_value */
  rg_ir_array bound;   /* rg_tensor *, one for each value */
  rg_ir_array node;    /* rg_ir_node */
  rg_ir_array operand; /* int32_t, values: inputs and outputs of nodes */
  rg_ir_array back;   /* int32_t: where an input, or what an output refers to, stands among the uses
                        ** of its value */
  rg_ir_array use;    /* rg_ir_use */
  rg_ir_array args;   /* char */
  rg_ir_array text;   /* char; at 0 stands "" */
  rg_ir_array bucket; /* int32_t, a hash table of texts; 0 is free */
  rg_ir_array modes;  /* rg_graph_modes */
  rg_ir_array streams;  /* rg_generator *, from number 1 */
  rg_ir_array storage;  /* rg_ir_storage */
  rg_ir_array input;    /* int32_t */
  rg_ir_array output;   /* rg_ir_output */
  rg_ir_array out_back; /* int32_t: as back, of the graph's outputs */
  rg_ir_array state;    /* int32_t */
  rg_ir_array order;    /* int32_t: nodes */
  rg_ir_array body;     /* int32_t: how many behind each of order are its body */
  rg_ir_array pending;  /* rg_ir_pending */
  int32_t open;         /* the compound that is being made; -1: none */
  int32_t depth;        /* how many are */
  int32_t n_texts;
  int32_t n_removed; /* nodes */
  int32_t n_gone;    /* values */
  int32_t n_draws;
  bool edited; /* order is not what the nodes say */
  char *shown; /* what was printed or saved last */
};

#define RG_IR_AT(array, type, i) (&((type *)(array).data)[i])

#define RG_IR_PUSH(array, type, ...) (*RG_IR_AT(array, type, (array).n++) = (__VA_ARGS__))

/* RG_ENOMEM, and that it was for a graph. */
rg_status rg_ir_no_memory(void) RG_CHECK;

/* Room for more elements of a size.  RG_ENOMEM, also where their number would not be one of 31
** bits. */
rg_status rg_ir_reserve(rg_ir_array *array, int32_t more, size_t size) RG_CHECK;

/* Room for n more readers of a value, and such a reader, for which there is room.  Returns where it
** stands. */
rg_status rg_ir_use_room(rg_graph *g, int32_t value, int32_t n) RG_CHECK;
int32_t rg_ir_use_add(rg_graph *g, int32_t value, int32_t node, int32_t slot);
void rg_ir_use_drop(rg_graph *g, int32_t value, int32_t at);

/* A node that is in no order yet. */
rg_status rg_ir_node_make(rg_graph *g, const rg_op *op, const int32_t *in, int32_t n_in,
                          const void *args, int32_t *out) RG_CHECK;

#endif
