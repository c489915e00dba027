/* SPDX-License-Identifier: MIT */
/*
** Constant folding: one condition after the other of what is computed at once, and what a thread
** was set to before is as it was.
*/
#include "cpu/cpu.h"
#include "op/norm.h"
#include "pass.h"
#include "ridge/grad.h"
#include "ridge/graph.h"
#include "ridge/ring.h"

static const char folding[] = "constant_folding";

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

static rg_status copy_it(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)frame;
  memcpy(out[0]->_data, call->in[0]->_data, (size_t)rg_tensor_bytes(out[0]));
  return RG_OK;
}

static const rg_op op_own = {
  .name = "own",
  .id = -1,
  RG_INPUTS(RG_IN("x", INPUT, ANY)),
  .infer = infer_like,
  .cost = no_cost,
  .kernel = copy_it,
};

static rg_ir_node *maker(rg_graph *g, int32_t value)
{
  return rg_ir_node_at(g, producer(g, value));
}

/* neg and relu of x, in the body of a compound that hands out the second. */
static int32_t in_a_body(rg_graph *g, int32_t x)
{
  int32_t node;

  must(rg_ir_node_add(g, &rg_op_softmax, &x, 1, &(rg_softmax_args){ .axis = 1 }, &node));
  must(rg_ir_begin(g, node));
  const int32_t y = unary(g, &rg_op_relu, unary(g, &rg_op_neg, x));

  rg_ir_end(g);
  must(rg_ir_output_share(g, node, y));
  rg_ir_results_end(g, node);
  return y;
}

static void test_folded(void)
{
  int32_t x;
  rg_graph *g = graph(&x);
  int32_t y = with_number(g, RG_OP_MUL, filled(g, 2, 3), 3, 0, -1);

  returned(g, added(g, x, transposed(g, unary(g, &rg_op_neg, y))), "");
  comes(g, folding, "add", "what is made of numbers alone, and views of it");

  g = graph(&x);
  const int32_t seen = transposed(g, filled(g, 2, 3));

  maker(g, seen)->recomputed = true;
  returned(g, added(g, x, seen), "");
  comes(g, folding, "transpose add", "a view that stays is one of the constant");
}

static void test_left(void)
{
  const rg_dropout_args p = { .p = 0.25 };
  int32_t x;
  int32_t y;
  int32_t later;
  rg_graph *g = graph(&x);

  returned(g, added(g, x, unary(g, &op_own, filled(g, 2, 3))), "");
  comes(g, folding, "own add", "an operation of somebody else stays");

  g = graph(&x);
  y = filled(g, 2, 3);
  returned(g, added(g, x, node_of(g, &rg_op_dropout, &y, 1, &p, -1)), "");
  comes(g, folding, "dropout add", "what draws stays");

  g = graph(&x);
  returned(g, added(g, x, in_a_body(g, filled(g, 2, 3))), "");
  comes(g, folding, "softmax neg relu add", "compounds stay, with their bodies");

  g = graph(&x);
  y = unary(g, &rg_op_neg, filled(g, 2, 3));
  maker(g, y)->recomputed = true;
  returned(g, added(g, x, y), "");
  comes(g, folding, "neg add", "what is computed again stays");

  g = graph(&x);
  y = filled(g, 2, 3);
  maker(g, y)->unwritten = true;
  returned(g, added(g, x, y), "");
  comes(g, folding, "fill add", "memory that nobody wrote stays");

  g = graph(&x);
  y = unary(g, &rg_op_neg, filled(g, 2, 3));
  maker(g, y)->derived = true;
  returned(g, added(g, x, y), "");
  comes(g, folding, "neg add", "what is derived stays");

  g = graph(&x);
  y = filled(g, 2, 3);
  (void)written(g, transposed(g, y), y, &later);
  returned(g, added(g, x, later), "");
  comes(g, folding, "fill transpose relu add", "what is written to through a view stays");

  g = graph(&x);
  y = filled(g, 2, 3);
  returned(g, added(g, x, node_of(g, &rg_op_relu, &x, 1, NULL, y)), "");
  comes(g, folding, "fill relu add", "and what is written over without being read");

  g = graph(&x);
  returned(g, transposed(g, filled(g, 2, 3)), "");
  comes(g, folding, "fill transpose", "what a view hands out is a result of its own each time");

  g = graph(&x);
  returned(g, filled(g, 2, 3), "");
  comes(g, folding, "fill", "and so is what is handed out itself");

  g = graph(&x);
  returned(g, in_a_body(g, x), "");
  comes(g, folding, "softmax neg relu", "and what reads an input");
}

/* The last size that is worth its memory, and the first that is not. */
static void test_bytes(void)
{
  const int64_t rows = (16 << 20) / (3 * 4);

  for (int32_t more = 0; more < 2; more++) {
    int32_t x;
    rg_graph *g = graph(&x);
    const int32_t wide = outside(g, RG_VALUE_INPUT, "wide", rows + more, 3);

    returned(g, added(g, wide, filled(g, 2, rows + more)), "");
    comes(g, folding, more ? "fill add" : "add", "16 MB at most");
  }
}

/* What may be another tensor at the next run. */
static void test_outside(void)
{
  static const int32_t kinds[] = { RG_VALUE_CONSTANT, RG_VALUE_PARAMETER, RG_VALUE_INPUT,
                                   RG_VALUE_CONSTANT };
  rg_tensor *tensor = NULL;

  must(rg_empty(RG_F32, RG_CPU, (const int64_t[]){ 3, 3 }, 2, &tensor));
  must(rg_fill_(tensor, 2));
  for (int32_t i = 0; i < 4; i++) {
    int32_t x;
    rg_graph *g = graph(&x);
    const int32_t there = outside(g, kinds[i], "there", 3, 3);

    if (i < 3) {
      must(rg_ir_bind(g, there, tensor));
    }
    returned(g, added(g, x, unary(g, &rg_op_neg, there)), "");
    comes(g, folding, i == 0 ? "add" : "neg add", "of a constant alone, whose tensor is there");
  }
  rg_tensor_release(tensor);
}

/* Numbers are computed under the modes of their node, and the thread has its own again. */
static rg_modes seen; /* under which it ran */

static rg_status see_modes(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  seen = *rg_modes_now();
  return copy_it(call, out, frame);
}

/* A node's kernel runs under what the node was recorded with. */
static void test_modes_of_a_node(void)
{
  static rg_kernel *kernels[RG_OP_COUNT];
  const rg_backend *cpu = rg_cpu_backend();
  const rg_backend watched = { cpu->name, kernels, cpu->varies, cpu->foresee };
  const rg_modes *thread = rg_modes_now();
  int32_t x;
  rg_graph *g = graph(&x);
  const int32_t y = unary(g, &rg_op_neg, filled(g, 2, 3));
  rg_graph_modes modes = *rg_ir_modes_of(g, maker(g, y)->modes);

  memcpy(kernels, cpu->kernels, sizeof(kernels));
  kernels[RG_OP_NEG] = see_modes;
  rg_backend_register(RG_CPU, &watched);
  modes.deterministic = !thread->device.deterministic;
  modes.tf32 = !thread->device.tf32;
  must(rg_ir_modes_add(g, &modes, &maker(g, y)->modes));
  returned(g, added(g, x, y), "");
  comes(g, folding, "add", "of other modes than the thread's");
  is_int(seen.device.deterministic, modes.deterministic, "they are the kernel's");
  is_int(seen.device.tf32, modes.tf32, "all of them");
  ok(rg_modes_now() == thread, "and the thread has its own");
  rg_backend_register(RG_CPU, cpu);
}

static void test_modes(void)
{
  const rg_modes own = { .device = { .deterministic = 1, .tf32 = 1 },
                         .gemm = rg_modes_now()->gemm };
  const rg_modes *before = rg_modes_enter(&own);
  const int32_t autocast = rg_autocast_set(RG_BF16);
  const int32_t grad = rg_grad_mode(1);
  static const char zero[64];
  rg_reader_facts facts;
  uint32_t ring;
  int32_t reader;
  int32_t x;
  rg_graph *g = graph(&x);
  const int32_t a = filled(g, 2, 3);

  must(rg_reader_open(1 << RG_EVENT_OP | 1 << RG_EVENT_VIEW, 0, 64, &reader));
  ring = rg_ring_on;
  returned(g, added(g, x, node_of(g, &rg_op_linear, (const int32_t[]){ a, a, -1 }, 3, zero, -1)),
           "");
  /* of another type, were it computed under the thread's autocast */
  comes(g, folding, "add", "under other modes");
  is_int(rg_ring_on, ring, "calls are heard as before");
  must(rg_reader_facts_of(reader, &facts));
  is_int(facts.n_seen, 0, "these were not");
  rg_reader_close(reader);
  ok(rg_modes_now() == &own, "its modes");
  is_int(rg_autocast(), RG_BF16, "its autocast");
  is_int(rg_grad_mode(grad), 1, "its tape");
  (void)rg_autocast_set(autocast);
  (void)rg_modes_enter(before);

  must(rg_capture_begin());
  g = graph(&x);
  returned(g, added(g, x, filled(g, 2, 3)), "");
  comes(g, folding, "fill add", "nothing is computed inside a capture");
  rg_capture_cancel();
}

int main(void)
{
  test_folded();
  test_left();
  test_bytes();
  test_outside();
  test_modes_of_a_node();
  test_modes();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  return done();
}
