/* SPDX-License-Identifier: MIT */
/*
** The pass that puts channels last: what it leaves alone for reasons that cannot be seen from Lua,
** and memory that fails.
*/
#include "op/conv.h"
#include "op/pool.h"
#include "pass.h"

static const char last[] = "channels_last";

static int32_t image(rg_graph *g, int64_t c)
{
  const rg_meta meta = { .dtype = RG_F32, .ndim = 4, .shape = { 2, c, 8, 8 } };
  int32_t storage;
  int32_t value;

  must(rg_ir_storage_new(g, &storage));
  must(rg_ir_value_add(g, RG_VALUE_INPUT, &meta, RG_CPU, storage, NULL, &value));
  must(rg_ir_graph_input(g, value));
  return value;
}

static int32_t weight(rg_graph *g, int64_t n)
{
  const rg_meta meta = { .dtype = RG_F32, .ndim = 4, .shape = { n, n, 3, 3 } };
  int32_t storage;
  int32_t value;

  must(rg_ir_storage_new(g, &storage));
  must(rg_ir_value_add(g, RG_VALUE_PARAMETER, &meta, RG_CPU, storage, NULL, &value));
  return value;
}

static int32_t convolved(rg_graph *g, int32_t x, int32_t w)
{
  const rg_conv2d_args args = { .o = { .stride = { 1, 1 },
                                       .dilation = { 1, 1 },
                                       .pad_low = { 1, 1 },
                                       .pad_high = { 1, 1 },
                                       .groups = 1 } };

  return node_of(g, rg_ops[RG_OP_CONV2D], (const int32_t[]){ x, w, -1 }, 3, &args, -1);
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

static void test_nodes(void)
{
  int32_t relu;
  rg_graph *g = chain(&relu);

  comes(g, last, "permute copy conv2d relu conv2d permute copy", "a chain is changed");
  g = chain(&relu);
  rg_ir_node_at(g, relu)->recomputed = true;
  comes(g, last, "conv2d relu conv2d", "what is recomputed stays where it is, and ends a region");
  g = chain(&relu);
  rg_ir_node_at(g, relu)->derived = true;
  comes(g, last, "conv2d relu conv2d", "so does what is derived");
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

int main(void)
{
  test_nodes();
  test_hidden();
  test_no_memory();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  return done();
}
