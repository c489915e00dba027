/* SPDX-License-Identifier: MIT */
/*
** Recorded graphs: what becomes a node, what a value is, what is an input and what a state.
*/
#include "graph/record.h"

#include "ridge/compound.h"
#include "ridge/grad.h"
#include "ridge/graph.h"
#include "tap.h"

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })

static rg_tensor *filled(const int64_t *shape, int32_t ndim, double value)
{
  rg_tensor *x = NULL;

  if (rg_empty(RG_F32, RG_CPU, shape, ndim, &x) != RG_OK || rg_fill_(x, value) != RG_OK) {
    tap_bail("no tensor");
  }
  return x;
}

static void begin(void)
{
  is_status(rg_capture_begin(), RG_OK, "a capture");
  is_status(rg_record_begin(0), RG_OK, "is recorded");
}

/* The graph, checked, with y as its output; the plan is thrown away. */
static rg_graph *end(const rg_tensor *y)
{
  rg_graph *g = NULL;

  is_status(rg_record_output(y, RG_OUTPUT_RETURNED, "y"), RG_OK, "has an output");
  is_status(rg_record_end(&g), RG_OK, "ends");
  rg_capture_cancel();
  is_status(rg_graph_check(g), RG_OK, "every invariant holds");
  if (rg_graph_check(g) != RG_OK) {
    printf("# %s\n", rg_error_message());
  }
  return g;
}

/* "transpose reshape(copy view)": the names of all nodes, bodies in brackets. */
static const char *names(rg_graph *g)
{
  static char text[4096];
  const int32_t *order;
  const int32_t *body;
  int32_t n;
  int32_t ends[64];
  int32_t depth = 0;
  size_t used = 0;

  text[0] = '\0';
  if (rg_ir_order(g, &order, &body, &n) != RG_OK) {
    tap_bail("no order");
  }
  for (int32_t i = 0; i < n; i++) {
    used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
                             used > 0 && text[used - 1] != '(' ? " " : "",
                             rg_ir_node_at(g, order[i])->op->name);
    if (body[i] > 0) {
      used += (size_t)snprintf(text + used, sizeof(text) - used, "(");
      ends[depth++] = i + body[i];
    }
    while (depth > 0 && ends[depth - 1] == i) {
      used += (size_t)snprintf(text + used, sizeof(text) - used, ")");
      depth--;
    }
  }
  return text;
}

static void is_named(rg_graph *g, const char *want, const char *what)
{
  bool same = strcmp(names(g), want) == 0;

  ok(same, what);
  if (!same) {
    printf("#   got %s\n#  want %s\n", names(g), want);
  }
}

static void test_views(void)
{
  rg_tensor *x = filled(SHAPE(2, 3), 2, 1);
  rg_tensor *t = NULL;
  rg_tensor *y = NULL;
  rg_graph_facts facts;

  begin();
  is_status(rg_transpose(x, 0, 1, &t), RG_OK, "a transpose");
  is_status(rg_reshape(t, SHAPE(6), 1, &y), RG_OK, "in another shape");
  rg_graph *g = end(y);

  is_named(g, "transpose reshape(copy view)", "two nodes, the second with a body");
  rg_graph_facts_of(g, &facts);
  is_int(facts.n_states, 0, "nothing outside is written");
  is_int(rg_ir_value_at(g, rg_ir_inputs(g, rg_ir_node_at(g, 0))[0])->kind, RG_VALUE_INPUT,
         "what was there before is an input");
  rg_graph_release(g);
  rg_tensor_release(x);
  rg_tensor_release(t);
  rg_tensor_release(y);
}

/* Views of as many axes as there can be: what differs in the last one alone is another one. */
static void test_axes(void)
{
  rg_tensor *x = filled(SHAPE(2, 1, 1, 1, 1, 1, 1, 4), RG_MAX_DIMS, 1);
  rg_tensor *half[2] = { NULL };
  rg_tensor *again = NULL;
  rg_tensor *y[3] = { NULL };
  rg_tensor *sum = NULL;

  begin();
  is_status(rg_narrow(x, 7, 0, 2, 1, &half[0]), RG_OK, "every number of the first half");
  is_status(rg_narrow(x, 7, 0, 2, 2, &half[1]), RG_OK, "every second of all");
  is_status(rg_narrow(x, 7, 0, 2, 2, &again), RG_OK, "and again");
  is_status(rg_exp(half[0], &y[0]), RG_OK, "read");
  is_status(rg_exp(half[1], &y[1]), RG_OK, "read");
  is_status(rg_exp(again, &y[2]), RG_OK, "read");
  is_status(rg_add(y[0], y[1], &sum), RG_OK, "both");
  rg_graph *g = end(sum);

  const int32_t in[3] = { rg_ir_inputs(g, rg_ir_node_at(g, 3))[0],
                          rg_ir_inputs(g, rg_ir_node_at(g, 4))[0],
                          rg_ir_inputs(g, rg_ir_node_at(g, 5))[0] };

  is_named(g, "narrow narrow narrow exp exp exp add", "seven nodes");
  ok(in[0] != in[1], "two views of eight axes that differ in the last stride are two values");
  is_status(rg_graph_check(g), RG_OK, "of a graph that is whole");
  rg_graph_release(g);
  rg_tensor_release(x);
  rg_tensor_release(again);
  rg_tensor_release(sum);
  for (int32_t i = 0; i < 3; i++) {
    rg_tensor_release(y[i]);
    rg_tensor_release(i < 2 ? half[i] : NULL);
  }
}

/* A write through one view is a write of all. */
static void test_writes(void)
{
  rg_tensor *x = filled(SHAPE(4), 1, 1);
  rg_tensor *half = NULL;
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;
  rg_graph_facts facts;

  begin();
  is_status(rg_narrow(x, 0, 0, 2, 1, &half), RG_OK, "a half");
  is_status(rg_exp(x, &z), RG_OK, "of all, before");
  is_status(rg_mul_scalar_(half, 3), RG_OK, "is written");
  is_status(rg_add(x, z, &y), RG_OK, "and all is read");
  rg_graph *g = end(y);

  is_named(g, "narrow exp mul add", "four nodes");
  rg_graph_facts_of(g, &facts);
  is_int(facts.n_states, 1, "x is a state");
  const rg_ir_node *add = rg_ir_node_at(g, 3);
  const rg_ir_value *read = rg_ir_value_at(g, rg_ir_inputs(g, add)[0]);

  is_int(read->version, 1, "read as it is behind the write");
  is_int(read->producer, 2, "which made it");
  rg_graph_release(g);
  rg_tensor_release(x);
  rg_tensor_release(half);
  rg_tensor_release(y);
  rg_tensor_release(z);
}

static rg_status infer_write(rg_call *call)
{
  call->out[0] = rg_meta_of(call->in[0]);
  call->n_out = 1;
  return RG_OK;
}

static rg_cost no_cost(const rg_call *call)
{
  (void)call;
  return (rg_cost){ 0 };
}

static rg_status write_both(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  for (int64_t i = 0; i < 2; i++) {
    ((float *)call->in[0]->_data)[i] = ((float *)call->in[1]->_data)[i] = 3;
    ((float *)out[0]->_data)[i] = 4;
  }
  return RG_OK;
}

/* It writes to a and b. */
static const rg_op op_both = {
  .name = "both",
  .id = -1,
  RG_INPUTS(RG_IN("a", STATE, ANY), RG_IN("b", STATE, ANY)),
  .writes = true,
  .infer = infer_write,
  .cost = no_cost,
  .kernel = write_both,
};

/* All that one call writes in a storage is one version of it, and each of two storages has its. */
static void test_written_at_once(void)
{
  for (int32_t apart = 0; apart < 2; apart++) {
    rg_tensor *x = filled(SHAPE(4), 1, 1);
    rg_tensor *z = filled(SHAPE(4), 1, 1);
    rg_tensor *half[2] = { NULL };
    rg_tensor *y[2] = { NULL };

    begin();
    is_status(rg_narrow(x, 0, 0, 2, 1, &half[0]), RG_OK, "a half");
    is_status(rg_narrow(apart ? z : x, 0, 2, 2, 1, &half[1]), RG_OK, "the other");
    for (int32_t i = 0; i < 2; i++) {
      is_status(rg_run1(&op_both, (const rg_tensor *const *)half, 2, NULL, &y[0]), RG_OK,
                "both are written");
      rg_tensor_release(y[0]);
    }
    is_status(rg_exp(half[0], &y[0]), RG_OK, "one is read");
    is_status(rg_exp(half[1], &y[1]), RG_OK, "and the other");
    rg_graph *g = end(y[1]);

    is_named(g, "narrow narrow both both exp exp", "six nodes");
    for (int32_t i = 0; i < 2; i++) {
      const rg_ir_value *read = rg_ir_value_at(g, rg_ir_inputs(g, rg_ir_node_at(g, 4 + i))[0]);

      is_int(read->version, 2, "two calls are two versions");
      is_int(read->producer, 3, "of which the second made what is read");
    }
    rg_graph_release(g);
    rg_tensor_release(x);
    rg_tensor_release(z);
    for (int32_t i = 0; i < 2; i++) {
      rg_tensor_release(half[i]);
      rg_tensor_release(y[i]);
    }
  }
}

/* Memory of the recording's own that is written in part. */
static void test_unwritten(void)
{
  rg_tensor *x = NULL;
  rg_tensor *half = NULL;
  rg_tensor *y = NULL;

  begin();
  is_status(rg_empty(RG_F32, RG_CPU, SHAPE(4), 1, &x), RG_OK, "memory");
  is_status(rg_narrow(x, 0, 0, 2, 1, &half), RG_OK, "a half");
  is_status(rg_fill_(half, 3), RG_OK, "is written");
  is_status(rg_exp(x, &y), RG_OK, "and all is read");
  rg_graph *g = end(y);

  is_named(g, "fill narrow fill exp", "what it holds does not matter, but is the same");
  rg_graph_release(g);
  rg_tensor_release(x);
  rg_tensor_release(half);
  rg_tensor_release(y);
}

static void test_bodies(void)
{
  const rg_batch_norm_options o = {
    .eps = 1e-5, .momentum = 0.1, .axis = 1, .batch = 1, .keep = 1
  };
  rg_tensor *x = filled(SHAPE(4, 2), 2, 1);
  rg_tensor *mean = filled(SHAPE(2), 1, 0);
  rg_tensor *var = filled(SHAPE(2), 1, 1);
  rg_tensor *sequence = filled(SHAPE(1, 2, 3), 3, 1);
  rg_tensor *wx = filled(SHAPE(8, 3), 2, 1);
  rg_tensor *w = filled(SHAPE(8, 2), 2, 1);
  rg_tensor *y = NULL;
  rg_tensor *out[3] = { NULL };
  rg_graph_facts facts;

  begin();
  is_status(rg_batch_norm(x, NULL, NULL, mean, var, &o, &y), RG_OK, "a batch norm");
  rg_graph *g = end(y);

  rg_graph_facts_of(g, &facts);
  is_int(facts.n_states, 2, "the running mean and variance are states");
  is_int(rg_ir_node_at(g, 0)->compound, 1, "is one node");
  int32_t top = 0;

  for (int32_t i = 0; i < rg_ir_n_nodes(g); i++) {
    top += rg_ir_node_at(g, i)->parent == RG_IR_NONE;
  }
  is_int(top, 1, "all else is its body");
  rg_graph_release(g);
  begin();
  is_status(
      rg_recurrent(sequence, NULL, NULL, wx, NULL, w, NULL, RG_CELL_LSTM, 0, out, out + 1, out + 2),
      RG_OK, "an LSTM");
  g = end(out[0]);
  top = 0;
  int32_t cells = 0;
  int32_t products = 0;

  for (int32_t i = 0; i < rg_ir_n_nodes(g); i++) {
    top += rg_ir_node_at(g, i)->parent == RG_IR_NONE;
    products +=
        rg_ir_node_at(g, i)->parent == 0 && strcmp(rg_ir_node_at(g, i)->op->name, "linear") == 0;
    cells += strcmp(rg_ir_node_at(g, i)->op->name, "recurrent_cell") == 0;
  }
  is_int(top, 1, "is one node");
  is_int(products, 1, "with the product of all places in it");
  is_int(cells, 2, "and two places");
  rg_graph_release(g);
  for (int32_t i = 0; i < 3; i++) {
    rg_tensor_release(out[i]);
  }
  rg_tensor_release(x);
  rg_tensor_release(mean);
  rg_tensor_release(var);
  rg_tensor_release(sequence);
  rg_tensor_release(wx);
  rg_tensor_release(w);
  rg_tensor_release(y);
}

/* A training step: hidden results, gradients, a draw. */
static void test_training(void)
{
  rg_tensor *x = filled(SHAPE(4, 3), 2, 1);
  rg_tensor *w = filled(SHAPE(2, 3), 2, 0.5);
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;
  rg_tensor *loss = NULL;
  rg_tensor *dw = NULL;
  rg_graph_facts facts;

  rg_tensor_set_param(w, 1);
  is_status(rg_require_grad(w, 1), RG_OK, "a weight");
  begin();
  is_status(rg_linear(x, w, NULL, RG_ACT_RELU, &y), RG_OK, "a layer");
  is_status(rg_dropout(y, 0.5, NULL, &z), RG_OK, "a draw");
  is_status(rg_sum(z, NULL, 0, 0, &loss), RG_OK, "a loss");
  is_status(rg_backward(loss, NULL, 0), RG_OK, "and back");
  is_status(rg_grad_of(w, &dw), RG_OK, "the gradient");
  rg_graph *g = end(dw);

  rg_graph_facts_of(g, &facts);
  is_int(facts.n_draws, 1, "draws once");
  is_int(rg_ir_value_at(g, rg_ir_inputs(g, rg_ir_node_at(g, 0))[1])->kind, RG_VALUE_PARAMETER,
         "the weight is a parameter");
  rg_graph_release(g);
  rg_tensor_release(x);
  rg_tensor_release(y);
  rg_tensor_release(z);
  rg_tensor_release(loss);
  rg_tensor_release(dw);
  rg_tensor_release(w);
}

static void test_refused(void)
{
  rg_graph *g = NULL;
  rg_tensor *x = filled(SHAPE(2), 1, 1);
  rg_tensor *y = NULL;
  rg_plan *plan;

  begin();
  is_status(rg_exp(x, &y), RG_OK, "x is read");
  rg_storage_wrote(x->_storage);
  rg_tensor_release(y);
  is_status(rg_exp(x, &y), RG_OK, "and again, after something else wrote it");
  is_status(rg_record_end(&g), RG_ECAPTURE, "which no node says");
  rg_capture_cancel();
  rg_tensor_release(y);
  begin();
  plan = rg_capture_swap(NULL);
  is_status(rg_exp(x, &y), RG_OK, "a call while the capture is set aside");
  rg_tensor *matrix = filled(SHAPE(2, 3), 2, 1);
  rg_tensor *turned = NULL;
  rg_tensor *flat = NULL;

  is_status(rg_transpose(matrix, 0, 1, &turned), RG_OK, "a view");
  is_status(rg_reshape(turned, SHAPE(6), 1, &flat), RG_OK, "and one with a body");
  rg_tensor_release(matrix);
  rg_tensor_release(turned);
  rg_tensor_release(flat);
  (void)rg_capture_swap(plan);
  rg_tensor_release(y);
  is_status(rg_sqrt(x, &y), RG_OK, "and one behind it");
  g = end(y);
  is_named(g, "sqrt", "is the only one");
  rg_graph_release(g);
  rg_tensor_release(x);
  rg_tensor_release(y);
  g = NULL;
  is_status(rg_record_begin(0), RG_ECAPTURE, "outside a capture");
  is_status(rg_record_end(&g), RG_ECAPTURE, "nor ends what has not begun");
  begin();
  is_status(rg_record_begin(0), RG_ECAPTURE, "nor a second time");
  is_status(rg_record_input(NULL, "x"), RG_EARG, "no tensor is an input");
  is_status(rg_record_name(NULL, "x"), RG_EARG, "or has a name");
  is_status(rg_record_output(NULL, RG_OUTPUT_RETURNED, "x"), RG_EARG, "or is an output");
  rg_record_cancel();
  rg_capture_cancel();
  is_status(rg_record_end(&g), RG_ECAPTURE, "it is gone");
}

/* -- Memory -------------------------------------------------------------------------- */

static rg_status recorded(const rg_tensor *x, rg_tensor *mean, rg_tensor *var, rg_graph **g)
{
  const rg_batch_norm_options o = {
    .eps = 1e-5, .momentum = 0.1, .axis = 1, .batch = 1, .keep = 1
  };
  rg_tensor *t = NULL;
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;
  rg_status status = rg_capture_begin();

  if (status == RG_OK) {
    status = rg_record_begin(0);
  }
  if (status == RG_OK) {
    status = rg_transpose(x, 0, 1, &t);
  }
  if (status == RG_OK) {
    status = rg_reshape(t, SHAPE(4, 2), 2, &y);
  }
  if (status == RG_OK) {
    status = rg_batch_norm(y, NULL, NULL, mean, var, &o, &z);
  }
  if (status == RG_OK) {
    status = rg_record_output(z, RG_OUTPUT_RETURNED, "z");
  }
  if (status == RG_OK) {
    status = rg_record_end(g);
  }
  rg_tensor_release(t);
  rg_tensor_release(y);
  rg_tensor_release(z);
  rg_record_cancel();
  rg_capture_cancel();
  return status;
}

/* Where memory ends in the recorder, the call is done, once, and there is no graph; later calls
** run. */
static void test_broken_off(void)
{
  bool clean = true;
  int32_t n_broken = 0;

  for (int64_t n = 1; n < 40; n++) {
    rg_tensor *x = filled(SHAPE(4), 1, 1);
    rg_tensor *half = NULL;
    rg_tensor *y = NULL;
    rg_graph *g = NULL;

    begin();
    rg_alloc_fail_at(n);
    rg_status status = rg_narrow(x, 0, 0, 2, 1, &half);

    status = status == RG_OK ? rg_mul_scalar_(half, 3) : status;
    rg_alloc_fail_at(0);
    clean = clean && (status == RG_OK || status == RG_ENOMEM) &&
            ((const float *)x->_data)[0] == (status == RG_OK ? 3 : 1);
    clean = clean && rg_exp(x, &y) == RG_OK;
    status = rg_record_output(y, RG_OUTPUT_RETURNED, "y");
    clean = clean && (status == RG_OK || status == RG_ENOMEM);
    n_broken += status == RG_ENOMEM;
    clean = clean && rg_record_end(&g) == status;
    clean = clean && (g != NULL) == (status == RG_OK);
    rg_capture_cancel();
    rg_graph_release(g);
    rg_tensor_release(half);
    rg_tensor_release(x);
    rg_tensor_release(y);
  }
  ok(n_broken > 5, "recordings break off where memory ends");
  ok(clean, "and the calls are done once");
}

/* Refuse allocation after allocation until a recording needs no more. */
static void test_memory(void)
{
  rg_tensor *x = filled(SHAPE(2, 4), 2, 1);
  rg_tensor *mean = filled(SHAPE(2), 1, 0);
  rg_tensor *var = filled(SHAPE(2), 1, 1);
  int64_t before = rg_live_tensors();
  int64_t refused = 0;
  bool clean = true;
  rg_status status;

  do {
    rg_graph *g = NULL;

    rg_alloc_fail_at(++refused);
    status = recorded(x, mean, var, &g);
    clean = clean && (status != RG_OK || rg_alloc_injected()); /* it was refused nothing */
    rg_alloc_fail_at(0);
    clean = clean && (status == RG_OK || status == RG_ENOMEM) && (status == RG_OK) == (g != NULL) &&
            (rg_ring_on & RG_RING_GRAPH) == 0;
    rg_graph_release(g);
  } while (clean && status != RG_OK && refused < 10000);
  ok(clean && refused > 50, "allocation after allocation is refused");
  is_status(status, RG_OK, "until none is");
  is_int(rg_live_tensors(), before, "no tensor is left");
  rg_tensor_release(x);
  rg_tensor_release(mean);
  rg_tensor_release(var);
}

/* In a file a node says what of its modes is not as it mostly is: of a call like most,
** nothing. */
static void test_plain_modes(void)
{
  static const char *const modes[] = { "layout",        "vendor", "autotune",    "autocast", "tf32",
                                       "deterministic", "gemm",   "weight_cast", "compute" };
  rg_tensor *x = filled(SHAPE(2, 3), 2, 1);
  rg_tensor *y = NULL;
  const char *text = "";

  begin();
  is_status(rg_exp(x, &y), RG_OK, "a call");
  rg_graph *g = end(y);

  is_status(rg_graph_json(g, &text), RG_OK, "written");
  for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
    ok(strstr(text, modes[i]) == NULL, modes[i]);
  }
  rg_graph_release(g);
  rg_tensor_release(y);
  rg_tensor_release(x);
}

int main(void)
{
  test_views();
  test_axes();
  test_writes();
  test_written_at_once();
  test_unwritten();
  test_bodies();
  test_training();
  test_refused();
  test_broken_off();
  test_memory();
  test_plain_modes();
  return done();
}
