/* SPDX-License-Identifier: MIT */
/*
** What a copy of a graph keeps, and which differences two graphs have.
*/
#include "graph/ir.h"
#include "ir.h"

/* -- Copies ---------------------------------------------------------------------------------- */

/* Every field of every node, output and value that was there before. */
static void test_copy_keeps(void)
{
  sample s = sample_graph();
  rg_graph *copy = NULL;
  rg_generator *own = NULL;
  rg_ir_node *node = rg_ir_node_at(s.g, producer(s.g, s.dropped));
  const rg_ir_node *made;
  rg_tensor *x = NULL;

  must(rg_generator_new(7, &own));
  must(rg_ir_generator_add(s.g, own, &node->generator));
  must(rg_empty(RG_F32, RG_CPU, (const int64_t[]){ 2, 3 }, 2, &x));
  must(rg_ir_bind(s.g, s.x, x));
  node->recomputed = true;
  node->derived = true;
  node->flops = 3;
  node->bytes = 5;
  node->module = text_in(s.g, "drop");
  node->line = text_in(s.g, "a.lua:4");
  must(rg_ir_graph_output(s.g, &(rg_ir_output){ .value = s.over,
                                                .kind = RG_OUTPUT_KEPT,
                                                .name = text_in(s.g, "o"),
                                                .shares = 1,
                                                .line = text_in(s.g, "a.lua:5"),
                                                .outside = true }));
  must(rg_graph_copy(s.g, &copy));
  node = rg_ir_node_at(s.g, producer(s.g, s.dropped)); /* of the same number: there are no gaps */
  made = rg_ir_node_at(copy, producer(s.g, s.dropped));
  ok(made->op == node->op && made->recomputed && made->derived && made->flops == 3 &&
         made->bytes == 5,
     "what a node costs, and that it runs again");
  ok(strcmp(rg_ir_text_of(copy, made->module), "drop") == 0 &&
         strcmp(rg_ir_text_of(copy, made->line), "a.lua:4") == 0,
     "where it stands");
  ok(made->generator == 1 && rg_ir_generator_of(copy, 1) == own, "and what it draws from");
  is_int(rg_ir_node_at(copy, producer(s.g, s.sum))->generator, -1, "others draw from nothing");
  ok(rg_ir_bound(copy, s.x) == x && rg_ir_bound(copy, s.w) == NULL, "tensors that are bound");
  is_int(rg_ir_n_outputs(copy), 2, "outputs");
  const rg_ir_output *output = rg_ir_output_at(copy, 1);

  ok(output->value == s.over && output->kind == RG_OUTPUT_KEPT && output->shares == 1 &&
         output->outside && strcmp(rg_ir_text_of(copy, output->name), "o") == 0 &&
         strcmp(rg_ir_text_of(copy, output->line), "a.lua:5") == 0,
     "with all they say");
  rg_graph_release(copy);
  rg_graph_release(s.g);
  rg_tensor_release(x);
  rg_generator_release(own);
}

/* -- Differences ----------------------------------------------------------------------------- */

/* Two inputs and two states, a relu of the one input and a gelu of the other, two outputs. */
typedef struct two {
  rg_graph *g;
  int32_t x[2], state[2], y[2];
} two;

static two two_of(bool crossed)
{
  two t;

  must(rg_ir_new(&t.g));
  t.x[0] = outside(t.g, RG_VALUE_CONSTANT, "a", 2, 3);
  t.x[1] = outside(t.g, RG_VALUE_CONSTANT, "a", 2, 3);
  t.state[0] = outside(t.g, RG_VALUE_CONSTANT, "s", 2, 3);
  t.state[1] = outside(t.g, RG_VALUE_CONSTANT, "s", 2, 3);
  t.y[0] = unary(t.g, &rg_op_relu, t.x[0]);
  t.y[1] = unary(t.g, &rg_op_gelu, t.x[1]);
  t.y[0] = added(t.g, t.y[0], t.state[0]);
  t.y[1] = added(t.g, t.y[1], t.state[1]);
  for (int32_t i = 0; i < 2; i++) {
    const int32_t k = crossed ? 1 - i : i;

    rg_ir_value_at(t.g, t.x[k])->kind = RG_VALUE_INPUT;
    rg_ir_value_at(t.g, t.state[k])->kind = RG_VALUE_STATE;
  }
  return t;
}

enum { INPUTS, STATES, OUTPUTS };

static void end(const two *t, int32_t what, int32_t i)
{
  if (what == INPUTS) {
    must(rg_ir_graph_input(t->g, t->x[i]));
  } else if (what == STATES) {
    must(rg_ir_graph_state(t->g, t->state[i]));
  } else {
    returned(t->g, t->y[i], "");
  }
}

static void is_another(rg_graph *a, rg_graph *b, const char *says, const char *what)
{
  for (int32_t i = 0; i < 2; i++) {
    is_status(rg_graph_same(i == 0 ? a : b, i == 0 ? b : a), RG_EARG, what);
    if (!ok(SAYS(says), says)) {
      printf("#   got %s\n", rg_error_message());
    }
  }
  rg_graph_release(a);
  rg_graph_release(b);
}

/* Lists that are shorter, or in another order, where the nodes are the same. */
static void test_ends(void)
{
  static const char *const what[] = { "inputs", "states", "outputs" };

  for (int32_t list = INPUTS; list <= OUTPUTS; list++) {
    two a = two_of(false);
    two b = two_of(false);
    two c = two_of(false);
    two d = two_of(false);

    for (int32_t other = INPUTS; other <= OUTPUTS; other++) {
      for (int32_t i = 0; i < 2; i++) {
        end(&a, other, i);
        end(&d, other, i);
        end(&b, other, other == list ? 1 - i : i);
        if (other != list || i == 0) {
          end(&c, other, i);
        }
      }
    }
    is_status(rg_graph_same(a.g, d.g), RG_OK, "made alike");
    is_another(a.g, b.g, list == OUTPUTS ? "which stands for another one" : "another", what[list]);
    is_another(c.g, d.g, "other numbers of inputs, outputs or states", "a list that is shorter");
  }
}

/* One difference at a time, in the sample of everything. */
static void test_differences(void)
{
  static const struct {
    const char *what;
    const char *says;
  } each[] = {
    { "an output's name", "output 1 is of another kind, or has another name" },
    { "a generator", "run under other modes" },
    { "the number of a draw", "run under other modes" },
    { "a fill that is not written", "run under other modes" },
    { "a number of results", "or of other numbers of values" },
    { "a bias that is given", "a value is left out in one of the two" },
    { "a bias more", "or of other numbers of values" },
    { "a node behind the last", "nodes, the other" },
    { "a storage that two share", "are in other storages" },
    { "which result a value is", "are in other storages, or other versions of them" },
    { "what it was written over", "a value is left out" },
    { "a node more in a body", "have bodies of" },
    { "another operation", "node" },
    { "a dtype", "have other types, shapes or devices" },
    { "a node that is derived", "run under other modes" },
    { "a mode at its end", "run under other modes" },
  };

  for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
    sample s = sample_graph();
    sample t = sample_graph();
    rg_ir_node *node = rg_ir_node_at(t.g, producer(t.g, t.sum));
    rg_graph_modes modes = *rg_ir_modes_of(t.g, node->modes);

    switch (i) {
    case 0:
      ((rg_ir_output *)(uintptr_t)rg_ir_output_at(t.g, 0))->name = text_in(t.g, "other");
      break;
    case 1:
      rg_ir_node_at(t.g, producer(t.g, t.dropped))->generator++;
      break;
    case 2:
      rg_ir_node_at(t.g, producer(t.g, t.dropped))->draw++;
      break;
    case 3:
      node->unwritten = true;
      break;
    case 4:
      node->n_results = 0;
      break;
    case 5:
      must(rg_ir_set_input(t.g, producer(t.g, t.y), 2, t.w));
      break;
    case 6:
      rg_ir_node_at(t.g, producer(t.g, t.y))->n_in = 2;
      break;
    case 7:
      (void)unary(t.g, &rg_op_neg, t.sum);
      break;
    case 8:
      rg_ir_value_at(t.g, t.sum)->storage = rg_ir_value_at(t.g, t.y)->storage;
      break;
    case 9:
      rg_ir_value_at(t.g, t.sum)->result = 1;
      break;
    case 10:
      rg_ir_value_at(t.g, t.over)->was = RG_IR_NONE;
      break;
    case 11:
      rg_ir_node_at(t.g, producer(t.g, t.sum))->parent = RG_IR_NONE;
      must(rg_graph_insert(t.g, producer(t.g, t.inner), 1, RG_OP_NEG, &t.inner, 1, NULL,
                           &(int32_t){ 0 }));
      must(rg_graph_insert(s.g, producer(s.g, s.sum), 1, RG_OP_NEG, &s.sum, 1, NULL,
                           &(int32_t){ 0 }));
      break;
    case 12:
      node->op = rg_ops[RG_OP_SUB];
      break;
    case 13:
      rg_ir_value_at(t.g, t.sum)->meta.dtype = RG_F64;
      break;
    case 14:
      node->derived = true;
      break;
    default:
      modes.gemm++;
      must(rg_ir_modes_add(t.g, &modes, &node->modes));
    }
    is_another(s.g, t.g, each[i].says, each[i].what);
  }
}

int main(void)
{
  test_copy_keeps();
  test_ends();
  test_differences();
  return done();
}
