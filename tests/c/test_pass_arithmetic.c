/* SPDX-License-Identifier: MIT */
/*
** The pass of arithmetic identities: what is x, and what only looks like it.
*/
#include "pass.h"

static const char arithmetic[] = "arithmetic_identities";

static void number_case(int32_t op, double value, int32_t reversed, bool goes, const char *what)
{
  int32_t x;
  rg_graph *g = graph(&x);
  int32_t y = with_number(g, op, unary(g, &rg_op_gelu, x), value, reversed, -1);
  char want[64];

  returned(g, unary(g, &rg_op_neg, y), "");
  (void)snprintf(want, sizeof(want), "gelu %s%sneg", goes ? "" : rg_ops[op]->name, goes ? "" : " ");
  comes(g, arithmetic, want, what);
}

static void test_numbers(void)
{
  number_case(RG_OP_MUL, 1, 0, true, "x * 1");
  number_case(RG_OP_MUL, 1, 1, true, "1 * x");
  number_case(RG_OP_SUB, 0, 0, true, "x - 0");
  number_case(RG_OP_DIV, 1, 0, true, "x / 1");
  number_case(RG_OP_MUL, -1, 0, false, "x * -1 is not x");
  number_case(RG_OP_MUL, 0, 0, false, "x * 0 neither");
  number_case(RG_OP_ADD, 0, 0, false, "x + 0 turns -0 into 0");
  number_case(RG_OP_SUB, -0.0, 0, false, "x - -0 too");
  number_case(RG_OP_SUB, 0, 1, false, "0 - x");
  number_case(RG_OP_DIV, 1, 1, false, "1 / x");
  number_case(RG_OP_POW, 1, 0, false, "x ^ 1 is rounded by its kernel");
}

static void tensor_case(int32_t op, double value, int32_t rows, bool other, bool goes,
                        const char *what)
{
  int32_t x;
  rg_graph *g = graph(&x);
  int32_t y = unary(g, &rg_op_gelu, x);
  int32_t one = filled(g, value, rows);
  char want[64];

  returned(g, unary(g, &rg_op_neg, other ? with_tensor(g, op, one, y) : with_tensor(g, op, y, one)),
           "");
  (void)snprintf(want, sizeof(want), "gelu fill %s%sneg", goes ? "" : rg_ops[op]->name,
                 goes ? "" : " ");
  comes(g, arithmetic, want, what);
}

static void test_tensors(void)
{
  tensor_case(RG_OP_MUL, 1, 3, false, true, "times ones");
  tensor_case(RG_OP_MUL, 1, 1, false, true, "of fewer axes");
  tensor_case(RG_OP_MUL, 1, 3, true, true, "ones times");
  tensor_case(RG_OP_SUB, 0, 1, false, true, "minus zeros");
  tensor_case(RG_OP_DIV, 1, 1, false, true, "by ones");
  tensor_case(RG_OP_DIV, 1, 3, true, false, "ones by");
  tensor_case(RG_OP_SUB, 0, 3, true, false, "zeros minus");
  tensor_case(RG_OP_MUL, 2, 3, false, false, "times twos");

  int32_t x;
  rg_graph *g = graph(&x);
  int32_t row = with_tensor(g, RG_OP_MUL, filled(g, 5, 1), filled(g, 1, 3));

  returned(g, unary(g, &rg_op_neg, row), "");
  comes(g, arithmetic, "fill fill mul neg", "not where ones make it larger");

  g = graph(&x);
  int32_t one = filled(g, 1, 3);
  int32_t later = with_number(g, RG_OP_ADD, one, 1, 0, one);

  returned(g, unary(g, &rg_op_neg, with_tensor(g, RG_OP_MUL, unary(g, &rg_op_gelu, x), later)), "");
  comes(g, arithmetic, "fill add gelu mul neg", "nor where the ones were written over");
}

/* What is the same number is not always the same value. */
static void test_arithmetic_aliases(void)
{
  int32_t x;
  int32_t later;
  rg_graph *g = graph(&x);
  int32_t y = unary(g, &rg_op_gelu, x);
  int32_t same = with_number(g, RG_OP_MUL, y, 1, 0, -1);

  (void)node_of(g, &rg_op_relu, &y, 1, NULL, y);
  returned(g, unary(g, &rg_op_neg, same), "");
  comes(g, arithmetic, "gelu mul relu neg", "x is written to behind it");

  g = graph(&x);
  y = unary(g, &rg_op_gelu, x);
  same = with_number(g, RG_OP_MUL, y, 1, 0, -1);
  (void)written(g, transposed(g, same), same, &later);
  returned(g, added(g, y, later), "");
  comes(g, arithmetic, "gelu mul transpose relu add", "x * 1 is written to, through a view");

  g = graph(&x);
  y = unary(g, &rg_op_gelu, x);
  returned(g, y, "");
  returned(g, with_number(g, RG_OP_MUL, y, 1, 0, -1), "");
  comes(g, arithmetic, "gelu mul", "both are results");

  g = graph(&x);
  y = unary(g, &rg_op_gelu, x);
  returned(g, with_number(g, RG_OP_MUL, y, 1, 0, -1), "");
  comes(g, arithmetic, "gelu", "one is");

  g = graph(&x);
  y = with_number(g, RG_OP_MUL, unary(g, &rg_op_gelu, x), 1, 0, -1);
  returned(
      g, unary(g, &rg_op_neg, transposed(g, transposed(g, with_number(g, RG_OP_SUB, y, 0, 0, -1)))),
      "");
  comes(g, arithmetic, "gelu transpose transpose neg", "views of it are views of x");

  g = graph(&x);
  returned(g,
           unary(g, &rg_op_neg,
                 with_number(g, RG_OP_MUL, transposed(g, unary(g, &rg_op_gelu, x)), 1, 0, -1)),
           "");
  comes(g, arithmetic, "gelu transpose mul neg", "a product is dense, the view is not");

  g = graph(&x);
  y = unary(g, &rg_op_gelu, x);
  returned(g, with_number(g, RG_OP_MUL, y, 1, 0, y), "");
  comes(g, arithmetic, "gelu mul", "x *= 1 is a write");

  g = graph(&x);
  same = with_number(g, RG_OP_MUL, unary(g, &rg_op_gelu, x), 1, 0, -1);
  rg_ir_node_at(g, producer(g, same))->recomputed = true;
  returned(g, unary(g, &rg_op_neg, same), "");
  comes(g, arithmetic, "gelu mul neg", "what is recomputed keeps its place");
}

/* Of what was there before it is known how it is stored where it is bound; a parameter is packed
** elsewhere. */
static void test_arithmetic_outside(void)
{
  for (int32_t i = 0; i < 5; i++) {
    static const char *const what[] = { "nothing is bound", "a dense one", "a result of the graph",
                                        "a strided one", "a parameter" };
    rg_tensor *t = NULL;
    rg_tensor *u = NULL;
    rg_graph *g;

    must(rg_ir_new(&g));
    int32_t x = outside(g, i == 4 ? RG_VALUE_PARAMETER : RG_VALUE_INPUT, "x", 3, 3);
    int32_t y = with_number(g, RG_OP_MUL, x, 1, 0, -1);

    must(rg_empty(RG_F32, RG_CPU, (const int64_t[]){ 3, 3 }, 2, &t));
    must(rg_transpose(t, 0, 1, &u));
    if (i > 0) {
      must(rg_ir_bind(g, x, i == 3 ? u : t));
    }
    returned(g, i == 2 ? y : unary(g, &rg_op_neg, y), "");
    comes(g, arithmetic, i == 1 ? "neg" : i == 2 ? "mul" : "mul neg", what[i]);
    rg_tensor_release(t);
    rg_tensor_release(u);
  }
}

/* Another type is another value: whole numbers divided are f32. */
static void test_arithmetic_types(void)
{
  const rg_meta meta = { .dtype = RG_I32, .ndim = 1, .shape = { 4 } };

  for (int32_t op = RG_OP_MUL; op <= RG_OP_DIV; op++) {
    const rg_fill_args five = { .meta = meta, .value = 5 };
    int32_t x;
    rg_graph *g = graph(&x);
    int32_t y = node_of(g, rg_ops[RG_OP_FILL], NULL, 0, &five, -1);

    returned(g, unary(g, &rg_op_neg, with_number(g, op, y, 1, 0, -1)), "");
    if (op == RG_OP_MUL) {
      comes(g, arithmetic, "fill neg", "i32 * 1 is i32");
    } else if (op == RG_OP_DIV) {
      comes(g, arithmetic, "fill div neg", "i32 / 1 is f32");
    } else {
      rg_graph_release(g);
    }
  }
}

int main(void)
{
  setenv("RIDGE_CHECK", "1", 1);
  test_numbers();
  test_tensors();
  test_arithmetic_aliases();
  test_arithmetic_outside();
  test_arithmetic_types();
  return done();
}
