/* SPDX-License-Identifier: MIT */
/*
** Passes that make one call of two: what is written in between, modes and bodies that differ.
*/
#include "op/concat.h"
#include "op/reduce.h"
#include "pass.h"

static void deterministic(rg_graph *g, int32_t value)
{
  rg_graph_modes modes = *rg_ir_modes_of(g, rg_ir_node_at(g, producer(g, value))->modes);

  modes.deterministic = !modes.deterministic;
  must(rg_ir_modes_add(g, &modes, &rg_ir_node_at(g, producer(g, value))->modes));
}

/* A body over y as its compound is given it. */
static int32_t begin_body(rg_graph *g, int32_t y)
{
  const rg_softmax_args axis = { .axis = 1 };
  int32_t node;

  must(rg_ir_node_add(g, &rg_op_softmax, &y, 1, &axis, &node));
  must(rg_ir_begin(g, node));
  return node;
}

static void end_body(rg_graph *g, int32_t node, int32_t y)
{
  rg_ir_end(g);
  must(rg_ir_output_share(g, node, y));
  rg_ir_results_end(g, node);
}

/* What one case has another way. */
typedef enum how {
  AS_IT_IS,
  OTHER_MODES,
  IN_A_BODY,
  X_BETWEEN, /* x is written to between the two */
  X_BEHIND,
  BETWEEN_BEHIND, /* what lies between is, behind the two */
  N_HOW
} how;

static const char *const how_text[N_HOW] = { "one of two",
                                             "modes differ",
                                             "the outer one is in a body",
                                             "x is written to between them",
                                             "x is written to behind them",
                                             "what lies between is written to behind them" };

/* gelu of x, an inner and an outer node by functions, neg of that. */
static rg_graph *pair_of(int32_t (*inner)(rg_graph *g, int32_t x),
                         int32_t (*outer)(rg_graph *g, int32_t y), how at)
{
  int32_t x;
  int32_t compound = RG_IR_NONE;
  rg_graph *g = graph(&x);
  int32_t before = unary(g, &rg_op_gelu, x);
  int32_t between = inner(g, before);

  if (at == OTHER_MODES) {
    deterministic(g, between);
  }
  if (at == X_BETWEEN) {
    before = node_of(g, &rg_op_relu, &before, 1, NULL, before);
  }
  if (at == IN_A_BODY) {
    compound = begin_body(g, between);
  }
  int32_t y = outer(g, between);

  if (at == IN_A_BODY) {
    end_body(g, compound, y);
  }
  returned(g, unary(g, &rg_op_neg, y), "");
  if (at == X_BEHIND) {
    before = node_of(g, &rg_op_relu, &before, 1, NULL, before);
  }
  if (at == BETWEEN_BEHIND) {
    between = node_of(g, &rg_op_relu, &between, 1, NULL, between);
  }
  if (at == X_BETWEEN || at == X_BEHIND) {
    returned(g, before, "");
  }
  if (at == BETWEEN_BEHIND) {
    returned(g, between, "");
  }
  return g;
}

static void each_way(const char *pass, int32_t (*inner)(rg_graph *g, int32_t x),
                     int32_t (*outer)(rg_graph *g, int32_t y), const char *const *want)
{
  for (int32_t at = 0; at < N_HOW; at++) {
    comes(pair_of(inner, outer, at), pass, want[at], how_text[at]);
  }
}

/* -- Views of views ------------------------------------------------------------------------- */

static void test_views(void)
{
  static const char *const want[] = { "gelu transpose neg", "gelu transpose neg",
                                      "gelu transpose softmax transpose neg" };

  for (int32_t at = 0; at <= IN_A_BODY; at++) {
    comes(pair_of(transposed, transposed, at), "view_folding", want[at], how_text[at]);
  }
}

/* -- Reductions ----------------------------------------------------------------------------- */

static int32_t summed(rg_graph *g, int32_t x)
{
  return node_of(g, rg_ops[RG_OP_SUM], &x, 1, &(rg_reduce_args){ .axes = 2 }, -1);
}

/* The same memory in another shape. */
static int32_t seen_as(rg_graph *g, int32_t x, const int64_t *shape, int32_t ndim)
{
  const rg_ir_value v = *rg_ir_value_at(g, x);
  rg_meta meta = { .dtype = RG_F32, .ndim = ndim };
  rg_shape_args args = { .shape = { .n = ndim } };
  int32_t node;
  int32_t value;

  memcpy(meta.shape, shape, (size_t)ndim * sizeof(*shape));
  memcpy(args.shape.at, shape, (size_t)ndim * sizeof(*shape));
  must(rg_ir_node_add(g, rg_ops[RG_OP_VIEW], &x, 1, &args, &node));
  must(rg_ir_output_add(g, node, &meta, RG_CPU, v.storage, v.version, -1, &value));
  rg_ir_results_end(g, node);
  return value;
}

static int32_t put_back(rg_graph *g, int32_t x)
{
  return seen_as(g, x, (const int64_t[]){ 3, 1 }, 2);
}

static void test_reduction(void)
{
  static const char *const want[N_HOW] = {
    "gelu sum neg",           "gelu sum view neg",      "gelu sum softmax view neg",
    "gelu sum relu view neg", "gelu sum view neg relu", "gelu sum view neg relu"
  };

  each_way("reduction_folding", summed, put_back, want);
}

/* -- Concatenations ------------------------------------------------------------------------- */

static int32_t twice(rg_graph *g, int32_t x)
{
  return node_of(g, rg_ops[RG_OP_CONCAT], (const int32_t[]){ x, x }, 2,
                 &(rg_concat_args){ .axis = 0 }, -1);
}

static int32_t beside_itself(rg_graph *g, int32_t x)
{
  return node_of(g, rg_ops[RG_OP_CONCAT], &x, 1, &(rg_concat_args){ .axis = 0 }, -1);
}

static void test_concat(void)
{
  static const char *const want[N_HOW] = { "gelu concat neg",
                                           "gelu concat concat neg",
                                           "gelu concat softmax concat neg",
                                           "gelu concat relu concat neg",
                                           "gelu concat concat neg relu",
                                           "gelu concat concat neg relu" };

  each_way("concat_folding", twice, beside_itself, want);
}

int main(void)
{
  test_views();
  test_reduction();
  test_concat();
  return done();
}
