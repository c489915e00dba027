/* SPDX-License-Identifier: MIT */
/*
** Bias and activation as an epilogue: one condition after the other, of the product, of what stands
** behind it and of what is written between the two.
*/
#include "op/list.h"
#include "op/product.h"
#include "pass.h"

static const char epilogue[] = "epilogue_fusion";

static int32_t shaped(rg_graph *g, const rg_meta *meta)
{
  int32_t storage;
  int32_t value;

  must(rg_ir_storage_new(g, &storage));
  must(rg_ir_value_add(g, RG_VALUE_STATE, meta, RG_CPU, storage, NULL, &value));
  must(rg_ir_graph_state(g, value));
  return value;
}

static int32_t state(rg_graph *g, int64_t rows)
{
  const rg_meta meta = { RG_F32, 2, { rows, 3 } };

  return shaped(g, &meta);
}

static int32_t linear(rg_graph *g, int32_t x, int32_t w, int32_t b)
{
  static const char zero[64];

  return node_of(g, &rg_op_linear, (const int32_t[]){ x, w, b }, 3, zero, -1);
}

static void overwrite(rg_graph *g, int32_t value)
{
  (void)node_of(g, rg_ops[RG_OP_EXP], &value, 1, NULL, value);
}

/* -- The two nodes ----------------------------------------------------------------------------- */

enum {
  AS_IT_IS,
  RECOMPUTED,
  DETERMINISTIC,
  NO_VENDOR,
  NO_AUTOTUNE,
  TF32,
  GEMM,
  AUTOCAST_F32,
  N_FLAGS
};

static void flag(rg_graph *g, int32_t value, int32_t which)
{
  int32_t number = producer(g, value);
  rg_graph_modes modes = *rg_ir_modes_of(g, rg_ir_node_at(g, number)->modes);

  rg_ir_node_at(g, number)->recomputed = which == RECOMPUTED;
  modes.deterministic = which == DETERMINISTIC;
  modes.vendor = which != NO_VENDOR;
  modes.autotune = which != NO_AUTOTUNE;
  modes.tf32 = which == TF32;
  modes.gemm = which == GEMM;
  modes.autocast = which == AUTOCAST_F32 ? RG_F32 : -1;
  must(rg_ir_modes_add(g, &modes, &rg_ir_node_at(g, number)->modes));
}

/* One of the two runs otherwise, or both do. */
static void test_flags(void)
{
  for (int32_t which = 0; which < N_FLAGS; which++) {
    for (int32_t who = 1; who < 4; who++) {
      int32_t x;
      rg_graph *g = graph(&x);
      int32_t y = linear(g, x, state(g, 3), -1);
      int32_t z = unary(g, &rg_op_relu, y);

      flag(g, y, who & 1 ? which : AS_IT_IS);
      flag(g, z, who & 2 ? which : AS_IT_IS);
      returned(g, z, "");
      bool fused = which == AS_IT_IS || (who == 3 && which != RECOMPUTED);

      comes(g, epilogue, fused ? "linear" : "linear relu", "as one runs, the other does");
    }
  }
}

static void test_readers(void)
{
  for (int32_t which = 0; which < 6; which++) {
    static const char *const want[] = {
      "linear",           "linear relu",           "linear relu neg",
      "linear relu relu", "linear transpose relu", "linear relu exp"
    };
    int32_t x;
    rg_graph *g = graph(&x);
    int32_t y = linear(g, x, state(g, 3), -1);

    if (which == 4) {
      returned(g, transposed(g, y), "");
    }
    int32_t z = unary(g, &rg_op_relu, y);

    if (which == 1) {
      returned(g, y, "");
    } else if (which == 2) {
      returned(g, unary(g, &rg_op_neg, y), "");
    } else if (which == 3) {
      returned(g, unary(g, &rg_op_relu, y), "");
    } else if (which == 5) {
      overwrite(g, y);
    }
    returned(g, z, "");
    comes(g, epilogue, want[which], "who else reads what lies between");
  }
  int32_t x;
  rg_graph *g = graph(&x);
  int32_t y = linear(g, x, state(g, 3), -1);

  returned(g, node_of(g, &rg_op_relu, &y, 1, NULL, y), "");
  comes(g, epilogue, "linear relu", "an activation in place");
  g = graph(&x);
  y = linear(g, x, state(g, 3), -1);
  returned(g, added(g, y, y), "");
  comes(g, epilogue, "linear add", "a sum with itself");
  g = graph(&x);
  returned(g, unary(g, &rg_op_relu, x), "");
  comes(g, epilogue, "relu", "no product at all");
}

/* The product in a body, its follower outside, and both in it. */
static void test_bodies(void)
{
  for (int32_t both = 0; both < 2; both++) {
    int32_t x;
    int32_t node;
    rg_graph *g = graph(&x);
    int32_t w = state(g, 3);

    must(rg_ir_node_add(g, &rg_op_softmax, &x, 1, &(rg_softmax_args){ .axis = 1 }, &node));
    must(rg_ir_begin(g, node));
    int32_t y = linear(g, x, w, -1);

    y = both ? unary(g, &rg_op_relu, y) : y;
    rg_ir_end(g);
    if (both) {
      must(rg_ir_output_share(g, node, y));
    }
    rg_ir_results_end(g, node);
    returned(g, both ? y : unary(g, &rg_op_relu, y), "");
    comes(g, epilogue, both ? "softmax linear" : "softmax linear relu", "of one body or two");
  }
}

/* -- Writes between ---------------------------------------------------------------------------- */

enum { BEFORE, BETWEEN, BEHIND };

static void test_writes(void)
{
  for (int32_t when = BEFORE; when <= BEHIND; when++) {
    for (int32_t what = 0; what < 4; what++) { /* x, w, the bias, and what the product has not */
      const rg_meta meta = { RG_F32, 1, { 3 } };
      char want[64];
      rg_graph *g;

      must(rg_ir_new(&g));
      int32_t in[4] = { state(g, 3), state(g, 3), shaped(g, &meta), state(g, 3) };

      if (when == BEFORE) {
        in[what] = node_of(g, rg_ops[RG_OP_EXP], &in[what], 1, NULL, in[what]);
      }
      int32_t y = linear(g, in[0], in[1], in[2]);

      if (when == BETWEEN) {
        overwrite(g, in[what]);
      }
      returned(g, unary(g, &rg_op_relu, y), "");
      if (when == BEHIND) {
        overwrite(g, in[what]);
      }
      (void)snprintf(want, sizeof(want), "%s",
                     when == BEFORE   ? "exp linear"
                     : when == BEHIND ? "linear exp"
                     : what == 3      ? "exp linear"
                                      : "linear exp relu");
      comes(g, epilogue, want, "a write before, between or behind");
    }
  }
}

/* -- What a bias is ---------------------------------------------------------------------------- */

static void test_biases(void)
{
  static const struct {
    rg_meta meta;
    bool fused;
  } each[] = { { { RG_F32, 1, { 5 } }, true },        { { RG_F32, 2, { 1, 5 } }, true },
               { { RG_F32, 3, { 1, 1, 5 } }, false }, { { RG_F32, 2, { 4, 1 } }, false },
               { { RG_F32, 2, { 4, 5 } }, false },    { { RG_F32, 1, { 1 } }, false },
               { { RG_F32, 0, { 0 } }, false },       { { RG_F64, 1, { 5 } }, false },
               { { RG_BF16, 1, { 5 } }, false },      { { RG_F32, 2, { 1, 1 } }, false } };

  for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
    for (int32_t which = 0; which < 4; which++) { /* side, and a product that has one */
      const rg_meta meta[] = { { RG_F32, 2, { 4, 3 } },
                               { RG_F32, 2, { 5, 3 } },
                               { RG_F32, 1, { 5 } } };
      const bool has = which >= 2;
      rg_graph *g;

      must(rg_ir_new(&g));
      int32_t y =
          linear(g, shaped(g, &meta[0]), shaped(g, &meta[1]), has ? shaped(g, &meta[2]) : -1);
      int32_t b = shaped(g, &each[i].meta);

      returned(g, which % 2 ? added(g, b, y) : added(g, y, b), "");
      const bool fused = each[i].fused && !has;

      comes(g, epilogue,
            !fused                   ? "linear add"
            : each[i].meta.ndim == 1 ? "linear"
                                     : "view linear",
            "a bias");
    }
  }
  int32_t x;
  rg_graph *g = graph(&x);
  const rg_meta meta = { RG_F32, 1, { 3 } };
  int32_t b = shaped(g, &meta);
  int32_t y = linear(g, x, state(g, 3), -1);

  returned(g, with_number(g, RG_OP_ADD, y, 1, 0, -1), "");
  returned(g, with_tensor(g, RG_OP_SUB, linear(g, x, state(g, 3), -1), b), "");
  comes(g, epilogue, "linear add linear sub", "neither a number, nor what is taken away");
}

/* Each activation once, and none behind another one. */
static void test_activations(void)
{
  static const int32_t ops[] = { RG_OP_RELU,    RG_OP_GELU,  RG_OP_SILU, RG_OP_TANH,
                                 RG_OP_SIGMOID, RG_OP_RELU6, RG_OP_EXP };

  for (int32_t i = 0; i < 7; i++) {
    int32_t x;
    rg_graph *g = graph(&x);
    const rg_meta meta = { RG_F32, 1, { 3 } };
    int32_t b = shaped(g, &meta);
    int32_t y = unary(g, rg_ops[ops[i]], added(g, linear(g, x, state(g, 3), -1), b));

    returned(g, unary(g, &rg_op_relu, y), "");
    comes(g, epilogue, i == 6 ? "linear exp relu" : "linear relu", rg_ops[ops[i]]->name);
  }
}

/* A matmul whose right factor is a matrix is a linear function of x. */
static void test_matmul(void)
{
  static const struct {
    rg_meta x;
    rg_meta w;
    bool fused;
  } each[] = { { { RG_F32, 2, { 4, 3 } }, { RG_F32, 2, { 3, 5 } }, true },
               { { RG_F32, 1, { 3 } }, { RG_F32, 2, { 3, 5 } }, true },
               { { RG_F32, 3, { 2, 4, 3 } }, { RG_F32, 2, { 3, 5 } }, true },
               { { RG_F32, 3, { 2, 4, 3 } }, { RG_F32, 3, { 2, 3, 5 } }, false },
               { { RG_F32, 2, { 4, 3 } }, { RG_F32, 1, { 3 } }, false },
               { { RG_BF16, 2, { 4, 3 } }, { RG_BF16, 2, { 3, 5 } }, true },
               { { RG_I32, 2, { 4, 3 } }, { RG_I32, 2, { 3, 5 } }, false } };

  for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
    const rg_matmul_args args = { .compute = -1 };
    rg_graph *g;

    must(rg_ir_new(&g));
    const int32_t in[] = { shaped(g, &each[i].x), shaped(g, &each[i].w) };
    int32_t y = node_of(g, rg_ops[RG_OP_MATMUL], in, 2, &args, -1);

    returned(g, unary(g, &rg_op_relu, y), "");
    comes(g, epilogue, each[i].fused ? "transpose linear" : "matmul relu", "a matmul");
  }
}

/* -- What the node says ------------------------------------------------------------------------ */

static void test_node(void)
{
  int32_t x;
  rg_graph *g = graph(&x);
  const rg_meta meta = { RG_F32, 1, { 3 } };
  int32_t w = state(g, 3);
  int32_t b = shaped(g, &meta);
  int32_t y = linear(g, x, w, -1);
  int32_t z = added(g, y, b);

  for (int32_t i = 0; i < 2; i++) {
    rg_ir_node *node = rg_ir_node_at(g, producer(g, i == 0 ? y : z));

    node->module = text_in(g, i == 0 ? "first" : "last");
    node->line = text_in(g, i == 0 ? "net.lua:1" : "net.lua:2");
    node->flops = 10 + i;
    node->bytes = 1000 + i;
  }
  returned(g, z, "");
  rg_graph *out = after(g, epilogue);
  const rg_ir_node *node = rg_ir_node_at(out, 0);

  is_int(rg_ir_n_nodes(out), 1, "one node");
  ok(strcmp(rg_ir_text_of(out, node->module), "first") == 0, "in the product's module");
  ok(strcmp(rg_ir_text_of(out, node->line), "net.lua:1") == 0, "at its line");
  ok(node->flops == 10, "with its flops");
  ok(node->bytes == 1000 + 3 * 4, "and its bytes and the bias's");
  is_int(node->n_in, 3, "three inputs");
  is_int(rg_ir_value_at(out, rg_ir_inputs(out, node)[2])->meta.ndim, 1, "the bias the last");
  rg_graph_release(out);
}

int main(void)
{
  setenv("RIDGE_CHECK", "1", 1);
  test_flags();
  test_readers();
  test_bodies();
  test_writes();
  test_biases();
  test_activations();
  test_matmul();
  test_node();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  return done();
}
