/* SPDX-License-Identifier: MIT */
/*
** What a plan was captured under, it runs under (core/graph/replay.c, emit.c): the modes of every
** step, whatever is set then, and whoever else runs meanwhile.
*/
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "graph/json.h"
#include "graph/plan.h"
#include "pass.h"
#include "ridge/choice.h"
#include "ridge/graph.h"
#include "tensor/tensor.h"

enum { DEVICE = 3, MOST = 8 };

/* -- A device whose kernels write down their modes ---------------------------------------- */

static rg_modes seen[MOST]; /* by the calls since it was emptied */
static int32_t n_seen;
static bool fails;
static rg_modes elsewhere; /* those of another thread meanwhile */
static bool asks;

static void *ask(void *unused)
{
  elsewhere = *rg_modes_now();
  return unused;
}

static rg_status k_any(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  pthread_t thread;

  (void)call;
  (void)out;
  (void)frame;
  if (n_seen < MOST) {
    seen[n_seen++] = *rg_modes_now();
  }
  if (asks && pthread_create(&thread, NULL, ask, NULL) == 0) {
    (void)pthread_join(thread, NULL);
  }
  return fails ? rg_fail(RG_EDEVICE, "the kernel fails") : RG_OK;
}

static rg_status graph_end(int32_t device, void **graph)
{
  (void)device;
  *graph = calloc(1, 1);
  return *graph != NULL ? RG_OK : rg_fail(RG_ENOMEM, "no memory");
}

static rg_status graph_run(int32_t device, void *graph)
{
  (void)device;
  (void)graph;
  return RG_OK;
}

static void graph_free(int32_t device, void *graph)
{
  (void)device;
  free(graph);
}

static const rg_driver driver = { .take = host_take,
                                  .give = host_give,
                                  .lost = host_done,
                                  .wait = host_done,
                                  .enter = host_enter,
                                  .join = host_join,
                                  .graph_begin = host_done,
                                  .graph_end = graph_end,
                                  .graph_run = graph_run,
                                  .graph_free = graph_free };
static rg_kernel *const kernels[RG_OP_COUNT] = { [RG_OP_ADD] = k_any, [RG_OP_MATMUL] = k_any };
static const bool varies[RG_OP_COUNT] = { [RG_OP_MATMUL] = true };
static const rg_backend backend = { "written down", kernels, varies, NULL };

/* -- Modes --------------------------------------------------------------------------------- */

static const rg_modes standard = { { 1, 1, 0, 0 }, RG_GEMM_AUTO };

/* One mode of each differs from the standard ones, then all do. */
static const rg_modes others[] = {
  { { 0, 1, 0, 0 }, RG_GEMM_AUTO },     { { 1, 2, 0, 0 }, RG_GEMM_AUTO },
  { { 1, 1, 1, 0 }, RG_GEMM_AUTO },     { { 1, 1, 0, 1 }, RG_GEMM_AUTO },
  { { 1, 1, 0, 0 }, RG_GEMM_OPENBLAS }, { { 0, 0, 1, 1 }, RG_GEMM_OWN },
};
enum { N_OTHERS = sizeof(others) / sizeof(others[0]) };

static void set(const rg_modes *modes)
{
  static const char *const paths[RG_GEMM_COUNT] = { "auto", "onednn", "openblas", "own" };

  *rg_device_modes_now() = modes->device;
  must(rg_set_gemm_path(paths[modes->gemm]));
}

static void is_now(const rg_modes *want, const char *what)
{
  ok(rg_modes_same(rg_modes_now(), want), what);
}

/* The modes of the calls since the last time; NULL: there was none of this number. */
static void were(const rg_modes *first, const rg_modes *second, const char *what)
{
  bool same = n_seen == (first != NULL) + (second != NULL);

  same = same && (first == NULL || rg_modes_same(&seen[0], first));
  same = same && (second == NULL || rg_modes_same(&seen[1], second));
  if (!ok(same, what)) {
    printf("# %d calls\n", n_seen);
    for (int32_t i = 0; i < n_seen; i++) {
      printf("# vendor %d, autotune %d, deterministic %d, tf32 %d, gemm %d\n",
             seen[i].device.vendor, seen[i].device.autotune, seen[i].device.deterministic,
             seen[i].device.tf32, seen[i].gemm);
    }
  }
  n_seen = 0;
}

static rg_tensor *square_on(int32_t device)
{
  rg_tensor *x = NULL;

  must(rg_empty(RG_F32, device, (const int64_t[]){ 3, 3 }, 2, &x));
  return x;
}

/* x + x under some modes, then x + x, or x x, under others. */
static rg_plan *captured(rg_tensor *x, const rg_modes *first, bool product, const rg_modes *second)
{
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;
  rg_plan *plan;

  must(rg_capture_begin());
  set(first);
  must(rg_add(x, x, &y));
  set(second);
  if (product) {
    must(rg_matmul(x, x, &z));
  } else {
    must(rg_add(x, x, &z));
  }
  must(rg_capture_end(&plan));
  set(&standard);
  rg_tensor_release(y);
  rg_tensor_release(z);
  n_seen = 0;
  return plan;
}

/* -- Replays ------------------------------------------------------------------------------- */

static void test_replay(void)
{
  rg_tensor *x = square_on(DEVICE);

  for (int32_t i = 0; i < N_OTHERS; i++) {
    rg_plan *plan = captured(x, &others[i], false, &others[i]);

    ok(!plan->mixed, "one plan, one kind of modes");
    must(rg_plan_replay(plan, 1)); /* captured as a graph: kernels are called for it */
    were(&others[i], &others[i], "a graph is made under the modes of the capture");
    is_now(&standard, "and those of the process are in force behind it");
    set(&others[(i + 1) % N_OTHERS]);
    must(rg_stream_enter(DEVICE, 1, NULL));
    if (rg_plan_replay(plan, 2) != RG_OK) {
      tap_bail(rg_error_message());
    }
    must(rg_stream_enter(DEVICE, 0, NULL));
    were(NULL, NULL, "which goes on, whatever is set since");
    set(&standard);
    rg_plan_release(plan);
  }
  rg_tensor_release(x);
}

static void test_mixed(void)
{
  rg_tensor *x = square_on(DEVICE);

  for (int32_t i = 0; i + 1 < N_OTHERS; i++) {
    rg_plan *plan = captured(x, &others[i], false, &others[i + 1]);

    ok(plan->mixed, "steps of two kinds");
    must(rg_stream_enter(DEVICE, 1, NULL));
    must(rg_plan_replay(plan, 1)); /* another stream: step by step at first */
    were(&others[i], &others[i + 1], "each step under its own");
    is_now(&standard, "and those of the process behind it");
    must(rg_plan_replay(plan, 1));
    were(&others[i], &others[i + 1], "and as a graph");
    is_now(&standard, "behind that too");
    must(rg_stream_enter(DEVICE, 0, NULL));
    rg_plan_release(plan);
  }
  rg_tensor_release(x);
}

static void test_failures(void)
{
  rg_tensor *x = square_on(DEVICE);
  rg_plan *plan = captured(x, &others[3], false, &others[4]);

  must(rg_stream_enter(DEVICE, 1, NULL));
  fails = true;
  is_status(rg_plan_replay(plan, 1), RG_EDEVICE, "a step that fails");
  fails = false;
  is_now(&standard, "leaves the modes as they were");
  must(rg_stream_enter(DEVICE, 0, NULL));
  rg_plan_release(plan);

  plan = captured(x, &others[3], false, &others[4]);
  must(rg_stream_enter(DEVICE, 1, NULL));
  rg_interrupt_set();
  is_status(rg_plan_replay(plan, 1), RG_EINTR, "an interrupt");
  rg_interrupt_clear();
  is_now(&standard, "does too");
  must(rg_stream_enter(DEVICE, 0, NULL));
  rg_plan_release(plan);
  rg_tensor_release(x);
  n_seen = 0;
}

/* What a plan runs under is its thread's, and nobody else's. */
static void test_threads(void)
{
  rg_tensor *x = square_on(DEVICE);
  rg_plan *plan = captured(x, &others[5], false, &others[5]);

  set(&others[3]);
  must(rg_stream_enter(DEVICE, 1, NULL));
  asks = true;
  must(rg_plan_replay(plan, 1));
  asks = false;
  must(rg_stream_enter(DEVICE, 0, NULL));
  were(&others[5], &others[5], "the plan runs under its own");
  ok(rg_modes_same(&elsewhere, &others[3]), "another thread meanwhile under those of the process");
  set(&standard);
  rg_plan_release(plan);
  rg_tensor_release(x);
}

/* -- Deterministic ------------------------------------------------------------------------- */

static void test_deterministic(void)
{
  const rg_modes *same_bits = &others[2];
  const rg_modes *own_only = &others[0];
  rg_tensor *x = square_on(DEVICE);
  rg_plan *plan = captured(x, &standard, true, &standard);

  must(rg_plan_replay(plan, 1));
  set(same_bits);
  n_seen = 0;
  is_status(rg_plan_replay(plan, 1), RG_ECAPTURE, "a promise that the plan cannot keep");
  ok(SAYS("step 2 of 2 (matmul on ") && SAYS("capture the plan again"), "says which step it is");
  is_int(n_seen, 0, "nothing ran");
  must(rg_plan_replay(plan, 0));
  set(&standard);
  must(rg_plan_replay(plan, 1));
  rg_plan_release(plan);

  plan = captured(x, &standard, true, same_bits);
  set(same_bits);
  must(rg_plan_replay(plan, 1));
  were(&standard, same_bits, "a sum gives the same bits in any case");
  set(&standard);
  must(rg_plan_replay(plan, 1));
  rg_plan_release(plan);

  plan = captured(x, own_only, true, own_only);
  set(same_bits);
  must(rg_plan_replay(plan, 1));
  were(own_only, own_only, "and so do kernels of ridge's own");
  rg_plan_release(plan);

  rg_tensor *y = square_on(RG_CPU);

  must(rg_fill_(y, 1));
  plan = captured(y, &standard, true, &standard);
  set(same_bits);
  is_status(rg_plan_replay(plan, 1), RG_OK, "and the CPU's");
  set(&standard);
  rg_plan_release(plan);
  rg_tensor_release(x);
  rg_tensor_release(y);
  n_seen = 0;
}

/* -- Graphs -------------------------------------------------------------------------------- */

static void put_modes(rg_graph *g, int32_t value, const rg_modes *modes)
{
  rg_ir_node *node = rg_ir_node_at(g, producer(g, value));
  rg_graph_modes m = *rg_ir_modes_of(g, node->modes);
  int32_t number;

  m.vendor = modes->device.vendor;
  m.autotune = modes->device.autotune;
  m.deterministic = modes->device.deterministic;
  m.tf32 = modes->device.tf32;
  m.gemm = modes->gemm;
  must(rg_ir_modes_add(g, &m, &number));
  rg_ir_node_at(g, producer(g, value))->modes = number;
}

/* relu(neg x), each node under its own modes; neg x is an output twice, which is a copy. */
static rg_graph *two_nodes(const rg_modes *first, const rg_modes *second, rg_tensor *in)
{
  int32_t x;
  rg_graph *g = graph(&x);
  int32_t y = unary(g, &rg_op_neg, x);
  int32_t z = unary(g, &rg_op_relu, y);

  put_modes(g, y, first);
  put_modes(g, z, second);
  returned(g, z, "z");
  returned(g, y, "y");
  returned(g, y, "again");
  if (in != NULL) {
    must(rg_ir_bind(g, x, in));
  }
  return g;
}

static void runs_under(rg_plan *plan, const rg_modes *first, const rg_modes *second,
                       const char *what)
{
  const step *s = plan->first;
  bool same = plan->n_steps == 3;

  for (int32_t i = 0; same && s != NULL; s = s->next, i++) {
    same = rg_modes_same(&s->modes, i == 0 ? first : second);
  }
  ok(same, what);
  ok(plan->mixed == !rg_modes_same(first, second), "and whether they are the same is known");
}

static rg_plan *emitted(rg_graph *g)
{
  rg_tensor *out[3] = { NULL };
  rg_plan *plan = NULL;

  must(rg_graph_plan(g, out, &plan));
  for (int32_t i = 0; i < 3; i++) {
    rg_tensor_release(out[i]);
  }
  return plan;
}

static void test_emission(void)
{
  rg_tensor *in = square_on(RG_CPU);

  must(rg_fill_(in, -2));
  for (int32_t i = 0; i + 1 < N_OTHERS; i++) {
    rg_graph *g = two_nodes(&others[i], &others[i + 1], in);
    rg_graph *copy;
    rg_plan *clone;
    rg_plan *plan;

    set(&others[(i + 2) % N_OTHERS]);
    plan = emitted(g);
    runs_under(plan, &others[i], &others[i + 1], "what nodes were recorded under");
    is_now(&others[(i + 2) % N_OTHERS], "and the process is set to what it was");
    must(rg_plan_clone(plan, &clone));
    runs_under(clone, &others[i], &others[i + 1], "a clone too");
    rg_plan_release(clone);
    rg_plan_release(plan);
    must(rg_graph_copy(g, &copy));
    plan = emitted(copy);
    runs_under(plan, &others[i], &others[i + 1], "a copy too");
    rg_plan_release(plan);
    rg_graph_release(copy);
    rg_graph_release(g);

    g = two_nodes(&others[i], &others[i], in);
    plan = emitted(g);
    runs_under(plan, &others[i], &others[i], "copies of results run as what they copy");
    rg_plan_release(plan);
    rg_graph_release(g);
  }
  set(&standard);
  rg_tensor_release(in);
}

static void test_emission_fails(void)
{
  rg_graph *g = two_nodes(&others[3], &others[4], NULL);
  rg_tensor *out[3] = { NULL };
  rg_plan *plan;

  is_status(rg_graph_plan(g, out, &plan), RG_EARG, "an input without a tensor");
  is_now(&standard, "the process is set to what it was");
  is_int(rg_capturing(), 0, "and its capture is over");
  rg_graph_release(g);
}

static void test_files(void)
{
  rg_tensor *in = square_on(RG_CPU);

  for (int32_t i = 0; i + 1 < N_OTHERS; i++) {
    rg_graph *g = two_nodes(&others[i], &others[i + 1], in);
    rg_graph *loaded;
    const char *text;
    rg_plan *plan;

    must(rg_graph_json(g, &text));
    must(rg_graph_parse(text, (int64_t)strlen(text), &loaded));
    is_status(rg_graph_same(g, loaded), RG_OK, "a graph out of a file is the same");
    must(rg_ir_bind(loaded, rg_ir_input_at(loaded, 0), in));
    plan = emitted(loaded);
    runs_under(plan, &others[i], &others[i + 1], "and runs under the same");
    rg_plan_release(plan);
    rg_graph_release(loaded);
    rg_graph_release(g);
  }
  rg_tensor_release(in);
}

/* No pass makes one of two nodes that do the same under other modes. */
static void test_common(void)
{
  for (const rg_ir_mode *m = rg_ir_mode_fields; m->name != NULL; m++) {
    int32_t x;
    rg_graph *g = graph(&x);
    int32_t a = unary(g, &rg_op_neg, x);
    int32_t b = unary(g, &rg_op_neg, x);
    rg_graph_modes modes = *rg_ir_modes_of(g, rg_ir_node_at(g, producer(g, b))->modes);

    if (strcmp(m->name, "compute") == 0) { /* of which the record has a say */
      rg_graph_release(g);
      continue;
    }
    *(int32_t *)(void *)((char *)&modes + m->offset) = strcmp(m->name, "vendor") == 0 ? 0 : 2;
    returned(g, unary(g, &rg_op_gelu, a), "");
    returned(g, unary(g, &rg_op_relu, b), "");
    must(rg_ir_modes_add(g, &modes, &rg_ir_node_at(g, producer(g, b))->modes));
    comes(g, "common_subexpression_elimination", "neg neg gelu relu", m->name);
  }
}

/* Nor do passes join two that are neighbours. */
static void test_joined(void)
{
  static const char zero[64];

  for (int32_t i = 0; i <= N_OTHERS; i++) {
    const rg_modes *second = i < N_OTHERS ? &others[i] : &standard;
    int32_t x;
    rg_graph *g = graph(&x);
    int32_t w = outside(g, RG_VALUE_PARAMETER, "w", 3, 3);
    int32_t y = node_of(g, &rg_op_linear, (const int32_t[]){ x, w, -1 }, 3, zero, -1);
    int32_t z = unary(g, &rg_op_relu, y);

    put_modes(g, z, second);
    returned(g, z, "");
    comes(g, "epilogue_fusion", i < N_OTHERS ? "linear relu" : "linear", "epilogues");

    g = graph(&x);
    y = unary(g, &rg_op_neg, x);
    z = unary(g, &rg_op_relu, y);
    put_modes(g, z, second);
    returned(g, z, "");
    comes(g, "elementwise_fusion", i < N_OTHERS ? "neg relu" : "fused", "chains");
  }
}

/* What is not as a process begins stands in the print of a node. */
static void test_print(void)
{
  static const char *const says[N_OTHERS] = {
    "no vendor", "autotune 2",    "deterministic",
    "tf32",      "gemm openblas", "no vendor  no autotune  deterministic  tf32  gemm own"
  };

  for (int32_t i = 0; i < N_OTHERS; i++) {
    rg_graph *g = two_nodes(&standard, &others[i], NULL);
    const char *text;

    must(rg_graph_print(g, &text));
    const char *found = strstr(text, says[i]);

    ok(found != NULL && strstr(found + 1, says[i]) == NULL, says[i]);
    rg_graph_release(g);
  }
}

int main(void)
{
  rg_driver_register(DEVICE, &driver);
  rg_backend_register(DEVICE, &backend);
  test_replay();
  test_mixed();
  test_failures();
  test_threads();
  test_deterministic();
  test_emission();
  test_emission_fails();
  test_files();
  test_common();
  test_joined();
  test_print();
  return done();
}
