/* SPDX-License-Identifier: MIT */
/*
** One value in the place of two: which two may be one, and where views of them lie then.
*/
#include "pass.h"

static const char identities[] = "arithmetic_identities";
static const char common[] = "common_subexpression_elimination";

/* Is one of two values allowed in the place of the other? */
static bool allowed(rg_graph *g, int32_t old, int32_t by)
{
  rg_merge m;

  must(rg_merge_begin(&m, g));
  const bool is = rg_merge_allowed(&m, old, by);

  rg_merge_release(&m);
  return is;
}

/* What was there before is nobody's to move, and nobody's to hand out as a result of its own. */
static void test_outside(void)
{
  static const int32_t kinds[] = { RG_VALUE_INPUT, RG_VALUE_PARAMETER, RG_VALUE_STATE,
                                   RG_VALUE_CONSTANT };

  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    int32_t x;
    rg_graph *g = graph(&x);
    const int32_t there = outside(g, kinds[i], "there", 3, 3);
    const int32_t view = transposed(g, there);
    const int32_t made = unary(g, &rg_op_gelu, x);
    const int32_t result = unary(g, &rg_op_gelu, x);

    returned(g, result, "");
    ok(!allowed(g, view, made), "a view of what was there stays there");
    ok(allowed(g, made, view), "what is only read may come from there");
    ok(!allowed(g, result, view), "a result may not: who writes to it would write there");
    ok(allowed(g, result, made), "but from new memory");
    rg_graph_release(g);
  }

  int32_t x;
  rg_graph *g = graph(&x);

  returned(g, with_number(g, RG_OP_MUL, x, 1, 0, -1), "");
  comes(g, identities, "mul", "an input times 1, handed out, is no input");
}

/* Views of a value that moves are of the version that they are of there.  No pass puts what is
** written over in the place of something today: this is the promise itself. */
static void test_versions(void)
{
  for (int32_t last_first = 0; last_first < 2; last_first++) {
    int32_t x;
    rg_merge m;
    rg_graph *g = graph(&x);
    int32_t a = unary(g, &rg_op_gelu, x);

    a = node_of(g, &rg_op_relu, &a, 1, NULL, a);
    a = node_of(g, &rg_op_neg, &a, 1, NULL, a);
    const int32_t b = with_number(g, RG_OP_MUL, a, 1, 0, -1);
    const int32_t c = with_number(g, RG_OP_MUL, b, 1, 0, -1);
    const int32_t view_b = transposed(g, b);
    const int32_t view_c = transposed(g, c);
    const int32_t old[] = { last_first ? c : b, last_first ? b : c };
    const int32_t by[] = { last_first ? b : a, a };
    rg_status status = RG_OK;

    returned(g, added(g, unary(g, &rg_op_neg, view_b), view_c), "");
    must(rg_graph_check(g));
    must(rg_merge_begin(&m, g));
    for (int32_t k = 0; k < 2 && status == RG_OK; k++) {
      ok(rg_merge_allowed(&m, old[k], by[k]), "one for two");
      m.gone[producer(g, old[k])] = true;
      status = rg_merge_values(&m, old[k], by[k]);
    }
    is_status(rg_merge_end(&m, status), RG_OK, "all three are one");
    is_status(rg_graph_check(g), RG_OK, "the graph is whole");
    is_int(rg_ir_value_at(g, view_b)->storage, rg_ir_value_at(g, a)->storage, "they lie there");
    is_int(rg_ir_value_at(g, view_c)->storage, rg_ir_value_at(g, a)->storage, "both");
    is_int(rg_ir_value_at(g, view_b)->version, 2, "a view of the second one is of the first");
    is_int(rg_ir_value_at(g, view_c)->version, 2, "and of the third");
    rg_graph_release(g);
  }
}

/* A value that stands for a result is one itself from there on. */
static void test_results(void)
{
  int32_t x;
  rg_graph *g = graph(&x);
  const int32_t a = unary(g, &rg_op_gelu, x);

  returned(g, unary(g, &rg_op_neg, a), "");
  for (int32_t i = 0; i < 3; i++) {
    returned(g, unary(g, &rg_op_gelu, x), "");
  }
  comes(g, common, "gelu neg gelu gelu", "of three results one stands for what is read, two stay");

  g = graph(&x);
  int32_t y = unary(g, &rg_op_gelu, x);
  int32_t later = node_of(g, &rg_op_relu, &y, 1, NULL, y);

  returned(g, added(g, later, with_number(g, RG_OP_MUL, later, 1, 0, -1)), "");
  (void)node_of(g, &rg_op_neg, &later, 1, NULL, later);
  comes(g, identities, "gelu relu mul add neg", "nor is there one of what is written to later");
}

int main(void)
{
  test_outside();
  test_versions();
  test_results();
  return done();
}
