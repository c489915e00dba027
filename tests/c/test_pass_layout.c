/* SPDX-License-Identifier: MIT */
/*
** How the values of a graph lie in memory, as elementwise fusion sees it: what has gaps is written
** to by itself.
*/
#include "fuses.h"

extern const rg_op rg_op_view, rg_op_reshape, rg_op_narrow, rg_op_expand, rg_op_tanh;

/* A write over a view of x, and a reader: fused where the view is known to be without gaps. */
static void layout_case(const rg_op *op, const void *args, const rg_meta *meta, int32_t bound,
                        bool dense, const char *what)
{
  rg_tensor *t = NULL;
  rg_tensor *across = NULL;
  rg_graph *g;
  char want[64];

  must(rg_ir_new(&g));
  int32_t x = outside(g, RG_VALUE_STATE, "x", 6, 6);

  must(rg_empty(RG_F32, RG_CPU, (const int64_t[]){ 6, 6 }, 2, &t));
  must(rg_transpose(t, 0, 1, &across));
  if (bound > 0) {
    must(rg_ir_bind(g, x, bound == 1 ? t : across));
  }
  int32_t v = op != NULL ? viewed(g, op, x, args, *meta) : x;

  returned(g, unary(g, &rg_op_neg, over(g, &rg_op_relu, v)), "");
  (void)snprintf(want, sizeof(want), "%s%s%s", op != NULL ? op->name : "", op != NULL ? " " : "",
                 dense ? "[relu,neg]" : "relu neg");
  fuses(g, want, what);
  rg_tensor_release(t);
  rg_tensor_release(across);
}

static void test_layouts(void)
{
  const rg_meta square = { RG_F32, 2, { 6, 6 } };
  const rg_meta flat = { RG_F32, 1, { 36 } };
  const rg_meta three = { RG_F32, 3, { 2, 3, 6 } };
  const rg_meta rows = { RG_F32, 2, { 2, 6 } };
  const rg_meta columns = { RG_F32, 2, { 6, 2 } };
  const rg_meta row = { RG_F32, 2, { 1, 6 } };
  const rg_meta column = { RG_F32, 2, { 6, 1 } };
  const rg_transpose_args across = { .a = 0, .b = 1 };
  const rg_transpose_args same = { .a = 1, .b = 1 };
  const rg_shape_args as_flat = { .shape = { .n = 1, .at = { 36 } } };
  const rg_shape_args as_square = { .shape = { .n = 2, .at = { 6, 6 } } };
  const rg_shape_args as_three = { .shape = { .n = 3, .at = { 2, 3, 6 } } };
  const rg_narrow_args two = { .axis = 0, .start = 1, .length = 2, .step = 1 };
  const rg_narrow_args apart = { .axis = 0, .start = 1, .length = 2, .step = 3 };
  const rg_narrow_args side = { .axis = 1, .start = 1, .length = 2, .step = 1 };
  const rg_narrow_args one = { .axis = 0, .start = 2, .length = 1, .step = 1 };
  const rg_narrow_args first = { .axis = 1, .start = 0, .length = 1, .step = 1 };

  layout_case(NULL, NULL, NULL, 0, true, "nothing is bound");
  layout_case(NULL, NULL, NULL, 1, true, "a dense one");
  layout_case(NULL, NULL, NULL, 2, false, "a strided one");
  layout_case(&rg_op_transpose, &across, &square, 0, false, "across");
  layout_case(&rg_op_transpose, &across, &square, 1, false, "across what is bound");
  layout_case(&rg_op_transpose, &across, &square, 2, true, "and back");
  layout_case(&rg_op_transpose, &same, &square, 0, true, "an axis with itself");
  layout_case(&rg_op_narrow, &two, &rows, 0, true, "rows");
  layout_case(&rg_op_narrow, &apart, &rows, 0, false, "rows with others between them");
  layout_case(&rg_op_narrow, &side, &columns, 0, false, "columns");
  layout_case(&rg_op_narrow, &side, &columns, 2, false, "columns of what is strided");
  layout_case(&rg_op_narrow, &one, &row, 0, true, "one row");
  layout_case(&rg_op_narrow, &one, &row, 2, false, "one row of what is strided");
  layout_case(&rg_op_narrow, &first, &column, 0, false, "a column");
  layout_case(&rg_op_narrow, &first, &column, 2, true, "a column that is dense");
  for (int32_t bound = 0; bound < 3; bound++) { /* the last time there is no view at all */
    bool dense = bound < 2;

    layout_case(&rg_op_view, &as_flat, &flat, bound, dense, "a view of another shape");
    layout_case(&rg_op_view, &as_three, &three, bound, dense, "of more axes");
    layout_case(&rg_op_view, &as_square, &square, bound, dense, "of the same");
    layout_case(&rg_op_reshape, &as_flat, &flat, bound, dense, "reshaped");
    layout_case(&rg_op_reshape, &as_three, &three, bound, dense, "to more axes");
  }
}

/* What is written over lies as it did; what is repeated, where one tensor is. */
static void test_layouts_kept(void)
{
  int32_t x;
  rg_graph *g = graph(&x);
  int32_t a = unary(g, &rg_op_gelu, x);
  int32_t across = transposed(g, a);
  int32_t later = over(g, &rg_op_relu, across);

  returned(g, unary(g, &rg_op_tanh, unary(g, &rg_op_neg, later)), "");
  fuses(g, "gelu transpose relu neg tanh", "a view that was written over has gaps as before");

  g = graph(&x);
  a = unary(g, &rg_op_gelu, x);
  later = over(g, &rg_op_relu, transposed(g, transposed(g, a)));
  returned(g, unary(g, &rg_op_tanh, unary(g, &rg_op_neg, later)), "");
  fuses(g, "gelu transpose transpose [relu,neg,tanh]", "and back again has none");

  const rg_meta wide = { RG_F32, 2, { 3, 3 } };
  const rg_expand_args args = { .shape = { .n = 2, .at = { 3, 3 } } };

  for (int32_t i = 0; i < 2; i++) {
    g = graph(&x);
    int32_t row = outside(g, RG_VALUE_INPUT, "row", i == 0 ? 1 : 3, i == 0 ? 3 : 1);

    a = viewed(g, &rg_op_expand, row, &args, wide);
    returned(g, unary(g, &rg_op_neg, added(g, a, x)), "");
    fuses(g, "expand add neg", "an input that is repeated is none of a chain's");
  }
}

int main(void)
{
  setenv("RIDGE_CHECK", "1", 1);
  test_layouts();
  test_layouts_kept();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  return done();
}
