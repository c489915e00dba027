/* SPDX-License-Identifier: MIT */
/*
** Which passes there are, in the order in which they are best run: each leaves work for those
** behind it.
*/
#include <stdlib.h>
#include <string.h>

#include "graph/pass/pass.h"

typedef struct pass {
  rg_pass_facts facts;
  rg_status (*run)(rg_graph *g);
} pass;

static const pass passes[] = {
  { { "arithmetic_identities", "x * 1, x - 0 and x / 1 are x (x + 0 is not: it turns -0 into 0)",
      RG_PASS_EXACT },
    rg_pass_arithmetic },
  { { "constant_folding",
      "what is computed from numbers alone is computed now and kept, up to 16 MB each",
      RG_PASS_EXACT },
    rg_pass_constant },
  { { "view_folding", "views of views are one view, views that change nothing are what they view",
      RG_PASS_EXACT },
    rg_pass_views },
  { { "concat_folding", "concatenations of concatenations along one axis are one", RG_PASS_EXACT },
    rg_pass_concat },
  { { "reduction_folding", "a reduction and the view that puts its axes back are one call",
      RG_PASS_EXACT },
    rg_pass_reduction },
  { { "pad_folding",
      "zeros around rows and columns before conv2d are its own padding (the same but for "
      "rounding; weights that are infinite or nan meet no zero any more)",
      RG_PASS_REASSOCIATES },
    rg_pass_pad },
  { { "argmax_folding",
      "argmax along the axis of a softmax is that of what the softmax reads (where rounding makes "
      "two equal, the larger one is found and not the first; where x is infinite, which makes all "
      "of a softmax nan, the largest is)",
      RG_PASS_REASSOCIATES },
    rg_pass_argmax },
  { { "recover",
      "layer_norm, gelu, relu6, attention and batch_norm out of their pieces (f32: within 1e-5 of "
      "the largest result; where x is infinite gelu may be a number and not nan; relu6 leaves -0)",
      RG_PASS_REASSOCIATES },
    rg_pass_recover },
  { { "batch_norm_folding",
      "conv2d and batch_norm in evaluation as one conv2d (f32: within 1e-5 of the largest among "
      "results and scaled means)",
      RG_PASS_REASSOCIATES },
    rg_pass_batch_norm },
  { { "fold_affine",
      "numbers, one or one for each channel, around linear and conv2d become weights and bias "
      "(f32: "
      "within 1e-5 of the largest result)",
      RG_PASS_REASSOCIATES },
    rg_pass_affine },
  { { "epilogue_fusion",
      "bias and activation behind a product or conv2d as its arguments, and dropout behind a "
      "linear "
      "function, of the same elements (f32: within 1e-6 of the largest result; f16, bf16: rounded "
      "once where it was twice; relu and relu6 of nan are 0 where oneDNN convolves)",
      RG_PASS_REASSOCIATES },
    rg_pass_epilogue },
  { { "channels_last",
      "images between conv2d, pooling and elementwise functions have channels last, where that "
      "spares conversions (CPU; f32: within 1e-5 of the largest result)",
      RG_PASS_REASSOCIATES },
    rg_pass_channels_last },
  { { "common_subexpression_elimination", "what is computed twice is computed once",
      RG_PASS_EXACT },
    rg_pass_common },
  { { "dead_code_elimination", "what nobody reads is not computed; draws and writes outside stay",
      RG_PASS_EXACT },
    rg_pass_dead },
  { { "residual_fusion",
      "a tensor that is added behind conv2d, and the activation of that sum, as arguments of the "
      "convolution, in the memory of what is added where nobody reads that any more (CPU, f32 and "
      "bf16; f32: within 1e-5 of the largest result; bf16: rounded once where it was twice)",
      RG_PASS_REASSOCIATES },
    rg_pass_residual },
  { { "elementwise_fusion",
      "elementwise functions of one shape, and casts, in one pass over memory", RG_PASS_EXACT },
    rg_pass_fuse },
};

int32_t rg_pass_count(void)
{
  return (int32_t)(sizeof(passes) / sizeof(passes[0]));
}

rg_status rg_pass_facts_of(int32_t index, rg_pass_facts *out)
{
  if (index < 0 || index >= rg_pass_count() || out == NULL) {
    return rg_fail(RG_EARG, "graph: there is no pass %d", index);
  }
  *out = passes[index].facts;
  return RG_OK;
}

static bool is_checked(void)
{
  const char *check = getenv("RIDGE_CHECK");

  return check != NULL && strcmp(check, "1") == 0;
}

rg_status rg_graph_pass(rg_graph *graph, int32_t index)
{
  if (index < 0 || index >= rg_pass_count()) {
    return rg_fail(RG_EARG, "graph: there is no pass %d", index);
  }
  RG_TRY(passes[index].run(graph));
  return is_checked() ? rg_graph_check(graph) : RG_OK;
}

static rg_status run_named(rg_graph *g, const char *name)
{
  for (int32_t i = 0; name != NULL && i < rg_pass_count(); i++) {
    if (strcmp(passes[i].facts.name, name) == 0) {
      return rg_graph_pass(g, i);
    }
  }
  return rg_fail(RG_EARG, "graph: there is no pass '%s'", name != NULL ? name : "");
}

rg_status rg_graph_optimize(rg_graph *graph, const char *const *names, int32_t n, rg_graph **out)
{
  rg_graph *copy;
  rg_status status;

  if (n < 0 || (n > 0 && names == NULL) || out == NULL) {
    return rg_fail(RG_EARG, "graph: a list of passes is expected");
  }
  RG_TRY(rg_graph_copy(graph, &copy));
  status = RG_OK;
  for (int32_t i = 0; i < n && status == RG_OK; i++) {
    status = run_named(copy, names[i]);
  }
  if (status == RG_OK) {
    status = rg_graph_copy(copy, out); /* without gaps */
  }
  rg_graph_release(copy);
  return status;
}
