/* SPDX-License-Identifier: MIT */
/*
** Plans of graphs made by hand: what they compute, where their results lie, and what is as before
** where none could be made.
*/
#include "graph/plan.h"
#include "op/binary.h"
#include "op/fill.h"
#include "pass.h"
#include "ridge/grad.h"
#include "ridge/graph.h"
#include "ridge/ring.h"

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })

static rg_tensor *square(double value)
{
  rg_tensor *x = NULL;

  must(rg_empty(RG_F32, RG_CPU, SHAPE(3, 3), 2, &x));
  must(rg_fill_(x, value));
  return x;
}

static void holds(const rg_tensor *x, double want, const char *what)
{
  const float *data = x->_data;
  bool same = true;

  for (int64_t i = 0; i < x->_count; i++) {
    same = same && data[i] == (float)want;
  }
  if (!ok(same, what)) {
    printf("# %g and not %g\n", (double)data[0], want);
  }
}

static rg_plan *planned(rg_graph *g, rg_tensor **out)
{
  rg_plan *plan = NULL;

  if (!is_status(rg_graph_plan(g, out, &plan), RG_OK, "a plan")) {
    tap_bail(rg_error_message());
  }
  is_int(rg_capturing(), 0, "whose capture has ended");
  return plan;
}

/* -- What runs --------------------------------------------------------------------------- */

static void test_runs(void)
{
  int32_t x;
  rg_graph *g = graph(&x);
  rg_tensor *in = square(2);
  rg_tensor *out[2] = { NULL };
  rg_plan_facts facts;
  int32_t y = with_number(g, RG_OP_MUL, x, 3, 0, -1);

  returned(g, added(g, y, x), "sum");
  returned(g, with_number(g, RG_OP_ADD, y, 1, 0, y), "over");
  must(rg_ir_bind(g, x, in));
  rg_plan *plan = planned(g, out);

  must(rg_fill_(in, 1));
  for (int32_t i = 1; i < 4; i++) {
    must(rg_fill_(in, i));
    must(rg_plan_replay(plan, 1));
    holds(out[0], 4 * i, "what the input holds now is read");
    holds(out[1], 3 * i + 1, "and what is written over is read before");
  }
  must(rg_plan_facts_of(plan, &facts));
  is_int(facts.n_steps, 3, "a step for each node");
  ok(out[0]->_storage != out[1]->_storage, "two results are two");
  rg_plan_release(plan);
  rg_graph_release(g);
  rg_tensor_release(in);
  rg_tensor_release(out[0]);
  rg_tensor_release(out[1]);
}

/* y = neg(neg(... x)): at any time the plan needs two of them. */
static void test_liveness(void)
{
  int32_t x;
  rg_graph *g = graph(&x);
  rg_tensor *in = square(2);
  rg_tensor *out = NULL;
  int64_t bytes[2];

  must(rg_ir_bind(g, x, in));
  for (int32_t i = 0; i < 2; i++) {
    rg_graph *h;
    rg_plan_facts facts;

    must(rg_graph_copy(g, &h));
    int32_t y = x;

    for (int32_t k = 0; k < (i == 0 ? 3 : 30); k++) {
      y = unary(h, &rg_op_neg, y);
    }
    returned(h, y, "");
    rg_plan *plan = planned(h, &out);

    must(rg_plan_facts_of(plan, &facts));
    bytes[i] = facts.buffer_bytes;
    rg_tensor_release(out);
    rg_plan_release(plan);
    rg_graph_release(h);
  }
  is_int(bytes[1], bytes[0], "memory is used again behind the last reader");
  rg_graph_release(g);
  rg_tensor_release(in);
}

/* -- Where results lie ---------------------------------------------------------------------- */

static void output_in(rg_graph *g, int32_t value, rg_tensor *into, int32_t shares, bool outside)
{
  must(rg_ir_graph_output(
      g, &(rg_ir_output){ .value = value,
                          .kind = into != NULL ? RG_OUTPUT_KEPT : RG_OUTPUT_RETURNED,
                          .into = into,
                          .shares = shares,
                          .outside = outside }));
}

static void test_outputs(void)
{
  int32_t x;
  rg_graph *g = graph(&x);
  rg_tensor *in = square(2);
  rg_tensor *kept = square(0);
  rg_tensor *other = square(0);
  rg_tensor *out[6] = { NULL };
  int32_t y = with_number(g, RG_OP_MUL, x, 3, 0, -1);

  must(rg_ir_bind(g, x, in));
  output_in(g, y, kept, 0, false);
  output_in(g, y, other, 0, false);
  output_in(g, y, NULL, 0, false);
  output_in(g, x, NULL, 0, false);
  output_in(g, x, NULL, 1, true);
  output_in(g, transposed(g, y), NULL, 0, false);
  rg_plan *plan = planned(g, out);

  must(rg_plan_replay(plan, 1));
  ok(out[0] == kept && out[1] == other, "results lie in the tensors that hold them");
  rg_plan_facts facts;

  must(rg_plan_facts_of(plan, &facts));
  is_int(facts.n_steps, 5, "one is made there: the product, and four copies");
  holds(kept, 6, "the first is made there");
  holds(other, 6, "another has a copy");
  ok(out[2]->_storage != kept->_storage && out[2]->_storage != other->_storage,
     "a result is no other's memory");
  holds(out[2], 6, "but holds the same");
  ok(out[3]->_storage != in->_storage, "nor that of an input, which it was not");
  holds(out[3], 2, "but holds the same");
  ok(out[4]->_storage == in->_storage, "where it was the input, it is");
  ok(out[5]->_storage != kept->_storage && out[5]->_storage != out[2]->_storage,
     "nor is a view of another result");
  holds(out[5], 6, "it holds the same");
  rg_plan_release(plan);
  rg_graph_release(g);
  for (int32_t i = 0; i < 6; i++) {
    rg_tensor_release(out[i]);
  }
  rg_tensor_release(in);
  rg_tensor_release(kept);
  rg_tensor_release(other);
}

/* A result and a view of it that was recorded as one stay so; a tensor that is gone, or of another
** size, is no place for a result. */
static void test_shared_outputs(void)
{
  int32_t x;
  rg_graph *g = graph(&x);
  rg_tensor *in = square(2);
  rg_tensor *gone = square(0);
  rg_tensor *row = NULL;
  rg_tensor *out[3] = { NULL };
  int32_t y = with_number(g, RG_OP_MUL, x, 3, 0, -1);

  must(rg_ir_bind(g, x, in));
  output_in(g, y, NULL, 1, false);
  output_in(g, transposed(g, y), NULL, 1, false);
  output_in(g, unary(g, &rg_op_neg, x), gone, 0, false);
  must(rg_narrow(gone, 0, 0, 1, 1, &row));
  rg_tensor_drop(gone);
  rg_plan *plan = planned(g, out);

  must(rg_plan_replay(plan, 1));
  ok(out[0]->_storage == out[1]->_storage, "a result and its view are one");
  holds(out[2], -2, "what was to lie in a released tensor lies elsewhere");
  holds(row, 0, "and not there");
  rg_plan_release(plan);
  rg_graph_release(g);
  for (int32_t i = 0; i < 3; i++) {
    rg_tensor_release(out[i]);
  }
  rg_tensor_release(row);
  rg_tensor_release(in);
  rg_tensor_release(gone);
}

/* -- What cannot be -------------------------------------------------------------------------- */

/* A graph whose second node reads a weight without a tensor. */
static rg_graph *incomplete(rg_tensor *in)
{
  int32_t x;
  rg_graph *g = graph(&x);
  int32_t w = outside(g, RG_VALUE_PARAMETER, "w", 3, 3);
  int32_t y = added(g, unary(g, &rg_op_neg, x), w);

  rg_ir_node_at(g, producer(g, y))->module = text_in(g, "encoder.2");
  rg_ir_node_at(g, producer(g, y))->line = text_in(g, "net.lua:7");
  returned(g, y, "");
  must(rg_ir_bind(g, x, in));
  return g;
}

static void test_refused(void)
{
  rg_tensor *in = square(2);
  rg_tensor *out = NULL;
  rg_plan *plan = NULL;
  rg_graph *g = incomplete(in);

  is_status(rg_graph_plan(NULL, &out, &plan), RG_EARG, "no graph");
  is_status(rg_graph_plan(g, &out, NULL), RG_EARG, "no place for a plan");
  is_status(rg_graph_plan(g, NULL, &plan), RG_EARG, "no place for its results");
  is_status(rg_graph_plan(g, &out, &plan), RG_EARG, "a weight without a tensor");
  ok(SAYS("graph: node 1 (add, encoder.2, net.lua:7): parameter w, %1 (f32[3,3]) has no tensor; "
          "give it one"),
     "which says what, and where");
  ok(plan == NULL && out == NULL && !rg_capturing(), "nothing is made, and no capture open");
  must(rg_ir_bind(g, 1, in));
  rg_tensor_drop(in);
  is_status(rg_graph_plan(g, &out, &plan), RG_ERELEASED, "a released tensor");
  ok(SAYS("node 0 (neg)"), "which says where");
  rg_graph_release(g);
  rg_tensor_release(in);
}

/* Emission leaves the thread as it was, whatever becomes of it. */
static void test_thread(void)
{
  rg_tensor *in = square(2);
  rg_tensor *w = square(1);
  rg_graph *g = incomplete(in);
  const rg_place place = { .module = "mine" };
  int32_t reader = 0;

  must(rg_reader_open(1 << RG_EVENT_OP, 0, 100, &reader)); /* somebody hears calls */
  for (int32_t i = 0; i < 3; i++) {
    rg_tensor *out = NULL;
    rg_plan *plan = NULL;
    rg_status want = i == 0 ? RG_EARG : i == 1 ? RG_OK : RG_EINTR;
    uint32_t ring = rg_ring_on;

    if (i == 1) {
      must(rg_ir_bind(g, 1, w));
    } else if (i == 2) {
      rg_interrupt_set();
    }
    rg_place_now = place;
    (void)rg_autocast_set(RG_BF16);
    (void)rg_grad_mode(1);
    is_status(rg_graph_plan(g, &out, &plan), want, "a plan, or none");
    ok(i != 2 || !SAYS("node"), "an interrupt is no node's mistake");
    rg_interrupt_clear();
    ok(rg_place_now.module == place.module, "the module is what it was");
    is_int(rg_autocast_set(-1), RG_BF16, "and autocast");
    is_int(rg_grad_mode(1), 1, "and the tape");
    ok(!rg_capture_dry && !rg_capturing(), "nothing is dry or captured");
    ok(ring != 0 && rg_ring_on == ring, "and who heard calls goes on hearing them");
    if (i == 1) {
      must(rg_plan_replay(plan, 1));
      holds(out, -1, "under no autocast of the thread's");
      ok(out->_dtype == RG_F32 && !rg_requires_grad(out), "in its own type, without a tape");
    }
    rg_tensor_release(out);
    rg_plan_release(plan);
  }
  rg_place_now = (rg_place){ 0 };
  rg_reader_close(reader);
  rg_graph_release(g);
  rg_tensor_release(in);
  rg_tensor_release(w);
}

static void test_aliases(void)
{
  int32_t x;
  rg_graph *g = graph(&x);
  int32_t state = outside(g, RG_VALUE_STATE, "average", 3, 3);
  int32_t z = outside(g, RG_VALUE_INPUT, "z", 3, 3);
  rg_tensor *a = square(2);
  rg_tensor *b = square(3);
  rg_tensor *turned = NULL;
  rg_tensor *out = NULL;
  rg_plan *plan = NULL;

  must(rg_transpose(a, 0, 1, &turned));
  returned(g, added(g, x, z), "");
  (void)node_of(g, &rg_op_relu, &state, 1, NULL, state);
  must(rg_ir_bind(g, x, a));
  must(rg_ir_bind(g, z, turned));
  must(rg_ir_bind(g, state, b));
  plan = planned(g, &out);
  rg_plan_release(plan);
  rg_tensor_release(out);
  out = NULL;
  for (int32_t i = 0; i < 2; i++) { /* the state comes first, or behind the other */
    must(rg_ir_bind(g, i == 0 ? x : state, a));
    must(rg_ir_bind(g, i == 0 ? z : x, b));
    must(rg_ir_bind(g, i == 0 ? state : z, i == 0 ? turned : a));
    is_status(rg_graph_plan(g, &out, &plan), RG_EARG, "a state in the memory of an input");
    ok(SAYS("average") && SAYS("one storage"), "which says so");
  }
  rg_graph_release(g);
  rg_tensor_release(turned);
  rg_tensor_release(a);
  rg_tensor_release(b);
}

/* -- What kernels work in ---------------------------------------------------------------------- */

enum { ROWS = 1 << 14 };

static rg_status infer_like(rg_call *call)
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

/* Twice its input, by way of a workspace that nobody foresaw, and which it leaves full of -1. */
static rg_status double_in_workspace(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const float *x = call->in[0]->_data;
  float *y = out[0]->_data;
  rg_block work;

  (void)frame;
  RG_TRY(rg_block_alloc(RG_CPU, rg_tensor_bytes(call->in[0]), &work));
  for (int64_t i = 0; i < call->in[0]->_count; i++) {
    ((float *)work.data)[i] = -1;
  }
  for (int64_t i = 0; i < call->in[0]->_count; i++) {
    y[i] = 2 * x[i];
  }
  rg_block_free(&work);
  return RG_OK;
}

static const rg_op op_double = {
  .name = "double",
  .id = -1,
  RG_INPUTS(RG_IN("x", INPUT, ANY)),
  .infer = infer_like,
  .cost = no_cost,
  .kernel = double_in_workspace,
};

/* A step that takes memory in its first run gets none that later steps read. */
static void test_workspace(void)
{
  rg_tensor *in = NULL;
  rg_tensor *out[1] = { NULL };
  rg_graph *g;
  int32_t value[6];
  int32_t last = -1;
  bool grows = true;

  must(rg_ir_new(&g));
  value[0] = outside(g, RG_VALUE_INPUT, "x", ROWS, 3);
  must(rg_empty(RG_F32, RG_CPU, SHAPE(ROWS, 3), 2, &in));
  must(rg_fill_(in, 1));
  must(rg_ir_bind(g, value[0], in));
  for (int32_t i = 1; i < 6; i++) { /* 2, 4, 8 ...: all are read at the end */
    value[i] = unary(g, &op_double, value[i - 1]);
  }
  int32_t sum = value[1];

  for (int32_t i = 2; i < 6; i++) {
    sum = added(g, sum, value[i]);
  }
  returned(g, sum, "sum");
  must(rg_graph_check(g));
  rg_plan *plan = planned(g, out);

  for (const step *s = plan->first; s != NULL; s = s->next) {
    grows = grows && s->at > last;
    last = s->at;
  }
  ok(grows, "each step knows when it runs, by the layout");
  for (int32_t i = 0; i < 2; i++) {
    must(rg_plan_replay(plan, 1));
    holds(out[0], 2 + 4 + 8 + 16 + 32, "what steps worked in was nobody's");
  }
  rg_plan_release(plan);
  rg_graph_release(g);
  rg_tensor_release(out[0]);
  rg_tensor_release(in);
}

static rg_block kept; /* by a kernel that gives nothing back */

static rg_status keep_workspace(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  RG_TRY(rg_block_alloc(RG_CPU, 64, &kept));
  memcpy(out[0]->_data, call->in[0]->_data, (size_t)rg_tensor_bytes(out[0]));
  return RG_OK;
}

/* What lies where other steps will make their results may not be kept behind a step. */
static void test_kept(void)
{
  static rg_op op;
  int32_t x;
  rg_graph *g = graph(&x);
  rg_tensor *in = square(2);
  rg_tensor *out[1] = { NULL };

  op = op_double;
  op.name = "keeper";
  op.kernel = keep_workspace;
  must(rg_ir_bind(g, x, in));
  int32_t y = unary(g, &rg_op_gelu, x); /* and neg, dead by then: there is memory to borrow */

  y = unary(g, &op, added(g, y, unary(g, &rg_op_neg, x)));
  returned(g, unary(g, &rg_op_neg, unary(g, &rg_op_relu, y)), "");
  must(rg_graph_check(g));
  rg_plan *plan = planned(g, out);

  is_status(rg_plan_replay(plan, 1), RG_EBUG, "a step that keeps what it works in is a fault");
  ok(strcmp(rg_error_message(), "plan: keeper keeps the memory that it works in") == 0,
     "which is told");
  rg_block_free(&kept);
  rg_plan_release(plan);
  rg_graph_release(g);
  rg_tensor_release(out[0]);
  rg_tensor_release(in);
}

/* -- Memory ------------------------------------------------------------------------------------ */

static void test_memory(void)
{
  int32_t x;
  rg_graph *g = graph(&x);
  rg_tensor *in = square(2);
  rg_tensor *into = square(0);
  rg_tensor *out[2] = { NULL };
  rg_plan *plan = NULL;
  int32_t y = with_number(g, RG_OP_MUL, unary(g, &rg_op_neg, x), 3, 0, -1);
  rg_status status;
  bool clean = true;
  int64_t n = 0;

  must(rg_ir_bind(g, x, in));
  returned(g, y, "");
  output_in(g, y, into, 0, false);
  must(rg_graph_check(g));
  int64_t tensors = rg_live_tensors();
  int64_t bytes = rg_memory_of(RG_CPU)->live_bytes;

  do {
    rg_alloc_fail_at(++n);
    status = rg_graph_plan(g, out, &plan);
    clean = clean && (status != RG_OK || rg_alloc_injected()); /* it was refused nothing */
    rg_alloc_fail_at(0);
    clean = clean && (status == RG_OK || status == RG_ENOMEM) && !rg_capturing() &&
            !rg_capture_dry &&
            (status == RG_OK || (rg_live_tensors() == tensors && out[0] == NULL &&
                                 rg_memory_of(RG_CPU)->live_bytes == bytes));
  } while (status != RG_OK && n < 1000);
  is_status(status, RG_OK, "a plan in the end");
  ok(n > 15, "where many allocations were refused");
  ok(clean, "each of which is an error that leaves nothing");
  must(rg_plan_replay(plan, 1));
  holds(out[0], -6, "it computes");
  rg_plan_release(plan);
  rg_tensor_release(out[0]);
  rg_tensor_release(out[1]);
  rg_graph_release(g);
  is_int(rg_live_tensors(), tensors, "and leaves nothing either");
  rg_tensor_release(in);
  rg_tensor_release(into);
}

int main(void)
{
  test_runs();
  test_liveness();
  test_outputs();
  test_shared_outputs();
  test_refused();
  test_thread();
  test_aliases();
  test_workspace();
  test_kept();
  test_memory();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  return done();
}
