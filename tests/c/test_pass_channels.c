/* SPDX-License-Identifier: MIT */
/*
** The pass that puts channels last: which nodes it changes, one condition after the other, which
** regions are worth it, and memory that fails.
*/
#include "op/cast.h"
#include "op/conv.h"
#include "op/pool.h"
#include "op/reduce.h"
#include "pass.h"

static const char last[] = "channels_last";

static int32_t there(rg_graph *g, int32_t kind, const rg_meta *meta)
{
  int32_t storage;
  int32_t value;

  must(rg_ir_storage_new(g, &storage));
  must(rg_ir_value_add(g, kind, meta, RG_CPU, storage, NULL, &value));
  if (kind == RG_VALUE_INPUT) {
    must(rg_ir_graph_input(g, value));
  }
  return value;
}

static int32_t image(rg_graph *g, int64_t c)
{
  const rg_meta meta = { .dtype = RG_F32, .ndim = 4, .shape = { 2, c, 8, 8 } };

  return there(g, RG_VALUE_INPUT, &meta);
}

static int32_t weight(rg_graph *g, int64_t n)
{
  const rg_meta meta = { .dtype = RG_F32, .ndim = 4, .shape = { n, n, 3, 3 } };

  return there(g, RG_VALUE_PARAMETER, &meta);
}

static int32_t convolved_by(rg_graph *g, int32_t x, int32_t w, int64_t groups, int32_t layout)
{
  const rg_conv2d_args args = { .o = { .stride = { 1, 1 },
                                       .dilation = { 1, 1 },
                                       .pad_low = { 1, 1 },
                                       .pad_high = { 1, 1 },
                                       .groups = groups,
                                       .layout = layout } };

  return node_of(g, rg_ops[RG_OP_CONV2D], (const int32_t[]){ x, w, -1 }, 3, &args, -1);
}

static int32_t convolved(rg_graph *g, int32_t x, int32_t w)
{
  return convolved_by(g, x, w, 1, RG_NCHW);
}

static int32_t reduced(rg_graph *g, int32_t op, int32_t x, uint32_t axes, int32_t keep)
{
  return node_of(g, rg_ops[op], &x, 1, &(rg_reduce_args){ .axes = axes, .keep = keep }, -1);
}

/* The mean of each image: behind a convolution it is worth a change. */
static int32_t mean(rg_graph *g, int32_t x)
{
  return reduced(g, RG_OP_MEAN, x, 4 | 8, 0);
}

/* Two convolutions with relu between them; the number of the relu's node. */
static rg_graph *chain(int32_t *relu)
{
  rg_graph *g;

  must(rg_ir_new(&g));
  int32_t x = image(g, 16);
  int32_t w = weight(g, 16);
  int32_t y = unary(g, &rg_op_relu, convolved(g, x, w));

  *relu = producer(g, y);
  returned(g, convolved(g, y, w), "");
  return g;
}

/* One node of the chain, as no pass may move it, makes two regions of it that gain nothing. */
static void test_nodes(void)
{
  static const char *const what[] = { "as it is", "recomputed", "derived", "unwritten" };

  for (int32_t which = 0; which < 3; which++) { /* of the nodes */
    for (int32_t i = 0; i < 4; i++) {
      int32_t relu;
      rg_graph *g = chain(&relu);
      rg_ir_node *node = rg_ir_node_at(g, relu - 1 + which);

      node->recomputed = i == 1;
      node->derived = i == 2;
      node->unwritten = i == 3;
      comes(g, last, i == 0 ? "permute copy conv2d relu conv2d permute copy" : "conv2d relu conv2d",
            what[i]);
    }
  }
}

/* A chain in the body of a compound, and one whose relu is written over what comes in. */
static void test_places(void)
{
  rg_graph *g;
  int32_t node;

  must(rg_ir_new(&g));
  int32_t x = image(g, 16);
  int32_t w = weight(g, 16);

  must(rg_ir_node_add(g, &rg_op_softmax, &x, 1, &(rg_softmax_args){ .axis = 1 }, &node));
  must(rg_ir_begin(g, node));
  int32_t y = convolved(g, convolved(g, x, w), w);

  rg_ir_end(g);
  must(rg_ir_output_share(g, node, y));
  rg_ir_results_end(g, node);
  returned(g, y, "");
  comes(g, last, "softmax conv2d conv2d", "bodies stay as they are");

  must(rg_ir_new(&g));
  x = image(g, 16);
  w = weight(g, 16);
  y = convolved(g, x, w);
  y = node_of(g, &rg_op_relu, &y, 1, NULL, y);
  returned(g, convolved(g, y, w), "");
  comes(g, last, "conv2d relu conv2d", "what is written in place");
}

/* -- Types, shapes and arguments --------------------------------------------------------------- */

static void test_images(void)
{
  static const struct {
    int32_t dtype;
    int64_t n;
    int32_t device;
    bool changed;
  } each[] = { { RG_F32, 2, RG_CPU, true },  { RG_BF16, 2, RG_CPU, true },
               { RG_F16, 2, RG_CPU, false }, { RG_F64, 2, RG_CPU, false },
               { RG_F32, 0, RG_CPU, false }, { RG_F32, 1, RG_CPU, true },
               { RG_F32, 2, 1, false } };

  for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
    const rg_meta meta[2] = { { each[i].dtype, 4, { each[i].n, 16, 8, 8 } },
                              { each[i].dtype, 4, { 16, 16, 3, 3 } } };
    rg_graph *g;

    must(rg_ir_new(&g));
    int32_t x = there(g, RG_VALUE_INPUT, &meta[0]);
    int32_t w = there(g, RG_VALUE_PARAMETER, &meta[1]);

    returned(g, mean(g, convolved(g, x, w)), "");
    for (int32_t k = 0; k < rg_ir_n_values(g); k++) {
      rg_ir_value_at(g, k)->device = each[i].device;
    }
    comes(g, last, each[i].changed ? "permute copy conv2d mean" : "conv2d mean", "an image");
  }
}

static void test_convolutions(void)
{
  static const struct {
    int64_t in;
    int64_t out;
    int64_t groups;
    int32_t layout;
    bool changed;
  } each[] = { { 32, 32, 1, RG_NCHW, true },   { 32, 32, 1, RG_NHWC, false },
               { 32, 32, 2, RG_NCHW, true },   { 32, 32, 4, RG_NCHW, false },
               { 30, 32, 2, RG_NCHW, false },  { 32, 30, 2, RG_NCHW, false },
               { 64, 32, 2, RG_NCHW, true },   { 32, 64, 2, RG_NCHW, true },
               { 32, 32, 32, RG_NCHW, true },  { 32, 64, 32, RG_NCHW, false },
               { 64, 32, 32, RG_NCHW, false }, { 17, 17, 1, RG_NCHW, true },
               { 1, 6, 1, RG_NCHW, false },    { 34, 34, 2, RG_NCHW, true } };

  for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
    const int64_t in = each[i].in;
    const bool nhwc = each[i].layout == RG_NHWC;
    const rg_meta meta[2] = {
      { RG_F32, 4, { 2, nhwc ? 8 : in, 8, nhwc ? in : 8 } },
      { RG_F32, 4, { each[i].out, in / each[i].groups, 3, 3 } },
    };
    char what[64];
    rg_graph *g;

    must(rg_ir_new(&g));
    int32_t x = there(g, RG_VALUE_INPUT, &meta[0]);
    int32_t w = there(g, RG_VALUE_PARAMETER, &meta[1]);

    returned(g, mean(g, convolved_by(g, x, w, each[i].groups, each[i].layout)), "");
    (void)snprintf(what, sizeof(what), "%d channels to %d in %d groups", (int)in, (int)each[i].out,
                   (int)each[i].groups);
    comes(g, last, each[i].changed ? "permute copy conv2d mean" : "conv2d mean", what);
  }
}

static void test_reductions(void)
{
  static const int32_t ops[] = { RG_OP_MEAN, RG_OP_SUM, RG_OP_MAX, RG_OP_MIN, RG_OP_PROD };

  for (int32_t i = 0; i < 5; i++) {
    for (uint32_t axes = 0; axes < 16; axes++) {
      for (int32_t keep = 0; keep < 2; keep++) {
        bool changed = axes == 12 && ops[i] != RG_OP_PROD;
        char want[64];
        rg_graph *g;

        must(rg_ir_new(&g));
        int32_t y = reduced(g, ops[i], convolved(g, image(g, 16), weight(g, 16)), axes, keep);

        returned(g, y, "");
        (void)snprintf(want, sizeof(want), "%sconv2d %s%s", changed ? "permute copy " : "",
                       rg_ops[ops[i]]->name, changed && keep ? " permute copy" : "");
        rg_graph *out = after(g, last);
        char text[64] = "";
        const int32_t *order;
        int32_t n;

        must(rg_ir_order(out, &order, NULL, &n));
        for (int32_t k = 0; k < n; k++) {
          size_t at = strlen(text);
          const rg_ir_node *node = rg_ir_node_at(out, order[k]);

          (void)snprintf(text + at, sizeof(text) - at, "%s%s", k > 0 ? " " : "", node->op->name);
          if (node->op->id == ops[i]) {
            is_int(((const rg_reduce_args *)rg_ir_args(out, node))->axes, changed ? 6 : axes,
                   "over rows and columns");
          }
        }
        ok(strcmp(text, want) == 0, want);
        rg_graph_release(out);
      }
    }
  }
}

static void test_pools(void)
{
  for (int32_t i = 0; i < 4; i++) {
    const int32_t op = i < 2 ? RG_OP_MAX_POOL2D : RG_OP_AVG_POOL2D;
    const rg_pool2d_args args = {
      .o = { .size = { 2, 2 }, .stride = { 2, 2 }, .layout = i % 2 ? RG_NHWC : RG_NCHW }
    };
    char want[96];
    rg_graph *g;

    must(rg_ir_new(&g));
    int32_t x = convolved(g, image(g, 16), weight(g, 16));

    returned(g, node_of(g, rg_ops[op], &x, 1, &args, -1), "");
    (void)snprintf(want, sizeof(want), i % 2 ? "conv2d %s" : "permute copy conv2d %s permute copy",
                   rg_ops[op]->name);
    comes(g, last, want, "fewer bytes go out of a pooling");
  }
}

/* Elementwise functions of two images, or of an image and something else. */
static void test_operands(void)
{
  static const struct {
    rg_meta meta;
    const char *want;
  } each[] = {
    { { RG_F32, 4, { 2, 16, 8, 8 } }, "permute copy conv2d permute copy conv2d add mean" },
    { { RG_F32, 4, { 1, 16, 1, 1 } }, "conv2d add mean" },
    { { RG_F32, 4, { 2, 16, 8, 1 } }, "conv2d add mean" },
    { { RG_F32, 3, { 16, 8, 8 } }, "conv2d add mean" },
    { { RG_F32, 1, { 8 } }, "conv2d add mean" },
  };

  for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
    for (int32_t first = 0; first < 2; first++) {
      rg_graph *g;

      must(rg_ir_new(&g));
      int32_t w = weight(g, 16);
      int32_t x = convolved(g, image(g, 16), w);
      int32_t y = there(g, RG_VALUE_INPUT, &each[i].meta);

      y = i == 0 ? convolved(g, y, w) : y;
      returned(g, mean(g, first ? added(g, y, x) : added(g, x, y)), "");
      comes(g, last, each[i].want, "a sum");
    }
  }
  for (int32_t first = 0; first < 2; first++) { /* of one region, and of other shapes */
    const rg_pool2d_args whole = { .o = { .size = { 8, 8 }, .stride = { 8, 8 } } };
    rg_graph *g;

    must(rg_ir_new(&g));
    int32_t x = convolved(g, image(g, 16), weight(g, 16));
    int32_t y = node_of(g, rg_ops[RG_OP_AVG_POOL2D], &x, 1, &whole, -1);

    returned(g, mean(g, first ? added(g, y, x) : added(g, x, y)), "");
    comes(g, last, "conv2d avg_pool2d add mean", "a sum of two shapes");
  }
  rg_graph *g;

  must(rg_ir_new(&g));
  int32_t x = convolved(g, image(g, 16), weight(g, 16));

  returned(g, mean(g, added(g, x, image(g, 16))), "");
  comes(g, last, "conv2d add mean", "nothing is brought in for a sum");

  for (int32_t i = 0; i < 2; i++) {
    must(rg_ir_new(&g));
    x = convolved(g, image(g, 16), weight(g, 16));
    x = node_of(g, rg_ops[RG_OP_CAST], &x, 1, &(rg_cast_args){ .dtype = i == 0 ? RG_BF16 : RG_F16 },
                -1);
    returned(g, mean(g, x), "");
    comes(g, last, i == 0 ? "permute copy conv2d cast mean" : "conv2d cast mean", "a cast");
  }
  must(rg_ir_new(&g));
  x = convolved(g, image(g, 16), weight(g, 16));
  returned(g, mean(g, with_number(g, RG_OP_MUL, x, 2, 0, -1)), "");
  comes(g, last, "permute copy conv2d mul mean", "a number is no image");
}

/* The other two axes, a view. */
static int32_t turned(rg_graph *g, int32_t x)
{
  const rg_transpose_args args = { .a = 2, .b = 3 };
  const rg_ir_value v = *rg_ir_value_at(g, x);
  int32_t node;
  int32_t value;

  must(rg_ir_node_add(g, &rg_op_transpose, &x, 1, &args, &node));
  must(rg_ir_output_add(g, node, &v.meta, v.device, v.storage, v.version, -1, &value));
  rg_ir_results_end(g, node);
  return value;
}

/* -- What it is worth -------------------------------------------------------------------------- */

/* As many who read what lies between two convolutions with channels first as there are. */
static void test_worth(void)
{
  for (int32_t outside = 0; outside < 3; outside++) {
    static const char *const want[] = {
      "permute copy conv2d conv2d permute copy",
      "permute copy conv2d permute copy transpose conv2d permute copy",
      "permute copy conv2d permute copy transpose transpose conv2d permute copy"
    };
    rg_graph *g;

    must(rg_ir_new(&g));
    int32_t w = weight(g, 16);
    int32_t x = convolved(g, image(g, 16), w);

    for (int32_t i = 0; i < outside; i++) {
      returned(g, turned(g, x), "");
    }
    returned(g, convolved(g, x, w), "");
    comes(g, last, want[outside], "one copy, however many read it");
  }
}

/* What is copied is as much as what the convolutions convert, or less by one image. */
static void test_borders(void)
{
  for (int32_t i = 0; i < 4; i++) {
    static const char *const want[] = { "permute copy conv2d permute copy conv2d add permute copy",
                                        "conv2d conv2d add", "conv2d conv2d add",
                                        "conv2d conv2d add" };
    rg_graph *g;

    must(rg_ir_new(&g));
    int32_t w = weight(g, 16);
    int32_t x = convolved(g, image(g, 16), w);
    int32_t y = convolved(g, image(g, 16), w);

    if (i == 1 || i == 3) {
      returned(g, x, "");
    }
    if (i >= 2) {
      returned(g, y, "");
    }
    returned(g, added(g, x, y), "");
    comes(g, last, want[i], "two images come in, one is converted, or more go out");
  }
  for (int32_t i = 0; i < 2; i++) {
    rg_graph *g;

    must(rg_ir_new(&g));
    int32_t x = convolved(g, image(g, 16), weight(g, 16));
    int32_t y = unary(g, &rg_op_relu, x);

    if (i == 1) {
      returned(g, x, "");
    }
    returned(g, unary(g, &rg_op_neg, y), "");
    comes(g, last, "conv2d relu neg", "one convolution, whatever stands behind it");
  }
}

/* What a maximum's index is read for has channels first. */
static void test_hidden(void)
{
  const rg_pool2d_args args = { .o = { .size = { 2, 2 }, .stride = { 2, 2 } } };

  for (int32_t reads = 0; reads < 2; reads++) {
    rg_graph *g;

    must(rg_ir_new(&g));
    int32_t x = image(g, 16);
    int32_t w = weight(g, 16);
    int32_t between = convolved(g, x, w);
    const rg_meta meta[2] = { { .dtype = RG_F32, .ndim = 4, .shape = { 2, 16, 4, 4 } },
                              { .dtype = RG_I32, .ndim = 4, .shape = { 2, 16, 4, 4 } } };
    int32_t node;
    int32_t made[2];

    must(rg_ir_node_add(g, rg_ops[RG_OP_MAX_POOL2D], &between, 1, &args, &node));
    for (int i = 0; i < 2; i++) {
      int32_t storage;

      must(rg_ir_storage_new(g, &storage));
      must(rg_ir_output_add(g, node, &meta[i], RG_CPU, storage, 0, -1, &made[i]));
    }
    rg_ir_results_end(g, node);
    const int32_t y = made[0];
    const int32_t index = made[1];

    returned(g, convolved(g, convolved(g, y, w), w), "");
    if (reads == 1) {
      returned(g, index, "");
    }
    comes(g, last,
          reads == 1 ? "conv2d max_pool2d permute copy conv2d conv2d permute copy"
                     : "permute copy conv2d max_pool2d conv2d conv2d permute copy",
          reads == 1 ? "a pooling whose index is read stays" : "one whose index is not is changed");
  }
}

static void test_no_memory(void)
{
  int32_t relu;
  rg_graph *g = chain(&relu);
  rg_graph *out = NULL;
  const char *name = last;
  rg_status status;
  int64_t n = 0;

  do {
    rg_alloc_fail_at(++n);
    status = rg_graph_optimize(g, &name, 1, &out);
    rg_alloc_fail_at(0);
  } while (status == RG_ENOMEM && n < 10000);
  is_status(status, RG_OK, "a graph in the end");
  ok(n > 20, "where many allocations were refused");
  rg_graph_release(out);
  rg_graph_release(g);
}

/* A graph without nodes, and one without values. */
static void test_empty(void)
{
  for (int32_t values = 0; values < 2; values++) {
    rg_graph *g;

    must(rg_ir_new(&g));
    if (values > 0) {
      returned(g, image(g, 16), "");
    }
    comes(g, last, "", "nothing to change");
  }
}

int main(void)
{
  setenv("RIDGE_CHECK", "1", 1);
  test_nodes();
  test_places();
  test_images();
  test_convolutions();
  test_reductions();
  test_pools();
  test_operands();
  test_worth();
  test_borders();
  test_hidden();
  test_empty();
  test_no_memory();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  return done();
}
