/* SPDX-License-Identifier: MIT */
/*
** Steps of emitted plans, looked at one by one: in whose memory each works, under which name, what
** is made of hidden results and of compounds, and when memory is used again.
*/
#include "graph/plan.h"
#include "op/binary.h"
#include "op/fill.h"
#include "pass.h"
#include "ridge/grad.h"
#include "ridge/graph.h"
#include "ridge/ring.h"

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })

/* 3 x 3: begin, begin + 1, ... */
static rg_tensor *square(float begin)
{
  rg_tensor *x = NULL;

  must(rg_empty(RG_F32, RG_CPU, SHAPE(3, 3), 2, &x));
  for (int32_t i = 0; i < 9; i++) {
    ((float *)x->_data)[i] = begin + (float)i;
  }
  return x;
}

static rg_plan *planned(rg_graph *g, rg_tensor **out)
{
  rg_plan *plan = NULL;

  if (!is_status(rg_graph_plan(g, out, &plan), RG_OK, "a plan")) {
    tap_bail(rg_error_message());
  }
  return plan;
}

static const step *step_at(const rg_plan *plan, int32_t i)
{
  const step *s = plan->first;

  while (i-- > 0) {
    s = s->next;
  }
  return s;
}

/* The names of the steps are `want`, "neg add". */
static void is_steps(const rg_plan *plan, const char *want, const char *what)
{
  char text[512] = "";

  for (const step *s = plan->first; s != NULL; s = s->next) {
    size_t at = strlen(text);

    (void)snprintf(text + at, sizeof(text) - at, "%s%s", at > 0 ? " " : "", s->call.op->name);
  }
  if (!ok(strcmp(text, want) == 0, what)) {
    printf("#   got %s\n#  want %s\n", text, want);
  }
}

static void end(rg_graph *g, rg_plan *plan, rg_tensor **out, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    rg_tensor_release(out[i]);
  }
  rg_plan_release(plan);
  rg_graph_release(g);
}

static bool first_is(const rg_tensor *x, float want)
{
  return ((const float *)x->_data)[0] == want;
}

/* -- Places ------------------------------------------------------------------------------ */

static void output_into(rg_graph *g, int32_t value, rg_tensor *into)
{
  must(rg_ir_graph_output(g,
                          &(rg_ir_output){ .value = value, .kind = RG_OUTPUT_KEPT, .into = into }));
}

/* A result is made in the tensor that is to hold it, where that has memory of its size. */
static void test_into(void)
{
  enum { SAME, FLAT, TURNED, PART, LARGER, WAYS };
  static const char *const steps[WAYS] = { "neg", "neg", "neg copy copy", "neg copy", "neg copy" };
  static const char *const what[WAYS] = { "made there", "of any shape", "there, and transposed",
                                          "not where it is a part", "nor in more" };

  for (int32_t way = 0; way < WAYS; way++) {
    int32_t x;
    rg_graph *g = graph(&x);
    rg_tensor *in = square(1);
    rg_tensor *into = NULL;
    rg_tensor *whole = NULL;
    rg_tensor *out[1] = { NULL };

    must(rg_empty(RG_F32, RG_CPU, way == PART ? SHAPE(6, 3) : SHAPE(9), way == PART ? 2 : 1,
                  &whole));
    switch (way) {
    case SAME:
      must(rg_reshape(whole, SHAPE(3, 3), 2, &into));
      break;
    case FLAT: /* what holds it is a view of memory that was made for nine in a row */
      must(rg_tensor_view_of(whole->_storage, RG_F32, SHAPE(3, 3), SHAPE(3, 1), 2, 0, &into));
      break;
    case TURNED:
      must(rg_tensor_view_of(whole->_storage, RG_F32, SHAPE(3, 3), SHAPE(1, 3), 2, 0, &into));
      break;
    case PART:
      must(rg_narrow(whole, 0, 2, 3, 1, &into));
      break;
    default:
      rg_tensor_release(whole);
      must(rg_empty(RG_F32, RG_CPU, SHAPE(12), 1, &whole));
      must(rg_tensor_view_of(whole->_storage, RG_F32, SHAPE(3, 3), SHAPE(4, 1), 2, 0, &into));
    }
    must(rg_ir_bind(g, x, in));
    output_into(g, unary(g, &rg_op_neg, x), into);
    rg_plan *plan = planned(g, out);

    is_steps(plan, steps[way], what[way]);
    const step *neg = step_at(plan, 0);

    ok((neg->out[0]->_storage == into->_storage) == (way < PART), "and in that memory");
    must(rg_plan_replay(plan, 1));
    bool right = out[0] == into;

    for (int64_t i = 0; i < 9; i++) {
      right = right &&
              ((const float *)into->_data)[i / 3 * into->_stride[0] + i % 3 * into->_stride[1]] ==
                  -(1 + (float)i);
    }
    ok(right, "it holds the result");
    end(g, plan, out, 1);
    rg_tensor_release(in);
    rg_tensor_release(into);
    rg_tensor_release(whole);
  }
}

/* An input that is handed out as a result of its own is copied, unless there is nothing of it. */
static void test_small(void)
{
  for (int64_t n = 0; n < 3; n++) {
    const rg_meta meta = { .dtype = RG_U8, .ndim = 1, .shape = { n } };
    rg_tensor *in = NULL;
    rg_tensor *out[1] = { NULL };
    rg_graph *g;
    int32_t storage;
    int32_t x;

    must(rg_ir_new(&g));
    must(rg_ir_storage_new(g, &storage));
    must(rg_ir_value_add(g, RG_VALUE_INPUT, &meta, RG_CPU, storage, NULL, &x));
    must(rg_ir_graph_input(g, x));
    must(rg_empty(RG_U8, RG_CPU, &n, 1, &in));
    must(rg_ir_bind(g, x, in));
    returned(g, x, "");
    rg_plan *plan = planned(g, out);

    is_steps(plan, n > 0 ? "copy" : "", "a copy of any number of bytes, and none of none");
    ok((out[0]->_storage != in->_storage) == (n > 0), "is a result of its own");
    end(g, plan, out, 1);
    rg_tensor_release(in);
  }
}

/* What is written over is the same memory, of a result or of what was there before. */
static void test_over(void)
{
  int32_t x;
  rg_graph *g = graph(&x);
  rg_tensor *in = square(1);
  rg_tensor *state = square(5);
  rg_tensor *out[3] = { NULL };
  int32_t w = outside(g, RG_VALUE_STATE, "average", 3, 3);
  int32_t y = unary(g, &rg_op_neg, x);
  int32_t over = node_of(g, &rg_op_relu, (const int32_t[]){ y }, 1, NULL, y);
  int32_t later = node_of(g, &rg_op_neg, (const int32_t[]){ over }, 1, NULL, w);

  must(rg_ir_bind(g, x, in));
  must(rg_ir_bind(g, w, state));
  returned(g, over, "over");
  returned(g, later, "state");
  rg_plan *plan = planned(g, out);

  is_steps(plan, "neg relu neg copy", "a write is a step, and what is returned of a state a copy");
  ok(step_at(plan, 1)->out[0]->_data == step_at(plan, 0)->out[0]->_data &&
         step_at(plan, 1)->call.in[0]->_data == step_at(plan, 0)->out[0]->_data,
     "in the memory of what was there");
  ok(step_at(plan, 2)->out[0]->_data == state->_data, "or in the tensor");
  ok(out[0]->_data == step_at(plan, 0)->out[0]->_data && out[1]->_data != state->_data,
     "and there it is handed out");
  end(g, plan, out, 2);
  rg_tensor_release(in);
  rg_tensor_release(state);
}

/* A view of what is written is later too, and at hand where nobody read it before. */
static void test_later_views(void)
{
  for (int32_t before = 0; before < 2; before++) {
    int32_t x;
    rg_graph *g = graph(&x);
    rg_tensor *in = square(1);
    rg_tensor *out[2] = { NULL };
    int32_t y = unary(g, &rg_op_neg, x);
    int32_t view = transposed(g, y);
    int32_t whole;

    if (before == 1) {
      returned(g, unary(g, &rg_op_neg, y), "before");
    }
    (void)written(g, view, y, &whole);
    returned(g, whole, "");
    must(rg_ir_bind(g, x, in));
    rg_plan *plan = planned(g, out);

    is_steps(plan, before == 1 ? "neg neg relu" : "neg relu", "a write through a view");
    must(rg_plan_replay(plan, 1));
    ok(out[before]->_data == step_at(plan, 0)->out[0]->_data && first_is(out[before], 0),
       "is one of what it is a view of");
    end(g, plan, out, 2);
    rg_tensor_release(in);
  }
}

/* What was there before is at hand where it is named by nothing but a write through a view. */
static void test_later_states(void)
{
  const rg_meta meta = { .dtype = RG_F32, .ndim = 2, .shape = { 3, 3 } };
  rg_tensor *in = square(-4);
  rg_tensor *view = NULL;
  rg_tensor *out[1] = { NULL };
  int32_t storage;
  int32_t value[2];
  int32_t later;
  rg_graph *g;

  must(rg_ir_new(&g));
  must(rg_ir_storage_new(g, &storage));
  must(rg_transpose(in, 0, 1, &view));
  for (int32_t i = 0; i < 2; i++) {
    must(rg_ir_value_add(g, RG_VALUE_STATE, &meta, RG_CPU, storage, i == 0 ? in : view, &value[i]));
  }
  must(rg_ir_graph_state(g, value[0]));
  (void)written(g, value[1], value[0], &later);
  returned(g, later, "");
  rg_plan *plan = planned(g, out);

  is_steps(plan, "relu copy", "a write through one of two views");
  must(rg_plan_replay(plan, 1));
  ok(first_is(in, 0) && first_is(out[0], 0) && ((const float *)out[0]->_data)[8] == 4,
     "is seen by the other");
  end(g, plan, out, 1);
  rg_tensor_release(view);
  rg_tensor_release(in);
}

/* -- Liveness ---------------------------------------------------------------------------- */

/* Bytes of a plan of n functions in a row, of which the first's result is read again at the end
** where `kept`; unread: of n results that nobody reads. */
static int64_t bytes_of(int32_t n, bool kept, bool unread)
{
  int32_t x;
  rg_graph *g = graph(&x);
  rg_tensor *in = square(1);
  rg_tensor *out[1] = { NULL };
  rg_plan_facts facts;
  int32_t first = unary(g, &rg_op_neg, x);
  int32_t y = first;

  must(rg_ir_bind(g, x, in));
  for (int32_t i = 0; i < n; i++) {
    y = unary(g, &rg_op_neg, unread ? first : y);
  }
  y = kept ? added(g, first, y) : y;
  returned(g, y, "");
  rg_plan *plan = planned(g, out);

  must(rg_plan_replay(plan, 1));
  const double want = unread ? 1 : (kept ? -1 : 0) + (n % 2 == 0 ? -1 : 1);

  close_to(((const float *)out[0]->_data)[0], want, 0, "it computes");
  must(rg_plan_facts_of(plan, &facts));
  end(g, plan, out, 1);
  rg_tensor_release(in);
  return facts.buffer_bytes;
}

static void test_liveness(void)
{
  const int64_t two = bytes_of(1, false, false);

  is_int(bytes_of(2, false, false), two, "in a row two are there at a time");
  is_int(bytes_of(9, false, false), two, "however many");
  is_int(bytes_of(2, true, false), two / 2 * 3, "three where one is read again");
  is_int(bytes_of(9, true, false), two / 2 * 3, "however late");
  is_int(bytes_of(9, false, true), two, "what nobody reads is there for its own step");
}

/* -- Hidden results ------------------------------------------------------------------------ */

/* A draw of which the hidden result is recorded or not, and read or not. */
static void test_hidden(void)
{
  for (int32_t way = 0; way < 3; way++) {
    const rg_dropout_args p = { .p = 0.5 };
    int32_t x;
    rg_graph *g = graph(&x);
    rg_tensor *in = square(1);
    rg_tensor *out[2] = { NULL };
    int32_t y = node_of(g, &rg_op_dropout, &x, 1, &p, -1);
    int32_t node = producer(g, y);
    int32_t storage;
    int32_t hidden = RG_IR_NONE;
    rg_call call;

    if (way > 0) {
      must(rg_ir_infer(g, &rg_op_dropout, &x, 1, &p, -1, &call));
      rg_ir_node_at(g, node)->complete = false;
      must(rg_ir_storage_new(g, &storage));
      must(rg_ir_output_add(g, node, &call.out[1], RG_CPU, storage, 0, -1, &hidden));
      rg_ir_results_end(g, node);
    }
    returned(g, y, "");
    if (way == 2) {
      returned(g, hidden, "hidden");
    }
    must(rg_ir_bind(g, x, in));
    rg_plan *plan = planned(g, out);

    is_steps(plan, "dropout", "a draw");
    is_int(plan->first->call.n_out, way == 2 ? 2 : 1,
           "makes what is hidden where somebody reads it");
    ok((out[1] != NULL) == (way == 2), "and hands it out");
    end(g, plan, out, 2);
    rg_tensor_release(in);
  }
}

/* -- Compounds ----------------------------------------------------------------------------- */

/* A compound is what its body is: where that is empty, nothing. */
static void test_compounds(void)
{
  for (int32_t empty = 0; empty < 2; empty++) {
    const rg_softmax_args axis = { .axis = 1 };
    int32_t x;
    int32_t node;
    rg_graph *g = graph(&x);
    rg_tensor *in = square(1);
    rg_tensor *out[1] = { NULL };
    int32_t y = x;

    must(rg_ir_node_add(g, &rg_op_softmax, &x, 1, &axis, &node));
    must(rg_ir_begin(g, node));
    if (!empty) {
      y = unary(g, &rg_op_neg, x);
    }
    rg_ir_end(g);
    must(rg_ir_output_share(g, node, y));
    rg_ir_results_end(g, node);
    returned(g, unary(g, &rg_op_neg, y), "");
    must(rg_ir_bind(g, x, in));
    rg_plan *plan = planned(g, out);

    is_steps(plan, empty ? "neg" : "neg neg", "the body is emitted, and what stands behind it");
    must(rg_plan_replay(plan, 1));
    ok(first_is(out[0], empty ? -1 : 1), "which reads what the compound hands out");
    end(g, plan, out, 1);
    rg_tensor_release(in);
  }
}

/* -- Names --------------------------------------------------------------------------------- */

/* Each step knows the module of its node. */
static void test_modules(void)
{
  int32_t x;
  rg_graph *g = graph(&x);
  rg_tensor *in = square(1);
  rg_tensor *out[1] = { NULL };
  int32_t y = unary(g, &rg_op_neg, x);
  int32_t z = unary(g, &rg_op_neg, y);

  rg_ir_node_at(g, producer(g, z))->module = text_in(g, "encoder.2");
  returned(g, unary(g, &rg_op_neg, z), "");
  must(rg_ir_bind(g, x, in));
  rg_place_now.module = "mine";
  rg_plan *plan = planned(g, out);

  ok(strcmp(rg_place_now.module, "mine") == 0, "the thread's is what it was");
  rg_place_now.module = NULL;
  ok(step_at(plan, 0)->module == NULL && step_at(plan, 2)->module == NULL, "of none, none");
  ok(step_at(plan, 1)->module != NULL && strcmp(step_at(plan, 1)->module, "encoder.2") == 0,
     "of one, its own");
  end(g, plan, out, 1);
  rg_tensor_release(in);
}

/* What is missing, and of which node, where both have names or not. */
static void test_blame(void)
{
  for (int32_t named = 0; named < 8; named++) {
    int32_t x;
    rg_graph *g = graph(&x);
    rg_tensor *out[1] = { NULL };
    rg_plan *plan = NULL;
    int32_t w = outside(g, RG_VALUE_PARAMETER, named & 1 ? "w" : "", 3, 3);
    int32_t y = unary(g, &rg_op_neg, w);
    rg_ir_node *node = rg_ir_node_at(g, producer(g, y));
    char want[160];

    node->module = text_in(g, named & 2 ? "encoder.2" : "");
    node->line = text_in(g, named & 4 ? "net.lua:7" : "");
    returned(g, y, "");
    (void)snprintf(want, sizeof(want),
                   "graph: node 0 (neg%s%s): parameter %s%%1 (f32[3,3]) has no tensor; give it one",
                   named & 2 ? ", encoder.2" : "", named & 4 ? ", net.lua:7" : "",
                   named & 1 ? "w, " : "");
    is_status(rg_graph_plan(g, out, &plan), RG_EARG, "a parameter without a tensor");
    if (!ok(strcmp(rg_error_message(), want) == 0, want)) {
      printf("#   got %s\n", rg_error_message());
    }
    rg_graph_release(g);
  }
}

/* What is said of a node is cut where it is longer than an error may be. */
static void test_long(void)
{
  enum { ROOM = 255 };
  static const char node[] = "graph: node 0 (neg): ";
  char name[400];
  char want[sizeof(node) + ROOM];
  int32_t x;
  rg_graph *g = graph(&x);
  rg_tensor *out[1] = { NULL };
  rg_plan *plan = NULL;

  memset(name, 'a', sizeof(name));
  name[sizeof(name) - 1] = '\0';
  rg_ir_name(g, x, text_in(g, name));
  returned(g, unary(g, &rg_op_neg, x), "");
  is_status(rg_graph_plan(g, out, &plan), RG_EARG, "an input with a long name and no tensor");
  (void)snprintf(want, sizeof(want), "%sinput %.*s", node, ROOM - (int)strlen("input "), name);
  if (!ok(strcmp(rg_error_message(), want) == 0, "as much of it as there is room for")) {
    printf("#   got %s\n#  want %s\n", rg_error_message(), want);
  }
  rg_graph_release(g);
}

/* -- The tape ------------------------------------------------------------------------------ */

/* It is told of nothing, whether it is on or not, and is afterwards what it was. */
static void test_tape(void)
{
  for (int32_t on = 0; on < 2; on++) {
    const rg_dropout_args p = { .p = 0.5 };
    int32_t x;
    rg_graph *g = graph(&x);
    rg_tensor *in = square(1);
    rg_tensor *out[1] = { NULL };
    int32_t w = outside(g, RG_VALUE_PARAMETER, "w", 3, 3);

    returned(g, node_of(g, &rg_op_dropout, &w, 1, &p, -1), "");
    must(rg_require_grad(in, 1));
    must(rg_ir_bind(g, w, in));
    const int32_t before = rg_grad_mode(on);

    rg_plan *plan = planned(g, out);

    is_int(rg_grad_mode(before), on, "the tape is on or off as before");
    ok(!plan->first->call.tracked && plan->first->call.n_out == 1 && !rg_requires_grad(out[0]),
       "and heard nothing");
    end(g, plan, out, 1);
    rg_tensor_release(in);
  }
}

/* -- Derived ------------------------------------------------------------------------------- */

/* What a derived node makes is worth packed copies, as a parameter is, and lies where nothing else
** does; what others make is not. */
static void test_derived(void)
{
  int32_t x;
  rg_graph *g = graph(&x);
  rg_tensor *in = square(1);
  rg_tensor *weight = square(2);
  rg_tensor *out[1] = { NULL };
  int32_t w = outside(g, RG_VALUE_PARAMETER, "w", 3, 3);
  int32_t derived = unary(g, &rg_op_neg, w);
  int32_t plain = unary(g, &rg_op_neg, x);

  rg_ir_node_at(g, producer(g, derived))->derived = true;
  returned(g, added(g, plain, derived), "");
  must(rg_ir_bind(g, x, in));
  must(rg_ir_bind(g, w, weight));
  rg_plan *plan = planned(g, out);
  const step *add = step_at(plan, 2);

  is_steps(plan, "neg neg add", "three steps");
  ok(step_at(plan, 0)->derived_of != NULL && step_at(plan, 1)->derived_of == NULL &&
         add->derived_of == NULL,
     "of which one is derived");
  ok((add->call.in[1]->_flags & RG_TENSOR_PARAM) != 0, "what it makes is like a parameter");
  ok((add->call.in[0]->_flags & RG_TENSOR_PARAM) == 0 && (out[0]->_flags & RG_TENSOR_PARAM) == 0,
     "and nothing else is");
  ok(add->call.in[1]->_storage->block.arena == plan->workspace &&
         add->call.in[0]->_storage->block.arena == plan->arena,
     "it lies by itself");
  ok(plan->workspace != NULL && !plan->prepared && !plan->derives, "nothing has run");
  must(rg_plan_replay(plan, 1));
  ok(plan->prepared && plan->derives && step_at(plan, 0)->derived_is_there, "until the first run");
  int32_t reader = 0;
  rg_happening event;
  int64_t at = 0;

  must(rg_reader_open(1 << RG_EVENT_STEP, 0, 100, &reader));
  must(rg_plan_replay(plan, 1));
  for (int32_t i = 1; i < 3; i++) {
    must(rg_reader_next(reader, &at, &event));
    is_int(event.step, i, "steps that run have their numbers, whatever was left out");
  }
  rg_reader_close(reader);
  end(g, plan, out, 1);
  rg_tensor_release(in);
  rg_tensor_release(weight);
}

/* What reads nothing is derived of nothing, whatever a graph says. */
static void test_derived_of_nothing(void)
{
  int32_t x;
  rg_graph *g = graph(&x);
  rg_tensor *in = square(1);
  rg_tensor *out[1] = { NULL };
  int32_t two = filled(g, 2, 3);

  rg_ir_node_at(g, producer(g, two))->derived = true;
  returned(g, added(g, x, two), "");
  must(rg_ir_bind(g, x, in));
  rg_plan *plan = planned(g, out);

  is_steps(plan, "fill add", "two steps");
  ok(plan->first->derived_of == NULL, "of which none is derived");
  must(rg_plan_replay(plan, 2));
  ok(first_is(out[0], 3), "they run");
  end(g, plan, out, 1);
  rg_tensor_release(in);
}

int main(void)
{
  test_into();
  test_small();
  test_over();
  test_later_views();
  test_later_states();
  test_liveness();
  test_hidden();
  test_compounds();
  test_modules();
  test_blame();
  test_long();
  test_tape();
  test_derived();
  test_derived_of_nothing();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  return done();
}
