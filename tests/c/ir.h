/* SPDX-License-Identifier: MIT */
/*
** Graphs made by hand: values and nodes of the operations that the tests use.
*/
#ifndef RIDGE_TESTS_IR_H
#define RIDGE_TESTS_IR_H

#include "graph/infer.h"
#include "op/dropout.h"
#include "op/list.h"
#include "op/op.h"
#include "op/softmax.h"
#include "ridge/ir.h"
#include "tap.h"

extern const rg_op rg_op_add, rg_op_relu, rg_op_gelu, rg_op_linear, rg_op_dropout, rg_op_softmax,
    rg_op_neg, rg_op_copy;

#define SAYS(text) (strstr(rg_error_message(), (text)) != NULL)

static inline void must(rg_status status)
{
  if (status != RG_OK) {
    tap_bail(rg_error_message());
  }
}

static inline rg_ir_text text_in(rg_graph *g, const char *text)
{
  rg_ir_text out;

  must(rg_ir_text_add(g, text, &out));
  return out;
}

/* A value that was there before: rows x cols of f32. */
static inline int32_t outside(rg_graph *g, int32_t kind, const char *name, int64_t rows,
                              int64_t cols)
{
  const rg_meta meta = { .dtype = RG_F32, .ndim = 2, .shape = { rows, cols } };
  int32_t storage;
  int32_t value;

  must(rg_ir_storage_new(g, &storage));
  must(rg_ir_value_add(g, kind, &meta, RG_CPU, storage, NULL, &value));
  rg_ir_name(g, value, text_in(g, name));
  if (kind == RG_VALUE_INPUT) {
    must(rg_ir_graph_input(g, value));
  } else if (kind == RG_VALUE_STATE) {
    must(rg_ir_graph_state(g, value));
  }
  return value;
}

/* A node and its one result; over: the value that it is written over, or -1. */
static inline int32_t node_of(rg_graph *g, const rg_op *op, const int32_t *in, int32_t n_in,
                              const void *args, int32_t over)
{
  int32_t node;
  int32_t value;
  int32_t storage;
  int32_t version = 0;
  rg_call call;

  must(rg_ir_infer(g, op, in, n_in, args, -1, &call));
  must(rg_ir_node_add(g, op, in, n_in, args, &node));
  if (over >= 0) {
    storage = rg_ir_value_at(g, over)->storage;
    version = rg_ir_value_at(g, over)->version + 1;
  } else {
    must(rg_ir_storage_new(g, &storage));
  }
  must(rg_ir_output_add(g, node, &call.out[0], RG_CPU, storage, version, over, &value));
  rg_ir_results_end(g, node);
  rg_graph_modes modes = *rg_ir_modes_of(g, rg_ir_node_at(g, node)->modes);

  modes.compute = call.compute;
  modes.weight_cast = call.weight_cast;
  must(rg_ir_modes_add(g, &modes, &rg_ir_node_at(g, node)->modes));
  return value;
}

static inline int32_t producer(const rg_graph *g, int32_t value)
{
  return rg_ir_value_at(g, value)->producer;
}

static inline int32_t unary(rg_graph *g, const rg_op *op, int32_t x)
{
  return node_of(g, op, (const int32_t[]){ x }, 1, NULL, -1);
}

static inline int32_t added(rg_graph *g, int32_t x, int32_t y)
{
  static const char zero[64];

  return node_of(g, &rg_op_add, (const int32_t[]){ x, y }, 2, zero, -1);
}

static inline void returned(rg_graph *g, int32_t value, const char *name)
{
  must(rg_ir_graph_output(g, &(rg_ir_output){ .value = value, .name = text_in(g, name) }));
}

/* Numbers of the sample's values. */
typedef struct sample {
  rg_graph *g;
  int32_t x, w, state; /* there before */
  int32_t y, z, over;  /* linear, gelu, relu written over it */
  int32_t dropped;
  int32_t inner, outer; /* in the body of a compound, and what that hands out */
  int32_t compound;     /* its node */
  int32_t sum, written; /* the last two: an output, and what was written over the state */
} sample;

/* Something of everything. */
static inline sample sample_graph(void)
{
  static const char zero[64];
  const rg_dropout_args p = { .p = 0.25 };
  const rg_softmax_args axis = { .axis = 1 };
  sample s;

  must(rg_ir_new(&s.g));
  s.x = outside(s.g, RG_VALUE_INPUT, "x", 2, 3);
  s.w = outside(s.g, RG_VALUE_PARAMETER, "fc.weight", 3, 3);
  s.state = outside(s.g, RG_VALUE_STATE, "average", 2, 3);
  s.y = node_of(s.g, &rg_op_linear, (const int32_t[]){ s.x, s.w, -1 }, 3, zero, -1);
  rg_ir_node_at(s.g, producer(s.g, s.y))->module = text_in(s.g, "fc");
  rg_ir_node_at(s.g, producer(s.g, s.y))->line = text_in(s.g, "net.lua:12");
  s.z = unary(s.g, &rg_op_gelu, s.y);
  s.over = node_of(s.g, &rg_op_relu, (const int32_t[]){ s.z }, 1, NULL, s.z);
  s.dropped = node_of(s.g, &rg_op_dropout, (const int32_t[]){ s.over }, 1, &p, -1);
  must(rg_ir_node_add(s.g, &rg_op_softmax, (const int32_t[]){ s.dropped }, 1, &axis, &s.compound));
  must(rg_ir_begin(s.g, s.compound));
  s.inner = unary(s.g, &rg_op_neg, s.dropped);
  s.outer = unary(s.g, &rg_op_relu, s.inner);
  rg_ir_end(s.g);
  must(rg_ir_output_share(s.g, s.compound, s.outer));
  rg_ir_results_end(s.g, s.compound);
  s.sum = added(s.g, s.outer, s.y);
  s.written = node_of(s.g, &rg_op_add, (const int32_t[]){ s.state, s.sum }, 2, zero, s.state);
  returned(s.g, s.sum, "logits");
  return s;
}

#endif
