/* SPDX-License-Identifier: MIT */
/*
** Values and nodes: how graphs are made, changed, put in order, copied, compared and printed.
*/
#include "graph/text.h"
#include "ir.h"

/* The names of the nodes in their order. */
static const char *names(rg_graph *g)
{
  static char text[512];
  const int32_t *order;
  const int32_t *body;
  int32_t n;

  text[0] = '\0';
  must(rg_ir_order(g, &order, &body, &n));
  for (int32_t i = 0; i < n; i++) {
    size_t at = strlen(text);

    (void)snprintf(text + at, sizeof(text) - at, "%s%s", i > 0 ? " " : "",
                   rg_ir_node_at(g, order[i])->op->name);
    if (body[i] > 0) {
      at = strlen(text);
      (void)snprintf(text + at, sizeof(text) - at, "/%d", body[i]);
    }
    if (rg_ir_node_at(g, order[i])->position != i) {
      return "a node does not know its place";
    }
  }
  return text;
}

static bool is_named(rg_graph *g, const char *want)
{
  const char *got = names(g);
  bool same = strcmp(got, want) == 0;

  if (!same) {
    printf("#   got %s\n#  want %s\n", got, want);
  }
  return same;
}

static void test_made(void)
{
  sample s = sample_graph();
  rg_graph_facts facts;
  rg_graph_node node;
  rg_graph_value value;

  rg_graph_facts_of(s.g, &facts);
  is_int(facts.n_nodes, 9, "nodes");
  is_int(facts.n_values, 11, "values");
  is_int(facts.n_draws, 1, "draws");
  is_int(facts.n_inputs + 10 * facts.n_outputs + 100 * facts.n_states, 111, "one of each");
  is_status(rg_graph_check(s.g), RG_OK, "it is whole");
  ok(is_named(s.g, "linear gelu relu dropout softmax/2 neg relu add add"), "in order");
  is_status(rg_graph_node_of(s.g, producer(s.g, s.y), &node), RG_OK, "a node");
  ok(strcmp(node.name, "linear") == 0 && strcmp(node.module, "fc") == 0 &&
         strcmp(node.line, "net.lua:12") == 0 && node.op == RG_OP_LINEAR,
     "what it is and where it was called");
  ok(node.n_inputs == 3 && node.inputs[1] == s.w && node.inputs[2] == -1, "what it reads");
  ok(node.n_outputs == 1 && node.outputs[0] == s.y && node.generator == -1, "what it makes");
  is_status(rg_graph_node_of(s.g, s.compound, &node), RG_OK, "a compound");
  ok(node.n_body == 2 && node.outputs[0] == s.outer, "has a body and hands a value of it out");
  is_status(rg_graph_value_of(s.g, s.over, &value), RG_OK, "a value");
  ok(value.was == s.z && value.version == 1 && value.n_uses == 1 && value.ndim == 2 &&
         value.shape[1] == 3 && value.kind == RG_VALUE_INTERMEDIATE,
     "what was written over another");
  is_int(rg_graph_use(s.g, s.over, 0), producer(s.g, s.dropped), "who reads it");
  is_int(rg_graph_use(s.g, s.over, 1), -1, "and nobody else");
  is_int(rg_graph_input(s.g, 0), s.x, "the input");
  is_int(rg_graph_state(s.g, 0), s.state, "the state");
  is_int(rg_graph_input(s.g, 1) + rg_graph_state(s.g, -1), -2, "there are no more");
  const char *name = "";

  is_int(rg_graph_output(s.g, 0, NULL, &name, NULL), s.sum, "the output");
  ok(strcmp(name, "logits") == 0, "by its name");
  is_int(rg_graph_output(s.g, 1, NULL, NULL, NULL), -1, "there is one only");
  is_status(rg_graph_node_of(s.g, 99, &node), RG_EARG, "no such node");
  is_status(rg_graph_value_of(s.g, -1, &value), RG_EARG, "no such value");
  rg_graph_release(s.g);
}

/* Ten thousand readers of one value, then none: uses are found by where they stand. */
static void test_uses(void)
{
  rg_graph *g;
  int32_t x;
  int32_t other;
  int32_t bad = 0;

  must(rg_ir_new(&g));
  x = outside(g, RG_VALUE_INPUT, "x", 1, 1);
  other = outside(g, RG_VALUE_INPUT, "other", 1, 1);
  for (int32_t i = 0; i < 10000; i++) {
    returned(g, added(g, x, x), "");
  }
  is_int(rg_ir_value_at(g, x)->n_uses, 20000, "twice each");
  for (int32_t i = 0; i < 10000; i += 2) {
    must(rg_ir_set_input(g, i, 1, other));
  }
  is_int(rg_ir_value_at(g, x)->n_uses, 15000, "a quarter reads another one");
  for (int32_t i = 0; i < 10000; i++) {
    const int32_t *in = rg_ir_inputs(g, rg_ir_node_at(g, i));

    bad += in[0] != x || in[1] != (i % 2 == 0 ? other : x);
  }
  is_int(bad, 0, "those that were to");
  is_status(rg_graph_check(g), RG_OK, "whole");
  must(rg_graph_replace(g, x, other));
  is_int(rg_ir_value_at(g, x)->n_uses, 0, "nobody");
  is_int(rg_ir_value_at(g, other)->n_uses, 20000, "everybody");
  is_status(rg_graph_check(g), RG_OK, "whole again");
  is_status(rg_graph_set_input(g, 3, 2, x), RG_EARG, "no third input");
  is_status(rg_graph_set_input(g, 3, 0, 999999), RG_EARG, "no such value");
  is_status(rg_graph_replace(g, 999999, x), RG_EARG, "nor to replace");
  rg_graph_release(g);
}

static void test_insert(void)
{
  sample s = sample_graph();
  int32_t gelu = producer(s.g, s.z);
  int32_t a;
  int32_t b;
  int32_t c;

  is_status(rg_graph_insert(s.g, gelu, 0, RG_OP_TANH, &s.y, 1, NULL, &a), RG_OK, "before");
  is_status(rg_graph_insert(s.g, gelu, 0, RG_OP_SIN, &s.y, 1, NULL, &b), RG_OK, "behind that");
  is_status(rg_graph_insert(s.g, a, 0, RG_OP_COS, &s.y, 1, NULL, &c), RG_OK,
            "before one that waits");
  ok(is_named(s.g, "linear cos tanh sin gelu relu dropout softmax/2 neg relu add add"), "order");
  is_status(rg_graph_insert(s.g, s.compound, 1, RG_OP_TANH, &s.y, 1, NULL, &a), RG_OK,
            "behind a compound");
  is_status(rg_graph_insert(s.g, s.compound, 1, RG_OP_SIN, &s.y, 1, NULL, &b), RG_OK,
            "directly behind it");
  is_status(rg_graph_insert(s.g, producer(s.g, s.outer), 1, RG_OP_COS, &s.y, 1, NULL, &c), RG_OK,
            "at the end of its body");
  is_status(rg_graph_insert(s.g, c, 1, RG_OP_EXP, &s.y, 1, NULL, &c), RG_OK, "and there again");
  ok(is_named(s.g, "linear cos tanh sin gelu relu dropout softmax/4 neg relu cos exp sin tanh "
                   "add add"),
     "behind the body and in it");
  is_int(rg_ir_node_at(s.g, c)->parent, s.compound, "it is in the body");
  is_status(rg_graph_check(s.g), RG_OK, "whole");
  is_status(
      rg_graph_insert(s.g, gelu, 0, RG_OP_DROPOUT, &s.y, 1, &(rg_dropout_args){ .p = 0.5 }, &a),
      RG_ENOSUP, "a draw");
  ok(SAYS("would draw"), "which is said");
  is_status(rg_graph_insert(s.g, gelu, 0, RG_OP_SGD_STEP, NULL, 0, NULL, &a), RG_ENOSUP,
            "what writes");
  is_status(rg_graph_insert(s.g, gelu, 0, RG_OP_MATMUL, &s.y, 1, NULL, &a), RG_EARG, "one too few");
  is_status(rg_graph_insert(s.g, 77, 0, RG_OP_TANH, &s.y, 1, NULL, &a), RG_EARG, "no such place");
  is_status(rg_graph_insert(s.g, gelu, 0, -3, &s.y, 1, NULL, &a), RG_EARG, "no such operation");
  is_status(rg_graph_insert(s.g, gelu, 0, RG_OP_TANH, (const int32_t[]){ 99 }, 1, NULL, &a),
            RG_EARG, "no such value");
  is_status(rg_graph_check(s.g), RG_OK, "nothing has changed");
  rg_ir_value_at(s.g, s.x)->device = 1;
  must(rg_graph_insert(s.g, gelu, 0, RG_OP_TANH, &s.x, 1, NULL, &a));
  is_int(rg_ir_value_at(s.g, rg_ir_outputs(s.g, rg_ir_node_at(s.g, a))[0])->device, 1,
         "what is inserted lies where its input does");
  rg_graph_release(s.g);
}

static void test_remove(void)
{
  sample s = sample_graph();
  int32_t tanh;

  is_status(rg_graph_remove(s.g, producer(s.g, s.y)), RG_EARG, "what is read stays");
  ok(SAYS("needs"), "and says so");
  is_status(rg_graph_remove(s.g, producer(s.g, s.sum)), RG_EARG, "an output too");
  is_status(rg_graph_remove(s.g, producer(s.g, s.dropped)), RG_EARG, "a draw too");
  is_status(rg_graph_remove(s.g, producer(s.g, s.written)), RG_EARG, "and what is written outside");
  ok(SAYS("there before"), "and says so");
  is_status(rg_graph_remove(s.g, producer(s.g, s.over)), RG_EARG, "a write that is read");
  is_status(rg_graph_remove(s.g, s.compound), RG_EARG, "a compound that is read");
  is_status(rg_graph_remove(s.g, producer(s.g, s.inner)), RG_EARG, "a part of it");
  is_status(rg_graph_check(s.g), RG_OK, "nothing has changed");

  is_status(rg_graph_insert(s.g, s.compound, 0, RG_OP_TANH, &s.dropped, 1, NULL, &tanh), RG_OK,
            "another one in its place");
  must(rg_graph_replace(s.g, s.outer, rg_ir_outputs(s.g, rg_ir_node_at(s.g, tanh))[0]));
  is_status(rg_graph_check(s.g), RG_OK, "which is read");
  is_int(rg_ir_outputs(s.g, rg_ir_node_at(s.g, s.compound))[0],
         rg_ir_outputs(s.g, rg_ir_node_at(s.g, tanh))[0], "and handed out");
  rg_ir_node_at(s.g, producer(s.g, s.inner))->draw = 1;
  ok(rg_graph_remove(s.g, s.compound) == RG_EARG && SAYS("node 5 (neg) draws"),
     "not where its body draws");
  rg_ir_node_at(s.g, producer(s.g, s.inner))->draw = -1;
  is_status(rg_graph_remove(s.g, s.compound), RG_OK, "now it goes, with its body");
  ok(is_named(s.g, "linear gelu relu dropout tanh add add"), "all of it");
  is_status(rg_graph_check(s.g), RG_OK, "whole");
  is_status(rg_graph_remove(s.g, s.compound), RG_EARG, "it is gone");
  rg_graph_release(s.g);
}

/* What is written over a value goes over the one in its place. */
static void test_replace_written(void)
{
  sample s = sample_graph();
  int32_t relu;
  int32_t by;

  is_status(rg_graph_insert(s.g, producer(s.g, s.z), 1, RG_OP_RELU, &s.y, 1, NULL, &relu), RG_OK,
            "another activation");
  by = rg_ir_outputs(s.g, rg_ir_node_at(s.g, relu))[0];
  must(rg_graph_replace(s.g, s.z, by));
  is_int(rg_ir_value_at(s.g, s.over)->was, by, "it is written over");
  is_int(rg_ir_value_at(s.g, s.over)->storage, rg_ir_value_at(s.g, by)->storage, "in its storage");
  is_status(rg_graph_check(s.g), RG_OK, "whole");
  is_status(rg_graph_remove(s.g, producer(s.g, s.z)), RG_OK, "the first one goes");
  is_status(rg_graph_check(s.g), RG_OK, "whole again");
  must(rg_graph_replace(s.g, s.over, by));
  ok(rg_graph_check(s.g) == RG_EBUG && SAYS("reads"), "not past the write");
  is_status(rg_graph_remove(s.g, producer(s.g, s.over)), RG_OK, "which goes too, as the last one");
  is_status(rg_graph_check(s.g), RG_OK, "then it is right");
  rg_graph_release(s.g);
}

/* The same over a value that was written over itself: versions go on counting from there. */
static void test_replace_version(void)
{
  sample s = sample_graph();
  int32_t tanh = unary(s.g, rg_ops[RG_OP_TANH], s.x);
  int32_t later = node_of(s.g, rg_ops[RG_OP_TANH], &tanh, 1, NULL, tanh);
  int32_t last = node_of(s.g, rg_ops[RG_OP_TANH], &later, 1, NULL, later);

  returned(s.g, last, "last");
  must(rg_graph_replace(s.g, tanh, s.over));
  is_int(rg_ir_value_at(s.g, later)->version, 2, "behind version 1");
  is_int(rg_ir_value_at(s.g, last)->version, 3, "and so on");
  is_int(rg_ir_value_at(s.g, last)->storage, rg_ir_value_at(s.g, s.over)->storage, "there");
  is_status(rg_graph_check(s.g), RG_OK, "whole");
  rg_graph_release(s.g);
}

static void test_copy(void)
{
  sample s = sample_graph();
  sample t = sample_graph();
  rg_graph *copy = NULL;
  rg_graph_facts facts;
  int32_t node;

  is_status(rg_graph_same(s.g, t.g), RG_OK, "made alike");
  is_status(rg_graph_copy(s.g, &copy), RG_OK, "a copy");
  is_status(rg_graph_check(copy), RG_OK, "which is whole");
  is_status(rg_graph_same(s.g, copy), RG_OK, "and the same");
  rg_graph_release(copy);
  must(rg_graph_insert(s.g, producer(s.g, s.z), 1, RG_OP_RELU, &s.y, 1, NULL, &node));
  must(rg_graph_replace(s.g, s.z, rg_ir_outputs(s.g, rg_ir_node_at(s.g, node))[0]));
  must(rg_graph_remove(s.g, producer(s.g, s.z)));
  is_status(rg_graph_copy(s.g, &copy), RG_OK, "of one that was edited");
  is_status(rg_graph_check(copy), RG_OK, "whole");
  is_status(rg_graph_same(s.g, copy), RG_OK, "the same");
  rg_graph_facts_of(copy, &facts);
  is_int(facts.n_node_ids, facts.n_nodes, "without gaps");
  is_int(facts.n_value_ids, facts.n_values, "nor among values");
  is_status(rg_graph_same(copy, t.g), RG_EARG, "and another one than before");
  ok(SAYS("relu") && SAYS("gelu"), "which is said");
  rg_graph_release(copy);
  rg_graph_release(s.g);
  rg_graph_release(t.g);
}

/* One difference at a time. */
static void test_same(void)
{
  static const char *const what[] = { "a name",   "an argument", "a module", "a line",
                                      "modes",    "an input",    "a shape",  "an output's kind",
                                      "a device", "a mark",      "a kind",   "a version" };

  for (size_t i = 0; i < sizeof(what) / sizeof(what[0]); i++) {
    sample s = sample_graph();
    sample t = sample_graph();
    rg_ir_node *node = rg_ir_node_at(t.g, producer(t.g, t.sum));

    switch (i) {
    case 0:
      rg_ir_name(t.g, t.w, text_in(t.g, "fc.bias"));
      break;
    case 1:
      node = rg_ir_node_at(t.g, producer(t.g, t.dropped));
      ((rg_dropout_args *)(uintptr_t)rg_ir_args(t.g, node))->p = 0.5;
      break;
    case 2:
      node->module = text_in(t.g, "head");
      break;
    case 3:
      node->line = text_in(t.g, "a.lua:1");
      break;
    case 4:
      must(rg_ir_modes_add(t.g, &(rg_graph_modes){ .tf32 = 1 }, &node->modes));
      break;
    case 5:
      must(rg_ir_set_input(t.g, producer(t.g, t.sum), 1, t.over));
      break;
    case 6:
      rg_ir_value_at(t.g, t.w)->meta.shape[0] = 7;
      break;
    case 7:
      ((rg_ir_output *)(uintptr_t)rg_ir_output_at(t.g, 0))->kind = RG_OUTPUT_KEPT;
      break;
    case 8:
      rg_ir_value_at(t.g, t.x)->device = 1;
      break;
    case 9:
      node->recomputed = true;
      break;
    case 10:
      rg_ir_value_at(t.g, t.w)->kind = RG_VALUE_CONSTANT;
      break;
    default:
      rg_ir_value_at(t.g, t.over)->version = 2;
    }
    /* where in the source a call stands is no part of what is computed */
    const rg_status wanted = i == 3 ? RG_OK : RG_EARG;

    is_status(rg_graph_same(s.g, t.g), wanted, what[i]);
    is_status(rg_graph_same(t.g, s.g), wanted, "seen from both sides");
    rg_graph_release(s.g);
    rg_graph_release(t.g);
  }
}

static void test_print(void)
{
  sample s = sample_graph();
  const char *text = "";

  is_status(rg_graph_print(s.g, &text), RG_OK, "printed");
  ok(strcmp(text, "graph of 9 nodes\n"
                  "  %0: f32[2,3]                                      input x\n"
                  "  %1: f32[3,3]                                      parameter fc.weight\n"
                  "  %2: f32[2,3]                                      state average\n"
                  "  %3: f32[2,3] = linear(%0, %1, -)                  ; fc  net.lua:12\n"
                  "  %4: f32[2,3] = gelu(%3)\n"
                  "  %5: f32[2,3] = relu(%4)                           ; writes %4\n"
                  "  %6: f32[2,3] = dropout(%5) {p=0.25}\n"
                  "  %8: f32[2,3] = softmax(%6) {axis=2} of\n"
                  "    %7: f32[2,3] = neg(%6)\n"
                  "    %8: f32[2,3] = relu(%7)\n"
                  "  %9: f32[2,3] = add(%8, %3)\n"
                  "  %10: f32[2,3] = add(%2, %9)                       ; writes %2\n"
                  "  return %9 logits\n") == 0,
     "as an engineer reads it");
  rg_graph_release(s.g);
}

/* A storage that took over another one's versions knows who wrote the last of them: a compound that
** wrote both goes as a whole. */
static void test_replaced_writer(void)
{
  static const rg_softmax_args axis = { .axis = 1 };
  rg_graph *g;
  int32_t compound;

  must(rg_ir_new(&g));
  int32_t x = outside(g, RG_VALUE_INPUT, "x", 2, 3);
  int32_t old = unary(g, &rg_op_gelu, x);
  int32_t by = unary(g, &rg_op_neg, x);

  must(rg_ir_node_add(g, &rg_op_softmax, &x, 1, &axis, &compound));
  must(rg_ir_begin(g, compound));
  int32_t first = node_of(g, &rg_op_relu, &old, 1, NULL, old);
  int32_t last = node_of(g, &rg_op_relu, &first, 1, NULL, first);
  rg_ir_end(g);
  rg_ir_results_end(g, compound);
  returned(g, x, "");
  must(rg_graph_replace(g, old, by));
  is_int(rg_ir_value_at(g, last)->storage, rg_ir_value_at(g, by)->storage, "over the other one");
  is_status(rg_graph_remove(g, producer(g, first)), RG_EARG, "the first write alone stays");
  ok(SAYS("is written again later"), "and says so");
  is_status(rg_graph_remove(g, compound), RG_OK, "both go");
  is_status(rg_graph_check(g), RG_OK, "whole");
  rg_graph_release(g);
}

static rg_status any(rg_call *call)
{
  call->n_out = 0;
  return RG_OK;
}

/* An argument of a type that nobody knows is an error, no eight bytes. */
static void test_unknown_argument(void)
{
  static const rg_arg args[] = { { "odd", "", 0, 99, RG_ARG_NUMBER, 0 } };
  static const rg_op odd = {
    .name = "odd_one", .id = -1, .arg = args, .n_args = 1, .args_size = 64, .infer = any
  };
  static const char zero[64];
  rg_ir_out o = { 0 };
  const char *text = NULL;
  rg_graph *g;
  int32_t node;

  must(rg_ir_new(&g));
  is_status(rg_ir_node_add(g, &odd, NULL, 0, zero, &node), RG_EBUG, "no node of it");
  ok(SAYS("odd_one") && SAYS("argument odd is of type 99"), "which says what");
  rg_ir_put_typed_arg(&o, args, zero);
  is_status(rg_ir_show(g, &o, &text), RG_EBUG, "and no text");
  ok(SAYS("odd") && text == NULL, "which says what, too");
  rg_graph_release(g);
}

/* What is bound is like the value, and held. */
static void test_bound(void)
{
  rg_graph *g;
  rg_tensor *x = NULL;
  rg_tensor *y = NULL;
  int64_t before = rg_live_tensors();
  int32_t value;

  must(rg_ir_new(&g));
  value = outside(g, RG_VALUE_INPUT, "x", 2, 3);
  must(rg_empty(RG_F32, RG_CPU, (const int64_t[]){ 2, 3 }, 2, &x));
  must(rg_empty(RG_F32, RG_CPU, (const int64_t[]){ 3, 2 }, 2, &y));
  ok(rg_ir_bound(g, value) == NULL, "nothing is bound");
  is_status(rg_ir_bind(g, value, x), RG_OK, "a tensor");
  is_status(rg_ir_bind(g, value, y), RG_ESHAPE, "another shape");
  ok(rg_ir_bound(g, value) == x, "the first stays");
  rg_tensor_release(y);
  must(rg_empty(RG_F64, RG_CPU, (const int64_t[]){ 2, 3 }, 2, &y));
  is_status(rg_ir_bind(g, value, y), RG_EDTYPE, "another type");
  rg_tensor_release(y);
  is_status(rg_ir_bind(g, value, NULL), RG_EARG, "none");
  ok(rg_ir_bound(g, value) == x, "the first stays after these, too");
  rg_tensor_release(x);
  is_int(rg_live_tensors(), before + 1, "it is held");
  rg_graph_release(g);
  is_int(rg_live_tensors(), before, "until the graph goes");
}

/* A node for which memory is refused is no reader of its inputs, of the first ones either. */
static void test_refused(void)
{
  static const char zero[64];
  rg_graph *g;
  int32_t wrong = 0;
  int32_t refused = 0;

  if (tap_refusing()) {
    return;
  }
  must(rg_ir_new(&g));
  for (int32_t i = 0; i < 100; i++) {
    const int32_t in[3] = { outside(g, RG_VALUE_INPUT, "x", 2, 3),
                            outside(g, RG_VALUE_INPUT, "y", 2, 3),
                            outside(g, RG_VALUE_INPUT, "z", 2, 3) };
    rg_status status = RG_ENOMEM;
    int32_t node;

    for (int64_t n = 1; status == RG_ENOMEM && n < 100; n++) {
      rg_alloc_fail_at(n);
      status = rg_ir_node_add(g, &rg_op_add, in, 2, zero, &node);
      rg_alloc_fail_at(0);
      refused += status == RG_ENOMEM;
      wrong += rg_ir_value_at(g, in[0])->n_uses != (status == RG_OK);
      wrong += rg_ir_value_at(g, in[1])->n_uses != (status == RG_OK);
    }
    must(status);
    if (i % 3 == 0) { /* so that room ends now before the first input, now before the second */
      must(rg_ir_node_add(g, &rg_op_neg, &in[2], 1, NULL, &node));
    }
  }
  ok(refused > 10, "some were refused");
  is_int(wrong, 0, "and are nobody's readers");
  rg_graph_release(g);
}

/* Many readers come to a value that had few, and others' stay where they are. */
static void test_replace_many(void)
{
  rg_graph *g;

  must(rg_ir_new(&g));
  int32_t x = outside(g, RG_VALUE_INPUT, "x", 2, 3);
  int32_t old = unary(g, &rg_op_gelu, x);
  int32_t by = unary(g, &rg_op_neg, x);
  int32_t behind = unary(g, &rg_op_relu, by);

  for (int32_t i = 0; i < 50; i++) {
    (void)unary(g, i % 2 == 0 ? &rg_op_relu : &rg_op_neg, i % 3 == 0 ? behind : old);
  }
  must(rg_graph_replace(g, old, by));
  is_int(rg_ir_value_at(g, by)->n_uses, 1 + 33, "all of them");
  is_status(rg_graph_check(g), RG_OK, "each where it says");
  is_int(rg_graph_use(g, by, 0), producer(g, behind), "the first one");
  rg_graph_release(g);
}

/* Numbers before the first and behind the last value and node, and of what was removed. */
static void test_numbers(void)
{
  sample s = sample_graph();
  const int32_t gone_node = producer(s.g, unary(s.g, &rg_op_neg, s.x));
  const int32_t gone = rg_ir_outputs(s.g, rg_ir_node_at(s.g, gone_node))[0];

  must(rg_graph_remove(s.g, gone_node));
  const int32_t values[] = { -1, gone, rg_ir_n_values(s.g), INT32_MAX, INT32_MIN };
  const int32_t nodes[] = { -1, gone_node, rg_ir_n_nodes(s.g), INT32_MAX, INT32_MIN };
  const int32_t ends[][3] = { { -1, -1, -1 },
                              { rg_ir_n_inputs(s.g), rg_ir_n_states(s.g), rg_ir_n_outputs(s.g) } };
  rg_graph_value value;
  rg_graph_node at;
  int32_t made;

  for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
    const int32_t v = values[i];
    const int32_t n = nodes[i];

    is_status(rg_graph_value_of(s.g, v, &value), RG_EARG, "no value");
    is_int(rg_graph_use(s.g, v, 0), RG_IR_NONE, "nobody reads it");
    ok(rg_graph_bound(s.g, v) == NULL, "nothing holds it");
    is_status(rg_graph_bind(s.g, v, NULL), RG_EARG, "nor will");
    is_status(rg_graph_replace(s.g, v, s.x), RG_EARG, "it is not replaced");
    is_status(rg_graph_replace(s.g, s.z, v), RG_EARG, "nor stands for another");
    is_status(rg_graph_node_of(s.g, n, &at), RG_EARG, "no node");
    is_status(rg_graph_remove(s.g, n), RG_EARG, "which does not go");
    is_status(rg_graph_set_input(s.g, n, 0, s.x), RG_EARG, "reads nothing");
    is_status(rg_graph_insert(s.g, n, 0, RG_OP_NEG, &s.x, 1, NULL, &made), RG_EARG,
              "and stands beside nothing");
    if (v != RG_IR_NONE) { /* an input that is left out */
      is_status(rg_graph_set_input(s.g, producer(s.g, s.z), 0, v), RG_EARG, "no input");
      is_status(rg_graph_insert(s.g, producer(s.g, s.z), 0, RG_OP_NEG, &v, 1, NULL, &made), RG_EARG,
                "nor of a new node");
    }
  }
  for (size_t i = 0; i < 2; i++) {
    is_int(rg_graph_input(s.g, ends[i][0]), RG_IR_NONE, "no input");
    is_int(rg_graph_state(s.g, ends[i][1]), RG_IR_NONE, "no state");
    is_int(rg_graph_output(s.g, ends[i][2], NULL, NULL, NULL), RG_IR_NONE, "no output");
  }
  is_int(rg_graph_use(s.g, s.x, rg_ir_value_at(s.g, s.x)->n_uses), RG_IR_NONE, "no reader");
  is_int(rg_graph_use(s.g, s.x, -1), RG_IR_NONE, "none before the first");
  is_int(rg_graph_use(s.g, s.x, 0), producer(s.g, s.y), "and one");
  is_status(rg_graph_set_input(s.g, producer(s.g, s.z), 2, s.x), RG_EARG, "no such input");
  ok(SAYS("has 1 inputs, and none behind 2"), "which is said");
  is_status(rg_graph_set_input(s.g, producer(s.g, s.z), -1, s.x), RG_EARG, "none before it");
  is_int(rg_graph_input(s.g, 0), s.x, "the first input");
  is_int(rg_graph_state(s.g, 0), s.state, "the first state");
  is_int(rg_graph_output(s.g, 0, NULL, NULL, NULL), s.sum, "the first output");
  is_status(rg_graph_check(s.g), RG_OK, "nothing has changed");
  rg_graph_release(s.g);
}

/* The number behind the last at every size: there is room behind it, or none. */
static void test_behind(void)
{
  sample s = sample_graph();
  rg_graph_value value;
  rg_graph_node at;
  int32_t made;
  int32_t wrong = 0;

  for (int32_t i = 0; i < 100; i++) {
    const int32_t v = rg_ir_n_values(s.g);
    const int32_t n = rg_ir_n_nodes(s.g);

    wrong += rg_graph_value_of(s.g, v, &value) != RG_EARG;
    wrong += rg_graph_use(s.g, v, 0) != RG_IR_NONE;
    wrong += rg_graph_bind(s.g, v, NULL) != RG_EARG || !SAYS("was there before");
    wrong += rg_graph_replace(s.g, s.z, v) != RG_EARG;
    wrong += rg_graph_set_input(s.g, producer(s.g, s.sum), 0, v) != RG_EARG;
    wrong += rg_graph_insert(s.g, s.compound, 0, RG_OP_NEG, &v, 1, NULL, &made) != RG_EARG;
    wrong += rg_graph_node_of(s.g, n, &at) != RG_EARG;
    wrong += rg_graph_insert(s.g, n, 0, RG_OP_NEG, &s.x, 1, NULL, &made) != RG_EARG;
    (void)unary(s.g, &rg_op_neg, s.x);
  }
  is_int(wrong, 0, "nothing is behind the last");
  is_status(rg_graph_check(s.g), RG_OK, "and nothing has changed");
  rg_graph_release(s.g);
}

int main(void)
{
  test_made();
  test_refused();
  test_uses();
  test_insert();
  test_remove();
  test_replace_written();
  test_replace_version();
  test_copy();
  test_same();
  test_print();
  test_bound();
  test_replaced_writer();
  test_unknown_argument();
  test_replace_many();
  test_numbers();
  test_behind();
  return done();
}
