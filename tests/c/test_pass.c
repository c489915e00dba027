/* SPDX-License-Identifier: MIT */
/*
** Passes over graphs: what each takes away, and what it has to leave.
*/
#include "op/norm.h"
#include "pass.h"

extern const rg_op rg_op_layer_norm;

/* -- Dead code --------------------------------------------------------------------------- */

static const char dead[] = "dead_code_elimination";

static void test_dead(void)
{
  int32_t x;
  int32_t later;
  rg_graph *g = graph(&x);

  returned(g, unary(g, &rg_op_relu, x), "");
  (void)unary(g, &rg_op_neg, unary(g, &rg_op_gelu, x));
  comes(g, dead, "relu", "what nobody reads goes, and what only that read");

  g = graph(&x);
  int32_t y = unary(g, &rg_op_gelu, x);
  int32_t over = node_of(g, &rg_op_relu, &y, 1, NULL, y);

  (void)node_of(g, &rg_op_neg, &over, 1, NULL, over);
  returned(g, x, "");
  comes(g, dead, "", "writes in place that nobody reads go, the last first");

  g = graph(&x);
  y = unary(g, &rg_op_gelu, x);
  (void)written(g, transposed(g, y), y, &later);
  returned(g, later, "");
  comes(g, dead, "gelu transpose relu", "a write through a view is read through another");

  g = graph(&x);
  y = unary(g, &rg_op_gelu, x);
  returned(g, unary(g, &rg_op_neg, y), "");
  (void)written(g, transposed(g, y), y, &later);
  comes(g, dead, "gelu neg", "a read before the write needs it not");

  g = graph(&x);
  y = unary(g, &rg_op_gelu, x);
  returned(g, node_of(g, &rg_op_relu, &x, 1, NULL, y), "");
  comes(g, dead, "gelu relu", "what is written over stays, read or not");

  g = graph(&x);
  must(rg_ir_graph_output(
      g, &(rg_ir_output){ .value = unary(g, &rg_op_gelu, x), .kind = RG_OUTPUT_GRADIENT }));
  must(rg_ir_graph_output(
      g, &(rg_ir_output){ .value = unary(g, &rg_op_neg, x), .kind = RG_OUTPUT_KEPT }));
  comes(g, dead, "gelu neg", "gradients and what is held outside stay");
}

static void test_effects(void)
{
  const rg_dropout_args p = { .p = 0.25 };
  int32_t x;
  rg_graph *g = graph(&x);
  int32_t y = unary(g, &rg_op_gelu, x);

  (void)node_of(g, &rg_op_dropout, &y, 1, &p, -1);
  returned(g, x, "");
  comes(g, dead, "gelu dropout", "a draw stays where nobody reads it, with what it reads");

  g = graph(&x);
  int32_t state = outside(g, RG_VALUE_STATE, "average", 3, 3);
  int32_t view = transposed(g, state);

  (void)node_of(g, &rg_op_relu, &view, 1, NULL, view);
  returned(g, x, "");
  comes(g, dead, "transpose relu", "a write to what was there before stays, through a view too");
}

/* A compound over x whose body is made by hand: neg, relu, and gelu on the side. */
static int32_t compound(rg_graph *g, int32_t x, int32_t *node, int32_t *side)
{
  const rg_softmax_args axis = { .axis = 1 };

  must(rg_ir_node_add(g, &rg_op_softmax, &x, 1, &axis, node));
  must(rg_ir_begin(g, *node));
  int32_t y = unary(g, &rg_op_relu, unary(g, &rg_op_neg, x));

  *side = unary(g, &rg_op_gelu, x);
  rg_ir_end(g);
  must(rg_ir_output_share(g, *node, y));
  rg_ir_results_end(g, *node);
  return y;
}

static void test_dead_bodies(void)
{
  const rg_dropout_args p = { .p = 0.25 };
  int32_t x;
  int32_t node;
  int32_t side;
  rg_graph *g = graph(&x);

  (void)compound(g, x, &node, &side);
  returned(g, x, "");
  comes(g, dead, "", "a compound that nobody reads goes with its body");

  g = graph(&x);
  returned(g, compound(g, x, &node, &side), "");
  comes(g, dead, "softmax neg relu", "of a body stays what is handed out");

  g = graph(&x);
  (void)compound(g, x, &node, &side);
  returned(g, unary(g, &rg_op_neg, side), "");
  comes(g, dead, "softmax neg relu gelu neg", "a body that is looked into keeps its compound");

  g = graph(&x);
  must(rg_ir_node_add(g, &rg_op_softmax, &x, 1, &(rg_softmax_args){ .axis = 1 }, &node));
  must(rg_ir_begin(g, node));
  (void)node_of(g, &rg_op_dropout, &x, 1, &p, -1);
  (void)unary(g, &rg_op_neg, x);
  rg_ir_end(g);
  rg_ir_results_end(g, node);
  returned(g, x, "");
  comes(g, dead, "softmax dropout", "a draw in a body stays, in it");
}

/* -- Common subexpressions ------------------------------------------------------------------- */

static const char common[] = "common_subexpression_elimination";

static void test_common(void)
{
  const rg_dropout_args p = { .p = 0.25 };
  int32_t x;
  rg_graph *g = graph(&x);
  int32_t a = unary(g, &rg_op_neg, unary(g, &rg_op_gelu, x));
  int32_t b = unary(g, &rg_op_neg, unary(g, &rg_op_gelu, x));

  returned(g, added(g, a, b), "");
  comes(g, common, "gelu neg add", "the same of the same is computed once");

  g = graph(&x);
  a = unary(g, &rg_op_neg, transposed(g, unary(g, &rg_op_gelu, x)));
  b = unary(g, &rg_op_relu, transposed(g, unary(g, &rg_op_gelu, x)));
  returned(g, added(g, a, b), "");
  comes(g, common, "gelu transpose neg relu add", "views of it too");

  g = graph(&x);
  a = with_number(g, RG_OP_MUL, x, 2, 0, -1);
  b = with_number(g, RG_OP_MUL, x, 3, 0, -1);
  returned(g, added(g, a, b), "");
  comes(g, common, "mul mul add", "not with other arguments");

  g = graph(&x);
  a = node_of(g, &rg_op_dropout, &x, 1, &p, -1);
  b = node_of(g, &rg_op_dropout, &x, 1, &p, -1);
  returned(g, added(g, a, b), "");
  comes(g, common, "dropout dropout add", "not draws");

  g = graph(&x);
  returned(g, unary(g, &rg_op_gelu, x), "a");
  returned(g, unary(g, &rg_op_gelu, x), "b");
  comes(g, common, "gelu gelu", "not two results: who writes to one must not change the other");

  g = graph(&x);
  a = unary(g, &rg_op_gelu, x);
  returned(g, unary(g, &rg_op_neg, a), "");
  returned(g, unary(g, &rg_op_gelu, x), "");
  comes(g, common, "gelu neg", "one of them may be");
}

/* What passes ask before they make one value of two views.  No pass comes upon two of different
** versions today: this is the promise itself. */
static void test_two_views(void)
{
  int32_t x;
  rg_merge m;
  rg_graph *g = graph(&x);
  int32_t y = unary(g, &rg_op_gelu, x);
  int32_t a = transposed(g, y);
  int32_t b = transposed(g, y);

  y = node_of(g, &rg_op_relu, &y, 1, NULL, y);
  int32_t c = transposed(g, y);
  int32_t d = transposed(g, y);

  returned(g, d, "");
  must(rg_merge_begin(&m, g));
  ok(rg_merge_allowed(&m, b, a), "two views of one memory are one");
  ok(!rg_merge_allowed(&m, c, a), "not across a write between them");
  ok(!rg_merge_allowed(&m, a, c), "neither way");
  ok(rg_merge_allowed(&m, c, d), "behind it they are");
  ok(!rg_merge_allowed(&m, d, c), "but what is handed out stays");
  ok(rg_merge_is_last(&m, c) && !rg_merge_is_last(&m, a), "nothing is written behind one of them");
  rg_merge_release(&m);
  rg_graph_release(g);
}

/* A write between two that look alike, or over one of them. */
static void test_common_writes(void)
{
  int32_t x;
  int32_t later;
  rg_graph *g = graph(&x);
  int32_t y = unary(g, &rg_op_gelu, x);
  int32_t a = unary(g, &rg_op_neg, y);

  (void)written(g, transposed(g, y), y, &later);
  returned(g, added(g, a, unary(g, &rg_op_neg, later)), "");
  comes(g, common, "gelu neg transpose relu neg add", "not across a write through a view");

  for (int32_t first = 0; first < 2; first++) {
    g = graph(&x);
    a = unary(g, &rg_op_gelu, x);
    int32_t b = unary(g, &rg_op_gelu, x);
    int32_t changed = first ? a : b;
    int32_t kept = first ? b : a;

    (void)written(g, transposed(g, changed), changed, &later);
    returned(g, added(g, kept, later), "");
    comes(g, common, "gelu gelu transpose relu add", "nor where one of the two is written to");
  }

  g = graph(&x);
  y = unary(g, &rg_op_gelu, x);
  a = transposed(g, y);
  int32_t b = transposed(g, y);

  a = unary(g, &rg_op_neg, a);
  (void)written(g, b, y, &later);
  returned(g, added(g, a, later), "");
  comes(g, common, "gelu transpose transpose neg relu add", "nor a view that is written to");

  const rg_fill_args zeros = { .meta = { RG_F32, 2, { 3, 3 } } };

  g = graph(&x);
  y = outside(g, RG_VALUE_STATE, "average", 3, 3);
  y = node_of(g, rg_ops[RG_OP_FILL], NULL, 0, &zeros, y);
  y = node_of(g, &rg_op_relu, &y, 1, NULL, y);
  (void)node_of(g, rg_ops[RG_OP_FILL], NULL, 0, &zeros, y);
  returned(g, x, "");
  comes(g, common, "fill relu fill", "nor what is written over, twice with the same");
}

static void test_common_modes(void)
{
  for (int32_t i = 0; i < 7; i++) {
    static const char *const what[] = { "recomputed", "autocast",  "compute", "deterministic",
                                        "device",     "unwritten", "nothing" };
    int32_t x;
    rg_graph *g = graph(&x);
    int32_t a = filled(g, 3, 3);
    int32_t b = filled(g, 3, 3);
    rg_ir_node *node = rg_ir_node_at(g, producer(g, b));
    rg_graph_modes modes = *rg_ir_modes_of(g, node->modes);

    returned(g, unary(g, &rg_op_neg, a), "");
    returned(g, unary(g, &rg_op_relu, b), "");
    node = rg_ir_node_at(g, producer(g, b));
    node->recomputed = i == 0;
    node->unwritten = i == 5;
    modes.autocast = i == 1 ? RG_BF16 : modes.autocast;
    modes.weight_cast = i == 2 ? RG_BF16 : modes.weight_cast;
    modes.deterministic = i == 3;
    must(rg_ir_modes_add(g, &modes, &rg_ir_node_at(g, producer(g, b))->modes));
    if (i == 4) {
      rg_ir_value_at(g, b)->device = 1;
      rg_ir_value_at(g, b + 2)->device = 1;
    }
    comes(g, common, i < 6 ? "fill fill neg relu" : "fill neg relu", what[i]);
  }
}

/* Nodes that differ in one thing each, so many that some meet in the hash table. */
static void test_common_near(void)
{
  enum { MANY = 240 };
  static const char *const what[] = {
    "numbers", "inputs", "operations", "modes", "parents", "sides"
  };

  for (int32_t which = 0; which < 6; which++) {
    int32_t x;
    rg_graph *g = graph(&x);
    rg_graph *out;
    const int32_t *order;
    const int32_t n = which == 4 ? 60 : MANY;
    int32_t nodes;

    for (int32_t i = 0; i < n; i++) {
      int32_t in = which == 1 ? outside(g, RG_VALUE_INPUT, "in", 3, 3) : x;
      int32_t compound;

      if (which == 4) {
        must(rg_ir_node_add(g, &rg_op_softmax, &x, 1, &(rg_softmax_args){ .axis = 1 }, &compound));
        must(rg_ir_begin(g, compound));
      }
      int32_t y = which == 2   ? unary(g, rg_ops[i % 2 ? RG_OP_EXP : RG_OP_SIN],
                                       outside(g, RG_VALUE_INPUT, "in", 3, 3))
                  : which == 5 ? (i % 2 ? added(g, x, outside(g, RG_VALUE_INPUT, "in", 3, 3))
                                        : added(g, outside(g, RG_VALUE_INPUT, "in", 3, 3), x))
                               : with_number(g, RG_OP_MUL, in, which == 0 ? i : 7, 0, -1);

      if (which == 3) {
        rg_graph_modes modes = *rg_ir_modes_of(g, rg_ir_node_at(g, producer(g, y))->modes);

        modes.gemm = i;
        must(rg_ir_modes_add(g, &modes, &rg_ir_node_at(g, producer(g, y))->modes));
      }
      if (which == 4) {
        rg_ir_end(g);
        must(rg_ir_output_share(g, compound, y));
        rg_ir_results_end(g, compound);
      }
      returned(g, unary(g, &rg_op_neg, y), "");
    }
    out = after(g, common);
    must(rg_ir_order(out, &order, NULL, &nodes));
    is_int(nodes, (which == 4 ? 3 : 2) * n, what[which]);
    rg_graph_release(out);
  }
  int32_t x;
  int32_t n;
  rg_graph *g = graph(&x);
  rg_graph *out;
  const int32_t *order;

  for (int32_t i = 0; i < 2 * MANY; i++) {
    int32_t y = with_number(g, RG_OP_MUL, x, i % MANY, 0, -1);

    returned(g, unary(g, i < MANY ? &rg_op_neg : &rg_op_relu, y), "");
  }
  out = after(g, common);
  must(rg_ir_order(out, &order, NULL, &n));
  is_int(n, 3 * MANY, "and each is found again");
  rg_graph_release(out);
}

/* Bodies read what their compounds are given. */
static void test_common_bodies(void)
{
  int32_t x;
  int32_t node;
  int32_t side;
  rg_graph *g = graph(&x);
  int32_t a = unary(g, &rg_op_neg, x);
  int32_t b = compound(g, x, &node, &side);

  returned(g, added(g, added(g, a, b), unary(g, &rg_op_gelu, x)), "");
  comes(g, common, "neg softmax neg relu gelu gelu add add", "bodies share nothing with others");

  g = graph(&x);
  must(rg_ir_node_add(g, &rg_op_softmax, &x, 1, &(rg_softmax_args){ .axis = 1 }, &node));
  must(rg_ir_begin(g, node));
  a = unary(g, &rg_op_neg, x);
  b = unary(g, &rg_op_neg, x);
  rg_ir_end(g);
  must(rg_ir_output_share(g, node, b));
  rg_ir_results_end(g, node);
  returned(g, b, "");
  comes(g, common, "softmax neg", "in one body they do");
}

enum { UNTRACKED, TRACKED, HOLED };

/* A norm, its mean and scale: hidden results are there where the call was tracked, and of those
** the ones that are wanted.  hidden: the first of them that is there */
static int32_t norm_of(rg_graph *g, int32_t x, int32_t how, int32_t *hidden)
{
  const int32_t in[] = { x, -1, -1 };
  const rg_layer_norm_args args = { .eps = 1e-5 };
  int32_t node;
  int32_t value[3] = { 0 };
  int32_t storage;
  rg_call call;

  must(rg_ir_infer(g, &rg_op_layer_norm, in, 3, &args, -1, &call));
  must(rg_ir_node_add(g, &rg_op_layer_norm, in, 3, &args, &node));
  for (int32_t i = 0; i < (how == UNTRACKED ? 1 : 3); i++) {
    if (how == HOLED && i == 1) {
      must(rg_ir_output_skip(g, node));
      continue;
    }
    must(rg_ir_storage_new(g, &storage));
    must(rg_ir_output_add(g, node, &call.out[i], RG_CPU, storage, 0, -1, &value[i]));
  }
  rg_ir_results_end(g, node);
  rg_graph_modes modes = *rg_ir_modes_of(g, rg_ir_node_at(g, node)->modes);

  modes.compute = call.compute;
  must(rg_ir_modes_add(g, &modes, &rg_ir_node_at(g, node)->modes));
  *hidden = how == UNTRACKED ? -1 : value[how == HOLED ? 2 : 1];
  return value[0];
}

static void test_common_hidden(void)
{
  for (int32_t first = 0; first < 2; first++) {
    int32_t x;
    int32_t mean[2];
    rg_graph *g = graph(&x);
    int32_t a = norm_of(g, x, first == 1 ? TRACKED : UNTRACKED, &mean[0]);
    int32_t b = norm_of(g, x, first == 0 ? TRACKED : UNTRACKED, &mean[1]);

    returned(g, added(g, a, b), "");
    returned(g, unary(g, &rg_op_neg, mean[first == 1 ? 0 : 1]), "");
    comes(g, common, first ? "layer_norm add neg" : "layer_norm layer_norm add neg",
          "a hidden result that is read comes from the one that made it");
  }
  int32_t x;
  int32_t mean;
  rg_graph *g = graph(&x);
  int32_t a = norm_of(g, x, UNTRACKED, &mean);

  returned(g, added(g, a, norm_of(g, x, TRACKED, &mean)), "");
  comes(g, common, "layer_norm add", "and one that nobody reads need not be there");
}

/* A norm whose mean nobody wanted, but its scale, and a view of the input: both between a product
** and its activation. */
static void test_hidden(void)
{
  static const struct {
    const char *pass;
    const char *want;
  } each[] = {
    { "arithmetic_identities", "linear layer_norm transpose relu add add exp" },
    { "constant_folding", "linear layer_norm transpose relu mul add add exp" },
    { "view_folding", "linear layer_norm transpose relu mul add add exp" },
    { "concat_folding", "linear layer_norm transpose relu mul add add exp" },
    { "reduction_folding", "linear layer_norm transpose relu mul add add exp" },
    { "pad_folding", "linear layer_norm transpose relu mul add add exp" },
    { "argmax_folding", "linear layer_norm transpose relu mul add add exp" },
    { "recover", "linear layer_norm transpose relu mul add add exp" },
    { "batch_norm_folding", "linear layer_norm transpose relu mul add add exp" },
    { "fold_affine", "linear layer_norm transpose relu mul add add exp" },
    { "epilogue_fusion", "layer_norm transpose linear mul add add exp" },
    { "channels_last", "linear layer_norm transpose relu mul add add exp" },
    { "common_subexpression_elimination", "linear layer_norm transpose relu mul add add exp" },
    { "dead_code_elimination", "linear layer_norm transpose relu mul add add" },
    { "residual_fusion", "linear layer_norm transpose relu mul add add exp" },
    { "elementwise_fusion", "linear layer_norm transpose fused add add exp" },
  };
  static const char zero[64];

  is_int(sizeof(each) / sizeof(each[0]), rg_pass_count(), "every pass");
  for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
    int32_t x;
    int32_t scale;
    rg_graph *g = graph(&x);
    int32_t w = outside(g, RG_VALUE_CONSTANT, "w", 3, 3);
    int32_t y = node_of(g, &rg_op_linear, (const int32_t[]){ x, w, -1 }, 3, zero, -1);
    int32_t norm = norm_of(g, x, HOLED, &scale);
    int32_t across = transposed(g, x);

    y = with_number(g, RG_OP_MUL, unary(g, &rg_op_relu, y), 1, 0, -1);
    returned(g, added(g, added(g, y, across), norm), "");
    returned(g, scale, "");
    (void)unary(g, rg_ops[RG_OP_EXP], x);
    comes(g, each[i].pass, each[i].want, each[i].pass);
  }
}

/* -- All of them ----------------------------------------------------------------------------- */

/* One gelu, 29 products and 30 sums are left; every step may be refused memory. */
static rg_status life(rg_graph *g)
{
  static const char *const all[] = { "arithmetic_identities", common, dead };
  rg_graph *out = NULL;
  rg_status status = rg_graph_optimize(g, all, 3, &out);
  rg_graph_facts facts;

  if (status == RG_OK) {
    rg_graph_facts_of(out, &facts);
    status = facts.n_nodes == 60 ? rg_graph_check(out) : RG_EBUG;
    rg_graph_release(out);
  }
  return status;
}

static void test_memory(void)
{
  int32_t x;
  int64_t n = 0;
  int32_t wrong = 0;
  int32_t changed = 0;
  rg_graph *g = graph(&x);
  rg_graph *before;
  rg_status status;
  int32_t sum = unary(g, &rg_op_gelu, x);

  for (int32_t i = 0; i < 30; i++) {
    int32_t y = with_number(g, RG_OP_MUL, unary(g, &rg_op_gelu, x), 1, 0, -1);

    sum = added(g, sum, with_number(g, RG_OP_MUL, y, i + 1, 0, -1));
    (void)unary(g, &rg_op_neg, sum);
  }
  returned(g, sum, "");
  must(rg_graph_copy(g, &before));
  do {
    rg_alloc_fail_at(tap_refusing() ? 0 : ++n);
    status = life(g);
    /* what went well was refused nothing: the next allocation is the one that would be */
    wrong += status == RG_OK && !tap_refusing() && !rg_alloc_injected();
    rg_alloc_fail_at(0);
    wrong += status != RG_OK && status != RG_ENOMEM;
    changed += rg_graph_same(g, before) != RG_OK;
  } while (status != RG_OK && n < 100000 && wrong == 0);
  is_int(wrong, 0, "each refusal is told as what it is");
  is_int(changed, 0, "and leaves the graph as it was");
  ok(tap_refusing() || (n > 20 && status == RG_OK), "for every allocation");
  rg_graph_release(before);
  rg_graph_release(g);
}

static void test_table(void)
{
  rg_pass_facts facts;
  rg_graph *out = NULL;
  const char *name = "dead_code";
  int32_t x;
  rg_graph *g = graph(&x);

  for (int32_t i = 0; i < rg_pass_count(); i++) {
    is_status(rg_pass_facts_of(i, &facts), RG_OK, "a pass");
    ok(facts.name[0] != '\0' && facts.doc[0] != '\0' && facts.exactness >= RG_PASS_EXACT &&
           facts.exactness <= RG_PASS_CHANGES_TRAINING,
       facts.name);
  }
  is_status(rg_pass_facts_of(-1, &facts), RG_EARG, "none before");
  is_status(rg_pass_facts_of(rg_pass_count(), &facts), RG_EARG, "none behind");
  is_status(rg_graph_pass(g, rg_pass_count()), RG_EARG, "which can be run");
  is_status(rg_graph_optimize(g, &name, 1, &out), RG_EARG, "none of another name");
  ok(SAYS("there is no pass 'dead_code'"), "which is said");
  is_status(rg_graph_optimize(g, NULL, 0, &out), RG_OK, "none at all is a copy");
  is_status(rg_graph_same(g, out), RG_OK, "of the same");
  rg_graph_release(out);
  rg_graph_release(g);
}

/* With RIDGE_CHECK=1 a pass says that the graph it leaves is none. */
static void test_checked(void)
{
  int32_t x;
  rg_graph *g = graph(&x);

  returned(g, unary(g, &rg_op_gelu, x), "");
  rg_ir_value_at(g, x)->meta.shape[0] = 7;
  unsetenv("RIDGE_CHECK");
  is_status(rg_graph_pass(g, 0), RG_OK, "unchecked");
  setenv("RIDGE_CHECK", "0", 1);
  is_status(rg_graph_pass(g, 0), RG_OK, "and so with 0");
  setenv("RIDGE_CHECK", "1", 1);
  is_status(rg_graph_pass(g, 0), RG_EBUG, "checked");
  rg_graph_release(g);
}

int main(void)
{
  setenv("RIDGE_CHECK", "1", 1);
  test_dead();
  test_effects();
  test_dead_bodies();
  test_common();
  test_two_views();
  test_common_writes();
  test_common_modes();
  test_common_near();
  test_common_bodies();
  test_common_hidden();
  test_hidden();
  test_memory();
  test_table();
  test_checked();
  return done();
}
