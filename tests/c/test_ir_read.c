/* SPDX-License-Identifier: MIT */
/*
** What readers of a graph are told: each field of a node, a value and the facts, and each number at
** and beside both ends.
*/
#include "graph/ir.h"
#include "ir.h"
#include "op/list.h"

/* A graph with gaps: of its nodes and values some are gone. */
static sample sample_with_gaps(void)
{
  sample s = sample_graph();
  rg_ir_node *node = rg_ir_node_at(s.g, producer(s.g, s.y));

  node->flops = 3;
  node->bytes = 5;
  node = rg_ir_node_at(s.g, s.compound);
  node->flops = 100; /* of its body, and not counted again */
  node->bytes = 100;
  node = rg_ir_node_at(s.g, producer(s.g, s.sum));
  node->flops = 7;
  node->bytes = 11;
  must(rg_ir_remove(s.g, producer(s.g, unary(s.g, &rg_op_neg, s.x))));
  return s;
}

static void test_facts(void)
{
  sample s = sample_with_gaps();
  rg_graph_facts f;

  rg_graph_facts_of(s.g, &f);
  is_int(f.n_node_ids, 10, "numbers of nodes");
  is_int(f.n_nodes, 9, "nodes");
  is_int(f.n_value_ids, rg_ir_n_values(s.g), "numbers of values");
  is_int(f.n_values, f.n_value_ids - 1, "values");
  is_int(f.n_inputs, 1, "inputs");
  is_int(f.n_outputs, 1, "outputs");
  is_int(f.n_states, 1, "states");
  is_int(f.n_draws, 1, "draws");
  is_int(f.n_storages, rg_ir_n_storages(s.g), "storages");
  is_int(f.n_calls, 8, "calls: no compound");
  ok(f.flops == 10 && f.bytes == 16, "costs of all but compounds");
  rg_ir_node_at(s.g, producer(s.g, s.y))->unwritten = true;
  rg_graph_facts_of(s.g, &f);
  is_int(f.n_calls, 7, "nor of what nobody wrote");
  rg_graph_release(s.g);
}

static void test_nodes(void)
{
  sample s = sample_with_gaps();
  rg_graph_node n;
  int32_t number = producer(s.g, s.y);
  rg_ir_node *node = rg_ir_node_at(s.g, number);
  rg_graph_modes modes = *rg_ir_modes_of(s.g, node->modes);

  modes.tf32 = 1;
  modes.gemm = 2;
  must(rg_ir_modes_add(s.g, &modes, &node->modes));
  node->recomputed = true;
  node->generator = 4;
  node->repeats = 2;
  must(rg_graph_node_of(s.g, number, &n));
  ok(strcmp(n.name, "linear") == 0 && strcmp(n.module, "fc") == 0 &&
         strcmp(n.line, "net.lua:12") == 0,
     "texts");
  is_int(n.op, RG_OP_LINEAR, "the operation");
  is_int(n.n_inputs, 3, "inputs");
  ok(n.inputs[0] == s.x && n.inputs[1] == s.w && n.inputs[2] == -1, "which");
  is_int(n.n_outputs, 1, "outputs");
  is_int(n.outputs[0], s.y, "which");
  is_int(n.n_results, 1, "results");
  is_int(n.parent, -1, "no parent");
  is_int(n.n_body, 0, "no body");
  is_int(n.position, -1, "a position only of compounds");
  is_int(n.recomputed, 1, "recomputed");
  is_int(n.generator, 4, "its stream");
  is_int(n.repeats, 2, "whose draw it repeats");
  ok(n.flops == 3 && n.bytes == 5, "costs");
  ok(n.modes.tf32 == 1 && n.modes.gemm == 2 && n.args != NULL, "modes and arguments");
  must(rg_graph_node_of(s.g, s.compound, &n));
  is_int(n.n_body, 2, "a body");
  is_int(n.position, 4, "where it stands");
  must(rg_graph_node_of(s.g, producer(s.g, s.inner), &n));
  is_int(n.parent, s.compound, "a parent");
  ok(n.args == NULL, "no arguments");
  must(rg_graph_node_of(s.g, producer(s.g, s.dropped), &n));
  is_int(n.generator, 0, "the default stream");
  is_int(n.n_results, n.n_outputs, "all are results");
  for (int32_t i = -2; i <= 11; i++) {
    is_status(rg_graph_node_of(s.g, i, &n), i >= 0 && i < 9 ? RG_OK : RG_EARG, "a node");
  }
  rg_graph_release(s.g);
}

static void test_values(void)
{
  sample s = sample_with_gaps();
  rg_graph_value v;
  const int32_t n = rg_ir_n_values(s.g);

  must(rg_graph_value_of(s.g, s.over, &v));
  ok(v.dtype == RG_F32 && v.ndim == 2 && v.shape[0] == 2 && v.shape[1] == 3 && v.shape[2] == 0,
     "its type and shape");
  is_int(v.device, RG_CPU, "its device");
  is_int(v.kind, RG_VALUE_INTERMEDIATE, "its kind");
  is_int(v.storage, rg_ir_value_at(s.g, s.z)->storage, "its storage");
  is_int(v.version, 1, "the version");
  is_int(v.was, s.z, "what it was");
  is_int(v.producer, producer(s.g, s.over), "who made it");
  is_int(v.result, 0, "which result");
  is_int(v.n_uses, 1, "how many read it");
  must(rg_graph_value_of(s.g, s.w, &v));
  is_int(v.kind, RG_VALUE_PARAMETER, "a parameter");
  is_int(v.producer, -1, "which nobody made");
  ok(strcmp(v.name, "fc.weight") == 0, "its name");
  rg_ir_value_at(s.g, s.y)->device = 1;
  must(rg_graph_value_of(s.g, s.y, &v));
  is_int(v.device, 1, "another device");
  is_int(v.n_uses, 2, "two readers");
  for (int32_t i = -2; i <= n + 1; i++) {
    is_status(rg_graph_value_of(s.g, i, &v), i >= 0 && i < n - 1 ? RG_OK : RG_EARG, "a value");
    bool outside = i == s.x || i == s.w || i == s.state;

    ok(rg_graph_bound(s.g, i) == NULL, "nothing is bound");
    is_status(rg_graph_bind(s.g, i, NULL), RG_EARG, outside ? "no tensor" : "nor can be");
    ok((strstr(rg_error_message(), "was there before") == NULL) == outside, "which is said");
  }
  rg_graph_release(s.g);
}

static void test_lists(void)
{
  sample s = sample_graph();
  int32_t kind = -1;
  const char *name = NULL;
  const char *line = NULL;
  const int32_t n = rg_ir_n_values(s.g);

  must(rg_ir_graph_output(s.g, &(rg_ir_output){ .value = s.y,
                                                .kind = RG_OUTPUT_KEPT,
                                                .name = text_in(s.g, "kept"),
                                                .line = text_in(s.g, "net.lua:3") }));
  for (int32_t i = -2; i <= 3; i++) {
    is_int(rg_graph_input(s.g, i), i == 0 ? s.x : -1, "an input");
    is_int(rg_graph_state(s.g, i), i == 0 ? s.state : -1, "a state");
    is_int(rg_graph_output(s.g, i, NULL, NULL, NULL),
           i == 0   ? s.sum
           : i == 1 ? s.y
                    : -1,
           "an output");
  }
  is_int(rg_graph_output(s.g, 1, &kind, &name, &line), s.y, "the second output");
  ok(kind == RG_OUTPUT_KEPT && strcmp(name, "kept") == 0 && strcmp(line, "net.lua:3") == 0,
     "its kind, name and line");
  const int32_t readers[] = { producer(s.g, s.z), producer(s.g, s.sum), -1 };

  for (int32_t i = -2; i <= 4; i++) {
    is_int(rg_graph_use(s.g, s.y, i), i >= 0 && i < 2 ? readers[i] : -1, "who reads y");
  }
  is_int(rg_graph_use(s.g, -1, 0), -1, "no value before");
  is_int(rg_graph_use(s.g, n, 0), -1, "nor behind");
  is_int(rg_graph_use(s.g, 0, 0), producer(s.g, s.y), "the first one");
  rg_graph_release(s.g);
}

/* What cannot be put in. */
static void test_insert(void)
{
  sample s = sample_with_gaps();
  const int32_t n = rg_ir_n_values(s.g);
  int32_t node;

  for (int32_t i = -2; i < 10; i++) { /* the last one is gone */
    is_status(rg_graph_insert(s.g, i, 0, RG_OP_NEG, &s.x, 1, NULL, &node),
              i >= 0 && i < 9 ? RG_OK : RG_EARG, "a place");
  }
  for (int32_t i = -2; i < n; i++) {
    is_status(rg_graph_insert(s.g, 0, 1, RG_OP_NEG, &i, 1, NULL, &node),
              i >= 0 && i < n - 1 ? RG_OK : RG_EARG, "a value");
  }
  is_status(rg_graph_insert(s.g, 0, 0, -1, &s.x, 1, NULL, &node), RG_EARG, "no operation");
  is_status(rg_graph_insert(s.g, 0, 0, rg_record_count(), &s.x, 1, NULL, &node), RG_EARG,
            "nor behind the last");
  is_status(rg_graph_insert(s.g, 0, 0, RG_OP_NEG, &s.x, -1, NULL, &node), RG_EARG, "no inputs");
  is_status(rg_graph_insert(s.g, 0, 0, RG_OP_NEG, &s.x, 1, NULL, NULL), RG_EARG, "nowhere to say");
  const rg_dropout_args p = { .p = 0.5 };

  is_status(rg_graph_insert(s.g, 0, 0, RG_OP_DROPOUT, &s.x, 1, &p, &node), RG_ENOSUP, "a draw");
  const int32_t two[] = { s.x, s.w };

  is_status(rg_graph_insert(s.g, 0, 0, RG_OP_NEG, two, 2, NULL, &node), RG_EARG, "one too many");
  rg_graph_release(s.g);
}

int main(void)
{
  test_facts();
  test_nodes();
  test_values();
  test_lists();
  test_insert();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  return done();
}
